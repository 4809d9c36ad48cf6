"""What a change touches, and spans that can be carried over to the version that replaced theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rag_sql import _statements
from rag_sql._calls import Calls
from rag_sql._rows import NearestPassage

__all__ = [
    "ApprovalImpact",
    "CarriableSpan",
    "CoverageImpact",
    "DocumentImpact",
    "Impact",
    "Impacts",
    "PacketImpact",
    "SpanImpact",
]


@dataclass(frozen=True)
class DocumentImpact:
    """A document whose current version is another than before, or which has one that takes effect later.

    Attributes
    ----------
    tenant, document_id : str
    was_version, new_version : int or None
        The version that is current before and after; None where none is.
    scheduled_version, scheduled_from : int, datetime, or None each
        The next version that takes effect later, of those recorded in between, and when.
    """

    tenant: str
    document_id: str
    was_version: int | None
    new_version: int | None
    scheduled_version: int | None
    scheduled_from: datetime | None


@dataclass(frozen=True)
class SpanImpact:
    """What became of a span of a version that is not current any more.

    Attributes
    ----------
    tenant, document_id, version, span_id : str, str, int, str
    fact, quote, range_start : str, str, int
    survival : str
        ``exact`` (at the same place in the current version), ``moved`` or ``gone``.
    new_version, new_range_start : int or None
        The version that is current now, and where the quotation stands there.
    is_curated : bool
        Whether the current version has a span of the same fact with this quotation.
    suggestion : NearestPassage or None
        What comes nearest to a quotation that is gone: for people to look at; it licenses nothing.
    """

    tenant: str
    document_id: str
    version: int
    span_id: str
    fact: str
    quote: str
    range_start: int
    survival: str
    new_version: int | None
    new_range_start: int | None
    is_curated: bool
    suggestion: NearestPassage | None


@dataclass(frozen=True)
class CoverageImpact:
    """A witness that a fact of a contract in force lost or gained.

    Attributes
    ----------
    question_id, contract_tenant, contract_version : str, str, int
    fact_position, fact, quote : int, str, str
        The fact, and the proposition.
    change : str
        ``lost`` or ``gained``.
    tenant, document_id, version : str, str, int
        The version that witnessed it before, or witnesses it now.
    applies_to : dict
        For which cases: attribute to list of values.
    is_covered : bool
        Whether any current version witnesses the fact after the change, for whatever case.
    """

    question_id: str
    contract_tenant: str
    contract_version: int
    fact_position: int
    fact: str
    quote: str
    change: str
    tenant: str
    document_id: str
    version: int
    applies_to: dict[str, Any]
    is_covered: bool


@dataclass(frozen=True)
class ApprovalImpact:
    """An approval in force on the evidence of a packet."""

    draft_digest: str
    decision_number: int
    reviewer: str
    recorded_at: datetime


@dataclass(frozen=True)
class PacketImpact:
    """A packet for which another decision is made than before.

    Attributes
    ----------
    packet_id, question_id, case_facts, query : str, str, dict, str
    effect : str
        ``turns_stale``, ``holds_again``, or ``differs`` where it holds neither before nor after.
    was_outcome, new_outcome : str or None
        None where the request cannot be decided.
    missing : tuple of str
        Required facts without a witness after the change.
    changes : tuple of str
        Why it turns stale, a line for each difference.
    approvals : tuple of ApprovalImpact
        Approvals in force that turn stale with it, or may be used again.
    """

    packet_id: str
    question_id: str
    case_facts: dict[str, str]
    query: str
    effect: str
    was_outcome: str | None
    new_outcome: str | None
    missing: tuple[str, ...]
    changes: tuple[str, ...]
    approvals: tuple[ApprovalImpact, ...]


@dataclass(frozen=True)
class Impact:
    """What changed between two instants of knowledge, both asked for the same instant of validity.

    Attributes
    ----------
    since, until, valid_at : datetime
    documents : tuple of DocumentImpact
    spans : tuple of SpanImpact
    facts : tuple of CoverageImpact
    packets : tuple of PacketImpact
    """

    since: datetime
    until: datetime
    valid_at: datetime
    documents: tuple[DocumentImpact, ...]
    spans: tuple[SpanImpact, ...]
    facts: tuple[CoverageImpact, ...]
    packets: tuple[PacketImpact, ...]

    @property
    def stale(self) -> tuple[PacketImpact, ...]:
        """Packets whose evidence the change takes from approvals that are in force."""
        return tuple(packet for packet in self.packets if packet.effect == "turns_stale" and packet.approvals)


@dataclass(frozen=True)
class CarriableSpan:
    """A span of a replaced version that the current version does not have yet.

    Attributes
    ----------
    document_id, version, span_id : str, int, str
    fact, quote, occurrence : str, str, int or None
    new_version : int
        The current version.
    obstacle : str or None
        None where it can be added there as it is; else ``gone``, ``ambiguous``, ``span_id_taken`` or
        ``cuts_character``, and a person has to look.
    suggestion : NearestPassage or None
        What comes nearest to a quotation that is gone: for people to look at; it licenses nothing.
    """

    document_id: str
    version: int
    span_id: str
    fact: str
    quote: str
    occurrence: int | None
    new_version: int
    obstacle: str | None
    suggestion: NearestPassage | None


class Impacts(Calls):
    """What a tenant can ask about changes."""

    def impact(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        valid_at: datetime | None = None,
    ) -> Impact:
        """What changed for this tenant between two instants of knowledge.

        Without `since` it is what this transaction has changed: load, look, and leave the block with an error to have
        stored nothing.

        Parameters
        ----------
        since, until : datetime, optional
            From what had been recorded by `since` to what had been by `until` (default: now).
        valid_at : datetime, optional
            When the rules have to hold, before and after. Default: `until`. A load that takes effect later touches
            nothing before that instant.

        Raises
        ------
        InvalidRequest
            An instant is none: infinite, in the future, or `since` after `until`.
        """
        (row,) = self._rows(_statements.IMPACT, since=since, until=until, valid_at=valid_at)
        return Impact(
            row["since"],
            row["until"],
            row["valid_at"],
            tuple(
                DocumentImpact(**{**entry, "scheduled_from": _instant(entry["scheduled_from"])})
                for entry in row["documents"]
            ),
            tuple(SpanImpact(**_with_suggestion(entry)) for entry in row["spans"]),
            tuple(CoverageImpact(**entry) for entry in row["facts"]),
            tuple(
                PacketImpact(
                    **{
                        **entry,
                        "missing": tuple(entry["missing"] or ()),
                        "changes": tuple(entry["changes"]),
                        "approvals": tuple(
                            ApprovalImpact(**{**approval, "recorded_at": _instant(approval["recorded_at"])})
                            for approval in entry["approvals"]
                        ),
                    }
                )
                for entry in row["packets"]
            ),
        )

    def carriable_spans(self, document_ids: Sequence[str] | None = None) -> list[CarriableSpan]:
        """Spans of this tenant's replaced versions that the current ones do not have yet, and what stops which.

        Parameters
        ----------
        document_ids : sequence of str, optional
            Default: all documents.

        Raises
        ------
        TenantRequired, VersionNotFound
        """
        ids = None if document_ids is None else list(document_ids)
        return [
            CarriableSpan(**_with_suggestion(row)) for row in self._rows(_statements.CARRIABLE_SPANS, document_ids=ids)
        ]


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _with_suggestion(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "suggestion": row["suggestion"] and NearestPassage(**row["suggestion"])}
