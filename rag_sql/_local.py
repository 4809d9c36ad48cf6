"""The store of the embedded server: one database, one ordinary login.

Installing and administering are done as the server's superuser; everything else is done as the login ``operator``,
which row-level security holds like any other.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from psycopg import sql

from rag_sql import _admin, _install
from rag_sql._embedded import SUPERUSER, EmbeddedServer
from rag_sql._store import make_engine

__all__ = ["DATABASE", "OPERATOR", "LocalStore"]

DATABASE = "rag_sql"
OPERATOR = "operator"

#: Key of the advisory lock under which database and login are made.
_LOCK = 0x5D3C1E7F4A9B2860


class LocalStore:
    """The embedded server with a store installed in it; a context manager that lets go of the server at the end.

    Parameters
    ----------
    home : pathlib.Path, optional
        Where the data lives; default is the platform's user data folder.
    prepare : bool
        Whether to make the database, install the store and make the login where they are missing.
    """

    def __init__(self, home: Path | None = None, *, prepare: bool = True) -> None:
        self.server = EmbeddedServer(home)
        try:
            if prepare:
                self._prepare()
        except BaseException:
            self.server.close()
            raise

    def url(self) -> str:
        """URL of the store for the ordinary login."""
        return self.server.url(OPERATOR, DATABASE)

    def admin_url(self) -> str:
        """URL of the store for installing and administering."""
        return self.server.url(SUPERUSER, DATABASE)

    def ready(self) -> bool:
        """Whether the store was installed here."""
        maintenance = make_engine(self.server.url(SUPERUSER, "postgres"))
        try:
            with maintenance.connect() as connection:
                return self._ready(connection)
        finally:
            maintenance.dispose()

    def not_installed(self) -> _install.Status:
        """The status of a server that was started and holds no store yet."""
        maintenance = make_engine(self.server.url(SUPERUSER, "postgres"))
        try:
            return _install.status(maintenance)
        finally:
            maintenance.dispose()

    def __enter__(self) -> LocalStore:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.server.close()

    def _prepare(self) -> None:
        maintenance = make_engine(self.server.url(SUPERUSER, "postgres"), isolation_level="AUTOCOMMIT")
        try:
            with maintenance.connect() as connection:
                connection.execute(sa.text("select pg_advisory_lock(:key)"), {"key": _LOCK})
                if self._ready(connection):
                    return
                if not _exists(connection, "pg_database", "datname", DATABASE):
                    connection.exec_driver_sql(f"create database {DATABASE}")
                if not _exists(connection, "pg_roles", "rolname", OPERATOR):
                    connection.exec_driver_sql(f"create role {OPERATOR} login")
                self._install()
                # Said last: what this comment says is true of everything before it.
                connection.exec_driver_sql(
                    sql.SQL("comment on database {} is 'rag-sql: installed'")
                    .format(sql.Identifier(DATABASE))
                    .as_string()
                )
        finally:
            maintenance.dispose()

    def _ready(self, connection: sa.Connection) -> bool:
        query = sa.text(
            "select shobj_description(oid, 'pg_database') from pg_catalog.pg_database where datname = :name"
        )
        return connection.execute(query, {"name": DATABASE}).scalar() == "rag-sql: installed"

    def _install(self) -> None:
        engine = make_engine(self.admin_url())
        try:
            _install.install(engine)
            with engine.begin() as connection:
                _admin.join_groups(connection, OPERATOR, ["reader", "curator", "publisher", "reviewer"])
            _admin.grant_tenant(engine, "public", OPERATOR)
        finally:
            engine.dispose()


def _exists(connection: sa.Connection, catalog: str, column: str, name: str) -> bool:
    query = sa.select(sa.literal(1)).select_from(sa.table(catalog, sa.column(column), schema="pg_catalog"))
    return connection.execute(query.where(sa.column(column) == name)).first() is not None
