"""Adding, superseding and withdrawing one document among 1,000,000 passages, beside the same among 10,000.

Each change is a transaction from binding to commit, made in both stores in turn by the tenant that has all of the
passages. Then one writer supersedes a few documents together, again and again, while readers ask for the one word that
all of them have: each answer has every document, and all in the same version.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.benchmarks import _corpus
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Database, Server, installed

SLOWER = 3.0
_TOGETHER = 5
_READERS = 4
_MARK = "quandary"  # in no made-up passage


@dataclass(frozen=True)
class Sizes:
    """Passages of the smaller and of the larger store; changes of each kind; seconds of reading while writing."""

    smaller: int
    larger: int
    changes: int
    seconds: float


SIZES: dict[Scale, Sizes] = {"small": Sizes(1_000, 20_000, 20, 10), "full": Sizes(10_000, 1_000_000, 50, 60)}


def run(server: Server, scale: Scale) -> list[Row]:
    """Medians over the changes, and how many answers were mixed."""
    return measure(server, SIZES[scale])


def measure(server: Server, sizes: Sizes) -> list[Row]:
    """The same at any size."""
    template = installed(server)
    databases = {size: _filled(server.create(template.name), size) for size in (sizes.smaller, sizes.larger)}
    took: dict[str, dict[int, list[float]]] = {}
    connections = {size: _corpus.session(database, "acme_curator") for size, database in databases.items()}
    for number in range(-1, sizes.changes):  # the first for the caches
        for size, connection in connections.items():
            for kind, seconds in _changes(connection, size, number).items():
                if number >= 0:
                    took.setdefault(kind, {}).setdefault(size, []).append(seconds)
    for connection in connections.values():
        connection.close()
    rows = []
    for kind, by_size in took.items():
        smaller, larger = median(by_size[sizes.smaller]), median(by_size[sizes.larger])
        ratio = larger / smaller
        rows += [
            Row(f"{kind} one document among {sizes.smaller:,}", smaller * 1000, "ms"),
            Row(
                f"{kind} one document among {sizes.larger:,}",
                larger * 1000,
                "ms",
                ratio,
                f"among {sizes.smaller:,}",
                f"at most {SLOWER:g}",
                ratio <= SLOWER,
            ),
        ]
    return [*rows, *_reading(databases[sizes.larger], sizes.seconds)]


def _filled(database: Database, passages: int) -> Database:
    _corpus.load(database, "acme_curator", "acme", _corpus.documents("acme", 0, passages), f"{passages:,} passages")
    _corpus.settle(database)
    return database


def _changes(connection: psycopg.Connection[Any], passages: int, number: int) -> dict[str, float]:
    """A new document, a new version of one that is there, and the withdrawal of another."""
    place = 2 * (number + 1)
    added = _corpus.load_now(connection, [_corpus.document("acme", passages + place)])
    superseded = _corpus.load_now(connection, [_corpus.document("acme", place, 2)])
    withdrawn = _corpus.withdraw_now(connection, f"D{place + 1}", 1)
    return {"adding": added, "superseding": superseded, "withdrawing": withdrawn}


@dataclass
class _Seen:
    """What the readers saw, and whether they shall go on."""

    answers: int = 0
    mixed: int = 0
    versions: set[int] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


def _reading(database: Database, seconds: float) -> list[Row]:
    seen = _Seen()
    with _corpus.session(database, "acme_curator") as connection:
        _corpus.load_now(connection, _together(1))
        readers = [_started(_read, database, seen) for _ in range(_READERS)]
        until, version = time.monotonic() + seconds, 1
        while time.monotonic() < until and not seen.errors:
            version += 1
            _corpus.load_now(connection, _together(version))
        seen.stop.set()
        for reader in readers:
            reader.join()
    if seen.errors:
        raise AssertionError(seen.errors[0])
    return [
        Row(f"answers while {version - 1:,} changes were made", seen.answers, ""),
        Row("versions that readers saw", len(seen.versions), ""),
        Row("answers that mixed old and new", seen.mixed, "", target="none", reached=seen.mixed == 0),
    ]


def _together(version: int) -> list[_corpus.Document]:
    """Documents that change together; all of a version have the word that is asked for."""
    given = [_corpus.document("together", number, version) for number in range(_TOGETHER)]
    return [document | {"id": f"T{document['id']}", "body": f"{_MARK} {document['body']}"} for document in given]


def _started(work: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    return thread


def _read(database: Database, seen: _Seen) -> None:
    try:
        with _corpus.session(database, "acme_reader") as connection:
            while not seen.stop.is_set():
                _, found = _corpus.search(connection, _MARK)
                versions = {version for _, version in found}
                with seen.lock:
                    seen.answers += 1
                    seen.mixed += len(found) != _TOGETHER or len(versions) != 1
                    seen.versions |= versions
    except psycopg.Error as error:
        seen.errors.append(str(error))
