"""Wrong acceptances known from the field, each of which the database must refuse (law 3: the quotation decides).

Other checkers have let each of these through: a quotation with a hole where "not" stood, fragments put together, a
number that is nearly the same, a text folded until it fits, a citation of nothing, an answer in which nothing was found
to check. Here a text that is offered as a quotation meets every door: it is loaded as a span, curated as a span, made
the proposition of a contract, and said as the sentence of a claim. What the audit of free words makes of the same
stands in tests/unit/test_audit.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rag_sql import Claim, Outcome, Tenant, errors
from tests.api.strategies import rolled_back
from tests.cli.test_cli import rag_sql
from tests.conftest import Database

NOT = "The landlord is not permitted to terminate the lease."
DEPOSIT = "A deposit of 5 % is due."
KEYS = "Keys are returned on the last day."
CAFE = "The caf\u00e9\u2019s tenant pays \u201cno fee\u201d \u2013 5\u00a0% less."
PATTERNS = r"Enter ^[a-z]+(\d{2,3}|x*)?$ or 10.5 \\ % _ [sic] & {1}."
BODY = f"{NOT} {DEPOSIT} {KEYS}\n{CAFE} {PATTERNS}"
SAID = "As the lease says."
QUESTION = "lease"


def document(quote: str) -> dict[str, Any]:
    return {"id": "LEASE", "version": 1, "body": BODY, "spans": [{"id": "s", "fact": "lease", "quote": quote}]}


def contract(quote: str, clause: str = SAID) -> dict[str, Any]:
    return {"case": [], "facts": [{"fact": "lease", "propositions": [{"quote": quote, "clauses": [clause]}]}]}


def decide(acme: Tenant, version: int) -> Any:
    return acme.decide(QUESTION, query="landlord deposit keys", case={}, k=1, contract_version=version)


def verdict(acme: Tenant, decision: Any, text: str) -> str:
    (found,) = acme.check_claims(decision, [Claim(text, "lease", "acme", "LEASE", 1, "s")])
    return found.verdict


def refused(connection: sa.Connection, offered: str, genuine: str = NOT) -> None:
    """Offer a text in the place of what the lease says, at every door."""
    with rolled_back(connection) as acme:
        with pytest.raises(errors.QuoteNotFound), acme.savepoint():
            acme.load_documents([document(offered)])
        acme.load_documents([document(genuine)])
        with pytest.raises(errors.QuoteNotFound), acme.savepoint():
            acme.add_spans([{"document": "LEASE", "version": 1, "span": "t", "fact": "lease", "quote": offered}])
        # A contract that has it for a proposition: the lease's own sentence is no witness of it, and licenses nothing.
        acme.add_contract(QUESTION, 1, contract(offered))
        decision = decide(acme, 1)
        assert (decision.outcome, decision.missing) == (Outcome.ASK_FOR_EVIDENCE, ("lease",))
        assert verdict(acme, decision, SAID) == "not_the_proposition"
        assert [found.version for found in acme.proposition_occurrences(QUESTION)] == [None]
        # A claim that says it, where the lease's own sentence is what may be said.
        acme.add_contract(QUESTION, 2, contract(genuine, clause=genuine))
        decision = decide(acme, 2)
        assert verdict(acme, decision, genuine) == "licensed"
        assert verdict(acme, decision, offered) == "not_licensed"
        assert acme.span_check() == []


def accepted(connection: sa.Connection, quote: str) -> None:
    """The same doors, for what stands in the lease character by character."""
    with rolled_back(connection) as acme:
        acme.load_documents([document(quote)])
        added = {"document": "LEASE", "version": 1, "span": "t", "fact": "lease", "quote": quote}
        assert [span.status for span in acme.add_spans([added])] == ["new"]
        acme.add_contract(QUESTION, 1, contract(quote, clause=quote))
        decision = decide(acme, 1)
        assert decision.outcome is Outcome.SUFFICIENT_FOR_TEMPLATE
        assert verdict(acme, decision, quote) == "licensed"
        assert acme.span_check() == []


# Holes and patchwork


@pytest.mark.parametrize("hole", ["...", "\u2026", "[...]", "[\u2026]", "\u2014", ""])
def test_an_ellipsis_that_hides_not(connection: sa.Connection, hole: str) -> None:
    refused(connection, f"The landlord is {hole} permitted to terminate the lease.")


def test_not_that_is_left_out(connection: sa.Connection) -> None:
    refused(connection, NOT.replace(" not", ""))


@pytest.mark.parametrize("joint", [" ", " ... ", "; "])
def test_reversed_fragments(connection: sa.Connection, joint: str) -> None:
    refused(connection, f"to terminate the lease.{joint}The landlord is not permitted")


@pytest.mark.parametrize("joint", [" ", " ... ", " \u2026 "])
def test_distant_fragments_joined(connection: sa.Connection, joint: str) -> None:
    refused(connection, f"The landlord{joint}is due.")
    refused(connection, f"{NOT}{joint}{KEYS}")


def test_a_sentence_and_one_that_does_not_follow_it(connection: sa.Connection) -> None:
    accepted(connection, f"{NOT} {DEPOSIT}")
    refused(connection, f"{DEPOSIT} {NOT}")


# Nearly the same


@pytest.mark.parametrize("number", ["6 %", "5.0 %", "5,0 %", "05 %", "5%", "15 %", "five %", "\u0665 %", "5 \uff05"])
def test_six_per_cent_against_five(connection: sa.Connection, number: str) -> None:
    refused(connection, DEPOSIT.replace("5 %", number), genuine=DEPOSIT)


@pytest.mark.parametrize("folded", [NOT.upper(), NOT.lower(), NOT.title(), NOT.swapcase()])
def test_case_that_is_folded(connection: sa.Connection, folded: str) -> None:
    refused(connection, folded)


@pytest.mark.parametrize("space", ["  ", "", "\n", "\t", "\r\n", "\u00a0", "\u2009", "\u200b", " \u00ad"])
def test_space_that_is_folded(connection: sa.Connection, space: str) -> None:
    refused(connection, NOT.replace(" not ", f"{space}not "))


@pytest.mark.parametrize("around", ["{} ", "\t{}", "{}\u200b", "\ufeff{}", "\u2060{}"])
def test_invisible_text_at_the_edges(connection: sa.Connection, around: str) -> None:
    refused(connection, around.format(KEYS), genuine=KEYS)


@pytest.mark.parametrize(
    "offered",
    [
        NOT.replace("landlord", "landlord,"),
        NOT.replace(".", "!"),
        NOT.replace(".", ";"),
        f'"{NOT}"',
        f"({NOT})",
        f"**{NOT}**",
    ],
)
def test_punctuation_that_is_folded(connection: sa.Connection, offered: str) -> None:
    refused(connection, offered)


@pytest.mark.parametrize("quote", [NOT[:-1], NOT[4:], f"{NOT} ", f"{NOT} {DEPOSIT}"])
def test_a_little_less_or_more_than_the_proposition_is_another_quotation(connection: sa.Connection, quote: str) -> None:
    """It stands in the lease, and is stored; the proposition it is not."""
    with rolled_back(connection) as acme:
        acme.load_documents([document(quote)])
        acme.add_contract(QUESTION, 1, contract(NOT))
        decision = decide(acme, 1)
        assert decision.missing == ("lease",)
        assert verdict(acme, decision, SAID) == "not_the_proposition"


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("\u00e9", "e\u0301"),
        ("\u00e9", "e"),
        ("\u2019", "'"),
        ("\u201c", '"'),
        ("\u2013", "-"),
        ("\u2013", "\u2011"),
        ("\u00a0", " "),
        ("fee", "\ufb00e"),
        ("fee", "\uff46ee"),
        ("caf", "\u0441af"),
        ("pays", "pay\u017f"),
    ],
    ids=["decomposed", "no accent", "apostrophe", "quotes", "hyphen", "hyphen that does not break", "space that breaks",
         "another ligature", "full width", "a letter of another script", "long s"],
)  # fmt: skip
def test_unicode_that_is_folded(connection: sa.Connection, own: str, other: str) -> None:
    assert own in CAFE
    refused(connection, CAFE.replace(own, other), genuine=CAFE)
    accepted(connection, CAFE)


# Patterns


@pytest.mark.parametrize(
    "pattern",
    [
        "A deposit of .* is due.",
        r"A deposit of \d % is due.",
        "A deposit of [5-6] % is due.",
        "A deposit of (5|6) % is due.",
        "A deposit of 5 %? is due.",
        r"A deposit of 5\s%\sis due\.",
        "(?i)a deposit of 5 % is due.",
        "^A deposit of 5 % is due.$",
        "A deposit of % is due.",
        "A deposit of _ % is due.",
        r"A deposit of 5 \% is due.",
        "A deposit of 5 %% is due.",
        "A deposit of %s is due.",
        r"\mdeposit\M",
        "***=A deposit of 5 % is due.",
    ],
)
def test_a_pattern_that_would_match_is_no_quotation(connection: sa.Connection, pattern: str) -> None:
    refused(connection, pattern, genuine=DEPOSIT)


@pytest.mark.parametrize(
    "quote",
    [
        PATTERNS,
        r"^[a-z]+(\d{2,3}|x*)?$",
        r"(\d{2,3}|x",
        "x*)?$ or 10.5",
        r"10.5 \\ % _",
        "[sic] & {1}.",
    ],
)
def test_a_pattern_that_stands_there_is_a_quotation_like_any_other(connection: sa.Connection, quote: str) -> None:
    accepted(connection, quote)


def test_what_a_pattern_of_the_body_would_match_is_no_quotation_of_it(connection: sa.Connection) -> None:
    refused(connection, "Enter abc123 or 10.5", genuine=PATTERNS)
    refused(connection, PATTERNS.replace("10.5", "10x5"), genuine=PATTERNS)


# Citations of nothing


@pytest.mark.parametrize("quote", ["", " ", "\n", "\u00a0", "\u200b", ".", "---", "\u2026", "% "])
def test_a_quotation_without_text_licenses_nothing(connection: sa.Connection, quote: str) -> None:
    """A dash or a space stands in every document, so it would be a witness of whatever a contract made of it."""
    with rolled_back(connection) as acme:
        with pytest.raises(errors.InvalidContract) as caught, acme.savepoint():
            acme.add_contract(QUESTION, 1, contract(quote))
        assert caught.value.column == "facts.0.propositions.0.quote"
        acme.add_contract(QUESTION, 1, contract(NOT))
        blank = {"id": "s", "fact": "lease", "quote": " ", "occurrence": 1}
        acme.load_documents([{"id": "LEASE", "version": 1, "body": BODY, "spans": [blank]}])
        decision = decide(acme, 1)
        assert decision.missing == ("lease",)
        assert verdict(acme, decision, SAID) == "not_the_proposition"


def test_a_citation_of_a_passage_with_no_text(connection: sa.Connection) -> None:
    """Nothing finds it, so that it is never among what may be cited; a body without a byte is none."""
    with rolled_back(connection) as acme:
        with pytest.raises(errors.InvalidDocument), acme.savepoint():
            acme.load_documents([{"id": "EMPTY", "version": 1, "body": ""}])
        acme.load_documents([document(NOT), {"id": "BLANK", "version": 1, "body": " \n\n "}])
        acme.add_contract(QUESTION, 1, contract(NOT))
        decision = acme.decide(QUESTION, query="landlord", case={}, k=1000)
        assert [source.document_id for source in decision.sources] == ["LEASE"]
        cited = Claim(SAID, "lease", "acme", "BLANK", 1, "s")
        assert [found.verdict for found in acme.check_claims(decision, [cited])] == ["source_not_selected"]


def test_a_citation_of_a_span_that_is_not_there(connection: sa.Connection) -> None:
    """An anchor without a text behind it, in a document that was selected."""
    with rolled_back(connection) as acme:
        acme.load_documents([document(NOT)])
        acme.add_contract(QUESTION, 1, contract(NOT))
        decision = decide(acme, 1)
        claims = [Claim(SAID, "lease", "acme", "LEASE", 1, span) for span in ("t", "S", "s ", "s\u200b")]
        assert {found.verdict for found in acme.check_claims(decision, claims)} == {"fact_not_carried"}


def test_a_citation_of_a_label_under_which_nothing_was_handed_over(connection: sa.Connection) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents([document(NOT)])
        acme.add_contract(QUESTION, 1, contract(NOT))
        packet = acme.record_packet(QUESTION, query="landlord", case={}, k=1)
        trace = acme.record_trace(packet.packet_id)
        assert [passage.label for passage in trace.context] == ["P1"]
        for label in ("P2", "p1", "P1 ", "P01", ""):
            with pytest.raises(errors.UnknownLabel), acme.savepoint():
                acme.cite(trace.trace_id, ["P1", label])


# Answers of nothing


def test_a_draft_without_a_sentence_is_an_error_and_not_a_pass(connection: sa.Connection) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents([document(NOT)])
        acme.add_contract(QUESTION, 1, contract(NOT))
        packet = acme.record_packet(QUESTION, query="landlord", case={}, k=1)
        for claims in ([], [Claim("", "lease", "acme", "LEASE", 1, "s")]):
            with pytest.raises(errors.InvalidClaims), acme.savepoint():
                acme.check_claims(packet, claims)
            with pytest.raises(errors.InvalidClaims), acme.savepoint():
                acme.review(packet.packet_id, claims)


def test_an_answer_of_no_text_is_not_recorded(connection: sa.Connection) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents([document(NOT)])
        acme.add_contract(QUESTION, 1, contract(NOT))
        trace = acme.record_trace(acme.record_packet(QUESTION, query="landlord", case={}, k=1).packet_id)
        with pytest.raises(errors.InvalidRequest), acme.savepoint():
            acme.record_answer(trace.trace_id, "", [], model="m", prompt_version="1")
        assert [row.citations for row in acme.traces()] == [None]


@pytest.mark.parametrize("answer", ["[P1]", "...", "\u2014 [P1, P2] \u2014", " \n"])
def test_an_answer_from_which_no_sentence_could_be_cut_is_an_error_and_is_not_recorded(
    store: Database, tmp_path: Path, answer: str
) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([document(NOT)])
        acme.add_contract(QUESTION, 1, contract(NOT))
        trace = acme.record_trace(acme.record_packet(QUESTION, query="landlord", case={}, k=1).packet_id)
    (tmp_path / "answer.txt").write_text(answer, "utf-8")
    arguments = ("trace", "answer", trace.trace_id, tmp_path / "answer.txt", "--model", "m", "--prompt-version", "1")
    ran = rag_sql(*arguments, "--tenant", "acme", url=store.url("acme_curator"))
    assert (ran.returncode, ran.stdout, "NothingToAudit" in ran.stderr) == (1, "", True)
    with store.tenant("acme_reader") as acme:
        assert [row.citations for row in acme.traces()] == [None]
