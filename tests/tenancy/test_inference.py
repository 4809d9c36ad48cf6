"""What a login that may run any SQL can infer about rows that it cannot see: from plans, counts and estimates.

Volume is not hidden (sizes of tables are in the catalog). Whether a hidden row has a given value must be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from rag_sql._embedded import SUPERUSER
from tests.conftest import Database, Server
from tests.tenancy.conftest import Copy
from tests.tenancy.wall import TABLES, Connection

#: Conditions on hidden rows: table, condition, a value that stands in a row of acme's, one that stands in none.
HIDDEN = (
    ("rag.attribute", "attribute = %s", "acme-secret", "acme-secreu"),
    ("rag.version", "document_id = %s", "acme-secret-document", "acme-secret-documenu"),
    ("rag.version", "tenant = 'acme' and document_id = %s", "acme-secret-document", "acme-secret-documenu"),
    ("rag.version", "tenant = %s", "acme", "acmf"),
    ("rag.version", "title = %s", "acme-secret", "acme-secreu"),
    ("rag.span", "document_id = %s", "acme-secret-document", "acme-secret-documenu"),
    ("rag.span", "span_id = %s", "acme-secret", "acme-secreu"),
    ("rag.withdrawal", "document_id = %s", "acme-secret-withdrawn", "acme-secret-withdrawo"),
    ("rag.succession", "document_id = %s", "acme-secret-superseded", "acme-secret-supersedee"),
    ("rag.contract", "question_id = %s", "hold-question", "hold-questioo"),
    ("rag.packet", "contract_tenant = 'acme' and question_id = %s", "hold-question", "hold-questioo"),
    ("rag.packet", "contract_tenant = 'public' and question_id = %s", "asked-by-acme", "asked-by-acmf"),
    ("rag.packet_source", "document_tenant = 'acme' and document_id = %s", "HOLD-7", "HOLD-8"),
    ("rag.packet_source", "document_tenant = 'public' and document_id = %s", "GW-241", "GW-242"),
    ("rag.packet_span", "document_tenant = 'acme' and document_id = %s", "HOLD-7", "HOLD-8"),
    ("rag.packet_span", "document_tenant = 'public' and document_id = %s", "GW-241", "GW-242"),
    ("rag.approval", "reviewer_name = %s", "acme-secret name", "acme-secret namf"),
)

PLANS = {
    "as the planner likes": (),
    "no sequential scan": ("enable_seqscan",),
    "no sequential and no bitmap scan": ("enable_seqscan", "enable_bitmapscan"),
    "sequential scans only": ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"),
}


@pytest.fixture(scope="module")
def filled(server: Server, copy: Copy) -> Iterator[Database]:
    """Acme alone has recorded packets on public evidence, and no statistics are there."""
    database = copy()
    fill(database)
    yield database
    server.drop(database)


@pytest.fixture(scope="module")
def analyzed(server: Server, copy: Copy) -> Iterator[Connection]:
    """The session of northwind's reader in a store with statistics."""
    database = copy()
    fill(database)
    with database.connect(SUPERUSER, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"analyze {table}".encode())
    with database.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        yield connection
    server.drop(database)


def fill(database: Database) -> None:
    """Give acme enough rows to show in statistics."""
    with database.connect(SUPERUSER) as connection:
        for table in {*TABLES, "rag_index.embedding_0"} - {"rag_index.embedding"}:  # a partitioned table has no rows
            connection.execute(f"alter table {table} set (autovacuum_enabled = false)".encode())
        connection.execute("set session_replication_role = replica")
        connection.execute(
            "insert into rag.version"
            " (tenant, document_id, version, title, body, source, recorded_by, body_length, body_sha256)"
            " select 'acme', 'bulk', i, 'hidden title', 'hidden body', 'hidden source', 'hidden_login', 11,"
            " sha256('hidden body')"
            " from generate_series(1, 1500) as i"
        )
        connection.execute(
            "insert into rag.withdrawal (tenant, document_id, version, note)"
            " select tenant, document_id, version, 'hidden note' from rag.version where document_id = 'bulk'"
        )
        connection.execute(
            "insert into rag.succession (tenant, document_id, successor_id, note)"
            " select 'acme', 'bulk', 'hidden successor', 'hidden note' union all"
            " select 'acme', 'bulk ' || i, 'hidden successor', 'hidden note' from generate_series(1, 1500) as i"
        )
        connection.execute(
            "insert into rag.packet (tenant, outcome, question_id, contract_tenant, contract_version, contract_pinned,"
            " case_facts, query, k, method, valid_at, known_at, required, missing, preimage, digest)"
            " select 'acme', 'AskForEvidence', 'asked-by-acme', 'public', 1, false, '{}', 'hidden', 3, 'overlap',"
            " now(), now(), '{hidden-fact}', '{hidden-fact}', 'hidden', sha256('hidden') from generate_series(1, 1500)"
        )
        connection.execute(
            "insert into rag.packet_source"
            " (tenant, packet_id, position, score, document_tenant, document_id, version, range_start, range_end)"
            " select tenant, packet_id, p, 1, d[1], d[2], 3, 0, 1 from rag.packet,"
            " (values (8, '{public,GW-241}'::text[]), (9, '{acme,HOLD-7}')) as v(p, d) where query = 'hidden'"
        )
        connection.execute(
            "insert into rag.packet_span (tenant, packet_id, position, document_tenant, document_id, version, span_id)"
            " select tenant, packet_id, position, document_tenant, document_id, version, 's1' from rag.packet_source"
            " where position in (8, 9)"
        )
        connection.execute(
            "insert into rag.approval (tenant, evidence_digest, draft_digest, decision_number, packet_id, shown_digest,"
            " decision, claims, reviewer_login, reviewer_name, note)"
            " select 'acme', digest, digest, row_number() over (), packet_id, digest, 'rejected', '[]', 'hidden_login',"
            " 'hidden name', 'hidden note' from rag.packet where query = 'hidden'"
        )


