"""Whole sets of required evidence on ConditionalQA: how many are covered at K, and whether losses are named by stage.

ConditionalQA (dev, https://github.com/haitian-sun/ConditionalQA, BSD-2; guidance text under the Open Government
Licence), found through ``RAG_SQL_DATA``. The evidence sentences of all questions, grouped by page, are the corpus, a
passage each; every question with two or more of them is asked in its own words, by overlap and by bm25. A set is
covered when all of it is selected. Then a required passage is dropped at each stage in turn, and what the diagnosis
says is held against what was dropped; beside it stand questions from which nothing was dropped.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rag_sql import Tenant
from tests.benchmarks._rows import Row, Scale
from tests.conftest import Server, installed

DATA = (
    Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    / "conditionalqa"
    / "dev.json"
)
KS = (5, 10, 20)
METHODS = ("overlap", "bm25")
_CONTRACT = {"case": [], "facts": [{"fact": "none", "propositions": [{"quote": "none", "clauses": ["none"]}]}]}


@dataclass(frozen=True)
class Question:
    """A question in its own words, and the passages that its answer needs."""

    query: str
    required: tuple[Any, ...]


def run(server: Server, scale: Scale) -> list[Row]:
    """Coverage at each K; of the losses at each stage, how many the diagnosis names, and nothing else."""
    if not DATA.is_file():
        return [Row("ConditionalQA", note=f"left out: {DATA} is not there; set RAG_SQL_DATA")]
    database = installed(server)
    documents, questions = read(json.loads(DATA.read_text("utf-8")))
    with database.tenant("acme_curator") as acme:
        acme.load_documents(documents)
        acme.add_contract("q", 1, _CONTRACT)
    asked = questions[:: 4 if scale == "small" else 1]
    covered: Counter[tuple[str, int]] = Counter()
    named: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    with database.tenant("acme_reader") as acme:
        for question in asked:
            for method in METHODS:
                for k in KS:
                    covered[method, k] += _is_covered(acme, question, k, method)
            for stage, holds in _diagnosed(acme, question):
                cases[stage] += 1
                named[stage] += holds
    server.drop(database)
    return [
        *(
            _share(f"all required passages selected at K={k} by {method}", covered[method, k], len(asked))
            for method in METHODS
            for k in KS
        ),
        *(_share(f"diagnosis exact: {stage}", named[stage], cases[stage], "100 %") for stage in sorted(cases)),
    ]


def read(data: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Question]]:
    """Documents for a load, a passage for each evidence sentence, and the questions with two or more of them."""
    pages: dict[str, dict[str, int]] = defaultdict(dict)  # page -> sentence -> where it begins
    lengths: Counter[str] = Counter()
    outlines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in data:
        for sentence in map(_plain, entry["evidences"]):
            page = entry["url"]
            if sentence and sentence not in pages[page]:
                pages[page][sentence] = lengths[page]
                lengths[page] += len(sentence) + 1
                outlines[page].append({"end": lengths[page], "headings": []})
    documents = [
        {
            "id": page,
            "version": 1,
            "body": "".join(f"{text}\n" for text in sentences),
            "outline": outlines[page],
            "language": "english",
        }
        for page, sentences in pages.items()
    ]
    questions = []
    for entry in data:
        sentences = {text for text in map(_plain, entry["evidences"]) if text}
        if len(sentences) > 1:
            starts = sorted(pages[entry["url"]][sentence] for sentence in sentences)
            places = tuple(
                SimpleNamespace(tenant="acme", document_id=entry["url"], version=1, range_start=start, range_end=0)
                for start in starts
            )
            questions.append(Question(entry["question"], places))
    return documents, questions


def _plain(sentence: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", sentence).split())


def _key(place: Any) -> tuple[str, int]:
    return place.document_id, place.range_start


def _is_covered(acme: Tenant, question: Question, k: int, method: str) -> bool:
    sources = acme.decide("q", query=question.query, case={}, k=k, method=method).sources
    return {_key(place) for place in question.required} <= {_key(source) for source in sources}


def _diagnosed(acme: Tenant, question: Question) -> list[tuple[str, bool]]:
    """Stage of each loss that was made, and whether the diagnosis names it, and no other."""
    packet = acme.record_packet("q", query=question.query, case={}, k=20)
    selected = {_key(source) for source in packet.sources}
    required = [place for place in question.required if _key(place) in selected]
    if not required:
        return []
    results = []
    lost = required[-1]
    # Retrieval: so few passages are selected that the last required one is not among them.
    rank = next(source.position for source in packet.sources if _key(source) == _key(lost))
    if rank > 1:
        few = acme.record_packet("q", query=question.query, case={}, k=rank - 1)
        trace = acme.record_trace(few.packet_id, neighbours=0, budget=100_000)
        expected = {("retrieval_miss", _key(place)) for place in required if _key(place) not in map(_key, few.sources)}
        results.append(("dropped by retrieval", _findings(acme, trace.trace_id, required) == expected))
    # Context: the budget ends before the last passage that was placed.
    whole = acme.record_trace(packet.packet_id, neighbours=0, budget=100_000)
    results.append(("nothing dropped", not _findings(acme, whole.trace_id, required)))
    tokens = [row.tokens for row in acme.trace_passages(whole.trace_id)]
    labels = [_key(passage) for passage in whole.context]
    before = sum(tokens[: labels.index(_key(lost))])
    if before:
        short = acme.record_trace(packet.packet_id, neighbours=0, budget=before)
        handed = {_key(passage) for passage in short.context}
        expected = {("context_loss", _key(place)) for place in required if _key(place) not in handed}
        results.append(("dropped by the budget", _findings(acme, short.trace_id, required) == expected != set()))
    # Citation: a label that nobody handed over.
    acme.record_answer(whole.trace_id, "x", ["P1", "P999"], model="none", prompt_version="none")
    found = [(row.finding, row.label) for row in acme.diagnose_trace(whole.trace_id, required)]
    results.append(("invented label", found == [("unknown_citation", "P999")]))
    return results


def _findings(acme: Tenant, trace_id: str, required: list[Any]) -> set[tuple[str, tuple[str, int]]]:
    return {
        (row.finding, (str(row.document_id), row.range_start or 0)) for row in acme.diagnose_trace(trace_id, required)
    }


def _share(what: str, found: int, of: int, target: str = "") -> Row:
    reached = found == of if target else None
    return Row(f"{what} ({found} of {of})", 100 * found / of, "%", target=target, reached=reached)
