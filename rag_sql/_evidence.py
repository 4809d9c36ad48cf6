"""The byte layouts of ``schema/README.md``, written a second time, from JSON alone.

The database computes every digest in SQL; this module computes the same from a packet's JSON, without a database, so
that whoever holds a packet can check it. The two share the description of the layout and no code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any

__all__ = [
    "contract_preimage",
    "draft_preimage",
    "erased",
    "evidence_preimage",
    "shown_preimage",
    "verify",
    "witnesses",
]

Json = Mapping[str, Any]


def field(content: bytes) -> bytes:
    return struct.pack(">q", len(content)) + content


def text_field(content: str) -> bytes:
    return field(content.encode())


def number_field(content: int) -> bytes:
    if type(content) is not int or not -(2**63) <= content < 2**63:
        raise ValueError(f"{content!r} is no number of 64 bits")
    return field(struct.pack(">q", content))


def _list(items: Iterable[bytes]) -> bytes:
    collected = list(items)
    return number_field(len(collected)) + b"".join(collected)


def contract_preimage(content: Json) -> bytes:
    """Bytes whose SHA-256 is a contract's hash: attributes in byte order, the rest in contract order."""
    decision, keep, ranking = content.get("decision"), content.get("keep"), content.get("ranking")
    decided = b"" if decision is None else _decision(decision)
    return (
        text_field(f"rag-sql contract {4 if ranking else 3 if keep is not None else 2 if decided else 1}")
        + _list(text_field(name) for name in sorted(content["case"], key=str.encode))
        + _list(
            text_field(fact["fact"])
            + _list(
                text_field(proposition["quote"]) + _list(text_field(clause) for clause in proposition["clauses"])
                for proposition in fact["propositions"]
            )
            for fact in content["facts"]
        )
        + (decided if keep is None and not ranking else _list([decided] if decided else []))
        + (_list([] if keep is None else [text_field(keep)]) + _ranking(ranking) if ranking else _kept(keep))
    )


def _kept(keep: str | None) -> bytes:
    return b"" if keep is None else text_field(keep)


def _ranking(ranking: Json) -> bytes:
    parameters = {key: value for key, value in ranking.items() if key != "method"}
    return text_field(ranking["method"]) + _list(
        text_field(key) + text_field(value if isinstance(value, str) else _decimal(value))
        for key, value in sorted(parameters.items(), key=lambda pair: pair[0].encode())
    )


def _decimal(value: float) -> str:
    """A number with at most six decimals, without superfluous zeros."""
    text = f"{Decimal(str(value)):f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _decision(decision: Json) -> bytes:
    return b"".join(text_field(decision[key]) for key in ("about", "decided_by", "refer")) + _list(
        text_field(sentence) for sentence in decision["never_say"]
    )


def _source(source: Json) -> bytes:
    return (
        text_field(source["document_id"])
        + text_field(source["tenant"])
        + number_field(source["version"])
        + number_field(source["range_start"])
        + number_field(source["range_end"])
        + field(bytes.fromhex(source["text_sha256"]))
        + _list(
            text_field(span["span_id"])
            + text_field(span["fact"])
            + number_field(span["range_start"])
            + number_field(span["range_end"])
            for span in sorted(source["spans"], key=lambda span: span["span_id"].encode())
        )
    )


def _place(source: Json) -> tuple[bytes, bytes, int, int]:
    return source["document_id"].encode(), source["tenant"].encode(), source["version"], source["range_start"]


def evidence_preimage(packet: Json) -> bytes:
    """Bytes whose SHA-256 is the identity of a packet's evidence."""
    contract = packet["contract"]
    facts: Mapping[str, str] = packet["case_facts"]
    return (
        text_field("rag-sql evidence 1")
        + text_field(packet["question_id"])
        + text_field(contract["tenant"])
        + number_field(contract["version"])
        + field(bytes.fromhex(contract["sha256"]))
        + _list(text_field(name) + text_field(facts[name]) for name in sorted(facts, key=str.encode))
        + _list(_source(source) for source in sorted(packet["sources"], key=_place))
    )


def draft_preimage(claims: Sequence[Json]) -> bytes:
    """Bytes whose SHA-256 is the identity of a draft: its claims in order."""
    return text_field("rag-sql draft 1") + _list(
        text_field(claim["text"])
        + text_field(claim["fact"])
        + text_field(claim["document_id"])
        + text_field(claim["tenant"])
        + number_field(claim["version"])
        + text_field(claim["span_id"])
        for claim in claims
    )


def shown_preimage(evidence_digest: bytes, draft_digest: bytes, verdicts: Sequence[tuple[str, str]]) -> bytes:
    """Bytes whose SHA-256 is the identity of what a reviewer saw: evidence, draft, and (verdict, reason) per claim."""
    return (
        text_field("rag-sql shown 1")
        + field(evidence_digest)
        + field(draft_digest)
        + _list(text_field(verdict) + text_field(reason) for verdict, reason in verdicts)
    )


