"""What the benchmarks of ranking share: made-up passages, the stores that hold them, and what they ask of the product.

The passages have sixty words each, drawn from a vocabulary of 30,000 by Zipf's law: the commonest word is every
eleventh, the rarest are in some twenty passages of 100,000. Each passage is a document of its own. They are always the
same: what one says follows from its tenant and its number.

Whatever these benchmarks call in ``rag_api`` is here, so that all of them ask alike: as a login, in a transaction that
is bound, with nothing prepared (the product prepares nothing either).
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, islice
from typing import Any, LiteralString

import psycopg

from rag_sql import _admin, minilm
from rag_sql._embedded import SUPERUSER
from rag_sql.errors import EmbedderUnavailable
from tests.conftest import Database

VOCABULARY = 30_000
LENGTH = 60
K = 10
_BATCH = 20_000
_TELL_SECONDS = 10.0

Document = dict[str, Any]


# Passages

_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]


def word(rank: int) -> str:
    """The word of a rank, from 0; common words are shorter."""
    place, last = divmod(rank, 100)
    first, middle = divmod(place, 100)
    return (_SYLLABLES[first - 1] if first else "") + _SYLLABLES[middle] + _SYLLABLES[last]


_WORDS = [word(rank) for rank in range(VOCABULARY)]
_WEIGHTS = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))

#: A query has one word of each range of ranks, from very common to rare.
_RANGES = ((0, 3), (3, 10), (10, 50), (50, 300), (300, 2_000), (2_000, 10_000), (10_000, VOCABULARY))


def documents(tenant: str, first: int, number: int) -> Iterator[Document]:
    """So many of a tenant's documents, one passage each."""
    return (document(tenant, place) for place in range(first, first + number))


def document(tenant: str, number: int, version: int = 1) -> Document:
    """A document by its number; each version says something else."""
    chosen = random.Random(f"{tenant} {number} {version}")
    body = " ".join(chosen.choices(_WORDS, cum_weights=_WEIGHTS, k=LENGTH)) + "."
    return {"id": f"D{number}", "version": version, "body": body}


def queries(number: int) -> list[str]:
    """Queries of seven words, from very common to rare."""
    chosen = random.Random(7)
    return [" ".join(_WORDS[chosen.randrange(*ranks)] for ranks in _RANGES) for _ in range(number)]


# Stores


def add_tenants(database: Database, tenants: Sequence[str], login: str) -> None:
    """Tenants that a login may bind besides its own."""
    with database.engine(SUPERUSER) as engine:
        for tenant in tenants:
            _admin.add_tenant(engine, tenant)
            _admin.grant_tenant(engine, tenant, login)


def load(
    database: Database, login: str, tenant: str, given: Iterable[Document], what: str = "", batch: int = _BATCH
) -> float:
    """Load documents in batches, each a transaction; how many seconds it took. Named, it tells how far it is."""
    began = told = time.perf_counter()
    done = 0
    remaining = iter(given)
    with database.store(login) as store:
        while together := list(islice(remaining, batch)):
            with store.tenant(tenant) as session:
                session.load_documents(together)
            done += len(together)
            if what and time.perf_counter() - told >= _TELL_SECONDS:
                told = time.perf_counter()
                tell(f"{what}: {done:,} loaded, {done / (told - began):,.0f} a second")
    return time.perf_counter() - began


def tell(progress: str) -> None:
    """Say on standard error how far it is."""
    print(progress, file=sys.stderr, flush=True)


def settle(database: Database) -> None:
    """Merge and place what was loaded (``rag-sql maintain``), then vacuum and analyze, as a store at rest has it."""
    maintain(database)
    with database.connect(SUPERUSER, autocommit=True) as superuser:
        superuser.execute("vacuum analyze")


