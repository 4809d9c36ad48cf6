"""Deciding on the gateway corpus: what the article promises, line by line and in passing."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_sql import Decision, Outcome, Tenant, errors
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database
from tests.stored import stored

HOLD = "While an audit hold is active, collect a diagnostic export and do not roll back firmware"


def ask(tenant: Tenant, k: int = 2, **options: Any) -> Decision:
    return tenant.decide(QUESTION, query=QUERY, case=CASE, k=k, **options)


def ids(decision: Decision) -> list[str]:
    return [source.document_id for source in decision.sources]


def document(document_id: str, body: str, *, version: int = 1, quote: str | None = None, **more: Any) -> dict[str, Any]:
    spans = [{"id": "s1", "fact": "audit-constraint", "quote": quote}] if quote else []
    return {"id": document_id, "version": version, "body": body, "spans": spans, **more}


@pytest.mark.parametrize(
    ("k", "selected", "missing"),
    [
        (1, ["GW-241"], ("audit-constraint",)),
        (2, ["GW-241", "HOLD-7"], ()),
        (3, ["GW-241", "HOLD-7", "G2-USB"], ()),
        (1000, ["GW-241", "HOLD-7", "G2-USB"], ()),
    ],
)
def test_filters_before_it_takes_k(
    shared_gateway: Database, k: int, selected: list[str], missing: tuple[str, ...]
) -> None:
    with shared_gateway.tenant("acme_reader") as acme:
        decision = ask(acme, k)
    assert ids(decision) == selected
    assert decision.missing == missing
    assert decision.outcome is (Outcome.ASK_FOR_EVIDENCE if missing else Outcome.SUFFICIENT_FOR_TEMPLATE)


def test_scores_are_the_distinct_query_words_that_occur(shared_gateway: Database) -> None:
    with shared_gateway.tenant("acme_reader") as acme:
        scores = {row.document_id: row.score for row in acme.explain(QUESTION, query=QUERY, case=CASE, k=2)}
    assert scores == {"OLD-240": 7, "GW-241": 4, "HOLD-7": 4, "G2-USB": 2, "BILL-42": 0}


def test_each_visible_version_that_may_not_be_used_has_its_reason(gateway: Database) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents(
            [
                document("HOLD-7", "newer", version=3),
                document("HOLD-7", "for later", version=4, effective_from=tomorrow),
                document("SILENT", "about a region", applies_to={"region": ["EU"]}),
                document("GONE", "withdrawn text"),
            ]
        )
        acme.withdraw_version("GONE", 1)
    with gateway.tenant("acme_reader") as acme:
        rows = {(row.document_id, row.version): row for row in acme.explain(QUESTION, query=QUERY, case=CASE, k=2)}
    assert rows["HOLD-7", 2].reason == "superseded"
    assert rows["HOLD-7", 2].effective_version == 3
    assert rows["HOLD-7", 4].reason == "scheduled"
    assert rows["GONE", 1].reason == "withdrawn"
    old = rows["OLD-240", 9]
    assert (old.reason, old.attribute, old.applies_to, old.case_value) == (
        "attribute_differs",
        "firmware",
        ("2.4.0",),
        "2.4.1",
    )
    silent = rows["SILENT", 1]
    assert (silent.reason, silent.attribute, silent.applies_to, silent.case_value) == (
        "attribute_not_stated",
        "region",
        ("EU",),
        None,
    )
    assert rows["HOLD-7", 3].eligible
    assert not any(row.selected for row in rows.values() if not row.eligible)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    versions=st.lists(
        st.tuples(
            st.sampled_from(["A", "B", "C"]),
            st.integers(1, 4),
            st.sampled_from([None, "2020-01-01", "2021-01-01", "2999-01-01"]),
            st.sampled_from([{}, {"m": ["x"]}, {"m": ["x", "y"]}, {"m": ["y"]}, {"m": ["x"], "n": ["z"]}]),
        ),
        unique_by=lambda version: version[:2],
        max_size=9,
    ),
    withdrawn=st.lists(st.tuples(st.integers(0, 8), st.sampled_from([None, "2020-06-01", "2999-01-01"])), max_size=3),
    succeeded=st.lists(
        st.tuples(st.sampled_from(["A", "B"]), st.sampled_from([None, "2020-06-01", "2999-01-01"])), max_size=2
    ),
    stated_first=st.booleans(),
    valid_at=st.sampled_from([None, "2019-01-01", "2020-07-01", "2999-06-01"]),
)
def test_what_is_ranked_is_what_is_said_to_be_eligible(
    shared_store: Database,
    versions: list[Any],
    withdrawn: list[Any],
    succeeded: list[Any],
    stated_first: bool,
    valid_at: str | None,
) -> None:
    """Against a plain reading of the rules, too.

    Current is the greatest (effective_from, version) of a document, not withdrawn, of a document that no other takes
    the place of; it does not matter whether that was stated before the document was loaded.
    """
    now = datetime.now(UTC)

    def instant(text: str | None) -> datetime:
        return now if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC)

    with shared_store.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")

        def succeed() -> None:
            for document_id, superseded_from in succeeded:
                connection.execute(
                    "insert into rag.succession (tenant, document_id, successor_id, superseded_from)"
                    " values ('acme', %s, 'Z', coalesce(%s::timestamptz at time zone 'UTC', now()))"
                    " on conflict do nothing",
                    [document_id, superseded_from],
                )

        if stated_first:
            succeed()
        for document_id, version, effective_from, applies_to in versions:
            connection.execute(
                "insert into rag.version (tenant, document_id, version, body, effective_from, applies_to)"
                " values ('acme', %s, %s, 'text', coalesce(%s::timestamptz at time zone 'UTC', now()), %s::jsonb)",
                [document_id, version, effective_from, json.dumps(applies_to)],
            )
        gone = []
        for position, withdrawn_from in withdrawn:
            if position < len(versions):
                document_id, version = versions[position][:2]
                connection.execute(
                    "select rag_api.withdraw_version(%s, %s, %s::timestamptz at time zone 'UTC')",
                    [document_id, version, withdrawn_from],
                )
                gone.append((document_id, version, instant(withdrawn_from)))
        if not stated_first:
            succeed()
        arguments = ['{"m": "x"}', valid_at]
        ranked = connection.execute(
            "select document_id, version from rag_api.eligible(%s::jsonb, %s::timestamptz at time zone 'UTC')",
            arguments,
        ).fetchall()
        said = connection.execute(
            "select document_id, version from rag_api.eligibility(%s::jsonb, %s::timestamptz at time zone 'UTC')"
            " where eligible and reason is null",
            arguments,
        ).fetchall()
        selected = connection.execute(
            "select document_id, version from rag_api.selection('text', %s::jsonb, 1000,"
            " %s::timestamptz at time zone 'UTC')",
            arguments,
        ).fetchall()
        unsaid = connection.execute(
            "select count(*) from rag_api.eligibility(%s::jsonb, %s::timestamptz at time zone 'UTC')"
            " where eligible is null or eligible <> (reason is null)",
            arguments,
        ).fetchone()
        connection.rollback()

    at = instant(valid_at)
    expected = set()
    for name in {version[0] for version in versions}:
        effective = [
            (instant(since), number, scope)
            for document_id, number, since, scope in versions
            if document_id == name and instant(since) <= at
        ]
        if effective:
            _, number, scope = max(effective, key=lambda found: found[:2])
            withdrawn_by_then = any(found[:2] == (name, number) and found[2] <= at for found in gone)
            replaced_by_then = any(found == name and instant(since) <= at for found, since in succeeded)
            if replaced_by_then:
                continue
            if not withdrawn_by_then and set(scope) <= {"m"} and "x" in scope.get("m", ["x"]):
                expected.add((name, number))
    assert sorted(ranked) == sorted(said) == sorted(selected) == sorted(expected)
    assert unsaid == (0,)


def test_a_scheduled_version_is_used_from_its_time_on(gateway: Database) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([document("HOLD-7", f"{HOLD}. audit hold", version=3, effective_from=tomorrow.isoformat())])
    with gateway.tenant("acme_reader") as acme:
        assert {source.version for source in ask(acme).sources if source.document_id == "HOLD-7"} == {2}
        later = ask(acme, 5, valid_at=tomorrow + timedelta(seconds=1))
    assert {source.version for source in later.sources if source.document_id == "HOLD-7"} == {3}


def test_withdrawing_the_newest_version_does_not_bring_an_older_one_back(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([document("HOLD-7", f"{HOLD}.", version=3, quote=HOLD)])
        acme.withdraw_version("HOLD-7", 3)
    with gateway.tenant("acme_reader") as acme:
        decision = ask(acme)
    assert "HOLD-7" not in ids(decision)
    assert decision.missing == ("audit-constraint",)


def test_what_had_been_recorded_at_an_instant_can_be_decided_again(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        before = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([document("HOLD-7", f"{HOLD} at once.", version=3, quote=HOLD)])
    instant = datetime.fromisoformat(before.request.known_at)
    with gateway.tenant("acme_reader") as acme:
        assert ask(acme).digest != before.digest
        assert ask(acme, valid_at=instant, known_at=instant).digest == before.digest


def test_an_unsupported_question_is_an_outcome_and_reads_no_corpus(gateway: Database) -> None:
    """While somebody holds the corpus closed: a supported question waits for it, an unsupported one is answered."""
    statement = (
        "select outcome, sources from rag_api.decide(p_question_id => %s, p_query => 'gateway',"
        """ p_case_facts => '{"model": "G2", "firmware": "2.4.1"}', p_k => 1)"""
    )
    with gateway.connect("postgres") as holder, gateway.connect("acme_reader") as reader:
        for table in ("version", "span", "withdrawal"):
            holder.execute(f"lock table rag.{table} in access exclusive mode".encode())
        reader.execute("select rag_api.bind(p_tenant => 'acme')")
        reader.execute("set local lock_timeout = '200ms'")
        assert reader.execute(statement, ["nope"]).fetchone() == ("UnsupportedQuestion", None)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            reader.execute(statement, [QUESTION])


def test_only_deciding_answers_an_unsupported_question(shared_gateway: Database) -> None:
    with shared_gateway.tenant("acme_reader") as acme, pytest.raises(errors.UnsupportedQuestion):
        acme.explain("nope", query=QUERY, case=CASE, k=2)
    with shared_gateway.tenant("acme_reader") as acme, pytest.raises(errors.UnsupportedQuestion):
        acme.record_packet("nope", query=QUERY, case=CASE, k=2)


def test_a_newly_added_passage_with_the_exact_quotation_adds_coverage(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([document("A-HOLD", f"Gateway G2 telemetry reconnect: {HOLD}.", quote=HOLD)])
    with gateway.tenant("acme_reader") as acme:
        decision = ask(acme, 1)
    assert ids(decision) == ["A-HOLD"]
    assert decision.missing == ("known-issue",)


def test_a_passage_with_the_label_and_other_text_neither_covers_nor_displaces_the_witness(gateway: Database) -> None:
    reversed_rule = "While an audit hold is active, roll back firmware only after approval"
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents(
            [document("A-HOLD", f"Gateway G2 telemetry reconnect. {reversed_rule}.", quote=reversed_rule)]
        )
    with gateway.tenant("acme_reader") as acme:
        alone, with_witness = ask(acme, 1), ask(acme, 3)
    assert ids(alone) == ["A-HOLD"]
    assert alone.missing == ("known-issue", "audit-constraint")
    assert ids(with_witness) == ["A-HOLD", "GW-241", "HOLD-7"]
    assert {witness.fact: witness.document_id for witness in with_witness.witnesses} == {
        "known-issue": "GW-241",
        "audit-constraint": "HOLD-7",
    }


def test_the_right_quotation_under_another_label_is_no_witness(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents(
            [
                {
                    "id": "HOLD-7",
                    "version": 3,
                    "body": f"{HOLD}. audit hold rollback",
                    "spans": [{"id": "s1", "fact": "known-issue", "quote": HOLD}],
                }
            ]
        )
    with gateway.tenant("acme_reader") as acme:
        assert ask(acme).missing == ("audit-constraint",)


def test_an_editor_who_changes_the_text_and_keeps_the_label_is_caught(gateway: Database) -> None:
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    with gateway.tenant("acme_reader") as acme:
        decision = ask(acme)
        spans = [span.fact for source in decision.sources for span in source.spans if source.document_id == "HOLD-7"]
    assert spans == ["audit-constraint"]
    assert decision.missing == ("audit-constraint",)


def test_a_version_bump_keeps_coverage_and_changes_the_digest(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        before = ask(acme)
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v4-same-quotation.md")
    with gateway.tenant("acme_reader") as acme:
        after = ask(acme)
    assert after.sufficient
    assert after.digest != before.digest


def test_the_first_witness_is_cited_by_document_id_then_span_id(gateway: Database) -> None:
    twice = f"{HOLD}. Again: {HOLD}. audit hold rollback"
    spans = [
        {"id": span, "fact": "audit-constraint", "quote": HOLD, "occurrence": occurrence}
        for span, occurrence in (("b", 1), ("a", 2))
    ]
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "A-HOLD", "version": 1, "body": twice, "spans": spans}])
    with gateway.tenant("acme_reader") as acme:
        decision = ask(acme, 5)
    (witness,) = [witness for witness in decision.witnesses if witness.fact == "audit-constraint"]
    assert (witness.document_id, witness.span_id) == ("A-HOLD", "a")


def test_the_order_of_rows_changes_nothing(gateway: Database, store: Database) -> None:
    """The same corpus stored in reverse order: ranking, witnesses and digest are the same, byte for byte."""
    with gateway.tenant("acme_reader") as acme:
        first = ask(acme, 5)
    documents: dict[str, list[dict[str, Any]]] = {}
    with gateway.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        for tenant, document_id, version, title, body, applies_to, spans in connection.execute(
            "select d.tenant, d.document_id, d.version, d.title, d.body, d.applies_to, array(select json_build_object("
            " 'id', s.span_id, 'fact', s.fact, 'quote', s.quote) from rag_api.span s"
            " where (s.tenant, s.document_id, s.version) = (d.tenant, d.document_id, d.version))"
            " from rag_api.version d order by d.document_id desc"
        ):
            documents.setdefault(tenant, []).append(
                {
                    "id": document_id,
                    "version": version,
                    "title": title,
                    "body": body,
                    "applies_to": applies_to,
                    "spans": spans,
                }
            )
        contract = connection.execute("select content from rag.contract").fetchone()
    assert contract is not None
    with store.tenant("acme_curator") as acme:
        acme.load_documents(documents["acme"])
    with store.tenant("publisher") as public:
        public.add_contract(QUESTION, 1, contract[0])
        for entry in documents["public"]:
            public.load_documents([entry])
    with store.tenant("acme_reader") as acme:
        second = ask(acme, 5)
    assert (second.sources, second.witnesses, second.digest) == (first.sources, first.witnesses, first.digest)


def test_ineligible_documents_change_no_byte_of_a_decision(gateway: Database) -> None:
    """Law 2 (b): visible but not eligible, however well it matches."""
    with gateway.tenant("acme_reader") as acme:
        before = ask(acme, 3)
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents(
            [document(f"A-{number}", QUERY, applies_to={"firmware": ["9.9"]}, quote=None) for number in range(40)]
        )
    with gateway.tenant("acme_reader") as acme:
        after = ask(acme, 3)
    assert (after.sources, after.witnesses, after.missing, after.preimage) == (
        before.sources,
        before.witnesses,
        before.missing,
        before.preimage,
    )


def test_another_tenants_documents_change_no_byte_of_anything(gateway: Database) -> None:
    """Law 2 (a), fingerprint and explanation included."""

    def everything() -> tuple[Any, ...]:
        with gateway.tenant("acme_reader") as acme:
            decision = ask(acme, 5)
            return (
                decision.sources,
                decision.preimage,
                acme.corpus_fingerprint(),
                acme.explain(QUESTION, query=QUERY, case=CASE, k=5),
            )

    before = everything()
    with gateway.tenant("northwind_curator") as northwind:
        northwind.load_documents(
            [document("HOLD-7", QUERY, version=9), document("A-1", f"{HOLD}. {QUERY}", quote=HOLD)]
        )
        northwind.withdraw_version("PRIVATE", 1)
        northwind.add_contract(
            QUESTION, 7, {"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "q", "clauses": ["c"]}]}]}
        )
    assert everything() == before


@pytest.mark.parametrize("eligible", [0, 1, 3, 200])
@pytest.mark.parametrize("k", [1, 2, 50])
def test_a_selection_has_min_k_eligible_matches_rows(store: Database, eligible: int, k: int) -> None:
    """Law 1, with 200 better matches that are not eligible."""
    with store.tenant("acme_curator") as acme:
        acme.load_documents([document(f"bad-{n}", "alpha beta gamma", applies_to={"model": ["X"]}) for n in range(200)])
        acme.load_documents(
            [document(f"good-{n}", "alpha", applies_to={"model": ["G2"]}) for n in range(eligible)]
            or [document("z", "none")]
        )
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        rows = connection.execute(
            "select document_id from rag_api.selection(p_query => 'alpha beta gamma',"
            ' p_case_facts => \'{"model": "G2"}\', p_k => %s)',
            [k],
        ).fetchall()
    assert len(rows) == min(k, eligible)


WHOLE = "K must be a whole number from 1, not"
UNFIT = "the case does not fit the contract: "


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"k": 0}, errors.InvalidRequest, "K must be from 1 to 1000, not 0"),
        ({"k": 1001}, errors.InvalidRequest, "K must be from 1 to 1000, not 1001"),
        ({"k": 2**40}, errors.InvalidRequest, f"{WHOLE} {2**40}"),
        ({"k": 2.5}, errors.InvalidRequest, f"{WHOLE} 2.5"),
        ({"k": True}, errors.InvalidRequest, f"{WHOLE} True"),
        ({"query": ""}, errors.InvalidRequest, "the query has no word"),
        ({"query": " -- !? "}, errors.InvalidRequest, "the query has no word"),
        ({"query": "word " * 20_000}, errors.InvalidRequest, "the query has 100000 bytes; 65536 is the most"),
        ({"query": "a\0b"}, errors.InvalidRequest, "NUL"),
        (
            {"query": "half \ud800"},
            errors.InvalidRequest,
            "a text contains half of a surrogate pair, which is no character",
        ),
        ({"contract_version": 2}, errors.UnknownContractVersion, f'contract "{QUESTION}" has no version 2'),
        (
            {"case": {}},
            errors.InvalidCase,
            f'{UNFIT}attribute "firmware" is not stated; attribute "model" is not stated',
        ),
        ({"case": {"model": "G2"}}, errors.InvalidCase, f'{UNFIT}attribute "firmware" is not stated'),
        (
            {"case": {**CASE, "region": "EU"}},
            errors.InvalidCase,
            f'{UNFIT}attribute "region" is not one of the contract\'s',
        ),
        *[
            (
                {"case": {**CASE, "model": value}},
                errors.InvalidCase,
                f'{UNFIT}attribute "model" must be a text of 1 to 200 bytes',
            )
            for value in ("", "x" * 201, 2, 2.5, True, None, ["G2"], {"is": "G2"})
        ],
    ],
)
def test_a_bad_request_is_an_error_and_never_a_wider_result(
    shared_gateway: Database, change: dict[str, Any], error: type[errors.RagSqlError], message: str
) -> None:
    request = {"query": QUERY, "case": CASE, "k": 2, **change}
    with shared_gateway.connect("postgres") as superuser:
        before = stored(superuser)
        for method in ("decide", "record_packet", "explain"):
            with (
                shared_gateway.store("acme_reader") as store,
                pytest.raises(error) as caught,
                store.tenant("acme") as acme,
            ):
                getattr(acme, method)(QUESTION, **request)
            assert type(caught.value) is error
            assert message in caught.value.message
        assert stored(superuser) == before


def test_the_tenants_own_contract_wins_over_a_public_one(gateway: Database) -> None:
    own = {
        "case": ["model", "firmware"],
        "facts": [{"fact": "known-issue", "propositions": [{"quote": "never", "clauses": ["x"]}]}],
    }
    with gateway.tenant("acme_curator") as acme:
        acme.add_contract(QUESTION, 1, own)
    with gateway.tenant("acme_reader") as acme:
        decision = ask(acme)
    assert (decision.contract.tenant, decision.missing) == ("acme", ("known-issue",))
    with gateway.tenant("northwind_reader") as northwind:
        assert ask(northwind).contract.tenant == "public"


def test_the_newest_contract_version_is_used_unless_one_is_named(gateway: Database) -> None:
    one_fact = {
        "case": ["model", "firmware"],
        "facts": [{"fact": "x", "propositions": [{"quote": "y", "clauses": ["z"]}]}],
    }
    with gateway.tenant("publisher") as public:
        public.add_contract(QUESTION, 2, one_fact)
    with gateway.tenant("acme_reader") as acme:
        assert ask(acme).contract.version == 2
        assert ask(acme, contract_version=1).sufficient


def test_a_decision_runs_on_a_read_only_transaction(shared_gateway: Database) -> None:
    """Reads only, so that it can be called on a replica."""
    with shared_gateway.connect("acme_reader") as connection:
        connection.execute("set transaction read only")
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        row = connection.execute(
            "select outcome from rag_api.decide(p_question_id => %s, p_query => %s,"
            " p_case_facts => %s::jsonb, p_k => 2)",
            [QUESTION, QUERY, '{"model": "G2", "firmware": "2.4.1"}'],
        ).fetchone()
    assert row == ("SufficientForTemplate",)


def test_a_reader_without_a_tenant_decides_on_public_documents_alone(shared_gateway: Database) -> None:
    with shared_gateway.tenant("unbound_reader") as nobody:
        decision = ask(nobody)
    assert decision.missing == ("audit-constraint",)
    assert {source.tenant for source in decision.sources} == {"public"}


def test_the_same_id_in_public_and_in_a_tenant_are_two_documents(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([document("GW-241", "gateway telemetry reconnect audit hold rollback g2")])
    with gateway.tenant("acme_reader") as acme:
        decision = ask(acme, 3)
    assert [(source.document_id, source.tenant) for source in decision.sources] == [
        ("GW-241", "acme"),
        ("GW-241", "public"),
        ("HOLD-7", "acme"),
    ]
    assert decision.sufficient
