"""``python -m tests.benchmarks [NAME] [--scale small|full] [--json FILE]``."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import pkgutil
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tests.benchmarks
from tests.benchmarks._rows import Row, table


def names() -> list[str]:
    """Benchmarks, by name."""
    found = (module.name for module in pkgutil.iter_modules(tests.benchmarks.__path__))
    return [name for name in found if not name.startswith(("_", "test_"))]


def main(arguments: list[str] | None = None) -> int:
    """Run a benchmark, or list them; 0 when every target is reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=tests.benchmarks.__doc__)
    parser.add_argument("name", nargs="?", choices=names(), help="without it the benchmarks are listed")
    parser.add_argument("--scale", choices=["small", "full"], default="small", help="small ends in two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON too")
    given = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    if given.name is None:
        for name in names():
            module = importlib.import_module(f"tests.benchmarks.{name}")
            console.print(f"{name}: {(inspect.getdoc(module) or '').splitlines()[0]}", highlight=False)
        return 0
    from tests.conftest import running_server

    del os.environ["RAG_SQL_PG_NO_SYNC"]  # the tests' servers do not sync; what is measured does
    with running_server() as server:
        rows: list[Row] = importlib.import_module(f"tests.benchmarks.{given.name}").run(server, given.scale)
        version = server.maintenance.execute("show server_version").fetchone()
    heading, *lines = table(rows)
    shown = Table(*heading, title=f"{given.name}, scale {given.scale}")
    for line in lines:
        shown.add_row(*line)
    console.print(shown)
    if given.json:
        about = {"postgresql": version and version[0], "python": platform.python_version(), "cores": os.cpu_count()}
        content = {"benchmark": given.name, "scale": given.scale, **about, "rows": [asdict(row) for row in rows]}
        given.json.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return 0 if all(row.reached is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
