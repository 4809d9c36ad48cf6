"""What a change touches: said before it is made, and after; and that what is said is what happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rag_sql import Claim, Impact, PacketImpact, Tenant, _curation, draft, errors
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database

HOLD = "While an audit hold is active, collect a diagnostic export and do not roll back firmware"
KNOWN = "G2 firmware 2.4.1 may stop sending telemetry after a reconnect."
SCOPE = "Applies to every gateway; rollback requests are refused until the auditor closes the case."


class _Undo(Exception):
    """Leaves a block so that nothing of it is stored."""


def hold(body: str, version: int = 3, *, curated: bool = False, **values: Any) -> dict[str, Any]:
    spans = [{"id": "s1", "fact": "audit-constraint", "quote": HOLD}] if curated else []
    return {"id": "HOLD-7", "version": version, "body": body, "spans": spans, **values}


@contextmanager
def undone(database: Database, login: str = "acme_curator") -> Iterator[Tenant]:
    """A tenant's block of which nothing is stored."""
    with suppress(_Undo), database.tenant(login) as tenant:
        yield tenant
        raise _Undo


def rehearse(database: Database, *documents: Mapping[str, Any], login: str = "acme_curator", **options: Any) -> Impact:
    """What loading documents would touch; nothing is stored."""
    with undone(database, login) as tenant:
        tenant.load_documents(documents)
        return tenant.impact(**options)


def load(database: Database, *documents: Mapping[str, Any], login: str = "acme_curator") -> None:
    with database.tenant(login) as tenant:
        tenant.load_documents(documents)


def approve(database: Database, query: str = QUERY, k: int = 2, reviewer: str = "Ann") -> tuple[str, tuple[Claim, ...]]:
    """A packet that somebody has approved, and its draft."""
    with database.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=query, case=CASE, k=k)
    with database.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, draft(packet)), reviewer_name=reviewer)
    return packet.packet_id, draft(packet)


def stale(database: Database) -> set[str]:
    """Packets with an approval that nobody may use any more."""
    found = set()
    with database.tenant("acme_reader") as acme:
        for packet in acme.packets():
            claims = draft(acme.packet(packet.packet_id))
            with suppress(errors.NoApproval):
                try:
                    with acme.savepoint():
                        acme.require_approval(packet.packet_id, claims)
                except errors.StaleApproval:
                    found.add(packet.packet_id)
    return found


def said(found: Impact) -> set[str]:
    return {packet.packet_id for packet in found.stale}


def now() -> datetime:
    return datetime.now(UTC)


# What is said is what happens


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(hold(f"{HOLD}. {SCOPE}", curated=True), id="the same text in a new version"),
        pytest.param(hold(f"{HOLD}. {SCOPE}"), id="the same text, not curated yet"),
        pytest.param(hold("Roll back only after approval.", 3), id="another rule"),
        pytest.param({"id": "NEW", "version": 1, "body": QUERY}, id="a new document that displaces a passage from K"),
        pytest.param(
            {"id": "NEW", "version": 1, "body": "Nothing of the kind."}, id="a new document about something else"
        ),
        pytest.param(
            {"id": "NEW", "version": 1, "body": QUERY, "applies_to": {"model": ["G3"]}},
            id="a new document for other cases",
        ),
        pytest.param(
            hold("An older rule.", 9, effective_from="2020-01-01"), id="a version that is superseded as it comes"
        ),
    ],
)
def test_what_a_load_is_said_to_touch_is_what_it_touches(gateway: Database, document: dict[str, Any]) -> None:
    packets = {approve(gateway)[0], approve(gateway, k=4)[0], approve(gateway, query="audit hold telemetry", k=3)[0]}
    before = rehearse(gateway, document)
    assert stale(gateway) == set()
    since = now()
    load(gateway, document)
    assert stale(gateway) == said(before) <= packets
    with gateway.tenant("acme_reader") as acme:
        after = acme.impact(since)
    assert (after.documents, after.spans, after.facts, after.packets) == (
        before.documents,
        before.spans,
        before.facts,
        before.packets,
    )


