"""Maintaining the search index: what the installing login does, as ``rag_owner``, while others read and load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import sqlalchemy as sa

from rag_sql._admin import as_owner

__all__ = ["SEGMENTS", "MaintenanceReport", "due", "maintain"]

_DUE = sa.text(
    "select tenant, language, segment_ids, passages from rag_index.due(p_segments => :segments)"
    " order by passages, tenant, language"
)

_MERGE = sa.text("select rag_index.merge(p_tenant => :tenant, p_segment_ids => :segment_ids)")

#: From so many segments of a tenant and a language on they are put together: a search opens each.
SEGMENTS = 8


#: How long it waits for a load that ends the use of what is to be moved: meanwhile nothing of anybody else's is done.
_PATIENCE = "30s"


@dataclass
class MaintenanceReport:
    """What was done: segments that were put together, and the passages in them.

    `busy` are segments that a load which had not ended held up: they stay as they are until the next run.
    """

    segments: int = 0
    passages: int = 0
    busy: int = 0


def due(engine: sa.Engine, least: int = SEGMENTS) -> list[tuple[str, str, int, int]]:
    """What is due: tenant, language, number of segments that go together, passages in them."""
    return [
        (tenant, language, len(segments), passages) for tenant, language, segments, passages in _waiting(engine, least)
    ]


def _waiting(engine: sa.Engine, least: int) -> list[tuple[str, str, list[int], int]]:
    with as_owner(engine) as connection:
        return [tuple(row) for row in connection.execute(_DUE, {"segments": least})]


def maintain(
    engine: sa.Engine,
    advance: Callable[[int, int], None] = lambda _work, _things: None,
    least: int = SEGMENTS,
    *,
    patience: str = _PATIENCE,
) -> MaintenanceReport:
    """Put small segments of the index together, and aside what is not in use any more; each in its own transaction.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Logs in as the login that installed the store.
    advance : callable, optional
        Called with passages and segments as they are done.
    least : int
        From so many segments of a tenant and a language on they are put together.
    patience : str
        How long a load is waited for, as PostgreSQL writes it.

    Raises
    ------
    NotAllowed, NotInstalled
    """
    report = MaintenanceReport()
    busy: set[int] = set()
    # What was put together may go with others in turn.
    while waiting := [row for row in _waiting(engine, least) if busy.isdisjoint(row[2])]:
        for tenant, _, segments, passages in waiting:
            if _merge(engine, tenant, segments, patience):
                report.segments += len(segments)
                report.passages += passages
            else:
                busy.update(segments)
            advance(passages, len(segments))
    report.busy = len(busy)
    if report.segments:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("set role rag_owner")
            connection.exec_driver_sql("vacuum (analyze) rag_index.posting, rag_index.segment, rag_index.version")
            connection.exec_driver_sql("reset role")
    return report


def _merge(engine: sa.Engine, tenant: str, segments: list[int], patience: str) -> bool:
    """Put segments together; False when somebody held it up and nothing was done."""
    try:
        with as_owner(engine) as connection:
            connection.execute(sa.text("select set_config('lock_timeout', :patience, true)"), {"patience": patience})
            connection.execute(_MERGE, {"tenant": tenant, "segment_ids": segments})
    except sa.exc.OperationalError as error:
        if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise
        return False
    return True
