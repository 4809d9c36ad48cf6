"""The README's chart of searches: ``python -m tests.benchmarks._chart RANKING VECTORS SVG``.

RANKING and VECTORS are what those benchmarks wrote with ``--json``. On the left what the ten best by words take, beside
a full-text index behind the same wall and engines without any; on the right how many of the ten nearest vectors are
found as fewer of all may be used, beside what the peers' filters find.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks._engines import NOT_INSTALLED, optional

__all__ = ["draw", "lexical", "recalls"]

_OURS, _THEIRS, _LIMIT = "#1b6e4b", "#b5482f", "#8a8a8a"
_SHADES = ("#b5482f", "#d98e3f", "#7a5ba6")

Found = dict[str, Any]


def lexical(ranking: Found) -> list[tuple[str, float, str]]:
    """From the rows of ``ranking``: what, milliseconds, color."""
    bars = []
    for row in ranking["rows"]:
        if row["value"] is None or row["unit"] != "ms" or " of others: " in row["what"]:
            continue
        name = row["what"].split(": ", 1)[1]
        if name.endswith("in process"):
            bars.append((f"{name},\nno tenants", row["value"], _LIMIT))
        elif name.startswith("GIN"):
            bars.append(("GIN, ts_rank_cd,\nsame policies", row["value"], _THEIRS))
        else:
            bars.append(("rag-sql, bm25", row["value"], _OURS))
    return bars


def recalls(vectors: Found) -> dict[str, list[tuple[float, float]]]:
    """From the rows of ``vectors``: by who searches, percent that may be used and recall."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in vectors["rows"]:
        match = re.match(r"([\d.]+) % (?:by (?P<ours>\w+)|(?P<peer>[\w-]+), by metadata): ", row["what"])
        if match and row["ratio"] is not None:
            name = f"rag-sql, by {match['ours']}" if match["ours"] else match["peer"]
            lines.setdefault(name, []).append((float(match[1]), row["ratio"]))
    return lines


def draw(ranking: Found, vectors: Found, to: Path) -> None:
    """Draw both as SVG. Needs matplotlib (the extra ``bench``)."""
    matplotlib = optional("matplotlib")
    if matplotlib is None:
        raise SystemExit(NOT_INSTALLED)
    figure_type = optional("matplotlib.figure")
    assert figure_type is not None
    # The same rows give the same bytes, with letters as letters.
    matplotlib.rcParams.update({"svg.hashsalt": "rag-sql", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure = figure_type.Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _bars(left, lexical(ranking), ranking["rows"][0]["what"].split(": ")[0])
    _lines(right, recalls(vectors))
    for side in (left, right):
        side.spines[["top", "right"]].set_visible(False)
    about = f"{ranking['cores']} cores, PostgreSQL {ranking['postgresql']}"
    figure.supxlabel(about, fontsize="small", color="#555555", ha="right", x=0.99)
    figure.savefig(to, format="svg", metadata={"Date": None}, facecolor="white")


def _bars(side: Any, bars: Sequence[tuple[str, float, str]], among: str) -> None:
    bars = sorted(bars, key=lambda bar: -bar[1])
    drawn = side.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars], height=0.6)
    side.bar_label(drawn, [f"{bar[1]:.3g} ms" for bar in bars], padding=4)
    side.set_xscale("log")
    side.margins(x=0.2)
    side.set_xlabel("milliseconds, median")
    side.set_title(f"Ten best passages by words, {among}", fontsize="medium")


def _lines(side: Any, lines: dict[str, list[tuple[float, float]]]) -> None:
    shades = iter(_SHADES)
    for name, points in lines.items():
        ours = name.startswith("rag-sql")
        side.plot(
            [f"{share:g} %" for share, _ in points],
            [recall for _, recall in points],
            label=name,
            color=_OURS if ours else next(shades),
            linestyle="--" if ours and "applicability" in name else "-",
            marker="o",
            linewidth=2.5 if ours else 1.5,
        )
    side.set_ylim(-0.03, 1.05)
    side.set_xlabel("of the vectors, so many may be used")
    side.set_ylabel("recall at 10")
    side.set_title("Ten nearest vectors", fontsize="medium")
    side.legend(frameon=False, fontsize="small", loc="center right", bbox_to_anchor=(1, 0.62))


def main(arguments: Sequence[str]) -> None:
    """Draw from two files into a third."""
    if len(arguments) != 3:
        raise SystemExit(__doc__.splitlines()[0] if __doc__ else 2)
    ranking, vectors, to = map(Path, arguments)
    draw(json.loads(ranking.read_text("utf-8")), json.loads(vectors.read_text("utf-8")), to)


if __name__ == "__main__":
    main(sys.argv[1:])
