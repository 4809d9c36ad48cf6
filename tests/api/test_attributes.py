"""Attributes and their types: what is compared, what is refused, and what a new type does to what is stored."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_sql import Decision, Tenant, draft, errors
from tests.conftest import Database

QUESTION = "refund"
CONTRACT: dict[str, Any] = {
    "case": ["amount", "travel"],
    "facts": [{"fact": "limit", "propositions": [{"quote": "needs two signatures", "clauses": ["Two people sign."]}]}],
}


def document(amount: str = "2.50", travel: str = "true", *, id: str = "POL-1", version: int = 1) -> dict[str, Any]:  # noqa: A002
    return {
        "id": id,
        "version": version,
        "body": f"A refund of {amount} needs two signatures.",
        "applies_to": {"amount": [amount], "travel": [travel]},
        "spans": [{"id": "s1", "fact": "limit", "quote": "needs two signatures"}],
    }


def decide(tenant: Tenant, amount: Any = "2.5", travel: Any = "true") -> Decision:
    return tenant.decide(QUESTION, query="refund signatures", case={"amount": amount, "travel": travel}, k=5)


def declare(tenant: Tenant, amount: str = "number", travel: str = "flag") -> None:
    tenant.set_attribute("amount", amount)
    tenant.set_attribute("travel", travel)


def types(tenant: Tenant) -> dict[str, tuple[str, str]]:
    return {row.attribute: (row.type, row.declared_by) for row in tenant.attributes()}


def notices(database: Database, login: str, tenant: str, statement: str, value: str) -> list[str]:
    """What the database says beside the answer; committed."""
    said: list[str] = []
    with database.connect(login) as connection:
        connection.add_notice_handler(lambda diag: said.append(f"{diag.message_primary} / {diag.message_hint}"))
        connection.execute("select rag_api.bind(%s)", [tenant])
        connection.execute(statement.encode(), [value])
    return said


# Declaring


def test_an_attribute_is_new_the_same_or_changed(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        assert [acme.set_attribute("amount", kind) for kind in ("number", "number", "text")] == [
            "new",
            "same",
            "changed",
        ]
        assert types(acme) == {"amount": ("text", "acme")}


def test_an_attribute_nobody_declared_becomes_a_text_with_a_notice_once(store: Database) -> None:
    load = "select rag_api.load_documents(%s)"
    said = notices(
        store, "acme_curator", "acme", load, '[{"id": "A", "version": 1, "body": "x", "applies_to": {"m": ["1"]}}]'
    )
    (notice,) = said
    assert notice == (
        'attribute "m" was not declared: it is a text now'
        " / Declare what is something else: rag-sql attribute set m version-numeric --tenant acme"
    )
    assert not notices(
        store, "acme_curator", "acme", load, '[{"id": "B", "version": 1, "body": "x", "applies_to": {"m": ["2"]}}]'
    )
    with store.tenant("acme_reader") as acme:
        assert types(acme) == {"m": ("text", "acme")}


def test_a_contract_declares_its_case_attributes_like_a_document(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.set_attribute("amount", "number")
        acme.add_contract(QUESTION, 1, CONTRACT)
        assert types(acme) == {"amount": ("number", "acme"), "travel": ("text", "acme")}


@pytest.mark.parametrize("name", ["", " amount", "a\nb", "x" * 201])
def test_a_name_that_is_none_is_refused(shared_store: Database, name: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="no name"), shared_store.tenant("acme_curator") as acme:
        acme.set_attribute(name, "text")


@pytest.mark.parametrize("kind", ["", "numeric", "Number", "version"])
def test_a_type_that_is_none_is_refused(shared_store: Database, kind: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="no type"), shared_store.tenant("acme_curator") as acme:
        acme.set_attribute("amount", kind)


def test_only_who_writes_for_the_tenant_declares(shared_store: Database) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege), shared_store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        connection.execute("select rag_api.set_attribute('amount', 'number')")
    with pytest.raises(errors.NotAllowed), shared_store.tenant("public_curator") as public:
        public.set_attribute("amount", "number")


def test_a_new_type_is_refused_while_a_stored_value_is_none_and_nothing_is_declared(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([document("2.50"), document("n/a", id="POL-2"), document("much", id="POL-2", version=2)])
    with pytest.raises(errors.AttributeMisfit) as refused, store.tenant("acme_curator") as acme:
        acme.set_attribute("amount", "number")
    assert refused.value.message == 'attribute "amount" cannot be a number: 2 stored values are none'
    assert refused.value.detail.splitlines() == ['"POL-2" version 1: "n/a"', '"POL-2" version 2: "much"']
    with store.tenant("acme_reader") as acme:
        assert types(acme)["amount"] == ("text", "acme")


# Comparing


def test_a_number_is_compared_by_value_and_a_text_as_it_is_written(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([document("2.50")])
        acme.add_contract(QUESTION, 1, CONTRACT)
        assert not decide(acme, "2.5").sufficient
        declare(acme)
    with store.tenant("acme_reader") as acme:
        for amount in ("2.5", "2.50", "02.5", 2.5):
            decision = decide(acme, amount)
            assert decision.sufficient
            assert decision.case_facts == {"amount": "2.5", "travel": "true"}
        assert not decide(acme, "2.51").sufficient
        assert not decide(acme, travel=False).sufficient


def test_equal_cases_have_one_identity_however_they_are_written(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        declare(acme)
        acme.load_documents([document("2.50")])
        acme.add_contract(QUESTION, 1, CONTRACT)
    with store.tenant("acme_reader") as acme:
        assert (
            len({decide(acme, amount, travel).digest for amount in ("2.5", 2.5, "2.500") for travel in ("true", True)})
            == 1
        )


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ({"amount": "much", "travel": "true"}, 'attribute "amount" must be a number'),
        ({"amount": True, "travel": "true"}, 'attribute "amount" must be a number'),
        ({"amount": "", "travel": "true"}, 'attribute "amount" must be a number'),
        ({"amount": "1e3", "travel": "true"}, 'attribute "amount" must be a number'),
        ({"amount": "2.5", "travel": "yes"}, 'attribute "travel" must be a flag, true or false'),
        ({"amount": "2.5", "travel": 1}, 'attribute "travel" must be a flag, true or false'),
    ],
)
def test_a_case_value_that_is_none_of_its_type_is_an_error_and_never_no_match(
    store: Database, case: dict[str, Any], problem: str
) -> None:
    with store.tenant("acme_curator") as acme:
        declare(acme)
        acme.add_contract(QUESTION, 1, CONTRACT)
    with store.tenant("acme_reader") as acme, pytest.raises(errors.InvalidCase) as refused:
        acme.decide(QUESTION, query="refund", case=case, k=5)
    assert refused.value.message == f"the case does not fit the contract: {problem}"


@pytest.mark.parametrize(
    ("amount", "travel", "path"), [("n/a", "true", "0.applies_to.amount"), ("1", "yes", "0.applies_to.travel")]
)
def test_a_document_with_a_value_that_is_none_of_its_type_is_refused(
    store: Database, amount: str, travel: str, path: str
) -> None:
    with store.tenant("acme_curator") as acme:
        declare(acme)
    with pytest.raises(errors.InvalidDocument, match="as which the attribute is declared") as refused:
        with store.tenant("acme_curator") as acme:
            acme.load_documents([document(amount, travel)])
    assert refused.value.column == path


def test_what_is_none_of_its_type_equals_nothing_that_is_and_stops_no_decision(store: Database) -> None:
    """A curator may insert by SQL, or a type may be declared while another session loads."""
    with store.tenant("acme_curator") as acme:
        declare(acme)
        acme.add_contract(QUESTION, 1, CONTRACT)
        acme.load_documents([document()])
    with store.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        connection.execute(
            "insert into rag.version (tenant, document_id, version, body, applies_to)"
            """ values ('acme', 'X', 1, 'refund', '{"amount": ["n/a"]}')"""
        )
    with store.tenant("acme_reader") as acme:
        assert [source.document_id for source in decide(acme).sources] == ["POL-1"]


def test_a_declaration_of_publics_does_not_stop_a_tenant_that_declared_otherwise(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        declare(acme, amount="text")
        acme.load_documents([document("EU")])
        acme.add_contract(QUESTION, 1, CONTRACT)
    with store.tenant("publisher") as public:
        public.set_attribute("amount", "number")
        public.load_documents([document("5", id="PUBLIC")])
    with store.tenant("acme_reader") as acme:
        assert [source.document_id for source in decide(acme, "EU").sources] == ["POL-1"]


def test_a_declaration_is_numbered_by_the_database(store: Database) -> None:
    with store.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(
                "insert into rag.attribute (tenant, attribute, type, declaration_number)"
                " values ('acme', 'amount', 'number', 2147483647)"
            )


numbers = st.from_regex(r"\A-?[0-9]{1,20}(\.[0-9]{1,20})?\Z")


@settings(deadline=None)
@given(one=numbers, other=numbers)
def test_two_numbers_are_one_value_exactly_when_they_are_equal(shared_store: Database, one: str, other: str) -> None:
    with shared_store.connect("acme_reader") as connection:
        row = connection.execute(
            "select rag.canonical_value('number', %s), rag.canonical_value('number', %s)", [one, other]
        ).fetchone()
    assert row is not None
    assert (row[0] == row[1]) == (Decimal(one) == Decimal(other))
    assert Decimal(row[0]) == Decimal(one)


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_a_canonical_value_is_its_own_canonical_value_and_a_text_is_left_alone(
    shared_store: Database, text: str
) -> None:
    with shared_store.connect("acme_reader") as connection:
        for kind in ("text", "number", "flag"):
            row = connection.execute(
                "select c, rag.canonical_value(%(type)s, c) from rag.canonical_value(%(type)s, %(text)s) as c",
                {"type": kind, "text": text},
            ).fetchone()
            assert row is not None
            assert row[0] == row[1]
            assert kind != "text" or row[0] == text


# Whose declaration


def test_a_tenants_own_declaration_counts_before_publics(store: Database) -> None:
    with store.tenant("publisher") as public:
        declare(public)
    with store.tenant("acme_reader") as acme:
        assert types(acme) == {"amount": ("number", "public"), "travel": ("flag", "public")}
    with store.tenant("acme_curator") as acme:
        acme.set_attribute("travel", "text")
    with store.tenant("acme_reader") as acme:
        assert types(acme) == {"amount": ("number", "public"), "travel": ("text", "acme")}
    with store.tenant("northwind_reader") as northwind:
        assert types(northwind) == {"amount": ("number", "public"), "travel": ("flag", "public")}


def test_what_public_declares_later_does_not_change_what_a_tenant_has_stored(store: Database) -> None:
    with store.tenant("publisher") as public:
        public.set_attribute("amount", "number")
    with store.tenant("acme_curator") as acme:
        acme.load_documents([document("2.50")])
        acme.add_contract(QUESTION, 1, CONTRACT)
    with store.tenant("publisher") as public:
        public.set_attribute("amount", "flag")
    with store.tenant("acme_reader") as acme:
        assert types(acme)["amount"] == ("number", "acme")
        assert decide(acme).sufficient


def test_values_match_as_the_documents_tenant_or_the_asking_one_declares_them(store: Database) -> None:
    """Who takes an amount for a number must not miss a public exception that writes it as a text."""
    with store.tenant("publisher") as public:
        public.load_documents([document("2.50", id="PUBLIC")])
    with store.tenant("acme_curator") as acme:
        acme.set_attribute("amount", "number")
        acme.add_contract(QUESTION, 1, CONTRACT)
        assert [source.document_id for source in decide(acme).sources] == ["PUBLIC"]
    with store.tenant("northwind_curator") as northwind:
        northwind.add_contract(QUESTION, 1, CONTRACT)
        assert not decide(northwind).sources
        assert decide(northwind, "2.50").sources


def test_an_auditor_sees_each_tenants_versions_compared_as_that_tenant_declared(store: Database) -> None:
    for curator, kind in (("acme_curator", "number"), ("northwind_curator", "text")):
        with store.tenant(curator) as tenant:
            tenant.set_attribute("amount", kind)
            tenant.load_documents([{"id": "A", "version": 1, "body": "x", "applies_to": {"amount": ["2.50"]}}])
    with store.connect("auditor") as connection:
        found = connection.execute("""select tenant from rag_api.eligible('{"amount": "2.5"}')""").fetchall()
        said = connection.execute(
            """select tenant, eligible, reason from rag_api.eligibility('{"amount": "2.5"}') order by 1"""
        ).fetchall()
    assert found == [("acme",)]
    assert said == [("acme", True, None), ("northwind", False, "attribute_differs")]


# Time and approvals


def test_what_was_decided_under_an_earlier_type_can_be_decided_again(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([document("2.50")])
        acme.add_contract(QUESTION, 1, CONTRACT)
    with store.tenant("acme_reader") as acme:
        before = decide(acme, "2.50")
    with store.tenant("acme_curator") as acme:
        declare(acme)
    with store.tenant("acme_reader") as acme:
        again = acme.decide(
            QUESTION,
            query="refund signatures",
            case=before.case_facts,
            k=5,
            valid_at=datetime.fromisoformat(before.request.valid_at),
            known_at=datetime.fromisoformat(before.request.known_at),
        )
        assert (again.digest, again.case_facts) == (before.digest, before.case_facts)


def test_a_new_type_makes_an_approval_stale_where_the_case_is_another_one_with_it(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([document("2.50")])
        acme.add_contract(QUESTION, 1, CONTRACT)
    with store.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query="refund signatures", case={"amount": "2.50", "travel": "true"}, k=5)
    with store.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, draft(packet)))
    with store.tenant("acme_curator") as acme:
        acme.set_attribute("travel", "flag")
        assert acme.require_approval(packet.packet_id, draft(packet))
        acme.set_attribute("amount", "number")
        with pytest.raises(errors.StaleApproval) as stale:
            acme.require_approval(packet.packet_id, draft(packet))
    assert stale.value.detail.splitlines()[0] == (
        'case facts: {"amount": "2.50", "travel": "true"} -> {"amount": "2.5", "travel": "true"}'
    )


def test_the_fingerprint_of_the_corpus_changes_with_a_type_and_back(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        prints = [acme.corpus_fingerprint()]
        for kind in ("number", "text"):
            acme.set_attribute("amount", kind)
    with store.tenant("acme_curator") as acme:
        prints.append(acme.corpus_fingerprint())
        acme.set_attribute("amount", "number")
    with store.tenant("acme_curator") as acme:
        prints.append(acme.corpus_fingerprint())
    assert prints[0] == prints[1] != prints[2]
