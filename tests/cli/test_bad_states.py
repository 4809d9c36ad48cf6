"""What the command line says when the database or the server is not as it should be, and that nothing is stored.

Each state is a real one: another server, a standby, a device that is full, a connection that is ended in the middle.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from rag_sql import Packet, _embedded, draft
from rag_sql._embedded import SUPERUSER, EmbeddedServer
from tests.cli.test_cli import ASK, Ran, in_json, rag_sql
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database, Server
from tests.stored import stored

pytestmark = pytest.mark.slow  # servers are started, killed and filled

REPEAT = "What was not committed is not stored. When the server answers again, look what is there, and repeat."
PRIMARY = "A standby decides and explains. To record, load or approve, use the primary's database URL."
PROGRAM = [sys.executable, "-c", "from rag_sql.cli import main; main()"]


def failure(result: Ran) -> dict[str, Any]:
    """The one JSON object on standard error."""
    (said,) = result.stderr.splitlines()
    found: dict[str, Any] = json.loads(said)
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    return found


def record(database: Database) -> Packet:
    with database.tenant("acme_reader") as acme:
        return acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)


@contextmanager
def shown(database: Database, packet: Packet) -> Iterator[list[str]]:
    """The words with which a reviewer approves what was shown."""
    with database.tenant("acme_reader") as acme:
        digest = acme.review(packet.packet_id, draft(packet)).shown_digest
    yield ["approve", packet.packet_id, "-t", "acme", "--shown", digest, "--json"]


# The same again


def test_what_is_there_already_is_no_mistake(gateway: Database) -> None:
    with gateway.connect(SUPERUSER) as superuser:
        before = stored(superuser)
        loaded = rag_sql("load", SEED / "acme", "-t", "acme", "--json", url=gateway.url("acme_curator"))
        assert (loaded.returncode, in_json(loaded)["new"], in_json(loaded)["same"]) == (0, 0, 1)
        path = SEED / "contract.yaml"
        added = rag_sql("contract", "add", path, "-t", "public", "--json", url=gateway.url("publisher"))
        assert (added.returncode, in_json(added)["status"]) == (0, "same")
        assert stored(superuser) == before


def test_a_tenant_that_was_not_granted_is_not_revoked_and_said_to_be_so(gateway: Database) -> None:
    url = gateway.url(SUPERUSER)
    first = rag_sql("tenant", "revoke", "northwind", "acme_reader", url=url)
    assert (first.returncode, first.stdout) == (0, "acme_reader could not assert northwind before either\n")
    for revoked in (True, False):
        found = in_json(rag_sql("tenant", "revoke", "acme", "acme_reader", "--json", url=url))
        assert found == {"tenant": "acme", "login": "acme_reader", "revoked": revoked}


def test_a_login_that_was_dropped_can_be_revoked_once(gateway: Database) -> None:
    with gateway.connect(SUPERUSER) as superuser:
        superuser.execute("insert into rag_auth.membership (login, tenant) values ('gone', 'acme')")
    url = gateway.url(SUPERUSER)
    assert in_json(rag_sql("tenant", "revoke", "acme", "gone", "--json", url=url))["revoked"] is True
    assert failure(rag_sql("tenant", "revoke", "acme", "gone", "--json", url=url))["sqlstate"] == "RS083"


# No store, or another


def test_a_database_without_a_store_says_what_to_run(server: Server) -> None:
    blank = server.create()
    try:
        asked = failure(rag_sql("ask", *ASK, "--json", url=blank.url("acme_reader")))
        assert (asked["error"], asked["sqlstate"]) == ("NotInstalled", None)
        assert asked["message"] == "no store is installed in this database, or an older one"
        assert asked["hint"] == "Run: rag-sql install, or rag-sql upgrade"
        upgraded = failure(rag_sql("upgrade", "--json", url=blank.url(SUPERUSER)))
        assert (upgraded["error"], upgraded["hint"]) == ("NotInstalled", "Run: rag-sql install")
        with blank.connect(SUPERUSER) as superuser:
            found = superuser.execute("select count(*) from pg_namespace where nspname like 'rag%'").fetchone()
        assert found == (0,)
    finally:
        server.drop(blank)


@pytest.mark.parametrize("command", ["install", "upgrade"])
def test_a_store_of_a_newer_release_is_left_alone(store: Database, command: str) -> None:
    with store.connect(SUPERUSER) as superuser:
        superuser.execute("update rag.alembic_version set version_num = '9999'")
        superuser.commit()
        before = stored(superuser)
        found = failure(rag_sql(command, "--json", url=store.url(SUPERUSER)))
        assert stored(superuser) == before
    assert (found["error"], found["sqlstate"]) == ("DatabaseTooNew", None)
    assert found["message"].startswith("the store was installed by a newer rag-sql (revision 9999; this one has ")
    assert found["hint"] == "Upgrade the rag-sql package to the one that upgraded the database, or newer."


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the server's account can enter."""
    folder = Path(tempfile.mkdtemp(prefix="rag-sql-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_server_without_pgvector_is_refused_and_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same server, from a copy of its tree without the files of the extension."""
    found = _embedded._find_programs()[0].parent
    tree = place / found.parent.name / found.name
    shutil.copytree(found, tree, symlinks=True, ignore=shutil.ignore_patterns("vector*", "include"))
    libraries = found.parent.with_name(f"{found.parent.name}.libs")
    if libraries.exists():  # the programs of a wheel look for them beside their package
        shutil.copytree(libraries, place / libraries.name)
    monkeypatch.setenv("RAG_SQL_PG_BIN", str(tree))
    with EmbeddedServer(place / "home") as server:
        url = server.url(SUPERUSER, "postgres")
        said = failure(rag_sql("install", "--json", url=url))
        with psycopg.connect(server.conninfo(SUPERUSER, "postgres")) as connection:
            namespaces = connection.execute("select count(*) from pg_namespace where nspname like 'rag%'").fetchone()
    assert (said["error"], said["sqlstate"]) == ("ExtensionMissing", None)
    assert said["message"] == "the server has no extension vector"
    assert 'extension "vector" is not available' in said["detail"]
    assert said["hint"] == "Install pgvector 0.8 or newer on the server."
    assert namespaces == (0,)


# A standby


@contextmanager
def standby(server: Server, place: Path) -> Iterator[dict[str, Any]]:
    """A streaming standby of the test server: where it listens."""
    account = _embedded._account()
    programs, environment, _ = _embedded._programs(account)
    how: dict[str, Any] = {"cwd": "/", "env": environment, "stdin": subprocess.DEVNULL}
    place = place / "standby"
    place.mkdir(mode=0o700)
    if account is not None:
        os.chown(place, account.pw_uid, account.pw_gid)
        how |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    data, primary = place / "pg", server.embedded.conninfo(SUPERUSER, "postgres")
    backup = ["pg_basebackup", "-D", str(data), "-d", primary, "-R", "-X", "stream", "-c", "fast", "-N"]
    control = ["pg_ctl", "-D", str(data), "-w", "-s"]
    settings = f"-c unix_socket_directories={place} -c listen_addresses= -c port=5432"
    with (place.parent / "log").open("w") as log:
        how |= {"stdout": log, "stderr": log, "check": True}
        subprocess.run([programs / backup[0], *backup[1:]], **how)
        subprocess.run([programs / control[0], *control[1:], "-o", settings, "start"], **how)
        try:
            yield {"host": str(place), "port": 5432}
        finally:
            subprocess.run([programs / control[0], *control[1:], "-m", "immediate", "stop"], **how)


def test_a_standby_decides_and_records_nothing(server: Server, gateway: Database, place: Path, tmp_path: Path) -> None:
    """A real one: what it is asked to store is refused as a whole, with where to go."""
    packet = record(gateway)
    (tmp_path / "new.md").write_text("A new document.\n")
    with standby(server, place) as where, shown(gateway, packet) as approve:

        def url(login: str) -> str:
            return f"postgresql://{login}@/{gateway.name}?host={where['host']}&port={where['port']}"

        with psycopg.connect(make_conninfo(**where, user=SUPERUSER, dbname=gateway.name)) as superuser:
            assert superuser.execute("select pg_is_in_recovery()").fetchone() == (True,)
            before = stored(superuser)
            answer = rag_sql("ask", *ASK, "-k", "2", "-t", "acme", url=url("acme_reader"))
            assert answer.returncode == 0, answer.stderr
            for login, arguments in (
                ("acme_reader", ["ask", *ASK, "-t", "acme", "--record", "--json"]),
                ("acme_curator", ["load", str(tmp_path), "-t", "acme", "--json"]),
                ("acme_reviewer", approve),
                (SUPERUSER, ["tenant", "add", "other", "--json"]),
            ):
                found = failure(rag_sql(*arguments, url=url(login)))
                assert (found["error"], found["sqlstate"], found["hint"]) == ("ReadOnlyServer", "25006", PRIMARY)
                assert "in a read-only transaction" in found["message"]
            assert stored(superuser) == before


# A full disk


@contextmanager
def full(database: Database, table: str) -> Iterator[None]:
    """A table whose file lies on a device that is full: the kernel's own one, /dev/full.

    The server writes to it as to any file and gets the kernel's ENOSPC. It takes no root and no small file system, and
    it fills the tables alone: a server whose write-ahead log finds no space stops, and then the connection is lost.
    """
    with database.connect(SUPERUSER) as superuser:
        row = superuser.execute(
            "select current_setting('data_directory'), pg_relation_filepath(%s), pg_relation_size(%s)", [table, table]
        ).fetchone()
    assert row is not None
    folder, path, size = row
    assert size == 0, "a table with rows cannot be moved to another device"
    file = Path(folder, path)
    file.rename(file.with_suffix(".aside"))
    file.symlink_to("/dev/full")
    try:
        yield
    finally:
        file.unlink()
        file.with_suffix(".aside").rename(file)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full, which Linux has")
def test_a_full_disk_stores_nothing_of_a_load_a_packet_or_an_approval(gateway: Database, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A new document.\n")
    url, files = gateway.url, ["load", str(tmp_path), "-t", "acme", "--json"]
    with gateway.connect(SUPERUSER) as superuser, gateway.connect(SUPERUSER, autocommit=True) as other:
        # Withdrawals are stored last of all; a trigger makes one of every new document.
        other.execute(
            "create function public.withdraw() returns trigger language plpgsql as $$ begin"
            " insert into rag.withdrawal (tenant, document_id, version)"
            " values (new.tenant, new.document_id, new.version); return null; end $$"
        )
        other.execute(
            "create trigger withdraw after insert on rag.version for each row execute function public.withdraw()"
        )
        before = stored(superuser)
        with full(gateway, "rag.withdrawal"):
            refused = [failure(rag_sql(*files, url=url("acme_curator")))]
        with full(gateway, "rag.packet"):
            refused.append(failure(rag_sql("ask", *ASK, "-t", "acme", "--record", "--json", url=url("acme_reader"))))
        assert stored(superuser) == before
        packet = record(gateway)
        before = stored(superuser)
        with shown(gateway, packet) as approve, full(gateway, "rag.approval"):
            refused.append(failure(rag_sql(*approve, url=url("acme_reviewer"))))
        assert stored(superuser) == before
    for found in refused:
        assert (found["error"], found["sqlstate"]) == ("DiskFull", "53100")
        assert "No space left on device" in found["message"]
        assert found["hint"] == "Check free disk space."


# Stopped in the middle


@contextmanager
def waiting(database: Database, table: str, login: str, arguments: list[str]) -> Iterator[tuple[Any, Any, int]]:
    """A program that has begun its work and waits to write to a table: the process, a superuser, its backend."""
    with (
        database.connect(SUPERUSER) as holder,
        database.connect(SUPERUSER, autocommit=True) as superuser,
    ):
        holder.execute(f"lock table {table} in share mode".encode())
        program = subprocess.Popen(
            [*PROGRAM, *arguments],
            env={**os.environ, "RAG_SQL_DATABASE_URL": database.url(login)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        query = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        while (row := superuser.execute(query).fetchone()) is None:
            assert program.poll() is None, program.communicate()
            time.sleep(0.01)
        yield program, superuser, row[0]
        holder.rollback()


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """More documents than one call takes; the last has a span, so that a load comes to rag.span in its second call."""
    lines = [json.dumps({"id": f"n{number}", "version": 1, "body": f"text {number}"}) for number in range(600)]
    spans = [{"id": "s", "fact": "f", "quote": "last"}]
    lines.append(json.dumps({"id": "last", "version": 1, "body": "the last one", "spans": spans}))
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(lines))
    return path


def ended(program: Any) -> Ran:
    out, err = program.communicate(timeout=60)
    return Ran(out, err, program.returncode)


def test_a_load_whose_connection_ends_in_the_middle_stores_nothing(gateway: Database, many: Path) -> None:
    with gateway.connect(SUPERUSER) as watcher:
        before = stored(watcher)
        arguments = ["load", str(many), "-t", "acme", "--json"]
        with waiting(gateway, "rag.span", "acme_curator", arguments) as (program, superuser, backend):
            superuser.execute("select pg_terminate_backend(%s)", [backend])
            found = failure(ended(program))
        assert (found["error"], found["sqlstate"], found["hint"]) == ("ConnectionLost", "57P01", REPEAT)
        assert found["message"] == "terminating connection due to administrator command"
        assert stored(watcher) == before


def test_an_approval_whose_connection_ends_in_the_middle_is_none(gateway: Database) -> None:
    packet = record(gateway)
    with gateway.connect(SUPERUSER) as watcher, shown(gateway, packet) as approve:
        before = stored(watcher)
        with waiting(gateway, "rag.approval", "acme_reviewer", approve) as (program, superuser, backend):
            superuser.execute("select pg_terminate_backend(%s)", [backend])
            found = failure(ended(program))
        assert (found["error"], found["sqlstate"], found["hint"]) == ("ConnectionLost", "57P01", REPEAT)
        assert stored(watcher) == before
    checked = rag_sql("approve", packet.packet_id, "-t", "acme", "--check", url=gateway.url("acme_reader"))
    assert checked.returncode == 5


def test_ctrl_c_ends_a_load_with_one_line_and_stores_nothing(gateway: Database, many: Path) -> None:
    with gateway.connect(SUPERUSER) as watcher:
        before = stored(watcher)
        arguments = ["load", str(many), "-t", "acme"]
        with waiting(gateway, "rag.span", "acme_curator", arguments) as (program, _, _backend):
            program.send_signal(signal.SIGINT)
            result = ended(program)
        assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted\n")
        assert stored(watcher) == before
