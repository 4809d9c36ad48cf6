"""The command that audits an answer: audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from rag_sql._audit import audit_answer
from rag_sql._audit_model import AuditReport, AuditVerdict, Finding
from rag_sql._render import as_text
from rag_sql.cli._apps import app
from rag_sql.cli._common import JsonOption, command, out, print_json
from rag_sql.errors import FileRefused

__all__: list[str] = []

_HINT = 'The file holds {"answer": "... [P1].", "sources": {"P1": "the passage\'s text"}}.'


@command(app)
def audit(
    file: Annotated[Path, typer.Argument(help="JSON: an answer with citations, and its sources by label.")],
    as_json: JsonOption = False,
) -> None:
    """Compare an answer with the passages that it cites. Exit code 1: rejected; 3: a person has to look; 0: neither.

    It never accepts an answer: at best it found nothing.
    """
    answer, sources = _read(file)
    report = audit_answer(answer, sources)
    if as_json:
        print_json(report.to_dict())
    else:
        print_report(report)
    if report.verdict.rejects:
        raise typer.Exit(1)
    raise typer.Exit(0 if report.verdict is AuditVerdict.NO_FINDING else 3)


def _read(file: Path) -> tuple[str, dict[str, str]]:
    """The answer and the sources of a file."""
    try:
        value: Any = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise FileRefused(str(file), 0, f"cannot be read: {error.strerror}", hint=_HINT) from None
    except json.JSONDecodeError as error:
        raise FileRefused(str(file), error.lineno, f"is not JSON: {error.msg}", hint=_HINT) from None
    except (UnicodeDecodeError, RecursionError):
        raise FileRefused(str(file), 0, "is not JSON in UTF-8", hint=_HINT) from None
    if not isinstance(value, dict) or value.keys() != {"answer", "sources"}:
        raise FileRefused(str(file), 0, "is not an object with the keys answer and sources", hint=_HINT)
    answer, sources = value["answer"], value["sources"]
    if not isinstance(answer, str):
        raise FileRefused(str(file), 0, "answer is not a text", hint=_HINT)
    if not isinstance(sources, dict) or not all(isinstance(text, str) for text in sources.values()):
        raise FileRefused(str(file), 0, "sources is not an object of texts by label", hint=_HINT)
    return answer, sources


def print_report(report: AuditReport) -> None:
    """Each sentence with its verdict; below it, for each finding, what is said and what the passages hold."""
    for sentence in report.sentences:
        out.print(as_text(f"{sentence.verdict}: {' '.join(sentence.text.split())}"), soft_wrap=True)
        for finding in sentence.findings:
            out.print(as_text(_line(finding)), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("check", "bears on", "found in"):
        table.add_column(column)
    for count in report.checks:
        table.add_row(count.check, f"{count.bears_on} of {len(report.sentences)}", str(count.found_in))
    out.print(table)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.counts().items() if count)
    out.print(as_text(f"{report.verdict}: of {len(report.sentences)} sentences {counts}"), soft_wrap=True)


def _line(finding: Finding) -> str:
    said = "" if finding.verdict is AuditVerdict.UNCITED else f"{' '.join(finding.said.split())!r}: "
    held = "".join(f"\n    {place.label}: {' '.join(place.text.split())}" for place in finding.held)
    return f"  {finding.check} {finding.start}-{finding.end} {said}{finding.reason}{held}"
