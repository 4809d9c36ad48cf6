"""``rag-sql embed``: what it says, and that it goes on where it was interrupted."""

from __future__ import annotations

import pytest

from rag_sql.cli import _common, embeddings
from tests.api.test_embedding_passages import Wrong, more_pages
from tests.cli.test_cli import in_json, rag_sql
from tests.conftest import CASE, Database
from tests.vectors import HashEmbedder


@pytest.fixture(autouse=True)
def _without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that needs none stands for the packaged one."""
    monkeypatch.setitem(embeddings._MODELS, "minilm", HashEmbedder)


def test_it_embeds_what_is_missing_and_says_how_much(gateway: Database) -> None:
    more_pages(gateway)
    url = gateway.url("acme_curator")
    with gateway.tenant("acme_reader") as acme:
        count = acme.count_missing_embeddings("hash", "1")
    first = rag_sql("embed", "-t", "acme", "--batch", "2", url=url)
    assert (first.returncode, first.stdout) == (0, f"{count} passages embedded with hash 1\n")
    again = in_json(rag_sql("embed", "-t", "acme", "--json", url=url))
    assert again == {"model": "hash", "model_version": "1", "stored": 0}


def test_interrupted_it_says_what_is_stored_and_goes_on_from_there(
    gateway: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    more_pages(gateway)
    url = gateway.url("acme_curator")
    monkeypatch.setitem(embeddings._MODELS, "minilm", lambda: Wrong("stops"))
    stopped = rag_sql("embed", "-t", "acme", "--batch", "1", url=url)
    assert stopped.returncode == 130
    assert "stopped after 1 of" in stopped.stderr
    monkeypatch.setitem(embeddings._MODELS, "minilm", HashEmbedder)
    with gateway.tenant("acme_reader") as acme:
        rest = acme.count_missing_embeddings("hash", "1")
    assert in_json(rag_sql("embed", "-t", "acme", "--json", url=url))["stored"] == rest > 0


def test_a_model_that_is_in_no_package_is_wrong_usage(gateway: Database) -> None:
    result = rag_sql("embed", "-t", "acme", "--model", "gpt", url=gateway.url("acme_curator"))
    assert result.returncode == 2
    assert "is one of: minilm" in result.stderr


def test_a_reader_embeds_nothing(gateway: Database) -> None:
    result = rag_sql("embed", "-t", "acme", url=gateway.url("acme_reader"))
    assert result.returncode == 1
    assert "42501" in result.stderr


@pytest.mark.parametrize("method", ["vector", "hybrid"])
def test_a_search_by_meaning_takes_the_packaged_models_vector_of_the_words(
    gateway: Database, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(_common, "minilm", HashEmbedder)
    url = gateway.url("acme_curator")
    assert rag_sql("embed", "-t", "acme", url=url).returncode == 0
    with gateway.tenant("acme_reader") as acme:
        (held,) = acme.search("audit", k=1, case=CASE)
    words = held.text.strip()
    arguments = ("search", words, "-t", "acme", "--method", method, "-c", "model=G2", "-c", "firmware=2.4.1", "--json")
    found = in_json(rag_sql(*arguments, url=url))
    assert (found[0]["document_id"], found[0]["text"]) == (held.document_id, held.text)
    assert found[0]["vector_rank"] == (1 if method == "hybrid" else None)
    other = rag_sql("search", "x", "-t", "acme", "--method", method, "--parameter", "model=mine", url=url)
    assert other.returncode == 1
    assert "needs a model and the vector" in other.stderr
