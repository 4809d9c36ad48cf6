"""Command of curators: curate."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_sql import _curation, _render
from rag_sql._curation import CheckReport, FactReport, Suggestion
from rag_sql.cli._apps import app
from rag_sql.cli._common import HomeOption, JsonOption, RequiredTenant, UrlOption, command, open_store, out, print_json
from rag_sql.cli._progress import tracked

__all__: list[str] = []


@command(app)
def curate(
    tenant: RequiredTenant,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Spans in YAML (.yaml) or JSON lines (.jsonl).", show_default=False),
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
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add spans to documents that are loaded, all or nothing; or check what a contract still needs.

    A span has document, version, span (its id), fact, quote and, where the quotation is ambiguous, occurrence. With
    --check the exit code is 3 when a required fact has no curated proposition in a current version.
    """
    if (path is None) == (check is None):
        raise typer.BadParameter("name a file of spans, or a question with --check", param_hint="FILE")
    if check is None and contract_version is not None:
        raise typer.BadParameter("goes with --check", param_hint="--contract-version")
    if path is not None:
        file = _curation.read_spans(path, tenant)
        with open_store(database_url, home) as store, store.tenant(tenant) as bound:
            added = _curation.add(bound, file)
        count = Counter(span.status for span in added)
        if as_json:
            print_json({"new": count["new"], "same": count["same"], "spans": [asdict(span) for span in added]})
        else:
            counted = "1 span" if len(added) == 1 else f"{len(added)} spans"
            out.print(f"{counted}: {count['new']} new, {count['same']} same")
        return
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        report = _curation.check(
            bound, str(check), contract_version, lambda items: tracked("checking", "propositions", items)
        )
    print_json(_in_json(report)) if as_json else _show(report, tenant)
    raise typer.Exit(3 if report.uncurated else 0)


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
                        "nearest": proposition.nearest and _nearest_in_json(proposition.nearest),
                    }
                    for proposition in fact.propositions
                ],
            }
            for fact in report.facts
        ],
    }


def _nearest_in_json(nearest: Suggestion) -> dict[str, Any]:
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
    passage = nearest.passage
    _line("    in no current document", "red")
    _line(
        f"    nearest: {passage.document_id} version {passage.version} ({passage.tenant});"
        " a suggestion, which licenses nothing"
    )
    if nearest.words:
        out.print(_render.diff(((word.mark, word.word) for word in nearest.words), "      "), soft_wrap=True)
