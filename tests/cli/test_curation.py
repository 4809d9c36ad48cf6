"""``rag-sql curate``: spans for documents that are loaded, and what a contract still needs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rag_sql import _curation, _yaml
from rag_sql._curation import word_diff
from rag_sql.cli import curation
from tests.cli.test_cli import Ran, in_json, rag_sql
from tests.conftest import CASE, QUERY, QUESTION, Database

HOLD = "While an audit hold is active, collect a diagnostic export and do not roll back firmware"
SPANS = f"""\
# Spans for the hold.
- document: HOLD-7
  version: 5
  span: hold
  fact: audit-constraint
  quote: {HOLD}
- document: HOLD-7
  version: 5
  span: refusal
  fact: refusal
  quote: rollback requests are refused
"""


@pytest.fixture
def bare(gateway: Database) -> Database:
    """The gateway corpus with a version of HOLD-7 that has no spans yet."""
    load(gateway, f"{HOLD}. Applies to every gateway; rollback requests are refused until the auditor closes the case.")
    return gateway


def load(database: Database, body: str, document_id: str = "HOLD-7", version: int = 5) -> None:
    with database.tenant("acme_curator") as acme:
        acme.load_documents([{"id": document_id, "version": version, "body": body}])


def curate(database: Database, *arguments: str | Path, login: str = "acme_curator", tenant: str = "acme") -> Ran:
    return rag_sql("curate", *arguments, "--tenant", tenant, url=database.url(login))


def written(folder: Path, text: str, name: str = "spans.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


# Adding


def test_a_file_of_spans_is_added_and_a_second_time_is_the_same(bare: Database, tmp_path: Path) -> None:
    path = written(tmp_path, SPANS)
    first = curate(bare, path)
    assert (first.returncode, first.stdout) == (0, "2 spans: 2 new, 0 same\n"), first.stderr
    assert curate(bare, path).stdout == "2 spans: 0 new, 2 same\n"
    found = in_json(curate(bare, path, "--json"))
    assert (found["new"], found["same"]) == (0, 2)
    assert found["spans"][0] == {"document_id": "HOLD-7", "version": 5, "span_id": "hold", "status": "same"}
    with bare.tenant("acme_reader") as acme:
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).sufficient


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yml", "tenant: acme\nspans:\n" + SPANS),
        ("a.YAML", "tenant: acme\nspans:\n" + SPANS.replace("\n", "\r\n")),
        (
            "a.jsonl",
            """{"document": "HOLD-7", "version": 5, "span": "hold", "fact": "f", "quote": "audit hold"}

