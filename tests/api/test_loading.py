"""Loading documents and contracts: what is new, what is the same, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rag_sql import draft, errors
from tests.conftest import CASE, QUERY, QUESTION, Database, Server

DOCUMENT: dict[str, Any] = {
    "id": "POL-1",
    "version": 1,
    "title": "Receipts",
    "body": "Submit travel receipts within 14 days.",
    "applies_to": {"region": ["EU", "US"]},
    "effective_from": "2026-01-01",
    "published": "2025-12-01",
    "source": "intranet",
    "metadata": {"weight": "3"},
    "spans": [{"id": "s1", "fact": "deadline", "quote": "within 14 days"}],
}
CONTRACT: dict[str, Any] = {
    "case": ["region"],
    "facts": [{"fact": "deadline", "propositions": [{"quote": "within 14 days", "clauses": ["Two weeks."]}]}],
}


def count(database: Database, table: str) -> int:
    with database.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        row = connection.execute(f"select count(*) from rag.{table} where tenant = 'acme'").fetchone()
    assert row is not None
    return int(row[0])


def test_the_same_version_with_the_same_bytes_is_left_alone(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        assert [entry.status for entry in acme.load_documents([DOCUMENT])] == ["new"]
    with store.tenant("acme_curator") as acme:
        assert [entry.status for entry in acme.load_documents([DOCUMENT])] == ["same"]
    assert count(store, "version") == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("body", "Submit travel receipts within 14 days!"),
        ("title", "Travel receipts"),
        ("applies_to", {"region": ["EU"]}),
        ("effective_from", "2026-01-02"),
        ("published", "2025-12-02"),
        ("source", "wiki"),
        ("metadata", {"weight": "4"}),
        ("spans", [{"id": "s2", "fact": "deadline", "quote": "14 days"}]),
        ("spans", [{"id": "s1", "fact": "deadline", "quote": "14 days"}]),
        ("spans", [{"id": "s1", "fact": "other", "quote": "within 14 days"}]),
    ],
)
def test_the_same_version_with_other_content_is_refused(store: Database, key: str, value: Any) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([DOCUMENT])
    with (
        store.store("acme_curator") as opened,
        pytest.raises(errors.VersionConflict) as caught,
        opened.tenant("acme") as acme,
    ):
        acme.load_documents([{**DOCUMENT, "id": "POL-2"}, {**DOCUMENT, key: value}])
    assert key in caught.value.message
    assert caught.value.column == "1.version"
    assert count(store, "version") == 1


def test_a_load_without_effective_time_or_spans_does_not_question_the_stored_ones(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([DOCUMENT])
        bare = {key: value for key, value in DOCUMENT.items() if key not in {"effective_from", "spans"}}
        assert acme.load_documents([bare])[0].status == "same"


def test_the_order_and_repetition_of_values_is_not_content(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([DOCUMENT])
        assert acme.load_documents([{**DOCUMENT, "applies_to": {"region": ["US", "EU", "US"]}}])[0].status == "same"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": ""}, "id"),
        ({"id": " x"}, "id"),
        ({"id": "x\n"}, "id"),
        ({"id": "x" * 201}, "id"),
        ({"id": 7}, "id"),
        ({"version": 0}, "version"),
        ({"version": -1}, "version"),
        ({"version": "1"}, "version"),
        ({"version": 1.5}, "version"),
        ({"version": 3000000000}, "version"),
        ({"body": ""}, "body"),
        ({"body": None}, "body"),
        ({"title": 3}, "title"),
        ({"applies_to": []}, "applies_to"),
        ({"applies_to": {"region": []}}, "applies_to.region"),
        ({"applies_to": {"region": None}}, "applies_to.region"),
        ({"applies_to": {"": ["x"]}}, "applies_to."),
        ({"applies_to": {"region": "EU"}}, "applies_to.region"),
        ({"applies_to": {"region": [3.5]}}, "applies_to.region"),
        ({"applies_to": {"region": [""]}}, "applies_to.region"),
        ({"applies_to": {"region": ["*"]}}, "applies_to.region"),
        ({"effective_from": "now"}, "effective_from"),
        ({"effective_from": "infinity"}, "effective_from"),
        ({"effective_from": "2026-13-01"}, "effective_from"),
        ({"published": "2026-02-30"}, "published"),
        ({"metadata": []}, "metadata"),
        ({"colour": "red"}, "colour"),
        ({"spans": {}}, "spans"),
        ({"spans": [{"id": "s1", "fact": "f"}]}, "spans.0.quote"),
        ({"spans": [{"id": "s1", "fact": "", "quote": "14"}]}, "spans.0.fact"),
        ({"spans": [{"id": "s1", "fact": "f", "quote": "14", "occurrence": 0}]}, "spans.0.occurrence"),
        ({"spans": [{"id": "s1", "fact": "f", "quote": "14", "range_start": 0}]}, "spans.0.range_start"),
        ({"spans": [{"id": "s", "fact": "f", "quote": "14"}, {"id": "s", "fact": "f", "quote": "days"}]}, "spans.1.id"),
        ({"spans": ["s1"]}, "spans.0.fact"),
        ({"successors": []}, "successors"),
        ({"successors": "POL-2"}, "successors"),
        ({"successors": ["POL-2", 3]}, "successors.1"),
        ({"successors": ["POL-2", " POL-3"]}, "successors.1"),
        ({"successors": [None]}, "successors.0"),
        ({"successors": ["POL-2", "POL-1"]}, "successors.1"),
        ({"successors": ["POL-2"], "superseded_from": "soon"}, "superseded_from"),
        ({"successors": ["POL-2"], "superseded_from": None}, "superseded_from"),
        ({"superseded_from": "2026-01-01"}, "superseded_from"),
    ],
)
def test_a_malformed_document_is_refused_with_its_place(
    shared_store: Database, change: dict[str, Any], path: str
) -> None:
    good = {**DOCUMENT, "id": "GOOD"}
    with (
        shared_store.store("acme_curator") as opened,
        pytest.raises(errors.InvalidDocument) as caught,
        opened.tenant("acme") as acme,
    ):
        acme.load_documents([good, {**DOCUMENT, **change}])
    assert caught.value.column == f"1.{path}"
    assert count(shared_store, "version") == 0


def test_a_version_twice_in_one_load_is_refused(shared_store: Database) -> None:
    with (
        shared_store.store("acme_curator") as opened,
        pytest.raises(errors.InvalidDocument),
        opened.tenant("acme") as acme,
    ):
        acme.load_documents([DOCUMENT, DOCUMENT])


def test_a_load_is_one_statement_however_many_documents(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        loaded = acme.load_documents([{"id": f"D{n}", "version": 1, "body": f"text {n}"} for n in range(1000)])
    assert len(loaded) == 1000
    assert count(store, "version") == 1000


def test_a_load_of_nothing_loads_nothing(shared_store: Database) -> None:
    with shared_store.tenant("acme_curator") as acme:
        assert acme.load_documents([]) == []


@pytest.mark.parametrize(
    ("login", "tenant", "error"),
    [
        ("acme_reader", "acme", None),
        ("acme_reviewer", "acme", None),
        ("acme_curator", None, errors.TenantRequired),
        ("acme_curator", "northwind", errors.TenantNotBound),
        ("acme_curator", "public", errors.TenantNotBound),
        ("public_curator", "public", errors.NotAllowed),
        ("publisher", "acme", errors.TenantNotBound),
    ],
)
def test_who_may_not_load(
    shared_store: Database, login: str, tenant: str | None, error: type[errors.RagSqlError] | None
) -> None:
    import sqlalchemy as sa

    with (
        shared_store.store(login) as opened,
        pytest.raises(error or sa.exc.ProgrammingError),
        opened.tenant(tenant) as bound,
    ):
        bound.load_documents([DOCUMENT])
    assert count(shared_store, "version") == 0


def test_withdrawing_what_is_not_there_or_not_ones_own_is_the_same_error(gateway: Database) -> None:
    seen = []
    for document_id in ("PRIVATE", "GW-241", "NOWHERE"):
        with (
            gateway.store("acme_curator") as opened,
            pytest.raises(errors.VersionNotFound) as caught,
            opened.tenant("acme") as acme,
        ):
            acme.withdraw_version(document_id, 1)
        seen.append(caught.value.message.replace(document_id, "ID"))
    assert len(set(seen)) == 1


def test_a_contract_version_is_added_once(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        assert acme.add_contract("q", 1, CONTRACT) == "new"
        assert acme.add_contract("q", 1, CONTRACT) == "same"
    with store.store("acme_curator") as opened, pytest.raises(errors.ContractConflict), opened.tenant("acme") as acme:
        acme.add_contract("q", 1, {**CONTRACT, "case": []})


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ([], ""),
        ({}, "case"),
        ({"case": "region", "facts": CONTRACT["facts"]}, "case"),
        ({"case": ["a", "a"], "facts": CONTRACT["facts"]}, "case.1"),
        ({"case": [3], "facts": CONTRACT["facts"]}, "case.0"),
        ({"case": []}, "facts"),
        ({"case": [], "facts": []}, "facts"),
        ({"case": [], "facts": ["deadline"]}, "facts.0.fact"),
        ({"case": [], "facts": [{"fact": "f"}]}, "facts.0.propositions"),
        ({"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "q"}]}]}, "facts.0.propositions.0.clauses"),
        (
            {"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "", "clauses": ["c"]}]}]},
            "facts.0.propositions.0.quote",
        ),
        (
            {"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "q", "clauses": [""]}]}]},
            "facts.0.propositions.0.clauses.0",
        ),
        ({"case": [], "facts": CONTRACT["facts"], "extra": 1}, "extra"),
        ({"case": [], "facts": [{**CONTRACT["facts"][0], "extra": 1}]}, "facts.0.extra"),
        ({"case": [], "facts": CONTRACT["facts"] * 2}, "facts.1.fact"),
    ],
)
def test_an_invalid_contract_is_refused_with_its_place(shared_store: Database, content: Any, path: str) -> None:
    with (
        shared_store.store("acme_curator") as opened,
        pytest.raises(errors.InvalidContract) as caught,
        opened.tenant("acme") as acme,
    ):
        acme.add_contract("q", 1, content)
    assert caught.value.column == path
    assert count(shared_store, "contract") == 0


@pytest.fixture(scope="module")
def decided(server: Server, gateway_template: Database) -> Iterator[Database]:
    """The gateway corpus with a packet, an approval, a withdrawal and a succession."""
    database = server.create(gateway_template.name)
    with database.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    with database.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, draft(packet)))
    with database.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 2)
        acme.supersede("HOLD-7", ["HOLD-8"])
    yield database
    server.drop(database)


@pytest.mark.parametrize(
    "table",
    ["version", "withdrawal", "succession", "span", "contract", "packet", "packet_source", "packet_span", "approval"],
)
@pytest.mark.parametrize("verb", ["update", "delete", "truncate"])
def test_evidence_is_append_only_even_for_the_superuser(decided: Database, table: str, verb: str) -> None:
    """Law 5."""
    from rag_sql.errors import translate

    statement = {
        "update": f"update rag.{table} set tenant = tenant",
        "delete": f"delete from rag.{table}",
        "truncate": f"truncate rag.{table} cascade",
    }[verb]
    with decided.connect("postgres") as connection, pytest.raises(errors.AppendOnly), translate():
        connection.execute(statement)
