"""Command of curators: curate."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_sql import _curation, _render
from rag_sql._curation import CarryReport, CheckReport, FactReport, SpanFile, Suggestion
from rag_sql._impact import CarriableSpan
from rag_sql._store import EvidenceStore
from rag_sql.cli._apps import app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    RequiredTenant,
    Undo,
    UrlOption,
    command,
    open_store,
    out,
    print_json,
)
from rag_sql.cli._progress import tracked

__all__: list[str] = []

#: Why a span was not carried over to version {}.
_OBSTACLES = {
    "gone": "its quotation is not in version {}",
    "ambiguous": "its quotation stands more or less often in version {} than before: say which is meant",
    "span_id_taken": "version {} has a span with this id and other content: give it another",
    "cuts_character": "its quotation begins or ends inside a character of version {}",
}


@command(app)
def curate(
    tenant: RequiredTenant,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE | DOC...]",
            help="Spans in YAML (.yaml) or JSON lines (.jsonl); with --carry ids of documents, default: all.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="QUESTION", help="Add nothing: say which propositions of its contract stand where."
        ),
    ] = None,
    contract_version: Annotated[
        int | None, typer.Option("--contract-version", help="With --check; default: the newest.")
    ] = None,
    carry: Annotated[
        bool, typer.Option("--carry", help="Give current versions the spans of those that they replaced.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --carry: say what it would add, and add nothing.")
    ] = (False),
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add spans to documents that are loaded, all or nothing; or carry them over; or check what a contract still needs.

    A span has document, version, span (its id), fact, quote and, where the quotation is ambiguous, occurrence. With
    --carry, spans whose quotations stand in the new version as they did are added to it, and the rest is listed for a
    person: then the exit code is 3. With --check it is 3 when a required fact has no curated proposition in a current
    version.
    """
    if carry + (check is not None) + (not carry and bool(names)) != 1:
        raise typer.BadParameter("name a file of spans, a question with --check, or --carry", param_hint="FILE")
    if check is None and contract_version is not None:
        raise typer.BadParameter("goes with --check", param_hint="--contract-version")
    if dry_run and not carry:
        raise typer.BadParameter("goes with --carry", param_hint="--dry-run")
    if not carry and len(names or ()) > 1:
        raise typer.BadParameter("one file at a time; several documents go with --carry", param_hint="FILE")
    file = None if carry or not names else _curation.read_spans(Path(names[0]), tenant)
    with open_store(database_url, home) as store:
        if file is not None:
            code = _add(store, tenant, file, as_json=as_json)
        elif check is not None:
            code = _check(store, tenant, check, contract_version, as_json=as_json)
        else:
            code = _carry(store, tenant, names, dry_run=dry_run, as_json=as_json)
    raise typer.Exit(code)


def _add(store: EvidenceStore, tenant: str, file: SpanFile, *, as_json: bool) -> int:
    with store.tenant(tenant) as bound:
        added = _curation.add(bound, file)
    count = Counter(span.status for span in added)
    if as_json:
        print_json({"new": count["new"], "same": count["same"], "spans": [asdict(span) for span in added]})
    else:
        counted = "1 span" if len(added) == 1 else f"{len(added)} spans"
        out.print(f"{counted}: {count['new']} new, {count['same']} same")
    return 0


def _check(store: EvidenceStore, tenant: str, question: str, contract_version: int | None, *, as_json: bool) -> int:
    with store.tenant(tenant) as bound:
        report = _curation.check(
            bound, question, contract_version, lambda items: tracked("checking", "propositions", items)
        )
    print_json(_in_json(report)) if as_json else _show(report, tenant)
    return 3 if report.uncurated else 0


