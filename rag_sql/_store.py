"""The client: binds a tenant for one transaction and calls ``rag_api``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg
import sqlalchemy as sa
from sqlalchemy import event

from rag_sql._binding import Binding, SessionBinding
from rag_sql._signing import Right, TenantKey
from rag_sql._tenant import Tenant
from rag_sql.errors import InvalidRequest, UnsuitableDatabase

__all__ = ["EvidenceStore", "make_engine"]

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    Bind = sa.Engine | sa.Connection | Session


def make_engine(url: str | sa.URL, **options: Any) -> sa.Engine:
    """An engine for a store: psycopg 3, safe behind a transaction pooler, connections cleaned when they go back."""
    parsed = sa.make_url(url)
    if parsed.drivername in {"postgres", "postgresql"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername != "postgresql+psycopg":
        raise UnsuitableDatabase(
            f"a store is reached through psycopg 3, not {parsed.drivername!r}",
            hint="Write the URL as postgresql://login@host/database.",
        )
    # A pooler gives each transaction another backend: a prepared statement would be on the wrong one.
    arguments = {"prepare_threshold": None, "client_encoding": "utf8"}
    # What is sent is a tenant's text: neither a log nor the trace of an error repeats it.
    engine = sa.create_engine(
        parsed, connect_args=arguments, pool_reset_on_return=None, hide_parameters=True, **options
    )

    @event.listens_for(engine, "reset")
    def _discard_all(connection: psycopg.Connection[Any], _record: Any, state: Any) -> None:
        """Leave nothing to the next user: settings, cursors, prepared statements, listeners, temporary tables."""
        if state.terminate_only or connection.closed:
            return
        connection.rollback()
        autocommit = connection.autocommit
        connection.autocommit = True
        connection.execute("discard all")
        connection.autocommit = autocommit

    return engine


class EvidenceStore:
    """A store, reached through an engine, a connection or a session.

    Parameters
    ----------
    bind : sqlalchemy.Engine, sqlalchemy.Connection or sqlalchemy.orm.Session
        From an engine, each :meth:`tenant` block is a transaction of its own, committed when the block ends well. On
        the caller's connection or session the block works inside the caller's transaction, never commits, and puts
        the previous binding back. In a session it binds again in each transaction that begins within the block.
    tenant_key : str, optional
        The key of a login that serves many tenants, as ``rag-sql tenant key add`` prints it: each binding is then
        signed. Default: the environment variable ``RAG_SQL_TENANT_KEY``; an empty text is no key.

    Raises
    ------
    InvalidRequest
        The key is none.
    """

    def __init__(self, bind: Bind, *, tenant_key: str | None = None) -> None:
        self._bind = bind
        self._owned = ExitStack()
        given = os.environ.get("RAG_SQL_TENANT_KEY") if tenant_key is None else tenant_key
        self._key = TenantKey.parse(given) if given else None

    @classmethod
    def connect(cls, url: str | sa.URL, *, tenant_key: str | None = None) -> Self:
        """Open a store by URL (``postgresql://login@host/database``), with an engine of its own."""
        engine = make_engine(url)
        store = cls(engine, tenant_key=tenant_key)
        store._owned.callback(engine.dispose)
        return store

    @classmethod
    def embedded(cls, home: str | Path | None = None) -> Self:
        """Open the store of the embedded server, installing it at first use.

        Where the environment variable ``RAG_SQL_DATABASE_URL`` names a database, that store is opened instead.

        Parameters
        ----------
        home : path, optional
            Where the data lives; default is the platform's user data folder.

        Raises
        ------
        EmbeddedUnavailable
            The platform has no binaries, or the server does not start; the message says what to do.
        """
        from rag_sql._local import LocalStore

        if url := os.environ.get("RAG_SQL_DATABASE_URL"):
            return cls.connect(url)

        with ExitStack() as opened:
            local = opened.enter_context(LocalStore(Path(home) if home is not None else None))
            engine = make_engine(local.url())
            opened.callback(engine.dispose)
            store = cls(engine, tenant_key="")  # its one login is granted what it may bind
            store._owned = opened.pop_all()
        return store

    def close(self) -> None:
        """Give back what the store opened itself; the caller's engine, connection or session is left alone."""
        self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @contextmanager
    def tenant(self, name: str | None, *, read_only: bool = False) -> Iterator[Tenant]:
        """Bind a tenant for the length of a block, in one transaction.

        Parameters
        ----------
        name : str or None
            The tenant; None binds none, so that only public documents are seen.
        read_only : bool
            Sign for reading alone, so that nothing that runs in the transaction can change evidence or decide about it.
            Only with a key: what is granted to a login has its right with the grant.

        Raises
        ------
        TenantNotBound
            The tenant is not granted to the login, or does not exist.
        SignatureRefused
            The key has expired or was revoked, or is another login's.
        NotInstalled, NotAllowed
            The database holds no store; the login is in none of its groups.
        BindingLost
            The connection commits every statement, so that nothing can be bound for longer than one.
        InvalidRequest
            `read_only` without a key.
        """
        if read_only and self._key is None:
            raise InvalidRequest(
                "without a key nothing is signed, so nothing can be signed for reading alone",
                hint="The right of a login stands with its grant: rag-sql tenant grant TENANT LOGIN --read-only",
            )
        right: Right = "read" if read_only else "write"
        if isinstance(self._bind, sa.Engine):
            with self._bind.begin() as connection:
                binding = Binding(connection, name, self._key, right)
                try:
                    yield Tenant(binding)
                finally:
                    binding.release()
            return
        # A session by its method: who brings none should not have to import the object mapper.
        binding = (
            Binding(self._bind, name, self._key, right)
            if isinstance(self._bind, sa.Connection)
            else SessionBinding(self._bind, name, self._key, right)
        )
        try:
            yield Tenant(binding)
        finally:
            binding.end()
