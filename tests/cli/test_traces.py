"""``rag-sql trace``, on the travel policy: from a packet to what was handed over, and what came back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_sql import _resources
from rag_sql._embedded import SUPERUSER
from tests.cli.test_cli import Ran, in_json, rag_sql
from tests.conftest import Database

TRAVEL = _resources.find("seed") / "travel"
ASKED = ("--query", "travel receipts within days of international trip", "--k", "2")


@pytest.fixture
def travel(store: Database) -> Database:
    url = store.url("acme_curator")
    cut = ("--passage-target", "20", "--passage-limit", "40")
    assert rag_sql("load", TRAVEL / "policy", "--tenant", "acme", *cut, url=url).returncode == 0
    for name in ("receipt-deadline.yaml", "late-receipt.yaml"):
        assert rag_sql("contract", "add", TRAVEL / name, "--tenant", "acme", url=url).returncode == 0
    return store


def as_reader(database: Database, *arguments: str | Path) -> Ran:
    return rag_sql(*arguments, "--tenant", "acme", url=database.url("acme_reader"))


def packet(database: Database, question: str = "receipt-deadline-v1") -> str:
    return str(in_json(as_reader(database, "ask", question, *ASKED, "--record", "--json"))["packet_id"])


def record(database: Database, *options: str, code: int = 0) -> Any:
    ran = as_reader(database, "trace", "record", packet(database), *options, "--json")
    assert ran.returncode == code, ran.stderr
    return in_json(ran)


def required(trace: Any) -> list[str]:
    return [
        option
        for passage in trace["context"]
        if passage["added_as"] == "witness"
        for option in ("--required", f"{passage['document_id']}@{passage['version']}:{passage['range_start']}")
    ]


def answer(database: Database, trace: Any, text: str, folder: Path, *options: str) -> Ran:
    (folder / "answer.txt").write_text(text, "utf-8")
    arguments = ("trace", "answer", trace["trace_id"], folder / "answer.txt", "--model", "m-1", "--prompt-version", "1")
    return as_reader(database, *arguments, *options)


def test_the_rule_and_its_exception_are_handed_over_and_the_superseded_one_is_not(travel: Database) -> None:
    trace = record(travel)
    texts = [passage["text"] for passage in trace["context"]]
    assert "within 14 days" in texts[0]
    assert "within 21 days" in texts[1]
    assert not any("30 days" in text for text in texts)
    shown = as_reader(travel, "trace", "show", trace["trace_id"])
    assert "superseded" in shown.stdout
    printed = as_reader(travel, "trace", "record", packet(travel)).stdout
    assert "[P2] EXPENSES v4" in printed
    assert "(witness) · Travel expenses" in printed


def test_a_budget_that_drops_the_exception_is_a_context_loss_with_exit_code_three(travel: Database) -> None:
    whole = record(travel)
    lost = record(travel, "--budget", "40", code=3)
    assert (lost["outcome"], lost["missing"]) == ("AskForEvidence", ["international-exception"])
    printed = as_reader(travel, "trace", "record", packet(travel), "--budget", "40").stdout
    assert "AskForEvidence, missing: international-exception" in printed
    assert "left out, over budget: EXPENSES v4" in printed
    ran = as_reader(travel, "trace", "diagnose", lost["trace_id"], *required(whole))
    assert (ran.returncode, ran.stdout.split(":")[0]) == (1, "context_loss")
    ran = as_reader(travel, "trace", "diagnose", whole["trace_id"], *required(whole))
    assert (ran.returncode, "does not mean that the answer is right" in ran.stdout) == (0, True)


def test_a_wrong_number_with_good_labels_is_no_finding_of_the_diagnosis_and_rejected_by_the_audit(
    travel: Database, tmp_path: Path
) -> None:
    trace = record(travel)
    ran = answer(travel, trace, "Submit travel receipts within 30 days of the end of the trip [P1].", tmp_path)
    assert ran.returncode == 1
    assert "contradicted" in ran.stdout
    assert "30 days" in ran.stdout
    assert "14 days" in ran.stdout
    assert as_reader(travel, "trace", "diagnose", trace["trace_id"], *required(trace)).returncode == 0


def test_a_label_that_nobody_handed_over_is_found_by_both(travel: Database, tmp_path: Path) -> None:
    trace = record(travel)
    text = "Submit travel receipts within 14 days of the end of the trip [P1, P9]."
    ran = answer(travel, trace, text, tmp_path, "--json")
    assert (ran.returncode, in_json(ran)["verdict"]) == (1, "unknown_citation")
    found = in_json(as_reader(travel, "trace", "diagnose", trace["trace_id"], *required(trace), "--json"))
    assert [(row["finding"], row["label"]) for row in found] == [("unknown_citation", "P9")]
    (row,) = in_json(as_reader(travel, "trace", "list", "--json"))
    assert (row["model"], row["citations"]) == ("m-1", ["P1", "P9"])


def test_an_answer_that_says_what_is_cited_gives_no_finding_once(travel: Database, tmp_path: Path) -> None:
    trace = record(travel)
    text = "Submit travel receipts within 14 days of the end of the trip [P1]."
    assert answer(travel, trace, text, tmp_path).returncode == 0
    again = answer(travel, trace, text, tmp_path)
    assert (again.returncode, "TraceAnswered RS056" in again.stderr) == (1, True)


def test_what_only_finance_decides_is_said_to_be_so(travel: Database) -> None:
    ran = as_reader(travel, "ask", "late-receipt-v1", *ASKED)
    assert ran.returncode == 6
    assert "Please ask the finance team." in ran.stdout
    trace = as_reader(travel, "trace", "record", packet(travel, "late-receipt-v1"), "--json")
    assert (trace.returncode, in_json(trace)["outcome"]) == (6, "NeedsDecision")


@pytest.mark.parametrize("place", ["EXPENSES", "@4:0", "EXPENSES@0:0", "EXPENSES@x:0", "EXPENSES@4:-1", "EXPENSES@4:x"])
def test_a_place_that_is_none_is_wrong_usage(travel: Database, place: str) -> None:
    trace = "43b36142-f71a-4746-859c-6d21c99b26b1"
    assert as_reader(travel, "trace", "diagnose", trace, "--required", place).returncode == 2


def test_a_trace_that_is_not_there_or_not_ones_own_is_the_same_error(travel: Database) -> None:
    trace = record(travel)["trace_id"]
    nowhere = "43b36142-f71a-4746-859c-6d21c99b26b1"
    said = set()
    for identifier in (trace, nowhere):
        ran = rag_sql("trace", "show", identifier, "--tenant", "northwind", url=travel.url("northwind_reader"))
        assert ran.returncode == 1
        said.add(ran.stderr.replace(identifier, "ID"))
    assert len(said) == 1


def test_what_the_audit_said_and_how_long_stages_took_stand_in_the_trace(travel: Database, tmp_path: Path) -> None:
    trace = record(travel)
    answer(travel, trace, "Travel receipts go in within 30 days of the trip [P1].", tmp_path)
    shown = in_json(as_reader(travel, "trace", "show", trace["trace_id"], "--json"))
    (verdict,) = shown["verdicts"]
    assert (verdict["verdict"], verdict["checks"], verdict["sentence"]) == ("contradicted", ["numbers"], None)
    assert list(shown["milliseconds"]) == ["decision", "context", "candidates", "audit"]
    assert all(milliseconds > 0 for milliseconds in shown["milliseconds"].values())
    read = as_reader(travel, "trace", "show", trace["trace_id"]).stdout
    assert "contradicted" in read
    assert "took: decision " in read
    (row,) = in_json(as_reader(travel, "trace", "list", "--json"))
    assert row["verdict"] == "contradicted"


def test_traces_are_kept_until_their_tenant_says_for_how_long_and_their_time_is_over(travel: Database) -> None:
    trace = record(travel)
    admin = travel.url(SUPERUSER)
    assert rag_sql("trace", "purge", url=admin).stdout == (
        "no tenant limits how long traces are kept: rag-sql tenant retain\n"
    )
    assert rag_sql("tenant", "retain", "acme", "90", url=admin).stdout == "acme keeps traces for 90 days\n"
    kept = {row["tenant"]: row["trace_retention"] for row in in_json(rag_sql("tenant", "list", "--json", url=admin))}
    assert kept == {"acme": "90 days", "northwind": None, "public": None}
    assert in_json(rag_sql("trace", "purge", "--json", url=admin)) == {"purged": {"acme": 0}, "in_use": []}
    assert as_reader(travel, "trace", "show", trace["trace_id"]).returncode == 0
    with travel.connect(SUPERUSER) as owner:
        owner.execute("update rag.tenant set trace_retention = '1 us' where tenant = 'acme'")
    assert rag_sql("trace", "purge", "--tenant", "acme", url=admin).stdout == "acme: 1 trace removed\n"
    assert as_reader(travel, "trace", "show", trace["trace_id"]).returncode == 1
    assert rag_sql("tenant", "retain", "acme", "forever", url=admin).stdout == "acme keeps traces without end\n"


@pytest.mark.parametrize("days", ["0", "-1", "1.5", "a", "1000000", ""])
def test_a_number_of_days_that_is_none_is_wrong_usage(store: Database, days: str) -> None:
    assert rag_sql("tenant", "retain", "acme", "--", days, url=store.url(SUPERUSER)).returncode == 2


def test_no_run_time_login_purges(travel: Database) -> None:
    ran = rag_sql("trace", "purge", url=travel.url("acme_curator"))
    assert (ran.returncode, ran.stdout) == (1, "")


def test_a_trace_is_shown_from_the_question_to_the_verdict(travel: Database, tmp_path: Path) -> None:
    trace = record(travel, "--budget", "40", code=3)
    answer(travel, trace, "Travel receipts go in within 30 days of the trip [P1, P9].", tmp_path)
    said = as_reader(travel, "trace", "show", trace["trace_id"]).stdout
    for line in (
        "receipt-deadline-v1 · K 2 · budget 40 · packet ",
        "AskForEvidence, missing from what was handed over: ",
        "answer of m-1, prompt 1, cites P1 P9 (not handed over)",
        "the audit says: contradicted (the contract does not keep the answer's text)",
    ):
        assert line in said
    shown = in_json(as_reader(travel, "trace", "show", trace["trace_id"], "--json"))
    assert (shown["question_id"], shown["outcome"], shown["citations"]) == (
        "receipt-deadline-v1",
        "AskForEvidence",
        ["P1", "P9"],
    )


def test_an_answer_that_states_what_only_a_person_decides_is_rejected(travel: Database, tmp_path: Path) -> None:
    trace = in_json(as_reader(travel, "trace", "record", packet(travel, "late-receipt-v1"), "--json"))
    said = "Receipts are due within 14 days [P1]. Finance will  accept your late receipt [P1]."
    ran = answer(travel, trace, said, tmp_path)
    assert ran.returncode == 1
    assert "states the decision that only a person makes: Finance will accept your late receipt." in ran.stdout


def test_a_diagnosis_repeats_what_the_audit_said(travel: Database, tmp_path: Path) -> None:
    trace = record(travel)
    answer(travel, trace, "Travel receipts go in within 30 days of the trip [P1].", tmp_path)
    ran = as_reader(travel, "trace", "diagnose", trace["trace_id"], *required(trace))
    assert "the audit of the answer said: contradicted" in ran.stdout


def test_so_many_candidates_are_recorded_as_are_asked_for(travel: Database) -> None:
    for number in (0, 2):
        trace = record(travel, "--candidates", str(number))
        shown = in_json(as_reader(travel, "trace", "show", trace["trace_id"], "--json"))
        assert len(shown["candidates"]) == number
