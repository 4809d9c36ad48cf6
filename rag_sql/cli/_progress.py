"""Progress of commands that take their time: on standard error, and only where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from rag_sql.cli._common import err

__all__ = ["progress", "tracked"]

T = TypeVar("T")


class _Rate(ProgressColumn):
    """How many things are done, and how many in a second."""

    def render(self, task: Task) -> Text:
        done, unit = task.fields["done"], task.fields["unit"]
        return Text(f"{done:,} {unit}, {done / task.elapsed:,.0f}/s" if done and task.elapsed else "")


@contextmanager
def progress(what: str, unit: str, total: int | None = None) -> Iterator[Callable[[int, int], None]]:
    """Show a bar for the length of a block.

    Parameters
    ----------
    what, unit : str
        What is being done, and the things that are counted, such as "loading" and "documents".
    total : int, optional
        The amount of work; without it no time left is shown.

    Yields
    ------
    callable
        To be called with the amount of work that is done, and the number of things.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as shown:
        task = shown.add_task(what, total=total, unit=unit, done=0)

        def advance(work: int, things: int) -> None:
            shown.update(task, advance=work, done=shown.tasks[0].fields["done"] + things)

        yield advance


@contextmanager
def tracked(what: str, unit: str, items: Sequence[T]) -> Iterator[Iterator[T]]:
    """The same items, with a bar while they are used."""
    with progress(what, unit, len(items)) as advance:

        def each() -> Iterator[T]:
            for item in items:
                yield item
                advance(1, 1)

        yield each()
