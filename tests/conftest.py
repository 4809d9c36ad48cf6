"""Fixtures: one real server for each test process, and databases cloned from templates.

A clone costs some tens of milliseconds; a test that writes takes one of its own, a test that only reads shares. Every
test connects as an ordinary login (``LOGINS``); the superuser only installs, and plays the intruder with the keys.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.pool import NullPool

# The product's own settings must not reach the tests.
for _name in list(os.environ):
    if _name.startswith("RAG_SQL_") and _name not in {"RAG_SQL_DATA", "RAG_SQL_PG_BIN"}:
        del os.environ[_name]
os.environ["RAG_SQL_PG_NO_SYNC"] = "1"

from rag_sql import EvidenceStore, Tenant, _admin, _files, _install, _loading, _resources  # noqa: E402
from rag_sql._embedded import SUPERUSER, EmbeddedServer  # noqa: E402
from rag_sql._signing import TenantKey  # noqa: E402
from rag_sql._store import make_engine  # noqa: E402

QUESTION = "gateway-explain-and-next-step-v1"
QUERY = "Gateway G2 telemetry reconnect audit hold rollback"
CASE = {"model": "G2", "firmware": "2.4.1"}
SEED = _resources.find("seed") / "gateway"

#: Login: the tenants it is bound to, and the groups it joins.
LOGINS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "acme_reader": (("acme",), ("reader",)),
    "acme_curator": (("acme",), ("curator",)),
    "acme_reviewer": (("acme",), ("reviewer",)),
    "northwind_reader": (("northwind",), ("reader",)),
    "northwind_curator": (("northwind",), ("curator", "reviewer")),
    "both_reader": (("acme", "northwind"), ("reader",)),
    "unbound_reader": ((), ("reader",)),
    "publisher": (("public",), ("publisher",)),
    "public_curator": (("public",), ("curator",)),
    "service": ((), ("curator", "reviewer")),
    "auditor": ((), ("auditor",)),
    "outsider": ((), ()),
}

#: The key with which the service signs for tenants.
SERVICE_KEY = TenantKey("00000000000a", bytes(range(32)))


def add_key(connection: psycopg.Connection[Any], login: str, key: TenantKey, days: int = 90) -> None:
    """Have a login's signatures with a key accepted; a negative number of days makes one that has expired."""
    connection.execute(
        "insert into rag_auth.signing_key (key_id, login, inner_pad, outer_pad, expires_at)"
        " select %s, %s, rag_auth.hmac_pad(s, 54), rag_auth.hmac_pad(s, 92), now() + make_interval(days => %s)"
        " from cast(%s as bytea) s",
        (key.key_id, login, days, key.secret),
    )


class Database:
    """A database of the test server, reached as any login."""

    def __init__(self, server: EmbeddedServer, name: str) -> None:
        self.server = server
        self.name = name

    def url(self, login: str) -> str:
        return self.server.url(login, self.name)

    def connect(self, login: str, **options: Any) -> psycopg.Connection[Any]:
        """A bare connection, as psql would have it."""
        return psycopg.connect(self.server.conninfo(login, self.name), **options)

    @contextmanager
    def engine(self, login: str) -> Iterator[sa.Engine]:
        engine = make_engine(self.url(login), poolclass=NullPool)
        try:
            yield engine
        finally:
            engine.dispose()

    @contextmanager
    def store(self, login: str) -> Iterator[EvidenceStore]:
        with self.engine(login) as engine:
            yield EvidenceStore(engine)

    @contextmanager
    def tenant(self, login: str, tenant: str | None = None) -> Iterator[Tenant]:
        """The store as `login`, bound to its only tenant (or to `tenant`); committed at the end."""
        bound = tenant if tenant is not None else next(iter(LOGINS[login][0]), None)
        with self.store(login) as store, store.tenant(bound) as session:
            yield session

    def load(self, login: str, *paths: Path, **defaults: Any) -> _loading.LoadReport:
        with self.tenant(login) as tenant:
            return _loading.load(tenant, _files.find_files(paths), _files.Defaults(**defaults))


