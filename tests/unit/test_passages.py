"""Passages: where a version is cut, where it never is, which headings stand above, and that it ends in time."""

from __future__ import annotations

import os
import re
import tarfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag_sql import _blocks
from rag_sql._blocks import read_blocks
from rag_sql._passages import LIMIT, TARGET, Passage, count_tokens, cut
from rag_sql.errors import InvalidRequest

ARCHIVE = (
    Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data")) / "etcd-docs.tar.gz"
)

Counter = Callable[[str], int]


def texts(body: str, **settings: int) -> list[str]:
    return [body[passage.range_start : passage.range_end] for passage in cut(body, **settings)]


def words(number: int, word: str = "word") -> str:
    return " ".join([word] * number)


# What a reader of Markdown sees, said by markdown-it-py on its own


class Reading:
    """Blocks of a body by the public parser: places of what may not be cut, and the headings above each line."""

    def __init__(self, body: str) -> None:
        self.body = body
        ends = [found.end() for found in re.finditer(r"\r\n?|\n", body)]
        self.starts = [0, *ends, *([len(body)] if not ends or ends[-1] < len(body) else [])]
        self.tokens = MarkdownIt("commonmark").enable("table").parse(body)
        self.outermost = [token for token in self.tokens if token.level == 0 and token.map and token.nesting >= 0]

    def place(self, lines: list[int] | None) -> tuple[int, int]:
        """Range of some lines, without blank text around it."""
        assert lines is not None
        start, end = self.starts[lines[0]], self.starts[min(lines[1], len(self.starts) - 1)]
        text = self.body[start:end]
        return start + len(text) - len(text.lstrip()), start + len(text.rstrip())

    def uncut(self) -> list[tuple[int, int]]:
        """Places of list items, table rows and fenced blocks."""
        return [
            self.place(token.map)
            for token in self.tokens
            if token.type in ("list_item_open", "tr_open", "fence") and token.map
        ]

    def above(self) -> list[tuple[int, int, list[int], bool]]:
        """Of each outermost block: its place, the numbers of the headings above it, whether it is a heading."""
        found = []
        stack: list[tuple[int, int]] = []
        for number, token in enumerate(self.outermost):
            is_heading = token.type == "heading_open"
            if is_heading:
                stack = [entry for entry in stack if entry[0] < int(token.tag[1:])]
            found.append((*self.place(token.map), [at for _, at in stack], is_heading))
            if is_heading:
                stack.append((int(token.tag[1:]), number))
        return found

    def title(self, number: int) -> str:
        inline = self.tokens[self.tokens.index(self.outermost[number]) + 1]
        return "".join(child.content for child in inline.children or [])


def begins_inside_a_character(body: str, position: int) -> bool:
    if not 0 < position < len(body):
        return False
    before, after = body[position - 1], body[position]
    return (
        unicodedata.category(after).startswith("M")
        or "\u200d" in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or before + after == "\r\n"
    )


def check(body: str, passages: list[Passage], target: int, limit: int, count: Counter = count_tokens) -> None:
    """What holds for each cut."""
    assert passages
    if count(body) <= limit:
        assert passages == [Passage(0, len(body), ())]
        return
    at = 0
    for passage in passages:
        start, end = passage.range_start, passage.range_end
        assert at <= start < end <= len(body) or not body.strip()
        assert not body[at:start].strip(), "left out"
        at = end
        if body.strip():
            assert not body[end - 1].isspace()
            assert not body[start:end].startswith(("\n", "\r"))
        assert not begins_inside_a_character(body, start)
        assert not begins_inside_a_character(body, end)
        text = body[start:end]
        if count(text) > limit:
            assert (
                all(begins_inside_a_character(text, position) for position in range(1, len(text))) or not text.strip()
            )
    assert not body[at:].strip(), "left out"


def check_structure(body: str, passages: list[Passage], limit: int) -> None:
    """What holds of blocks and headings, where the counts of parts add up."""
    if len(passages) == 1:
        return
    reading = Reading(body)
    for start, end in reading.uncut():
        if count_tokens(body[start:end]) <= limit:
            assert not any(start < passage.range_start < end for passage in passages), body[start:end]
    blocks = [block for block in reading.above() if block[1] > block[0]]
    for passage in passages:
        inside = [block for block in blocks if block[0] < passage.range_end and passage.range_start < block[1]]
        shared = os.path.commonprefix([above for _, _, above, _ in inside])
        assert passage.heading_path == tuple(title for title in map(reading.title, shared) if title)


