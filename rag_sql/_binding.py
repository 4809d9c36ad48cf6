"""Binding a transaction to a tenant: asserted, signed where there is a key, and what was bound before put back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import sqlalchemy as sa
from sqlalchemy import event

from rag_sql import _statements
from rag_sql._signing import Right, TenantKey
from rag_sql.errors import BindingLost, NotAllowed, NotInstalled, translate

__all__ = ["Binding", "SessionBinding"]

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, SessionTransaction


class Binding:
    """A tenant, bound on a connection for the length of a block.

    Parameters
    ----------
    connection : sqlalchemy.Connection
        Where it is bound, in the transaction that is open or begins now.
    name : str or None
        The tenant; None binds none.
    key : TenantKey or None
        What signs for the tenant; None where it is granted to the login.
    right : str
        What is signed for: ``read`` or ``write``.
    """

    def __init__(self, connection: sa.Connection, name: str | None, key: TenantKey | None, right: Right) -> None:
        self.name = name
        self._key = key
        self._right = right
        self._ended = False
        self._driver: psycopg.Connection | None = None
        self._prepare_threshold: int | None = None
        self._bind(connection)

    def connection(self) -> sa.Connection:
        """The connection, for one call. Raises BindingLost when the transaction has ended, or the block has."""
        if self._ended or not (self._open() and (self._savepoint is None or self._savepoint.is_active)):
            raise BindingLost(
                "the transaction in which the tenant was bound has ended",
                hint="Open a new block: with store.tenant(...).",
            )
        return self._connection

    def end(self) -> None:
        """Put back what was bound before; a transaction that failed takes the binding along when it is rolled back."""
        try:
            if self._open() and not _failed(self._connection):
                self._connection.execute(_statements.BIND, {"tenant": self._before})
        finally:
            self.release()

    def release(self) -> None:
        """Take no more calls; the binding itself ends with its transaction."""
        self._ended = True
        self._prepare(None)

    def _open(self) -> bool:
        """Whether the transaction in which the tenant was bound is still open and sound."""
        found = self._transaction
        return found is not None and self._connection.get_transaction() is found and found.is_active

    def _prepare(self, driver: psycopg.Connection | None) -> None:
        """Send statements whole: on a caller's connection an earlier user may have replaced one that goes by a name."""
        if self._driver is not None:
            self._driver.prepare_threshold = self._prepare_threshold
        self._driver = driver
        if driver is not None:
            self._prepare_threshold, driver.prepare_threshold = driver.prepare_threshold, None

    def _bind(self, connection: sa.Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        if driver.autocommit:
            raise BindingLost(
                "the connection commits every statement, so a tenant cannot stay bound",
                hint="Use a connection without the AUTOCOMMIT isolation level.",
            )
        self._prepare(driver)
        try:
            self._before = self._asserted(connection)
        except BaseException:
            self._prepare(None)
            raise
        self._connection = connection
        self._transaction = connection.get_transaction()
        # A savepoint that is rolled back takes along what was bound inside it.
        self._savepoint = connection.get_nested_transaction()

    def _asserted(self, connection: sa.Connection) -> str | None:
        """Assert and prove the tenant; what was asserted before is returned."""
        with translate():
            try:
                before: str | None = connection.execute(
                    _statements.BIND, {"tenant": self._assertion(connection)}
                ).scalar()
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
        return before

    def _assertion(self, connection: sa.Connection) -> str | None:
        """The tenant, with its signature for this transaction where there is a key."""
        if self.name is None or self._key is None:
            return self.name
        login, backend_pid, begun_at = connection.execute(_statements.TRANSACTION_IDENTITY).one()
        return self._key.sign(login, backend_pid, begun_at, self.name, self._right)


class SessionBinding(Binding):
    """The same in a session, whose transactions follow each other: bound again in each that begins within the block."""

    def __init__(self, session: Session, name: str | None, key: TenantKey | None, right: Right) -> None:
        self._session = session
        super().__init__(session.connection(), name, key, right)
        event.listen(session, "after_begin", self._begun)

    def connection(self) -> sa.Connection:
        """The session's connection, which begins a transaction where the last one has ended."""
        if not self._ended:
            self._session.connection()
        return super().connection()

    def end(self) -> None:
        """Put back what was bound before, in the transaction that is open."""
        event.remove(self._session, "after_begin", self._begun)
        super().end()

    def _begun(self, _session: Session, transaction: SessionTransaction, connection: sa.Connection) -> None:
        # A savepoint begins inside what is bound; a session may have other databases too.
        if not transaction.nested and connection.engine is self._connection.engine:
            self._bind(connection)


def _failed(connection: sa.Connection) -> bool:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
