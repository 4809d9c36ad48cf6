"""The command that examines a store: doctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from rag_sql import _doctor
from rag_sql._local import DATABASE
from rag_sql.cli._apps import app
from rag_sql.cli._common import HomeOption, JsonOption, UrlOption, command, open_engine, out, print_json

__all__: list[str] = []

_STYLES = {"error": "bold red", "warning": "yellow", "hint": "cyan", "ok": "green"}


@command(app)
def doctor(
    login: Annotated[
        list[str] | None, typer.Option("--login", metavar="NAME", help="Examine this login too; repeatable.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are errors; also hints about settings.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Also list the checks that found nothing.")] = False,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Examine logins, wall, grants and server; print what mends each finding. Exit code 1 when there is an error."""
    with open_engine(database_url, home, install=True, prepare=False) as (engine, local):
        if local is None or local.ready():
            found = _doctor.examine(engine, logins=login or (), strict=strict, embedded=local is not None, ok=every)
        else:
            found = [_doctor.not_installed(DATABASE)]
    errors = sum(finding.severity == "error" for finding in found)
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        _print(found, errors)
    raise typer.Exit(1 if errors else 0)


def _print(found: Sequence[_doctor.Finding], errors: int) -> None:
    """Findings as a numbered table; below it what mends them, as lines that can be copied whole."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("", "severity", "code", "where", "what"):
        table.add_column(column, overflow="fold")
    remedies: dict[str, list[str]] = {}
    for number, finding in enumerate(found, start=1):
        severity = Text(finding.severity, style=_STYLES[finding.severity])
        table.add_row(str(number), severity, *map(Text, (finding.code, finding.subject, finding.problem)))
        if finding.remedy:
            remedies.setdefault(finding.remedy, []).append(str(number))
    if found:
        out.print(table)
    for remedy, numbers in remedies.items():
        end, comment = (";", "--") if remedy.startswith(("alter ", "create ", "drop ", "revoke ")) else ("", "#")
        out.print(Text(f"{remedy}{end}  {comment} mends {', '.join(numbers)}"), soft_wrap=True)
    said = f"{errors} error{'' if errors == 1 else 's'}" if errors else "no error"
    out.print(Text(said, style=_STYLES["error" if errors else "ok"]))
