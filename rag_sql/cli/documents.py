"""Commands of curators: load, contract."""

from __future__ import annotations

import sys
from dataclasses import asdict
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
    UrlOption,
    command,
    err,
    open_store,
    out,
    pairs,
    print_json,
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
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load documents for a tenant, all or nothing."""
    attributes: dict[str, list[str]] = {}
    for key, value in pairs(applies_to, "--applies-to"):
        attributes.setdefault(key, []).append(value)
    defaults = _files.Defaults(id_prefix, version, {key: sorted(set(values)) for key, values in attributes.items()})
    files = _files.find_files(paths)
    with (
        open_store(database_url, home) as store,
        Progress(console=err, transient=True, disable=not sys.stderr.isatty()) as progress,
        store.tenant(tenant) as bound,
    ):
        task = progress.add_task("loading", total=len(files))
        report = _files.load(bound, files, defaults, lambda done: progress.advance(task, done))
    if as_json:
        print_json({"files": len(files), **asdict(report)})
    else:
        counted = "1 file" if len(files) == 1 else f"{len(files)} files"
        out.print(f"{counted}: {report.new} new with {report.spans} spans, {report.same} same, {report.empty} empty")


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
