"""The quotation decides (law 3): the database finds where it stands, in code points, or refuses the span."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rag_sql._embedded import SUPERUSER
from rag_sql.errors import (
    AmbiguousQuote,
    InvalidDocument,
    QuoteCutsCharacter,
    QuoteNotFound,
    RagSqlError,
    VersionNotFound,
)
from tests.api.strategies import is_whole, rolled_back
from tests.conftest import Clone, Database

Json = dict[str, Any]

ON_SERVER = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

#: Any text, and texts of few different characters, in which quotations repeat and overlap.
bodies = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\0"), min_size=1, max_size=60),
    st.text(st.sampled_from("aé😀 \u0301\n"), min_size=1, max_size=60),
    st.text(st.sampled_from("ab"), min_size=1, max_size=30),
)


def places(body: str, quote: str) -> list[int]:
    """Every place where a quotation stands, overlapping ones too."""
    return [start for start in range(len(body)) if body.startswith(quote, start)]


def document(body: str, *spans: Json) -> Json:
    return {"id": "D", "version": 1, "body": body, "spans": list(spans)}


def span(quote: str, occurrence: int | None = None, span_id: str = "s") -> Json:
    named = {"id": span_id, "fact": "f", "quote": quote}
    return named if occurrence is None else {**named, "occurrence": occurrence}


def stored(connection: sa.Connection) -> list[tuple[str, int, int, str]]:
    rows = connection.execute(
        sa.text('select span_id, range_start, range_end, quote from rag_api.span order by span_id collate "C"')
    )
    return [(row.span_id, row.range_start, row.range_end, row.quote) for row in rows]


def load(connection: sa.Connection, loaded: Json) -> list[tuple[str, int, int, str]]:
    """Spans as they are stored after a load; every stored span must hold."""
    with rolled_back(connection) as acme:
        acme.load_documents([loaded])
        assert acme.span_check() == []
        return stored(connection)


def refusal(connection: sa.Connection, loaded: Json) -> RagSqlError:
    """The error of a load that must be refused; nothing of it may be stored."""
    with rolled_back(connection) as acme:
        savepoint = connection.begin_nested()
        with pytest.raises(RagSqlError) as raised:
            acme.load_documents([document_before(), loaded])
        savepoint.rollback()
        assert stored(connection) == []
        assert connection.execute(sa.text("select document_id from rag_api.version")).all() == []
        assert acme.span_check() == []
        return raised.value


def document_before() -> Json:
    """A good document in the same load: all or nothing."""
    return {"id": "C", "version": 1, "body": "Good.", "spans": [span("Good.")]}


# Offsets


@ON_SERVER
@given(body=bodies, data=st.data())
def test_offsets_are_those_of_a_python_slice(connection: sa.Connection, body: str, data: st.DataObject) -> None:
    cuts = data.draw(
        st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(1, 20)), min_size=1, max_size=4, unique=True)
    )
    spans, expected = [], []
    for number, (start, length) in enumerate(cuts):
        quote = body[start : start + length]
        assume(is_whole(body, start, start + len(quote)))
        found = places(body, quote)
        unambiguous = len(found) == 1 and data.draw(st.booleans())
        spans.append(span(quote, None if unambiguous else found.index(start) + 1, f"s{number}"))
        expected.append((f"s{number}", start, start + len(quote), quote))
    found_spans = load(connection, document(body, *spans))
    assert found_spans == expected
    assert all(body[start:end] == quote for _, start, end, quote in found_spans)


@ON_SERVER
@given(body=bodies, data=st.data())
def test_a_quotation_without_occurrence_is_stored_only_where_it_stands_once(
    connection: sa.Connection, body: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(body) - 1))
    quote = body[start : start + data.draw(st.integers(1, 3))]
    if len(places(body, quote)) > 1:
        assert isinstance(refusal(connection, document(body, span(quote))), AmbiguousQuote)
    elif not is_whole(body, start, start + len(quote)):
        assert isinstance(refusal(connection, document(body, span(quote))), QuoteCutsCharacter)
    else:
        assert load(connection, document(body, span(quote))) == [("s", start, start + len(quote), quote)]


@ON_SERVER
@given(body=bodies, quote=bodies, occurrence=st.none() | st.integers(1, 4))
def test_any_quotation_is_found_where_python_finds_it_or_refused(
    connection: sa.Connection, body: str, quote: str, occurrence: int | None
) -> None:
    found = places(body, quote)
    if len(found) < (occurrence or 1):
        assert isinstance(refusal(connection, document(body, span(quote, occurrence))), QuoteNotFound)
    elif occurrence is None and len(found) > 1:
        assert isinstance(refusal(connection, document(body, span(quote))), AmbiguousQuote)
    elif not is_whole(body, start := found[(occurrence or 1) - 1], start + len(quote)):
        assert isinstance(refusal(connection, document(body, span(quote, occurrence))), QuoteCutsCharacter)
    else:
        assert load(connection, document(body, span(quote, occurrence))) == [("s", start, start + len(quote), quote)]


@pytest.mark.parametrize(
    ("body", "quote", "occurrence", "start"),
    [
        ("aaa", "aa", 1, 0),
        ("aaa", "aa", 2, 1),
        ("abababa", "aba", 3, 4),
        ("😀😀 x", "x", None, 3),
        ("e\u0301e", "e", 2, 2),
        ("x", "x", None, 0),
        ("a\nb\n", "\nb\n", None, 1),
        ("%s :x $1 '\\", "'\\", None, 9),
    ],
)
def test_occurrences_overlap_and_positions_are_code_points(
    connection: sa.Connection, body: str, quote: str, occurrence: int | None, start: int
) -> None:
    assert load(connection, document(body, span(quote, occurrence))) == [("s", start, start + len(quote), quote)]


def test_a_quotation_in_a_long_body_is_found_beyond_every_buffer(connection: sa.Connection) -> None:
    body = "😀é " * 50_000 + "needle" + " é😀" * 50_000
    assert load(connection, document(body, span("needle"))) == [("s", 150_000, 150_006, "needle")]


# Refusals


@pytest.mark.parametrize(
    ("body", "quote"),
    [
        ("caf\u00e9 is open", "cafe\u0301 is"),
        ("cafe\u0301 is open", "caf\u00e9 is"),
        ("The hold is active", "the hold"),
        ("the auditor\u2019s case", "the auditor's case"),
        ("he said \u201cno\u201d", 'he said "no"'),
        ("first line\r\nsecond", "first line\nsecond"),
        ("first line\nsecond", "first line\r\nsecond"),
        ("first line\nsecond", "first line second"),
        ("non\u00a0breaking", "non breaking"),
        ("soft\u00adhyphen", "softhyphen"),
        ("stra\u00dfe", "strasse"),
        ("\ufb01le", "file"),
        ("\u0391lpha", "Alpha"),
        ("an en\u2013dash", "an en-dash"),
        ("two  spaces", "two spaces"),
        ("the end", "the end."),
        ("abc", "b.c"),
        ("abc", "a%"),
    ],
    ids=lambda text: ascii(text),
)
def test_a_quotation_that_is_only_alike_is_not_found(connection: sa.Connection, body: str, quote: str) -> None:
    error = refusal(connection, document(body, span(quote)))
    assert type(error) is QuoteNotFound
    assert quote in error.detail


def test_a_refusal_names_document_version_and_span(connection: sa.Connection) -> None:
    missing = refusal(connection, {**document("Body.", span("nobody", span_id="é/1")), "version": 12})
    assert (missing.sqlstate, missing.table, missing.datatype, missing.constraint) == ("RS023", "D", "12", "é/1")
    twice = refusal(connection, document("bob", span("o", span_id="o"), span("b", span_id="b")))
    assert (twice.sqlstate, twice.table, twice.datatype, twice.constraint) == ("RS024", "D", "1", "b")
    assert twice.hint


def test_an_ambiguous_quotation_is_stored_as_soon_as_it_names_its_occurrence(connection: sa.Connection) -> None:
    body = "Ask first. Then ask first."
    assert isinstance(refusal(connection, document(body, span("sk first"))), AmbiguousQuote)
    for occurrence, start in ((1, 1), (2, 17)):
        assert load(connection, document(body, span("sk first", occurrence))) == [("s", start, start + 8, "sk first")]
    beyond = refusal(connection, document(body, span("sk first", 3)))
    assert type(beyond) is QuoteNotFound
    assert "does not occur 3 times" in beyond.message


@pytest.mark.parametrize("occurrence", [0, -1, 1.5, "1", True, 2**31], ids=repr)
def test_an_occurrence_is_a_whole_number_from_1(connection: sa.Connection, occurrence: object) -> None:
    error = refusal(connection, document("Body.", {**span("Body."), "occurrence": occurrence}))
    assert isinstance(error, InvalidDocument)
    assert error.column == "1.spans.0.occurrence"


def test_an_empty_quotation_is_refused(connection: sa.Connection) -> None:
    error = refusal(connection, document("Body.", span("")))
    assert isinstance(error, InvalidDocument)
    assert error.column == "1.spans.0.quote"


# Nobody states a place


@pytest.mark.parametrize("column", ["range_start", "range_end", "body_length", "recorded_at", "recorded_by"])
@pytest.mark.parametrize(("login", "tenant"), [("acme_curator", "acme"), ("publisher", "public")])
def test_no_login_may_state_what_the_database_derives(gateway: Database, login: str, tenant: str, column: str) -> None:
    document_id, version = ("HOLD-7", 2) if tenant == "acme" else ("GW-241", 3)
    value = {"recorded_at": "now()", "recorded_by": "'me'"}.get(column, "1")
    with gateway.connect(login) as connection:
        connection.execute("select rag_api.bind(%s)", [tenant])
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.GeneratedAlways)):
            connection.execute(
                f"insert into rag.span (tenant, document_id, version, span_id, fact, quote, {column})"
                f" values (%s, %s, %s, 'mine', 'f', 'telemetry', {value})",
                [tenant, document_id, version],
            )


def test_a_bare_insert_is_held_to_the_same_rules(shared_gateway: Database) -> None:
    insert = (
        "insert into rag.span (tenant, document_id, version, span_id, fact, quote, occurrence)"
        " values ('acme', %s, 2, 'mine', 'f', %s, %s) returning range_start, range_end"
    )
    with shared_gateway.connect("acme_curator") as connection:
        for document_id, quote, occurrence, sqlstate in (
            ("HOLD-7", "not there", None, "RS023"),
            ("HOLD-7", "rollback", 2, "RS023"),
            ("HOLD-7", "audit", None, "RS024"),
            ("HOLD-8", "audit", 1, "RS022"),
            ("PRIVATE", "Northwind", None, "RS022"),
            ("HOLD-7", "", None, "RS023"),
        ):
            connection.execute("select rag_api.bind('acme')")
            with pytest.raises(psycopg.Error) as raised:
                connection.execute(insert, [document_id, quote, occurrence])
            assert raised.value.sqlstate == sqlstate
            connection.rollback()
        connection.execute("select rag_api.bind('acme')")
        assert connection.execute(insert, ["HOLD-7", "While", None]).fetchone() == (0, 5)
        connection.rollback()


def test_a_span_of_another_tenants_version_is_a_span_of_no_version(gateway: Database) -> None:
    """The two errors are the same, so that nobody learns what exists."""
    found = []
    with gateway.engine("acme_curator") as engine, engine.connect() as connection:
        for document_id in ("PRIVATE", "NOWHERE"):
            with rolled_back(connection), pytest.raises(sa.exc.DBAPIError) as raised:
                connection.execute(
                    sa.text(
                        "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
                        " values ('northwind', :document_id, 1, 's', 'f', 'runbook')"
                    ),
                    {"document_id": document_id},
                )
            assert isinstance(raised.value.orig, psycopg.Error)
            found.append((raised.value.orig.sqlstate, str(raised.value.orig).replace(document_id, "...")))
    assert found[0] == found[1]
    assert found[0][0] in {VersionNotFound.sqlstate, "42501"}


# An intruder with the keys


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("update rag.span set range_start = range_start + 1", "hile an audit hold"),
        ("update rag.span set quote = replace(quote, 'do not roll back', 'please roll back')", "do not roll back"),
        ("update rag.version set body = replace(body, 'do not roll back', 'DO NOT ROLL BACK')", "DO NOT ROLL BACK"),
        ("update rag.version set body = reverse(body)", ".esac eht"),
        ("update rag.span set occurrence = 2", "While an audit hold"),
    ],
    ids=["place", "quotation", "body", "whole body", "occurrence"],
)
def test_span_check_lists_what_an_intruder_changed(gateway: Database, tampering: str, found: str) -> None:
    with gateway.tenant("acme_reader") as acme:
        assert acme.span_check() == []
    with gateway.connect(SUPERUSER) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(f"{tampering} where tenant = 'acme' and document_id = 'HOLD-7'")
    with gateway.tenant("acme_reader") as acme:
        (problem,) = acme.span_check()
    assert (problem["tenant"], problem["document_id"], problem["version"], problem["span_id"]) == (
        "acme",
        "HOLD-7",
        2,
        "s1",
    )
    assert found in problem["found"]
    with gateway.tenant("northwind_reader") as northwind:
        assert northwind.span_check() == []
    with gateway.store("auditor") as store, store._bind.connect() as connection:  # type: ignore[union-attr]
        rows = connection.execute(sa.text("select tenant, document_id from rag_api.span_check")).all()
    assert [tuple(row) for row in rows] == [("acme", "HOLD-7")]


def test_span_check_lists_a_span_planted_with_the_trigger_off(clone: Clone, gateway_template: Database) -> None:
    database = clone(gateway_template)
    with database.connect(SUPERUSER) as connection:
        connection.execute("alter table rag.span disable trigger span_is_located")
        connection.execute(
            "insert into rag.span"
            " (tenant, document_id, version, span_id, fact, quote, range_start, range_end, body_length)"
            " select 'acme', 'HOLD-7', 2, 'planted', 'f', 'roll back firmware now', 0, 22, body_length"
            " from rag.version where tenant = 'acme' and document_id = 'HOLD-7'"
        )
        connection.execute("alter table rag.span enable trigger span_is_located")
    with database.tenant("acme_reader") as acme:
        (problem,) = acme.span_check()
    assert (problem["span_id"], problem["expected_start"]) == ("planted", None)
