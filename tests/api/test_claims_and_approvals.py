"""Claims, packets and approvals: every claim gets a verdict, and an approval holds only while its evidence does."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from rag_sql import Claim, DraftRequest, Packet, Tenant, Verdict, draft, errors, template_drafter
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database

CLAIMS = tuple(Claim(**claim) for claim in json.loads((SEED / "claims.json").read_text("utf-8")))
KNOWN_ISSUE, CONSTRAINT, ROLLBACK = CLAIMS


def record(tenant: Tenant, k: int = 2, **options: Any) -> Packet:
    return tenant.record_packet(QUESTION, query=QUERY, case=CASE, k=k, **options)


def verdicts(database: Database, *claims: Claim) -> list[Verdict]:
    with database.tenant("acme_reader") as acme:
        return acme.check_claims(acme.decide(QUESTION, query=QUERY, case=CASE, k=2), claims)


def approved(database: Database, claims: tuple[Claim, ...] | None = None) -> tuple[str, tuple[Claim, ...]]:
    """A packet whose draft a reviewer has approved."""
    with database.tenant("acme_reader") as acme:
        packet = record(acme)
    claims = claims or draft(packet)
    with database.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, claims), reviewer_name="Ann")
    return packet.packet_id, claims


# Claims


def test_two_of_three_real_citations_are_licensed(shared_gateway: Database) -> None:
    assert [(found.verdict, found.reason) for found in verdicts(shared_gateway, *CLAIMS)] == [
        ("licensed", ""),
        ("licensed", ""),
        ("not_licensed", "the rule does not license this sentence"),
    ]


@pytest.mark.parametrize(
    ("claim", "verdict", "reason"),
    [
        (
            replace(CONSTRAINT, document_id="HOLD-9"),
            "source_not_selected",
            "cited source is not in the selected evidence",
        ),
        (replace(CONSTRAINT, version=1), "source_not_selected", "cited source is not in the selected evidence"),
        (replace(CONSTRAINT, tenant="public"), "source_not_selected", "cited source is not in the selected evidence"),
        (
            replace(KNOWN_ISSUE, document_id="OLD-240", version=9),
            "source_not_selected",
            "cited source is not in the selected evidence",
        ),
        (replace(KNOWN_ISSUE, span_id="s9"), "fact_not_carried", "span does not carry this fact"),
        (replace(KNOWN_ISSUE, fact="audit-constraint"), "fact_not_carried", "span does not carry this fact"),
        (replace(KNOWN_ISSUE, text=KNOWN_ISSUE.text + " "), "not_licensed", "the rule does not license this sentence"),
        (replace(KNOWN_ISSUE, text=CONSTRAINT.text), "not_licensed", "the rule does not license this sentence"),
    ],
)
def test_the_first_check_that_fails_gives_the_reason(
    shared_gateway: Database, claim: Claim, verdict: str, reason: str
) -> None:
    (found,) = verdicts(shared_gateway, claim)
    assert (found.verdict, found.reason, found.claim) == (verdict, reason, claim)


def test_a_span_whose_text_is_not_the_proposition_licenses_nothing(gateway: Database) -> None:
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    (found,) = verdicts(gateway, replace(CONSTRAINT, version=3))
    assert (found.verdict, found.reason) == ("not_the_proposition", "span text is not the curated proposition")


def test_a_clause_belongs_to_the_proposition_that_the_cited_span_equals(store: Database) -> None:
    """Two propositions of one fact: what may be said on one may not be said on the other."""
    content = {
        "case": [],
        "facts": [
            {
                "fact": "interval",
                "propositions": [
                    {"quote": "every hour", "clauses": ["It runs hourly."]},
                    {"quote": "every day", "clauses": ["It runs daily."]},
                ],
            }
        ],
    }
    with store.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, content)
        acme.load_documents(
            [
                {
                    "id": "D",
                    "version": 1,
                    "body": "runs every day",
                    "spans": [{"id": "s", "fact": "interval", "quote": "every day"}],
                }
            ]
        )
    with store.tenant("acme_reader") as acme:
        decision = acme.decide("q", query="runs", case={}, k=1)
        found = acme.check_claims(
            decision, [Claim(text, "interval", "acme", "D", 1, "s") for text in ("It runs daily.", "It runs hourly.")]
        )
    assert [verdict.verdict for verdict in found] == ["licensed", "not_licensed"]


CLAIM = {"text": "x", "fact": "f", "tenant": "acme", "document_id": "d", "version": 1, "span_id": "s"}
NO_ARRAY = "claims must be a JSON array of at least one claim"


@pytest.mark.parametrize(
    ("claims", "place", "message"),
    [
        ([], "", NO_ARRAY),
        ({}, "", NO_ARRAY),
        (None, "", NO_ARRAY),
        (["text"], "0.document_id", "claim 1: document_id: must be a text of 1 to 200 bytes"),
        ([CLAIM, {"text": "x"}], "1.document_id", "claim 2: document_id: must be a text of 1 to 200 bytes"),
        ([{**CLAIM, "text": ""}], "0.text", "claim 1: text: must be a text of 1 to 1048576 bytes"),
        ([{**CLAIM, "tenant": 7}], "0.tenant", "claim 1: tenant: must be a text of 1 to 200 bytes"),
        ([{**CLAIM, "version": "1"}], "0.version", "claim 1: version: must be a whole number from 1 to 2147483647"),
        ([{**CLAIM, "version": 0}], "0.version", "claim 1: version: must be a whole number from 1 to 2147483647"),
        ([{**CLAIM, "version": 2**31}], "0.version", "claim 1: version: must be a whole number from 1 to 2147483647"),
        (
            [{**CLAIM, "more": 1}],
            "0.more",
            "claim 1: more: unknown key; a claim has text, fact, tenant, document_id, version and span_id",
        ),
    ],
)
def test_malformed_claims_are_an_error_with_its_place(
    shared_gateway: Database, claims: Any, place: str, message: str
) -> None:
    with (
        shared_gateway.connect("acme_reader") as connection,
        pytest.raises(errors.InvalidClaims) as caught,
        errors.translate(),
    ):
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        connection.execute(
            "select verdict from rag_api.check_claims(p_contract_tenant => 'public', p_question_id => %s,"
            " p_contract_version => 1, p_selection => '{}', p_claims => %s::jsonb)",
            [QUESTION, json.dumps(claims)],
        )
    assert (caught.value.column, caught.value.message) == (place, message)


# Drafting


def test_the_template_renderer_says_licensed_clauses_in_contract_order(shared_gateway: Database) -> None:
    with shared_gateway.tenant("acme_reader") as acme:
        decision = acme.decide(QUESTION, query=QUERY, case=CASE, k=3)
        claims = draft(decision)
        found = acme.check_claims(decision, claims)
    assert claims == (KNOWN_ISSUE, CONSTRAINT)
    assert all(verdict.licensed for verdict in found)


def test_a_drafter_receives_the_selected_sources_and_no_word_of_the_excluded(shared_gateway: Database) -> None:
    """Asserted on the bytes that would go over the wire."""
    with shared_gateway.tenant("acme_reader") as acme:
        decision = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    received: list[bytes] = []

    def model(request: DraftRequest) -> tuple[Claim, ...]:
        received.append(request.to_json().encode())
        return tuple(template_drafter(request))

    assert draft(decision, model) == (KNOWN_ISSUE, CONSTRAINT)
    (wire,) = received
    bodies: dict[str, str] = {}
    with shared_gateway.connect("auditor") as connection:
        bodies.update(connection.execute("select document_id, body from rag_api.document").fetchall())
    assert {"GW-241", "HOLD-7", "PRIVATE", "OLD-240", "G2-USB", "BILL-42"} == set(bodies)
    for document_id, body in bodies.items():
        wanted = document_id in {"GW-241", "HOLD-7"}
        assert (document_id.encode() in wire) is wanted
        assert (json.dumps(body, ensure_ascii=False)[1:-1].encode() in wire) is wanted
    for words in (b"perform a rollback now", b"Northwind", b"storage devices", b"Invoices"):
        assert words not in wire
    assert json.loads(wire)["prompt_version"]


def test_insufficient_evidence_is_not_drafted_from(shared_gateway: Database) -> None:
    with shared_gateway.tenant("acme_reader") as acme:
        decision = acme.decide(QUESTION, query=QUERY, case=CASE, k=1)
    with pytest.raises(ValueError, match="AskForEvidence"):
        draft(decision)


# Packets


def test_a_packet_is_what_was_decided_and_verifies_without_a_database(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        decision = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
        packet = record(acme)
        again = acme.packet(packet.packet_id)
    assert (packet.digest, packet.sources, packet.witnesses, packet.missing) == (
        decision.digest,
        decision.sources,
        decision.witnesses,
        decision.missing,
    )
    assert again == packet
    offline = Packet.from_json(packet.to_json())
    assert offline == packet
    assert offline.verify() == []
    assert packet.recorded_by == "acme_reader"


def test_an_insufficient_decision_is_a_packet_too(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme, 1)
    assert (packet.outcome, packet.missing, packet.verify()) == ("AskForEvidence", ("audit-constraint",), [])


def test_deciding_stores_nothing(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    with gateway.connect("auditor") as connection:
        assert connection.execute("select count(*) from rag_api.packet").fetchone() == (0,)


def test_recording_needs_a_tenant(gateway: Database) -> None:
    for login, tenant in (("unbound_reader", None), ("publisher", None)):
        with gateway.store(login) as store, pytest.raises(errors.TenantRequired), store.tenant(tenant) as nobody:
            record(nobody)


def test_another_tenants_packet_and_no_packet_are_the_same_error(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    seen = set()
    for wanted in (packet_id, "00000000-0000-0000-0000-000000000000"):
        for method, arguments in (("packet", ()), ("review", (claims,)), ("require_approval", (claims,))):
            with gateway.store("northwind_reader") as store, pytest.raises(errors.PacketNotFound) as caught:
                with store.tenant("northwind") as northwind:
                    getattr(northwind, method)(wanted, *arguments)
            seen.add(caught.value.message.replace(wanted, "ID"))
    assert seen == {"there is no packet ID"}


# Approvals


def test_an_approval_is_returned_while_the_evidence_is_the_same(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    with gateway.tenant("acme_reader") as acme:
        approval = acme.require_approval(packet_id, claims)
        packet = acme.packet(packet_id)
    assert (approval.evidence_digest, approval.reviewer_login, approval.reviewer_name, approval.decision_number) == (
        packet.digest,
        "acme_reviewer",
        "Ann",
        1,
    )


def test_unused_documents_do_not_make_an_approval_stale(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "OTHER", "version": 1, "body": "An unrelated notice."}])
    with gateway.tenant("acme_reader") as acme:
        assert acme.require_approval(packet_id, claims)


def refuse(database: Database, packet_id: str, claims: tuple[Claim, ...], error: type[errors.RagSqlError]) -> str:
    with database.store("acme_reader") as store, pytest.raises(error) as caught, store.tenant("acme") as acme:
        acme.require_approval(packet_id, claims)
    return caught.value.detail


def test_a_version_bump_makes_it_stale_and_is_named(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v4-same-quotation.md")
    assert refuse(gateway, packet_id, claims, errors.StaleApproval) == (
        "HOLD-7 (acme): version 2, spans: s1 -> version 4, spans: s1"
    )


def test_evidence_that_is_no_longer_sufficient_makes_it_stale(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    detail = refuse(gateway, packet_id, claims, errors.StaleApproval)
    assert "outcome: SufficientForTemplate -> AskForEvidence (missing: audit-constraint)" in detail
    assert "HOLD-7 (acme): version 2, spans: s1 -> version 3, spans: s1" in detail


def test_a_withdrawn_source_makes_it_stale(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 2)
    detail = refuse(gateway, packet_id, claims, errors.StaleApproval)
    assert "HOLD-7 (acme): version 2, spans: s1 -> not selected" in detail


def test_a_document_that_pushes_in_makes_it_stale(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "A-NEW", "version": 1, "body": QUERY}])
    detail = refuse(gateway, packet_id, claims, errors.StaleApproval)
    assert "A-NEW (acme): not selected -> version 1, spans: " in detail


def test_a_new_contract_version_makes_it_stale(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    with gateway.connect("acme_reader") as connection:
        content = connection.execute("select content from rag.contract").fetchone()
    assert content is not None
    with gateway.tenant("publisher") as public:
        public.add_contract(QUESTION, 2, content[0])
    detail = refuse(gateway, packet_id, claims, errors.StaleApproval)
    assert f"contract {QUESTION}: public version 1 -> public version 2" in detail


def test_a_span_added_to_a_selected_version_makes_it_stale(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    with gateway.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        connection.execute(
            "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
            " values ('acme', 'HOLD-7', 2, 's2', 'scope', 'Applies to every gateway')"
        )
    detail = refuse(gateway, packet_id, claims, errors.StaleApproval)
    assert detail == "HOLD-7 (acme): version 2, spans: s1 -> version 2, spans: s1, s2"
    with gateway.tenant("acme_reader") as acme:
        assert acme.packet(packet_id).verify() == []


def test_a_draft_that_nobody_decided_about_is_not_approved(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    refuse(gateway, packet_id, claims[:1], errors.NoApproval)
    refuse(gateway, packet_id, (*claims, ROLLBACK), errors.NoApproval)
    refuse(gateway, packet_id, tuple(reversed(claims)), errors.NoApproval)


def test_the_newest_decision_counts(gateway: Database) -> None:
    packet_id, claims = approved(gateway)
    with gateway.tenant("acme_reviewer") as acme:
        assert acme.reject(acme.review(packet_id, claims), reviewer_name="Bob", note="tone") == 2
    assert refuse(gateway, packet_id, claims, errors.Rejected) == "tone"
    with gateway.tenant("acme_reviewer") as acme:
        assert acme.approve(acme.review(packet_id, claims)) == 3
    with gateway.tenant("acme_reader") as acme:
        assert acme.require_approval(packet_id, claims).decision_number == 3


def test_what_is_withheld_and_why_is_part_of_what_was_shown(gateway: Database) -> None:
    """Another draft, another verdict or another reason is another presentation."""
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme)
        shown = {
            acme.review(packet.packet_id, claims).shown_digest
            for claims in (CLAIMS, CLAIMS[:2], (KNOWN_ISSUE,), (replace(ROLLBACK, document_id="X"),), (ROLLBACK,))
        }
        assert len(shown) == 5
        review = acme.review(packet.packet_id, CLAIMS)
    assert [verdict.licensed for verdict in review.verdicts] == [True, True, False]


def test_a_decision_about_something_else_than_was_shown_is_refused(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme)
        review = acme.review(packet.packet_id, CLAIMS)
    other = replace(review, verdicts=review.verdicts[:2])
    with gateway.store("acme_reviewer") as store, pytest.raises(errors.PresentationChanged):
        with store.tenant("acme") as acme:
            acme.approve(other)
    refuse(gateway, packet.packet_id, CLAIMS[:2], errors.NoApproval)


def test_an_insufficient_packet_cannot_be_approved_but_can_be_rejected(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme, 1)
    with gateway.store("acme_reviewer") as store, pytest.raises(errors.EvidenceInsufficient):
        with store.tenant("acme") as acme:
            acme.approve(acme.review(packet.packet_id, (KNOWN_ISSUE,)))
    with gateway.tenant("acme_reviewer") as acme:
        assert acme.reject(acme.review(packet.packet_id, (KNOWN_ISSUE,))) == 1


def test_a_reader_cannot_approve(gateway: Database) -> None:
    import sqlalchemy as sa

    with gateway.tenant("acme_reader") as acme:
        packet = record(acme)
    with gateway.store("acme_reader") as store, pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
        with store.tenant("acme") as acme:
            acme.approve(acme.review(packet.packet_id, CLAIMS))


def test_of_two_reviewers_at_the_same_moment_one_is_told(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme)
    outcome: list[type[BaseException] | None] = []

    def second() -> None:
        try:
            with gateway.tenant("acme_reviewer") as other:
                other.reject(other.review(packet.packet_id, CLAIMS))
        except errors.RagSqlError as error:
            outcome.append(type(error))
        else:
            outcome.append(None)

    with gateway.connect("postgres", autocommit=True) as watcher:
        with gateway.tenant("acme_reviewer") as first:
            first.approve(first.review(packet.packet_id, CLAIMS))
            thread = threading.Thread(target=second)
            thread.start()
            # The second decision waits for the first transaction to end.
            while watcher.execute(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            ).fetchone() != (1,):
                assert thread.is_alive()
        thread.join(timeout=20)
    assert outcome == [errors.ConcurrentDecision]
    with gateway.tenant("acme_reader") as acme:
        assert acme.require_approval(packet.packet_id, CLAIMS).decision_number == 1


def test_a_packet_is_decided_again_with_its_own_request(gateway: Database) -> None:
    """A pinned contract version stays pinned; the query and K are the packet's."""
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme, 2, contract_version=1)
    claims = draft(packet)
    with gateway.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, claims))
    with gateway.tenant("publisher") as public:
        public.add_contract(
            QUESTION, 2, {"case": [], "facts": [{"fact": "x", "propositions": [{"quote": "y", "clauses": ["z"]}]}]}
        )
    with gateway.tenant("acme_reader") as acme:
        assert acme.require_approval(packet.packet_id, claims)


def test_a_span_that_a_packet_does_not_have_licenses_nothing_on_it(gateway: Database) -> None:
    """A span added later is no evidence of a decision made before."""
    with gateway.tenant("acme_reader") as acme:
        packet = record(acme)
        decision = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    quote = "While an audit hold is active, collect a diagnostic export and do not roll back firmware"
    with gateway.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        connection.execute(
            "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
            " values ('acme', 'HOLD-7', 2, 's2', 'audit-constraint', %s)",
            [quote],
        )
    later = replace(CONSTRAINT, span_id="s2")
    with gateway.tenant("acme_reader") as acme:
        assert [found.verdict for found in acme.review(packet.packet_id, (later,)).verdicts] == ["fact_not_carried"]
        for evidence in (packet, decision):
            assert [found.verdict for found in acme.check_claims(evidence, (later,))] == ["fact_not_carried"]
        now = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
        assert [found.verdict for found in acme.check_claims(now, (later,))] == ["licensed"]
        then = datetime.fromisoformat(packet.request.known_at)
        again = acme.decide(QUESTION, query=QUERY, case=CASE, k=2, valid_at=then, known_at=then)
    assert now.digest != packet.digest
    assert again.digest == packet.digest
