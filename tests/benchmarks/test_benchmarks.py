"""The benchmarks stay runnable: each once, as small as it can be, without looking at the times."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.benchmarks import (
    _chart,
    _corpus,
    _engines,
    _history,
    _peers,
    advisories,
    applicability,
    binding,
    bulk,
    changes,
    clients,
    deciding,
    exactness,
    history,
    loading,
    product_versions,
    ranking,
    scifact,
    tenancy,
    traces,
    vectors,
)
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


def test_a_chart_is_drawn_from_what_two_benchmarks_wrote(tmp_path: Path) -> None:
    ranking_rows = [
        Row("9 visible of 12: top 10 by bm25", 2.0, "ms"),
        Row("9 visible of 12: bm25 faster than GIN and ts_rank_cd", 30.0, "times"),
        Row("9 visible of 12: GIN and ts_rank_cd, same policies", 60.0, "ms"),
        Row("9, no tenants: tantivy in process", 0.5, "ms"),
        Row("9, no tenants: bm25s in process", note=_engines.NOT_INSTALLED),
        Row("9 visible, 0 of others: top 10 by bm25", 2.0, "ms"),
    ]
    vector_rows = [
        Row("50 % by tenant: top 10, whole in 100 % of queries", 5.0, "ms", 1.0),
        Row("0.1 % by tenant: top 10, whole in 100 % of queries", 6.0, "ms", 0.99),
        Row("50 % pgvector-haystack, by metadata: top 10, whole in 90 % of queries", 3.0, "ms", 0.8),
    ]
    written = [
        {"cores": 2, "postgresql": "18.6", "rows": [asdict(row) for row in rows]}
        for rows in (ranking_rows, vector_rows)
    ]
    assert [(what.split(",")[0], value) for what, value, _ in _chart.lexical(written[0])] == [
        ("rag-sql", 2.0),
        ("GIN", 60.0),
        ("tantivy in process", 0.5),
    ]
    assert _chart.recalls(written[1]) == {
        "rag-sql, by tenant": [(50.0, 1.0), (0.1, 0.99)],
        "pgvector-haystack": [(50.0, 0.8)],
    }
    if _engines.optional("matplotlib") is None:
        pytest.skip("install the extra bench: the chart is drawn with matplotlib")
    for name in ("one.svg", "two.svg"):
        _chart.draw(written[0], written[1], tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "9 visible of 12" in (tmp_path / "one.svg").read_text("utf-8")


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
def test_applicability(server: Server) -> None:
    rows = applicability.measure(server, applicability.Sizes(200, 20, 20, 3, 2))
    assert [row.ratio is not None for row in rows] == [False, True, True, False, True]


@pytest.mark.slow
@pytest.mark.skipif(
    not advisories.DATA.is_file(),
    reason=f"the advisories are not at {advisories.DATA}: set RAG_SQL_DATA to the folder that holds them",
)
def test_real_ranges_are_decided_as_packaging_orders_versions(server: Server) -> None:
    differing, agreeing, *_ = advisories.run(server, "small")
    assert differing.value == 0
    assert agreeing.reached


@pytest.mark.slow
@pytest.mark.skipif(
    not product_versions.DATA.is_file(),
    reason=f"etcd's documentation is not at {product_versions.DATA}: set RAG_SQL_DATA to the folder that holds it",
)
def test_what_is_selected_for_a_version_of_a_product_is_of_that_version(server: Server) -> None:
    rows = product_versions.run(server, "small")
    assert rows[0].value
    assert all(row.reached for row in rows[1:])


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


def test_made_up_passages_and_queries_are_always_the_same() -> None:
    assert len({_corpus.word(rank) for rank in range(_corpus.VOCABULARY)}) == _corpus.VOCABULARY
    assert [*_corpus.documents("acme", 3, 2)] == [_corpus.document("acme", 3), _corpus.document("acme", 4)]
    assert all(len(query.split()) == 7 for query in _corpus.queries(5))


def test_ndcg_is_that_of_the_definition() -> None:
    data = scifact.Data({"a": "", "b": "", "c": ""}, {"1": "", "2": ""}, {"1": {"a", "b"}, "2": {"c"}})
    assert scifact.ndcg(data, {"1": ["a", "b"], "2": ["c"]}) == 1
    assert scifact.ndcg(data, {"1": [], "2": ["a", "c"]}) == pytest.approx(0.6309 / 2, abs=1e-4)


@pytest.mark.slow
def test_ranking(server: Server) -> None:
    rows = ranking.measure(server, ranking.Sizes(visible=200, others=(0, 100), tenant=50, queries=2))
    assert [row.what for row in rows if row.target] == ["200 visible, 100 of others: top 10 by bm25"]
    assert all(row.value for row in rows if not row.note)
    assert len(rows) == 5 + 2


@pytest.mark.slow
def test_scifact(server: Server) -> None:
    abstracts = {"a": "Zinc in the blood. Zinc binds.", "b": "Cells divide. They grow.", "c": "Bones. They heal."}
    data = scifact.Data(abstracts, {"1": "Zinc binds in blood.", "2": "A cell divides."}, {"1": {"a"}, "2": {"b"}})
    rows = {row.what: row for row in scifact.measure(server, data)}
    assert rows["bm25: nDCG@10"].value == 1
    assert rows["bm25: queries without a result"].value == 0
    assert rows["GIN and ts_rank_cd, any word: nDCG@10"].value == 1


@pytest.mark.slow
def test_vectors(server: Server) -> None:
    if _engines.optional("numpy") is None:
        assert [row.note for row in vectors.measure(server, vectors.SIZES["small"])] == [_engines.NOT_INSTALLED]
        pytest.skip("install the extra bench: the vectors are made with numpy")
    rows = vectors.measure(server, vectors.Sizes(vectors=2_000, dimension=16, clusters=5, queries=2))
    assert all("whole in 100 %" in row.what and row.reached for row in rows if row.target)
    assert len(rows) == 4 * (2 + len(_peers.peers())) + len(_peers.missing())


@pytest.mark.slow
def test_bulk(server: Server) -> None:
    rows = bulk.measure(server, bulk.Sizes(passages=200, peers=20, repetitions=1))
    assert all(row.value for row in rows if not row.note)
    assert len(rows) == 7 + 2 * len(_peers.peers()) + len(_peers.missing())


@pytest.mark.slow
def test_changes(server: Server) -> None:
    rows = changes.measure(server, changes.Sizes(smaller=50, larger=100, changes=2, seconds=1))
    assert [row.what for row in rows if row.target == "none"] == ["answers that mixed old and new"]
    assert all(row.value for row in rows[:-1])
    assert rows[-1].reached


@pytest.mark.slow
def test_clients(server: Server) -> None:
    rows = clients.measure(server, clients.Sizes(passages=200, many=6, few=2, seconds=1, rounds=1))
    assert rows[-1].what == "errors and deadlocks"
    assert rows[-1].reached
    assert all(row.value for row in rows[:-1])


@pytest.mark.slow
def test_deciding(server: Server) -> None:
    rows = deciding.measure(server, passages=500, questions=2)
    assert [bool(row.target) for row in rows] == [True, False] * 2
    assert all(row.value for row in rows)


@pytest.mark.slow
def test_exactness(server: Server) -> None:
    (row,) = exactness.measure(server, queries=20)
    assert (row.value, row.reached) == (0, True)


def test_history(server: Server) -> None:
    revisions = _history.made_up(random.Random("a few"), 8)
    rows = history.measure(server, revisions, history.Sizes(revisions=8, sentences=6, packets=2, decisions=12))
    assert all(row.reached for row in rows if row.target)
    found = {row.what.split(":")[0]: row.value for row in rows}
    assert found["changes"] == 16
    assert found["approvals given"]
    assert found["approvals that turned stale"]


def test_sentences_that_survive_are_counted_in_consecutive_revisions_that_differ() -> None:
    revisions = _history.made_up(random.Random("one"), 3)
    one = revisions[0]
    text = one.text.partition("\n\n")[2]
    newer = _history.Revision(one.document, one.date, text)
    assert _history.survival([*revisions, one, newer]) == (1, 60, 59)
