"""The store as one tenant sees it: one method for each function of ``rag_api``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from rag_sql import _statements
from rag_sql._calls import whole_number
from rag_sql._embedding import Embeddings
from rag_sql._history import History
from rag_sql._impact import Impacts
from rag_sql._models import Approval, Claim, Decision, Evidence, Packet, Review, Verdict, claims_json
from rag_sql._rows import (
    AddedSpan,
    ApprovalRow,
    AttributeRow,
    Candidate,
    Change,
    ClauseRow,
    ContractRow,
    Hit,
    LoadedDocument,
    NearestPassage,
    PacketRow,
    PropositionOccurrence,
)
from rag_sql._traces import Traces

__all__ = ["Tenant"]

#: A fact of a case: a text; for an attribute that is declared as a number or a flag also a Python number or bool.
CaseValue = str | int | float


class Tenant(Embeddings, History, Impacts, Traces):
    """The store as one tenant sees it, for the length of a transaction. Made by :meth:`EvidenceStore.tenant`."""

    # Documents and contracts

    def load_documents(self, documents: Sequence[Mapping[str, Any]]) -> list[LoadedDocument]:
        """Load documents, all or nothing, in one round trip.

        Parameters
        ----------
        documents : sequence of mappings
            Keys ``id``, ``version``, ``body`` and, optionally, ``title``, ``applies_to`` (attribute to list of texts),
            ``effective_from``, ``published``, ``source``, ``language`` (a text search configuration of PostgreSQL,
            default ``simple``), ``metadata``, ``spans`` (each ``id``, ``fact``, ``quote``
            and, where the quotation is ambiguous, ``occurrence``), ``successors`` (ids of the documents that take its
            place) and ``superseded_from`` (from when on, default ``effective_from``).

        Returns
        -------
        list of LoadedDocument
            One for each document, in order.

        Raises
        ------
        TenantRequired, NotAllowed, InvalidDocument, VersionConflict, QuoteNotFound, AmbiguousQuote
            Nothing was loaded.
        """
        rows = self._rows(_statements.LOAD_DOCUMENTS, documents=json.dumps(list(documents), ensure_ascii=False))
        return [LoadedDocument(**{**row, "successors": _tuple(row["successors"])}) for row in rows]

    def same_documents(self, documents: Sequence[Mapping[str, Any]]) -> set[int]:
        """Which documents :meth:`load_documents` would call ``same``; their bodies are not sent, only their SHA-256.

        Parameters
        ----------
        documents : sequence of mappings
            As for :meth:`load_documents`.

        Returns
        -------
        set of int
            Positions, from 0. What is not among them is new, different or malformed.

        Raises
        ------
        TenantRequired, NotAllowed
        """
        bodies = [document.get("body") for document in documents]
        rows = self._rows(
            _statements.SAME_DOCUMENTS,
            documents=json.dumps(
                [{key: value for key, value in document.items() if key != "body"} for document in documents],
                ensure_ascii=False,
            ),
            body_sha256=[sha256(body.encode()).digest() if isinstance(body, str) else None for body in bodies],
        )
        return {row["position"] for row in rows}

    def add_spans(self, spans: Sequence[Mapping[str, Any]]) -> list[AddedSpan]:
        """Add spans to versions of this tenant that exist, all or nothing, in one round trip.

        Parameters
        ----------
        spans : sequence of mappings
            Keys ``document``, ``version``, ``span`` (its id), ``fact``, ``quote`` and, where the quotation is
            ambiguous, ``occurrence``.

        Returns
        -------
        list of AddedSpan
            One for each span, in order.

        Raises
        ------
        TenantRequired, NotAllowed, InvalidDocument, VersionNotFound, QuoteNotFound, AmbiguousQuote, SpanConflict
            Nothing was added.
        """
        rows = self._rows(_statements.ADD_SPANS, spans=json.dumps(list(spans), ensure_ascii=False))
        return [AddedSpan(**row) for row in rows]

    def withdraw_version(
        self, document_id: str, version: int, *, withdrawn_from: datetime | None = None, note: str | None = None
    ) -> None:
        """Take a version out of use from an instant on (default: now); an older version does not come back.

        Raises
        ------
        TenantRequired, NotAllowed, VersionNotFound
        """
        self._rows(
            _statements.WITHDRAW_VERSION,
            document_id=document_id,
            version=version,
            withdrawn_from=withdrawn_from,
            note=note,
        )

    def set_attribute(self, attribute: str, attribute_type: str) -> str:
        """Declare the type of an attribute for this tenant; ``new``, ``changed``, or ``same`` where it has this type.

        Parameters
        ----------
        attribute : str
            A key of ``applies_to`` and of case facts.
        attribute_type : str
            ``text``, ``number``, ``flag``, ``date``, ``version-pep440``, ``version-semver`` or ``version-numeric``.

        Raises
        ------
        TenantRequired, NotAllowed, InvalidRequest, AttributeMisfit
            ``AttributeMisfit``: stored values are none of the type; ``detail`` lists the first ten.
        """
        status: str = self._value(_statements.SET_ATTRIBUTE, attribute=attribute, type=attribute_type)
        return status

    def add_contract(self, question_id: str, version: int, content: Mapping[str, Any]) -> str:
        """Add a contract version; ``new``, or ``same`` where it exists with this content.

        Raises
        ------
        TenantRequired, NotAllowed, InvalidContract, ContractConflict
        """
        status: str = self._value(
            _statements.ADD_CONTRACT,
            question_id=question_id,
            version=version,
            content=json.dumps(content, ensure_ascii=False),
        )
        return status

    def proposition_occurrences(
        self, question_id: str, *, contract_version: int | None = None
    ) -> list[PropositionOccurrence]:
        """Where the propositions of a question's contract stand in current versions, and which spans quote them.

        Parameters
        ----------
        question_id : str
            Selects the contract. The tenant's own wins over a public one of the same id.
        contract_version : int, optional
            Default: the newest.

        Returns
        -------
        list of PropositionOccurrence
            In contract order; one for each proposition and version that contains it, and one without a version for a
            proposition that stands nowhere.

        Raises
        ------
        UnsupportedQuestion, UnknownContractVersion
        """
        rows = self._rows(
            _statements.PROPOSITION_OCCURRENCES,
            question_id=question_id,
            contract_version=contract_version and whole_number("a contract version", contract_version),
        )
        return [PropositionOccurrence(**{**row, "span_ids": tuple(row["span_ids"])}) for row in rows]

    def nearest_passage(self, quote: str, *, k: int = 1) -> list[NearestPassage]:
        """The current passages that share most distinct words with a quotation; they license nothing.

        Parameters
        ----------
        quote : str
            A quotation that stands nowhere, say. One without a word has no nearest passage.
        k : int
            Most passages to return, 1 to 1,000.

        Raises
        ------
        InvalidRequest
        """
        rows = self._rows(_statements.NEAREST_PASSAGE, quote=quote, k=whole_number("K", k))
        return [NearestPassage(**row) for row in rows]

    # Searching and deciding

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        method: str = "bm25",
        parameters: Mapping[str, Any] | None = None,
        case: Mapping[str, CaseValue] | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
        why: bool = False,
    ) -> list[Hit]:
        """The best passages that may be used, with their texts; one round trip. For people who want no decision.

        Parameters
        ----------
        query : str
            Words for the ranker.
        k : int
            Most passages, 1 to 1,000: so many come whenever so many match.
        method, parameters : str, mapping
            As for :meth:`decide`.
        case : mapping of str to str, optional
            A version that names an attribute which the case does not state is not eligible.
        valid_at, known_at : datetime, optional
            As for :meth:`decide`.
        why : bool
            Whether to say what each word of the query adds to a score.

        Raises
        ------
        InvalidRequest
        """
        rows = self._rows(
            _statements.SEARCH,
            query=query,
            k=whole_number("K", k),
            method=method,
            parameters=json.dumps(dict(parameters or {}), ensure_ascii=False),
            case_facts=json.dumps(dict(case or {}), ensure_ascii=False),
            valid_at=valid_at,
            known_at=known_at,
            why=why,
        )
        return [Hit(**{**row, "heading_path": tuple(row["heading_path"])}) for row in rows]

    def decide(
        self,
        question_id: str,
        *,
        query: str,
        case: Mapping[str, CaseValue],
        k: int,
        contract_version: int | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
        method: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Decide whether the evidence this tenant may use is enough; one round trip, reads only.

        Parameters
        ----------
        question_id : str
            Selects the contract. The tenant's own wins over a public one of the same id.
        query : str
            Words for the ranker.
        case : mapping of str to str
            The facts of the case: exactly the contract's case attributes.
        k : int
            Most passages to select, 1 to 1,000.
        contract_version : int, optional
            Default: the newest.
        valid_at, known_at : datetime, optional
            The instant the rules must hold at; the instant whose recorded state is used. Default: now.
        method : str, optional
            How passages are ranked: ``overlap``, ``bm25``, ``vector`` or ``hybrid``. Default: as the contract says,
            else ``overlap``. A decision always ranks exactly.
        parameters : mapping, optional
            Parameters of the method, such as ``{"k1": 1.2, "b": 0.75}``; ``vector`` and ``hybrid`` need ``model`` and
            ``vector``, the query's embedding by it.

        Raises
        ------
        InvalidRequest, InvalidCase, UnknownContractVersion
            An unsupported question is an outcome, not an error.
        """
        (row,) = self._rows(
            _statements.DECIDE,
            **_request(question_id, query, case, k, contract_version, valid_at, known_at, method, parameters),
        )
        return Decision._from_row(row)

    def record_packet(
        self,
        question_id: str,
        *,
        query: str,
        case: Mapping[str, CaseValue],
        k: int,
        contract_version: int | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
        method: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Packet:
        """Decide and store, in one statement; parameters as in :meth:`decide`.

        Raises
        ------
        TenantRequired, UnsupportedQuestion, InvalidRequest, InvalidCase, UnknownContractVersion
            Nothing was stored.
        """
        document = self._value(
            _statements.RECORD_PACKET,
            **_request(question_id, query, case, k, contract_version, valid_at, known_at, method, parameters),
        )
        return Packet.from_document(document)

    def explain(
        self,
        question_id: str,
        *,
        query: str,
        case: Mapping[str, CaseValue],
        k: int,
        contract_version: int | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
        method: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> list[Candidate]:
        """Every visible passage with its score and why it was or was not selected; parameters as in :meth:`decide`.

        Raises
        ------
        UnsupportedQuestion, InvalidRequest, InvalidCase, UnknownContractVersion
        """
        rows = self._rows(
            _statements.EXPLAIN,
            **_request(question_id, query, case, k, contract_version, valid_at, known_at, method, parameters),
        )
        return [
            Candidate(**{**row, "applies_to": _tuple(row["applies_to"]), "successors": _tuple(row["successors"])})
            for row in rows
        ]

    # Claims and approvals

    def check_claims(self, evidence: Evidence, claims: Sequence[Claim]) -> list[Verdict]:
        """The claim gate: one verdict per claim, against a decision's or a packet's selection and spans.

        Raises
        ------
        InvalidClaims
            There is no claim, or one is malformed.
        """
        places = ("tenant", "document_id", "version", "range_start", "range_end")
        rows = self._rows(
            _statements.CHECK_CLAIMS,
            contract_tenant=evidence.contract.tenant,
            question_id=evidence.question_id,
            contract_version=evidence.contract.version,
            selection=json.dumps([{place: getattr(source, place) for place in places} for source in evidence.sources]),
            claims=claims_json(claims),
            known_at=evidence.request.known_at,
        )
        return [Verdict(Claim(**row["claim"]), row["verdict"], row["reason"]) for row in rows]

    def packet(self, packet_id: str) -> Packet:
        """A stored packet; raises PacketNotFound when there is none, or it is another tenant's."""
        return Packet.from_document(self._value(_statements.PACKET_DOCUMENT, packet_id=packet_id))

    def review(self, packet_id: str, claims: Sequence[Claim]) -> Review:
        """What a reviewer is shown: verdicts, withheld claims with their reasons, and the digests a decision binds.

        Raises
        ------
        TenantRequired, PacketNotFound, InvalidClaims
        """
        rows = self._rows(_statements.REVIEW_PACKET, packet_id=packet_id, claims=claims_json(claims))
        return Review(
            packet_id=packet_id,
            verdicts=tuple(Verdict(Claim(**row["claim"]), row["verdict"], row["reason"]) for row in rows),
            evidence_digest=rows[0]["evidence_digest"].hex(),
            draft_digest=rows[0]["draft_digest"].hex(),
            shown_digest=rows[0]["shown_digest"].hex(),
        )

    def approve(self, review: Review, *, reviewer_name: str | None = None, note: str | None = None) -> int:
        """Approve exactly what was shown; returns the decision's number.

        Raises
        ------
        TenantRequired, PacketNotFound, EvidenceInsufficient, NothingLicensed, PresentationChanged, ConcurrentDecision
        """
        return self._decide_review(review, "approved", reviewer_name, note)

    def reject(self, review: Review, *, reviewer_name: str | None = None, note: str | None = None) -> int:
        """Reject exactly what was shown; returns the decision's number. Raises as :meth:`approve`."""
        return self._decide_review(review, "rejected", reviewer_name, note)

    def _decide_review(self, review: Review, decision: str, reviewer_name: str | None, note: str | None) -> int:
        number: int = self._value(
            _statements.APPROVE,
            packet_id=review.packet_id,
            claims=claims_json([verdict.claim for verdict in review.verdicts]),
            shown_digest=bytes.fromhex(review.shown_digest),
            decision=decision,
            reviewer_name=reviewer_name,
            note=note,
        )
        return number

    def evidence_changes(self, packet_id: str) -> list[Change]:
        """What a decision made now would rest on that a packet did not; empty when nothing has changed.

        Raises
        ------
        TenantRequired, PacketNotFound
        """
        return [Change(**row) for row in self._rows(_statements.EVIDENCE_CHANGES, packet_id=packet_id)]

    def require_approval(self, packet_id: str, claims: Sequence[Claim]) -> Approval:
        """The gate before use: decides again, now, and returns the approval of this draft on this packet.

        Raises
        ------
        NoApproval
            Nobody has decided about this draft on this evidence.
        Rejected
            The newest decision is a rejection.
        StaleApproval
            The evidence, or what was shown, is no longer the same; ``detail`` has a line for each difference.
        TenantRequired, PacketNotFound, InvalidClaims
        """
        (row,) = self._rows(_statements.REQUIRE_APPROVAL, packet_id=packet_id, claims=claims_json(claims))
        digests = {key: row[key].hex() for key in ("evidence_digest", "draft_digest", "shown_digest")}
        return Approval(**{**row, **digests, "withheld": tuple(row["withheld"])})

    # Looking

    def attributes(self) -> list[AttributeRow]:
        """Types of attributes in force for this tenant, by name; an attribute that is not listed is a text."""
        return [AttributeRow(**row) for row in self._rows(_statements.ATTRIBUTES, tenant=self.name or "public")]

    def contracts(self) -> list[ContractRow]:
        """Visible contract versions, by question."""
        return [
            ContractRow(
                **{
                    **row,
                    "case_attributes": tuple(row["case_attributes"]),
                    "required_facts": tuple(row["required_facts"]),
                }
            )
            for row in self._rows(_statements.CONTRACTS)
        ]

    def clauses(self, question_id: str) -> list[ClauseRow]:
        """Licensed clauses of all visible versions of a question's contracts, in contract order."""
        return [ClauseRow(**row) for row in self._rows(_statements.CLAUSES, question_id=question_id)]

    def packets(self, limit: int = 50) -> list[PacketRow]:
        """The tenant's newest packets, newest first."""
        rows = self._rows(_statements.PACKETS, tenant=self.name, limit=whole_number("a limit", limit))
        return [PacketRow(**row) for row in rows]

    def approvals(self, limit: int = 50) -> list[ApprovalRow]:
        """The tenant's newest decisions, newest first, each with what it is worth now."""
        rows = self._rows(_statements.APPROVALS, limit=whole_number("a limit", limit))
        return [ApprovalRow(**row) for row in rows]

    def corpus_fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything the retriever could see; it changes with any document, used or not."""
        fingerprint: bytes = self._value(_statements.CORPUS_FINGERPRINT)
        return fingerprint.hex()

    def span_check(self) -> list[dict[str, Any]]:
        """Spans whose stored place does not hold their quotation: always empty."""
        return self._rows(_statements.SPAN_CHECK)


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _request(
    question_id: str,
    query: str,
    case: Mapping[str, CaseValue],
    k: int,
    contract_version: int | None,
    valid_at: datetime | None,
    known_at: datetime | None,
    method: str | None,
    parameters: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "query": query,
        "case_facts": json.dumps(dict(case), ensure_ascii=False),
        "k": whole_number("K", k),
        "contract_version": None if contract_version is None else whole_number("a contract version", contract_version),
        "valid_at": valid_at,
        "known_at": known_at,
        "method": method,
        "parameters": None if parameters is None else json.dumps(dict(parameters), ensure_ascii=False),
    }
