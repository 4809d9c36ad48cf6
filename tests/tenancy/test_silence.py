"""What catalogs, activity, notifications, logs and messages tell: nothing of what a tenant wrote (E06, E11 to E18)."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator

import psycopg
import pytest
import sqlalchemy as sa

from rag_sql import EvidenceStore, Tenant, errors
from rag_sql._embedded import SUPERUSER
from rag_sql._store import make_engine
from rag_sql.errors import RagSqlError
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database
from tests.tenancy import wall
from tests.tenancy.wall import Connection

MARKS = (*wall.MARKS["acme"], *wall.MARKS["northwind"])

SECRET = "zanzibar-secret"

#: A document, and what goes wrong with it or with what is asked about it; each has the secret somewhere.
DOCUMENT = {"id": SECRET, "version": 1, "title": SECRET, "body": f"It is {SECRET}.", "source": SECRET}


def work(acme: Tenant) -> None:
    """Load, decide, record, hand over, audit."""
    acme.load_documents([DOCUMENT])
    acme.decide(QUESTION, query=f"{QUERY} {SECRET}", case=CASE, k=5)
    packet = acme.record_packet(QUESTION, query=f"{QUERY} {SECRET}", case=CASE, k=5)
    trace = acme.record_trace(packet.packet_id)
    acme.record_answer(trace.trace_id, f"{SECRET} [P1].", ["P1"], prompt_version="1", model=SECRET)
    acme.explain(QUESTION, query=SECRET, case=CASE, k=5)
    acme.withdraw_version(SECRET, 1, note=SECRET)


FAILURES: dict[str, Callable[[Tenant], object]] = {
    "conflict": lambda acme: acme.load_documents([DOCUMENT, DOCUMENT | {"body": f"Other {SECRET}"}]),
    "quotation": lambda acme: acme.load_documents(
        [DOCUMENT | {"version": 2, "spans": [{"id": "s", "fact": "f", "quote": f"Not {SECRET}"}]}]
    ),
    "constraint": lambda acme: acme._binding.connection().execute(
        sa.text("insert into rag.version (tenant, document_id, version, title, body) values ('acme', 'X', 0, :s, :s)"),
        {"s": SECRET},
    ),
    "case": lambda acme: acme.decide(QUESTION, query=SECRET, case={"model": SECRET}, k=5),
    "contract": lambda acme: acme.add_contract(SECRET, 1, {"facts": SECRET}),
    "packet": lambda acme: acme.packet("00000000-0000-4000-8000-000000000000"),
}


def test_E12_nothing_that_a_tenant_wrote_is_logged_at_any_level(
    gateway: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Every logger says all it can, SQLAlchemy's too as far as nobody has asked it to echo."""
    for name in ["rag_sql", "psycopg", "psycopg.pool", *logging.root.manager.loggerDict]:
        if not name.startswith("sqlalchemy"):
            caplog.set_level(logging.DEBUG, logger=name)
    caplog.set_level(logging.DEBUG)
    engine = make_engine(gateway.url("acme_curator"), pool_size=1, max_overflow=0)
    store = EvidenceStore(engine)
    with store.tenant("acme") as acme:
        work(acme)
    for fail in FAILURES.values():
        with pytest.raises((RagSqlError, sa.exc.DBAPIError)), store.tenant("acme") as acme:
            fail(acme)
    with pytest.raises(errors.TenantNotBound), store.tenant(SECRET):
        pass
    gateway.load("acme_curator", SEED / "acme")
    engine.dispose()
    assert SECRET not in caplog.text
    assert "HOLD-7" not in caplog.text


@pytest.mark.parametrize("failure", ["constraint", "case"])
def test_E12_the_trace_of_an_error_repeats_no_parameter(gateway: Database, failure: str) -> None:
    """What an application logs of an error is its text and its causes: they hold no values that were sent."""
    engine = make_engine(gateway.url("acme_curator"))
    caught: BaseException | None = None
    try:
        with EvidenceStore(engine).tenant("acme") as acme:
            acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
            if failure == "case":
                acme.decide(QUESTION, query=SECRET, case=CASE, k=0)
            FAILURES[failure](acme)
    except (RagSqlError, sa.exc.DBAPIError) as error:
        caught = error
    engine.dispose()
    assert caught is not None
    assert SECRET not in "".join(traceback.format_exception(caught))


