"""Vectors of passages: what is stored and what is refused, and that a search finds all of the nearest eligible ones."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rag_sql import errors
from tests.conftest import Database, Server
from tests.vectors import Connection, add, search

DOCUMENTS: dict[str, list[float]] = {"A": [1, 0], "B": [0.8, 0.6], "C": [0, 1], "D": [-1, 0]}


@pytest.fixture(scope="module")
def corpus(server: Server, installed_template: Database) -> Iterator[Database]:
    """Four documents of acme's, each of one passage, without vectors; tests roll back."""
    database = server.create(installed_template.name)
    with database.tenant("acme_curator") as acme:
        acme.load_documents([{"id": name, "version": 1, "body": f"Text {name}"} for name in DOCUMENTS])
    yield database
    server.drop(database)


@pytest.fixture
def acme(corpus: Database) -> Iterator[Connection]:
    """A curator's transaction."""
    with corpus.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        yield connection
        connection.rollback()


def refused(connection: Connection, error: type[errors.RagSqlError], *call: Any) -> errors.RagSqlError:
    """The error of ours that a call raises; the transaction goes on."""
    with pytest.raises(error) as caught, errors.translate(), connection.transaction():
        connection.execute("select rag_api.add_embeddings(%s, %s, %s, %s, %s, %s)", call)
    return caught.value


# Storing


def test_what_is_stored_already_is_left(acme: Connection) -> None:
    assert add(acme, {"A": [1, 0], "B": [0, 1]}) == 2
    assert add(acme, {"A": [0, 1], "C": [1, 1]}) == 1
    assert [hit.document_id for hit in search(acme, [1, 0])] == ["A", "C", "B"]


def test_models_and_versions_stand_side_by_side(acme: Connection) -> None:
    add(acme, {"A": [1, 0]})
    add(acme, {"A": [1, 0, 0], "B": [0, 1, 0]}, version="2")
    add(acme, {"C": [1]}, model="other")
    assert [hit.document_id for hit in search(acme, [1, 0])] == ["A"]
    assert [hit.document_id for hit in search(acme, [0, 1, 0], version="2")] == ["B", "A"]
    models = acme.execute(
        "select model, model_version, dimension from rag_api.embedding_model order by 1, 2"
    ).fetchall()
    assert models == [("hash", "1", 2), ("hash", "2", 3), ("other", "1", 1)]


def test_what_is_missing_is_listed_with_its_text_and_gets_less(acme: Connection) -> None:
    statement = "select document_id, version, range_start, text from rag_api.missing_embeddings('hash', '1', %s)"
    assert acme.execute(statement, [2]).fetchall() == [("A", 1, 0, "Text A"), ("B", 1, 0, "Text B")]
    add(acme, {"A": [1, 0], "C": [1, 0]})
    assert [row[0] for row in acme.execute(statement, [None])] == ["B", "D"]
    add(acme, {"B": [1, 0], "D": [1, 0]})
    assert acme.execute(statement, [9]).fetchall() == []
    with pytest.raises(errors.InvalidRequest), errors.translate():
        acme.execute(statement, [0])


@pytest.mark.parametrize(
    "vector", ["[0,0]", "[-0.0,0]", "[NaN,1]", "[Infinity,1]", "[1e300,1]", "[]", "[1,]", "1,2", "x", None]
)
def test_what_is_no_vector_is_refused_and_nothing_is_stored(acme: Connection, vector: str | None) -> None:
    refused(acme, errors.InvalidVector, "hash", "1", ["A", "B"], [1, 1], [0, 0], ["[1,0]", vector])
    assert acme.execute("select count(*) from rag_api.embedding_model").fetchone() == (0,)


def test_a_vector_that_is_too_long_for_a_graph_is_refused(acme: Connection) -> None:
    long = str([1] * 4001)
    assert "4001" in refused(acme, errors.InvalidVector, "hash", "1", ["A"], [1], [0], [long]).detail
    refused(acme, errors.InvalidVector, "hash", "1", ["A"], [1], [0], [str([1] * 20000)])


