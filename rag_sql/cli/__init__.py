"""The command line: ``rag-sql``.

Exit codes: 0 sufficient, or done; 1 an error, or a check that failed; 2 usage; 3 ask for evidence, or a person has to
look; 4 unsupported question; 5 approval missing, rejected or stale; 6 needs decision; 130 interrupted. Errors go to
standard error: code, what, where and what to do; with ``--json`` as one JSON object on one line.
"""

from __future__ import annotations

from typing import Annotated

import typer

import rag_sql
from rag_sql.cli import (
    _common,
    admin,
    attributes,
    audit,
    completion,
    curation,
    decisions,
    doctor,
    documents,
    embeddings,
    erasure,
    evaluation,
    history,
    impact,
    listings,
    maintenance,
    search,
    traces,
)
from rag_sql.cli._apps import app

__all__ = [
    "admin",
    "app",
    "attributes",
    "audit",
    "completion",
    "curation",
    "decisions",
    "doctor",
    "documents",
    "embeddings",
    "erasure",
    "evaluation",
    "history",
    "impact",
    "listings",
    "main",
    "maintenance",
    "search",
    "traces",
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rag-sql {rag_sql.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    _common.debug = debug


def main() -> None:
    """Entry point of ``rag-sql``."""
    app()
