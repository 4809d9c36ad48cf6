"""Ranges as W3C selectors and in other units: there and back exactly, and refused where that cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_sql._passages import cut
from rag_sql._selectors import Unit, from_code_points, resolve_selector, selectors, to_code_points
from rag_sql.errors import AmbiguousQuote, InvalidRequest, QuoteNotFound
from tests.unit.test_passages import bodies as markdown
from tests.unit.test_passages import large, sizes

BODY = "A hold 😀 is a hold; e\u0301 is one letter.\r\nA hold ends."
UNITS: list[Unit] = ["utf-16", "utf-8"]

#: Few letters, so that quotations repeat and overlap.
bodies = st.one_of(
    st.text(st.sampled_from("aab \n😀é\u0301"), min_size=1, max_size=60),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[str, int, int]:
    body = draw(bodies)
    start = draw(st.integers(0, len(body) - 1))
    return body, start, draw(st.integers(start + 1, len(body)))


def quote(exact: object, **around: object) -> dict[str, Any]:
    return {"type": "TextQuoteSelector", "exact": exact, **around}


@settings(deadline=None)
@given(place=ranges(), context=st.integers(0, 40))
def test_both_selectors_of_a_range_resolve_to_it(place: tuple[str, int, int], context: int) -> None:
    body, start, end = place
    position, quotation = json.loads(json.dumps(selectors(body, start, end, context=context)))
    assert (position["start"], position["end"], quotation["exact"]) == (start, end, body[start:end])
    assert resolve_selector(body, position) == resolve_selector(body, quotation) == (start, end)


@pytest.mark.parametrize("unit", UNITS)
@settings(deadline=None)
@given(place=ranges())
def test_a_range_goes_to_units_and_back(unit: Unit, place: tuple[str, int, int]) -> None:
    body, start, end = place
    first, last = from_code_points(body, start, end, unit)
    assert to_code_points(body, first, last, unit) == (start, end)
    encoded = body.encode("utf-16-le" if unit == "utf-16" else "utf-8")
    width = 2 if unit == "utf-16" else 1
    assert encoded[first * width : last * width] == body[start:end].encode("utf-16-le" if unit == "utf-16" else "utf-8")


@settings(deadline=None)
@given(body=markdown, sizes=sizes)
def test_the_passages_of_any_markdown_go_to_each_unit_and_to_selectors_and_back(
    body: str, sizes: tuple[int, int]
) -> None:
    target, limit = sizes
    for passage in cut(body, target=target, limit=limit):
        start, end = passage.range_start, passage.range_end
        if start == end:
            continue  # of an empty body
        position, quotation = selectors(body, start, end)
        assert resolve_selector(body, position) == resolve_selector(body, quotation) == (start, end)
        for unit in UNITS:
            assert to_code_points(body, *from_code_points(body, start, end, unit), unit) == (start, end)


def test_a_range_near_the_end_of_the_largest_body_goes_to_each_unit_and_to_selectors_and_back() -> None:
    body = large()
    start, end = len(body) - 3000, len(body) - 10
    position, quotation = selectors(body, start, end)
    assert resolve_selector(body, position) == resolve_selector(body, quotation) == (start, end)
    for unit in UNITS:
        assert to_code_points(body, *from_code_points(body, start, end, unit), unit) == (start, end)


def test_units_of_a_browser_and_of_bytes() -> None:
    start = BODY.index("is a")
    assert BODY[:start] == "A hold 😀 "
    assert start == 9
    assert from_code_points(BODY, start, start + 2, "utf-16") == (10, 12)
    assert from_code_points(BODY, start, start + 2, "utf-8") == (12, 14)


def test_the_selectors_of_a_range() -> None:
    start = BODY.index("hold ends")
    assert selectors(BODY, start, start + 4, context=3) == [
        {"type": "TextPositionSelector", "start": start, "end": start + 4},
        {"type": "TextQuoteSelector", "exact": "hold", "prefix": "\nA ", "suffix": " en"},
    ]


def test_as_much_is_given_around_a_quotation_as_makes_it_unique() -> None:
    body = "x" * 50 + "y" + "x" * 50
    _, quotation = selectors(body, 49, 50, context=0)
    assert resolve_selector(body, quotation) == (49, 50)
    assert "y" in quotation["suffix"]
    assert len(quotation["suffix"]) < 10


@pytest.mark.parametrize(
    "selector",
    [
        quote("holds"),
        quote("hold", prefix="the "),
        quote("hold", suffix="!"),
        quote("A hold", prefix="x"),
        quote("HOLD"),
    ],
)
def test_a_quotation_that_does_not_stand_there_is_absent_and_never_the_nearest(selector: dict[str, Any]) -> None:
    with pytest.raises(QuoteNotFound):
        resolve_selector(BODY, selector)


def test_another_normal_form_is_another_text() -> None:
    assert resolve_selector(BODY, quote("e\u0301")) == (20, 22)
    with pytest.raises(QuoteNotFound):
        resolve_selector(BODY, quote("\u00e9"))


def test_a_quotation_that_stands_twice_is_ambiguous() -> None:
    with pytest.raises(AmbiguousQuote):
        resolve_selector(BODY, quote("hold"))
    with pytest.raises(AmbiguousQuote):
        resolve_selector("aaa", quote("aa"))  # overlapping
    assert resolve_selector(BODY, quote("hold", prefix="is a ")) == (14, 18)


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"type": "FragmentSelector"},
        quote(""),
        quote(1),
        quote("a", prefix=None),
        {"type": "TextPositionSelector", "start": 0},
        {"type": "TextPositionSelector", "start": 0, "end": 1.0},
        {"type": "TextPositionSelector", "start": True, "end": 2},
        {"type": "TextPositionSelector", "start": 2, "end": 1},
        {"type": "TextPositionSelector", "start": -1, "end": 1},
        {"type": "TextPositionSelector", "start": 0, "end": len(BODY) + 1},
    ],
)
def test_what_is_no_selector_of_the_body_is_refused(selector: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        resolve_selector(BODY, selector)


@pytest.mark.parametrize(("unit", "inside"), [("utf-16", 8), ("utf-8", 8), ("utf-8", 9), ("utf-8", 10)])
def test_an_offset_inside_a_character_is_refused(unit: Unit, inside: int) -> None:
    for start, end in ((0, inside), (inside, 13), (inside, inside)):
        with pytest.raises(InvalidRequest):
            to_code_points(BODY, start, end, unit)


def test_a_range_outside_the_body_is_refused() -> None:
    for start, end in ((-1, 1), (2, 1), (0, 1000)):
        with pytest.raises(InvalidRequest):
            selectors(BODY, start, end)
        for unit in UNITS:
            with pytest.raises(InvalidRequest):
                to_code_points(BODY, start, end, unit)
            with pytest.raises(InvalidRequest):
                from_code_points(BODY, start, end, unit)
    with pytest.raises(InvalidRequest):
        selectors(BODY, 3, 3)  # there is nothing to quote
