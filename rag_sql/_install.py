"""Installing and upgrading a store.

``install`` runs ``schema/`` as it is; ``upgrade`` brings older tables forward with the migrations and then re-applies
everything that is code. Both take one advisory lock and one transaction: two of them do not meet, and one that fails
leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psycopg
import sqlalchemy as sa
from psycopg import sql

if TYPE_CHECKING:  # a quarter of a second that only installing needs
    from alembic.config import Config

from rag_sql import _resources
from rag_sql.errors import DatabaseTooNew, ExtensionMissing, NotInstalled, translate

__all__ = ["Status", "install", "status", "upgrade"]

#: Key of the advisory lock: the first eight bytes of SHA-256("rag-sql install").
_LOCK = 0x2D1F6A0B9C53E874
_OLDEST_VECTOR = (0, 8)


@dataclass(frozen=True)
class Status:
    """What a database holds.

    Attributes
    ----------
    state : str
        ``not installed``, ``current``, ``outdated`` (older tables, or other code of the same or an older release) or
        ``newer``.
    revision : str or None
        The migration that the tables stand at.
    head : str
        The newest migration this code knows.
    server : str
        Version of the server.
    database, login : str
        Where, and as whom.
    """

    state: str
    revision: str | None
    head: str
    server: str
    database: str
    login: str


def install(engine: sa.Engine) -> Status:
    """Install the store in an empty database, or find that it is there.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Logs in as the database's owner, with CREATEROLE (or as one who administers the store's roles already).

    Raises
    ------
    DatabaseTooNew, ExtensionMissing, NotInstalled, RoleNotAdministrable, UnsuitableDatabase
        ``NotInstalled`` here means that an older store is there: upgrade it.
    """
    with _locked(engine) as connection:
        found = _status(connection)
        if found.state == "current":
            return found
        if found.state == "outdated":
            raise NotInstalled(
                "another release of the store is installed, with older tables or other code",
                hint="Run: rag-sql upgrade",
            )
        _require_vector(connection)
        _pin_search_path(connection)
        _run(connection, "security", only="000")
        _act_as_owner(connection)
        _run(connection, "tables")
        _alembic_command("stamp", connection, "head")
        connection.exec_driver_sql("reset role")
        _run(connection, "api", only="000")
        _apply_code(connection)
        return _status(connection)


def upgrade(engine: sa.Engine) -> Status:
    """Bring an installed store to this code: migrate the tables, re-apply security, rebuild ``rag_api``.

    Running it on a current store is safe and restores security and api as they stand in ``schema/``.

    Raises
    ------
    DatabaseTooNew, NotInstalled, RoleNotAdministrable, UpgradeBlocked
        ``UpgradeBlocked`` names objects outside ``rag_api`` that depend on it.
    """
    with _locked(engine) as connection:
        if _status(connection).state == "not installed":
            raise NotInstalled("no store is installed in this database", hint="Run: rag-sql install")
        _require_vector(connection)
        migrate(connection)
        return _status(connection)


def status(engine: sa.Engine) -> Status:
    """What the database holds, as any login of the store may ask."""
    with translate(), engine.connect() as connection:
        return _status(connection)


def migrate(connection: sa.Connection, revision: str = "head") -> None:
    """Take tables that stand at any earlier revision, or nowhere, to `revision`, then re-apply all code."""
    _pin_search_path(connection)
    _run(connection, "security", only="000")
    _run(connection, "api", only="000")
    _act_as_owner(connection)
    _alembic_command("upgrade", connection, revision)
    connection.exec_driver_sql("reset role")
    _apply_code(connection)


def _apply_code(connection: sa.Connection) -> None:
    """Security and api, on a namespace that is new, signed with what was applied."""
    _run(connection, "security", but="000")
    _run(connection, "api", but="000")
    _act_as_owner(connection)
    about = "rag-sql: the public surface. Start with document, fact_coverage, packet, packet_span, approval_status."
    statement = sql.SQL("comment on schema rag_api is {}").format(sql.Literal(f"{about} [{_signature()}]"))
    connection.exec_driver_sql(statement.as_string())
    connection.exec_driver_sql("reset role")


def _signature() -> str:
    """Version of this package and SHA-256 of the SQL that every upgrade applies again."""
    digest = hashlib.sha256()
    for folder in ("security", "api"):
        for path in sorted((_resources.find("schema") / folder).glob("*.sql")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version('rag-sql')} {digest.hexdigest()}"


@contextmanager
def _locked(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction under the installers' lock; refuses a database that is newer than the code."""
    with translate(), engine.begin() as connection:
        # A reader that is idle in a transaction must not make everybody queue behind a waiting upgrade.
        connection.exec_driver_sql("set local lock_timeout = '30s'")
        connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        found = _status(connection)
        if found.state == "newer":
            raise DatabaseTooNew(
                f"the store was installed by a newer rag-sql (revision {found.revision}; this one has {found.head})",
                hint="Upgrade the rag-sql package to the one that upgraded the database, or newer.",
            )
        yield connection


