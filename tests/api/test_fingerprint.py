"""The corpus fingerprint: everything the retriever could have seen, in no digest and of no clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from rag_sql import Tenant
from tests.api.strategies import ACME, CONTENT, Json, rolled_back
from tests.conftest import CASE, QUERY, QUESTION, SEED, Clone, Database

# The corpus fingerprint


def another_document(acme: Tenant) -> None:
    acme.load_documents([{"id": "new", "version": 1, "body": "New."}])


def another_version(acme: Tenant) -> None:
    acme.load_documents([{"id": "a", "version": 3, "body": "New."}])


def the_same_text_as_another_version(acme: Tenant) -> None:
    acme.load_documents([{**ACME[0], "version": 3}])


def a_withdrawal(acme: Tenant) -> None:
    acme.withdraw_version("a", 2)


def a_withdrawal_of_a_superseded_version(acme: Tenant) -> None:
    acme.withdraw_version("a", 1)


def a_succession(acme: Tenant) -> None:
    acme.supersede("a", ["b"])


@pytest.mark.parametrize(
    "change",
    [
        another_document,
        another_version,
        the_same_text_as_another_version,
        a_withdrawal,
        a_withdrawal_of_a_superseded_version,
        a_succession,
    ],
)
def test_whatever_the_retriever_could_see_changes_the_fingerprint(
    forwards: Database, change: Callable[[Tenant], None]
) -> None:
    with forwards.engine("acme_curator") as engine, engine.connect() as connection, rolled_back(connection) as acme:
        before = acme.corpus_fingerprint()
        change(acme)
        assert acme.corpus_fingerprint() != before


def test_a_span_more_changes_the_fingerprint(forwards: Database) -> None:
    with forwards.engine("acme_curator") as engine, engine.connect() as connection, rolled_back(connection) as acme:
        before = acme.corpus_fingerprint()
        connection.execute(
            sa.text(
                "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
                " values ('acme', 'a', 2, 'later', 'f', 'Own')"
            )
        )
        assert acme.corpus_fingerprint() != before


@pytest.mark.parametrize(
    "variant",
    [
        {"body": "Same word."},
        {"applies_to": {"model": ["x"]}},
        {"effective_from": "2024-01-02"},
        {"effective_from": "1969-12-31T23:59:59.999999Z"},
        {"spans": [{"id": "s", "fact": "f", "quote": "Same"}]},
        {"spans": [{"id": "s", "fact": "g", "quote": "Same"}]},
        {"spans": [{"id": "s", "fact": "f", "quote": "words"}]},
        {"successors": ["e"]},
        {"successors": ["e"], "superseded_from": "2024-01-02"},
        {"successors": ["f"]},
        {"successors": ["e", "f"]},
    ],
    ids=lambda variant: json.dumps(variant),
)
def test_two_stores_that_differ_in_one_thing_have_different_fingerprints(
    connection: sa.Connection, variant: Json
) -> None:
    plain: Json = {"id": "d", "version": 1, "body": "Same words."}
    assert fingerprint_of(connection, [{**plain, **variant}]) != fingerprint_of(connection, [plain])


def test_stores_without_successors_have_the_fingerprint_that_they_had(connection: sa.Connection) -> None:
    """What a release without them computed."""
    loaded: list[Json] = [{"id": "d", "version": 1, "body": "Same words.", "language": "english"}]
    assert fingerprint_of(connection, loaded) == ("47e4a1740d0b50a7ecb59a9318a80099d103c87ec4745603571f4929fcd6ddad")


def test_successors_that_are_stated_differ_and_their_order_does_not(connection: sa.Connection) -> None:
    plain: Json = {"id": "d", "version": 1, "body": "Same words."}
    stated: list[Json] = [
        {"successors": ["e"]},
        {"successors": ["f"]},
        {"successors": ["e", "f"]},
        {"successors": ["e"], "superseded_from": "2024-01-02"},
    ]
    assert len({fingerprint_of(connection, [{**plain, **successors}]) for successors in stated}) == len(stated)
    assert fingerprint_of(connection, [{**plain, "successors": ["f", "e"]}]) == fingerprint_of(
        connection, [{**plain, "successors": ["e", "f"]}]
    )


def fingerprint_of(connection: sa.Connection, loaded: list[Json]) -> str:
    with rolled_back(connection) as acme:
        acme.load_documents(loaded)
        return acme.corpus_fingerprint()


def test_what_another_tenant_does_changes_no_fingerprint_but_its_own(gateway: Database) -> None:
    def fingerprints() -> dict[str, str]:
        found = {}
        for login in ("acme_reader", "northwind_reader", "unbound_reader"):
            with gateway.tenant(login) as tenant:
                found[login] = tenant.corpus_fingerprint()
        return found

    before = fingerprints()
    with gateway.tenant("northwind_curator") as northwind:
        northwind.load_documents([{"id": "HOLD-7", "version": 9, "body": "While an audit hold is active."}])
        northwind.withdraw_version("PRIVATE", 1)
    after = fingerprints()
    assert {login for login in before if before[login] != after[login]} == {"northwind_reader"}
    with gateway.tenant("publisher") as public:
        public.load_documents([{"id": "NEW", "version": 1, "body": "For everyone."}])
    assert all(fingerprints()[login] != after[login] for login in after)


def test_the_fingerprint_of_the_past_stays_as_it_was(gateway: Database) -> None:
    query = sa.text("select rag_api.corpus_fingerprint(p_known_at => :known_at)")

    def fingerprint(known_at: datetime) -> bytes:
        with gateway.engine("acme_reader") as engine, engine.begin() as connection:
            connection.execute(sa.text("select rag_api.bind('acme')"))
            found = connection.execute(query, {"known_at": known_at}).scalar()
        assert isinstance(found, bytes)
        return found

    with gateway.engine("acme_reader") as engine, engine.begin() as connection:
        then: datetime = connection.execute(sa.text("select now()")).scalar_one()
    before = fingerprint(then)
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 3)
        acme.supersede("HOLD-7", ["HOLD-8"], superseded_from=datetime(2020, 1, 1, tzinfo=UTC))
    assert fingerprint(then) == before


# What was decided can be decided again


def test_a_decision_at_its_own_instants_is_the_same_after_a_span_was_added(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        before = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    instants: Json = {
        "valid_at": datetime.fromisoformat(before.request.valid_at),
        "known_at": datetime.fromisoformat(before.request.known_at),
    }
    with gateway.engine("acme_curator") as engine, engine.begin() as connection:
        connection.execute(sa.text("select rag_api.bind('acme')"))
        connection.execute(
            sa.text(
                "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
                " values ('acme', 'HOLD-7', 2, 's2', 'scope', 'Applies to every gateway')"
            )
        )
    with gateway.tenant("acme_reader") as acme:
        again = acme.decide(QUESTION, query=QUERY, case=CASE, k=2, **instants)
    assert again.digest == before.digest


def test_a_decision_at_its_own_instants_is_the_same_after_a_contract_was_added(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        before = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    instants: Json = {
        "valid_at": datetime.fromisoformat(before.request.valid_at),
        "known_at": datetime.fromisoformat(before.request.known_at),
    }
    with gateway.tenant("publisher") as public:
        public.add_contract(QUESTION, 2, {**before.contract.content, "facts": CONTENT["facts"]})
    with gateway.tenant("acme_reader") as acme:
        again = acme.decide(QUESTION, query=QUERY, case=CASE, k=2, **instants)
    assert again.digest == before.digest


# What the fingerprint should say, and does not yet


def test_an_effective_time_of_1970_is_stated(connection: sa.Connection) -> None:
    plain: Json = {"id": "d", "version": 1, "body": "Same words."}
    stated = fingerprint_of(connection, [{**plain, "effective_from": "1970-01-01"}])
    assert stated != fingerprint_of(connection, [plain])


def test_stores_with_the_same_fingerprint_use_the_same_versions(clone: Clone, installed_template: Database) -> None:
    found = []
    for order in ([1, 2], [2, 1]):
        database = clone(installed_template)
        for version in order:
            with database.tenant("acme_curator") as acme:
                acme.load_documents([{"id": "d", "version": version, "body": f"Evidence {version}."}])
        with database.tenant("acme_curator") as acme:
            acme.add_contract("q", 1, {**CONTENT, "case": []})
            sources = acme.decide("q", query="evidence", case={}, k=1).sources
            found.append((acme.corpus_fingerprint(), sources[0].version))
    assert (found[0][0] == found[1][0]) == (found[0][1] == found[1][1])


def test_a_withdrawal_from_a_later_day_is_another_fingerprint(connection: sa.Connection) -> None:
    found = set()
    for withdrawn_from in (datetime(2020, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)):
        with rolled_back(connection) as acme:
            acme.load_documents([{"id": "d", "version": 1, "body": "Evidence.", "effective_from": "2019-01-01"}])
            acme.withdraw_version("d", 1, withdrawn_from=withdrawn_from)
            found.add(acme.corpus_fingerprint())
    assert len(found) == 2
