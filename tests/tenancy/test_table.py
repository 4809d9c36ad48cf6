"""The table of README.md and the tests are about the same attacks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent

IDS = [
    f"{chapter}{number:02}"
    for chapter, last in {"A": 20, "B": 10, "C": 23, "D": 15, "E": 25}.items()
    for number in range(1, last + 1)
]

ROWS = re.findall(r"^\| ([A-E]\d\d) \| (.+) \| (.+) \|$", (FOLDER / "README.md").read_text(), re.M)
ANSWERS = {entry: answer for entry, _, answer in ROWS}


def functions(path: Path) -> list[str]:
    return re.findall(r"^def (test_\w+)", path.read_text(), re.M)


HERE = [(path.name, name) for path in sorted(FOLDER.glob("test_*.py")) for name in functions(path)]
EVERYWHERE = {name for path in TESTS.rglob("test_*.py") for name in functions(path)}


def test_every_attack_has_one_line() -> None:
    assert len(IDS) == 93
    assert [entry for entry, _, _ in ROWS] == IDS


@pytest.mark.parametrize("entry", IDS)
def test_a_line_says_what_tests_it_or_why_nothing_does(entry: str) -> None:
    answer = ANSWERS[entry]
    assert re.match(r"tested by `test_|not applicable because \S|not promised because \S", answer)
    for name in re.findall(r"`(test_\w+)`", answer):
        assert name in EVERYWHERE
    for file in re.findall(r"`(test_\w+\.py)`", answer):
        assert (FOLDER / file).is_file()


@pytest.mark.parametrize(("file", "name"), HERE)
def test_a_test_with_an_id_stands_in_the_line_of_that_id(file: str, name: str) -> None:
    for entry in re.findall(r"_([A-E]\d\d)(?=_)", name):
        assert f"`{name}`" in ANSWERS[entry] or f"`{file}`" in ANSWERS[entry], entry
