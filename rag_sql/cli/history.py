"""Commands about the life of a document: supersede, history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Annotated, Any

import typer
from rich.table import Table

from rag_sql import _render
from rag_sql._diff import folded, text_diff
from rag_sql._history import HistoryVersion
from rag_sql.cli._apps import app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    KnownAtOption,
    RequiredTenant,
    TenantOption,
    UrlOption,
    ValidAtOption,
    command,
    open_store,
    out,
    print_json,
)

__all__: list[str] = []


@command(app)
def supersede(
    document: Annotated[str, typer.Argument(help="The document's id.")],
    tenant: RequiredTenant,
    by: Annotated[list[str], typer.Option("--by", metavar="ID", help="What takes its place; repeatable.")],
    since: Annotated[
        datetime | None, typer.Option("--from", help="From when on, in UTC; default: now.", show_default=False)
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="Why, for people.")] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have other documents take a document's place: no version of it is used from then on. It is not taken back.

    The others need not be loaded yet; who asks why the document is not used is told their ids.
    """
    instant = since and since.replace(tzinfo=UTC)
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        bound.supersede(document, by, superseded_from=instant, note=note)
    if as_json:
        print_json({"document_id": document, "successors": by, "superseded_from": instant, "note": note})
    else:
        when = f" from {_when(instant)}" if instant else ""
        out.print(_render.as_text(f"{document} is superseded by {', '.join(by)}{when}"), soft_wrap=True)


@command(app)
def history(
    document: Annotated[str, typer.Argument(help="The document's id.")],
    tenant: TenantOption = None,
    diff: Annotated[bool, typer.Option("--diff/--no-diff", help="Compare each version with the one before.")] = True,
    valid_at: ValidAtOption = None,
    known_at: KnownAtOption = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the line of a document's versions: status, times, what takes its place, and what each version changed.

    Versions stand in the order in which they take effect. Of each: spans that it gained and lost, by fact and
    quotation, and the words that changed, -old +new; white space does not count.
    """
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        versions = bound.history(document, valid_at=valid_at, known_at=known_at, bodies=diff)
    lines = [list(line) for _, line in groupby(versions, key=lambda version: version.tenant)]
    if as_json:
        print_json([found for line in lines for found in _in_json(line, diff)])
    else:
        for line in lines:
            _show(line, diff)


def _in_json(line: Sequence[HistoryVersion], diff: bool) -> list[dict[str, Any]]:
    found = [{key: value for key, value in asdict(version).items() if key != "body"} for version in line]
    if diff:
        found[0]["diff"] = None
        for (old, new), entry in zip(pairwise(line), found[1:], strict=True):
            entry["diff"] = [[run.mark, " ".join(run.words)] for run in text_diff(old.body or "", new.body or "")]
    return found


def _when(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _line(text: str, style: str = "") -> None:
    out.print(_render.as_text(text, style), soft_wrap=not out.is_terminal)


def _show(line: Sequence[HistoryVersion], diff: bool) -> None:
    _line(f"{line[0].document_id} ({line[0].tenant})", "bold")
    for succession in line[0].successions:
        note = f": {succession.note}" if succession.note else ""
        recorded = f"recorded {_when(succession.recorded_at)} by {succession.recorded_by}"
        announced = "to be " if succession.superseded_from > datetime.now(UTC) else ""
        by = f"{announced}superseded by {succession.successor_id}"
        _line(f"{by} from {_when(succession.superseded_from)}, {recorded}{note}")
    out.print(_table(line))
    for old, new in pairwise(line):
        _line(f"version {old.version} -> version {new.version}", "bold")
        for mark, spans, style in (("-", new.spans_lost, "red"), ("+", new.spans_gained, "green")):
            for span in spans:
                _line(f"  {mark} span for {span.fact}: {span.quote}", style)
        if diff:
            _show_diff(old.body or "", new.body or "")


def _table(line: Sequence[HistoryVersion]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("version", "status", "effective from", "recorded", "by", "title"):
        table.add_column(column, overflow="fold")
    for version in line:
        status = version.status
        if version.withdrawn_from:
            note = f": {version.withdrawal_note}" if version.withdrawal_note else ""
            since = f"withdrawn from {_when(version.withdrawn_from)}{note}"
            status = since if status == "withdrawn" else f"{status}, {since}"
        cells = (
            version.version,
            status,
            _when(version.effective_from),
            _when(version.recorded_at),
            version.recorded_by,
            version.title,
        )
        table.add_row(*map(_render.as_text, cells), style="" if version.status == "current" else "dim")
    return table


def _show_diff(old: str, new: str) -> None:
    runs = text_diff(old, new)
    if all(run.mark == " " for run in runs):
        _line("  the same text" if old == new else "  the same words; white space differs")
        return
    out.print(_render.diff(folded(runs), "  "), soft_wrap=not out.is_terminal)
