"""Loading folders of Markdown: for the first time, again unchanged, and the memory it takes.

The limit beside it is COPY of the same bytes into a plain table, files read included. Loads are runs of the program
``rag-sql load``, each in a process of its own, timed from the command line to the exit code; what Python takes to
import the program, whatever it loads, is a row of its own. First loads each go into a fresh store.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rag_sql._embedded import SUPERUSER
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Database, Server, installed

ARCHIVE = (
    Path(os.environ.get("RAG_SQL_DATA", Path(__file__).parents[2].parent / "shared" / "data")) / "etcd-docs.tar.gz"
)

FASTER = 5.0
FLAT = 1.25


@dataclass(frozen=True)
class Sizes:
    """Numbers of files; memory is measured at each of `memory` and held against the first."""

    files: int
    memory: tuple[int, ...]
    repetitions: int


SIZES: dict[Scale, Sizes] = {
    "small": Sizes(2000, (1000, 2000), 3),
    "full": Sizes(10_000, (1000, 10_000, 50_000), 3),
}

# Runs the program and says on its last line of standard error what it took: seconds to import it, seconds to run it,
# and memory in KiB, which the kernel's figure for a child would begin with its parent's.
_PROGRAM = """
import time
began = time.perf_counter()
import atexit, resource, sys
from pathlib import Path
from rag_sql.cli import main
start = time.perf_counter()
def say():
    end = time.perf_counter()
    status = Path("/proc/self/status")
    if status.exists():
        (peak,) = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    else:  # macOS, in bytes
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(start - began, end - start, peak, file=sys.stderr)
atexit.register(say)
main()
"""


def run(server: Server, scale: Scale) -> list[Row]:
    """Rows of the generated pages, of etcd's where they are, and of memory."""
    return measure(server, SIZES[scale])


def measure(server: Server, sizes: Sizes) -> list[Row]:
    """The same at any size."""
    template = installed(server)
    rows = []
    with tempfile.TemporaryDirectory(prefix="rag-sql-pages-") as name:
        folder = Path(name)
        write_pages(folder / "pages", sizes.files)
        rows += _times(
            server, template, folder / "pages", f"{sizes.files:,} generated pages", sizes.repetitions, target=True
        )
        if ARCHIVE.is_file():
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(folder / "etcd", filter="data")
            rows += _times(server, template, folder / "etcd", "etcd's pages", sizes.repetitions, target=False)
        else:
            rows.append(Row("etcd's pages", note=f"left out: not at {ARCHIVE} (RAG_SQL_DATA)"))
        rows += _memory(server, template, folder, sizes.memory)
    return rows


def _times(server: Server, template: Database, folder: Path, what: str, repetitions: int, *, target: bool) -> list[Row]:
    files = sorted(folder.rglob("*.md"))
    copies, imports, firsts, agains = [], [], [], []
    for _ in range(repetitions):
        with _clone(server, template) as database:
            copies.append(_copy(database, files))
            first = _load(database, folder)
            again = _load(database, folder)
        counts = [first.counted["new"] + first.counted["empty"], again.counted["same"] + again.counted["empty"]]
        assert counts == [len(files)] * 2, counts
        imports += [first.imports, again.imports]
        firsts.append(first.seconds)
        agains.append(again.seconds)
    copy, faster = median(copies), median(firsts) / median(agains)
    return [
        Row(f"{what}: COPY of the same bytes", copy),
        Row(f"{what}: first load", median(firsts), ratio=median(firsts) / copy, beside="COPY"),
        Row(f"{what}: second load, unchanged", median(agains), ratio=median(agains) / copy, beside="COPY"),
        Row(f"{what}: importing the program", median(imports), ratio=median(imports) / copy, beside="COPY"),
        Row(
            f"{what}: unchanged faster than first",
            faster,
            "times",
            target=f"at least {FASTER:g}" if target else "",
            reached=faster >= FASTER if target else None,
        ),
    ]