def test_E12_echo_that_somebody_asked_for_hides_what_is_sent(
    gateway: Database, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine(gateway.url("acme_curator"), echo=True)
    with EvidenceStore(engine).tenant("acme") as acme:
        acme.load_documents([DOCUMENT])
    engine.dispose()
    assert "rag_api.load_documents" in caplog.text
    assert SECRET not in caplog.text


def test_E13_E14_activity_of_another_login_is_masked_and_names_no_tenant(spent: Database) -> None:
    with spent.engine("acme_reader") as engine, EvidenceStore(engine).tenant("acme") as acme:
        acme.decide(QUESTION, query="acme-secret", case=CASE, k=2)
        with spent.connect("northwind_reader") as other:
            rows = other.execute(
                "select query, application_name, backend_xmin from pg_stat_activity where usename = 'acme_reader'"
            ).fetchall()
    assert {(query, name) for query, name, _ in rows} == {("<insufficient privilege>", "")}


def test_E15_E16_what_acme_does_is_announced_and_locked_for_nobody_to_see(spent: Database) -> None:
    """No notification, and no lock with a key that somebody could compute: the one that there is, is random."""
    runs_at_run_time = "pg_notify|advisory|\\mnotify\\M"
    with spent.connect(SUPERUSER) as connection:
        keys = connection.execute("select count(distinct lock_key), count(*) from rag_index.bucket").fetchone()
        assert keys is not None
        assert keys[0] == keys[1] > 2
        assert connection.execute(
            "select proname from pg_proc where pronamespace::regnamespace::text like 'rag%%'"
            " and prosrc || coalesce(prosqlbody::text, '') ~* %s order by 1",
            (runs_at_run_time,),
        ).fetchall() == [("_store_embeddings",), ("erase",)]  # both by the keys of buckets
        (default,) = connection.execute(
            "select pg_get_expr(adbin, adrelid) from pg_attrdef join pg_attribute on attrelid = adrelid"
            " and attnum = adnum where attrelid = 'rag_index.bucket'::regclass and attname = 'lock_key'"
        ).fetchall()
        assert "gen_random_uuid()" in default[0]
    with spent.connect("northwind_reader", autocommit=True) as listener:
        for channel in ("rag", "rag_sql", "acme"):
            listener.execute(f"listen {channel}".encode())
        with spent.engine("acme_curator") as engine, engine.connect() as connection:
            with EvidenceStore(connection).tenant("acme") as acme:
                acme.load_documents([DOCUMENT])
                acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
                locks = listener.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone()
            connection.rollback()
        assert list(listener.notifies(timeout=0)) == []
    assert locks == (0,)


#: What any login reads of the catalog, as text.
CATALOGS = (
    "pg_class", "pg_attribute", "pg_attrdef", "pg_proc", "pg_policies", "pg_constraint", "pg_description",
    "pg_shdescription", "pg_namespace", "pg_trigger", "pg_rewrite", "pg_type", "pg_enum", "pg_indexes",
    "pg_db_role_setting", "pg_settings", "pg_publication", "pg_seclabel", "pg_stats", "pg_stats_ext",
)  # fmt: skip


@pytest.mark.parametrize("catalog", CATALOGS)
def test_E17_the_catalog_holds_nothing_of_a_tenant_and_not_its_name(spent: Database, catalog: str) -> None:
    with spent.connect("northwind_reader") as connection:
        text = json.dumps(connection.execute(f"select t::text from pg_catalog.{catalog} t".encode()).fetchall())
    assert not [mark for mark in (*MARKS, "northwind") if mark in text]


def test_E18_the_server_prints_trees_to_the_client_without_a_row_in_them(spent: Database) -> None:
    said: list[str] = []
    with spent.connect("northwind_reader") as connection:
        connection.add_notice_handler(lambda notice: said.append(f"{notice.message_primary}{notice.message_detail}"))
        connection.execute("select rag_api.bind('northwind')")
        for setting in ("debug_print_parse", "debug_print_rewritten", "debug_print_plan"):
            connection.execute("select set_config(%s, 'on', true)", (setting,))
        connection.execute("set local client_min_messages = debug5")
        connection.execute("select count(*) from rag.version where title = 'x'")
        connection.execute("select * from rag_api.explain(%s, %s, %s, 9)", (QUESTION, QUERY, json.dumps(CASE)))
        for library in ("auto_explain", "pg_stat_statements"):
            with pytest.raises(psycopg.Error), connection.transaction():
                connection.execute(f"load '{library}'".encode())
    assert len(said) > 3
    assert not [mark for mark in wall.MARKS["acme"] if mark in "".join(said)]


def test_E11_a_constraint_that_fails_repeats_no_row(northwind_writes: Connection) -> None:
    """Row-level security takes the values out of the detail; a limit and a key say their name and no more."""
    version, withdrawal = "insert into rag.version (tenant, document_id, version, body)", "insert into rag.withdrawal"
    for statement in (
        f"{version} values ('northwind', 'X', 0, 'northwind-secret')",
        f"{version} values ('northwind', 'PRIVATE', 1, 'northwind-secret')",
        f"{withdrawal} (tenant, document_id, version, note) values ('northwind', 'NO', 1, 'northwind-secret')",
    ):
        with pytest.raises(psycopg.errors.IntegrityError) as caught, northwind_writes.transaction():
            northwind_writes.execute(statement.encode())
        said = caught.value.diag
        assert "northwind-secret" not in f"{said.message_primary}{said.message_detail}{said.context}"


@pytest.fixture
def northwind_writes(spent: Database) -> Iterator[Connection]:
    with spent.connect("northwind_curator") as connection:
        connection.execute("select rag_api.bind('northwind')")
        yield connection
        connection.rollback()
