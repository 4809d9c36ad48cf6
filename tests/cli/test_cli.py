"""The command line against a real server, as the program that people run: output, errors and exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rag_sql import Claim, _files, errors
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
    environment = {"COLUMNS": "200", "NO_COLOR": "1", "RAG_SQL_DATABASE_URL": url}
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.stdout, result.stderr, result.exit_code)


def in_json(result: Ran) -> Any:
    return json.loads(result.stdout)


def test_a_url_that_nobody_filled_in_is_no_wish_for_the_embedded_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_SQL_DATABASE_URL", "")
    result = CliRunner().invoke(app, ["status"])
    assert result.exit_code == 2
    assert "RAG_SQL_DATABASE_URL is empty" in result.stderr


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


def test_a_service_acts_for_its_tenants_by_a_key(gateway: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, service = gateway.url(SUPERUSER), gateway.url("service")
    made = rag_sql("tenant", "key", "add", "service", "--group", "reader", "--days", "2", url=admin)
    assert re.fullmatch(r"[0-9a-f]{12}\.[0-9a-f]{64}\n", made.stdout)
    key_id = made.stdout.partition(".")[0]
    assert f"key {key_id} of service, valid until " in made.stderr
    listed = rag_sql("tenant", "key", "list", url=admin).stdout
    assert (key_id in listed, made.stdout.strip()[-64:] in listed) == (True, False)
    (found,) = (
        row for row in in_json(rag_sql("tenant", "key", "list", "--json", url=admin)) if row["key_id"] == key_id
    )
    assert set(found) == {"key_id", "login", "expires_at", "recorded_at"}

    for tenant in ("acme", "northwind"):
        assert "RS001" in rag_sql("contract", "list", "--tenant", tenant, url=service).stderr
        monkeypatch.setenv("RAG_SQL_TENANT_KEY", made.stdout)
        assert rag_sql("contract", "list", "--tenant", tenant, url=service).returncode == 0
        monkeypatch.delenv("RAG_SQL_TENANT_KEY")
    assert rag_sql("tenant", "key", "revoke", key_id, url=admin).returncode == 0
    monkeypatch.setenv("RAG_SQL_TENANT_KEY", made.stdout)
    assert "RS004" in rag_sql("contract", "list", "--tenant", "acme", url=service).stderr
    as_json = in_json(rag_sql("tenant", "key", "add", "service", "--json", url=admin))
    assert as_json["key"].startswith(f"{as_json['key_id']}.")


def test_the_demo_fails_when_a_statement_does_not_hold(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlalchemy as sa

    from rag_sql import _demo

    monkeypatch.setitem(_demo._EXPECTED, "K=1", ([], ["GW-241"], []))
    result = _demo.run(sa.make_url(server.embedded.url(SUPERUSER, "postgres")))
    assert not result.holds
    assert [check.name for check in result.checks if not check.holds] == ["K=1"]


def listed(url: str) -> dict[str, Any]:
    """Tenants, by name."""
    return {row["tenant"]: row for row in in_json(rag_sql("tenant", "list", "--json", url=url))}


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
        acme = listed(admin)["acme"]
        assert (acme["logins"], acme["read_only"]) == (["acme_curator", "acme_reviewer"], [])

        assert rag_sql("tenant", "grant", "acme", "acme_reader", "--read-only", url=admin).returncode == 0
        acme = listed(admin)["acme"]
        assert (acme["logins"], acme["read_only"]) == (
            ["acme_curator", "acme_reader", "acme_reviewer"],
            ["acme_reader"],
        )
        assert "acme_reader (only reads)" in rag_sql("tenant", "list", url=admin).stdout

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
        assert "applies to firmware 2.4.0; the case has 2.4.1" in explained.stdout

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


@contextmanager
def at_a_terminal(database: Database) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A reviewer's program that has asked its question: the terminal to answer at, and the process."""
    with database.tenant("acme_reader") as acme:
        packet_id = acme.record_packet(QUESTION, query=QUERY, case={"model": "G2", "firmware": "2.4.1"}, k=2).packet_id
    main, terminal = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", "from rag_sql.cli import main; main()", "approve", packet_id, "-t", "acme"],
        env={**os.environ, "RAG_SQL_DATABASE_URL": database.url("acme_reviewer")},
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    asked = ""
    while not asked.endswith("[y/N]:"):
        letter = program.stderr.read(1)
        assert letter, asked
        asked += letter
    yield main, program
    os.close(main)
    os.close(terminal)


