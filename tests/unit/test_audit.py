"""The audit of an answer: what it rejects, what it leaves to a person, what it refuses; it never accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from rag_sql import CHECKERS, AuditReport, AuditVerdict, Finding, audit_answer
from rag_sql.errors import NothingToAudit, PassageWithoutText

V = AuditVerdict

POLICY = {
    "P1": "Submit travel receipts within 14 days of the last day of the trip.",
    "P2": "For international travel, receipts must be submitted within 21 days.",
    "P3": "While an audit hold is active, do not roll back firmware. The auditor may close the case.",
    "P4": (
        "The landlord is not permitted to terminate the lease. A deposit of 5 % is due. "
        "Keys are returned on the last day."
    ),
}


def verdict(answer: str, sources: Mapping[str, str] = POLICY) -> AuditVerdict:
    return audit_answer(answer, sources).verdict


def only_sentence(answer: str, sources: Mapping[str, str] = POLICY) -> tuple[AuditVerdict, tuple[Finding, ...]]:
    (sentence,) = audit_answer(answer, sources).sentences
    return sentence.verdict, sentence.findings


# The article's case


def test_the_superseded_deadline_is_contradicted_with_both_values() -> None:
    said, (finding,) = only_sentence("Travel receipts must be submitted within 30 days [P1].")
    assert said is V.CONTRADICTED
    assert (finding.check, finding.said) == ("numbers", "30 days")
    assert [(held.label, held.text) for held in finding.held] == [("P1", "14 days")]
    assert POLICY["P1"][finding.held[0].start : finding.held[0].end] == "14 days"


@pytest.mark.parametrize("limit", ["14 days", "fourteen days", "two weeks", "14-day limit"])
def test_the_current_deadline_gives_no_finding_however_it_is_written(limit: str) -> None:
    assert verdict(f"Travel receipts are due within {limit} [P1].") is V.NO_FINDING


def test_a_deadline_of_another_passage_is_not_borne_out_by_the_one_that_is_cited() -> None:
    assert verdict("Receipts are due within 21 days [P1].") is V.CONTRADICTED
    assert verdict("Receipts are due within 21 days [P1, P2].") is V.NO_FINDING


def test_an_invented_label_is_a_finding_of_its_own() -> None:
    said, (finding,) = only_sentence("Travel receipts are due within 14 days [P9].")
    assert said is V.UNKNOWN_CITATION
    assert (finding.check, finding.said) == ("citations", "P9")


def test_the_label_is_compared_character_by_character() -> None:
    assert verdict("Travel receipts are due within 14 days [p1].") is V.UNKNOWN_CITATION
    assert verdict("Travel receipts are due within 14 days [P1-P2].") is V.UNKNOWN_CITATION


# Citations


def test_a_sentence_without_a_citation_is_uncited_and_still_checked() -> None:
    assert verdict("Travel receipts are due within 14 days.") is V.UNCITED
    assert verdict("Travel receipts are due within 90 days.") is V.CONTRADICTED


def test_a_question_asserts_nothing() -> None:
    report = audit_answer("Was it an international trip? Receipts are due within 14 days [P1].", POLICY)
    assert [sentence.verdict for sentence in report.sentences] == [V.UNCHECKED, V.NO_FINDING]
    assert report.verdict is V.UNCHECKED


def test_a_citation_after_the_full_stop_belongs_to_the_sentence_before_it() -> None:
    report = audit_answer("Receipts are due within 14 days. [P1] For trips abroad it is 21 days. [P2]", POLICY)
    assert [sentence.citations for sentence in report.sentences] == [("P1",), ("P2",)]
    assert report.verdict is V.NO_FINDING


def test_what_stands_in_brackets_and_is_no_label_is_no_citation() -> None:
    assert only_sentence("Travel receipts [sic] are due within 14 days.")[0] is V.UNCITED


def test_items_of_a_list_are_sentences_and_their_enumerators_are_no_numbers() -> None:
    report = audit_answer(
        "1. Receipts are due within 14 days [P1]\n2. Abroad it is 21 days [P2]\n- Pay 9 euros", POLICY
    )
    assert [sentence.verdict for sentence in report.sentences] == [V.NO_FINDING, V.NO_FINDING, V.UNSUPPORTED]


# What never passes


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('The lease says "The landlord is ... permitted to terminate the lease" [P4].', V.REVIEW),
        ("The landlord is permitted to terminate the lease [P4].", V.REVIEW),
        ('It says "terminate the lease permitted to landlord" [P4].', V.UNSUPPORTED),
        ('It says "The landlord is due on the last day" [P4].', V.UNSUPPORTED),
        ('It says "returned on the last day ... The landlord is not permitted" [P4].', V.UNSUPPORTED),
        ("A deposit of 6 % is due [P4].", V.CONTRADICTED),
        ('It says "A deposit of .* % is due" [P4].', V.UNSUPPORTED),
        ('It says "a deposit of (5 % is due" [P4].', V.REVIEW),
        ('It says "THE LANDLORD IS NOT PERMITTED" [P4].', V.REVIEW),
        ('It says "The  landlord is not permitted" [P4].', V.REVIEW),
        ('It says "The landlord, is not permitted" [P4].', V.REVIEW),
    ],
    ids=[
        "an ellipsis hides not",
        "not is left out",
        "reversed fragments",
        "distant fragments joined",
        "fragments joined by an ellipsis against their order",
        "6 % against 5 %",
        "a pattern is no quotation",
        "an unbalanced bracket",
        "case",
        "space",
        "punctuation",
    ],
)
def test_a_known_wrong_acceptance_is_found(answer: str, expected: AuditVerdict) -> None:
    assert verdict(answer) is expected


def test_an_exact_quotation_gives_no_finding() -> None:
    assert verdict('It says "The landlord is not permitted to terminate the lease." [P4]') is V.NO_FINDING


def test_a_quotation_that_differs_is_shown_with_the_passages_own_words() -> None:
    _, findings = only_sentence('The lease says "The landlord is ... permitted to terminate the lease" [P4].')
    (held,) = next(finding for finding in findings if finding.check == "quotation").held
    assert held.text == "The landlord is not permitted to terminate the lease"


def test_modality_goes_to_review() -> None:
    assert verdict("The auditor must close the case [P3].") is V.REVIEW
    assert verdict("The auditor may close the case [P3].") is V.NO_FINDING


def test_a_dropped_negation_goes_to_review() -> None:
    assert verdict("While an audit hold is active, roll back firmware [P3].") is V.REVIEW


def test_a_sentence_whose_words_stand_nowhere_is_unsupported() -> None:
    assert verdict("Quarterly dividends reward patient shareholders [P1].") is V.UNSUPPORTED


def test_a_sentence_that_no_check_bears_on_is_unchecked_and_not_passed() -> None:
    said, findings = only_sentence("Submit travel receipts after the trip [P1].")
    assert (said, findings) == (V.UNCHECKED, ())


@pytest.mark.parametrize("answer", ["", " \n\t", "...", "[P1]", "— [P1, P2] —", "***"])
def test_an_answer_without_a_sentence_is_an_error(answer: str) -> None:
    with pytest.raises(NothingToAudit):
        audit_answer(answer, POLICY)


@pytest.mark.parametrize("text", ["", "  \n", "---"])
def test_a_cited_passage_without_text_is_refused(text: str) -> None:
    with pytest.raises(PassageWithoutText, match="P2"):
        audit_answer("Receipts are due within 14 days [P1, P2].", {**POLICY, "P2": text})


def test_a_passage_without_text_that_nothing_cites_is_no_matter() -> None:
    assert verdict("Receipts are due within 14 days [P1].", {**POLICY, "P5": ""}) is V.NO_FINDING


# Names


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Support for the G3 ends soon [P1].", V.CONTRADICTED),
        ("Support for the G2 ends soon [P1].", V.NO_FINDING),
        ("Ask Mary Shelley at the desk [P1].", V.UNSUPPORTED),
        ("Ask Ann Lee's deputy at the desk [P1].", V.NO_FINDING),
        ("The UN desk is open [P1].", V.NO_FINDING),
        ("The OECD desk is open [P1].", V.UNSUPPORTED),
        ("The desk opens for Americans [P1].", V.NO_FINDING),
        ("Desk staff of the Élysée open it [P1].", V.NO_FINDING),
        ("Opening hours are posted at the desk [P1].", V.UNCHECKED),
    ],
)
def test_names_must_stand_in_the_passage(answer: str, expected: AuditVerdict) -> None:
    passage = (
        "Support for the G2 ends soon: ask Ann Lee at the desk of the United Nations, "
        "open for America and elysee staff."
    )
    assert verdict(answer, {"P1": passage}) is expected


# Reports and checkers


def test_the_report_counts_what_each_check_could_say_and_averages_nothing() -> None:
    report = audit_answer("Receipts are due within 14 days [P1]. Submit travel receipts after it [P1].", POLICY)
    numbers = next(count for count in report.checks if count.check == "numbers")
    assert (len(report.sentences), numbers.bears_on, numbers.found_in) == (2, 1, 0)
    assert sum(report.counts().values()) == 2
    assert report.to_dict()["verdicts"]["no_finding"] == 1


def test_positions_of_findings_are_those_of_the_answer() -> None:
    answer = "😀 Receipts are due within 14 days [P1]. They are due within 30 days [P1]."
    (finding,) = audit_answer(answer, POLICY).findings
    assert answer[finding.start : finding.end] == finding.said == "30 days"


class Stub:
    """A checker of a user's, such as a model would be."""

    name = "model"

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        self.seen: list[tuple[str, dict[str, str]]] = []

    def check(self, sentence: str, passages: Mapping[str, str], /) -> Sequence[Finding] | None:
        self.seen.append((sentence, dict(passages)))
        return self.findings


