"""Identity is bytes (law 4): SQL and Python compute the same pre-images, on any text, and only evidence is in them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rag_sql import Claim, EvidenceStore, Packet, Tenant, _admin, _evidence, _install
from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, LOGINS, QUERY, QUESTION, SEED, Clone, Database, Server

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
        for span_id in draw(st.lists(identifiers, max_size=3, unique=True)):
            start = draw(st.integers(0, len(body) - 1))
            end = draw(st.integers(start + 1, min(start + 30, len(body))))
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


@st.composite
def contracts(draw: st.DrawFn, quotes: Sequence[str] = (), facts: Sequence[str] = ()) -> Json:
    """The content of a contract; some of its propositions and facts are those of the documents."""
    some_quote = st.one_of(st.sampled_from(quotes), texts) if quotes else texts
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


@pytest.fixture(scope="module")
def connection(server: Server, installed_template: Database) -> Iterator[sa.Connection]:
    """A curator's connection to a store without documents; every test rolls back."""
    database = server.create(installed_template.name)
    with database.engine("acme_curator") as engine, engine.connect() as opened:
        yield opened
    server.drop(database)


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


# SQL and Python agree


@ON_SERVER
@given(situation=situations())
def test_a_packet_is_the_same_bytes_from_inputs_from_sql_and_from_its_document(
    connection: sa.Connection, situation: Situation
) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents(situation.documents)
        acme.add_contract(situation.question, situation.version, situation.content)
        request: dict[str, Any] = {"query": "evidence", "case": situation.case, "k": 1000}
        packet = acme.record_packet(situation.question, **request)
        decision = acme.decide(situation.question, **request)
        stored = acme.packet(packet.packet_id)
    assert packet.verify() == []
    assert packet.preimage == _evidence.evidence_preimage(situation.evidence()).hex()
    assert packet.preimage == _evidence.evidence_preimage(packet.document).hex()
    assert packet.digest == sha256(bytes.fromhex(packet.preimage)).hexdigest()
    assert (decision.preimage, decision.digest) == (packet.preimage, packet.digest)
    assert stored == packet
    assert Packet.from_json(packet.to_json()) == packet
    assert (decision.missing, decision.witnesses) == (packet.missing, packet.witnesses)


@ON_SERVER
@given(content=contracts())
def test_a_contract_is_the_same_bytes_in_sql_and_in_python(connection: sa.Connection, content: Json) -> None:
    call = "rag.contract_preimage(cast(:value as jsonb))"
    assert sql_bytes(connection, call, content) == _evidence.contract_preimage(content)


@ON_SERVER
@given(claims=drafts())
def test_a_draft_is_the_same_bytes_in_sql_and_in_python(connection: sa.Connection, claims: list[Claim]) -> None:
    values = [vars(claim) for claim in claims]
    call = "rag_api.draft_preimage(cast(:value as jsonb))"
    assert sql_bytes(connection, call, values) == _evidence.draft_preimage(values)


@ON_SERVER
@given(situation=situations(), claims=drafts(), data=st.data())
def test_what_a_reviewer_is_shown_is_the_same_digest_in_sql_and_in_python(
    connection: sa.Connection, situation: Situation, claims: list[Claim], data: st.DataObject
) -> None:
    with rolled_back(connection) as acme:
        acme.load_documents(situation.documents)
        acme.add_contract(situation.question, situation.version, situation.content)
        packet = acme.record_packet(situation.question, query="evidence", case=situation.case, k=1000)
        licensed = [
            Claim(
                witness.clauses[0], witness.fact, witness.tenant, witness.document_id, witness.version, witness.span_id
            )
            for witness in packet.witnesses
        ]
        claims = data.draw(st.permutations([*licensed, *claims]))
        review = acme.review(packet.packet_id, claims)
        checked = acme.check_claims(packet, claims)
    draft = sha256(_evidence.draft_preimage([vars(claim) for claim in claims])).digest()
    verdicts = [(verdict.verdict, verdict.reason) for verdict in review.verdicts]
    shown = _evidence.shown_preimage(bytes.fromhex(packet.digest), draft, verdicts)
    assert (review.draft_digest, review.shown_digest) == (draft.hex(), sha256(shown).hexdigest())
    assert review.evidence_digest == packet.digest
    assert list(review.verdicts) == checked
    assert [verdict.claim for verdict in review.verdicts] == claims
    assert all(verdict.licensed for verdict in review.verdicts if verdict.claim in licensed)


