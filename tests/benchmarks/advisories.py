"""Ranges of versions of the real world: the advisories of the Python Package Index, each asked of every known version.

Each record of the PyPA advisory database (CC BY 4.0) is loaded as a document that applies to the versions in its
ranges; what it enumerates beside them is what it is held against. A decision is one record and one version that any
record of its package enumerates. Three answers are compared: the store's, that of ``packaging``, by whose order of
versions the same range is walked, and the record's own enumeration.
"""

from __future__ import annotations

import json
import operator
import os
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from packaging.version import InvalidVersion, Version

from tests.benchmarks import _corpus
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Database, Server, installed

DATA = (
    Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    / "pypa-advisories.tar.gz"
)
AGREEMENT = 99.3
A_SECOND = 100_000
_REPETITIONS = 3
_CASES = 20_000

_SIGNS: dict[str, Callable[[Version, Version], bool]] = {">=": operator.ge, "<": operator.lt, "<=": operator.le}
_ENDS = {"fixed": "<", "limit": "<", "last_affected": "<="}

#: A range as its record has it: from a version, to before one, or up to one.
Event = tuple[str, str]


@dataclass
class Record:
    """What an advisory says of one package."""

    id: str
    package: str
    details: str
    ranges: list[list[Event]] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)

    @property
    def unreadable(self) -> bool:
        """Whether a bound of a range is no version."""
        return any(_parsed(bound) is None for interval in self.ranges for _, bound in interval)


@dataclass
class Asked:
    """Every decision: record, version, what the store says, what ``packaging`` does, what the record enumerates."""

    decisions: list[tuple[Record, str, bool, bool, bool]]
    seconds: list[float]
    no_versions: int


def run(server: Server, scale: Scale) -> list[Row]:
    """Differences, agreement, causes, and decisions a second."""
    if not DATA.is_file():
        return [Row("advisories", note=f"left out: {DATA} is not there; set RAG_SQL_DATA")]
    ranged = [record for record in read(DATA) if record.ranges]
    if scale == "small":
        ranged = [record for record in ranged if record.package[0] in "abcd"]
    records = [record for record in ranged if not record.unreadable]
    database = installed(server)
    asked = ask(database, records)
    server.drop(database)
    number = len(asked.decisions)
    differing = sum(store != order for _, _, store, order, _ in asked.decisions)
    enumerated = [(store, stated) for record, _, store, _, stated in asked.decisions if record.versions]
    agreeing = 100 * sum(store == stated for store, stated in enumerated) / len(enumerated)
    rate = number / median(asked.seconds)
    return [
        Row(
            f"otherwise than packaging, of {number:,} decisions on {len(records):,} records",
            differing,
            "",
            target="0",
            reached=not differing,
        ),
        Row(
            f"agree with the record's enumeration, where it has one ({len(enumerated):,})",
            agreeing,
            "%",
            target=f"at least {AGREEMENT}",
            reached=agreeing >= AGREEMENT,
        ),
        *causes(asked),
        Row("records with a bound that is no version (PEP 440), refused", len(ranged) - len(records), ""),
        Row("versions enumerated that are none (PEP 440), not asked", asked.no_versions, ""),
        Row(f"{number:,} decisions, in calls of {_CASES:,} cases", median(asked.seconds)),
        Row("decisions", rate, "a second", target=f"at least {A_SECOND:,}", reached=rate >= A_SECOND),
    ]