def _carry(store: EvidenceStore, tenant: str, names: list[str] | None, *, dry_run: bool, as_json: bool) -> int:
    report = CarryReport((), ())
    with suppress(Undo), store.tenant(tenant) as bound:
        report = _curation.carry(bound, names or None)
        if dry_run:
            raise Undo
    if as_json:
        left = [
            {**asdict(span), "suggestion": span.suggestion and nearest_in_json(_suggestion(span))}
            for span in report.left
        ]
        print_json({"dry_run": dry_run, "carried": [asdict(span) for span in report.carried], "left": left})
        return 3 if report.left else 0
    for span in report.carried:
        _line(f"{_named(span)}: {'would be ' if dry_run else ''}added to version {span.new_version}")
    for span in report.left:
        _line(f"{_named(span)}: {_OBSTACLES[str(span.obstacle)].format(span.new_version)}", "yellow")
        _line(f"  {span.quote}")
        if span.suggestion:
            show_suggestion(_suggestion(span), "  ")
    carried = f"{len(report.carried)} carried over{', nothing stored' if dry_run else ''}"
    _line(f"{carried}, {len(report.left)} left for a person")
    return 3 if report.left else 0


def _named(span: CarriableSpan) -> str:
    return f"{span.document_id} v{span.version} {span.span_id} ({span.fact})"


def _suggestion(span: CarriableSpan) -> Suggestion:
    assert span.suggestion is not None
    return _curation.suggestion(span.quote, span.suggestion)


def _in_json(report: CheckReport) -> dict[str, Any]:
    """The report; of a nearest passage the part that fits, not all of its text."""
    places = ("tenant", "document_id", "version", "range_start", "is_repeated", "span_ids")
    return {
        "question_id": report.question_id,
        "uncurated": report.uncurated,
        "facts": [
            {
                "fact": fact.fact,
                "curated": fact.curated,
                "propositions": [
                    {
                        "quote": proposition.quote,
                        "curated": proposition.curated,
                        "occurrences": [
                            {place: getattr(found, place) for place in places} for found in proposition.occurrences
                        ],
                        "nearest": proposition.nearest and nearest_in_json(proposition.nearest),
                    }
                    for proposition in fact.propositions
                ],
            }
            for fact in report.facts
        ],
    }


def nearest_in_json(nearest: Suggestion) -> dict[str, Any]:
    """A suggestion for JSON: the part that fits, not all of the passage."""
    passage = asdict(nearest.passage)
    return {**passage, "text": nearest.text, "diff": [[word.mark, word.word] for word in nearest.words]}


def _line(text: str, style: str = "") -> None:
    """A line as it is: what is copied from it must not be broken."""
    out.print(_render.as_text(text, style), soft_wrap=True)


def _show(report: CheckReport, tenant: str) -> None:
    for fact in report.facts:
        _line(f"{fact.fact}: {'curated' if fact.curated else 'not curated'}", "bold" if fact.curated else "bold red")
        _show_propositions(fact, tenant)
    if report.uncurated:
        _line(f"not covered by a span of a current document: {', '.join(report.uncurated)}", "red")
    else:
        _line("every required fact has a curated proposition in a current document")


def _show_propositions(fact: FactReport, tenant: str) -> None:
    for proposition in fact.propositions:
        _line(f"  {proposition.quote}")
        for found in proposition.occurrences:
            where = f"    in {found.document_id} version {found.version} ({found.tenant})"
            if found.span_ids:
                named = "span" if len(found.span_ids) == 1 else "spans"
                _line(f"{where}: {named} {', '.join(found.span_ids)}")
                continue
            whose = "" if found.tenant == tenant else f", as tenant {found.tenant}"
            again = "; it stands there more than once" if found.is_repeated else ""
            _line(f"{where}: no span yet: add one{whose}{again}", "yellow")
            for line in _curation.snippet(found).splitlines():
                _line(f"      {line}")
        if not proposition.occurrences:
            _show_nearest(proposition.nearest)


def _show_nearest(nearest: Suggestion | None) -> None:
    if nearest is None:
        _line("    in no current document, and none has a word of it", "red")
        return
    _line("    in no current document", "red")
    show_suggestion(nearest, "    ")


def show_suggestion(nearest: Suggestion, indent: str) -> None:
    """The passage that comes nearest to a quotation, with a word diff."""
    passage = nearest.passage
    _line(
        f"{indent}nearest: {passage.document_id} version {passage.version} ({passage.tenant});"
        " a suggestion, which licenses nothing"
    )
    if nearest.words:
        out.print(_render.diff(((word.mark, word.word) for word in nearest.words), f"{indent}  "), soft_wrap=True)
