"""Administering tenants: what the installing login does, as ``rag_owner``. No run-time login may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql

from rag_sql._signing import TenantKey
from rag_sql.errors import NotAllowed, NotInstalled, translate

__all__ = [
    "GROUPS",
    "Erased",
    "KeyRow",
    "TenantRow",
    "add_key",
    "add_tenant",
    "as_owner",
    "erase_document",
    "erase_tenant",
    "grant_tenant",
    "list_keys",
    "list_tenants",
    "purge_traces",
    "revoke_key",
    "revoke_tenant",
    "set_trace_retention",
]

#: The groups that a login can join, by the names that the command line uses.
GROUPS = {
    "reader": "rag_reader",
    "curator": "rag_curator",
    "publisher": "rag_publisher",
    "reviewer": "rag_reviewer",
    "auditor": "rag_auditor",
}


@dataclass(frozen=True)
class TenantRow:
    """A tenant, the logins that may assert it, and those among them that may only read.

    `trace_retention` is how long it keeps traces, in PostgreSQL's words; None: without end.
    """

    tenant: str
    logins: tuple[str, ...]
    read_only: tuple[str, ...]
    trace_retention: str | None


@dataclass(frozen=True)
class KeyRow:
    """A key with which an application signs for tenants, without its secret."""

    key_id: str
    login: str
    expires_at: datetime
    recorded_at: datetime


@dataclass(frozen=True)
class Erased:
    """What an erasure erases: versions with their passages, spans and vectors, and what rests on them.

    Attributes
    ----------
    versions, passages, spans, vectors : int
        Of the document, or the tenant; what was erased before is not counted.
    packets, approvals, traces : int
        That rest on them, also other tenants' where they are public: drafts and traces lose their texts.
    contracts : int
        That quote the document, and stay; of a tenant: that are erased with it.
    """

    versions: int
    passages: int
    spans: int
    vectors: int
    packets: int
    approvals: int
    traces: int
    contracts: int


@contextmanager
def as_owner(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction of the installing login as ``rag_owner``; NotAllowed or NotInstalled where it cannot act so."""
    with translate(), engine.begin() as connection:
        try:
            connection.exec_driver_sql("set local role rag_owner")
        except sa.exc.DBAPIError as error:
            if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
                raise NotAllowed(
                    "this login administers no store", hint="It needs the login that installed the store."
                ) from error
            if isinstance(error.orig, psycopg.errors.InvalidParameterValue):
                raise NotInstalled("no store is installed here", hint="Run: rag-sql install") from error
            raise
        yield connection


def add_tenant(engine: sa.Engine, tenant: str) -> None:
    """Add a tenant; nothing happens where it exists. Raises InvalidRequest when the name is no slug."""
    with as_owner(engine) as connection:
        connection.execute(sa.text("select rag_auth.add_tenant(p_tenant => :tenant)"), {"tenant": tenant})


def list_tenants(engine: sa.Engine) -> list[TenantRow]:
    """All tenants, with their logins."""
    with as_owner(engine) as connection:
        rows = connection.execute(
            sa.text(
                "select t.tenant, array(select m.login from rag_auth.membership m where m.tenant = t.tenant"
                " order by m.login), array(select m.login from rag_auth.membership m where m.tenant = t.tenant"
                " and not m.may_write order by m.login), t.trace_retention::text from rag.tenant t order by t.tenant"
            )
        ).all()
    return [TenantRow(tenant, tuple(logins), tuple(read_only), kept) for tenant, logins, read_only, kept in rows]


def grant_tenant(
    engine: sa.Engine, tenant: str, login: str, groups: Sequence[str] = (), *, read_only: bool = False
) -> None:
    """Let a login assert a tenant, to write or only to read for it, and have it join groups of the store.

    Raises
    ------
    UnknownLogin
        No such login or tenant, or the login may act for none: row-level security does not hold it, or it audits.
    """
    with as_owner(engine) as connection:
        connection.execute(
            sa.text("select rag_auth.grant_tenant(p_tenant => :tenant, p_login => :login, p_may_write => :may_write)"),
            {"tenant": tenant, "login": login, "may_write": not read_only},
        )
        connection.exec_driver_sql("reset role")
        join_groups(connection, login, groups)


def join_groups(connection: sa.Connection, login: str, groups: Sequence[str]) -> None:
    """Have a login join groups, named as in :data:`GROUPS`."""
    for group in groups:
        statement = sql.SQL("grant {} to {}").format(sql.Identifier(GROUPS[group]), sql.Identifier(login))
        connection.exec_driver_sql(statement.as_string())


