"""Fixtures of the tests of rag_api."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.api import travel as travel_corpus
from tests.api.strategies import load_one_by_one
from tests.conftest import Database, Server


@pytest.fixture(scope="module")
def connection(server: Server, installed_template: Database) -> Iterator[sa.Connection]:
    """A curator's connection to a store without documents; every test rolls back."""
    database = server.create(installed_template.name)
    with database.engine("acme_curator") as engine, engine.connect() as opened:
        yield opened
    server.drop(database)


@pytest.fixture(scope="module")
def forwards(server: Server, installed_template: Database) -> Iterator[Database]:
    database = server.create(installed_template.name)
    load_one_by_one(database, backwards=False)
    yield database
    server.drop(database)


@pytest.fixture
def travel(store: Database) -> Database:
    """A store with both revisions of the travel policy and its contract."""
    travel_corpus.load(store, travel_corpus.OLD, travel_corpus.POLICY)
    return store
