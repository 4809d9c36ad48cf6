"""The usual way beside the product's: a generated ``tsvector`` with a GIN index, ranked by ``ts_rank_cd``.

Its table has the policies of ``rag.passage``, taken from the catalog, so that both are read behind the same wall.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from rag_sql._embedded import SUPERUSER
from tests.benchmarks import _corpus
from tests.conftest import Database

_TABLE = """
    create schema peer;
    grant usage on schema peer to rag_reader;
    create table peer.passage (
      tenant text collate "C" not null,
      document_id text collate "C" not null,
      version integer not null,
      text text not null,
      words tsvector not null generated always as (to_tsvector({configuration}, text)) stored,
      primary key (tenant, document_id, version)
    );
    alter table peer.passage enable row level security;
    alter table peer.passage force row level security;
    grant select on peer.passage to rag_reader;
"""
_INDEX = "create index passage_words on peer.passage using gin (words)"

#: Any of the words: what plainto_tsquery makes of them, with "or" for "and".
_SEARCH: LiteralString = """
    select document_id
    from peer.passage p
    cross join (select cast(replace(cast(plainto_tsquery(%s, %s) as text), '&', '|') as tsquery) as words) q
    where p.words @@ q.words
    order by ts_rank_cd(p.words, q.words) desc, document_id
    limit 10
"""
_EVERY_WORD: LiteralString = "select count(*) from peer.passage where words @@ websearch_to_tsquery(%s, %s)"


def create(database: Database, configuration: str, *, indexed: bool) -> None:
    """Make the table, empty, for texts of one configuration."""
    with database.connect(SUPERUSER) as superuser:
        superuser.execute(sql.SQL(_TABLE).format(configuration=sql.Literal(configuration)))
        if indexed:
            superuser.execute(_INDEX)
        for name, permissive, condition in superuser.execute(
            "select polname, polpermissive, pg_get_expr(polqual, polrelid) from pg_policy"
            " where polrelid = cast('rag.passage' as regclass) and polcmd = 'r'"
            " and cast('rag_reader' as regrole) = any (polroles)"
        ).fetchall():
            superuser.execute(
                sql.SQL("create policy {} on peer.passage as {} for select to rag_reader using ({})").format(
                    sql.Identifier(name), sql.SQL("permissive" if permissive else "restrictive"), sql.SQL(condition)
                )
            )


def fill(database: Database, configuration: str) -> None:
    """Make the table with what the store holds, every tenant's, and index it afterwards, which is the faster way."""
    create(database, configuration, indexed=False)
    with database.connect(SUPERUSER, autocommit=True) as superuser:
        superuser.execute(
            "insert into peer.passage (tenant, document_id, version, text)"
            " select tenant, document_id, version, body from rag.version"
        )
        superuser.execute(_INDEX)
        superuser.execute("vacuum analyze peer.passage")


def copy(database: Database, tenant: str, given: Iterable[_corpus.Document]) -> None:
    """COPY documents into the table."""
    with database.connect(SUPERUSER) as superuser:
        with superuser.cursor().copy("copy peer.passage (tenant, document_id, version, text) from stdin") as copied:
            for document in given:
                copied.write_row((tenant, document["id"], document["version"], document["body"]))


def search(connection: psycopg.Connection[Any], query: str, configuration: str) -> tuple[float, list[str]]:
    """Seconds, and ids of the top ten that have any of the words."""
    took, rows = _corpus.ask(connection, _SEARCH, (configuration, query))
    return took, [row[0] for row in rows]


def with_every_word(connection: psycopg.Connection[Any], query: str, configuration: str) -> int:
    """How many there are that websearch_to_tsquery finds, which asks for every word."""
    _, rows = _corpus.ask(connection, _EVERY_WORD, (configuration, query))
    return int(rows[0][0])
