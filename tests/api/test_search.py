"""Ranking by the index: exact whatever is pruned, at any instant, for any case, before and after maintenance."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import psycopg
import pytest

from rag_sql import _maintenance, errors
from tests.api.searching import ask, expected, found, grow
from tests.conftest import Database
from tests.vectors import add


@pytest.mark.parametrize("seed", range(2))
def test_bm25_by_the_index_is_bm25_by_the_texts(store: Database, seed: int) -> None:
    chosen = random.Random(seed)
    since = datetime.now(UTC)
    grow(store, chosen)
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        for number in range(25):
            asked = ask(chosen, since)
            assert found(connection, asked) == expected(connection, asked), f"query {number} of seed {seed}: {asked}"


def test_maintenance_changes_no_byte_of_a_ranking(store: Database) -> None:
    chosen = random.Random(11)
    since = datetime.now(UTC)
    for age in range(3):
        grow(store, chosen, age)
    questions = [ask(chosen, since) for _ in range(30)]
    with store.engine("postgres") as engine, store.connect("acme_reader", autocommit=True) as connection:
        connection.execute("set rag.tenant = 'acme'")
        before = [found(connection, asked) for asked in questions]
        assert _maintenance.due(engine, 2)
        _maintenance.maintain(engine, least=2)
        assert _maintenance.due(engine, 2) == []
        assert [found(connection, asked) for asked in questions] == before


def test_search_returns_texts_and_says_why(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents(
            [
                {"id": "A", "version": 1, "title": "Pumps", "body": "The valves were closing.", "language": "english"},
                {"id": "B", "version": 1, "body": "Nothing like it."},
                {"id": "C", "version": 1, "body": "A valve.", "applies_to": {"model": ["m2"]}},
            ]
        )
    with store.tenant("acme_reader") as acme:
        (hit,) = acme.search("close the valve", why=True)
        assert (hit.document_id, hit.title, hit.text) == ("A", "Pumps", "The valves were closing.")
        assert set(hit.why) == {"close", "valv"}
        assert sum(hit.why.values()) == hit.score
        assert [hit.document_id for hit in acme.search("valve", case={"model": "m2"})] == ["A", "C"]
        assert acme.search("unheard") == []


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("best", {}),
        ("bm25", {"k1": -1}),
        ("bm25", {"k1": 11}),
        ("bm25", {"b": 1.5}),
        ("bm25", {"b": "half"}),
        ("bm25", {"k2": 1}),
        ("bm25", {"k1": 1.0000001}),
        ("overlap", {"k1": 1}),
        ("vector", {}),
        ("vector", {"model": "m"}),
        ("vector", {"model": "m", "vector": []}),
        ("vector", {"model": "m", "vector": ["a"]}),
        ("hybrid", {"model": "m", "vector": [1], "depth": 0}),
    ],
)
def test_a_ranking_that_is_none_is_an_error(store: Database, method: str, parameters: dict[str, object]) -> None:
    with store.tenant("acme_reader") as acme, pytest.raises(errors.InvalidRequest):
        acme.search("word", method=method, parameters=parameters)


def test_a_long_passage_is_indexed_whole(store: Database) -> None:
    """A megabyte of words in one passage: more than one tsvector takes, more positions than it counts."""
    body = " ".join(f"w{number}" for number in range(100_000)) + " needle" + " common" * 20_000
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "LONG", "version": 1, "body": body, "outline": []}])
    with store.tenant("acme_reader") as acme:
        (hit,) = acme.search("needle", why=True)
        assert hit.document_id == "LONG"
        assert set(acme.search("common w99999", why=True)[0].why) == {"common", "w99999"}


def test_overlap_says_which_words_of_the_query_are_in_a_passage(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents(
            [{"id": "A", "version": 1, "body": "Close the VALVE."}, {"id": "B", "version": 1, "body": "The end"}]
        )
    with store.tenant("acme_reader") as acme:
        hits = acme.search("the valve leaks", method="overlap", why=True)
    assert [(hit.document_id, hit.score, hit.why) for hit in hits] == [
        ("A", 2, {"the": 1, "valve": 1}),
        ("B", 1, {"the": 1}),
    ]


def test_a_word_is_counted_to_255_in_a_passage(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents(
            [{"id": f"D{number}", "version": 1, "body": "needle " * number} for number in (254, 255, 256, 1000)]
        )
    with store.tenant("acme_reader") as acme:
        scores = {hit.document_id: hit.score for hit in acme.search("needle", parameters={"k1": 10, "b": 0})}
    assert scores["D254"] < scores["D255"] == scores["D256"] == scores["D1000"]


def test_who_loads_a_document_at_once_with_another_ends_the_use_of_the_others_version(store: Database) -> None:
    """Neither would see the other's version: the second load waits, and then does."""
    load = "select rag_api.load_documents(%s)"
    with store.connect("acme_curator") as one, store.connect("acme_curator") as two, ThreadPoolExecutor(1) as pool:
        for connection in (one, two):
            connection.execute("select rag_api.bind(p_tenant => 'acme')")
        one.execute(load, ['[{"id": "D", "version": 2, "body": "beta"}]'])
        second = pool.submit(two.execute, load, ['[{"id": "D", "version": 1, "body": "alpha"}]'])
        with store.connect("postgres", autocommit=True) as observer:
            waits = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
            while observer.execute(waits, [two.info.backend_pid]).fetchone() != (True,):
                assert not second.done()
        one.commit()
        second.result()
        two.commit()
    with store.tenant("acme_reader") as acme:
        assert [(hit.document_id, hit.version) for hit in acme.search("alpha beta")] == [("D", 1)]