def test_great_and_small_numbers_keep_their_direction(acme: Connection) -> None:
    add(acme, {"A": [1e30, 1e30], "B": [1e-30, 0], "C": [0, 3e38]})
    assert search(acme, [7, 0], 1) == [(1_000_001, "acme", "B", 1, 0)]
    assert search(acme, [0, 1e-20], 1) == [(1_000_001, "acme", "C", 1, 0)]


def test_another_dimension_is_refused_in_one_call_and_afterwards(acme: Connection) -> None:
    error = refused(acme, errors.DimensionMismatch, "hash", "1", ["A", "B"], [1, 1], [0, 0], ["[1,0]", "[1,0,0]"])
    assert "have 2 numbers, not 3" in error.message
    add(acme, {"A": [1, 0]})
    error = refused(acme, errors.DimensionMismatch, "hash", "1", ["B"], [1], [0], ["[1,0,0]"])
    assert 'document "B"' in error.detail


@pytest.mark.parametrize(
    ("document", "version", "start"), [("X", 1, 0), ("A", 2, 0), ("A", 1, 1), (None, 1, 0), ("A", None, 0)]
)
def test_a_passage_that_is_not_there_is_refused(
    acme: Connection, document: str | None, version: int | None, start: int
) -> None:
    refused(acme, errors.PassageNotFound, "hash", "1", ["B", document], [1, version], [0, start], ["[1,0]", "[1,0]"])


@pytest.mark.parametrize(
    "call",
    [
        ("", "1", ["A"], [1], [0], ["[1,0]"]),
        ("hash", " 1", ["A"], [1], [0], ["[1,0]"]),
        (None, "1", ["A"], [1], [0], ["[1,0]"]),
        ("m" * 201, "1", ["A"], [1], [0], ["[1,0]"]),
        ("hash", "1", ["A", "B"], [1], [0], ["[1,0]"]),
        ("hash", "1", ["A"], [1], [0], None),
        ("hash", "1", None, [1], [0], ["[1,0]"]),
    ],
)
def test_a_malformed_call_is_refused(acme: Connection, call: tuple[Any, ...]) -> None:
    refused(acme, errors.InvalidRequest, *call)


def test_nothing_to_store_stores_nothing(acme: Connection) -> None:
    assert add(acme, {}) == 0
    assert acme.execute("select count(*) from rag_api.embedding_model").fetchone() == (0,)


@pytest.mark.parametrize(
    ("login", "tenant", "error"),
    [
        ("acme_reader", "acme", psycopg.errors.InsufficientPrivilege),
        ("public_curator", "public", errors.NotAllowed),
        ("acme_curator", None, errors.TenantRequired),
    ],
)
@pytest.mark.parametrize("function", ["add_embeddings", "_store_embeddings"])
def test_who_may_not_write_stores_no_vector(
    corpus: Database, login: str, tenant: str | None, error: type[Exception], function: str
) -> None:
    if (function, tenant) == ("_store_embeddings", None):
        error = errors.NotAllowed
    with corpus.connect(login) as connection, pytest.raises(error), errors.translate():
        connection.execute("select rag_api.bind(%s)", [tenant])
        connection.execute(
            f"select rag_api.{function}('hash', '1', '{{A}}', '{{1}}', '{{0}}', '{{\"[1,0]\"}}')".encode()
        )


def test_a_transaction_that_sees_the_past_stores_no_vector(corpus: Database) -> None:
    """It would read the bucket of then."""
    with corpus.connect("acme_curator") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select rag_api.bind('acme')")
        with pytest.raises(errors.InvalidRequest, match="repeatable read"), errors.translate():
            add(connection, {"A": [1, 0]})


# Searching


def test_the_score_falls_from_the_same_direction_to_the_opposite_one(acme: Connection) -> None:
    add(acme, DOCUMENTS)
    found = search(acme, [5, 0])
    assert [hit.document_id for hit in found] == ["A", "B", "C", "D"]
    assert [hit.score for hit in found] == [1_000_001, pytest.approx(900_001, abs=200), 500_001, 1]
    assert search(acme, [5, 0], 2) == found[:2]


def test_ties_end_by_bytes(store_of_ties: Database) -> None:
    with store_of_ties.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        found = [(hit.document_id, hit.tenant) for hit in search(connection, [1, 0])]
    assert found == [("B", "acme"), ("B", "public"), ("a", "acme"), ("a", "public"), ("é", "acme"), ("é", "public")]


