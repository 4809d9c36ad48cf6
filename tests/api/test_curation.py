"""Curation: spans that come after their documents, and what of a contract stands where."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from rag_sql import PropositionOccurrence, draft, errors
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database

Json = dict[str, Any]

HOLD = "While an audit hold is active, collect a diagnostic export and do not roll back firmware"
ISSUE = "G2 firmware 2.4.1 may stop sending telemetry after a reconnect."
BODY = "Submit receipts within 14 days. Late receipts are refused. Receipts are kept."

DOCUMENT: Json = {"id": "POL-1", "version": 1, "body": BODY}
SPAN: Json = {
    "document": "POL-1",
    "version": 1,
    "span": "s1",
    "fact": "deadline",
    "quote": "Submit receipts within 14 days.",
}
OTHER: Json = {**SPAN, "span": "s2", "fact": "refusal", "quote": "Late receipts are refused."}


def contract(*facts: tuple[str, list[str]]) -> Json:
    return {
        "case": [],
        "facts": [
            {"fact": fact, "propositions": [{"quote": quote, "clauses": ["Said."]} for quote in quotes]}
            for fact, quotes in facts
        ],
    }


@pytest.fixture
def loaded(store: Database) -> Database:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([DOCUMENT])
    return store


def spans(database: Database, login: str = "acme_reader") -> list[tuple[str, int, str]]:
    with database.connect(login) as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        return connection.execute(
            "select document_id, version, span_id from rag_api.span where tenant = 'acme'"
            ' order by document_id collate "C", version, span_id collate "C"'
        ).fetchall()


def refused(database: Database, added: Any, login: str = "acme_curator", tenant: str | None = "acme") -> Any:
    with (
        database.store(login) as opened,
        pytest.raises((errors.RagSqlError, sa.exc.ProgrammingError)) as caught,
        opened.tenant(tenant) as bound,
    ):
        bound.add_spans(added)
    return caught.value


# Adding


def test_spans_are_added_to_a_document_that_is_there_and_located_by_the_database(loaded: Database) -> None:
    with loaded.tenant("acme_curator") as acme:
        added = acme.add_spans([OTHER, SPAN])
        assert [(span.span_id, span.status) for span in added] == [("s2", "new"), ("s1", "new")]
        assert acme.span_check() == []
    with loaded.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        found = connection.execute("select span_id, range_start, range_end from rag_api.span order by 1").fetchall()
    assert found == [("s1", 0, 31), ("s2", 32, 58)]


def test_what_is_there_already_is_the_same(loaded: Database) -> None:
    with loaded.tenant("acme_curator") as acme:
        acme.add_spans([SPAN])
        assert [span.status for span in acme.add_spans([SPAN, OTHER])] == ["same", "new"]
        assert acme.load_documents([DOCUMENT])[0].status == "same"


def test_a_span_that_came_with_its_document_is_the_same_when_it_is_curated(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents(
            [{**DOCUMENT, "spans": [{"id": "s1", "fact": SPAN["fact"], "quote": SPAN["quote"]}]}],
        )
        assert [span.status for span in acme.add_spans([SPAN])] == ["same"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"fact": "other"}, "fact"),
        ({"quote": "within 14 days"}, "quote"),
        ({"quote": "not in the document at all"}, "quote"),
        ({"occurrence": 1}, "occurrence"),
        ({"fact": "other", "quote": "14 days"}, "fact, quote"),
    ],
)
def test_a_span_that_exists_with_other_content_is_refused_and_so_is_the_rest(
    loaded: Database, change: Json, what: str
) -> None:
    with loaded.tenant("acme_curator") as acme:
        acme.add_spans([SPAN])
    error = refused(loaded, [OTHER, {**SPAN, **change}])
    assert type(error) is errors.SpanConflict
    assert error.message == f'span "s1" of "POL-1" version 1 exists with other content: {what}'
    assert error.column == "1.span"
    assert spans(loaded) == [("POL-1", 1, "s1")]


def test_a_quotation_that_is_not_in_the_body_is_refused_and_so_is_the_rest(loaded: Database) -> None:
    error = refused(loaded, [SPAN, {**OTHER, "quote": "Late receipts are accepted."}])
    assert type(error) is errors.QuoteNotFound
    assert (error.table, error.datatype, error.constraint) == ("POL-1", "1", "s2")
    assert spans(loaded) == []


def test_an_ambiguous_quotation_is_refused_until_it_names_its_occurrence(loaded: Database) -> None:
    again = {**SPAN, "quote": "eceipts"}
    assert type(refused(loaded, [again])) is errors.AmbiguousQuote
    assert type(refused(loaded, [{**again, "occurrence": 4}])) is errors.QuoteNotFound
    with loaded.tenant("acme_curator") as acme:
        assert acme.add_spans([{**again, "occurrence": 2}])[0].status == "new"
    assert type(refused(loaded, [{**again, "occurrence": 1}])) is errors.SpanConflict


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"document": ""}, "document"),
        ({"document": 7}, "document"),
        ({"document": "x" * 201}, "document"),
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
        ({"version": 1.5}, "version"),
        ({"version": 3000000000}, "version"),
        ({"version": None}, "version"),
        ({"span": " s"}, "span"),
        ({"span": "s\n"}, "span"),
        ({"span": None}, "span"),
        ({"fact": ""}, "fact"),
        ({"fact": "f\t"}, "fact"),
        ({"fact": ["f"]}, "fact"),
        ({"quote": ""}, "quote"),
        ({"quote": None}, "quote"),
        ({"occurrence": 0}, "occurrence"),
        ({"occurrence": None}, "occurrence"),
        ({"occurrence": 1001}, "occurrence"),
        ({"id": "s1"}, "id"),
    ],
)
def test_a_malformed_span_is_refused_with_its_place(shared_store: Database, change: Json, key: str) -> None:
    error = refused(shared_store, [SPAN, {**OTHER, **change}])
    assert type(error) is errors.InvalidDocument
    assert error.column == f"1.{key}"


@pytest.mark.parametrize("missing", ["document", "version", "span", "fact", "quote"])
def test_a_span_names_its_document_version_id_fact_and_quotation(shared_store: Database, missing: str) -> None:
    error = refused(shared_store, [{key: value for key, value in SPAN.items() if key != missing}])
    assert (type(error), error.column) == (errors.InvalidDocument, f"0.{missing}")


def test_a_span_twice_in_one_list_is_refused(loaded: Database) -> None:
    error = refused(loaded, [SPAN, OTHER, SPAN])
    assert (type(error), error.column) == (errors.InvalidDocument, "2.span")
    assert spans(loaded) == []


def test_what_is_no_span_and_no_list_is_refused(shared_store: Database) -> None:
    assert refused(shared_store, ["s1"]).column == "0.document"
    with shared_store.connect("acme_curator") as connection, pytest.raises(errors.InvalidDocument):
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        with errors.translate():
            connection.execute("select * from rag_api.add_spans(p_spans => '{}')")


def test_adding_nothing_adds_nothing(shared_store: Database) -> None:
    with shared_store.tenant("acme_curator") as acme:
        assert acme.add_spans([]) == []


def test_many_spans_are_added_in_one_statement(store: Database) -> None:
    body = " ".join(f"sentence-{number}." for number in range(3000))
    added = [{**SPAN, "span": f"s{number}", "quote": f"sentence-{number}."} for number in range(3000)]
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{**DOCUMENT, "body": body}])
        assert {span.status for span in acme.add_spans(added)} == {"new"}
        assert {span.status for span in acme.add_spans(added)} == {"same"}


# Whose documents


@pytest.mark.parametrize("version", [1, 3])
def test_anothers_version_a_public_one_and_one_that_is_not_there_are_the_same_error(
    gateway: Database, version: int
) -> None:
    seen = set()
    for document in ("PRIVATE", "GW-241", "NOWHERE"):
        error = refused(gateway, [{**SPAN, "document": document, "version": version}])
        assert type(error) is errors.VersionNotFound
        seen.add((error.message.replace(document, "ID"), error.detail, error.hint, error.column, error.table))
    assert len(seen) == 1
    assert {column for _, _, _, column, _ in seen} == {"0.version"}


def test_another_version_of_ones_own_document_is_not_found(gateway: Database) -> None:
    error = refused(gateway, [{**SPAN, "document": "HOLD-7", "version": 3}])
    assert (type(error), error.message) == (errors.VersionNotFound, 'no version 3 of document "HOLD-7"')


@pytest.mark.parametrize(
    ("login", "tenant", "error"),
    [
        ("acme_reader", "acme", sa.exc.ProgrammingError),
        ("acme_reviewer", "acme", sa.exc.ProgrammingError),
        ("acme_curator", None, errors.TenantRequired),
        ("acme_curator", "northwind", errors.TenantNotBound),
        ("acme_curator", "public", errors.TenantNotBound),
        ("public_curator", "public", errors.NotAllowed),
        ("publisher", "acme", errors.TenantNotBound),
    ],
)
def test_who_may_not_curate(shared_gateway: Database, login: str, tenant: str | None, error: type[Exception]) -> None:
    added = [{**SPAN, "document": "HOLD-7", "version": 2, "quote": "audit hold"}]
    assert type(refused(shared_gateway, added, login, tenant)) is error


def test_a_publisher_curates_public_documents(gateway: Database) -> None:
    added = {**SPAN, "document": "GW-241", "version": 3, "span": "s2", "quote": ISSUE}
    with gateway.tenant("publisher") as public:
        assert [span.status for span in public.add_spans([added])] == ["new"]


# Two curators at once


@pytest.mark.parametrize("same", [True, False], ids=["the same spans", "other quotations"])
def test_of_two_curators_the_second_waits_and_compares(store: Database, same: bool) -> None:
    """In opposite order, so that adding in the order given would deadlock."""
    body = " ".join(f"[{number}]" for number in range(50)) + " end"
    first = [{**SPAN, "span": f"s{number}", "quote": f"[{number}]"} for number in range(50)]
    second = [{**span, "quote": span["quote"] if same else "end"} for span in reversed(first)]
    outcome: list[Any] = []
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{**DOCUMENT, "body": body}])

    def curate() -> None:
        try:
            with store.tenant("acme_curator") as acme:
                outcome.append({span.status for span in acme.add_spans(second)})
        except errors.RagSqlError as error:
            outcome.append(type(error))

    with store.connect("postgres", autocommit=True) as watcher:
        with store.tenant("acme_curator") as acme:
            acme.add_spans(first)
            thread = threading.Thread(target=curate)
            thread.start()
            while watcher.execute(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            ).fetchone() != (1,):
                assert thread.is_alive()
        thread.join(timeout=20)
    assert outcome == ([{"same"}] if same else [errors.SpanConflict])
    assert len(spans(store)) == 50


# What a span changes


def without_hold_span(database: Database) -> None:
    """HOLD-7 as a folder of plain text has it: no span yet."""
    body = (SEED / "acme" / "HOLD-7.md").read_text("utf-8").split("---\n")[2]
    with database.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "HOLD-7", "version": 5, "body": body}])


CURATED: Json = {"document": "HOLD-7", "version": 5, "span": "hold", "fact": "audit-constraint", "quote": HOLD}


def test_a_span_makes_a_missing_fact_covered_and_changes_the_digest(gateway: Database) -> None:
    without_hold_span(gateway)
    with gateway.tenant("acme_reader") as acme:
        before = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    assert before.missing == ("audit-constraint",)
    with gateway.tenant("acme_curator") as acme:
        acme.add_spans([CURATED])
    with gateway.tenant("acme_reader") as acme:
        after = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
        then = acme.decide(
            QUESTION, query=QUERY, case=CASE, k=2, known_at=datetime.fromisoformat(before.request.known_at)
        )
    assert after.sufficient
    assert after.digest != before.digest
    assert (then.missing, then.digest) == (before.missing, before.digest)


def test_a_label_alone_covers_nothing(gateway: Database) -> None:
    without_hold_span(gateway)
    with gateway.tenant("acme_curator") as acme:
        acme.add_spans([{**CURATED, "quote": HOLD[:-1]}])
    with gateway.tenant("acme_reader") as acme:
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).missing == ("audit-constraint",)


def test_an_approval_goes_stale_and_names_the_span_that_came(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    claims = draft(packet)
    with gateway.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, claims))
    with gateway.tenant("acme_curator") as acme:
        acme.add_spans([{**CURATED, "version": 2, "span": "refusal", "fact": "x", "quote": "rollback requests"}])
    with gateway.store("acme_reader") as store, pytest.raises(errors.StaleApproval) as caught:
        with store.tenant("acme") as acme:
            acme.require_approval(packet.packet_id, claims)
    assert "HOLD-7 (acme): version 2, spans: s1 -> version 2, spans: refusal, s1" in caught.value.detail


# What of a contract stands where


def occurrences(database: Database, question: str = QUESTION, **options: Any) -> list[PropositionOccurrence]:
    with database.tenant("acme_reader") as acme:
        return acme.proposition_occurrences(question, **options)


def places(found: list[PropositionOccurrence]) -> list[tuple[Any, ...]]:
    return [(row.fact, row.tenant, row.document_id, row.version, row.range_start, row.span_ids) for row in found]


def test_each_proposition_is_found_in_the_versions_that_contain_it(gateway: Database) -> None:
    assert places(occurrences(gateway)) == [
        ("known-issue", "public", "GW-241", 3, 0, ("s1",)),
        ("audit-constraint", "acme", "HOLD-7", 2, 0, ("s1",)),
    ]


def test_a_proposition_without_a_span_is_found_all_the_same(gateway: Database) -> None:
    without_hold_span(gateway)
    assert places(occurrences(gateway))[1] == ("audit-constraint", "acme", "HOLD-7", 5, 0, ())
    with gateway.tenant("acme_curator") as acme:
        acme.add_spans([CURATED, {**CURATED, "span": "again"}, {**CURATED, "span": "label", "fact": "known-issue"}])
    assert places(occurrences(gateway))[1] == ("audit-constraint", "acme", "HOLD-7", 5, 0, ("again", "hold"))


def test_a_proposition_that_stands_nowhere_has_one_row_without_a_place(gateway: Database) -> None:
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    (_, row) = occurrences(gateway)
    assert row == PropositionOccurrence(2, "audit-constraint", 1, HOLD, None, None, None, None, False, ())


@pytest.mark.parametrize("status", ["withdrawn", "scheduled", "superseded"])
def test_only_current_versions_count(loaded: Database, status: str) -> None:
    with loaded.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, contract(("deadline", ["Submit receipts within 14 days."])))
        match status:
            case "withdrawn":
                acme.withdraw_version("POL-1", 1)
            case "scheduled":
                acme.withdraw_version("POL-1", 1)
                acme.load_documents([{**DOCUMENT, "id": "POL-2", "effective_from": "2999-01-01"}])
            case "superseded":
                acme.load_documents([{**DOCUMENT, "version": 2, "body": "Nothing of it."}])
    (row,) = occurrences(loaded, "q")
    assert row.document_id is None


def test_anothers_documents_are_not_looked_at(gateway: Database) -> None:
    with gateway.tenant("northwind_curator") as northwind:
        northwind.load_documents([{"id": "COPY", "version": 1, "body": f"{HOLD}. {ISSUE}"}])
        northwind.add_contract("theirs", 1, contract(("f", ["q"])))
    assert {row.document_id for row in occurrences(gateway)} == {"GW-241", "HOLD-7"}
    with gateway.store("acme_reader") as store, pytest.raises(errors.UnsupportedQuestion), store.tenant("acme") as acme:
        acme.proposition_occurrences("theirs")


def test_propositions_come_in_contract_order_and_versions_by_bytes(loaded: Database) -> None:
    with loaded.tenant("acme_curator") as acme:
        acme.load_documents([{**DOCUMENT, "id": "Pol-0"}, {**DOCUMENT, "id": "a"}])
        acme.add_contract(
            "q", 1, contract(("z", ["Late receipts are refused.", "receipts within"]), ("a", ["No such sentence."]))
        )
    assert [
        (row.fact_position, row.proposition_position, row.document_id, row.range_start)
        for row in occurrences(loaded, "q")
    ] == [
        (1, 1, "POL-1", 32),
        (1, 1, "Pol-0", 32),
        (1, 1, "a", 32),
        (1, 2, "POL-1", 7),
        (1, 2, "Pol-0", 7),
        (1, 2, "a", 7),
        (2, 1, None, None),
    ]


def test_places_are_code_points_and_a_repetition_is_said(loaded: Database) -> None:
    with loaded.tenant("acme_curator") as acme:
        acme.load_documents([{**DOCUMENT, "id": "E", "body": "é😀 aaa"}])
        acme.add_contract("q", 1, contract(("f", ["aa", "😀 a"])))
    assert [(row.range_start, row.is_repeated) for row in occurrences(loaded, "q")] == [(3, True), (1, False)]


def test_the_contract_is_the_one_that_the_tenant_would_get(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.add_contract(QUESTION, 1, contract(("own", ["audit"])))
        acme.add_contract(QUESTION, 2, contract(("newest", ["audit"])))
    assert {row.fact for row in occurrences(gateway)} == {"newest"}
    assert {row.fact for row in occurrences(gateway, contract_version=1)} == {"own"}
    for question, version, error in (
        (QUESTION, 3, errors.UnknownContractVersion),
        ("nope", None, errors.UnsupportedQuestion),
    ):
        with gateway.store("acme_reader") as store, pytest.raises(error), store.tenant("acme") as acme:
            acme.proposition_occurrences(question, contract_version=version)


# What comes nearest


def test_the_nearest_passage_shares_most_words_and_brings_its_text(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        (nearest,) = acme.nearest_passage("While an audit hold is active, do not roll back")
        assert (nearest.document_id, nearest.tenant, nearest.version, nearest.range_start) == ("HOLD-7", "acme", 2, 0)
        assert nearest.text.startswith(HOLD)
        assert nearest.range_end == len(nearest.text)
        assert nearest.score == 10


def test_ties_are_by_bytes_and_k_is_the_most(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": name, "version": 1, "body": "One two."} for name in ("b", "B", "a", "é")])
        assert [row.document_id for row in acme.nearest_passage("two one", k=3)] == ["B", "a", "b"]
        assert len(acme.nearest_passage("two one", k=1000)) == 4


def test_what_shares_no_word_is_not_near(shared_gateway: Database) -> None:
    with shared_gateway.tenant("acme_reader") as acme:
        assert acme.nearest_passage("zyzzyva") == []
        assert acme.nearest_passage("…!") == []
        assert acme.nearest_passage("") == []
        assert all("northwind" not in row.tenant for row in acme.nearest_passage("was approved for us G2", k=9))


def test_superseded_and_withdrawn_versions_are_not_near(gateway: Database) -> None:
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    with gateway.tenant("acme_curator") as acme:
        assert [(row.document_id, row.version) for row in acme.nearest_passage(HOLD)] == [("HOLD-7", 3)]
        acme.withdraw_version("HOLD-7", 3)
        assert acme.nearest_passage(HOLD)[0].document_id != "HOLD-7"


@pytest.mark.parametrize("k", [0, -1, 1001])
def test_k_is_one_to_a_thousand(shared_gateway: Database, k: int) -> None:
    with shared_gateway.store("acme_reader") as store, pytest.raises(errors.InvalidRequest):
        with store.tenant("acme") as acme:
            acme.nearest_passage("audit", k=k)
