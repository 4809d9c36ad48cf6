"""Through PgBouncer in transaction mode, on one backend that everybody shares: one tenant's requests are hostile.

The hostile ones are requests of the same login, as after an injection of SQL. Between them another tenant asks, and
nothing of either is seen by the other, whatever was left behind in the session.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rag_sql import EvidenceStore
from rag_sql._embedded import SUPERUSER
from rag_sql._store import make_engine
from tests.conftest import CASE, LOGINS, QUERY, QUESTION, SERVICE_KEY, Database
from tests.tenancy.wall import MARKS

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs PgBouncer: apt-get install pgbouncer")

#: What the other tenant asks for; of `rag.version` and not of a view, because that is planned anew in every round.
DOCUMENTS = sa.text("select tenant, pg_backend_pid() as pid from rag.version")

#: What a hostile request leaves in the session, or tries to; {own} is the hostile tenant's own assertion.
LEFT_BEHIND = (
    "set rag.tenant = '{own}'",
    "declare held cursor with hold for select tenant, body from rag.version",
    "prepare left as select tenant, body from rag.version",
    # The names that psycopg gives to what it prepares.
    "prepare _pg3_0 as select pg_notify('exfil', (select string_agg(body, '|') from rag.version))",
    "create temporary table version (tenant text, body text)",
    "listen exfil",
    "select pg_advisory_lock(7)",
    "set search_path = pg_temp, public",
    "set application_name = 'hostile'",
    "set session characteristics as transaction isolation level serializable",
    "set plan_cache_mode = force_generic_plan",
)

#: Where a hostile request looks for what others left, or for what it left itself to be filled by them.
LOOKS = (
    "select tenant, body from rag.version",
    "select current_setting('rag.tenant', true)",
    "fetch all from held",
    "execute left",
    "execute _pg3_0",
    "select name, statement from pg_prepared_statements",
    "select name, statement from pg_cursors",
    "select tenant, query from rag_api.packet",
    "select query from pg_stat_activity",
)


@dataclass(frozen=True)
class Pooler:
    """A PgBouncer in front of the test server, whose pools are of one connection."""

    folder: Path

    def conninfo(self, login: str, database: Database) -> str:
        return psycopg.conninfo.make_conninfo(host=str(self.folder), port=6432, user=login, dbname=database.name)

    def url(self, login: str, database: Database) -> str:
        return f"postgresql+psycopg://{login}@/{database.name}?host={self.folder}&port=6432"


@pytest.fixture(scope="module")
def pooler(spent: Database) -> Iterator[Pooler]:
    assert PROGRAM is not None
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="rag-sql-pool-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = psycopg.conninfo.conninfo_to_dict(spent.server.conninfo(SUPERUSER, spent.name))
        (folder / "users").write_text("".join(f'"{login}" ""\n' for login in LOGINS))
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={server['host']} port={server['port']}\n[pgbouncer]\n"
            f"listen_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\nauth_type = trust\n"
            f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = 1\n"
        )
        command = [PROGRAM, "--quiet", str(folder / "pgbouncer.ini")]
        if os.geteuid() == 0:  # it refuses to run as root
            folder.chmod(0o777)
            command[1:1] = ["--user", "nobody"]
        process = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        )
        stack.callback(process.terminate)
        found = Pooler(folder)
        _wait(process, found.conninfo("service", spent))
        yield found


def _wait(process: subprocess.Popen[str], conninfo: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            psycopg.connect(conninfo).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.terminate()
                pytest.fail(f"PgBouncer does not answer: {process.communicate()[1]}")
            time.sleep(0.01)


class Hostile:
    """Acme's requests: one that is in order, and then whatever is smuggled into it."""

    def __init__(self, connection: psycopg.Connection[Any], key: str) -> None:
        self.connection = connection
        self.key = key
        self.said: list[str] = []

    def request(self, number: int) -> None:
        with self.connection.transaction():
            own = self.assertion()
            self.connection.execute("select rag_api.bind(p_tenant => %s)", (own,))
            self.attempt(LOOKS[0])
        self.attempt(LEFT_BEHIND[number % len(LEFT_BEHIND)].format(own=own))

    def assertion(self) -> str:
        """The tenant, signed for a transaction that has then ended where there is a key."""
        if not self.key:
            return "acme"
        return SERVICE_KEY.sign(*identity(self.connection), "acme", "write")

    def attempt(self, *statements: str) -> None:
        for statement in statements:
            with suppress(psycopg.Error):
                cursor = self.connection.execute(statement.encode())
                self.said += [str(row) for row in (cursor.fetchall() if cursor.description else [])]

    def notified(self) -> list[str]:
        return [notify.payload for notify in self.connection.notifies(timeout=0)]


