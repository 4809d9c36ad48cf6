"""Command of readers and curators: impact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_sql import _curation, _files, _render
from rag_sql._impact import DocumentImpact, Impact, SpanImpact
from rag_sql._loading import LoadReport, load
from rag_sql._passages import LIMIT, TARGET
from rag_sql._store import EvidenceStore
from rag_sql.cli._apps import app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    RequiredTenant,
    Undo,
    UrlOption,
    command,
    instant,
    open_store,
    out,
    print_json,
)
from rag_sql.cli.curation import nearest_in_json, show_suggestion
from rag_sql.cli.documents import (
    PATHS,
    AppliesToOption,
    IdPrefixOption,
    LanguageOption,
    LimitOption,
    TargetOption,
    VersionOption,
    defaults_of,
    loading,
    refusals,
    show_refusals,
    summary,
)

__all__: list[str] = []

#: More rows of a table are counted, not printed; --json has them all.
_MOST_ROWS = 100

#: What of a proposition stands in a table.
_MOST_LETTERS = 40


@command(app)
def impact(
    tenant: RequiredTenant,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help=f"What would be loaded. {PATHS}", metavar="[PATH...]", show_default=False),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", metavar="TIME", parser=instant, help="Look back instead: what changed since (UTC)."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--until", metavar="TIME", parser=instant, help="With --since: changes up to this instant."),
    ] = None,
    valid_at: Annotated[
        datetime | None,
        typer.Option(
            "--valid-at",
            metavar="TIME",
            parser=instant,
            help="When the rules have to hold, such as when a file takes effect.",
        ),
    ] = None,
    id_prefix: IdPrefixOption = "",
    version: VersionOption = 1,
    applies_to: AppliesToOption = None,
    language: LanguageOption = "",
    passage_target: TargetOption = TARGET,
    passage_limit: LimitOption = LIMIT,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what loading files would touch, and store nothing; or with --since what changes have touched.

    Quotations that survive, moved or are gone; facts that lose or gain a witness; packets and approvals that turn
    stale: then the exit code is 5. Files are loaded in a transaction that is rolled back, with the options of load;
    other loads for the tenant wait for it.
    """
    if bool(paths) == (since is not None):
        raise typer.BadParameter("name files that would be loaded, or an instant with --since", param_hint="PATH")
    if until is not None and since is None:
        raise typer.BadParameter("goes with --since", param_hint="--until")
    report: LoadReport | None = None
    if paths:
        defaults = defaults_of(id_prefix, version, applies_to, language, passage_target, passage_limit)
        files = _files.find_files(paths)
        with open_store(database_url, home) as store:
            report, found = _rehearse(store, tenant, files, defaults, valid_at)
    else:
        with open_store(database_url, home) as store, store.tenant(tenant) as bound:
            found = bound.impact(since, until, valid_at=valid_at)
    if as_json:
        print_json({"load": report and {**vars(report), "refused": refusals(report)}, **_in_json(found)})
    else:
        if report is not None:
            out.print(summary(report, stored=False), soft_wrap=True)
            show_refusals(report)
        _show(found, tenant, would=report is not None)
    raise typer.Exit(1 if report is not None and report.refused else 5 if found.stale else 0)


def _rehearse(
    store: EvidenceStore, tenant: str, files: list[_files.Found], defaults: _files.Defaults, valid_at: datetime | None
) -> tuple[LoadReport, Impact]:
    """Load, look and undo: nothing is stored."""
    report = LoadReport()
    found: list[Impact] = []
    with suppress(Undo), store.tenant(tenant) as bound:
        with loading(files) as advance:
            load(bound, files, defaults, advance, report, atomic=False)
        found.append(bound.impact(valid_at=valid_at))
        raise Undo
    return report, found[0]


def _in_json(found: Impact) -> dict[str, Any]:
    """The impact; of a suggestion the part that fits, with the word diff."""
    document = asdict(found)
    for row, span in zip(document["spans"], found.spans, strict=True):
        if span.suggestion:
            row["suggestion"] = nearest_in_json(_curation.suggestion(span.quote, span.suggestion))
    return document


# For people


def _line(text: str, style: str = "") -> None:
    out.print(_render.as_text(text, style), soft_wrap=True)


def _show(found: Impact, tenant: str, *, would: bool) -> None:
    _show_documents(found)
    _show_spans(found)
    _show_facts(found)
    _show_packets(found)
    if not (found.documents or found.spans or found.facts or found.packets):
        _line("nothing is touched")
    if tenant == "public":
        _line("packets are the tenants' own: each sees with --since which of its approvals a public document touches")
    survivors = sum(span.survival != "gone" and not span.is_curated for span in found.spans)
    if survivors:
        many, them = ("survive", "them") if survivors > 1 else ("survives", "it")
        _line(
            f"{survivors} of {_count(len(found.spans), 'quotation')} {many}, and the new version has no span of {them}:"
            f" {'after the load, ' if would else ''}rag-sql curate --carry"
        )
    if found.stale:
        approvals = _count(sum(len(packet.approvals) for packet in found.stale), "approval")
        _line(f"{approvals} of {_count(len(found.stale), 'packet')} {'would turn' if would else 'turned'} stale", "red")
    else:
        _line(f"no approval {'would turn' if would else 'turned'} stale")


