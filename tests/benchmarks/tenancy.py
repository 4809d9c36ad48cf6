"""The whole `decide` as a run-time login beside a role that bypasses row-level security, with both plans.

The store holds acme's documents and public ones and nobody else's, so that both see the same rows and decide the same:
what is left between them is the price of the policies. Both ask each question in turn, in sessions that are warm, and
who asks first changes with every question. The plans (``--json``) are those that ran inside the function.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from rag_sql._embedded import SUPERUSER
from tests.benchmarks._rows import Row, Scale, median
from tests.benchmarks.traces import PASSAGES, QUESTION, bound, corpus, query
from tests.conftest import Database, Server

QUESTIONS = {"small": 40, "full": 40}
LIMIT = 1.10
LOGINS = ("acme_reader", "acme_bypass")

# PL/pgSQL settles on its plans in the first five calls.
_WARM = 6

# auto_explain, of every statement inside the function, told to the client.
_EXPLAINING = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "1",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_level": "notice",
}

_DECIDE = "select digest from rag_api.decide(%(question)s, %(query)s, %(case)s, 10)"


def run(server: Server, scale: Scale) -> list[Row]:
    """Medians over the questions, and their ratio."""
    return measure(server, PASSAGES[scale], QUESTIONS[scale])


def measure(server: Server, passages: int, questions: int) -> list[Row]:
    database = corpus(server, passages)
    took: dict[str, list[float]] = {login: [] for login in LOGINS}
    chosen = random.Random(3)
    with bypassing(server, database), open_sessions(database) as sessions:
        for number in range(-_WARM, questions):
            asked = {"question": QUESTION, "query": query(chosen), "case": json.dumps({"model": f"m{number % 7}"})}
            digests = set()
            for login in LOGINS if number % 2 else LOGINS[::-1]:
                seconds, digest = decide(sessions[login], asked)
                digests.add(digest)
                if number >= 0:
                    took[login].append(seconds)
            if len(digests) != 1:
                raise AssertionError(f"the logins decide differently: {asked}")
        plans = {login: plan(database, login, asked) for login in LOGINS}
    with_policies, without = (median(took[login]) for login in LOGINS)
    ratio = with_policies / without
    return [
        Row(
            f"{passages:,} passages: decide under the policies",
            with_policies * 1000,
            "ms",
            ratio,
            "bypassing them",
            f"at most {LIMIT:.2f}",
            ratio <= LIMIT,
            plan=plans["acme_reader"],
        ),
        Row(f"{passages:,} passages: decide bypassing them", without * 1000, "ms", plan=plans["acme_bypass"]),
    ]


@contextmanager
def bypassing(server: Server, database: Database) -> Iterator[None]:
    """A login like acme's reader, but for row-level security. The store refuses such a login a tenant."""
    server.maintenance.execute("create role acme_bypass login bypassrls in role rag_reader")
    with database.connect(SUPERUSER) as connection:
        connection.execute("insert into rag_auth.membership (login, tenant) values ('acme_bypass', 'acme')")
    try:
        yield
    finally:
        server.drop(database)
        server.maintenance.execute("drop role acme_bypass")


@contextmanager
def open_sessions(database: Database) -> Iterator[dict[str, psycopg.Connection[Any]]]:
    with database.connect(LOGINS[0], autocommit=True) as one, database.connect(LOGINS[1], autocommit=True) as other:
        yield dict(zip(LOGINS, (one, other), strict=True))


def decide(connection: psycopg.Connection[Any], asked: dict[str, str]) -> tuple[float, bytes]:
    with bound(connection):
        began = time.perf_counter()
        row = connection.execute(_DECIDE, asked).fetchone()
        took = time.perf_counter() - began
    assert row is not None
    return took, row[0]


def plan(database: Database, login: str, asked: dict[str, str]) -> str:
    """The plans that run inside one decision and take a millisecond or more, as auto_explain has them."""
    with database.connect(SUPERUSER, autocommit=True) as superuser:
        for name, value in _EXPLAINING.items():
            superuser.execute(
                sql.SQL("alter role {} set {} = {}").format(sql.Identifier(login), sql.SQL(name), sql.Literal(value))
            )
    said: list[str] = []
    with database.connect(login, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        decide(connection, asked)
    return "\n\n".join(said)
