"""Random corpora with a history, and BM25 over them said a second time, in Python and from the texts."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, getcontext
from typing import Any

import psycopg

from rag_sql import _maintenance
from tests.conftest import Database

#: Few words, so that passages share them, and from common to rare.
_WORDS = [f"word{number}" for number in range(40)]
_WEIGHTS = [1 / (1 + number) for number in range(40)]

Place = tuple[str, str, int, int]


def grow(database: Database, chosen: random.Random, age: int = 0) -> None:
    """Load, supersede, succeed and withdraw documents of acme and public in batches, with maintenance between."""
    for batch in range(10 * age, 10 * age + chosen.randint(2, 5)):
        login = chosen.choice(("acme_curator", "acme_curator", "publisher"))
        documents: dict[tuple[str, int], dict[str, Any]] = {}
        for _ in range(chosen.randint(1, 25)):
            document = _document(chosen, batch)
            documents[document["id"], document["version"]] = document
        with database.tenant(login) as tenant:
            loaded = tenant.load_documents(list(documents.values()))
            for stored in loaded:
                if chosen.random() < 0.1:
                    tenant.withdraw_version(stored.document_id, stored.version, withdrawn_from=_instant(chosen))
                if chosen.random() < 0.05:
                    tenant.supersede(stored.document_id, ["D0"], superseded_from=_instant(chosen))
        if chosen.random() < 0.4:
            with database.engine("postgres") as engine:
                _maintenance.maintain(engine, least=2)


def _document(chosen: random.Random, batch: int) -> dict[str, Any]:
    """Versions are numbered by batch, so that none is loaded twice with other content."""
    pieces = [
        " ".join(chosen.choices(_WORDS, _WEIGHTS, k=chosen.randint(1, 30))) + "\n" for _ in range(chosen.randint(1, 4))
    ]
    ends = [sum(map(len, pieces[: number + 1])) for number in range(len(pieces))]
    found: dict[str, Any] = {
        "id": f"D{chosen.randint(1, 30)}",
        "version": batch * 10 + chosen.randint(1, 9),
        "body": "".join(pieces),
        "outline": [{"end": end, "headings": []} for end in ends],
        "language": chosen.choice(("simple", "simple", "english")),
    }
    if chosen.random() < 0.5:
        found["applies_to"] = {"model": chosen.choice((["m1"], ["m2"], ["m1", "m2"]))}
    if chosen.random() < 0.3:
        found["effective_from"] = _instant(chosen).isoformat()
    return found


def _instant(chosen: random.Random) -> datetime:
    return datetime.now(UTC) + timedelta(days=chosen.randint(-3, 3))


@dataclass(frozen=True)
class Asked:
    """A query with all that changes what is found."""

    query: str
    k: int
    case: Mapping[str, str]
    k1: float
    b: float
    valid_at: datetime | None
    known_at: datetime | None


def ask(chosen: random.Random, since: datetime) -> Asked:
    """A random question; half of them about now."""
    known = since + (datetime.now(UTC) - since) * chosen.random() if chosen.random() < 0.3 else None
    valid = chosen.choice((known, _instant(chosen))) if chosen.random() < 0.5 else known
    return Asked(
        " ".join(chosen.choices(_WORDS, k=chosen.randint(1, 7))),
        chosen.choice((1, 2, 3, 10, 50, 1000)),
        chosen.choice(({}, {"model": "m1"}, {"model": "m2"}, {"model": "m3"})),
        chosen.choice((1.2, 0.0, 0.9, 2.0)),
        chosen.choice((0.75, 0.0, 1.0, 0.4)),
        valid,
        known,
    )


def found(connection: psycopg.Connection[Any], asked: Asked) -> list[tuple[int, Place]]:
    """What the store selects: scores and places, in order."""
    rows = connection.execute(
        "select score, tenant, document_id, version, range_start from rag_api.selection("
        "p_query => %s, p_case_facts => %s, p_k => %s, p_valid_at => %s, p_known_at => %s, p_method => 'bm25',"
        " p_parameters => %s) order by position",
        (
            asked.query,
            json.dumps(dict(asked.case)),
            asked.k,
            asked.valid_at,
            asked.known_at,
            json.dumps({"k1": asked.k1, "b": asked.b}),
        ),
    ).fetchall()
    return [(score, tuple(place)) for score, *place in rows]


def expected(connection: psycopg.Connection[Any], asked: Asked) -> list[tuple[int, Place]]:
    """The same from the eligible passages' texts: no index, no pruning, no arithmetic of the store's."""
    rows = connection.execute(
        "select p.tenant, p.document_id, p.version, p.range_start, v.language, p.text,"
        " tsvector_to_array(to_tsvector(v.language::regconfig, %s))"
        " from rag_api.eligible(%s, %s, %s) as e"
        " join rag_api.passage p using (tenant, document_id, version) join rag_api.version v"
        " using (tenant, document_id, version)",
        (asked.query, json.dumps(dict(asked.case)), asked.valid_at, asked.known_at),
    ).fetchall()
    passages = [(tuple(place), language, text.split(), words) for *place, language, text, words in rows]
    if not passages:
        return []
    getcontext().prec = 60
    average = sum(len(words) for _, _, words, _ in passages) / len(passages)
    holders: dict[tuple[str, str], int] = {}
    for _, language, words, asked_for in passages:
        for word in set(asked_for) & set(words):
            holders[language, word] = holders.get((language, word), 0) + 1
    scored = []
    for place, language, words, asked_for in passages:
        score = 0
        for word in set(asked_for) & set(words):
            number, count = len(passages), holders[language, word]
            weight = float((1 + (number - count + Decimal("0.5")) / (count + Decimal("0.5"))).ln())
            frequency = words.count(word)
            score += math.floor(
                100000
                * weight
                * (frequency * (asked.k1 + 1))
                / (frequency + asked.k1 * (1 - asked.b + asked.b * (len(words) / average)))
            )
        if score >= 1:
            scored.append((score, place))
    scored.sort(key=lambda pair: (-pair[0], pair[1][1].encode(), pair[1][0].encode(), pair[1][2], pair[1][3]))
    return scored[: asked.k]
