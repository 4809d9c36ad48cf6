"""What all commands share: options, how a command fails, and how it reaches a store."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ParamSpec
from uuid import UUID

import psycopg
import sqlalchemy as sa
import typer
from rich.console import Console
from sqlalchemy import event

from rag_sql._local import LocalStore
from rag_sql._minilm import minilm
from rag_sql._models import Outcome
from rag_sql._store import EvidenceStore, make_engine
from rag_sql.errors import (
    EvidenceErased,
    FileRefused,
    NoApproval,
    RagSqlError,
    Rejected,
    StaleApproval,
    UnsupportedQuestion,
)

__all__: list[str] = []

# Not a terminal: nobody set a width, and lines that are folded cannot be searched.
out = Console(width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True)


def _given(value: str | None) -> str | None:
    """An option as given; an empty one is more often a variable that nobody set than a wish."""
    if value == "":
        raise typer.BadParameter("is empty")
    return value


def _url_given(value: str | None) -> str | None:
    """The same; and a variable that stands there empty is no wish for the embedded server."""
    if value is None and os.environ.get("RAG_SQL_DATABASE_URL") == "":
        raise typer.BadParameter("RAG_SQL_DATABASE_URL is empty; unset it for the embedded server")
    return _given(value)


UrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="RAG_SQL_DATABASE_URL",
        help="postgresql://login@host/database; without it the embedded server is started.",
        show_default=False,
        show_envvar=False,
        callback=_url_given,
    ),
]
HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        help="Where the embedded server's data lives; default: RAG_SQL_HOME, or the user data folder.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TenantOption = Annotated[
    str | None, typer.Option("--tenant", "-t", help="The tenant to bind; without it public only.", callback=_given)
]
RequiredTenant = Annotated[str, typer.Option("--tenant", "-t", help="The tenant to bind.", callback=_given)]


def instant(text: str) -> datetime:
    """An instant as people and as our own output write it; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no instant: 2026-11-30 or 2026-11-30T13:27:27Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


ValidAtOption = Annotated[
    datetime | None,
    typer.Option("--valid-at", metavar="TIME", parser=instant, help="When the rules have to hold (UTC). Default: now."),
]
KnownAtOption = Annotated[
    datetime | None,
    typer.Option("--known-at", metavar="TIME", parser=instant, help="From what was recorded by then. Default: now."),
]
QueryOption = Annotated[str, typer.Option("--query", "-q", help="Words for the ranker.")]
CaseOption = Annotated[
    list[str] | None, typer.Option("--case", "-c", metavar="KEY=VALUE", help="A fact of the case; repeatable.")
]
KOption = Annotated[int, typer.Option("--k", "-k", help="Most passages to select, 1 to 1000.")]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", help="Ranking: overlap, bm25, vector or hybrid. Default: as the contract says, else overlap."
    ),
]
ParameterOption = Annotated[
    list[str] | None,
    typer.Option("--parameter", metavar="KEY=VALUE", help="A parameter of the method, such as k1=1.2; repeatable."),
]
ClaimsOption = Annotated[
    Path | None, typer.Option("--claims", help="The draft: a JSON array of claims. Default: the template renderer's.")
]

#: The exit code of each outcome.
EXIT_CODES = {
    Outcome.SUFFICIENT_FOR_TEMPLATE: 0,
    Outcome.ASK_FOR_EVIDENCE: 3,
    Outcome.UNSUPPORTED_QUESTION: 4,
    Outcome.NEEDS_DECISION: 6,
}


def case_of(values: list[str] | None) -> dict[str, str]:
    """The facts of a case; refuses one that is stated twice."""
    stated = pairs(values, "--case")
    case = dict(stated)
    if len(case) < len(stated):
        raise typer.BadParameter("an attribute is stated more than once", param_hint="--case")
    return case


def parameters_of(values: list[str] | None, method: str | None, query: str) -> dict[str, Any] | None:
    """Parameters of a ranking method: numbers where they read as such, else texts. None where none is given.

    A method that needs the query's vector, and is given neither it nor a model, gets that of the packaged model.
    """
    found: dict[str, Any] = {}
    for key, value in pairs(values, "--parameter"):
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    if method in {"vector", "hybrid"} and found.keys().isdisjoint({"model", "vector"}):
        embedder = minilm()
        (vector,) = embedder.embed([query])
        found |= {"model": embedder.name, "model_version": embedder.version, "vector": list(map(float, vector))}
    return found or None


P = ParamSpec("P")

_STARTING = "starting the embedded server"


class Undo(Exception):
    """Leaves a tenant's block so that nothing of it is stored."""


debug = False  # set by the option of the program


