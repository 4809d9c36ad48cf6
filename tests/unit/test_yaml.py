"""YAML as people write it: every scalar a text, every fault with its line, nothing silently lost."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_sql._yaml import YamlFault, parse


def fault(text: str, first_line: int = 1) -> tuple[int, str]:
    with pytest.raises(YamlFault) as raised:
        parse(text, first_line)
    assert raised.value.reason == str(raised.value)
    return raised.value.line, raised.value.reason


# Texts


@pytest.mark.parametrize(
    "scalar",
    [
        *("3.10", "no", "Yes", "off", "true", "2024-01-01", "2024-01-01T09:00:00Z", "0x10", "010", "1_000", "1e3"),
        *(".inf", "NULL", "Null", "12:30:00", "=", "<<", "G2", "2.4.1", "C:\\temp", "a#b", "é 😀", "100%", "x:y"),
    ],
)
def test_a_plain_scalar_is_the_text_that_was_written(scalar: str) -> None:
    assert parse(f"key: {scalar}\nlist: [{scalar}]") == (
        {"key": scalar, "list": [scalar]},
        {"": 1, "key": 1, "list": 2, "list.0": 2},
    )


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("'it''s: no'", "it's: no"),
        ('"a\\tb\\u00e9"', "a\tbé"),
        ("''", ""),
        ('"null"', "null"),
        ("'~'", "~"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("|-\n  two\n  lines\n", "two\nlines"),
        (">-\n  one\n  line\n", "one line"),
        ("plain\n  folded", "plain folded"),
        ("value # a remark", "value"),
    ],
)
def test_quoted_and_block_scalars_follow_yaml(written: str, text: str) -> None:
    assert parse(f"key: {written}")[0] == {"key": text}


def test_a_key_is_a_text_too() -> None:
    assert parse("no: a\n3.10: b\n2024-01-01: c\nnull: d")[0] == {
        "no": "a",
        "3.10": "b",
        "2024-01-01": "c",
        "null": "d",
    }


@pytest.mark.parametrize("text", ["", "\n\n", "# only a remark\n", "---\n"])
def test_an_empty_document_is_none(text: str) -> None:
    assert parse(text)[0] is None


def test_a_key_without_a_value_has_none_and_an_empty_text_or_collection_is_one() -> None:
    assert parse("a:\nb: ~\nc: null\nd: ''\ne: []\nf: {}\ng: x")[0] == {
        **dict.fromkeys("abc"),
        "d": "",
        "e": [],
        "f": {},
        "g": "x",
    }


scalars = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0").filter(str.isprintable), max_size=12
) | st.sampled_from(
    ["no", "3.10", "~", "null", "2024-01-01", "", " x ", "a: b", "- a", "#", "'", '"', "&a", "*a", "!a"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(scalars, inner, max_size=4),
    max_leaves=15,
)


class Plain(yaml.SafeDumper):
    """Writes everything out."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


@settings(deadline=None, max_examples=60)
@given(value=values, flow=st.booleans())
def test_what_yaml_writes_is_read_back(value: object, flow: bool) -> None:
    text = yaml.dump(value, Dumper=Plain, allow_unicode=True, default_flow_style=flow, sort_keys=False)
    assert parse(text)[0] == value


@settings(deadline=None, max_examples=200)
@given(text=st.text(st.sampled_from("ab:-[]{},&*!|>'\"%@#?\n\t ~\\\x01é😀\ufeff"), max_size=40))
def test_any_text_is_read_or_refused_on_a_line_of_its_own(text: str) -> None:
    try:
        _, lines = parse(text, 10)
        found = set(lines.values())
    except YamlFault as refused:
        found = {refused.line}
    assert all(10 <= line <= 10 + len(text.splitlines()) for line in found)


# Lines


