"""Passages: where a version is cut, where it never is, which headings stand above, and that it ends in time."""

from __future__ import annotations

import os
import re
import tarfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag_sql import _blocks
from rag_sql._blocks import read_blocks
from rag_sql._passages import LIMIT, Passage, count_tokens, cut, outline
from rag_sql.errors import InvalidRequest

ARCHIVE = (
    Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data")) / "etcd-docs.tar.gz"
)

Counter = Callable[[str], int]

#: What Markdown and a reader's characters are made of: signs, marks, joiners, tags, flags, skin tones, syllables.
AWKWARD = "#>-`|[]() \n\r\t\u0301\u200c\u200d\U000e0020\U0001f1e6\U0001f1e7\U0001f44d\U0001f3fb\u1100\u1161\u11a8"


def texts(body: str, target: int, limit: int) -> list[str]:
    return [body[passage.range_start : passage.range_end] for passage in cut(body, target=target, limit=limit)]


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
        text = "".join(
            " " if child.type == "softbreak" else child.content
            for child in inline.children or []
            if child.type != "html_inline"
        )
        return " ".join(text.split())[:200].rstrip()


def begins_inside_a_character(body: str, position: int) -> bool:
    if not 0 < position < len(body):
        return False
    before, after = body[position - 1], body[position]
    halves_of_flags = 0
    while halves_of_flags < position and "\U0001f1e6" <= body[position - halves_of_flags - 1] <= "\U0001f1ff":
        halves_of_flags += 1
    return (
        unicodedata.category(after).startswith("M")
        or "\u200d" in (before, after)
        or after == "\u200c"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\U000e0020" <= after <= "\U000e007f"
        or before + after == "\r\n"
        or ("\U0001f1e6" <= after <= "\U0001f1ff" and halves_of_flags % 2 == 1)
    )


def check(body: str, passages: list[Passage], limit: int, count: Counter = count_tokens) -> None:
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
        if not inside:
            continue  # definitions of links have no token
        paths = [above for _, _, above, _ in inside]
        shared = [number for number in paths[0] if all(number in path for path in paths)]
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
    st.builds(indented, prose, st.sampled_from(["    ", "\t", " \t"])),
    st.builds(
        lambda text, around: around[0] + text + around[1],
        prose,
        st.sampled_from(
            [
                ("<div>\n", "\n</div>"),
                ("<!-- ", " -->"),
                ("<pre><code>\n\n# no heading\n\n", "\n</code></pre>"),
                ("<table><tr><td>\n\n", "\n\n</td></tr></table>"),
                ("<details>\n<summary>", "</summary>\n\n"),
                ("<script>\n\n", ""),
            ]
        ),
    ),
    st.builds(
        lambda rows: "\n".join(["| a | b |", "|---|---|", *rows]),
        st.lists(
            st.lists(
                st.sampled_from(["x", "yy zz", "`q`", "", "\t", "a\\|b", "\U0001f44d\U0001f3fd", "e\u0301"]),
                min_size=2,
                max_size=9,
            ).map("|".join),
            max_size=8,
        ),
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
        st.lists(inner, min_size=1, max_size=3).map(
            lambda items: "\n".join(indented(item, "\t", "*\t") for item in items)
        ),
        st.lists(inner, min_size=1, max_size=4).map(
            lambda items: "\n\n".join(indented(item, "   ", "1. ") for item in items)
        ),
        st.tuples(inner, inner).map("\n\n".join),
    ),
    max_leaves=6,
)
bodies = st.builds(
    # A body may end its lines in several ways, where it was put together from files.
    lambda parts, between, ends: between.join(
        part.replace("\n", ends[number % len(ends)]) for number, part in enumerate(parts)
    ),
    st.lists(blocks, min_size=1, max_size=10),
    st.sampled_from(["\n\n", "\n\n\n", "\n", "\n\n \n", "\r\n\r\n", "\n\t\n"]),
    st.sampled_from([("\n",), ("\n",), ("\r\n",), ("\r",), ("\n", "\r\n", "\r")]),
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
@example(body="word\n\n# e\u0301\n\nword", settings_=(1, 1))
def test_any_markdown_is_covered_in_order_within_the_limit_and_by_its_structure(
    body: str, settings_: tuple[int, int]
) -> None:
    target, limit = settings_
    passages = cut(body, target=target, limit=limit)
    check(body, passages, limit)
    check_structure(body, passages, limit)
    assert passages == cut(body, target=target, limit=limit)


@settings(deadline=None, max_examples=100)
@given(
    body=st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(AWKWARD))),
    settings_=sizes,
)
@example(body="0\U000e0020", settings_=(1, 1))
def test_any_text_is_covered(body: str, settings_: tuple[int, int]) -> None:
    target, limit = settings_
    check(body, cut(body, target=target, limit=limit), limit)


