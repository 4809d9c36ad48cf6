"""Curation: files of spans for documents that are loaded, and what of a contract stands where.

A curation file is a list of spans, each with ``document``, ``version``, ``span`` (its id), ``fact``, ``quote`` and,
where the quotation is ambiguous, ``occurrence``: in YAML, bare or under the key ``spans``, or as JSON lines. What a
value must be is decided by the database; :func:`add` turns its errors into file and line.

When a document has a new version, :func:`carry` adds to it the spans whose quotations stand there as they did, and
lists the rest for a person.

Where a quotation stands nowhere, :func:`check` and :func:`carry` show the nearest passage and a word diff. That is a
suggestion: it repairs nothing and licenses nothing (law 3).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from rag_sql import _files
from rag_sql._impact import CarriableSpan
from rag_sql._rows import AddedSpan, NearestPassage, PropositionOccurrence
from rag_sql._tenant import Tenant
from rag_sql._yaml import Lines
from rag_sql.errors import FileRefused, RagSqlError

__all__ = [
    "CarryReport",
    "CheckReport",
    "FactReport",
    "PropositionReport",
    "SpanFile",
    "Suggestion",
    "add",
    "carry",
    "check",
    "read_spans",
    "suggestion",
]

_YAML = {".yaml", ".yml"}
_JSON_LINES = {".jsonl", ".ndjson"}

#: A longer quotation is not compared word by word: the time grows with the square of its length.
_MOST_WORDS = 2000


# Files


@dataclass(frozen=True)
class SpanFile:
    """The spans of a curation file as the database takes them.

    Attributes
    ----------
    path : pathlib.Path
    spans : list of dict
    lines : dict of str to int
        Line of each span (``0``) and of each of its values (``0.quote``).
    """

    path: Path
    spans: list[dict[str, Any]]
    lines: Lines


def read_spans(path: Path, tenant: str) -> SpanFile:
    """Read a curation file.

    Parameters
    ----------
    path : pathlib.Path
    tenant : str
        The tenant that is curated for; a file that names another is refused.

    Raises
    ------
    FileRefused
        With file, line and reason.
    """
    if path.suffix.lower() in _JSON_LINES:
        return _read_json_lines(path)
    if path.suffix.lower() not in _YAML:
        raise FileRefused(str(path), 0, "neither YAML (.yaml, .yml) nor JSON lines (.jsonl, .ndjson)")
    values, lines = _files._parse(path, _files.read_text(path), 1)
    prefix = ""
    if isinstance(values, dict):
        for key in [key for key in values if key not in {"spans", "tenant"}]:
            raise FileRefused(str(path), lines[key], f"{key} is no key; a file of spans has spans and tenant")
        if values.get("tenant", tenant) != tenant:
            raise FileRefused(
                str(path), lines["tenant"], f"holds spans of tenant {values['tenant']!r}, not of {tenant!r}"
            )
        values, prefix = values.get("spans"), "spans."
    if not isinstance(values, list):
        raise FileRefused(str(path), lines.get("spans", 1), "must be a list of spans, or a mapping with the key spans")
    for position, span in enumerate(values):
        if not isinstance(span, dict):
            raise FileRefused(
                str(path), lines[f"{prefix}{position}"], "a span must be a mapping with document, version, span, ..."
            )
        for key in ("version", "occurrence"):  # YAML gives texts; what is no whole number is left to be refused
            if isinstance(span.get(key), str) and re.fullmatch("[0-9]{1,10}", span[key]):
                span[key] = int(span[key])
    return SpanFile(
        path, values, {place.removeprefix(prefix): line for place, line in lines.items() if place.startswith(prefix)}
    )


def _read_json_lines(path: Path) -> SpanFile:
    spans: list[dict[str, Any]] = []
    lines: Lines = {}
    for number, line in enumerate(_files.read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        span = _files.parse_line(path, number, line)
        lines[str(len(spans))] = number
        spans.append(span)
    return SpanFile(path, spans, lines)


def add(tenant: Tenant, file: SpanFile) -> list[AddedSpan]:
    """Add the spans of a file, all or nothing.

    Raises
    ------
    FileRefused
        The database refused a span: file, line and the database's reason.
    TenantRequired, NotAllowed
    """
    try:
        return tenant.add_spans(file.spans)
    except RagSqlError as error:
        raise _refusal(error, file) from error


def _refusal(error: RagSqlError, file: SpanFile) -> RagSqlError:
    """The error as file and line, where it says which span it is about; else the error itself."""
    place = error.column
    if not place and error.table:
        # Refused while it was stored: document, version and span are named.
        named = (error.table, error.datatype, error.constraint)
        keys = [(span["document"], str(span["version"]), span["span"]) for span in file.spans]
        if named not in keys:
            return error
        place = f"{keys.index(named)}.quote"
    if not place.partition(".")[0].isdigit():
        return error
    return FileRefused(
        str(file.path),
        _files.line_of(file.lines, place),
        error.message,
        detail=error.detail,
        hint=error.hint,
        cause_code=error.sqlstate,
    )


# Checking a contract


@dataclass(frozen=True)
class DiffWord:
    """A word of a diff: `mark` is ``" "`` where both have it, ``"-"`` the quotation's alone, ``"+"`` the passage's."""

    mark: str
    word: str


@dataclass(frozen=True)
class Suggestion:
    """The passage that comes nearest to a quotation, and where in it: licenses nothing.

    Attributes
    ----------
    passage : NearestPassage
    text : str
        The part of the passage that fits the quotation best.
    words : tuple of DiffWord
        From the quotation to that part, word by word; empty for a quotation that is too long to compare.
    """

    passage: NearestPassage
    text: str
    words: tuple[DiffWord, ...]


@dataclass(frozen=True)
class PropositionReport:
    """A proposition: the current versions that contain it, or what comes nearest."""

    quote: str
    occurrences: tuple[PropositionOccurrence, ...]
    nearest: Suggestion | None

    @property
    def curated(self) -> bool:
        """Whether a span quotes it in a current version."""
        return any(found.span_ids for found in self.occurrences)


@dataclass(frozen=True)
class FactReport:
    """A required fact and its propositions, in contract order."""

    fact: str
    propositions: tuple[PropositionReport, ...]

    @property
    def curated(self) -> bool:
        """Whether a current version has a span that can witness the fact."""
        return any(proposition.curated for proposition in self.propositions)


@dataclass(frozen=True)
class CheckReport:
    """A contract's facts, in contract order."""

    question_id: str
    facts: tuple[FactReport, ...]

    @property
    def uncurated(self) -> tuple[str, ...]:
        """Required facts that no current version can witness, whatever is selected."""
        return tuple(fact.fact for fact in self.facts if not fact.curated)