def test_an_approval_that_would_go_stale_is_named_with_the_reason_why(gateway: Database) -> None:
    packet_id, claims = approve(gateway)
    gone = rehearse(gateway, hold("Roll back only after approval."))
    (packet,) = gone.packets
    assert (packet.packet_id, packet.effect, packet.question_id, packet.case_facts) == (
        packet_id,
        "turns_stale",
        QUESTION,
        CASE,
    )
    assert (packet.was_outcome, packet.new_outcome, packet.missing) == (
        "SufficientForTemplate",
        "AskForEvidence",
        ("audit-constraint",),
    )
    assert [approval.reviewer for approval in packet.approvals] == ["Ann"]
    load(gateway, hold("Roll back only after approval."))
    with gateway.tenant("acme_reader") as acme, pytest.raises(errors.StaleApproval) as raised:
        acme.require_approval(packet_id, claims)
    assert raised.value.detail == "\n".join(packet.changes)


def test_a_withdrawal_is_looked_back_at(gateway: Database) -> None:
    packet_id, _ = approve(gateway)
    since = now()
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 2)
        found = acme.impact(since)
    assert [(row.document_id, row.was_version, row.new_version) for row in found.documents] == [("HOLD-7", 2, None)]
    (span,) = found.spans
    assert (span.survival, span.new_version, span.new_range_start) == ("gone", None, None)
    assert said(found) == stale(gateway) == {packet_id}
    with gateway.tenant("acme_reader") as acme:
        assert acme.impact(now()).packets == ()


def test_a_withdrawal_that_clears_the_way_lets_an_approval_hold_again(gateway: Database) -> None:
    packet_id, claims = approve(gateway)
    load(gateway, {"id": "NEW", "version": 1, "body": QUERY})
    assert stale(gateway) == {packet_id}
    since = now()
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("NEW", 1)
    with gateway.tenant("acme_reader") as acme:
        (packet,) = acme.impact(since).packets
        assert (packet.effect, len(packet.approvals)) == ("holds_again", 1)
        assert acme.require_approval(packet_id, claims)


def test_of_several_decisions_about_a_draft_the_newest_counts(gateway: Database) -> None:
    packet_id, claims = approve(gateway)
    with gateway.tenant("acme_reviewer") as acme:
        acme.reject(acme.review(packet_id, claims), reviewer_name="Ben")
    (packet,) = rehearse(gateway, hold("Another rule.")).packets
    assert (packet.effect, packet.approvals) == ("turns_stale", ())
    with gateway.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet_id, claims), reviewer_name="Eve")
    found = rehearse(gateway, hold("Another rule."))
    assert [(approval.reviewer, approval.decision_number) for approval in found.packets[0].approvals] == [("Eve", 3)]


def test_a_packet_that_nobody_approved_is_listed_too(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    found = rehearse(gateway, hold("Another rule."))
    assert [(packet.effect, packet.approvals) for packet in found.packets] == [("turns_stale", ())]
    assert found.stale == ()


def test_an_approval_serves_each_packet_with_its_evidence(gateway: Database) -> None:
    """The same evidence under another query is the same digest, so the approval is one of both."""
    packet_id, _ = approve(gateway)
    with gateway.tenant("acme_reader") as acme:
        twin = acme.record_packet(QUESTION, query=QUERY + " gateway", case=CASE, k=2)
    assert said(rehearse(gateway, hold("Another rule."))) == {packet_id, twin.packet_id}


def test_a_question_that_becomes_answerable_is_listed(gateway: Database) -> None:
    load(gateway, hold(f"{HOLD}. {SCOPE}"))
    with gateway.tenant("acme_reader") as acme:
        assert not acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2).sufficient
    (packet,) = rehearse(gateway, hold(f"{HOLD}. {SCOPE}", 4, curated=True)).packets
    assert (packet.effect, packet.was_outcome, packet.new_outcome) == (
        "differs",
        "AskForEvidence",
        "SufficientForTemplate",
    )


