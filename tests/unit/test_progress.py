"""Progress is shown on a terminal, with rate and time left, and nowhere else."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from rag_sql.cli import _progress


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> str:
    console = Console(file=StringIO(), force_terminal=is_terminal, width=120, color_system=None)
    monkeypatch.setattr(_progress, "err", console)
    with _progress.tracked("loading", "documents", "abc") as items:
        assert list(items) == ["a", "b", "c"]
    with _progress.progress("reading", "documents") as advance:
        advance(2_000, 1_500)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_bar_says_what_is_done_how_fast_and_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, is_terminal=True)
    for part in ("loading", "3 documents, ", "/s 0:00:00", "reading", "1,500 documents, "):
        assert part in said


def test_where_nobody_looks_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, is_terminal=False) == ""
