"""Attacks through roles and through objects that row-level security does not cover (B08 to C22)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from psycopg import sql

from rag_sql._embedded import SUPERUSER
from tests.conftest import Database, Server
from tests.tenancy.wall import OWNER_COLUMNS, TABLES, Connection


@pytest.fixture
def spy(server: Server, spent: Database) -> Iterator[str]:
    """A login of a test's own, bound to nothing; dropped afterwards."""
    name = "spy"
    server.maintenance.execute("create role spy login")
    yield name
    with spent.connect(SUPERUSER) as connection:
        connection.execute("drop owned by spy")
    server.maintenance.execute("drop role spy")


def visible(connection: Connection, table: str) -> set[str]:
    """Tenants, or logins, whose rows are seen; nothing where the statement is refused."""
    query = sql.SQL("select {} from {}")
    owner = sql.Identifier(OWNER_COLUMNS.get(table, "tenant"))
    try:
        with connection.transaction():
            rows = connection.execute(query.format(owner, sql.Identifier(*table.split("."))))
            return {name for (name,) in rows}
    except psycopg.errors.InsufficientPrivilege:
        return set()


def removed(connection: Connection, table: str) -> int:
    """How many rows a deletion takes; none where it is refused."""
    with suppress(psycopg.DatabaseError):
        with connection.transaction(force_rollback=True):
            return connection.execute(sql.SQL("delete from {}").format(sql.Identifier(*table.split(".")))).rowcount
    return 0


@pytest.mark.parametrize("role", ["pg_read_all_data", "pg_write_all_data", "pg_monitor", "pg_maintain"])
def test_B08_a_predefined_role_opens_no_row(server: Server, spent: Database, spy: str, role: str) -> None:
    if server.maintenance.execute("select to_regrole(%s) is null", (role,)).fetchone() == (True,):
        assert server.maintenance.info.server_version < 170000  # pg_maintain came with PostgreSQL 17
        return
    server.maintenance.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(spy)))
    with spent.connect(spy) as connection:
        for table in TABLES:
            assert visible(connection, table) == set(), table
            assert removed(connection, table) == 0, table


def test_B10_a_session_of_another_login_cannot_be_ended(spent: Database) -> None:
    with spent.connect("acme_reader") as victim, spent.connect("northwind_reader", autocommit=True) as other:
        pid = victim.info.backend_pid
        for function in ("pg_terminate_backend", "pg_cancel_backend"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute(sql.SQL("select {}(%s)").format(sql.Identifier(function)), (pid,))
        assert victim.execute("select 1").fetchone() == (1,)


def test_C09_no_login_attaches_code_to_a_table(spent: Database) -> None:
    with spent.connect("northwind_curator") as connection:
        for statement in (
            "create trigger spy after insert on rag.version execute function rag.refuse_change()",
            "create rule spy as on insert to rag.version do also notify spy",
            "create policy spy on rag.version using (true)",
            "create index spy on rag.version (title)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement.encode())


def test_C11_no_foreign_key_carries_a_change_across(spent: Database) -> None:
    """Cascades run without policies: a deletion here would reach rows there."""
    with spent.connect(SUPERUSER) as connection:
        assert connection.execute(
            "select distinct confupdtype::text, confdeltype::text from pg_constraint where contype = 'f'"
            " and connamespace::regnamespace::text like 'rag%'"
        ).fetchall() == [("a", "a")]


@pytest.mark.parametrize(
    "statement",
    [
        "create table copied as select * from rag.version",
        "select * into copied from rag.version",
        "create table copied (like rag.version including all)",
        "create temporary table copied as select * from rag.version",
        "create materialized view copied as select * from rag.version",
        "create view copied as select * from rag.version",
    ],
)
def test_C14_no_login_makes_a_copy_without_policies(spent: Database, statement: str) -> None:
    with spent.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())


def test_C18_no_login_of_the_store_decodes_the_log(spent: Database) -> None:
    with spent.connect("northwind_curator", autocommit=True) as connection:
        for statement in (
            "select pg_create_logical_replication_slot('spy', 'pgoutput')",
            "select pg_create_physical_replication_slot('spy')",
            "create publication spy for all tables",
        ):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement.encode())
            assert caught.value.sqlstate == "42501", statement
    with pytest.raises(psycopg.OperationalError, match=r"permission denied|REPLICATION"):
        spent.connect("northwind_curator", replication="database").close()


def test_C19_a_dump_by_a_login_that_the_wall_holds_is_refused_and_not_partial(spent: Database) -> None:
    """What pg_dump sends: it switches row security off first. The owner's role is held too."""
    with spent.connect(SUPERUSER) as connection:
        connection.execute("grant rag_owner to unbound_reader")
    try:
        for login in ("acme_curator", "unbound_reader"):
            with spent.connect(login) as connection:
                connection.execute("set row_security = off")
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                    with connection.cursor() as cursor, cursor.copy("copy rag.version to stdout") as copy:
                        copy.read()
    finally:
        with spent.connect(SUPERUSER) as connection:
            connection.execute("revoke rag_owner from unbound_reader")


def test_C20_what_is_copied_out_is_what_is_seen(spent: Database) -> None:
    with spent.connect("northwind_reader") as connection, connection.cursor() as cursor:
        cursor.execute("select rag_api.bind('northwind')")
        with cursor.copy("copy (select tenant from rag.version) to stdout") as copy:
            assert {row[0] for row in copy.rows()} == {"northwind", "public"}
        with cursor.copy("copy rag.version (tenant) to stdout") as copy:
            assert {row[0] for row in copy.rows()} == {"northwind", "public"}


def test_C21_the_store_keeps_no_large_object_and_a_logins_own_is_its_own(spent: Database) -> None:
    with spent.connect(SUPERUSER) as connection:
        assert connection.execute("select count(*) from pg_largeobject_metadata").fetchone() == (0,)
    with spent.connect("acme_reader") as acme, spent.connect("northwind_reader") as northwind:
        (oid,) = acme.execute("select lo_from_bytea(0, 'acme-secret')").fetchone() or (None,)
        acme.commit()
        try:
            for statement in ("select lo_get(%s)", "select lo_open(%s, 262144)", "select lo_unlink(%s)"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege), northwind.transaction():
                    northwind.execute(statement.encode(), (oid,))
        finally:
            acme.execute("select lo_unlink(%s)", (oid,))


def test_C22_nothing_that_reads_pages_or_rows_past_the_policies_is_installed(spent: Database) -> None:
    with spent.connect(SUPERUSER) as connection:
        assert connection.execute("select extname from pg_extension order by 1").fetchall() == [
            ("plpgsql",),
            ("vector",),
        ]
    with spent.connect("northwind_reader") as connection:
        for statement in ("create extension pageinspect", "select * from pg_read_file('PG_VERSION')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement.encode())
