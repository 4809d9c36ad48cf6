"""The answer audit: what an answer says against what it cites, without a database and without a model.

It cuts the answer into sentences, reads their citations, and has checkers compare each sentence with the passages that
it cites. It can reject an answer or send it to review. It never accepts one: the best it says is that it found nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_sql._audit_model import (
    CHECKER_VERDICTS,
    AuditedSentence,
    AuditReport,
    AuditVerdict,
    CheckCount,
    Checker,
    Finding,
)
from rag_sql._audit_names import NamesCheck
from rag_sql._audit_numbers import NumbersCheck
from rag_sql._audit_text import Sentence, cut
from rag_sql._audit_wording import ModalityCheck, NegationCheck, QuotationCheck, WordsCheck
from rag_sql.errors import NothingToAudit, PassageWithoutText

__all__ = ["CHECKERS", "audit_answer"]

#: The checkers of an audit that names none.
CHECKERS: tuple[Checker, ...] = (
    NumbersCheck(),
    NamesCheck(),
    QuotationCheck(),
    WordsCheck(),
    NegationCheck(),
    ModalityCheck(),
)


def audit_answer(answer: str, sources: Mapping[str, str], *, checkers: Sequence[Checker] = CHECKERS) -> AuditReport:
    """Audit an answer against the passages that it cites.

    A citation is a label in brackets, ``[P1]`` or ``[P1, P2]``, in the sentence or after its full stop. A sentence is
    compared with the passages that it cites, all of them together; one that cites no passage there is, with all.

    Parameters
    ----------
    answer : str
    sources : mapping of str to str
        The texts of the passages by label.
    checkers : sequence of Checker, optional
        In place of the audit's own; ``(*CHECKERS, mine)`` adds one.

    Returns
    -------
    AuditReport
        Each sentence with its findings. The verdict ``no_finding`` is no acceptance.

    Raises
    ------
    NothingToAudit
        No sentence could be cut from the answer.
    PassageWithoutText
        A cited passage holds no letter and no digit.
    ValueError
        A checker returned what it may not say.
    """
    sentences = cut(answer, sources.keys())
    if not sentences:
        raise NothingToAudit("the answer holds no sentence", hint="An answer without a sentence cannot be audited.")
    for label in dict.fromkeys(label for sentence in sentences for label in sentence.citations):
        if label in sources and not any(character.isalnum() for character in sources[label]):
            raise PassageWithoutText(
                f"the cited passage {label} has no text", hint="Pass the text of each passage that the answer cites."
            )
    audited = tuple(_audited(sentence, sources, checkers) for sentence in sentences)
    counts = tuple(
        CheckCount(
            check=checker.name,
            bears_on=sum(checker.name in sentence.checks for sentence in audited),
            found_in=sum(any(f.check == checker.name for f in sentence.findings) for sentence in audited),
        )
        for checker in checkers
    )
    return AuditReport(sentences=audited, checks=counts)


def _audited(sentence: Sentence, sources: Mapping[str, str], checkers: Sequence[Checker]) -> AuditedSentence:
    cited = {label: sources[label] for label in sentence.citations if label in sources}
    findings = _citation_findings(sentence, sources)
    checks = []
    for checker in checkers:
        found = checker.check(sentence.bare, cited or dict(sources))
        if found is None:
            continue
        checks.append(checker.name)
        findings += [_placed(finding, checker, sentence) for finding in found]
    return AuditedSentence(
        sentence.start, sentence.end, sentence.text, sentence.citations, tuple(checks), tuple(findings)
    )


def _citation_findings(sentence: Sentence, sources: Mapping[str, str]) -> list[Finding]:
    """Labels that no source has, and an assertion without a citation; a question asserts nothing."""
    findings = []
    for label in sentence.citations:
        if label not in sources:
            start = sentence.start + max(sentence.text.find(label), 0)
            reason = "no source has this label"
            end = start + len(label)
            findings.append(Finding("citations", AuditVerdict.UNKNOWN_CITATION, start, end, label, (), reason))
    said = sentence.text.strip()
    if not sentence.citations and not said.endswith("?"):
        start = sentence.start + sentence.text.index(said)
        reason = "asserts without a citation"
        findings.append(Finding("citations", AuditVerdict.UNCITED, start, start + len(said), said, (), reason))
    return findings


def _placed(finding: Finding, checker: Checker, sentence: Sentence) -> Finding:
    """A checker's finding at its place in the answer, in the answer's words."""
    if finding.verdict not in CHECKER_VERDICTS or finding.check != checker.name:
        raise ValueError(f"the checker {checker.name} may not return {finding.verdict} for {finding.check}")
    if not 0 <= finding.start <= finding.end <= len(sentence.text):
        raise ValueError(f"the checker {checker.name} returned a place outside the sentence")
    return replace(finding, start=sentence.start + finding.start, end=sentence.start + finding.end)
