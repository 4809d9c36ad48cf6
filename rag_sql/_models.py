"""What the store returns: frozen values, built by name from what the database returns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from rag_sql import _evidence
from rag_sql.errors import EvidenceErased

__all__ = [
    "Approval",
    "Claim",
    "ContextPassage",
    "Contract",
    "Decision",
    "Evidence",
    "Outcome",
    "Packet",
    "Request",
    "Review",
    "Source",
    "Span",
    "Trace",
    "Verdict",
    "Witness",
]


class Outcome(StrEnum):
    """How a decision ended. Different results with different repairs; nothing is averaged."""

    SUFFICIENT_FOR_TEMPLATE = "SufficientForTemplate"
    ASK_FOR_EVIDENCE = "AskForEvidence"
    NEEDS_DECISION = "NeedsDecision"
    UNSUPPORTED_QUESTION = "UnsupportedQuestion"


@dataclass(frozen=True)
class Span:
    """An exact quotation in a version.

    Attributes
    ----------
    span_id, fact : str
        Identifier within the version; fact label (a hint: the quotation decides).
    range_start, range_end : int
        Place in the body, in code points, 0-based and half-open.
    quote : str
        The text of that range; empty where it was erased.
    """

    span_id: str
    fact: str
    range_start: int
    range_end: int
    quote: str


@dataclass(frozen=True)
class Source:
    """A selected passage.

    Attributes
    ----------
    position, score : int
        Place in the order of rank, from 1; number of distinct query words that occur in it.
    tenant : str
        Visibility: ``public`` or the tenant.
    document_id, version : str, int
        Which document, in which immutable revision.
    range_start, range_end : int
        Place in the body, in code points, 0-based and half-open.
    title, source : str or None
        As the document states them.
    text, text_sha256 : str
        The passage, empty where it was erased, and the SHA-256 (hexadecimal) of its UTF-8 bytes.
    spans : tuple of Span
        Spans that begin in the passage and that the selection has whole, by id.
    heading_path : tuple of str
        Headings above the passage, outermost first.
    """

    position: int
    score: int
    tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int
    title: str | None
    source: str | None
    text: str
    text_sha256: str
    spans: tuple[Span, ...]
    heading_path: tuple[str, ...] = ()

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> Self:
        spans = tuple(Span(**{**_known(Span, span), "quote": span["quote"] or ""}) for span in value["spans"])
        parts = {"text": value["text"] or "", "spans": spans, "heading_path": tuple(value.get("heading_path", ()))}
        return cls(**{**_known(cls, value), **parts})


@dataclass(frozen=True)
class Witness:
    """The span to cite for a covered fact, with what may be said on it.

    Attributes
    ----------
    fact : str
        The required fact.
    tenant, document_id, version, span_id : str, str, int, str
        The cited span.
    quote : str
        Its text: equal to a curated proposition of the fact.
    clauses : tuple of str
        The clauses licensed on that proposition, in contract order.
    """

    fact: str
    tenant: str
    document_id: str
    version: int
    span_id: str
    quote: str
    clauses: tuple[str, ...]

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{**_known(cls, value), "clauses": tuple(value["clauses"])})


@dataclass(frozen=True)
class Contract:
    """A question type, as a decision used it.

    Attributes
    ----------
    tenant, version : str, int
        Owner and version.
    sha256 : str
        Content hash, hexadecimal.
    content : mapping
        ``case`` (attribute names), ``facts`` (each with propositions and clauses) and, where documents cannot answer
        the question, ``decision``: what it is ``about``, who it is ``decided_by``, where to ``refer``, and what to
        ``never_say``.
    """

    tenant: str
    version: int
    sha256: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Attributes
    ----------
    query, k, method, parameters : str, int, str, mapping
        Words for the ranker, most passages to select, ranking method, its parameters.
    valid_at, known_at : str
        The instants used, as ISO 8601 in UTC.
    """

    query: str
    k: int
    method: str
    valid_at: str
    known_at: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """What a decision rests on; common to :class:`Decision` and :class:`Packet`.

    Attributes
    ----------
    outcome : Outcome
    question_id : str
    contract : Contract
    case_facts : mapping of str to str
    request : Request
    required, missing : tuple of str
        Facts that the contract requires; those without a witness. In contract order.
    sources : tuple of Source
        Selected passages in order of rank.
    witnesses : tuple of Witness
        One for each covered fact, in contract order.
    preimage, digest : str
        Hexadecimal: the bytes, and their SHA-256, that identify the evidence.
    """

    outcome: Outcome
    question_id: str
    contract: Contract
    case_facts: Mapping[str, str]
    request: Request
    required: tuple[str, ...]
    missing: tuple[str, ...]
    sources: tuple[Source, ...]
    witnesses: tuple[Witness, ...]
    preimage: str
    digest: str

    @property
    def sufficient(self) -> bool:
        """Whether every required fact has a witness and documents can answer the question."""
        return self.outcome is Outcome.SUFFICIENT_FOR_TEMPLATE

    @property
    def covered(self) -> bool:
        """Whether every required fact has a witness: the rule may be said, also where only a person can decide."""
        return self.outcome in {Outcome.SUFFICIENT_FOR_TEMPLATE, Outcome.NEEDS_DECISION}

    @property
    def is_erased(self) -> bool:
        """Whether something that it rests on was erased: it is neither valid nor broken."""
        decided = self.outcome is not Outcome.UNSUPPORTED_QUESTION
        return decided and (not self.preimage or any(not source.text for source in self.sources))

    @property
    def needed_decision(self) -> Mapping[str, Any] | None:
        """What only a person can decide, as the contract has it; None where documents can answer the question."""
        needed: Mapping[str, Any] | None = self.contract.content.get("decision")
        return needed