Group = tuple[tuple[str, str], tuple[PropositionOccurrence, ...]]


def check(
    tenant: Tenant,
    question_id: str,
    contract_version: int | None = None,
    track: Callable[[Sequence[Group]], AbstractContextManager[Iterable[Group]]] = nullcontext,
) -> CheckReport:
    """Where the propositions of a question's contract stand, and what comes nearest to those that stand nowhere.

    `track` is given the propositions and gives them back one by one, to show progress.

    Raises
    ------
    UnsupportedQuestion, UnknownContractVersion
    """
    rows = tenant.proposition_occurrences(question_id, contract_version=contract_version)
    groups = [(name, tuple(of_quote)) for name, of_quote in groupby(rows, key=lambda row: (row.fact, row.quote))]
    reports: list[tuple[str, PropositionReport]] = []
    with track(groups) as tracked:
        for (fact, quote), of_quote in tracked:
            found = tuple(row for row in of_quote if row.document_id is not None)
            reports.append((fact, PropositionReport(quote, found, None if found else _nearest(tenant, quote))))
    by_fact = groupby(reports, key=lambda report: report[0])
    return CheckReport(
        question_id, tuple(FactReport(fact, tuple(report for _, report in of_fact)) for fact, of_fact in by_fact)
    )


def _nearest(tenant: Tenant, quote: str) -> Suggestion | None:
    for passage in tenant.nearest_passage(quote):
        return suggestion(quote, passage)
    return None


def suggestion(quote: str, passage: NearestPassage) -> Suggestion:
    """The passage that comes nearest to a quotation, with a word diff."""
    return Suggestion(passage, *word_diff(quote, passage.text))


def snippet(found: PropositionOccurrence) -> str:
    """The span that is missing at an occurrence, as YAML for a curation file."""
    position = found.proposition_position
    span: dict[str, Any] = {
        "document": found.document_id,
        "version": found.version,
        "span": found.fact if position == 1 else f"{found.fact}-{position}",
        "fact": found.fact,
        "quote": found.quote,
    }
    if len(span["span"].encode()) > 200:
        span["span"] = f"fact-{found.fact_position}-{position}"
    if found.is_repeated:
        span["occurrence"] = 1
    return str(yaml.safe_dump([span], allow_unicode=True, sort_keys=False, width=2**31)).rstrip("\n")


# Carrying


@dataclass(frozen=True)
class CarryReport:
    """Spans of replaced versions: those that the current ones have been given, and those that a person has to see."""

    carried: tuple[CarriableSpan, ...]
    left: tuple[CarriableSpan, ...]


