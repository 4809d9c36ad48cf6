"""Binding from Python: one transaction, nothing left on the connection, the caller's connections as they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from rag_sql import EvidenceStore, _admin, draft, errors
from rag_sql._embedded import SUPERUSER
from rag_sql._store import make_engine
from tests.conftest import CASE, QUERY, QUESTION, SERVICE_KEY, Database, Server


def asserted(connection: sa.Connection) -> str | None:
    value = connection.execute(sa.text("select nullif(current_setting('rag.tenant', true), '')")).scalar()
    return None if value is None else str(value)


def asserted_tenant(connection: sa.Connection) -> str:
    """The tenant of an assertion, which may be signed."""
    return (asserted(connection) or "").partition(":")[0]


def test_a_block_on_an_engine_commits_and_leaves_nothing_bound(gateway: Database) -> None:
    engine = make_engine(gateway.url("acme_curator"), pool_size=1, max_overflow=0)
    store = EvidenceStore(engine)
    with store.tenant("acme") as acme:
        acme.load_documents([{"id": "D", "version": 1, "body": "text"}])
    with engine.connect() as connection:
        assert asserted(connection) is None
    with store.tenant("acme") as acme:
        assert acme.load_documents([{"id": "D", "version": 1, "body": "text"}])[0].status == "same"
    engine.dispose()


def test_a_block_on_an_engine_that_fails_stores_nothing(gateway: Database) -> None:
    with gateway.store("acme_curator") as store:
        with pytest.raises(RuntimeError), store.tenant("acme") as acme:
            acme.load_documents([{"id": "D", "version": 1, "body": "text"}])
            raise RuntimeError
        with store.tenant("acme") as acme:
            assert acme.load_documents([{"id": "D", "version": 1, "body": "text"}])[0].status == "new"


def test_an_engine_of_ours_gives_back_clean_connections(gateway: Database) -> None:
    engine = make_engine(gateway.url("acme_reader"), pool_size=1, max_overflow=0)
    with engine.connect() as connection:
        pid = connection.execute(sa.text("select pg_backend_pid()")).scalar()
        connection.exec_driver_sql("set rag.tenant = 'acme'")
        connection.exec_driver_sql("declare c cursor with hold for select 1")
        connection.exec_driver_sql("listen somebody")
        connection.exec_driver_sql("prepare p as select 1")
        connection.exec_driver_sql("select pg_advisory_lock(7)")
        connection.commit()
    with engine.connect() as connection:
        assert connection.execute(sa.text("select pg_backend_pid()")).scalar() == pid
        assert asserted(connection) is None
        left = connection.execute(
            sa.text(
                "select (select count(*) from pg_cursors), (select count(*) from pg_listening_channels()),"
                " (select count(*) from pg_prepared_statements),"
                " (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"
            )
        ).one()
        assert tuple(left) == (0, 0, 0, 0)
    engine.dispose()


def test_a_block_on_the_callers_connection_does_not_commit_and_puts_the_binding_back(gateway: Database) -> None:
    with gateway.engine("both_reader") as engine, engine.connect() as connection:
        connection.execute(sa.text("select rag_api.bind(p_tenant => 'northwind')"))
        store = EvidenceStore(connection)
        with store.tenant("acme") as acme:
            packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
            with store.tenant(None) as nobody:
                assert nobody.decide(QUESTION, query=QUERY, case=CASE, k=2).missing == ("audit-constraint",)
            assert acme.packet(packet.packet_id) == packet
        assert asserted(connection) == "northwind"
        connection.rollback()
    with gateway.store("acme_reader") as store, pytest.raises(errors.PacketNotFound), store.tenant("acme") as acme:
        acme.packet(packet.packet_id)


def test_a_block_on_the_callers_session_joins_its_transaction(gateway: Database) -> None:
    with gateway.engine("acme_reader") as engine, Session(engine) as session:
        with EvidenceStore(session).tenant("acme") as acme:
            packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
        assert asserted(session.connection()) is None
        session.commit()
    with gateway.tenant("acme_reader") as acme:
        assert acme.packet(packet.packet_id).digest == packet.digest


def test_after_the_caller_commits_the_binding_is_gone_and_said_to_be(gateway: Database) -> None:
    """Public alone could miss the tenant's own exception, so nothing is answered."""
    with gateway.engine("acme_reader") as engine, engine.connect() as connection:
        with EvidenceStore(connection).tenant("acme") as acme:
            connection.commit()
            with pytest.raises(errors.BindingLost):
                acme.decide(QUESTION, query=QUERY, case=CASE, k=2)


def test_a_tenant_object_is_of_no_use_after_its_block(gateway: Database) -> None:
    with gateway.engine("acme_reader") as engine, engine.connect() as connection, Session(engine) as session:
        for bind in (engine, connection, session):
            with EvidenceStore(bind).tenant("acme") as acme:
                pass
            with pytest.raises(errors.BindingLost):
                acme.corpus_fingerprint()
            with pytest.raises(errors.BindingLost), acme.savepoint():
                pass


