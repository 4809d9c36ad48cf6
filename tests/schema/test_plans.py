"""Plans of the read path, as the runtime login: inlined, and without other tenants' rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import CASE, Database, Server

READ_PATH = {
    "ranking": "select document_id from rag_api.ranking(p_query => 'alpha beta', p_case_facts => %(case)s)",
    "eligible": "select document_id from rag_api.eligible(p_case_facts => %(case)s)",
    "eligibility": "select document_id from rag_api.eligibility(p_case_facts => %(case)s) where eligible",
    "version_status": "select document_id from rag_api.version_status() where status = 'current'",
    "witnesses": "select span_id from rag_api.witnesses(p_contract_tenant => 'acme', p_question_id => 'q',"
    " p_contract_version => 1, p_selection => array[row('acme', 'acme-1', 1, 0, 10)::rag.source_ref])",
    "missing_facts": "select fact from rag_api.missing_facts(p_contract_tenant => 'acme', p_question_id => 'q',"
    " p_contract_version => 1, p_selection => array[row('acme', 'acme-1', 1, 0, 10)::rag.source_ref])",
}


SELECTION = "select document_id from rag_api.selection(p_query => 'alpha beta', p_case_facts => %(case)s, p_k => 10)"


def fill(database: Database, documents: int, *tenants: str) -> None:
    """Documents of each tenant, as the superuser stores them: what is measured is reading."""
    with database.connect("postgres") as connection:
        for tenant in tenants:
            connection.execute("insert into rag.tenant (tenant) values (%s) on conflict do nothing", [tenant])
            # What cuts passages writes for the bound tenant alone, whoever stores the version.
            connection.execute("insert into rag_auth.membership (login, tenant) values (session_user, %s)", [tenant])
            connection.execute("select set_config('rag.tenant', %s, true)", [tenant])
            connection.execute(
                "insert into rag.version (tenant, document_id, version, body, applies_to)"
                " select %(tenant)s::text, %(tenant)s::text || '-' || n, 1, 'alpha ' || repeat('word' || n || ' ', 20),"
                " jsonb_build_object('model', jsonb_build_array('G' || n %% 5))"
                " from generate_series(1, %(documents)s::integer) as n",
                {"tenant": tenant, "documents": documents},
            )
    with database.connect("postgres", autocommit=True) as connection:
        connection.execute("vacuum analyze rag.version, rag.passage")


def crowd(first: int, last: int) -> list[str]:
    return [f"crowd-{number}" for number in range(first, last)]


@pytest.fixture(scope="module")
def crowded(server: Server, installed_template: Database) -> Iterator[Database]:
    """acme with 100 documents among twenty tenants with 200 each; for tests that only read, and the last one."""
    database = server.create(installed_template.name)
    fill(database, 100, "acme")
    fill(database, 200, *crowd(0, 20))
    yield database
    server.drop(database)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def explain(connection: psycopg.Connection[Any], statement: str) -> dict[str, Any]:
    row = connection.execute(
        f"explain (analyze, buffers, format json) {statement}".encode(), {"case": json.dumps(CASE)}
    ).fetchone()
    assert row is not None
    return dict(row[0][0]["Plan"])


@pytest.mark.parametrize("name", READ_PATH)
def test_the_planner_sees_through_the_building_blocks(crowded: Database, name: str) -> None:
    """An inlined function leaves no Function Scan of its own behind; every scan of a big table is by its tenant."""
    with crowded.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        plan = list(nodes(explain(connection, READ_PATH[name])))
    assert name not in {node.get("Function Name") for node in plan}
    scans = [node for node in plan if node.get("Relation Name") == "version"]
    assert all(node["Node Type"] != "Seq Scan" for node in scans)
    assert all("tenant" in node.get("Index Cond", node.get("Recheck Cond", "")) for node in scans)


def test_work_does_not_grow_with_other_tenants_documents(crowded: Database) -> None:
    """Law 9, in pages read rather than in time."""

    def pages() -> int:
        with crowded.connect("acme_reader") as connection:
            connection.execute("select rag_api.bind(p_tenant => 'acme')")
            explain(connection, SELECTION)  # hint bits and catalog caches
            plan = explain(connection, SELECTION)
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    before = pages()
    fill(crowded, 200, *crowd(20, 50))
    assert pages() <= before * 1.25


def test_coverage_looks_at_a_quotation_once_however_many_propositions_there_are(store: Database) -> None:
    """No product of spans and propositions: each row of a step comes from one row of the step before."""
    fill(store, 400, "acme")
    quotes = [f"word{number} word{number} " for number in range(1, 401)]
    contract = {
        "case": [],
        "facts": [
            {"fact": f"f{fact}", "propositions": [{"quote": quote, "clauses": ["x"]} for quote in quotes[fact::5][:40]]}
            for fact in range(5)
        ],
    }
    with store.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, contract)
    with store.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        spans = [
            {"document": f"acme-{number}", "version": 1, "span": "s", "fact": f"f{(number - 1) % 5}", "occurrence": 1}
            | {"quote": quote}
            for number, quote in enumerate(quotes, 1)
        ]
        connection.execute("select rag_api.add_spans(%s)", [json.dumps(spans)])
        plan = explain(connection, "select * from rag_api.fact_coverage")
    assert plan["Actual Rows"] == 200
    assert max(node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan)) < 2000


def test_a_store_that_was_just_loaded_is_read_in_one_pass(store: Database) -> None:
    """Before the first analyze the planner knows nothing of the rows; people do write a condition on the tenant."""
    with store.connect("postgres") as connection:
        connection.execute("alter table rag.version set (autovacuum_enabled = false)")
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": f"D{number}", "version": 1, "body": "text"} for number in range(300)])
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        plan = explain(connection, "select document_id, status from rag_api.version where tenant = 'acme'")
    assert plan["Actual Rows"] == 300
    assert max(node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan)) <= 300
