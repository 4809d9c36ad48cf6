"""Time and concurrency: what a long transaction, a late commit or a second loader must not bring about."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rag_sql import Claim, Packet, Tenant, draft, errors
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database

HOLD = "While an audit hold is active, collect a diagnostic export and do not roll back firmware"


def record(tenant: Tenant, **options: Any) -> Packet:
    return tenant.record_packet(QUESTION, query=QUERY, case=CASE, k=2, **options)


def approved(database: Database, **options: Any) -> tuple[str, tuple[Claim, ...]]:
    with database.tenant("acme_reader") as acme:
        packet = record(acme, **options)
    with database.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, draft(packet)))
    return packet.packet_id, draft(packet)


def test_a_transaction_that_waits_does_not_use_an_approval_that_went_stale_meanwhile(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    with gateway.store("acme_reader") as store, pytest.raises(errors.StaleApproval), store.tenant("acme") as acme:
        assert acme.require_approval(packet_id, claims)
        gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
        acme.require_approval(packet_id, claims)


def test_a_transaction_that_waits_decides_on_what_is_committed_and_withdrawn_meanwhile(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient
        with gateway.tenant("acme_curator") as curator:
            curator.withdraw_version("HOLD-7", 2)
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).missing == ("audit-constraint",)


def test_a_withdrawal_announced_for_later_does_not_stand_in_the_way_of_one_now(gateway: Database) -> None:
    later = datetime.now(UTC) + timedelta(days=3650)
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 2, withdrawn_from=later)
    with gateway.tenant("acme_reader") as acme:
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient
        assert not acme.decide(QUESTION, query=QUERY, case=CASE, k=2, valid_at=later).sufficient
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 2)
        acme.withdraw_version("HOLD-7", 2)
    with gateway.tenant("acme_reader") as acme:
        assert not acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient
        (row,) = [row for row in acme.explain(QUESTION, query=QUERY, case=CASE, k=2) if row.document_id == "HOLD-7"]
    assert row.reason == "withdrawn"


def test_a_span_committed_late_is_no_evidence_of_a_packet_recorded_before(gateway: Database) -> None:
    """Its time of recording lies before the packet's; the packet's own list of spans decides."""
    with gateway.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        connection.execute(
            "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
            " values ('acme', 'HOLD-7', 2, 'late', 'audit-constraint', %s)",
            [HOLD],
        )
        with gateway.tenant("acme_reader") as acme:
            packet = record(acme)
    claims = tuple(
        Claim(claim.text, claim.fact, claim.tenant, claim.document_id, claim.version, "late")
        for claim in draft(packet)
        if claim.document_id == "HOLD-7"
    )
    with gateway.tenant("acme_reader") as acme:
        assert [found.verdict for found in acme.review(packet.packet_id, claims).verdicts] == ["fact_not_carried"]
        assert acme.packet(packet.packet_id) == packet


@pytest.mark.parametrize("instant", [datetime.max.replace(tzinfo=UTC), datetime.now(UTC) + timedelta(hours=1)])
def test_what_will_have_been_recorded_is_not_known(gateway: Database, instant: datetime) -> None:
    for method in ("decide", "record_packet", "explain"):
        with gateway.store("acme_reader") as store, pytest.raises(errors.InvalidRequest), store.tenant("acme") as acme:
            getattr(acme, method)(QUESTION, query=QUERY, case=CASE, k=2, known_at=instant)


@pytest.mark.parametrize("pinned", [1, None])
def test_a_contract_that_no_longer_takes_the_request_makes_an_approval_stale(
    gateway: Database, pinned: int | None
) -> None:
    packet_id, claims = approved(gateway, contract_version=pinned)
    with gateway.tenant("acme_curator") as acme:
        acme.add_contract(
            QUESTION,
            2,
            {
                "case": ["model", "firmware", "region"],
                "facts": [{"fact": "f", "propositions": [{"quote": "q", "clauses": ["c"]}]}],
            },
        )
    with gateway.store("acme_reader") as store, pytest.raises(errors.StaleApproval) as caught:
        with store.tenant("acme") as acme:
            acme.require_approval(packet_id, claims)
    assert f"contract {QUESTION}: public version 1 -> " in caught.value.detail


def test_an_approval_says_which_claims_were_shown_as_withheld(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme)
    first = draft(packet)[0]
    claims = (Claim("Roll back firmware now.", *list(vars(first).values())[1:]), *draft(packet))
    with gateway.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, claims))
    with gateway.tenant("acme_reader") as acme:
        assert acme.require_approval(packet.packet_id, claims).withheld == (1,)


def test_a_document_that_is_only_scheduled_is_not_eligible_and_says_so(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "SOON", "version": 1, "body": QUERY, "effective_from": "2999-01-01"}])
    with gateway.tenant("acme_reader") as acme:
        (row,) = [row for row in acme.explain(QUESTION, query=QUERY, case=CASE, k=9) if row.document_id == "SOON"]
    assert (row.eligible, row.selected, row.reason, row.effective_version) == (False, False, "scheduled", None)


def test_a_version_that_can_be_loaded_can_be_cited(gateway: Database) -> None:
    version = 2026113001
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents(
            [
                {
                    "id": "HOLD-7",
                    "version": version,
                    "body": f"{HOLD}. audit hold rollback",
                    "spans": [{"id": "s1", "fact": "audit-constraint", "quote": HOLD}],
                }
            ]
        )
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme)
        found = acme.check_claims(packet, draft(packet))
    assert [verdict.verdict for verdict in found] == ["licensed", "licensed"]
    assert version in {verdict.claim.version for verdict in found}


@pytest.mark.parametrize("same", [True, False], ids=["the same bytes", "other bytes"])
def test_of_two_loads_of_the_same_documents_the_second_waits_and_compares(store: Database, same: bool) -> None:
    """In opposite order, so that a load in the order given would deadlock."""
    documents = [{"id": f"D{number}", "version": 1, "body": f"text {number}"} for number in range(50)]
    other = [{**document, "body": document["body"] if same else "changed"} for document in reversed(documents)]
    outcome: list[Any] = []

    def second() -> None:
        try:
            with store.tenant("acme_curator") as acme:
                outcome.append({loaded.status for loaded in acme.load_documents(other)})
        except errors.RagSqlError as error:
            outcome.append(type(error))

    with store.connect("postgres", autocommit=True) as watcher:
        with store.tenant("acme_curator") as acme:
            acme.load_documents(documents)
            thread = threading.Thread(target=second)
            thread.start()
            while watcher.execute(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            ).fetchone() != (1,):
                assert thread.is_alive()
        thread.join(timeout=20)
    assert outcome == ([{"same"}] if same else [errors.VersionConflict])


def test_binding_without_a_transaction_warns(gateway: Database) -> None:
    with gateway.connect("acme_reader", autocommit=True) as connection:
        warnings: list[str | None] = []
        connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        assert warnings == ["the binding ends with this statement, because no transaction is open"]
        warnings.clear()
        with connection.transaction():
            connection.execute("select rag_api.bind(p_tenant => 'acme')")
        assert warnings == []
