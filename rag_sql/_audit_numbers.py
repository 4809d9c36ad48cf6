"""The audit's check of numbers, dates, times and versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from rag_sql._audit_model import AuditVerdict, Finding, Held
from rag_sql._audit_quantities import Bound, Kind, Quantity, quantities

__all__ = ["NumbersCheck"]

_Placed = tuple[str, Quantity]
_DATED = {Kind.DATE, Kind.YEAR, Kind.DECADE}
_UPWARD = {Bound.ABOVE, Bound.AT_LEAST}
_DOWNWARD = {Bound.BELOW, Bound.AT_MOST}
_LIMITS = _UPWARD | _DOWNWARD
_STRICT = {Bound.ABOVE, Bound.BELOW}
_MOST_HELD = 10  # values shown for one finding
_DEADLINES = {"time", "calendar"}


class NumbersCheck:
    """Each number, date, time and version of the sentence must stand in a passage, by value.

    A number that does not is ``contradicted`` where the passages hold another value of the same unit or noun, and
    ``unsupported`` where they hold nothing comparable. Comparison is by value: 23,541,000 bears out "more than 23.5
    million", two weeks are 14 days, 2026-03-14 is 14 March 2026.
    """

    name = "numbers"

    def check(self, sentence: str, passages: Mapping[str, str], /) -> Sequence[Finding] | None:
        """See :class:`~rag_sql.Checker`."""
        said = [quantity for quantity in quantities(sentence) if _is_checked(quantity)]
        if not said:
            return None
        held = [(label, quantity) for label, text in passages.items() for quantity in quantities(text)]
        return [_finding(quantity, held) for quantity in said if not _is_held(quantity, held, passages)]


def _is_checked(said: Quantity) -> bool:
    """Words such as "one of", "first" and "a" count nothing often enough to be no number of the answer."""
    if said.kind is Kind.COUNT:
        return False
    if said.in_words and said.kind is Kind.ORDINAL:
        return said.value > 2
    return not (said.in_words and said.unit is None and said.value <= 1)


def _is_held(said: Quantity, held: Sequence[_Placed], passages: Mapping[str, str]) -> bool:
    if said.kind is Kind.LITERAL:
        literal = re.compile(rf"(?<![\w.]){re.escape(said.text)}(?!\w|\.\d)|(?<=[vV]){re.escape(said.text)}(?!\w|\.\d)")
        return any(literal.search(text) for text in passages.values())
    others = [other for _, other in held]
    if said.bound is not Bound.EXACT:
        # A limit is compared with what stands in the same words, or else counts the same noun, before anything else.
        same_words = [other for other in others if said.lead and _frame(other) == _frame(said)]
        if same_words:
            return any(_equal(said, other) for other in same_words)
        if said.bound in _LIMITS:
            others = [other for other in others if said.noun and other.noun == said.noun] or others
    return any(_bears_out(said, other) for other in others)


def _frame(quantity: Quantity) -> tuple[object, ...]:
    """The words around a number: two before it, and its unit or noun."""
    return quantity.kind, quantity.lead, quantity.bound, quantity.unit, quantity.noun


def _equal(said: Quantity, other: Quantity) -> bool:
    return said.value == other.value and said.readings == other.readings


def _bears_out(said: Quantity, other: Quantity) -> bool:
    """Whether what a passage holds is what the answer says."""
    if other.kind is Kind.LITERAL:
        return False
    if said.kind is Kind.DATE or (other.kind is Kind.DATE and said.kind in _DATED | {Kind.ORDINAL, Kind.NUMBER}):
        return _same_date(said, other)
    if said.kind is Kind.TIME or other.kind is Kind.TIME:
        return said.kind is other.kind and _same_time(said, other)
    if said.kind is Kind.DECADE:
        return other.kind in {Kind.YEAR, Kind.DECADE} and _same_decade(said.value, other.value)
    if other.kind is Kind.DECADE:
        return False
    return _comparable(said, other) and _same_number(said, other)


def _same_date(said: Quantity, other: Quantity) -> bool:
    """Each part that the answer states is the passage's; a date also holds its year, and its day as an ordinal."""
    if said.kind is Kind.DATE and other.kind is Kind.DATE:
        if said.bound in _STRICT:
            return any(_within(said.bound, a, b) for a in said.readings for b in other.readings)
        return any(
            all(mine in (0, theirs) for mine, theirs in zip(a, b, strict=True))
            for a in said.readings
            for b in other.readings
        )
    if other.kind is not Kind.DATE:
        limits = {year for year, _, _ in said.readings}
        return (
            other.kind is Kind.YEAR
            and said.bound in _STRICT
            and any(_within(said.bound, (year, 0, 0), (int(other.value), 0, 0)) for year in limits)
        )
    years = {Fraction(year) for year, _, _ in other.readings if year}
    if said.kind is Kind.DECADE:
        return any(_same_decade(said.value, year) for year in years)
    if said.kind is Kind.YEAR:
        return any(_meets(said, year) for year in years)
    return said.unit is None and said.value > 0 and any(said.value in (year, day) for year, _, day in other.readings)


