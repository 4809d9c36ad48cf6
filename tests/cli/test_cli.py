"""The command line against a real server, as the program that people run: output, errors and exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rag_sql import Claim
from rag_sql._embedded import SUPERUSER
from rag_sql.cli import app
from tests.conftest import QUERY, QUESTION, SEED, Database, Server

ASK = [QUESTION, "--query", QUERY, "--case", "model=G2", "--case", "firmware=2.4.1"]


@dataclass(frozen=True)
class Ran:
    """A run inside this process: the same program without the cost of starting it."""

    stdout: str
    stderr: str
    returncode: int


def rag_sql(*arguments: str | Path, url: str | None = None, stdin: str | None = None) -> Ran:
    environment = {"COLUMNS": "200", "NO_COLOR": "1", "RAG_SQL_DATABASE_URL": url or ""}
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.stdout, result.stderr, result.exit_code)


def in_json(result: Ran) -> Any:
    return json.loads(result.stdout)


def test_the_demo_runs_in_a_database_of_its_own_and_agrees_with_the_article(server: Server) -> None:
    url = server.embedded.url(SUPERUSER, "postgres")
    result = rag_sql("demo", url=url)
    assert result.returncode == 0, result.stderr
    for line in (
        "K=2 take-then-filter: []  filter-then-take: [GW-241, HOLD-7]  missing=",
        "K=1 take-then-filter: []  filter-then-take: [GW-241]  missing=audit-constraint",
        "K=3 take-then-filter: [GW-241]  filter-then-take: [GW-241, HOLD-7, G2-USB]  missing=",
        "changed quote, old tag: missing=audit-constraint",
        "version bump only: missing=[] snapshot ev-",
        "question gateway-free-question: UnsupportedQuestion",
        "withheld: the rule does not license this sentence",
        "withheld: cited source is not in the selected evidence",
        "approval: accepted: decision 1",
        "StaleApproval: HOLD-7 (acme): version 2",
        "northwind's login asserts acme: TenantNotBound",
        "all hold",
    ):
        assert line in result.stdout
    left = server.maintenance.execute(
        "select (select count(*) from pg_database where datname like 'rag_sql_demo%'),"
        " (select count(*) from pg_roles where rolname like 'acme_reader_%')"
    ).fetchone()
    assert left == (0, 0)


def test_the_demo_fails_when_a_statement_does_not_hold(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlalchemy as sa

    from rag_sql import _demo

    monkeypatch.setitem(_demo._EXPECTED, "K=1", ([], ["GW-241"], []))
    result = _demo.run(sa.make_url(server.embedded.url(SUPERUSER, "postgres")))
    assert not result.holds
    assert [check.name for check in result.checks if not check.holds] == ["K=1"]


def test_from_an_empty_database_to_an_approval_that_dies(server: Server, tmp_path: Path) -> None:
    """Every command once, in the order in which a team meets them."""
    database = server.create()
    admin, desk = database.url(SUPERUSER), database.url("acme_curator")
    try:
        assert rag_sql("status", url=admin).returncode == 1
        assert "current" in rag_sql("install", url=admin).stdout
        assert in_json(rag_sql("status", "--json", url=admin))["state"] == "current"
        assert rag_sql("upgrade", url=admin).returncode == 0
        assert rag_sql("tenant", "add", "acme", url=admin).returncode == 0
        assert rag_sql("tenant", "add", "Not a slug", url=admin).returncode == 1
        for login, tenant, group in (
            ("acme_curator", "acme", "curator"),
            ("acme_reviewer", "acme", "reviewer"),
            ("publisher", "public", "publisher"),
        ):
            granted = rag_sql("tenant", "grant", tenant, login, "--group", group, url=admin)
            assert granted.returncode == 0, granted.stderr
        refused = rag_sql("tenant", "grant", "acme", SUPERUSER, url=admin)
        assert (refused.returncode, "RS083" in refused.stderr) == (1, True)
        assert {"tenant": "acme", "logins": ["acme_curator", "acme_reviewer"]} in in_json(
            rag_sql("tenant", "list", "--json", url=admin)
        )

        publisher = database.url("publisher")
        assert "4 new" in rag_sql("load", SEED / "public", "--tenant", "public", url=publisher).stdout
        assert in_json(rag_sql("load", SEED / "acme", "--tenant", "acme", "--json", url=desk))["new"] == 1
        assert "1 same" in rag_sql("load", SEED / "acme", "--tenant", "acme", url=desk).stdout
        assert "new" in rag_sql("contract", "add", SEED / "contract.yaml", "--tenant", "public", url=publisher).stdout

        assert rag_sql("ask", "nope", "--query", "x", "--tenant", "acme", url=desk).returncode == 4
        assert rag_sql("ask", *ASK, "--k", "1", "--tenant", "acme", url=desk).returncode == 3
        answer = rag_sql("ask", *ASK, "--k", "2", "--tenant", "acme", url=desk)
        assert answer.returncode == 0
        assert "please send us a diagnostic export" in answer.stdout
        explained = rag_sql("explain", *ASK, "--k", "2", "--tenant", "acme", url=desk)
        assert "firmware: applies to 2.4.0, the case is 2.4.1" in explained.stdout

        packet_id = in_json(rag_sql("ask", *ASK, "--k", "2", "-t", "acme", "--record", "--json", url=desk))["packet_id"]
        document = tmp_path / "packet.json"
        document.write_text(rag_sql("packet", "show", packet_id, "-t", "acme", "--json", url=desk).stdout)
        assert "the evidence of packet" in rag_sql("packet", "verify", document).stdout
        forged = tmp_path / "forged.json"
        forged.write_text(document.read_text().replace("do not roll back", "roll back"))
        verified = rag_sql("packet", "verify", forged)
        assert verified.returncode == 1
        assert "does not have its hash" in verified.stderr

        reviewer = database.url("acme_reviewer")
        assert rag_sql("approve", packet_id, "-t", "acme", "--check", url=desk).returncode == 5
        unseen = rag_sql("approve", packet_id, "-t", "acme", url=reviewer, stdin="")
        assert unseen.returncode == 2
        shown = unseen.stdout.split("shown")[-1].split()[0]
        other = rag_sql("approve", packet_id, "-t", "acme", "--shown", "00", url=reviewer)
        assert (other.returncode, "PresentationChanged" in other.stderr) == (1, True)
        approved = rag_sql("approve", packet_id, "-t", "acme", "--shown", shown, "--as", "Ann", url=reviewer)
        assert "approved: decision 1" in approved.stdout, approved.stderr
        assert rag_sql("approve", packet_id, "-t", "acme", "--check", url=desk).returncode == 0

        change = SEED / "changes" / "HOLD-7-v4-same-quotation.md"
        assert rag_sql("load", change, "-t", "acme", url=desk).returncode == 0
        stale = rag_sql("approve", packet_id, "-t", "acme", "--check", url=desk)
        assert stale.returncode == 5
        assert "StaleApproval RS062" in stale.stderr
        assert "HOLD-7 (acme): version 2, spans: s1 -> version 4, spans: s1" in stale.stderr
        assert rag_sql("tenant", "revoke", "acme", "acme_curator", url=admin).returncode == 0
        assert "RS001" in rag_sql("ask", *ASK, "-t", "acme", url=desk).stderr
    finally:
        server.drop(database)


def test_a_reviewer_at_a_terminal_is_asked(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet_id = acme.record_packet(QUESTION, query=QUERY, case={"model": "G2", "firmware": "2.4.1"}, k=2).packet_id
    main, terminal = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", "from rag_sql.cli import main; main()", "approve", packet_id, "-t", "acme"],
        env={**os.environ, "RAG_SQL_DATABASE_URL": gateway.url("acme_reviewer")},
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(main, b"y\n")
    out, err = program.communicate(timeout=60)
    os.close(main)
    os.close(terminal)
    assert program.returncode == 0, err
    assert "approved: decision 1" in out


def test_the_program_ends_quietly_when_nobody_reads_on_and_in_words_when_it_fails(shared_gateway: Database) -> None:
    """As a process: what the entry point does."""
    program = [sys.executable, "-c", "from rag_sql.cli import main; main()"]
    environment = {**os.environ, "RAG_SQL_DATABASE_URL": shared_gateway.url("acme_reader")}
    explain = subprocess.Popen(
        [*program, "explain", *ASK, "-t", "acme"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert explain.stdout is not None
    explain.stdout.close()
    _, said = explain.communicate(timeout=60)
    assert said == b""
    failed = subprocess.run(
        [*program, "ask", QUESTION, "-q", "x", "-t", "northwind"], env=environment, capture_output=True, check=False
    )
    assert failed.returncode == 1
    assert failed.stdout == b""
    assert failed.stderr.startswith(b"error: TenantNotBound RS001: ")
    assert b"Traceback" not in failed.stderr


def test_a_draft_in_which_nothing_is_licensed_is_not_approved_and_what_is_withheld_is_said(
    gateway: Database, tmp_path: Path
) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case={"model": "G2", "firmware": "2.4.1"}, k=2)
        claims = [Claim(**claim) for claim in json.loads((SEED / "claims.json").read_text("utf-8"))]
        shown = {count: acme.review(packet.packet_id, claims[-count:]).shown_digest for count in (1, 3)}
    url = gateway.url("acme_reviewer")
    for count in (1, 3):
        path = tmp_path / f"{count}.json"
        path.write_text(json.dumps([vars(claim) for claim in claims[-count:]]))
        options = (packet.packet_id, "-t", "acme", "--claims", path)
        result = rag_sql("approve", *options, "--shown", shown[count], url=url)
        if count == 1:
            assert (result.returncode, "NothingLicensed RS053" in result.stderr) == (1, True)
        else:
            checked = rag_sql("approve", *options, "--check", url=url)
            for found in (result, checked):
                assert found.returncode == 0, found.stderr
                assert "withheld, not to be said: Roll back firmware now." in found.stdout


def test_what_changed_since_is_shown_to_the_reviewer(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case={"model": "G2", "firmware": "2.4.1"}, k=2)
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 2)
    result = rag_sql("approve", packet.packet_id, "-t", "acme", url=gateway.url("acme_reviewer"), stdin="")
    assert "changed since: HOLD-7 (acme): version 2, spans: s1 -> not selected (withdrawn)" in result.stdout


def test_a_folder_without_documents_is_refused(gateway: Database, tmp_path: Path) -> None:
    result = rag_sql("load", tmp_path, "-t", "acme", url=gateway.url("acme_curator"))
    assert (result.returncode, "no Markdown" in result.stderr) == (1, True)
