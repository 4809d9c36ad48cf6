"""The command that keeps searches fast: maintain."""

from __future__ import annotations

from dataclasses import asdict

from rag_sql import _maintenance
from rag_sql._maintain_embeddings import maintain_embeddings
from rag_sql.cli._apps import app
from rag_sql.cli._common import HomeOption, JsonOption, UrlOption, command, err, open_engine, out, print_json
from rag_sql.cli._progress import progress

__all__: list[str] = []


@command(app)
def maintain(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Put the search index in order, while others read and load. Safe at any time, and again after an interruption."""
    with open_engine(database_url, home, install=True) as (engine, _):
        passages = sum(row[3] for row in _maintenance.due(engine))
        with progress("maintaining", "segments", passages if err.is_terminal else None) as advance:
            report = _maintenance.maintain(engine, advance)
        with err.status("moving vectors"):
            moved = maintain_embeddings(engine)
    if as_json:
        print_json({**asdict(report), "vectors": [asdict(row) for row in moved]})
        return
    if report.segments:
        out.print(f"put {report.segments} segments with {report.passages:,} passages together")
    if report.busy:
        out.print(f"{report.busy} segments stay as they are, since a load held them up: run it again")
    for row in moved:
        out.print(
            f"{row.tenant}: {row.vectors:,} vectors of {row.model} {row.model_version}: {row.action}", soft_wrap=True
        )
    if not report.segments and not report.busy and not moved:
        out.print("nothing is due")
