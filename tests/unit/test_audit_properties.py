"""Properties of the audit that hold for any text."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_sql import AuditVerdict, audit_answer
from rag_sql._audit_quantities import quantities
from rag_sql._audit_text import cut, sentence_spans
from rag_sql.errors import NothingToAudit

V = AuditVerdict
REJECTING = {V.CONTRADICTED, V.UNSUPPORTED}

pieces = st.sampled_from(
    [
        *(
            "[P1]",
            "[P1, P2]",
            "[P9]",
            "14 days",
            "3.5 %",
            "$5m",
            "2026-03-14",
            "March 5",
            "v2.4.1",
            "\u00bd",
            "G2",
            "Mr. ",
        ),
        *("e.g. ", "not ", "must ", '"', "\u201c", "...", ". ", "! ", "\n\n", "\n- ", "1. ", "[", "]", "\U0001f600"),
        *("\ud800", "Ann Lee", "12:99"),
    ]
)
answers = st.lists(pieces | st.text(max_size=8), max_size=12).map("".join)

SUBJECTS = ("Travel receipts", "Late claims", "Audit holds", "Model G2 units", "Refund requests", "Notices to Ann Lee")
VERBS = (
    "are closed within",
    "must be filed after at least",
    "last for",
    "may not exceed",
    "are never kept for",
    "need",
)
UNITS = ("days", "weeks", "%", "dollars", "attempts", "GB", "business days", "km")


@st.composite
def numbers(draw: st.DrawFn) -> str:
    whole = draw(st.integers(3, 99_999))
    return draw(st.sampled_from([str(whole), f"{whole:,}", f"{whole}.5"]))


@st.composite
def facts(draw: st.DrawFn) -> str:
    parts = [
        draw(st.sampled_from(SUBJECTS)),
        draw(st.sampled_from(VERBS)),
        draw(numbers()),
        draw(st.sampled_from(UNITS)),
    ]
    return " ".join(parts) + "."


passages = st.lists(facts(), min_size=1, max_size=4, unique=True)


@settings(deadline=None)
@given(answers)
def test_the_sentences_tile_the_answer_in_code_points(answer: str) -> None:
    sentences = cut(answer, {"P1", "P2"})
    if sentences:
        assert "".join(sentence.text for sentence in sentences) == answer
        assert [sentence.start for sentence in sentences[1:]] == [sentence.end for sentence in sentences[:-1]]
        assert (sentences[0].start, sentences[-1].end) == (0, len(answer))
        assert all(answer[s.start : s.end] == s.text and len(s.bare) == len(s.text) for s in sentences)
        assert all(any(character.isalnum() for character in sentence.text) for sentence in sentences)


@settings(deadline=None)
@given(answers, answers)
def test_no_text_makes_the_audit_fail_otherwise_than_by_holding_no_sentence(answer: str, passage: str) -> None:
    try:
        report = audit_answer(answer, {"P1": f"x {passage}", "P2": "14 days"})
    except NothingToAudit:
        return
    for finding in report.findings:
        assert 0 <= finding.start <= finding.end <= len(answer)
        for held in finding.held:
            assert 0 <= held.start < held.end


@settings(deadline=None)
@given(st.text())
def test_quantities_are_where_they_say(text: str) -> None:
    found = quantities(text)
    assert all(0 <= quantity.start < quantity.end <= len(text) for quantity in found)
    assert [quantity.start for quantity in found] == sorted(quantity.start for quantity in found)


@settings(deadline=None)
@given(passages, st.integers(0, 3))
def test_a_verbatim_sentence_is_never_rejected(passage: list[str], place: int) -> None:
    sentence = passage[place % len(passage)]
    report = audit_answer(f"{sentence[:-1]} [P1].", {"P1": " ".join(passage)})
    assert not report.findings


@settings(deadline=None)
@given(passages, st.integers(0, 3), numbers())
def test_a_verbatim_sentence_with_another_number_is_always_rejected(
    passage: list[str], place: int, number: str
) -> None:
    sentence = passage[place % len(passage)]
    value = float(number.replace(",", ""))
    stated = [float(found.replace(",", "")) for found in re.findall(r"\d[\d,.]*\d|\d(?=\s)", " ".join(passage))]
    assume(value not in stated)
    swapped = re.sub(r"(?<=\s)\d[\d,]*(?:\.\d+)?(?=\s)", number, sentence)
    assume(swapped != sentence)
    (audited,) = audit_answer(f"{swapped[:-1]} [P1].", {"P1": " ".join(passage)}).sentences
    assert audited.verdict in REJECTING


@settings(deadline=None)
@given(answers, passages, st.integers(100_001, 10**9), st.sampled_from(["", " [P1]", " [P9]"]))
def test_a_sentence_with_a_number_of_no_source_always_gives_a_finding(
    answer: str, passage: list[str], number: int, citation: str
) -> None:
    added = f"It took {number} attempts{citation}."
    report = audit_answer(f"{answer}\n\n{added}", {"P1": " ".join(passage), "P2": "Nothing."})
    assert any(str(number) in finding.said and finding.verdict in REJECTING for finding in report.findings)


@pytest.mark.parametrize("text", ["a", "1,", "A-", " ", "\n", "[", '"', ".", "no ", "\n- "])
def test_the_time_grows_no_faster_than_the_text(text: str) -> None:
    """A pattern that backtracks over the whole text would take minutes here."""
    audit_answer(f"x {text * (2_500 // len(text))}", {"P1": f"y {text * 100}"})
    assert sentence_spans(f"x {text * 20_000}")
