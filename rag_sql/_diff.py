"""What a new text changes in an old one, word by word: for people to look at.

Words are what stands between white space; white space itself does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

__all__ = ["Run", "folded", "text_diff"]

#: More words in a row that differ are not compared one by one: the time grows with the square of their number.
_MOST_WORDS = 5000

#: So many words of an unchanged stretch are shown before and after a change.
_CONTEXT = 12


@dataclass(frozen=True)
class Run:
    """Words in a row, and whose: `mark` is ``" "`` where both texts have them, ``"-"`` the old one, ``"+"`` the new."""

    mark: str
    words: tuple[str, ...]


def text_diff(old: str, new: str) -> tuple[Run, ...]:
    """The words of both texts in runs; no run is marked where only white space differs.

    Lines are compared first, then the words of those that differ. A stretch of more than 5,000 words that differs is
    taken for replaced as a whole.

    Parameters
    ----------
    old, new : str
    """
    runs: list[Run] = []
    for mark, words in _changes(_lines(old), _lines(new)):
        if runs and runs[-1].mark == mark:
            runs[-1] = Run(mark, (*runs[-1].words, *words))
        elif words:
            runs.append(Run(mark, tuple(words)))
    return tuple(runs)


def folded(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Mark and word, one by one; of a long unchanged run what is near a change, and how many words are left out."""
    for number, run in enumerate(runs):
        words = run.words
        head = _CONTEXT if number else 0
        tail = _CONTEXT if number < len(runs) - 1 else 0
        left_out = len(words) - head - tail
        if run.mark != " " or left_out <= _CONTEXT:
            yield from ((run.mark, word) for word in words)
            continue
        yield from ((" ", word) for word in words[:head])
        yield " ", f"[… {left_out} words …]"
        yield from ((" ", word) for word in words[len(words) - tail :])


def _lines(text: str) -> list[tuple[str, ...]]:
    return [words for line in text.splitlines() if (words := tuple(line.split()))]


def _changes(old: list[tuple[str, ...]], new: list[tuple[str, ...]]) -> Iterator[tuple[str, Sequence[str]]]:
    for what, i, j, k, m in SequenceMatcher(None, old, new).get_opcodes():
        was, is_now = _joined(old[i:j]), _joined(new[k:m])
        if what == "equal":
            yield " ", was
        else:
            yield from _word_changes(was, is_now)


def _joined(lines: list[tuple[str, ...]]) -> list[str]:
    return [word for line in lines for word in line]


def _word_changes(was: list[str], is_now: list[str]) -> Iterator[tuple[str, Sequence[str]]]:
    # What is the same at both ends costs nothing: a paragraph that was only broken otherwise is that and no more.
    most = min(len(was), len(is_now))
    head = next((n for n in range(most) if was[n] != is_now[n]), most)
    most -= head
    tail = next((n for n in range(most) if was[-1 - n] != is_now[-1 - n]), most)
    yield " ", was[:head]
    old, new = was[head : len(was) - tail], is_now[head : len(is_now) - tail]
    if max(len(old), len(new)) > _MOST_WORDS:
        yield "-", old
        yield "+", new
    else:
        for what, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if what == "equal":
                yield " ", old[i:j]
            else:
                yield "-", old[i:j]
                yield "+", new[k:m]
    yield " ", was[len(was) - tail :]
