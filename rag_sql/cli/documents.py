"""Commands of curators: load, contract."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_sql import _files
from rag_sql._loading import Advance, LoadReport, load_files
from rag_sql._loading import load as load_in_one
from rag_sql._passages import LIMIT, TARGET
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
from rag_sql.cli._progress import progress
from rag_sql.errors import RagSqlError

__all__: list[str] = []

#: More are counted, not printed: nobody reads them, and what is above them would be lost.
_MOST_REFUSALS = 100

PATHS = "Files, folders, patterns ('docs/**/*.md'): .md, .markdown, .jsonl, .ndjson; - is JSON lines on standard input."
IdPrefixOption = Annotated[str, typer.Option("--id-prefix", help="Put before ids made from paths.")]
VersionOption = Annotated[int, typer.Option("--version", min=1, help="Version of files that state none.")]
AppliesToOption = Annotated[
    list[str] | None,
    typer.Option("--applies-to", metavar="KEY=VALUE", help="What the documents apply to; repeatable."),
]
LanguageOption = Annotated[
    str,
    typer.Option("--language", help="How words of files that state none are found: english, say; default simple."),
]
TargetOption = Annotated[
    int, typer.Option("--passage-target", min=1, help="Tokens (words, punctuation) to fill a passage to.")
]
LimitOption = Annotated[
    int, typer.Option("--passage-limit", min=1, help="Tokens that no passage exceeds; a shorter document is one.")
]


def defaults_of(
    id_prefix: str,
    version: int,
    applies_to: list[str] | None,
    language: str,
    passage_target: int,
    passage_limit: int,
) -> _files.Defaults:
    """What files that are loaded do not say themselves, from the options of a command."""
    attributes: dict[str, list[str]] = {}
    for key, value in pairs(applies_to, "--applies-to"):
        attributes.setdefault(key, []).append(value)
    if passage_limit < passage_target:
        raise typer.BadParameter("is less than the target", param_hint="--passage-limit")
    values = {key: sorted(set(values)) for key, values in attributes.items()}
    return _files.Defaults(id_prefix, version, values, passage_target, passage_limit, language)


@command(app)
def load(
    paths: Annotated[list[Path], typer.Argument(help=PATHS, metavar="PATH...")],
    tenant: RequiredTenant,
    id_prefix: IdPrefixOption = "",
    version: VersionOption = 1,
    applies_to: AppliesToOption = None,
    language: LanguageOption = "",
    passage_target: TargetOption = TARGET,
    passage_limit: LimitOption = LIMIT,
    atomic: Annotated[bool, typer.Option("--atomic", help="One bad file refuses all.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what a load would do, and store nothing.")] = False,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load documents for a tenant. A bad file refuses itself, is listed, and makes the exit code 1.

    Batches of files are stored as the load goes on. When it is interrupted, load the same again: what is stored is the
    same and costs little. --atomic and --dry-run are one transaction.
    """
    defaults = defaults_of(id_prefix, version, applies_to, language, passage_target, passage_limit)
    files = _files.find_files(paths)
    report = LoadReport()
    with open_store(database_url, home) as store, loading(files) as advance:
        try:
            if atomic or dry_run:
                with suppress(Undo), store.tenant(tenant) as bound:
                    load_in_one(bound, files, defaults, advance, report, atomic=atomic)
                    if dry_run:
                        raise Undo
            else:
                load_files(store, tenant, files, defaults, advance, report)
        except BaseException:
            if not (atomic or dry_run) and report.files:
                err.print(f"stopped after {summary(report, len(files))}", soft_wrap=True)
                err.print("What is stored stays; load the same again and it goes on from there.", soft_wrap=True)
            raise
    if as_json:
        print_json({**vars(report), "dry_run": dry_run, "refused": refusals(report)})
    else:
        out.print(summary(report, stored=not dry_run), soft_wrap=True)
        show_refusals(report)
    raise typer.Exit(1 if report.refused else 0)


def loading(files: list[_files.Found]) -> AbstractContextManager[Advance]:
    """A bar over the bytes of the files that are read."""
    return progress("loading", "documents", _size(files) if err.is_terminal else None)


def refusals(report: LoadReport) -> list[dict[str, Any]]:
    """The files that were refused, for JSON."""
    return [{"path": error.path, "line": error.line, "reason": error.reason} for error in report.refused]


def show_refusals(report: LoadReport) -> None:
    """The same, for people."""
    for error in report.refused[:_MOST_REFUSALS]:
        show_error(error)
    if unsaid := len(report.refused[_MOST_REFUSALS:]):
        err.print(f"{_count(unsaid, 'more file')} refused; --json lists them all", soft_wrap=True)


def _size(files: list[_files.Found]) -> int | None:
    """Bytes to read, for a bar; None where standard input does not say."""
    if any(found.path == _files.STDIN for found in files):
        return None
    total = 0
    for found in files:
        with suppress(OSError):
            total += Path(found.path).stat().st_size
    return total


def summary(report: LoadReport, of: int | None = None, *, stored: bool = True) -> str:
    """What a load did, in a line."""
    files = _count(report.files, "file") if of is None else f"{report.files} of {_count(of, 'file')}"
    found = f"{report.new} new with {_count(report.spans, 'span')} ({report.superseded} of them superseded)"
    rest = f"{report.same} same, {report.empty} empty, {len(report.refused)} refused"
    return f"{files}{'' if stored else ', nothing stored'}: {found}, {rest}"


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


@command(app)
def withdraw(
    document: Annotated[str, typer.Argument(help="The document's id.")],
    version: Annotated[int, typer.Argument(min=1, help="The version to take out of use.")],
    tenant: RequiredTenant,
    since: Annotated[
        datetime | None, typer.Option("--from", help="From when on, in UTC; default: now.", show_default=False)
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="Why, for people.")] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a version of a document out of use. An older version does not come back."""
    instant = since and since.replace(tzinfo=UTC)
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        bound.withdraw_version(document, version, withdrawn_from=instant, note=note)
    if as_json:
        print_json({"document_id": document, "version": version, "withdrawn_from": instant, "note": note})
    else:
        out.print(f"{document} version {version} is withdrawn", markup=False, highlight=False, soft_wrap=True)


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
