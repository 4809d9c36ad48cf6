"""Golden vectors: the bytes behind a digest, pinned.

``golden/*.json`` were made once, like this: a person wrote ``inputs`` (documents, contract, request, draft); a curator
and a publisher loaded them into an empty store; ``packet`` is what ``rag_api.record_packet`` returned, with the parts
that differ from run to run (``VOLATILE``) replaced by fixed ones; ``preimages`` are the bytes that :func:`by_hand`,
below, puts together from ``inputs`` alone. They are never made again: a vector that no longer holds means that
every digest ever recorded has lost its meaning, and the layout needs a new name ("rag-sql evidence 2").
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rag_sql import Claim, Packet, _evidence
from tests.conftest import Database

Json = dict[str, Any]

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))

#: What differs from run to run, and what stands in its place.
VOLATILE = {
    "packet_id": "00000000-0000-0000-0000-000000000000",
    "recorded_at": "2000-01-01T00:00:00.000000Z",
}
VOLATILE_REQUEST = {"valid_at": "2000-01-01T00:00:00.000000Z", "known_at": "2000-01-01T00:00:00.000000Z"}


def read(path: Path) -> Json:
    vector: Json = json.loads(path.read_text(encoding="utf-8"))
    return vector


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def vector(request: pytest.FixtureRequest) -> Json:
    return read(request.param)


def test_there_are_vectors() -> None:
    assert {path.stem for path in GOLDEN} == {"ascii", "unicode", "empty", "several"}


def field(content: bytes) -> bytes:
    """Length as 8 bytes, big-endian; then the bytes."""
    return struct.pack(">q", len(content)) + content


def by_hand(inputs: Json, selected: list[tuple[str, str, int]]) -> dict[str, bytes]:
    """The three pre-images of a vector that need no verdict, from its inputs: a third implementation, for texts that
    occur once in their body. `selected` names the sources (document, visibility, version), in the order of bytes."""

    def text(content: str) -> bytes:
        return field(content.encode("utf-8"))

    def number(content: int) -> bytes:
        return field(struct.pack(">q", content))

    content = inputs["contract"]["content"]
    contract = text("rag-sql contract 1") + number(len(content["case"]))
    for attribute in sorted(content["case"], key=lambda name: name.encode("utf-8")):
        contract += text(attribute)
    contract += number(len(content["facts"]))
    for fact in content["facts"]:
        contract += text(fact["fact"]) + number(len(fact["propositions"]))
        for proposition in fact["propositions"]:
            contract += text(proposition["quote"]) + number(len(proposition["clauses"]))
            for clause in proposition["clauses"]:
                contract += text(clause)

    evidence = text("rag-sql evidence 1") + text(inputs["contract"]["question"]) + text(inputs["contract"]["tenant"])
    evidence += number(inputs["contract"]["version"]) + field(sha256(contract).digest())
    evidence += number(len(inputs["case"]))
    for attribute in sorted(inputs["case"], key=lambda name: name.encode("utf-8")):
        evidence += text(attribute) + text(inputs["case"][attribute])
    evidence += number(len(selected))
    for document_id, tenant, version in selected:
        (document,) = [
            one for one in inputs["documents"][tenant] if (one["id"], one["version"]) == (document_id, version)
        ]
        body = document["body"]
        evidence += text(document_id) + text(tenant) + number(version) + number(0) + number(len(body))
        evidence += field(sha256(body.encode("utf-8")).digest())
        spans = document.get("spans", [])
        evidence += number(len(spans))
        for span in sorted(spans, key=lambda one: one["id"].encode("utf-8")):
            start = body.index(span["quote"])
            evidence += text(span["id"]) + text(span["fact"]) + number(start) + number(start + len(span["quote"]))

    draft = text("rag-sql draft 1") + number(len(inputs["draft"]))
    for claim in inputs["draft"]:
        draft += text(claim["text"]) + text(claim["fact"]) + text(claim["document_id"]) + text(claim["tenant"])
        draft += number(claim["version"]) + text(claim["span_id"])
    return {"contract": contract, "evidence": evidence, "draft": draft}


def selected_in(vector: Json) -> list[tuple[str, str, int]]:
    return [(one["document_id"], one["tenant"], one["version"]) for one in vector["selected"]]


def test_the_vector_follows_from_its_inputs_by_hand(vector: Json) -> None:
    found = by_hand(vector["inputs"], selected_in(vector))
    assert {name: content.hex() for name, content in found.items()} == {
        name: vector["preimages"][name] for name in found
    }


def test_python_computes_the_pinned_bytes(vector: Json) -> None:
    packet = vector["packet"]
    verdicts = [(verdict["verdict"], verdict["reason"]) for verdict in vector["verdicts"]]
    evidence = _evidence.evidence_preimage(packet)
    draft = _evidence.draft_preimage(vector["inputs"]["draft"])
    found = {
        "contract": _evidence.contract_preimage(packet["contract"]["content"]),
        "evidence": evidence,
        "draft": draft,
        "shown": _evidence.shown_preimage(sha256(evidence).digest(), sha256(draft).digest(), verdicts),
    }
    assert {name: content.hex() for name, content in found.items()} == vector["preimages"]
    assert {name: sha256(content).hexdigest() for name, content in found.items()} == vector["digests"]


def test_a_pinned_packet_verifies(vector: Json) -> None:
    packet = Packet.from_document(vector["packet"])
    assert packet.verify() == []
    assert packet.digest == vector["digests"]["evidence"]
    assert json.loads(packet.to_json()) == vector["packet"]


def observe(database: Database, inputs: Json) -> Json:
    """Load the inputs of a vector and record what the database makes of them."""
    for tenant, login in (("public", "publisher"), ("acme", "acme_curator")):
        with database.tenant(login) as session:
            session.load_documents(inputs["documents"][tenant])
            if inputs["contract"]["tenant"] == tenant:
                contract = inputs["contract"]
                session.add_contract(contract["question"], contract["version"], contract["content"])
    claims = [Claim(**claim) for claim in inputs["draft"]]
    with database.tenant("acme_reader") as acme:
        request: Json = {"query": inputs["query"], "case": inputs["case"], "k": inputs["k"]}
        packet = acme.record_packet(inputs["contract"]["question"], **request)
        review = acme.review(packet.packet_id, claims)
    document = {**packet.document, **VOLATILE, "request": {**packet.document["request"], **VOLATILE_REQUEST}}
    with database.engine("acme_reader") as engine, engine.begin() as connection:
        values = {"contract": inputs["contract"]["content"], "draft": inputs["draft"]}
        preimages = {
            name: connection.execute(
                sa.text(f"select {function}(cast(:value as jsonb))"),
                {"value": json.dumps(values[name], ensure_ascii=False)},
            ).scalar_one()
            for name, function in (("contract", "rag.contract_preimage"), ("draft", "rag_api.draft_preimage"))
        }
    return {
        "packet": document,
        "verdicts": [{"verdict": verdict.verdict, "reason": verdict.reason} for verdict in review.verdicts],
        "preimages": {**{name: content.hex() for name, content in preimages.items()}, "evidence": packet.preimage},
        "digests": {
            "contract": packet.contract.sha256,
            "evidence": packet.digest,
            "draft": review.draft_digest,
            "shown": review.shown_digest,
        },
    }


def test_sql_computes_the_pinned_bytes(vector: Json, store: Database) -> None:
    found = observe(store, vector["inputs"])
    assert found["packet"] == vector["packet"]
    assert found["verdicts"] == vector["verdicts"]
    assert found["preimages"] == {name: vector["preimages"][name] for name in found["preimages"]}
    assert found["digests"] == vector["digests"]


def test_the_ascii_vector_byte_by_byte() -> None:
    """The layout of schema/README.md, read aloud: every field is 8 bytes of length, then that many bytes."""
    vector = read(Path(__file__).parent / "golden" / "ascii.json")
    body = b"Red lamp: stop the pump. Green lamp: carry on."
    contract = b"".join(
        [
            struct.pack(">q", 18) + b"rag-sql contract 1",
            struct.pack(">qq", 8, 1),  # one case attribute
            struct.pack(">q", 4) + b"pump",
            struct.pack(">qq", 8, 1),  # one fact
            struct.pack(">q", 4) + b"stop",
            struct.pack(">qq", 8, 1),  # one proposition
            struct.pack(">q", 23) + b"Red lamp: stop the pump",
            struct.pack(">qq", 8, 1),  # one clause
            struct.pack(">q", 27) + b"A red lamp stops your pump.",
        ]
    )
    evidence = b"".join(
        [
            struct.pack(">q", 18) + b"rag-sql evidence 1",
            struct.pack(">q", 4) + b"lamp",  # question
            struct.pack(">q", 6) + b"public",  # owner of the contract
            struct.pack(">qq", 8, 1),  # its version
            struct.pack(">q", 32) + sha256(contract).digest(),
            struct.pack(">qq", 8, 1),  # one case fact
            struct.pack(">q", 4) + b"pump",
            struct.pack(">q", 2) + b"P1",
            struct.pack(">qq", 8, 1),  # one source
            struct.pack(">q", 3) + b"L-1",  # document
            struct.pack(">q", 6) + b"public",  # visibility
            struct.pack(">qq", 8, 7),  # version
            struct.pack(">qq", 8, 0),  # the passage begins
            struct.pack(">qq", 8, 46),  # and ends
            struct.pack(">q", 32) + sha256(body).digest(),
            struct.pack(">qq", 8, 1),  # one span
            struct.pack(">q", 2) + b"s1",
            struct.pack(">q", 4) + b"stop",  # its fact
            struct.pack(">qq", 8, 0),  # it begins
            struct.pack(">qq", 8, 23),  # and ends
        ]
    )
    assert contract.hex() == vector["preimages"]["contract"]
    assert evidence.hex() == vector["preimages"]["evidence"]
    assert sha256(evidence).hexdigest() == vector["digests"]["evidence"]


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("ascii", lambda vector: vector["packet"]["outcome"] == "SufficientForTemplate"),
        ("empty", lambda vector: vector["packet"]["sources"] == [] and vector["packet"]["missing"] == ["stop"]),
        ("unicode", lambda vector: any(ord(max(one["text"])) > 0xFFFF for one in vector["packet"]["sources"])),
        ("several", lambda vector: len({one["tenant"] for one in vector["packet"]["sources"]}) == 2),
    ],
)
def test_a_vector_shows_what_it_is_named_for(name: str, holds: Callable[[Json], bool]) -> None:
    assert holds(read(Path(__file__).parent / "golden" / f"{name}.json"))
