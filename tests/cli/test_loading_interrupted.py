"""A load that is interrupted for real: what it stored stays, and the same load goes on from there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from rag_sql._embedded import SUPERUSER
from tests.cli.test_cli import in_json, rag_sql
from tests.conftest import Database

pytestmark = pytest.mark.slow  # servers are started, killed and filled

#: Two do not fit into one batch, so each file is one.
PER_FILE = 3000


def document(file: int, number: int) -> dict[str, object]:
    return {"id": f"D{file}-{number:04}", "version": 1, "body": f"Text {number} of file {file}."}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in range(3):
        lines = [json.dumps(document(file, number)) for number in range(PER_FILE)]
        (tmp_path / f"{file}.jsonl").write_text("\n".join(lines))
    return tmp_path


@contextmanager
def stuck_in_the_second_file(database: Database, *arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A running load that waits for another session, which is about to store a document of the second file."""
    with database.connect(SUPERUSER) as other, database.connect(SUPERUSER, autocommit=True) as observer:
        # Without the triggers, or it would have the tenant's turn and the load would wait before its first file.
        other.execute("set session_replication_role = replica")
        insert = (
            "insert into rag.version (tenant, document_id, version, body, body_length, body_sha256)"
            " values ('acme', %s, 1, 'x', 1, sha256('x'))"
        )
        other.execute(insert, [document(1, 7)["id"]])
        program = "from rag_sql.cli import main; main()"
        command = [sys.executable, "-c", program, "load", *map(str, arguments), "--tenant", "acme"]
        with subprocess.Popen(
            [*command, "--database-url", database.url("acme_curator")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process, waiting_backend(observer, process)
            finally:
                process.kill()
        other.rollback()


def waiting_backend(observer: psycopg.Connection[tuple[int]], process: subprocess.Popen[str]) -> int:
    """The backend of the load, as soon as it waits for the other session."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        row = observer.execute(
            "select pid from pg_stat_activity"
            " where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0"
        ).fetchone()
        if row:
            return row[0]
    raise AssertionError("the load does not wait")


def stored(database: Database) -> set[str]:
    with database.connect("acme_curator") as connection:
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        return {row[0] for row in connection.execute("select document_id from rag.version where tenant = 'acme'")}


@pytest.mark.parametrize("how", ["killed", "interrupted", "cut off"])
def test_a_load_that_is_interrupted_goes_on_when_it_is_run_again(store: Database, folder: Path, how: str) -> None:
    with stuck_in_the_second_file(store, folder) as (process, backend):
        if how == "killed":
            process.kill()
        elif how == "interrupted":
            process.send_signal(signal.SIGINT)
        else:
            with store.connect(SUPERUSER) as connection:
                connection.execute("select pg_terminate_backend(%s)", [backend])
        _, said = process.communicate(timeout=60)
    assert process.returncode == {"killed": -signal.SIGKILL, "interrupted": 130, "cut off": 1}[how], said
    if how != "killed":
        assert f"stopped after 1 of 3 files: {PER_FILE} new" in said
        assert "load the same again" in said

    assert stored(store) == {str(document(0, number)["id"]) for number in range(PER_FILE)}
    again = in_json(rag_sql("load", folder, "-t", "acme", "--json", url=store.url("acme_curator")))
    assert (again["same"], again["new"]) == (PER_FILE, 2 * PER_FILE)


def test_an_atomic_load_that_is_interrupted_has_stored_nothing(store: Database, folder: Path) -> None:
    with stuck_in_the_second_file(store, folder, "--atomic") as (process, _):
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, "stopped after" in said) == (130, False)
    assert stored(store) == set()
