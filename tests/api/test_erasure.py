"""Erasing a document or a tenant: nothing of its texts is left, what rested on it says so, and nobody else notices."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rag_sql import Claim, MissingEmbedding, Packet, Tenant, Trace, _admin, _maintenance, draft, errors
from rag_sql._embedded import SUPERUSER
from tests.api.searching import ask, expected, found, grow
from tests.conftest import Clone, Database, Server
from tests.stored import stored

QUESTION = "limit-of-days"
CONTRACT: dict[str, Any] = {
    "case": ["model"],
    "keep": "text",
    "facts": [{"fact": "limit", "propositions": [{"quote": "within 14 days", "clauses": ["Within 14 days."]}]}],
}
CASE = {"model": "m1"}
ASKED = "receipts within days"

#: Each stands in one place, and nowhere else in the store.
MARKS = (
    "zyxtitle zyxsource zyxmetadata zyxheading zyxbody zyxquote zyxscope zyxnote zyxdraft zyxreview zyxanswer zyxlabel"
).split()

_BODY = "Receipts go in within 14 days. The zyxbody says zyxquote twice: zyxbody."
SECRET: dict[str, Any] = {
    "id": "SECRET",
    "version": 1,
    "title": "zyxtitle",
    "source": "https://example.com/zyxsource",
    "metadata": {"kept": "zyxmetadata"},
    "applies_to": {"model": ["m1", "zyxscope"]},
    "body": _BODY,
    "outline": [{"end": 30, "headings": ["zyxheading"]}, {"end": len(_BODY), "headings": ["zyxheading"]}],
    "spans": [
        {"id": "limit", "fact": "limit", "quote": "within 14 days"},
        {"id": "said", "fact": "other", "quote": "says zyxquote twice"},
    ],
}
TRAVEL: dict[str, Any] = {
    "id": "TRAVEL",
    "version": 1,
    "body": "Receipts of the office go in within 14 days, and days are working days.",
    "spans": [{"id": "limit", "fact": "limit", "quote": "within 14 days"}],
}


def erase(database: Database, document: str | None = "SECRET", *versions: int, **options: Any) -> _admin.Erased:
    """Erase a document of acme's, or all of it."""
    values = {"reason": "a request", **options}
    tenant = values.pop("tenant", "acme")
    with database.engine(SUPERUSER) as engine:
        if document is None:
            return _admin.erase_tenant(engine, tenant, **values)
        return _admin.erase_document(engine, tenant, document, versions, **values)


def texts(database: Database) -> str:
    """All that stands in the tables of the store."""
    with database.connect(SUPERUSER) as superuser:
        tables = superuser.execute(
            "select oid::regclass::text from pg_class where relkind = 'r'"
            " and relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index')"
        ).fetchall()
        rows = [row for (table,) in tables for (row,) in superuser.execute(f"select t::text from {table} t".encode())]
    assert len(rows) > 20
    return "\n".join(rows).lower()


def marks(database: Database) -> set[str]:
    found = texts(database)
    return {mark for mark in MARKS if mark in found}


def ask_for(database: Database, query: str = ASKED, k: int = 1, login: str = "acme_reader") -> Packet:
    with database.tenant(login) as acme:
        return acme.record_packet(QUESTION, query=query, case=CASE, k=k)


def rest_on(database: Database) -> tuple[Packet, Trace, tuple[Claim, ...]]:
    """A packet that rests on the secret document, a trace with its answer, a draft and its approval."""
    packet = ask_for(database)
    assert {source.document_id for source in packet.sources} == {"SECRET"}
    claims = (*draft(packet), Claim("It says zyxdraft.", "other", "acme", "SECRET", 1, "said"))
    with database.tenant("acme_reader") as acme:
        trace = acme.record_trace(packet.packet_id)
        acme.record_answer(trace.trace_id, "It is zyxanswer [P1].", ["P1", "zyxlabel"], model="m", prompt_version="1")
    with database.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, claims), reviewer_name="Ann", note="zyxreview")
    return packet, trace, claims