def audited_by(stub: Stub) -> AuditReport:
    return audit_answer("Receipts are due within 14 days [P1].", POLICY, checkers=(*CHECKERS, stub))


def test_a_checker_of_the_users_is_given_the_sentence_and_what_it_cites() -> None:
    stub = Stub(Finding("model", V.UNSUPPORTED, 0, 8, "Receipts", (), "says the model"))
    assert audited_by(stub).verdict is V.UNSUPPORTED
    assert stub.seen == [("Receipts are due within 14 days     .", {"P1": POLICY["P1"]})]


@pytest.mark.parametrize(
    "finding",
    [
        Finding("model", V.NO_FINDING, 0, 8, "Receipts", (), "accepts"),
        Finding("numbers", V.REVIEW, 0, 8, "Receipts", (), "under another name"),
        Finding("model", V.REVIEW, 0, 800, "Receipts", (), "outside"),
    ],
)
def test_a_checker_cannot_accept_or_speak_for_another(finding: Finding) -> None:
    with pytest.raises(ValueError, match="the checker model"):
        audited_by(Stub(finding))


def test_no_verdict_accepts() -> None:
    assert {str(verdict) for verdict in V} == {
        "contradicted", "unsupported", "unknown_citation", "uncited", "review", "unchecked", "no_finding",
    }  # fmt: skip
