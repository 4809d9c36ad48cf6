"""A range of a body as W3C Web Annotation selectors, and in the units of other tools.

Ranges of the store count code points, which is what the Web Annotation Data Model counts
(https://www.w3.org/TR/annotation-model/#text-position-selector). A browser counts UTF-16 code units, `grep -b` and
editors count bytes of UTF-8: an offset goes there and back only together with the body, and one that falls inside a
character is refused, never rounded.

A quotation with what stands around it resolves to the one place where all of that stands, character by character, or to
none: never to the nearest.
"""

from __future__ import annotations

from typing import Any, Literal

from rag_sql.errors import AmbiguousQuote, InvalidRequest, QuoteNotFound

__all__ = ["Unit", "from_code_points", "resolve_selector", "selectors", "to_code_points"]

Unit = Literal["utf-16", "utf-8"]

#: Bytes of one unit, and the encoding without a byte order mark.
_UNITS: dict[Unit, tuple[int, str]] = {"utf-16": (2, "utf-16-le"), "utf-8": (1, "utf-8")}


def selectors(body: str, start: int, end: int, *, context: int = 32) -> list[dict[str, Any]]:
    """Describe a range by its position and by its quotation, as the `selector` of an annotation's target.

    Parameters
    ----------
    body : str
    start, end : int
        In code points, half-open, not empty.
    context : int
        Code points of prefix and suffix at least; as many more are given as make the quotation unique.

    Returns
    -------
    list of dict
        A TextPositionSelector and a TextQuoteSelector, ready for JSON.

    Raises
    ------
    InvalidRequest
        The range is empty or not one of the body.
    """
    _check_range(start, end, len(body))
    if start == end or context < 0:
        raise InvalidRequest("a quotation needs at least one character", detail=f"range {start} to {end}")
    exact = body[start:end]
    while True:
        prefix, suffix = body[max(0, start - context) : start], body[end : end + context]
        # With all of the body around it a quotation is unique.
        if _second(body, prefix + exact + suffix) < 0:
            break
        context = 2 * context or 1
    return [
        {"type": "TextPositionSelector", "start": start, "end": end},
        {"type": "TextQuoteSelector", "exact": exact, "prefix": prefix, "suffix": suffix},
    ]


def resolve_selector(body: str, selector: dict[str, Any]) -> tuple[int, int]:
    """Find the range that a TextPositionSelector or a TextQuoteSelector means.

    Parameters
    ----------
    body : str
    selector : dict
        Prefix and suffix of a quotation may be left out.

    Returns
    -------
    start, end : int
        In code points.

    Raises
    ------
    QuoteNotFound
        The quotation, with what is around it, does not stand in the body.
    AmbiguousQuote
        It stands there more than once.
    InvalidRequest
        No selector of these types, or a position outside the body.
    """
    kind = selector.get("type")
    if kind == "TextPositionSelector":
        start, end = selector.get("start"), selector.get("end")
        if type(start) is not int or type(end) is not int:
            raise InvalidRequest("start and end of a selector must be whole numbers")
        _check_range(start, end, len(body))
        return start, end
    if kind != "TextQuoteSelector":
        raise InvalidRequest("not a TextPositionSelector or a TextQuoteSelector", detail=f"type: {kind!r}")
    exact, prefix, suffix = selector.get("exact"), selector.get("prefix", ""), selector.get("suffix", "")
    if not (isinstance(exact, str) and exact and isinstance(prefix, str) and isinstance(suffix, str)):
        raise InvalidRequest("a selector needs a quotation under exact; prefix and suffix are texts")
    around = prefix + exact + suffix
    found = body.find(around)
    if found < 0:
        raise QuoteNotFound("the quotation does not stand in the body", detail=exact[:200])
    if _second(body, around) >= 0:
        raise AmbiguousQuote(
            "the quotation stands in the body more than once",
            detail=exact[:200],
            hint="Give more of what stands before and after it under prefix and suffix.",
        )
    return found + len(prefix), found + len(prefix) + len(exact)


def from_code_points(body: str, start: int, end: int, unit: Unit) -> tuple[int, int]:
    """Give a range of code points in UTF-16 code units (of a browser, Java, C#) or in bytes of UTF-8.

    Parameters
    ----------
    body : str
    start, end : int
        In code points.
    unit : {"utf-16", "utf-8"}

    Raises
    ------
    InvalidRequest
        The range is not one of the body.
    """
    _check_range(start, end, len(body))
    width, encoding = _UNITS[unit]
    before = len(body[:start].encode(encoding))
    return before // width, (before + len(body[start:end].encode(encoding))) // width


def to_code_points(body: str, start: int, end: int, unit: Unit) -> tuple[int, int]:
    """Give a range of UTF-16 code units or of bytes of UTF-8 in code points.

    Parameters
    ----------
    body : str
    start, end : int
        In units.
    unit : {"utf-16", "utf-8"}

    Raises
    ------
    InvalidRequest
        The range is not one of the body, or it begins or ends inside a character.
    """
    width, encoding = _UNITS[unit]
    units = body.encode(encoding)
    _check_range(start, end, len(units) // width)
    try:
        before = len(units[: start * width].decode(encoding))
        return before, before + len(units[start * width : end * width].decode(encoding))
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"the range begins or ends inside a character in {unit}", detail=f"{start} to {end}"
        ) from (error)


def _check_range(start: int, end: int, length: int) -> None:
    if not 0 <= start <= end <= length:
        raise InvalidRequest("not a range of the body", detail=f"{start} to {end} of {length}")


def _second(body: str, text: str) -> int:
    """Where a text stands for the second time, overlapping the first or not; -1 when it does not."""
    return body.find(text, body.find(text) + 1)
