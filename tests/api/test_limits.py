"""Limits: every text may be as long as schema/README.md says and no longer, by the functions and past them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from rag_sql import Tenant, draft, errors
from rag_sql.errors import BY_CONSTRAINT, InvalidClaims, InvalidContract, InvalidDocument, InvalidRequest, RagSqlError
from tests.api.strategies import rolled_back
from tests.conftest import CASE, QUERY, QUESTION, Database

MIB = 1024 * 1024
Json = dict[str, Any]


def padded(size: int, key: str = "k") -> Json:
    """An object that PostgreSQL prints in so many bytes: lists of texts of at most 100 bytes."""
    texts = ["x" * 96] * ((size - len(json.dumps({key: [""]}))) // 100)
    texts.append("x" * (size - len(json.dumps({key: [*texts, ""]}))))
    found = {key: texts}
    assert len(json.dumps(found)) == size
    return found


def load(acme: Tenant, **stated: Any) -> None:
    acme.load_documents([{"id": "D", "version": 1, "body": "Text.", **stated}])


def withdraw(acme: Tenant, note: str) -> None:
    load(acme)
    acme.withdraw_version("D", 1, note=note)


def supersede(acme: Tenant, note: str) -> None:
    load(acme)
    acme.supersede("D", ["E"], note=note)


def contract(size: int) -> Json:
    """Clauses of 1 MiB each, and one that fills what is left."""
    proposition: Json = {"quote": "q", "clauses": [f"{number}" + "c" * (MIB - 1) for number in range(7)] + [""]}
    content = {"case": [], "facts": [{"fact": "f", "propositions": [proposition]}]}
    proposition["clauses"][-1] = "d" * (size - len(json.dumps(content)))
    return content


def claim(**stated: Any) -> Json:
    return {"text": "t", "fact": "f", "tenant": "t", "document_id": "d", "version": 1, "span_id": "s", **stated}


def draft_of(size: int) -> list[Json]:
    """Claims that PostgreSQL prints in so many bytes."""
    claims = [claim(text="x" * MIB), claim(text="x" * MIB), claim(text="x" * MIB), claim(text="")]
    claims[-1]["text"] = "x" * (size - len(json.dumps(claims)))
    return claims


def check(acme: Tenant, claims: list[Json]) -> None:
    statement = sa.text(
        "select verdict from rag_api.check_claims(p_contract_tenant => 'public', p_question_id => 'q',"
        " p_contract_version => 1, p_selection => '{}', p_claims => cast(:claims as jsonb))"
    )
    with errors.translate():
        assert len(acme._binding.connection().execute(statement, {"claims": json.dumps(claims)}).all()) == len(claims)


Call = Callable[[Tenant, int], object]

#: What, as long as it may be at most, the error and the value's path.
LIMITS: list[tuple[str, int, Call, type[RagSqlError], str]] = [
    ("title", 1000, lambda acme, n: load(acme, title="x" * n), InvalidDocument, "0.title"),
    ("source", 4096, lambda acme, n: load(acme, source="x" * n), InvalidDocument, "0.source"),
    ("metadata", 65536, lambda acme, n: load(acme, metadata=padded(n)), InvalidDocument, "0.metadata"),
    ("body", 10 * MIB, lambda acme, n: load(acme, body="w" * n), InvalidDocument, "0.body"),
    ("id", 200, lambda acme, n: load(acme, id="x" * n), InvalidDocument, "0.id"),
    (
        "quotation of a span",
        MIB,
        lambda acme, n: load(acme, body="x" * n, spans=[{"id": "s", "fact": "f", "quote": "x" * n}]),
        InvalidDocument,
        "0.spans.0.quote",
    ),
    (
        "fact of a span",
        200,
        lambda acme, n: load(acme, spans=[{"id": "s", "fact": "f" * n, "quote": "Text."}]),
        InvalidDocument,
        "0.spans.0.fact",
    ),
    ("note on a withdrawal", 4000, lambda acme, n: withdraw(acme, "x" * n), InvalidRequest, ""),
    ("note on a succession", 4000, lambda acme, n: supersede(acme, "x" * n), InvalidRequest, ""),
    (
        "successors",
        100,
        lambda acme, n: load(acme, successors=[f"E{number}" for number in range(n)]),
        InvalidDocument,
        "0.successors",
    ),
    ("successor", 200, lambda acme, n: load(acme, successors=["x" * n]), InvalidDocument, "0.successors.0"),
    ("contract", 8 * MIB, lambda acme, n: acme.add_contract("q", 1, contract(n)), InvalidContract, ""),
    ("quotation to look for", MIB, lambda acme, n: acme.nearest_passage("x" * n), InvalidRequest, ""),
    ("passages to look for", 1000, lambda acme, n: acme.nearest_passage("x", k=n), InvalidRequest, ""),
    ("sentence", MIB, lambda acme, n: check(acme, [claim(), claim(text="x" * n)]), InvalidClaims, "1.text"),
    ("name in a claim", 200, lambda acme, n: check(acme, [claim(document_id="x" * n)]), InvalidClaims, "0.document_id"),
    ("claims", 1000, lambda acme, n: check(acme, [claim()] * n), InvalidClaims, ""),
    ("draft", 4 * MIB, lambda acme, n: check(acme, draft_of(n)), InvalidClaims, ""),
]


@pytest.mark.parametrize(
    ("most", "call", "error", "place"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS]
)
def test_as_long_as_the_limit_is_taken_and_one_more_is_refused(
    connection: sa.Connection, most: int, call: Call, error: type[RagSqlError], place: str
) -> None:
    with rolled_back(connection) as acme:
        call(acme, most)
    with pytest.raises(error) as caught, rolled_back(connection) as acme:
        call(acme, most + 1)
    assert type(caught.value) is error
    assert (caught.value.column, caught.value.sqlstate) == (place, error.sqlstate)


def test_what_a_document_applies_to_has_a_limit(connection: sa.Connection) -> None:
    """In the form that is stored: each value once."""
    for most, fits in ((65536, True), (65537, False)):
        values = [f"{number:060}" for number in range((most - 7) // 64)]
        values.append("x" * (most - len(json.dumps({"k": [*values, ""]}))))
        assert len(json.dumps({"k": values})) == most
        if fits:
            with rolled_back(connection) as acme:
                load(acme, applies_to={"k": values})
        else:
            with pytest.raises(InvalidDocument) as caught, rolled_back(connection) as acme:
                load(acme, applies_to={"k": values})
            assert caught.value.column == "0.applies_to"


def test_a_query_and_a_reviewers_words_have_limits(gateway: Database) -> None:
    """At the limit; one more is a row of tests/cli/mistakes.py."""
    with gateway.tenant("acme_reader") as acme:
        query = f"{QUERY} ".ljust(65536, "x")
        packet = acme.record_packet(QUESTION, query=query, case=CASE, k=2)
    with gateway.tenant("acme_reviewer") as acme:
        review = acme.review(packet.packet_id, draft(packet))
        assert acme.approve(review, reviewer_name="é" * 100, note="é" * 2000) == 1
    with gateway.store("acme_reader") as store, pytest.raises(InvalidRequest), store.tenant("acme") as acme:
        acme.decide(QUESTION, query=query + "x", case=CASE, k=2)
    with gateway.store("acme_reviewer") as store, pytest.raises(InvalidRequest), store.tenant("acme") as acme:
        acme.approve(review, reviewer_name="")


# Past the functions


@pytest.mark.parametrize(
    ("table", "values", "constraint"),
    [
        ("version", {"title": "x" * 1001}, "version_title_fits"),
        ("version", {"source": "x" * 4097}, "version_source_fits"),
        ("version", {"metadata": json.dumps(padded(65537))}, "version_metadata_fits"),
        ("version", {"applies_to": json.dumps({"k": [f"{n:060}" for n in range(1100)]})}, "version_applies_to_fits"),
        ("withdrawal", {"note": "x" * 4001}, "withdrawal_note_fits"),
        ("succession", {"successor_id": "E", "note": "x" * 4001}, "succession_note_fits"),
        ("succession", {"successor_id": "x" * 201}, "succession_successor_id_fits"),
        ("succession", {"successor_id": "D"}, "succession_is_by_another"),
        ("span", {"quote": "x" * (MIB + 1)}, "span_quote_fits"),
        ("contract", {"content": json.dumps(contract(8 * MIB + 1))}, "contract_content_fits"),
    ],
)
def test_who_inserts_past_the_functions_meets_the_same_limit(
    connection: sa.Connection, table: str, values: Json, constraint: str
) -> None:
    given: Json = {"tenant": "acme", "version": 1, **values}
    given["question_id" if table == "contract" else "document_id"] = "D"
    if table == "version":
        given["body"] = "Text."
    if table == "succession":
        del given["version"]
    if table == "span":
        given |= {"span_id": "s", "fact": "f"}
    with pytest.raises(RagSqlError) as caught, rolled_back(connection) as acme, errors.translate():
        if table in {"withdrawal", "span"}:
            load(acme, body="x" * (MIB + 1))
        names = ", ".join(given)
        statement = f"insert into rag.{table} ({names}) values (:{names.replace(', ', ', :')})"
        connection.execute(sa.text(statement), given)
    assert type(caught.value) is BY_CONSTRAINT[constraint]
    assert caught.value.constraint == constraint


def test_every_constraint_that_a_curator_can_meet_has_a_class(connection: sa.Connection) -> None:
    """But the one on what the database derives itself."""
    with connection.begin():
        found = connection.execute(
            sa.text(
                "select conname from pg_constraint where contype in ('c', 'p') and conrelid in"
                " ('rag.attribute'::regclass, 'rag.version'::regclass, 'rag.withdrawal'::regclass,"
                " 'rag.succession'::regclass, 'rag.span'::regclass, 'rag.contract'::regclass)"
            )
        )
        names = set(found.scalars())
    assert names - set(BY_CONSTRAINT) == {"span_within_body", "withdrawal_key", "succession_key"}
