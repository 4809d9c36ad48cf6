"""Drafting: sentences with citations, from selected evidence only.

A drafter is any callable from a :class:`DraftRequest` to claims. What it receives is one serialisable object that holds
the selected sources and nothing else of the corpus, so that a test can assert on its bytes what a model would see.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from rag_sql._models import Claim, Evidence
from rag_sql.errors import EvidenceErased

__all__ = ["PROMPT_VERSION", "DraftRequest", "Drafter", "draft", "template_drafter"]

#: Changes whenever the instructions change.
PROMPT_VERSION = "rag-sql-draft-2"

_INSTRUCTIONS = (
    "Answer the question with one claim for each required fact. Use only the sources given here. "
    "Each claim is a JSON object with the keys text, fact, tenant, document_id, version and span_id; the last four "
    "cite one span of one source. Say nothing that the cited quotation does not support; keep its modality, scope and "
    "negation. "
    "Where a needed decision is given, say the rule and nothing that decides. "
    "Return a JSON array of claims and nothing else."
)


@dataclass(frozen=True)
class DraftRequest:
    """Everything that a drafter, or the model behind it, is given.

    Attributes
    ----------
    prompt_version, instructions : str
        The prompt, and its version.
    question_id : str
    case_facts : dict of str to str
    required : tuple of str
        Facts the answer needs.
    sources : tuple of dict
        Selected passages: place, title, text and spans. Nothing else of the corpus.
    witnesses : tuple of dict
        For each fact, the span to cite, its quotation and the clauses licensed on it.
    needed_decision : dict or None
        What only a person can decide, and which sentences would state it; None where documents can answer.
    """

    prompt_version: str
    instructions: str
    question_id: str
    case_facts: dict[str, str]
    required: tuple[str, ...]
    sources: tuple[dict[str, Any], ...]
    witnesses: tuple[dict[str, Any], ...]
    needed_decision: dict[str, Any] | None

    @classmethod
    def for_evidence(cls, evidence: Evidence) -> DraftRequest:
        """The request for evidence that covers every required fact.

        Raises
        ------
        ValueError
            A required fact has no witness: there is nothing to draft from.
        EvidenceErased
            Something that the evidence rests on was erased.
        """
        if not evidence.covered:
            raise ValueError(f"nothing to draft: the outcome is {evidence.outcome}")
        if evidence.is_erased:
            raise EvidenceErased(f"nothing to draft: evidence ev-{evidence.digest} was erased")
        return cls(
            prompt_version=PROMPT_VERSION,
            instructions=_INSTRUCTIONS,
            question_id=evidence.question_id,
            case_facts=dict(evidence.case_facts),
            required=evidence.required,
            sources=tuple(asdict(source) for source in evidence.sources),
            witnesses=tuple(asdict(witness) for witness in evidence.witnesses),
            needed_decision=None if evidence.needed_decision is None else dict(evidence.needed_decision),
        )

    def to_json(self) -> str:
        """The request as JSON text: what goes over the wire."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)


class Drafter(Protocol):
    """Any callable that turns a request into claims."""

    def __call__(self, request: DraftRequest, /) -> Sequence[Claim]:
        """Claims in the order in which they are to be said."""
        ...


def template_drafter(request: DraftRequest) -> Sequence[Claim]:
    """Join licensed clauses in contract order: for each fact, the first clause of the witnessed proposition.

    With a finite set of licensed clauses this is the stronger baseline: it cannot invent a sentence.
    """
    return tuple(
        Claim(
            text=witness["clauses"][0],
            fact=witness["fact"],
            tenant=witness["tenant"],
            document_id=witness["document_id"],
            version=witness["version"],
            span_id=witness["span_id"],
        )
        for witness in request.witnesses
    )


def draft(evidence: Evidence, drafter: Drafter = template_drafter) -> tuple[Claim, ...]:
    """Have a drafter draft from a decision or a packet. The claims are not yet checked: see ``check_claims``."""
    return tuple(drafter(DraftRequest.for_evidence(evidence)))