KEYS = pytest.mark.parametrize(("login", "key"), [("both_reader", ""), ("service", str(SERVICE_KEY))])


@KEYS
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_session_is_bound_again_in_each_transaction_of_the_block(
    gateway: Database, login: str, key: str, ending: str
) -> None:
    with gateway.engine(login) as engine, Session(engine) as session:
        with EvidenceStore(session, tenant_key=key).tenant("acme") as acme:
            expected = acme.decide(QUESTION, query=QUERY, case=CASE, k=2).digest
            for _ in range(2):
                getattr(session, ending)()
                assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).digest == expected
                getattr(session, ending)()
                # Also for statements of the caller's own, and inside a savepoint.
                assert asserted_tenant(session.connection()) == "acme"
                with session.begin_nested():
                    assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).digest == expected
        assert asserted(session.connection()) is None
        session.commit()
        assert asserted(session.connection()) is None


@KEYS
def test_a_session_is_bound_again_after_an_error(gateway: Database, login: str, key: str) -> None:
    with gateway.engine(login) as engine, Session(engine) as session:
        with EvidenceStore(session, tenant_key=key).tenant("acme") as acme:
            with pytest.raises(errors.InvalidRequest):
                acme.decide(QUESTION, query=QUERY, case=CASE, k=0)
            session.rollback()
            assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient


@KEYS
def test_a_savepoint_of_a_session_that_is_rolled_back_leaves_it_bound(gateway: Database, login: str, key: str) -> None:
    with gateway.engine(login) as engine, Session(engine) as session:
        with EvidenceStore(session, tenant_key=key).tenant("acme") as acme:
            savepoint = session.begin_nested()
            with pytest.raises(errors.InvalidRequest):
                acme.decide(QUESTION, query=QUERY, case=CASE, k=0)
            savepoint.rollback()
            assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient


@KEYS
def test_blocks_of_a_session_within_each_other_each_have_their_tenant_in_every_transaction(
    gateway: Database, login: str, key: str
) -> None:
    with gateway.engine(login) as engine, Session(engine) as session:
        store = EvidenceStore(session, tenant_key=key)
        with store.tenant("northwind"):
            with store.tenant("acme") as acme:
                session.commit()
                assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient
                assert asserted_tenant(session.connection()) == "acme"
            assert asserted_tenant(session.connection()) == "northwind"
            session.commit()
            assert asserted_tenant(session.connection()) == "northwind"
        assert asserted(session.connection()) is None


def test_a_session_that_cannot_be_bound_again_raises(gateway: Database) -> None:
    """Public alone could miss the tenant's own exception."""
    with gateway.engine("acme_reader") as engine, gateway.engine(SUPERUSER) as admin, Session(engine) as session:
        with EvidenceStore(session).tenant("acme") as acme:
            session.commit()
            _admin.revoke_tenant(admin, "acme", "acme_reader")
            with pytest.raises(errors.TenantNotBound):
                acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
            session.rollback()
            with pytest.raises(errors.TenantNotBound):
                session.execute(sa.text("select 1"))
        session.rollback()
        assert asserted(session.connection()) is None


def test_a_sessions_other_database_is_left_alone(gateway: Database, store: Database) -> None:
    with gateway.engine("acme_reader") as engine, store.engine("acme_reader") as other, Session(engine) as session:
        with EvidenceStore(session).tenant("acme") as acme:
            elsewhere = session.connection(bind_arguments={"bind": other})
            assert asserted(elsewhere) is None
            assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient


def test_a_signed_binding_of_the_callers_is_put_back(gateway: Database) -> None:
    with gateway.engine("service") as engine, engine.connect() as connection:
        signing, asking = (EvidenceStore(connection, tenant_key=key) for key in (str(SERVICE_KEY), ""))
        with signing.tenant("northwind") as northwind:
            with asking.tenant(None):
                assert asserted(connection) is None
            with signing.tenant("acme"):
                assert asserted_tenant(connection) == "acme"
            assert asserted_tenant(connection) == "northwind"
            assert northwind.decide(QUESTION, query=QUERY, case=CASE, k=9).sources[0].tenant in {"northwind", "public"}


def test_a_key_comes_from_the_environment_where_none_is_given(gateway: Database, monkeypatch: Any) -> None:
    monkeypatch.setenv("RAG_SQL_TENANT_KEY", str(SERVICE_KEY))
    with EvidenceStore.connect(gateway.url("service")) as store, store.tenant("acme") as acme:
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient
    with EvidenceStore.connect(gateway.url("acme_reader"), tenant_key="") as store, store.tenant("acme") as acme:
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient
    other = str(replace(SERVICE_KEY, secret=bytes(32)))
    with (
        EvidenceStore.connect(gateway.url("service"), tenant_key=other) as store,
        pytest.raises(errors.SignatureRefused),
        store.tenant("acme"),
    ):
        pass
    monkeypatch.setenv("RAG_SQL_TENANT_KEY", "no key")
    with pytest.raises(errors.InvalidRequest):
        EvidenceStore.connect(gateway.url("service"))