def test_a_span_that_is_added_turns_an_approval_stale_and_is_said_to(gateway: Database) -> None:
    packet_id, _ = approve(gateway)
    span = {"document": "HOLD-7", "version": 2, "span": "s2", "fact": "scope", "quote": SCOPE}
    with gateway.tenant("acme_curator") as acme:
        acme.add_spans([span])
        found = acme.impact()
    assert said(found) == stale(gateway) == {packet_id}
    assert (found.documents, found.spans, found.facts) == ((), (), ())


def test_a_contract_whose_next_version_asks_for_more_turns_approvals_stale(gateway: Database) -> None:
    packet_id, _ = approve(gateway)
    content = {
        "case": ["model", "firmware", "region"],
        "facts": [{"fact": "known-issue", "propositions": [{"quote": KNOWN, "clauses": ["It is known."]}]}],
    }
    with gateway.tenant("publisher") as public:
        public.add_contract(QUESTION, 2, content)
    with gateway.tenant("acme_reader") as acme:
        found = acme.impact(now() - timedelta(seconds=60))
        (packet,) = found.packets
        assert (packet.was_outcome, packet.new_outcome, packet.packet_id) == ("SufficientForTemplate", None, packet_id)
        assert 'attribute "region" is not stated' in packet.changes[0]


def test_what_was_stale_before_is_not_said_to_turn_stale(gateway: Database) -> None:
    approve(gateway)
    load(gateway, hold("Another rule."))
    assert rehearse(gateway, hold("A third rule.", 4)).packets == ()


def test_looking_back_over_two_changes_finds_what_was_approved_between_them(gateway: Database) -> None:
    since = now()
    load(gateway, hold(f"{HOLD}. {SCOPE}", 3, curated=True))
    packet_id, _ = approve(gateway)
    load(gateway, hold("Another rule.", 4))
    with gateway.tenant("acme_reader") as acme:
        assert said(acme.impact(since)) == {packet_id}


# Walls


def test_what_another_tenant_loads_touches_nothing(gateway: Database) -> None:
    approve(gateway)
    since = now()
    document = {"id": "HOLD-7", "version": 9, "body": f"{QUERY}. {HOLD}."}
    found = rehearse(gateway, document, login="northwind_curator")
    assert [row.tenant for row in found.documents] == ["northwind"]
    assert (found.spans, found.facts, found.packets) == ((), (), ())
    load(gateway, document, login="northwind_curator")
    with gateway.tenant("acme_reader") as acme:
        after = acme.impact(since)
    assert (after.documents, after.spans, after.facts, after.packets) == ((), (), (), ())


def test_a_public_change_is_each_tenants_to_look_back_at(gateway: Database) -> None:
    packet_id, _ = approve(gateway)
    document = {"id": "GW-241", "version": 4, "body": "G2 firmware 2.4.1 is fine."}
    found = rehearse(gateway, document, login="publisher")
    assert [(row.fact, row.change, row.is_covered) for row in found.facts] == [("known-issue", "lost", False)]
    assert found.packets == ()  # they are the tenants'
    since = now()
    load(gateway, document, login="publisher")
    with gateway.tenant("acme_reader") as acme:
        assert said(acme.impact(since)) == stale(gateway) == {packet_id}


def test_what_others_record_meanwhile_is_not_laid_at_the_door_of_a_rehearsal(gateway: Database) -> None:
    approve(gateway)
    with undone(gateway) as acme:
        acme.load_documents([{"id": "NEW", "version": 1, "body": "Nothing of the kind."}])
        load(gateway, {"id": "GW-241", "version": 4, "body": "Other."}, login="publisher")
        found = acme.impact()
    assert ([row.document_id for row in found.documents], found.packets) == (["NEW"], ())


# Nothing is stored