def revoke_tenant(engine: sa.Engine, tenant: str, login: str) -> bool:
    """Take a tenant from a login; whether it was granted.

    Raises
    ------
    UnknownLogin
        No such login or tenant. A login that was dropped since can still be revoked.
    """
    with as_owner(engine) as connection:
        revoked: bool = connection.execute(
            sa.text("select rag_auth.revoke_tenant(p_tenant => :tenant, p_login => :login)"),
            {"tenant": tenant, "login": login},
        ).scalar_one()
    return revoked


def set_trace_retention(engine: sa.Engine, tenant: str, days: int | None) -> None:
    """Say how many days a tenant keeps traces; None: without end.

    Raises
    ------
    UnknownLogin
        No such tenant, or it is public.
    InvalidRequest
        Not 1 to 36,500 days.
    """
    with as_owner(engine) as connection:
        connection.execute(
            sa.text(
                "select rag_auth.set_trace_retention("
                "p_tenant => :tenant, p_retention => make_interval(days => cast(:days as integer)))"
            ),
            {"tenant": tenant, "days": days},
        )


def purge_traces(engine: sa.Engine, tenant: str) -> int:
    """Remove the traces of a tenant whose time is over and record that it was done; how many there were.

    Raises
    ------
    UnknownLogin
        No such tenant.
    TracesInUse
        An answer is being recorded for one of them; nothing was removed.
    """
    with as_owner(engine) as connection:
        removed: int = connection.execute(
            sa.text("select rag_auth.purge_traces(p_tenant => :tenant)"), {"tenant": tenant}
        ).scalar_one()
    return removed


_ERASE = sa.text(
    "select versions, passages, spans, vectors, packets, approvals, traces, contracts from rag_auth.erase("
    "p_tenant => :tenant, p_document_id => :document_id, p_versions => cast(:versions as integer[]), p_all => :all,"
    " p_reason => :reason, p_dry_run => :dry_run)"
)


def erase_document(
    engine: sa.Engine,
    tenant: str,
    document_id: str,
    versions: Sequence[int] = (),
    *,
    reason: str,
    dry_run: bool = False,
) -> Erased:
    """Erase versions of a document (none named: all), what was copied from them, and record who did and why.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Logs in as the login that installed the store.
    tenant, document_id : str
        Whose document; ``public`` too.
    versions : sequence of int
    reason : str
        1 to 4,000 bytes; readers of the tenant see it.
    dry_run : bool
        Say what would be erased, and erase nothing.

    Raises
    ------
    VersionNotFound
        No such document, or not such a version.
    UnknownLogin
        No such tenant.
    InvalidRequest
        A reason that is empty or too long.
    """
    return _erase(
        engine, tenant=tenant, document_id=document_id, versions=list(versions) or None, reason=reason, dry_run=dry_run
    )


def erase_tenant(engine: sa.Engine, tenant: str, *, reason: str, dry_run: bool = False) -> Erased:
    """Erase all that a tenant has: documents, contracts, packets, drafts and traces; what stays is as for a document.

    Raises
    ------
    UnknownLogin
        No such tenant, or it is public.
    InvalidRequest
        A reason that is empty or too long.
    """
    return _erase(engine, tenant=tenant, document_id=None, versions=None, reason=reason, dry_run=dry_run)


def _erase(engine: sa.Engine, **values: Any) -> Erased:
    with as_owner(engine) as connection:
        row = connection.execute(_ERASE, {**values, "all": values["document_id"] is None}).one()
    return Erased(**row._mapping)


def add_key(engine: sa.Engine, login: str, days: int, groups: Sequence[str] = ()) -> tuple[TenantKey, datetime]:
    """Make a key with which an application signs for any tenant as a login, and have the login join groups.

    Returns
    -------
    TenantKey, datetime
        The key, whose secret nothing shows again, and when it expires.

    Raises
    ------
    UnknownLogin
        No such login, or one that may act for no tenant.
    InvalidRequest
        Other than 1 to 3,650 days.
    """
    with as_owner(engine) as connection:
        row = connection.execute(
            sa.text(
                "select key_id, secret, expires_at from rag_auth.add_signing_key(p_login => :login, p_days => :days)"
            ),
            {"login": login, "days": days},
        ).one()
        connection.exec_driver_sql("reset role")
        join_groups(connection, login, groups)
    return TenantKey(row.key_id, row.secret), row.expires_at


def list_keys(engine: sa.Engine) -> list[KeyRow]:
    """All keys, by login, the newest last."""
    with as_owner(engine) as connection:
        rows = connection.execute(
            sa.text(
                "select key_id, login, expires_at, recorded_at from rag_auth.signing_key"
                " order by login, recorded_at, key_id"
            )
        ).all()
    return [KeyRow(*row) for row in rows]


def revoke_key(engine: sa.Engine, key_id: str) -> None:
    """Take a key out of use, at once. Raises UnknownKey when there is none."""
    with as_owner(engine) as connection:
        connection.execute(sa.text("select rag_auth.revoke_signing_key(p_key_id => :key_id)"), {"key_id": key_id})
