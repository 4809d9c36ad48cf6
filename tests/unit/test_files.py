"""Files that people write: what is read, with the line of each value; what is refused, with file, line and reason."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_sql._files import Defaults, FileDocument, contract_refusal, find_files, read_contract, read_file
from rag_sql.errors import FileRefused, InvalidContract
from tests.conftest import SEED
from tests.unit.conftest import Write


def read(path: Path, root: Path | None = None, **defaults: Any) -> list[FileDocument]:
    return list(read_file(path, root or path.parent, "acme", Defaults(**defaults)))


def one(path: Path, root: Path | None = None, **defaults: Any) -> FileDocument:
    (found,) = read(path, root, **defaults)
    return found


def refused(path: Path, **defaults: Any) -> FileRefused:
    with pytest.raises(FileRefused) as raised:
        read(path, **defaults)
    error = raised.value
    assert error.path == str(path)
    assert error.message.startswith(f"{path}:{error.line}: " if error.line else f"{path}: ")
    return error


FULL = """\
---
id: HOLD-7
version: 3
tenant: acme
title: Support during a hold
applies_to:
  model: [G2]
  firmware: 3.10
effective_from: 2026-03-01
published: 2026-02-01
source: https://example.org/hold
spans:
  - id: s1
    fact: f
    quote: hold
    occurrence: 2
owner: Ann
review: {by: Bob}
---
# Heading

