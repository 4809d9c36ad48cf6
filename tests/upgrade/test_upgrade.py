"""A store of an earlier release, with evidence in it, is upgraded: the evidence is the same and still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rag_sql import Claim, _install, draft, errors
from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database, Server
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


def at_first_revision(server: Server, source: Database) -> Database:
    """A store as the first release left it: tables by its frozen migration, rows of a store that was loaded today."""
    database = server.create()
    with database.engine(SUPERUSER) as engine, engine.begin() as connection:
        connection.exec_driver_sql("create extension vector")
        _install._run(connection, "security", only="000")
        connection.exec_driver_sql("set local role rag_owner")
        _install._alembic_command("upgrade", connection, "0001")
    with database.connect(SUPERUSER) as old, source.connect(SUPERUSER) as new:
        old.execute("set session_replication_role = replica")
        for table, columns in old.execute(
            "select attrelid::regclass::text, array_agg(attname::text order by attnum) from pg_attribute"
            " join pg_class on pg_class.oid = attrelid where relnamespace::regnamespace::text in ('rag', 'rag_auth')"
            " and relkind = 'r' and relname <> 'alembic_version' and attnum > 0 and attgenerated = '' group by attrelid"
        ).fetchall():
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            qualified = sql.Identifier(*table.split("."))
            with (
                new.cursor().copy(sql.SQL("copy (select {} from {}) to stdout").format(names, qualified)) as read,
                old.cursor().copy(sql.SQL("copy {} ({}) from stdin").format(qualified, names)) as write,
            ):
                for data in read:
                    write.write(data)
    return database


@pytest.fixture
def old(server: Server, gateway: Database) -> Iterator[Old]:
    with gateway.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    claims = draft(packet)
    with gateway.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, claims), reviewer_name="Ann", note="as shown")
    database = at_first_revision(server, gateway)
    yield Old(database, packet, claims)
    server.drop(database)


def constraints(database: Database) -> set[str]:
    """Constraints that new rows must keep and an old one breaks."""
    with database.connect(SUPERUSER) as connection:
        rows = connection.execute("select conname from pg_constraint where contype = 'c' and not convalidated")
        return {row[0] for row in rows}


def upgrade(database: Database) -> None:
    with database.engine(SUPERUSER) as engine:
        found = _install.status(engine)
        assert (found.state, found.revision) == ("outdated", "0001")
        assert _install.upgrade(engine).state == "current"


def test_evidence_packets_and_approvals_hold_after_the_upgrade(old: Old, gateway: Database, store: Database) -> None:
    with gateway.connect(SUPERUSER) as superuser, gateway.tenant("acme_reader") as acme:
        loaded_today, seen = stored(superuser), acme.corpus_fingerprint()
    upgrade(old.database)
    assert (fingerprint(old.database), constraints(old.database)) == (fingerprint(store), set())
    with old.database.connect(SUPERUSER) as superuser:
        upgraded = stored(superuser)
    # An old store has no keys. Declarations of attributes are made by the upgrade, at its own time, and how long an old
    # packet took nobody measured; the rest is untouched, and what was granted is granted to write.
    assert (upgraded.pop("rag_auth.signing_key")[0], loaded_today.pop("rag_auth.signing_key")[0]) == (0, 1)
    # The index is derived, and made at once where loads made it bit by bit.
    for name in [name for name in upgraded if name.startswith("rag_index.")]:
        del upgraded[name], loaded_today[name]
    assert {table: count for table, (count, _) in upgraded.items()} == {
        table: count for table, (count, _) in loaded_today.items()
    }
    assert {table for table in upgraded if upgraded[table] != loaded_today[table]} == {"rag.attribute", "rag.packet"}
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
    old.database.load("acme_curator", SEED / "changes" / "HOLD-7-v4-same-quotation.md")
    with (
        old.database.store("acme_reader") as opened,
        pytest.raises(errors.StaleApproval),
        opened.tenant("acme") as acme,
    ):
        acme.require_approval(old.packet.packet_id, old.claims)


def test_an_index_that_came_through_all_migrations_ranks_as_one_that_was_loaded_today(
    old: Old, gateway: Database
) -> None:
    upgrade(old.database)
    found = []
    for database in (old.database, gateway):
        with database.tenant("acme_reader") as acme:
            hits = acme.search(QUERY, k=50, case=CASE, method="bm25", why=True)
        found.append([(hit.score, hit.document_id, hit.version, hit.range_start, hit.why) for hit in hits])
    assert found[0] == found[1] != []


def test_a_row_that_is_longer_than_is_allowed_now_stays_and_stops_nothing(old: Old) -> None:
    """Evidence is never changed: a store must upgrade with what it holds, and refuse the next such row."""
    insert = (
        "insert into rag.version (tenant, document_id, version, title, body) values ('acme', %s, 1, %s, 'cafe\u0301')"
    )
    cut = (
        "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
        " values ('acme', 'LONG', 1, 's', 'f', 'cafe')"
    )
    with old.database.connect(SUPERUSER) as superuser:
        superuser.execute(insert, ["LONG", LONG_TITLE])
        superuser.execute(cut)
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