# Generated Markdown

PIECES = [
    "word", "Hold.", "e\u0301a\u0308", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "naïve",
    "`code`", "**bold**", "[link](u)", "[ref]", "中文字。", "1.", "a|b", "\u00a0", "x" * 40, "<b>", "—", "\t", "नमस्ते",
]  # fmt: skip
line = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map(" ".join)
prose = st.lists(line, min_size=1, max_size=4).map("\n".join)
plain_words = st.lists(st.sampled_from(["Install", "Run", "e\u0301", "中"]), min_size=1, max_size=3).map(" ".join)


def indented(text: str, prefix: str, first: str | None = None) -> str:
    lines = text.split("\n")
    return "\n".join([(prefix if first is None else first) + lines[0], *(prefix + other for other in lines[1:])])


headings = st.one_of(
    st.builds(lambda level, text: "#" * level + " " + text, st.integers(1, 6), plain_words),
    st.builds(lambda text, rule: f"{text}\n{rule}", plain_words, st.sampled_from(["---", "==="])),
)
leaves = st.one_of(
    prose,
    prose,
    headings,
    st.builds(lambda text, fence: f"{fence}sh\n{text}\n{fence}", prose, st.sampled_from(["```", "~~~~"])),
    st.just("```\nnever closed"),
    prose.map(lambda text: indented(text, "    ")),
    prose.map(lambda text: f"<div>\n{text}\n</div>"),
    st.builds(
        lambda rows: "\n".join(["| a | b |", "|---|---|", *rows]),
        st.lists(st.lists(st.sampled_from(["x", "yy zz", "`q`"]), min_size=2, max_size=9).map("|".join), max_size=8),
    ),
    st.just("[ref]: https://example.org/a 'A title'\n[other]: b"),
    st.sampled_from(["---", "***", "---\nid: x\n---", "\ufeff", "", " ", "\u2028"]),
)
blocks = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda text: indented(text, "> ")),
        st.lists(inner, min_size=1, max_size=5).map(
            lambda items: "\n".join(indented(item, "  ", "- ") for item in items)
        ),
        st.lists(inner, min_size=1, max_size=4).map(
            lambda items: "\n\n".join(indented(item, "   ", "1. ") for item in items)
        ),
        st.tuples(inner, inner).map("\n\n".join),
    ),
    max_leaves=6,
)
bodies = st.builds(
    lambda parts, between, end: between.join(parts).replace("\n", end),
    st.lists(blocks, min_size=1, max_size=10),
    st.sampled_from(["\n\n", "\n\n\n", "\n", "\n\n \n"]),
    st.sampled_from(["\n", "\n", "\r\n", "\r"]),
)
sizes = st.tuples(st.integers(1, 60), st.integers(0, 60)).map(lambda pair: (pair[0], sum(pair)))
COUNTERS: dict[str, Counter] = {
    "code points": len,
    "bytes": lambda text: len(text.encode()),
    "nothing": lambda _text: 0,
    "always many": lambda _text: 1000,
    "more than its parts": lambda text: len(text) ** 2,
    "less than its parts": lambda text: int(len(text) ** 0.5) + 2,
}


@settings(deadline=None, max_examples=100)
@given(body=bodies, settings_=sizes)
def test_any_markdown_is_covered_in_order_within_the_limit_and_by_its_structure(
    body: str, settings_: tuple[int, int]
) -> None:
    target, limit = settings_
    passages = cut(body, target=target, limit=limit)
    check(body, passages, target, limit)
    check_structure(body, passages, limit)
    assert passages == cut(body, target=target, limit=limit)


@settings(deadline=None, max_examples=100)
@given(
    body=st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("#>-`|[]() \n\r\t\u0301\u200d"))),
    settings_=sizes,
)
def test_any_text_is_covered(body: str, settings_: tuple[int, int]) -> None:
    target, limit = settings_
    check(body, cut(body, target=target, limit=limit), target, limit)


@pytest.mark.parametrize("name", COUNTERS)
@settings(deadline=None, max_examples=15)
@given(body=bodies, settings_=sizes)
def test_a_counter_may_count_as_it_likes(name: str, body: str, settings_: tuple[int, int]) -> None:
    target, limit = settings_
    count = COUNTERS[name]
    check(body, cut(body, target=target, limit=limit, count=count), target, limit, count)
