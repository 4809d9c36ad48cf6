"""Lexical engines in process, without tenants, time or a database: the limit. One that is not installed is None.

Both are built over texts in order and answer with places in that order, the best first. How a text is cut into words
is theirs: for made-up words by what stands between them; for English, tantivy stems and keeps stop words, and bm25s,
which has no stemmer of its own, leaves out stop words.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["ENGINES", "NOT_INSTALLED", "Engine", "bm25s", "optional", "tantivy"]

Engine = Callable[[str], list[int]]
NOT_INSTALLED = "left out: not installed (the extra bench)"
_K = 10


def optional(name: str) -> Any | None:
    """A module of the extra ``bench``; None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def tantivy(texts: Sequence[str], *, english: bool) -> Engine | None:
    """tantivy, its index in memory and in one segment."""
    module = optional("tantivy")
    if module is None:
        return None
    builder = module.SchemaBuilder()
    builder.add_text_field("body", tokenizer_name="en_stem" if english else "default", index_option="freq")
    builder.add_integer_field("place", stored=True)
    index = module.Index(builder.build())
    writer = index.writer(heap_size=1_000_000_000, num_threads=1)
    for place, text in enumerate(texts):
        writer.add_document(module.Document(body=text, place=place))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[int]:
        words = "".join(letter if letter.isalnum() else " " for letter in query.lower())
        hits = searcher.search(index.parse_query(words, ["body"]), _K).hits
        return [searcher.doc(address)["place"][0] for _, address in hits]

    return search


def bm25s(texts: Sequence[str], *, english: bool) -> Engine | None:
    """bm25s, with numpy and its own defaults; k1 and b as the product's."""
    module = optional("bm25s")
    if module is None:
        return None
    options = {"stopwords": "en" if english else [], "show_progress": False}
    model = module.BM25(k1=1.2, b=0.75)
    model.index(module.tokenize(list(texts), **options), show_progress=False)

    def search(query: str) -> list[int]:
        (found,), (scores,) = model.retrieve(
            module.tokenize([query], **options), k=min(_K, len(texts)), show_progress=False
        )
        return [int(place) for place, score in zip(found, scores, strict=True) if score > 0]

    return search


ENGINES: dict[str, Callable[..., Engine | None]] = {"tantivy": tantivy, "bm25s": bm25s}
