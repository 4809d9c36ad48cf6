"""The blocks of a Markdown body, with their places in code points, and the outline of its headings.

markdown-it-py says what the blocks are; only its block rules run. It is driven from here, one block of the outermost
level at a time, for three reasons. The tokens of a block can be let go before the next. Its effort can be bounded: a
hostile body makes the block rules look at each line a hundred times, and lines of two letters make ten million blocks.
And a rule that gives no token still gives a place.

Blocks at one level leave nothing out: each reaches to the beginning of the next, the blank lines between them included,
and the parts of a list, an item or a quotation fill it. Places are those of the body as it is: lines end with LF, CRLF
or CR, tabs are tabs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

__all__ = ["Block", "Heading", "Kind", "read_blocks"]

#: `list` and `quote` have parts of any kind (a list: items); `row` and `text` are pieces that are cut from others.
Kind = Literal["heading", "list", "item", "quote", "table", "row", "fence", "text"]

#: Where the structure of a body ends to be read, which bounds memory and time; what comes after is one text. Ten
#: mebibytes of real pages have about 220,000 lines and need less than a million steps (wrapped prose two million).
_MOST_LINES = 400_000
_MOST_STEPS = 3_000_000

#: Quotations in each other, and lists (two levels each). What is deeper is text, and so is, as markdown-it-py has it,
#: all that follows a list that is deeper.
_MOST_LEVELS = 40

#: A heading is a label in a path: of one that is longer, this many code points are.
_HEADING_LENGTH = 200

_LINE_END = re.compile(r"\r\n?|\n")
_MARKUP = re.compile(r"[\\`*_\[\]<>&!~]")

_KINDS: dict[str, Kind] = {
    "heading_open": "heading",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "list_item_open": "item",
    "blockquote_open": "quote",
    "table_open": "table",
    "fence": "fence",
    "paragraph_open": "text",
    "code_block": "text",
    "html_block": "text",
    "hr": "text",
    "definition": "text",  # of a link's destination
}

_MARKDOWN = MarkdownIt("commonmark", {"maxNesting": _MOST_LEVELS, "inline_definitions": True}).enable("table")


@dataclass(frozen=True, slots=True, eq=False)
class Heading:
    """A heading of the outline: its level from 1 to 6, and its text without markup. Equal only to itself."""

    level: int
    text: str


@dataclass(slots=True)
class Block:
    """A block, or a piece of one: the range ``body[start:end]``.

    Attributes
    ----------
    kind : str
    start, end : int
        In code points, half-open.
    above : tuple of Heading
        The headings that the block stands under, outermost first; of an outermost block only.
    heading : Heading or None
        What a heading puts above the blocks that follow.
    parts : list of Block
        What fills a list, an item or a quotation.
    depth, size : int
        How finely a text has been cut, and how many tokens the block has; see :mod:`rag_sql._passages`.
    """

    kind: Kind
    start: int
    end: int
    above: tuple[Heading, ...] = ()
    heading: Heading | None = None
    parts: list[Block] = field(default_factory=list)
    depth: int = 0
    size: int = 0


class _TooMuchWork(Exception):
    pass


class _State(StateBlock):
    """The block parser's state; it keeps only the tokens that begin a block, and counts the work."""

    steps = 0

    def is_code_block(self, line: int) -> bool:
        # Nearly every rule asks this about every line that it looks at.
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _TooMuchWork
        return super().is_code_block(line)

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        of_heading = ttype == "inline" and len(self.tokens) == 2 and self.tokens[0].type == "heading_open"
        if ttype not in _KINDS and not of_heading:
            self.tokens.pop()
        return token


