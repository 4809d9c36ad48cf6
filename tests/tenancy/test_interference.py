"""Law 2, non-interference: a few random runs of each half, which the day chooses (``interference.py`` makes more)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rag_sql._embedded import SUPERUSER
from tests.conftest import Database, Server
from tests.tenancy import interference
from tests.tenancy.interference import LAWS
from tests.tenancy.mutants import today

RUNS = {"a": 1, "b": 2}


@pytest.mark.parametrize(("law", "number"), [(law, number) for law, runs in RUNS.items() for number in range(runs)])
def test_nothing_interferes(server: Server, walled: Database, law: str, number: int) -> None:
    """What another tenant does, and what is not eligible, changes nothing but figures of volume."""
    print(f"python -m tests.tenancy.interference --law {law} --seed {today()} --first {number} --runs 1")
    found = LAWS[law](server, walled, f"{today()} {number}")
    assert found.did.total() > 0
    assert found.differences == []


@pytest.fixture
def open_walled(server: Server, walled: Database) -> Iterator[Database]:
    """The walled store with every fence and condition on versions gone."""
    database = server.create(walled.name)
    with database.connect(SUPERUSER) as connection:
        connection.execute("alter table rag.version disable row level security")
    yield database
    server.drop(database)


def test_a_store_without_its_wall_is_found_out(server: Server, open_walled: Database) -> None:
    """The comparison can fail: the other's documents show as soon as nothing keeps them in."""
    found = interference.another_tenant(server, open_walled, "without a wall")
    assert any("rag.version" in difference for difference in found.differences)


def test_a_new_eligible_document_is_seen_by_what_is_compared(server: Server, walled: Database) -> None:
    """So would be one that is not eligible, if it mattered."""
    changed = interference.after_an_eligible_document(server, walled)
    assert {"call: decide", "call: selection", "call: evidence_changes", "call: record_trace"} <= changed
    assert {"call: search by bm25", "call: decide by bm25", "call: selection by hybrid"} <= changed
