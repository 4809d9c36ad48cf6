"""Loading 100,000 passages with the lexical index, beside COPY into a table with a generated tsvector and GIN.

Either takes all of them in one statement. In several loads each has lists of its own, until maintenance puts them
together: what the index takes then has a row too.

Beside it each peer's own bulk call, given vectors of 384 dimensions so that no model is run, on fewer passages and as
a rate; a peer stores its vectors without HNSW, and has the lexical index that it offers. What the product takes when it
stores such vectors too has a row of its own, so that nobody compares a load without them and does not know it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

from rag_sql._embedded import SUPERUSER
from tests.benchmarks import _corpus, _gin, _peers
from tests.benchmarks._engines import NOT_INSTALLED
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Database, Server, installed

BESIDE_COPY = 2.0
FASTER = 10.0
BESIDE_TEXT = 1.5
DIMENSION = 384
_BATCH = 1_000
_LOADS = 5


@dataclass(frozen=True)
class Sizes:
    """Passages that are loaded and copied; passages that each peer is given."""

    passages: int
    peers: int
    repetitions: int


SIZES: dict[Scale, Sizes] = {"small": Sizes(5_000, 1_000, 3), "full": Sizes(100_000, 10_000, 3)}


def run(server: Server, scale: Scale) -> list[Row]:
    """Medians over the repetitions, each into a fresh store; the peers' calls run once."""
    return measure(server, SIZES[scale])


def measure(server: Server, sizes: Sizes) -> list[Row]:
    """The same at any size."""
    template = installed(server)
    given = list(_corpus.documents("acme", 0, sizes.passages))
    copies, loads, index, embedding = [], [], 0, 0.0
    for _ in range(sizes.repetitions):
        database = server.create(template.name)
        _gin.create(database, "simple", indexed=True)
        began = time.perf_counter()
        _gin.copy(database, "acme", given)
        copies.append(time.perf_counter() - began)
        loads.append(_corpus.load(database, "acme_curator", "acme", given, "bulk", sizes.passages))
        index = _index_bytes(database)
        embedding = _embed(database, given)
        server.drop(database)
    database = server.create(template.name)
    _corpus.load(database, "acme_curator", "acme", given, "bulk", sizes.passages // _LOADS)
    several = _index_bytes(database)
    server.drop(database)
    text = sum(len(document["body"].encode()) for document in given)
    rate = sizes.passages / median(loads)
    what = f"{sizes.passages:,} passages"
    beside = median(loads) / median(copies)
    return [
        Row(f"{what}: COPY, tsvector and GIN", median(copies)),
        Row(
            f"{what}: load, lexical index",
            median(loads),
            "s",
            beside,
            "COPY",
            f"at most {BESIDE_COPY:g}",
            beside <= BESIDE_COPY,
        ),
        Row(f"{what}: adding vectors", embedding, "s", embedding / median(loads), "load"),
        Row(
            f"{what}: index",
            index / 2**20,
            "MiB",
            index / text,
            "the text",
            f"at most {BESIDE_TEXT:g}",
            index / text <= BESIDE_TEXT,
        ),
        Row(f"{what} in {_LOADS} loads: index", several / 2**20, "MiB", several / text, "the text"),
        Row(f"{what}: load", rate, "a second"),
        Row(f"{what}: load and vectors", sizes.passages / (median(loads) + embedding), "a second"),
        *_peers_rows(server, sizes, rate),
    ]


def _index_bytes(database: Database) -> int:
    with database.connect(SUPERUSER, autocommit=True) as superuser:
        return _corpus.index_bytes(superuser)


def _embed(database: Database, given: list[_corpus.Document]) -> float:
    vector = _vector(random.Random(1))
    text = "[" + ",".join(map(str, vector)) + "]"
    began = time.perf_counter()
    with _corpus.session(database, "acme_curator") as connection:
        for start in range(0, len(given), _BATCH):
            ids = [document["id"] for document in given[start : start + _BATCH]]
            _corpus.add_embeddings(connection, "bulk", ids, [text] * len(ids), "acme")
    return time.perf_counter() - began


def _vector(chosen: random.Random) -> list[float]:
    return [round(chosen.gauss(), 4) for _ in range(DIMENSION)]


def _peers_rows(server: Server, sizes: Sizes, rate: float) -> list[Row]:
    chosen = random.Random(2)
    passages = [
        _peers.Passage(document["body"], "acme", _vector(chosen))
        for document in _corpus.documents("acme", 0, sizes.peers)
    ]
    rows = [Row(f"{name}: its bulk call", note=NOT_INSTALLED) for name in _peers.missing()]
    for kind in _peers.peers():
        database = server.create()
        peer: Any = kind(database, DIMENSION, lexical=True)
        began = time.perf_counter()
        for start in range(0, len(passages), _BATCH):
            peer.load(passages[start : start + _BATCH])
        theirs = len(passages) / (time.perf_counter() - began)
        peer.close()
        server.drop(database)
        _corpus.tell(f"{kind.name}: {theirs:,.0f} a second")
        faster = rate / theirs
        rows += [
            Row(f"{kind.name}: its bulk call, {sizes.peers:,} passages", theirs, "a second"),
            Row(
                f"load faster than {kind.name}",
                faster,
                "times",
                target=f"at least {FASTER:g}",
                reached=faster >= FASTER,
            ),
        ]
    return rows