A hold is a hold.
"""


# Markdown


def test_a_whole_document(write: Write) -> None:
    path = write("d.md", FULL)
    found = one(path)
    assert found.document == {
        "id": "HOLD-7",
        "version": 3,
        "title": "Support during a hold",
        "applies_to": {"model": ["G2"], "firmware": ["3.10"]},
        "effective_from": "2026-03-01",
        "published": "2026-02-01",
        "source": "https://example.org/hold",
        "spans": [{"id": "s1", "fact": "f", "quote": "hold", "occurrence": 2}],
        "metadata": {"owner": "Ann", "review": {"by": "Bob"}},
        "body": "# Heading\n\nA hold is a hold.\n",
    }
    assert (found.path, found.size) == (path, len(FULL.encode()))
    assert {key: found.lines[key] for key in ("id", "applies_to.firmware", "spans.0.quote", "body")} == {
        "id": 2,
        "applies_to.firmware": 8,
        "spans.0.quote": 15,
        "body": 20,
    }


def test_carriage_returns_end_lines_of_the_front_matter_and_stay_in_the_body(write: Write) -> None:
    found = one(write("d.md", FULL.replace("\n", "\r\n")))
    plain = one(write("plain.md", FULL))
    assert found.document == {**plain.document, "body": plain.document["body"].replace("\n", "\r\n")}
    assert found.lines == plain.lines


@pytest.mark.parametrize("fence", ["---", "--- ", "---\t"])
def test_spaces_after_a_fence_are_nothing(write: Write, fence: str) -> None:
    assert one(write("d.md", f"{fence}\nid: X\n{fence}\nBody")).document["id"] == "X"


def test_a_body_is_kept_byte_by_byte(write: Write) -> None:
    body = "\n\n  é e\u0301 😀\t\n---\nid: not front matter\n---\n\n"
    assert one(write("d.md", f"---\nid: X\n---\n{body}")).document["body"] == body


def test_plain_markdown_is_a_body_with_the_path_for_an_id(write: Write, tmp_path: Path) -> None:
    found = one(write("a/b/Größe v1.2.md", "# No front matter"), tmp_path, id_prefix="line/", version=7)
    assert found.document == {
        "id": "line/a/b/Größe v1.2",
        "version": 7,
        "applies_to": {},
        "body": "# No front matter",
    }
    assert found.lines == {"": 1, "body": 1}


def test_a_stated_id_has_no_prefix_and_a_stated_version_wins(write: Write) -> None:
    found = one(write("d.md", "---\nid: X\nversion: 2\n---\nBody"), id_prefix="line/", version=7)
    assert (found.document["id"], found.document["version"]) == ("X", 2)


@pytest.mark.parametrize("text", ["", "\n \n", "---\nid: X\n---\n", "---\nid: X\n---\n \n\t", "---\n---\n"])
def test_a_file_without_a_body_is_no_document(write: Write, text: str) -> None:
    assert read(write("d.md", text)) == []


def test_empty_front_matter_is_front_matter(write: Write) -> None:
    assert one(write("d.md", "---\n---\nBody")).document["body"] == "Body"


@pytest.mark.parametrize("text", ["----\na\n---\nb", " ---\nid: X\n---\nb", "a\n---\nid: X\n---\n", "---x\n"])
def test_a_rule_elsewhere_is_no_front_matter(write: Write, text: str) -> None:
    assert one(write("d.md", text)).document["body"] == text


def test_what_is_no_whole_number_is_left_to_be_refused(write: Write) -> None:
    text = "---\nversion: {}\nspans: [{{id: s, fact: f, quote: q, occurrence: {}}}]\n---\nBody"
    for value in ("1.0", "-1", "x", "٣", "1e3"):
        found = one(write("d.md", text.format(value, value))).document
        assert (found["version"], found["spans"][0]["occurrence"]) == (value, value)
    assert one(write("d.md", "---\nspans: oops\n---\nBody")).document["spans"] == "oops"
    assert one(write("d.md", "---\nspans: [oops]\n---\nBody")).document["spans"] == ["oops"]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("---\nid: X\nBody without an end\n", 1, "no end"),
        ("---\n- a\n- b\n---\nBody", 2, "must be a mapping"),
        ("---\njust text\n---\nBody", 2, "must be a mapping"),
        ("---\nid: X\ntitle: a: b\n---\nBody", 3, "not YAML"),
        ("---\nid: X\nid: Y\n---\nBody", 3, "more than once"),
        ("---\na: 1\nb: *nobody\n---\nBody", 3, "alias"),
        ("---\nid: X\ntenant: northwind\n---\nBody", 3, "'northwind', not of 'acme'"),
        ("---\ntenant: [acme]\n---\nBody", 2, "not of 'acme'"),
    ],
)
def test_a_bad_markdown_file_is_refused_with_line_and_reason(write: Write, text: str, line: int, reason: str) -> None:
    error = refused(write("d.md", text))
    assert reason in error.message
    assert error.line == line


def test_not_utf8_is_refused_with_line_and_byte(write: Write) -> None:
    error = refused(write("d.md", b"---\nid: X\n---\nCaf\xe9 is Latin-1\n"))
    assert (error.line, "byte 17 " in error.message) == (4, True)
    assert refused(write("d.jsonl", b'{"id": "a", "body": "b"}\n{"id": "\xff"}\n')).line == 2
    for name in ("utf16.md", "utf16.jsonl"):
        error = refused(write(name, '{"id": "a"}'.encode("utf-16")))
        assert (error.line, error.reason) == (1, "not UTF-8: byte 0 of the file")
    assert refused(write("bom.md", b"\xef\xbb\xbfa\n\xff")).reason == "not UTF-8: byte 5 of the file"


def test_a_nul_is_refused_with_its_line(write: Write) -> None:
    error = refused(write("d.md", "---\nid: X\n---\nBody\nwith\0nul"))
    assert (error.line, "NUL" in error.message) == (5, True)


# What the command line adds


def test_applies_to_of_the_command_line_is_merged(write: Write) -> None:
    path = write("d.md", "---\napplies_to: {model: [G2], firmware: 3.10}\n---\nBody")
    found = one(path, applies_to={"firmware": ["3.10"], "region": ("eu", "us")})
    assert found.document["applies_to"] == {"model": ["G2"], "firmware": ["3.10"], "region": ["eu", "us"]}
    assert one(write("p.md", "Body"), applies_to={"model": ["G2"]}).document["applies_to"] == {"model": ["G2"]}


def test_a_conflict_with_the_command_line_is_refused_on_the_line_that_states_it(write: Write) -> None:
    path = write("d.md", "---\napplies_to:\n  region: eu\n  model: [G2, G3]\n---\nBody")
    error = refused(path, applies_to={"model": ["G2"]})
    assert error.line == 4
    assert "model" in error.message
    assert refused(path, applies_to={"region": ["us"]}).line == 3
    lines = write("d.jsonl", '\n{"id": "a", "body": "b", "applies_to": {"model": "G3"}}\n')
    assert refused(lines, applies_to={"model": ["G2"]}).line == 2


def test_a_scope_of_another_kind_is_left_to_be_refused(write: Write) -> None:
    path = write("d.md", "---\napplies_to: everything\n---\nBody")
    assert one(path, applies_to={"model": ["G2"]}).document["applies_to"] == "everything"


# JSON lines


def test_json_lines_have_the_same_keys(write: Write) -> None:
    text = (
        '{"id": "a", "version": 2, "body": "A\\nb", "spans": [{"id": "s", "fact": "f", "quote": "A", "occurrence": 1}],'
        ' "tenant": "acme", "applies_to": {"model": "G2"}, "owner": "Ann", "metadata": {"kept": [1.5, null]}}\r\n'
        "\n"
        '{"id": "é", "body": "\\u00e9 \u2028"}'
    )
    first, second = read(write("d.jsonl", text), version=9)
    assert first.document == {
        "id": "a",
        "version": 2,
        "body": "A\nb",
        "spans": [{"id": "s", "fact": "f", "quote": "A", "occurrence": 1}],
        "applies_to": {"model": ["G2"]},
        "metadata": {"kept": [1.5, None], "owner": "Ann"},
    }
    assert second.document == {"id": "é", "body": "é \u2028", "version": 9, "applies_to": {}}
    assert (first.lines[""], second.lines[""]) == (1, 3)


def test_json_lines_name_their_documents(write: Write) -> None:
    """A path cannot: a file holds many. What lacks is left to be refused by the database."""
    assert "id" not in one(write("d.jsonl", '{"body": "b"}'), id_prefix="x/").document


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("{'id': 'a'}", "not JSON"),
        ('{"id": "a"} {"id": "b"}', "not JSON"),
        ("[1, 2]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ('{"id": "a", "body": "b", "id": "c"}', "'id' stands more than once"),
        ('{"id": "a", "body": "b", "applies_to": {"m": "x", "m": "y"}}', "'m' stands more than once"),
        ('{"id": "a", "body": "b", "tenant": "northwind"}', "not of 'acme'"),
        ('{"id": "a", "body": "b", "tenant": null}', "not of 'acme'"),
        ("[" * 100_000, "not JSON"),
        ('{"id": "a", "version": ' + "9" * 5000 + "}", "not JSON"),
    ],
    ids=lambda value: value[:30],
)
def test_a_bad_line_is_refused_with_its_number(write: Write, line: str, reason: str) -> None:
    error = refused(write("d.ndjson", f'{{"id": "good", "body": "b"}}\n\n{line}\n'))
    assert reason in error.message
    assert error.line == 3


@settings(deadline=None, max_examples=100)
@given(bodies=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=5))
def test_any_text_goes_through_json_lines(tmp_path_factory: pytest.TempPathFactory, bodies: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "d.jsonl"
    lines = [json.dumps({"id": "x", "body": body}, ensure_ascii=number % 2 == 0) for number, body in enumerate(bodies)]
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    assert [entry.document["body"] for entry in read(path)] == bodies


# Finding files


def test_folders_are_searched_in_order_and_files_keep_their_folder(write: Write, tmp_path: Path) -> None:
    names = ["b.md", "a/z.MARKDOWN", "a/y.jsonl", "a/deep/x.ndjson", "a/skip.txt", "c.md/inside.md"]
    written = {name: write(name, "x") for name in names}
    found = find_files([tmp_path, written["a/y.jsonl"]])
    assert [(Path(file.path), file.root, file.problem) for file in found] == [
        (written["a/deep/x.ndjson"], tmp_path, ""),
        (written["a/y.jsonl"], tmp_path, ""),
        (written["a/z.MARKDOWN"], tmp_path, ""),
        (written["b.md"], tmp_path, ""),
        (written["c.md/inside.md"], tmp_path, ""),
        (written["a/y.jsonl"], tmp_path / "a", ""),
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nothing.md", "no such file"), ("notes.txt", "neither Markdown"), ("README", "neither Markdown")],
)
def test_a_path_that_cannot_be_read_is_refused(write: Write, tmp_path: Path, name: str, reason: str) -> None:
    if name != "nothing.md":
        write(name, "x")
    with pytest.raises(FileRefused) as raised:
        find_files([tmp_path / name])
    assert (raised.value.line, reason in raised.value.message) == (0, True)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("docs/**/*.md", ["docs/a.md", "docs/b/c.md", "docs/b/d/e.md", "docs/b2/f.md"]),
        ("docs/*.md", ["docs/a.md"]),
        ("docs/*/[cf].md", ["docs/b/c.md", "docs/b2/f.md"]),
        ("docs/b?/*", ["docs/b2/f.md", "docs/b2/g.jsonl"]),
        ("docs/*2", ["docs/b2/f.md", "docs/b2/g.jsonl"]),
        ("docs/**/d", ["docs/b/d/e.md"]),
        ("**/e.md", ["docs/b/d/e.md"]),
        ("docs/b/**", ["docs/b/c.md", "docs/b/d/e.md"]),
        ("docs/**/**/f.*", ["docs/b2/f.md"]),
    ],
)
def test_a_pattern_stands_for_what_matches_it_once_and_in_order(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, expected: list[str]
) -> None:
    for name in ("a.md", "b/c.md", "b/d/e.md", "b2/f.md", "b2/g.jsonl", "b2/h.txt"):
        write(f"docs/{name}", '{"id": "g", "body": "x"}')
    monkeypatch.chdir(tmp_path)
    assert [Path(file.path).as_posix() for file in find_files([Path(pattern)])] == expected
    assert [Path(file.path) for file in find_files([tmp_path / pattern])] == [tmp_path / name for name in expected]


def test_ids_of_a_pattern_are_relative_to_what_stands_before_its_wildcards(write: Write, tmp_path: Path) -> None:
    write("docs/a/b.md", "Body")
    (file,) = find_files([tmp_path / "docs" / "*" / "b.md"])
    assert one(Path(file.path), file.root).document["id"] == "a/b"


@pytest.mark.parametrize("pattern", ["*.txt", "sub/*.md", "nowhere/*.md", "[x", "*"])
def test_a_pattern_that_matches_nothing_is_refused(write: Write, tmp_path: Path, pattern: str) -> None:
    write("a.txt", "x")
    write("sub/b.txt", "x")
    with pytest.raises(FileRefused) as raised:
        find_files([tmp_path / pattern])
    assert "matches" in raised.value.message


def test_a_path_that_is_there_is_no_pattern(write: Write) -> None:
    write("a1.md", "no")
    path = write("a[1].md", "yes")
    assert [file.path for file in find_files([path])] == [str(path)]


# Links, and what cannot be read


def problems(*paths: Path) -> dict[str, str]:
    """Each file that is found, by its name, with why it is refused."""
    found = {}
    for file in find_files(paths):
        try:
            if file.problem:
                raise FileRefused(file.path, 0, file.problem)
            read(Path(file.path), file.root)
            found[Path(file.path).name] = ""
        except FileRefused as error:
            found[Path(file.path).name] = error.reason
    return found


def test_links_to_folders_are_not_followed_and_those_that_lead_out_are_refused(write: Write, tmp_path: Path) -> None:
    write("outside/secret.md", "x")
    write("docs/v1/a.md", "x")
    docs = tmp_path / "docs"
    for name, target in {
        "latest": "v1",  # inside: found under its own name
        "v1/loop": "..",
        "self": ".",
        "out": "../outside",
        "up": "..",
    }.items():
        (docs / name).symlink_to(target)
    outside = f"is a symbolic link out of {docs}"
    assert problems(docs) == {"a.md": "", "out": outside, "up": outside}
    assert problems(docs / "*" / "*.md") == {"a.md": "", "out": outside, "up": outside}


def test_links_to_files_are_read_where_they_stay_inside(write: Write, tmp_path: Path) -> None:
    write("outside.md", "x")
    write("docs/a.md", "x")
    docs = tmp_path / "docs"
    for name, target in {"b.md": "a.md", "c.md": "../outside.md", "d.md": "nowhere.md", "e.md": "e.md"}.items():
        (docs / name).symlink_to(target)
    found = problems(docs)
    assert (found["a.md"], found["b.md"]) == ("", "")
    assert found["c.md"] == f"is a symbolic link out of {docs}"
    assert found["d.md"].startswith("cannot be read: No such file")
    assert found["e.md"].startswith("cannot be read: Too many levels")
    with pytest.raises(FileRefused):
        read(docs / "c.md")


def test_a_folder_or_a_file_that_may_not_be_read_is_refused_and_the_others_are_found(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused by the system calls themselves: whoever runs the tests may be root, whom no permission stops."""
    for name in ("a/1.md", "b/2.md", "c/3.md"):
        write(name, "x")
    scandir, open_ = os.scandir, Path.open

    def closed_folder(path: str) -> Any:
        if path.endswith("/b"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(path)

    def closed_file(path: Path, *arguments: Any) -> Any:
        if path.name == "3.md":
            raise PermissionError(errno.EACCES, "Permission denied")
        return open_(path, *arguments)

    monkeypatch.setattr(os, "scandir", closed_folder)
    monkeypatch.setattr(Path, "open", closed_file)
    denied = "cannot be read: Permission denied"
    assert problems(tmp_path) == {"1.md": "", "b": denied, "3.md": denied}


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert problems(tmp_path) == {"pipe.md": "is no regular file"}


def test_a_name_that_is_not_utf8_makes_no_id(tmp_path: Path) -> None:
    for name, text in ((b"caf\xe9.md", "Body"), (b"th\xe9.md", "---\nid: the\n---\nBody")):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_text(text)
    first, second = (Path(file.path) for file in find_files([tmp_path]))
    with pytest.raises(FileRefused) as raised:
        read(first)
    assert "name is not UTF-8" in raised.value.reason
    assert raised.value.path == f"{tmp_path}/caf\\xe9.md"
    assert one(second).document["id"] == "the"


def test_standard_input_is_one_file_of_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b'\xef\xbb\xbf{"id": "a", "body": "b"}\n\n{"id": "c", "body": "\xff"}'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    (file,) = find_files([Path("-")])
    documents = read_file(Path(file.path), file.root, "acme", Defaults())
    assert next(documents).document["id"] == "a"
    with pytest.raises(FileRefused) as raised:
        next(documents)
    assert raised.value.message == "standard input:3: not UTF-8: byte 50 of the file"


def test_a_file_that_vanishes_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path / "gone.md")
    assert (error.line, "cannot be read" in error.message) == (0, True)


