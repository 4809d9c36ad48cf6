"""The command that searches without deciding: search."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from rag_sql import _render
from rag_sql.cli._apps import app
from rag_sql.cli._common import (
    CaseOption,
    HomeOption,
    JsonOption,
    KnownAtOption,
    KOption,
    ParameterOption,
    TenantOption,
    UrlOption,
    ValidAtOption,
    case_of,
    command,
    open_store,
    out,
    parameters_of,
    print_json,
)

__all__: list[str] = []


@command(app)
def search(
    query: Annotated[str, typer.Argument(help="Words for the ranker.")],
    tenant: TenantOption = None,
    case: CaseOption = None,
    k: KOption = 10,
    method: Annotated[str, typer.Option("--method", help="Ranking: overlap, bm25, vector or hybrid.")] = "bm25",
    parameter: ParameterOption = None,
    valid_at: ValidAtOption = None,
    known_at: KnownAtOption = None,
    why: Annotated[bool, typer.Option("--why", help="Say what each word of the query adds to a score.")] = False,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the best passages that may be used, without deciding whether they are enough."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        hits = bound.search(
            query,
            k=k,
            method=method,
            parameters=parameters_of(parameter, method, query),
            case=case_of(case),
            valid_at=valid_at,
            known_at=known_at,
            why=why,
        )
    print_json([asdict(hit) for hit in hits]) if as_json else _render.hits(out, hits)
