"""Administering tenants: what the installing login does, as ``rag_owner``. No run-time login may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from psycopg import sql

from rag_sql.errors import translate

__all__ = [
    "GROUPS",
    "TenantRow",
    "add_tenant",
    "grant_tenant",
    "list_tenants",
    "purge_traces",
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
    """A tenant, the logins that may assert it, and how long it keeps traces (PostgreSQL's words; None: without end)."""

    tenant: str
    logins: tuple[str, ...]
    trace_retention: str | None


@contextmanager
def _as_owner(engine: sa.Engine) -> Iterator[sa.Connection]:
    with translate(), engine.begin() as connection:
        connection.exec_driver_sql("set local role rag_owner")
        yield connection


def add_tenant(engine: sa.Engine, tenant: str) -> None:
    """Add a tenant; nothing happens where it exists. Raises InvalidRequest when the name is no slug."""
    with _as_owner(engine) as connection:
        connection.execute(sa.text("select rag_auth.add_tenant(p_tenant => :tenant)"), {"tenant": tenant})


def list_tenants(engine: sa.Engine) -> list[TenantRow]:
    """All tenants, with their logins."""
    with _as_owner(engine) as connection:
        rows = connection.execute(
            sa.text(
                "select t.tenant, array(select m.login from rag_auth.membership m where m.tenant = t.tenant"
                " order by m.login), t.trace_retention::text from rag.tenant t order by t.tenant"
            )
        ).all()
    return [TenantRow(tenant, tuple(logins), retention) for tenant, logins, retention in rows]


def grant_tenant(engine: sa.Engine, tenant: str, login: str, groups: Sequence[str] = ()) -> None:
    """Let a login assert a tenant, and have it join groups of the store.

    Raises
    ------
    UnknownLogin
        No such login or tenant, or row-level security does not hold the login.
    """
    with _as_owner(engine) as connection:
        connection.execute(
            sa.text("select rag_auth.grant_tenant(p_tenant => :tenant, p_login => :login)"),
            {"tenant": tenant, "login": login},
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
    with _as_owner(engine) as connection:
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
    with _as_owner(engine) as connection:
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
    """
    with _as_owner(engine) as connection:
        removed: int = connection.execute(
            sa.text("select rag_auth.purge_traces(p_tenant => :tenant)"), {"tenant": tenant}
        ).scalar_one()
    return removed