# Contracts


CONTRACT = """\
question: q
version: 2
case: [model]
facts:
  - fact: f
    propositions:
      - quote: q
        clauses: [c]
"""


def test_a_contract_is_read_with_its_lines(write: Write) -> None:
    question, version, content, lines = read_contract(write("c.yaml", CONTRACT), "acme")
    assert (question, version) == ("q", 2)
    assert content == {
        "case": ["model"],
        "facts": [{"fact": "f", "propositions": [{"quote": "q", "clauses": ["c"]}]}],
    }
    assert lines["facts.0.propositions.0.clauses"] == 8
    error = contract_refusal(InvalidContract("bad", column="facts.0.propositions.0.clauses.3"), Path("c.yaml"), lines)
    assert (error.line, error.cause_code) == (8, "RS030")
    assert contract_refusal(InvalidContract("bad"), Path("c.yaml"), {}).line == 1


def test_the_seed_is_read() -> None:
    assert read_contract(SEED / "contract.yaml", "public")[:2] == ("gateway-explain-and-next-step-v1", 1)
    found = [entry for file in find_files([SEED / "acme"]) for entry in read(Path(file.path), file.root)]
    assert [entry.document["id"] for entry in found] == ["HOLD-7"]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "must be a mapping"),
        ("- a", 1, "must be a mapping"),
        ("version: 1", 1, "question is missing"),
        ("question:\nversion: 1", 1, "question is missing"),
        ("question: q", 1, "version is missing"),
        ("question: q\nversion: [1]", 2, "version is missing"),
        ("question: q\nversion: 1.0", 2, "whole number"),
        ("question: q\nversion: 0", 2, "whole number"),
        ("question: q\nversion: 2147483648", 2, "whole number"),
        ("question: q\nversion: ٣", 2, "whole number"),
        ("question: q\ntenant: public\nversion: 1", 2, "'public', not of 'acme'"),
        ("question: q\nversion: 1\nquestion: r", 3, "more than once"),
    ],
)
def test_a_bad_contract_is_refused(write: Write, text: str, line: int, reason: str) -> None:
    path = write("c.yaml", text)
    with pytest.raises(FileRefused) as raised:
        read_contract(path, "acme")
    assert reason in raised.value.message
    assert (raised.value.path, raised.value.line) == (str(path), line)