@pytest.fixture
def northwind(filled: Database) -> Iterator[Connection]:
    with filled.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        yield connection
        connection.rollback()


def plan(connection: Connection, options: str, table: str, condition: str, value: str) -> str:
    """The plan of a look at a table, without the value that was looked for."""
    query = f"explain ({options}) select from {table} where {condition}".encode()
    return "\n".join(line for (line,) in connection.execute(query, (value,))).replace(value, "?")


#: The same as an element of an array, and as a range: the planner takes these for half as dear as an equality,
#: and asks them before what is dearer.
CHEAPER = [
    (table, condition.replace("= %s", form), hidden, absent)
    for table, condition, hidden, absent in HIDDEN
    for form in ("= any (array[%s])", ">= any (array[%s])")
]


@pytest.mark.parametrize(("table", "condition", "hidden", "absent"), [*HIDDEN, *CHEAPER])
def test_E05_running_a_query_does_not_tell_whether_a_hidden_row_matches(
    northwind: Connection, table: str, condition: str, hidden: str, absent: str
) -> None:
    """No count of rows removed, no part of the plan that ran or did not: filters meet the tenant first (E05)."""
    options = "analyze, costs off, timing off, summary off, buffers off"
    for way, switched_off in PLANS.items():
        for setting in ("enable_seqscan", "enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"):
            northwind.execute("select set_config(%s, %s, true)", (setting, "off" if setting in switched_off else "on"))
        plans = [plan(northwind, options, table, condition, value) for value in (hidden, absent)]
        assert plans[0] == plans[1], way


@pytest.mark.parametrize(
    ("table", "condition", "hidden"),
    [
        ("rag.version", "title = %s", "hidden title"),
        ("rag.version", "source = %s", "hidden source"),
        ("rag.version", "body_sha256 = sha256(convert_to(%s, 'UTF8'))", "hidden body"),
        ("rag.version", "recorded_by = %s", "hidden_login"),
        ("rag.withdrawal", "note = %s", "hidden note"),
        ("rag.succession", "note = %s", "hidden note"),
        ("rag.succession", "successor_id = %s", "hidden successor"),
        ("rag.packet", "outcome = %s", "AskForEvidence"),
        ("rag.packet", "query = %s", "hidden"),
        ("rag.packet", "digest = sha256(convert_to(%s, 'UTF8'))", "hidden"),
        ("rag.packet", "missing @> array[%s]", "hidden-fact"),
        ("rag.packet", "%s = any (required)", "hidden-fact"),
        ("rag.approval", "decision = %s", "rejected"),
        ("rag.approval", "reviewer_login = %s", "hidden_login"),
        ("rag.approval", "reviewer_name = %s", "hidden name"),
        ("rag.approval", "note = %s", "hidden note"),
    ],
)
def test_E06_an_estimate_does_not_tell_what_hidden_rows_hold(
    analyzed: Connection, table: str, condition: str, hidden: str
) -> None:
    """Statistics span all tenants: none are kept on what tenants write."""
    assert estimate(analyzed, table, condition, hidden) == estimate(analyzed, table, condition, "absent")


@pytest.mark.xfail(strict=True, reason="plans need the statistics of keys, and they span all tenants")
@pytest.mark.parametrize(
    ("table", "condition", "hidden"),
    [
        ("rag.version", "document_id = %s", "bulk"),
        ("rag.version", "document_id between 'b' and %s", "bulz"),
        ("rag.packet_source", "document_id = %s", "HOLD-7"),
        ("rag.version", "tenant = %s", "acme"),
    ],
)
def test_E06_not_promised_an_estimate_does_not_tell_which_identifiers_are_frequent(
    analyzed: Connection, table: str, condition: str, hidden: str
) -> None:
    assert estimate(analyzed, table, condition, hidden) == estimate(analyzed, table, condition, "absent")


def estimate(connection: Connection, table: str, condition: str, value: str) -> str:
    """The plan with the numbers of rows that the planner expects, without its costs."""
    return re.sub(r"cost=\S+", "", plan(connection, "costs", table, condition, value))


def test_E08_statistics_themselves_are_hidden(analyzed: Connection) -> None:
    assert analyzed.execute("select from pg_stats where schemaname like 'rag%'").fetchall() == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        analyzed.execute("select from pg_statistic")
    analyzed.rollback()
