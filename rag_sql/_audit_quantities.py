"""Numbers, dates, times and versions in a text, as values that can be compared.

Values are exact (fractions), positions are code points. What looks like a number and is none is left out: a list's
enumerator, and digits that belong to a name (``G2``, ``HOLD-7``), which are the names' concern.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from rag_sql._audit_units import NEUTRAL_WORDS, SCALES, UNITS, Unit

__all__ = ["Bound", "Kind", "Quantity", "quantities"]


class Kind(StrEnum):
    """What a quantity is."""

    NUMBER = "number"
    YEAR = "year"
    DECADE = "decade"
    ORDINAL = "ordinal"
    DATE = "date"
    TIME = "time"
    LITERAL = "literal"  # a version, or digits too long to be a number: compared as written
    COUNT = "count"  # a word that counts without being a numeral: supports, and is never itself checked


class Bound(StrEnum):
    """How a number is meant: as itself, about it, or as a limit with or without itself."""

    EXACT = "exact"
    ABOUT = "about"
    ABOVE = "above"
    AT_LEAST = "at least"
    BELOW = "below"
    AT_MOST = "at most"


@dataclass(frozen=True)
class Quantity:
    """A number, date, time or version as a text says it.

    Attributes
    ----------
    start, end : int
        Where it stands, unit included.
    kind : Kind
    text : str
        As written; of a version without its leading ``v``.
    value : Fraction
        The number; of a time the minutes after midnight.
    readings : tuple of (int, int, int)
        Of a date: year, month and day, 0 for what is not said. 3/4/2026 has two readings.
    unit : Unit or None
        None where no known unit follows.
    noun : str
        The word that follows where no unit does, lower case, singular; empty where none follows.
    bound : Bound
    step : Fraction
        What its last significant digit is worth: how far it may have been rounded. Of a time 1, or 2 where neither
        a.m. nor p.m. is said nor the hour tells.
    in_words : bool
        Written in words.
    lead : str
        The two words before it, lower case.
    """

    start: int
    end: int
    kind: Kind
    text: str
    value: Fraction = Fraction(0)
    readings: tuple[tuple[int, int, int], ...] = ()
    unit: Unit | None = None
    noun: str = ""
    bound: Bound = Bound.EXACT
    step: Fraction = Fraction(1)
    in_words: bool = False
    lead: str = ""


_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            *("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul"),
            *("august aug", "september sept sep", "october oct", "november nov", "december dec"),
        ),
        start=1,
    )
    for name in names.split()
}
#: In lower case, may, mar and march are other words.
_MONTH = (
    "(?:(?i:"
    + "|".join(sorted(set(_MONTHS) - {"may", "mar", "march"}, key=len, reverse=True))
    + r")|May|March|Mar|MAY|MARCH)\b\.?"
)
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {word: Fraction(value) for value, word in enumerate(_ONES)} | {
    word: Fraction(10 * value) for value, word in enumerate(_TENS, start=2)
}
_ORDINALS = {
    word: Fraction(value)
    for value, word in enumerate(
        (
            "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
            "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
        ).split(),
        start=1,
    )
}
_COUNTS = {
    word: Fraction(value)
    for value, words in {
        "0": "no none nil",
        "1": "a an one single sole solo once another only",
        "2": "both pair twice double couple duo twins doubled",
        "3": "triple trio thrice tripled",
        "12": "dozen",
        "1/2": "half halved",
        "1/4": "quarter",
    }.items()
    for word in words.split()
}
_MAX_DIGITS = 60

_S = "[\\s\ufffd]"  # what stands for a space
_NUMERAL = (
    r"\d{1,3}(?:,\d{2,3})+(?![\d])(?:\.\d+)?"
    "|\\d{1,3}(?:[\u00a0\u202f\u2009]\\d{3})+(?!\\d)"
    r"|\d{1,3}(?: \d{3}){2,}(?!\d)"
    r"|\d+,\d{1,2}(?![\d,])"
    r"|\d+\.\d+|\d+|\.\d+"
)
_WORD = "(?:" + "|".join(sorted(_WORDS, key=len, reverse=True)) + ")"
_SCALE = "(?:" + "|".join(sorted(SCALES, key=len, reverse=True)) + ")"
_CURRENCY = r"(?:[$\u20ac\u00a3\u00a5\u20b9]|\b(?:EUR|USD|GBP|JPY|INR)\b)"


def _number(digits: str) -> Fraction:
    """The worth of a numeral: commas group, unless a single one is followed by one or two digits."""
    digits = re.sub(r"\s", "", digits)
    if re.fullmatch(r"\d+,\d{1,2}", digits):
        digits = digits.replace(",", ".")
    whole, _, part = digits.replace(",", "").partition(".")
    return Fraction(int(whole or 0)) + (Fraction(int(part), 10 ** len(part)) if part else 0)


def _step(digits: str) -> Fraction:
    """What the last significant digit of a numeral is worth."""
    digits = re.sub(r"\s", "", digits)
    if re.fullmatch(r"\d+,\d{1,2}", digits):
        digits = digits.replace(",", ".")
    whole, _, part = digits.replace(",", "").partition(".")
    if part:
        return Fraction(1, 10 ** len(part))
    return Fraction(10 ** (len(whole) - len(whole.rstrip("0")))) if int(whole) else Fraction(1)


def _dated(match: re.Match[str], *readings: tuple[int, int, int]) -> Quantity | None:
    valid = tuple(reading for reading in readings if reading[1] <= 12 and reading[2] <= 31)
    return Quantity(match.start(), match.end(), Kind.DATE, match[0], readings=valid) if valid else None


def _date(match: re.Match[str]) -> Quantity | None:
    parts = match.groupdict()
    month = _MONTHS[parts["month"].rstrip(".").lower()]
    day = parts.get("day")
    return None if day and not int(day) else _dated(match, (int(parts["year"] or 0), month, int(day or 0)))


def _iso_date(match: re.Match[str]) -> Quantity | None:
    return _dated(match, (int(match[1]), int(match[2]), int(match[3])))


def _slashed_date(match: re.Match[str]) -> Quantity | None:
    first, second, year = int(match[1]), int(match[2]), int(match[3])
    if year < 100:
        year += 1900 if year > 50 else 2000
    return _dated(match, (year, first, second), (year, second, first))


def _literal(match: re.Match[str]) -> Quantity:
    return Quantity(match.start(), match.end(), Kind.LITERAL, match[1])


def _time(match: re.Match[str]) -> Quantity | None:
    parts = match.groupdict()
    hour, minute = int(parts["hour"]), int(parts.get("minute") or 0)
    half = (parts["half"] or "").lower()
    if hour > 24 or minute > 59:
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return Quantity(
        match.start(),
        match.end(),
        Kind.TIME,
        match[0],
        Fraction(60 * hour + minute),
        step=Fraction(1 if half or not 0 < hour <= 12 else 2),
    )


def _nothing(_match: re.Match[str]) -> None:
    """Takes the text, so that no other pattern does."""


_SUFFIX_SCALES = {"k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9}


def _numeral(match: re.Match[str]) -> Quantity | None:
    """A numeral with its currency, scale and attached letters; None where the letters make it a name (``3D``)."""
    digits, suffix, currency = match["digits"], (match["suffix"] or "").lower(), match["currency"]
    if len(digits) > _MAX_DIGITS:
        return Quantity(match.start(), match.end(), Kind.LITERAL, match[0])
    value, step, kind, unit = _number(digits), _step(digits), Kind.NUMBER, UNITS.get((currency or "").lower())
    if match["scale"]:
        scale = SCALES[match["scale"].lower()]
        value, step = value * scale, step * scale
    elif suffix in {"st", "nd", "rd", "th"}:
        kind = Kind.ORDINAL
    elif suffix in {"s", "'s"} and value >= 10 and value % 10 == 0:
        kind = Kind.DECADE
    elif suffix in _SUFFIX_SCALES and (currency or suffix not in {"m", "b"}):
        value, step = value * _SUFFIX_SCALES[suffix], step * _SUFFIX_SCALES[suffix]
    elif suffix in UNITS:
        unit = UNITS[suffix]
    elif suffix and suffix != "'s" and (len(suffix) < 3 or not match["suffix"].islower()):
        return None
    elif not currency and re.fullmatch(r"1\d{3}|20\d{2}", digits):
        kind = Kind.YEAR
    if match["sign"]:
        value = -value
    return Quantity(match.start(), match.end(), kind, match[0], value, unit=unit, step=step)


def _in_words(match: re.Match[str]) -> Quantity:
    """A number in words: ones and tens add up, hundred multiplies what is open, thousand and above close it."""
    total, opened = Fraction(0), Fraction(0)
    for word in re.findall("[a-z]+", match[0].lower()):
        if word in _WORDS:
            opened += _WORDS[word]
        elif word == "hundred":
            opened = max(opened, Fraction(1)) * 100
        elif word in SCALES:
            total, opened = total + max(opened, Fraction(1)) * SCALES[word], Fraction(0)
    value = total + opened
    step = _step(str(value.numerator)) if value >= 100 else Fraction(1)
    return Quantity(match.start(), match.end(), Kind.NUMBER, match[0], value, step=step, in_words=True)


def _ordinal(match: re.Match[str]) -> Quantity:
    tens, _, ones = match[0].lower().rpartition("-")
    value = _ORDINALS[ones] + _WORDS.get(tens, Fraction(0))
    return Quantity(match.start(), match.end(), Kind.ORDINAL, match[0], value, in_words=True)


def _count(match: re.Match[str]) -> Quantity:
    return Quantity(match.start(), match.end(), Kind.COUNT, match[0], _COUNTS[match[0].lower()], in_words=True)


def _character(match: re.Match[str]) -> Quantity:
    """A fraction that is one character, with the whole number before it."""
    value = Fraction(unicodedata.numeric(match[2])).limit_denominator(10) + int(match[1] or 0)
    return Quantity(match.start(), match.end(), Kind.NUMBER, match[0], value)


#: What is looked for, in order: what an earlier pattern took, a later one does not see.
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Quantity | None]], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"(?m)^[ \t]{0,20}(?:[-*\u2022][ \t]{0,5})?(?:\(?\d{1,3}[.)]|\(\d{1,3}\))(?=\s)", _nothing),
        (r"(?<![\w-])(\d{4})-(\d{2})-(\d{2})(?![\w-])", _iso_date),
        (
            (
                rf"(?<![\w.,])(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_S}+(?:of{_S}+)?(?P<month>{_MONTH})"
                rf"(?:{_S}*,?{_S}*(?P<year>[12]\d{{3}})(?!\w))?"
            ),
            _date,
        ),
        (
            (
                rf"(?<!\w)(?P<month>{_MONTH}){_S}+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?!\w|[.,:]\d|{_S}*(?:%|{_SCALE}\b))"
                rf"(?:{_S}*,?{_S}*(?P<year>[12]\d{{3}})(?!\w))?"
            ),
            _date,
        ),
        (rf"(?<!\w)(?P<month>{_MONTH}){_S}*,?{_S}*(?:of{_S}+)?(?P<year>[12]\d{{3}})(?!\w)", _date),
        (r"(?<![\w/])(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})(?![\w/])", _slashed_date),
        (r"(?<![\w.])[vV]?(\d+(?:\.\d+){2,}(?:-?(?:rc|alpha|beta|dev|post)[.\d]*)?)(?!\w)", _literal),
        (r"(?<![\w.])[vV](\d+(?:\.\d+)*)(?!\w)", _literal),
        (rf"(?<!\w)(?i:version|firmware|release)s?{_S}+(\d+(?:\.\d+)+)(?!\w)", _literal),
        (
            (
                rf"(?i)(?<![\w:.])(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?::\d{{2}})?"
                rf"(?:{_S}*(?P<half>[ap])\.?m\b\.?)?(?![\w:])"
            ),
            _time,
        ),
        (rf"(?i)(?<![\w:.])(?P<hour>\d{{1,2}}){_S}*(?P<half>[ap])\.?m\b\.?", _time),
        (r"(?<!\w)(?=[^\W\d_]{0,30}[A-Z])[^\W\d_]{1,30}(?:[-\u2013.][^\W\d_]{1,30}){0,5}[-\u2013]?\d[\w-]*", _nothing),
        (r"(?<!\w)(?!mid|pre|post|sub|under|over|top|non)[a-z]+-?\d+\w*(?:-\w+)*", _nothing),
        (r"(?<![\w.])(?:(\d{1,9}) ?)?([\u00bc-\u00be\u2150-\u215e])", _character),
        (
            (
                rf"(?:(?P<currency>{_CURRENCY}){_S}*)?(?:(?<![\w)\].,%])(?P<sign>[-\u2212](?=\d)))?"
                rf"(?<![\d.])(?<![^\W\d_])(?P<digits>{_NUMERAL})"
                rf"(?:(?:{_S}|-)*(?P<scale>(?i:{_SCALE}))\b|(?P<suffix>[^\W\d_]+|'s\b)(?!\w))?(?!\d)"
            ),
            _numeral,
        ),
        (rf"(?i)\b(?:(?:{'|'.join(_TENS)})-)?(?:{'|'.join(_ORDINALS)})\b", _ordinal),
        (
            (
                rf"(?i)\b(?:{_WORD}|an?(?=[\s-]+(?:hundred|thousand|million|billion)\b))\b"
                rf"(?:(?:[\s-]+|\s+and\s+)(?:{_WORD}|{_SCALE})\b)*"
            ),
            _in_words,
        ),
        (rf"(?i)\b(?:{'|'.join(_COUNTS)})\b", _count),
    )
)

_BOUND_WORDS = {
    Bound.AT_MOST: (
        "no (?:more|later|longer|greater|higher) than|not (?:more|over)(?: than)?|not exceed(?:ing)?|up to|at most|"
        "maximum|max|within|limited to|as many as|as much as|capped at"
    ),
    Bound.AT_LEAST: "no (?:less|fewer|earlier) than|not (?:less|fewer) than|at least|minimum|min",
    Bound.ABOVE: (
        "more than|over|above|greater than|higher than|exceed(?:s|ed|ing)?|in excess of|upwards of|"
        "surpass(?:ed|es|ing)?|topp(?:ed|ing)|beyond|older than|larger than|longer than"
    ),
    Bound.BELOW: "less than|under|below|fewer than|lower than|smaller than|shorter than|younger than",
    Bound.ABOUT: (
        "almost|nearly|close to|just under|just below|just short of|approaching|about|around|approximately|roughly|"
        r"circa|c\.|ca\.|some|approx\.?|estimated"
    ),
}
_YEAR_BOUND_WORDS = {Bound.ABOVE: "after|later than|post-", Bound.BELOW: "before|prior to|earlier than|pre-"}
_FILLERS = "a|an|the|total|of|some|about|around|approximately|only|just|year|end|start|beginning"


def _bound_pattern(bounds: dict[Bound, str]) -> re.Pattern[str]:
    """Words that stand right before a number: the leftmost wins, so that no more than is not more than."""
    groups = "|".join(f"(?P<{bound.name}>{words})" for bound, words in bounds.items())
    return re.compile(rf"(?i)\b(?:{groups})(?:\s+(?:{_FILLERS}))*\s*$")


_BOUND = _bound_pattern(_BOUND_WORDS)
_YEAR_BOUND = _bound_pattern(_YEAR_BOUND_WORDS)
_BOUND_AFTER = re.compile(rf"(?i){_S}*(?:(?P<least>\+|(?:or|and) (?:more|above|over|later|older|greater|higher))|"
                          r"(?P<most>(?:or|and) (?:less|fewer|below|under|earlier|younger|lower)))(?!\w)")  # fmt: skip
_FOLLOWING = re.compile(rf"\+?{_S}*[-\u2013]?{_S}*(%|\u00b0{_S}?[CFcf]?\b|\u00b0|{_CURRENCY}|[^\W\d_]+(?:-olds?)?)")


_CENT = re.compile(r"\s+cent\b")
_POINTS = re.compile(r"[\s-]+points?\b")
_LEAD = re.compile(r"[^\W_]+")


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _unit_and_noun(text: str, end: int) -> tuple[Unit | None, str, int]:
    """The unit that follows a number, or else the noun, and where the unit ends."""
    place, noun = end, ""
    for _ in range(3):
        match = _FOLLOWING.match(text, place)
        if match is None:
            break
        word = re.sub(r"\s", "", match[1]).lower()
        if word == "per" and _CENT.match(text, match.end()):
            return UNITS["percent"], "", match.end() + 5
        if word == "percentage" and _POINTS.match(text, match.end()):
            return UNITS["percentage-point"], "", match.end()
        if word in UNITS and not (len(word) == 1 and word.isalpha() and match.start(1) > end):
            return UNITS[word], "", match.end()
        if word not in NEUTRAL_WORDS:
            noun = noun or _singular(word)
            break
        place = match.end()
    return None, noun, end


def _bound(text: str, found: Quantity, end: int) -> Bound:
    before = text[max(0, found.start - 40) : found.start]
    match = _BOUND.search(before)
    if match is None and found.kind in {Kind.YEAR, Kind.DATE}:
        match = _YEAR_BOUND.search(before)
    if match is not None:
        return Bound[match.lastgroup or "EXACT"]
    after = _BOUND_AFTER.match(text, end)
    if after is None:
        return Bound.EXACT
    return Bound.AT_LEAST if after["least"] else Bound.AT_MOST


def _in_context(text: str, found: Quantity) -> Quantity:
    """The quantity with what stands around it: unit, noun and bound."""
    unit, noun, end = found.unit, "", found.end
    if unit is None and found.kind in {Kind.NUMBER, Kind.YEAR, Kind.COUNT}:
        unit, noun, end = _unit_and_noun(text, found.end)
    kind = Kind.NUMBER if found.kind is Kind.YEAR and unit else found.kind
    said = found.text if kind is Kind.LITERAL else text[found.start : end]
    lead = " ".join(_LEAD.findall(text[max(0, found.start - 40) : found.start])[-2:]).lower()
    bound = _bound(text, found, end)
    return replace(found, end=end, kind=kind, text=said, unit=unit, noun=noun, bound=bound, lead=lead)


def _share_units(found: list[Quantity], text: str) -> list[Quantity]:
    """In `10 to 20 days` the unit is said once and meant twice, and in `2014-15` the century."""
    for place in range(len(found) - 2, -1, -1):
        this, following = found[place], found[place + 1]
        between = text[this.end : following.start]
        if this.unit is None and following.unit and re.fullmatch(r"\s*-?\s*(?:to|and|or|[-\u2013\u2014])\s*", between):
            kind = Kind.NUMBER if this.kind is Kind.YEAR else this.kind
            found[place] = replace(this, unit=following.unit, noun="", kind=kind)
        if this.kind is Kind.YEAR and following.unit is None and re.fullmatch("\\s*[-\u2013/\ufffd]\\s*", between):
            year = this.value // 100 * 100 + following.value
            if len(following.text) == 2 and this.value < year:
                found[place + 1] = replace(following, kind=Kind.YEAR, value=year)
    return found


@lru_cache(maxsize=512)
def quantities(text: str) -> tuple[Quantity, ...]:
    """All quantities of a text, in its order."""
    taken = bytearray(len(text))
    found: list[Quantity] = []
    for pattern, make in _PATTERNS:
        for match in pattern.finditer(text):
            if any(taken[match.start() : match.end()]):
                continue
            quantity = make(match)
            if quantity is not None:
                found.append(quantity)
            if quantity is not None or make is _nothing:
                taken[match.start() : match.end()] = b"\1" * (match.end() - match.start())
    found.sort(key=lambda quantity: quantity.start)
    return tuple(_share_units([_in_context(text, quantity) for quantity in found], text))
