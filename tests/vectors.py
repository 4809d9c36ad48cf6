"""Vectors for tests: an embedder that needs no model, and the calls with which vectors are stored and searched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

Connection = psycopg.Connection[Any]


class HashEmbedder:
    """Each word of a text is a direction, made of its hash: texts that share words are near each other."""

    name = "hash"
    version = "1"

    def __init__(self, dimension: int = 8) -> None:
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        found = [0.0] * self.dimension
        for word in text.lower().split() or [""]:
            for place, byte in enumerate(hashlib.shake_128(word.encode()).digest(self.dimension)):
                found[place] += byte - 127.5
        return found


class Hit(NamedTuple):
    """A row of rag_api._vector_search."""

    score: int
    tenant: str
    document_id: str
    version: int
    range_start: int


def add(connection: Connection, vectors: Mapping[str, Sequence[float]], model: str = "hash", version: str = "1") -> int:
    """Store vectors of documents of one passage, by document."""
    row = connection.execute(
        "select rag_api.add_embeddings(%s, %s, %s::text[], %s::integer[], %s::integer[], %s::text[])",
        (
            model,
            version,
            list(vectors),
            [1] * len(vectors),
            [0] * len(vectors),
            [json.dumps(v) for v in vectors.values()],
        ),
    ).fetchone()
    assert row is not None
    return int(row[0])


def search(
    connection: Connection,
    vector: Sequence[float],
    k: int = 10,
    *,
    exact: bool = True,
    model: str = "hash",
    version: str = "1",
    case: str = "{}",
    at: datetime | None = None,
) -> list[Hit]:
    """The nearest eligible passages."""
    rows = connection.execute(
        "select v.score, v.tenant, v.document_id, v.version, v.range_start"
        " from (select coalesce(array_agg(f.tenant), '{}') as tenants, coalesce(array_agg(f.scope_id), '{}') as scopes"
        " from rag_api._scopes(%s, statement_timestamp()) as f where f.applies) as f"
        " cross join lateral rag_api._vector_search("
        "%s, %s, rag_api._vector(%s), %s, %s, f.tenants, f.scopes, coalesce(%s, statement_timestamp()),"
        " coalesce(%s, statement_timestamp()), false) as v",
        (case, model, version, json.dumps(list(vector)), k, exact, at, at),
    ).fetchall()
    return [Hit(*row) for row in rows]