# Nothing runs together


@settings(max_examples=60, deadline=None)
@given(data=st.data(), whole=st.text(characters, min_size=3, max_size=12))
def test_texts_that_run_together_to_the_same_characters_have_different_bytes(data: st.DataObject, whole: str) -> None:
    first = data.draw(st.integers(1, len(whole) - 1))
    second = data.draw(st.integers(1, len(whole) - 1))
    assume(first != second)

    def evidence(left: str, right: str, where: str) -> bytes:
        span = {"span_id": "s", "fact": "f", "range_start": 0, "range_end": 1}
        source = {
            "document_id": "d",
            "tenant": "t",
            "version": 1,
            "range_start": 0,
            "range_end": 1,
            "text_sha256": "00" * 32,
        }
        packet: Json = {"question_id": "q", "contract": {"tenant": "t", "version": 1, "sha256": "00" * 32}}
        case = {"a": "b"}
        if where == "question and owner":
            packet["question_id"], packet["contract"]["tenant"] = left, right
        elif where == "attribute and value":
            case = {left: right}
        elif where == "document and visibility":
            source |= {"document_id": left, "tenant": right}
        elif where == "span and fact":
            span |= {"span_id": left, "fact": right}
        return _evidence.evidence_preimage({**packet, "case_facts": case, "sources": [{**source, "spans": [span]}]})

    for where in ("question and owner", "attribute and value", "document and visibility", "span and fact"):
        one, other = (evidence(whole[:cut], whole[cut:], where) for cut in (first, second))
        assert one != other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"fact": "f", "propositions": [{"quote": "ab", "clauses": ["c"]}]},
            {"fact": "f", "propositions": [{"quote": "a", "clauses": ["bc"]}]},
        ),
        (
            {"fact": "fq", "propositions": [{"quote": "a", "clauses": ["c"]}]},
            {"fact": "f", "propositions": [{"quote": "qa", "clauses": ["c"]}]},
        ),
        (
            {"fact": "f", "propositions": [{"quote": "q", "clauses": ["a", "b"]}]},
            {"fact": "f", "propositions": [{"quote": "q", "clauses": ["ab"]}]},
        ),
        (
            {"fact": "f", "propositions": [{"quote": "q", "clauses": ["a"]}, {"quote": "b", "clauses": ["c"]}]},
            {"fact": "f", "propositions": [{"quote": "q", "clauses": ["a", "b", "c"]}]},
        ),
    ],
    ids=["quotation and clause", "fact and quotation", "two clauses and one", "two propositions and one"],
)
def test_contracts_that_run_together_to_the_same_characters_have_different_bytes(
    connection: sa.Connection, one: Json, other: Json
) -> None:
    call = "rag.contract_preimage(cast(:value as jsonb))"
    found = [sql_bytes(connection, call, {"case": [], "facts": [fact]}) for fact in (one, other)]
    assert found[0] != found[1]


def test_drafts_that_run_together_to_the_same_characters_have_different_bytes(connection: sa.Connection) -> None:
    def draft(text: str, fact: str, document_id: str, tenant: str, span_id: str) -> Json:
        return {
            "text": text,
            "fact": fact,
            "document_id": document_id,
            "tenant": tenant,
            "version": 1,
            "span_id": span_id,
        }

    alike = [
        draft("ab", "c", "d", "e", "f"),
        draft("a", "bc", "d", "e", "f"),
        draft("a", "b", "cd", "e", "f"),
        draft("a", "b", "c", "de", "f"),
    ]
    found = {sql_bytes(connection, "rag_api.draft_preimage(cast(:value as jsonb))", [claim]) for claim in alike}
    assert len(found) == len(alike)


