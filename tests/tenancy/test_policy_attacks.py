"""Attacks on the logic of the policies, and what keys, conflicts and numbers tell (D08 to E03, E10, E22, E23)."""

from __future__ import annotations

from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest

from rag_sql._embedded import SUPERUSER
from tests.conftest import Database, Server
from tests.tenancy import wall
from tests.tenancy.conftest import Copy
from tests.tenancy.wall import CLAIMS, CONTENT, TABLES, Connection, Sessions


@pytest.fixture
def northwind(spent: Database) -> Any:
    """The session of northwind's curator; rolled back."""
    with spent.connect("northwind_curator") as connection:
        connection.execute("select rag_api.bind('northwind')")
        connection.execute("savepoint attempt")
        yield connection
        connection.rollback()


@pytest.fixture(scope="module")
def catalog(spent: Database) -> Any:
    with spent.connect(SUPERUSER) as connection:
        yield connection


def outcome(connection: Connection, statement: LiteralString, *values: Any) -> tuple[Any, ...]:
    """What a statement gives or says, every field of it; its effects are taken back."""
    try:
        cursor = connection.execute(statement, values or None)
        return (cursor.rowcount, *(cursor.fetchall() if cursor.description else ()))
    except psycopg.Error as error:
        said = error.diag
        return (
            said.sqlstate,
            said.message_primary,
            said.message_detail,
            said.message_hint,
            said.context,
            said.constraint_name,
            said.table_name,
            said.column_name,
        )
    finally:
        connection.execute("rollback to attempt")


@pytest.mark.parametrize(
    "asserted",
    ["", " ", "acme ", "'", "1;", "9" * 40, "a" * 9000, "\u202eacme", "acme\n", "{acme}", "%s", "public,acme"],
)
def test_D08_no_asserted_text_makes_a_policy_fail_with_a_row_in_its_message(spent: Database, asserted: str) -> None:
    """The setting is compared and never converted; a policy converts no row."""
    with spent.connect("northwind_reader") as connection:
        connection.execute("select set_config('rag.tenant', %s, true)", (asserted,))
        connection.execute("savepoint attempt")
        for table in TABLES:
            got = outcome(connection, f"select * from {table}")
            assert got[0] in {"RS001", "42501"} or asserted == "", table
            assert not [mark for mark in wall.MARKS["acme"] if mark in str(got)], table


def test_D09_no_policy_reads_a_table(catalog: Connection) -> None:
    """None recurses and none races with a change of what it reads: it asks a function, once a statement.

    But for the owner's, who removes traces: they read how long a tenant keeps them, and a trigger asks again.
    """
    assert not catalog.execute(
        "select polname from pg_policy join pg_depend on classid = 'pg_policy'::regclass and objid = pg_policy.oid"
        " where refclassid = 'pg_class'::regclass and refobjid <> polrelid"
        " and polroles <> array['rag_owner'::regrole::oid]"
    ).fetchall()


def test_D12_a_conflict_with_a_hidden_row_is_none(northwind: Connection) -> None:
    """Acme has HOLD-7, version 2: for northwind that key is free, with and without a clause about conflicts."""
    insert: LiteralString = (
        "insert into rag.version (tenant, document_id, version, body) values ('northwind', %s, 2, 'x')"
    )
    for clause in ("", " on conflict do nothing", " on conflict on constraint version_key do nothing"):
        for returning in ("", " returning document_id = 'HOLD-7' or true"):
            taken = outcome(northwind, insert + clause + returning, "HOLD-7")
            free = outcome(northwind, insert + clause + returning, "HOLD-8")
            assert taken == free
            assert taken[0] == 1
    for statement in (
        (
            "insert into rag.version (tenant, document_id, version, body) values ('northwind', 'HOLD-7', 2, 'x')"
            " on conflict (tenant, document_id, version) do update set body = 'x'"
        ),
        (
            "merge into rag.version v using (values ('HOLD-7')) s(d) on v.document_id = s.d"
            " when matched then update set body = 'x' when not matched then do nothing"
        ),
    ):
        assert outcome(northwind, statement)[0] == "42501"


def test_D14_no_trigger_moves_a_row_to_another_tenant(catalog: Connection) -> None:
    """What stands in the row when the check runs is what was inserted."""
    assert not catalog.execute(
        "select proname from pg_proc where prorettype = 'trigger'::regtype"
        " and pronamespace::regnamespace::text like 'rag%' and prosrc ~* 'new\\.(\\w*_)?tenant\\s*:='"
    ).fetchall()


@pytest.mark.parametrize("returning", ["", " returning tenant"])
@pytest.mark.parametrize("tenant", ["acme", "public", "nowhere"])
def test_D15_no_row_is_planted_with_or_without_reading_it_back(
    northwind: Connection, tenant: str, returning: str
) -> None:
    statement = "insert into rag.version (tenant, document_id, version, body) values (%s, 'X', 1, 'x')" + returning
    assert outcome(northwind, statement, tenant)[:2] == (
        "42501",
        'new row violates row-level security policy for table "version"',
    )


# What keys, foreign keys and numbers tell