@pytest.mark.parametrize(
    ("answer", "code", "said", "status"),
    [(b"y\n", 0, "", "approved"), (b"n\n", 1, "nothing was decided\n", None), (None, 130, "interrupted\n", None)],
    ids=["yes", "no", "Ctrl-C"],
)
def test_a_reviewer_at_a_terminal_is_asked(
    gateway: Database, answer: bytes | None, code: int, said: str, status: str | None
) -> None:
    with at_a_terminal(gateway) as (terminal, program):
        if answer is None:
            program.send_signal(signal.SIGINT)
        else:
            os.write(terminal, answer)
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err.lstrip("\n")) == (code, said), out
    assert ("approved: decision 1" in out) == (status is not None)
    with gateway.tenant("acme_reader") as acme:
        assert [row.status for row in acme.approvals()] == [status] * (status is not None)


def test_the_program_ends_quietly_when_nobody_reads_on_and_in_words_when_it_fails(shared_gateway: Database) -> None:
    """As a process: what the entry point does."""
    program = [sys.executable, "-c", "from rag_sql.cli import main; main()"]
    environment = {**os.environ, "RAG_SQL_DATABASE_URL": shared_gateway.url("acme_reader")}
    for form in ([], ["--json"]):
        explain = subprocess.Popen(
            [*program, "explain", *ASK, "-t", "acme", *form],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert explain.stdout is not None
        explain.stdout.close()
        _, said = explain.communicate(timeout=60)
        assert (explain.returncode, said) == (1, b"")
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


# Errors, in words


def test_an_error_has_code_what_where_and_what_to_do(gateway: Database, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("---\nid: A\nspans:\n  - {id: s, fact: f, quote: Not there}\n---\nText.\n")
    result = rag_sql("load", path, "-t", "acme", url=gateway.url("acme_curator"))
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        f'error: FileRefused RS023: {path}:4: span "s" quotes text that is not in the body of "A" version 1',
        "  Quotation: Not there",
        "hint: Copy the quotation from the body character by character; line breaks and typographic quotes count.",
    ]


def test_wrong_usage_is_shown_with_the_usage(shared_gateway: Database) -> None:
    result = rag_sql("ask", QUESTION, url=shared_gateway.url("acme_reader"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "Usage:" in result.stderr
    assert "--query" in result.stderr


def test_a_traceback_comes_with_debug_only(shared_gateway: Database) -> None:
    arguments = ["ask", QUESTION, "--query", "x", "-t", "northwind"]
    url = shared_gateway.url("acme_reader")
    assert "Traceback" not in rag_sql(*arguments, url=url).stderr
    with pytest.raises(errors.TenantNotBound):
        rag_sql("--debug", *arguments, url=url)


@pytest.mark.parametrize("as_json", [False, True], ids=["in words", "as JSON"])
def test_a_fault_of_our_own_is_called_one(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    def broken(_: object) -> None:
        raise KeyError("left out")

    monkeypatch.setattr(_files, "find_files", broken)
    result = rag_sql("load", ".", "-t", "acme", *(["--json"] if as_json else []), url="postgresql://nobody@/none")
    assert (result.returncode, result.stdout) == (1, "")
    hint = "This is a fault of rag-sql: please report what `rag-sql --debug ...` prints."
    if as_json:
        said = json.loads(result.stderr)
        assert (said["error"], said["message"], said["hint"]) == ("KeyError", "'left out'", hint)
    else:
        assert result.stderr == f"error: KeyError: 'left out'\nhint: {hint}\n"


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_one_that_its_shell_takes(shell: str) -> None:
    result = rag_sql("completion", shell)
    assert (result.returncode, result.stderr) == (0, "")
    assert "rag-sql" in result.stdout
    assert "_RAG_SQL_COMPLETE=complete_" + shell in result.stdout
    if program := shutil.which(shell):  # each shell reads a script without running it with -n
        subprocess.run([program, "-n"], input=result.stdout, text=True, check=True)


def test_the_shell_at_hand_is_the_default_and_another_is_no_shell_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert rag_sql("completion").stdout == rag_sql("completion", "fish").stdout
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert rag_sql("completion").returncode == 2
    assert rag_sql("completion", "tcsh").returncode == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash, to press the key in")
@pytest.mark.parametrize(
    ("words", "expected"),
    [(["rag-sql", "pac"], {"packet"}), (["rag-sql", "packet", ""], {"show", "verify", "list", "export"})],
)
def test_bash_completes_commands(tmp_path: Path, words: list[str], expected: set[str]) -> None:
    program = tmp_path / "rag-sql"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom rag_sql.cli import main\nsys.argv[0] = 'rag-sql'\nmain()\n"
    )
    program.chmod(0o755)
    typed = " ".join(f"'{word}'" for word in words)
    script = rag_sql("completion", "bash").stdout
    script += f"\nCOMP_WORDS=({typed}) COMP_CWORD={len(words) - 1}\n_rag_sql_completion {program}\n"
    script += 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    found = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True)
    assert set(found.stdout.split()) == expected, found.stderr


def test_a_question_that_only_a_person_can_decide_has_an_exit_code_of_its_own(
    gateway: Database, tmp_path: Path
) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(
        (SEED / "contract.yaml").read_text("utf-8").replace(QUESTION, "rollback-approval")
        + "decision:\n  about: whether the firmware may be rolled back\n  decided_by: the auditor\n"
        "  refer: Ask the auditor.\n  never_say: [You may roll back the firmware.]\n",
        "utf-8",
    )
    url = gateway.url("acme_curator")
    assert rag_sql("contract", "add", path, "--tenant", "acme", url=url).returncode == 0
    asked = ("ask", "rollback-approval", "--tenant", "acme", "--query", QUERY, "--k", "2")
    ran = rag_sql(*asked, "--case", "model=G2", "--case", "firmware=2.4.1", url=url)
    assert ran.returncode == 6
    assert "only a person decides: whether the firmware may be rolled back (decided by the auditor)" in ran.stdout
    assert "Ask the auditor." in ran.stdout


def test_a_version_is_taken_out_of_use(gateway: Database) -> None:
    url = gateway.url("acme_curator")
    ran = rag_sql("withdraw", "HOLD-7", "2", "--tenant", "acme", "--note", "wrong customer", url=url)
    assert (ran.returncode, ran.stdout) == (0, "HOLD-7 version 2 is withdrawn\n")
    with gateway.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        row = connection.execute("select document_id, version, note from rag_api.withdrawal").fetchone()
        assert row == ("HOLD-7", 2, "wrong customer")
        assert connection.execute("select from rag_api.document where document_id = 'HOLD-7'").fetchone() is None
    announced = rag_sql("withdraw", "HOLD-7", "2", "--tenant", "acme", "--from", "2025-01-01", "--json", url=url)
    assert in_json(announced)["withdrawn_from"] == "2025-01-01T00:00:00+00:00"
    missing = rag_sql("withdraw", "HOLD-7", "99", "--tenant", "acme", url=url)
    assert (missing.returncode, "VersionNotFound RS022" in missing.stderr) == (1, True)
