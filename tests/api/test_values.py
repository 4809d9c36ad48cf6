"""Values with an order: versions in three schemes, dates, ranges of them, and what applies to a case that has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from itertools import pairwise, product
from typing import Any

import psycopg
import pytest
import semver
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.utils import canonicalize_version
from packaging.version import InvalidVersion, Version
from psycopg.types.json import Jsonb

from rag_sql import Tenant, errors
from tests.conftest import Database

PEP440, SEMVER, NUMERIC = "version-pep440", "version-semver", "version-numeric"


def keys(database: Database, kind: str, values: Sequence[str]) -> list[str | None]:
    """The key of each value."""
    return _asked(
        database,
        "select rag.value_key(%s, v) from unnest(%s::text[]) with ordinality as t(v, i) order by i",
        kind,
        values,
    )


def canonical(database: Database, kind: str, values: Sequence[str]) -> list[str | None]:
    return _asked(
        database,
        "select rag.canonical_value(%s, v) from unnest(%s::text[]) with ordinality as t(v, i) order by i",
        kind,
        values,
    )


def within(database: Database, kind: str, stated: Sequence[str], values: Sequence[str]) -> list[bool]:
    """Whether each value is one of those that a document states."""
    return _asked(
        database,
        'select exists (select from rag.value_ranges(%s, %s::text[]) as r where r.first_key <= k.key collate "C"'
        ' and (r.end_key is null or k.key collate "C" < r.end_key))'
        " from unnest(%s::text[]) with ordinality as t(v, i)"
        " cross join lateral rag.value_key(%s, v) as k(key) order by i",
        kind,
        stated,
        values,
        kind,
    )


def _asked(database: Database, query: str, *given: Any) -> list[Any]:
    with database.connect("acme_reader") as connection:
        values = [list(value) if isinstance(value, (list, tuple)) else value for value in given]
        return [row[0] for row in connection.execute(query.encode(), values).fetchall()]


def in_order(database: Database, kind: str, values: Sequence[str]) -> list[int]:
    """How each value compares with the next by their keys: -1, 0 or 1."""
    found = [(key or "").encode() for key in keys(database, kind, values)]
    assert all(found)
    return [(one > other) - (one < other) for one, other in pairwise(found)]


# PEP 440

_number = st.integers(0, 3).map(str) | st.integers(0, 10**25).map(str) | st.sampled_from(["00", "01", "010"])
_separator = st.sampled_from(["", ".", "-", "_"])
_release = st.lists(_number, min_size=1, max_size=4).map(".".join)
_local = st.lists(st.text("ab0129", min_size=1, max_size=3) | _number, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([".", "-", "_"]).map(lambda between: "+" + between.join(parts))
)


def _labelled(labels: Sequence[str], *, numbered: bool = False) -> st.SearchStrategy[str]:
    number = _number if numbered else st.just("") | _number
    return st.builds(
        lambda before, label, between, digits: before + label + (between if digits else "") + digits,
        _separator,
        st.sampled_from(labels),
        _separator,
        number,
    )


_pep440 = st.builds(
    lambda *parts: "".join(parts),
    st.sampled_from(["", "", "v", " "]),
    st.just("") | _number.map(lambda epoch: f"{epoch}!"),
    _release,
    st.just("") | _labelled(["a", "b", "c", "rc", "alpha", "beta", "pre", "preview", "RC", "Alpha"]),
    st.just("") | _labelled(["post", "rev", "r", "POST"]) | _number.map(lambda number: f"-{number}"),
    st.just("") | _labelled(["dev", "DEV"]),
    st.just("") | _local,
)


@settings(deadline=None)
@given(values=st.lists(_pep440, min_size=2, max_size=30))
def test_versions_of_python_packages_have_the_order_of_packaging(shared_store: Database, values: list[str]) -> None:
    versions = [Version(value) for value in values]
    assert in_order(shared_store, PEP440, values) == [
        (one > other) - (one < other) for one, other in pairwise(versions)
    ]
    assert canonical(shared_store, PEP440, values) == [canonicalize_version(version) for version in versions]


@settings(deadline=None)
@given(
    values=st.lists(
        st.text("0123.!-_+abcdeoprstv ", max_size=12) | _pep440.map(lambda v: v + "."), min_size=1, max_size=30
    )
)
def test_what_packaging_calls_no_version_is_none(shared_store: Database, values: list[str]) -> None:
    def is_version(value: str) -> bool:
        try:
            Version(value)
        except InvalidVersion:
            return False
        return True

    assert [key is not None for key in keys(shared_store, PEP440, values)] == list(map(is_version, values))


# Semantic Versioning 2.0.0


@pytest.mark.parametrize(
    "ascending",
    [
        ["1.0.0", "2.0.0", "2.1.0", "2.1.1"],  # section 11.2
        ["1.0.0-alpha", "1.0.0"],  # 11.3
        [  # 11.4.4
            "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
            "1.0.0-rc.1", "1.0.0",
        ],
        ["1.9.0", "1.10.0", "1.11.0"],  # section 2
        ["1.0.0-2", "1.0.0-11", "1.0.0-A", "1.0.0-a", "1.0.0-a.0", "1.0.0-a-b"],  # 11.4.1 to 11.4.4
    ],
)  # fmt: skip
def test_precedence_is_that_of_the_specification(shared_store: Database, ascending: list[str]) -> None:
    assert in_order(shared_store, SEMVER, ascending) == [-1] * (len(ascending) - 1)


def test_build_metadata_has_no_place_in_the_order(shared_store: Database) -> None:
    values = ["1.0.0-alpha+001", "1.0.0-alpha", "1.0.0-alpha+exp.sha-a.5114f85"]
    assert in_order(shared_store, SEMVER, values) == [0, 0]
    assert set(canonical(shared_store, SEMVER, values)) == {"1.0.0-alpha"}


@pytest.mark.parametrize(
    "value",
    ["1", "1.2", "1.2.3-", "1.2.3+", "1.2.3-0123", "1.2.3-0123.0", "01.1.1", "1.01.1", "1.1.01", "v1.2.3", "1.2.3.4",
     "1.2.3-a..b", "1.2.3+a+b", "-1.0.0", "1.2.3 ", "1.2.3-é", "alpha", ""],
)  # fmt: skip
def test_what_the_specification_does_not_allow_is_no_version(shared_store: Database, value: str) -> None:
    assert keys(shared_store, SEMVER, [value]) == [None]


_identifier = st.integers(0, 12).map(str) | st.text("0aAbZ-", min_size=1, max_size=3).filter(
    lambda text: not text.isdigit() or text == "0"
)
_identifiers = st.lists(_identifier, min_size=1, max_size=3).map(".".join)
_semver = st.builds(
    lambda core, pre, build: core + pre + build,
    st.lists(st.integers(0, 2) | st.integers(0, 10**20), min_size=3, max_size=3).map(lambda n: ".".join(map(str, n))),
    st.just("") | _identifiers.map(lambda text: f"-{text}"),
    st.just("") | _identifiers.map(lambda text: f"+{text}"),
)


@settings(deadline=None)
@given(values=st.lists(_semver, min_size=2, max_size=30))
def test_semantic_versions_have_the_order_of_a_second_implementation(shared_store: Database, values: list[str]) -> None:
    assert in_order(shared_store, SEMVER, values) == [
        semver.Version.parse(one).compare(other) for one, other in pairwise(values)
    ]


# Numbers between dots, and dates


@settings(deadline=None)
@given(values=st.lists(_release, min_size=2, max_size=30))
def test_numbers_between_dots_compare_one_by_one_and_what_is_left_out_is_zero(
    shared_store: Database, values: list[str]
) -> None:
    def numbers(value: str) -> tuple[int, ...]:
        found = [int(number) for number in value.split(".")]
        return tuple(found + [0] * (5 - len(found)))

    found = [numbers(value) for value in values]
    assert in_order(shared_store, NUMERIC, values) == [(one > other) - (one < other) for one, other in pairwise(found)]


def test_what_is_no_number_between_dots_is_no_version_of_numbers(shared_store: Database) -> None:
    assert keys(shared_store, NUMERIC, ["", ".", "1.", ".1", "1..2", "1a", "v1", "1 ", "-1", "1,2"]) == [None] * 10


@settings(deadline=None)
@given(
    values=st.lists(st.builds("{:04}-{:02}-{:02}".format, st.integers(0, 2500), st.integers(0, 13), st.integers(0, 32)))
)
def test_a_date_is_one_of_the_calendar(shared_store: Database, values: list[str]) -> None:
    def is_date(value: str) -> bool:
        try:
            date.fromisoformat(value)
        except ValueError:
            return False
        return True

    assert canonical(shared_store, "date", values) == [value if is_date(value) else None for value in values]


# Ranges


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
    "==": lambda one, other: one == other,
    "=": lambda one, other: one == other,
    "": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
}
_few = st.sampled_from(["1", "1.0.0", "1.1", "1.1a1", "1.1.post1", "1.1.dev0", "1.2", "1!0", "2", "2+local", "2rc1"])
_clauses = st.lists(st.tuples(st.sampled_from(sorted(_OPERATORS)), _few), min_size=1, max_size=4)


@settings(deadline=None, max_examples=150)
@given(stated=st.lists(_clauses, min_size=1, max_size=4), spaced=st.booleans())
def test_a_range_holds_for_what_each_of_its_clauses_holds_for_and_a_list_for_any(
    shared_store: Database, stated: list[list[tuple[str, str]]], spaced: bool
) -> None:
    between, after = (" , ", " ") if spaced else (",", "")
    texts = [between.join(operator + after + value for operator, value in clauses) for clauses in stated]
    values = [
        "0",
        "1",
        "1.1.dev0",
        "1.1a1",
        "1.1",
        "1.1.post1",
        "1.1.5",
        "1.2",
        "2rc1",
        "2",
        "2+local",
        "3",
        "1!0",
        "1!1",
    ]
    assert within(shared_store, PEP440, texts, values) == [
        any(all(_OPERATORS[sign](Version(value), Version(bound)) for sign, bound in clauses) for clauses in stated)
        for value in values
    ]


@pytest.mark.parametrize(
    ("kind", "stated", "inside", "outside"),
    [
        (NUMERIC, ">=2.4.1,<2.5", ["2.4.1", "2.4.10", "2.4.99.1"], ["2.4", "2.4.0.9", "2.5", "2.5.0", "10"]),
        (NUMERIC, "2.x", ["2", "2.0", "2.99.1"], ["1.99", "3", "20"]),
        (NUMERIC, "2.0.*", ["2", "2.0.5"], ["2.1", "1"]),
        (NUMERIC, "!=2.4.3", ["2.4.2", "2.4.4", "0"], ["2.4.3", "2.4.3.0"]),
        (NUMERIC, ">=2,!=2.4.x", ["2.3", "2.5", "9"], ["2.4", "2.4.9", "1"]),
        (NUMERIC, "<2", ["0", "1.9.9"], ["2", "2.0", "2.0.1"]),
        # A pre-release comes before its release and after everything below it.
        (PEP440, "<2.5", ["2.5rc1", "2.5.dev1", "2.4"], ["2.5", "2.5.post1", "2.5+x"]),
        (PEP440, ">2.5", ["2.5.post1", "2.5+x", "2.6.dev0"], ["2.5", "2.5rc1"]),
        (PEP440, "2.x", ["2.0.dev1", "2.0rc1", "2.9.post1", "2+x"], ["3.0.dev0", "3.0rc1", "1.9", "1!2.0"]),
        (PEP440, "1!2.x", ["1!2.3"], ["2.3", "1!3"]),
        (SEMVER, "2.x", ["2.0.0-alpha", "2.0.0", "2.9.9+b"], ["3.0.0-alpha", "1.9.9"]),
        (SEMVER, "2.4.x", ["2.4.0-rc.1", "2.4.7"], ["2.5.0-rc.1", "2.3.9"]),
        (SEMVER, ">=2.4,<3", ["2.4.0", "3.0.0-rc.1"], ["2.4.0-rc.1", "3.0.0"]),
        ("date", ">=2026-01-01,<2027-01-01", ["2026-01-01", "2026-12-31"], ["2025-12-31", "2027-01-01"]),
        ("date", "2026-02-28", ["2026-02-28"], ["2026-02-27", "2026-03-01"]),
    ],
)
def test_what_a_range_holds_for(
    shared_store: Database, kind: str, stated: str, inside: list[str], outside: list[str]
) -> None:
    assert within(shared_store, kind, [stated], inside) == [True] * len(inside)
    assert within(shared_store, kind, [stated], outside) == [False] * len(outside)


@pytest.mark.parametrize(
    ("kind", "stated", "problem"),
    [
        (NUMERIC, ">=2.4.1,<abc", 'character 9, "<abc"'),
        (NUMERIC, ">=2.4.1, <2.5, ~=3", 'character 16, "~=3"'),
        (NUMERIC, "2,,3", 'character 3, ""'),
        (NUMERIC, ">=2.x", 'character 1, ">=2.x"'),
        (NUMERIC, "x", 'character 1, "x"'),
        (SEMVER, "2.4", 'character 1, "2.4"'),
        (SEMVER, "1.2.3.x", 'character 1, "1.2.3.x"'),
        ("date", ">=2026-02-30", 'character 1, ">=2026-02-30"'),
        ("date", "2026-02.x", 'character 1, "2026-02.x"'),
        (NUMERIC, ">=3,<2", "holds for no version-numeric"),
        (NUMERIC, "2.4,2.5", "holds for no version-numeric"),
        (NUMERIC, "!=2,2", "holds for no version-numeric"),
    ],
)
def test_a_range_that_is_none_is_refused_at_load_with_its_place(
    shared_store: Database, kind: str, stated: str, problem: str
) -> None:
    with pytest.raises(errors.InvalidDocument) as refused, shared_store.tenant("acme_curator") as acme:
        acme.set_attribute("firmware", kind)
        acme.load_documents([document("A", stated)])
    assert problem in refused.value.message
    assert refused.value.column == "0.applies_to.firmware"


# Documents and cases

CONTRACT: dict[str, Any] = {
    "case": ["firmware"],
    "facts": [{"fact": "limit", "propositions": [{"quote": "hold", "clauses": ["Hold."]}]}],
}


def document(name: str, *firmware: str) -> dict[str, Any]:
    return {"id": name, "version": 1, "body": "hold the gateway", "applies_to": {"firmware": list(firmware)}}


def selected(tenant: Tenant, firmware: str, method: str = "overlap", **more: Any) -> list[str]:
    decision = tenant.decide("hold", query="hold", case={"firmware": firmware}, k=20, method=method, **more)
    return sorted(source.document_id for source in decision.sources)


@pytest.fixture
def ranged(store: Database) -> Database:
    with store.tenant("acme_curator") as acme:
        acme.set_attribute("firmware", NUMERIC)
        acme.add_contract("hold", 1, CONTRACT)
        acme.load_documents(
            [
                document("OLD", ">=2.4.0,<2.4.1"),
                document("NEW", ">=2.4.1,<2.5"),
                document("LINE", "2.x"),
                document("BUT", "!=2.4.1"),
                document("LIST", "2.4.0", ">=3"),
            ]
        )
    return store


@pytest.mark.parametrize("method", ["overlap", "bm25"])
@pytest.mark.parametrize(
    ("firmware", "documents"),
    [
        ("2.4.0", ["BUT", "LINE", "LIST", "OLD"]),
        ("2.4", ["BUT", "LINE", "LIST", "OLD"]),
        ("2.4.1", ["LINE", "NEW"]),
        ("2.5", ["BUT", "LINE"]),
        ("10.0", ["BUT", "LIST"]),
    ],
)
def test_a_version_applies_to_the_firmware_that_its_range_holds_for(
    ranged: Database, firmware: str, method: str, documents: list[str]
) -> None:
    with ranged.tenant("acme_reader") as acme:
        assert selected(acme, firmware, method) == documents
        assert sorted(
            row.document_id
            for row in acme.explain("hold", query="hold", case={"firmware": firmware}, k=5)
            if row.eligible
        ) == documents  # fmt: skip


def test_the_reason_says_both_values(ranged: Database) -> None:
    with ranged.tenant("acme_reader") as acme:
        reasons = {
            row.document_id: (row.reason, row.attribute, row.applies_to, row.case_value)
            for row in acme.explain("hold", query="hold", case={"firmware": "2.4.1"}, k=5)
        }
    assert reasons["OLD"] == ("attribute_differs", "firmware", (">=2.4.0,<2.4.1",), "2.4.1")
    assert reasons["LIST"] == ("attribute_differs", "firmware", ("2.4.0", ">=3"), "2.4.1")
    assert reasons["NEW"] == (None, None, None, None)


def test_a_case_that_states_no_version_is_an_error_and_never_no_match(ranged: Database) -> None:
    with pytest.raises(errors.InvalidCase, match="must be a version of numbers"), ranged.tenant("acme_reader") as acme:
        selected(acme, "latest")
    for stated in ("latest", ">=2.4"):
        with pytest.raises(errors.InvalidCase, match="is no version-numeric"), ranged.tenant("acme_reader") as acme:
            acme.search("hold", case={"firmware": stated})


def test_the_same_version_written_otherwise_is_the_same_case(ranged: Database) -> None:
    with ranged.tenant("acme_reader") as acme:
        decisions = [
            acme.decide("hold", query="hold", case={"firmware": firmware}, k=5) for firmware in ("2.4", "2.4.0", "02.4")
        ]
    assert len({decision.digest for decision in decisions}) == 1
    assert decisions[1].case_facts == {"firmware": "2.4"}


def test_what_is_stored_is_read_in_a_type_that_is_declared_later(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.add_contract("hold", 1, CONTRACT)
        acme.load_documents([document("A", ">=2.4", "1.0")])
    with store.tenant("acme_reader") as acme:
        before = acme.decide("hold", query="hold", case={"firmware": "2.5"}, k=5)
        assert not before.sources
    with store.tenant("acme_curator") as acme:
        assert acme.set_attribute("firmware", NUMERIC) == "changed"
    with store.tenant("acme_reader") as acme:
        assert selected(acme, "2.5") == selected(acme, "1") == ["A"]
        # What was known before is what it was.
        again = acme.decide(
            "hold",
            query="hold",
            case={"firmware": "2.5"},
            k=5,
            valid_at=datetime.fromisoformat(before.request.valid_at),
            known_at=datetime.fromisoformat(before.request.known_at),
        )
        assert again.digest == before.digest


def test_a_type_is_refused_while_a_stored_range_is_none_of_it(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([document("A", ">=2.4.x"), document("B", "2.4")])
    with pytest.raises(errors.AttributeMisfit) as refused, store.tenant("acme_curator") as acme:
        acme.set_attribute("firmware", NUMERIC)
    assert refused.value.detail == '"A" version 1: ">=2.4.x"'


def test_who_declares_versions_does_not_miss_a_public_range_that_public_takes_for_a_text(store: Database) -> None:
    with store.tenant("publisher") as public:
        public.load_documents([document("PUBLIC", ">=2.4")])
    with store.tenant("acme_curator") as acme:
        acme.set_attribute("firmware", NUMERIC)
        acme.add_contract("hold", 1, CONTRACT)
    with store.tenant("acme_reader") as acme:
        assert selected(acme, "2.5") == ["PUBLIC"]
        assert selected(acme, "2.3") == []


def test_a_type_that_is_declared_while_a_load_runs_is_a_type_of_what_it_loads(store: Database) -> None:
    """The declaration waits for the load, as a second load would."""
    with store.connect("acme_curator") as loading, store.connect("acme_curator") as declaring:
        loading.execute("select rag_api.bind('acme')")
        loading.execute(
            "select from rag_api.load_documents(%s)",
            ['[{"id": "A", "version": 1, "body": "hold", "applies_to": {"firmware": [">=2.4"]}}]'],
        )
        declaring.execute("select rag_api.bind('acme')")
        declaring.execute("set local lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            declaring.execute("select rag_api.set_attribute('firmware', 'version-numeric')")
        loading.commit()
    with store.tenant("acme_curator") as acme:
        acme.set_attribute("firmware", NUMERIC)
        acme.add_contract("hold", 1, CONTRACT)
        assert selected(acme, "2.5") == ["A"]


@pytest.mark.parametrize("kind", ["date", PEP440, SEMVER, NUMERIC])
def test_a_key_with_an_order_is_never_the_beginning_of_another(shared_store: Database, kind: str) -> None:
    """So none lies between a key and itself with the least character after it, where a range ends."""
    parts = [
        "1",
        "1.0.1",
        "1.1",
        "1a1",
        "1.post1",
        "1.0.0",
        "1.0.0-a",
        "1.0.0-a.1",
        "2026-01-01",
        "1+a",
        "1+a.1",
        "1.dev1",
    ]
    found = [key for key in keys(shared_store, kind, parts) if key is not None]
    assert found
    assert not any(one != other and other.startswith(one) for one, other in product(found, found))


def test_versions_in_order_are_sorted_by_their_keys_as_packaging_sorts_them(shared_store: Database) -> None:
    values = ["1.0.dev1", "1.0a1.dev1", "1.0a1", "1.0a1.post1", "1.0b1", "1.0rc1", "1.0", "1.0+a", "1.0+1", "1.0.post1"]
    found = sorted(zip(keys(shared_store, PEP440, values), values, strict=True), key=lambda pair: str(pair[0]).encode())
    assert [value for _, value in found] == sorted(values, key=Version)


def test_many_cases_at_once_are_answered_as_each_alone(ranged: Database) -> None:
    cases = [{"firmware": "2.4"}, {"firmware": "2.4.1"}, {}, {"firmware": "9", "model": "G2"}]
    with ranged.tenant("acme_curator") as acme:
        acme.load_documents([document("ANY") | {"applies_to": {}}])
        acme.load_documents([document("GONE", "9")])
        acme.withdraw_version("GONE", 1)
    with ranged.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        found = connection.execute(
            'select case_number, document_id from rag_api.eligible_by_case(%s) order by 1, document_id collate "C"',
            [Jsonb(cases)],
        ).fetchall()
        alone = [
            (number, row[0])
            for number, case in enumerate(cases, 1)
            for row in connection.execute(
                'select document_id from rag_api.eligible(%s) order by document_id collate "C"', [Jsonb(case)]
            ).fetchall()
        ]
    assert found == alone
    for malformed in ("{}", "[1]", '[{}, "x"]'):
        with pytest.raises(errors.InvalidRequest, match="array of objects"), errors.translate():
            with ranged.connect("acme_reader") as connection:
                connection.execute("select rag_api.eligible_by_case(%s)", [malformed])
    assert (1, "OLD") in found
    assert (3, "ANY") in found