def _text_of(sources: Sequence[Json], first: Json, start: int, end: int) -> str | None:
    """The text of a range that begins in the passage `first`, which may reach into those that follow it; else None."""
    following = {
        source["range_start"]: source for source in sources if _place(source)[:3] == _place(first)[:3]
    }  # passages of one version do not overlap
    text: str = first["text"][start - first["range_start"] :]
    reached: int = first["range_end"]
    while reached < end:
        if reached not in following:
            return None
        text += following[reached]["text"]
        reached = following[reached]["range_end"]
    return text[: end - start]


def witnesses(content: Json | None, sources: Sequence[Json]) -> list[dict[str, Any]]:
    """The span to cite for each covered fact, in contract order, as ``rag_api.witnesses`` ranks them.

    A quotation that was erased is none of a contract's, and a contract that was erased has none.
    """
    spans = sorted(
        ((source, span) for source in sources for span in source["spans"]),
        key=lambda pair: (
            pair[0]["document_id"].encode(),
            pair[1]["span_id"].encode(),
            pair[0]["tenant"].encode(),
            pair[0]["version"],
        ),
    )
    found: list[dict[str, Any]] = []
    for fact in content["facts"] if content else ():
        clauses = {proposition["quote"]: proposition["clauses"] for proposition in fact["propositions"]}
        for source, span in spans:
            if span["fact"] == fact["fact"] and span["quote"] in clauses:
                found.append(
                    {
                        "fact": fact["fact"],
                        "tenant": source["tenant"],
                        "document_id": source["document_id"],
                        "version": source["version"],
                        "span_id": span["span_id"],
                        "quote": span["quote"],
                        "clauses": clauses[span["quote"]],
                    }
                )
                break
    return found


def erased(packet: Json) -> list[str]:
    """What of a packet's evidence was erased; empty when all of it is there."""
    found = [
        f"{source['document_id']} ({source['tenant']}) version {source['version']}"
        for source in packet["sources"]
        if source["text"] is None
    ]
    if packet["contract"]["content"] is None:
        found.append(f"contract {packet['question_id']} version {packet['contract']['version']}")
    return list(dict.fromkeys(found + ["pre-image"] * (packet["preimage"] is None)))


def verify(packet: Json) -> list[str]:
    """What does not hold of a packet's evidence; empty when all that is there does (see :func:`erased`).

    Checked, from the packet alone: the digest is the SHA-256 of the pre-image; the pre-image is made of the packet's
    own fields; every text has the hash that is digested, and the length of its range; every span's quotation stands
    where the span says; the contract has the hash that is digested; required and missing facts, and the outcome,
    follow from contract and spans.
    """
    problems: list[str] = []

    def check(holds: bool, problem: str) -> None:
        if not holds:
            problems.append(problem)

    check(packet["format"] == "rag-sql packet 1", f"unknown format {packet['format']!r}")
    if packet["preimage"] is not None:
        preimage = bytes.fromhex(packet["preimage"])
        check(sha256(preimage).hexdigest() == packet["digest"], "the digest is not the SHA-256 of the pre-image")
        check(evidence_preimage(packet) == preimage, "the pre-image is not made of the packet's fields")

    contract = packet["contract"]
    content = contract["content"]
    check(
        content is None or sha256(contract_preimage(content)).hexdigest() == contract["sha256"],
        "the contract's content does not have the contract's hash",
    )
    for source in packet["sources"]:
        if source["text"] is None:
            continue
        name = f"{source['document_id']} version {source['version']}"
        text: str = source["text"]
        check(sha256(text.encode()).hexdigest() == source["text_sha256"], f"the text of {name} does not have its hash")
        check(
            len(text) == source["range_end"] - source["range_start"], f"the text of {name} is not as long as its range"
        )
        for span in source["spans"]:
            check(
                source["range_start"] <= span["range_start"] < span["range_end"]
                and _text_of(packet["sources"], source, span["range_start"], span["range_end"]) == span["quote"],
                f"span {span['span_id']} of {name} does not stand where it says",
            )

    if erased(packet):
        return problems
    required = [fact["fact"] for fact in content["facts"]]
    covered = {witness["fact"] for witness in witnesses(content, packet["sources"])}
    missing = [fact for fact in required if fact not in covered]
    check(packet["required"] == required, "the required facts are not the contract's")
    check(packet["missing"] == missing, "the missing facts do not follow from contract and spans")
    covered_outcome = "NeedsDecision" if "decision" in content else "SufficientForTemplate"
    check(
        packet["outcome"] == ("AskForEvidence" if missing else covered_outcome),
        "the outcome does not follow from the missing facts and the contract",
    )
    return problems
