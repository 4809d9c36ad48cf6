"""A store of an earlier release, with evidence in it, is upgraded: the evidence is the same and still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from rag_sql import Claim, _admin, _files, _install, draft, errors
from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, LOGINS, QUERY, QUESTION, SEED, Database, Server
from tests.schema.fingerprint import fingerprint
from tests.stored import stored

#: Of a version's constraints, the one that the row from before breaks.
LONG_TITLE = "t" * 5000


@dataclass(frozen=True)
class Old:
    """A store at revision 0001 with the gateway corpus, a packet and an approval of it."""

    database: Database
    packet: Any
    claims: tuple[Claim, ...]


def at_first_revision(server: Server) -> Database:
    """The tables as the first release made them, by its frozen migration."""
    database = server.create()
    with database.engine(SUPERUSER) as engine:
        with engine.begin() as connection:
            connection.exec_driver_sql("create extension vector")
            _install.migrate(connection, "0001")
        for tenant in ("acme", "northwind"):
            _admin.add_tenant(engine, tenant)
        for login, (tenants, _) in LOGINS.items():
            for tenant in tenants:
                _admin.grant_tenant(engine, tenant, login)
    return database


@pytest.fixture
def old(server: Server, installed_template: Database) -> Iterator[Old]:
    assert installed_template  # has made the logins members of the groups, which are the cluster's
    database = at_first_revision(server)
    for login, folder in (("publisher", "public"), ("acme_curator", "acme"), ("northwind_curator", "northwind")):
        database.load(login, SEED / folder)
    with database.tenant("publisher") as public:
        question, version, content, _ = _files.read_contract(SEED / "contract.yaml", "public")
        public.add_contract(question, version, content)
    with database.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    claims = draft(packet)
    with database.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, claims), reviewer_name="Ann", note="as shown")
    yield Old(database, packet, claims)
    server.drop(database)


def constraints(database: Database) -> set[str]:
    """Constraints that new rows must keep and an old one breaks."""
    with database.connect(SUPERUSER) as connection:
        rows = connection.execute("select conname from pg_constraint where contype = 'c' and not convalidated")
        return {row[0] for row in rows}


def without_revision(found: dict[str, tuple[int, str]]) -> dict[str, tuple[int, str]]:
    return {table: rows for table, rows in found.items() if table != "rag.alembic_version"}


def upgrade(database: Database) -> None:
    with database.engine(SUPERUSER) as engine:
        found = _install.status(engine)
        assert (found.state, found.revision) == ("outdated", "0001")
        assert _install.upgrade(engine).state == "current"


def test_evidence_packets_and_approvals_hold_after_the_upgrade(old: Old, store: Database) -> None:
    with old.database.connect(SUPERUSER) as superuser, old.database.tenant("acme_reader") as acme:
        before, seen = without_revision(stored(superuser)), acme.corpus_fingerprint()
    upgrade(old.database)
    assert (fingerprint(old.database), constraints(old.database)) == (fingerprint(store), set())
    with old.database.connect(SUPERUSER) as superuser:
        assert without_revision(stored(superuser)) == before
    with old.database.tenant("acme_reader") as acme:
        assert acme.packet(old.packet.packet_id).document == old.packet.document
        assert acme.packet(old.packet.packet_id).verify() == []
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).digest == old.packet.digest
        assert (acme.corpus_fingerprint(), acme.span_check()) == (seen, [])
        assert acme.evidence_changes(old.packet.packet_id) == []
        assert acme.require_approval(old.packet.packet_id, old.claims).reviewer_name == "Ann"
        (decision,) = acme.approvals()
        assert decision.status == "approved"
        again = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
        assert acme.require_approval(again.packet_id, old.claims).reviewer_name == "Ann"
    with old.database.tenant("acme_curator") as acme:
        _files.load(acme, _files.find_files([SEED / "changes" / "HOLD-7-v4-same-quotation.md"]), _files.Defaults())
    with (
        old.database.store("acme_reader") as opened,
        pytest.raises(errors.StaleApproval),
        opened.tenant("acme") as acme,
    ):
        acme.require_approval(old.packet.packet_id, old.claims)


def test_a_row_that_is_longer_than_is_allowed_now_stays_and_stops_nothing(old: Old) -> None:
    """Evidence is never changed: a store must upgrade with what it holds, and refuse the next such row."""
    insert = (
        "insert into rag.version (tenant, document_id, version, title, body) values ('acme', %s, 1, %s, 'cafe\u0301')"
    )
    cut = (
        "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
        " values ('acme', 'LONG', 1, 's', 'f', 'cafe')"
    )
    with old.database.connect("acme_curator") as curator:
        curator.execute("select rag_api.bind(p_tenant => 'acme')")
        curator.execute(insert, ["LONG", LONG_TITLE])
        curator.execute(cut)
    upgrade(old.database)
    assert constraints(old.database) == {"version_title_fits"}
    with old.database.tenant("acme_reader") as acme:
        assert acme.span_check() == []
        assert acme.require_approval(old.packet.packet_id, old.claims)
    with old.database.connect("acme_curator") as curator:
        for statement, parameters, sqlstate in (
            (insert, ["LONGER", LONG_TITLE], "23514"),
            (cut.replace("'s'", "'t'"), [], "RS026"),
        ):
            curator.execute("select rag_api.bind(p_tenant => 'acme')")
            with pytest.raises(psycopg.Error) as caught:
                curator.execute(statement.encode(), parameters)
            assert caught.value.sqlstate == sqlstate
            curator.rollback()
