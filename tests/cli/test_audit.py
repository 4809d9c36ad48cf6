"""The command that audits an answer: what it prints, its exit codes, and the files it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import Ran, in_json, rag_sql

SOURCES = {"P1": "Submit travel receipts within 14 days of the trip."}


@pytest.fixture
def audit(tmp_path: Path) -> Any:
    """Write a file and audit it."""

    def run(content: Any, *options: str) -> Ran:
        path = tmp_path / "answer.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return rag_sql("audit", path, *options)

    return run


def test_a_contradicted_answer_is_rejected_with_both_values(audit: Any) -> None:
    result = audit({"answer": "Receipts are due within 30 days [P1].", "sources": SOURCES})
    assert result.returncode == 1
    assert "contradicted: Receipts are due within 30 days [P1]." in result.stdout
    assert "'30 days': the cited passages say 14 days" in result.stdout
    assert "P1: 14 days" in result.stdout


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Receipts are due within 14 days [P1].", 0),
        ("Receipts are due within 14 days.", 3),
        ("You may submit receipts within 14 days [P1].", 3),
        ("Submit them [P1].", 3),
        ("Receipts are due within 14 days [P9].", 1),
    ],
    ids=["nothing found", "uncited", "review", "unchecked", "an invented label"],
)
def test_the_exit_code_says_who_has_to_act(audit: Any, answer: str, code: int) -> None:
    assert audit({"answer": answer, "sources": SOURCES}).returncode == code


def test_the_report_in_json_has_positions_and_denominators(audit: Any) -> None:
    report = in_json(audit({"answer": "Receipts are due within 30 days [P1].", "sources": SOURCES}, "--json"))
    (sentence,) = report["sentences"]
    (finding,) = sentence["findings"]
    assert (report["verdict"], report["rejected"], report["sentence_count"]) == ("contradicted", True, 1)
    assert (finding["start"], finding["end"], finding["said"]) == (24, 31, "30 days")
    start = SOURCES["P1"].index("14 days")
    assert finding["held"] == [{"label": "P1", "start": start, "end": start + 7, "text": "14 days"}]
    assert {"check": "numbers", "bears_on": 1, "found_in": 1} in report["checks"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"answer":\n oops}', "answer.json:2: is not JSON"),
        ("[]", "is not an object with the keys answer and sources"),
        ({"answer": "x"}, "is not an object with the keys answer and sources"),
        ({"answer": 3, "sources": {}}, "answer is not a text"),
        ({"answer": "x", "sources": {"P1": None}}, "sources is not an object of texts by label"),
        ({"answer": "...", "sources": SOURCES}, "NothingToAudit"),
        ({"answer": "It is so [P1].", "sources": {"P1": " "}}, "PassageWithoutText"),
    ],
)
def test_a_file_that_cannot_be_audited_is_refused(audit: Any, content: Any, reason: str) -> None:
    result = audit(content)
    assert (result.returncode, result.stdout) == (1, "")
    assert reason in result.stderr


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = rag_sql("audit", tmp_path / "absent.json")
    assert (result.returncode, result.stdout) == (1, "")
    assert "cannot be read" in result.stderr
