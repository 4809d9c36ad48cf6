"""Recording a trace beside deciding, as the run-time login, at 10,000 (small) and 100,000 (full) visible passages.

The corpus is generated, always the same: documents of five passages of forty words, a tenth of them superseded. One
question after another is decided, recorded as a packet, and traced with the default settings and without candidates.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import psycopg

from rag_sql._embedded import SUPERUSER
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Database, Server, installed

PASSAGES = {"small": 10_000, "full": 100_000}
QUESTIONS = {"small": 5, "full": 7}
QUESTION = "pump-v1"
_PER_DOCUMENT = 5
_WORDS = [f"w{number}" for number in range(4_000)]


def run(server: Server, scale: Scale) -> list[Row]:
    """Medians over the questions; each is asked in turn, so that what else the machine does falls on all alike."""
    return measure(server, PASSAGES[scale], QUESTIONS[scale])


def measure(server: Server, passages: int, questions: int) -> list[Row]:
    database = corpus(server, passages)
    took: dict[str, list[float]] = {"decide": [], "record_packet": [], "record_trace": [], "without candidates": []}
    chosen = random.Random(2)
    with database.connect("acme_reader", autocommit=True) as connection:
        for number in range(questions + 1):
            asked = {"question": QUESTION, "query": query(chosen), "case": json.dumps({"model": f"m{number % 7}"})}
            values: dict[str, Any] = {}

            def ask(name: str, call: str, given: dict[str, Any], first: bool = number == 0) -> Any:
                with bound(connection):
                    began = time.perf_counter()
                    row = connection.execute(f"select {call}", given).fetchone()
                    if not first:  # the first warms the caches
                        took[name].append(time.perf_counter() - began)
                return row and row[0]

            call = "(%(question)s, %(query)s, %(case)s, 10)"
            ask("decide", f"rag_api.decide{call}", asked)
            values["packet"] = ask("record_packet", f"rag_api.record_packet{call} ->> 'packet_id'", asked)
            ask("record_trace", "rag_api.record_trace(%(packet)s)", values)
            ask("without candidates", "rag_api.record_trace(%(packet)s, p_candidates => 0)", values)
    decide = median(took["decide"])
    traced = median(took["record_trace"]) / decide
    return [
        Row(f"{passages:,} passages: decide", decide * 1000, "ms"),
        _row(passages, took, "record_packet", decide),
        Row(
            f"{passages:,} passages: record_trace",
            median(took["record_trace"]) * 1000,
            "ms",
            traced,
            "decide",
            "at most 1",
            traced <= 1,
        ),
        _row(passages, took, "without candidates", decide),
    ]


def _row(passages: int, took: dict[str, list[float]], name: str, decide: float) -> Row:
    value = median(took[name])
    return Row(f"{passages:,} passages: {name}", value * 1000, "ms", value / decide, "decide")


@contextmanager
def bound(connection: psycopg.Connection[Any]) -> Iterator[None]:
    with connection.transaction():
        connection.execute("select rag_api.bind('acme')")
        yield


def query(chosen: random.Random) -> str:
    """Six words, each of which is in one passage of a hundred."""
    return " ".join(chosen.choices(_WORDS[:400], k=6))


def corpus(server: Server, passages: int) -> Database:
    """A store with so many passages that acme sees, half of them public."""
    database = installed(server)
    documents = passages // _PER_DOCUMENT
    for login, part in (("publisher", range(0, documents, 2)), ("acme_curator", range(1, documents, 2))):
        with database.tenant(login) as tenant:
            for start in range(0, len(part), 500):
                tenant.load_documents([document(number) for number in part[start : start + 500]])
    with database.tenant("acme_curator") as acme:
        fact = {"fact": "rule", "propositions": [{"quote": "stop the pump", "clauses": ["Stop the pump."]}]}
        acme.add_contract(QUESTION, 1, {"case": ["model"], "facts": [fact]})
    with database.connect(SUPERUSER, autocommit=True) as superuser:
        superuser.execute("vacuum analyze")
    return database


def document(number: int) -> dict[str, Any]:
    """A tenth of the numbers are second versions of a document."""
    chosen = random.Random(number)
    version = 2 if number % 20 in (18, 19) else 1
    pieces = [" ".join(chosen.choices(_WORDS, k=40)) + ".\n" for _ in range(_PER_DOCUMENT)]
    ends = list(accumulate(map(len, pieces)))
    return {
        "id": f"D{number - 2 if version == 2 else number}",
        "version": version,
        "body": "".join(pieces),
        "applies_to": {"model": [f"m{number % 7}", f"m{(number + 3) % 7}"]} if number % 3 else {},
        "outline": [{"end": end, "headings": ["Pumps"]} for end in ends],
    }
