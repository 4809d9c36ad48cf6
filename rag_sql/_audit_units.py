"""Units, scales and the words around numbers, for the audit's numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["NEUTRAL_WORDS", "SCALES", "UNITS", "Unit"]


@dataclass(frozen=True)
class Unit:
    """A unit: two of one dimension can be compared, by their factors.

    Attributes
    ----------
    dimension : str
    factor : Fraction
        Its worth in the dimension's base unit.
    """

    dimension: str
    factor: Fraction


def _units(dimension: str, factors: dict[str, str]) -> dict[str, Unit]:
    return {word: Unit(dimension, Fraction(factor)) for words, factor in factors.items() for word in words.split()}


#: Units by the words for them, lower case. A month is no number of days, and a currency is worth itself only.
UNITS: dict[str, Unit] = {
    **_units(
        "time",
        {
            "ms millisecond milliseconds": "1/1000",
            "second seconds sec secs s": "1",
            "minute minutes min mins": "60",
            "hour hours hr hrs h": "3600",
            "day days d": "86400",
            "week weeks wk wks": "604800",
            "fortnight fortnights": "1209600",
        },
    ),
    **_units(
        "calendar",
        {
            "month months": "1",
            "year years yr yrs year-old year-olds": "12",
            "decade decades": "120",
        },
    ),
    **_units(
        "length",
        {
            "mm millimetre millimetres millimeter millimeters": "1/1000",
            "cm centimetre centimetres centimeter centimeters": "1/100",
            "metre metres meter meters": "1",
            "km kms kilometre kilometres kilometer kilometers": "1000",
            "inch inches": "0.0254",
            "foot feet ft": "0.3048",
            "yard yards": "0.9144",
            "mile miles mi": "1609.344",
        },
    ),
    **_units(
        "mass",
        {
            "mg milligram milligrams": "1/1000",
            "g gram grams": "1",
            "kg kgs kilo kilos kilogram kilograms": "1000",
            "tonne tonnes": "1000000",
            "oz ounce ounces": "28.349523125",
            "lb lbs": "453.59237",
        },
    ),
    **_units(
        "data",
        {
            "byte bytes": "1",
            "kb kilobyte kilobytes": "1000",
            "kib": "1024",
            "mb megabyte megabytes": "1000000",
            "mib": "1048576",
            "gb gigabyte gigabytes": "1000000000",
            "gib": "1073741824",
            "tb terabyte terabytes": "1000000000000",
            "tib": "1099511627776",
        },
    ),
    **_units(
        "volume", {"ml millilitre millilitres milliliter milliliters": "1/1000", "litre litres liter liters": "1"}
    ),
    **_units("percent", {"% percent pct per-cent": "1"}),
    **_units("percentage point", {"percentage-point percentage-points": "1"}),
    **_units("dollar", {"$ dollar dollars usd us$": "1", "cent cents": "1/100"}),
    **_units("euro", {"\u20ac euro euros eur": "1"}),
    **_units("sterling", {"\u00a3 gbp": "1"}),
    **_units("yen", {"\u00a5 yen jpy": "1"}),
    **_units("rupee", {"\u20b9 rupee rupees inr": "1"}),
    **_units("degree", {"\u00b0 degree degrees": "1"}),
    **_units("celsius", {"\u00b0c celsius": "1"}),
    **_units("fahrenheit", {"\u00b0f fahrenheit": "1"}),
    **_units("times", {"times x": "1"}),
}

#: Words that multiply the number before them.
SCALES: dict[str, Fraction] = {
    word: Fraction(worth)
    for words, worth in (
        ("hundred hundreds", 10**2),
        ("thousand thousands", 10**3),
        ("lakh lakhs", 10**5),
        ("million millions mn mln", 10**6),
        ("crore crores", 10**7),
        ("billion billions bn", 10**9),
        ("trillion trillions", 10**12),
    )
    for word in words.split()
}

#: Words between a number and its unit or noun that change neither.
NEUTRAL_WORDS = frozenset(
    "business working calendar full consecutive more additional further extra total whole entire other different new "
    "us canadian australian american of the short long straight solid separate distinct major more-than".split()
)
