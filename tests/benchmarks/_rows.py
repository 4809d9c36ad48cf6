"""What a benchmark finds: rows of a table, with the limit that a row is held against and the target it must reach."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Row", "Scale", "median", "table"]

Scale = Literal["small", "full"]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    what : str
    value : float or None
        Median over the repetitions, in `unit`; None for a row that was left out.
    unit : str
    ratio : float or None
        Ratio of medians of the same run, to `beside`.
    beside : str
        The limit or peer that the ratio is to.
    target : str
        What is asked for; empty where nothing is.
    reached : bool or None
        Whether it is reached; None where nothing is asked for.
    note : str
        Why a row was left out, say.
    plan : str
        The plan of what was measured, for the JSON.
    """

    what: str
    value: float | None = None
    unit: str = "s"
    ratio: float | None = None
    beside: str = ""
    target: str = ""
    reached: bool | None = None
    note: str = ""
    plan: str = ""


def median(values: Sequence[float]) -> float:
    """The median, of at least one value."""
    return float(statistics.median(values))


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Rows as texts, with their heading."""
    heading = ["what", "median", "ratio", "target", "reached"]
    return [heading, *map(_texts, rows)]


def _texts(row: Row) -> list[str]:
    return [
        row.what,
        row.note if row.value is None else f"{_number(row.value)} {row.unit}".rstrip(),
        "" if row.ratio is None else f"{row.ratio:,.2f} x {row.beside}",
        row.target,
        "" if row.reached is None else "yes" if row.reached else "NO",
    ]


def _number(value: float) -> str:
    """A count as it is, anything else with what is worth reading of it."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.3f}" if abs(value) < 1 else f"{value:,.2f}"
