"""Real documents: two versions of etcd's documentation that say different things about automatic compaction."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rag_sql import Packet, draft
from rag_sql._files import Defaults, find_files
from rag_sql._loading import load
from tests.conftest import Database

ARCHIVE = (
    Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data")) / "etcd-docs.tar.gz"
)

pytestmark = pytest.mark.skipif(
    not ARCHIVE.is_file(),
    reason=f"etcd's documentation is not at {ARCHIVE}: set RAG_SQL_DATA to the folder that holds etcd-docs.tar.gz",
)

QUESTION = "etcd-auto-compaction-interval-v1"
QUERY = "how often does automatic compaction run with auto-compaction-retention"
QUOTES = {
    "3.4": "Whether compaction succeeds or not, this process repeats for every 1/10 of given compaction period.",
    "3.5": "When the retention period is greater than 1 hour, etcd compacts every hour while maintaining the full"
    " retention window.",
}
CLAUSES = {
    "3.4": "etcd compacts automatically at every tenth of the retention period.",
    "3.5": "With a retention period of more than an hour, etcd compacts automatically every hour.",
}
CONTRACT: dict[str, Any] = {
    "case": ["etcd"],
    "facts": [
        {
            "fact": "compaction-interval",
            "propositions": [{"quote": QUOTES[version], "clauses": [CLAUSES[version]]} for version in QUOTES],
        }
    ],
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders v3.4 and v3.5; each page on maintenance gets its span, in front matter, as a curator would add it."""
    folder = tmp_path_factory.mktemp("etcd")
    found = {}
    with tarfile.open(ARCHIVE) as archive:
        for version in QUOTES:
            wanted = [member for member in archive.getmembers() if f"/docs/v{version}/" in f"/{member.name}"]
            archive.extractall(folder, wanted, filter="data")
            found[version] = next(folder.rglob(f"docs/v{version}"))
    for version, quote in QUOTES.items():
        page = found[version] / "op-guide" / "maintenance.md"
        _, front_matter, body = page.read_text("utf-8").split("---\n", 2)
        span = f"spans:\n  - id: interval\n    fact: compaction-interval\n    quote: {quote}\n"
        page.write_text(f"---\n{front_matter}{span}---\n{body}", "utf-8")
    return found


def test_each_version_is_answered_from_its_own_pages(store: Database, pages: dict[str, Path]) -> None:
    loaded = 0
    for version, folder in pages.items():
        with store.tenant("publisher") as public:
            report = load(
                public,
                find_files([folder]),
                Defaults(id_prefix=f"etcd-{version}/", applies_to={"etcd": [version]}),
            )
        loaded += report.new
    assert loaded > 140
    with store.tenant("publisher") as public:
        public.add_contract(QUESTION, 1, CONTRACT)

    packets: dict[str, Packet] = {}
    with store.tenant("acme_reader") as acme:
        for version in QUOTES:
            packets[version] = acme.record_packet(QUESTION, query=QUERY, case={"etcd": version}, k=10)
        assert acme.span_check() == []
    assert packets["3.4"].digest != packets["3.5"].digest
    for version, packet in packets.items():
        assert packet.sufficient
        assert packet.verify() == []
        assert len(packet.sources) == 10
        assert all(source.document_id.startswith(f"etcd-{version}/") for source in packet.sources)
        assert [claim.text for claim in draft(packet)] == [CLAUSES[version]]

    for version, other in (("3.4", "3.5"), ("3.5", "3.4")):
        (own,), (foreign,) = draft(packets[version]), draft(packets[other])
        said_here = type(own)(**{**vars(own), "text": foreign.text})
        with store.tenant("acme_reader") as acme:
            verdicts = acme.check_claims(packets[version], [own, said_here, foreign])
        assert [verdict.verdict for verdict in verdicts] == ["licensed", "not_licensed", "source_not_selected"]


def test_a_case_of_neither_version_finds_nothing(store: Database, pages: dict[str, Path]) -> None:
    with store.tenant("publisher") as public:
        load(public, find_files([pages["3.5"] / "op-guide"]), Defaults(applies_to={"etcd": ["3.5"]}))
        public.add_contract(QUESTION, 1, CONTRACT)
    with store.tenant("acme_reader") as acme:
        decision = acme.decide(QUESTION, query=QUERY, case={"etcd": "3.6"}, k=10)
    assert (decision.sources, decision.missing) == ((), ("compaction-interval",))
