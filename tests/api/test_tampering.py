"""A packet verifies alone: whatever is changed in it is reported (law 4)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_sql import Packet
from tests.api.strategies import Json, Path_

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
