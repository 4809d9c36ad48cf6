"""Sixty-four clients that decide, then half of them loading, beside eight clients that do the same.

Clients are threads, each with a connection of its own, that ask without a pause. Loaders load small batches in random
order, drawn so that several of them store the same documents at once: that is where a deadlock would be. What they load
is eligible in none of the cases that are decided, so that all turns decide on the same. The corpus is that of the
benchmark ``traces``; decisions rank by bm25.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg

from tests.benchmarks import _corpus, traces
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Database, Server

LEAST = 0.9
MANY, FEW = 64, 8
# PL/pgSQL settles on its plans in the first five calls of a session.
_WARM = 6

_TOGETHER = 20
_WINDOW = 10 * _TOGETHER  # documents that a batch is drawn from; it moves on by half a batch


@dataclass(frozen=True)
class Sizes:
    """Passages that every client sees; clients; seconds of each turn; how often each has its turn."""

    passages: int
    many: int
    few: int
    seconds: float
    rounds: int


SIZES: dict[Scale, Sizes] = {"small": Sizes(5_000, MANY, FEW, 4, 2), "full": Sizes(100_000, MANY, FEW, 20, 3)}


def run(server: Server, scale: Scale) -> list[Row]:
    """Medians over the rounds; few and many have their turns one after the other."""
    return measure(server, SIZES[scale])


def measure(server: Server, sizes: Sizes) -> list[Row]:
    """The same at any size."""
    corpus = traces.corpus(server, sizes.passages)
    _corpus.settle(corpus)
    rates: dict[tuple[int, bool], list[float]] = {}
    errors: list[str] = []
    for number in range(sizes.rounds):
        for loading in (False, True):
            for clients in (sizes.few, sizes.many) if number % 2 else (sizes.many, sizes.few):
                database = server.create(corpus.name)  # what the turn before has loaded is not there
                rate = _turn(database, clients, loading, sizes.seconds, errors)
                server.drop(database)
                rates.setdefault((clients, loading), []).append(rate)
                _corpus.tell(f"{clients} clients{', half loading' if loading else ''}: {rate:,.0f} decisions a second")
    rows = []
    for loading, how in ((False, "deciding"), (True, "half deciding, half loading")):
        few, many = median(rates[sizes.few, loading]), median(rates[sizes.many, loading])
        rows += [
            Row(f"{sizes.few} clients, {how}: decisions", few, "a second"),
            Row(
                f"{sizes.many} clients, {how}: decisions",
                many,
                "a second",
                many / few,
                f"{sizes.few} clients",
                f"at least {LEAST:g}",
                many / few >= LEAST,
            ),
        ]
    for error in errors:
        _corpus.tell(error)
    return [*rows, Row("errors and deadlocks", len(errors), "", target="none", reached=not errors)]


def _turn(database: Database, clients: int, loading: bool, seconds: float, errors: list[str]) -> float:
    """Decisions a second of so many clients; half of them load if `loading`. Sessions that decide are warm."""
    stop, batches = threading.Event(), count()
    decisions = [0] * clients

    def client(place: int, connection: psycopg.Connection[Any], loads: bool) -> None:
        chosen = random.Random(place)
        try:
            while not stop.is_set():
                if loads:
                    _load(connection, chosen, next(batches))
                else:
                    _decide(connection, chosen)
                    decisions[place] += 1
        except psycopg.Error as error:
            errors.append(f"{type(error).__name__}: {error}")

    with ExitStack() as stack:
        threads = []
        for place in range(clients):
            loads = loading and place % 2 == 1
            login = "acme_curator" if loads else "acme_reader"
            connection = stack.enter_context(_corpus.session(database, login))
            for _ in range(0 if loads else _WARM):
                _decide(connection, random.Random(place))
            threads.append(threading.Thread(target=client, args=(place, connection, loads)))
        began = time.monotonic()
        for thread in threads:
            thread.start()
        stop.wait(seconds)
        counted, took = sum(decisions), time.monotonic() - began
        stop.set()
        for thread in threads:
            thread.join()
    return counted / took


def _decide(connection: psycopg.Connection[Any], chosen: random.Random) -> None:
    case = {"model": f"m{chosen.randrange(7)}"}
    _corpus.decide(connection, traces.QUESTION, traces.query(chosen), case)


def _load(connection: psycopg.Connection[Any], chosen: random.Random, batch: int) -> None:
    first = batch * _TOGETHER // 2
    given = [_corpus.document("loaded", number) for number in chosen.sample(range(first, first + _WINDOW), _TOGETHER)]
    other = {"applies_to": {"model": ["none"]}}
    _corpus.load_now(connection, [document | other | {"id": f"L{document['id']}"} for document in given])