def read_blocks(body: str) -> list[Block]:
    """Read the outermost blocks of a body, in order.

    Parameters
    ----------
    body : str

    Returns
    -------
    list of Block
        Empty for a blank body. Only headings that are outermost blocks are above others: those in lists and
        quotations are part of what is listed or quoted.
    """
    starts = [0, *(end.end() for end in islice(_LINE_END.finditer(body), _MOST_LINES))]
    read = len(body) if len(starts) <= _MOST_LINES else starts[-1]
    starts.append(len(body))
    blocks: list[Block] = []
    headings: dict[int, Token] = {}
    environment: dict[str, Any] = {}
    for line, tokens in _outermost(_LINE_END.sub("\n", body[:read]), environment):
        blocks.append(_block(line, tokens, starts))
        if tokens and tokens[0].type == "heading_open":
            headings[len(blocks) - 1] = tokens[1]
            tokens[1].tag = tokens[0].tag
    if read < len(body):
        blocks.append(Block("text", read, len(body)))
    for block, following in zip_longest(blocks, blocks[1:]):
        block.end = len(body) if following is None else following.start
        _fill(body, block)
    _outline(blocks, headings, environment)
    return blocks


def _outermost(text: str, environment: dict[str, Any]) -> Iterator[tuple[int, list[Token]]]:
    """The line on which each outermost block begins, and its tokens: none for a text of which nothing is known."""
    state = _State(text, _MARKDOWN, environment, [])
    rules = _MARKDOWN.block.ruler.getRules("")
    line = state.skipEmptyLines(0)
    while line < state.lineMax:
        state.tokens = []
        state.line = line
        try:
            any(rule(state, line, state.lineMax, False) for rule in rules)
        except _TooMuchWork:
            yield line, []
            return
        yield line, state.tokens
        line = state.skipEmptyLines(state.line)


def _block(line: int, tokens: list[Token], starts: list[int]) -> Block:
    """The block of these tokens with its parts, as far as they say where it ends."""
    start = starts[line]
    if not tokens:
        return Block("text", start, start)
    outermost = Block(_KINDS[tokens[0].type], start, start)
    around = [(tokens[0].level, outermost)]
    for token in tokens[1:]:
        if token.type in _KINDS:
            assert token.map is not None
            while around[-1][0] >= token.level:
                around.pop()
            part = Block(_KINDS[token.type], starts[token.map[0]], starts[token.map[1]])
            around[-1][1].parts.append(part)
            around.append((token.level, part))
    return outermost


def _fill(body: str, block: Block) -> None:
    """Let the parts fill a block. The marks of lists and quotations on lines without a part are texts of their own."""
    filled: list[Block] = []
    at = block.start
    for part, following in zip_longest(block.parts, block.parts[1:]):
        if body[at : part.start].strip():
            filled.append(Block("text", at, part.start))
        reach = block.end if following is None else following.start
        if not body[part.end : reach].strip():
            part.end = reach
        filled.append(part)
        _fill(body, part)
        at = part.end
    if filled and at < block.end:
        filled.append(Block("text", at, block.end))
    block.parts = filled


def _outline(blocks: list[Block], headings: dict[int, Token], environment: dict[str, Any]) -> None:
    """Say of each block what stands above it. Links may be defined after a heading that has one: this comes last."""
    above: tuple[Heading, ...] = ()
    for number, block in enumerate(blocks):
        if number in headings:
            level = int(headings[number].tag[1:])
            above = tuple(heading for heading in above if heading.level < level)
            block.heading = Heading(level, _plain(headings[number].content, environment))
        block.above = above
        if block.heading is not None:
            above = (*above, block.heading)


def _plain(markup: str, environment: dict[str, Any]) -> str:
    """The text of a heading, without its markup, on one line."""
    markup = markup[: 2 * _HEADING_LENGTH]
    if not _MARKUP.search(markup):
        text = markup
    else:
        (inline,) = _MARKDOWN.parseInline(markup, environment)
        text = "".join(_texts(inline.children or []))
    return " ".join(text.split())[:_HEADING_LENGTH].rstrip()


def _texts(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.type == "image":
            yield from _texts(token.children or [])
        elif token.type != "html_inline":
            yield token.content
