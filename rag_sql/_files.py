"""Files that people write: Markdown with front matter, JSON lines, contracts in YAML.

Reading gives documents as ``rag_api.load_documents`` takes them, each with where it came from; what a value must be is
decided in one place, the database, whose errors name the value's path: :func:`refusal` turns that into file and line.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rag_sql._passages import LIMIT, TARGET
from rag_sql._yaml import Lines, YamlFault, parse, unfit
from rag_sql.errors import FileRefused, RagSqlError

__all__ = [
    "STDIN",
    "Defaults",
    "FileDocument",
    "Found",
    "find_files",
    "line_of",
    "parse_line",
    "read_contract",
    "read_file",
    "shown",
]

#: The path that stands for standard input.
STDIN = "-"

_MARKDOWN = {".md", ".markdown"}
_JSON_LINES = {".jsonl", ".ndjson"}
#: As JSON writes a number.
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,8})(\.\d{1,9})?")

_KEYS = set(
    "id version tenant title applies_to effective_from published source language metadata spans successors"
    " superseded_from".split()
)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


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
    passage_target, passage_limit : int
        Tokens that passages are filled to, and that none exceeds.
    language : str
        The text search configuration of files that state none; empty: the database's default.
    """

    id_prefix: str = ""
    version: int = 1
    applies_to: Mapping[str, Sequence[str]] = field(default_factory=dict)
    passage_target: int = TARGET
    passage_limit: int = LIMIT
    language: str = ""


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

    @property
    def key(self) -> int:
        """Stands for id and version, as they are stated: documents of one version have the same."""
        return hash((str(self.document.get("id")), str(self.document.get("version"))))


class Found(NamedTuple):
    """A file to read, or what cannot be read.

    Attributes
    ----------
    path : str
    root : pathlib.Path
        The folder that its id is relative to.
    problem : str
        Why it is refused before it is read; empty when it is not.
    """

    path: str
    root: Path
    problem: str = ""


def find_files(paths: Iterable[Path]) -> list[Found]:
    """Files to read, in the order of their paths.

    Parameters
    ----------
    paths : iterable of pathlib.Path
        A folder is searched for Markdown and JSON lines, whatever its depth. A pattern that names nothing itself, such
        as ``docs/**/*.md``, stands for the files that match it and those in folders that match it; its ids are
        relative to what stands before its first wildcard. ``-`` is standard input, as JSON lines.

        A symbolic link to a folder is not followed: inside the folder that is searched, what it leads to is found under
        its own name, and one that leads out is refused.

    Raises
    ------
    FileRefused
        A path or a pattern leads to nothing, or is a file of another kind.
    """
    found: list[Found] = []
    for path in paths:
        try:
            found += _find(path)
        except OSError as error:
            raise FileRefused(shown(path), 0, f"cannot be read: {error.strerror}") from error
    return found


def _find(path: Path) -> list[Found]:
    fixed = Path(*itertools.takewhile(lambda part: not _is_wild(part), path.parts))
    if str(path) == STDIN:
        return [Found(STDIN, Path())]
    if path.is_dir():
        found = list(_walk(path, ()))
        problem = "no Markdown (.md, .markdown) or JSON lines (.jsonl, .ndjson) in it"
    elif path.exists() or path.is_symlink():
        found = [Found(str(path), path.parent)] if path.suffix.lower() in _MARKDOWN | _JSON_LINES else []
        problem = "neither Markdown (.md, .markdown) nor JSON lines (.jsonl, .ndjson)"
    elif fixed != path:
        found = list(_walk(fixed, path.parts[len(fixed.parts) :])) if fixed.is_dir() else []
        problem = "no Markdown or JSON lines file matches"
    else:
        found, problem = [], "there is no such file or folder"
    if not found:
        raise FileRefused(shown(path), 0, problem)
    return found


def _is_wild(part: str) -> bool:
    return any(character in part for character in "*?[")


def _matches(names: Sequence[str], pattern: Sequence[str], *, so_far: bool = False) -> bool:
    """Whether a path, or a folder above it, matches a pattern; `so_far`: whether something below it may."""
    if not pattern:
        return True
    if not names:
        return so_far or all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return _matches(names, pattern[1:], so_far=so_far) or _matches(names[1:], pattern, so_far=so_far)
    return fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:], so_far=so_far)