@pytest.fixture(scope="module")
def loaded(server: Server, installed_template: Database) -> Iterator[Database]:
    """Two documents of acme's that say the same, one of them under ten marks; to be cloned."""
    database = server.create(installed_template.name)
    with database.tenant("acme_curator") as acme:
        acme.load_documents([SECRET, TRAVEL])
        acme.add_contract(QUESTION, 1, CONTRACT)
        acme.withdraw_version("SECRET", 1, withdrawn_from=datetime.now(UTC) + timedelta(days=9), note="zyxnote")
    with database.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        connection.execute(
            "select rag_api.add_embeddings('probe', '1', '{SECRET,SECRET,TRAVEL}', '{1,1,1}', '{0,30,0}',"
            ' \'{"[1,0]","[0.6,0.8]","[0,1]"}\')'
        )
    yield database
    server.drop(database)


@pytest.fixture
def corpus(clone: Clone, loaded: Database) -> Database:
    return clone(loaded)


# What goes and what stays


def test_nothing_of_an_erased_documents_texts_is_left_in_any_table(corpus: Database) -> None:
    rest_on(corpus)
    assert marks(corpus) == set(MARKS)
    said = erase(corpus)
    assert marks(corpus) == set()
    assert said == _admin.Erased(
        versions=1, passages=2, spans=2, vectors=2, packets=1, approvals=1, traces=1, contracts=1
    )
    assert "receipts of the office" in texts(corpus)


def test_keys_times_hashes_and_who_recorded_stay(corpus: Database) -> None:
    packet, trace, _ = rest_on(corpus)
    kept = {
        "version": "tenant, document_id, version, effective_from, recorded_at, recorded_by, body_length, body_sha256",
        "passage": "tenant, document_id, version, range_start, range_end, text_sha256",
        "span": "tenant, document_id, version, span_id, fact, range_start, range_end, recorded_at, recorded_by",
        "packet": "packet_id, digest, preimage, query, case_facts, outcome, missing, recorded_at, recorded_by",
        "packet_source": "packet_id, position, score, document_id, version, range_start, range_end",
        "approval": "evidence_digest, draft_digest, shown_digest, decision, reviewer_login, reviewer_name, recorded_at",
        "trace": "trace_id, packet_id, outcome, query_sha256, recorded_at, recorded_by",
        "trace_passage": "trace_id, position, label, document_id, version, range_start",
        "trace_answer": "trace_id, answer_sha256, model, recorded_at, recorded_by",
    }

    def seen() -> list[list[Any]]:
        with corpus.connect(SUPERUSER) as superuser:
            return [
                superuser.execute(f"select {columns} from rag.{table} order by 1, 2, 3".encode()).fetchall()
                for table, columns in kept.items()
            ]

    before = seen()
    erase(corpus)
    assert seen() == before
    assert (packet.packet_id, trace.trace_id) == (str(before[3][0][0]), str(before[6][0][0]))


def test_the_record_says_what_was_erased_by_whom_and_why_to_readers_and_auditors(corpus: Database) -> None:
    with corpus.tenant("acme_curator") as acme:
        acme.load_documents([{**SECRET, "version": 2, "body": "Another zyxbody.", "outline": [], "spans": []}])
    erase(corpus, "SECRET", 1, reason="request 7")
    query = "select document_id, version, body_length, length(body_sha256), reason, recorded_by from rag_api.erasure"
    row = ("SECRET", 1, len(_BODY), 64, "request 7", SUPERUSER)
    for login, rows in (("acme_reader", [row]), ("auditor", [row]), ("northwind_reader", [])):
        with corpus.connect(login) as connection:
            if login != "auditor":
                connection.execute("select rag_api.bind(%s)", [login.partition("_")[0]])
            assert connection.execute(query.encode()).fetchall() == rows
    assert "zyxbody" in marks(corpus)
    assert "zyxquote" not in marks(corpus)


