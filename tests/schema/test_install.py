"""Installing and upgrading: fresh equals upgraded, all or nothing, one at a time, and clear words for what lacks."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from psycopg import sql

import rag_sql
from rag_sql import EvidenceStore, _admin, _install, _resources, errors
from rag_sql._embedded import SUPERUSER, EmbeddedServer
from rag_sql._store import make_engine
from tests.cli.test_cli import rag_sql as rag_sql_cli
from tests.conftest import Clone, Database, Server
from tests.schema.fingerprint import fingerprint

ROLES = (
    "rag_owner",
    "rag_binder",
    "rag_search",
    "rag_recorder",
    "rag_reader",
    "rag_curator",
    "rag_publisher",
    "rag_reviewer",
    "rag_auditor",
)


@pytest.fixture
def blank(server: Server) -> Iterator[Database]:
    """An empty database of the test's own."""
    database = server.create()
    yield database
    server.drop(database)


def migrated(database: Database) -> None:
    """The other way to a store: from nothing, through every migration."""
    with database.engine(SUPERUSER) as engine, engine.begin() as connection:
        connection.exec_driver_sql("create extension vector")
        _install.migrate(connection)


def test_a_fresh_install_equals_one_that_came_through_all_migrations(store: Database, blank: Database) -> None:
    migrated(blank)
    fresh, upgraded = fingerprint(store), fingerprint(blank)
    assert len(fresh) > 300
    assert upgraded == fresh


def test_the_fingerprint_sees_what_matters(store: Database) -> None:
    """Each of these would be a hole; each changes the fingerprint."""
    before = fingerprint(store)
    for statement in (
        "alter view rag_api.version reset (security_invoker)",
        "alter table rag.span no force row level security",
        "drop policy span_fence_select on rag.span",
        "grant execute on function rag_api.decide to public",
        "grant update (body) on rag.version to rag_curator",
        "alter function rag_api.approve(uuid, jsonb, bytea, text, text, text) reset search_path",
        "comment on view rag_api.version is null",
        "alter table rag.version alter column outline set statistics -1",
    ):
        with store.connect(SUPERUSER) as connection:
            connection.execute(statement)
            changed = [row[0] for row in connection.execute(_facts()).fetchall()]
            connection.rollback()
        assert changed != before, statement


def _facts() -> Any:
    from tests.schema import fingerprint as module

    return module._FACTS


def test_upgrading_a_current_store_changes_nothing_and_restores_what_was_bent(gateway: Database) -> None:
    before = fingerprint(gateway)
    with gateway.connect(SUPERUSER) as connection:
        connection.execute("create policy oops on rag.version for select to public using (true)")
        connection.execute("grant select on rag_auth.membership to rag_reader")
        connection.execute("drop view rag_api.span_check")
    assert fingerprint(gateway) != before
    with gateway.engine(SUPERUSER) as engine:
        _install.upgrade(engine)
    assert fingerprint(gateway) == before
    with gateway.tenant("acme_reader") as acme:
        assert acme.span_check() == []


def test_installing_twice_finds_the_store(store: Database) -> None:
    with store.engine(SUPERUSER) as engine:
        found = _install.install(engine)
    assert (found.state, found.revision) == ("current", found.head)


def test_an_upgrade_that_fails_leaves_everything_as_it_was(gateway: Database, monkeypatch: Any, tmp_path: Path) -> None:
    before = fingerprint(gateway)
    broken = tmp_path / "schema"
    shutil.copytree(_resources.find("schema"), broken)
    (broken / "api" / "999_broken.sql").write_text("select 1;\n\nselect nothing from nowhere;\n")
    found = _resources.find
    monkeypatch.setattr(_resources, "find", lambda name: broken if name == "schema" else found(name))
    with gateway.engine(SUPERUSER) as engine, pytest.raises(psycopg.errors.UndefinedTable) as caught:
        _install.upgrade(engine)
    assert f"in {broken / 'api' / '999_broken.sql'}, line 3" in caught.value.__notes__
    assert fingerprint(gateway) == before


def test_objects_of_the_users_that_depend_on_the_api_block_the_upgrade_and_are_named(gateway: Database) -> None:
    with gateway.connect(SUPERUSER) as connection:
        connection.execute("create schema mine")
        connection.execute("create view mine.report as select document_id from rag_api.document")
        connection.execute(
            "create function mine.now_current() returns bigint language sql"
            " begin atomic select count(*) from rag_api.version_status(); end"
        )
    before = fingerprint(gateway)
    with gateway.engine(SUPERUSER) as engine, pytest.raises(errors.UpgradeBlocked) as caught:
        _install.upgrade(engine)
    assert "view mine.report" in caught.value.detail
    assert "function mine.now_current()" in caught.value.detail
    assert fingerprint(gateway) == before
    with gateway.connect(SUPERUSER) as connection:
        assert connection.execute("select count(*) from mine.report").fetchone() == (6,)


