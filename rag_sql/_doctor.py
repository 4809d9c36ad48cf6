"""Whether a store stands as it should: logins, wall, functions, grants, server.

Looks at catalogs and settings only, in a transaction that cannot write. The queries, each with the statement that mends
what it finds, are in ``_diagnoses``; here is what they are called, how much each matters, and what no query can say.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Final, Literal

import psycopg
import sqlalchemy as sa

from rag_sql import _diagnoses, _install, _resources
from rag_sql._maintenance import SEGMENTS
from rag_sql.errors import translate

__all__ = ["Finding", "examine", "not_installed"]

Severity = Literal["error", "warning", "hint", "ok"]

#: The oldest safe minor of each major: below it any login may run code of its own on the server (CVE-2026-16239).
OLDEST_MINOR: Final = {16: 15, 17: 11, 18: 6}

#: When a release of the embedded server was made, as far as is known: year and month.
RELEASED: Final = {(16, 15): (2026, 8), (17, 11): (2026, 8), (18, 6): (2026, 8)}


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes
    ----------
    code : str
        Which check found it; stable, for scripts.
    severity : str
        ``error``; ``warning``, an error when strict; ``hint``, never an error; ``ok`` where a check found nothing.
    subject : str
        Where: a login, a table, a function, a setting.
    problem : str
        What is wrong, as the rest of a sentence about the subject.
    remedy : str
        The statement or command that mends it.
    """

    code: str
    severity: Severity
    subject: str
    problem: str
    remedy: str


@dataclass(frozen=True)
class _Context:
    """What the checks work on.

    Attributes
    ----------
    memberships : sequence of (login, tenant), or None
        None when the login that asks may not see them.
    keys : sequence of (key id, login, whether it has expired)
        Empty when the login that asks may not see them.
    """

    connection: sa.Connection
    engine: sa.Engine
    asked: Sequence[str]
    embedded: bool
    memberships: Sequence[tuple[str, str]] | None
    keys: Sequence[tuple[str, str, bool]]
    known: Sequence[str] = field(default_factory=lambda: _tables_with_policies())

    def rows(self, query: str) -> Sequence[tuple[str, str, str]]:
        logins = {*self.asked, *(m[0] for m in self.memberships or ()), *(login for _, login, _ in self.keys)}
        values = {"logins": sorted(logins), "asked": sorted(set(self.asked)), "known": self.known}
        used = {name: value for name, value in values.items() if f":{name}" in _diagnoses.START + query}
        return [
            (subject, problem, remedy) for subject, problem, remedy in self.connection.execute(_statement(query), used)
        ]


@cache
def _statement(query: str) -> sa.TextClause:
    return sa.text(_diagnoses.START + query)


@dataclass(frozen=True)
class _Check:
    """A check: what it is called, how much it matters, and the query or function that finds."""

    code: str
    severity: Severity
    find: str | Callable[[_Context], Iterable[tuple[str, str, str]]]
    strict_only: bool = False

    def run(self, context: _Context) -> Iterator[Finding]:
        rows = context.rows(self.find) if isinstance(self.find, str) else self.find(context)
        for subject, problem, remedy in rows:
            yield Finding(self.code, self.severity, subject, problem, remedy)


def examine(
    engine: sa.Engine, *, logins: Sequence[str] = (), strict: bool = False, embedded: bool = False, ok: bool = False
) -> list[Finding]:
    """Examine the store of a database, and change nothing.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Logs in as the installing login, which sees everything, or as any login of the store.
    logins : sequence of str
        Logins to examine besides those that are bound to a tenant or in a group of the store.
    strict : bool
        Warnings are errors, and hints about settings are given.
    embedded : bool
        The server is the embedded one, whose release its user cannot choose.
    ok : bool
        Also list the checks that found nothing.

    Returns
    -------
    list of Finding
        Errors first.
    """
    with translate(), engine.connect() as connection:
        connection.exec_driver_sql(
            "set transaction read only; set local search_path = pg_catalog, pg_temp; set local jit = off"
        )
        context = _Context(connection, engine, logins, embedded, *_proofs(connection))
        found: list[Finding] = []
        for check in _CHECKS:
            if strict or not check.strict_only:
                findings = list(check.run(context))
                found += findings or ([Finding(check.code, "ok", "", "", "")] if ok else [])
        connection.rollback()
    if embedded:
        found = [replace(f, severity="warning") if f.code == "server-release" else f for f in found]
    if strict:
        found = [replace(f, severity="error") if f.severity == "warning" else f for f in found]
    order = ("error", "warning", "hint", "ok")
    return sorted(found, key=lambda f: (order.index(f.severity), f.code, f.subject, f.remedy))


def not_installed(database: str) -> Finding:
    """No store is in a database."""
    return Finding("store-state", "error", f"database {database}", "holds no store", "rag-sql install")