@pytest.fixture
def store_of_ties(store: Database) -> Database:
    for login in ("acme_curator", "publisher"):
        with store.tenant(login) as tenant:
            tenant.load_documents([{"id": name, "version": 1, "body": "x"} for name in ("é", "a", "B")])
        with store.connect(login) as connection:
            connection.execute("select rag_api.bind(%s)", ["acme" if login == "acme_curator" else "public"])
            add(connection, {"é": [1, 0], "a": [1, 0], "B": [1, 0]})
    return store


def test_only_what_is_eligible_is_found_and_all_of_it(store_of_ties: Database) -> None:
    with store_of_ties.tenant("acme_curator") as acme:
        acme.load_documents(
            [
                {"id": "g2", "version": 1, "body": "x", "applies_to": {"model": ["G2"]}},
                {"id": "g3", "version": 1, "body": "x", "applies_to": {"model": ["G3"]}},
                {"id": "late", "version": 1, "body": "x", "effective_from": "2999-01-01T00:00:00Z"},
                {"id": "a", "version": 2, "body": "newer, without a vector"},
            ]
        )
        acme.withdraw_version("é", 1)
    with store_of_ties.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        add(connection, {"g2": [1, 0], "g3": [1, 0], "late": [1, 0]})
        found = search(connection, [1, 0], case='{"model": "G2"}')
        assert [(hit.document_id, hit.tenant) for hit in found if hit.tenant == "acme"] == [
            ("B", "acme"),
            ("g2", "acme"),
        ]
        assert search(connection, [1, 0], at=datetime.now(UTC) - timedelta(days=1)) == []


def test_an_unknown_model_another_dimension_and_no_vector_are_errors(acme: Connection) -> None:
    add(acme, {"A": [1, 0]})
    cases: tuple[tuple[list[float], str, str, type[errors.RagSqlError]], ...] = (
        ([1, 0], "none", "1", errors.UnknownModel),
        ([1, 0], "hash", "2", errors.UnknownModel),
        ([1, 0, 0], "hash", "1", errors.DimensionMismatch),
        ([0, 0], "hash", "1", errors.InvalidVector),
        ([math.nan, 0], "hash", "1", errors.InvalidVector),
        ([], "hash", "1", errors.InvalidVector),
    )
    for vector, model, version, error in cases:
        with pytest.raises(error), errors.translate(), acme.transaction():
            search(acme, vector, model=model, version=version)
    for literal in ("[0,0]", None):
        with pytest.raises(errors.InvalidVector), errors.translate(), acme.transaction():
            acme.execute(
                "select * from rag_api._vector_search('hash', '1', %s, 9, true, '{}', '{}', now(), now(), false)",
                [literal],
            )


def test_a_model_of_which_public_has_vectors_of_another_dimension_is_refused(store_of_ties: Database) -> None:
    with store_of_ties.connect("northwind_curator") as connection, pytest.raises(errors.DimensionMismatch):
        connection.execute("select rag_api.bind('northwind')")
        with errors.translate():
            connection.execute('select rag_api.load_documents(\'[{"id": "N", "version": 1, "body": "x"}]\')')
            add(connection, {"N": [1, 0, 0]})


def test_the_order_is_that_of_comparing_all_by_hand(store: Database) -> None:
    chosen = random.Random(7)
    vectors = {f"D{i}": [chosen.gauss(0, 1) for _ in range(8)] for i in range(60)}
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": name, "version": 1, "body": name} for name in vectors])
    with store.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        add(connection, vectors)
        for _ in range(5):
            query = [chosen.gauss(0, 1) for _ in range(8)]
            found = search(connection, query, 60)
            assert found == search(connection, query, 60, exact=False)
            assert len(found) == 60
            for hit in found:
                assert hit.score == pytest.approx(1 + (1 + cosine(query, vectors[hit.document_id])) * 500_000, abs=600)
            assert found == sorted(found, key=lambda hit: (-hit.score, hit.document_id.encode()))
            assert search(connection, query, 7) == found[:7]


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)