class Server:
    """The test server: makes databases from templates and drops them."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        self.embedded = embedded
        self.maintenance = psycopg.connect(embedded.conninfo(SUPERUSER, "postgres"), autocommit=True)
        self._numbers = count(1)

    def create(self, template: str = "template0") -> Database:
        name = f"test_{next(self._numbers)}"
        statement = sql.SQL("create database {} template {} strategy wal_log")
        self.maintenance.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return Database(self.embedded, name)

    def drop(self, database: Database) -> None:
        self.maintenance.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(database.name)))


@contextmanager
def running_server() -> Iterator[Server]:
    """A server with the logins, in a folder that the server's account can reach."""
    home = Path(tempfile.mkdtemp(prefix="rag-sql-test-"))
    home.chmod(0o711)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        embedded = stack.enter_context(EmbeddedServer(home / "server"))
        found = Server(embedded)
        stack.callback(found.maintenance.close)
        for login in LOGINS:
            found.maintenance.execute(sql.SQL("create role {} login").format(sql.Identifier(login)))
        yield found


def installed(server: Server) -> Database:
    """An installed store with tenants and logins, and no document."""
    database = server.create()
    with database.engine(SUPERUSER) as engine:
        _install.install(engine)
        for tenant in ("acme", "northwind"):
            _admin.add_tenant(engine, tenant)
        for login, (tenants, groups) in LOGINS.items():
            for tenant in tenants:
                _admin.grant_tenant(engine, tenant, login)
            with engine.begin() as connection:
                _admin.join_groups(connection, login, groups)
    with database.connect(SUPERUSER) as superuser:
        add_key(superuser, "service", SERVICE_KEY)
    return database


def gateway_corpus(server: Server, template: Database) -> Database:
    """A copy of an installed store, with the gateway corpus and its contract."""
    database = server.create(template.name)
    for login, folder in (("publisher", "public"), ("acme_curator", "acme"), ("northwind_curator", "northwind")):
        database.load(login, SEED / folder)
    with database.tenant("publisher") as tenant:
        question, version, content, _ = _files.read_contract(SEED / "contract.yaml", "public")
        tenant.add_contract(question, version, content)
    return database


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server for this test process. It vacuums and analyzes when a test says so, so that plans are repeatable."""
    with running_server() as found:
        found.maintenance.execute("alter system set autovacuum = off")
        found.maintenance.execute("select pg_reload_conf()")
        yield found


@pytest.fixture(scope="session")
def installed_template(server: Server) -> Database:
    """An installed store with tenants and logins, and no document."""
    return installed(server)


@pytest.fixture(scope="session")
def gateway_template(server: Server, installed_template: Database) -> Database:
    """The installed store with the gateway corpus and its contract."""
    return gateway_corpus(server, installed_template)


Clone = Callable[[Database], Database]


@pytest.fixture
def clone(server: Server) -> Iterator[Clone]:
    """Clone a database; the clones are dropped after the test."""
    clones: list[Database] = []

    def make(template: Database) -> Database:
        clones.append(server.create(template.name))
        return clones[-1]

    yield make
    for database in clones:
        server.drop(database)


@pytest.fixture
def store(clone: Clone, installed_template: Database) -> Database:
    """An installed store of the test's own, without documents."""
    return clone(installed_template)


@pytest.fixture
def gateway(clone: Clone, gateway_template: Database) -> Database:
    """The gateway corpus in a database of the test's own."""
    return clone(gateway_template)


@pytest.fixture(scope="session")
def shared_gateway(server: Server, gateway_template: Database) -> Database:
    """The gateway corpus, shared by tests that only read (or roll back)."""
    return server.create(gateway_template.name)


@pytest.fixture(scope="session")
def shared_store(server: Server, installed_template: Database) -> Database:
    """An installed store without documents, shared by tests that leave nothing behind."""
    return server.create(installed_template.name)
