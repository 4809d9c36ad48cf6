"""What listings, searches and loads return: frozen values, a row each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = [
    "AddedSpan",
    "ApprovalRow",
    "AttributeRow",
    "Candidate",
    "Change",
    "Citation",
    "ClauseRow",
    "ContractRow",
    "LoadedDocument",
    "MissingEmbedding",
    "NearestPassage",
    "PacketRow",
    "PropositionOccurrence",
    "TraceCandidate",
    "TraceFinding",
    "TracePassage",
    "TraceRow",
]


@dataclass(frozen=True)
class Candidate:
    """A visible passage and why it was or was not selected.

    Attributes
    ----------
    score : int
    tenant, document_id, version : str, str, int
    range_start, range_end : int
        Place in the body, in code points, 0-based and half-open.
    eligible : bool
    eligible_position : int or None
        Place among the eligible passages, from 1.
    selected : bool
    reason : str or None
        ``superseded``, ``scheduled``, ``withdrawn``, ``erased``, ``attribute_differs`` or ``attribute_not_stated``.
    attribute, applies_to, case_value : str, tuple of str, str, each or None
        The attribute that excludes, the version's values and the case's.
    effective_version : int or None
        The version of the document that is effective at the instant.
    successors : tuple of str or None
        The documents that take the place of its document at the instant; None when none does.
    """

    score: int
    tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int
    eligible: bool
    eligible_position: int | None
    selected: bool
    reason: str | None
    attribute: str | None
    applies_to: tuple[str, ...] | None
    case_value: str | None
    effective_version: int | None
    successors: tuple[str, ...] | None


@dataclass(frozen=True)
class Hit:
    """A passage that a search found.

    Attributes
    ----------
    position : int
        Rank, from 1.
    score : int
        By ``bm25`` in 1/100,000; by ``overlap`` the number of distinct words; by ``vector`` 1 to 1,000,001.
    bm25_rank, vector_rank : int or None
        By ``hybrid``, the rank in each arm.
    tenant, document_id, version : str, str, int
    range_start, range_end : int
        Place in the body, in code points, 0-based and half-open.
    title, heading_path, text : str or None, tuple of str, str
    why : object or None
        What each word of the query adds to the score, where it was asked for.
    """

    position: int
    score: int
    bm25_rank: int | None
    vector_rank: int | None
    tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int
    title: str | None
    heading_path: tuple[str, ...]
    text: str
    why: Any


@dataclass(frozen=True)
class Change:
    """A difference between a packet and a decision made now: of a document, of the contract, or of the outcome."""

    subject: str
    was: str
    is_now: str


@dataclass(frozen=True)
class Citation:
    """The stored document behind a label of a trace: what may be shown as a citation.

    Attributes
    ----------
    label, tenant, document_id, version, range_start, range_end : str, str, str, int, int, int
        The label and the place of the passage.
    title, url : str or None
        As stored; ``url`` is the stored source where that is an http or https address, never anything an answer says.
    """

    label: str
    tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int
    title: str | None
    url: str | None


@dataclass(frozen=True)
class TraceFinding:
    """Where a required passage was lost, or a label that nobody handed over.

    Attributes
    ----------
    finding : str
        ``retrieval_miss``, ``context_loss`` or ``unknown_citation``.
    tenant, document_id, version, range_start : str, str, int, int, or None each
        The required passage that was lost.
    label : str or None
        The unknown label.
    """

    finding: str
    tenant: str | None
    document_id: str | None
    version: int | None
    range_start: int | None
    label: str | None


@dataclass(frozen=True)
class ContractRow:
    """A visible contract version.

    Attributes
    ----------
    tenant, question_id, version : str, str, int
    is_newest : bool
        Whether it is the owner's newest version of the question.
    case_attributes, required_facts : tuple of str
        In contract order.
    decision : dict or None
        What only a person decides, ``about`` what, ``decided_by`` whom, where to ``refer``, and what to ``never_say``.
    keep : str
        What traces keep of queries and answers: ``text``, ``digest`` or ``none``.
    content_sha256 : str
        Hexadecimal.
    recorded_at, recorded_by : datetime, str
    """

    tenant: str
    question_id: str
    version: int
    is_newest: bool
    case_attributes: tuple[str, ...]
    required_facts: tuple[str, ...]
    decision: dict[str, Any] | None
    keep: str
    content_sha256: str
    recorded_at: datetime
    recorded_by: str


@dataclass(frozen=True)
class ClauseRow:
    """A licensed clause: what may be said on which quotation, for which fact of which contract version."""

    tenant: str
    version: int
    fact: str
    quote: str
    clause: str


@dataclass(frozen=True)
class PacketRow:
    """A recorded packet, in a line; `is_erased` says whether something that it rests on was erased."""

    packet_id: str
    question_id: str
    outcome: str
    digest: str
    query: str
    k: int
    recorded_at: datetime
    recorded_by: str
    is_erased: bool


@dataclass(frozen=True)
class ApprovalRow:
    """A reviewer's decision and what it is worth: ``approved``, ``stale``, ``erased``, ``rejected`` or ``replaced``."""

    packet_id: str
    question_id: str
    decision_number: int
    decision: str
    status: str
    reviewer: str
    note: str | None
    recorded_at: datetime
    evidence_digest: str
    draft_digest: str


