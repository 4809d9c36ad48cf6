"""Rankings by the index against the same said from the texts: random corpora with a history, any K, case and instant.

Nothing is timed. What differs is counted, of so many queries; the reference is tests/api/searching.py.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime

from tests.api.searching import ask, expected, found, grow
from tests.benchmarks._rows import Row, Scale
from tests.conftest import Server, installed

QUERIES = {"small": 400, "full": 10_000}
_PER_CORPUS = 100


def run(server: Server, scale: Scale) -> list[Row]:
    """One row: how many of the queries were answered otherwise."""
    return measure(server, QUERIES[scale])


def measure(server: Server, queries: int) -> list[Row]:
    template = installed(server)
    differing = 0
    for seed in range(-(-queries // _PER_CORPUS)):
        chosen = random.Random(f"exactness {seed}")
        since = datetime.now(UTC)
        database = server.create(template.name)
        for age in range(chosen.randint(1, 3)):
            grow(database, chosen, age)
        with database.connect("acme_reader", autocommit=True) as connection:
            connection.execute("set rag.tenant = 'acme'")
            for _ in range(min(_PER_CORPUS, queries - seed * _PER_CORPUS)):
                asked = ask(chosen, since)
                differing += found(connection, asked) != expected(connection, asked)
        server.drop(database)
    what = f"bm25 over {queries:,} queries: answered otherwise than from the texts"
    return [Row(what, differing, "queries", target="none", reached=differing == 0)]
