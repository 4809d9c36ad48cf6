"""The whole `decide`, in one round trip, beside its ranking alone, at 100,000 (full) visible passages.

Both are asked as the run-time login, in turn, with the same words and the same case: `selection` is what ranks for
`decide`, which adds contract, case, spans, coverage, texts and identity.
"""

from __future__ import annotations

import json
import random
import time

from rag_sql import _maintenance
from rag_sql._embedded import SUPERUSER
from tests.benchmarks._rows import Row, Scale, median
from tests.benchmarks.traces import PASSAGES, QUESTION, bound, corpus, query
from tests.conftest import Server

QUESTIONS = {"small": 20, "full": 40}
LIMIT = 1.5

_SELECTION = "select document_id from rag_api.selection(%(query)s, %(case)s, 10, p_method => %(method)s)"
_DECIDE = "select digest from rag_api.decide(%(question)s, %(query)s, %(case)s, 10, p_method => %(method)s)"

# PL/pgSQL settles on its plans in the first five calls.
_WARM = 6


def run(server: Server, scale: Scale) -> list[Row]:
    """Medians over the questions, for each method that needs no vectors."""
    return measure(server, PASSAGES[scale], QUESTIONS[scale])


def measure(server: Server, passages: int, questions: int) -> list[Row]:
    database = corpus(server, passages)
    with database.engine(SUPERUSER) as engine:
        _maintenance.maintain(engine)
    rows = []
    for method in ("bm25", "overlap"):
        took: dict[str, list[float]] = {_SELECTION: [], _DECIDE: []}
        chosen = random.Random(4)
        with database.connect("acme_reader", autocommit=True) as connection:
            for number in range(-_WARM, questions):
                case = json.dumps({"model": f"m{number % 7}"})
                asked = {"question": QUESTION, "query": query(chosen), "case": case, "method": method}
                for statement in took if number % 2 else reversed(took):
                    with bound(connection):
                        began = time.perf_counter()
                        connection.execute(statement.encode(), asked).fetchall()
                        if number >= 0:
                            took[statement].append(time.perf_counter() - began)
        alone, whole = (median(times) for times in took.values())
        ratio = whole / alone
        what = f"{passages:,} passages, {method}"
        rows += [
            Row(f"{what}: decide", whole * 1000, "ms", ratio, "ranking", f"at most {LIMIT:g}", ratio <= LIMIT),
            Row(f"{what}: ranking alone", alone * 1000, "ms"),
        ]
    server.drop(database)
    return rows
