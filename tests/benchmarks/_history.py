"""The history of GitHub's site policies, and what the benchmark ``history`` knows of it without asking the store.

``Texts`` holds the documents as they stand, in Python: which sentence is quoted where, what passages a query by overlap
selects, and what evidence a selection is. It is what the store is compared with, so it shares nothing with it but the
cut into passages, which the loader brings.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from rag_sql import outline
from rag_sql._audit_text import sentence_spans

ARCHIVE = (
    Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    / "site-policy"
    / "revisions.jsonl.gz"
)

Place = tuple[str, int, int, int]
Evidence = frozenset[tuple[str, int, int, int, str, tuple[tuple[str, str, int, int], ...]]]


@dataclass(frozen=True)
class Revision:
    """A text that a document had from an instant on."""

    document: str
    date: datetime
    text: str


def recorded() -> list[Revision]:
    """The history, oldest first; git lists the newest first."""
    with gzip.open(ARCHIVE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][::-1]
    found = [Revision(row["doc"].removesuffix(".md"), datetime.fromisoformat(row["date"]), row["text"]) for row in rows]
    return sorted(found, key=lambda revision: revision.date)


def made_up(chosen: random.Random, revisions: int) -> list[Revision]:
    """A small history: three documents of some sentences, of which each revision changes, adds or drops a few."""

    def sentence() -> str:
        return " ".join(chosen.choices(_WORDS, k=chosen.randint(8, 14))).capitalize() + "."

    texts = {name: [sentence() for _ in range(60)] for name in ("A", "B", "C")}
    found = []
    for number in range(revisions):
        name = "ABC"[number] if number < 3 else chosen.choice("ABC")
        if number >= 3:
            for _ in range(chosen.randint(0, 6)):
                at = chosen.randrange(len(texts[name]))
                texts[name][at : at + chosen.randint(0, 1)] = [sentence()] * chosen.randint(0, 1)
        found.append(
            Revision(name, datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=number), "\n\n".join(texts[name]))
        )
    return found


_WORDS = [consonant + vowel + end for consonant in "bdfgklmnprst" for vowel in "aeiou" for end in ("", "n", "rt")]


def sentences(text: str) -> list[str]:
    """The sentences of a text, without the white space around them."""
    return [text[start:end].strip() for start, end in sentence_spans(text)]


def survival(revisions: Iterable[Revision]) -> tuple[int, int, int]:
    """Of consecutive revisions that differ: how many, their older sentences, and those that the newer text has."""
    before: dict[str, str] = {}
    pairs = old = kept = 0
    for revision in revisions:
        text = before.get(revision.document, revision.text)
        before[revision.document] = revision.text
        if text != revision.text:
            found = sentences(text)
            pairs, old = pairs + 1, old + len(found)
            kept += sum(sentence in revision.text for sentence in found)
    return pairs, old, kept


@lru_cache(maxsize=20_000)
def words(text: str) -> frozenset[str]:
    """The distinct words of a text, as the README says it: case-folded, split where no word character stands."""
    return frozenset(word for word in re.split(r"\W+", text.lower()) if word)


@dataclass(frozen=True)
class Quotation:
    """A span: its id, the fact it is for, and its text, which stands once in its version."""

    span_id: str
    fact: str
    quote: str


@dataclass
class Texts:
    """The documents as they stand: their current versions, passages and quotations, and the contracts in force."""

    version: dict[str, int] = field(default_factory=dict)
    body: dict[str, str] = field(default_factory=dict)
    passages: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    quoted: dict[str, list[Quotation]] = field(default_factory=dict)
    contracts: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)

    def load(self, revision: Revision) -> dict[str, Any]:
        """The revision is the document's next version, without quotations; how it is loaded."""
        document = self.next(revision)
        self.version[revision.document] = document["version"]
        self.body[revision.document] = revision.text
        ends = [entry["end"] for entry in document["outline"]] or [len(revision.text)]
        self.passages[revision.document] = list(zip([0, *ends[:-1]], ends, strict=True))
        self.quoted[revision.document] = []
        return document

    def next(self, revision: Revision) -> dict[str, Any]:
        """The revision as the document's next version."""
        return {
            "id": revision.document,
            "version": self.version.get(revision.document, 0) + 1,
            "body": revision.text,
            "effective_from": revision.date.isoformat(),
            "outline": outline(revision.text),
        }

    def candidates(self, document: str) -> list[str]:
        """Sentences that can be quoted: long enough to say something, and once in the text."""
        text = self.body[document]
        return [s for s in dict.fromkeys(sentences(text)) if 40 <= len(s) <= 400 and text.count(s) == 1]

    def nearest(self, document: str, quote: str) -> str | None:
        """The sentence that a person would take for what a quotation has become, if any comes near it."""
        taken = {quotation.quote for quotation in self.quoted[document]}
        free = [sentence for sentence in self.candidates(document) if sentence not in taken]
        likeness = {s: SequenceMatcher(None, quote.split(), s.split(), autojunk=False).ratio() for s in free}
        best = max(free, key=lambda sentence: likeness[sentence], default=None)
        return best if best is not None and likeness[best] > 0.3 else None

    def fate(self, document: str, quotation: Quotation, was: str) -> str:
        """What has become of a quotation of the body that was."""
        text, at = self.body[document], was.index(quotation.quote)
        if text.startswith(quotation.quote, at):
            return "exact"
        return "moved" if quotation.quote in text else "gone"

    def select(self, query: str, k: int) -> list[Place]:
        """The passages that share most words with a query."""
        asked = words(query)
        scored = []
        for document, ranges in self.passages.items():
            for start, end in ranges:
                score = len(asked & words(self.body[document][start:end]))
                if score:
                    scored.append((-score, document.encode(), start, (document, self.version[document], start, end)))
        return [place for *_, place in sorted(scored)[:k]]

    def evidence(self, selection: Sequence[Place]) -> Evidence:
        """What a selection of current passages is evidence of: hashes of their texts, and the spans they have whole."""
        chosen = {(document, start) for document, _, start, _ in selection}
        spans: dict[tuple[str, int], list[tuple[str, str, int, int]]] = {}
        for document, quotations in self.quoted.items():
            for quotation in quotations:
                first = self.body[document].index(quotation.quote)
                last = first + len(quotation.quote)
                touched = [start for start, end in self.passages[document] if start < last and first < end]
                if all((document, start) in chosen for start in touched):
                    found = spans.setdefault((document, touched[0]), [])
                    found.append((quotation.span_id, quotation.fact, first, last))
        return frozenset(
            (
                document,
                version,
                start,
                end,
                sha256(self.body[document][start:end].encode()).hexdigest(),
                tuple(sorted(spans.get((document, start), ()))),
            )
            for document, version, start, end in selection
        )
