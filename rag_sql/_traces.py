"""Traces of a tenant: what was handed over under which label, what came back, and where evidence was lost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rag_sql import _statements
from rag_sql._audit_model import AuditedSentence, AuditReport
from rag_sql._calls import Calls, whole_number
from rag_sql._models import Trace
from rag_sql._rows import Citation, TraceCandidate, TraceFinding, TracePassage, TraceRow, TraceTime, TraceVerdict
from rag_sql.errors import TraceNotFound

__all__ = ["Traces"]


class Traces(Calls):
    """What a tenant can record and ask about the contexts that were handed to a model."""

    def record_trace(self, packet_id: str, *, budget: int = 2000, neighbours: int = 1, candidates: int = 50) -> Trace:
        """Assemble the context of a packet, record it passage by passage, and return what is to be handed to a model.

        Parameters
        ----------
        packet_id : str
        budget : int
            Most tokens, headings included. Neighbours give way first, witnesses of required facts last.
        neighbours : int
            How many passages before and after a selected one to add while the budget lasts, 0 to 10.
        candidates : int
            How many of the best visible passages to record with the reason why they may not be used, 0 to 1,000.

        Raises
        ------
        TenantRequired, InvalidRequest, PacketNotFound
        """
        document: dict[str, Any] = self._value(
            _statements.RECORD_TRACE,
            packet_id=packet_id,
            budget=whole_number("a budget", budget),
            neighbours=whole_number("neighbours", neighbours),
            candidates=whole_number("candidates", candidates),
        )
        return Trace._from_json(document)

    def record_answer(
        self,
        trace_id: str,
        answer: str,
        citations: Sequence[str],
        *,
        model: str,
        prompt_version: str,
        audit: AuditReport | None = None,
        answer_took: timedelta | None = None,
        audit_took: timedelta | None = None,
    ) -> None:
        """Record what came back for a trace: the answer, as the contract has it kept, and the labels it cites.

        Parameters
        ----------
        trace_id : str
        answer : str
        citations : sequence of str
            In order, invented ones too.
        model, prompt_version : str
        audit : AuditReport, optional
            What :func:`audit_answer` said of this very answer: the verdict of each sentence is recorded.
        answer_took, audit_took : timedelta, optional
            How long the model and the audit took.

        Raises
        ------
        TenantRequired, InvalidRequest, TraceNotFound, TraceAnswered
        """
        self._rows(
            _statements.RECORD_ANSWER,
            trace_id=trace_id,
            answer=answer,
            citations=list(citations),
            model=model,
            prompt_version=prompt_version,
            verdicts=None if audit is None else json.dumps([_verdict(sentence) for sentence in audit.sentences]),
            answer_took=answer_took,
            audit_took=audit_took,
        )

    def cite(self, trace_id: str, labels: Sequence[str]) -> list[Citation]:
        """The stored documents behind labels of a trace, in the order given.

        Raises
        ------
        UnknownLabel
            Nothing was handed over under a label.
        TenantRequired, TraceNotFound
        """
        return [Citation(**row) for row in self._rows(_statements.CITE, trace_id=trace_id, labels=list(labels))]

    def diagnose_trace(self, trace_id: str, required: Sequence[Any]) -> list[TraceFinding]:
        """Compare identifiers; no finding does not mean that the answer is right, complete or properly cited.

        Parameters
        ----------
        trace_id : str
        required : sequence
            The passages that the answer needs, as a person says: anything with ``tenant``, ``document_id``,
            ``version``, ``range_start`` and ``range_end``, such as a :class:`Source` or a :class:`ContextPassage`.

        Raises
        ------
        TenantRequired, InvalidRequest, TraceNotFound
            ``InvalidRequest``: nothing is required, or something that is no visible passage.
        """
        keys = ("tenant", "document_id", "version", "range_start", "range_end")
        places = [{key: getattr(place, key) for key in keys} for place in required]
        rows = self._rows(_statements.DIAGNOSE_TRACE, trace_id=trace_id, required=json.dumps(places))
        return [TraceFinding(**row) for row in rows]

    def diagnose_ids(
        self,
        required: Sequence[str],
        retrieved: Sequence[str],
        context: Mapping[str, str],
        citations: Sequence[str],
    ) -> dict[str, list[str]]:
        """Compare the identifiers of any retriever; no finding does not mean that the answer is right.

        Parameters
        ----------
        required, retrieved : sequence of str
            What the answer needs, as a person says; what was retrieved.
        context : mapping of str to str
            Label to identifier, as handed over.
        citations : sequence of str
            Labels that the answer cites.

        Returns
        -------
        dict of str to list of str
            ``retrieval_miss``, ``context_loss``, ``unrecorded_context`` and ``unknown_citation``, each where there is
            one, with what was lost or invented.

        Raises
        ------
        InvalidRequest
            Nothing is required.
        """
        found: dict[str, list[str]] = {}
        for row in self._rows(
            _statements.DIAGNOSE_IDS,
            required=list(required),
            retrieved=list(retrieved),
            context=json.dumps(dict(context)),
            citations=list(citations),
        ):
            found.setdefault(row["finding"], []).append(row["id"])
        return found

    def traces(self, limit: int = 50) -> list[TraceRow]:
        """The tenant's newest traces, newest first."""
        return self._traces(None, whole_number("a limit", limit))

    def trace(self, trace_id: str) -> TraceRow:
        """One trace: what was asked, the outcome on what was handed over, and what came back.

        Raises
        ------
        TraceNotFound
        """
        for row in self._traces(trace_id, 1):
            return row
        raise TraceNotFound(f"there is no trace {trace_id}")

    def _traces(self, trace_id: str | None, limit: int) -> list[TraceRow]:
        rows = self._rows(_statements.TRACES, tenant=self.name, trace_id=trace_id, limit=limit)
        return [TraceRow(**{**row, "missing": tuple(row["missing"]), "citations": _labels(row)}) for row in rows]

    def trace_passages(self, trace_id: str) -> list[TracePassage]:
        """What became of each passage of a trace, in the order in which they were placed; empty for an unknown one."""
        rows = self._rows(_statements.TRACE_PASSAGES, tenant=self.name, trace_id=trace_id)
        return [
            TracePassage(**{**row, "heading_path": tuple(row["heading_path"]), "text": row["text"] or ""})
            for row in rows
        ]

    def trace_candidates(self, trace_id: str) -> list[TraceCandidate]:
        """The best visible passages for the query of a trace, and why one may not be used; empty for an unknown one."""
        rows = self._rows(_statements.TRACE_CANDIDATES, tenant=self.name, trace_id=trace_id)
        return [TraceCandidate(**row) for row in rows]

    def trace_verdicts(self, trace_id: str) -> list[TraceVerdict]:
        """What an audit said of the sentences of the answer, in their order; empty where nobody audited it."""
        rows = self._rows(_statements.TRACE_VERDICTS, tenant=self.name, trace_id=trace_id)
        return [TraceVerdict(**{**row, "checks": tuple(row["checks"])}) for row in rows]

    def trace_times(self, trace_id: str) -> list[TraceTime]:
        """How long each stage took, in their order; empty for an unknown trace."""
        return [TraceTime(**row) for row in self._rows(_statements.TRACE_TIMES, tenant=self.name, trace_id=trace_id)]


def _verdict(sentence: AuditedSentence) -> dict[str, Any]:
    return {
        "range_start": sentence.start,
        "range_end": sentence.end,
        "verdict": sentence.verdict,
        "checks": list(dict.fromkeys(finding.check for finding in sentence.findings)),
    }


def _labels(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    return None if row["citations"] is None else tuple(row["citations"])
