"""The article's travel policy: revision 4 says 14 days and, for international travel, 21; revision 3 said 30."""

from __future__ import annotations

from typing import Any

from rag_sql import Packet, Trace
from tests.conftest import Database

QUESTION = "travel-receipts"
RULE = "Submit travel receipts within 14 days of the trip. "
EXCEPTION = "International travel: the limit for receipts is 21 days. "
ORIGINALS = "Keep the originals for one year. "
HOTEL = "Hotels are booked by the office. "
CONTRACT: dict[str, Any] = {
    "case": [],
    "facts": [
        {"fact": "limit", "propositions": [{"quote": "within 14 days", "clauses": ["Within 14 days."]}]},
        {
            "fact": "exception",
            "propositions": [{"quote": "the limit for receipts is 21 days", "clauses": ["Abroad, 21."]}],
        },
    ],
}
ASKED = "receipts for international travel"


def cut(*pieces: str, headings: tuple[str, ...] = ("Travel",), tokens: int | None = None) -> dict[str, Any]:
    ends = [len("".join(pieces[: number + 1])) for number in range(len(pieces))]
    counted = {} if tokens is None else {"tokens": tokens}
    return {
        "body": "".join(pieces),
        "outline": [{"end": end, "headings": list(headings), **counted} for end in ends],
    }


POLICY = {
    "id": "EXPENSE",
    "version": 4,
    "title": "Travel expenses",
    "source": "https://intranet.example/expenses",
    **cut(HOTEL, RULE, EXCEPTION, ORIGINALS),
    "spans": [
        {"id": "rule", "fact": "limit", "quote": "within 14 days"},
        {"id": "exception", "fact": "exception", "quote": "the limit for receipts is 21 days"},
    ],
}
OLD = {"id": "EXPENSE", "version": 3, "effective_from": "2020-01-01", "body": "Submit travel receipts within 30 days."}


def load(database: Database, *documents: dict[str, Any], contract: dict[str, Any] = CONTRACT) -> None:
    with database.tenant("acme_curator") as acme:
        acme.load_documents(documents)
        acme.add_contract(QUESTION, 1, contract)


def record(database: Database, k: int = 2, query: str = ASKED, **options: Any) -> tuple[Packet, Trace]:
    with database.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=query, case={}, k=k)
        return packet, acme.record_trace(packet.packet_id, **options)