@pytest.mark.parametrize("name", COUNTERS)
@settings(deadline=None, max_examples=15)
@given(body=bodies, settings_=sizes)
def test_a_counter_may_count_as_it_likes(name: str, body: str, settings_: tuple[int, int]) -> None:
    target, limit = settings_
    count = COUNTERS[name]
    check(body, cut(body, target=target, limit=limit, count=count), limit, count)


# Rules, one by one


@given(body=bodies, settings_=sizes)
def test_an_outline_takes_the_whole_body_each_passage_with_the_blank_text_behind_it(
    body: str, settings_: tuple[int, int]
) -> None:
    target, limit = settings_
    passages = cut(body, target=target, limit=limit)
    parts = outline(body, target=target, limit=limit)
    if len(passages) == 1:
        assert parts == []
        return
    starts = [0, *(part["end"] for part in parts)]
    assert starts[-1] == len(body)
    for part, start, passage in zip(parts, starts[:-1], passages, strict=True):
        text = body[start : part["end"]]
        assert text.strip() == body[passage.range_start : passage.range_end].strip()
        assert (part["headings"], part["tokens"]) == (list(passage.heading_path), count_tokens(text))


def test_a_short_document_is_one_passage_from_its_beginning_to_its_end() -> None:
    for body in ("\n\n# A\n\ntext\n\n## B\n\nmore  \n\n", words(LIMIT), " \n", ""):
        assert cut(body) == [Passage(0, len(body), ())]
    assert len(cut(words(LIMIT + 1))) > 1


def test_blank_text_between_passages_is_in_none_and_indentation_is_kept() -> None:
    body = f"\n \n{words(6)}  \n\n\t\n    {words(6)}\n\n"
    assert texts(body, 6, 6) == [words(6), f"    {words(6)}"]


def test_blocks_are_added_up_to_the_target() -> None:
    body = "\n\n".join([words(4, "a"), words(4, "b"), words(4, "c")])
    assert texts(body, 8, 10) == [f"{words(4, 'a')}\n\n{words(4, 'b')}", words(4, "c")]


def test_a_block_over_the_target_is_whole_up_to_the_limit() -> None:
    body = f"{words(8, 'a')}\n\n{words(14, 'b')}\n\n{words(8, 'c')}"
    assert texts(body, 10, 14) == [words(8, "a"), words(14, "b"), words(8, "c")]


def test_a_small_rest_joins_its_neighbours() -> None:
    before, after = f"{words(1, 'a')}\n\n{words(8, 'b')}", f"{words(8, 'b')}\n\n{words(1, 'a')}"
    assert texts(f"{before}\n\n{words(8, 'c')}", 8, 10) == [before, words(8, "c")]
    assert texts(f"{words(8, 'c')}\n\n{after}", 8, 10) == [words(8, "c"), after]