def test_a_rehearsal_stores_nothing_and_leaves_no_lock(gateway: Database) -> None:
    with gateway.connect("postgres", autocommit=True) as superuser:

        def stored() -> Any:
            return superuser.execute(
                "select (select count(*) from rag.version), (select count(*) from rag.passage),"
                " (select count(*) from rag.attribute), (select count(*) from rag_index.segment),"
                " (select sum(turns) from rag_index.turn)"
            ).fetchone()

        before = stored()
        with gateway.tenant("acme_reader") as acme:
            fingerprint = acme.corpus_fingerprint()
        found = rehearse(gateway, hold("Another rule.", applies_to={"never-heard-of": ["x"]}))
        assert len(found.documents) == 1
        assert stored() == before
        locks = superuser.execute(
            "select count(*) from pg_locks l join pg_class c on c.oid = l.relation"
            " where l.database = (select oid from pg_database where datname = current_database())"
            " and c.relnamespace in ('rag'::regnamespace, 'rag_index'::regnamespace)"
        ).fetchone()
        assert locks == (0,)
    with gateway.tenant("acme_reader") as acme:
        assert acme.corpus_fingerprint() == fingerprint


# Quotations


def test_quotations_survive_at_their_place_elsewhere_or_not_at_all(store: Database) -> None:
    body = "Returns take 14 days. Refunds take 5 days. Gifts are excluded."
    quotes = {"a": "Returns take 14 days.", "b": "Refunds take 5 days.", "c": "Gifts are excluded."}
    spans = [{"id": name, "fact": name, "quote": quote} for name, quote in quotes.items()]
    load(store, {"id": "R", "version": 1, "body": body, "spans": spans})
    new = "Returns take 14 days. As a rule. Refunds take 5 days. Gifts are no longer excluded."
    found = rehearse(
        store, {"id": "R", "version": 2, "body": new, "spans": [{"id": "x", "fact": "a", "quote": quotes["a"]}]}
    )
    assert [
        (row.span_id, row.survival, row.range_start, row.new_range_start, row.is_curated) for row in found.spans
    ] == [
        ("a", "exact", 0, 0, True),
        ("b", "moved", 22, 33, False),
        ("c", "gone", 43, None, False),
    ]
    assert [row.suggestion and row.suggestion.version for row in found.spans] == [None, None, 2]


def test_what_is_gone_with_its_document_is_looked_for_in_others(store: Database) -> None:
    load(
        store,
        {"id": "R", "version": 1, "body": "Gifts are excluded.", "spans": [{"id": "a", "fact": "a", "quote": "Gifts"}]},
    )
    load(store, {"id": "S", "version": 1, "body": "All gifts are welcome."})
    with store.tenant("acme_curator") as acme:
        acme.withdraw_version("R", 1)
        (span,) = acme.impact().spans
    assert span.suggestion is not None
    assert (span.survival, span.suggestion.document_id) == ("gone", "S")


# Coverage


def contract(fact: str, *quotes: str) -> dict[str, Any]:
    return {
        "case": ["model"],
        "facts": [{"fact": fact, "propositions": [{"quote": quote, "clauses": [quote]} for quote in quotes]}],
    }


def rule(name: str, version: int, body: str, *, curated: bool = True, **applies_to: list[str]) -> dict[str, Any]:
    spans = [{"id": "a", "fact": "limit", "quote": body}] if curated else []
    return {"id": name, "version": version, "body": body, "applies_to": applies_to, "spans": spans}