def maintain(database: Database) -> None:
    command = [sys.executable, "-c", "from rag_sql.cli import main; main()", "maintain"]
    command += ["--database-url", database.url(SUPERUSER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def index_bytes(connection: psycopg.Connection[Any]) -> int:
    """What the lexical index takes on disk, its own indexes and TOAST included."""
    row = connection.execute(
        "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'rag_index' and c.relkind = 'r' and c.relname not like 'embedding%'"
    ).fetchone()
    assert row is not None
    return int(row[0])


# Asking

_SEARCH: LiteralString = """
    select document_id, version
    from rag_api.search(
      p_query => %(query)s, p_k => %(k)s, p_method => %(method)s, p_parameters => %(parameters)s,
      p_case_facts => %(case)s
    )
    order by "position"
"""
_DECIDE: LiteralString = """
    select digest
    from rag_api.decide(
      p_question_id => %(question)s, p_query => %(query)s, p_case_facts => %(case)s, p_k => %(k)s,
      p_method => %(method)s
    )
"""


def session(database: Database, login: str) -> psycopg.Connection[Any]:
    """A connection of a run-time login."""
    return database.connect(login, autocommit=True, prepare_threshold=None)


@contextmanager
def bound(connection: psycopg.Connection[Any], tenant: str = "acme") -> Iterator[None]:
    """A transaction of the tenant's."""
    with connection.transaction():
        connection.execute("select rag_api.bind(%s)", (tenant,))
        yield


def ask(
    connection: psycopg.Connection[Any], statement: LiteralString, given: Any, tenant: str = "acme"
) -> tuple[float, list[tuple[Any, ...]]]:
    """Seconds of one statement, in a transaction that is bound already, and its rows."""
    with bound(connection, tenant):
        began = time.perf_counter()
        rows = connection.execute(statement, given).fetchall()
        return time.perf_counter() - began, rows


def search(
    connection: psycopg.Connection[Any],
    query: str,
    method: str = "bm25",
    parameters: Mapping[str, Any] | None = None,
    case: Mapping[str, str] | None = None,
    tenant: str = "acme",
) -> tuple[float, list[tuple[str, int]]]:
    """Seconds, and id and version of the top ten."""
    given = {"query": query, "k": K, "method": method}
    given |= {"parameters": json.dumps(parameters or {}), "case": json.dumps(case or {})}
    took, rows = ask(connection, _SEARCH, given, tenant)
    return took, [(row[0], row[1]) for row in rows]


def decide(connection: psycopg.Connection[Any], question: str, query: str, case: Mapping[str, str]) -> float:
    """Seconds of a decision that ranks by bm25."""
    given = {"question": question, "query": query, "case": json.dumps(case), "k": K, "method": "bm25"}
    return ask(connection, _DECIDE, given)[0]


# Changing


def change(connection: psycopg.Connection[Any], statement: LiteralString, given: Sequence[Any]) -> float:
    """Seconds of one change, from binding to commit."""
    began = time.perf_counter()
    with bound(connection):
        connection.execute(statement, given)
    return time.perf_counter() - began


def load_now(connection: psycopg.Connection[Any], given: Sequence[Document]) -> float:
    """Seconds in which documents are loaded and committed."""
    return change(connection, "select from rag_api.load_documents(%s)", (json.dumps(given),))


def withdraw_now(connection: psycopg.Connection[Any], document_id: str, version: int) -> float:
    """Seconds in which a version is withdrawn and that is committed."""
    return change(
        connection,
        "select rag_api.withdraw_version(p_document_id => %s, p_version => %s)",
        (document_id, version),
    )


# Vectors

_ADD: LiteralString = "select rag_api.add_embeddings(%s, %s, %s, %s, %s, %s)"


def add_embeddings(
    connection: psycopg.Connection[Any], model: str, ids: Sequence[str], vectors: Sequence[str], tenant: str
) -> None:
    """Store the vectors of documents of one passage each, version 1."""
    ones, zeros = [1] * len(ids), [0] * len(ids)
    with bound(connection, tenant):
        connection.execute(_ADD, (model, "1", list(ids), ones, zeros, list(vectors)))


def packaged_model() -> Any | None:
    """The embedding model that ships in packages; None where the extra ``minilm`` is not installed."""
    try:
        model = minilm()
        model.embed(["what loads the model"])
    except EmbedderUnavailable:
        return None
    return model


def embed(database: Database, login: str, model: Any) -> None:
    """Give every passage of the login's tenant that has none a vector of the model."""
    with database.tenant(login) as tenant:
        filling: Any = tenant
        filling.embed(model)
