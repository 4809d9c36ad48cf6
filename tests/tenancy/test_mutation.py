"""Mutants of the wall are noticed: a few of each kind, which the day chooses (``mutants.py`` makes all of them)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Database
from tests.tenancy import mutants
from tests.tenancy.kinds import LESS, MORE
from tests.tenancy.wall import TABLES, Sessions

#: One mutant of each kind.
SAMPLE = len(LESS) + len(MORE) + 1


@pytest.fixture(scope="module")
def sessions(spent: Database) -> Iterator[Sessions]:
    with Sessions(spent) as opened:
        yield opened


def test_every_policy_is_on_a_table_that_is_probed(sessions: Sessions) -> None:
    guarded = sessions.admin.execute("select distinct polrelid::regclass::text from pg_policy order by 1").fetchall()
    partition = "rag_index.embedding_0"  # read and written through its table, whose policies hold
    assert [table for (table,) in guarded] == sorted({*TABLES} - {partition})


def test_there_are_mutants_of_every_kind(sessions: Sessions) -> None:
    """A query that finds nothing would be a proof of nothing."""
    assert {mutant.kind for mutant in mutants.mutants(sessions.admin)} == {*LESS, *MORE, mutants.BINDING}


def test_B07_no_mutant_of_the_day_survives(spent: Database, sessions: Sessions) -> None:
    seed = mutants.today()
    print(f"python -m tests.tenancy.mutants --sample {SAMPLE} --seed {seed}")
    survived, _ = mutants.survivors(spent, sessions, mutants.sample(mutants.mutants(sessions.admin), SAMPLE, seed))
    assert [str(mutant) for mutant in survived] == []


def test_the_same_day_chooses_the_same_mutants(sessions: Sessions) -> None:
    found = mutants.mutants(sessions.admin)
    assert mutants.sample(found, 40, "2026-01-01") == mutants.sample(found, 40, "2026-01-01")
    assert mutants.sample(found, 40, "2026-01-01") != mutants.sample(found, 40, "2026-01-02")