def test_the_four_kinds_of_bytes_cannot_be_confused() -> None:
    contract = {"case": [], "facts": [{"fact": "f", "propositions": [{"quote": "q", "clauses": ["c"]}]}]}
    evidence = {
        "question_id": "q",
        "contract": {"tenant": "t", "version": 1, "sha256": ""},
        "case_facts": {},
        "sources": [],
    }
    kinds = [
        _evidence.contract_preimage(contract),
        _evidence.evidence_preimage(evidence),
        _evidence.draft_preimage([]),
        _evidence.shown_preimage(b"", b"", []),
    ]
    assert [kind[8 : 8 + int.from_bytes(kind[:8])] for kind in kinds] == [
        b"rag-sql contract 1",
        b"rag-sql evidence 1",
        b"rag-sql draft 1",
        b"rag-sql shown 1",
    ]


# What is, and what is not, in the identity

SPECIMEN: Json = json.loads((Path(__file__).parent / "golden" / "several.json").read_text(encoding="utf-8"))["packet"]

#: Leaves of a packet's document that say something about the record or the ranking, not about the evidence.
OUTSIDE = {"packet_id", "tenant", "request", "recorded_at", "recorded_by"}
OUTSIDE_SOURCE = {"position", "score", "title", "source"}


def leaves(value: object, path: Path_ = ()) -> Iterator[Path_]:
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for position in range(len(value)):
            yield from leaves(value[position], (*path, position))
    else:
        yield path


def is_outside(path: Path_) -> bool:
    return path[0] in OUTSIDE or (path[0] == "sources" and path[2] in OUTSIDE_SOURCE)


def tampered(path: Path_) -> Json:
    """The specimen with one leaf changed, to a value of the same kind."""
    document = copy.deepcopy(SPECIMEN)
    holder: Any = document
    for step in path[:-1]:
        holder = holder[step]
    before = holder[path[-1]]
    if isinstance(before, bool):
        after: object = not before
    elif isinstance(before, int):
        after = before + 1
    elif isinstance(before, str) and path[-1] in {"digest", "preimage", "sha256", "text_sha256"}:
        after = before[:-1] + ("0" if before[-1] != "0" else "1")
    else:
        after = f"{before}x"
    holder[path[-1]] = after
    return document


def name_of(path: Path_) -> str:
    return ".".join(map(str, path))


def test_the_specimen_is_whole() -> None:
    assert Packet.from_document(SPECIMEN).verify() == []


@pytest.mark.parametrize("path", [path for path in leaves(SPECIMEN) if not is_outside(path)], ids=name_of)
def test_a_change_of_evidence_in_a_packet_is_reported(path: Path_) -> None:
    document = tampered(path)
    if path == ("outcome",):
        document["outcome"] = "AskForEvidence" if SPECIMEN["outcome"] != "AskForEvidence" else "SufficientForTemplate"
    assert Packet.from_document(document).verify() != []


@pytest.mark.parametrize("path", [path for path in leaves(SPECIMEN) if is_outside(path)], ids=name_of)
def test_a_change_outside_the_evidence_leaves_the_identity_alone(path: Path_) -> None:
    assert Packet.from_document(tampered(path)).verify() == []


def drop(key: str) -> Callable[[Json], None]:
    return lambda document: document[key].pop()


def repeat(document: Json) -> None:
    document["sources"].append(copy.deepcopy(document["sources"][0]))


def drop_span(document: Json) -> None:
    next(source for source in document["sources"] if source["spans"])["spans"].pop()


def move_span(document: Json) -> None:
    one, other = [source for source in document["sources"] if source["spans"]][:2]
    one["spans"].append(other["spans"].pop())


