"""The travel part of the demo: one exception, lost at each stage in turn, and an answer that cites well and is wrong.

Each line is computed on the server; the answers are written here, as a model might write them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rag_sql import _files, _loading, _resources
from rag_sql._audit import audit_answer
from rag_sql._models import Packet, Trace
from rag_sql._tenant import Tenant

__all__ = ["EXPECTED", "QUERY", "add", "statements"]

QUERY = "travel receipts within days of international trip"
_SEED = "travel"
#: Small enough that each section of the policy is a passage of its own.
_CUT = _files.Defaults(passage_target=20, passage_limit=40)
_WRONG = "Submit travel receipts within 30 days of the end of the trip [P1]."
_INVENTED = "For international travel, receipts may be submitted within 21 days [P9]."

#: What the article says, statement by statement.
EXPECTED: dict[str, Any] = {
    "the superseded 30 days are never eligible": ["superseded"],
    "the 14 and the 21 days are in the final context": ["14 days", "21 days"],
    "the exception was not retrieved": ["retrieval_miss"],
    "the exception was dropped by a budget of 40 tokens": (["context_loss"], ["international-exception"]),
    "P9 is cited": ["unknown_citation"],
    "30 days are cited to P1: diagnosis": [],
    "30 days are cited to P1: audit": ("contradicted", "30 days", "14 days"),
    "will finance accept a late receipt": ("NeedsDecision", "the finance team"),
}


def add(curator: Tenant) -> None:
    """Load the policy in both revisions, and its two contracts."""
    seed = _resources.find("seed") / _SEED
    _loading.load(curator, _files.find_files([seed / "policy"]), _CUT)
    for name in ("receipt-deadline.yaml", "late-receipt.yaml"):
        question, version, content, _ = _files.read_contract(seed / name, str(curator.name))
        curator.add_contract(question, version, content)


def statements(reader: Tenant) -> Iterator[tuple[str, Any]]:
    """Each statement's name, and what the server says of it."""
    packet = _record(reader, k=2)
    whole = reader.record_trace(packet.packet_id)
    required = [passage for passage in whole.context if passage.added_as == "witness"]
    rows = reader.explain("receipt-deadline-v1", query=QUERY, case={}, k=2)
    yield (
        "the superseded 30 days are never eligible",
        [row.reason for row in rows if (row.document_id, row.version) == ("EXPENSES", 3)],
    )
    texts = [passage.text for passage in required]
    yield (
        "the 14 and the 21 days are in the final context",
        [days for days, text in zip(("14 days", "21 days"), texts, strict=True) if days in text],
    )

    few = reader.record_trace(_record(reader, k=1).packet_id, neighbours=0)
    yield "the exception was not retrieved", _findings(reader, few, required)
    short = reader.record_trace(packet.packet_id, budget=40)
    yield (
        "the exception was dropped by a budget of 40 tokens",
        (_findings(reader, short, required), list(short.missing)),
    )

    handed_over = {passage.label: passage.text for passage in whole.context}
    for answer, statement in ((_INVENTED, "P9 is cited"), (_WRONG, "30 days are cited to P1: diagnosis")):
        trace = reader.record_trace(packet.packet_id)
        report = audit_answer(answer, handed_over)
        labels = [label for sentence in report.sentences for label in sentence.citations]
        reader.record_answer(trace.trace_id, answer, labels, model="none", prompt_version="none")
        yield statement, _findings(reader, trace, required)
    found = audit_answer(_WRONG, handed_over)
    (finding,) = (finding for sentence in found.sentences for finding in sentence.findings)
    yield "30 days are cited to P1: audit", (str(found.verdict), finding.said, finding.held[0].text)

    asked = reader.decide("late-receipt-v1", query=QUERY, case={}, k=2)
    decided_by = (asked.needed_decision or {}).get("decided_by")
    yield "will finance accept a late receipt", (str(asked.outcome), decided_by)


def _record(reader: Tenant, k: int) -> Packet:
    return reader.record_packet("receipt-deadline-v1", query=QUERY, case={}, k=k)


def _findings(reader: Tenant, trace: Trace, required: list[Any]) -> list[str]:
    return [row.finding for row in reader.diagnose_trace(trace.trace_id, required)]
