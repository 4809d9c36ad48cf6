"""Top ten by bm25 as a run-time login, warm, beside GIN with ts_rank_cd behind the same wall and engines in process.

The login sees its own passages and as many public ones. The store is measured three times: without others' passages,
and as other tenants grow; each stage is a database of its own on one server, so that all answer the same queries in
turn. The table with GIN is in the last, with everything that is in the store, under the policies of ``rag.passage``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.benchmarks import _corpus, _gin
from tests.benchmarks._engines import ENGINES, NOT_INSTALLED
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Database, Server, installed

FASTER = 25.0
BESIDE_TANTIVY = 10.0
SLOWER = 1.1
_ROUNDS = 7
_CONFIGURATION = "simple"


@dataclass(frozen=True)
class Sizes:
    """Passages that acme sees, half of them public; others' passages at each stage, in tenants of `tenant`; queries.

    How much faster than the peers is asked for at 100,000 visible passages: elsewhere nothing is.
    """

    visible: int
    others: tuple[int, ...]
    tenant: int
    queries: int

    @property
    def held(self) -> bool:
        return self.visible >= 100_000


SIZES: dict[Scale, Sizes] = {
    "small": Sizes(5_000, (0, 7_500, 22_500), 750, 20),
    "full": Sizes(100_000, (0, 300_000, 900_000), 10_000, 50),
}


def run(server: Server, scale: Scale) -> list[Row]:
    """Medians over queries and rounds."""
    return measure(server, SIZES[scale])


def measure(server: Server, sizes: Sizes) -> list[Row]:
    """The same at any size."""
    stages = _stages(server, sizes)
    _gin.fill(stages[-1], _CONFIGURATION)
    queries = _corpus.queries(sizes.queries)
    took: dict[Any, list[float]] = {stage.name: [] for stage in stages}
    took["gin"] = []
    for _ in range(_ROUNDS):
        for stage in stages:
            with _corpus.session(stage, "acme_reader") as connection:
                for query in queries:  # the first time for the caches
                    _corpus.search(connection, query)
                took[stage.name] += [_corpus.search(connection, query)[0] for query in queries]
    with _corpus.session(stages[-1], "acme_reader") as connection:
        _gin.search(connection, queries[0], _CONFIGURATION)
        took["gin"] = [_gin.search(connection, query, _CONFIGURATION)[0] for query in queries]
    in_process = {name: _in_process(build, sizes, queries) for name, build in ENGINES.items()}
    medians = [median(took[stage.name]) for stage in stages]
    return [
        *_beside_peers(sizes, medians[-1], median(took["gin"]), in_process),
        *_beside_others(sizes, medians),
    ]


def _stages(server: Server, sizes: Sizes) -> list[Database]:
    """A store at each stage; each begins as a copy of the one before."""
    database = installed(server)
    half = sizes.visible // 2
    _corpus.load(database, "publisher", "public", _corpus.documents("public", 0, half), "public")
    _corpus.load(database, "acme_curator", "acme", _corpus.documents("acme", 0, sizes.visible - half), "acme")
    stages: list[Database] = []
    there = 0
    for others in sizes.others:
        if stages:
            database = server.create(stages[-1].name)
        tenants = range(there // sizes.tenant, others // sizes.tenant)
        _corpus.add_tenants(database, [f"other-{number}" for number in tenants], "northwind_curator")
        for number in tenants:
            name = f"other-{number}"
            _corpus.load(database, "northwind_curator", name, _corpus.documents(name, 0, sizes.tenant))
            _corpus.tell(f"others: {(number + 1) * sizes.tenant:,} of {sizes.others[-1]:,} loaded")
        there = others
        _corpus.settle(database)
        stages.append(database)
    return stages


def _in_process(build: Callable[..., Any], sizes: Sizes, queries: list[str]) -> float | None:
    half = sizes.visible // 2
    texts = [document["body"] for document in _corpus.documents("public", 0, half)]
    texts += [document["body"] for document in _corpus.documents("acme", 0, sizes.visible - half)]
    search = build(texts, english=False)
    if search is None:
        return None
    took = []
    for _ in range(_ROUNDS):
        for query in queries:
            began = time.perf_counter()
            search(query)
            took.append(time.perf_counter() - began)
    return median(took[len(queries) :])


def _beside_peers(sizes: Sizes, bm25: float, gin: float, in_process: dict[str, float | None]) -> list[Row]:
    at = f"{sizes.visible:,} visible of {sizes.visible + sizes.others[-1]:,}"
    tantivy = in_process["tantivy"]
    ratio = bm25 / tantivy if tantivy else None
    rows = [
        Row(
            f"{at}: top 10 by bm25",
            bm25 * 1000,
            "ms",
            ratio,
            "tantivy" if ratio else "",
            f"at most {BESIDE_TANTIVY:g}" if sizes.held and ratio else "",
            ratio <= BESIDE_TANTIVY if sizes.held and ratio else None,
        ),
        Row(
            f"{at}: bm25 faster than GIN and ts_rank_cd",
            gin / bm25,
            "times",
            target=f"at least {FASTER:g}" if sizes.held else "",
            reached=gin / bm25 >= FASTER if sizes.held else None,
        ),
        Row(f"{at}: GIN and ts_rank_cd, same policies", gin * 1000, "ms", gin / bm25, "bm25"),
    ]
    for name, seconds in in_process.items():
        what = f"{sizes.visible:,}, no tenants: {name} in process"
        if seconds is None:
            rows.append(Row(what, note=NOT_INSTALLED))
        else:
            rows.append(Row(what, seconds * 1000, "ms", seconds / bm25, "bm25"))
    return rows


def _beside_others(sizes: Sizes, medians: list[float]) -> list[Row]:
    return [
        Row(
            f"{sizes.visible:,} visible, {others:,} of others: top 10 by bm25",
            seconds * 1000,
            "ms",
            seconds / medians[0] if others else None,
            "none of others" if others else "",
            f"at most {SLOWER:g}" if others else "",
            seconds / medians[0] <= SLOWER if others else None,
        )
        for others, seconds in zip(sizes.others, medians, strict=True)
    ]
