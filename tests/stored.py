"""What a database holds, as one value to compare: nothing may be stored where an error is raised."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql


def stored(connection: psycopg.Connection[Any]) -> dict[str, tuple[int, str]]:
    """Rows of every table of the store: their number, and a hash of them. For the superuser, who sees all."""
    tables = [
        row[0]
        for row in connection.execute(
            "select oid::regclass::text from pg_class where relkind = 'r'"
            " and relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index') order by 1"
        )
    ]
    query = " union all ".join(
        f"select '{table}', count(*), md5(coalesce(string_agg(t::text, '' order by t::text), '')) from {table} t"
        for table in tables
    )
    found = {name: (count, digest) for name, count, digest in connection.execute(sql.SQL(query))}
    connection.rollback()
    assert len(found) > 8
    return found
