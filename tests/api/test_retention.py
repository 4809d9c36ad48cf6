"""What traces keep of queries and answers, what an audit said, how long stages took, and when traces end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from rag_sql import Packet, Trace, _admin, audit_answer, errors
from rag_sql._embedded import SUPERUSER
from tests.api.travel import ASKED, CONTRACT, POLICY, RULE, load, record
from tests.conftest import Database, Server
from tests.stored import stored

ANSWER = "Travel receipts go in within 30 days [P1]. Keep the originals [P1]."
PARTS = ("trace_candidate", "trace_passage", "trace_answer", "trace_verdict", "trace_time")


def answered(database: Database, answer: str = ANSWER, **options: Any) -> tuple[Packet, Trace]:
    packet, trace = record(database)
    with database.tenant("acme_reader") as acme:
        acme.record_answer(trace.trace_id, answer, ["P1"], model="m", prompt_version="1", **options)
    return packet, trace


def seen(database: Database, columns: str, view: str = "trace", login: str = "acme_reader") -> list[Any]:
    with database.connect(login) as connection:
        if login != "auditor":
            connection.execute("select rag_api.bind('acme')")
        return connection.execute(f"select {columns} from rag_api.{view}").fetchall()


@pytest.fixture(scope="module")
def kept(server: Server, installed_template: Database) -> Iterator[Database]:
    """A store with a trace that has all its parts, kept for a day; for tests that change nothing."""
    database = server.create(installed_template.name)
    load(database, POLICY)
    answered(database, audit=audit_answer(ANSWER, {"P1": RULE}))
    retain(database, "1 day")
    yield database
    server.drop(database)


@pytest.fixture(scope="module")
def unanswered(kept: Database) -> Trace:
    return record(kept)[1]


def retain(database: Database, retention: str | None, tenant: str = "acme") -> None:
    with database.connect(SUPERUSER) as owner:
        owner.execute("set role rag_owner")
        owner.execute("select rag_auth.set_trace_retention(%s, %s)", [tenant, retention])


# What is kept


@pytest.mark.parametrize("keep", [None, "digest", "text", "none"])
def test_a_contract_says_what_traces_keep_of_queries_and_answers(store: Database, keep: str | None) -> None:
    load(store, POLICY, contract=CONTRACT if keep is None else {**CONTRACT, "keep": keep})
    packet, trace = answered(store, audit=audit_answer(ANSWER, {"P1": RULE}))
    texts = (ASKED, ANSWER) if keep == "text" else (None, None)
    digests = (None, None) if keep == "none" else tuple(sha256(text.encode()).hexdigest() for text in (ASKED, ANSWER))
    assert seen(store, "query, answer, query_sha256, answer_sha256") == [(*texts, *digests)]
    sentences = [row[0] for row in seen(store, "sentence", "trace_verdict order by range_start")]
    assert "".join(filter(None, sentences)) == (ANSWER if keep == "text" else "")
    assert {row[0] for row in seen(store, "keep", "contract where tenant = 'acme'")} == {keep or "digest"}
    assert packet.verify() == []
    assert trace.packet_id == packet.packet_id


def test_only_texts_that_are_to_be_kept_stand_in_a_table_of_traces(store: Database) -> None:
    load(store, POLICY, contract={**CONTRACT, "keep": "none"})
    answered(
        store, "Certainly within 14 days [P1].", audit=audit_answer("Certainly within 14 days [P1].", {"P1": RULE})
    )
    with store.connect(SUPERUSER) as superuser:
        for table in ("trace", *PARTS):
            rows = superuser.execute(f"select t::text from rag.{table} t").fetchall()
            assert rows
            for word in ("Certainly", "international", RULE.strip(), sha256(ASKED.encode()).hexdigest()):
                assert not any(word in row[0] for row in rows), table


@pytest.mark.parametrize("keep", ["texts", "", None, 1, ["text"]])
def test_another_word_for_what_is_kept_is_refused(kept: Database, keep: object) -> None:
    with kept.tenant("acme_curator") as acme, pytest.raises(errors.InvalidContract, match="keep"):
        acme.add_contract("refused", 1, {**CONTRACT, "keep": keep})


def test_what_is_kept_belongs_to_the_version_of_a_contract(store: Database) -> None:
    load(store, POLICY)
    with store.tenant("acme_curator") as acme:
        with pytest.raises(errors.ContractConflict), acme.savepoint():
            acme.add_contract("travel-receipts", 1, {**CONTRACT, "keep": "text"})
        acme.add_contract("travel-receipts", 2, {**CONTRACT, "keep": "text"})
    answered(store)
    assert seen(store, "contract_version, query") == [(2, ASKED)]


# What an audit said, and times


def test_a_trace_has_the_verdict_of_each_sentence_and_the_weightiest_of_them(store: Database) -> None:
    load(store, POLICY)
    _, trace = answered(store, audit=audit_answer(ANSWER, {"P1": RULE}))
    with store.tenant("acme_reader") as acme:
        first, second = acme.trace_verdicts(trace.trace_id)
        (row,) = acme.traces()
    assert (first.verdict, first.checks, row.verdict) == ("contradicted", ("numbers",), "contradicted")
    assert ANSWER[first.range_start : first.range_end].strip() == "Travel receipts go in within 30 days [P1]."
    assert second.range_end == len(ANSWER)
    assert second.verdict != "contradicted"


def test_an_answer_that_nobody_audited_has_no_verdict(store: Database) -> None:
    load(store, POLICY)
    _, trace = answered(store)
    with store.tenant("acme_reader") as acme:
        assert acme.trace_verdicts(trace.trace_id) == []
        assert [row.verdict for row in acme.traces()] == [None]


GOOD = {"range_start": 0, "range_end": 3, "verdict": "review", "checks": ["names"]}


@pytest.mark.parametrize(
    "verdicts",
    [
        [],
        {},
        "review",
        [1],
        [{}],
        [{**GOOD, "verdict": "fine"}],
        [{**GOOD, "verdict": None}],
        [{**GOOD, "range_start": -1}],
        [{**GOOD, "range_start": 1.5}],
        [{**GOOD, "range_start": "0"}],
        [{**GOOD, "range_start": 3}],
        [{**GOOD, "range_end": len(ANSWER) + 1}],
        [{**GOOD, "range_end": 99999999999}],
        [GOOD, GOOD],
        [{**GOOD, "range_start": 3, "range_end": 5}, GOOD],
        [{**GOOD, "checks": "names"}],
        [{**GOOD, "checks": [1]}],
        [{**GOOD, "checks": [""]}],
        [{**GOOD, "checks": ["x" * 65]}],
        [{**GOOD, "checks": ["what the answer says"]}],
        [{**GOOD, "range_start": number, "range_end": number + 1} for number in range(10_001)],
    ],
)
def test_verdicts_that_no_audit_of_the_answer_could_have_are_refused_and_nothing_is_stored(
    kept: Database, unanswered: Trace, verdicts: object
) -> None:
    with kept.connect(SUPERUSER) as superuser, kept.connect("acme_reader") as connection:
        before = stored(superuser)
        connection.execute("select rag_api.bind('acme')")
        with pytest.raises(psycopg.DatabaseError) as raised:
            connection.execute(
                "select rag_api.record_answer(%s, %s, '{P1}', 'm', '1', %s)",
                [unanswered.trace_id, ANSWER, Jsonb(verdicts)],
            )
        connection.rollback()
        assert raised.value.diag.sqlstate == "RS010"
        assert stored(superuser) == before


def test_a_trace_says_how_long_each_stage_took(store: Database) -> None:
    load(store, POLICY)
    _, trace = answered(store, answer_took=timedelta(seconds=2), audit_took=timedelta(milliseconds=3))
    with store.tenant("acme_reader") as acme:
        times = {row.stage: row.took for row in acme.trace_times(trace.trace_id)}
    assert list(times) == ["decision", "context", "candidates", "answer", "audit"]
    assert (times["answer"], times["audit"]) == (timedelta(seconds=2), timedelta(milliseconds=3))
    assert all(timedelta(0) < (times[stage] or timedelta(0)) < timedelta(seconds=10) for stage in list(times)[:3])


@pytest.mark.parametrize("seconds", [-1, 86_401])
def test_a_time_is_neither_negative_nor_longer_than_a_day(kept: Database, unanswered: Trace, seconds: int) -> None:
    took = timedelta(seconds=seconds)
    with kept.tenant("acme_reader") as acme, pytest.raises(errors.InvalidRequest), acme.savepoint():
        acme.record_answer(unanswered.trace_id, ANSWER, [], model="m", prompt_version="1", answer_took=took)


def test_citations_are_one_list(kept: Database, unanswered: Trace) -> None:
    """Two lists in one would be a list that no reader expects."""
    with kept.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        with pytest.raises(psycopg.DatabaseError) as raised:
            connection.execute(
                "select rag_api.record_answer(%s, 'x', array[array['P1'], array['P2']], 'm', '1')",
                [unanswered.trace_id],
            )
        assert raised.value.diag.sqlstate == "RS010"


@pytest.mark.parametrize("keep", ["digest", "none", "text"])
def test_what_stood_between_brackets_and_is_no_label_is_a_text(store: Database, keep: str) -> None:
    load(store, POLICY, contract={**CONTRACT, "keep": keep})
    _, trace = record(store)
    with store.tenant("acme_reader") as acme:
        acme.record_answer(trace.trace_id, ANSWER, ["P1", "4111-1111", "P9"], model="m", prompt_version="1")
        (row,) = acme.traces()
        findings = acme.diagnose_trace(trace.trace_id, trace.context)
    second = "4111-1111" if keep == "text" else "?2"
    assert row.citations == ("P1", second, "P9")
    assert [found.label for found in findings] == sorted([second, "P9"])


# When traces end


@pytest.fixture
def traced(travel: Database) -> Database:
    answered(travel, audit=audit_answer(ANSWER, {"P1": RULE}))
    return travel


def purge(database: Database, tenant: str = "acme") -> int:
    with database.engine(SUPERUSER) as engine:
        return _admin.purge_traces(engine, tenant)


def counts(database: Database) -> dict[str, int]:
    with database.connect(SUPERUSER) as superuser:
        return {table: count for table, (count, _) in stored(superuser).items()}


def test_traces_whose_time_is_over_go_with_all_their_parts_and_that_is_recorded(traced: Database) -> None:
    before = counts(traced)
    assert all(before[f"rag.{table}"] for table in ("trace", *PARTS))
    retain(traced, "1 us")
    assert purge(traced) == 1
    after = counts(traced)
    assert {table for table in before if after[table] < before[table]} == {f"rag.{t}" for t in ("trace", *PARTS)}
    assert not any(after[f"rag.{table}"] for table in ("trace", *PARTS))
    (recorded,) = seen(traced, "traces, recorded_before < recorded_at, recorded_by", "trace_purge")
    assert recorded == (1, True, SUPERUSER)
    assert seen(traced, "traces", "trace_purge", "auditor") == [(1,)]
    assert purge(traced) == 0
    assert counts(traced) == after


def test_a_purge_by_hand_is_recorded_too(traced: Database) -> None:
    retain(traced, "1 us")
    with traced.connect(SUPERUSER) as superuser:
        for table in ("trace_verdict", "trace_answer", "trace_time", "trace_passage", "trace_candidate", "trace"):
            superuser.execute(f"delete from rag.{table}")
    assert seen(traced, "traces, recorded_by", "trace_purge") == [(1, SUPERUSER)]


def test_nobody_says_that_traces_are_kept_longer_while_they_are_removed(traced: Database) -> None:
    retain(traced, "1 us")
    with traced.connect(SUPERUSER) as purging, traced.connect(SUPERUSER) as keeping:
        purging.execute("set role rag_owner")
        assert purging.execute("select rag_auth.purge_traces('acme')").fetchone() == (1,)
        keeping.execute("set role rag_owner")
        keeping.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            keeping.execute("select rag_auth.set_trace_retention('acme', '90 days')")


def test_traces_that_are_being_answered_are_not_removed_and_nobody_waits_for_ever(travel: Database) -> None:
    _, trace = record(travel)
    retain(travel, "1 us")
    with travel.connect("acme_reader") as answering, travel.connect(SUPERUSER) as purging:
        answering.execute("select rag_api.bind('acme')")
        answering.execute("select rag_api.record_answer(%s, 'x', '{P1}', 'm', '1')", [trace.trace_id])
        purging.execute("set role rag_owner")
        purging.execute("alter function rag_auth.purge_traces(text) set lock_timeout = '100ms'")  # of this test alone
        with pytest.raises(psycopg.DatabaseError) as raised:
            purging.execute("select rag_auth.purge_traces('acme')")
        assert raised.value.diag.sqlstate == "RS071"
        purging.rollback()
        answering.commit()
    with travel.tenant("acme_reader") as acme:
        assert [row.model for row in acme.traces()] == ["m"]
    assert purge(travel) == 1


def test_packets_and_approvals_outlive_their_traces(traced: Database) -> None:
    retain(traced, "1 us")
    purge(traced)
    with traced.tenant("acme_reader") as acme:
        (packet,) = acme.packets()
        assert acme.packet(packet.packet_id).verify() == []


@pytest.mark.parametrize("retention", ["1 month", "1 year", "1 month -30 days 1 s", "0", "-1 day"])
def test_a_time_is_in_days_that_are_always_as_long(kept: Database, retention: str) -> None:
    with pytest.raises(psycopg.DatabaseError) as raised:
        retain(kept, retention)
    assert raised.value.diag.sqlstate == "RS010"


@pytest.mark.parametrize("retention", [None, "1 day", "90 days"])
def test_traces_that_are_kept_stay(traced: Database, retention: str | None) -> None:
    retain(traced, retention)
    before = counts(traced)
    assert purge(traced) == 0
    assert counts(traced) == before


def test_a_purge_is_of_one_tenants_traces(traced: Database) -> None:
    with traced.tenant("northwind_curator") as northwind:
        northwind.load_documents([POLICY])
        northwind.add_contract("travel-receipts", 1, CONTRACT)
        packet = northwind.record_packet("travel-receipts", query=ASKED, case={}, k=2)
        kept = northwind.record_trace(packet.packet_id)
    retain(traced, "1 us")
    retain(traced, "1 us", "northwind")
    assert purge(traced) == 1
    with traced.tenant("northwind_reader") as northwind:
        assert [row.trace_id for row in northwind.traces()] == [kept.trace_id]
    with traced.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        assert connection.execute("select * from rag_api.trace_purge").fetchall() == []


@pytest.mark.parametrize("table", ["trace", *PARTS])
def test_a_trace_that_is_kept_is_removed_by_nobody(kept: Database, table: str) -> None:
    with kept.connect(SUPERUSER) as superuser:
        with pytest.raises(psycopg.DatabaseError, match="the trace is kept") as raised:
            superuser.execute(f"delete from rag.{table}")
        assert raised.value.diag.sqlstate == "RS070"


@pytest.mark.parametrize("table", ["trace", *PARTS, "trace_purge"])
@pytest.mark.parametrize("change", ["update rag.{} set tenant = tenant", "truncate rag.{} cascade"])
def test_not_even_a_trace_whose_time_is_over_is_changed(kept: Database, table: str, change: str) -> None:
    with kept.connect(SUPERUSER) as superuser, pytest.raises(psycopg.DatabaseError) as raised:
        superuser.execute("update rag.tenant set trace_retention = '1 us'")
        superuser.execute(change.format(table))
    assert raised.value.diag.sqlstate == "RS070"


def test_the_owner_sees_no_trace_that_is_kept(kept: Database) -> None:
    with kept.connect(SUPERUSER) as owner:
        owner.execute("set role rag_owner")
        for table in ("trace", *PARTS):
            assert owner.execute(f"select count(*) from rag.{table}").fetchone() == (0,), table


@pytest.mark.parametrize("login", ["acme_reader", "acme_curator", "acme_reviewer", "auditor"])
@pytest.mark.parametrize(
    "call", ["rag_auth.purge_traces('acme')", "rag_auth.set_trace_retention('acme', interval '1 us')"]
)
def test_no_run_time_login_removes_traces_or_says_how_long_they_are_kept(kept: Database, login: str, call: str) -> None:
    with kept.connect(login) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"select {call}")


def test_a_tenant_sees_how_long_its_traces_are_kept(kept: Database) -> None:
    assert dict(seen(kept, "tenant, trace_retention", "tenant")) == {"public": None, "acme": timedelta(days=1)}


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda engine: _admin.set_trace_retention(engine, "acme", 0), errors.InvalidRequest),
        (lambda engine: _admin.set_trace_retention(engine, "acme", -1), errors.InvalidRequest),
        (lambda engine: _admin.set_trace_retention(engine, "acme", 36_526), errors.InvalidRequest),
        (lambda engine: _admin.set_trace_retention(engine, "nobody", 1), errors.UnknownLogin),
        (lambda engine: _admin.set_trace_retention(engine, "public", 1), errors.UnknownLogin),
        (lambda engine: _admin.purge_traces(engine, "nobody"), errors.UnknownLogin),
        (lambda engine: _admin.purge_traces(engine, "public"), errors.UnknownLogin),
    ],
)
def test_a_time_or_a_tenant_that_cannot_be_is_refused(
    kept: Database, act: Callable[[Any], object], error: type[errors.RagSqlError]
) -> None:
    with kept.engine(SUPERUSER) as engine, pytest.raises(error):
        act(engine)
