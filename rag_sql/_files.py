"""Files that people write: Markdown with front matter, JSON lines, contracts in YAML.

Reading gives documents as ``rag_api.load_documents`` takes them, each with where it came from; what a value must be is
decided in one place, the database, whose errors name the value's path: :func:`refusal` turns that into file and line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_sql._tenant import Tenant
from rag_sql._yaml import Lines, YamlFault, parse, unfit
from rag_sql.errors import FileRefused, RagSqlError

__all__ = ["Defaults", "FileDocument", "LoadReport", "batches", "find_files", "load", "read_contract", "read_file"]

_MARKDOWN = {".md", ".markdown"}
_JSON_LINES = {".jsonl", ".ndjson"}
_KEYS = {"id", "version", "tenant", "title", "applies_to", "effective_from", "published", "source", "metadata", "spans"}
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

#: A batch is one call of load_documents: large enough to be few, small enough to stay out of memory's way.
_BATCH_DOCUMENTS = 500
_BATCH_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Defaults:
    """What plain Markdown does not say of itself.

    Attributes
    ----------
    id_prefix : str
        Put before the path (without suffix) that serves as id where a file states none.
    version : int
        Where a file states none.
    applies_to : mapping of str to sequence of str
        Added to what a file states; a file that states other values for one of these attributes is refused.
    """

    id_prefix: str = ""
    version: int = 1
    applies_to: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class FileDocument:
    """A document as the database takes it, and where it was read.

    Attributes
    ----------
    document : dict
    path : pathlib.Path
    lines : dict of str to int
        Line of each value, by path; the path "" is the document itself.
    size : int
        Bytes of the file that this document took.
    """

    document: dict[str, Any]
    path: Path
    lines: Lines
    size: int


@dataclass
class LoadReport:
    """What a load did.

    Attributes
    ----------
    new, same, empty : int
        Documents that are new, or were there already; files without any text.
    superseded : int
        New documents that a version which is there supersedes: they were loaded and are not used.
    spans : int
        Spans of the new documents.
    refused : list of FileRefused
        Files that were refused, each whole.
    """

    new: int = 0
    same: int = 0
    empty: int = 0
    superseded: int = 0
    spans: int = 0
    refused: list[FileRefused] = field(default_factory=list)

    def add(self, other: LoadReport) -> None:
        """Count another load in."""
        self.new += other.new
        self.same += other.same
        self.empty += other.empty
        self.superseded += other.superseded
        self.spans += other.spans


def find_files(paths: Iterable[Path]) -> list[tuple[Path, Path]]:
    """Files to read, each with the folder that its id is relative to; folders are searched for Markdown and JSON lines.

    Raises
    ------
    FileRefused
        A path does not exist, or is a file of another kind.
    """
    found: list[tuple[Path, Path]] = []
    for path in paths:
        if path.is_dir():
            files = sorted(
                (file for file in path.rglob("*") if file.suffix.lower() in _MARKDOWN | _JSON_LINES and file.is_file()),
                key=lambda file: file.as_posix(),
            )
            if not files:
                raise FileRefused(str(path), 0, "no Markdown (.md, .markdown) or JSON lines (.jsonl, .ndjson) in it")
            found.extend((file, path) for file in files)
        elif not path.exists():
            raise FileRefused(str(path), 0, "there is no such file or folder")
        elif path.suffix.lower() in _MARKDOWN | _JSON_LINES:
            found.append((path, path.parent))
        else:
            raise FileRefused(str(path), 0, "neither Markdown (.md, .markdown) nor JSON lines (.jsonl, .ndjson)")
    return found


def read_file(path: Path, root: Path, tenant: str, defaults: Defaults) -> Iterator[FileDocument]:
    """Read the documents of one file.

    Parameters
    ----------
    path, root : pathlib.Path
        The file, and the folder that its id is relative to.
    tenant : str
        The tenant that is loaded for; a document that names another is refused.
    defaults : Defaults

    Raises
    ------
    FileRefused
    """
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise FileRefused(
            str(path), 0, f"is a symbolic link out of {root}", hint="Load the file that it points to by its own name."
        )
    text = _read_text(path)
    if path.suffix.lower() in _JSON_LINES:
        yield from _read_json_lines(path, text, tenant, defaults)
        return
    match = _FRONT_MATTER.match(text)
    if match is None and re.match(r"---[ \t]*\r?\n", text):
        raise FileRefused(str(path), 1, "the front matter has no end", hint="Close it with a line of three hyphens.")
    values, lines = _parse(path, match.group(1), 2) if match else (None, {})
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise FileRefused(str(path), 2, "the front matter must be a mapping")
    for key in values.keys() & _KEYS:
        # Left empty, `applies_to` would widen to every case and `version` fall back to the default.
        if values[key] is None:
            raise FileRefused(str(path), lines[key], f"{key} has no value", hint="Give it one, or leave the key out.")
    document = _with_metadata(values, _KEYS, path, {"": 1, **lines})
    body = text[match.end() :] if match else text
    if not body.strip():
        return
    document["body"] = body
    lines["body"] = text[: match.end()].count("\n") + 1 if match else 1
    document.setdefault("id", defaults.id_prefix + path.relative_to(root).with_suffix("").as_posix())
    _whole_numbers(document)
    yield _finish(document, path, {"": 1, **lines}, len(text.encode()), tenant, defaults)


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileRefused(str(path), 0, f"cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")  # a byte order mark is no part of the text
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileRefused(str(path), line, f"not UTF-8: byte {error.start} of the file") from error
    if "\0" in text:
        raise FileRefused(str(path), text.count("\n", 0, text.index("\0")) + 1, "contains a NUL character")
    return text


def _parse(path: Path, text: str, first_line: int) -> tuple[Any, Lines]:
    try:
        return parse(text, first_line)
    except YamlFault as fault:
        raise FileRefused(str(path), fault.line, fault.reason) from fault


def _read_json_lines(path: Path, text: str, tenant: str, defaults: Defaults) -> Iterator[FileDocument]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise FileRefused(str(path), number, f"not JSON: {error}") from error
        if not isinstance(document, dict):
            raise FileRefused(str(path), number, "a line must be a JSON object")
        if problem := _unfit(document):  # JSON escapes can write what no file in UTF-8 holds
            raise FileRefused(str(path), number, problem)
        yield _finish(
            _with_metadata(document, _KEYS | {"body"}, path, {"": number}),
            path,
            {"": number},
            len(line.encode()) + 1,
            tenant,
            defaults,
        )


def _bare(key: str) -> str:
    """A key without what people vary: case, hyphens, a plural's s."""
    return re.sub(r"[\W_]", "", key.lower()).removesuffix("s")