# What is wrong, and is not yet refused or read rightly


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\r\nid: X\r\nBody\r\n", id="no end, CRLF"),
        pytest.param("--- \nid: X\nBody\n", id="no end, space"),
        pytest.param("---\nid: X\napplies_to:\n---\nBody", id="no scope"),
        pytest.param("---\nid: X\nversion:\n---\nBody", id="no version"),
    ],
)
def test_a_file_that_would_be_taken_for_another_is_refused(write: Write, text: str) -> None:
    assert refused(write("d.md", text)).line


def test_an_attribute_without_a_value_is_left_to_be_refused_by_the_database(write: Write) -> None:
    """It must not vanish: the document would then apply to every model (law 6)."""
    found = one(write("d.md", "---\nid: X\napplies_to:\n  model:\n---\nBody"))
    assert found.document["applies_to"] == {"model": None}


def test_a_byte_order_mark_does_not_hide_the_front_matter(write: Write) -> None:
    found = one(write("d.md", "\ufeff---\nid: X\n---\nBody"))
    assert (found.document["id"], found.document["body"]) == ("X", "Body")


def test_a_version_of_very_many_digits_is_refused(write: Write) -> None:
    found = read(write("d.md", f"---\nid: X\nversion: {'9' * 5000}\n---\nBody"))
    assert isinstance(found[0].document["version"], str)


