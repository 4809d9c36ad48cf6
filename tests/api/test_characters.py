"""A span quotes whole characters, as readers see them: rag.cuts_character, and what the trigger makes of it (RS026)."""

from __future__ import annotations

import unicodedata

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from rag_sql.errors import QuoteCutsCharacter
from tests.api.strategies import begins_none, cuts_character, rolled_back
from tests.api.test_spans import ON_SERVER, document, load, refusal, span

#: What a reader sees as one character, in several code points each; and a few that are one.
CHARACTERS = {
    "accent": "e\u0301",
    "two accents": "o\u0302\u0301",
    "vowel sign": "\u0928\u093f",
    "decomposed Hangul": "\u1112\u1161\u11ab",
    "heart": "\u2764\ufe0f",
    "skin tone": "\U0001f44d\U0001f3fd",
    "family": "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "flag": "\U0001f1e9\U0001f1ea",
    "flag of tags": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "keycap": "1\ufe0f\u20e3",
    "line end": "\r\n",
    "letter": "x",
    "composed accent": "\u00e9",
    "space": " ",
}

neighbours = st.sampled_from(["", *"".join(CHARACTERS.values())]) | st.characters(
    exclude_categories=["Cs", "Cn"], min_codepoint=1
)


def test_every_character_that_begins_none_is_known(connection: sa.Connection) -> None:
    """Against Python's own data: all code points that its Unicode version assigns."""
    statement = sa.text(
        "select c from generate_series(1, 1114111) as c"
        " where c not between 55296 and 57343 and rag.cuts_character('x', chr(c))"
    )
    with rolled_back(connection):
        found = set(connection.execute(statement).scalars())
    assigned = [code for code in range(1, 0x110000) if unicodedata.category(chr(code)) not in {"Cn", "Cs"}]
    assert {code for code in assigned if code in found} == {code for code in assigned if begins_none(chr(code))}


@pytest.mark.parametrize("whole", CHARACTERS.values(), ids=CHARACTERS)
def test_a_character_is_quoted_whole_or_not_at_all(connection: sa.Connection, whole: str) -> None:
    body = f"before{whole}after"
    assert load(connection, document(body, span(whole))) == [("s", 6, 6 + len(whole), whole)]
    for cut in range(1, len(whole)):
        for part in (f"before{whole[:cut]}", f"{whole[cut:]}after"):
            error = refusal(connection, {**document(body, span(part)), "version": 7})
            assert type(error) is QuoteCutsCharacter
            assert (error.sqlstate, error.table, error.datatype, error.constraint) == ("RS026", "D", "7", "s")
            assert error.hint.startswith("Quote the whole character")
            assert part in error.detail


def test_an_occurrence_inside_a_character_is_refused_and_the_one_beside_it_is_not(connection: sa.Connection) -> None:
    body = "e\u0301 or e"
    assert type(refusal(connection, document(body, span("e", 1)))) is QuoteCutsCharacter
    assert load(connection, document(body, span("e", 2))) == [("s", 6, 7, "e")]


def test_nothing_is_cut_at_the_edges_of_a_body(connection: sa.Connection) -> None:
    body = "\u0301 begins with an accent and ends with a joiner\u200d"
    assert load(connection, document(body, span(body))) == [("s", 0, len(body), body)]


@ON_SERVER
@given(
    parts=st.lists(st.sampled_from(list(CHARACTERS.values())), min_size=1, max_size=12),
    data=st.data(),
)
def test_whole_characters_can_be_quoted_wherever_they_stand(
    connection: sa.Connection, parts: list[str], data: st.DataObject
) -> None:
    # Two flags side by side are one to this rule, which looks at two code points.
    flag = CHARACTERS["flag"]
    parts = [part for number, part in enumerate(parts) if (part, *parts[number - 1 : number]) != (flag, flag)]
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first + 1, len(parts)))
    body, quote, start = "".join(parts), "".join(parts[first:last]), len("".join(parts[:first]))
    occurrence = sum(body.startswith(quote, at) for at in range(start + 1))
    assert load(connection, document(body, span(quote, occurrence))) == [("s", start, start + len(quote), quote)]


@ON_SERVER
@given(before=neighbours, after=neighbours)
def test_two_neighbours_decide(connection: sa.Connection, before: str, after: str) -> None:
    """Whatever they are; the edge of a body, the empty text, cuts nothing."""
    with rolled_back(connection):
        found = connection.execute(sa.select(sa.func.rag.cuts_character(before, after))).scalar()
    assert found == cuts_character(before, after)