def _proofs(
    connection: sa.Connection,
) -> tuple[Sequence[tuple[str, str]] | None, Sequence[tuple[str, str, bool]]]:
    """Who is bound to which tenant, and the keys, read as the owner; None when this login cannot act as it."""
    installed, has_keys, allowed = connection.execute(
        sa.text(
            "select coalesce(bool_or(c.relname = 'membership'), false),"
            " coalesce(bool_or(c.relname = 'signing_key'), false),"
            " coalesce(pg_has_role(to_regrole('rag_owner')::oid, 'SET'), false)"
            " from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'rag_auth'"
        )
    ).one()
    if not installed:
        return [], []
    if not allowed:
        return None, []
    connection.exec_driver_sql("set local role rag_owner")
    rows = connection.execute(sa.text("select login, tenant from rag_auth.membership order by login, tenant")).all()
    keys = sa.text("select key_id, login, expires_at <= now() from rag_auth.signing_key order by key_id")
    found = connection.execute(keys).all() if has_keys else []
    connection.exec_driver_sql("reset role")
    return [(login, tenant) for login, tenant in rows], [(key_id, login, expired) for key_id, login, expired in found]


def _tables_with_policies() -> list[str]:
    """Tables whose policies an upgrade makes again, whatever became of them."""
    found: set[str] = set()
    for path in (_resources.find("schema") / "security").glob("*.sql"):
        found |= set(re.findall(r"\brag(?:_auth|_index)?\.[a-z_]+\b", path.read_text("utf-8")))
    return sorted(found)


def _unseen(context: _Context) -> Iterator[tuple[str, str, str]]:
    if context.memberships is None:
        login, database, owner = context.connection.execute(
            sa.text(
                "select session_user::text, datname::text, pg_get_userbyid(datdba)::text from pg_database"
                " where datname = current_database()"
            )
        ).one()
        problem = (
            f"{login} may not see who is bound to which tenant: keys, and logins outside the groups, were not examined"
        )
        yield "rag_auth.membership", problem, _doctor_as(owner, database, context.engine.url)


def _doctor_as(login: str, database: str, url: sa.URL) -> str:
    """The command that examines the same database as another login."""
    query = {key: value for key, value in url.query.items() if key in {"host", "port"}}
    other = sa.URL.create("postgresql", login, host=url.host, port=url.port, database=database, query=query)
    return "rag-sql doctor --database-url " + shlex.quote(other.render_as_string(hide_password=False))


def _orphans(context: _Context) -> Iterator[tuple[str, str, str]]:
    roles = set(context.connection.execute(sa.text("select rolname::text from pg_roles")).scalars())
    for login, tenant in context.memberships or ():
        if login not in roles:
            problem = f"is bound to {tenant} and does not exist: a later login of this name would have the tenant"
            yield login, problem, shlex.join(["rag-sql", "tenant", "revoke", tenant, login])


def _keys(context: _Context) -> Iterator[tuple[str, str, str]]:
    roles = set(context.connection.execute(sa.text("select rolname::text from pg_roles")).scalars())
    for key_id, login, is_expired in context.keys:
        if login not in roles:
            problem = f"is a key of {login}, which does not exist: a later login of this name could use it"
        elif is_expired:
            problem = f"is a key of {login} and has expired"
        else:
            continue
        yield f"key {key_id}", problem, shlex.join(["rag-sql", "tenant", "key", "revoke", key_id])


def _index(context: _Context) -> Iterator[tuple[str, str, str]]:
    allowed = "select coalesce(pg_has_role(to_regrole('rag_owner')::oid, 'SET'), false)"
    if not context.connection.execute(sa.text(allowed)).scalar_one():
        return
    context.connection.exec_driver_sql("set local role rag_owner")
    if context.connection.execute(sa.text("select to_regproc('rag_index.due') is null")).scalar_one():
        context.connection.exec_driver_sql("reset role")
        return
    rows = context.connection.execute(
        sa.text(
            "select tenant, cardinality(segment_ids), passages from rag_index.due(p_segments => :segments)"
            " where passages >= 1000"
        ),
        {"segments": SEGMENTS},
    ).all()
    context.connection.exec_driver_sql("reset role")
    for tenant, segments, passages in rows:
        yield (
            f"index of {tenant}",
            f"{segments} segments with {passages:,} passages are due to be put together",
            ("rag-sql maintain"),
        )


def _state(context: _Context) -> Iterator[tuple[str, str, str]]:
    try:
        found = _install.status(context.engine)
    except sa.exc.DBAPIError as error:
        if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            raise
        return  # said by another check
    subject = f"database {found.database}"
    if found.state == "not installed":
        yield subject, not_installed(found.database).problem, not_installed(found.database).remedy
    elif found.state == "newer":
        problem = f"the store (revision {found.revision}) is newer than this rag-sql ({found.head})"
        yield subject, problem, "pip install --upgrade rag-sql"
    elif found.state == "outdated":
        yield subject, "the store has older tables or other code than this rag-sql", "rag-sql upgrade"