def _with_metadata(values: dict[str, Any], keys: set[str], path: Path, lines: Lines) -> dict[str, Any]:
    """Values with those that the store has no key for under ``metadata``, beside what stands there already."""
    document = {key: value for key, value in values.items() if key in keys}
    other = {key: value for key, value in values.items() if key not in keys}
    for key in other:
        # Kept as metadata, `applies-to` would widen the document to every case and `span` would be checked by nobody.
        meant = [known for known in keys if _bare(known) == _bare(key)]
        if meant:
            raise FileRefused(
                str(path),
                lines.get(key, lines.get("", 0)),
                f"{key} is no key; is {meant[0]} meant?",
                hint="Keep it under metadata if it is not.",
            )
    stated = document.get("metadata", {})
    if other and isinstance(stated, dict):
        document["metadata"] = {**stated, **other}
    return document


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _unfit(value: Any) -> str:
    """What makes a text unfit to be stored, in a value or anything inside it; empty when nothing does."""
    if isinstance(value, dict):
        return next(filter(None, map(_unfit, (*value.keys(), *value.values()))), "")
    if isinstance(value, list):
        return next(filter(None, map(_unfit, value)), "")
    return unfit(value) if isinstance(value, str) else ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands more than once")
    return dict(pairs)


def _whole_numbers(document: dict[str, Any]) -> None:
    """YAML gives texts; the keys that hold whole numbers are converted, and what is none is left to be refused."""
    spans = document.get("spans")
    holders = [(document, "version")] + [
        (span, "occurrence") for span in (spans if isinstance(spans, list) else []) if isinstance(span, dict)
    ]
    for holder, key in holders:
        value = holder.get(key)
        if isinstance(value, str) and len(value) <= 10 and value.isascii() and value.isdigit():
            holder[key] = int(value)


