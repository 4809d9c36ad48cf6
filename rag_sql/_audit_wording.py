"""The audit's checks of wording: quotation marks, negation, modality, and words that stand in no passage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rag_sql._audit_model import AuditVerdict, Finding, Held
from rag_sql._audit_text import sentence_spans
from rag_sql._audit_words import FUNCTION_WORDS, Word, stem, words

__all__ = ["ModalityCheck", "NegationCheck", "QuotationCheck", "WordsCheck"]

_QUOTED = re.compile('"([^"]+)"|\u201c([^\u201c\u201d]+)\u201d|\u00ab([^\u00ab\u00bb]+)\u00bb')
_ELLIPSIS = re.compile(r"\[\s?(?:\.\s?){3}\]|\[\u2026\]|(?:\.\s?){3,}|\u2026")
_QUOTED_WORDS = 4  # from here on a quotation; below it a title or a term


class QuotationCheck:
    """What stands in quotation marks, from four words on, must stand in a passage character by character.

    What differs only in case, spaces, punctuation or typography, and what leaves something out at an ellipsis, goes to
    review with the passage's own words; anything else is ``unsupported``.
    """

    name = "quotation"

    def check(self, sentence: str, passages: Mapping[str, str], /) -> Sequence[Finding] | None:
        """See :class:`~rag_sql.Checker`."""
        quoted = [match for match in _QUOTED.finditer(sentence) if len(words(match[0])) >= _QUOTED_WORDS]
        if not quoted:
            return None
        findings = []
        for match in quoted:
            text = match[match.lastindex or 0].strip()
            if not any(text in passage or text.rstrip(".,;:!?") in passage for passage in passages.values()):
                findings.append(self._finding(match, text, passages))
        return findings

    def _finding(self, match: re.Match[str], text: str, passages: Mapping[str, str]) -> Finding:
        pieces = [piece for piece in _ELLIPSIS.split(text) if words(piece)]
        held = [place for label, passage in passages.items() if (place := _stretch(label, passage, pieces))]
        if not held:
            verdict, reason = AuditVerdict.UNSUPPORTED, "no cited passage holds this quotation"
        elif len(pieces) > 1:
            verdict, reason = AuditVerdict.REVIEW, "the quotation leaves out words of the passage"
        else:
            verdict, reason = AuditVerdict.REVIEW, "the passage writes it with other characters"
        return Finding(self.name, verdict, match.start(), match.end(), match[0], tuple(held), reason)


def _stretch(label: str, passage: str, pieces: Sequence[str]) -> Held | None:
    """Where the pieces stand in their order, compared word by word, from the first word to the last."""
    found = _words(passage)
    folded = [word.folded for word in found]
    place, first = 0, -1
    for piece in pieces:
        wanted = [word.folded for word in words(piece)]
        for start in range(place, len(folded) - len(wanted) + 1):
            if folded[start : start + len(wanted)] == wanted:
                place = start + len(wanted)
                first = start if first < 0 else first
                break
        else:
            return None
    if first < 0:
        return None
    start, end = found[first].start, found[place - 1].end
    return Held(label, start, end, passage[start:end])


@lru_cache(maxsize=512)
def _words(text: str) -> tuple[Word, ...]:
    return tuple(words(text))


def _content(found: Sequence[Word]) -> list[Word]:
    """The words that carry content: neither function words, single characters nor negations."""
    return [w for w in found if w.folded not in FUNCTION_WORDS and len(w.folded) > 1 and not _negates(w)]


@lru_cache(maxsize=512)
def _stems(text: str) -> frozenset[str]:
    folded = [word.folded for word in words(text)]
    return frozenset(folded) | frozenset(map(stem, folded))


class WordsCheck:
    """A sentence of three content words or more, most of which stand in no passage, is ``unsupported``.

    It bears on a sentence only where it finds something: that the words do stand there bears nothing out.
    """

    name = "words"
    #: The share of missing words from which a sentence is found unsupported.
    share = 0.7

    def check(self, sentence: str, passages: Mapping[str, str], /) -> Sequence[Finding] | None:
        """See :class:`~rag_sql.Checker`."""
        content = _content(words(sentence))
        known = [_stems(text) for text in passages.values()]
        missing = [w for w in content if not any(w.folded in each or stem(w.folded) in each for each in known)]
        if len(content) < 3 or len(missing) < self.share * len(content):
            return None
        said = ", ".join(dict.fromkeys(word.text for word in missing))
        start, end = content[0].start, content[-1].end
        reason = f"{len(missing)} of {len(content)} content words stand in no cited passage"
        return [Finding(self.name, AuditVerdict.UNSUPPORTED, start, end, said, (), reason)]


# Negation and modality: the words that a cue governs, in the sentence and in the passage's sentence closest to it.

_NEGATIONS = frozenset(
    "not no never none neither nor without cannot nobody nothing nowhere forbidden forbids prohibited prohibits refuse "
    "refuses refused deny denies denied fail fails failed unable".split()
)
_MODALS = {
    word: kind
    for kind, forms in {
        "must": "must shall required requires mandatory obliged has-to have-to had-to need-to needs-to",
        "should": "should recommended recommends ought",
        "may": "may might could can allowed permitted optional possibly perhaps able",
        "will": "will would",
    }.items()
    for word in forms.split()
}
_REACH = 4
_CLAUSE_END = re.compile(r"[,;:.!?()\u2013\u2014]")


def _negates(word: Word) -> bool:
    return word.folded in _NEGATIONS or word.folded.endswith(("n't", "n\u2019t"))


@dataclass(frozen=True)
class _Governed:
    """The content words of a sentence, and which of them a cue governs, by stem."""

    first: str
    stems: frozenset[str]
    negated: dict[str, str]
    modal: dict[str, str]
    negations: tuple[Word, ...]
    modals: tuple[Word, ...]

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(text: str) -> _Governed:
        found = words(text)
        negated: dict[str, str] = {}
        modal: dict[str, str] = {}
        negations = tuple(word for word in found if _negates(word))
        modals = tuple(word for place, word in enumerate(found) if _modal(found, place))
        for place, word in enumerate(found):
            kind = _modal(found, place)
            if _negates(word):
                for governed in _reach(text, found, place):
                    negated.setdefault(stem(governed.folded), word.text)
            if kind:
                for governed in _reach(text, found, place)[:1]:
                    modal.setdefault(stem(governed.folded), kind)
        content = frozenset(stem(word.folded) for word in _content(found))
        first = stem(found[0].folded) if found else ""
        return _Governed(first, content, negated, modal, negations, modals)


def _modal(found: Sequence[Word], place: int) -> str:
    """The kind of a modal; empty for other words, and for the month."""
    word = found[place]
    following = found[place + 1].folded if place + 1 < len(found) else ""
    if word.text == "May" and (place > 0 or following.isdigit()):
        return ""
    return _MODALS.get(word.folded) or _MODALS.get(f"{word.folded}-{following}", "")


def _reach(text: str, found: Sequence[Word], place: int) -> list[Word]:
    """The content words that the cue at a place governs: the next few, up to the clause's end."""
    governed: list[Word] = []
    for word in found[place + 1 : place + 1 + 2 * _REACH]:
        if _CLAUSE_END.search(text, found[place].end, word.start) or len(governed) == _REACH:
            break
        if word.folded not in FUNCTION_WORDS and not _negates(word) and word.folded not in _MODALS:
            governed.append(word)
    return governed


