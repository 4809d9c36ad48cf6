"""What makes vectors of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ["Embedder"]


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
