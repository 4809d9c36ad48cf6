"""The command that runs an evaluation set: eval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_sql import _render
from rag_sql._evaluation import evaluate
from rag_sql.cli._apps import app
from rag_sql.cli._common import HomeOption, JsonOption, RequiredTenant, UrlOption, command, open_store, out, print_json

__all__: list[str] = []


@command(app, "eval")
def evaluation(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The evaluation set, in YAML.")],
    tenant: RequiredTenant,
    answers: Annotated[
        Path | None,
        typer.Option("--answers", help='Answers of a model: JSON lines {"id": CASE, "answer": TEXT}.'),
    ] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run an evaluation set and say of each case at which stage it was lost. Exit code 1 when one is not as expected.

    Nothing is stored. --json has the context of each case under its labels: what a model needs to answer it.
    """
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        found = evaluate(bound, file, answers=answers)
    print_json(found.to_dict()) if as_json else _render.evaluation(out, found)
    raise typer.Exit(0 if found.as_expected else 1)
