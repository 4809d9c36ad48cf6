"""What eligibility costs a ranking: many combinations of what documents apply to, and many versions of each document.

The same passages by bm25, as a run-time login: without any ``applies_to``, and over 500 combinations of a product and a
range of firmware, all of which have to be compared with the case, once where all fit it and once where half do. Then
documents of which each has one version, and others of which each has twenty, asked for the present.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tests.benchmarks import _corpus
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Server, installed

ADDED = 1.1
HISTORY = 1.1
_REPETITIONS = 3


@dataclass(frozen=True)
class Sizes:
    """Passages, combinations of what they apply to; documents with a history, versions of each; queries."""

    passages: int
    combinations: int
    documents: int
    versions: int
    queries: int


SIZES: dict[Scale, Sizes] = {"small": Sizes(5_000, 500, 500, 20, 20), "full": Sizes(1_000_000, 500, 20_000, 20, 40)}


def run(server: Server, scale: Scale) -> list[Row]:
    """Ratios of medians, each over the same queries."""
    return measure(server, SIZES[scale])


def measure(server: Server, sizes: Sizes) -> list[Row]:
    """The same at any size."""
    database = installed(server)
    _corpus.add_tenants(database, ["plain", "combined", "once", "often"], "acme_reader")
    _corpus.add_tenants(database, ["plain", "combined", "once", "often"], "acme_curator")
    with database.tenant("acme_curator", "combined") as combined:
        combined.set_attribute("firmware", "version-numeric")
    _corpus.load(database, "acme_curator", "plain", _corpus.documents("plain", 0, sizes.passages), "plain")
    _corpus.load(database, "acme_curator", "combined", _combined(sizes), "combined")
    _corpus.load(database, "acme_curator", "once", _corpus.documents("once", 0, sizes.documents), "once")
    for version in range(1, sizes.versions + 1):
        given = (_corpus.document("often", number, version) for number in range(sizes.documents))
        _corpus.load(database, "acme_curator", "often", given, f"often, version {version}")
    _corpus.settle(database)
    asked = {
        "plain": ("plain", {}),
        "all": ("combined", {"product": "P", "firmware": "9999"}),
        "half": ("combined", {"product": "P", "firmware": "1"}),
        "once": ("once", {}),
        "often": ("often", {}),
    }
    took: dict[str, list[float]] = {name: [] for name in asked}
    with _corpus.session(database, "acme_reader") as connection:
        for query in islice(_repeated(_corpus.queries(sizes.queries)), _REPETITIONS * sizes.queries):
            for name, (tenant, case) in asked.items():
                seconds, found = _corpus.search(connection, query, case=case, tenant=tenant)
                assert len(found) == _corpus.K
                took[name].append(seconds)
    server.drop(database)
    what = {
        "plain": f"top {_corpus.K} of {sizes.passages:,} passages without applies_to",
        "all": f"of {sizes.passages:,} over {sizes.combinations} combinations, all of which fit",
        "half": f"of {sizes.passages:,} over {sizes.combinations} combinations, half of which fit",
        "once": f"of {sizes.documents:,} documents with one version",
        "often": f"of {sizes.documents:,} documents with {sizes.versions} versions",
    }
    middle = {name: median(values) for name, values in took.items()}
    return [
        Row(what["plain"], middle["plain"]),
        _beside(what["all"], middle["all"], middle["plain"], "without", ADDED),
        _beside(what["half"], middle["half"], middle["plain"], "without", ADDED),
        Row(what["once"], middle["once"]),
        _beside(what["often"], middle["often"], middle["once"], "one version", HISTORY),
    ]


def _combined(sizes: Sizes) -> Iterator[_corpus.Document]:
    """Documents in turn of each combination; half of them begin to apply at firmware 0, the others at 2."""
    for number, document in enumerate(_corpus.documents("plain", 0, sizes.passages)):
        combination = number % sizes.combinations
        begins = f"{2 * (combination % 2)}.{combination}"
        yield document | {"applies_to": {"product": ["P"], "firmware": [f">={begins}"]}}


def _repeated(queries: list[str]) -> Iterator[str]:
    while True:
        yield from queries


def _beside(what: str, value: float, beside: float, name: str, most: float) -> Row:
    ratio = value / beside
    return Row(what, value, "s", ratio, name, f"at most {most:g}", ratio <= most)
