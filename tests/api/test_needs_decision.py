"""NeedsDecision: what documents cannot decide is said to be so, and nobody decides it for whoever must."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from rag_sql import Claim, Outcome, draft, errors
from tests.conftest import Database

QUESTION = "late-receipt"
ACCEPT = "Finance will accept your late receipt."
CONTRACT: dict[str, Any] = {
    "case": [],
    "facts": [
        {
            "fact": "deadline",
            "propositions": [{"quote": "within 14 days", "clauses": ["Receipts are due within 14 days."]}],
        }
    ],
    "decision": {
        "about": "whether a late receipt is accepted",
        "decided_by": "the finance team",
        "refer": "Ask the finance team.",
        "never_say": [ACCEPT, "Finance will not accept your late receipt."],
    },
}
POLICY: dict[str, Any] = {
    "id": "EXPENSE",
    "version": 4,
    "body": "Submit travel receipts within 14 days. Finance decides about late receipts.",
    "spans": [{"id": "s1", "fact": "deadline", "quote": "within 14 days"}],
}


@pytest.fixture
def travel(store: Database) -> Database:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([POLICY])
        acme.add_contract(QUESTION, 1, CONTRACT)
    return store


def ask(database: Database, query: str = "late receipts approve") -> Any:
    with database.tenant("acme_reader") as acme:
        return acme.record_packet(QUESTION, query=query, case={}, k=5)


def test_the_rule_is_covered_and_the_decision_is_named_with_who_makes_it(travel: Database) -> None:
    packet = ask(travel)
    assert (packet.outcome, packet.missing, packet.sufficient, packet.covered) == (
        Outcome.NEEDS_DECISION,
        (),
        False,
        True,
    )
    assert packet.needed_decision["decided_by"] == "the finance team"
    assert packet.verify() == []


def test_it_follows_from_the_contract_and_never_from_words_in_the_query(travel: Database) -> None:
    assert ask(travel, "submit travel receipts within days").outcome is Outcome.NEEDS_DECISION
    with travel.tenant("acme_curator") as acme:
        acme.add_contract("deadline", 1, {key: value for key, value in CONTRACT.items() if key != "decision"})
        asked = acme.decide("deadline", query="will finance approve my late receipts", case={}, k=5)
    assert asked.outcome is Outcome.SUFFICIENT_FOR_TEMPLATE


def test_the_documented_rule_comes_first_a_missing_one_is_asked_for(travel: Database) -> None:
    with travel.tenant("acme_curator") as acme:
        acme.withdraw_version("EXPENSE", 4)
    assert ask(travel).outcome is Outcome.ASK_FOR_EVIDENCE


def test_the_rule_may_be_said_and_approved_and_the_decision_may_not(travel: Database) -> None:
    packet = ask(travel)
    (rule,) = draft(packet)
    assert rule.text == "Receipts are due within 14 days."
    decided = Claim(**{**vars(rule), "text": ACCEPT})
    with travel.tenant("acme_reviewer") as acme:
        review = acme.review(packet.packet_id, [rule, decided])
        assert [(verdict.verdict, verdict.reason) for verdict in review.verdicts] == [
            ("licensed", ""),
            ("states_decision", "states a decision that documents cannot make"),
        ]
        acme.approve(review)
        assert acme.require_approval(packet.packet_id, [rule, decided]).withheld == (2,)


def test_an_approval_goes_stale_when_a_contract_makes_it_undecidable(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([POLICY])
        acme.add_contract(QUESTION, 1, {key: value for key, value in CONTRACT.items() if key != "decision"})
    packet = ask(store)
    with store.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, draft(packet)))
    with store.tenant("acme_curator") as acme:
        acme.add_contract(QUESTION, 2, CONTRACT)
        with pytest.raises(errors.StaleApproval) as stale:
            acme.require_approval(packet.packet_id, draft(packet))
    assert "contract late-receipt: acme version 1 -> acme version 2" in stale.value.detail


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda c: c["decision"].pop("refer"), "decision.refer"),
        (lambda c: c["decision"].update(decided_by=""), "decision.decided_by"),
        (lambda c: c["decision"].update(never_say=[]), "decision.never_say"),
        (lambda c: c["decision"].update(who="x"), "decision.who"),
        (lambda c: c.update(decision=None), "decision"),
        (lambda c: c["facts"][0]["propositions"][0]["clauses"].append(ACCEPT), "facts.0.propositions.0.clauses.1"),
        (lambda c: c["decision"]["never_say"].append(ACCEPT), "decision.never_say.2"),
    ],
)
def test_a_contract_whose_decision_is_malformed_or_stated_by_a_clause_is_refused(
    shared_store: Database, change: Any, path: str
) -> None:
    content = copy.deepcopy(CONTRACT)
    change(content)
    with pytest.raises(errors.InvalidContract) as refused:
        with shared_store.tenant("acme_curator") as acme:
            acme.add_contract(QUESTION, 1, content)
    assert refused.value.column == path


def test_every_part_of_the_decision_is_in_the_contracts_hash(shared_store: Database) -> None:
    def hashed(content: dict[str, Any]) -> str:
        with shared_store.connect("acme_reader") as connection:
            row = connection.execute("select encode(sha256(rag.contract_preimage(%s)), 'hex')", [json.dumps(content)])
            found = row.fetchone()
        assert found is not None
        return str(found[0])

    contents = [CONTRACT, {key: value for key, value in CONTRACT.items() if key != "decision"}]
    for key, value in CONTRACT["decision"].items():
        changed = copy.deepcopy(CONTRACT)
        changed["decision"][key] = [*value, "more"] if isinstance(value, list) else f"{value} more"
        contents.append(changed)
    assert len({hashed(content) for content in contents}) == len(contents)