{"document": "HOLD-7", "version": 5, "span": "a", "fact": "f", "quote": "a", "occurrence": 3}
""",
        ),
    ],
)
def test_spans_are_a_list_a_mapping_or_json_lines(bare: Database, tmp_path: Path, name: str, text: str) -> None:
    result = curate(bare, written(tmp_path, text, name))
    assert (result.returncode, result.stdout) == (0, "2 spans: 2 new, 0 same\n"), result.stderr


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("version: 5\n  span: refusal", "version: five\n  span: refusal", 8, "version: must be a whole number"),
        ("version: 5\n  span: refusal", "version: 6\n  span: refusal", 8, 'no version 6 of document "HOLD-7"'),
        ("span: refusal", "span: hold", 9, "stands more than once"),
        ("fact: refusal", "fact:", 10, "fact: must be a text"),
        ("requests are refused", "requests are granted", 11, "quotes text that is not in the body"),
        ("rollback requests are refused", "a", 11, "occurs more than once"),
        ("fact: refusal", "label: refusal", 7, "fact: must be a text"),
        ("fact: refusal", "fact: refusal\n  label: refusal", 11, "unknown key"),
        ("span: refusal\n", "span: refusal\n  span: again\n", 10, "stands more than once"),
        ("- document: HOLD-7\n  version: 5\n  span: refusal", "- x\n- document: B", 7, "a span must be a mapping"),
    ],
)
def test_a_bad_span_is_refused_with_file_and_line_and_nothing_is_added(
    bare: Database, tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert SPANS.count(old) == 1
    for name, before in (("list.yaml", ""), ("mapping.yaml", "spans:\n")):
        path = written(tmp_path, before + SPANS.replace(old, new), name)
        result = curate(bare, path)
        assert result.returncode == 1
        assert f"{path}:{line + bool(before)}: " in result.stderr
        assert words in result.stderr
    with bare.tenant("acme_curator") as acme:
        assert [row.span_ids for row in acme.proposition_occurrences(QUESTION)] == [("s1",), ()]


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        ("a.txt", "x", 0, "neither YAML"),
        ("a.yaml", "", 1, "must be a list of spans"),
        ("a.yaml", "spans: {}\n", 1, "must be a list of spans"),
        ("a.yaml", "- a\n- [\n", 3, "not YAML"),
        ("a.yaml", "tenant: northwind\nspans: []\n", 1, "holds spans of tenant 'northwind'"),
        ("a.yaml", "spans: []\nspan: []\n", 2, "span is no key"),
        ("a.jsonl", '{"document": "A"}\n{', 2, "not JSON"),
        ("a.jsonl", "\n[]\n", 2, "must be a JSON object"),
        ("a.jsonl", '{"document": "A", "document": "B"}\n', 1, "stands more than once"),
        ("a.jsonl", '{"document": "\\u0000"}\n', 1, "NUL"),
    ],
)
def test_a_file_that_is_none_of_spans_is_refused(
    shared_gateway: Database, tmp_path: Path, name: str, text: str, line: int, words: str
) -> None:
    path = written(tmp_path, text, name)
    result = curate(shared_gateway, path)
    assert result.returncode == 1
    assert (f"{path}:{line}: " if line else f"{path}: ") in result.stderr
    assert words in result.stderr


def test_a_json_line_is_named_by_the_database_too(bare: Database, tmp_path: Path) -> None:
    good = '{"document": "HOLD-7", "version": 5, "span": "a", "fact": "f", "quote": "audit"}'
    for bad, words in ((good.replace('"a"', '"b"').replace("audit", "nowhere"), "not in the body"), ("{}", "document")):
        path = written(tmp_path, f"\n{good.replace('audit', 'audit hold')}\n{bad}\n", "a.jsonl")
        result = curate(bare, path)
        assert f"{path}:3: " in result.stderr
        assert words in result.stderr


def test_a_span_that_is_there_with_other_content_is_refused(bare: Database, tmp_path: Path) -> None:
    curate(bare, written(tmp_path, SPANS))
    path = written(tmp_path, SPANS.replace("fact: refusal", "fact: other"))
    result = curate(bare, path)
    assert (result.returncode, result.stdout) == (1, "")
    assert f'{path}:9: span "refusal" of "HOLD-7" version 5 exists with other content: fact' in result.stderr
    assert "give the changed one another id" in result.stderr


def test_a_missing_file_and_a_file_with_check_are_told_apart(shared_gateway: Database, tmp_path: Path) -> None:
    missing = curate(shared_gateway, tmp_path / "none.yaml")
    assert (missing.returncode, "cannot be read" in missing.stderr) == (1, True)
    assert curate(shared_gateway).returncode == 2
    assert curate(shared_gateway, written(tmp_path, SPANS), "--check", QUESTION).returncode == 2
    assert curate(shared_gateway, written(tmp_path, SPANS), "--contract-version", "1").returncode == 2


# Checking


def test_a_curated_contract_says_where_each_proposition_stands(shared_gateway: Database) -> None:
    result = curate(shared_gateway, "--check", QUESTION, login="acme_reader")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "known-issue: curated",
        "  G2 firmware 2.4.1 may stop sending telemetry after a reconnect.",
        "    in GW-241 version 3 (public): span s1",
        "audit-constraint: curated",
        f"  {HOLD}",
        "    in HOLD-7 version 2 (acme): span s1",
        "every required fact has a curated proposition in a current document",
    ]


def test_the_snippet_of_an_uncurated_proposition_can_be_curated_as_it_is(bare: Database, tmp_path: Path) -> None:
    result = curate(bare, "--check", QUESTION)
    assert result.returncode == 3
    lines = result.stdout.splitlines()
    assert "audit-constraint: not curated" in lines
    assert "not covered by a span of a current document: audit-constraint" in lines
    at = lines.index("    in HOLD-7 version 5 (acme): no span yet: add one")
    path = written(tmp_path, "\n".join(lines[at + 1 : at + 6]))
    assert curate(bare, path).stdout == "1 span: 1 new, 0 same\n"
    again = curate(bare, "--check", QUESTION)
    assert again.returncode == 0
    assert "    in HOLD-7 version 5 (acme): span audit-constraint" in again.stdout


@pytest.mark.parametrize(
    "quote",
    ["yes", "3.10", "- a: b # c", "two\nlines\n", " spaces ", 'it\'s "so"', "é😀", "x" * 500 + " y" * 200, "a\n b:"],
)
def test_a_snippet_says_the_quotation_exactly(bare: Database, tmp_path: Path, quote: str) -> None:
    load(bare, f"[{quote}][{quote}]", "3.10", 1)
    content: Any = {"case": [], "facts": [{"fact": "no", "propositions": [{"quote": quote, "clauses": ["c"]}]}]}
    with bare.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, content)
        (found,) = acme.proposition_occurrences("q")
        assert found.is_repeated
        added = _curation.add(acme, _curation.read_spans(written(tmp_path, _curation.snippet(found)), "acme"))
        assert [span.status for span in added] == ["new"]
        assert acme.proposition_occurrences("q")[0].span_ids == ("no",)


def test_what_stands_in_a_public_document_is_the_publishers_to_curate(gateway: Database) -> None:
    content: Any = {
        "case": [],
        "facts": [{"fact": "port", "propositions": [{"quote": "the back of the gateway", "clauses": ["c"]}]}],
    }
    with gateway.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, content)
    result = curate(gateway, "--check", "q")
    assert "in G2-USB version 1 (public): no span yet: add one, as tenant public" in result.stdout


def test_what_stands_nowhere_is_shown_beside_the_nearest_passage(gateway: Database) -> None:
    """A quotation with straight quotes and a space, a document with typographic ones and a line break."""
    body = "Note. While an “audit hold” is active, collect a\ndiagnostic export and never roll back. Ask the auditor."
    load(gateway, body)
    quote = 'While an "audit hold" is active, collect a diagnostic export and do not roll back.'
    content: Any = {"case": [], "facts": [{"fact": "hold", "propositions": [{"quote": quote, "clauses": ["c"]}]}]}
    with gateway.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, content)
    result = curate(gateway, "--check", "q")
    assert result.returncode == 3
    diff = (
        'While an -"audit -hold" +“audit +hold” is active, collect a -diagnostic +⏎diagnostic export and'
        " -do -not +never roll back."
    )
    assert result.stdout.splitlines() == [
        "hold: not curated",
        f"  {quote}",
        "    in no current document",
        "    nearest: HOLD-7 version 5 (acme); a suggestion, which licenses nothing",
        f"      {diff}",
        "not covered by a span of a current document: hold",
    ]
    found = in_json(curate(gateway, "--check", "q", "--json"))
    (proposition,) = found["facts"][0]["propositions"]
    assert (found["uncurated"], proposition["occurrences"], proposition["curated"]) == (["hold"], [], False)
    assert proposition["nearest"]["text"] == body[6:-17]
    assert ["-", "-"] not in proposition["nearest"]["diff"]
    assert ["+", "never"] in proposition["nearest"]["diff"]
    with gateway.tenant("acme_reader") as acme:
        assert acme.proposition_occurrences("q")[0].document_id is None


def test_a_fact_needs_one_of_its_propositions_and_every_fact_is_needed(bare: Database) -> None:
    def fact(name: str, *quotes: str) -> Any:
        return {"fact": name, "propositions": [{"quote": quote, "clauses": ["c"]} for quote in quotes]}

    with bare.tenant("acme_curator") as acme:
        acme.add_contract("q", 1, {"case": [], "facts": [fact("a", "zyzzyva", "audit"), fact("b", "gateway")]})
        acme.add_spans(
            [{"document": "HOLD-7", "version": 5, "span": "a", "fact": "a", "quote": "audit", "occurrence": 1}]
        )
    result = curate(bare, "--check", "q")
    assert result.returncode == 3
    assert "in no current document, and none has a word of it" in result.stdout
    assert "a: curated" in result.stdout
    assert "b: not curated" in result.stdout


def test_a_question_without_a_contract_is_unsupported(shared_gateway: Database) -> None:
    result = curate(shared_gateway, "--check", "nope")
    assert (result.returncode, "UnsupportedQuestion RS013" in result.stderr) == (4, True)
    assert curate(shared_gateway, "--check", QUESTION, "--contract-version", "9").returncode == 1


def test_a_contract_of_the_json_is_all_there(bare: Database) -> None:
    found = in_json(curate(bare, "--check", QUESTION, "--json"))
    assert [(fact["fact"], fact["curated"]) for fact in found["facts"]] == [
        ("known-issue", True),
        ("audit-constraint", False),
    ]
    assert found["facts"][1]["propositions"][0]["occurrences"] == [
        {
            "tenant": "acme",
            "document_id": "HOLD-7",
            "version": 5,
            "range_start": 0,
            "is_repeated": False,
            "span_ids": [],
        }
    ]


# The word diff


@pytest.mark.parametrize(
    ("quote", "text", "shown"),
    [
        ("a b c", "x y a b d z", "a b -c +d"),
        ("b c", "a b x c d", "b +x c"),
        ("Late Receipts", "no late receipts.", "-Late -Receipts +late +receipts."),
        ("café au lait", "un cafe\u0301 au lait", "-caf<U+00E9> +cafe<U+0301> au lait"),
        ("a b", "a\u00a0b", "a -b +<U+00A0>b"),
        ("a b", "a\tb", "a -b +⇥b"),
        ("a b\n", "a b c", "a b -⏎"),
        (" a b", "x a b", "-␣a +a b"),
        ("one two three four", "one", "one -two -three -four"),
        ("q", "x y", "-q +x"),
        ("", "x", ""),
    ],
)
def test_what_differs_is_shown_word_by_word(quote: str, text: str, shown: str) -> None:
    _, words = word_diff(quote, text)
    assert " ".join(word.mark.strip() + word.word for word in words) == shown


def test_the_part_that_fits_is_found_in_a_long_text() -> None:
    words = [f"word{number}" for number in range(20_000)]
    part, diff = word_diff(" ".join(words[15_000:15_020]).replace("word15007 ", ""), " ".join(words))
    assert part == " ".join(words[15_000:15_020])
    assert [(word.mark, word.word) for word in diff if word.mark != " "] == [("+", "word15007")]


def test_a_quotation_as_long_as_a_chapter_is_not_compared() -> None:
    assert word_diff("word " * 2001, "word") == ("", ())


def test_a_diff_is_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    _, words = word_diff("roll back now", "roll back never")
    passage: Any = type("Passage", (), {"document_id": "D", "version": 1, "tenant": "acme"})
    shown = {}
    for terminal in (True, False):
        screen = io.StringIO()
        monkeypatch.setattr(
            curation,
            "out",
            Console(file=screen, force_terminal=terminal, color_system="standard" if terminal else None),
        )
        curation._show_nearest(_curation.Suggestion(passage, "roll back never", words))
        shown[terminal] = screen.getvalue()
    assert "\x1b[31m-now\x1b[0m \x1b[32m+never\x1b[0m" in shown[True]
    assert "roll back -now +never" in shown[False]
    assert "\x1b" not in shown[False]


def test_what_is_dumped_is_read_by_our_own_reader() -> None:
    value, lines = _yaml.parse(SPANS)
    assert value[1]["span"] == "refusal"
    assert lines["1.quote"] == 11
