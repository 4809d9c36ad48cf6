"""The benchmarks stay runnable: each once, as small as it can be, without looking at the times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import binding, loading, tenancy, traces
from tests.benchmarks.__main__ import main, names
from tests.benchmarks._rows import Row, table
from tests.conftest import Database, Server


def test_benchmarks_are_listed_with_what_they_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "loading: Loading folders of Markdown" in said
    assert len(said.splitlines()) == len(names())


def test_a_table_says_what_is_reached_and_what_was_left_out() -> None:
    rows = [Row("a", 2.0, ratio=4.0, beside="COPY", target="at most 3", reached=False), Row("b", note="left out: no")]
    assert table(rows)[1:] == [["a", "2.00 s", "4.00 x COPY", "at most 3", "NO"], ["b", "left out: no", "", "", ""]]


def test_pages_are_always_the_same(tmp_path: Path) -> None:
    for name in ("one", "two"):
        loading.write_pages(tmp_path / name, 20)
    pages = [sorted(path.read_bytes() for path in (tmp_path / name).rglob("*.md")) for name in ("one", "two")]
    assert pages[0] == pages[1]
    assert len(set(pages[0])) == 20


def test_binding(gateway: Database) -> None:
    rows = binding.measure(gateway, repetitions=10)
    assert [row.what for row in rows if row.target] == ["a statement on one table: more by signature"]
    assert len(rows) == 12


@pytest.mark.slow
def test_loading(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "ARCHIVE", Path("nowhere"))
    rows = loading.measure(server, loading.Sizes(files=12, memory=(5,), repetitions=1))
    assert [row.what.partition(": ")[2] for row in rows[:5]] == [
        "COPY of the same bytes",
        "first load",
        "second load, unchanged",
        "importing the program",
        "unchanged faster than first",
    ]
    assert "left out" in rows[5].note
    assert all(row.value for row in rows if not row.note)


@pytest.mark.slow
def test_traces(server: Server) -> None:
    rows = traces.measure(server, passages=200, questions=1)
    assert [row.what.partition(": ")[2] for row in rows] == [
        "decide",
        "record_packet",
        "record_trace",
        "without candidates",
    ]
    assert all(row.value for row in rows)


def test_tenancy(server: Server) -> None:
    rows = tenancy.measure(server, passages=200, questions=2)
    assert [row.what.partition(": ")[2] for row in rows] == ["decide under the policies", "decide bypassing them"]
    assert all(row.value for row in rows)