def _show_documents(found: Impact) -> None:
    waiting = [row for row in found.documents if row.scheduled_from]
    later = ["takes effect later"] if waiting else []
    table = _render._table("documents", "document", "current before", "current after", *later)
    for row in found.documents[:_MOST_ROWS]:
        cells = [f"{row.document_id} ({row.tenant})", _version(row.was_version), _version(row.new_version)]
        if row.scheduled_from:
            cells.append(f"version {row.scheduled_version} on {_takes_effect(row):%Y-%m-%d %H:%M} UTC")
        _render._row(table, *cells)
    _print(table, len(found.documents))
    if waiting:
        first = min(map(_takes_effect, waiting))
        _line(f"what takes effect later touches nothing yet: look with --valid-at {first:%Y-%m-%dT%H:%M:%SZ}")


def _takes_effect(row: DocumentImpact) -> datetime:
    assert row.scheduled_from is not None
    return row.scheduled_from.astimezone(UTC)


def _show_spans(found: Impact) -> None:
    table = _render._table("spans", "span", "fact", "in the current version", "curated")
    kept = [span for span in found.spans if span.survival != "gone"]
    for span in kept[:_MOST_ROWS]:
        moved = f"moved from {span.range_start} to {span.new_range_start}"
        place = f"v{span.new_version}, {'at the same place' if span.survival == 'exact' else moved}"
        _render._row(table, _named(span), span.fact, place, "yes" if span.is_curated else "not yet")
    _print(table, len(kept))
    gone = [span for span in found.spans if span.survival == "gone"]
    for span in gone[:_MOST_ROWS]:
        where = "no version of it is current" if span.new_version is None else f"not in version {span.new_version}"
        _line(f"{_named(span)} ({span.fact}): gone, {where}", "red")
        _line(f"  {span.quote}")
        if span.suggestion:
            show_suggestion(_curation.suggestion(span.quote, span.suggestion), "  ")
    _more(len(gone))
    if found.spans:
        counted = Counter(span.survival for span in found.spans)
        _line(
            f"{_count(len(found.spans), 'span')}:"
            f" {counted['exact']} exact, {counted['moved']} moved, {counted['gone']} gone"
        )


def _named(span: SpanImpact) -> str:
    return f"{span.document_id} v{span.version} {span.span_id}"


def _show_facts(found: Impact) -> None:
    table = _render._table(
        "facts", "question", "fact", "witness", "document", "applies to", "after the change", "proposition"
    )
    for row in found.facts[:_MOST_ROWS]:
        _render._row(
            table,
            row.question_id,
            row.fact,
            row.change,
            f"{row.document_id} v{row.version} ({row.tenant})",
            _stated(row.applies_to) or "every case",
            "has a witness" if row.is_covered else "none is left",
            _begin(row.quote),
            style="" if row.is_covered else "red",
        )
    _print(table, len(found.facts))


def _show_packets(found: Impact) -> None:
    table = _render._table("packets", "packet", "question", "case", "effect", "outcome", "approved by")
    for row in found.packets[:_MOST_ROWS]:
        outcome = (
            str(row.was_outcome) if row.was_outcome == row.new_outcome else f"{row.was_outcome} -> {row.new_outcome}"
        )
        missing = f" (missing: {', '.join(row.missing)})" if row.missing else ""
        reviewers = ", ".join(approval.reviewer for approval in row.approvals)
        _render._row(
            table,
            row.packet_id,
            row.question_id,
            _stated(row.case_facts),
            row.effect.replace("_", " "),
            outcome + missing,
            reviewers,
            style="red" if row in found.stale else "",
        )
    _print(table, len(found.packets))
    for row in found.stale[:_MOST_ROWS]:
        _line(f"{row.packet_id}:")
        for change in row.changes:
            _line(f"  {change}")


def _print(table: Any, rows: int) -> None:
    if rows:
        out.print(table)
        _more(rows)


def _more(rows: int) -> None:
    if rows > _MOST_ROWS:
        _line(f"and {rows - _MOST_ROWS} more: --json has them all")


def _begin(quote: str) -> str:
    """What a quotation begins with: enough to know it by."""
    return quote if len(quote) <= _MOST_LETTERS else f"{quote[:_MOST_LETTERS]}..."


def _version(version: int | None) -> str:
    return "none" if version is None else f"v{version}"


def _stated(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key}={'|'.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in sorted(values.items())
    )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
