"""Loading files: in batches, each file whole, with what is refused as file and line.

A batch is one transaction (:func:`load_files`) or one savepoint of a transaction (:func:`load`). Documents that are
there already are asked for by the SHA-256 of their bodies, only the others are sent; what is the same is the
database's to say. While the database works, the next batch is read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from rag_sql._files import STDIN, Defaults, FileDocument, Found, line_of, read_file, shown
from rag_sql._passages import outline
from rag_sql._store import EvidenceStore
from rag_sql._tenant import Tenant
from rag_sql.errors import FileRefused, RagSqlError, VersionConflict

__all__ = ["LoadReport", "batches", "load", "load_files", "refusal", "refused_position"]

#: A batch is one call of load_documents: large enough to be few, small enough to stay out of memory's way.
_BATCH_DOCUMENTS = 5000
_BATCH_BYTES = 8 * 1024 * 1024

#: Called with the bytes and the number of documents that are done; both are negative where work has to be done again.
Advance = Callable[[int, int], None]


@dataclass
class LoadReport:
    """What a load did.

    Attributes
    ----------
    files : int
        Files that are dealt with.
    new, same, empty : int
        Documents that are new, or were there already; files without any text.
    superseded : int
        New documents that a version which is there supersedes, or other documents: they were loaded and are not used.
    spans : int
        Spans of the new documents.
    refused : list of FileRefused
        Files that were refused, each whole.
    """

    files: int = 0
    new: int = 0
    same: int = 0
    empty: int = 0
    superseded: int = 0
    spans: int = 0
    refused: list[FileRefused] = field(default_factory=list)

    def add(self, other: LoadReport) -> None:
        """Count another load in."""
        self.files += other.files
        self.new += other.new
        self.same += other.same
        self.empty += other.empty
        self.superseded += other.superseded
        self.spans += other.spans
        self.refused += other.refused


# Batches


@dataclass
class _Part:
    """Documents of one file for one call; `more` of them may follow."""

    documents: list[FileDocument] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)
    size: int = 0
    more: bool = False

    def takes(self, other: _Part) -> bool:
        """Whether both fit into one call, in which no version may stand twice."""
        return (
            len(self.documents) + len(other.documents) <= _BATCH_DOCUMENTS
            and self.size + other.size <= _BATCH_BYTES
            and self.keys.isdisjoint(other.keys)
        )

    def add(self, other: _Part) -> None:
        self.documents += other.documents
        self.keys |= other.keys
        self.size += other.size


def _parts(documents: Iterable[FileDocument]) -> Iterator[_Part]:
    part = _Part()
    for document in documents:
        if part.documents and (
            len(part.documents) == _BATCH_DOCUMENTS
            or part.size + document.size > _BATCH_BYTES
            or document.key in part.keys
        ):
            part.more = True
            yield part
            part = _Part()
        part.documents.append(document)
        part.keys.add(document.key)
        part.size += document.size
    yield part


@dataclass(eq=False)
class _File:
    """A file, the documents of it that were read, and those that did not fit into one call, still unread."""

    number: int
    part: _Part
    rest: Iterator[_Part]
    refused: FileRefused | None = None


def batches(files: Iterable[Iterable[FileDocument]]) -> Iterator[list[_File]]:
    """Files in groups that are loaded in one call; a file with more documents than that stands alone."""
    batch: list[_File] = []
    together = _Part()
    for number, documents in enumerate(files):
        file = _File(number, _Part(), _parts(documents))
        try:
            file.part = next(file.rest)
        except FileRefused as error:
            file.refused = error
        if batch and (file.part.more or len(batch) >= _BATCH_DOCUMENTS or not together.takes(file.part)):
            yield batch
            batch, together = [], _Part()
        batch.append(file)
        together.add(file.part)
        if file.part.more:
            yield batch
            batch, together = [], _Part()
    if batch:
        yield batch


def _ahead(items: Iterator[list[_File]]) -> Iterator[list[_File]]:
    """The same items, each read while its predecessor is used."""
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = reader.submit(next, items, None)
            yield item


# Loading


def _nothing(_size: int, _documents: int) -> None:
    pass


def load(
    tenant: Tenant,
    files: Sequence[Found],
    defaults: Defaults,
    advance: Advance = _nothing,
    report: LoadReport | None = None,
    *,
    atomic: bool = True,
) -> LoadReport:
    """Load files for a bound tenant, inside the tenant's transaction.

    Parameters
    ----------
    tenant : Tenant
    files : sequence of Found
        From :func:`find_files`.
    defaults : Defaults
    advance : callable
        Called with the bytes and the number of documents done, as work proceeds.
    report : LoadReport, optional
        Counted into, so that it is known how far a load came that an error ended.
    atomic : bool
        Whether a file that is refused refuses all: leave the tenant's block with the error and nothing is loaded.
        Otherwise the file refuses itself, whole, and is listed in the report.

    Raises
    ------
    FileRefused
        With file, line and reason.
    """
    assert tenant.name is not None
    found = LoadReport() if report is None else report
    return _Load(tenant.name, tenant.savepoint, files, defaults, advance, found, atomic).run()


def load_files(
    store: EvidenceStore,
    tenant: str,
    files: Sequence[Found],
    defaults: Defaults,
    advance: Advance = _nothing,
    report: LoadReport | None = None,
) -> LoadReport:
    """Load files for a tenant, batch by batch, each in a transaction of its own; parameters as for :func:`load`.

    A load that is interrupted has stored the batches that `report` counts, each file whole; run again, it finds them
    to be the same and goes on. A file that is refused refuses itself.
    """
    found = LoadReport() if report is None else report
    return _Load(tenant, lambda: store.tenant(tenant), files, defaults, advance, found, atomic=False).run()


class _Refusal(Exception):
    """Which file of a batch was refused, and why."""

    def __init__(self, file: _File, error: FileRefused) -> None:
        super().__init__(error.message)
        self.file = file
        self.error = error


@dataclass
class _Load:
    tenant: str
    begin: Callable[[], AbstractContextManager[Tenant]]
    files: Sequence[Found]
    defaults: Defaults
    advance: Advance
    report: LoadReport
    atomic: bool
    # Which documents were loaded (the key of each), and where they stand (number of the file, line): 16 bytes for each.
    keys: array[int] = field(default_factory=lambda: array("q"))
    places: array[int] = field(default_factory=lambda: array("I"))

    def run(self) -> LoadReport:
        read = batches(map(self._read, self.files))
        # Who waits for standard input in another thread cannot be interrupted.
        for batch in read if any(found.path == STDIN for found in self.files) else _ahead(read):
            self._load(batch)
        return self.report

    def _read(self, found: Found) -> Iterator[FileDocument]:
        if found.problem:
            raise FileRefused(shown(found.path), 0, found.problem)
        yield from read_file(Path(found.path), found.root, self.tenant, self.defaults)

    def _load(self, batch: list[_File]) -> None:
        for file in batch:
            if file.refused:
                self._refuse(file.refused)
        waiting = [[file for file in batch if not file.refused]]
        while waiting:
            files = waiting.pop()
            if not files:
                continue
            attempt = _Attempt(self, files)
            try:
                with self.begin() as tenant:
                    attempt.run(tenant)
            except _Refusal as refusal:
                attempt.undo()
                self._refuse(refusal.error)
                # The others go again without it, in halves: where many are refused, most are not sent many times. A
                # file of several parts stands alone, so nothing that was read is lost.
                files.remove(refusal.file)
                half = len(files) // 2
                waiting += [files[half:], files[:half]]
            else:
                self.report.add(attempt.report)

    def _refuse(self, error: FileRefused) -> None:
        if self.atomic:
            raise error
        # Kept to the end, without what it would keep alive: its frames hold the batch.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        self.report.add(LoadReport(files=1, refused=[error]))

    def place_of(self, key: int) -> str:
        """Where a document stands that this load has loaded; empty when it has not."""
        if key not in self.keys:
            return ""
        position = self.keys.index(key)
        number, line = self.places[2 * position : 2 * position + 2]
        return f"{shown(self.files[number].path)}:{line}"


class _Attempt:
    """Files that are loaded together, each to its end."""

    def __init__(self, load: _Load, files: list[_File]) -> None:
        self._load = load
        self._files = files
        self._known = len(load.keys)
        self._size = self._documents = 0
        self.report = LoadReport(files=len(files), empty=sum(not file.part.documents for file in files))

    def run(self, tenant: Tenant) -> None:
        """Load them; a file that is refused is raised as `_Refusal`."""
        self._load_part(tenant, [(file, document) for file in self._files for document in file.part.documents])
        for file in self._files:
            try:
                for part in file.rest:
                    self._load_part(tenant, [(file, document) for document in part.documents])
            except FileRefused as error:
                raise _Refusal(file, error) from error

    def undo(self) -> None:
        """Forget what was counted."""
        del self._load.keys[self._known :]
        del self._load.places[2 * self._known :]
        self._load.advance(-self._size, -self._documents)

    def _load_part(self, tenant: Tenant, part: list[tuple[_File, FileDocument]]) -> None:
        same = tenant.same_documents([entry.document for _, entry in part]) if part else set()
        others = [pair for position, pair in enumerate(part) if position not in same]
        defaults = self._load.defaults
        for _, entry in others:
            # What is the same need not be cut. A body that is none is the database's to refuse.
            if isinstance(body := entry.document.get("body"), str):
                entry.document["outline"] = outline(body, target=defaults.passage_target, limit=defaults.passage_limit)
        try:
            loaded = tenant.load_documents([entry.document for _, entry in others]) if others else []
        except RagSqlError as error:
            raise self._refusal(error, others) from error
        self.report.same += len(same)
        for (_, entry), document in zip(others, loaded, strict=True):
            if document.status == "new":
                self.report.new += 1
                self.report.spans += len(entry.document.get("spans", ()))
                self.report.superseded += document.superseded_by is not None or document.successors is not None
            else:
                self.report.same += 1
        self._load.keys.extend(entry.key for _, entry in part)
        for file, entry in part:
            self._load.places.extend((file.number, entry.lines.get("id", entry.lines[""])))
        size = sum(entry.size for _, entry in part)
        self._size += size
        self._documents += len(part)
        self._load.advance(size, len(part))

    def _refusal(self, error: RagSqlError, part: list[tuple[_File, FileDocument]]) -> Exception:
        position = refused_position(error, [entry for _, entry in part])
        if position is None:
            return error
        file, entry = part[position]
        reason = error.message
        # A version that two files state alike is loaded once; where they contradict each other, both are named.
        if isinstance(error, VersionConflict) and (place := self._load.place_of(entry.key)):
            reason = f"{reason}; {place} states it too"
        return _Refusal(file, refusal(error, entry, reason))


def refused_position(error: RagSqlError, batch: Sequence[FileDocument]) -> int | None:
    """Which document of a batch an error is about; None where it is about none."""
    position = error.column.partition(".")[0]
    if position.isdigit():
        return int(position)
    # A span was refused while it was stored: document, version and span are named.
    for number, entry in enumerate(batch):
        if error.table and (entry.document["id"], str(entry.document["version"])) == (error.table, error.datatype):
            return number
    return None


def refusal(error: RagSqlError, entry: FileDocument, reason: str = "") -> FileRefused:
    """An error that is about a document, as file and line."""
    path = error.column.partition(".")[2]
    if not error.column:
        spans = [span["id"] for span in entry.document["spans"]]
        path = f"spans.{spans.index(error.constraint)}.quote"
    return FileRefused(
        shown(entry.path),
        line_of(entry.lines, path),
        reason or error.message,
        detail=error.detail,
        hint=error.hint,
        cause_code=error.sqlstate,
    )