def _state_unseen(context: _Context) -> Iterator[tuple[str, str, str]]:
    login, database, owner, installed, allowed = context.connection.execute(
        sa.text(
            "select session_user::text, datname::text, pg_get_userbyid(datdba)::text,"
            " to_regnamespace('rag') is not null,"
            " coalesce(pg_has_role(to_regrole('rag_owner')::oid, 'SET'), false)"
            " or coalesce(has_schema_privilege(to_regnamespace('rag')::oid, 'USAGE'), false)"
            " from pg_database where datname = current_database()"
        )
    ).one()
    if installed and not allowed:
        problem = f"{login} may not see which release of the store this is"
        yield f"database {database}", problem, _doctor_as(owner, database, context.engine.url)


def _server(context: _Context) -> Iterator[tuple[str, str, str]]:
    major, minor = _release(context)
    oldest = OLDEST_MINOR.get(major)
    if major < min(OLDEST_MINOR):
        yield f"PostgreSQL {major}.{minor}", "is not supported", "install PostgreSQL 16 or newer"
    elif oldest is not None and minor < oldest:
        remedy = (
            "pip install --upgrade 'rag-sql[embedded]'"
            if context.embedded
            else f"install PostgreSQL {major}.{oldest} or a later {major}, and restart the server"
        )
        yield f"PostgreSQL {major}.{minor}", "has known holes that any login can use", remedy


def _embedded(context: _Context) -> Iterator[tuple[str, str, str]]:
    if context.embedded:
        release = _release(context)
        problem = "is the embedded server's; when it was released is not known to this rag-sql"
        if release in RELEASED:
            (year, month), now = RELEASED[release], datetime.now(UTC)
            age = max(0, (now.year - year) * 12 + now.month - month)
            problem = (
                f"is the embedded server's, released {year}-{month:02}, {age} months ago;"
                " security releases come every three months and reach it later, if at all"
            )
        yield "PostgreSQL {}.{}".format(*release), problem, "pip install --upgrade 'rag-sql[embedded]'"


def _release(context: _Context) -> tuple[int, int]:
    number = int(context.connection.execute(sa.text("select current_setting('server_version_num')")).scalar_one())
    return number // 10000, number % 10000


#: In the order of a first morning: is there a store, who comes, where is the wall, what goes round it.
_CHECKS: Final = (
    _Check("server-release", "error", _server),
    _Check("embedded-release", "hint", _embedded),
    _Check("database-locale", "error", _diagnoses.ENCODING),
    _Check("extension-vector", "error", _diagnoses.EXTENSION),
    _Check("store-state", "error", _state),
    _Check("store-state-unseen", "warning", _state_unseen),
    _Check("membership-unseen", "warning", _unseen),
    _Check("membership-orphan", "warning", _orphans),
    _Check("signing-key", "warning", _keys),
    _Check("index-maintenance", "warning", _index),
    _Check("login-unknown", "error", _diagnoses.LOGIN_UNKNOWN),
    _Check("login-attribute", "error", _diagnoses.LOGIN_ATTRIBUTE),
    _Check("login-reaches-owner", "error", _diagnoses.LOGIN_REACHES),
    _Check("login-owns-database", "error", _diagnoses.LOGIN_OWNS_DATABASE),
    _Check("login-reads-and-audits", "error", _diagnoses.LOGIN_READS_AND_AUDITS),
    _Check("store-role-attribute", "error", _diagnoses.STORE_ROLE_ATTRIBUTE),
    _Check("database-privilege", "error", _diagnoses.DATABASE_PRIVILEGE),
    _Check("schema-privilege", "error", _diagnoses.SCHEMA_PRIVILEGE),
    _Check("table-owner", "error", _diagnoses.TABLE_OWNER),
    _Check("row-security", "error", _diagnoses.ROW_SECURITY),
    _Check("fence", "error", _diagnoses.FENCE),
    _Check("policy", "error", _diagnoses.POLICY),
    _Check("table-privilege", "error", _diagnoses.TABLE_PRIVILEGE),
    _Check("view-rights", "error", _diagnoses.VIEW),
    _Check("definer-path", "error", _diagnoses.DEFINER_PATH),
    _Check("definer-owner", "error", _diagnoses.DEFINER_OWNER),
    _Check("function-privilege", "error", _diagnoses.FUNCTION_PRIVILEGE),
    _Check("log-parameters", "hint", _diagnoses.LOG_PARAMETERS, strict_only=True),
    _Check("idle-transaction", "hint", _diagnoses.IDLE_TRANSACTION, strict_only=True),
)