def _closest(sentence: str, passages: Mapping[str, str]) -> tuple[_Governed, Held] | None:
    """The passages' sentence that shares most content words with this one: at least two, and half of them."""
    mine = _Governed.of(sentence).stems
    best: tuple[float, _Governed, Held] | None = None
    for label, text in passages.items():
        for start, end in sentence_spans(text):
            other = _Governed.of(text[start:end])
            shared = len(mine & other.stems)
            score = shared - len(other.stems) / 1000
            if shared >= max(2, len(mine) / 2) and (best is None or score > best[0]):
                said = text[start:end].strip()
                begin = text.index(said, start)
                best = score, other, Held(label, begin, begin + len(said), said)
    return best and best[1:]


class NegationCheck:
    """A word that is negated on one side and stands without negation on the other sends the sentence to review.

    Compared is the passages' sentence that shares most words with this one, where one shares at least half.
    """

    name = "negation"

    def check(self, sentence: str, passages: Mapping[str, str], /) -> Sequence[Finding] | None:
        """See :class:`~rag_sql.Checker`."""
        closest = _closest(sentence, passages)
        mine = _Governed.of(sentence)
        if closest is None or not (mine.negations or closest[0].negations):
            return None
        other, held = closest
        differ = (mine.stems & other.stems) & (set(mine.negated) ^ set(other.negated))
        if not differ:
            return []
        start, end = (mine.negations[0].start, mine.negations[-1].end) if mine.negations else _extent(sentence)
        side = "the sentence" if set(mine.negated) & differ else "the passage"
        reason = f"{side} negates {', '.join(sorted(differ))}, the other does not"
        return [Finding(self.name, AuditVerdict.REVIEW, start, end, sentence[start:end], (held,), reason)]


class ModalityCheck:
    """A word under must on one side and under may on the other, or under none, sends the sentence to review.

    Kinds are must, should, may (with can, might and could) and will; that will is left out is no difference, since
    time passes.
    """

    name = "modality"

    def check(self, sentence: str, passages: Mapping[str, str], /) -> Sequence[Finding] | None:
        """See :class:`~rag_sql.Checker`."""
        closest = _closest(sentence, passages)
        mine = _Governed.of(sentence)
        if closest is None or not (mine.modals or closest[0].modals):
            return None
        other, held = closest
        differ = [
            f"{mine.modal.get(word, 'no modal')} against {other.modal.get(word, 'no modal')}"
            for word in sorted(mine.stems & other.stems)
            if _modality_differs(word, mine, other)
        ]
        if not differ:
            return []
        start, end = (mine.modals[0].start, mine.modals[-1].end) if mine.modals else _extent(sentence)
        return [
            Finding(
                self.name,
                AuditVerdict.REVIEW,
                start,
                end,
                sentence[start:end],
                (held,),
                "; ".join(dict.fromkeys(differ)),
            )
        ]


def _modality_differs(word: str, mine: _Governed, other: _Governed) -> bool:
    """That will is left out, or must before what the other side puts as an imperative, is no difference."""
    kinds = {mine.modal.get(word), other.modal.get(word)}
    imperative = word in (mine.first, other.first)
    return len(kinds) > 1 and kinds != {"will", None} and not (imperative and kinds == {"must", None})


def _extent(sentence: str) -> tuple[int, int]:
    """The sentence without the spaces around it."""
    start = len(sentence) - len(sentence.lstrip())
    return start, start + len(sentence.strip())
