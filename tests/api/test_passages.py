"""Passages: cut by the database where the outline says, selected one by one, witnessed whole."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from rag_sql import Decision, draft, errors
from rag_sql import outline as cut_by_structure
from tests.api.strategies import ON_SERVER, characters
from tests.conftest import Database
from tests.unit.test_passages import bodies, large, sizes

RULE = "Submit travel receipts within 14 days. "
EXCEPTION = "For international travel the limit is 21 days. "
REST = "Keep the originals for a year."
QUESTION = "receipts"
CONTRACT: dict[str, Any] = {
    "case": [],
    "facts": [
        {"fact": "limit", "propositions": [{"quote": "within 14 days", "clauses": ["Within 14 days."]}]},
        {"fact": "exception", "propositions": [{"quote": "the limit is 21 days", "clauses": ["Abroad, 21 days."]}]},
    ],
}


def policy(**changes: Any) -> dict[str, Any]:
    return {
        "id": "EXPENSE",
        "version": 4,
        "body": RULE + EXCEPTION + REST,
        "outline": outline(RULE, EXCEPTION, REST),
        "spans": [
            {"id": "s1", "fact": "limit", "quote": "within 14 days"},
            {"id": "s2", "fact": "exception", "quote": "the limit is 21 days"},
        ],
        **changes,
    }


def outline(*pieces: str, headings: tuple[str, ...] = ("Expenses", "Travel")) -> list[dict[str, Any]]:
    ends = [len("".join(pieces[: number + 1])) for number in range(len(pieces))]
    return [{"end": end, "headings": list(headings)} for end in ends]


def load(database: Database, *documents: dict[str, Any]) -> None:
    with database.tenant("acme_curator") as acme:
        acme.load_documents(documents)
        acme.add_contract(QUESTION, 1, CONTRACT)


def decide(database: Database, query: str, k: int) -> Decision:
    with database.tenant("acme_reader") as acme:
        return acme.decide(QUESTION, query=query, case={}, k=k)


def test_k_counts_passages_and_what_is_missing_is_what_was_left_out(store: Database) -> None:
    load(store, policy())
    one = decide(store, "limit for travel receipts within days", 1)
    assert [(source.range_start, source.text) for source in one.sources] == [(0, RULE)]
    assert one.missing == ("exception",)
    two = decide(store, "limit for travel receipts within days", 2)
    assert [source.text for source in two.sources] == [RULE, EXCEPTION]
    assert two.sources[1].heading_path == ("Expenses", "Travel")
    assert two.sufficient


def test_a_packet_of_passages_verifies_and_its_approval_holds_while_they_are_the_same(store: Database) -> None:
    load(store, policy())
    with store.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query="travel receipts limit days", case={}, k=2)
    assert packet.verify() == []
    assert [source.text for source in packet.sources] == [RULE, EXCEPTION]
    with store.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, draft(packet)))
        assert acme.require_approval(packet.packet_id, draft(packet))
    with store.tenant("acme_curator") as acme:
        acme.load_documents([policy(version=5, body=RULE + REST, outline=outline(RULE, REST), spans=[])])
        with pytest.raises(errors.StaleApproval) as stale:
            acme.require_approval(packet.packet_id, draft(packet))
    assert stale.value.detail.splitlines() == [
        "outcome: SufficientForTemplate -> AskForEvidence (missing: limit, exception)",
        "EXPENSE (acme): version 4, spans: s1 -> version 5, spans: ",
        "EXPENSE (acme) from 39: version 4, spans: s2 -> not selected (superseded)",
    ]


ACROSS = {"id": "s3", "fact": "exception", "quote": "14 days. For international"}
ACROSS_CONTRACT = {
    "case": [],
    "facts": [{"fact": "exception", "propositions": [{"quote": ACROSS["quote"], "clauses": ["It depends."]}]}],
}


@pytest.mark.parametrize(
    ("query", "k", "sufficient"),
    [("submit travel receipts within", 1, False), ("international limit", 1, False), ("travel", 2, True)],
)
def test_a_span_across_two_passages_is_witnessed_only_when_both_are_selected(
    store: Database, query: str, k: int, sufficient: bool
) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([policy(spans=[ACROSS])])
        acme.add_contract(QUESTION, 1, ACROSS_CONTRACT)
    with store.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=query, case={}, k=k)
        assert packet.sufficient == sufficient
        assert packet.verify() == []
        assert len(packet.sources) == k
        assert sum(len(source.spans) for source in packet.sources) == sufficient
        if sufficient:
            review = acme.review(packet.packet_id, draft(packet))
            assert [verdict.verdict for verdict in review.verdicts] == ["licensed"]


def test_a_span_over_three_passages_needs_the_middle_one_too(store: Database) -> None:
    span = {"id": "s3", "fact": "exception", "quote": f"14 days. {EXCEPTION}Keep"}
    with store.tenant("acme_curator") as acme:
        acme.load_documents([policy(spans=[span])])
        acme.add_contract(
            QUESTION,
            1,
            {
                "case": [],
                "facts": [{"fact": "exception", "propositions": [{"quote": span["quote"], "clauses": ["x"]}]}],
            },
        )
    assert not decide(store, "receipts originals", 2).sufficient
    assert decide(store, "receipts originals limit", 3).sufficient


def test_without_an_outline_the_body_is_one_passage_and_is_not_stored_twice(store: Database) -> None:
    load(store, policy(outline=[]))
    (source,) = decide(store, "receipts", 9).sources
    assert (source.range_start, source.range_end, source.text) == (0, len(source.text), RULE + EXCEPTION + REST)
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        assert connection.execute("select text from rag.passage").fetchall() == [(None,)]


def test_where_a_body_is_cut_is_no_part_of_what_it_says(store: Database) -> None:
    """A release that cuts otherwise finds the same documents; they stay as they were cut."""
    load(store, policy())
    with store.tenant("acme_curator") as acme:
        assert [entry.status for entry in acme.load_documents([policy(outline=outline(RULE, EXCEPTION + REST))])] == [
            "same"
        ]
    assert len(decide(store, "receipts limit originals", 9).sources) == 3


@pytest.mark.parametrize(
    "broken",
    [
        "x",
        [1],
        [{"end": 116}],
        [{"end": 116, "headings": "x"}],
        [{"end": 116, "headings": [""]}],
        [{"end": 116, "headings": [1]}],
        [{"end": 116, "headings": [], "more": 1}],
        [{"end": "116", "headings": []}],
        [{"end": 115, "headings": []}],
        [{"end": 117, "headings": []}],
        [{"end": 0, "headings": []}, {"end": 116, "headings": []}],
        [{"end": 50, "headings": []}, {"end": 50, "headings": []}, {"end": 116, "headings": []}],
        [{"end": 60, "headings": []}, {"end": 50, "headings": []}, {"end": 116, "headings": []}],
        [{"end": 1e9, "headings": []}, {"end": 116, "headings": []}],
        [{"end": 2.5, "headings": []}, {"end": 116, "headings": []}],
        [{"end": 116, "headings": [], "tokens": -1}],
        [{"end": 116, "headings": [], "tokens": "1"}],
        [None, {"end": 116, "headings": []}],
        [{"end": 116, "headings": ["x"] * 21}],
        [{"end": 116, "headings": ["x" * 1001]}],
    ],
)
def test_an_outline_that_does_not_fit_the_body_is_refused_by_the_function_and_by_the_table(
    shared_store: Database, broken: Any
) -> None:
    assert len(RULE + EXCEPTION + REST) == 116
    with pytest.raises(errors.InvalidDocument) as refused, shared_store.tenant("acme_curator") as acme:
        acme.load_documents([policy(outline=broken)])
    assert refused.value.column == "0.outline"
    with shared_store.connect("acme_curator") as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("select rag_api.bind('acme')")
        connection.execute(
            "insert into rag.version (tenant, document_id, version, body, outline) values ('acme', 'X', 1, %s, %s)",
            [RULE + EXCEPTION + REST, json.dumps(broken)],
        )


def test_tokens_are_what_the_loader_counted_or_words_and_punctuation(store: Database) -> None:
    counted = [{**part, "tokens": 7} for part in outline(RULE, EXCEPTION, REST)]
    load(store, policy(outline=[counted[0], outline(RULE, EXCEPTION)[1], counted[2]]))
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        found = connection.execute("select tokens from rag_api.passage order by range_start").fetchall()
    assert found == [(7,), (9,), (7,)]


def test_nobody_who_loads_can_make_a_passage(shared_store: Database) -> None:
    with shared_store.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(
                "insert into rag.passage"
                " (tenant, document_id, version, range_start, range_end, heading_path, text_sha256, words)"
                " values ('acme', 'X', 1, 0, 1, '{}', '', '')"
            )


@ON_SERVER
@given(pieces=st.lists(st.text(characters, min_size=1, max_size=30), min_size=1, max_size=12))
def test_every_passage_is_its_range_of_the_body_and_together_they_are_the_body(
    shared_store: Database, pieces: list[str]
) -> None:
    body = "".join(pieces)
    ends = [part["end"] for part in outline(*pieces)]
    with shared_store.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        connection.execute(
            "insert into rag.version (tenant, document_id, version, body, outline) values ('acme', 'CUT', 1, %s, %s)",
            [body, json.dumps(outline(*pieces, headings=()))],
        )
        found = connection.execute(
            "select range_start, range_end, text, text_sha256 = sha256(convert_to(text, 'UTF8')),"
            " tsvector_to_array(words) = rag.words(text)"
            " from rag_api.passage where document_id = 'CUT' order by range_start"
        ).fetchall()
        connection.rollback()
    assert found == [(start, end, body[start:end], True, True) for start, end in zip([0, *ends], ends, strict=False)]


def check_passages(database: Database, body: str, outlined: list[dict[str, Any]]) -> None:
    """Load a body and read its passages: each is its range of the body, and together they are all of it, once."""
    with database.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        connection.execute(
            "select rag_api.load_documents(p_documents => %s)",
            [Jsonb([{"id": "CUT", "version": 1, "body": body, "outline": outlined}])],
        )
        found = connection.execute(
            "select range_start, range_end, text, sha256(rag.utf8(text)) = text_sha256"
            " from rag_api.passage where document_id = 'CUT' order by range_start"
        ).fetchall()
        connection.rollback()
    assert [(start, end) for start, end, _, _ in found] == list(
        pairwise([0, *([part["end"] for part in outlined] or [len(body)])])
    )
    assert all(text == body[start:end] and hashed for start, end, text, hashed in found)
    assert "".join(text for _, _, text, _ in found) == body


@ON_SERVER
@given(body=bodies.filter(bool), sizes=sizes)
def test_any_markdown_that_is_loaded_is_its_passages(shared_store: Database, body: str, sizes: tuple[int, int]) -> None:
    target, limit = sizes
    check_passages(shared_store, body, cut_by_structure(body, target=target, limit=limit))


def test_the_largest_body_that_is_loaded_is_its_passages(shared_store: Database) -> None:
    body = large()
    assert 10_000_000 < len(body.encode()) <= 10 * 1024 * 1024
    check_passages(shared_store, body, cut_by_structure(body, count=lambda text: len(text) // 6))
