"""The proof that the wall's tests can fail: every stone of it is taken out in turn, and the probe sees it.

Each policy is dropped, each condition replaced by `true`, row security switched off and unforced on each table, and the
proof of the binding left out. Whatever changes nothing in the probe would be a part that nothing guards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import sql

from tests.conftest import Database
from tests.tenancy import wall
from tests.tenancy.wall import TABLES, Connection, Sessions

Probe = dict[str, Any]


@pytest.fixture(scope="module")
def sessions(spent: Database) -> Iterator[Sessions]:
    with Sessions(spent) as opened:
        yield opened


@pytest.fixture(scope="module")
def probed(sessions: Sessions) -> Probe:
    """What is seen while the wall stands."""
    return wall.look_at_tables(sessions)


def policies(admin: Connection, table: str) -> list[tuple[str, str | None, str | None]]:
    """Name, USING and WITH CHECK of each policy of a table."""
    return admin.execute(
        "select polname, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)"
        " from pg_policy where polrelid = %s::regclass order by 1",
        (table,),
    ).fetchall()


def named(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))


def test_every_policy_is_on_a_table_that_is_probed(sessions: Sessions) -> None:
    guarded = sessions.admin.execute("select distinct polrelid::regclass::text from pg_policy order by 1").fetchall()
    assert [table for (table,) in guarded] == sorted(TABLES)


@pytest.mark.parametrize("tables", [TABLES, *((table,) for table in TABLES)], ids=["all", *TABLES])
def test_the_wall_unchanged_looks_as_it_did(sessions: Sessions, probed: Probe, tables: tuple[str, ...]) -> None:
    """All tables together, and each by itself: a difference below comes from the change alone."""
    assert wall.first_difference(sessions, probed, tables) is None


@pytest.mark.parametrize("table", TABLES)
def test_a_policy_that_is_dropped_is_missed(sessions: Sessions, probed: Probe, table: str) -> None:
    before = policies(sessions.admin, table)
    unnoticed = []
    for name, _, _ in before:
        with wall.without_policies(sessions.admin, [table], sql.SQL("polname = {}").format(sql.Literal(name))):
            if wall.first_difference(sessions, probed, [table]) is None:
                unnoticed.append(name)
    assert unnoticed == []
    assert policies(sessions.admin, table) == before


@pytest.mark.parametrize("table", TABLES)
def test_a_policy_that_lets_everything_through_is_noticed(sessions: Sessions, probed: Probe, table: str) -> None:
    unnoticed = []
    for name, using, check in policies(sessions.admin, table):
        if (using or check) != "true":
            with widened(sessions.admin, table, name, using, check):
                if wall.first_difference(sessions, probed, [table]) is None:
                    unnoticed.append(name)
    assert unnoticed == []


@contextmanager
def widened(admin: Connection, table: str, name: str, using: str | None, check: str | None) -> Iterator[None]:
    """A policy whose condition is `true`, for a while."""
    alter = sql.SQL("alter policy {} on {} ").format(sql.Identifier(name), named(table))
    clause = sql.SQL("using ({})" if using is not None else "with check ({})")
    admin.execute(alter + clause.format(sql.SQL("true")))
    try:
        yield
    finally:
        admin.execute((alter.as_string() + clause.as_string().format(using or check)).encode())


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("switch", ["disable", "no force"])
def test_row_security_that_is_switched_off_is_noticed(
    sessions: Sessions, probed: Probe, table: str, switch: str
) -> None:
    alter = sql.SQL("alter table {} {} row level security")
    sessions.admin.execute(alter.format(named(table), sql.SQL(switch)))
    try:
        assert wall.first_difference(sessions, probed, [table]) is not None
    finally:
        sessions.admin.execute(alter.format(named(table), sql.SQL("enable")))
        sessions.admin.execute(alter.format(named(table), sql.SQL("force")))


def test_a_binding_without_proof_is_noticed(sessions: Sessions, probed: Probe) -> None:
    with replaced(sessions.admin, "rag_auth.tenant()", "return nullif(current_setting('rag.tenant', true), '')"):
        assert wall.first_difference(sessions, probed) == "tables, northwind_curator as acme"


def test_a_binding_that_falls_back_to_public_is_noticed(sessions: Sessions, probed: Probe) -> None:
    unproven = (
        "return (select m.tenant from rag_auth.membership m"
        " where m.login = session_user::text and m.tenant = nullif(current_setting('rag.tenant', true), ''))"
    )
    with replaced(sessions.admin, "rag_auth.tenant()", unproven):
        assert wall.first_difference(sessions, probed) == "tables, northwind_curator as acme"


def test_B07_a_binding_to_the_current_user_is_noticed(sessions: Sessions, probed: Probe) -> None:
    """Inside the definer function that is its owner, who is bound to nothing."""
    by_current_user = (
        "return (select m.tenant from rag_auth.membership m"
        " where m.login = current_user::text and m.tenant = nullif(current_setting('rag.tenant', true), ''))"
    )
    with replaced(sessions.admin, "rag_auth.tenant()", by_current_user):
        assert wall.first_difference(sessions, probed) == "tables, acme_reader as acme"


def test_a_signature_that_nobody_verifies_is_noticed(sessions: Sessions, probed: Probe) -> None:
    with replaced(sessions.admin, "rag_auth.signed_tenant(text)", "return split_part(p_asserted, ':', 1)"):
        assert wall.first_difference(sessions, probed) == "tables, forger as acme"


@contextmanager
def replaced(admin: Connection, function: str, body: str) -> Iterator[None]:
    """A plpgsql function with another body, for a while; everything else about it stays."""
    row = admin.execute(
        "select pg_get_functiondef(%s::regprocedure), prosrc from pg_proc where oid = %s::regprocedure",
        (function, function),
    ).fetchone()
    assert row is not None
    definition, source = row
    admin.execute(definition.replace(source, f"\nbegin\n  {body};\nend;\n").encode())
    try:
        yield
    finally:
        admin.execute(definition.encode())