def test_facts_lose_and_gain_witnesses_for_what_they_apply_to(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.add_contract("limit", 1, contract("limit", "14 days.", "30 days."))
    load(store, rule("A", 1, "14 days.", model=["G1"]), rule("B", 1, "14 days.", model=["G2"]))

    def changes(*documents: dict[str, Any]) -> list[tuple[str, str, str, dict[str, Any], bool]]:
        return [
            (row.change, row.document_id, row.quote, row.applies_to, row.is_covered)
            for row in rehearse(store, *documents).facts
        ]

    assert changes(rule("A", 2, "14 days.", model=["G1"])) == []
    assert changes(rule("A", 2, "14 days.", curated=False, model=["G1"])) == [
        ("lost", "A", "14 days.", {"model": ["G1"]}, True)
    ]
    assert changes(rule("A", 2, "14 days.", model=["G3"])) == [
        ("lost", "A", "14 days.", {"model": ["G1"]}, True),
        ("gained", "A", "14 days.", {"model": ["G3"]}, True),
    ]
    assert changes(rule("A", 2, "30 days.", model=["G1"]), rule("C", 1, "7 days.")) == [
        ("lost", "A", "14 days.", {"model": ["G1"]}, True),
        ("gained", "A", "30 days.", {"model": ["G1"]}, True),
    ]
    assert changes(rule("A", 2, "7 days."), rule("B", 2, "7 days.")) == [
        ("lost", "A", "14 days.", {"model": ["G1"]}, False),
        ("lost", "B", "14 days.", {"model": ["G2"]}, False),
    ]


def test_a_span_that_is_added_is_a_witness_gained(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.add_contract("limit", 1, contract("limit", "14 days."))
    load(store, rule("A", 1, "14 days.", curated=False))
    with store.tenant("acme_curator") as acme:
        acme.add_spans([{"document": "A", "version": 1, "span": "a", "fact": "limit", "quote": "14 days."}])
        (row,) = acme.impact().facts
    assert (row.change, row.document_id, row.contract_version, row.is_covered) == ("gained", "A", 1, True)


# Time


def test_a_version_that_takes_effect_later_touches_what_holds_then(gateway: Database) -> None:
    packet_id, _ = approve(gateway)
    later = (now() + timedelta(days=30)).replace(microsecond=0)
    document = hold("Another rule.", effective_from=later.isoformat())
    found = rehearse(gateway, document)
    (row,) = found.documents
    assert (row.was_version, row.new_version, row.scheduled_version, row.scheduled_from) == (2, 2, 3, later)
    assert (found.spans, found.packets) == ((), ())
    assert said(rehearse(gateway, document, valid_at=later)) == {packet_id}


def test_what_time_alone_brings_about_is_no_change(gateway: Database) -> None:
    soon = now() + timedelta(days=1)
    load(gateway, hold("Another rule.", effective_from=soon.isoformat()))
    with gateway.tenant("acme_reader") as acme:
        found = acme.impact(now(), valid_at=soon + timedelta(days=1))
    assert (found.documents, found.spans, found.facts, found.packets) == ((), (), (), ())


@pytest.mark.parametrize(
    ("since", "until"),
    [
        (now() + timedelta(days=1), None),
        (now() - timedelta(days=1), now() + timedelta(days=1)),
        (now() - timedelta(days=1), now() - timedelta(days=2)),
    ],
)
def test_instants_that_are_none_are_refused(shared_gateway: Database, since: datetime, until: datetime | None) -> None:
    with shared_gateway.tenant("acme_reader") as acme, pytest.raises(errors.InvalidRequest):
        acme.impact(since, until)


# Carrying spans over


def carriable(tenant: Tenant, *document_ids: str) -> list[tuple[str, int, int, str | None]]:
    return [
        (span.span_id, span.version, span.new_version, span.obstacle)
        for span in tenant.carriable_spans(document_ids or None)
    ]


def spans(**quotes: str | tuple[str, int]) -> list[dict[str, Any]]:
    return [
        {"id": name, "fact": name, "quote": quote}
        if isinstance(quote, str)
        else {"id": name, "fact": name, "quote": quote[0], "occurrence": quote[1]}
        for name, quote in quotes.items()
    ]


@pytest.mark.parametrize(
    ("old", "quote", "new", "obstacle"),
    [
        ("One. Two.", "Two.", "Zero. One. Two.", None),
        ("One. Two.", "Two.", "One. Three.", "gone"),
        ("One. Two.", "Two.", "Two. One. Two.", "ambiguous"),
        ("Two. Two.", ("Two.", 2), "Two. One. Two.", None),
        ("Two. Two.", ("Two.", 2), "Two.", "ambiguous"),
        ("Two. Two.", ("Two.", 1), "Two. Two. Two.", "ambiguous"),
        ("aaa", ("aa", 2), "aaa b", None),
        ("A cafe.", "cafe", "A cafe\u0301.", "cuts_character"),
    ],
)
def test_a_span_is_carried_where_it_is_clear_what_it_quotes(
    shared_store: Database, old: str, quote: str | tuple[str, int], new: str, obstacle: str | None
) -> None:
    with undone(shared_store) as acme:
        acme.load_documents([{"id": "R", "version": 1, "body": old, "spans": spans(a=quote)}])
        acme.load_documents([{"id": "R", "version": 2, "body": new}])
        assert carriable(acme) == [("a", 1, 2, obstacle)]
        if obstacle is None:
            _curation.carry(acme)
            assert carriable(acme) == []


def test_what_the_new_version_has_is_not_carried(shared_store: Database) -> None:
    old = {"id": "R", "version": 1, "body": "One. Two. Three.", "spans": spans(a="One.", b="Two.", c="Three.")}
    new = [*spans(a="One.", c="Four."), {"id": "other", "fact": "b", "quote": "Two."}]
    with undone(shared_store) as acme:
        acme.load_documents([old, {"id": "R", "version": 2, "body": "One. Two. Four.", "spans": new}])
        assert carriable(acme) == []


def test_an_id_that_has_other_content_there_is_a_persons_to_resolve(shared_store: Database) -> None:
    with undone(shared_store) as acme:
        acme.load_documents([{"id": "R", "version": 1, "body": "One. Two.", "spans": spans(a="One.")}])
        acme.load_documents([{"id": "R", "version": 2, "body": "One. Two.", "spans": spans(a="Two.")}])
        assert carriable(acme) == [("a", 1, 2, "span_id_taken")]


def test_spans_are_carried_over_a_version_that_nobody_curated(shared_store: Database) -> None:
    with undone(shared_store) as acme:
        acme.load_documents([{"id": "R", "version": 1, "body": "One.", "spans": spans(a="One.")}])
        acme.load_documents([{"id": "R", "version": 2, "body": "Two."}])
        acme.load_documents([{"id": "R", "version": 3, "body": "One. Two."}])
        assert carriable(acme) == carriable(acme, "R") == [("a", 1, 3, None)]


def test_spans_of_others_and_of_documents_that_are_not_there_are_not_carried(gateway: Database) -> None:
    load(gateway, {"id": "GW-241", "version": 4, "body": KNOWN}, login="publisher")
    with gateway.tenant("publisher") as public:
        assert carriable(public) == [("s1", 3, 4, None)]
    with gateway.tenant("acme_curator") as acme:
        assert carriable(acme) == []
        for unknown in ("GW-241", "PRIVATE", "NO-SUCH"):
            with pytest.raises(errors.VersionNotFound, match=f'no document "{unknown}"'), acme.savepoint():
                acme.carriable_spans([unknown])


def test_quotations_are_carried_from_the_version_before_and_from_none_before_that(gateway: Database) -> None:
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    load(gateway, hold(f"{HOLD}. {SCOPE}", 4))
    with gateway.tenant("acme_curator") as acme:
        assert carriable(acme) == [("s1", 3, 4, "gone")]


def test_packets_of_one_request_are_decided_alike(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        first, second = (acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2) for _ in range(2))
    found: tuple[PacketImpact, ...] = rehearse(gateway, hold("Another rule.")).packets
    assert {packet.packet_id for packet in found} == {first.packet_id, second.packet_id}
    assert len({(packet.effect, packet.changes) for packet in found}) == 1
