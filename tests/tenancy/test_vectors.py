"""Vectors of another tenant: no login sees any, nor how many are nearer, nor is anybody's search spoiled by them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest

from rag_sql import errors
from tests.conftest import Database, Server
from tests.tenancy.conftest import Copy
from tests.tenancy.wall import SIDE_TABLES
from tests.vectors import Connection, Hit, add, search

DIMENSION = 8
QUERIES = [[random.Random(seed).gauss(0, 1) for _ in range(DIMENSION)] for seed in range(5)]


def near(query: list[float], spread: float, seed: int) -> list[float]:
    """A vector near a query's."""
    chosen = random.Random(seed)
    return [value + chosen.gauss(0, spread) for value in query]


def fill(database: Database, login: str, tenant: str, vectors: dict[str, list[float]]) -> None:
    """Load a document for each vector, and the vector."""
    with database.tenant(login, tenant) as bound:
        bound.load_documents([{"id": name, "version": 1, "body": f"{tenant} text {name}"} for name in vectors])
    with database.connect(login) as connection:
        connection.execute("select rag_api.bind(%s)", [tenant])
        add(connection, vectors)


def asked(database: Database, login: str, tenant: str | None, *, exact: bool) -> list[list[Hit]]:
    with database.connect(login) as connection:
        connection.execute("select rag_api.bind(%s)", [tenant])
        return [search(connection, query, 10, exact=exact) for query in QUERIES]


@pytest.fixture(scope="module")
def embedded(server: Server, copy: Copy) -> Iterator[Database]:
    """Northwind and public have 20 vectors each, rather far from the queries."""
    database = copy()
    for login, tenant in (("northwind_curator", "northwind"), ("publisher", "public")):
        vectors = {f"V-{number}": near(QUERIES[number % 5], 2, number) for number in range(20)}
        fill(database, login, tenant, vectors)
    yield database
    server.drop(database)


def test_E19_E21_three_hundred_vectors_of_acme_nearer_than_any_change_no_byte_of_northwinds_search(
    embedded: Database,
) -> None:
    before = [asked(embedded, "northwind_reader", "northwind", exact=exact) for exact in (True, False)]
    assert all(len(found) == 10 for of_kind in before for found in of_kind)
    fill(
        embedded,
        "acme_curator",
        "acme",
        {f"CROWD-{number}": near(QUERIES[number % 5], 0.001, number) for number in range(300)},
    )
    assert [asked(embedded, "northwind_reader", "northwind", exact=exact) for exact in (True, False)] == before
    for found in asked(embedded, "acme_reader", "acme", exact=False):
        assert {hit.document_id.split("-")[0] for hit in found} == {"CROWD"}
    for found in asked(embedded, "unbound_reader", None, exact=True):
        assert {hit.tenant for hit in found} == {"public"}


@pytest.mark.parametrize("table", SIDE_TABLES)
@pytest.mark.parametrize("login", ["acme_curator", "northwind_curator", "publisher", "auditor"])
def test_E20_nobody_asks_a_plan_about_vectors_since_nobody_is_granted_them(
    embedded: Database, login: str, table: str
) -> None:
    with embedded.connect(login) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"explain (analyze) select from {table}".encode())


def test_a_model_that_only_acme_has_and_one_that_nobody_has_are_the_same_error(embedded: Database) -> None:
    fill(embedded, "acme_curator", "acme", {"MODEL": [1.0] * DIMENSION})
    with embedded.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind('acme')")
        add(connection, {"MODEL": [1.0, 2.0]}, model="acmes-own")
        assert [hit.document_id for hit in search(connection, [1, 2], model="acmes-own")] == ["MODEL"]
    said = []
    with embedded.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        for model in ("acmes-own", "nobodys-own"):
            with pytest.raises(errors.UnknownModel) as caught, errors.translate(), connection.transaction():
                search(connection, [1, 2, 3], model=model)
            said.append((caught.value.message.replace(model, "?"), caught.value.detail, caught.value.hint))
        assert said[0] == said[1]
        models = connection.execute("select distinct tenant from rag_api.embedding_model").fetchall()
        assert "acme" not in {tenant for (tenant,) in models}
        assert missing(connection) == missing(connection, "nobodys-own") - 20


def missing(connection: Connection, model: str = "hash") -> int:
    row = connection.execute("select count(*) from rag_api.missing_embeddings(%s, '1', null)", [model]).fetchone()
    assert row is not None
    return int(row[0])
