"""What an audit says: verdicts, findings, and the report with its denominators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol

__all__ = ["AuditReport", "AuditVerdict", "AuditedSentence", "CheckCount", "Checker", "Finding", "Held"]


class AuditVerdict(StrEnum):
    """What an audit can say of a sentence or an answer; none of it accepts.

    In order of weight: the verdict of a sentence is its weightiest finding's, the verdict of an answer its weightiest
    sentence's.
    """

    CONTRADICTED = "contradicted"  # the passages hold another value in its place
    UNSUPPORTED = "unsupported"  # the passages do not hold it
    UNKNOWN_CITATION = "unknown_citation"  # a label that no source has
    UNCITED = "uncited"  # asserts without a citation
    REVIEW = "review"  # negation, modality or wording differ: a person decides
    UNCHECKED = "unchecked"  # no check bears on it
    NO_FINDING = "no_finding"  # at least one check bears on it, and none found anything

    @property
    def rejects(self) -> bool:
        """Whether the audit rejects what it says this of."""
        return self in {self.CONTRADICTED, self.UNSUPPORTED, self.UNKNOWN_CITATION}

    @property
    def weight(self) -> int:
        """The position in the order of weight, the weightiest first; smaller is weightier."""
        return list(AuditVerdict).index(self)


#: What a checker may say of what it found.
CHECKER_VERDICTS = frozenset({AuditVerdict.CONTRADICTED, AuditVerdict.UNSUPPORTED, AuditVerdict.REVIEW})


@dataclass(frozen=True)
class Held:
    """What a passage holds in place of what the answer says.

    Attributes
    ----------
    label : str
        The passage.
    start, end : int
        Where in the passage, in code points, half-open.
    text : str
    """

    label: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One thing that an audit found.

    Attributes
    ----------
    check : str
        The check that found it.
    verdict : AuditVerdict
        From a checker ``contradicted``, ``unsupported`` or ``review``.
    start, end : int
        Where, in code points, half-open: in the sentence when a checker returns it, in the answer in a report.
    said : str
        What the answer says there.
    held : tuple of Held
        What the passages hold in its place; empty when they hold nothing comparable.
    reason : str
        One sentence for a reader.
    """

    check: str
    verdict: AuditVerdict
    start: int
    end: int
    said: str
    held: tuple[Held, ...]
    reason: str


class Checker(Protocol):
    """A check of one sentence against the passages it cites. A model-based one is any object of this shape.

    Attributes
    ----------
    name : str
        The name under which the report counts it: a lower-case letter, then letters, digits, ``_`` and ``-``, at most
        64, where the report is to be recorded with a trace.
    """

    @property
    def name(self) -> str:
        """The name under which the report counts it."""
        ...

    def check(self, sentence: str, passages: Mapping[str, str], /) -> Sequence[Finding] | None:
        """Compare a sentence with passages.

        Parameters
        ----------
        sentence : str
            The sentence; each citation in it is replaced by as many spaces, so that positions hold.
        passages : mapping of str to str
            The texts of the cited passages by label. For a sentence that cites no passage there is: all passages.

        Returns
        -------
        sequence of Finding or None
            None where the check does not bear on the sentence; an empty sequence where it bears and finds nothing.
        """
        ...


@dataclass(frozen=True)
class AuditedSentence:
    """A sentence of the answer with what was found.

    Attributes
    ----------
    start, end : int
        Its place in the answer, in code points, half-open. The sentences of a report tile the answer.
    text : str
    citations : tuple of str
        The labels it cites, in order, as they are written.
    checks : tuple of str
        The checks that bear on it.
    findings : tuple of Finding
    """

    start: int
    end: int
    text: str
    citations: tuple[str, ...]
    checks: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> AuditVerdict:
        """The weightiest finding's verdict; without one ``no_finding``, or ``unchecked`` where no check bears."""
        if self.findings:
            return min((finding.verdict for finding in self.findings), key=lambda verdict: verdict.weight)
        return AuditVerdict.NO_FINDING if self.checks else AuditVerdict.UNCHECKED


@dataclass(frozen=True)
class CheckCount:
    """How much a check saw.

    Attributes
    ----------
    check : str
    bears_on : int
        Sentences that it bears on.
    found_in : int
        Sentences among them in which it found something.
    """

    check: str
    bears_on: int
    found_in: int


@dataclass(frozen=True)
class AuditReport:
    """The audit of one answer. It rejects, sends to review, or found nothing; it never accepts.

    Attributes
    ----------
    sentences : tuple of AuditedSentence
        They tile the answer.
    checks : tuple of CheckCount
        Each checker's denominator: of how many sentences it could say anything at all.
    """

    sentences: tuple[AuditedSentence, ...]
    checks: tuple[CheckCount, ...]

    @property
    def verdict(self) -> AuditVerdict:
        """The weightiest sentence's verdict: ``no_finding`` only where each sentence was checked."""
        return min((sentence.verdict for sentence in self.sentences), key=lambda verdict: verdict.weight)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the answer."""
        return tuple(finding for sentence in self.sentences for finding in sentence.findings)

    def counts(self) -> dict[AuditVerdict, int]:
        """The number of sentences of each verdict, zeros included."""
        counts = dict.fromkeys(AuditVerdict, 0)
        for sentence in self.sentences:
            counts[sentence.verdict] += 1
        return counts

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "verdict": self.verdict,
            "rejected": self.verdict.rejects,
            "sentence_count": len(self.sentences),
            "verdicts": {str(verdict): count for verdict, count in self.counts().items()},
            "checks": [asdict(count) for count in self.checks],
            "sentences": [{"verdict": sentence.verdict, **asdict(sentence)} for sentence in self.sentences],
        }