def identity(connection: psycopg.Connection[Any]) -> tuple[str, int, int]:
    row = connection.execute("select login, backend_pid, begun_at from rag_api.transaction_identity()").fetchone()
    assert row is not None
    login, backend_pid, begun_at = row
    return login, backend_pid, begun_at


# How often they take turns, one request each: 1,000 alternations by signature.
@pytest.mark.parametrize(
    ("login", "key", "rounds"),
    [("service", str(SERVICE_KEY), 500), ("both_reader", "", 100)],
    ids=["signed", "granted"],
)
def test_two_tenants_that_take_turns_on_one_backend_see_nothing_of_each_other(
    spent: Database, pooler: Pooler, login: str, key: str, rounds: int
) -> None:
    url = pooler.url(login, spent)
    ours = make_engine(url, pool_size=1, max_overflow=0)
    plain = sa.create_engine(url, connect_args={"prepare_threshold": None}, pool_size=1, max_overflow=0)
    stores = [EvidenceStore(engine, tenant_key=key) for engine in (ours, plain)]
    backends: set[int] = set()
    with closing(psycopg.connect(pooler.conninfo(login, spent), autocommit=True, prepare_threshold=None)) as connection:
        hostile = Hostile(connection, key)
        for number in range(rounds):
            hostile.request(number)
            with stores[number // len(LEFT_BEHIND) % 2].tenant("northwind") as northwind:
                found = northwind._rows(DOCUMENTS)
                backends |= {row["pid"] for row in found}
                assert {row["tenant"] for row in found} == {"northwind", "public"}
                if number % 50 == 0:
                    sources = northwind.decide(QUESTION, query=QUERY, case=CASE, k=9).sources
                    assert {source.tenant for source in sources} == {"northwind", "public"}
            hostile.attempt(LOOKS[number % len(LOOKS)])
            if number % 10 == 0:
                with stores[1].tenant(None) as nobody:
                    assert {row["tenant"] for row in nobody._rows(DOCUMENTS)} == {"public"}
        said = "\n".join([*hostile.said, *hostile.notified()])
    for engine in (ours, plain):
        engine.dispose()
    assert len(backends) == 1
    assert any(mark in said for mark in MARKS["acme"])  # its own requests were answered
    assert not any(mark in said for mark in MARKS["northwind"])


def test_a_signature_that_is_stolen_proves_nothing_to_who_comes_next(spent: Database, pooler: Pooler) -> None:
    """The same login, the same backend, the next transaction."""
    with (
        closing(psycopg.connect(pooler.conninfo("service", spent), prepare_threshold=None)) as victim,
        closing(psycopg.connect(pooler.conninfo("service", spent), prepare_threshold=None)) as thief,
    ):
        stolen = SERVICE_KEY.sign(*identity(victim), "northwind", "write")
        victim.execute("select rag_api.bind(p_tenant => %s)", (stolen,))
        assert victim.execute("select count(*) from rag.version where tenant = 'northwind'").fetchone() != (0,)
        backend_pid = identity(victim)[1]
        victim.commit()
        assert identity(thief)[1] == backend_pid
        with pytest.raises(psycopg.Error) as caught:
            thief.execute("select rag_api.bind(p_tenant => %s)", (stolen,))
        assert caught.value.sqlstate == "RS004"