def test_a_heading_belongs_to_what_follows_it() -> None:
    body = f"{words(6, 'a')}\n\n# Title\n\n{words(6, 'b')}"
    assert texts(body, 8, 12) == [words(6, "a"), f"# Title\n\n{words(6, 'b')}"]
    below = f"{words(6, 'a')}\n\n# Title\n\n## Part\n\n{words(6, 'b')}"
    assert texts(below, 11, 12) == [words(6, "a"), f"# Title\n\n## Part\n\n{words(6, 'b')}"]


def test_a_text_is_cut_where_its_heading_would_not_fit_before_it_and_a_fenced_block_is_not() -> None:
    assert texts(f"# Title\n\n{words(10)}", 10, 10) == [f"# Title\n\n{words(8)}", words(2)]
    fence = f"```\n{words(6)}\n```"
    assert texts(f"# Title\n\n{fence}", 8, 8) == ["# Title", fence]


def test_a_heading_that_nothing_follows_ends_the_document() -> None:
    assert texts(f"{words(6, 'a')}\n\n{words(6, 'b')}\n\n# End", 8, 10)[-1] == f"{words(6, 'b')}\n\n# End"
    assert texts(f"{words(6, 'a')}\n\n{words(9, 'b')}\n\n# End", 10, 10)[-1] == "# End"


def test_a_section_that_does_not_fit_into_the_rest_begins_a_passage() -> None:
    sections = [f"# {name}\n\n{words(3)}\n\n{words(3)}" for name in "AB"]
    assert texts("\n\n".join(sections), 12, 14) == sections
    assert texts("\n\n".join([*sections, *sections]), 16, 16) == ["\n\n".join(sections)] * 2


PATHS = f"""\
{words(30, "before")}

# Guide *to* `holds` & [more][m]

{words(30, "one")}

Part
of it
---

{words(30, "two")}

#### Deep

{words(30, "three")}

#

{words(30, "four")}

# Guide *to* `holds` & [more][m]

> # Quoted

- # Listed

{words(30, "five")}

[m]: https://example.org
"""


def test_the_path_is_the_headings_above_and_not_those_within() -> None:
    passages = cut(PATHS, target=20, limit=20)

    def path(word: str) -> tuple[str, ...]:
        """Of the passage that ends the paragraph of this word."""
        at = PATHS.rindex(word)
        return next(p.heading_path for p in passages if p.range_start <= at < p.range_end)

    title = "Guide to holds & more"
    assert path("before") == ()
    assert path("one") == path("five") == (title,)  # headings in quotations and lists are above nothing
    assert path("two") == (title, "Part of it")
    assert path("three") == (title, "Part of it", "Deep")
    assert path("four") == ()  # a heading without a text ends what is above, and names nothing
    assert [p.heading_path for p in passages if PATHS[p.range_start :].startswith("# Guide")] == [(), ()]
    assert [p.heading_path for p in passages if PATHS[p.range_start :].startswith("Part")] == [(title,)]


def test_a_passage_stands_under_the_whole_of_its_path() -> None:
    body = f"# A\n\n## B\n\n{words(9)}\n\n{words(5)}\n\n## C\n\n{words(2)}\n\n# D\n\n{words(2)}"
    assert [(body[p.range_start : p.range_end][:4], p.heading_path) for p in cut(body, target=12, limit=14)] == [
        ("# A\n", ()),
        ("word", ("A", "B")),
        ("## C", ("A",)),
        ("# D\n", ()),
    ]


def test_a_long_heading_is_a_short_label() -> None:
    body = f"# {words(100)}\n\n{words(300)}"
    assert [len(name) for name in cut(body, target=90, limit=100)[-1].heading_path] == [199]


def test_a_list_is_cut_between_items_and_an_item_only_when_it_is_over_the_limit() -> None:
    items = [f"- {words(3, 'a')}\n  - {words(3, 'b')}", f"* {words(7, 'c')}\n\n  ```\n  x\n  ```"]
    assert texts("\n".join(items), 6, 14) == items
    large = f"- {words(6, 'a')}\n  - {words(3, 'b')}\n  - {words(3, 'c')}"
    assert texts(large, 8, 8) == [f"- {words(6, 'a')}", f"  - {words(3, 'b')}\n  - {words(3, 'c')}"]


