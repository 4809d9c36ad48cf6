"""The documentation of nine versions of a product, each page asked for in each: whatever is selected is of that one.

Pages of etcd's documentation (CC BY 4.0) say nearly the same in every version, so that the wrong one ranks as high as
the right one. Each page is a document of its version's line, which applies to a range (``etcd: ["3.5.x"]``); a case
states a version of that line (3.5.9). Asked are the pages that stand in four versions or more and are not the same in
all, with the words of their titles, by every ranking method, at every K from 1 to 20.

Then applicability is made to hold always, which a test of it has to notice.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections import defaultdict
from itertools import cycle
from pathlib import Path, PurePosixPath
from typing import Any

from rag_sql import Tenant
from rag_sql._embedded import SUPERUSER
from rag_sql._passages import outline
from tests.benchmarks._rows import Row, Scale
from tests.conftest import Database, Server, installed
from tests.vectors import HashEmbedder

DATA = Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data")) / "etcd-docs.tar.gz"
METHODS = ("overlap", "bm25", "vector", "hybrid")
K = 20

#: Pages of one path: for each version of the product the title, the body, and the whole file.
Pages = dict[str, dict[str, tuple[str, str, str]]]


def run(server: Server, scale: Scale) -> list[Row]:
    """Selected passages of another version than the case's, by method; and once more without the predicate."""
    if not DATA.is_file():
        return [Row("etcd", note=f"left out: {DATA} is not there; set RAG_SQL_DATA")]
    pages = read(DATA)
    if scale == "small":
        pages = {path: pages[path] for path in list(pages)[::8]}
    asked = [path for path, found in pages.items() if is_trap(found)]
    database = installed(server)
    embedder = HashEmbedder(16)
    load(database, pages, embedder)
    rows = [Row("pages that stand in four versions or more and differ", len(asked), "")]
    for method in METHODS:
        selected, wrong = ask(database, pages, asked, method, embedder)
        rows.append(
            Row(f"{method}: of {selected:,} selected, of another version", wrong, "", target="0", reached=not wrong)
        )
    with database.connect(SUPERUSER) as superuser:
        ((definition,),) = superuser.execute("select pg_get_functiondef('rag_api._scopes'::regproc)").fetchall()
        mutant = re.sub(r"\(s\.attributes = COALESCE\(cardinality\(f\.attributes\), 0\)\)", "true", definition)
        assert mutant != definition
        superuser.execute(mutant.encode())
    selected, wrong = ask(database, pages, asked[:4], "bm25", embedder)
    rows.append(
        Row(f"without the predicate: of {selected:,}, of another version", wrong, "", target="some", reached=wrong > 0)
    )
    server.drop(database)
    return rows


def read(data: Path) -> Pages:
    """Pages by their path within the documentation of a version."""
    pages: Pages = defaultdict(dict)
    with tarfile.open(data) as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            if not member.name.endswith(".md") or "docs" not in parts:
                continue
            version, *rest = parts[parts.index("docs") + 1 :]
            file = archive.extractfile(member)
            if not rest or file is None:
                continue
            text = file.read().decode()
            page = re.fullmatch(r"(?:---\s*\n(.*?)^---\s*$)?(.*)", text, re.DOTALL | re.MULTILINE)
            assert page is not None
            title = re.search(r"^(?:title:|#)\s*(.+)$", page[1] or page[2], re.MULTILINE)
            words = title[1].strip("\"' ") if title else rest[-1].removesuffix(".md")
            pages["/".join(rest)][version.removeprefix("v")] = words, page[2].strip(), text
    return dict(sorted(pages.items()))


def is_trap(found: dict[str, tuple[str, str, str]]) -> bool:
    """Whether a page stands in four versions or more and is not the same in all."""
    return len(found) >= 4 and len({text for _, _, text in found.values()}) > 1


def load(database: Database, pages: Pages, embedder: HashEmbedder) -> None:
    """Load all pages of all versions, with vectors."""
    documents: list[dict[str, Any]] = [
        {
            "id": f"{version}/{path}",
            "version": 1,
            "title": title,
            "body": body,
            "outline": outline(body),
            "applies_to": {"etcd": [f"{version}.x"]},
            "language": "english",
        }
        for path, found in pages.items()
        for version, (title, body, _) in found.items()
        if body  # a page of links has none
    ]
    with database.tenant("acme_curator") as acme:
        acme.set_attribute("etcd", "version-numeric")
        acme.load_documents(documents)
        acme.embed(embedder)


def ask(database: Database, pages: Pages, asked: list[str], method: str, embedder: HashEmbedder) -> tuple[int, int]:
    """How many passages are selected, and how many of them are of another version."""
    selected = wrong = 0
    fewer = cycle(range(1, K))
    with database.tenant("acme_reader") as acme:
        for path in asked:
            for version, (title, _, _) in pages[path].items():
                for k in (K, next(fewer)):
                    found = _search(acme, title, version, k, method, embedder)
                    selected += len(found)
                    wrong += sum(not document_id.startswith(f"{version}/") for document_id in found)
    return selected, wrong


def _search(acme: Tenant, title: str, version: str, k: int, method: str, embedder: HashEmbedder) -> list[str]:
    parameters: dict[str, Any] = {}
    if method in {"vector", "hybrid"}:
        parameters = {"model": embedder.name, "vector": embedder.embed([title])[0]}
    hits = acme.search(title, k=k, method=method, parameters=parameters, case={"etcd": f"{version}.9"})
    return [hit.document_id for hit in hits]