def test_every_value_has_the_line_it_stands_on() -> None:
    text = """\
# a remark
id: HOLD-7

applies_to:
  model:
    - G2
    - G3
spans:
  - id: s1
    quote: |
      two
      lines
  - {id: s2, quote: x}
last: [a,
  b]
"""
    value, lines = parse(text)
    assert value["spans"][0]["quote"] == "two\nlines\n"
    assert lines == {
        "": 2,
        "id": 2,
        "applies_to": 4,
        "applies_to.model": 5,
        "applies_to.model.0": 6,
        "applies_to.model.1": 7,
        "spans": 8,
        "spans.0": 9,
        "spans.0.id": 9,
        "spans.0.quote": 10,
        "spans.1": 13,
        "spans.1.id": 13,
        "spans.1.quote": 13,
        "last": 14,
        "last.0": 14,
        "last.1": 15,
    }
    assert parse(text, 101)[1] == {path: line + 100 for path, line in lines.items()}


def test_lines_are_the_same_with_carriage_returns() -> None:
    text = "a: 1\nb:\n  - c\n  - d: e\n"
    assert parse(text.replace("\n", "\r\n")) == parse(text)


# Faults


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: 2\na: 3", 3, "'a' stands more than once"),
        ("a: ~\na: 1", 2, "'a' stands more than once"),
        ("x:\n  a: 1\n  'a': 2", 3, "'a' stands more than once"),
        ("x: {a: 1,\n  a: 2}", 2, "'a' stands more than once"),
        ("a: 1\n[b]: 2", 2, "plain text"),
        ("a: 1\n? {b: c}\n: 2", 2, "plain text"),
        ("a: 1\nb: *nobody", 2, "alias"),
        ("a:\n\tb: c", 2, "cannot start any token"),
        ("a: 1\nb: c: d", 2, "not allowed here"),
        ("a: 1\nb: 'open\n", 3, "end of stream"),
        ("a: [1,\n  2", 2, "not YAML"),
        ("a: 1\n b: 2", 2, "not YAML"),
        ("a: 1\n---\nb: 2", 2, "another document"),
        ("a: 1\n...\nb: 2", 3, "not YAML"),
        ("%YAML 9.9\n---\na: 1", 1, "not YAML"),
        ("a: @b", 1, "cannot start any token"),
        ("[" * 600, 1, "nested too deeply"),
        ("- " * 1000 + "a", 1, "nested too deeply"),
        ("{a: " * 1000, 1, "nested too deeply"),
    ],
    ids=lambda value: ascii(value[:30]) if isinstance(value, str) else "",
)
def test_a_fault_has_its_line_and_its_reason(text: str, line: int, reason: str) -> None:
    found, why = fault(text, 41)
    assert reason in why
    assert (found, fault(text)[0]) == (line + 40, line)


def test_a_list_that_is_aliased_again_and_again_does_not_explode() -> None:
    laughs = ["a0: &a0 [ha, ha]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert "alias" in fault("\n".join(laughs))[1]


@pytest.mark.parametrize(
    "text", ["a: &x [1]\nb: *x", "a: &x {k: v}\nb: [*x]", "a: &x {k: v}\nb: {<<: *x}", "a: &x\n  b: *x"], ids=repr
)
def test_an_alias_of_a_list_or_a_mapping_is_refused(text: str) -> None:
    assert "alias" in fault(text)[1]


def test_an_alias_of_a_text_is_that_text() -> None:
    assert parse("a: &x no\nb: *x\nc: [*x]")[0] == {"a": "no", "b": "no", "c": ["no"]}


@pytest.mark.parametrize("text", ["a: &x [1]\n\nb: *x", "a: &x {k: v}\nb:\n - *x", "a: &x\n  b:\n   - *x"], ids=repr)
def test_an_alias_is_refused_on_the_line_of_the_alias(text: str) -> None:
    assert fault(text)[0] == 3


@pytest.mark.parametrize("character", ["\x01", "\x7f", "\x80", "\ufffe"], ids=ascii)
def test_a_character_that_yaml_refuses_is_reported_on_its_line(character: str) -> None:
    line, reason = fault(f"a: 1\nb: 2\nc: {character}", 11)
    assert line == 13
    assert "\n" not in reason


@pytest.mark.parametrize("escape", ['"\\0"', '"\\uD800"'])
def test_an_escape_cannot_make_a_character_that_no_text_may_have(escape: str) -> None:
    assert fault(f"a: 1\nb: {escape}")[0] == 2
