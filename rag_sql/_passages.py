"""Cutting a version into passages: by structure, in order, and so that a heading never ends one.

**Places.** A passage is a range of the body in code points, exactly as it is stored. A passage begins where the line of
its first block does, indentation included (or, when a line was cut, at a word), and ends after its last code point that
is not blank. Blank text between passages is in none; every other code point is in exactly one.

**Sizes.** `target` is what passages are filled to, `limit` what none exceeds. A body within the limit is one passage,
from 0 to its end. Blocks are added to a passage as long as it stays within the target. Two things may take it beyond,
up to the limit: a block that is larger than the target by itself, and what would leave less than a quarter of the
target as a passage of its own.

**Blocks.** Lists are cut between items. Everything else stays whole unless it is over the limit by itself: then a table
is cut between rows (the head stays with the first), a fenced block between lines, an item or a quotation between its
blocks, and text between paragraphs, lines, sentences, words, and at last between the characters that a reader sees. A
text may also be cut where its heading would not fit before it within the limit; an item, a row or a fenced block is
not, and the heading is then a passage of its own. So is a heading that nothing follows and that the passage before has
no room for.

**Headings.** A passage stands under all headings of its `heading_path`: it is not continued beyond the section that the
last of them opens. The path holds the headings above the passage and not those in it. A passage that begins with a
heading therefore has the headings around that one for its path, and its text says the rest. A section that does not fit
into what is left of a passage begins a new one.

Nothing here depends on a locale or a clock: the same body and settings give the same passages. (What is a letter is
said by the Unicode tables of the Python that runs.)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rag_sql._blocks import Block, Heading, Kind, read_blocks
from rag_sql.errors import InvalidRequest

__all__ = ["LIMIT", "TARGET", "Passage", "count_tokens", "cut", "outline"]

#: In words and punctuation marks. In technical documentation one of them is 1.3 wordpieces of BERT's vocabulary: half
#: of the passages have at most 256 of those, and 98 of 100 at most 512, where common encoders stop to read without
#: saying so. Where none may have more, give the encoder's tokenizer as the counter and its length as the limit.
TARGET = 256
LIMIT = 384

#: Scripts that put no spaces between words: a token is a character.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]{{1,16}}|([^\w\s])\1{{0,15}}")

#: Where a text is cut, from coarse to fine: after blank lines, lines, sentences, words.
_BREAKS = (
    re.compile(r"(?:\r\n?|\n)(?:[ \t]*+(?:\r\n?|\n))+"),
    re.compile(r"\r\n?|\n"),
    re.compile("[.!?\u2026][\"')\\]\u00bb\u201d\u2019]?\\s+|[\u3002\uff01\uff1f][\u300d\u300f\u201d\u2019]?\\s*"),
    re.compile(r"\s+"),
)
_LINES = 1
_STRIDES, _CHARACTERS = len(_BREAKS), len(_BREAKS) + 1

#: Code points that a word without end is cut into first; and how long what a reader sees as one character may get.
_STRIDE = 16
_LONGEST_CHARACTER = 1024

#: Zero width (non-)joiner, skin tones, tags of flags; halves of flags; Hangul that a vowel or a final consonant joins.
_EXTENDING = re.compile("[\u200c\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG_HALF = re.compile("[\U0001f1e6-\U0001f1ff]")
_HANGUL = re.compile("[\u1100-\u11ff\ua960-\ua97c\uac00-\ud7fb]")
_HANGUL_VOWEL_OR_FINAL = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb]")

_BLANK_LINES = re.compile(r"(?:[ \t]*+(?:\r\n?|\n))*+")


@dataclass(frozen=True)
class Passage:
    """A passage of a body.

    Attributes
    ----------
    range_start, range_end : int
        The range of the body in code points, 0-based, half-open.
    heading_path : tuple of str
        The headings above the passage, outermost first, without markup; headings without a text are left out.
    """

    range_start: int
    range_end: int
    heading_path: tuple[str, ...]


def count_tokens(text: str) -> int:
    """Count words and punctuation marks.

    A word counts once for each 16 of its letters that are begun (an encoded image is not one word), the same mark up to
    16 times in a row counts once, and each Chinese or Japanese character counts.
    """
    return len(_TOKEN.findall(text))


def cut(
    body: str, *, target: int = TARGET, limit: int = LIMIT, count: Callable[[str], int] = count_tokens
) -> list[Passage]:
    """Cut a body into passages.

    Parameters
    ----------
    body : str
        Markdown, or plain text with paragraphs.
    target, limit : int
        What a passage is filled to, and what it never exceeds, as counted; see the module. Only what a reader sees as
        one character is not cut when it exceeds the limit.
    count : callable
        The tokens of a text. The count of a whole need not be the sum of the counts of its parts.

    Returns
    -------
    list of Passage
        At least one, in order.

    Raises
    ------
    InvalidRequest
        `target` is less than 1, or `limit` less than `target`.
    """
    if not 1 <= target <= limit:
        raise InvalidRequest(
            "target and limit of passages must be numbers of tokens",
            detail=f"target {target}, limit {limit}",
            hint="Give a target of at least 1, and a limit that is not below it.",
        )
    whole = [Passage(0, len(body), ())]
    if count(body) <= limit:
        return whole
    cutter = _Cutter(body, target, limit, count)
    return cutter.cut(read_blocks(body)) or whole


def outline(
    body: str, *, target: int = TARGET, limit: int = LIMIT, count: Callable[[str], int] = count_tokens
) -> list[dict[str, Any]]:
    """Where a body is cut, as ``load_documents`` takes it under ``outline``; parameters and errors as for :func:`cut`.

    Each passage has ``end``, ``headings`` and ``tokens``. Passages follow each other without a gap: blank text goes
    with what stands before it (at the beginning, with what stands after it). The empty list stands for one passage.
    """
    passages = cut(body, target=target, limit=limit, count=count)
    if len(passages) == 1:
        return []
    starts = [0, *(passage.range_start for passage in passages[1:]), len(body)]
    return [
        {
            "end": end,
            "headings": list(passage.heading_path[:20]),
            "tokens": count(body[start:end]),
        }
        for passage, start, end in zip(passages, starts, starts[1:], strict=False)
    ]


@dataclass(slots=True)
class _Piece:
    """A passage in the making, not yet trimmed."""

    start: int
    end: int
    size: int
    above: tuple[Heading, ...]
    begins_with_heading: bool = False

    def extend(self, end: int, size: int, above: tuple[Heading, ...]) -> None:
        """Take in what follows; what is above the piece is what is above all of it."""
        self.end = end
        self.size += size
        while self.above != above[: len(self.above)]:
            self.above = self.above[:-1]


class _Cutter:
    """Blocks go in, in order; pieces come out. Headings wait until it is known what they stand above."""

    def __init__(self, body: str, target: int, limit: int, count: Callable[[str], int]) -> None:
        self._body = body
        self._target = target
        self._limit = limit
        self._count = count
        self._small = target // 4  # what is less is no passage of its own, if that can be avoided
        self._apart = min(64, self._small)  # code points between breaks: less would be work for nothing
        self._pieces: list[_Piece] = []
        self._open: _Piece | None = None
        self._waiting: _Piece | None = None
        self._above: tuple[Heading, ...] = ()  # the block that is being placed

    def cut(self, blocks: list[Block]) -> list[Passage]:
        """Cut a body with these blocks."""
        for block in blocks:
            self._measure(block)
        for block, section in zip(blocks, _section_sizes(blocks), strict=True):
            self._above = block.above
            if block.heading is not None and block.size <= self._limit:
                self._wait(block, section)
            else:
                self._place(block)
        if self._waiting is not None:
            if self._open is None or not self._continued_by(self._waiting.above) or self._held() > self._limit:
                self._close()
            self._take_waiting()
        self._close()
        return [passage for piece in self._pieces for passage in self._finished(piece.start, piece.end, piece.above)]

    def _measure(self, block: Block) -> None:
        """Count each text once: what has parts is as large as they are together."""
        for part in block.parts:
            self._measure(part)
        if block.parts:
            block.size = sum(part.size for part in block.parts)
        else:
            block.size = self._count(self._body[block.start : block.end])

    def _held(self) -> int:
        """The size that the open piece has with the headings that wait."""
        size = 0 if self._open is None else self._open.size
        return size if self._waiting is None else size + self._waiting.size

    def _continued_by(self, above: tuple[Heading, ...]) -> bool:
        """Whether what stands under these headings stands under all that the open piece does."""
        return self._open is not None and self._open.above == above[: len(self._open.above)]

    def _wait(self, block: Block, section: int) -> None:
        """Hold a heading back for what follows."""
        if self._open is not None:
            is_full = self._open.size >= self._small and self._held() + section > self._target
            if is_full or not self._continued_by(block.above):
                self._close()
        if self._waiting is not None and self._waiting.size + block.size > self._target:
            self._close()
            self._take_waiting()
            self._close()
        if self._waiting is None:
            self._waiting = _Piece(block.start, block.end, block.size, block.above, begins_with_heading=True)
        else:
            self._waiting.extend(block.end, block.size, block.above)

    def _take_waiting(self) -> None:
        """Open with the headings that wait, or go on with them."""
        if self._waiting is None:
            return
        if self._open is None:
            self._open = self._waiting
        else:
            self._open.extend(self._waiting.end, self._waiting.size, self._waiting.above)
        self._waiting = None

    def _place(self, block: Block) -> None:
        """Go on with a block, or cut it, or begin with it."""
        if self._held() + block.size <= self._target:
            self._add(block)
            return
        while block.size > self._limit and len(block.parts) == 1:
            block = block.parts[0]  # a quotation in a quotation, a list in an item: the same text
        if block.size > self._limit or (block.size > self._target and block.kind == "list"):
            if self._open is not None and self._open.size > self._target // 2:
                self._close()
            if self._divide(block):
                return
        if self._open is not None and (self._open.size >= self._small or self._held() + block.size > self._limit):
            self._close()
        if self._waiting is not None and self._held() + block.size > self._limit:
            if block.kind in ("list", "quote", "table", "text") and self._divide(block):
                return
            self._take_waiting()
            self._close()
        self._add(block)

    def _add(self, block: Block) -> None:
        self._take_waiting()
        if self._open is None:
            self._open = _Piece(block.start, block.end, block.size, self._above)
        else:
            self._open.extend(block.end, block.size, self._above)

    def _close(self) -> None:
        """End the open piece; what is too small joins the piece that it continues."""
        piece, self._open = self._open, None
        if piece is None:
            return
        if self._pieces and piece.size < self._small and not piece.begins_with_heading:
            last = self._pieces[-1]
            if last.size + piece.size <= self._limit and last.above == piece.above[: len(last.above)]:
                last.extend(piece.end, piece.size, piece.above)
                return
        self._pieces.append(piece)

    def _divide(self, block: Block) -> bool:
        """Place the parts of a block, one after the other; False when it has none."""
        found = False
        for part in block.parts or self._cut_text(block):
            found = True
            if not block.parts:
                text = self._body[part.start : part.end]
                if text.isspace():
                    continue  # it would open a passage, whose headings were those above it and not above what follows
                part.size = self._count(text)
            self._place(part)
        return found

    def _cut_text(self, block: Block) -> Iterator[Block]:
        """Cut a text at the coarsest breaks that are in it; nothing for what has none."""
        if block.kind == "table":
            yield from _rows(self._body, block)
            return
        first = _LINES if block.kind == "fence" else block.depth
        for depth in range(first, _CHARACTERS + 1):
            start = block.start
            kind: Kind = "row" if block.kind == "row" and depth == _LINES else "text"
            for end in _breaks(self._body, start, block.end, depth, self._apart):
                yield Block(kind, start, end, depth=depth + 1)
                start = end
            if start > block.start:
                yield Block(kind, start, block.end, depth=depth + 1)
                return

    def _finished(self, start: int, end: int, above: tuple[Heading, ...]) -> Iterator[Passage]:
        """The passages of a piece: one, unless its count is more than the counts of its parts."""
        start, end = _trimmed(self._body, start, end)
        if start == end:
            return
        if self._count(self._body[start:end]) > self._limit:
            middle = _middle(self._body, start, end)
            if start < middle < end:
                yield from self._finished(start, middle, above)
                yield from self._finished(middle, end, above)
                return
        yield Passage(start, end, tuple(heading.text for heading in above if heading.text))


def _section_sizes(blocks: list[Block]) -> list[int]:
    """The size of the section that each heading opens, up to the next heading of its level; of others, their own."""
    sections = [block.size for block in blocks]
    sums = list(accumulate(sections, initial=0))
    opened: list[tuple[int, int]] = []  # level and number of the headings above
    for number, block in enumerate(blocks):
        if block.heading is not None:
            while opened and opened[-1][0] >= block.heading.level:
                _, at = opened.pop()
                sections[at] = sums[number] - sums[at]
            opened.append((block.heading.level, number))
    for _, at in opened:
        sections[at] = sums[-1] - sums[at]
    return sections


def _rows(body: str, table: Block) -> Iterator[Block]:
    """The rows of a table; its head, which is two lines, is one."""
    start = table.start
    ends = _breaks(body, start, table.end, _LINES)
    next(ends)
    for end in (*ends, table.end):
        yield Block("row", start, end, depth=_LINES if start == table.start else _LINES + 1)
        start = end


def _breaks(body: str, start: int, end: int, depth: int, apart: int = 1) -> Iterator[int]:
    """Where a text can be cut at a depth, without its start and its end; so many code points apart, or more."""
    if depth < len(_BREAKS):
        least = start + apart
        for found in _BREAKS[depth].finditer(body, start, end):
            position = found.end()
            if least <= position < end and not _joins(body, start, position):
                yield position
                least = position + apart
        return
    stride = _STRIDE if depth == _STRIDES else 1
    position = _character_end(body, start, start + stride)
    while position < end:
        yield position
        position = _character_end(body, position, position + stride)


def _character_end(body: str, start: int, position: int) -> int:
    """The first end of a character from a position on."""
    last = min(len(body), start + _LONGEST_CHARACTER)
    while position < last and _joins(body, start, position):
        position += 1
    return position


def _joins(body: str, start: int, position: int) -> bool:
    """Whether the code points around a position are one character for a reader; `start` begins one.

    The rules of Unicode's text segmentation that concern what people write: line ends, marks and signs on letters,
    joined emoji with their skin tones, flags, and syllables of Hangul in parts.
    """
    before, after = body[position - 1], body[position]
    if before == "\u200d":  # zero width joiner
        return True
    if after < "\u0300":
        return before == "\r" and after == "\n"
    if _EXTENDING.match(after) or unicodedata.category(after)[0] == "M":
        return True
    if _FLAG_HALF.match(after):
        halves = 0
        while position - halves > start and _FLAG_HALF.match(body[position - halves - 1]):
            halves += 1
        return halves % 2 == 1
    return bool(_HANGUL.match(before) and _HANGUL_VOWEL_OR_FINAL.match(after))


def _middle(body: str, start: int, end: int) -> int:
    """The coarsest break that is nearest to the middle; `start` when there is none."""
    for depth in range(_CHARACTERS + 1):
        breaks = list(_breaks(body, start, end, depth))
        if breaks:
            return min(breaks, key=lambda at: abs(2 * at - start - end))
    return start


def _trimmed(body: str, start: int, end: int) -> tuple[int, int]:
    """A range without blank lines before it and blank text after it."""
    end = start + len(body[start:end].rstrip())
    lines = _BLANK_LINES.match(body, start, end)
    return (lines.end() if lines else start), end
