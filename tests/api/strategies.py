"""Hostile inputs, and the decisions, contracts and drafts made of them."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from rag_sql import Claim, EvidenceStore, Tenant, _evidence
from tests.conftest import Database

Json = dict[str, Any]
Path_ = tuple[str | int, ...]

ON_SERVER = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

#: Texts that trip encoders, sorters, escapers and templates.
HOSTILE = [
    "Z",
    "a",
    "A",
    "É",
    "é",
    "E\u0301",
    "e\u0301",
    "ß",
    "ẞ",
    "\u0131",  # dotless i
    "\ue000",  # private use in the basic plane: after astral in UTF-16, before it in UTF-8 and in code points
    "\uffee",
    "😀",
    "\U000f0000",
    "שלום",
    "\u202eabc",
    "a\u200db",
    "it's",
    'say "so"',
    "back\\slash",
    "\\u0041",
    "100%",
    "%s",
    "%(x)s",
    ":x",
    "::text",
    "$1",
    "{}",
    "a.b",
    "ab",
    "abc",
    "--",
    "null",
    "\u00a0",
    "x" * 150,
]

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.one_of(
    st.sampled_from([*HOSTILE, "\n", "\r\n", "\t", "\x01\x7f\x85", "long " * 900]),
    st.text(characters, min_size=1, max_size=40),
)
names = st.one_of(st.sampled_from(HOSTILE), st.text(characters, min_size=1, max_size=12))
#: As documents, spans and questions are named: printable, without outer spaces, at most 200 bytes.
identifiers = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Cf", "Cn", "Zl", "Zp"]),
        min_size=1,
        max_size=12,
    ).filter(lambda text: text == text.strip(" ")),
)
versions = st.sampled_from([1, 2, 10, 2147483647])


def occurrence(body: str, quote: str, start: int) -> int:
    """Which occurrence of a quotation begins at `start`, from 1; occurrences may overlap."""
    return sum(body.startswith(quote, place) for place in range(start + 1))


@st.composite
def documents(draw: st.DrawFn) -> list[Json]:
    drawn = []
    for name in draw(st.lists(identifiers, min_size=1, max_size=4, unique=True)):
        body = f"{draw(texts)} evidence {draw(texts)}"
        spans = []
        edges = [at for at in range(len(body) + 1) if is_whole(body, at, at)]  # a quotation has whole characters
        for span_id in draw(st.lists(identifiers, max_size=3, unique=True)):
            first = draw(st.integers(0, len(edges) - 2))
            last = draw(st.integers(first + 1, min(first + 30, len(edges) - 1)))
            start, end = edges[first], edges[last]
            spans.append(
                {
                    "id": span_id,
                    "fact": draw(identifiers),
                    "quote": body[start:end],
                    "occurrence": occurrence(body, body[start:end], start),
                }
            )
        drawn.append({"id": name, "version": draw(versions), "body": body, "spans": spans})
    return drawn


def has_letter(quote: str) -> bool:
    """Whether a quotation can be a proposition, without a doubt: letters with a case are letters everywhere."""
    return any(unicodedata.category(character) in {"Lu", "Ll"} for character in quote)


@st.composite
def contracts(draw: st.DrawFn, quotes: Sequence[str] = (), facts: Sequence[str] = ()) -> Json:
    """The content of a contract; some of its propositions and facts are those of the documents."""
    quotes = list(filter(has_letter, quotes))
    some_text = texts.filter(has_letter)
    some_quote = st.one_of(st.sampled_from(quotes), some_text) if quotes else some_text
    some_fact = st.one_of(st.sampled_from(facts), identifiers) if facts else identifiers
    return {
        "case": draw(st.lists(identifiers, max_size=3, unique=True)),
        "facts": [
            {
                "fact": fact,
                "propositions": [
                    {"quote": quote, "clauses": draw(st.lists(texts, min_size=1, max_size=2, unique=True))}
                    for quote in draw(st.lists(some_quote, min_size=1, max_size=2, unique=True))
                ],
            }
            for fact in draw(st.lists(some_fact, min_size=1, max_size=3, unique=True))
        ],
    }


_DECIMALS = st.one_of(st.integers(0, 1), st.decimals(0, 1, places=6).map(lambda value: float(str(value))))


@st.composite
def full_contracts(draw: st.DrawFn) -> Json:
    """Contracts that may also say what a person decides, what traces keep and how passages are ranked."""
    optional: Json = {
        "decision": st.fixed_dictionaries(
            dict.fromkeys(("about", "decided_by", "refer"), texts)
            | {"never_say": st.lists(texts, min_size=1, max_size=2, unique=True)}
        ),
        "keep": st.sampled_from(["text", "digest", "none"]),
        "ranking": st.one_of(
            st.fixed_dictionaries({"method": st.sampled_from(["overlap", "vector"])}),
            st.fixed_dictionaries({"method": st.just("bm25")}, optional={"k1": _DECIMALS, "b": _DECIMALS}),
            st.fixed_dictionaries(
                {"method": st.just("hybrid")},
                optional={"model": names, "b": _DECIMALS, "depth": st.integers(1, 1000), "vector_weight": _DECIMALS},
            ),
        ),
    }
    return {**draw(contracts()), **draw(st.fixed_dictionaries({}, optional=optional))}


@dataclass(frozen=True)
class Situation:
    """Everything a decision is made of."""

    question: str
    version: int
    content: Json
    case: dict[str, str]
    documents: list[Json]

    def evidence(self) -> Json:
        """The evidence as these inputs say it, without asking the database."""
        return {
            "question_id": self.question,
            "contract": {
                "tenant": "acme",
                "version": self.version,
                "sha256": sha256(_evidence.contract_preimage(self.content)).hexdigest(),
            },
            "case_facts": self.case,
            "sources": [
                {
                    "document_id": document["id"],
                    "tenant": "acme",
                    "version": document["version"],
                    "range_start": 0,
                    "range_end": len(document["body"]),
                    "text_sha256": sha256(document["body"].encode()).hexdigest(),
                    "spans": [
                        {"span_id": span["id"], "fact": span["fact"], **place(document["body"], span)}
                        for span in document["spans"]
                    ],
                }
                for document in self.documents
            ],
        }


def place(body: str, span: Mapping[str, Any]) -> dict[str, int]:
    start = [at for at in range(len(body)) if body.startswith(span["quote"], at)][span["occurrence"] - 1]
    return {"range_start": start, "range_end": start + len(span["quote"])}


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    loaded = draw(documents())
    spans = [span for document in loaded for span in document["spans"]]
    content = draw(contracts([span["quote"] for span in spans], [span["fact"] for span in spans]))
    case = {attribute: draw(names) for attribute in draw(st.permutations(content["case"]))}
    return Situation(draw(identifiers), draw(versions), content, case, loaded)


@st.composite
def drafts(draw: st.DrawFn) -> list[Claim]:
    claim = st.builds(
        Claim, text=texts, fact=names, tenant=names, document_id=names, version=st.integers(1, 999999999), span_id=names
    )
    return draw(st.lists(claim, min_size=1, max_size=3))


@contextmanager
def rolled_back(connection: sa.Connection) -> Iterator[Tenant]:
    with connection.begin() as transaction:
        with EvidenceStore(connection).tenant("acme") as tenant:
            yield tenant
        transaction.rollback()


def sql_bytes(connection: sa.Connection, call: str, value: object) -> bytes:
    with connection.begin():
        found = connection.execute(sa.text(f"select {call}"), {"value": json.dumps(value, ensure_ascii=False)}).scalar()
    assert isinstance(found, bytes)
    return found


# Order and time of loading

PUBLIC = [
    {"id": name, "version": 1, "body": f"Public evidence {name}.", "spans": [{"id": "s", "fact": "f", "quote": name}]}
    for name in ("Z", "a", "É", "é", "e\u0301", "\ue000", "😀")
]
ACME = [
    {
        "id": name,
        "version": version,
        "body": f"Own evidence {name} in version {version}. Aa.",
        "applies_to": {"Model": ["b", "B", "ß"], "model": ["x"]},
        "effective_from": f"2024-01-0{version}",
        "spans": [
            {"id": "z", "fact": "f", "quote": "Own evidence"},
            {"id": "Z", "fact": "g", "quote": "Aa"},
            {"id": "é", "fact": "g", "quote": f"{name} in version"},
        ],
    }
    for name in ("a", "A", "é", "\U000f0000")
    for version in (1, 2)
]
CONTENT: Json = {
    "case": ["model", "Model"],
    "facts": [{"fact": "f", "propositions": [{"quote": "Own evidence", "clauses": ["It is so."]}]}],
}


def load_one_by_one(database: Database, backwards: bool) -> None:
    """Every document in a transaction of its own; backwards, with spans turned round and written another way."""
    for login, loaded in (("acme_curator", ACME), ("publisher", PUBLIC))[:: -1 if backwards else 1]:
        for document in loaded[:: -1 if backwards else 1]:
            turned: Json = dict(document)
            if backwards:
                turned["spans"] = turned["spans"][::-1]
                if "applies_to" in turned:
                    scopes = turned["applies_to"]
                    turned["applies_to"] = {key: scopes[key][::-1] for key in reversed(scopes)}
            with database.tenant(login) as tenant:
                tenant.load_documents([turned])
    with database.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, CONTENT)


def cuts_character(before: str, after: str) -> bool:
    """Whether a cut between two neighbours goes through a character: rag.cuts_character, by Python's data."""
    if not before or not after:
        return False
    flag = {chr(code) for code in range(0x1F1E6, 0x1F200)}
    return begins_none(after) or before == "\u200d" or (before, after) == ("\r", "\n") or {before, after} <= flag


def begins_none(character: str) -> bool:
    """Whether a character belongs to the one before it: a mark, joiner, skin tone, tag, vowel or final of Hangul."""
    code = ord(character)
    return (
        unicodedata.category(character).startswith("M")
        or unicodedata.category(character) == "Cn"  # a mark in a newer Unicode, perhaps
        or character in "\u200c\u200d"
        or 0x1F3FB <= code <= 0x1F3FF
        or 0xE0020 <= code <= 0xE007F
        or 0x1160 <= code <= 0x11FF
        or 0xD7B0 <= code <= 0xD7FB
    )


def is_whole(body: str, start: int, end: int) -> bool:
    """Whether a range of a body begins and ends between characters."""
    return not any(cuts_character(body[max(at - 1, 0) : at], body[at : at + 1]) for at in (start, end))
