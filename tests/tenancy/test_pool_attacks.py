"""Attacks across a pool: what a hostile request leaves on a connection for the next one (A13, A14, A19)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rag_sql import EvidenceStore, errors
from rag_sql._embedded import SUPERUSER
from rag_sql._store import make_engine
from tests.conftest import CASE, QUERY, QUESTION, Database

#: What a statement that slips into a request of acme's does to the session, to meet northwind's there. A pool's login
#: may bind both: nothing but the end of the request keeps them apart.
POISON = (
    "set rag.tenant = 'acme'",
    "set search_path = pg_temp, rag_api, rag",
    "set statement_timeout = '1h'",
    "prepare p1 as select pg_notify('exfil', (select string_agg(body, '|') from rag.version))",
    "listen exfil",
    "declare held cursor with hold for select body from rag.version",
    "select pg_advisory_lock(7)",
    "select 1; prepare second as select 1; declare held_2 cursor with hold for select 1",
)

#: The names that psycopg gives to what it prepares, each with a statement that tells whoever listens.
REPLACED = tuple(
    f"prepare _pg3_{number} (text) as select pg_notify('exfil', $1 || (select string_agg(body, '|') from rag.version))"
    for number in range(9)
)

#: What is refused for want of a right, so that there is nothing to leave.
REFUSED = (
    "create temporary table version as select * from rag.version",
    "create function pg_temp.words(text) returns text[] return '{}'",
)

LEFT: Any = sa.text(
    "select nullif(current_setting('rag.tenant', true), ''), current_setting('search_path'),"
    " current_setting('row_security'), current_setting('statement_timeout'), session_user::text = current_user::text,"
    " (select count(*) from pg_cursors), (select count(*) from pg_prepared_statements),"
    " (select count(*) from pg_listening_channels()),"
    " (select count(*) from pg_class where relnamespace = pg_my_temp_schema()),"
    " (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"
)

SEEN: Any = sa.text("select distinct tenant from rag_api.version")

CLEAN = (None, '"$user", public', "on", "0", True, 0, 0, 0, 0, 0)


@pytest.fixture
def pool(spent: Database) -> Iterator[sa.Engine]:
    """An engine of ours with one connection, by a login that may bind both tenants."""
    engine = make_engine(spent.url("both_reader"), pool_size=1, max_overflow=0)
    yield engine
    engine.dispose()


def driver(connection: sa.Connection) -> psycopg.Connection[Any]:
    found = connection.connection.driver_connection
    assert isinstance(found, psycopg.Connection)
    return found


def left(engine: sa.Engine) -> tuple[Any, ...]:
    """What the next user of the pool finds on its connection."""
    with engine.connect() as connection:
        return tuple(connection.execute(LEFT).one())


def poison(connection: sa.Connection) -> None:
    """Everything that a hostile statement can leave on a session, with its transaction committed."""
    for statement in REFUSED:
        with pytest.raises(sa.exc.ProgrammingError, match="permission denied"), connection.begin_nested():
            connection.exec_driver_sql(statement)
    connection.exec_driver_sql(";".join(POISON))
    connection.commit()
    connection.exec_driver_sql("set row_security = off")
    connection.commit()


def sources(store: EvidenceStore, tenant: str) -> set[str]:
    """Whose evidence a decision for a tenant rests on."""
    with store.tenant(tenant) as bound:
        decision = bound.decide(QUESTION, query=QUERY, case=CASE, k=9)
        return {source.tenant for source in decision.sources}


def test_A08_A13_A14_a_thousand_hostile_requests_leave_nothing_to_the_other_tenant(pool: sa.Engine) -> None:
    """Acme's request and northwind's in turn, on one connection. Acme's is hostile whenever it comes."""
    store = EvidenceStore(pool)
    processes, notices = set[int](), list[str]()
    for _ in range(500):
        with pool.connect() as connection:
            raw = driver(connection)
            raw.add_notify_handler(lambda notice: notices.append(notice.payload))
            processes.add(raw.info.backend_pid)
            connection.exec_driver_sql("select rag_api.bind('acme')")
            poison(connection)
        with store.tenant("northwind") as northwind:
            assert tuple(northwind._binding.connection().execute(LEFT).one()) == ("northwind", *CLEAN[1:])
            assert set(northwind._binding.connection().execute(SEEN).scalars()) == {"northwind", "public"}
    assert sources(store, "northwind") == {"northwind", "public"}
    assert (len(processes), notices) == (1, [])