def embedded(store: Database) -> None:
    """Three documents with vectors of two numbers, one without, one of public."""
    documents: list[dict[str, Any]] = [
        {"id": "A", "version": 1, "body": "valve valve"},
        {"id": "B", "version": 1, "body": "valve of a pump", "spans": [{"id": "s", "fact": "f", "quote": "valve"}]},
        {"id": "C", "version": 1, "body": "nothing alike", "applies_to": {"model": ["m2"]}},
        {"id": "D", "version": 1, "body": "no vector and a valve"},
    ]
    vectors = {"A": [0.0, 1.0], "B": [1.0, 1.0], "C": [1.0, 0.0]}
    with store.tenant("acme_curator") as acme:
        acme.load_documents(documents)
    with store.tenant("publisher") as public:
        public.load_documents([{"id": "A", "version": 1, "body": "public and alike"}])
    for login, given in (("acme_curator", vectors), ("publisher", {"A": [1.0, 0.1]})):
        with store.connect(login) as connection:
            connection.execute("select rag_api.bind(%s)", ["acme" if login == "acme_curator" else "public"])
            add(connection, given)


def test_by_vector_the_nearest_that_may_be_used_come_and_no_others(store: Database) -> None:
    embedded(store)
    parameters = {"model": "hash", "vector": [1, 0]}
    with store.tenant("acme_reader") as acme:
        hits = acme.search("x", method="vector", parameters=parameters)
        assert [(hit.tenant, hit.document_id) for hit in hits] == [("public", "A"), ("acme", "B"), ("acme", "A")]
        best, *_ = acme.search("x", method="vector", parameters=parameters, case={"model": "m2"})
        assert (best.document_id, best.score) == ("C", 1_000_001)
    with store.tenant("northwind_reader") as northwind:
        (hit,) = northwind.search("x", method="vector", parameters=parameters)
        assert (hit.tenant, hit.document_id) == ("public", "A")


def test_hybrid_is_the_two_rankings_by_reciprocal_ranks(store: Database) -> None:
    embedded(store)
    parameters: dict[str, Any] = {"model": "hash", "vector": [1, 0]}
    with store.tenant("acme_reader") as acme:
        by_word = [(hit.tenant, hit.document_id) for hit in acme.search("valve")]
        by_vector = [(h.tenant, h.document_id) for h in acme.search("valve", method="vector", parameters=parameters)]
        assert (len(by_word), len(by_vector)) == (3, 3)
        for weights in ({}, {"bm25_weight": 3, "rrf_k": 1}, {"vector_weight": 0}, {"bm25_weight": 0.5}):
            hits = acme.search("valve", method="hybrid", parameters=parameters | weights, why=True)
            given = {"rrf_k": 60, "bm25_weight": 1, "vector_weight": 1} | weights
            for hit in hits:
                place = (hit.tenant, hit.document_id)
                ranks = [found.index(place) + 1 if place in found else None for found in (by_word, by_vector)]
                assert [hit.bm25_rank, hit.vector_rank] == ranks
                assert hit.score == sum(
                    int(Fraction(10_000_000) * Fraction(str(given[name])) / (given["rrf_k"] + rank))
                    for name, rank in zip(("bm25_weight", "vector_weight"), ranks, strict=True)
                    if rank is not None
                )
                assert (hit.why is not None) == (hit.bm25_rank is not None)
            assert hits == sorted(hits, key=lambda hit: -hit.score)


