"""What makes vectors of texts, and having it make those that are missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rag_sql import _statements
from rag_sql._calls import Calls, whole_number
from rag_sql._rows import MissingEmbedding
from rag_sql.errors import DimensionMismatch, InvalidVector

if TYPE_CHECKING:
    from rag_sql._store import EvidenceStore

__all__ = ["Embedder", "Embeddings", "embed_missing"]

#: So many passages are embedded and stored together.
BATCH = 64

#: Called with the number of passages that have been embedded.
Progress = Callable[[int], None]


@runtime_checkable
class Embedder(Protocol):
    """A model that makes vectors of texts.

    Vectors of different models, or of different versions of one, do not compare: a store keeps them apart by name and
    version, and a model's vectors all have one dimension.
    """

    @property
    def name(self) -> str:
        """Name of the model; 1 to 200 bytes."""

    @property
    def version(self) -> str:
        """Version of the model: another one where the same text gets another vector."""

    @property
    def dimension(self) -> int:
        """Numbers in a vector, 1 to 4,000."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text, in order; of finite numbers, not all of them 0. Only directions count."""


class Embeddings(Calls):
    """What a tenant can do about vectors of its passages."""

    def missing_embeddings(self, model: str, model_version: str, *, limit: int) -> list[MissingEmbedding]:
        """Passages of this tenant that have no vector of a model, with their texts.

        Parameters
        ----------
        model, model_version : str
        limit : int
            Most passages to return.

        Raises
        ------
        TenantRequired, InvalidRequest
        """
        rows = self._rows(
            _statements.MISSING_EMBEDDINGS,
            model=model,
            model_version=model_version,
            limit=whole_number("a limit", limit),
        )
        return [MissingEmbedding(**row) for row in rows]

    def count_missing_embeddings(self, model: str, model_version: str) -> int:
        """How many passages of this tenant have no vector of a model. Raises TenantRequired."""
        count: int = self._value(_statements.COUNT_MISSING_EMBEDDINGS, model=model, model_version=model_version)
        return count

    def add_embeddings(
        self,
        model: str,
        model_version: str,
        passages: Sequence[MissingEmbedding],
        vectors: Sequence[Sequence[float]],
    ) -> int:
        """Store vectors of passages of this tenant, all or nothing, in one round trip; how many were new.

        Parameters
        ----------
        model, model_version : str
            The model, which is registered with its first vectors, and with their dimension.
        passages : sequence of MissingEmbedding
            The passages; what has a vector keeps it.
        vectors : sequence of sequences of float
            One for each passage, in order.

        Raises
        ------
        TenantRequired, NotAllowed, MayOnlyRead, InvalidRequest, DimensionMismatch, InvalidVector, PassageNotFound
            Nothing was stored.
        """
        stored: int = self._value(
            _statements.ADD_EMBEDDINGS,
            model=model,
            model_version=model_version,
            document_ids=[passage.document_id for passage in passages],
            versions=[passage.version for passage in passages],
            range_starts=[passage.range_start for passage in passages],
            vectors=[json.dumps([float(number) for number in vector]) for vector in vectors],
        )
        return stored

    def embed(self, embedder: Embedder, *, batch: int = BATCH, progress: Progress | None = None) -> int:
        """Have a model make the vectors that this tenant's passages lack, in this transaction; how many were stored.

        Run again after new documents, or after an interruption: only what is missing is made. ``rag-sql embed`` does
        the same batch by batch, each in a transaction of its own.

        Parameters
        ----------
        embedder : Embedder
        batch : int
            How many passages are given to the model, and stored, at once.
        progress : callable, optional
            Called after each batch with the number of its passages.

        Raises
        ------
        TenantRequired, NotAllowed, MayOnlyRead, InvalidRequest, DimensionMismatch, InvalidVector
        """
        return _fill(lambda: nullcontext(self), embedder, batch, progress)


def embed_missing(
    store: EvidenceStore,
    tenant: str,
    embedder: Embedder,
    *,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> int:
    """The same for a tenant of a store; each batch is committed, and no transaction is open while the model works."""
    return _fill(lambda: store.tenant(tenant), embedder, batch, progress)


def _fill(
    begin: Callable[[], AbstractContextManager[Embeddings]],
    embedder: Embedder,
    batch: int,
    progress: Progress | None,
) -> int:
    stored = 0
    while True:
        with begin() as tenant:
            passages = tenant.missing_embeddings(embedder.name, embedder.version, limit=batch)
        if not passages:
            return stored
        vectors = _vectors(embedder, [passage.text for passage in passages])
        with begin() as tenant:
            stored += tenant.add_embeddings(embedder.name, embedder.version, passages, vectors)
        if progress is not None:
            progress(len(passages))


def _vectors(embedder: Embedder, texts: list[str]) -> Sequence[Sequence[float]]:
    """A vector for each text, as the embedder promises: the first batch decides what is registered."""
    vectors = embedder.embed(texts)
    if len(vectors) != len(texts):
        raise InvalidVector(f"the model {embedder.name} made {len(vectors)} vectors of {len(texts)} texts")
    for vector in vectors:
        if len(vector) != embedder.dimension:
            raise DimensionMismatch(
                f"the model {embedder.name} says that its vectors have {embedder.dimension} numbers, and made one of"
                f" {len(vector)}"
            )
    return vectors
