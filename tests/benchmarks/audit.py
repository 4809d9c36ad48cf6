"""The answer audit on labelled data: what it rejects of supported answers beside what it misses of the others.

BEGIN (dev splits, https://github.com/google/BEGIN-dataset, CC BY 4.0): answers of dialogue models with the knowledge
they were given. VitaminC (real edits, CC BY-SA 3.0): claims with a sentence of Wikipedia; the title of the page is the
passage's heading. Both are found through ``RAG_SQL_DATA``. Every sentence of an item cites its passage.

Items of BEGIN and of VitaminC's first 5,000 pairs are parted in two by a hash: the audit was developed on the items of
one half; of the other no item was read, though its rates were seen beside those of the first. The pairs after those
5,000 (``VitaminC, rest``) were run when nothing was changed any more.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rag_sql import CHECKERS, AuditReport, AuditVerdict, audit_answer
from rag_sql._audit_text import sentence_spans

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
class Row:
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


@dataclass(frozen=True)
class Target:
    """A share that has to be reached."""

    what: str
    value: float
    target: str
    reached: bool


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


def measure(scale: str = "full") -> tuple[list[Row], list[Target]]:
    """Audit every item; rows by set, half, check and label, and the targets on BEGIN."""
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
    rows = [
        Row(*key, check, label, found[*key, label, check], bears[*key, label, check], items[*key, label])
        for key in sorted({key[:2] for key in items})
        for check in (*(checker.name for checker in CHECKERS), REJECTED, REVIEW, UNCHECKED)
        for label in ("supported", "unsupported", "refuted", "generic")
        if items[*key, label]
    ]
    return rows, _targets(rows)


def _targets(rows: list[Row]) -> list[Target]:
    targets = []
    for half in ("all", "held out"):
        shares = {
            row.label: row.share for row in rows if (row.dataset, row.half, row.check) == ("BEGIN", half, REJECTED)
        }
        supported, unsupported = shares["supported"], shares["unsupported"]
        targets += [
            Target(f"BEGIN, {half}: attributable answers rejected", supported, "at most 3 %", supported <= 0.03),
            Target(
                f"BEGIN, {half}: unattributable answers rejected", unsupported, "at least 32 %", unsupported >= 0.32
            ),
        ]
    return targets


def main() -> int:
    """Print the table and the targets; 0 only if every target is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=PAIRS, default="small")
    parser.add_argument("--json", type=Path, help="write rows and targets to this file")
    arguments = parser.parse_args()
    if not (DATA / "begin").is_dir():
        print(f"the labelled data is not in {DATA}: set RAG_SQL_DATA to the folder that holds begin and vitaminc")
        return 2
    rows, targets = measure(arguments.scale)
    print(f"{'set':15} {'half':13} {'check':12} {'label':12} {'bears on':>12} {'found':>12}")
    for row in rows:
        bears = f"{row.bears_on}/{row.items}"
        found = f"{row.found} {100 * row.share:5.1f} %"
        print(f"{row.dataset:15} {row.half:13} {row.check:12} {row.label:12} {bears:>12} {found:>12}")
    for target in targets:
        state = "reached" if target.reached else "not reached"
        print(f"{target.what}: {100 * target.value:.1f} % (target {target.target}): {state}")
    if arguments.json:
        content = {"rows": [asdict(row) for row in rows], "targets": [asdict(target) for target in targets]}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return 0 if all(target.reached for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
