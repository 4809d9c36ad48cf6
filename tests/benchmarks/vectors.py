"""Top ten by vector at 50, 10, 1 and 0.1 % of the vectors, by tenant and by applicability, beside the peers' filters.

The vectors are made up: clusters on a sphere of 384 dimensions, with noise, always the same. Each is in one of five
parts, at random, whatever its cluster, which is the kindest case for a graph. In one store a part is a tenant; in
another one tenant has all of them and a part is what a document applies to; for the peers a part is metadata. What
should be found is computed exactly in float32; the ratio is the recall, the share of it that was found, and a result is
whole when it has ten rows, or all that are eligible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from rag_sql._embedded import SUPERUSER
from tests.benchmarks import _corpus, _peers
from tests.benchmarks._engines import NOT_INSTALLED, optional
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Database, Server, installed

RECALL = 0.99
MODEL = "made-up"
_K = _corpus.K
_SPREAD = 0.6  # of the noise, where the distance of a cluster's middle from the origin is 1
_BATCH = 1_000
_QUERY = "number"  # nothing is ranked by it

#: Parts of the vectors that are asked for; what is left over is in none of them.
PARTS = {"half": 0.5, "tenth": 0.1, "percent": 0.01, "permille": 0.001}
_REST = "rest"


@dataclass(frozen=True)
class Sizes:
    """Vectors, their dimensions and clusters; queries for each part."""

    vectors: int
    dimension: int
    clusters: int
    queries: int


SIZES: dict[Scale, Sizes] = {"small": Sizes(5_000, 384, 50, 20), "full": Sizes(500_000, 384, 1_000, 50)}


@dataclass(frozen=True)
class Data:
    """Vectors as texts, the part of each, and queries; by part, what should be found for each query."""

    texts: list[str]
    parts: list[str]
    queries: list[list[float]]
    exact: dict[str, list[set[str]]]


#: Seconds and ids of the ten nearest to a vector in a part.
Search = Callable[[list[float], str], tuple[float, list[str]]]


def run(server: Server, scale: Scale) -> list[Row]:
    """Medians over the queries. The server has memory for the graphs, the product's and the peers' alike."""
    server.maintenance.execute("alter system set maintenance_work_mem = '2GB'")
    server.maintenance.execute("select pg_reload_conf()")
    return measure(server, SIZES[scale])


def measure(server: Server, sizes: Sizes) -> list[Row]:
    """The same at any size."""
    numpy = optional("numpy")
    if numpy is None:
        return [Row("vectors", note=NOT_INSTALLED)]
    data = made(numpy, sizes)
    rows = _by_tenant(server, data) + _by_applicability(server, data)
    rows += [Row(f"{name}: by metadata", note=NOT_INSTALLED) for name in _peers.missing()]
    for kind in _peers.peers():
        rows += _peer(server, kind, sizes, data)
    return rows


def made(numpy: Any, sizes: Sizes) -> Data:
    """Vectors and queries, with what should be found."""
    chosen = numpy.random.default_rng(4)
    shares = [*PARTS.values(), 1 - sum(PARTS.values())]
    parts = numpy.repeat(
        [*PARTS, _REST], numpy.diff(numpy.round(numpy.cumsum([0, *shares]) * sizes.vectors).astype(int))
    )
    chosen.shuffle(parts)
    middles = chosen.standard_normal((sizes.clusters, sizes.dimension), dtype="float32")

    def draw(number: int) -> Any:
        noise = chosen.standard_normal((number, sizes.dimension), dtype="float32")
        drawn = middles[chosen.integers(sizes.clusters, size=number)] + _SPREAD * noise
        drawn /= numpy.linalg.norm(drawn, axis=1, keepdims=True)
        return numpy.round(drawn, 4)

    vectors, queries = draw(sizes.vectors), draw(sizes.queries)
    exact = {}
    for part in PARTS:
        places = numpy.flatnonzero(parts == part)
        near = vectors[places]
        similar = queries @ (near / numpy.linalg.norm(near, axis=1, keepdims=True)).T
        best = numpy.argsort(-similar, axis=1, kind="stable")[:, :_K]
        exact[part] = [{f"D{place}" for place in places[row]} for row in best]
    texts = ["[" + ",".join([f"{value:.4f}" for value in vector]) + "]" for vector in vectors.tolist()]
    return Data(texts, parts.tolist(), queries.tolist(), exact)


def _by_tenant(server: Server, data: Data) -> list[Row]:
    database = installed(server)
    _corpus.add_tenants(database, [*PARTS, _REST], "acme_curator")
    for part in (*PARTS, _REST):
        _fill(database, part, [place for place, its in enumerate(data.parts) if its == part], data, applying=False)
    _corpus.settle(database)
    with _corpus.session(database, "acme_curator") as connection:

        def search(vector: list[float], part: str) -> tuple[float, list[str]]:
            took, found = _corpus.search(connection, _QUERY, "vector", _parameters(vector), tenant=part)
            return took, [name for name, _ in found]

        rows = _rows("by tenant", search, data, held=True)
    server.drop(database)
    return rows


def _by_applicability(server: Server, data: Data) -> list[Row]:
    database = installed(server)
    _fill(database, "acme", range(len(data.parts)), data, applying=True)
    _corpus.settle(database)
    with _corpus.session(database, "acme_curator") as connection:

        def search(vector: list[float], part: str) -> tuple[float, list[str]]:
            took, found = _corpus.search(connection, _QUERY, "vector", _parameters(vector), {"part": part})
            return took, [name for name, _ in found]

        rows = _rows("by applicability", search, data, held=True)
    server.drop(database)
    return rows


def _parameters(vector: list[float]) -> dict[str, Any]:
    return {"model": MODEL, "model_version": "1", "vector": vector}


def _fill(database: Database, tenant: str, places: Any, data: Data, *, applying: bool) -> None:
    def documents() -> Iterator[_corpus.Document]:
        for place in places:
            applies_to = {"part": [data.parts[place]]} if applying else {}
            yield {"id": f"D{place}", "version": 1, "body": f"Number {place}.", "applies_to": applies_to}

    _corpus.load(database, "acme_curator", tenant, documents(), tenant)
    with _corpus.session(database, "acme_curator") as connection:
        for start in range(0, len(places), _BATCH):
            batch = places[start : start + _BATCH]
            ids, texts = [f"D{place}" for place in batch], [data.texts[place] for place in batch]
            _corpus.add_embeddings(connection, MODEL, ids, texts, tenant)
    _corpus.tell(f"{tenant}: {len(places):,} vectors added")


def _peer(server: Server, kind: Any, sizes: Sizes, data: Data) -> list[Row]:
    database = server.create()
    peer = kind(database, sizes.dimension, lexical=False)
    with database.connect(SUPERUSER) as superuser:
        superuser.execute(sql.SQL(_peers.VECTORS).format(dimension=sql.Literal(sizes.dimension)))
        with superuser.cursor().copy("copy vectors (id, part, embedding) from stdin") as copied:
            for place, (part, text) in enumerate(zip(data.parts, data.texts, strict=True)):
                copied.write_row((f"D{place}", part, text))
        peer.fill(superuser)
        superuser.execute("drop table vectors")
    began = time.perf_counter()
    peer.index()
    _corpus.tell(f"{kind.name}: HNSW built in {time.perf_counter() - began:,.0f} s")
    with database.connect(SUPERUSER, autocommit=True) as superuser:
        superuser.execute("vacuum analyze")

    def search(vector: list[float], part: str) -> tuple[float, list[str]]:
        began = time.perf_counter()
        found = peer.search(vector, part)
        return time.perf_counter() - began, found

    rows = _rows(f"{kind.name}, by metadata", search, data, held=False)
    peer.close()
    server.drop(database)
    return rows


def _rows(how: str, search: Search, data: Data, *, held: bool) -> list[Row]:
    rows = []
    for part, share in PARTS.items():
        took, full, hits, wanted = [], 0, 0, 0
        for vector, exact in zip(data.queries, data.exact[part], strict=True):
            search(vector, part)  # for the caches
            seconds, found = search(vector, part)
            took.append(seconds)
            full += len(found) == len(exact)
            hits += len(exact.intersection(found))
            wanted += len(exact)
        always, recall = full / len(data.queries), hits / wanted
        rows.append(
            Row(
                f"{100 * share:g} % {how}: top 10, whole in {100 * always:.4g} % of queries",
                median(took) * 1000,
                "ms",
                recall,
                "the exact ten",
                f"at least {RECALL:g}, always whole" if held else "",
                recall >= RECALL and always == 1 if held else None,
            )
        )
    return rows