def test_a_contract_says_how_its_passages_are_ranked_and_a_request_may_say_otherwise(store: Database) -> None:
    embedded(store)
    contract = {
        "case": [],
        "facts": [{"fact": "f", "propositions": [{"quote": "valve", "clauses": ["A valve."]}]}],
        "ranking": {"method": "bm25", "b": 0.5},
    }
    with store.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, contract)
    with store.tenant("acme_reader") as acme:
        packet = acme.record_packet("q", query="valve", case={}, k=2)
        assert (packet.request.method, packet.request.parameters) == ("bm25", {"k1": 1.2, "b": 0.5})
        assert packet.verify() == []
        assert [source.document_id for source in packet.sources] == ["A", "B"]
        assert acme.evidence_changes(packet.packet_id) == []
        again = acme.decide("q", query="valve", case={}, k=2, parameters={"b": 0.75})
        assert again.request.parameters == {"k1": 1.2, "b": 0.75}
        vector = {"model": "hash", "vector": [1, 0]}
        near = acme.record_packet("q", query="valve", case={}, k=2, method="vector", parameters=vector)
        assert [source.document_id for source in near.sources] == ["A", "B"]
        assert near.sources[0].tenant == "public"
        assert near.request.parameters == vector | {"model_version": "1"}
        assert near.verify() == []
        assert acme.evidence_changes(near.packet_id) == []
        rows = acme.explain("q", query="valve", case={}, k=2, method="vector", parameters=vector)
        assert [(row.document_id, row.tenant, row.selected) for row in rows[:3]] == [
            ("C", "acme", False),
            ("A", "public", True),
            ("B", "acme", True),
        ]


@pytest.mark.parametrize("method", ["bm25", "vector", "hybrid"])
def test_a_trace_records_the_candidates_of_the_method_that_decided(store: Database, method: str) -> None:
    embedded(store)
    contract = {"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "valve", "clauses": ["A valve."]}]}]}
    parameters = {} if method == "bm25" else {"model": "hash", "vector": [1, 0]}
    with store.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, contract)
    with store.tenant("acme_reader") as acme:
        packet = acme.record_packet("q", query="valve", case={}, k=2, method=method, parameters=parameters)
        explained = acme.explain("q", query="valve", case={}, k=2, method=method, parameters=parameters)
        trace = acme.record_trace(packet.packet_id)
        seen = [(c.document_tenant, c.document_id, c.eligible) for c in acme.trace_candidates(trace.trace_id)]
    assert seen == [(row.tenant, row.document_id, row.eligible) for row in explained if row.score > 0]
    assert ("acme", "C", False) in seen or method == "bm25"


@pytest.mark.parametrize("k", [0, -1, 1001, None])
@pytest.mark.parametrize("method", ["overlap", "bm25", "vector", "hybrid"])
def test_a_selection_of_no_passages_is_empty(store: Database, method: str, k: int | None) -> None:
    embedded(store)
    parameters = {"model": "hash", "vector": [1, 0]} if method in ("vector", "hybrid") else {}
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        selection = "select from rag_api.selection('valve', '{}', %s, p_method => %s, p_parameters => %s)"
        assert connection.execute(selection, (k, method, json.dumps(parameters))).fetchall() == []


@pytest.mark.parametrize(
    "instants", ["'infinity', 'infinity'", "'-infinity', null", "null, 'infinity'", "null, '2999-01-01'"]
)
def test_a_selection_at_an_instant_that_is_none_is_an_error(store: Database, instants: str) -> None:
    with store.connect("acme_reader") as connection, pytest.raises(psycopg.Error) as raised:
        connection.execute(f"select from rag_api.selection('x', '{{}}', 5, {instants})".encode())
    assert raised.value.sqlstate == "RS010"


def test_a_query_of_ten_thousand_rare_words_has_a_score(store: Database) -> None:
    """Each word adds to it, and all of them more than an integer takes: the score is the greatest that there is."""
    query = " ".join(f"w{number:04}" for number in range(10_000))
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "ALL", "version": 1, "body": query}])
        acme.load_documents([{"id": f"D{number}", "version": 1, "body": "other"} for number in range(300)])
    with store.tenant("acme_reader") as acme:
        (hit,) = acme.search(query, parameters={"k1": 10, "b": 0})
        assert (hit.document_id, hit.score) == ("ALL", 2**31 - 1)