def _walk(root: Path, pattern: Sequence[str]) -> Iterator[Found]:
    """What there is to read under a folder, where a pattern does not leave it out."""
    waiting: list[tuple[Iterator[os.DirEntry[str]], tuple[str, ...]]] = []

    def enter(folder: str, names: tuple[str, ...]) -> Iterator[Found]:
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name + "/" * _leads_to(entry, "is_dir"))
        except OSError as error:
            yield Found(folder, root, f"cannot be read: {error.strerror}")
        else:
            waiting.append((iter(ordered), names))

    yield from enter(str(root), ())
    while waiting:
        entries, above = waiting[-1]
        entry = next(entries, None)
        if entry is None:
            waiting.pop()
            continue
        names = (*above, entry.name)
        if _leads_to(entry, "is_dir"):
            if not _matches(names, pattern, so_far=True):
                continue
            if not entry.is_symlink():
                yield from enter(entry.path, names)
            elif _leads_out(entry.path, root):
                yield Found(entry.path, root, f"is a symbolic link out of {shown(root)}")
        elif Path(entry.name).suffix.lower() in _MARKDOWN | _JSON_LINES and _matches(names, pattern):
            is_readable = entry.is_symlink() or _leads_to(entry, "is_file")
            yield Found(entry.path, root, "" if is_readable else "is no regular file")


def _leads_to(entry: os.DirEntry[str], kind: str) -> bool:
    """Whether an entry, or what it links to, is of a kind; a link that leads nowhere or round in circles is of none."""
    try:
        return bool(getattr(entry, kind)())
    except OSError:
        return False


def _leads_out(path: str, root: Path) -> bool:
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def shown(path: str | Path) -> str:
    """A path as it can be printed, whatever bytes it has."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


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
    if str(path) == STDIN:
        yield from _read_json_lines(Path("standard input"), sys.stdin.buffer, tenant, defaults)
        return
    if path.is_symlink() and _leads_out(str(path), root):
        raise FileRefused(
            shown(path),
            0,
            f"is a symbolic link out of {shown(root)}",
            hint="Load the file that it points to by its own name.",
        )
    if path.suffix.lower() in _JSON_LINES:
        with _opened(path) as file:
            yield from _read_json_lines(path, file, tenant, defaults)
    else:
        yield from _read_markdown(path, root, tenant, defaults)


def _read_markdown(path: Path, root: Path, tenant: str, defaults: Defaults) -> Iterator[FileDocument]:
    text = read_text(path)
    match = _FRONT_MATTER.match(text)
    if match is None and re.match(r"---[ \t]*\r?\n", text):
        raise FileRefused(shown(path), 1, "the front matter has no end", hint="Close it with a line of three hyphens.")
    values, lines = _parse(path, match.group(1), 2) if match else (None, {})
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise FileRefused(shown(path), 2, "the front matter must be a mapping")
    for key in values.keys() & _KEYS:
        # Left empty, `applies_to` would widen to every case and `version` fall back to the default.
        if values[key] is None:
            raise FileRefused(shown(path), lines[key], f"{key} has no value", hint="Give it one, or leave the key out.")
    document = _with_metadata(values, _KEYS, path, {"": 1, **lines})
    body = text[match.end() :] if match else text
    if not body or body.isspace():
        return
    document["body"] = body
    lines["body"] = text.count("\n", 0, match.end()) + 1 if match else 1
    if "id" not in document:
        document["id"] = _id_from_path(path, root, defaults)
    _whole_numbers(document)
    lines[""] = 1
    yield _finish(document, path, lines, len(text.encode()), tenant, defaults)


def _id_from_path(path: Path, root: Path, defaults: Defaults) -> str:
    name = "/".join(path.parts[len(root.parts) :]).removesuffix(path.suffix)
    if shown(name) != name:
        raise FileRefused(
            shown(path), 0, "its name is not UTF-8 and cannot be an id", hint="Rename it, or state an id in the file."
        )
    return defaults.id_prefix + name


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise FileRefused(shown(path), 0, f"cannot be read: {error.strerror}") from error


def read_text(path: Path) -> str:
    """The text of a file in UTF-8; FileRefused for what is none."""
    with _opened(path) as file:
        content = file.read()
    return _decode(path, content)


def _decode(path: Path, content: bytes, line: int = 1, start: int = 0) -> str:
    """The text of a file, or of a line of it that begins at byte `start`; a byte order mark is no part of it."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line += content.count(b"\n", 0, error.start)
        raise FileRefused(shown(path), line, f"not UTF-8: byte {start + error.start} of the file") from error
    if "\0" in text:
        raise FileRefused(shown(path), line + text.count("\n", 0, text.index("\0")), "contains a NUL character")
    return text if start else text.removeprefix("\ufeff")


def _parse(path: Path, text: str, first_line: int) -> tuple[Any, Lines]:
    try:
        return parse(text, first_line)
    except YamlFault as fault:
        raise FileRefused(shown(path), fault.line, fault.reason) from fault