def command(group: typer.Typer, name: str | None = None) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Register a command whose errors are printed as code, what and what to do, never as a traceback."""

    def register(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                function(*args, **kwargs)
            except (RagSqlError, sa.exc.DBAPIError, psycopg.Error) as error:
                if debug:
                    raise
                raise typer.Exit(report(error, bool(kwargs.get("as_json")))) from None

        group.command(name)(guarded)
        return guarded

    return register


def report(error: Exception, as_json: bool = False) -> int:
    """Print an error to standard error; the exit code that belongs to it."""
    print_failure(failure(error)) if as_json else show_error(error)
    if isinstance(error, NoApproval | Rejected | StaleApproval | EvidenceErased):
        return 5
    return 4 if isinstance(error, UnsupportedQuestion) else 1


def failure(error: Exception) -> dict[str, Any]:
    """An error as keys and values: what people and scripts are told about it."""
    found: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    driver = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if isinstance(error, RagSqlError):
        found |= {key: getattr(error, key) for key in ("sqlstate", "message", "detail", "hint")}
        if isinstance(error, FileRefused):
            found |= {"sqlstate": error.cause_code, "path": error.path, "line": error.line or None}
    elif isinstance(driver, psycopg.Error):
        diag = driver.diag
        found = {
            "error": type(driver).__name__,
            "sqlstate": driver.sqlstate,
            "message": diag.message_primary or str(driver).strip(),
            "detail": diag.message_detail or "",
            "hint": diag.message_hint or "",
        }
    elif not isinstance(error, OSError):
        found["hint"] = "This is a fault of rag-sql: please report what `rag-sql --debug ...` prints."
    # Where in our own SQL it arose.
    detail = [found.get("detail", ""), *getattr(driver, "__notes__", ())]
    return {**found, "detail": "\n".join(filter(None, detail))}


def print_failure(found: dict[str, Any]) -> None:
    """A failure as one JSON object on one line of standard error, every key in it."""
    empty = {"error": "", "sqlstate": None, "message": "", "detail": "", "hint": "", "path": None, "line": None}
    typer.echo(json.dumps({**empty, **found}, ensure_ascii=False), err=True)


def show_error(error: Exception) -> None:
    """Print an error to standard error: code, what, where, and what to do."""
    found = failure(error)
    label = " ".join(filter(None, (found["error"], found.get("sqlstate"))))
    lines = [f"error: {label}: {found['message']}", *(f"  {line}" for line in found["detail"].splitlines())]
    if found.get("hint"):
        lines.append(f"hint: {found['hint']}")
    for line in lines:
        err.print(line, markup=False, highlight=False, soft_wrap=True)


@event.listens_for(sa.pool.Pool, "connect")
def _show_notices(connection: Any, _record: Any) -> None:
    """Print what the database has to say beside its answer, such as that an attribute was not declared.

    Ours say what to do about it. PostgreSQL's own, such as that something was not there to be dropped, do not.
    """

    def show(diag: psycopg.errors.Diagnostic) -> None:
        if diag.message_hint:
            err.print(f"notice: {diag.message_primary}", markup=False, highlight=False, soft_wrap=True)
            err.print(f"hint: {diag.message_hint}", markup=False, highlight=False, soft_wrap=True)

    if isinstance(connection, psycopg.Connection):
        connection.add_notice_handler(show)


@contextmanager
def open_store(url: str | None, home: Path | None) -> Iterator[EvidenceStore]:
    """The store, as an ordinary login."""
    if url:
        opened = EvidenceStore.connect(parsed_url(url))
    else:
        with err.status(_STARTING):
            opened = EvidenceStore.embedded(home)
    with opened as store:
        yield store


@contextmanager
def open_engine(
    url: str | None, home: Path | None, *, install: bool, prepare: bool = True
) -> Iterator[tuple[sa.Engine, LocalStore | None]]:
    """An engine, and the embedded server where it is one of its: for the installing login, or for the ordinary one."""
    with err.status(_STARTING) if not url else nullcontext():
        started = LocalStore(home, prepare=prepare) if not url else nullcontext()
    with started as local:
        if local is None:
            engine = make_engine(parsed_url(str(url)))
        else:
            engine = make_engine(local.admin_url() if install else local.url())
        try:
            yield engine, local
        finally:
            engine.dispose()


def parsed_url(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except sa.exc.ArgumentError:
        raise typer.BadParameter("not a database URL: postgresql://login@host/database") from None


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_in_json))


def _in_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def pairs(values: list[str] | None, option: str) -> list[tuple[str, str]]:
    found = []
    for value in values or []:
        key, equals, rest = value.partition("=")
        if not (key and equals and rest):
            raise typer.BadParameter(f"{value!r} is not KEY=VALUE", param_hint=option)
        found.append((key, rest))
    return found


def uuid_of(text: str) -> str:
    """An identifier as the database writes it; wrong usage for what is none."""
    try:
        return str(UUID(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no id: it looks like 43b36142-f71a-4746-859c-6d21c99b26b1") from None