def _within(bound: Bound, limit: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    known = [(a, b) for a, b in zip(limit, other, strict=True) if a and b]
    mine, theirs = [a for a, _ in known], [b for _, b in known]
    return theirs >= mine if bound is Bound.ABOVE else theirs <= mine


def _same_time(said: Quantity, other: Quantity) -> bool:
    """Without a.m. or p.m. on either side, half a day is no difference."""
    if said.step == other.step:
        return said.value == other.value
    return said.value % 720 == other.value % 720


def _same_decade(said: Fraction, other: Fraction) -> bool:
    """Whether a year is in a decade; the 70s are 1970s too."""
    turn = 100 if min(said, other) < 100 else 10000
    return said // 10 * 10 % turn == other // 10 * 10 % turn


def _comparable(said: Quantity, other: Quantity) -> bool:
    """Whether both count the same kind of thing, as far as a unit or a noun in the plural tells."""
    if said.unit is not None and other.unit is not None:
        return said.unit.dimension == other.unit.dimension
    if other.kind is Kind.COUNT and other.value <= 1:
        return said.in_words or (said.noun != "" and said.noun == other.noun)  # a and no stand before anything
    return True


def _same_number(said: Quantity, other: Quantity) -> bool:
    limit, step, value = said.value, said.step, other.value
    if said.unit is not None and other.unit is not None:
        limit, step, value = limit * said.unit.factor, step * said.unit.factor, value * other.unit.factor
    if value == limit:
        return _compatible(said.bound, other.bound)
    if said.bound is Bound.EXACT:
        return False
    if said.bound is Bound.ABOUT:
        return abs(value - limit) <= max(step, abs(limit) / 20)
    if (said.kind is Kind.YEAR) != (other.kind is Kind.YEAR) or not _follows(said, other):
        return False
    if said.noun and said.unit is None and other.unit is not None and other.unit.dimension in _DEADLINES:
        return False  # ten or more travellers do not follow from 14 days
    return value > limit if said.bound in _UPWARD else value < limit


def _follows(said: Quantity, other: Quantity) -> bool:
    """Whether a limit may follow from another value: from a plain number, or a fact's more than from a more than.

    A limit that is a rule is another rule when its number is another: "within 14 days" is not "within 30 days".
    """
    if said.unit is not None and said.unit.dimension in _DEADLINES and said.bound in {Bound.AT_LEAST, Bound.AT_MOST}:
        return False
    if other.bound in {Bound.EXACT, Bound.ABOUT}:
        return True
    return said.bound in _STRICT and (said.bound in _UPWARD) == (other.bound in _UPWARD)


def _compatible(said: Bound, other: Bound) -> bool:
    """Whether one value may be meant both ways: not more than itself, and not at least and at most."""
    if said in _STRICT and other is Bound.EXACT:
        return False
    return not ((said in _UPWARD and other in _DOWNWARD) or (said in _DOWNWARD and other in _UPWARD))


def _meets(said: Quantity, value: Fraction) -> bool:
    if said.bound in _UPWARD:
        return value >= said.value
    return value <= said.value if said.bound in _DOWNWARD else value == said.value


def _finding(said: Quantity, held: Iterable[_Placed]) -> Finding:
    """What stands in the number's place: other values of its unit or noun, or of its kind where that is telling."""
    instead = [(label, other) for label, other in held if _in_place_of(said, other)]
    places = tuple(Held(label, other.start, other.end, other.text) for label, other in instead[:_MOST_HELD])
    verdict = AuditVerdict.CONTRADICTED if places else AuditVerdict.UNSUPPORTED
    values = ", ".join(dict.fromkeys(place.text for place in places))
    reason = f"the cited passages say {values}" if values else "the cited passages do not hold it"
    return Finding("numbers", verdict, said.start, said.end, said.text, places, reason)


def _in_place_of(said: Quantity, other: Quantity) -> bool:
    if other.kind is Kind.COUNT:
        return False
    if said.kind in _DATED or other.kind in _DATED:
        return said.kind in _DATED and other.kind in _DATED
    if said.kind is not other.kind:
        return False
    if said.kind in {Kind.LITERAL, Kind.TIME, Kind.ORDINAL}:
        return True
    if said.unit is not None or other.unit is not None:
        return said.unit is not None and other.unit is not None and said.unit.dimension == other.unit.dimension
    return bool(said.noun) and said.noun == other.noun
