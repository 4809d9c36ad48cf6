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

from rag_sql import _statements
from rag_sql._tenant import Tenant
from rag_sql.errors import BindingLost, NotAllowed, NotInstalled, UnsuitableDatabase, translate

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
        the previous binding back.
    """

    def __init__(self, bind: Bind) -> None:
        self._bind = bind
        self._owned = ExitStack()

    @classmethod
    def connect(cls, url: str | sa.URL) -> Self:
        """Open a store by URL (``postgresql://login@host/database``), with an engine of its own."""
        engine = make_engine(url)
        store = cls(engine)
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
            store = cls(engine)
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
    def tenant(self, name: str | None) -> Iterator[Tenant]:
        """Bind a tenant for the length of a block, in one transaction.

        Parameters
        ----------
        name : str or None
            The tenant; None binds none, so that only public documents are seen.

        Raises
        ------
        TenantNotBound
            The tenant is not granted to the login, or does not exist.
        NotInstalled, NotAllowed
            The database holds no store; the login is in none of its groups.
        BindingLost
            The connection commits every statement, so that nothing can be bound for longer than one.
        """
        if isinstance(self._bind, sa.Engine):
            with self._bind.begin() as connection, _unprepared(connection):
                _bind(connection, name)
                yield Tenant(connection, connection.get_transaction, name)
            return
        # A session by its method: who brings none should not have to import the object mapper.
        connection = self._bind if isinstance(self._bind, sa.Connection) else self._bind.connection()
        with _unprepared(connection):
            before = _bind(connection, name)
            tenant = Tenant(connection, connection.get_transaction, name)
            try:
                yield tenant
            finally:
                # A transaction that failed takes the binding with it when it is rolled back.
                if tenant.alive() and not _failed(connection):
                    connection.execute(_statements.BIND, {"tenant": before})


@contextmanager
def _unprepared(connection: sa.Connection) -> Iterator[None]:
    """Send statements whole: on a caller's connection an earlier user may have replaced one that goes by a name."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    before, driver.prepare_threshold = driver.prepare_threshold, None
    try:
        yield
    finally:
        driver.prepare_threshold = before


def _bind(connection: sa.Connection, name: str | None) -> str | None:
    """Assert and prove a tenant; the one asserted before is returned."""
    with translate():
        try:
            before: str | None = connection.execute(_statements.BIND, {"tenant": name}).scalar()
        except sa.exc.ProgrammingError as error:
            if isinstance(error.orig, psycopg.errors.InvalidSchemaName | psycopg.errors.UndefinedFunction):
                raise NotInstalled(
                    "no store is installed in this database, or an older one",
                    hint="Run: rag-sql install, or rag-sql upgrade",
                ) from error
            if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
                raise NotAllowed(
                    "this login is in none of the store's groups",
                    hint="Ask the administrator of the store for: grant rag_reader to LOGIN;",
                ) from error
            raise
    driver = connection.connection.driver_connection
    if isinstance(driver, psycopg.Connection) and driver.autocommit:
        raise BindingLost(
            "the connection commits every statement, so a tenant cannot stay bound",
            hint="Use a connection without the AUTOCOMMIT isolation level.",
        )
    return before


def _failed(connection: sa.Connection) -> bool:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