def _memory(server: Server, template: Database, folder: Path, numbers: tuple[int, ...]) -> list[Row]:
    rows: list[Row] = []
    smallest = 0.0
    for number in numbers:
        write_pages(folder / f"memory-{number}", number)
        with _clone(server, template) as database:
            loaded = _load(database, folder / f"memory-{number}")
        assert loaded.counted["new"] == number
        peak = loaded.memory
        smallest = smallest or peak
        rows.append(
            Row(
                f"peak memory of a first load, {number:,} files",
                peak,
                "MiB",
                ratio=peak / smallest,
                beside=f"{numbers[0]:,} files",
                target="" if number == numbers[0] else f"at most {FLAT:g}",
                reached=None if number == numbers[0] else peak / smallest <= FLAT,
            )
        )
    return rows


@contextmanager
def _clone(server: Server, template: Database) -> Iterator[Database]:
    database = server.create(template.name)
    try:
        yield database
    finally:
        server.drop(database)


def _copy(database: Database, files: list[Path]) -> float:
    with database.connect(SUPERUSER) as connection:
        connection.execute("create table public.page (id text, body text)")
        start = time.perf_counter()
        with connection.cursor().copy("copy public.page from stdin") as copy:
            for path in files:
                copy.write_row((str(path), path.read_text("utf-8")))
        connection.commit()
        return time.perf_counter() - start


@dataclass(frozen=True)
class Loaded:
    """A run of the program: seconds to import and to run it, what it counted, and the most memory it had, in MiB."""

    imports: float
    seconds: float
    counted: dict[str, int]
    memory: float


def _load(database: Database, folder: Path) -> Loaded:
    command = [sys.executable, "-c", _PROGRAM, "load", str(folder), "--tenant", "acme", "--json"]
    done = subprocess.run(
        [*command, "--database-url", database.url("acme_curator")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    imports, seconds, memory = map(float, done.stderr.splitlines()[-1].split())
    return Loaded(imports, seconds, json.loads(done.stdout), memory / 1024)


# Pages

_TEXT = """
    gateway firmware telemetry reconnect audit hold rollback export diagnostic cluster snapshot compaction retention
    period restore member leader election quota alarm endpoint certificate rotation schedule maintenance window
    operator region tenant invoice receipt refund policy approval deadline storage replica latency timeout retry
    backoff request response client server peer network disk memory index revision key value lease watch
"""
_WORDS = _TEXT.split()


def write_pages(folder: Path, number: int) -> None:
    """Write pages with front matter and spans, about 7 KiB long on average, as etcd's are; always the same ones."""
    for page in range(number):
        path = folder / f"area-{page % 37:02}" / f"page-{page:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_page(page), "utf-8")


def _page(number: int) -> str:
    draw = random.Random(number)
    rule = f"Rule {number} says that the {draw.choice(_WORDS)} of unit {number} must be {draw.choice(_WORDS)}."
    sections = [_section(draw) for _ in range(draw.randint(1, 14))]
    sections.insert(draw.randint(0, len(sections)), rule)
    return f"""---
id: page-{number}
version: 1
title: Page {number} about the {draw.choice(_WORDS)}
applies_to:
  model: [G{draw.randint(1, 4)}]
  firmware: [2.{draw.randint(0, 5)}.{draw.randint(0, 9)}, "3.10"]
effective_from: 2026-01-{draw.randint(1, 28):02}
source: https://docs.example.org/{number}
owner: team-{draw.randint(1, 20)}
spans:
  - id: rule
    fact: {draw.choice(_WORDS)}
    quote: {rule}
---
# Page {number}

{chr(10).join(f"{section}{chr(10)}" for section in sections)}"""


def _section(draw: random.Random) -> str:
    paragraphs = [" ".join(_sentence(draw) for _ in range(draw.randint(2, 6))) for _ in range(draw.randint(1, 3))]
    return f"## {draw.choice(_WORDS).capitalize()} {draw.randint(1, 99)}\n\n" + "\n\n".join(paragraphs)


def _sentence(draw: random.Random) -> str:
    words = draw.choices(_WORDS, k=draw.randint(8, 18))
    words[draw.randrange(len(words))] = f"v{draw.randint(0, 5000)}"
    return " ".join(words).capitalize() + "."