@dataclass(frozen=True)
class AttributeRow:
    """The type of an attribute in force for a tenant.

    Attributes
    ----------
    tenant, attribute : str
    type : str
        ``text``, ``number``, ``flag``, ``date``, ``version-pep440``, ``version-semver`` or ``version-numeric``.
    declared_by : str
        Whose declaration counts: the tenant itself, or ``public``.
    recorded_at, recorded_by : datetime, str
        When, and by which login.
    """

    tenant: str
    attribute: str
    type: str
    declared_by: str
    recorded_at: datetime
    recorded_by: str


@dataclass(frozen=True)
class TraceRow:
    """A trace, in a line; what concerns the answer is None while there is none, and texts where they are not kept."""

    trace_id: str
    packet_id: str
    question_id: str
    outcome: str
    missing: tuple[str, ...]
    budget: int
    model: str | None
    prompt_version: str | None
    citations: tuple[str, ...] | None
    verdict: str | None
    case_facts: dict[str, str]
    k: int
    query: str | None
    answer: str | None
    recorded_at: datetime
    recorded_by: str


@dataclass(frozen=True)
class TracePassage:
    """What became of a passage on the way into a context.

    Attributes
    ----------
    label : str or None
        The label under which it was handed over; None when it was not.
    added_as : str
        ``witness``, ``selected`` or ``neighbour``.
    left_out : str or None
        ``duplicate`` or ``over_budget``, where it was not handed over.
    tokens : int
        Headings included.
    document_tenant, document_id, version, range_start, range_end : str, str, int, int, int
        Its place.
    heading_path : tuple of str
    text : str
        Empty where it was erased.
    """

    label: str | None
    added_as: str
    left_out: str | None
    tokens: int
    document_tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int
    heading_path: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class TraceCandidate:
    """A visible passage that the query of a trace found, by rank among all, and why it may not be used."""

    position: int
    score: int
    document_tenant: str
    document_id: str
    version: int
    range_start: int
    eligible: bool
    reason: str | None


@dataclass(frozen=True)
class TraceVerdict:
    """What an audit said of a sentence of the answer of a trace.

    Attributes
    ----------
    range_start, range_end : int
        Its place in the answer, in code points, half-open.
    verdict : str
        An :class:`AuditVerdict`.
    checks : tuple of str
        The checks that found something.
    sentence : str or None
        Where the contract keeps texts.
    """

    range_start: int
    range_end: int
    verdict: str
    checks: tuple[str, ...]
    sentence: str | None


@dataclass(frozen=True)
class TraceTime:
    """How long a stage of a trace took; None where nobody measured it."""

    stage: str
    took: timedelta | None


@dataclass(frozen=True)
class LoadedDocument:
    """What a load made of one document.

    Attributes
    ----------
    document_id, version : str, int
    status : str
        ``new``, or ``same`` where the version existed with this content.
    superseded_by : int or None
        The version that supersedes it as things stand; None when none does.
    successors : tuple of str or None
        The documents that take the place of its document as things stand; None when none does.
    """

    document_id: str
    version: int
    status: str
    superseded_by: int | None
    successors: tuple[str, ...] | None


@dataclass(frozen=True)
class AddedSpan:
    """What became of a span that was added: ``new``, or ``same`` where it existed with this content."""

    document_id: str
    version: int
    span_id: str
    status: str


@dataclass(frozen=True)
class MissingEmbedding:
    """A passage that has no vector of a model.

    Attributes
    ----------
    document_id, version : str, int
    range_start : int
        Where it begins in the body, in code points from 0.
    text : str
        What the vector is to be made of.
    """

    document_id: str
    version: int
    range_start: int
    text: str


@dataclass(frozen=True)
class PropositionOccurrence:
    """A proposition of a contract and a current version that contains its quotation, or the proposition alone.

    Attributes
    ----------
    fact_position, fact : int, str
        The required fact, and its place in the contract, from 1.
    proposition_position, quote : int, str
        The proposition's place in its fact, from 1, and its quotation.
    tenant, document_id, version : str, str, int, or None each
        The version; ``tenant`` is the document's visibility. None where no current version contains the quotation.
    range_start : int or None
        Where the quotation begins first, in code points from 0.
    is_repeated : bool
        Whether it stands there more than once, so that a span has to name its occurrence.
    span_ids : tuple of str
        Spans of that fact with that quotation there; empty when nobody has curated it yet.
    """

    fact_position: int
    fact: str
    proposition_position: int
    quote: str
    tenant: str | None
    document_id: str | None
    version: int | None
    range_start: int | None
    is_repeated: bool
    span_ids: tuple[str, ...]


@dataclass(frozen=True)
class NearestPassage:
    """A current passage that shares words with a quotation: for people to look at; it licenses nothing.

    Attributes
    ----------
    score : int
        Number of distinct words in common.
    tenant, document_id, version : str, str, int
        Which document; ``tenant`` is its visibility.
    range_start, range_end : int
        Place in the body, in code points, 0-based and half-open.
    text : str
        The passage.
    """

    score: int
    tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int
    text: str