def _finish(
    document: dict[str, Any], path: Path, lines: Lines, size: int, tenant: str, defaults: Defaults
) -> FileDocument:
    """Apply defaults, and check what only the client knows: which tenant is meant."""
    document.setdefault("version", defaults.version)
    stated = document.pop("tenant", tenant)
    if stated != tenant:
        raise FileRefused(
            str(path), lines.get("tenant", lines[""]), f"is a document of tenant {stated!r}, not of {tenant!r}"
        )
    applies_to = document.get("applies_to", {})
    if isinstance(applies_to, dict):
        applies_to = {
            attribute: [values] if isinstance(values, str) else values for attribute, values in applies_to.items()
        }
        for attribute, values in defaults.applies_to.items():
            stated_values = applies_to.setdefault(attribute, list(values))
            if not isinstance(stated_values, list) or set(map(str, stated_values)) != set(values):
                raise FileRefused(
                    str(path),
                    lines.get(f"applies_to.{attribute}", lines[""]),
                    f"states {attribute} {applies_to[attribute]}, the command line states {list(values)}",
                )
        document["applies_to"] = applies_to
    return FileDocument(document, path, lines, size)


@dataclass(frozen=True)
class _File:
    """Documents of one file; `rest` are those that did not fit into one call, still unread."""

    path: Path
    documents: list[FileDocument]
    size: int
    rest: Iterator[FileDocument]

    @property
    def is_large(self) -> bool:
        """Whether there may be a rest."""
        return len(self.documents) >= _BATCH_DOCUMENTS or self.size >= _BATCH_BYTES


def _read_part(documents: Iterator[FileDocument]) -> list[FileDocument]:
    """Documents for one call of load_documents."""
    part: list[FileDocument] = []
    size = 0
    for document in documents:
        part.append(document)
        size += document.size
        if len(part) >= _BATCH_DOCUMENTS or size >= _BATCH_BYTES:
            break
    return part