def state_another_attribute(document: Json) -> None:
    document["case_facts"]["colour"] = "blue"


def reverse_facts(document: Json) -> None:
    document["contract"]["content"]["facts"].reverse()


def change_a_letter(document: Json) -> None:
    """As long as before, and every quotation still stands."""
    source = document["sources"][0]
    assert source["text"].endswith(".")
    source["text"] = source["text"][:-1] + "!"


def exchange_texts(document: Json) -> None:
    one, other = document["sources"][:2]
    one["text"], other["text"] = other["text"], one["text"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(drop("sources"), id="a source less"),
        pytest.param(drop("required"), id="a required fact less"),
        pytest.param(repeat, id="a source twice"),
        pytest.param(drop_span, id="a span less"),
        pytest.param(move_span, id="a span elsewhere"),
        pytest.param(state_another_attribute, id="a case fact more"),
        pytest.param(reverse_facts, id="facts in another order"),
        pytest.param(change_a_letter, id="a letter between the spans"),
        pytest.param(exchange_texts, id="texts exchanged"),
    ],
)
def test_a_packet_with_a_part_more_less_or_elsewhere_is_reported(change: Callable[[Json], None]) -> None:
    document = copy.deepcopy(SPECIMEN)
    change(document)
    assert Packet.from_document(document).verify() != []


def test_the_order_of_the_parts_of_a_set_is_not_in_the_identity() -> None:
    document = copy.deepcopy(SPECIMEN)
    document["sources"].reverse()
    for source in document["sources"]:
        source["spans"].reverse()
    document["case_facts"] = dict(reversed(document["case_facts"].items()))
    document["contract"]["content"]["case"].reverse()
    assert document != SPECIMEN
    assert Packet.from_document(document).verify() == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("digest",), None),
        (("preimage",), "no hex"),
        (("preimage",), 3),
        (("contract", "sha256"), "é"),
        (("contract", "content"), []),
        (("case_facts",), []),
        (("case_facts", "model"), 3),
        (("question_id",), "\ud800"),
        (("sources", 0, "text"), ["t"]),
        (("sources", 0, "spans"), 5),
        (("sources", 0, "spans", 0, "quote"), None),
        (("missing",), None),
        (("contract", "version"), "2"),
        (("sources", 0, "version"), 2**80),
        (("sources", 0, "range_end"), None),
        (("sources", 0, "spans", 0, "range_start"), 0.5),
    ],
    ids=lambda part: name_of(part) if isinstance(part, tuple) else repr(part),
)
def test_a_malformed_packet_is_no_packet_or_is_reported(path: Path_, value: object) -> None:
    document = copy.deepcopy(SPECIMEN)
    holder: Any = document
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    try:
        packet = Packet.from_document(document)
    except ValueError:
        return
    assert packet.verify() != []


# The digest is of the set, not of the way to it