def test_metadata_of_another_kind_is_refused_or_left_to_be_refused(write: Write) -> None:
    found = one(write("d.jsonl", '{"id": "a", "body": "b", "metadata": "x", "owner": "Ann"}'))
    assert found.document["metadata"] == "x"


def test_metadata_means_the_same_in_both_kinds_of_file(write: Write) -> None:
    markdown = one(write("d.md", "---\nid: a\nmetadata: {k: v}\nowner: Ann\n---\nb")).document
    lines = one(write("d.jsonl", '{"id": "a", "body": "b", "metadata": {"k": "v"}, "owner": "Ann"}')).document
    assert markdown == lines


def test_the_same_values_in_another_order_are_no_conflict(write: Write) -> None:
    path = write("d.md", "---\napplies_to: {model: [G3, G2]}\n---\nBody")
    assert set(one(path, applies_to={"model": ["G2", "G3"]}).document["applies_to"]["model"]) == {"G2", "G3"}


@pytest.mark.parametrize(
    "line",
    ['{"id": "a", "body": "\\u0000"}', '{"id": "a", "body": "\\ud800"}', '{"id": "a", "body": "b", "version": NaN}'],
)
def test_what_json_says_and_postgresql_cannot_hold_is_refused_on_its_line(write: Write, line: str) -> None:
    assert refused(write("d.jsonl", f'{{"id": "good", "body": "b"}}\n{line}')).line == 2