def test_erasing_again_erases_what_is_left_and_no_more(corpus: Database) -> None:
    erase(corpus)
    with corpus.connect(SUPERUSER) as superuser:
        before = stored(superuser)
        assert erase(corpus) == _admin.Erased(0, 0, 0, 0, 0, 0, 0, 0)
        after = stored(superuser)
    assert {table for table in before if before[table] != after[table]} <= {"rag_index.turn"}


def test_what_would_be_erased_is_said_and_nothing_changes(corpus: Database) -> None:
    rest_on(corpus)
    with corpus.connect(SUPERUSER) as superuser:
        before = stored(superuser)
        said = erase(corpus, dry_run=True)
        assert stored(superuser) == before
        everything = erase(corpus, None, dry_run=True)
        assert stored(superuser) == before
    assert erase(corpus) == said
    assert (everything.versions, everything.passages, everything.spans, everything.vectors) == (2, 3, 3, 3)


# Reading afterwards


@pytest.mark.parametrize("method", ["overlap", "bm25", "vector", "hybrid"])
def test_an_erased_version_is_selected_at_no_pair_of_instants(corpus: Database, method: str) -> None:
    loaded_at = datetime.now(UTC)
    erase(corpus)
    parameters = {"model": "probe", "vector": [1, 0]} if method in {"vector", "hybrid"} else {}
    instants = [None, loaded_at, datetime.now(UTC)]
    with corpus.tenant("acme_reader") as acme:
        for valid_at in [*instants, datetime.now(UTC) + timedelta(days=30)]:
            for known_at in instants:
                decision = acme.decide(
                    QUESTION, query=ASKED, case=CASE, k=9, method=method, parameters=parameters,
                    valid_at=valid_at, known_at=known_at,
                )  # fmt: skip
                assert [source.document_id for source in decision.sources] == ["TRAVEL"]
        hits = acme.search("zyxbody receipts", case=CASE, method=method, parameters=parameters)
        assert [hit.document_id for hit in hits] == ["TRAVEL"]


def test_its_status_is_erased_and_no_older_version_comes_back_for_it(corpus: Database) -> None:
    before = datetime.now(UTC)
    with corpus.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "TRAVEL", "version": 2, "body": "Receipts: zyxbody."}])
    erase(corpus, "TRAVEL", 2)
    with corpus.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        for instant, older in ((None, "superseded"), (before, "current")):
            rows = connection.execute(
                "select version, status from rag_api.version_status(%s) where document_id = 'TRAVEL' order by 1",
                [instant],
            ).fetchall()
            assert rows == [(1, older), (2, "erased")]
        rows = connection.execute(
            "select version, eligible, reason from rag_api.eligibility(%s) where document_id = 'TRAVEL' order by 1",
            [json.dumps(CASE)],
        ).fetchall()
        assert rows == [(1, False, "superseded"), (2, False, "erased")]
        assert connection.execute("select document_id from rag_api.document").fetchall() == [("SECRET",)]
        assert connection.execute("select from rag_api.span_check").fetchall() == []
    with corpus.tenant("acme_reader") as acme:
        (row,) = [row for row in acme.explain(QUESTION, query=ASKED, case=CASE, k=9) if row.version == 2]
    assert (row.reason, row.score, row.selected) == ("erased", 0, False)


