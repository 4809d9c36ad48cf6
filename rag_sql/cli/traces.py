"""Commands on traces: trace record|answer|list|show|diagnose."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from rag_sql import _admin, _files, _render
from rag_sql._audit import audit_answer
from rag_sql._audit_model import AuditVerdict
from rag_sql._audit_text import says
from rag_sql.cli._apps import trace_app
from rag_sql.cli._common import (
    EXIT_CODES,
    HomeOption,
    JsonOption,
    RequiredTenant,
    UrlOption,
    command,
    open_engine,
    open_store,
    out,
    print_json,
    report,
    uuid_of,
)
from rag_sql.cli._progress import tracked
from rag_sql.cli.audit import print_report
from rag_sql.cli.listings import LimitOption
from rag_sql.errors import TracesInUse

__all__: list[str] = []

TraceArgument = Annotated[str, typer.Argument(metavar="TRACE", help="The trace's id.")]


@command(trace_app, "record")
def trace_record(
    packet: Annotated[str, typer.Argument(metavar="PACKET", help="The packet's id.")],
    tenant: RequiredTenant,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Most tokens, headings included.")] = 2000,
    neighbours: Annotated[
        int, typer.Option("--neighbours", min=0, max=10, help="Passages to add before and after a selected one.")
    ] = 1,
    candidates: Annotated[
        int, typer.Option("--candidates", min=0, max=1000, help="Best visible passages to record, and why not used.")
    ] = 50,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Assemble the context of a packet, record it, and print what is to be handed to a model.

    The exit code is that of the outcome on the context: 3 when a required fact was lost to the budget.
    """
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        trace = bound.record_trace(uuid_of(packet), budget=budget, neighbours=neighbours, candidates=candidates)
        left_out = [row for row in bound.trace_passages(trace.trace_id) if row.left_out]
    print_json(asdict(trace)) if as_json else _render.trace(out, trace, left_out)
    raise typer.Exit(EXIT_CODES[trace.outcome])


@command(trace_app, "answer")
def trace_answer(
    trace: TraceArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The answer in UTF-8, with its citations: [P1, P2].")],
    tenant: RequiredTenant,
    model: Annotated[str, typer.Option("--model", help="Identifier of the model that wrote it.")],
    prompt_version: Annotated[str, typer.Option("--prompt-version", help="Version of the instructions it was given.")],
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Audit an answer against what was handed over, and record it: as the contract has it kept, with the verdicts.

    Exit codes as for `rag-sql audit`: 1 rejected, 3 a person has to look, 0 nothing found.
    """
    answer = _files.read_text(file)
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        row = bound.trace(uuid_of(trace))
        decision = bound.packet(row.packet_id).needed_decision
        passages = bound.trace_passages(trace)
        handed_over = {row.label: "\n".join((*row.heading_path, row.text)) for row in passages if row.label}
        began = time.perf_counter()
        report = audit_answer(answer, handed_over)
        took = timedelta(seconds=time.perf_counter() - began)
        citations = list(dict.fromkeys(label for sentence in report.sentences for label in sentence.citations))
        bound.record_answer(
            trace, answer, citations, model=model, prompt_version=prompt_version, audit=report, audit_took=took
        )
    decides = [text for text in (decision["never_say"] if decision else []) if says(answer, text)]
    if as_json:
        print_json({**report.to_dict(), "states_decision": decides})
    else:
        print_report(report)
        for text in decides:
            out.print(_render.as_text(f"states the decision that only a person makes: {text}", "red"), soft_wrap=True)
    if report.verdict.rejects or decides:
        raise typer.Exit(1)
    raise typer.Exit(0 if report.verdict is AuditVerdict.NO_FINDING else 3)


@command(trace_app, "list")
def trace_list(
    tenant: RequiredTenant,
    limit: LimitOption = 50,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List a tenant's traces."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        rows = bound.traces(limit)
    print_json([asdict(row) for row in rows]) if as_json else _render.traces(out, rows)


@command(trace_app, "show")
def trace_show(
    trace: TraceArgument,
    tenant: RequiredTenant,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a trace, stage by stage: candidates, what became of each passage, the answer's verdicts, times."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        row = bound.trace(uuid_of(trace))
        passages = bound.trace_passages(trace)
        candidates = bound.trace_candidates(trace)
        verdicts = bound.trace_verdicts(trace)
        times = bound.trace_times(trace)
    if as_json:
        print_json(
            {
                **asdict(row),
                "candidates": [asdict(row) for row in candidates],
                "passages": [asdict(row) for row in passages],
                "verdicts": [asdict(row) for row in verdicts],
                "milliseconds": {
                    row.stage: None if row.took is None else row.took / timedelta(milliseconds=1) for row in times
                },
            }
        )
    else:
        _render.trace_head(out, row)
        _render.trace_stages(out, candidates, passages)
        _render.trace_answer(out, row, {passage.label for passage in passages}, verdicts)
        _render.trace_times(out, times)


@command(trace_app, "purge")
def trace_purge(
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Of this tenant alone.")] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove the traces whose time is over, and record that it was done. How long: rag-sql tenant retain.

    Needs the login that installed the store. Packets, approvals and documents stay.
    """
    purged: dict[str, int] = {}
    in_use: list[str] = []
    with open_engine(database_url, home, install=True) as (engine, _):
        limited = [row.tenant for row in _admin.list_tenants(engine) if row.trace_retention]
        with tracked("purging", "tenants", limited if tenant is None else [tenant]) as names:
            for name in names:
                try:
                    purged[name] = _admin.purge_traces(engine, name)
                except TracesInUse as error:
                    in_use.append(name)
                    report(error, as_json)
    if as_json:
        print_json({"purged": purged, "in_use": in_use})
    elif not purged and not in_use:
        out.print("no tenant limits how long traces are kept: rag-sql tenant retain")
    else:
        for name, traces in purged.items():
            out.print(f"{name}: {traces} {'trace' if traces == 1 else 'traces'} removed")
    raise typer.Exit(1 if in_use else 0)


@command(trace_app, "diagnose")
def trace_diagnose(
    trace: TraceArgument,
    tenant: RequiredTenant,
    required: Annotated[
        list[str],
        typer.Option(
            "--required",
            metavar="DOCUMENT@VERSION:START",
            help="A passage that the answer needs, by its place; repeatable.",
        ),
    ],
    public: Annotated[list[str] | None, typer.Option("--public", help="The same, of a public document.")] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say at which stage a required passage was lost, and which cited labels nobody handed over. Exit code 1 for any.

    Nothing found does not mean that the answer is right: identifiers are compared, and nothing else.
    """
    places = [_place(text, tenant) for text in required] + [_place(text, "public") for text in public or []]
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        findings = bound.diagnose_trace(uuid_of(trace), places)
        verdict = bound.trace(trace).verdict
    print_json([asdict(row) for row in findings]) if as_json else _render.trace_findings(out, findings, verdict)
    raise typer.Exit(1 if findings else 0)


@dataclass(frozen=True)
class _Place:
    tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int = 0


def _place(text: str, tenant: str) -> _Place:
    document_id, _, rest = text.rpartition("@")
    version, _, start = rest.partition(":")
    if not document_id or re.fullmatch(r"[1-9][0-9]{0,8}", version) is None or not re.fullmatch(r"[0-9]{0,9}", start):
        raise typer.BadParameter(f"{text!r} is not DOCUMENT@VERSION or DOCUMENT@VERSION:START", param_hint="--required")
    return _Place(tenant, document_id, int(version), int(start or 0))
