"""Moving vectors between buckets: many of one model have a bucket of their own, with a graph; few share one.

The installing login acts as ``rag_owner``. Readers never wait: what is built is built aside, and a partition is
attached under a lock that lets them by. Those who write vectors of the model wait only while what they wrote meanwhile
follows.

What a reader has found out about partitions may be older than what it reads in ``rag_index.bucket``. So a bucket is
attached and committed before the row says that it is the one; and one that nobody is in any more is dropped by the next
run, since who reads from an older snapshot still looks there. Who comes even later is told so (``RS018``).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql

from rag_sql._admin import as_owner
from rag_sql.errors import translate

__all__ = ["MovedEmbeddings", "maintain_embeddings"]

#: Above so many vectors of a model a tenant gets a bucket of its own; below so many it goes back; else it stays.
PROMOTE_ABOVE = 20_000
DEMOTE_BELOW = 10_000

#: How long a move waits for those who write: meanwhile others who want to wait for it.
_PATIENCE = "30s"

#: Key of the lock that a run holds: the first eight bytes of SHA-256("rag-sql maintain embeddings").
_RUN = 0x6656FAE342342119

Driver = psycopg.Connection[Any]

_COUNTS = """
select b.tenant, b.model, b.model_version, b.bucket, n.vectors
from rag_index.bucket b
cross join lateral (
  select count(*) as vectors
  from rag_index.embedding e
  where e.bucket = b.bucket and e.tenant = b.tenant and e.model = b.model and e.model_version = b.model_version
) as n
where b.bucket <> 0 or n.vectors > %(promote_above)s
order by b.tenant, b.model, b.model_version
"""

_WHERE = "tenant = %(tenant)s and model = %(model)s and model_version = %(model_version)s"

_SIZE = f"select count(*), min(public.vector_dims(embedding)) from rag_index.embedding where bucket = 0 and {_WHERE}"

_LOCK = f"select pg_advisory_xact_lock(lock_key) from rag_index.bucket where {_WHERE}"

# What is in no bucket's row, its name and whether a run that was interrupted began to detach it.
_LEFT_OVER = """
select c.relname::text, i.inhdetachpending
from pg_catalog.pg_inherits i
join pg_catalog.pg_class c on c.oid = i.inhrelid
where i.inhparent = 'rag_index.embedding'::regclass
  and c.relname <> 'embedding_0'
  and not exists (select from rag_index.bucket b where 'embedding_' || b.bucket = c.relname)
union all
select c.relname::text, null
from pg_catalog.pg_class c
where c.relnamespace = 'rag_index'::regnamespace
  and c.relkind = 'r'
  and not c.relispartition
  and c.relname ~ '^embedding_[1-9][0-9]*$'
"""

# A graph is built in memory, where it fits. Not in parallel: that memory would come out of /dev/shm, which containers
# keep small.
_MEMORY = """
select
  set_config('maintenance_work_mem', greatest(
    pg_size_bytes(current_setting('maintenance_work_mem')),
    least(%(vectors)s * (2 * %(dimension)s + 500)::bigint, 1073741824)
  ) / 1024 || 'kB', true),
  set_config('max_parallel_maintenance_workers', '0', true)
"""

_BUILD = """
create table rag_index.{name} (like rag_index.embedding including storage) with (toast_tuple_target = 8160);
insert into rag_index.{name} (bucket, tenant, model, model_version, document_id, version, range_start, embedding,
  recorded_at)
  select {bucket}, tenant, model, model_version, document_id, version, range_start, embedding, recorded_at
  from rag_index.embedding
  where bucket = 0 and tenant = {tenant} and model = {model} and model_version = {model_version};
alter table rag_index.{name}
  alter column embedding set statistics 0,
  add constraint {key} primary key (tenant, model, model_version, document_id, version, range_start, bucket),
  add constraint {bound} check (bucket = {bucket}),
  enable row level security,
  force row level security;
create index {graph} on rag_index.{name}
  using hnsw ((embedding::public.halfvec({dimension})) public.halfvec_cosine_ops)
  with (m = 24, ef_construction = 96);  -- by default it misses 3 of 100 among 500,000
analyze rag_index.{name};
comment on table rag_index.{name} is 'A bucket of vectors of one tenant''s model, with a graph over them.';
alter table rag_index.embedding attach partition rag_index.{name} for values in ({bucket});
alter table rag_index.{name} drop constraint {bound};
"""

# From bucket `was` to bucket `bucket`; what a first copy brought is left.
_COPY = f"""
insert into rag_index.embedding (bucket, tenant, model, model_version, document_id, version, range_start, embedding,
  recorded_at)
select %(bucket)s, tenant, model, model_version, document_id, version, range_start, embedding, recorded_at
from rag_index.embedding e
where bucket = %(was)s and {_WHERE} and not exists (
  select from rag_index.embedding n
  where n.bucket = %(bucket)s and n.tenant = e.tenant and n.model = e.model and n.model_version = e.model_version
    and n.document_id = e.document_id and n.version = e.version and n.range_start = e.range_start)