def _status(connection: sa.Connection) -> Status:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_alembic(connection))
    head = scripts.get_current_head()
    assert head is not None
    # From the catalog: a login that may install need not be able to look into the namespace.
    row = connection.execute(
        sa.text(
            "select current_setting('server_version'), current_database(), session_user::text,"
            " exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname = 'rag' and c.relname = 'alembic_version'),"
            " substring(obj_description(to_regnamespace('rag_api'), 'pg_namespace') from '\\[(.*)\\]$')"
        )
    ).one()
    revision: str | None = None
    if row[3]:
        with _as_owner_where_allowed(connection):
            revision = connection.execute(sa.text("select version_num from rag.alembic_version")).scalar()
    if revision is None:
        state = "not installed"
    elif revision not in {script.revision for script in scripts.walk_revisions()} or _release(row[4]) > _release(
        _signature()
    ):
        state = "newer"
    else:
        state = "current" if (revision, row[4]) == (head, _signature()) else "outdated"
    return Status(state, revision, head, row[0], row[1], row[2])


def _release(signature: str | None) -> tuple[int, ...]:
    """The release in a signature, comparable."""
    return tuple(int(part) for part in re.findall(r"\d+", (signature or "").partition(" ")[0]))


@contextmanager
def _as_owner_where_allowed(connection: sa.Connection) -> Iterator[None]:
    """An installing login reads as the owner, since it inherits nothing; any other login reads as itself."""
    if connection.execute(sa.text("select pg_has_role('rag_owner', 'set')")).scalar():
        _act_as_owner(connection)
        yield
        connection.exec_driver_sql("reset role")
    else:
        yield


def _alembic_command(name: Literal["stamp", "upgrade"], connection: sa.Connection, revision: str) -> None:
    from alembic import command

    getattr(command, name)(_alembic(connection), revision)


def _alembic(connection: sa.Connection) -> Config:
    from alembic.config import Config

    config = Config()
    # The folder's path goes through %-interpolation.
    config.set_main_option("script_location", str(_resources.find("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _pin_search_path(connection: sa.Connection) -> None:
    """Functions with parsed bodies bind names when they are created: nobody else's schema may be in the way."""
    connection.exec_driver_sql("set local search_path = pg_catalog, pg_temp")


def _act_as_owner(connection: sa.Connection) -> None:
    connection.exec_driver_sql("set local role rag_owner")


def _require_vector(connection: sa.Connection) -> None:
    """pgvector must be there, in the schema public, or be creatable by this login."""
    query = sa.text(
        "select extversion, extnamespace::regnamespace::text from pg_catalog.pg_extension where extname = 'vector'"
    )
    found = connection.execute(query).one_or_none()
    if found is None:
        try:
            with connection.begin_nested():
                connection.exec_driver_sql("create extension vector schema public")
        except sa.exc.DBAPIError as error:
            if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
                raise ExtensionMissing(
                    "the extension vector is not in this database and this login may not create it",
                    hint="Ask an administrator for: create extension vector; (in this database)",
                ) from error
            raise ExtensionMissing(
                "the server has no extension vector",
                detail=str(error.orig).strip(),
                hint="Install pgvector 0.8 or newer on the server.",
            ) from error
        found = connection.execute(query).one()
    version, schema = found
    if schema != "public":
        raise ExtensionMissing(
            f"the extension vector is in the schema {schema}, and the store calls it in public",
            hint="Ask an administrator for: alter extension vector set schema public;",
        )
    if tuple(int(part) for part in str(version).split(".")[:2]) < _OLDEST_VECTOR:
        raise ExtensionMissing(
            f"the extension vector is {version}; 0.8 or newer is needed",
            hint="Ask an administrator for: alter extension vector update;",
        )


def _run(connection: sa.Connection, folder: str, *, only: str = "", but: str = "") -> None:
    """Run the SQL files of a folder in order, as bytes and without parameters, so that nothing in them is rewritten."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    for path in sorted((_resources.find("schema") / folder).glob("*.sql")):
        if (only and not path.name.startswith(only)) or (but and path.name.startswith(but)):
            continue
        content = path.read_bytes()
        try:
            driver.execute(content)
        except psycopg.Error as error:
            _locate(error, path, content)
            raise


def _locate(error: psycopg.Error, path: Path, content: bytes) -> None:
    """Note file and line on an error of one of our own SQL files."""
    position = error.diag.statement_position
    line = content.decode()[: int(position)].count("\n") + 1 if position else None
    error.add_note(f"in {path}" + (f", line {line}" if line else ""))