def test_the_same_selection_by_two_queries_has_the_same_digest(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        one = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
        other = acme.record_packet(QUESTION, query="auditor refused rollback case telemetry powered", case=CASE, k=2)
    assert [source.document_id for source in one.sources] != [source.document_id for source in other.sources]
    assert {source.document_id for source in one.sources} == {source.document_id for source in other.sources}
    assert one.packet_id != other.packet_id
    assert (one.preimage, one.digest) == (other.preimage, other.digest)


def test_case_facts_in_another_order_of_keys_have_the_same_digest(shared_gateway: Database) -> None:
    with shared_gateway.tenant("acme_reader") as acme:
        digests = {
            acme.decide(QUESTION, query=QUERY, case=case, k=2).digest for case in (CASE, dict(reversed(CASE.items())))
        }
    assert len(digests) == 1


def test_what_is_not_selected_is_not_in_the_digest(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        before = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
        fingerprint = acme.corpus_fingerprint()
        acme.load_documents([{"id": "UNRELATED", "version": 1, "body": "Invoices are blue."}])
        after = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
        assert acme.corpus_fingerprint() != fingerprint
    assert (after.preimage, after.sources) == (before.preimage, before.sources)


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


@pytest.fixture(scope="module")
def forwards(server: Server, installed_template: Database) -> Iterator[Database]:
    database = server.create(installed_template.name)
    load_one_by_one(database, backwards=False)
    yield database
    server.drop(database)


def test_the_order_of_loading_is_in_no_identity(forwards: Database, store: Database) -> None:
    load_one_by_one(store, backwards=True)
    found = []
    for database in (forwards, store):
        with database.tenant("acme_reader") as acme:
            decision = acme.decide("q", query="evidence", case={"model": "x", "Model": "ß"}, k=1000)
            found.append((decision.preimage, decision.sources, acme.corpus_fingerprint()))
    assert len(found[0][1]) == len(PUBLIC) + len(ACME) / 2
    assert found[0] == found[1]


def test_ties_end_in_bytes_and_never_in_a_locale(forwards: Database) -> None:
    with forwards.tenant("acme_reader") as acme:
        decision = acme.decide("q", query="evidence", case={"model": "x", "Model": "ß"}, k=1000)
    order = [(source.document_id, source.tenant) for source in decision.sources]
    assert order == sorted(order, key=lambda pair: (pair[0].encode(), pair[1].encode()))
    assert ("a", "acme") in order
    assert ("a", "public") in order


@pytest.fixture(scope="module")
def of_a_locale(server: Server) -> Iterator[Database]:
    """A store in a database that sorts as people do: a, A, é, É, z, Z."""
    database = Database(server.embedded, "test_of_a_locale")
    for locale in ("icu icu_locale 'en-US'", "libc locale 'en_US.UTF-8'", "libc locale 'de_DE.UTF-8'"):
        try:
            server.maintenance.execute(f"create database {database.name} template template0 locale_provider {locale}")
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.WrongObjectType):
            continue
        break
    else:
        pytest.skip("the server has no locale that sorts as people do")
    with database.engine(SUPERUSER) as engine:
        _install.install(engine)
        _admin.add_tenant(engine, "acme")
        for login in ("acme_curator", "acme_reader", "publisher"):
            (tenant,), groups = LOGINS[login]
            _admin.grant_tenant(engine, tenant, login)
            with engine.begin() as connection:
                _admin.join_groups(connection, login, groups)
    yield database
    server.drop(database)


def test_the_locale_of_a_database_is_in_no_identity(forwards: Database, of_a_locale: Database) -> None:
    with of_a_locale.connect("acme_reader") as connection:
        assert connection.execute("select 'a' < 'Z'").fetchone() == (True,)
    load_one_by_one(of_a_locale, backwards=False)
    found = []
    for database in (forwards, of_a_locale):
        with database.tenant("acme_reader") as acme:
            packet = acme.record_packet("q", query="evidence", case={"model": "x", "Model": "ß"}, k=9)
            assert packet.verify() == []
            places = [(source.document_id, source.tenant, source.score) for source in packet.sources]
            found.append((places, packet.preimage, packet.sources, packet.witnesses, acme.corpus_fingerprint()))
    for one, other in zip(*found, strict=True):
        assert one == other


#: In a stored query: a text column that something is sorted by, in the collation of the database.
SORTED_BY_LOCALE = re.compile(
    r"\{TARGETENTRY :expr \{VAR [^{}]*:vartype 25 [^{}]*:varcollid 100 [^{}]*\} :resno \d+ :resname (\S+)"
    r" :ressortgroupref [1-9]"
)


def test_no_function_sorts_by_a_text_in_the_databases_locale(shared_gateway: Database) -> None:
    """Seen in the stored queries, since not every server has a locale that would show it. (Problems are grouped.)"""
    with shared_gateway.connect("acme_reader") as connection:
        bodies = connection.execute(
            "select p.proname, p.prosqlbody::text from pg_catalog.pg_proc p"
            " where p.pronamespace in ('rag'::regnamespace, 'rag_api'::regnamespace) and p.prosqlbody is not null"
        ).fetchall()
    found = {name for name, body in bodies if SORTED_BY_LOCALE.search(body) and not name.endswith("_problems")}
    assert len(bodies) > 15
    assert found == set()


# The corpus fingerprint


def another_document(acme: Tenant) -> None:
    acme.load_documents([{"id": "new", "version": 1, "body": "New."}])


def another_version(acme: Tenant) -> None:
    acme.load_documents([{"id": "a", "version": 3, "body": "New."}])


def the_same_text_as_another_version(acme: Tenant) -> None:
    acme.load_documents([{**ACME[0], "version": 3}])


def a_withdrawal(acme: Tenant) -> None:
    acme.withdraw_version("a", 2)


def a_withdrawal_of_a_superseded_version(acme: Tenant) -> None:
    acme.withdraw_version("a", 1)


@pytest.mark.parametrize(
    "change",
    [
        another_document,
        another_version,
        the_same_text_as_another_version,
        a_withdrawal,
        a_withdrawal_of_a_superseded_version,
    ],
)
def test_whatever_the_retriever_could_see_changes_the_fingerprint(
    forwards: Database, change: Callable[[Tenant], None]
) -> None:
    with forwards.engine("acme_curator") as engine, engine.connect() as connection, rolled_back(connection) as acme:
        before = acme.corpus_fingerprint()
        change(acme)
        assert acme.corpus_fingerprint() != before


def test_a_span_more_changes_the_fingerprint(forwards: Database) -> None:
    with forwards.engine("acme_curator") as engine, engine.connect() as connection, rolled_back(connection) as acme:
        before = acme.corpus_fingerprint()
        connection.execute(
            sa.text(
                "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
                " values ('acme', 'a', 2, 'later', 'f', 'Own')"
            )
        )
        assert acme.corpus_fingerprint() != before


@pytest.mark.parametrize(
    "variant",
    [
        {"body": "Same word."},
        {"applies_to": {"model": ["x"]}},
        {"effective_from": "2024-01-02"},
        {"effective_from": "1969-12-31T23:59:59.999999Z"},
        {"spans": [{"id": "s", "fact": "f", "quote": "Same"}]},
        {"spans": [{"id": "s", "fact": "g", "quote": "Same"}]},
        {"spans": [{"id": "s", "fact": "f", "quote": "words"}]},
    ],
    ids=lambda variant: json.dumps(variant),
)
def test_two_stores_that_differ_in_one_thing_have_different_fingerprints(
    connection: sa.Connection, variant: Json
) -> None:
    plain: Json = {"id": "d", "version": 1, "body": "Same words."}
    assert fingerprint_of(connection, [{**plain, **variant}]) != fingerprint_of(connection, [plain])


def fingerprint_of(connection: sa.Connection, loaded: list[Json]) -> str:
    with rolled_back(connection) as acme:
        acme.load_documents(loaded)
        return acme.corpus_fingerprint()


def test_what_another_tenant_does_changes_no_fingerprint_but_its_own(gateway: Database) -> None:
    def fingerprints() -> dict[str, str]:
        found = {}
        for login in ("acme_reader", "northwind_reader", "unbound_reader"):
            with gateway.tenant(login) as tenant:
                found[login] = tenant.corpus_fingerprint()
        return found

    before = fingerprints()
    with gateway.tenant("northwind_curator") as northwind:
        northwind.load_documents([{"id": "HOLD-7", "version": 9, "body": "While an audit hold is active."}])
        northwind.withdraw_version("PRIVATE", 1)
    after = fingerprints()
    assert {login for login in before if before[login] != after[login]} == {"northwind_reader"}
    with gateway.tenant("publisher") as public:
        public.load_documents([{"id": "NEW", "version": 1, "body": "For everyone."}])
    assert all(fingerprints()[login] != after[login] for login in after)


def test_the_fingerprint_of_the_past_stays_as_it_was(gateway: Database) -> None:
    query = sa.text("select rag_api.corpus_fingerprint(p_known_at => :known_at)")

    def fingerprint(known_at: datetime) -> bytes:
        with gateway.engine("acme_reader") as engine, engine.begin() as connection:
            connection.execute(sa.text("select rag_api.bind('acme')"))
            found = connection.execute(query, {"known_at": known_at}).scalar()
        assert isinstance(found, bytes)
        return found

    with gateway.engine("acme_reader") as engine, engine.begin() as connection:
        then: datetime = connection.execute(sa.text("select now()")).scalar_one()
    before = fingerprint(then)
    gateway.load("acme_curator", SEED / "changes" / "HOLD-7-v3-changed.md")
    with gateway.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 3)
    assert fingerprint(then) == before


