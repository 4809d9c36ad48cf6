"""The right of a grant: to write for a tenant, or only to read, ask and record what was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rag_sql import Claim, Review, Tenant, _admin, draft, errors
from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, QUERY, QUESTION, Database

DOCUMENT = {"id": "D", "version": 1, "body": "text"}
SPAN = {"document": "HOLD-7", "version": 2, "span": "s9", "fact": "known-issue", "quote": "a", "occurrence": 1}
CONTENT = {"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "q", "clauses": ["c"]}]}]}
NO_REVIEW = Review("00000000-0000-4000-8000-000000000000", (), "", "", "")

#: What takes the right to write: by login, through the functions.
WRITES: dict[str, tuple[str, Callable[[Tenant], Any]]] = {
    "loading": ("acme_curator", lambda acme: acme.load_documents([DOCUMENT])),
    "asking what would be loaded": ("acme_curator", lambda acme: acme.same_documents([DOCUMENT])),
    "adding spans": ("acme_curator", lambda acme: acme.add_spans([SPAN])),
    "withdrawing": ("acme_curator", lambda acme: acme.withdraw_version("HOLD-7", 2)),
    "superseding": ("acme_curator", lambda acme: acme.supersede("HOLD-7", ["HOLD-8"])),
    "declaring an attribute": ("acme_curator", lambda acme: acme.set_attribute("size", "number")),
    "adding a contract": ("acme_curator", lambda acme: acme.add_contract("q", 1, CONTENT)),
    "approving": ("acme_reviewer", lambda acme: acme.approve(NO_REVIEW)),
    "rejecting": ("acme_reviewer", lambda acme: acme.reject(NO_REVIEW)),
}

#: The same past the functions.
INSERTS = {
    "a version": "insert into rag.version (tenant, document_id, version, body) values ('acme', 'X', 1, 'x')",
    "a withdrawal": "insert into rag.withdrawal (tenant, document_id, version) values ('acme', 'HOLD-7', 2)",
    "a succession": (
        "insert into rag.succession (tenant, document_id, successor_id) values ('acme', 'HOLD-7', 'HOLD-8')"
    ),
    "a span": (
        "insert into rag.span (tenant, document_id, version, span_id, fact, quote, occurrence)"
        " values ('acme', 'HOLD-7', 2, 's9', 'known-issue', 'a', 1)"
    ),
    "an attribute": "insert into rag.attribute (tenant, attribute, type) values ('acme', 'x', 'text')",
    "a contract": (
        "insert into rag.contract (tenant, question_id, version, content) values ('acme', 'x', 1,"
        """ '{"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "q", "clauses": ["c"]}]}]}')"""
    ),
}


def grant(database: Database, login: str, *, read_only: bool) -> None:
    with database.engine(SUPERUSER) as engine:
        _admin.grant_tenant(engine, "acme", login, read_only=read_only)


@pytest.fixture(scope="module")
def reading(spent: Database) -> Database:
    """The walled store, in which nobody's grant of acme is more than to read."""
    for login in ("acme_reader", "acme_curator", "acme_reviewer"):
        grant(spent, login, read_only=True)
    return spent


@pytest.mark.parametrize("what", WRITES)
def test_who_may_only_read_changes_nothing_that_decisions_rest_on(reading: Database, what: str) -> None:
    login, call = WRITES[what]
    with reading.store(login) as store, pytest.raises(errors.MayOnlyRead) as caught, store.tenant("acme") as acme:
        call(acme)
    assert caught.value.message == f'login "{login}" may only read for tenant "acme"'
    assert caught.value.hint == f"Ask the administrator of the store for: rag-sql tenant grant acme {login}"


@pytest.mark.parametrize("what", INSERTS)
def test_nor_past_the_functions(reading: Database, what: str) -> None:
    with reading.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(INSERTS[what].encode())
    assert caught.value.sqlstate == "RS005"


def test_who_may_only_read_asks_and_leaves_the_record_of_it(reading: Database) -> None:
    """A support desk asks, keeps what it asked, and uses what somebody else approves."""
    with reading.tenant("acme_reader") as desk:
        packet = desk.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
        trace = desk.record_trace(packet.packet_id)
        desk.record_answer(trace.trace_id, "answer", citations=[], model="m", prompt_version="1")
        claims: list[Claim] = list(draft(packet))
        with pytest.raises(errors.NoApproval), desk.savepoint():
            desk.require_approval(packet.packet_id, claims)
    grant(reading, "acme_reviewer", read_only=False)
    with reading.tenant("acme_reviewer") as reviewer:
        assert reviewer.approve(reviewer.review(packet.packet_id, claims)) == 1
    grant(reading, "acme_reviewer", read_only=True)
    with reading.tenant("acme_reader") as desk:
        assert desk.require_approval(packet.packet_id, claims).decision_number == 1


def test_a_login_sees_with_which_right_each_tenant_is_granted(reading: Database) -> None:
    for login, expected in (("acme_curator", [("acme", False)]), ("northwind_curator", [("northwind", True)])):
        with reading.connect(login) as connection:
            assert connection.execute("select tenant, may_write from rag_api.membership").fetchall() == expected


def test_granted_again_the_new_right_counts_at_once(gateway: Database) -> None:
    with gateway.connect("acme_curator", autocommit=True) as connection:
        for read_only in (True, False, True):
            grant(gateway, "acme_curator", read_only=read_only)
            connection.execute("begin")
            connection.execute("select rag_api.bind('acme')")
            insert = INSERTS["an attribute"].encode()
            if read_only:
                with pytest.raises(psycopg.Error) as caught:
                    connection.execute(insert)
                assert caught.value.sqlstate == "RS005"
            else:
                connection.execute(insert)
            connection.execute("rollback")


def test_a_right_to_write_is_no_group(gateway: Database) -> None:
    """Both are asked for: what a login may do, and for whom."""
    with gateway.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(INSERTS["an attribute"].encode())