def test_A14_a_statement_that_was_replaced_on_a_callers_engine_is_none_of_ours(spent: Database) -> None:
    """A caller's engine prepares statements and cleans nothing: what goes by no name cannot be replaced by one."""
    engine = sa.create_engine(spent.url("both_reader"), pool_size=1, max_overflow=0)
    store, notices = EvidenceStore(engine), list[str]()
    try:
        for turn in range(500):
            with engine.connect() as connection:
                raw = driver(connection)
                if turn == 0:
                    raw.add_notify_handler(lambda notice: notices.append(notice.payload))
                connection.exec_driver_sql("close all; deallocate all; select rag_api.bind('acme')")
                connection.exec_driver_sql("; ".join((*POISON, *REPLACED)))
                connection.commit()
            with store.tenant("northwind") as northwind:
                northwind.corpus_fingerprint()
                assert set(northwind._binding.connection().execute(SEEN).scalars()) == {"northwind", "public"}
        assert sources(store, "northwind") == {"northwind", "public"}
        with engine.connect() as connection:
            assert driver(connection).prepare_threshold == 5  # as it was
            (prepared,) = connection.exec_driver_sql("select count(*) from pg_prepared_statements").one()
        assert (prepared, notices) == (2 + len(REPLACED), [])
    finally:
        engine.dispose()


def test_A14_row_security_that_is_off_on_a_callers_engine_is_an_error(spent: Database) -> None:
    with spent.engine("both_reader") as engine, engine.connect() as connection:
        connection.exec_driver_sql("set row_security = off")
        connection.commit()
        with pytest.raises(errors.NotAllowed):  # nothing can be proved, so nothing is answered
            sources(EvidenceStore(connection), "northwind")


# Nothing is left behind, whichever way a block ends


def succeed(store: EvidenceStore, _admin: psycopg.Connection[Any]) -> None:
    with store.tenant("acme") as acme:
        dirty(acme._binding.connection())


def fail_in_python(store: EvidenceStore, _admin: psycopg.Connection[Any]) -> None:
    with pytest.raises(RuntimeError), store.tenant("acme") as acme:
        dirty(acme._binding.connection())
        raise RuntimeError


def fail_in_the_database(store: EvidenceStore, _admin: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.InvalidRequest), store.tenant("acme") as acme:
        dirty(acme._binding.connection())
        acme.decide(QUESTION, query=QUERY, case=CASE, k=0)


def fail_to_bind(store: EvidenceStore, _admin: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.TenantNotBound), store.tenant("nowhere"):
        pass


def be_cancelled(store: EvidenceStore, admin: psycopg.Connection[Any]) -> None:
    with pytest.raises(sa.exc.OperationalError, match="canceling statement"), store.tenant("acme") as acme:
        dirty(acme._binding.connection())
        while_it_sleeps(acme._binding.connection(), admin, "pg_cancel_backend")


def be_terminated(store: EvidenceStore, admin: psycopg.Connection[Any]) -> None:
    with pytest.raises(sa.exc.OperationalError, match="terminating connection"), store.tenant("acme") as acme:
        dirty(acme._binding.connection())
        while_it_sleeps(acme._binding.connection(), admin, "pg_terminate_backend")


def dirty(connection: sa.Connection) -> None:
    for statement in POISON:
        connection.exec_driver_sql(statement)