# What was decided can be decided again


def test_a_decision_at_its_own_instants_is_the_same_after_a_span_was_added(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        before = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    instants: Json = {
        "valid_at": datetime.fromisoformat(before.request.valid_at),
        "known_at": datetime.fromisoformat(before.request.known_at),
    }
    with gateway.engine("acme_curator") as engine, engine.begin() as connection:
        connection.execute(sa.text("select rag_api.bind('acme')"))
        connection.execute(
            sa.text(
                "insert into rag.span (tenant, document_id, version, span_id, fact, quote)"
                " values ('acme', 'HOLD-7', 2, 's2', 'scope', 'Applies to every gateway')"
            )
        )
    with gateway.tenant("acme_reader") as acme:
        again = acme.decide(QUESTION, query=QUERY, case=CASE, k=2, **instants)
    assert again.digest == before.digest


def test_a_decision_at_its_own_instants_is_the_same_after_a_contract_was_added(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        before = acme.decide(QUESTION, query=QUERY, case=CASE, k=2)
    instants: Json = {
        "valid_at": datetime.fromisoformat(before.request.valid_at),
        "known_at": datetime.fromisoformat(before.request.known_at),
    }
    with gateway.tenant("publisher") as public:
        public.add_contract(QUESTION, 2, {**before.contract.content, "facts": CONTENT["facts"]})
    with gateway.tenant("acme_reader") as acme:
        again = acme.decide(QUESTION, query=QUERY, case=CASE, k=2, **instants)
    assert again.digest == before.digest


# What the fingerprint should say, and does not yet


def test_an_effective_time_of_1970_is_stated(connection: sa.Connection) -> None:
    plain: Json = {"id": "d", "version": 1, "body": "Same words."}
    stated = fingerprint_of(connection, [{**plain, "effective_from": "1970-01-01"}])
    assert stated != fingerprint_of(connection, [plain])


def test_stores_with_the_same_fingerprint_use_the_same_versions(clone: Clone, installed_template: Database) -> None:
    found = []
    for order in ([1, 2], [2, 1]):
        database = clone(installed_template)
        for version in order:
            with database.tenant("acme_curator") as acme:
                acme.load_documents([{"id": "d", "version": version, "body": f"Evidence {version}."}])
        with database.tenant("acme_curator") as acme:
            acme.add_contract("q", 1, {**CONTENT, "case": []})
            sources = acme.decide("q", query="evidence", case={}, k=1).sources
            found.append((acme.corpus_fingerprint(), sources[0].version))
    assert (found[0][0] == found[1][0]) == (found[0][1] == found[1][1])


def test_a_withdrawal_from_a_later_day_is_another_fingerprint(connection: sa.Connection) -> None:
    found = set()
    for withdrawn_from in (datetime(2020, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)):
        with rolled_back(connection) as acme:
            acme.load_documents([{"id": "d", "version": 1, "body": "Evidence.", "effective_from": "2019-01-01"}])
            acme.withdraw_version("d", 1, withdrawn_from=withdrawn_from)
            found.add(acme.corpus_fingerprint())
    assert len(found) == 2