"""

_SWITCH = f"update rag_index.bucket set bucket = %(bucket)s where {_WHERE}"

_EMPTY = f"delete from rag_index.embedding where bucket = %(was)s and {_WHERE}"


@dataclass(frozen=True)
class MovedEmbeddings:
    """What became of a tenant's vectors of one model.

    Attributes
    ----------
    tenant, model, model_version : str
    vectors : int
        How many there are.
    action : str
        ``promoted`` (a bucket of its own), ``demoted`` (the shared one) or ``busy``: somebody who wrote held it up,
        and it stays where it is until the next run.
    """

    tenant: str
    model: str
    model_version: str
    vectors: int
    action: str


def maintain_embeddings(
    engine: sa.Engine, *, promote_above: int = PROMOTE_ABOVE, demote_below: int = DEMOTE_BELOW
) -> list[MovedEmbeddings]:
    """Move vectors into the buckets that their numbers ask for, while others read and write.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Logs in as the login that installed the store.
    promote_above, demote_below : int
        Above so many vectors of a model a tenant gets a bucket of its own; below so many it goes back.

    Returns
    -------
    list of MovedEmbeddings
        What was to be moved; empty when all are where they belong.

    Raises
    ------
    NotAllowed, NotInstalled
    """
    moved = []
    with _owner(engine) as driver:
        _drop_left_over(driver)
        counts = driver.execute(_COUNTS, {"promote_above": promote_above}).fetchall()
        for tenant, model, model_version, bucket, vectors in counts:
            if bucket != 0 and vectors >= demote_below:
                continue
            key = {"tenant": tenant, "model": model, "model_version": model_version, "was": bucket}
            try:
                (_promote if bucket == 0 else _demote)(driver, key)
                action = "promoted" if bucket == 0 else "demoted"
            except psycopg.errors.LockNotAvailable:
                action = "busy"
            moved.append(MovedEmbeddings(tenant, model, model_version, vectors, action))
    return moved


def _promote(driver: Driver, key: dict[str, Any]) -> None:
    """Into a bucket of their own: built aside and attached; then what came meanwhile, and the shared one is emptied."""
    number = secrets.randbelow(2**31 - 1) + 1
    name = f"embedding_{number}"
    with driver.transaction():
        ((vectors, dimension),) = driver.execute(_SIZE, key).fetchall()
        driver.execute(_MEMORY, {"vectors": vectors, "dimension": dimension})
        driver.execute(
            sql.SQL(_BUILD).format(
                name=sql.Identifier(name),
                key=sql.Identifier(f"{name}_key"),
                bound=sql.Identifier(f"{name}_bound"),
                graph=sql.Identifier(f"{name}_by_cosine"),
                bucket=sql.Literal(number),
                dimension=sql.Literal(dimension),
                **{field: sql.Literal(key[field]) for field in ("tenant", "model", "model_version")},
            )
        )
    with driver.transaction():
        _switch(driver, {**key, "bucket": number})
        driver.execute(_EMPTY, key)


def _demote(driver: Driver, key: dict[str, Any]) -> None:
    """Back into the shared bucket. Their own stays as it is, for who reads from an older snapshot."""
    with driver.transaction():
        _switch(driver, {**key, "bucket": 0})


def _switch(driver: Driver, key: dict[str, Any]) -> None:
    """Have all vectors in the other bucket, and say so, while nobody writes any."""
    for statement in (_LOCK, _COPY, _SWITCH):
        driver.execute(statement, key)


def _drop_left_over(driver: Driver) -> None:
    """Drop the buckets that an earlier run left; one that is still read stays until the next."""
    for name, is_pending in driver.execute(_LEFT_OVER).fetchall():
        table = sql.Identifier(name)
        try:
            if is_pending is not None:
                how = sql.SQL("finalize" if is_pending else "concurrently")
                statement = sql.SQL("alter table rag_index.embedding detach partition rag_index.{} {}")
                driver.execute(statement.format(table, how))
            driver.execute(sql.SQL("drop table rag_index.{}").format(table))
        except psycopg.errors.LockNotAvailable:
            continue


@contextmanager
def _owner(engine: sa.Engine) -> Iterator[Driver]:
    """A connection that acts as the owner, one at a time; no transaction is open, since detaching allows none."""
    with as_owner(engine):
        pass  # says what is wrong where this login administers no store
    with translate(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        driver.execute("set role rag_owner")
        driver.execute(sql.SQL("set lock_timeout = {}").format(_PATIENCE))
        driver.execute("select pg_advisory_lock(%s)", [_RUN])
        try:
            yield driver
        finally:
            driver.execute("select pg_advisory_unlock(%s)", [_RUN])
            driver.execute("reset lock_timeout")
            driver.execute("reset role")