@dataclass(frozen=True)
class Decision(Evidence):
    """An evidence decision that was not stored. An unsupported question has an outcome and nothing else."""

    @classmethod
    def _from_row(cls, row: Mapping[str, Any]) -> Self:
        if row["outcome"] == Outcome.UNSUPPORTED_QUESTION:
            return cls(
                outcome=Outcome.UNSUPPORTED_QUESTION,
                question_id=row["question_id"],
                contract=Contract("", 0, "", {}),
                case_facts={},
                request=Request("", 0, "", "", ""),
                required=(),
                missing=(),
                sources=(),
                witnesses=(),
                preimage="",
                digest="",
            )
        return cls(
            outcome=Outcome(row["outcome"]),
            question_id=row["question_id"],
            contract=Contract(
                row["contract_tenant"], row["contract_version"], row["contract_sha256"].hex(), row["contract"]
            ),
            case_facts=row["case_facts"],
            request=Request(
                row["query"],
                row["k"],
                row["method"],
                row["valid_at"].isoformat(),
                row["known_at"].isoformat(),
                row["parameters"],
            ),
            required=tuple(row["required"]),
            missing=tuple(row["missing"]),
            sources=tuple(Source._from_json(source) for source in row["sources"]),
            witnesses=tuple(Witness._from_json(witness) for witness in row["witnesses"]),
            preimage=row["preimage"].hex(),
            digest=row["digest"].hex(),
        )


@dataclass(frozen=True)
class Packet(Evidence):
    """A stored decision.

    Attributes
    ----------
    packet_id, tenant : str
        Identifier, and whose it is.
    recorded_at, recorded_by : str
        When (ISO 8601, UTC), and by which login.
    document : mapping
        The packet as JSON, as the database rendered it.
    """

    packet_id: str
    tenant: str
    recorded_at: str
    recorded_by: str
    document: Mapping[str, Any]

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Build a packet from its JSON document.

        Raises
        ------
        ValueError
            The document lacks a part, or a part has another type.
        """
        try:
            contract = document["contract"]
            return cls(
                outcome=Outcome(document["outcome"]),
                question_id=document["question_id"],
                contract=Contract(**{**_known(Contract, contract), "content": contract["content"] or {}}),
                case_facts=document["case_facts"],
                request=Request(**_known(Request, document["request"])),
                required=tuple(document["required"]),
                missing=tuple(document["missing"]),
                sources=tuple(Source._from_json(source) for source in document["sources"]),
                witnesses=tuple(
                    Witness._from_json(witness)
                    for witness in _evidence.witnesses(contract["content"], document["sources"])
                ),
                preimage=document["preimage"] or "",
                digest=document["digest"],
                packet_id=document["packet_id"],
                tenant=document["tenant"],
                recorded_at=document["recorded_at"],
                recorded_by=document["recorded_by"],
                document=document,
            )
        except KeyError as error:
            raise ValueError(f"not a packet: {error.args[0]} is missing") from error
        except (TypeError, AttributeError) as error:
            raise ValueError("not a packet: a part has another type than it must") from error

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Build a packet from the text of its JSON document; raises ValueError when it is none."""
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("not a packet: a JSON object is needed")
        return cls.from_document(document)

    def to_json(self) -> str:
        """The packet as JSON text: enough to verify it without a database."""
        return json.dumps(self.document, ensure_ascii=False, indent=2, sort_keys=True)

    def verify(self) -> list[str]:
        """What does not hold of this packet's evidence, from its document alone; empty when all of it does.

        The request, scores, titles, times and who recorded it are not part of the evidence and are not checked.
        Recomputes the digest by the byte layout of ``schema/README.md``, the hashes of texts and contract, the places
        of the quotations, and coverage.

        Raises
        ------
        EvidenceErased
            Something that it rests on was erased, and the rest holds: it is neither valid nor broken.
        """
        try:
            problems = _evidence.verify(self.document)
            erased = _evidence.erased(self.document)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            return [f"the packet is malformed: {error!r}"]
        if erased and not problems:
            raise EvidenceErased(
                f"the evidence of packet {self.packet_id} was erased",
                detail="Erased: " + ", ".join(erased),
                hint="Who did, when and why: select * from rag_api.erasure;",
            )
        return problems