def carry(tenant: Tenant, document_ids: Sequence[str] | None = None) -> CarryReport:
    """Add the spans of replaced versions to the current ones, where their quotations stand as they did.

    Parameters
    ----------
    tenant : Tenant
    document_ids : sequence of str, optional
        Default: all documents of the tenant.

    Raises
    ------
    VersionNotFound, TenantRequired, NotAllowed
    """
    spans = tenant.carriable_spans(document_ids)
    report = CarryReport(
        tuple(span for span in spans if span.obstacle is None), tuple(span for span in spans if span.obstacle)
    )
    tenant.add_spans([added(span) for span in report.carried])
    return report


def added(span: CarriableSpan) -> dict[str, Any]:
    """A span of a replaced version as :meth:`Tenant.add_spans` takes it for the current one."""
    found: dict[str, Any] = {
        "document": span.document_id,
        "version": span.new_version,
        "span": span.span_id,
        "fact": span.fact,
        "quote": span.quote,
    }
    return found if span.occurrence is None else {**found, "occurrence": span.occurrence}


# Words


def word_diff(quote: str, text: str) -> tuple[str, tuple[DiffWord, ...]]:
    """The part of a text that fits a quotation best, and what is different in it, word by word.

    Words are what stands between white space, with their punctuation. White space other than one space is shown as
    part of the word it precedes.

    Parameters
    ----------
    quote, text : str

    Returns
    -------
    part : str
    words : tuple of DiffWord
        Empty for a quotation of more than 2,000 words.
    """
    wanted, places = quote.split(), list(re.finditer(r"\S+", text))
    if not wanted or len(wanted) > _MOST_WORDS:
        return "", ()
    start, end = _window([_plain(word) for word in wanted], [_plain(place.group()) for place in places])
    part = text[places[start].start() : places[end - 1].end()]
    old, new = _tokens(quote), _tokens(part)
    words: list[DiffWord] = []
    for what, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            words += [DiffWord(" ", word) for word in old[i:j]]
            continue
        was, is_now = old[i:j], new[k:m]
        if _looks_the_same(was, is_now):
            was, is_now = [_code_points(word) for word in was], [_code_points(word) for word in is_now]
        words += [DiffWord("-", _visible(word)) for word in was]
        words += [DiffWord("+", _visible(word)) for word in is_now]
    return part, tuple(words)


def _window(wanted: Sequence[str], words: Sequence[str]) -> tuple[int, int]:
    """Where in a text (first word, last word and one) a quotation fits best, by words without case and punctuation."""
    size = min(len(wanted), len(words))
    missing, common, best, best_start = Counter(wanted), 0, -1, 0
    for position, word in enumerate(words):
        common += missing[word] > 0
        missing[word] -= 1
        if position >= size:
            gone = words[position - size]
            missing[gone] += 1
            common -= missing[gone] > 0
        if position >= size - 1 and common > best:
            best, best_start = common, position - size + 1
    # A text with words more or less than the quotation begins or ends a little beyond a window of its length.
    slack = len(wanted) // 2 + 2
    low, high = max(0, best_start - slack), min(len(words), best_start + size + slack)
    blocks = SequenceMatcher(None, wanted, words[low:high], autojunk=False).get_matching_blocks()[:-1]
    if not blocks:
        return best_start, best_start + size
    first, last = blocks[0], blocks[-1]
    start = low + first.b - first.a
    end = low + last.b + last.size + len(wanted) - (last.a + last.size)
    return max(0, start), min(len(words), end)


def _plain(word: str) -> str:
    return re.sub(r"\W+", "", unicodedata.normalize("NFC", word).casefold()) or word


def _tokens(text: str) -> list[str]:
    """Words, each with the white space before it unless that is one space; white space at the end stands alone."""
    found = [token.removeprefix(" ") if re.match(r" \S", token) else token for token in re.findall(r"\s*\S+", text)]
    if text[:1] == " " and found:
        found[0] = text[: len(text) - len(text.lstrip())] + found[0].lstrip()
    rest = text[len(text.rstrip()) :]
    return [*found, rest] if rest else found


def _looks_the_same(was: list[str], is_now: list[str]) -> bool:
    return unicodedata.normalize("NFC", " ".join(was)) == unicodedata.normalize("NFC", " ".join(is_now))


def _code_points(word: str) -> str:
    return "".join(character if character.isascii() else f"<U+{ord(character):04X}>" for character in word)


def _visible(word: str) -> str:
    """A word with what cannot be seen in it."""
    names = {"\n": "⏎", "\t": "⇥", " ": "␣"}
    return "".join(
        names.get(character, character if character.isprintable() else f"<U+{ord(character):04X}>")
        for character in word
    )
