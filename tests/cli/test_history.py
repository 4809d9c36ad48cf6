"""Successors on the command line, and the history of a document."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.test_cli import ASK, in_json, rag_sql
from tests.conftest import SEED, Database


def test_a_document_is_superseded_and_explain_says_by_which(gateway: Database) -> None:
    url = gateway.url("acme_curator")
    ran = rag_sql("supersede", "HOLD-7", "--by", "HOLD-8", "--by", "HOLD-9", "-t", "acme", "--note", "split", url=url)
    assert (ran.returncode, ran.stdout) == (0, "HOLD-7 is superseded by HOLD-8, HOLD-9\n")
    explained = rag_sql("explain", *ASK, "-t", "acme", "--k", "2", url=gateway.url("acme_reader"))
    assert "superseded by HOLD-8, HOLD-9" in explained.stdout
    (row,) = [
        row
        for row in in_json(rag_sql("explain", *ASK, "-t", "acme", "--json", url=gateway.url("acme_reader")))
        if row["document_id"] == "HOLD-7"
    ]
    assert (row["reason"], row["successors"]) == ("superseded", ["HOLD-8", "HOLD-9"])
    missing = rag_sql("supersede", "HOLD-99", "--by", "HOLD-8", "-t", "acme", url=url)
    assert (missing.returncode, "VersionNotFound RS022" in missing.stderr) == (1, True)
    itself = rag_sql("supersede", "HOLD-7", "--by", "HOLD-7", "-t", "acme", url=url)
    assert (itself.returncode, "InvalidRequest RS010" in itself.stderr) == (1, True)


def test_a_succession_is_announced(gateway: Database) -> None:
    url = gateway.url("acme_curator")
    announced = ("supersede", "HOLD-7", "--by", "HOLD-8", "-t", "acme", "--from", "2999-01-01", "--json")
    assert in_json(rag_sql(*announced, url=url))["superseded_from"] == "2999-01-01T00:00:00+00:00"
    shown = rag_sql("history", "HOLD-7", "-t", "acme", url=url)
    assert "to be superseded by HOLD-8 from 2999-01-01 00:00, recorded" in shown.stdout
    assert "current" in shown.stdout


def test_a_file_states_successors_and_a_load_counts_what_is_superseded(gateway: Database, tmp_path: Path) -> None:
    url = gateway.url("acme_curator")
    path = tmp_path / "old.md"
    path.write_text("---\nid: OLD\nversion: 1\nsuccessors: NEW\nsuperseded_from: 2026-01-01\n---\nReset it.\n")
    loaded = in_json(rag_sql("load", path, "-t", "acme", "--json", url=url))
    assert (loaded["new"], loaded["superseded"]) == (1, 1)
    assert in_json(rag_sql("load", path, "-t", "acme", "--json", url=url))["same"] == 1
    (version,) = in_json(rag_sql("history", "OLD", "-t", "acme", "--json", url=url))
    assert [row["successor_id"] for row in version["successions"]] == ["NEW"]


def test_the_history_shows_what_each_version_changed(gateway: Database) -> None:
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 3, note="too early")
        acme.load_documents([{"id": "HOLD-7", "version": 4, "body": "Nothing is held."}])
    url = gateway.url("acme_reader")
    shown = rag_sql("history", "HOLD-7", "-t", "acme", url=url)
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "HOLD-7 (acme)"
    assert "superseded, withdrawn from" in shown.stdout
    assert "too early" in shown.stdout
    assert [line for line in lines if line.startswith("version ") and "->" in line] == [
        "version 2 -> version 3",
        "version 3 -> version 4",
    ]
    assert [line.split(":")[0] for line in lines if " span for " in line] == [
        "  - span for audit-constraint",
        "  + span for audit-constraint",
        "  - span for audit-constraint",
    ]
    assert "+Nothing is" in shown.stdout
    assert "+Nothing is" not in rag_sql("history", "HOLD-7", "-t", "acme", "--no-diff", url=url).stdout
    found = in_json(rag_sql("history", "HOLD-7", "-t", "acme", "--json", url=url))
    assert [(row["version"], row["status"]) for row in found] == [(2, "superseded"), (3, "superseded"), (4, "current")]
    assert found[0]["diff"] is None
    assert [run for run in found[2]["diff"] if run[0] != "-"] == [["+", "Nothing"], [" ", "is"], ["+", "held."]]
    assert not [row for row in found if "body" in row]
    assert "diff" not in in_json(rag_sql("history", "HOLD-7", "-t", "acme", "--no-diff", "--json", url=url))[0]


@pytest.mark.parametrize(
    ("body", "said"), [("One  two.\n", "the same words; white space differs"), ("One two.", "the same text")]
)
def test_what_changed_in_no_word_is_said(gateway: Database, body: str, said: str) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "D", "version": 1, "body": "One two."}, {"id": "D", "version": 2, "body": body}])
    assert f"  {said}\n" in rag_sql("history", "D", "-t", "acme", url=gateway.url("acme_reader")).stdout


def test_a_history_of_what_is_not_there_is_an_error(shared_gateway: Database) -> None:
    ran = rag_sql("history", "PRIVATE", "-t", "acme", url=shared_gateway.url("acme_reader"))
    assert (ran.returncode, 'VersionNotFound RS022: no document "PRIVATE"' in ran.stderr) == (1, True)


def test_what_is_asked_for_an_instant_is_answered_for_it(gateway: Database) -> None:
    url = gateway.url("acme_curator")
    with gateway.tenant("acme_curator") as acme:
        acme.supersede("HOLD-7", ["HOLD-8"], superseded_from=datetime(2900, 1, 1, tzinfo=UTC))
    assert "superseded by HOLD-8" not in rag_sql("explain", *ASK, "-t", "acme", url=url).stdout
    then = ("--valid-at", "2900-01-01")
    assert "superseded by HOLD-8" in rag_sql("explain", *ASK, "-t", "acme", *then, url=url).stdout
    assert rag_sql("ask", *ASK, "-t", "acme", "--k", "2", url=url).returncode == 0
    assert rag_sql("ask", *ASK, "-t", "acme", "--k", "2", *then, url=url).returncode == 3
    assert "HOLD-7" in rag_sql("search", "audit hold", "-t", "acme", "-c", "model=G2", url=url).stdout
    assert "HOLD-7" not in rag_sql("search", "audit hold", "-t", "acme", "-c", "model=G2", *then, url=url).stdout
    before = rag_sql("history", "HOLD-7", "-t", "acme", "--known-at", "2020-01-01", url=url)
    assert (before.returncode, "VersionNotFound RS022" in before.stderr) == (1, True)
    wrong = rag_sql("explain", *ASK, "-t", "acme", "--known-at", "yesterday", url=url)
    assert (wrong.returncode, "is no instant" in wrong.stderr) == (2, True)