def test_what_was_in_use_at_two_instants_costs_no_look_at_each_version_for_each(store: Database) -> None:
    """Also before the tables are analyzed, when the planner takes every index of theirs for as good as another."""
    count = 300
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": f"D{number}", "version": 1, "body": "word"} for number in range(count)])
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        for method in ("overlap", "bm25"):
            selected = "select from rag_api.selection('word', '{}', 1000, now() + interval '1 day', null, %s)"
            assert len(connection.execute(selected, [method]).fetchall()) == count
        ((rows,),) = connection.execute(
            "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables"
            " where schemaname = 'rag_index' and relname = 'version'"
        ).fetchall()
    assert count < rows < 20 * count


def test_a_load_that_does_not_end_holds_up_the_maintenance_of_its_own_tenant_alone(store: Database) -> None:
    for login in ("acme_curator", "northwind_curator"):
        for version in (1, 2):
            with store.tenant(login) as tenant:
                tenant.load_documents([{"id": "D", "version": version, "body": "word"}])
    with store.connect("acme_curator") as connection, store.engine("postgres") as engine:
        connection.execute("select rag_api.bind('acme')")
        connection.execute("select rag_api.load_documents(%s)", ['[{"id": "D", "version": 3, "body": "word"}]'])
        report = _maintenance.maintain(engine, least=2, patience="50ms")
        assert (report.segments, report.busy) == (2, 2)
        assert [tenant for tenant, *_ in _maintenance.due(engine, 2)] == ["acme"]
        connection.commit()
        assert _maintenance.maintain(engine, least=2).busy == 0
        assert _maintenance.due(engine, 2) == []


def test_who_audits_is_told_that_candidates_come_by_overlap(store: Database) -> None:
    embedded(store)
    with store.connect("auditor") as connection:
        assert connection.execute("select from rag_api.candidates('valve', '{}', 9)").rowcount == 5
        with pytest.raises(psycopg.Error) as raised:
            connection.execute("select from rag_api.candidates('valve', '{}', 9, p_method => 'bm25')")
    assert raised.value.sqlstate == "RS010"


def test_what_is_past_is_put_together_too(store: Database) -> None:
    for version in range(1, 6):
        with store.tenant("acme_curator") as acme:
            acme.load_documents(
                [{"id": f"D{number}", "version": version, "body": f"v{version}"} for number in range(3)]
            )
        with store.engine("postgres") as engine:
            _maintenance.maintain(engine, least=2)
    with store.connect("postgres") as superuser:
        (segments,) = superuser.execute("select count(*) from rag_index.segment").fetchone() or (0,)
    assert segments <= 3  # what is in use, and of the past two of unlike sizes at most, not four
    with store.tenant("acme_reader") as acme:
        assert [hit.version for hit in acme.search("v4 v5")] == [5, 5, 5]


def test_who_waits_for_a_load_holds_up_nothing_that_it_loads_later(store: Database) -> None:
    """One transaction loads X, another Y and waits; then the first loads Y too. Neither is a victim."""
    load = "select status from rag_api.load_documents(%s)"
    x, y = (json.dumps([{"id": name, "version": 1, "body": "alpha"}]) for name in "XY")
    with store.connect("acme_curator") as one, store.connect("acme_curator") as two, ThreadPoolExecutor(1) as pool:
        for connection in (one, two):
            connection.execute("select rag_api.bind(p_tenant => 'acme')")
        one.execute(load, [x])
        second = pool.submit(two.execute, load, [y])
        with store.connect("postgres", autocommit=True) as observer:
            waits = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
            while observer.execute(waits, [two.info.backend_pid]).fetchone() != (True,):
                assert not second.done()
        assert one.execute(load, [y]).fetchone() == ("new",)
        one.commit()
        assert second.result().fetchone() == ("same",)


@pytest.mark.parametrize("method", ["vector", "hybrid"])
def test_what_was_decided_is_decided_again_without_the_vectors_that_came_later(store: Database, method: str) -> None:
    embedded(store)
    contract = {"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "valve", "clauses": ["A valve."]}]}]}
    asked: dict[str, Any] = {"query": "alike", "case": {}, "k": 9, "method": method}
    asked["parameters"] = {"model": "hash", "vector": [1, 0]}
    with store.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, contract)
    with store.tenant("acme_reader") as acme:
        before = acme.record_packet("q", **asked)
    with store.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        add(connection, {"D": [1.0, 0.0]})
    with store.tenant("acme_reader") as acme:
        assert acme.decide("q", **asked).digest != before.digest
        times: dict[str, Any] = {"valid_at": before.request.valid_at, "known_at": before.request.known_at}
        assert acme.decide("q", **asked, **times).preimage == before.preimage