def test_signing_takes_one_round_trip_more(gateway: Database) -> None:
    sent: dict[str, list[str]] = {}
    for login, key in (("acme_reader", ""), ("service", str(SERVICE_KEY))):
        with gateway.engine(login) as engine:
            noted = sent.setdefault(login, [])

            @sa.event.listens_for(engine, "before_cursor_execute")
            def _note(_c: object, _cursor: object, statement: str, *_rest: object, noted: Any = noted) -> None:
                noted.append(statement)

            with EvidenceStore(engine, tenant_key=key).tenant("acme") as acme:
                acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    assert len(sent["service"]) == len(sent["acme_reader"]) + 1 == 3


def test_what_is_signed_for_reading_alone_changes_nothing(gateway: Database) -> None:
    with gateway.store("acme_reader") as store, pytest.raises(errors.InvalidRequest):
        with store.tenant("acme", read_only=True):
            pass
    with gateway.engine("service") as engine, gateway.engine(SUPERUSER) as admin:
        _admin.grant_tenant(admin, "acme", "service")  # what is signed counts, whatever is granted
        store = EvidenceStore(engine, tenant_key=str(SERVICE_KEY))
        document = {"id": "D", "version": 1, "body": "text"}
        with store.tenant("acme", read_only=True) as acme:
            packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
            with pytest.raises(errors.MayOnlyRead), acme.savepoint():
                acme.load_documents([document])
            with pytest.raises(errors.MayOnlyRead), acme.savepoint():
                acme.approve(acme.review(packet.packet_id, draft(packet)))
        with store.tenant("acme") as acme:
            assert acme.load_documents([document])[0].status == "new"
            assert acme.approve(acme.review(packet.packet_id, draft(packet))) == 1


def test_a_savepoint_that_is_rolled_back_does_not_lose_the_binding(gateway: Database) -> None:
    with gateway.engine("acme_reader") as engine, engine.connect() as connection:
        with EvidenceStore(connection).tenant("acme") as acme:
            savepoint = connection.begin_nested()
            with pytest.raises(errors.InvalidRequest):
                acme.decide(QUESTION, query=QUERY, case=CASE, k=0)
            savepoint.rollback()
            assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient


def test_a_savepoint_that_was_there_before_takes_the_binding_along(gateway: Database) -> None:
    """Public alone could miss the tenant's own exception, so nothing is answered."""
    with gateway.engine("acme_reader") as engine, engine.connect() as connection, Session(engine) as session:
        connection.begin()
        for bind in (connection, session):
            savepoint = bind.begin_nested()
            with EvidenceStore(bind).tenant("acme") as acme:
                savepoint.rollback()
                with pytest.raises(errors.BindingLost):
                    acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
            savepoint = bind.begin_nested()
            with EvidenceStore(bind).tenant("acme"):
                savepoint.commit()
            assert asserted(bind if isinstance(bind, sa.Connection) else bind.connection()) is None


def test_a_failed_transaction_of_the_callers_is_left_to_the_caller(gateway: Database) -> None:
    with gateway.engine("acme_reader") as engine, engine.connect() as connection:
        with pytest.raises(errors.InvalidRequest), EvidenceStore(connection).tenant("acme") as acme:
            acme.decide(QUESTION, query=QUERY, case=CASE, k=0)
        connection.rollback()
        assert asserted(connection) is None


def test_a_connection_that_commits_every_statement_is_refused(gateway: Database) -> None:
    with gateway.engine("acme_reader") as engine:
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        with connection, pytest.raises(errors.BindingLost), EvidenceStore(connection).tenant("acme"):
            pass


def test_a_database_without_a_store_says_so(server: Server) -> None:
    empty = server.create()
    try:
        with empty.store("acme_reader") as store, pytest.raises(errors.NotInstalled), store.tenant("acme"):
            pass
    finally:
        server.drop(empty)


def test_a_login_in_no_group_is_told(gateway: Database) -> None:
    with gateway.store("outsider") as store, pytest.raises(errors.NotAllowed), store.tenant(None):
        pass


def test_a_call_is_one_round_trip(gateway: Database) -> None:
    """Counted by the driver's own log of what it sends."""
    with gateway.engine("acme_reader") as engine, engine.connect() as connection:
        sent: list[str] = []

        @sa.event.listens_for(connection, "before_cursor_execute")
        def _note(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
            sent.append(statement)

        with EvidenceStore(connection).tenant("acme") as acme:
            sent.clear()
            acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
            acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
            assert len(sent) == 2
