"""``rag-sql erase``: what it says first, what it erases, and what other commands say of it afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_sql import _admin
from rag_sql._embedded import SUPERUSER
from tests.cli.test_cli import Ran, in_json, rag_sql
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database

CASES = tuple(f"--case={key}={value}" for key, value in CASE.items())


def erase(database: Database, *arguments: str, login: str = SUPERUSER) -> Ran:
    return rag_sql("erase", *arguments, "--tenant", "acme", "--reason", "request 17", url=database.url(login))


def as_acme(database: Database, *arguments: str | Path, login: str = "acme_reader") -> Ran:
    return rag_sql(*arguments, "--tenant", "acme", url=database.url(login))


@pytest.fixture
def packet(gateway: Database) -> Any:
    """A packet's document that rests on HOLD-7, which is acme's."""
    return in_json(as_acme(gateway, "ask", QUESTION, "--query", QUERY, *CASES, "--k", "2", "--record", "--json"))


def test_a_document_is_erased_and_its_packet_ends_every_command_with_5(
    gateway: Database, packet: Any, tmp_path: Path
) -> None:
    assert erase(gateway, "HOLD-7", "--yes").stdout == (
        "erased, of acme: HOLD-7, all versions\n"
        "  1 version, 1 passage, 1 span, 0 vectors\n"
        "  packets that rest on it: 1, with 0 drafts\n"
        "  texts of 0 traces\n"
        "  contracts that quote it, and stay: 0\n"
        "dead rows, old WAL and backups still have it: README, Erasing\n"
    )
    shown = as_acme(gateway, "packet", "show", packet["packet_id"])
    assert shown.returncode == 0
    assert "evidence erased: neither valid nor broken" in shown.stdout
    assert "evidence erased" in as_acme(gateway, "packet", "list").stdout
    file = tmp_path / "packet.json"
    file.write_text(as_acme(gateway, "packet", "show", packet["packet_id"], "--json").stdout, "utf-8")
    document = json.loads(file.read_text("utf-8"))
    assert (document["digest"], document["preimage"]) == (packet["digest"], packet["preimage"])
    for ran in (
        rag_sql("packet", "verify", file),
        as_acme(gateway, "approve", packet["packet_id"], "--check"),
        as_acme(gateway, "approve", packet["packet_id"], "--shown", "00", login="acme_reviewer"),
        as_acme(gateway, "trace", "record", packet["packet_id"]),
    ):
        assert (ran.returncode, ran.stdout) == (5, "")
        assert ran.stderr.startswith(
            f"error: EvidenceErased RS063: the evidence of packet {packet['packet_id']} was erased\n"
        )
    loaded = as_acme(gateway, "load", SEED / "acme", login="acme_curator")
    assert loaded.returncode == 1
    assert "FileRefused RS028: " in loaded.stderr


def test_versions_and_a_tenant_are_erased_and_json_says_what(gateway: Database, packet: Any) -> None:
    said = in_json(erase(gateway, "HOLD-7", "--version", "2", "--yes", "--json"))
    assert said == {
        "tenant": "acme", "document_id": "HOLD-7", "reason": "request 17", "versions": 1, "passages": 1, "spans": 1,
        "vectors": 0, "packets": 1, "approvals": 0, "traces": 0, "contracts": 0,
    }  # fmt: skip
    said = in_json(erase(gateway, "--all", "--yes", "--json"))
    assert (said["document_id"], said["packets"]) == (None, 1)
    document = in_json(as_acme(gateway, "packet", "show", packet["packet_id"], "--json"))
    assert (document["digest"], document["preimage"], document["case_facts"]) == (packet["digest"], None, {})


def test_who_is_not_at_a_terminal_says_yes_or_erases_nothing(gateway: Database) -> None:
    ran = erase(gateway, "HOLD-7")
    assert ran.returncode == 2
    assert "--yes" in ran.stderr
    with gateway.engine(SUPERUSER) as engine:
        assert _admin.erase_document(engine, "acme", "HOLD-7", reason="x", dry_run=True).versions == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--yes"], 2, "name a document, or --all"),
        (["HOLD-7", "--all", "--yes"], 2, "name a document, or --all"),
        (["--all", "--version", "2", "--yes"], 2, "goes with a document"),
        (["NOTHING", "--yes"], 1, 'VersionNotFound RS022: no document "NOTHING"'),
        (["HOLD-7", "--version", "9", "--yes"], 1, 'VersionNotFound RS022: no version 9 of document "HOLD-7"'),
    ],
)
def test_what_cannot_be_erased_is_refused(gateway: Database, arguments: list[str], code: int, said: str) -> None:
    ran = erase(gateway, *arguments)
    assert ran.returncode == code
    assert said in ran.stderr


def test_no_run_time_login_erases(gateway: Database) -> None:
    ran = erase(gateway, "HOLD-7", "--yes", login="acme_curator")
    assert ran.returncode == 1
    assert "NotAllowed RS003: this login administers no store" in ran.stderr
