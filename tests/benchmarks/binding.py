"""Binding: what a signature costs a statement, held against a grant.

One session of a login that has both proofs runs the same statement in turns by the one and by the other: two sessions
differ by more than the proof, by where the system runs them. A statement proves the tenant for each policy that it
meets and a decision is many statements, so that is timed too. A block is a transaction of the client's, from bind to
commit, with one statement in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import psycopg

from rag_sql import EvidenceStore, _admin, _files
from rag_sql._embedded import SUPERUSER
from rag_sql._store import make_engine
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import CASE, QUERY, QUESTION, SEED, SERVICE_KEY, Database, Server, installed

MOST = 60.0
REPETITIONS: dict[Scale, int] = {"small": 2000, "full": 20_000}

STATEMENTS = {
    "proof alone": ("select rag_auth.tenant()", ()),
    "a statement on one table": ("select count(*) from rag.version", ()),
    "a decision": ("select outcome from rag_api.decide(%s, %s, %s, 2)", (QUESTION, QUERY, json.dumps(CASE))),
}


def run(server: Server, scale: Scale) -> list[Row]:
    """Measure in a store with the gateway corpus."""
    database = installed(server)
    for login, folder in (("publisher", "public"), ("acme_curator", "acme")):
        database.load(login, SEED / folder)
    with database.tenant("publisher") as tenant:
        question, version, content, _ = _files.read_contract(SEED / "contract.yaml", "public")
        tenant.add_contract(question, version, content)
    return measure(database, REPETITIONS[scale])


def measure(database: Database, repetitions: int) -> list[Row]:
    """Rows for each statement, and for a block of the client's."""
    rows: list[Row] = []
    with database.engine(SUPERUSER) as engine:
        _admin.grant_tenant(engine, "acme", "service")
    with database.connect("service") as connection:
        found = connection.execute("select login, backend_pid, begun_at from rag_api.transaction_identity()").fetchone()
        assert found is not None
        login, backend_pid, begun_at = found
        assertion = SERVICE_KEY.sign(login, backend_pid, begun_at, "acme", "write")
        for what, (statement, values) in STATEMENTS.items():
            times = repetitions // 10 if what == "a decision" else repetitions
            asserting = [_asserts(connection, tenant) for tenant in ("acme", assertion)]
            call = _runs(connection, statement, values)
            by_grant, by_signature = _in_turns(times, *((first, call) for first in asserting))
            rows += _compare(what, by_grant, by_signature, asks=what == "a statement on one table")
    engine = make_engine(database.url("service"), pool_size=1, max_overflow=0)
    blocks = [_block(EvidenceStore(engine, tenant_key=key)) for key in ("", str(SERVICE_KEY))]
    rows += _compare("a block", *_in_turns(repetitions // 10, *((_nothing, block) for block in blocks)))
    engine.dispose()
    return rows


def _nothing() -> None:
    """What comes before a block: it asserts by itself."""


def _asserts(connection: psycopg.Connection[Any], assertion: str) -> Callable[[], object]:
    def run() -> object:
        return connection.execute("select set_config('rag.tenant', %s, true)", (assertion,), prepare=True).fetchall()

    return run


def _runs(connection: psycopg.Connection[Any], statement: str, values: tuple[Any, ...]) -> Callable[[], object]:
    def run() -> object:
        return connection.execute(statement.encode(), values, prepare=True).fetchall()

    return run


def _block(store: EvidenceStore) -> Callable[[], object]:
    def run() -> object:
        with store.tenant("acme") as acme:
            return acme.attributes()

    return run


def _in_turns(times: int, *calls: tuple[Callable[[], object], Callable[[], object]]) -> tuple[float, ...]:
    """Median seconds of the second of each pair, the pairs taking turns; the first is not timed."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(times + 10):
        for (first, call), found in zip(calls, taken, strict=True):
            first()
            began = time.perf_counter()
            call()
            found.append(time.perf_counter() - began)
    return tuple(median(found[10:]) for found in taken)


def _compare(what: str, by_grant: float, by_signature: float, *, asks: bool = False) -> list[Row]:
    more = (by_signature - by_grant) * 1e6
    return [
        Row(f"{what}: by grant", by_grant * 1e6, "us"),
        Row(f"{what}: by signature", by_signature * 1e6, "us", by_signature / by_grant, "grant"),
        Row(
            f"{what}: more by signature",
            more,
            "us",
            target=f"at most {MOST:.0f} us" if asks else "",
            reached=more <= MOST if asks else None,
        ),
    ]
