"""Asking what is the same without sending bodies: exactly what load_documents would call same."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from rag_sql import Tenant, errors
from tests.api.strategies import ON_SERVER, Json, documents, rolled_back, texts
from tests.api.test_loading import DOCUMENT
from tests.conftest import Database

GONE = object()

#: Whatever a file may say of a key: other values, values that mean the same, and what no value may be.
CHANGES: dict[str, list[Any]] = {
    "id": ["OTHER", "", 7, None, GONE],
    "version": [1, 2, "1", 1.0, 1.5, 0, -1, 3000000000, None, GONE],
    "body": ["other", "", None, 3, GONE],
    "title": ["T", "t", "", 3, None, GONE],
    "applies_to": [
        *({"m": ["a", "b"]}, {"m": ["b", "a", "a"]}, {"m": ["a"]}, {"m": ["a", "b"], "n": ["c"]}, {}, GONE),
        *(None, [], {"m": []}, {"m": None}, {"m": "a"}, {"m": ["*"]}, {"m": [3]}, {"": ["a"]}),
    ],
    "effective_from": [
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        "2026-01-01T01:00:00+01",
        "2026-01-02",
        "now",
        3,
        None,
        GONE,
    ],
    "published": ["2025-12-01", "2025-12-02", "2026-02-30", "infinity", None, GONE],
    "source": ["s", "S", 3, None, GONE],
    "metadata": [{"k": "v"}, {"k": "w"}, {"k": "v", "l": 1}, {"k": ["v"]}, {}, [], None, GONE],
    "spans": [
        *([], [{"id": "x", "fact": "f", "quote": "evidence"}], [{"id": "x", "fact": "f", "quote": "nowhere"}], GONE),
        *(None, {}, ["x"], [{"id": "x"}], [{"id": "x", "fact": "f", "quote": "evidence", "range_start": 0}]),
    ],
    "colour": ["red", None],
}


@st.composite
def stored_and_stated(draw: st.DrawFn) -> tuple[list[Json], list[Json]]:
    """Documents, and what a later load states of each: the same, or something changed."""
    stored, stated = [], []
    for document in draw(documents()):
        for key in ("title", "applies_to", "effective_from", "published", "source", "metadata"):
            if draw(st.booleans()):
                document[key] = CHANGES[key][0]
        stored.append(document)
        changed = dict(document)
        for key in draw(st.lists(st.sampled_from(list(CHANGES)), max_size=2)):
            value = draw(st.sampled_from(CHANGES[key]))
            changed = {k: v for k, v in changed.items() if k != key} | ({} if value is GONE else {key: value})
        if draw(st.integers(0, 9)) == 0:
            changed["body"] = draw(texts)
        stated.append(changed)
    return stored, stated


def status(tenant: Tenant, document: Json) -> str:
    """What load_documents says of a document; nothing of it stays."""
    try:
        with tenant.savepoint():
            said = tenant.load_documents([document])[0].status
            raise ZeroDivisionError
    except ZeroDivisionError:
        return said
    except errors.RagSqlError as error:
        return type(error).__name__


@ON_SERVER
@given(data=stored_and_stated())
def test_same_is_what_load_documents_calls_same(connection: sa.Connection, data: tuple[list[Json], list[Json]]) -> None:
    stored, stated = data
    with rolled_back(connection) as tenant:
        tenant.load_documents(stored)
        said = [status(tenant, document) for document in stated]
        for document, what in zip(stated, said, strict=True):
            assert (tenant.same_documents([document]) == {0}) == (what == "same"), what
        names = [(str(document.get("id")), str(document.get("version"))) for document in stated]
        if len(set(names)) == len(names):
            assert tenant.same_documents(stated) == {i for i, what in enumerate(said) if what == "same"}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in CHANGES.items() for value in values])
def test_each_change_of_one_document(connection: sa.Connection, key: str, value: Any) -> None:
    """Each alone, so that none is left to chance."""
    stored = {
        "id": "D",
        "version": 1,
        "body": "The evidence.",
        **{name: CHANGES[name][0] for name in ("title", "applies_to", "effective_from", "published", "source")},
        "metadata": {"k": "v"},
        "spans": [{"id": "x", "fact": "f", "quote": "evidence"}],
    }
    changed = {k: v for k, v in stored.items() if k != key} | ({} if value is GONE else {key: value})
    with rolled_back(connection) as tenant:
        tenant.load_documents([stored])
        assert (tenant.same_documents([changed]) == {0}) == (status(tenant, changed) == "same")


def test_a_hash_that_is_missing_or_short_is_no_body(connection: sa.Connection) -> None:
    with rolled_back(connection) as tenant:
        tenant.load_documents([DOCUMENT])
        assert tenant.same_documents([]) == set()
        for hashes in ("'{}'", "array[null]", "array['\\x00'::bytea]", "null"):
            found = tenant._rows(
                sa.text(f"select * from rag_api.same_documents(cast(:d as jsonb), cast({hashes} as bytea[]))"),
                d='[{"id": "POL-1", "version": 1}]',
            )
            assert found == []


def test_who_may_not_load_may_not_ask(shared_store: Database) -> None:
    for login, tenant, error in (
        ("acme_curator", None, errors.TenantRequired),
        ("public_curator", "public", errors.NotAllowed),
        ("acme_reader", "acme", sa.exc.ProgrammingError),
    ):
        with shared_store.store(login) as opened, pytest.raises(error), opened.tenant(tenant) as bound:
            bound.same_documents([DOCUMENT])


def test_what_is_no_array_is_refused(connection: sa.Connection) -> None:
    with pytest.raises(errors.InvalidDocument), rolled_back(connection) as tenant:
        tenant._rows(sa.text("select rag_api.same_documents('{}', '{}')"))