def test_a_table_is_cut_between_rows_and_its_head_stays_with_the_first() -> None:
    rows = [f"| {word} | {word} |" for word in "abcdef"]
    table = ["| h | h |", "|---|---|", *rows]
    assert texts("\n".join(table), 15, 20) == ["\n".join(table[:3]), "\n".join(rows[1:4]), "\n".join(rows[4:])]
    assert texts("\n".join(["before", "", *table[:4]]), 10, 30) == ["\n".join(["before", "", *table[:4]])]


def test_a_fenced_block_is_cut_between_lines_when_it_is_over_the_limit() -> None:
    fence = ["```sh", *[f"run {number}" for number in range(8)], "", "# no heading", "```"]
    found = texts("\n".join(fence), 7, 8)
    assert found == ["\n".join(lines) for lines in (fence[:3], fence[3:6], fence[6:9], fence[10:])]


def test_marks_without_a_text_take_nothing_from_what_stands_beside_them() -> None:
    """An item over the limit only by its own mark, or by an empty line of the quotation: its block stays whole."""
    fence = f"```\n  {words(6)}\n  ```"
    assert texts(f"{words(8)}\n\n-\n  {fence}", 8, 8) == [words(8), "-", f"  {fence}"]
    quoted = "> 1. ```\n>    a b\n>    ```"
    assert texts(f"{words(8)}\n\n{quoted}\n> \n> 2. c", 9, 9) == [words(8), quoted, "> \n> 2. c"]


def test_a_paragraph_is_cut_at_lines_then_sentences_then_words_then_characters() -> None:
    assert texts("a a a\nb b b\nc c c", 6, 8) == ["a a a\nb b b", "c c c"]
    assert texts("A a a. B b b! (C c.) D d d?", 9, 10) == ["A a a. B b b!", "(C c.) D d d?"]
    assert texts(words(9), 4, 5) == [words(4), words(4), "word"]
    assert texts("x" * 100, 2, 3) == ["x" * 32] * 3 + ["xxxx"]
    assert texts("中" * 5, 2, 2) == ["中中", "中中", "中"]


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301\u0323",
        "\U0001f469\u200d\U0001f4bb",
        "\U0001f44d\U0001f3fd",
        "\U0001f1eb\U0001f1f7",
        "\u1112\u1161\u11ab",
        "1\ufe0f\u20e3",
    ],
)
def test_what_a_reader_sees_as_one_character_is_not_cut(character: str) -> None:
    assert texts(character * 30, 1, 1) == [character] * 30
    passages = cut(character * 30, target=1, limit=1, count=len)
    assert {p.range_end - p.range_start for p in passages} == {len(character)}


def test_a_character_has_an_end() -> None:
    body = "a" + "\u0301" * 5000
    assert max(p.range_end - p.range_start for p in cut(body, count=len)) == 1024


def test_carriage_returns_end_lines() -> None:
    body = "# A\r\n\r\nfirst one\r\n\r\nB\r-\r\rsecond one"
    assert [(body[p.range_start : p.range_end], p.heading_path) for p in cut(body, target=3, limit=3)] == [
        ("# A\r\n\r\nfirst", ()),
        ("one", ("A",)),
        ("B\r-\r\rsecond", ("A",)),
        ("one", ("A", "B")),
    ]


def test_definitions_of_links_are_covered() -> None:
    definitions = "[a]: https://example.org/a\n[b]: https://example.org/b 'B'"
    assert texts(f"{words(20)}\n\n{definitions}\n\n{words(20)}", 25, 25)[1].startswith("[a]: ")


def test_a_word_without_end_and_a_ruled_line_are_counted() -> None:
    assert count_tokens("A hold, i.e. no_rollback: e\u0301 😀!") == 13
    assert count_tokens("x" * 33) == 3
    assert count_tokens("=" * 80 + "!?") == 7
    assert count_tokens("中文 ひ word") == 4


