"""Attacks on the binding: what a session can set, switch, keep or overhear (A01 to A20; pools in test_pool_attacks)."""

from __future__ import annotations

import json

import psycopg
import pytest
import sqlalchemy as sa

from rag_sql import EvidenceStore, errors
from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, QUERY, QUESTION, Database
from tests.tenancy import wall

HOSTILE = "x'); select set_config('rag.tenant', 'acme', false); drop table rag.version; --"


def tenants_seen(connection: wall.Connection) -> set[str]:
    return {tenant for (tenant,) in connection.execute("select tenant from rag.version")}


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_A05_a_fresh_and_a_used_connection_are_equally_unbound(spent: Database, used: bool) -> None:
    """A setting that was never set is null, one that was is the empty text: both assert nothing."""
    with spent.connect("northwind_reader", autocommit=True) as connection:
        if used:
            with connection.transaction():
                connection.execute("select rag_api.bind('northwind')")
            (before,) = connection.execute("select current_setting('rag.tenant', true)").fetchone() or (None,)
            assert before == ""
        assert tenants_seen(connection) == {"public"}
        with connection.transaction():
            assert connection.execute("select rag_api.bind('northwind')").fetchone() == (None,)
            assert tenants_seen(connection) == {"northwind", "public"}


def test_A06_there_is_no_tenant_without_a_name(spent: Database) -> None:
    with spent.connect("northwind_curator") as connection:
        for statement in (
            "insert into rag.version (tenant, document_id, version, body) values ('', 'X', 1, 'x')",
            "insert into rag.version (document_id, version, body) values ('X', 1, 'x')",
        ):
            connection.execute("select set_config('rag.tenant', '', true)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
            connection.rollback()
    with spent.connect(SUPERUSER) as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("select rag_auth.add_tenant('')")
        assert caught.value.sqlstate == "RS010"
        connection.rollback()
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("insert into rag.tenant (tenant) values ('')")


def test_A15_a_search_path_leads_the_store_nowhere_else(spent: Database) -> None:
    """Functions and views name everything in full; there is no schema that a login could put before theirs."""
    arguments = (QUESTION, QUERY, json.dumps(CASE), 2)
    with spent.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        request = "select outcome, missing, digest from rag_api.decide(%s, %s, %s, %s)"
        expected = connection.execute(request, arguments).fetchall()
        for path in ("pg_temp, rag, rag_api", "public, pg_temp, pg_catalog", ""):
            connection.execute("select set_config('search_path', %s, true)", (path,))
            assert connection.execute(request, arguments).fetchall() == expected
            assert connection.execute("select count(*) from rag_api.document").fetchone() is not None
        for statement in (
            "create temporary table version (tenant text, document_id text, body text)",
            "create function pg_temp.words(text) returns text[] return '{}'",
            "create view public.document as select 1",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement.encode())


def test_A16_what_a_caller_passes_is_a_value_and_never_a_statement(spent: Database) -> None:
    with spent.engine("both_reader") as engine, EvidenceStore(engine).tenant("northwind") as northwind:
        assert northwind.decide(QUESTION, query=HOSTILE, case=CASE, k=2).missing
        assert not northwind.decide(HOSTILE, query=QUERY, case=CASE, k=2).sufficient
        with pytest.raises(errors.InvalidCase), northwind.savepoint():
            northwind.decide(QUESTION, query=QUERY, case={HOSTILE: HOSTILE}, k=2)
        assert {row.tenant for row in northwind.explain(QUESTION, query=QUERY, case=CASE, k=9)} == {
            "northwind",
            "public",
        }
    with spent.connect(SUPERUSER) as connection:
        assert connection.execute("select to_regclass('rag.version') is not null").fetchone() == (True,)


def test_A16_a_statement_of_ours_takes_no_second_one(spent: Database) -> None:
    """A call has parameters, so the server parses it as one statement; a name of a tenant is one of them."""
    with spent.engine("both_reader") as engine, engine.connect() as connection:
        with pytest.raises(errors.TenantNotBound), EvidenceStore(connection).tenant(HOSTILE):
            pass
        connection.rollback()
        with pytest.raises(sa.exc.ProgrammingError, match="multiple commands"):
            connection.execute(sa.text("select :value; select 2"), {"value": 1})


def test_A17_what_a_call_says_stands_in_no_list_of_activity(spent: Database) -> None:
    """Sessions of one login see each other's statements: they have placeholders, and no value of a tenant."""
    with spent.engine("both_reader") as engine, EvidenceStore(engine).tenant("acme") as acme:
        acme.decide(QUESTION, query="acme-secret words", case=CASE, k=2)
        with spent.connect("both_reader") as other:
            seen = other.execute("select query from pg_stat_activity where usename = session_user").fetchall()
    calls = [query for (query,) in seen if "rag_api.decide" in query]
    assert len(calls) == 1
    assert "$1" in calls[0]
    assert not [query for (query,) in seen if "acme" in query]


def test_A20_no_trigger_and_no_constraint_waits_for_the_end_of_the_transaction(spent: Database) -> None:
    """By then another tenant may be asserted."""
    with spent.connect(SUPERUSER) as connection:
        assert not connection.execute(
            "select tgname from pg_trigger join pg_class c on c.oid = tgrelid"
            " where relnamespace::regnamespace::text like 'rag%' and tgdeferrable"
            " union all select conname from pg_constraint where connamespace::regnamespace::text like 'rag%'"
            " and condeferrable"
        ).fetchall()


def test_A20_what_was_inserted_for_one_tenant_is_not_cut_for_another(spent: Database) -> None:
    """The trigger that cuts passages runs with its statement, and takes the tenant from the row."""
    with spent.connect("northwind_curator") as connection:
        connection.execute("select rag_api.bind('northwind')")
        connection.execute(
            "insert into rag.version (tenant, document_id, version, body) values (%s, 'X', 1, 'x')", ("northwind",)
        )
        connection.execute("select set_config('rag.tenant', '', true)")
        connection.execute("set constraints all immediate")
        connection.execute("select rag_api.bind('northwind')")
        assert connection.execute("select tenant from rag.passage where document_id = 'X'").fetchall() == [
            ("northwind",)
        ]
        connection.rollback()


@pytest.mark.parametrize(
    "setting",
    ["standard_conforming_strings = off", "array_nulls = off", "transform_null_equals = on", "bytea_output = escape"],
)
def test_no_setting_of_a_session_changes_what_is_stored(spent: Database, setting: str) -> None:
    """Functions are written in SQL, and how SQL is read can be set."""
    body = "alpha, beta\\W Gamma-delta"
    stored = []
    for hostile in (False, True):
        with spent.connect("northwind_curator") as connection:
            if hostile:
                connection.execute(f"set {setting}".encode())
            connection.execute("select rag_api.bind('northwind')")
            document = {"id": "X", "version": 1, "body": body, "spans": [{"id": "s", "fact": "f", "quote": "beta"}]}
            connection.execute("select rag_api.load_documents(%s)", (json.dumps([document]),))
            stored.append(
                connection.execute(
                    "select p.words::text, encode(p.text_sha256, 'hex'), s.range_start,"
                    " (select score from rag_api.ranking('beta', '{}') where document_id = 'X'),"
                    " encode(rag_api.corpus_fingerprint(), 'hex')"
                    " from rag.passage p join rag.span s using (tenant, document_id, version) where document_id = 'X'"
                ).fetchall()
            )
            connection.rollback()
    assert stored[0] == stored[1]
    assert stored[0][0][3] == 1