def _read_json_lines(path: Path, file: Iterable[bytes], tenant: str, defaults: Defaults) -> Iterator[FileDocument]:
    """Line by line: such a file does not have to fit into memory."""
    start = 0
    for number, content in enumerate(file, start=1):
        line = _decode(path, content, number, start)
        start += len(content)
        if not line or line.isspace():
            continue
        document = _with_metadata(parse_line(path, number, line), _KEYS | {"body"}, path, {"": number})
        yield _finish(document, path, {"": number}, len(content), tenant, defaults)


def parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    """The object on a line of a file of JSON lines.

    Raises
    ------
    FileRefused
    """
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FileRefused(shown(path), number, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise FileRefused(shown(path), number, "a line must be a JSON object")
    if problem := _unfit(value):  # JSON escapes can write what no file in UTF-8 holds
        raise FileRefused(shown(path), number, problem)
    return value


@lru_cache(maxsize=1000)
def _bare(key: str) -> str:
    """A key without what people vary: case, hyphens, a plural's s."""
    return re.sub(r"[\W_]", "", key.lower()).removesuffix("s")


#: The key that is meant, by what is left of it. Kept as metadata, `superseded_by` would leave the document current.
_KEY_MEANT = {_bare(key): key for key in (*_KEYS, "body")} | {_bare("superseded_by"): "successors"}

#: From how alike on (difflib) a key is taken for one of ours misspelt: `aplies_to` is, `publisher` is not.
_ALIKE = 0.9


@lru_cache(maxsize=1000)
def _meant(key: str) -> str | None:
    """The key of ours that another one nearly is."""
    return _KEY_MEANT.get(_bare(key)) or next(iter(get_close_matches(key, _KEY_MEANT.values(), 1, _ALIKE)), None)


def _with_metadata(values: dict[str, Any], keys: set[str], path: Path, lines: Lines) -> dict[str, Any]:
    """Values with those that the store has no key for under ``metadata``, beside what stands there already."""
    document = {key: value for key, value in values.items() if key in keys}
    other = {key: value for key, value in values.items() if key not in keys}
    for key in other:
        # Kept as metadata, `applies-to` would widen the document to every case and `span` would be checked by nobody.
        if (meant := _meant(key)) and meant in keys:
            raise FileRefused(
                shown(path),
                lines.get(key, lines.get("", 0)),
                f"{key} is no key; is {meant} meant?",
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
    if defaults.language:
        document.setdefault("language", defaults.language)
    stated = document.pop("tenant", tenant)
    if stated != tenant:
        raise FileRefused(
            shown(path), lines.get("tenant", lines[""]), f"is a document of tenant {stated!r}, not of {tenant!r}"
        )
    if isinstance(successor := document.get("successors"), str):
        document["successors"] = [successor]
    applies_to = document.get("applies_to", {})
    if isinstance(applies_to, dict):
        applies_to = {
            attribute: [values] if isinstance(values, str) else values for attribute, values in applies_to.items()
        }
        for attribute, values in defaults.applies_to.items():
            stated_values = applies_to.setdefault(attribute, list(values))
            if not isinstance(stated_values, list) or set(map(str, stated_values)) != set(values):
                raise FileRefused(
                    shown(path),
                    lines.get(f"applies_to.{attribute}", lines[""]),
                    f"states {attribute} {applies_to[attribute]}, the command line states {list(values)}",
                )
        document["applies_to"] = applies_to
    return FileDocument(document, path, lines, size)


def line_of(lines: Lines, path: str) -> int:
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
    values, lines = _parse(path, read_text(path), 1)
    if not isinstance(values, dict):
        raise FileRefused(shown(path), 1, "a contract must be a mapping")
    stated = values.pop("tenant", tenant)
    if stated != tenant:
        raise FileRefused(shown(path), lines["tenant"], f"is a contract of tenant {stated!r}, not of {tenant!r}")
    for key in ("question", "version"):
        if not isinstance(values.get(key), str):
            raise FileRefused(shown(path), lines.get(key, 1), f"{key} is missing")
    version = values.pop("version")
    if not (len(version) <= 10 and version.isascii() and version.isdigit() and 0 < int(version) < 2**31):
        raise FileRefused(shown(path), lines["version"], "version must be a whole number from 1")
    if isinstance(ranking := values.get("ranking"), dict):
        for key, value in ranking.items():
            if key not in {"method", "model", "model_version"} and isinstance(value, str) and _NUMBER.fullmatch(value):
                ranking[key] = json.loads(value)
    return values.pop("question"), int(version), values, lines


def contract_refusal(error: RagSqlError, path: Path, lines: Lines) -> FileRefused:
    """A contract's refusal by the database, as file and line."""
    return FileRefused(
        shown(path),
        line_of(lines, error.column) or 1,
        error.message,
        detail=error.detail,
        hint=error.hint,
        cause_code=error.sqlstate,
    )
