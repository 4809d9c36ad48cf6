"""The history of a document: its versions in a line, and what takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rag_sql import _statements
from rag_sql._calls import Calls

__all__ = ["History", "HistoryVersion", "QuotedFact", "Succession"]


@dataclass(frozen=True)
class Succession:
    """Another document of the same tenant that takes a document's place.

    Attributes
    ----------
    successor_id : str
        It need not be there.
    superseded_from : datetime
        From when on; it may be announced for later.
    note : str or None
    recorded_at, recorded_by : datetime, str
    """

    successor_id: str
    superseded_from: datetime
    note: str | None
    recorded_at: datetime
    recorded_by: str


@dataclass(frozen=True)
class QuotedFact:
    """A quotation and the fact that it is a span for."""

    fact: str
    quote: str


@dataclass(frozen=True)
class HistoryVersion:
    """A version in the line of a document's versions.

    Attributes
    ----------
    tenant, document_id, version : str, str, int
        ``tenant`` is the document's visibility.
    status : str
        As things stand: ``current``, ``superseded``, ``scheduled`` or ``withdrawn``.
    title : str or None
    effective_from, recorded_at, recorded_by : datetime, datetime, str
    withdrawn_from, withdrawal_note : datetime or None, str or None
        From when on it may not be used, where it was withdrawn.
    successions : tuple of Succession
        What takes the document's place: the same for all of its versions.
    spans_gained, spans_lost : tuple of QuotedFact
        Which spans it has that the version before has not, and the other way round, in the order of their places. The
        first version gains all of its own.
    body : str or None
        None where bodies were not asked for.
    """

    tenant: str
    document_id: str
    version: int
    status: str
    title: str | None
    effective_from: datetime
    recorded_at: datetime
    recorded_by: str
    withdrawn_from: datetime | None
    withdrawal_note: str | None
    successions: tuple[Succession, ...]
    spans_gained: tuple[QuotedFact, ...]
    spans_lost: tuple[QuotedFact, ...]
    body: str | None

    @classmethod
    def _from_row(cls, row: dict[str, Any]) -> HistoryVersion:
        times = ("superseded_from", "recorded_at")
        successions = tuple(
            Succession(**{**entry, **{key: datetime.fromisoformat(entry[key]) for key in times}})
            for entry in row["successions"]
        )
        spans = {key: tuple(QuotedFact(**entry) for entry in row[key]) for key in ("spans_gained", "spans_lost")}
        return cls(**{**row, **spans, "successions": successions})


class History(Calls):
    """What takes a document's place, and the line of its versions."""

    def supersede(
        self,
        document_id: str,
        successors: Sequence[str],
        *,
        superseded_from: datetime | None = None,
        note: str | None = None,
    ) -> None:
        """Have other documents take a document's place from an instant on (default: now); it is not taken back.

        None of its versions is used from then on, also none that is loaded later, and whoever asks why is told the
        successors.

        Parameters
        ----------
        document_id : str
        successors : sequence of str
            Ids of 1 to 100 other documents of this tenant; they need not be there yet.
        superseded_from : datetime, optional
        note : str, optional
            Why, for people.

        Raises
        ------
        TenantRequired, NotAllowed, VersionNotFound, InvalidRequest
        """
        self._rows(
            _statements.SUPERSEDE_DOCUMENT,
            document_id=document_id,
            successors=list(successors),
            superseded_from=superseded_from,
            note=note,
        )

    def history(
        self,
        document_id: str,
        *,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
        bodies: bool = True,
    ) -> list[HistoryVersion]:
        """The versions of a document in the order in which they take effect; the tenant's own before public's.

        Parameters
        ----------
        document_id : str
        valid_at, known_at : datetime, optional
            The instant of the status, and from what had been recorded by when. Default: now.
        bodies : bool
            Whether to fetch the texts.

        Raises
        ------
        VersionNotFound, InvalidRequest
            There is no such document, or it is another tenant's; an instant that is none.
        """
        rows = self._rows(
            _statements.HISTORY, document_id=document_id, valid_at=valid_at, known_at=known_at, bodies=bodies
        )
        return [HistoryVersion._from_row(row) for row in rows]
