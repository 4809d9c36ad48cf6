"""Contexts and traces: what was handed over, where evidence was lost, and what a label stands for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_sql import Outcome, Trace, errors
from tests.api.strategies import ON_SERVER
from tests.api.travel import (
    ASKED,
    EXCEPTION,
    HOTEL,
    ORIGINALS,
    POLICY,
    RULE,
    cut,
    load,
    record,
)
from tests.conftest import Database


def place(document_id: str, range_start: int, range_end: int, version: int = 4) -> Any:
    return SimpleNamespace(
        tenant="acme", document_id=document_id, version=version, range_start=range_start, range_end=range_end
    )


_RULE = place("EXPENSE", len(HOTEL), len(HOTEL + RULE))
_EXCEPTION = place("EXPENSE", len(HOTEL + RULE), len(HOTEL + RULE + EXCEPTION))


def findings(database: Database, trace: Trace, *required: Any) -> list[tuple[str, int | None, str | None]]:
    with database.tenant("acme_reader") as acme:
        return [(row.finding, row.range_start, row.label) for row in acme.diagnose_trace(trace.trace_id, required)]


# The article's exercise


def test_what_the_retriever_did_not_return_is_a_retrieval_miss(travel: Database) -> None:
    _, trace = record(travel, k=1, query="submit receipts within", neighbours=0)
    assert [passage.text for passage in trace.context] == [RULE]
    assert findings(travel, trace, _RULE, _EXCEPTION) == [("retrieval_miss", _EXCEPTION.range_start, None)]


def test_what_the_budget_dropped_is_a_context_loss_and_its_fact_is_missing(travel: Database) -> None:
    packet, trace = record(travel, budget=14)
    assert packet.sufficient
    assert [passage.text for passage in trace.context] == [RULE]
    assert (trace.outcome, trace.missing) == (Outcome.ASK_FOR_EVIDENCE, ("exception",))
    assert findings(travel, trace, _RULE, _EXCEPTION) == [("context_loss", _EXCEPTION.range_start, None)]


def test_a_label_that_nobody_handed_over_is_an_unknown_citation(travel: Database) -> None:
    _, trace = record(travel, neighbours=0)
    with travel.tenant("acme_reader") as acme:
        acme.record_answer(trace.trace_id, "21 days [P2, P9].", ["P2", "P9"], model="m", prompt_version="1")
    assert findings(travel, trace, _RULE, _EXCEPTION) == [("unknown_citation", None, "P9")]


def test_no_finding_says_nothing_about_a_wrong_answer(travel: Database) -> None:
    _, trace = record(travel)
    with travel.tenant("acme_reader") as acme:
        acme.record_answer(trace.trace_id, "You have 30 days [P1].", ["P1"], model="m", prompt_version="1")
    assert findings(travel, trace, _RULE, _EXCEPTION) == []


def test_the_superseded_rule_is_a_candidate_with_its_reason_and_never_in_the_context(travel: Database) -> None:
    _, trace = record(travel, k=9)
    assert all(passage.version == 4 for passage in trace.context)
    with travel.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        found = connection.execute(
            "select version, eligible, reason from rag_api.trace_candidate where trace_id = %s and not eligible",
            [trace.trace_id],
        ).fetchall()
    assert found == [(3, False, "superseded")]


def test_nothing_required_is_refused_and_so_is_what_is_no_passage(travel: Database) -> None:
    _, trace = record(travel)
    for required in ([], [place("EXPENSE", 3, 9)], [place("EXPENSE", 0, 38, version=9)]):
        with pytest.raises(errors.InvalidRequest), travel.tenant("acme_reader") as acme:
            acme.diagnose_trace(trace.trace_id, required)


def test_identifiers_of_another_retriever_get_the_articles_four_findings(shared_store: Database) -> None:
    required = ["expense-r4-09", "expense-r4-10"]
    with shared_store.tenant("acme_reader") as acme:
        assert acme.diagnose_ids(required, required, {"P1": "expense-r4-09"}, ["P1"]) == {
            "context_loss": ["expense-r4-10"]
        }
        both = {"P1": "expense-r4-09", "P2": "expense-r4-10"}
        assert acme.diagnose_ids(required, required, both, ["P1"]) == {}
        assert acme.diagnose_ids(required, required, both, ["P9"]) == {"unknown_citation": ["P9"]}
        assert acme.diagnose_ids(required, required[:1], both, []) == {
            "retrieval_miss": ["expense-r4-10"],
            "unrecorded_context": ["expense-r4-10"],
        }
        with pytest.raises(errors.InvalidRequest, match="nothing is required"):
            acme.diagnose_ids([], required, both, ["P1"])


ids = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=5)


contexts = st.dictionaries(st.sampled_from(["P1", "P2", "P3"]), st.sampled_from(["a", "b", "c", "d"]))
labels = st.lists(st.sampled_from(["P1", "P2", "P9"]), max_size=3)


@ON_SERVER
@given(required=ids.filter(bool), retrieved=ids, context=contexts, citations=labels)
def test_the_findings_are_the_articles_whatever_the_identifiers(
    shared_store: Database, required: list[str], retrieved: list[str], context: dict[str, str], citations: list[str]
) -> None:
    needed, found, supplied = set(required), set(retrieved), set(context.values())
    expected = {
        "retrieval_miss": needed - found,
        "context_loss": (needed & found) - supplied,
        "unrecorded_context": supplied - found,
        "unknown_citation": set(citations) - set(context),
    }
    with shared_store.tenant("acme_reader") as acme:
        assert acme.diagnose_ids(required, retrieved, context, citations) == {
            name: sorted(lost) for name, lost in expected.items() if lost
        }


# The context


def test_witnesses_are_placed_first_and_neighbours_last(travel: Database) -> None:
    _, trace = record(travel, query="originals receipts international travel", k=3)
    assert [(passage.label, passage.added_as, passage.text) for passage in trace.context] == [
        ("P1", "witness", RULE),
        ("P2", "witness", EXCEPTION),
        ("P3", "selected", ORIGINALS),
        ("P4", "neighbour", HOTEL),
    ]
    assert trace.context[0].heading_path == ("Travel",)


def test_neighbours_give_way_to_the_budget_before_anything_selected(travel: Database) -> None:
    contexts = [[p.text for p in record(travel, budget=budget)[1].context] for budget in (1, 12, 13, 24, 31, 100)]
    assert contexts == [
        [],
        [RULE],
        [RULE],
        [RULE, EXCEPTION],
        [RULE, EXCEPTION, HOTEL],
        [RULE, EXCEPTION, HOTEL, ORIGINALS],
    ]


def test_the_same_bytes_are_handed_over_once_and_the_other_is_recorded(store: Database) -> None:
    copied = {"id": "A-COPY", "version": 1, **cut(EXCEPTION, "Unrelated. ")}
    load(store, POLICY, copied)
    _, trace = record(store, k=3, neighbours=0)
    assert [passage.document_id for passage in trace.context] == ["EXPENSE", "EXPENSE"]
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        found = connection.execute(
            "select document_id, added_as, left_out from rag_api.trace_passage where label is null"
        ).fetchall()
    assert found == [("A-COPY", "selected", "duplicate")]


def test_a_witness_is_never_left_out_as_a_duplicate_of_what_nobody_quoted(store: Database) -> None:
    load(store, {"id": "A", "version": 1, **cut(RULE, "Unrelated. ")}, {**POLICY, "id": "Z"})
    _, trace = record(store, k=3, neighbours=0)
    assert [passage.document_id for passage in trace.context] == ["Z", "Z"]
    assert trace.outcome is Outcome.SUFFICIENT_FOR_TEMPLATE


def test_a_witness_across_passages_brings_all_of_them_or_its_fact_is_missing(store: Database) -> None:
    quote = "of the trip. International travel"
    content = {"case": [], "facts": [{"fact": "both", "propositions": [{"quote": quote, "clauses": ["x"]}]}]}
    load(store, {**POLICY, "spans": [{"id": "s", "fact": "both", "quote": quote}]}, contract=content)
    _, whole = record(store, neighbours=0)
    assert ([p.added_as for p in whole.context], whole.missing) == (["witness", "witness"], ())
    _, half = record(store, neighbours=0, budget=14)
    assert ([p.added_as for p in half.context], half.missing) == (["witness"], ("both",))


def test_the_loaders_own_count_is_what_the_budget_counts(store: Database) -> None:
    load(store, {**POLICY, **cut(HOTEL, RULE, EXCEPTION, ORIGINALS, tokens=99)})
    assert len(record(store, budget=199)[1].context) == 1
    assert len(record(store, budget=200)[1].context) == 2


@ON_SERVER
@given(budget=st.integers(1, 60), neighbours=st.integers(0, 3), k=st.integers(1, 4))
def test_a_context_never_exceeds_its_budget_and_never_repeats_a_text(
    tracing: Database, budget: int, neighbours: int, k: int
) -> None:
    _, trace = record(tracing, k=k, budget=budget, neighbours=neighbours)
    texts = [passage.text for passage in trace.context]
    assert len(set(texts)) == len(texts)
    assert [passage.label for passage in trace.context] == [f"P{number + 1}" for number in range(len(texts))]
    with tracing.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        row = connection.execute(
            "select coalesce(sum(tokens), 0) from rag_api.trace_passage where trace_id = %s and label is not null",
            [trace.trace_id],
        ).fetchone()
    assert row is not None
    assert row[0] <= budget


@pytest.fixture(scope="module")
def tracing(server: Any, installed_template: Database) -> Any:
    database = server.create(installed_template.name)
    load(database, POLICY, {"id": "COPY", "version": 1, **cut(RULE, "Unrelated. ")})
    yield database
    server.drop(database)


# Citations, answers, tenants


def test_a_label_is_rendered_from_the_stored_record(travel: Database) -> None:
    _, trace = record(travel)
    with travel.tenant("acme_reader") as acme:
        first, again = acme.cite(trace.trace_id, ["P2", "P2"])
    assert first == again
    assert (first.document_id, first.version, first.range_start, first.title, first.url) == (
        "EXPENSE",
        4,
        _EXCEPTION.range_start,
        "Travel expenses",
        "https://intranet.example/expenses",
    )


@pytest.mark.parametrize("source", ["intranet", "javascript:alert(1)", "https://x.example/a b", "ftp://x.example"])
def test_what_is_no_address_is_not_rendered_as_one(store: Database, source: str) -> None:
    load(store, {**POLICY, "source": source})
    _, trace = record(store)
    with store.tenant("acme_reader") as acme:
        assert acme.cite(trace.trace_id, ["P1"])[0].url is None


def test_an_answer_is_recorded_by_who_handed_the_context_over(travel: Database) -> None:
    _, trace = record(travel)
    with pytest.raises(errors.NotAllowed), travel.tenant("acme_reviewer") as acme:
        acme.record_answer(trace.trace_id, "14 days [P1].", ["P1"], model="m", prompt_version="1")


def test_what_was_withdrawn_since_is_handed_to_nobody(travel: Database) -> None:
    packet, _ = record(travel)
    with travel.tenant("acme_curator") as acme:
        acme.withdraw_version("EXPENSE", 4)
    with pytest.raises(errors.PacketOutdated) as outdated, travel.tenant("acme_reader") as acme:
        acme.record_trace(packet.packet_id)
    assert outdated.value.detail == '"EXPENSE" version 4 (acme), "EXPENSE" version 4 (acme)'


def test_the_same_bytes_under_other_headings_are_not_the_same(store: Database) -> None:
    said = "International receipts are not allowed. "
    staff = {"id": "STAFF", "version": 1, **cut(said, "Staff. ", headings=("Staff",))}
    guests = {"id": "GUESTS", "version": 1, **cut(said, "Guests. ", headings=("Guests",))}
    load(store, staff, guests, POLICY)
    _, trace = record(store, k=9, neighbours=0)
    assert [passage.heading_path for passage in trace.context if passage.text == said] == [("Guests",), ("Staff",)]


@pytest.mark.parametrize("labels", [["P9"], ["P1", "p1"], ["P1", ""], ["https://evil.example"]])
def test_an_invented_label_cites_nothing(travel: Database, labels: list[str]) -> None:
    _, trace = record(travel)
    with pytest.raises(errors.UnknownLabel), travel.tenant("acme_reader") as acme:
        acme.cite(trace.trace_id, labels)


def test_a_trace_has_one_answer_of_which_the_digest_is_kept(travel: Database) -> None:
    _, trace = record(travel)
    with travel.tenant("acme_reader") as acme:
        acme.record_answer(trace.trace_id, "14 days [P1].", ["P1"], model="m-1", prompt_version="p-2")
    with pytest.raises(errors.TraceAnswered), travel.tenant("acme_reader") as acme:
        acme.record_answer(trace.trace_id, "14 days [P1].", ["P1"], model="m-1", prompt_version="p-2")
    with travel.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        row = connection.execute(
            "select model, prompt_version, citations, answer_sha256 = encode(sha256('14 days [P1].'), 'hex')"
            " from rag_api.trace where trace_id = %s",
            [trace.trace_id],
        ).fetchone()
    assert row == ("m-1", "p-2", ["P1"], True)


def test_another_tenants_trace_is_the_same_error_as_none(travel: Database) -> None:
    _, trace = record(travel)
    said = set()
    for trace_id in (trace.trace_id, "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(errors.TraceNotFound) as refused, travel.tenant("northwind_reader") as northwind:
            northwind.cite(trace_id, ["P1"])
        said.add(refused.value.message.replace(trace_id, "ID"))
    assert said == {"there is no trace ID"}


@pytest.mark.parametrize(
    "options", [{"budget": 0}, {"budget": 10_000_001}, {"neighbours": -1}, {"neighbours": 11}, {"candidates": 1001}]
)
def test_an_argument_out_of_range_is_refused(travel: Database, options: dict[str, int]) -> None:
    with pytest.raises(errors.InvalidRequest):
        record(travel, 2, ASKED, **options)


def test_a_trace_is_written_by_its_function_alone(travel: Database) -> None:
    packet, _ = record(travel)
    with travel.connect("acme_curator") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select rag_api.bind('acme')")
        connection.execute(
            "insert into rag.trace (tenant, packet_id, budget, neighbours, outcome, missing)"
            " values ('acme', %s, 1, 1, 'AskForEvidence', '{}')",
            [packet.packet_id],
        )