def test_an_erased_version_does_not_hold_for_what_is_loaded_after(corpus: Database) -> None:
    erase(corpus)
    with corpus.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "SECRET", "version": 2, "body": "Receipts within 21 days."}])
    packet = ask_for(corpus, k=9)
    assert {(source.document_id, source.version) for source in packet.sources} == {("SECRET", 2), ("TRAVEL", 1)}
    with corpus.tenant("acme_curator") as acme:
        acme.withdraw_version("SECRET", 2)
    assert {source.document_id for source in ask_for(corpus, k=9).sources} == {"TRAVEL"}


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("load_documents(%s)", [json.dumps([SECRET])]),
        ("load_documents(%s)", [json.dumps([{"id": "SECRET", "version": 1, "body": "Other."}])]),
        ("withdraw_version('SECRET', 1, p_withdrawn_from => '2020-01-01')", []),
        ("add_spans(%s)", ['[{"document": "SECRET", "version": 1, "span": "s9", "fact": "f", "quote": "days"}]']),
        ("add_embeddings('probe', '1', '{SECRET}', '{1}', '{0}', '{\"[1,0]\"}')", []),
    ],
)
def test_nothing_is_added_to_an_erased_version_and_its_number_is_not_given_again(
    corpus: Database, call: str, arguments: list[str]
) -> None:
    erase(corpus)
    with corpus.connect(SUPERUSER) as superuser, corpus.connect("acme_curator") as curator:
        before = stored(superuser)
        curator.execute("select rag_api.bind('acme')")
        with pytest.raises(errors.VersionErased), errors.translate():
            curator.execute(f"select rag_api.{call}".encode(), arguments)
        curator.rollback()
        assert stored(superuser) == before
    with corpus.tenant("acme_curator") as acme:
        assert acme.same_documents([SECRET]) == set()
        assert acme.missing_embeddings("probe", "1", limit=9) == []


def test_a_load_that_meets_an_erased_version_names_its_place(corpus: Database) -> None:
    erase(corpus)
    with corpus.store("acme_curator") as store, pytest.raises(errors.VersionErased) as caught:
        with store.tenant("acme") as acme:
            acme.load_documents([{"id": "NEW", "version": 1, "body": "x"}, SECRET])
    assert caught.value.column == "1.version"


# Packets


def test_a_packet_that_rested_on_it_is_erased_neither_valid_nor_broken(corpus: Database) -> None:
    packet, trace, claims = rest_on(corpus)
    held = packet.document
    erase(corpus, reason="request 7")
    with corpus.tenant("acme_reader") as acme:
        found = acme.packet(packet.packet_id)
        assert found.is_erased
        assert (found.digest, found.preimage) == (packet.digest, packet.preimage)
        assert [row.is_erased for row in acme.packets()] == [True]
        assert [row.status for row in acme.approvals()] == ["erased"]
        for refused in (
            found.verify,
            lambda: draft(found),
            lambda: acme.review(packet.packet_id, claims),
            lambda: acme.evidence_changes(packet.packet_id),
            lambda: acme.require_approval(packet.packet_id, claims),
            lambda: acme.record_trace(packet.packet_id),
            lambda: acme.record_answer(trace.trace_id, "x", [], model="m", prompt_version="1"),
        ):
            with pytest.raises(errors.EvidenceErased), acme.savepoint():
                refused()
        with pytest.raises(errors.EvidenceErased) as caught, acme.savepoint():
            acme.require_approval(packet.packet_id, claims)
        assert caught.value.detail.startswith("SECRET (acme) version 1: erased 20")
        assert caught.value.detail.endswith(f"by {SUPERUSER}: request 7")
        assert acme.trace_passages(trace.trace_id)[0].text == ""
        again = acme.decide(
            QUESTION, query=ASKED, case=CASE, k=1, valid_at=_time(held, "valid_at"), known_at=_time(held, "known_at")
        )
        assert again.digest != packet.digest
    with corpus.tenant("acme_reviewer") as acme, pytest.raises(errors.EvidenceErased), acme.savepoint():
        acme.approve(acme.review(packet.packet_id, claims))


def _time(document: Any, name: str) -> datetime:
    return datetime.fromisoformat(document["request"][name])


