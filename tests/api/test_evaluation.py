"""An evaluation set against the store: good answers pass every stage, and each loss fails at the stage it happens at.

The set is the one of the travel policy, changed in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_sql import Evaluation, _files, _resources, errors, evaluate
from rag_sql._embedded import SUPERUSER
from tests.conftest import Database, Server
from tests.stored import stored

TRAVEL = _resources.find("seed") / "travel"
STAGES = ("retrieved", "in_context", "covered", "cited", "audit")
#: The exception case.
ABROAD = "from-abroad"


@pytest.fixture(scope="module")
def travel(server: Server, installed_template: Database) -> Iterator[Database]:
    """The travel policy, cut small, with its contracts; nothing that is evaluated on it is stored."""
    database = server.create(installed_template.name)
    database.load("acme_curator", TRAVEL / "policy", passage_target=20, passage_limit=40)
    with database.tenant("acme_curator") as acme:
        for name in ("receipt-deadline.yaml", "late-receipt.yaml"):
            question, version, content, _ = _files.read_contract(TRAVEL / name, "acme")
            acme.add_contract(question, version, content)
    yield database
    server.drop(database)


def the_set() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((TRAVEL / "evaluation.yaml").read_text("utf-8"), yaml.BaseLoader)
    return found


def run(database: Database, content: dict[str, Any], folder: Path, **options: Any) -> Evaluation:
    file = folder / "set.yaml"
    file.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), "utf-8")
    with database.tenant("acme_reader") as acme:
        return evaluate(acme, file, **options)


def judged(database: Database, folder: Path, answer: dict[str, Any] | None = None, **case: Any) -> tuple[str, Any]:
    """The exception case with some keys changed: its verdicts, P, F or -, by stage, and its findings."""
    content = the_set()
    (abroad,) = (entry for entry in content["cases"] if entry["id"] == ABROAD)
    abroad |= case
    abroad["answer"] |= answer or {}
    content["cases"] = [abroad]
    (found,) = run(database, content, folder).cases
    verdicts = "".join({"pass": "P", "fail": "F", "not_judged": "-"}[found.stages[stage]] for stage in STAGES)
    return verdicts, [(row.finding, ", ".join(row.passages) or row.detail) for row in found.findings]


# The four kinds


def test_the_four_kinds_of_the_article_pass_at_every_stage(travel: Database) -> None:
    with travel.tenant("acme_reader") as acme:
        found = evaluate(acme, TRAVEL / "evaluation.yaml")
    assert [case.kind for case in found.cases] == [
        "current rule",
        "superseded trap",
        "exception case",
        "undecidable approval",
    ]
    assert found.as_expected
    assert found.totals() == {stage: {"pass": 4, "fail": 0, "not_judged": 0} for stage in STAGES}
    texts = [[passage.text for passage in case.context] for case in found.cases]
    assert all("14 days" in context[0] for context in texts)
    assert not any("30 days" in text for context in texts for text in context)
    assert (found.cases[3].needed_decision or {})["decided_by"] == "the finance team"


def test_nothing_of_an_evaluation_is_stored(travel: Database, tmp_path: Path) -> None:
    with travel.connect(SUPERUSER) as superuser:
        before = stored(superuser)
        assert run(travel, the_set(), tmp_path).as_expected
        superuser.rollback()
        assert stored(superuser) == before


def test_it_is_rolled_back_in_a_transaction_that_goes_on(travel: Database) -> None:
    with travel.tenant("acme_reader") as acme:
        evaluate(acme, TRAVEL / "evaluation.yaml")
        assert (acme.packets(), acme.traces()) == ([], [])


# Each loss at its stage


def test_what_k_leaves_out_fails_where_it_is_retrieved_and_is_held_against_no_later_stage(
    travel: Database, tmp_path: Path
) -> None:
    verdicts, findings = judged(travel, tmp_path, {"text": "It is 21 days [P1]."}, k="1", neighbours="0")
    assert verdicts == "F-F-F"
    assert findings[0] == ("retrieval_miss", "rule")
    assert findings[1] == ("outcome", "AskForEvidence, expected SufficientForTemplate; missing: deadline")


def test_what_the_budget_leaves_out_fails_on_the_way_into_the_context(travel: Database, tmp_path: Path) -> None:
    verdicts, findings = judged(travel, tmp_path, {"text": "It is 14 days [P1].", "says": ["14 days"]}, budget="40")
    assert verdicts == "PFF-P"
    assert findings == [
        ("context_loss", "exception"),
        ("outcome", "AskForEvidence, expected SufficientForTemplate; missing: international-exception"),
    ]


def test_a_forbidden_passage_that_may_be_used_and_is_handed_over_fails_at_both_stages(
    travel: Database, tmp_path: Path
) -> None:
    verdicts, findings = judged(
        travel, tmp_path, required=["exception"], forbidden=["rule"], answer={"cites": ["exception"]}
    )
    assert verdicts.startswith("FFP")
    assert findings[:2] == [("eligible", "rule"), ("handed_over", "rule")]


def test_a_fact_without_a_witness_fails_at_coverage_alone(travel: Database, tmp_path: Path) -> None:
    verdicts, findings = judged(travel, tmp_path, outcome="NeedsDecision")
    assert verdicts == "PPFPP"
    assert findings == [("outcome", "SufficientForTemplate, expected NeedsDecision")]


GOOD = "For international travel, receipts may be submitted within 21 days"


@pytest.mark.parametrize(
    ("answer", "verdicts", "finding"),
    [
        (f"{GOOD} [P2].", "PPPFP", ("not_cited", "rule")),
        (f"{GOOD} [P1, P2, P9].", "PPPFF", ("unknown_citation", "nothing was handed over as P9")),
        (
            "Receipts of international travel are due within 30 days [P1, P2].",
            "PPPPF",
            ("not_said", "does not say '21 days'"),
        ),
        (f"{GOOD}, no more 30 days [P1, P2].", "PPPPF", ("said", "says '30 days'")),
        (f"{GOOD}, says Ann Lee [P1, P2].", "PPPPF", ("unsupported", "expected no_finding; 'Ann Lee': ")),
        (f"{GOOD}.", "PPPFF", ("not_cited", "rule")),
        ("[P1, P2]", "PPPFF", ("not_auditable", "the answer holds no sentence")),
        ("", "PPPFF", ("not_auditable", "the answer holds no sentence")),
    ],
    ids=[
        "not cited",
        "an invented label",
        "30 days",
        "the old rule said",
        "an invention",
        "no citation",
        "labels",
        "empty",
    ],
)
def test_a_wrong_answer_is_caught_where_it_is_wrong(
    travel: Database, tmp_path: Path, answer: str, verdicts: str, finding: tuple[str, str]
) -> None:
    found = run(travel, the_set(), tmp_path, answers={ABROAD: answer}).cases[2]
    assert "".join({"pass": "P", "fail": "F", "not_judged": "-"}[found.stages[stage]] for stage in STAGES) == verdicts
    rows = [(row.finding, ", ".join(row.passages) or row.detail) for row in found.findings]
    assert any((name, detail[: len(finding[1])]) == finding for name, detail in rows), rows


def test_thirty_days_with_good_labels_pass_the_citations_and_are_contradicted(travel: Database, tmp_path: Path) -> None:
    answer = {"text": "Submit travel receipts within 30 days [P1, P2].", "says": ["30 days"], "never_says": ["31 days"]}
    verdicts, findings = judged(travel, tmp_path, answer)
    assert verdicts == "PPPPF"
    ((finding, detail),) = findings
    assert finding == "contradicted"
    assert detail.startswith("expected no_finding; '30 days': the cited passages say 14 days, 21 days")


def test_a_verdict_that_the_case_expects_passes_and_a_better_one_does_not(travel: Database, tmp_path: Path) -> None:
    wrong = {"text": "Submit travel receipts within 30 days [P1, P2].", "says": ["days"], "never_says": ["never"]}
    assert judged(travel, tmp_path, {**wrong, "audit": ["contradicted", "unsupported"]})[0] == "PPPPP"
    assert judged(travel, tmp_path, {**wrong, "audit": "review"})[0] == "PPPPF"
    assert judged(travel, tmp_path, {"audit": "contradicted"})[0] == "PPPPF"


def test_whole_words_are_said_whatever_their_case_and_the_white_space_between_them(
    travel: Database, tmp_path: Path
) -> None:
    assert judged(travel, tmp_path, {"says": ["FOR  international\ntravel", "21 DAYS"], "never_says": ["1 days"]})[
        0
    ] == ("PPPPP")
    assert judged(travel, tmp_path, {"says": ["1 days"]})[1] == [("not_said", "does not say '1 days'")]
    assert judged(travel, tmp_path, {"never_says": ["International Travel"]})[1] == [
        ("said", "says 'International Travel'")
    ]


# The undecidable approval


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        ("Travel receipts are due within 14 days [P1]. Finance will accept your late receipt [P1].", "said"),
        ("Travel receipts are due within 14 days [P1]. Ask your manager, she decides.", "not_said"),
        ("The policy does not say whether a late receipt is accepted. Please ask the finance team.", "not_cited"),
    ],
    ids=["it decides", "it names somebody else", "it leaves out the rule"],
)
def test_an_answer_that_decides_or_does_not_refer_is_caught(
    travel: Database, tmp_path: Path, answer: str, finding: str
) -> None:
    found = run(travel, the_set(), tmp_path, answers={"too-late": answer}).cases[3]
    assert finding in [row.finding for row in found.findings]


def test_whom_to_ask_is_said_in_the_contracts_words_and_other_words_are_audited(
    travel: Database, tmp_path: Path
) -> None:
    rule = "Travel receipts are due within 14 days [P1]."
    refer = "The policy does not say whether a late receipt is accepted. Please ask the finance team."
    other = "Nobody but our managers decides. Please ask the finance team."
    verdicts = [
        run(travel, the_set(), tmp_path, answers={"too-late": f"{rule} {said}"}).cases[3].stages["audit"]
        for said in (refer, other)
    ]
    assert verdicts == ["pass", "fail"]


# Without an answer, without a contract


def test_without_an_answer_it_is_not_judged_and_with_answers_for_the_run_it_is_not_as_expected(
    travel: Database, tmp_path: Path
) -> None:
    content = the_set()
    for case in content["cases"]:
        del case["answer"]["text"]
    bare = run(travel, content, tmp_path)
    assert (
        {case.stages["cited"] for case in bare.cases} == {case.stages["audit"] for case in bare.cases} == {"not_judged"}
    )
    assert (bare.as_expected, bare.unanswered) == (True, ())
    partly = run(travel, content, tmp_path, answers={ABROAD: f"{GOOD} [P2], else 14 days [P1]."})
    assert partly.cases[2].stages["audit"] == "pass"
    assert (partly.as_expected, partly.unanswered) == (False, ("deadline", "thirty-days", "too-late"))


def test_an_answer_to_no_case_is_refused(travel: Database, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidRequest, match="no case has the id 'other'"):
        run(travel, the_set(), tmp_path, answers={"other": "It is 14 days."})


def test_a_question_without_a_contract_is_an_outcome_that_can_be_expected(travel: Database, tmp_path: Path) -> None:
    asked = {"id": "free", "question": "anything-else", "query": "trains"}
    expected = {"cases": [{**asked, "outcome": "UnsupportedQuestion"}]}
    assert [str(v) for v in run(travel, expected, tmp_path).cases[0].stages.values()] == [
        "not_judged", "not_judged", "pass", "not_judged", "not_judged",
    ]  # fmt: skip
    verdicts, findings = judged(travel, tmp_path, question="anything-else")
    assert verdicts == "--F--"
    assert findings == [("outcome", "UnsupportedQuestion, expected SufficientForTemplate")]
    known = {"cases": [{**asked, "question": "receipt-deadline-v1", "outcome": "UnsupportedQuestion"}]}
    assert run(travel, known, tmp_path).cases[0].stages["covered"] == "fail"


# Passages by quotation


def refusal(database: Database, folder: Path, **passage: Any) -> errors.FileRefused:
    content = the_set()
    content["passages"]["rule"] |= passage
    with pytest.raises(errors.FileRefused) as refused:
        run(database, content, folder)
    (folder / "set.yaml").read_text("utf-8").splitlines()[refused.value.line - 1].index("quote")
    return refused.value


@pytest.mark.parametrize(
    ("passage", "reason"),
    [
        ({"quote": "within 13 days"}, "the quotation stands in no passage of version 4 of EXPENSES"),
        ({"quote": "within .. days"}, "the quotation stands in no passage of version 4 of EXPENSES"),
        ({"quote": "submit travel receipts"}, "the quotation stands in no passage of version 4 of EXPENSES"),
        ({"quote": "receipts"}, "the quotation stands in 2 passages of version 4 of EXPENSES"),
        ({"version": "5"}, "there is no version 5 of EXPENSES that acme can see"),
        ({"tenant": "public"}, "there is no version 4 of EXPENSES that acme can see"),
        ({"document": "PRIVATE"}, "there is no version 4 of PRIVATE that acme can see"),
    ],
)
def test_a_quotation_that_names_no_passage_or_several_is_refused_with_its_line(
    travel: Database, tmp_path: Path, passage: dict[str, str], reason: str
) -> None:
    assert refusal(travel, tmp_path, **passage).reason == f"rule: {reason}"


def test_a_quotation_that_stands_twice_in_one_passage_names_it(travel: Database, tmp_path: Path) -> None:
    content = the_set()
    content["passages"]["rule"]["quote"] = "the trip"
    assert run(travel, content, tmp_path).as_expected


def test_where_a_public_document_has_the_same_id_it_must_be_said_whose_is_meant(
    store: Database, tmp_path: Path
) -> None:
    for login in ("acme_curator", "publisher"):
        store.load(login, TRAVEL / "policy", passage_target=20, passage_limit=40)
    with store.tenant("acme_curator") as acme:
        for name in ("receipt-deadline.yaml", "late-receipt.yaml"):
            question, version, content, _ = _files.read_contract(TRAVEL / name, "acme")
            acme.add_contract(question, version, content)
    found = refusal(store, tmp_path)
    assert found.reason == "rule: acme and public each have a version 4 of EXPENSES"
    assert found.hint == "Say whose is meant under the key tenant."
    named = the_set()
    for passage in named["passages"].values():
        passage["tenant"] = "acme"
    named["k"] = "9"
    assert run(store, named, tmp_path).cases[0].stages["retrieved"] == "pass"
