"""Numbers of an answer against numbers of a passage: compared by value, unit and bound."""

from __future__ import annotations

import pytest

from rag_sql import AuditVerdict, audit_answer
from rag_sql._audit_numbers import NumbersCheck

V = AuditVerdict

HELD = [
    ("It has 23,541,000 users", "It has 23 541 000 users"),
    ("It has 23,541,000 users", "more than 23.5 million users"),
    ("It sold 24 million", "over 23.5 million were sold"),
    ("It has 23,541,000 users", "about 23.5 million users"),
    ("It takes fourteen days", "It takes 14 days"),
    ("It takes 14 days", "It takes two weeks"),
    ("It takes 48 hours", "It takes 2 days"),
    ("It takes 18 months", "It takes 1.5 years"),
    ("A fee of 5 per cent", "A fee of 5%"),
    ("It costs $5 million", "It costs 5,000,000 dollars"),
    ("It costs €3.5bn", "It costs 3.5 billion euros"),
    ("It weighs 3,5 kg", "It weighs 3.5 kg"),
    ("10 to 20 days", "from 10 days to 20 days"),
    ("the 14- and 21-day limits", "14 days or 21 days"),
    ("on 14 March 2026", "on 2026-03-14"),
    ("on March 14th, 2026", "in March 2026"),
    ("on October 1 , 2010", "in 2010"),
    ("on 3/4/2026", "on 3 April 2026"),
    ("founded in 1994", "founded in the 1990s"),
    ("in the 70s", "in the 1970s"),
    ("the 2014\u201315 season", "the season of 2014-2015"),
    ("at 9:30 pm", "at 21:30"),
    ("at 7pm", "at 7 p.m."),
    ("firmware 2.4.1", "version 2.4.1"),
    ("the twenty-first day", "the 21st day"),
    ("a dozen eggs", "12 eggs"),
    ("two hundred and five people", "205 people"),
    ("5 miles away", "about 8 km away"),
    ("at least 16 characters", "at least sixteen characters"),
    ("5 attempts or more", "at least 5 attempts"),
    ("7 business days", "seven days"),
    ("a film", "1 film"),
    ("1½ cups", "1.5 cups"),
]

NOT_HELD = [
    ("within 14 days", "within 30 days", V.CONTRADICTED),
    ("14 days", "within 30 days", V.CONTRADICTED),
    ("14 days", "14 weeks", V.CONTRADICTED),
    ("5 %", "6 %", V.CONTRADICTED),
    ("5 %", "5 percentage points", V.UNSUPPORTED),
    ("$5", "€5", V.UNSUPPORTED),
    ("firmware 2.4.1", "firmware 2.4.0", V.CONTRADICTED),
    ("firmware 2.4.1", "firmware 2.4", V.CONTRADICTED),
    ("version 2.4.1 only", "2.4 is enough", V.UNSUPPORTED),
    ("100 people", "more than 100 people", V.CONTRADICTED),
    ("50 people", "more than 100 people", V.CONTRADICTED),
    ("at most 14 days", "at least 14 days", V.CONTRADICTED),
    ("up to 3 attempts", "up to 5 attempts", V.CONTRADICTED),
    ("in 1994", "in 1995", V.CONTRADICTED),
    ("on 14 March 2026", "on 15 March 2026", V.CONTRADICTED),
    ("in March 2026", "on 15 March 2026", V.CONTRADICTED),
    ("at 9:30", "at 9:45", V.CONTRADICTED),
    ("at 9:30 am", "at 21:30", V.CONTRADICTED),
    ("23,541,000 users", "more than 24 million users", V.CONTRADICTED),
    ("fourteen days", "fifteen days", V.CONTRADICTED),
    ("5 degrees", "-5 degrees", V.CONTRADICTED),
    ("no figure at all", "17 %", V.UNSUPPORTED),
    ("the G2 of 2024", "a price of 2", V.UNSUPPORTED),
    ("on August 7", "on August 0", V.UNSUPPORTED),
    ("a debut in 2016's film", "a debut in 2019's film", V.CONTRADICTED),
    ("8 mothers of a child", "1 mother", V.CONTRADICTED),
    ("62,241fans", "65,241 fans", V.UNSUPPORTED),
    ("more than 14 days and 20 users", "more than 15 days", V.CONTRADICTED),
    ("the 3rd floor", "the 4th floor", V.CONTRADICTED),
]  # fmt: skip


def numbers_verdict(passage: str, said: str) -> AuditVerdict:
    report = audit_answer(f"The rule is {said} [P1].", {"P1": f"Here it says {passage}, and no more."})
    found = [finding.verdict for finding in report.findings if finding.check == "numbers"]
    assert any(count.check == "numbers" and count.bears_on == 1 for count in report.checks)
    return found[0] if found else V.NO_FINDING


@pytest.mark.parametrize(("passage", "said"), HELD)
def test_one_value_written_two_ways_gives_no_finding(passage: str, said: str) -> None:
    assert numbers_verdict(passage, said) is V.NO_FINDING


@pytest.mark.parametrize(("passage", "said", "expected"), NOT_HELD)
def test_another_value_is_found(passage: str, said: str, expected: AuditVerdict) -> None:
    assert numbers_verdict(passage, said) is expected


@pytest.mark.parametrize("said", ["one of them", "the first of them", "a G2", "HOLD-7", "COVID-19"])
def test_what_is_no_number_of_the_answer_is_not_checked_as_one(said: str) -> None:
    report = audit_answer(f"The rule is {said} [P1].", {"P1": "The rule of G2, HOLD-7 and COVID-19 is this."})
    assert not [count for count in report.checks if count.check == "numbers" and count.bears_on]


def test_digits_too_long_to_be_a_number_are_compared_as_written() -> None:
    digits = "9" * 5000
    assert numbers_verdict(f"code {digits}", f"code {digits}") is V.NO_FINDING
    assert numbers_verdict(f"code {digits}", f"code {digits[:-1]}8") is V.CONTRADICTED


@pytest.mark.parametrize(
    ("sentence", "passage", "held"),
    [
        ("Ten or more travellers are not refunded.", "Refunded up to 14 days before departure.", False),
        ("Ten or more travellers are not refunded.", "Groups of 12 travellers are not refunded.", True),
        ("The fee is $25.", "A fee of EUR 25 applies.", False),
        ("The fee is 25 euros.", "A fee of EUR 25 applies.", True),
        ("The fee is USD 25.", "A fee of $25 applies.", True),
    ],
)
def test_a_limit_does_not_follow_from_a_time_nor_a_price_from_another_currency(
    sentence: str, passage: str, held: bool
) -> None:
    assert (NumbersCheck().check(sentence, {"P1": passage}) == []) is held