@pytest.mark.parametrize(("target", "limit"), [(0, 1), (-1, 5), (5, 4)])
def test_settings_that_make_no_sense_are_refused(target: int, limit: int) -> None:
    with pytest.raises(InvalidRequest):
        cut("short", target=target, limit=limit)


# Bodies that would not end


def test_where_the_structure_ends_to_be_read_the_rest_is_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "\n\n".join(f"# {number}\n\ntext" for number in range(10))
    assert len(read_blocks(body)) == 20
    for name, most in (("_MOST_LINES", 12), ("_MOST_STEPS", 60)):
        with monkeypatch.context() as patched:
            patched.setattr(_blocks, name, most)
            *read, rest = read_blocks(body)
            assert 4 <= len(read) <= 10
            assert (rest.kind, rest.start, rest.end) == ("text", read[-1].end, len(body))
            check(body, cut(body, target=5, limit=5), 5)


@pytest.mark.parametrize(
    "unit",
    ["x", "word ", ">", "> ", "[", "[a\n", "`", "```\n", "- ", "- a\n", "1) a\n", "|", "|a|\n|-|\n", "<a ", "<!--\n",
     "\n", "\t", "#", "# [`*\n", "a\n=\n", "[a]: b\n", "> a\nb\n", "- a\n> b\n", "\\\n", "e\u0301", "\U0001f1e6",
     ".", "\r"],
)  # fmt: skip
def test_hostile_bodies_are_cut_with_bounded_effort(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Effort is what is counted, as texts are: nothing is timed."""
    size = 60_000
    monkeypatch.setattr(_blocks, "_MOST_LINES", 2_000)
    monkeypatch.setattr(_blocks, "_MOST_STEPS", 20_000)
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return count_tokens(text)

    body = unit * (size // len(unit))
    check(body, cut(body, count=count), LIMIT)
    assert counted <= 8 * size


def large() -> str:
    """10 MiB of everything: what makes it large is emoji, so that it is read in seconds."""
    line = "\U0001f469\u200d\U0001f4bb e\u0301 " + "\U0001f600" * 60 + " 中文字。 naïve — word.\t"
    unit = (
        f"# Title\r\n\r\n{line * 40}\r\n\r\n- a\r\n  - {line * 8}\r\n\r\n| a | b |\r\n|---|---|\r\n| x | {line * 2} |"
        f"\r\n\r\n```sh\r\n{line * 8}\r\n```\r\n\r\n<div>\r\n{line * 2}\r\n</div>\r\n\r\n"
    )
    return unit * (10 * 1024 * 1024 // len(unit.encode()))


@pytest.mark.slow
def test_the_largest_body_is_cut_like_any_other() -> None:
    body = large()
    check(body, cut(body), LIMIT)


def test_lists_and_quotations_without_end_are_read_to_a_level() -> None:
    for body in (
        "".join("  " * level + "- a\n" for level in range(60)),
        ">" * 2000 + " a",
        ">" * 300 + "a\nb\n" * 200,
    ):
        check(body, cut(body, target=20, limit=30), 30)


# Real pages


@pytest.mark.slow
@pytest.mark.skipif(
    not ARCHIVE.is_file(),
    reason=f"etcd's documentation is not at {ARCHIVE}: set RAG_SQL_DATA to the folder that holds etcd-docs.tar.gz",
)
def test_real_pages_are_cut_by_their_structure() -> None:
    pages = 0
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith(".md") else None
            if content is None:
                continue
            body = re.sub(r"\A---\n.*?\n---\n", "", content.read().decode(), flags=re.DOTALL)
            passages = cut(body)
            check(body, passages, LIMIT)
            if pages % 7 == 0:  # reading them a second way takes longer than cutting them
                check_structure(body, passages, LIMIT)
            assert max(count_tokens(body[p.range_start : p.range_end]) for p in passages) <= LIMIT
            pages += 1
    assert pages > 600