@dataclass(frozen=True)
class ContextPassage:
    """A passage as it is handed to a model, under its label.

    Attributes
    ----------
    label : str
        ``P1``, ``P2``, ...: what an answer cites.
    added_as : str
        ``witness`` (it covers a required fact), ``selected``, or ``neighbour`` of a selected one.
    tenant, document_id, version, range_start, range_end : str, str, int, int, int
        Its place.
    heading_path : tuple of str
        Headings above it, outermost first.
    text : str
    """

    label: str
    added_as: str
    tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int
    heading_path: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Trace:
    """What is handed to a model, as it was recorded.

    Attributes
    ----------
    trace_id, packet_id : str
    outcome : Outcome
        The outcome on this context: what was lost to the budget is missing.
    missing : tuple of str
        Required facts without a witness in the context, in contract order.
    context : tuple of ContextPassage
        In the order of their labels.
    """

    trace_id: str
    packet_id: str
    outcome: Outcome
    missing: tuple[str, ...]
    context: tuple[ContextPassage, ...]

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            trace_id=value["trace_id"],
            packet_id=value["packet_id"],
            outcome=Outcome(value["outcome"]),
            missing=tuple(value["missing"]),
            context=tuple(
                ContextPassage(**{**passage, "heading_path": tuple(passage["heading_path"])})
                for passage in value["context"]
            ),
        )


@dataclass(frozen=True)
class Claim:
    """A sentence with a citation.

    Attributes
    ----------
    text, fact : str
        The sentence, and the fact it claims.
    tenant, document_id, version, span_id : str, str, int, str
        The cited span; ``tenant`` is the document's visibility.
    """

    text: str
    fact: str
    tenant: str
    document_id: str
    version: int
    span_id: str


@dataclass(frozen=True)
class Verdict:
    """What the gate says of one claim.

    Attributes
    ----------
    claim : Claim
    verdict : str
        ``licensed``, or the first check that fails: ``source_not_selected``, ``fact_not_carried``,
        ``not_the_proposition``, ``states_decision``, ``not_licensed``.
    reason : str
        The check's reason; empty for a licensed claim.
    """

    claim: Claim
    verdict: str
    reason: str

    @property
    def licensed(self) -> bool:
        """Whether the sentence may be said."""
        return self.verdict == "licensed"


@dataclass(frozen=True)
class Review:
    """What a reviewer is shown, and the digests (hexadecimal) that a decision about it binds."""

    packet_id: str
    verdicts: tuple[Verdict, ...]
    evidence_digest: str
    draft_digest: str
    shown_digest: str


@dataclass(frozen=True)
class Approval:
    """A usable approval: the newest decision about a draft, on evidence that is still the same.

    Attributes
    ----------
    packet_id : str
    evidence_digest, draft_digest, shown_digest : str
        What it binds, hexadecimal.
    decision_number : int
        Number among the decisions about this draft on this evidence.
    reviewer_login, reviewer_name : str, str or None
        The session's login; the name that the application stated.
    note : str or None
    withheld : tuple of int
        Positions, from 1, of claims that were shown as withheld; they may not be said.
    recorded_at : datetime
    """

    packet_id: str
    evidence_digest: str
    draft_digest: str
    shown_digest: str
    decision_number: int
    reviewer_login: str
    reviewer_name: str | None
    note: str | None
    withheld: tuple[int, ...]
    recorded_at: datetime


def claims_json(claims: Sequence[Claim]) -> str:
    """Claims as the database takes them."""
    return json.dumps([asdict(claim) for claim in claims], ensure_ascii=False)


def _known(cls: type[Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a JSON object that are fields of `cls`; KeyError for one that lacks."""
    return {field.name: value[field.name] for field in fields(cls) if field.name in value}