def read(data: Path) -> Iterator[Record]:
    """Records by package, in the order of the archive."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # everything is a text: 1.10 is no number
    with tarfile.open(data) as archive:
        for member in archive:
            if not member.name.endswith(".yaml"):
                continue
            file = archive.extractfile(member)
            assert file is not None
            content = yaml.load(file.read(), loader)
            found: dict[str, Record] = {}
            for affected in content.get("affected", []):
                package = affected["package"]["name"].lower()
                record = found.setdefault(
                    package, Record(f"{content['id']} {package}", package, content.get("details") or content["id"])
                )
                record.versions |= {str(version) for version in affected.get("versions", [])}
                for ranged in affected.get("ranges", []):
                    if ranged["type"] == "ECOSYSTEM":
                        record.ranges += intervals([next(iter(event.items())) for event in ranged["events"]])
            yield from found.values()


def intervals(events: list[Event]) -> list[list[Event]]:
    """Events, as they stand in order, as intervals: each a beginning and, but for the last, an end."""
    found: list[list[Event]] = []
    for kind, version in events:
        if kind == "introduced":
            found.append([] if version == "0" else [(">=", version)])
        elif found and kind in _ENDS:
            found[-1].append((_ENDS[kind], version))
    return found


def stated(record: Record) -> list[str]:
    """The ranges as ``applies_to`` has them; from the beginning without an end is every version."""
    return [",".join(sign + version for sign, version in interval) or ">=0.dev0" for interval in record.ranges]


def holds(record: Record, version: Version) -> bool:
    """Whether one of the ranges holds, by the order of ``packaging``."""
    return any(all(_SIGNS[sign](version, Version(bound)) for sign, bound in interval) for interval in record.ranges)


def ask(database: Database, records: list[Record]) -> Asked:
    """Load the records and ask which apply to each version of each package."""
    packages = sorted({record.package for record in records})
    with database.tenant("acme_curator") as acme:
        for package in packages:
            acme.set_attribute(package, "version-pep440")
    with database.tenant("acme_curator") as acme:
        acme.load_documents(
            [
                {"id": record.id, "version": 1, "body": record.details, "applies_to": {record.package: stated(record)}}
                for record in records
            ]
        )
    _corpus.settle(database)
    known: dict[str, set[str]] = defaultdict(set)
    for record in records:
        known[record.package] |= record.versions
    versions = {text: parsed for text in set().union(*known.values()) if (parsed := _parsed(text)) is not None}
    cases = [(package, text) for package in packages for text in sorted(known[package]) if text in versions]
    seconds = []
    for _ in range(_REPETITIONS):
        took, applying = _applying(database, cases)
        seconds.append(took)
    decisions = [
        (record, text, (record.id, text) in applying, holds(record, versions[text]), text in record.versions)
        for record in records
        for text in sorted(known[record.package])
        if text in versions
    ]
    return Asked(decisions, seconds, len(set().union(*known.values()) - versions.keys()))


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _applying(database: Database, cases: list[tuple[str, str]]) -> tuple[float, set[tuple[str, str]]]:
    """Seconds of asking, and the records that apply, each with the version."""
    found: set[tuple[str, str]] = set()
    took = 0.0
    with _corpus.session(database, "acme_reader") as connection:
        for start in range(0, len(cases), _CASES):
            batch = cases[start : start + _CASES]
            content = json.dumps([{package: version} for package, version in batch])
            seconds, rows = _corpus.ask(
                connection, "select case_number, document_id from rag_api.eligible_by_case(%s)", (content,)
            )
            took += seconds
            found |= {(document_id, batch[number - 1][1]) for number, document_id in rows}
    return took, found


def causes(asked: Asked) -> list[Row]:
    """Why a record's enumeration is not what its range says, decision by decision."""
    found: Counter[str] = Counter()
    records: dict[str, set[str]] = defaultdict(set)
    for record, text, store, order, is_stated in asked.decisions:
        if store == is_stated or not record.versions:
            continue
        if store != order:
            cause = "ours: the store decides otherwise than packaging"
        elif is_stated:
            cause = "the record enumerates a version outside its ranges"
        elif Version(text).is_prerelease:
            cause = "the record leaves out a pre-release inside its ranges"
        else:
            cause = "the record leaves out a release inside its ranges"
        found[cause] += 1
        records[cause].add(record.id)
    return [
        Row(f"disagree: {cause} ({len(records[cause])} records)", found[cause], "decisions") for cause in sorted(found)
    ] or [Row("disagree", 0, "decisions")]