@pytest.mark.parametrize(
    ("statement", "hidden", "absent"),
    [
        (
            "insert into rag.version (tenant, document_id, version, body) values ('northwind', %s, 1, 'x')",
            "acme-secret-document",
            "acme-secret-documenu",
        ),
        ("insert into rag.withdrawal (tenant, document_id, version) values ('northwind', %s, 2)", "HOLD-7", "HOLD-8"),
        (
            """insert into rag.succession (tenant, document_id, successor_id, note)
               values ('northwind', %s, 'X', repeat('x', 4001))""",
            "acme-secret-superseded",
            "acme-secret-supersedee",
        ),
        (
            """insert into rag.span (tenant, document_id, version, span_id, fact, quote)
               values ('northwind', %s, 2, 's', 'f', 'a')""",
            "HOLD-7",
            "HOLD-8",
        ),
        (
            "insert into rag.attribute (tenant, attribute, type) values ('northwind', %s, 'flag')",
            "acme-secret",
            "acme-secreu",
        ),
        (
            "insert into rag.contract (tenant, question_id, version, content) values ('northwind', %s, 1, '{}')",
            "hold-question",
            "hold-questioo",
        ),
        ("select rag_api.withdraw_version(%s, 2)", "HOLD-7", "HOLD-8"),
        ("select rag_api.supersede_document(%s, array['X'])", "HOLD-7", "HOLD-8"),
        ("select * from rag_api.history(%s)", "HOLD-7", "HOLD-8"),
        (
            """select * from rag_api.add_spans(jsonb_build_array(jsonb_build_object('document', %s::text) ||
               '{"version": 2, "span": "s", "fact": "f", "quote": "a"}'))""",
            "HOLD-7",
            "HOLD-8",
        ),
        ("select * from rag_api.proposition_occurrences(%s)", "hold-question", "hold-questioo"),
        ("select rag_api.set_attribute(%s, 'number')", "acme-secret", "acme-secreu"),
    ],
)
def test_E01_E02_E11_a_key_that_acme_has_and_one_that_nobody_has_are_the_same(
    northwind: Connection, statement: LiteralString, hidden: str, absent: str
) -> None:
    """The same outcome, with every field of an error: constraint, table, context, detail."""
    said = [str(outcome(northwind, statement, value)).replace(value, "?") for value in (absent, hidden, absent)]
    assert said[1] == said[2]  # the first call of a function in a session has a longer context


def test_E03_what_is_numbered_is_random(catalog: Connection) -> None:
    """Version 4 of a UUID holds neither a count nor a time."""
    for column, table in (("packet_id", "rag.packet"), ("trace_id", "rag.trace")):
        found = catalog.execute(f"select {column} from {table}".encode()).fetchall()
        assert {UUID(str(value)).version for (value,) in found} == {4}


@pytest.mark.parametrize(
    "condition",
    [
        "1 / (body_length - (select 181)) is not null",
        "1 / (case when title = 'acme-secret' then 0 else 1 end) = 1",
        "1 / (case when document_id like 'HOLD%' then 0 else 1 end) = 1",
        "(body || tenant)::integer = 1 and tenant <> 'public'",
        "jsonb_array_length(applies_to) > 0",
        "convert_from(convert_to(body, 'UTF8'), 'LATIN1')::xid is null",
    ],
)
def test_E10_a_condition_that_can_fail_meets_no_hidden_row(northwind: Connection, condition: str) -> None:
    """It comes after the policies, and fails or not as it does on the visible rows by themselves."""
    for ask in ("select count(*) from {} v where {}", "select count(*) filter (where {1}) from {0} v"):
        direct = outcome(northwind, ask.format("rag.version", condition))
        visible = outcome(
            northwind,
            "with v as materialized (select * from rag.version) " + ask.format("v", condition),
        )
        assert direct == visible


def test_E22_what_acme_has_loaded_is_new_to_northwind(northwind: Connection) -> None:
    """No text is stored once for two tenants: nothing tells that somebody else has it."""
    for body in ("Gateway acme-secret", "Gateway that nobody has"):
        statement: LiteralString = (
            "select status from rag_api.load_documents(jsonb_build_array(jsonb_build_object("
            "'id', 'acme-secret-document', 'version', 1, 'body', %s::text)))"
        )
        assert outcome(northwind, statement, body) == (1, ("new",))


def test_E23_no_row_of_northwinds_holds_one_of_acmes(northwind: Connection, catalog: Connection) -> None:
    """A reference locks the row that it points to: none reaches another tenant's, so none can be held."""
    claims = CLAIMS % {"tenant": "acme", "document_id": "HOLD-7", "version": 2}
    for statement, value in (
        ("select rag_api.load_documents(%s::jsonb)", '[{"id": "HOLD-7", "version": 2, "body": "x"}]'),
        ("select rag_api.add_contract('hold-question', 1, %s::jsonb)", CONTENT % {"t": "x"}),
        ("select rag_api.draft_preimage(%s::jsonb)", claims),
    ):
        northwind.execute(statement.encode(), (value,))
    catalog.execute("set local lock_timeout = '1s'; set local session_replication_role = replica")
    for table in ("withdrawal", "succession", "span", "contract", "passage", "version"):
        catalog.execute(f"select from rag.{table} where tenant = 'acme' for update nowait".encode())
    catalog.rollback()


def test_D04_whatever_is_allowed_besides_a_search_finds_nothing_of_acmes(copy: Copy, server: Server) -> None:
    """The functions of rag_search are no readers: the tables of the index have fences of their own for them."""
    database = copy()
    searches = ("_stated_scopes", "_bm25_search", "_overlap_search", "_vector_search")

    def seen() -> dict[str, list[Any]]:
        with Sessions(database) as sessions, sessions.look("northwind_reader", "northwind") as cursor:
            values = wall.arguments(sessions.targets, "acme")
            return {name: cursor.execute(wall.CALLS[name].encode(), values).fetchall() for name in searches}

    before = seen()
    assert before["_stated_scopes"]
    with database.connect(SUPERUSER) as superuser:
        for table in (*wall.SIDE_TABLES, "rag.passage", "rag.withdrawal", "rag.succession", "rag.embedding_model"):
            superuser.execute(f"create policy wide on {table} for select to public using (true)".encode())
    assert seen() == before
    server.drop(database)
