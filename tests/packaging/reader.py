"""A reader of the README: someone who does what its blocks say, in order, and sees what they say is seen.

===========  ===============================================================================================
``sh``       a script; ends with exit code 0
``console``  commands after ``$``, each with what it prints; after a command that opens psql, statements after the
             prompt, each with what psql answers
``python``   a program; ends with exit code 0
``sql``      statements, run by psql
``text``     what the block before it printed
other        a file: the name stands after the language (```` ```markdown hold.md ````), and a later block uses it
===========  ===============================================================================================

A command that is meant to fail says so at its end: ``# exit code 3``. In what is printed ``...`` stands for any lines,
packet ids are those of the reader's own run, and times are not compared.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d(:\d\d)?)")
_CODE = re.compile(r"[ ]+# exit code (\d+)$", re.MULTILINE)
_PROMPT = re.compile(r"^rag_sql([=(-])> ?(.*)$")
_ASKS = "[y/N]: "


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what stands after it, its text, and the line of the page that it begins at."""

    language: str
    name: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(found["language"], found["name"].strip(), found["text"], page.count("\n", 0, found.start()) + 1)
        for found in re.finditer(
            r"^```(?P<language>\w*)(?P<name>[^\n`]*)\n(?P<text>.*?)^```$", page, re.DOTALL | re.MULTILINE
        )
    ]


class Reader:
    """Runs blocks in one folder, as one session: what a block exports holds for the next."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._environment = environment
        self._state = folder / ".session"
        self._state.touch()
        self._ids: dict[str, str] = {}
        self._printed = ""

    def follow(self, block: Block) -> None:
        """Do what a block says; AssertionError when something else happens."""
        if block.language == "sh":
            self._succeeds(_CODE.sub(r" && exit 99 || test $? -eq \1", block.text))
        elif block.language == "console":
            self._session(block)
        elif block.language == "python":
            (self.folder / "program.py").write_text(block.text, "utf-8")
            self._succeeds("python program.py")
        elif block.language == "sql":
            (self.folder / "statements.sql").write_text(block.text, "utf-8")
            self._succeeds('rag-sql psql --tenant acme --command "$(cat statements.sql)"')
        elif block.language == "text":
            assert self._agrees(block.text, self._printed), f"line {block.line}: {self._printed}"
        else:
            assert block.name, f"line {block.line}: a block of {block.language or 'no language'} that nobody runs"
            (self.folder / block.name).write_text(block.text, "utf-8")

    def _succeeds(self, script: str) -> None:
        code, self._printed = self._run(script)
        assert code == 0, f"exit code {code} of\n{script}\n{self._printed}"

    def _session(self, block: Block) -> None:
        for command, lines in _commands(block.text):
            expected = "\n".join(lines)
            wanted = _CODE.search(command)
            script = _UUID.sub(lambda found: self._ids.get(found[0], found[0]), _CODE.sub("", command))
            statements = [line for line in lines if _PROMPT.match(line)]
            code, printed = self._psql(script, lines) if statements else self._run(script, answers=_ASKS in expected)
            assert code == (int(wanted[1]) if wanted else 0), f"exit code {code} of\n{script}\n{printed}"
            assert self._agrees(expected, printed), f"line {block.line}: {script}\nprints\n{printed}\nnot\n{expected}"

    def _psql(self, command: str, lines: list[str]) -> tuple[int, str]:
        """A session of psql: what it prints, with the prompts and statements of the page between."""
        said: list[str] = []  # statement by statement, as it stands on the page
        for line in lines:
            if found := _PROMPT.match(line):
                said = [*said, line] if found[1] == "=" else [*said[:-1], f"{said[-1]}\n{line}"]
        script = "".join(
            f"\\echo {number}:\n" + "\n".join(_PROMPT.sub(r"\2", line) for line in statement.split("\n")) + "\n"
            for number, statement in enumerate(said)
        )
        code, printed = self._run(f"{command} <<'STATEMENTS'\n{script}STATEMENTS")
        return code, re.sub(r"^(\d+):$", lambda found: said[int(found[1])], printed, flags=re.MULTILINE)

    def _agrees(self, expected: str, printed: str) -> bool:
        """Whether what was printed is what the page shows; learns which id of this run one on the page stands for."""
        pattern, learned = "", list[str]()
        for line in expected.replace(_ASKS + "y\n", _ASKS).split("\n"):
            if line == "...":
                pattern += r"(?:.*\n)*?"
            elif line:
                for word in re.split(f"({_UUID.pattern})", _TIME.sub("<time>", line.rstrip())):
                    new = _UUID.fullmatch(word) is not None and word not in self._ids
                    learned += [word] if new else []
                    pattern += f"({_UUID.pattern})" if new else re.escape(self._ids.get(word, word))
                pattern += "\n"
        lines = [_TIME.sub("<time>", line.rstrip()) for line in printed.split("\n") if line.strip()]
        match = re.fullmatch(pattern, "".join(f"{line}\n" for line in lines))
        if match is not None:
            self._ids |= dict(zip(learned, match.groups(), strict=True))
        return match is not None

    def _run(self, script: str, *, answers: bool = False) -> tuple[int, str]:
        """A script in the session's shell: its exit code and all that it printed. At a terminal it is answered `y`."""
        main, terminal = pty.openpty()
        os.write(main, b"y\n")
        done = subprocess.run(
            ["bash", "-c", f". {self._state}\nset -euo pipefail\n{script}\nexport -p > {self._state}\n"],
            cwd=self.folder,
            env=self._environment,
            stdin=terminal if answers else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        os.close(main)
        os.close(terminal)
        return done.returncode, done.stdout


def _commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        else:
            found[-1][1].append(line)
    return found
