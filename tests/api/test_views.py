"""The views that a person opens in psql: what covers a fact, what a packet rests on, withdrawals, own tenants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.conftest import CASE, QUERY, QUESTION, Database, Server

Connection = psycopg.Connection[Any]

COVERAGE: LiteralString = (
    "select contract_tenant, fact, is_covered, tenant, document_id, version, span_id from rag_api.fact_coverage"
)
GATEWAY = "G2 firmware 2.4.1 may stop sending telemetry after a reconnect."
HOLD = "While an audit hold is active, collect a diagnostic export and do not roll back firmware"


@pytest.fixture(scope="module")
def database(server: Server, gateway_template: Database) -> Iterator[Database]:
    """The gateway corpus; every test rolls back."""
    found = server.create(gateway_template.name)
    yield found
    server.drop(found)


@pytest.fixture
def curator(database: Database) -> Iterator[Connection]:
    with database.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        yield connection
        connection.rollback()


def rows(connection: Connection, query: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
    return connection.execute(query, values or None).fetchall()


def add_contract(connection: Connection, question: str, version: int, **facts: list[str]) -> None:
    content = {
        "case": [],
        "facts": [
            {"fact": fact, "propositions": [{"quote": quote, "clauses": [quote]} for quote in quotes]}
            for fact, quotes in facts.items()
        ],
    }
    connection.execute("select rag_api.add_contract(%s, %s, %s)", (question, version, Jsonb(content)))


def load(connection: Connection, identifier: str, version: int, body: str, **spans: str) -> None:
    """Load a document whose spans, by fact, are named after it."""
    document = {
        "id": identifier,
        "version": version,
        "body": body,
        "spans": [{"id": fact, "fact": fact, "quote": quote} for fact, quote in spans.items()],
    }
    connection.execute("select rag_api.load_documents(%s)", (Jsonb([document]),))


# fact_coverage


def test_a_fact_is_covered_by_the_spans_that_quote_its_propositions(curator: Connection) -> None:
    assert rows(curator, COVERAGE) == [
        ("public", "known-issue", True, "public", "GW-241", 3, "s1"),
        ("public", "audit-constraint", True, "acme", "HOLD-7", 2, "s1"),
    ]


def test_another_tenant_has_the_fact_and_nothing_that_covers_it(database: Database) -> None:
    with database.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        assert rows(connection, COVERAGE + " where not is_covered") == [
            ("public", "audit-constraint", False, None, None, None, None)
        ]


def test_a_label_covers_nothing(curator: Connection) -> None:
    """The text has turned under the old label: the fact is not covered any more, as a decision would find."""
    load(curator, "HOLD-7", 3, "While an audit hold is active, roll back.", **{"audit-constraint": "roll back"})
    assert rows(curator, COVERAGE + " where fact = 'audit-constraint'") == [
        ("public", "audit-constraint", False, None, None, None, None)
    ]


def test_a_withdrawn_version_covers_nothing(curator: Connection) -> None:
    curator.execute("select rag_api.withdraw_version('HOLD-7', 2)")
    assert rows(curator, "select fact from rag_api.fact_coverage where not is_covered") == [("audit-constraint",)]


def test_a_fact_that_several_spans_cover_has_a_row_for_each(curator: Connection) -> None:
    load(curator, "HOLD-8", 1, HOLD, **{"audit-constraint": HOLD})
    assert rows(curator, "select document_id from rag_api.fact_coverage where fact = 'audit-constraint'") == [
        ("HOLD-7",),
        ("HOLD-8",),
    ]


def test_a_fact_is_covered_by_any_of_its_propositions(curator: Connection) -> None:
    add_contract(curator, "other", 1, **{"known-issue": ["What nobody wrote.", GATEWAY]})
    assert rows(curator, COVERAGE + " where question_id = 'other'") == [
        ("acme", "known-issue", True, "public", "GW-241", 3, "s1")
    ]


def test_coverage_is_of_the_contract_that_a_question_gets(curator: Connection) -> None:
    """The tenant's own wins over the public one; of its versions the newest."""
    add_contract(curator, QUESTION, 1, first=["one"])
    add_contract(curator, QUESTION, 2, second=["two"])
    assert rows(curator, COVERAGE) == [("acme", "second", False, None, None, None, None)]
    assert rows(curator, "select tenant, version from rag_api.contract where is_in_force") == [("acme", 2)]
    assert rows(curator, "select contract_tenant from rag_api.decide(%s, 'x', '{}', 1)", QUESTION) == [("acme",)]


def test_the_publisher_sees_the_public_contract_in_force(database: Database) -> None:
    with database.connect("publisher") as connection:
        connection.execute("select rag_api.bind('public')")
        assert rows(connection, "select tenant, version from rag_api.contract where is_in_force") == [("public", 1)]


# packet_span


def test_a_packet_rests_on_the_quotations_that_it_had_then(curator: Connection) -> None:
    curator.execute("select rag_api.record_packet(%s, %s, %s, 2)", (QUESTION, QUERY, Jsonb(CASE)))
    rests_on: LiteralString = (
        "select position, document_id, span_id, is_witness, quote from rag_api.packet_span order by 1"
    )
    expected = [(1, "GW-241", "s1", True, GATEWAY), (2, "HOLD-7", "s1", True, HOLD)]
    assert rows(curator, rests_on) == expected
    curator.execute(
        "select rag_api.add_spans(%s)",
        (Jsonb([{"document": "HOLD-7", "version": 2, "span": "s2", "fact": "x", "quote": "refused"}]),),
    )
    assert rows(curator, rests_on) == expected


def test_a_span_under_the_right_label_is_no_witness(curator: Connection) -> None:
    load(curator, "HOLD-7", 3, "An audit hold rollback.", **{"audit-constraint": "An audit hold"})
    curator.execute("select rag_api.record_packet(%s, %s, %s, 2)", (QUESTION, QUERY, Jsonb(CASE)))
    assert rows(curator, "select document_id, fact, is_witness from rag_api.packet_span order by position") == [
        ("GW-241", "known-issue", True),
        ("HOLD-7", "audit-constraint", False),
    ]
    assert rows(curator, "select outcome, missing from rag_api.packet") == [("AskForEvidence", ["audit-constraint"])]


# withdrawal, membership


def test_withdrawals_are_listed_with_their_note(curator: Connection) -> None:
    curator.execute("select rag_api.withdraw_version('HOLD-7', 2, '2026-01-01', 'the audit is over')")
    assert rows(
        curator, "select tenant, document_id, version, withdrawn_from::date::text, note from rag_api.withdrawal"
    ) == [("acme", "HOLD-7", 2, "2026-01-01", "the audit is over")]


def test_who_asserted_the_wrong_tenant_learns_which_it_may_bind(database: Database) -> None:
    with database.connect("both_reader", autocommit=True, options="-c rag.tenant=nowhere") as connection:
        with pytest.raises(psycopg.Error, match="is not bound to login"):
            connection.execute("table rag_api.document")
        assert rows(connection, "table rag_api.membership") == [("acme", True), ("northwind", True)]