def test_a_database_newer_than_the_code_is_refused(store: Database) -> None:
    with store.connect(SUPERUSER) as connection:
        connection.execute("update rag.alembic_version set version_num = '9999'")
    with store.engine(SUPERUSER) as engine:
        assert _install.status(engine).state == "newer"
        for action in (_install.install, _install.upgrade):
            with pytest.raises(errors.DatabaseTooNew):
                action(engine)


def test_code_that_differs_is_outdated_until_it_is_applied_and_a_newer_release_is_refused(store: Database) -> None:
    """The tables stand where they stood: only what every upgrade re-applies is another."""
    with store.engine(SUPERUSER) as engine:
        for signature, state in (
            ("0.0.9 abc", "outdated"),
            (f"{rag_sql.__version__} abc", "outdated"),
            ("99.0 abc", "newer"),
        ):
            with store.connect(SUPERUSER) as connection:
                connection.execute(f"comment on schema rag_api is 'rag-sql [{signature}]'".encode())
            assert _install.status(engine).state == state
            if state == "outdated":
                with pytest.raises(errors.NotInstalled, match="another release"):
                    _install.install(engine)
                assert _install.upgrade(engine).state == "current"
            else:
                with pytest.raises(errors.DatabaseTooNew):
                    _install.upgrade(engine)


def test_upgrading_where_nothing_is_installed_is_refused(blank: Database) -> None:
    with blank.engine(SUPERUSER) as engine:
        assert _install.status(engine).state == "not installed"
        with pytest.raises(errors.NotInstalled):
            _install.upgrade(engine)


def test_of_twenty_installers_at_once_one_installs_and_the_others_wait_and_find_it_done(blank: Database) -> None:
    ready = threading.Barrier(20)
    found: list[str] = []

    def work() -> None:
        with blank.engine(SUPERUSER) as engine:
            ready.wait()
            found.append(_install.install(engine).state)

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["current"] * 20
    with blank.connect(SUPERUSER) as connection:
        # Everything that stands was made by one and the same transaction.
        row = connection.execute(
            "select (select count(distinct xmin::text) from pg_class where relnamespace = to_regnamespace('rag')),"
            " (select count(distinct xmin::text) from pg_proc where pronamespace = to_regnamespace('rag_api'))"
        ).fetchone()
    assert row == (1, 1)


def test_released_migrations_are_frozen() -> None:
    folder = _resources.find("migrations")
    pairs = (line.split("  ") for line in (folder / "frozen.sha256").read_text().splitlines())
    frozen = {name: digest for digest, name in pairs}
    files = {path.name for path in (folder / "versions").iterdir() if path.suffix in {".py", ".sql"}}
    assert set(frozen) == files
    for name, digest in frozen.items():
        actual = hashlib.sha256((folder / "versions" / name).read_bytes()).hexdigest()
        assert actual == digest, f"{name} is released: write the next revision instead"


def test_migrations_are_self_contained() -> None:
    for path in (_resources.find("migrations") / "versions").glob("*.py"):
        text = path.read_text()
        assert "rag_sql" not in text
        assert "schema/" not in text


def test_files_are_named_by_order_and_concern() -> None:
    for folder in ("tables", "security", "api"):
        names = [path.name for path in sorted((_resources.find("schema") / folder).iterdir())]
        assert all(re.fullmatch(r"\d{3}_[a-z_]+\.sql", name) for name in names)
        assert len({name[:3] for name in names}) == len(names)


def test_alembic_alone_is_told_to_use_the_installer() -> None:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_resources.find("migrations")))
    with pytest.raises(SystemExit, match="rag-sql upgrade"):
        command.upgrade(config, "head")


# Installing as an ordinary database owner


@contextmanager
def owner(server: Server, *, createrole: bool = True, name: str = "installer") -> Iterator[Database]:
    """A database owned by an ordinary login, on a server of its own roles."""
    maintenance = server.maintenance
    maintenance.execute(
        sql.SQL("create role {} login {}").format(sql.Identifier(name), sql.SQL("createrole" if createrole else ""))
    )
    database = server.create()
    maintenance.execute(
        sql.SQL("alter database {} owner to {}").format(sql.Identifier(database.name), sql.Identifier(name))
    )
    try:
        yield database
    finally:
        server.drop(database)
        # Roles that it made or was given are left: whoever made a role is noted as its grantor.
        maintenance.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(name)))
        for role in ROLES:
            if maintenance.execute("select from pg_roles where rolname = %s", [role]).fetchone():
                statement = sql.SQL("revoke {} from {} cascade")
                maintenance.execute(statement.format(sql.Identifier(role), sql.Identifier(name)))
        maintenance.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def install_as(database: Database, login: str) -> _install.Status:
    engine = make_engine(database.url(login))
    try:
        return _install.install(engine)
    finally:
        engine.dispose()