def while_it_sleeps(connection: sa.Connection, admin: psycopg.Connection[Any], function: str) -> None:
    """Run a statement that another session ends as soon as it sleeps."""
    pid = connection.exec_driver_sql("select pg_backend_pid()").scalar()

    def end() -> None:
        asleep = "select wait_event = 'PgSleep' from pg_stat_activity where pid = %s"
        while admin.execute(asleep, (pid,)).fetchone() != (True,):
            time.sleep(0.002)
        admin.execute(f"select {function}(%s)".encode(), (pid,))

    ending = threading.Thread(target=end)
    ending.start()
    try:
        connection.exec_driver_sql("select pg_sleep(20)")
    finally:
        ending.join()


ENDINGS = (succeed, fail_in_python, fail_in_the_database, fail_to_bind, be_cancelled, be_terminated)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_A13_a_block_on_an_engine_of_ours_leaves_nothing_however_it_ends(
    spent: Database, pool: sa.Engine, ending: Callable[[EvidenceStore, psycopg.Connection[Any]], None]
) -> None:
    with spent.connect(SUPERUSER, autocommit=True) as admin:
        ending(EvidenceStore(pool), admin)
    assert left(pool) == CLEAN
    assert sources(EvidenceStore(pool), "northwind") == {"northwind", "public"}


@pytest.mark.parametrize(
    "ending", [succeed, fail_in_python, fail_in_the_database, be_cancelled], ids=lambda ending: ending.__name__
)
def test_A13_a_block_on_a_callers_connection_puts_the_binding_back_however_it_ends(
    spent: Database, ending: Callable[[EvidenceStore, psycopg.Connection[Any]], None]
) -> None:
    """An error in the database is the caller's to roll back: to a savepoint of its own, and its binding is there."""
    with spent.engine("both_reader") as engine, engine.connect() as connection:
        with spent.connect(SUPERUSER, autocommit=True) as admin:
            connection.execute(sa.text("select rag_api.bind(p_tenant => 'northwind')"))
            savepoint = connection.begin_nested()
            harmless = EvidenceStore(connection)
            ending(harmless, admin)
            if ending in {fail_in_the_database, be_cancelled}:
                savepoint.rollback()
            tenant = connection.exec_driver_sql("select current_setting('rag.tenant')").scalar()
            assert tenant == "northwind"


def test_A19_a_handle_whose_connection_died_acts_for_nobody_else(spent: Database, pool: sa.Engine) -> None:
    """It is dead: it does not run in the transaction that the pool opens for another tenant."""
    store = EvidenceStore(pool)
    with spent.connect(SUPERUSER, autocommit=True) as admin:
        with pytest.raises(errors.ConnectionLost), store.tenant("acme") as acme:
            pid = acme._binding.connection().exec_driver_sql("select pg_backend_pid()").scalar()
            admin.execute("select pg_terminate_backend(%s)", (pid,))
            acme.corpus_fingerprint()
    with store.tenant("northwind") as northwind:
        expected = northwind.corpus_fingerprint()
        with pytest.raises(errors.BindingLost):
            acme.corpus_fingerprint()
        assert northwind.corpus_fingerprint() == expected


def test_A19_two_tenants_at_once_have_a_connection_each(spent: Database) -> None:
    """The tenant stands on the transaction, in no variable of the process: threads do not mix them up."""
    engine = make_engine(spent.url("both_reader"), pool_size=2, max_overflow=0)
    store, seen = EvidenceStore(engine), dict[str, list[set[str]]]()

    def ask(tenant: str) -> None:
        seen[tenant] = [sources(store, tenant) for _ in range(25)]

    threads = [threading.Thread(target=ask, args=(tenant,)) for tenant in ("acme", "northwind")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.dispose()
    assert json.dumps(seen, default=sorted, sort_keys=True) == json.dumps(
        {tenant: [sorted({tenant, "public"})] * 25 for tenant in ("acme", "northwind")}
    )
