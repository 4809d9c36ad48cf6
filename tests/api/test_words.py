"""Words and overlap: one splitter for bodies and queries, and a score that is a set intersection."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from rag_sql.errors import InvalidDocument, InvalidRequest
from tests.api.strategies import rolled_back

ON_SERVER = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

#: Letters whose case is the same matter everywhere, and what stands between words.
LETTERS = "abzABZ019_éÉßüÜжЖяЯαΩωあ漢한שع"
BETWEEN = " .,;:!?-'\"()/\\\n\r\t%$#@«»\u201c\u201d\u2019\u2013\u2026😀"
plain = st.text(st.sampled_from(LETTERS + BETWEEN), min_size=1, max_size=60)
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)


def python_words(text: str) -> set[str]:
    return {word for word in re.split(r"\W+", text.lower()) if word}


def words(connection: sa.Connection, text: str) -> list[str]:
    with connection.begin():
        found: list[str] = connection.execute(sa.text("select rag.words(:text)"), {"text": text}).scalar_one()
    return found


def ranking(connection: sa.Connection, query: str) -> list[tuple[int, str]]:
    """Score and document of every eligible passage, also those of score 0."""
    rows = connection.execute(sa.text("select score, document_id from rag_api.ranking(:query, '{}')"), {"query": query})
    return [(row.score, row.document_id) for row in rows]


def selection(connection: sa.Connection, query: str, k: int) -> list[tuple[int, int, str]]:
    rows = connection.execute(
        sa.text("select position, score, document_id from rag_api.selection(:query, '{}', :k) order by position"),
        {"query": query, "k": k},
    )
    return [(row.position, row.score, row.document_id) for row in rows]


# Words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("...", []),
        ("The the THE", ["the"]),
        ("holds hold holding", ["hold", "holding", "holds"]),
        ("firmware 2.4.1", ["1", "2", "4", "firmware"]),
        ("snake_case kebab-case", ["case", "kebab", "snake_case"]),
        ("don't don\u2019t", ["don", "t"]),
        ("É é E e", ["e", "é"]),
        ("Straße STRASSE", ["strasse", "straße"]),
        ("ЖЁЛТЫЙ жёлтый", ["жёлтый"]),
        ("ΩΜΈΓΑ", ["ωμέγα"]),
        ("שלום مرحبا", ["שלום", "مرحبا"]),
        ("漢字 かな 한국", ["かな", "漢字", "한국"]),
        ("𐐀𐐨", ["𐐨𐐨"]),
        ("a\u00a0b\u2003c\u200bd\ue000e", ["a", "b", "c", "d", "e"]),
        ("a😀b", ["a", "b"]),
        ("\x01a\x7fb\x85c", ["a", "b", "c"]),
        ("%s :x $1 {y} \\n", ["1", "n", "s", "x", "y"]),
        ("zoo Äpfel apple", ["apple", "zoo", "äpfel"]),
    ],
    ids=lambda value: ascii(value),
)
def test_words_are_folded_split_not_stemmed_distinct_and_in_byte_order(
    connection: sa.Connection, text: str, found: list[str]
) -> None:
    assert words(connection, text) == found


@ON_SERVER
@given(text=plain)
def test_words_are_those_that_python_splits(connection: sa.Connection, text: str) -> None:
    assert words(connection, text) == sorted(python_words(text), key=str.encode)


@ON_SERVER
@given(text=anything)
def test_words_of_any_text_are_distinct_ordered_and_words_of_themselves(connection: sa.Connection, text: str) -> None:
    found = words(connection, text)
    assert found == sorted(set(found), key=str.encode)
    assert "" not in found
    assert words(connection, " ".join(reversed(found))) == found


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("a" * 255, True),
        ("a" * 256, False),
        ("é" * 127, True),
        ("é" * 128, False),
        ("漢" * 85, True),
        ("漢" * 86, False),
    ],
    ids=lambda value: f"{value[0]}*{len(value)}" if isinstance(value, str) else str(value),
)
def test_a_word_over_255_bytes_stands_as_its_hash(connection: sa.Connection, word: str, kept: bool) -> None:
    assert words(connection, f"x {word}") == sorted(
        ["x", word if kept else sha256(word.encode()).hexdigest()], key=str.encode
    )


def test_long_words_match_by_being_the_same(connection: sa.Connection) -> None:
    blob = "A" * 100_000
    with rolled_back(connection) as acme:
        acme.load_documents(
            [{"id": "blob", "version": 1, "body": f"x {blob}"}, {"id": "other", "version": 1, "body": f"x {blob}b"}]
        )
        assert sorted(ranking(connection, blob.lower())) == [(0, "other"), (1, "blob")]


def test_a_body_with_more_than_a_mebibyte_of_distinct_words_is_refused_with_its_place(
    connection: sa.Connection,
) -> None:
    fits = " ".join(f"w{number:06}" for number in range(131_000))
    too_many = " ".join(f"w{number:06}" for number in range(132_000))
    with rolled_back(connection) as acme:
        acme.load_documents([{"id": "D", "version": 1, "body": fits}])
        with pytest.raises(InvalidDocument) as raised:
            acme.load_documents([{"id": "D", "version": 2, "body": too_many}])
    assert raised.value.column == "0.body"


# Overlap


@ON_SERVER
@given(bodies=st.lists(plain, min_size=1, max_size=4), query=plain)
def test_the_score_is_the_size_of_the_intersection(connection: sa.Connection, bodies: list[str], query: str) -> None:
    expected = {f"D{number}": len(python_words(body) & python_words(query)) for number, body in enumerate(bodies)}
    with rolled_back(connection) as acme:
        acme.load_documents([{"id": f"D{number}", "version": 1, "body": body} for number, body in enumerate(bodies)])
        found = {document_id: score for score, document_id in ranking(connection, query)}
        best = selection(connection, query, 2)
    assert found == expected
    order = sorted((name for name in expected if expected[name]), key=lambda name: (-expected[name], name))
    assert best == [(place, expected[name], name) for place, name in enumerate(order[:2], start=1)]


@ON_SERVER
@given(body=anything, query=anything)
def test_the_score_of_any_text_is_the_intersection_of_its_words(
    connection: sa.Connection, body: str, query: str
) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents([{"id": "D", "version": 1, "body": body}])
        found = ranking(connection, query)
    assert found == [(len(set(words(connection, body)) & set(words(connection, query))), "D")]


def test_neither_repetition_nor_order_nor_length_counts(connection: sa.Connection) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents(
            [
                {"id": "once", "version": 1, "body": "hold audit"},
                {"id": "often", "version": 1, "body": "audit hold " * 500},
                {"id": "long", "version": 1, "body": "hold the audit " + "and more " * 500},
            ]
        )
        found = selection(connection, "audit audit hold Hold AUDIT nothing", 3)
    assert found == [(1, 2, "long"), (2, 2, "often"), (3, 2, "once")]


ids = st.one_of(
    st.sampled_from(
        ["Z", "a", "É", "é", "E\u0301", "e\u0301", "\ue000", "\uffee", "😀", "\U0001d504", "-", "_", "~", "10", "9"]
    ),
    st.text(st.characters(categories=["L", "N", "P", "S", "Co"]), min_size=1, max_size=5),
)


@ON_SERVER
@given(names=st.lists(ids, min_size=2, max_size=8, unique=True), k=st.integers(1, 8))
def test_ties_end_in_the_bytes_of_the_id(connection: sa.Connection, names: list[str], k: int) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents([{"id": name, "version": 1, "body": "the same"} for name in names])
        found = selection(connection, "same", k)
    assert [name for _, _, name in found] == sorted(names, key=str.encode)[:k]


def test_title_and_source_are_not_searched(connection: sa.Connection) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents([{"id": "needle", "version": 1, "title": "needle", "source": "needle", "body": "hay"}])
        assert selection(connection, "needle", 1) == []


@pytest.mark.parametrize("query", ["", " ", "...", "😀", "\n"], ids=ascii)
def test_a_query_without_a_word_is_refused_and_does_not_select_nothing(connection: sa.Connection, query: str) -> None:
    content = {"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "q", "clauses": ["c"]}]}]}
    with rolled_back(connection) as acme:
        acme.add_contract("q", 1, content)
        with pytest.raises(InvalidRequest):
            acme.decide("q", query=query, case={}, k=1)


@ON_SERVER
@given(body=plain | anything)
@example(body="Zebra äpfel; Äpfel, zebra! 😀 it's")
@example(body='Read the manual (2nd ed.), then: open/close - "slowly";\n\twait.')
def test_the_words_of_a_stored_version_are_those_of_its_body(connection: sa.Connection, body: str) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents([{"id": "D", "version": 1, "body": body}])
        stored = connection.execute(sa.text("select tsvector_to_array(words) from rag_api.passage")).scalar_one()
    assert stored == words(connection, body)


@ON_SERVER
@given(one=plain, other=plain)
def test_the_same_words_in_another_case_or_order_are_the_same_query(
    connection: sa.Connection, one: str, other: str
) -> None:
    assume(python_words(one.upper()) == python_words(one))
    query = " ".join(reversed([*sorted(python_words(one)), *sorted(python_words(other))]))
    assert words(connection, query) == words(connection, f"{one.upper()} {other}")
