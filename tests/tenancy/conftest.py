"""A store in which acme and northwind have a row of everything, and what a probe of it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import sql

from tests.conftest import Database, Server, gateway_corpus, installed
from tests.tenancy import wall

Copy = Callable[[], Database]


def walled_store(server: Server, gateway: Database | None = None) -> Database:
    """The gateway corpus, and of each tenant a packet, an approval, a withdrawal and a contract."""
    database = server.create((gateway or gateway_corpus(server, installed(server))).name)
    wall.prepare(database)
    return database


def copied(server: Server, template: Database) -> Database:
    """A copy of a store, with the privileges on the database that the installer left: CREATE DATABASE copies none."""
    database = server.create(template.name)
    server.maintenance.execute(
        sql.SQL("revoke create, temporary on database {} from public").format(sql.Identifier(database.name))
    )
    return database


@pytest.fixture(scope="session")
def walled(server: Server, gateway_template: Database) -> Database:
    """The template of the copies."""
    return walled_store(server, gateway_template)


@pytest.fixture(scope="session")
def copy(server: Server, walled: Database) -> Copy:
    """Makes a copy of the walled store that a test may spend."""
    return lambda: copied(server, walled)


@pytest.fixture(scope="module")
def spent(server: Server, copy: Copy) -> Iterator[Database]:
    """A copy for the tests of one file, which leave it as they find it."""
    database = copy()
    yield database
    server.drop(database)


@pytest.fixture(scope="session")
def probed(server: Server, copy: Copy) -> dict[str, Any]:
    """What every login can get and do behind the wall as it stands."""
    database = copy()
    found = wall.probe(database)
    server.drop(database)
    return found