def batches(
    files: Iterable[tuple[Path, Iterator[FileDocument]]], refuse: Callable[[FileRefused], None]
) -> Iterator[list[_File]]:
    """Files in groups that are loaded in one call; a file with more documents than that stands alone."""
    batch: list[_File] = []
    count = size = 0
    for path, documents in files:
        try:
            part = _read_part(documents)
        except FileRefused as error:
            refuse(error)
            continue
        file = _File(path, part, sum(document.size for document in part), documents)
        if batch and (file.is_large or count + len(part) > _BATCH_DOCUMENTS or size + file.size > _BATCH_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(file)
        count += len(part)
        size += file.size
        if file.is_large:
            yield batch
            batch, count, size = [], 0, 0
    if batch:
        yield batch


def load(
    tenant: Tenant,
    files: Sequence[tuple[Path, Path]],
    defaults: Defaults,
    advance: Callable[[int], None] = lambda _files: None,
    *,
    atomic: bool = True,
) -> LoadReport:
    """Load files for a bound tenant, in batches, inside the tenant's transaction.

    Parameters
    ----------
    tenant : Tenant
    files : sequence of (path, root)
        From :func:`find_files`.
    defaults : Defaults
    advance : callable
        Called with the number of files done, as work proceeds.
    atomic : bool
        Whether a file that is refused refuses all: leave the tenant's block with the error and nothing is loaded.
        Otherwise the file refuses itself, whole, and is listed in the report.

    Raises
    ------
    FileRefused
        With file, line and reason.
    """
    report = LoadReport()
    assert tenant.name is not None

    def refuse(error: FileRefused) -> None:
        if atomic:
            raise error
        report.refused.append(error)

    def read() -> Iterator[tuple[Path, Iterator[FileDocument]]]:
        for path, root in files:
            yield path, read_file(path, root, str(tenant.name), defaults)

    for batch in batches(read(), refuse):
        waiting = batch
        while waiting:
            try:
                with tenant.savepoint():
                    found = _load_batch(tenant, waiting)
            except FileRefused as error:
                refuse(error)
                # The others go again without it; a large file stands alone, so nothing that was read is lost.
                waiting = [file for file in waiting if str(file.path) != error.path]
            else:
                report.add(found)
                break
        advance(len(batch))
    return report


def _load_batch(tenant: Tenant, batch: Sequence[_File]) -> LoadReport:
    """Load files together, each to its end."""
    report = LoadReport(empty=sum(not file.documents for file in batch))
    part = [document for file in batch for document in file.documents]
    while part:
        try:
            loaded = tenant.load_documents([entry.document for entry in part])
        except RagSqlError as error:
            raise refusal(error, part) from error
        for entry, document in zip(part, loaded, strict=True):
            if document.status == "new":
                report.new += 1
                report.spans += len(entry.document.get("spans", ()))
                report.superseded += document.superseded_by is not None
            else:
                report.same += 1
        part = [document for file in batch for document in _read_part(file.rest)]
    return report


def refusal(error: RagSqlError, batch: Sequence[FileDocument]) -> RagSqlError:
    """The error as file and line, where it says which document and which value it is about; else the error itself."""
    position, _, path = error.column.partition(".")
    if position.isdigit():
        entry = batch[int(position)]
    elif error.table:
        # A span was refused while it was stored: document, version and span are named.
        matching = [
            entry
            for entry in batch
            if (entry.document["id"], str(entry.document["version"])) == (error.table, error.datatype)
        ]
        if not matching:
            return error
        entry = matching[0]
        spans = [span["id"] for span in entry.document["spans"]]
        path = f"spans.{spans.index(error.constraint)}.quote"
    else:
        return error
    return FileRefused(
        str(entry.path),
        _line(entry.lines, path),
        error.message,
        detail=error.detail,
        hint=error.hint,
        cause_code=error.sqlstate,
    )


def _line(lines: Lines, path: str) -> int:
    """Line of a value, or of the nearest thing around it that has one."""
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path, 0)


def read_contract(path: Path, tenant: str) -> tuple[str, int, dict[str, Any], Lines]:
    """Read a contract: question id, version, content, and the line of each value.

    Raises
    ------
    FileRefused
        Not a mapping, another tenant's, or without a whole number for its version.
    """
    values, lines = _parse(path, _read_text(path), 1)
    if not isinstance(values, dict):
        raise FileRefused(str(path), 1, "a contract must be a mapping")
    stated = values.pop("tenant", tenant)
    if stated != tenant:
        raise FileRefused(str(path), lines["tenant"], f"is a contract of tenant {stated!r}, not of {tenant!r}")
    for key in ("question", "version"):
        if not isinstance(values.get(key), str):
            raise FileRefused(str(path), lines.get(key, 1), f"{key} is missing")
    version = values.pop("version")
    if not (len(version) <= 10 and version.isascii() and version.isdigit() and 0 < int(version) < 2**31):
        raise FileRefused(str(path), lines["version"], "version must be a whole number from 1")
    return values.pop("question"), int(version), values, lines


def contract_refusal(error: RagSqlError, path: Path, lines: Lines) -> FileRefused:
    """A contract's refusal by the database, as file and line."""
    return FileRefused(
        str(path),
        _line(lines, error.column) or 1,
        error.message,
        detail=error.detail,
        hint=error.hint,
        cause_code=error.sqlstate,
    )
