"""The answer audit on labelled data: what it rejects of supported answers beside what it misses of the others.

BEGIN (dev splits, https://github.com/google/BEGIN-dataset, CC BY 4.0): answers of dialogue models with the knowledge
they were given. VitaminC (real edits, CC BY-SA 3.0): claims with a sentence of Wikipedia; the title of the page is the
passage's heading. Both are found through ``RAG_SQL_DATA``. Every sentence of an item cites its passage.

Items of BEGIN and of VitaminC's first 5,000 pairs are parted in two by a hash: the audit was developed on the items of
one half; of the other no item was read, though its rates were seen beside those of the first. The pairs after those
5,000 (``VitaminC, rest``) were run when nothing was changed any more.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rag_sql import CHECKERS, AuditReport, AuditVerdict, audit_answer
from rag_sql._audit_text import sentence_spans
from tests.benchmarks._rows import Row, Scale

DATA = Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
PAIRS = {"small": 5_000, "full": 15_000}
_FIRST = 5_000
REJECTED, REVIEW, UNCHECKED = "rejected", "review only", "unchecked"

_BEGIN_LABELS = {
    "Fully attributable": "supported",
    "Not fully attributable": "unsupported",
    "Generic": "generic",
}
_VITAMINC_LABELS = {"SUPPORTS": "supported", "REFUTES": "refuted", "NOT ENOUGH INFO": "unsupported"}


@dataclass(frozen=True)
class Item:
    """A labelled answer to one passage."""

    dataset: str
    passage: str
    answer: str
    label: str

    @property
    def half(self) -> str:
        """The half it is in, by its content alone."""
        digest = hashlib.sha256(f"{self.passage}\0{self.answer}".encode()).digest()
        return "held out" if digest[0] % 2 else "developed on"


@dataclass(frozen=True)
class Share:
    """How often a check, or the audit as a whole, found something in the items of one label."""

    dataset: str
    half: str
    check: str
    label: str
    found: int
    bears_on: int
    items: int

    @property
    def share(self) -> float:
        """The share of items in which it found something."""
        return self.found / self.items if self.items else 0.0


def begin() -> Iterator[Item]:
    """The dev splits of BEGIN."""
    for split in ("cmu", "wow"):
        with (DATA / "begin" / f"begin_dev_{split}.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                label = _BEGIN_LABELS[row["begin_label"].strip()]
                yield Item("BEGIN", row["knowledge"], row["response"], label)


def vitaminc(pairs: int) -> Iterator[Item]:
    """The first pairs of VitaminC's real edits."""
    with (
        zipfile.ZipFile(DATA / "vitaminc" / "vitaminc_real.zip") as archive,
        archive.open("vitaminc_real/test.jsonl") as file,
    ):
        for place, line in zip(range(pairs), io.TextIOWrapper(file, encoding="utf-8"), strict=False):
            pair = json.loads(line)
            passage = f"{pair['page']}\n{pair['evidence']}"
            dataset = "VitaminC" if place < _FIRST else "VitaminC, rest"
            yield Item(dataset, passage, pair["claim"], _VITAMINC_LABELS[pair["label"]])


def audited(item: Item) -> AuditReport:
    """The audit of an item, each of whose sentences cites the passage."""
    spans = sentence_spans(item.answer)
    return audit_answer("".join(f"{item.answer[a:b].rstrip()} [P1]\n\n" for a, b in spans), {"P1": item.passage})


def run(_server: object, scale: Scale) -> list[Row]:
    """Audit every item: what is found by set, half, label and check, with the targets on BEGIN. No server is needed."""
    if not (DATA / "begin").is_dir():
        return [Row("BEGIN and VitaminC", note=f"left out: not in {DATA}; set RAG_SQL_DATA")]
    return [_row(share) for share in measure(scale)]


def measure(scale: Scale) -> list[Share]:
    """Audit every item; shares by set, half, check and label."""
    items: Counter[tuple[str, str, str]] = Counter()
    found: Counter[tuple[str, str, str, str]] = Counter()
    bears: Counter[tuple[str, str, str, str]] = Counter()
    for item in [*begin(), *vitaminc(PAIRS[scale])]:
        report = audited(item)
        for half in (item.half, "all") if item.dataset != "VitaminC, rest" else ("all",):
            items[item.dataset, half, item.label] += 1
            for count in report.checks:
                bears[item.dataset, half, item.label, count.check] += count.bears_on > 0
                found[item.dataset, half, item.label, count.check] += count.found_in > 0
            for name, holds in (
                (REJECTED, report.verdict.rejects),
                (REVIEW, report.verdict is AuditVerdict.REVIEW),
                (UNCHECKED, report.verdict is AuditVerdict.UNCHECKED),
            ):
                bears[item.dataset, half, item.label, name] += 1
                found[item.dataset, half, item.label, name] += holds
    return [
        Share(*key, check, label, found[*key, label, check], bears[*key, label, check], items[*key, label])
        for key in sorted({key[:2] for key in items})
        for check in (*(checker.name for checker in CHECKERS), REJECTED, REVIEW, UNCHECKED)
        for label in ("supported", "unsupported", "refuted", "generic")
        if items[*key, label]
    ]


#: The most or the least of BEGIN's answers that are to be rejected, in percent, by label.
_TARGETS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "supported": ("at most 3 %", lambda share: share <= 0.03),
    "unsupported": ("at least 32 %", lambda share: share >= 0.32),
}


def _row(share: Share) -> Row:
    target, reached = "", None
    if (share.dataset, share.check) == ("BEGIN", REJECTED) and share.half != "developed on" and share.label in _TARGETS:
        target, holds = _TARGETS[share.label]
        reached = holds(share.share)
    what = f"{share.dataset}, {share.half}: {share.label}, {share.check} ({share.found} of {share.items})"
    return Row(what, 100 * share.share, "%", target=target, reached=reached)
