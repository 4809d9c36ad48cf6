"""Real documents that supersede each other: Python's PEPs, 31 of which name those that took their place.

Loaded as ``examples/peps.py`` makes documents of them, the first 2,000 characters of each. Which may be used is read
from the headers here a second time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Database, Server

ROOT = Path(__file__).parents[2]
ARCHIVE = Path(os.environ.get("RAG_SQL_DATA", ROOT.parent / "shared" / "data")) / "peps.tar.gz"

pytestmark = pytest.mark.skipif(
    not ARCHIVE.is_file(),
    reason=f"the PEPs are not at {ARCHIVE}: set RAG_SQL_DATA to the folder that holds peps.tar.gz",
)

METHODS = ("overlap", "bm25")
K = 20


@dataclass(frozen=True)
class Headers:
    """What the headers of a PEP say."""

    title: str
    status: str
    successors: tuple[str, ...]


@dataclass(frozen=True)
class Loaded:
    """A store with all PEPs, and what their headers say."""

    database: Database
    peps: dict[str, Headers]

    @property
    def superseded(self) -> dict[str, Headers]:
        return {pep: headers for pep, headers in self.peps.items() if headers.successors}


@pytest.fixture(scope="module")
def loaded(server: Server, installed_template: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    folder = tmp_path_factory.mktemp("peps")
    with tarfile.open(ARCHIVE) as archive:
        wanted = [member for member in archive.getmembers() if re.search(r"pep-\d+\.rst$", member.name)]
        archive.extractall(folder, wanted, filter="data")
    made = subprocess.run(
        [sys.executable, ROOT / "examples" / "peps.py", folder], capture_output=True, text=True, check=True
    ).stdout
    documents = [json.loads(line) for line in made.splitlines()]
    path = folder / "peps.jsonl"
    path.write_text("".join(json.dumps({**d, "body": d["body"][:2000]}) + "\n" for d in documents), "utf-8")
    database = server.create(installed_template.name)
    report = database.load("acme_curator", path)
    peps = {f"PEP-{int(file.stem[4:])}": _headers(file) for file in folder.rglob("pep-[0-9]*.rst")}
    assert (report.new, report.superseded, len(peps)) == (736, 31, 736)
    yield Loaded(database, peps)
    server.drop(database)


def _headers(path: Path) -> Headers:
    head = path.read_text("utf-8").split("\n\n", 1)[0]
    said = dict(re.findall(r"^([\w-]+):[ \t]*(.*?)[ \t]*$", head, re.MULTILINE))
    return Headers(
        said["Title"], said["Status"], tuple(f"PEP-{n}" for n in re.findall(r"\d+", said.get("Superseded-By", "")))
    )


@pytest.mark.parametrize("method", METHODS)
def test_no_superseded_rejected_or_withdrawn_pep_is_selected_for_a_question_about_current_ones(
    loaded: Loaded, method: str
) -> None:
    unusable = {
        pep
        for pep, headers in loaded.peps.items()
        if headers.successors or headers.status in {"Superseded", "Rejected", "Withdrawn"}
    }
    assert (len(loaded.superseded), len(unusable)) == (31, 230)
    tempted = 0
    with loaded.database.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        for pep, headers in loaded.superseded.items():
            found = connection.execute(
                "select document_id, score from rag_api.selection(%s, '{}', %s, p_method => %s) order by position",
                [headers.title, K, method],
            ).fetchall()
            assert len(found) == K
            assert not {document_id for document_id, _ in found} & unusable, pep
            own = connection.execute(
                "select max(score) from rag_api.candidates(%s, '{}', %s, p_method => %s) where document_id = %s",
                [headers.title, K, method, pep],
            ).fetchone()
            assert own is not None
            tempted += own[0] >= found[-1][1]
    assert tempted == 31  # each ranks high enough for its own title


def test_whoever_asks_is_told_which_pep_took_the_place_and_why_another_is_not_used(loaded: Loaded) -> None:
    with loaded.database.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        said = {
            row[0]: row[1:]
            for row in connection.execute(
                "select document_id, eligible, reason, successors, attribute, applies_to from rag_api.eligibility('{}')"
            )
        }
    for pep, headers in loaded.peps.items():
        if headers.successors:
            assert said[pep] == (False, "superseded", sorted(headers.successors), None, None)
        elif headers.status in {"Draft", "Accepted", "Active", "Final"}:
            assert said[pep] == (True, None, None, None, None)
        else:
            assert said[pep] == (False, "attribute_not_stated", None, "status", [headers.status])


def test_who_asks_for_rejected_ones_gets_those_too(loaded: Loaded) -> None:
    with loaded.database.tenant("acme_reader") as acme:
        found = acme.search(loaded.peps["PEP-340"].title, case={"status": "Rejected"}, k=K)
    assert "PEP-340" in {hit.document_id for hit in found}
    assert {loaded.peps[hit.document_id].status for hit in found} & {"Withdrawn", "Superseded"} == set()