def test_an_erased_packet_that_was_tampered_with_is_broken(corpus: Database) -> None:
    packet, _, _ = rest_on(corpus)
    erase(corpus)
    with corpus.tenant("acme_reader") as acme:
        document = json.loads(acme.packet(packet.packet_id).to_json())
    for changed in (
        {**document, "digest": "00" * 32},
        {**document, "sources": [{**document["sources"][0], "text_sha256": "00" * 32}]},
        {**document, "contract": {**document["contract"], "content": {"case": [], "facts": []}}},
    ):
        assert Packet.from_document(changed).verify() != []


def test_other_packets_are_untouched(corpus: Database) -> None:
    rest_on(corpus)
    with corpus.tenant("acme_reader") as acme:
        other = acme.record_packet(QUESTION, query="office working", case=CASE, k=1)
        claims = draft(other)
    with corpus.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(other.packet_id, claims), note="kept")
    erase(corpus)
    with corpus.tenant("acme_reader") as acme:
        assert acme.packet(other.packet_id).document == other.document
        assert acme.packet(other.packet_id).verify() == []
        assert acme.require_approval(other.packet_id, claims).note == "kept"
        again = acme.decide(
            QUESTION, query="office working", case=CASE, k=1,
            valid_at=_time(other.document, "valid_at"), known_at=_time(other.document, "known_at"),
        )  # fmt: skip
        assert (again.preimage, again.digest) == (other.preimage, other.digest)


def test_packets_of_every_tenant_that_rest_on_a_public_document_are_erased(corpus: Database) -> None:
    with corpus.tenant("publisher") as public:
        public.load_documents([{**SECRET, "id": "A-PUBLIC", "applies_to": {}}])
        public.add_contract(QUESTION, 1, CONTRACT)
    packets = {login: ask_for(corpus, login=login) for login in ("acme_reader", "northwind_reader")}
    assert {packet.sources[0].document_id for packet in packets.values()} == {"A-PUBLIC"}
    said = erase(corpus, "A-PUBLIC", tenant="public")
    assert (said.packets, said.contracts) == (2, 2)
    for login, packet in packets.items():
        with corpus.tenant(login) as tenant, pytest.raises(errors.EvidenceErased), tenant.savepoint():
            tenant.evidence_changes(packet.packet_id)


# A tenant


def test_all_that_a_tenant_has_is_erased_with_what_it_asked(corpus: Database) -> None:
    packet, _, claims = rest_on(corpus)
    with corpus.tenant("northwind_curator") as northwind:
        northwind.load_documents([{**TRAVEL, "id": "SECRET"}])
        northwind.add_contract(QUESTION, 1, CONTRACT)
    theirs = ask_for(corpus, login="northwind_reader")
    with corpus.tenant("northwind_reader") as northwind:
        fingerprint = northwind.corpus_fingerprint()
    said = erase(corpus, None, reason="left us")
    assert (said.versions, said.packets, said.approvals, said.traces, said.contracts) == (2, 1, 1, 1, 1)
    with corpus.connect(SUPERUSER) as superuser:
        assert superuser.execute(
            "select content is null, query, case_facts::text, preimage is null, parameters::text, encode(digest, 'hex')"
            " from rag.packet join rag.contract using (tenant) where tenant = 'acme'"
        ).fetchall() == [(True, "", "{}", True, "{}", packet.digest)]
        for table in ("posting", "embedding"):
            rows = superuser.execute(f"select count(*) from rag_index.{table} where tenant = 'acme'".encode())
            assert rows.fetchone() == (0,)
    with corpus.tenant("acme_reader") as acme:
        found = acme.packet(packet.packet_id)
        assert found.is_erased
        for refused in (found.verify, lambda: acme.require_approval(packet.packet_id, claims)):
            with pytest.raises(errors.EvidenceErased), acme.savepoint():
                refused()
        assert acme.decide(QUESTION, query=ASKED, case=CASE, k=1).outcome == "UnsupportedQuestion"
        assert acme.contracts() == []
        assert acme.search(ASKED) == []
    with corpus.tenant("northwind_reader") as northwind:
        assert northwind.packet(theirs.packet_id).document == theirs.document
        assert northwind.packet(theirs.packet_id).verify() == []
        assert northwind.corpus_fingerprint() == fingerprint
        assert northwind.evidence_changes(theirs.packet_id) == []


