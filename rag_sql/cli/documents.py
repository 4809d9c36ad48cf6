"""Commands of curators: load, contract."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from rag_sql import _files
from rag_sql.cli._apps import app, contract_app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    RequiredTenant,
    Undo,
    UrlOption,
    command,
    err,
    open_store,
    out,
    pairs,
    print_json,
    show_error,
)
from rag_sql.errors import RagSqlError

__all__: list[str] = []


@command(app)
def load(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders: Markdown (.md) or JSON lines (.jsonl).")],
    tenant: RequiredTenant,
    id_prefix: Annotated[str, typer.Option("--id-prefix", help="Put before ids made from paths.")] = "",
    version: Annotated[int, typer.Option("--version", min=1, help="Version of files that state none.")] = 1,
    applies_to: Annotated[
        list[str] | None,
        typer.Option("--applies-to", metavar="KEY=VALUE", help="What the documents apply to; repeatable."),
    ] = None,
    atomic: Annotated[bool, typer.Option("--atomic", help="One bad file refuses all.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what a load would do, and store nothing.")] = False,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load documents for a tenant. A bad file refuses itself, is listed, and makes the exit code 1."""
    attributes: dict[str, list[str]] = {}
    for key, value in pairs(applies_to, "--applies-to"):
        attributes.setdefault(key, []).append(value)
    defaults = _files.Defaults(id_prefix, version, {key: sorted(set(values)) for key, values in attributes.items()})
    files = _files.find_files(paths)
    with (
        open_store(database_url, home) as store,
        Progress(
            *Progress.get_default_columns(), console=err, transient=True, disable=not sys.stderr.isatty()
        ) as progress,
        suppress(Undo),
        store.tenant(tenant) as bound,
    ):
        task = progress.add_task("loading", total=len(files))
        report = _files.load(bound, files, defaults, lambda done: progress.advance(task, done), atomic=atomic)
        if dry_run:
            raise Undo
    if as_json:
        refused = [{"path": error.path, "line": error.line, "reason": error.reason} for error in report.refused]
        print_json({"files": len(files), "dry_run": dry_run, **vars(report), "refused": refused})
    else:
        counted = f"{_count(len(files), 'file')}{', nothing stored' if dry_run else ''}"
        found = f"{report.new} new with {_count(report.spans, 'span')} ({report.superseded} of them superseded)"
        rest = f"{report.same} same, {report.empty} empty, {len(report.refused)} refused"
        out.print(f"{counted}: {found}, {rest}", soft_wrap=True)
        for error in report.refused:
            show_error(error)
    raise typer.Exit(1 if report.refused else 0)


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


@command(contract_app, "add")
def contract_add(
    path: Annotated[Path, typer.Argument(help="A contract in YAML.")],
    tenant: RequiredTenant,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a contract version for a tenant."""
    question, version, content, lines = _files.read_contract(path, tenant)
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        try:
            added = bound.add_contract(question, version, content)
        except RagSqlError as error:
            if not error.column:
                raise
            raise _files.contract_refusal(error, path, lines) from error
    if as_json:
        print_json({"question_id": question, "version": version, "status": added})
    else:
        out.print(f"contract {question} version {version}: {added}")
