"""Words of a text with their positions, folded so that forms of one word meet."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["FUNCTION_WORDS", "Word", "fold", "stem", "words"]

#: Words that carry no content of their own.
FUNCTION_WORDS = frozenset(
    """
    a about above after again against all also although am among an and any are as at be because been before being below
    between both but by can could did do does doing done down during each either else even ever every few for from
    further get gets getting give given go goes going got had has have having he her here hers herself him himself his
    how however i if in into is it its itself just kind let like likely lot lots made make makes making many may me
    might more most much must my myself near need no nor not now of off often oh ok okay on once one only onto or other
    others our ours out over own per please really said same say says see shall she should since so some such sure take
    than
    that the their theirs them themselves then there therefore these they thing things this those though through thus to
    too under until up upon us used using very was way we well were what whatever when where whether which while who
    whole whom whose why will with within without would yeah yes yet you your yours yourself s t d ll m re ve don isn
    doesn didn won wasn weren hasn haven hadn aren couldn wouldn shouldn cannot
    """.split()
)

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W\d_]+)*")


@dataclass(frozen=True)
class Word:
    """A word as written, and where."""

    start: int
    end: int
    text: str

    @property
    def folded(self) -> str:
        """See :func:`fold`."""
        return fold(self.text)


@lru_cache(maxsize=65536)
def fold(text: str) -> str:
    """Without case, accents and a possessive ending."""
    bare = re.sub("['\u2019]s?$", "", unicodedata.normalize("NFKD", text))
    return "".join(character for character in bare if not unicodedata.combining(character)).casefold()


@lru_cache(maxsize=65536)
def stem(folded: str) -> str:
    """The part of a folded word that its forms share; crude on purpose: it may only make words meet."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ions", "ion", "ers", "er", "est", "ed", "es",
                   "ly", "s", "e", "y"):  # fmt: skip
        if folded.endswith(ending) and len(folded) - len(ending) >= 3:
            folded = folded[: -len(ending)]
            break
    if len(folded) > 3 and folded[-1] == folded[-2]:
        folded = folded[:-1]
    return folded


def words(text: str) -> list[Word]:
    """All words of a text: runs of letters and digits."""
    return [Word(match.start(), match.end(), match[0]) for match in _WORD.finditer(text)]
