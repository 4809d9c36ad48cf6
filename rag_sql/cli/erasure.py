"""The command that erases: erase."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from rag_sql import _admin
from rag_sql.cli._apps import app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    RequiredTenant,
    UrlOption,
    command,
    err,
    open_engine,
    out,
    print_json,
)

__all__: list[str] = []


@command(app)
def erase(
    tenant: RequiredTenant,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded, and readers of the tenant see it.")],
    document: Annotated[str | None, typer.Argument(metavar="DOCUMENT", help="The document's id.")] = None,
    version: Annotated[
        list[int] | None, typer.Option("--version", min=1, help="A version; repeatable. Default: all of them.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that the tenant has.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Erase a document's texts, or a tenant's, and what was copied from them; record who did, when and why.

    Needs the login that installed the store. Keys, times and SHA-256s stay. Old WAL, backups, standbys that lag, and
    dead rows until a vacuum are outside: see the README.
    """
    if everything == (document is not None):
        raise typer.BadParameter("name a document, or --all", param_hint="DOCUMENT")
    if everything and version:
        raise typer.BadParameter("goes with a document", param_hint="--version")
    what = f"all of {tenant}" if document is None else _named(document, version)
    with open_engine(database_url, home, install=True) as (engine, _):

        def run(dry_run: bool) -> _admin.Erased:
            if document is None:
                return _admin.erase_tenant(engine, tenant, reason=reason, dry_run=dry_run)
            return _admin.erase_document(engine, tenant, document, version or (), reason=reason, dry_run=dry_run)

        if not yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter("not a terminal: it cannot ask", param_hint="--yes")
            _print(err, f"would be erased, of {tenant}: {what}", run(dry_run=True), document is not None)
            if not typer.confirm("Erase this? It does not come back", err=True):
                err.print("nothing was erased")
                raise typer.Exit(1)
        found = run(dry_run=False)
    if as_json:
        print_json({"tenant": tenant, "document_id": document, "reason": reason, **asdict(found)})
    else:
        _print(out, f"erased, of {tenant}: {what}", found, document is not None)
        out.print("dead rows, old WAL and backups still have it: README, Erasing", highlight=False, soft_wrap=True)


def _named(document: str, versions: list[int] | None) -> str:
    return f"{document}, " + (", ".join(f"version {number}" for number in versions) if versions else "all versions")


def _print(console: Console, title: str, found: _admin.Erased, is_document: bool) -> None:
    """What is erased, and what rests on it; a line each."""
    counts = [_count(found.versions, "version"), _count(found.passages, "passage"), _count(found.spans, "span")]
    lines = [
        title,
        f"  {', '.join([*counts, _count(found.vectors, 'vector')])}",
        f"  packets that rest on it: {found.packets}, with {_count(found.approvals, 'draft')}",
        f"  texts of {_count(found.traces, 'trace')}",
        f"  contracts{' that quote it, and stay' if is_document else ''}: {found.contracts}",
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