def test_a_tenant_that_was_erased_can_load_and_be_erased_again(corpus: Database) -> None:
    erase(corpus, None)
    with corpus.tenant("acme_curator") as acme:
        acme.load_documents([{**TRAVEL, "version": 2}])
        acme.add_contract(QUESTION, 2, CONTRACT)
        with pytest.raises(errors.ContractConflict), acme.savepoint():
            acme.add_contract(QUESTION, 1, CONTRACT)
    assert ask_for(corpus).outcome == "SufficientForTemplate"
    assert erase(corpus, None).versions == 1
    with corpus.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        rows = connection.execute("select document_id, version from rag_api.erasure order by 1, 2").fetchall()
    assert rows == [("SECRET", 1), ("TRAVEL", 1), ("TRAVEL", 2), (None, None), (None, None)]


# Nobody else notices


def test_what_is_left_ranks_as_in_a_store_that_never_had_it(corpus: Database, store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([TRAVEL])
        acme.add_contract(QUESTION, 1, CONTRACT)
        add_more = [{"id": f"D{n}", "version": 1, "body": f"Receipts {n} days " * n} for n in range(1, 9)]
        acme.load_documents(add_more)
    with corpus.tenant("acme_curator") as acme:
        acme.load_documents(add_more)
    with corpus.engine(SUPERUSER) as engine:
        _maintenance.maintain(engine, least=2)  # in one segment with the others
    erase(corpus)
    found = []
    for database in (corpus, store):
        with database.tenant("acme_reader") as acme:
            decision = acme.decide(QUESTION, query=ASKED, case=CASE, k=9, method="bm25")
            hits = acme.search("receipts within 7 days", case=CASE, k=20, why=True)
            found.append(
                (
                    [(hit.score, hit.document_id, hit.why) for hit in hits],
                    [(source.score, source.document_id, source.text) for source in decision.sources],
                    (decision.preimage, decision.digest),
                    acme.corpus_fingerprint(),
                )
            )
    assert found[0] == found[1]


def test_bm25_over_what_is_left_is_bm25_by_the_texts(store: Database) -> None:
    """Through erasures, maintenance and loads, at any instants, for any case."""
    chosen = random.Random(7)
    since = datetime.now(UTC)
    for age in range(2):
        grow(store, chosen, age)
        with store.connect(SUPERUSER) as superuser:
            there = superuser.execute(
                "select tenant, document_id, version from rag.version where body is not null order by 1, 2, 3"
            ).fetchall()
        for tenant, document, version in chosen.sample(there, len(there) // 4):
            erase(store, document, *([version] if chosen.random() < 0.7 else []), tenant=tenant)
        if age == 0:
            with store.engine(SUPERUSER) as engine:
                _maintenance.maintain(engine, least=2)
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        for _ in range(12):
            asked = ask(chosen, since)
            assert found(connection, asked) == expected(connection, asked), asked


def test_maintenance_puts_what_was_erased_aside(corpus: Database) -> None:
    with corpus.tenant("acme_curator") as acme:
        acme.load_documents([{"id": f"D{number}", "version": 1, "body": f"Receipts {number}"} for number in range(9)])
    erase(corpus)
    before = ask_for(corpus, k=20)
    with corpus.engine(SUPERUSER) as engine:
        assert _maintenance.maintain(engine, least=2).segments > 0
        assert _maintenance.due(engine, 2) == []
    after = ask_for(corpus, k=20)
    assert (after.digest, after.sources) == (before.digest, before.sources)


# Who may


@pytest.mark.parametrize("login", ["acme_reader", "acme_curator", "acme_reviewer", "publisher", "auditor"])
def test_no_run_time_login_erases_anything(corpus: Database, login: str) -> None:
    for call in (
        "select rag_auth.erase('acme', 'SECRET', null, false, 'x', false)",
        "select rag_auth.empty_erased('acme', '{SECRET}', '{1}', '{}', '{}', false)",
        "select rag_index.erase_versions('acme', '{SECRET}', '{1}')",
        "insert into rag.erasure (tenant, document_id, version, reason) values ('acme', 'SECRET', 1, 'x')",
    ):
        with corpus.connect(login) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(call.encode())


_ERASED = "update rag.version set title = null, body = null, applies_to = '{}', source = null, metadata = '{}'"


@pytest.mark.parametrize(
    ("role", "change"),
    [
        ("postgres", _ERASED + ", outline = '[]'"),  # not as the owner
        ("rag_owner", _ERASED + ", outline = '[]', language = 'english'"),
        ("rag_owner", "update rag.version set title = 'Another'"),
        ("rag_owner", "update rag.version set version = 9"),
        ("rag_owner", "update rag.span set fact = 'limit'"),
        ("rag_owner", "update rag.passage set tokens = 1"),
        ("rag_owner", "update rag.span set quote = 'within 21 days'"),
    ],
)
def test_evidence_is_changed_by_its_erasure_and_to_nothing_but_empty(corpus: Database, role: str, change: str) -> None:
    with corpus.connect(SUPERUSER) as superuser:
        superuser.execute(
            "insert into rag.erasure (tenant, document_id, version, reason) values ('acme', 'SECRET', 1, 'x')"
        )
        superuser.execute(f"set role {role}".encode())
        with pytest.raises(errors.AppendOnly), errors.translate():
            superuser.execute(change.encode())


def test_the_owner_sees_and_changes_nothing_but_what_this_transaction_erases(corpus: Database) -> None:
    with corpus.connect(SUPERUSER) as owner:
        owner.execute("set role rag_owner")
        tables = (
            "version",
            "passage",
            "span",
            "withdrawal",
            "contract",
            "packet",
            "packet_source",
            "approval",
            "trace",
        )
        for table in tables:
            assert owner.execute(f"select count(*) from rag.{table}".encode()).fetchone() == (0,), table
        insert = "insert into rag.erasure (tenant, document_id, version, reason) values ('acme', 'TRAVEL', 1, 'x')"
        owner.execute(insert)
        assert owner.execute("select document_id from rag.version").fetchall() == [("TRAVEL",)]
        owner.commit()
        owner.execute("set role rag_owner")
        assert owner.execute("select document_id from rag.version").fetchall() == []
        assert owner.execute("update rag.version set body = null").rowcount == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"document": "NOTHING"}, errors.VersionNotFound),
        ({"document": "SECRET", "version": 2}, errors.VersionNotFound),
        ({"tenant": "northwind"}, errors.VersionNotFound),
        ({"tenant": "nobody"}, errors.UnknownLogin),
        ({"document": None, "tenant": "public"}, errors.UnknownLogin),
        ({"reason": ""}, errors.InvalidRequest),
        ({"reason": "x" * 4001}, errors.InvalidRequest),
    ],
)
def test_what_cannot_be_erased_is_refused_and_nothing_changes(
    corpus: Database, options: dict[str, Any], error: type[errors.RagSqlError]
) -> None:
    values = {"document": "SECRET", "version": None, **options}
    document, version = values.pop("document"), values.pop("version")
    with corpus.connect(SUPERUSER) as superuser:
        before = stored(superuser)
        with pytest.raises(error):
            erase(corpus, document, *([version] if version else []), **values)
        assert stored(superuser) == before


