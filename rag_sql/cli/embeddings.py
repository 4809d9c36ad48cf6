"""Commands about vectors: embed."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_sql._embedding import BATCH, embed_missing
from rag_sql._minilm import minilm
from rag_sql.cli._apps import app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    RequiredTenant,
    UrlOption,
    command,
    err,
    open_store,
    out,
    print_json,
)
from rag_sql.cli._progress import progress

__all__: list[str] = []

#: Models that come in packages, by the name that stands in the store.
_MODELS = {"minilm": minilm}


@command(app)
def embed(
    tenant: RequiredTenant,
    model: Annotated[
        str, typer.Option("--model", help="Which model: minilm, of the extra rag-sql[minilm].")
    ] = "minilm",
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="Passages that are embedded and stored at once.")
    ] = BATCH,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the vectors that a tenant's passages lack.

    Each batch is stored as it is made. Run it again after an interruption, or after new documents: only what is missing
    is made.
    """
    if model not in _MODELS:
        raise typer.BadParameter(
            f"is one of: {', '.join(_MODELS)}; others are embedded from Python", param_hint="--model"
        )
    embedder = _MODELS[model]()
    done = 0
    with open_store(database_url, home) as store:
        with store.tenant(tenant) as bound:
            missing = bound.count_missing_embeddings(embedder.name, embedder.version)
        with progress("embedding", "passages", missing) as advance:

            def count(passages: int) -> None:
                nonlocal done
                done += passages
                advance(passages, passages)

            try:
                stored = embed_missing(store, tenant, embedder, batch=batch, progress=count)
            except BaseException:
                if done:
                    err.print(f"stopped after {done} of {missing} passages; what is stored stays: run it again")
                raise
    if as_json:
        print_json({"model": embedder.name, "model_version": embedder.version, "stored": stored})
    else:
        out.print(
            f"{stored} {'passage' if stored == 1 else 'passages'} embedded with {embedder.name} {embedder.version}"
        )
