"""Every mistake that can be made at the command line: what is said, with which code, and that nothing is stored.

A row of the table names the Python class of the error, its SQLSTATE, message and hint, and the exit code, as ``--json``
gives them to a script. What only Python and SQL can get wrong stands in ``tests/api``, states of the server (a standby,
a full disk, a lost connection) in ``test_bad_states.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_sql import Claim, draft
from rag_sql._embedded import SUPERUSER
from tests.cli.mistakes import MISTAKES, Mistake
from tests.cli.test_cli import rag_sql
from tests.conftest import CASE, QUERY, QUESTION, Database, Server
from tests.stored import stored


@dataclass(frozen=True)
class World:
    """The gateway corpus with packets, and what the rows name."""

    database: Database
    superuser: psycopg.Connection[Any]
    names: dict[str, str]


@pytest.fixture(scope="module")
def world(server: Server, gateway_template: Database) -> Iterator[World]:
    database = server.create(gateway_template.name)
    with database.tenant("northwind_reader") as northwind:
        foreign = northwind.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    with database.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
        insufficient = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=1)
        (witness,) = insufficient.witnesses
        claims = [
            Claim(
                text=witness.clauses[0],
                fact=witness.fact,
                tenant=witness.tenant,
                document_id=witness.document_id,
                version=witness.version,
                span_id=witness.span_id,
            )
        ]
        names = {
            "packet": packet.packet_id,
            "insufficient": insufficient.packet_id,
            "foreign": foreign.packet_id,
            "claims": json.dumps([asdict(claim) for claim in claims]),
            "shown": acme.review(insufficient.packet_id, claims).shown_digest,
            "shown_all": acme.review(packet.packet_id, draft(packet)).shown_digest,
            "empty": "",
        }
    with database.connect(SUPERUSER) as superuser:
        yield World(database, superuser, names)
    server.drop(database)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_said_in_full_and_stores_nothing(world: World, tmp_path: Path, mistake: Mistake) -> None:
    names = {**world.names, "file": str(tmp_path / mistake.name)}
    if mistake.text:
        (tmp_path / mistake.name).write_bytes(mistake.text.replace("{claims}", names["claims"]).encode())
    before = stored(world.superuser)
    arguments = [word.format(**names) for word in mistake.arguments.split(" ")]
    result = rag_sql(*arguments, "--json", url=world.database.url(mistake.login))
    assert stored(world.superuser) == before
    assert (result.returncode, result.stdout) == (mistake.exit, "")
    (said,) = result.stderr.splitlines()
    found = json.loads(said)
    message = found["message"] if mistake.message is None else mistake.message.format(**names)
    assert found == {
        "error": mistake.error,
        "sqlstate": mistake.sqlstate,
        "message": message,
        "detail": found["detail"] if mistake.detail is None else mistake.detail,
        "hint": mistake.hint,
        "path": message.partition(":")[0] if mistake.error == "FileRefused" else None,
        "line": mistake.line,
    }