@pytest.mark.usefixtures("store")
def test_vector_must_be_there_where_the_installer_may_not_create_it(server: Server) -> None:
    with owner(server) as database, pytest.raises(errors.ExtensionMissing) as caught:
        install_as(database, "installer")
    assert "create extension vector" in caught.value.hint


def test_roles_that_another_login_installed_are_an_error_that_says_what_to_ask_for(
    server: Server, store: Database
) -> None:
    with owner(server) as database:
        with database.connect(SUPERUSER) as connection:
            connection.execute("create extension vector")
        with pytest.raises(errors.RoleNotAdministrable) as caught:
            install_as(database, "installer")
        assert "grant rag_owner" in caught.value.hint
        assert "with admin true, inherit false, set true" in caught.value.hint
        # What it asks for is enough.
        statement = caught.value.hint.split(": ", 1)[1]
        server.maintenance.execute(statement.encode())
        assert install_as(database, "installer").state == "current"
        assert fingerprint(database) == fingerprint(store)


@pytest.mark.parametrize("first", [True, False], ids=["first of the cluster", "second database"])
def test_an_ordinary_owner_installs_upgrades_and_asks(lonely: Server, first: bool) -> None:
    """On a cluster where nobody installed before: the owner makes the roles, and inherits nothing from them."""
    with owner(lonely, name="owner_1") as database, owner(lonely, name="owner_2") as other:
        for each in (database, other):
            with each.connect(SUPERUSER) as connection:
                connection.execute("create extension vector")
        if not first:
            assert install_as(database, "owner_1").state == "current"
            lonely.maintenance.execute(f"alter database {other.name} owner to owner_1".encode())
            database = other
        for name in ("install", "upgrade", "status", "doctor"):
            ran = rag_sql_cli(name, url=database.url("owner_1"))
            assert ran.returncode == 0, f"{name}: {ran.stdout}{ran.stderr}"
        with database.engine("owner_1") as engine:
            _admin.add_tenant(engine, "acme")
            with database.connect(SUPERUSER) as connection:
                connection.execute("create role desk login")
            _admin.grant_tenant(engine, "acme", "desk", ["curator"])
        with database.store("desk") as store, store.tenant("acme") as acme:
            assert acme.load_documents([{"id": "D", "version": 1, "body": "text"}])[0].status == "new"
        with database.connect("owner_1") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select body from rag.version")
        lonely.maintenance.execute("drop owned by desk")
        for each in {database, other}:
            with each.connect(SUPERUSER) as connection:
                connection.execute("drop owned by desk")
        lonely.maintenance.execute("drop role desk")


@pytest.fixture
def lonely() -> Iterator[Server]:
    """A server on which no store was ever installed."""
    home = Path(tempfile.mkdtemp(prefix="rag-sql-test-"))
    home.chmod(0o711)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        server = Server(stack.enter_context(EmbeddedServer(home / "server")))
        stack.callback(server.maintenance.close)
        yield server


def test_a_database_of_somebody_elses_is_refused(blank: Database) -> None:
    with blank.connect(SUPERUSER) as connection:
        connection.execute("create extension vector")
    with pytest.raises(errors.UnsuitableDatabase, match="does not own"):
        install_as(blank, "acme_curator")


def test_an_encoding_or_locale_that_loses_letters_is_refused(server: Server) -> None:
    for options, words in (
        ("encoding 'SQL_ASCII' locale 'C' template template0", "encoding"),
        ("encoding 'UTF8' locale_provider 'libc' locale 'C' template template0", "locale"),
    ):
        name = "unsuitable"
        server.maintenance.execute(f"create database {name} {options}".encode())
        database = Database(server.embedded, name)
        try:
            with database.engine(SUPERUSER) as engine, pytest.raises(errors.UnsuitableDatabase, match=words):
                _install.install(engine)
        finally:
            server.drop(database)


def test_a_store_can_be_opened_by_url(gateway: Database) -> None:
    url = sa.make_url(gateway.url("acme_reader")).set(drivername="postgresql")
    with EvidenceStore.connect(url) as store, store.tenant("acme") as acme:
        assert acme.span_check() == []


def test_templates_do_not_leak_between_tests(clone: Clone, installed_template: Database) -> None:
    assert fingerprint(clone(installed_template)) == fingerprint(installed_template)
