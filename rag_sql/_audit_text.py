"""Sentences of a text with positions, and the citations in them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

import sentencex  # type: ignore[import-untyped]

__all__ = ["Sentence", "cut", "says", "sentence_spans"]

#: What can be a label without being one of the sources': letters and digits such as P9, S12 or 3.
_LABEL = re.compile(r"[A-Za-z]{0,3}\d[\w.\u2013-]*")
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\]")
#: A blank line ends a sentence, and so does the line before a list's item, a heading or a table's row.
_BREAK = re.compile(r"\n(?=[ \t]*\n)|\n(?=[ \t]*(?:[-*+\u2022#|>]|\d{1,3}[.)][ \t]))")
_ENUMERATOR = re.compile(r"\s*+[-*+\u2022]?\s*+\(?(?:\d{1,3}|[A-Za-z])[.)]\s*+")


@dataclass(frozen=True)
class Sentence:
    """A sentence of an answer.

    Attributes
    ----------
    start, end : int
        Code points, half-open; the sentences of an answer tile it.
    text : str
    citations : tuple of str
    bare : str
        The text with spaces in place of citations.
    """

    start: int
    end: int
    text: str
    citations: tuple[str, ...]
    bare: str


@lru_cache(maxsize=512)
def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Ranges that tile the text, each with one sentence and at least one letter or digit; empty where there is none."""
    well_formed = re.sub("[\ud800-\udfff]", "\ufffd", text)  # a lone surrogate has no UTF-8
    spans: list[tuple[int, int]] = []
    open_ended = False  # the last piece says nothing by itself: what follows belongs to it
    for start, end in _pieces(well_formed):
        says = _says(text[start:end])
        if spans and (open_ended or not says):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        if says or len(spans) == 1:
            open_ended = not says or bool(_ENUMERATOR.fullmatch(text[start:end]))
    return tuple(spans) if _says(text) else ()


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Ranges that tile the text: its blocks, cut by the library."""
    block = 0
    for edge in [*(match.end() for match in _BREAK.finditer(text)), len(text)]:
        place = block
        for piece in sentencex.segment("en", text[block:edge]):
            if piece:
                yield place, place + len(piece)
            place += len(piece)
        if place < edge:
            yield place, edge
        block = edge


def _says(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _labels(inside: str, labels: Collection[str]) -> tuple[str, ...]:
    """The labels between brackets; empty where what stands there is no citation, such as ``[sic]``."""
    items = [item.strip() for item in re.split("[,;]", inside)]
    if inside.strip() in labels:
        return (inside.strip(),)
    return tuple(items) if all(item in labels or _LABEL.fullmatch(item) for item in items) else ()


def cut(answer: str, labels: Collection[str]) -> list[Sentence]:
    """The sentences of an answer, each with the citations inside it and those that follow its full stop.

    Parameters
    ----------
    answer : str
    labels : collection of str
        The labels of the sources.
    """
    masked = _masked(answer, labels)
    sentences = []
    for start, end in sentence_spans(masked):
        text = answer[start:end]
        cited = [label for match in _BRACKETS.finditer(text) for label in _labels(match[1], labels)]
        sentences.append(Sentence(start, end, text, tuple(dict.fromkeys(cited)), masked[start:end]))
    return sentences


def _masked(text: str, labels: Collection[str]) -> str:
    """The text with spaces in place of citations."""
    return _BRACKETS.sub(lambda match: " " * len(match[0]) if _labels(match[1], labels) else match[0], text)


def says(answer: str, text: str) -> bool:
    """Whether whole words of an answer are a text's; case, white space and the last full stop are no matter."""
    words = re.escape(_folded(text).rstrip("."))
    return re.search(rf"(?<!\w){words}(?!\w)", _folded(answer)) is not None


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
