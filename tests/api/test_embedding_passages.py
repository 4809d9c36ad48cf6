"""Having a model make what is missing, in one transaction or batch by batch, and what a model may get wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rag_sql import Embedder, errors, minilm
from rag_sql._embedding import embed_missing
from tests.conftest import SEED, Database
from tests.unit.test_minilm import needs_the_extra
from tests.vectors import HashEmbedder, search

HASH = HashEmbedder()


class Wrong(HashEmbedder):
    """Makes what it did not promise, from the second batch on."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.batches = 0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.batches += 1
        vectors = super().embed(texts)
        if self.batches == 1:
            return vectors
        match self.fault:
            case "stops":
                raise KeyboardInterrupt
            case "fewer":
                return vectors[1:]
            case "longer":
                return [[*vector, 1.0] for vector in vectors]
            case _:
                return [[0.0] * self.dimension for _ in vectors]


@pytest.fixture
def pages(gateway: Database) -> Database:
    """The gateway corpus, with five more documents of acme's."""
    more_pages(gateway)
    return gateway


def more_pages(database: Database) -> None:
    with database.tenant("acme_curator") as acme:
        acme.load_documents([{"id": f"PAGE-{i}", "version": 1, "body": f"Page {i} of five"} for i in range(5)])


def missing(database: Database) -> int:
    with database.tenant("acme_reader") as acme:
        return acme.count_missing_embeddings(HASH.name, HASH.version)


def test_what_is_missing_is_made_and_nothing_twice(pages: Database) -> None:
    assert isinstance(HASH, Embedder)
    count = missing(pages)
    done: list[int] = []
    with pages.tenant("acme_curator") as acme:
        assert acme.embed(HASH, batch=2, progress=done.append) == count > 2
        assert acme.embed(HASH) == 0
    assert (sum(done), max(done)) == (count, 2)
    assert missing(pages) == 0
    with pages.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "NEW", "version": 1, "body": "Gateway news"}])
        assert acme.embed(HASH) == 1
    with pages.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        (found,) = search(connection, HASH.embed(["gateway news"])[0], 1)
        assert found == (1_000_001, "acme", "NEW", 1, 0)


def test_public_is_embedded_by_its_publisher_for_everyone(gateway: Database) -> None:
    with gateway.tenant("publisher") as public:
        stored = public.embed(HASH)
    with gateway.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        case = '{"model": "G2", "firmware": "2.4.1"}'
        found = search(connection, HASH.embed(["gateway"])[0], case=case)
        assert 0 < len(found) <= stored
        assert {hit.tenant for hit in found} == {"public"}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("stops", KeyboardInterrupt),
        ("fewer", errors.InvalidVector),
        ("longer", errors.DimensionMismatch),
        ("nothing", errors.InvalidVector),
    ],
)
def test_what_was_stored_before_a_fault_stays_and_the_rest_is_made_the_next_time(
    pages: Database, fault: str, error: type[BaseException]
) -> None:
    count = missing(pages)
    with pages.store("acme_curator") as store:
        with pytest.raises(error):
            embed_missing(store, "acme", Wrong(fault), batch=2)
        assert missing(pages) == count - 2
        assert embed_missing(store, "acme", HASH, batch=2) == count - 2
    assert missing(pages) == 0


def test_a_fault_in_the_callers_transaction_stores_nothing(pages: Database) -> None:
    count = missing(pages)
    with pytest.raises(errors.InvalidVector), pages.tenant("acme_curator") as acme:
        acme.embed(Wrong("fewer"), batch=2)
    assert missing(pages) == count


def test_who_may_not_write_embeds_nothing(gateway: Database) -> None:
    with pytest.raises(errors.TenantRequired), gateway.tenant("unbound_reader") as nobody:
        nobody.embed(HASH)
    with pytest.raises(errors.InvalidRequest), gateway.tenant("acme_curator") as acme:
        acme.embed(HASH, batch=0)


@needs_the_extra
def test_the_packaged_model_finds_what_shares_no_word(gateway: Database) -> None:
    gateway.load("acme_curator", SEED / "acme")
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents(
            [
                {"id": "REFUND", "version": 1, "body": "Purchases can be sent back for a full repayment in two weeks."},
                {"id": "HOURS", "version": 1, "body": "The office is open from nine to five on working days."},
            ]
        )
        assert acme.embed(minilm()) > 2
    with gateway.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        (query,) = minilm().embed(["How do I get my money for a returned product?"])
        (best, *_) = search(connection, query, 3, model="minilm")
    assert best.document_id == "REFUND"
