"""The audit's check of names: persons, places, products, acronyms, identifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rag_sql._audit_model import AuditVerdict, Finding, Held
from rag_sql._audit_words import FUNCTION_WORDS, Word, stem, words

__all__ = ["NamesCheck"]

#: Capitalised by custom, and no names.
_CUSTOMARY = frozenset(
    """
    i mr mrs ms dr prof sir lord lady st tv ok am pm ad bc ce bce us usa uk u s january february march april may june
    july august september october november december jan feb mar apr jun jul aug sept sep oct nov dec god
    internet english
    """.split()
)
_INITIALS_SKIP = {"of", "the", "and", "for", "in", "on", "de", "du", "la", "le"}


@dataclass(frozen=True)
class _Name:
    start: int
    end: int
    text: str
    parts: tuple[str, ...]


class NamesCheck:
    """Each name of the sentence must stand in a passage: every word of it, or its initials, in any case.

    Names are runs of capitalised words inside a sentence, acronyms, and identifiers with digits such as ``HOLD-7``. A
    sentence that begins with one capitalised word says nothing about that word.
    """

    name = "names"

    def check(self, sentence: str, passages: Mapping[str, str], /) -> Sequence[Finding] | None:
        """See :class:`~rag_sql.Checker`."""
        said = _names(sentence)
        if not said:
            return None
        known = [_Known.of(text) for text in passages.values()]
        return [_finding(name, passages) for name in said if not any(each.holds(name) for each in known)]


@dataclass(frozen=True)
class _Known:
    """What a passage holds, for looking names up."""

    stems: frozenset[str]
    joined: str
    initials: frozenset[str]

    @staticmethod
    @lru_cache(maxsize=512)
    def of(text: str) -> _Known:
        found = [word.folded for word in words(text)]
        capitals = [word for word in words(text) if word.text[0].isupper() or word.folded in _INITIALS_SKIP]
        runs = _runs(text, capitals)
        initials = {"".join(part[0] for part in run if part not in skip) for run in runs
                    for skip in (_INITIALS_SKIP, set[str]())}  # fmt: skip
        return _Known(
            frozenset(found) | frozenset(map(stem, found)), "".join(found), frozenset(i for i in initials if len(i) > 1)
        )

    def holds(self, name: _Name) -> bool:
        if all(self._holds_word(part) for part in name.parts):
            return True
        joined = "".join(name.parts)
        initials = "".join(part[0] for part in name.parts)
        return (len(joined) > 3 and joined in self.joined) or joined in self.initials or (
            len(initials) > 1 and initials in self.stems)  # fmt: skip

    def _holds_word(self, part: str) -> bool:
        """The word or a form of it: American for America, Djiboutians for Djibouti."""
        if part in self.stems or stem(part) in self.stems:
            return True
        if len(part) < 4 or not part.isalpha():
            return False
        root = part[: min(6, max(4, len(part) - 3))]
        return any(word.startswith(root) for word in self.stems)


def _runs(text: str, capitals: Sequence[Word]) -> list[list[str]]:
    """Neighbouring words with nothing between them but a space, a hyphen or a point."""
    runs: list[list[str]] = []
    end = -1
    for word in capitals:
        if runs and end >= 0 and re.fullmatch(r"[\s.]{0,2}|-", text[end : word.start]):
            runs[-1].append(word.folded)
        else:
            runs.append([word.folded])
        end = word.end
    return runs


@lru_cache(maxsize=512)
def _names(sentence: str) -> tuple[_Name, ...]:
    found = words(sentence)
    lower = [word for word in found if word.text[0].islower() and len(word.text) > 3]
    capitalised = [word for word in found if _is_capitalised(word)]
    if len(capitalised) > 2 * len(lower) + 3:
        return ()  # a heading, or shouting: capitals say nothing
    starts = _starts(sentence, found)
    names: list[_Name] = []
    run: list[Word] = []
    for word in [*capitalised, None]:
        if (
            run
            and word
            and re.fullmatch(r"[ .]{1,2}|-", sentence[run[-1].end : word.start])
            and word.start not in starts
        ):
            run.append(word)
            continue
        if run:
            name = _name(sentence, run, starts)
            if name:
                names.append(name)
        run = [word] if word else []
    return tuple(names)


def _is_capitalised(word: Word) -> bool:
    return word.text[0].isupper() or (any(c.isupper() for c in word.text) and any(c.isdigit() for c in word.text))


def _starts(sentence: str, found: Sequence[Word]) -> set[int]:
    """Where a capital may be no name's: at the beginning, and after a colon, a quotation mark, a bullet or a stop."""
    starts = {found[0].start} if found else set()
    for word in found:
        if re.search(
            r"(?:[.:!?;*\u2022\"\u201c\u2018(\[>]|``|''|\n|[-\u2013\u2014] )\s*$",
            sentence[max(0, word.start - 6) : word.start],
        ):
            starts.add(word.start)
    return starts


def _name(sentence: str, run: list[Word], starts: set[int]) -> _Name | None:
    """The name in a run of capitalised words; None where there is none to be sure of."""
    while run and (run[0].folded in FUNCTION_WORDS or run[0].folded in _CUSTOMARY):
        run = run[1:]
    while run and (run[-1].folded in FUNCTION_WORDS or run[-1].folded in _CUSTOMARY):
        run = run[:-1]
    if not run:
        return None
    if len(run) == 1 and run[0].start in starts and not _is_certain(run[0]):
        return None
    parts = tuple(w.folded for w in run if w.folded not in FUNCTION_WORDS and w.folded not in _CUSTOMARY)
    start, end = run[0].start, run[-1].end
    return _Name(start, end, sentence[start:end], parts) if parts else None


def _is_certain(word: Word) -> bool:
    """Capitals or digits inside: no word at the beginning of a sentence is written so."""
    return any(character.isupper() or character.isdigit() for character in word.text[1:])


def _finding(name: _Name, passages: Mapping[str, str]) -> Finding:
    """An identifier with another number in a passage is contradicted; any other name is unsupported."""
    places: list[Held] = []
    match = re.fullmatch(r"(?s)(.*?[^\W\d_][-\s]?)\d[\w-]*", name.text)
    if match:
        sibling = re.compile(rf"(?<!\w){re.escape(match[1])}\d[\w-]*")
        for label, text in passages.items():
            places += [Held(label, m.start(), m.end(), m[0]) for m in sibling.finditer(text)]
    values = ", ".join(dict.fromkeys(place.text for place in places))
    return Finding(
        "names",
        AuditVerdict.CONTRADICTED if places else AuditVerdict.UNSUPPORTED,
        name.start,
        name.end,
        name.text,
        tuple(places),
        f"the cited passages say {values}" if values else "the cited passages do not hold it",
    )