def test_nothing_is_erased_in_a_transaction_that_sees_the_database_as_it_was(corpus: Database) -> None:
    with corpus.connect(SUPERUSER) as owner, pytest.raises(errors.InvalidRequest), errors.translate():
        owner.execute("set transaction isolation level repeatable read")
        owner.execute("set role rag_owner")
        owner.execute("select rag_auth.erase('acme', 'SECRET', null, false, 'x', false)")


# Meanwhile


def _spans(acme: Tenant) -> object:
    return acme.add_spans([{"document": "SECRET", "version": 1, "span": "s9", "fact": "f", "quote": "zyxquote"}])


def _embed(acme: Tenant) -> object:
    return acme.add_embeddings("probe", "1", [MissingEmbedding("SECRET", 1, 0, "")], [[1, 1]])


@pytest.mark.parametrize(
    ("login", "act", "error"),
    [
        ("acme_curator", lambda acme, *_: acme.load_documents([{**TRAVEL, "version": 2}]), None),
        ("acme_curator", lambda acme, *_: acme.load_documents([SECRET]), errors.VersionErased),
        ("acme_curator", lambda acme, *_: acme.withdraw_version("SECRET", 1, note="zyxnote"), errors.VersionErased),
        ("acme_curator", lambda acme, *_: _spans(acme), errors.VersionErased),
        ("acme_curator", lambda acme, *_: _embed(acme), None),
        (
            "acme_reader",
            lambda acme, *_: acme.record_packet(QUESTION, query=ASKED, case=CASE, k=1),
            errors.EvidenceErased,
        ),
        ("acme_reader", lambda acme, packet, _: acme.record_trace(packet.packet_id), errors.EvidenceErased),
        (
            "acme_reviewer",
            lambda acme, packet, _: acme.approve(acme.review(packet.packet_id, draft(packet)), note="zyxreview"),
            errors.EvidenceErased,
        ),
        (
            "acme_reader",
            lambda acme, _, trace: acme.record_answer(trace.trace_id, "zyxanswer", [], model="m", prompt_version="1"),
            errors.EvidenceErased,
        ),
    ],
    ids=["load", "load again", "withdraw", "curate", "embed", "packet", "trace", "approve", "answer"],
)
def test_who_stores_meanwhile_waits_and_brings_nothing_back(
    corpus: Database, login: str, act: Any, error: type[errors.RagSqlError] | None
) -> None:
    packet = ask_for(corpus)
    with corpus.tenant("acme_reader") as acme:
        trace = acme.record_trace(packet.packet_id)
    ended: list[Any] = []

    def meanwhile() -> None:
        try:
            with corpus.tenant(login) as acme:
                act(acme, packet, trace)
            ended.append(None)
        except errors.RagSqlError as raised:
            ended.append(type(raised))

    with corpus.connect(SUPERUSER, autocommit=True) as watcher, corpus.connect(SUPERUSER) as owner:
        owner.execute("set role rag_owner")
        owner.execute("select rag_auth.erase('acme', 'SECRET', null, false, 'x', false)")
        thread = threading.Thread(target=meanwhile)
        thread.start()
        while watcher.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        ).fetchone() != (1,):
            assert thread.is_alive()
        owner.commit()
        thread.join(timeout=20)
    assert ended == [error]
    assert marks(corpus) == set()


def test_an_answer_that_is_being_recorded_is_waited_for_and_erased(corpus: Database) -> None:
    packet = ask_for(corpus)
    with corpus.tenant("acme_reader") as acme:
        trace = acme.record_trace(packet.packet_id)
    with corpus.connect(SUPERUSER, autocommit=True) as watcher:
        with corpus.tenant("acme_reader") as acme:
            acme.record_answer(trace.trace_id, "zyxanswer", [], model="m", prompt_version="1")
            thread = threading.Thread(target=erase, args=(corpus,))
            thread.start()
            while watcher.execute(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            ).fetchone() != (1,):
                assert thread.is_alive()
        thread.join(timeout=20)
    assert marks(corpus) == set()
