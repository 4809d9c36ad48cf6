"""Batches of files that are loaded together, and refusals of the database as file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_sql import _loading
from rag_sql._files import FileDocument
from rag_sql._loading import batches, refusal, refused_position
from rag_sql.errors import InvalidDocument, InvalidRequest, QuoteNotFound
from tests.unit.conftest import Write
from tests.unit.test_files import FULL, one

# Batches


def entry(number: int, size: int = 1) -> FileDocument:
    return FileDocument({"id": str(number), "version": 1}, Path("d.md"), {"": 1}, size)


def one_each(entries: Iterable[FileDocument]) -> Iterator[list[FileDocument]]:
    """Each document in a file of its own."""
    return ([entry] for entry in entries)


def test_batches_are_bounded_in_number_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loading, "_BATCH_DOCUMENTS", 3)
    monkeypatch.setattr(_loading, "_BATCH_BYTES", 10)
    sizes = [1, 1, 1, 1, 5, 5, 11, 10, 1]
    found = [[file.part.size for file in batch] for batch in batches(one_each(map(entry, range(9), sizes)))]
    assert found == [[1, 1, 1], [1, 5], [5], [11], [10], [1]]
    assert list(batches([])) == []


@settings(deadline=None, max_examples=100)
@given(sizes=st.lists(st.integers(1, 6 * 1024 * 1024), max_size=30))
def test_batches_keep_the_order_and_every_document(sizes: list[int]) -> None:
    given_ = [entry(number, size) for number, size in enumerate(sizes)]
    found = [document for batch in batches(one_each(given_)) for file in batch for document in file.part.documents]
    assert found == given_


def test_a_file_of_many_documents_stands_alone_and_is_read_as_it_is_asked_for() -> None:
    """It does not have to fit into memory, and it can be undone whole."""
    asked = []

    def documents() -> Iterator[FileDocument]:
        for number in range(20000):
            asked.append(number)
            yield entry(number)

    files = [*one_each([entry(300000)]), documents(), *one_each([entry(400000)])]
    groups = list(batches(files))
    assert [[len(file.part.documents) for file in group] for group in groups] == [[1], [5000], [1]]
    assert len(asked) == 5001
    assert [len(part.documents) for part in groups[1][0].rest] == [5000, 5000, 5000]


def test_a_version_stands_once_in_a_batch_and_once_in_a_part() -> None:
    """What states it again comes after it, and the database says whether it is the same."""
    groups = list(batches([[entry(1)], [entry(2)], [entry(1)], [entry(3), entry(4), entry(3)]]))
    assert [[len(file.part.documents) for file in group] for group in groups] == [[1, 1], [1], [2]]
    assert [len(part.documents) for part in groups[2][0].rest] == [1]


def test_files_without_documents_do_not_make_a_batch_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loading, "_BATCH_DOCUMENTS", 3)
    assert [len(group) for group in batches([[]] * 7)] == [3, 3, 1]


# Refusals of the database, as file and line


def test_a_refusal_names_the_line_of_the_value_or_of_what_is_around_it(write: Write) -> None:
    batch = [one(write("a.md", "Body")), one(write("b.md", FULL))]
    for path, line in (
        ("spans.0.quote", 15),
        ("spans.0.nothing", 13),
        ("applies_to.model", 7),
        ("applies_to.model.0", 7),
        ("body", 20),
        ("published", 10),
    ):
        error = InvalidDocument("wrong", column=f"1.{path}", detail="d", hint="h")
        assert refused_position(error, batch) == 1
        found = refusal(error, batch[1])
        assert (found.path, found.line, found.detail, found.hint) == (str(batch[1].path), line, "d", "h")
        assert found.cause_code == "RS020"
        assert found.message == f"{batch[1].path}:{line}: wrong"


def test_a_span_that_is_refused_names_the_line_of_its_quotation(write: Write) -> None:
    batch = [one(write("a.md", "Body")), one(write("b.md", FULL))]
    error = QuoteNotFound("not there", table="HOLD-7", datatype="3", constraint="s1")
    assert refused_position(error, batch) == 1
    found = refusal(error, batch[1])
    assert (found.path, found.line, found.cause_code) == (str(batch[1].path), 15, "RS023")


def test_a_refusal_may_be_about_no_document(write: Write) -> None:
    batch = [one(write("b.md", FULL))]
    for error in (InvalidRequest("no"), QuoteNotFound("no", table="OTHER", datatype="1", constraint="s")):
        assert refused_position(error, batch) is None
