"""``rag-sql eval``: the table of cases by stage, what a model is given, and what becomes of its answers.

What each stage finds stands in tests/api/test_evaluation.py, sets that are refused in mistakes.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rag_sql import _files, _resources
from tests.cli.test_cli import Ran, in_json, rag_sql
from tests.conftest import Database, Server

TRAVEL = _resources.find("seed") / "travel"


@pytest.fixture(scope="module")
def travel(server: Server, installed_template: Database) -> Iterator[Database]:
    database = server.create(installed_template.name)
    database.load("acme_curator", TRAVEL / "policy", passage_target=20, passage_limit=40)
    with database.tenant("acme_curator") as acme:
        for name in ("receipt-deadline.yaml", "late-receipt.yaml"):
            question, version, content, _ = _files.read_contract(TRAVEL / name, "acme")
            acme.add_contract(question, version, content)
    yield database
    server.drop(database)


def evaluated(database: Database, *options: str | Path) -> Ran:
    ran = rag_sql("eval", TRAVEL / "evaluation.yaml", "--tenant", "acme", *options, url=database.url("acme_reader"))
    assert ran.stderr == ""
    return ran


def rows(ran: Ran) -> list[list[str]]:
    return [[cell for cell in line.split("  ") if cell.strip()] for line in ran.stdout.splitlines()]


def test_good_answers_pass_every_stage_and_each_stage_has_its_total(travel: Database) -> None:
    ran = evaluated(travel)
    assert ran.returncode == 0
    found = [[cell.strip() for cell in row] for row in rows(ran)]
    assert found[:2] == [
        ["case", "kind", "retrieved", "in context", "covered", "cited", "audit"],
        ["deadline", "current rule", "pass", "pass", "pass", "pass", "pass"],
    ]
    assert found[-5:] == [[stage, "4", "0", "0"] for stage in ("retrieved", "in context", "covered", "cited", "audit")]
    assert "not as expected" not in ran.stdout


def test_a_wrong_answer_fails_in_its_column_and_what_is_wrong_is_listed(travel: Database, tmp_path: Path) -> None:
    good = {case["id"]: case["answer"] for case in in_json(evaluated(travel, "--json"))["cases"]}
    wrong = {**good, "thirty-days": "Submit travel receipts within 30 days [P1]."}
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"id": case, "answer": answer}) + "\n" for case, answer in wrong.items()), "utf-8"
    )
    ran = evaluated(travel, "--answers", tmp_path / "a.jsonl")
    assert ran.returncode == 1
    found = [[cell.strip() for cell in row] for row in rows(ran)]
    assert ["thirty-days", "superseded trap", "pass", "pass", "pass", "pass", "fail"] in found
    assert [row[:3] for row in found if row[0] == "thirty-days"][1:] == [
        ["thirty-days", "audit", "not said"],
        ["thirty-days", "audit", "said"],
        ["thirty-days", "audit", "contradicted"],
    ]
    assert ["audit", "3", "1", "0"] in found
    assert "the cited passages say 14 days" in ran.stdout


def test_json_has_what_a_model_needs_and_its_answers_are_judged(travel: Database, tmp_path: Path) -> None:
    """The team's own program between: here one that says the first sentence of each passage it is given."""
    handed_out = in_json(evaluated(travel, "--json"))["cases"]
    with (tmp_path / "answers.jsonl").open("w", encoding="utf-8") as file:
        for case in handed_out:
            said = [f"{p['text'].split(chr(10) * 2)[-2].split('. ')[0]} [{p['label']}]." for p in case["context"][:2]]
            refer = (case["needed_decision"] or {}).get("refer", "")
            print(json.dumps({"id": case["id"], "answer": " ".join([*said, refer])}), file=file)
    ran = evaluated(travel, "--answers", tmp_path / "answers.jsonl", "--json")
    found = {case["id"]: case["stages"] for case in in_json(ran)["cases"]}
    assert found["from-abroad"] == dict.fromkeys(("retrieved", "in_context", "covered", "cited", "audit"), "pass")
    assert {stages["cited"] for stages in found.values()} == {"pass"}


def test_an_answer_that_stays_away_is_named_and_is_not_as_expected(travel: Database, tmp_path: Path) -> None:
    content = yaml.load((TRAVEL / "evaluation.yaml").read_text("utf-8"), yaml.BaseLoader)
    answers = {case["id"]: case["answer"].pop("text") for case in content["cases"]}
    (tmp_path / "set.yaml").write_text(yaml.safe_dump(content), "utf-8")
    del answers["deadline"]
    (tmp_path / "answers.jsonl").write_text(
        "\n".join(json.dumps({"id": case, "answer": answer}) for case, answer in answers.items()), "utf-8"
    )
    arguments = ("eval", tmp_path / "set.yaml", "--tenant", "acme")
    without = rag_sql(*arguments, url=travel.url("acme_reader"))
    assert (without.returncode, without.stdout.count("not judged")) == (0, 2 * 4 + 1)
    partly = rag_sql(*arguments, "--answers", tmp_path / "answers.jsonl", url=travel.url("acme_reader"))
    assert (partly.returncode, partly.stdout.splitlines()[-1]) == (1, "no answer: deadline")
