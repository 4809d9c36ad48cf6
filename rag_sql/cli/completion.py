"""The command that makes shells complete: completion."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer._completion_shared import get_completion_script

from rag_sql.cli._apps import COMPLETE, app
from rag_sql.cli._common import command

__all__: list[str] = []


class Shell(StrEnum):
    """Shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@command(app)
def completion(
    shell: Annotated[Shell | None, typer.Argument(help="Default: the shell of $SHELL.", show_default=False)] = None,
) -> None:
    """Print the script with which a shell completes commands and options.

    In bash: eval "$(rag-sql completion bash)"
    """
    named = shell or Path(os.environ.get("SHELL", "")).name
    if named not in set(Shell):
        raise typer.BadParameter(f"name one of {', '.join(Shell)}", param_hint="SHELL")
    typer.echo(get_completion_script(prog_name="rag-sql", complete_var=COMPLETE, shell=str(named)))
