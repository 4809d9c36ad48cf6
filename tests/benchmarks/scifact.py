"""nDCG@10 on SciFact, through the product by bm25 and hybrid, beside bm25s, tantivy and ts_rank_cd on the same text.

Claims CC BY 4.0, abstracts ODC-By 1.0 (https://github.com/allenai/scifact), judgements of BEIR: 5,183 abstracts, the
300 claims of the test split as queries. The published BM25 (Anserini, "flat") reaches 0.679; it searches title and
abstract as one text, so a document's body here is its title, a space and its abstract, and each is one passage in
English. The data is found through ``RAG_SQL_DATA``; both scales are the whole set.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import _corpus, _gin
from tests.benchmarks._engines import ENGINES, NOT_INSTALLED
from tests.benchmarks._rows import Row, Scale
from tests.conftest import Database, Server, installed

FOLDER = Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data")) / "scifact"
PUBLISHED = 0.679
BM25 = 0.690
HYBRID = 0.70
_CONFIGURATION = "english"

# An abstract is a list of sentences as numpy prints one: quoted like Python's texts, without commas between them.
_SENTENCE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


@dataclass(frozen=True)
class Data:
    """Abstracts with their titles, by id; claims, by id; which abstracts each claim is judged by."""

    abstracts: dict[str, str]
    claims: dict[str, str]
    relevant: dict[str, set[str]]


def run(server: Server, _scale: Scale) -> list[Row]:
    """Means over the claims. Every claim has words that some abstract has, so each must find something."""
    if not FOLDER.is_dir():
        return [Row("SciFact", note=f"left out: not at {FOLDER} (RAG_SQL_DATA)")]
    return measure(server, read(FOLDER))


def measure(server: Server, data: Data) -> list[Row]:
    """The same with any data."""
    database = installed(server)
    given = [
        {"id": name, "version": 1, "body": body, "language": _CONFIGURATION} for name, body in data.abstracts.items()
    ]
    _corpus.load(database, "acme_curator", "acme", given)
    _corpus.settle(database)
    _gin.fill(database, _CONFIGURATION)
    with _corpus.session(database, "acme_reader") as connection:
        rows = _rows(
            data,
            "bm25",
            lambda query: [found[0] for found in _corpus.search(connection, query)[1]],
            f"at least {BM25:.3f}",
            BM25,
        )
        rows += _hybrid(database, data)
        rows += _rows(
            data, "GIN and ts_rank_cd, any word", lambda query: _gin.search(connection, query, _CONFIGURATION)[1]
        )
        all_words = [_gin.with_every_word(connection, query, _CONFIGURATION) for query in data.claims.values()]
    rows.append(Row("GIN, every word (websearch_to_tsquery): queries without a result", all_words.count(0), ""))
    names = list(data.abstracts)
    for name, build in ENGINES.items():
        search = build(list(data.abstracts.values()), english=True)
        if search is None:
            rows.append(Row(f"{name} in process", note=NOT_INSTALLED))
        else:
            found = {claim: [names[place] for place in search(query)] for claim, query in data.claims.items()}
            rows.append(Row(f"{name} in process: nDCG@10", ndcg(data, found), ""))
    return rows


def _hybrid(database: Database, data: Data) -> list[Row]:
    model = _corpus.packaged_model()
    if model is None:
        return [Row("hybrid", note="left out: not installed (the extra minilm)")]
    _corpus.embed(database, "acme_curator", model)
    _corpus.settle(database)
    vectors = dict(zip(data.claims, model.embed(list(data.claims.values())), strict=True))
    by_text = {text: vectors[claim] for claim, text in data.claims.items()}
    with _corpus.session(database, "acme_reader") as connection:

        def search(query: str) -> list[str]:
            vector = [float(value) for value in by_text[query]]
            parameters = {"model": model.name, "model_version": model.version, "vector": vector}
            return [found[0] for found in _corpus.search(connection, query, "hybrid", parameters)[1]]

        return _rows(data, f"hybrid with {model.name}", search, f"at least {HYBRID:.2f}", HYBRID)


def _rows(data: Data, name: str, search: Callable[[str], list[str]], target: str = "", least: float = 0) -> list[Row]:
    found = {claim: search(query) for claim, query in data.claims.items()}
    score = ndcg(data, found)
    empty = sum(not names for names in found.values())
    return [
        Row(
            f"{name}: nDCG@10",
            score,
            "",
            score / PUBLISHED,
            f"published BM25, {PUBLISHED}",
            target,
            score >= least if target else None,
        ),
        Row(
            f"{name}: queries without a result",
            empty,
            "",
            target="none" if target else "",
            reached=empty == 0 if target else None,
        ),
    ]


def ndcg(data: Data, found: dict[str, list[str]]) -> float:
    """Mean normalized discounted cumulative gain of the first ten, every judgement being 1 or none."""
    total = 0.0
    for claim, relevant in data.relevant.items():
        gain = sum(1 / math.log2(place + 2) for place, name in enumerate(found[claim][:10]) if name in relevant)
        total += gain / sum(1 / math.log2(place + 2) for place in range(min(10, len(relevant))))
    return total / len(data.relevant)


def read(folder: Path) -> Data:
    """The whole set as it is published."""
    relevant = defaultdict(set)
    with (folder / "qrels_test.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if int(row["score"]) > 0:
                relevant[row["query-id"]].add(row["corpus-id"])
    with (folder / "claims_dev.jsonl").open(encoding="utf-8") as file:
        claims = {str(claim["id"]): claim["claim"] for claim in map(json.loads, file)}
    return Data(dict(_abstracts(folder)), {name: claims[name] for name in relevant}, dict(relevant))


def _abstracts(folder: Path) -> Iterator[tuple[str, str]]:
    with (
        zipfile.ZipFile(folder / "scifact.zip") as archive,
        archive.open("corpus_train.csv") as file,
    ):
        for row in csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline="")):
            sentences = [ast.literal_eval(sentence) for sentence in _SENTENCE.findall(row["abstract"])]
            yield row["doc_id"], " ".join([row["title"], *sentences])
