"""Loading real folders: bad files, links, links out, dry runs, and the same again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_sql import _files, _loading
from tests.cli.test_cli import in_json, rag_sql
from tests.conftest import CASE, QUERY, QUESTION, Database


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three good files, two bad ones, one without text, and one that is none of ours."""
    (tmp_path / "docs").mkdir()
    for name, text in {
        "a.md": "The first document.\n",
        "b.md": "---\nversion: two\n---\nA bad version.\n",
        "c.jsonl": '{"id": "c1", "version": 1, "body": "one"}\n{"id": "c2", "version": 1, "body": ""}\n',
        "d.md": "---\nspans:\n  - {id: s, fact: f, quote: third}\n---\nThe third document.\n",
        "e.md": "---\ntitle: Nothing\n---\n\n",
        "sub/f.md": "A document below.\r\n",
        "note.txt": "not ours",
    }.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    return tmp_path / "docs"


def stored(database: Database) -> set[str]:
    with database.tenant("acme_reader") as acme:
        return {row.document_id for row in acme.explain(QUESTION, query=QUERY, case=CASE, k=1) if row.tenant == "acme"}


def test_a_bad_file_refuses_itself_whole_and_is_listed(gateway: Database, folder: Path) -> None:
    result = rag_sql("load", folder, "-t", "acme", url=gateway.url("acme_curator"))
    assert result.returncode == 1
    assert "6 files: 3 new with 1 span (0 of them superseded), 0 same, 1 empty, 2 refused" in result.stdout
    assert f"{folder / 'b.md'}:2: version: must be a whole number" in result.stderr
    assert f"{folder / 'c.jsonl'}:2: body: must be a text" in result.stderr
    assert stored(gateway) == {"HOLD-7", "a", "d", "sub/f"}


def test_atomic_lets_one_bad_file_refuse_all(gateway: Database, folder: Path) -> None:
    result = rag_sql("load", folder, "-t", "acme", "--atomic", url=gateway.url("acme_curator"))
    assert (result.returncode, f"{folder / 'b.md'}:2: " in result.stderr) == (1, True)
    assert stored(gateway) == {"HOLD-7"}


def test_a_dry_run_says_what_would_be_and_stores_nothing(gateway: Database, folder: Path) -> None:
    url = gateway.url("acme_curator")
    dry = in_json(rag_sql("load", folder, "-t", "acme", "--dry-run", "--json", url=url))
    assert stored(gateway) == {"HOLD-7"}
    real = in_json(rag_sql("load", folder, "-t", "acme", "--json", url=url))
    assert {**dry, "dry_run": False} == real
    assert (real["new"], real["same"], [refused["line"] for refused in real["refused"]]) == (3, 0, [2, 2])
    again = in_json(rag_sql("load", folder, "-t", "acme", "--json", url=url))
    assert (again["new"], again["same"]) == (0, 3)


def test_a_version_that_another_supersedes_is_loaded_and_counted(gateway: Database, tmp_path: Path) -> None:
    path = tmp_path / "hold.md"
    path.write_text("---\nid: HOLD-7\nversion: 1\neffective_from: 2020-01-01\n---\nWhat was said before.\n")
    result = in_json(rag_sql("load", path, "-t", "acme", "--json", url=gateway.url("acme_curator")))
    assert (result["new"], result["superseded"]) == (1, 1)


def test_a_link_out_of_the_folder_is_refused(gateway: Database, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret.md"
    outside.write_text("Not for loading.\n")
    (folder / "link.md").symlink_to(outside)
    (folder / "inner.md").symlink_to(folder / "a.md")
    result = rag_sql("load", folder, "-t", "acme", url=gateway.url("acme_curator"))
    assert f"{folder / 'link.md'}: is a symbolic link out of {folder}" in result.stderr
    assert stored(gateway) == {"HOLD-7", "a", "d", "sub/f", "inner"}


@pytest.mark.parametrize("option", [[], ["--atomic"], ["--dry-run"]])
def test_two_files_that_contradict_each_other_are_both_named(
    gateway: Database, tmp_path: Path, option: list[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.md").write_text(f"---\nid: TWICE\nversion: 1\n---\nText of {name}.\n")
    result = rag_sql("load", tmp_path, "-t", "acme", *option, url=gateway.url("acme_curator"))
    assert result.returncode == 1
    assert (
        f'{tmp_path / "two.md"}:3: "TWICE" version 1 exists with other content: body;'
        f" {tmp_path / 'one.md'}:2 states it too" in result.stderr
    )
    assert "1 new" in result.stdout or option == ["--atomic"]


def test_a_document_that_two_files_state_alike_is_loaded_once(gateway: Database, tmp_path: Path) -> None:
    for name in ("one.md", "two.md"):
        (tmp_path / name).write_text("---\nid: TWICE\n---\nThe same text.\n")
    loaded = in_json(
        rag_sql("load", tmp_path, tmp_path / "one.md", "-t", "acme", "--json", url=gateway.url("acme_curator"))
    )
    assert (loaded["files"], loaded["new"], loaded["same"], loaded["refused"]) == (3, 1, 2, [])


def test_a_file_of_many_documents_is_refused_whole(gateway: Database, tmp_path: Path) -> None:
    lines = [f'{{"id": "n{number}", "version": 1, "body": "text {number}"}}' for number in range(1200)]
    (tmp_path / "a-good.jsonl").write_text("\n".join(lines))
    (tmp_path / "b-bad.jsonl").write_text("\n".join([*(line.replace('"n', '"m') for line in lines), "not json"]))
    result = in_json(rag_sql("load", tmp_path, "-t", "acme", "--json", url=gateway.url("acme_curator")))
    assert (result["new"], [refused["line"] for refused in result["refused"]]) == (1200, [1201])
    assert not any(document_id.startswith("m") for document_id in stored(gateway))


def test_standard_input_is_json_lines(gateway: Database) -> None:
    lines = '{"id": "s1", "version": 1, "body": "one"}\n{"id": "s2", "version": 1, "body": "two"}\n'
    url = gateway.url("acme_curator")
    loaded = in_json(rag_sql("load", "-", "-t", "acme", "--json", url=url, stdin=lines))
    assert (loaded["files"], loaded["new"]) == (1, 2)
    result = rag_sql("load", "-", "-t", "acme", url=url, stdin=lines + '{"id": "s3", "version": 0, "body": "three"}')
    assert (result.returncode, "1 file: 0 new" in result.stdout) == (1, True)
    assert "standard input:3: version: must be a whole number" in result.stderr
    assert stored(gateway) == {"HOLD-7", "s1", "s2"}


def test_a_pattern_that_the_shell_left_alone(gateway: Database, folder: Path) -> None:
    url = gateway.url("acme_curator")
    loaded = in_json(rag_sql("load", folder / "**" / "[af].md", "-t", "acme", "--json", url=url))
    assert (loaded["files"], loaded["new"]) == (2, 2)
    assert stored(gateway) == {"HOLD-7", "a", "sub/f"}
    result = rag_sql("load", folder / "*.mdx", "-t", "acme", url=url)
    assert (result.returncode, "no Markdown or JSON lines file matches" in result.stderr) == (1, True)


def test_many_refusals_are_counted_and_a_hundred_are_printed(gateway: Database, tmp_path: Path) -> None:
    """Each takes only itself out of its batch, and none keeps alive what it was raised from."""
    for number in range(130):
        text = (
            "Good.\n" if number % 13 == 0 else f"---\nspans: [{{id: s, fact: f, quote: absent {number}}}]\n---\nBad.\n"
        )
        (tmp_path / f"{number:03}.md").write_text(text)
    url = gateway.url("acme_curator")
    result = rag_sql("load", tmp_path, "-t", "acme", url=url)
    assert "130 files: 10 new with 0 spans (0 of them superseded), 0 same, 0 empty, 120 refused" in result.stdout
    assert result.stderr.count("error: ") == 100
    assert "20 more files refused; --json lists them all" in result.stderr
    with gateway.tenant("acme_curator") as acme:
        report = _loading.load(acme, _files.find_files([tmp_path]), _files.Defaults(), atomic=False)
    assert len(report.refused) == 120
    assert {(e.__traceback__, e.__cause__, e.__context__) for e in report.refused} == {(None, None, None)}


def test_a_long_document_is_cut_into_passages_with_the_headings_above_them(store: Database, tmp_path: Path) -> None:
    sections = "".join(f"## Part {n}\n\n{'A sentence of words. ' * 40}\n\n" for n in range(3))
    (tmp_path / "guide.md").write_text(f"# Guide\n\n{sections}", "utf-8")
    url = store.url("acme_curator")
    assert rag_sql("load", tmp_path, "--tenant", "acme", url=url).returncode == 0
    with store.connect("acme_reader") as connection:
        connection.execute("select rag_api.bind('acme')")
        found = connection.execute(
            "select heading_path, tokens, left(text, 9) from rag_api.passage order by range_start"
        ).fetchall()
        (whole,) = connection.execute(
            "select string_agg(text, '' order by range_start) from rag_api.passage"
        ).fetchall()
    assert found == [([], 205, "# Guide\n\n"), (["Guide"], 203, "## Part 1"), (["Guide"], 203, "## Part 2")]
    assert whole == ((tmp_path / "guide.md").read_text("utf-8"),)
    # Cut otherwise it is the same document, and stays as it was cut.
    again = rag_sql("load", tmp_path, "--tenant", "acme", "--passage-limit", "9999", "--json", url=url)
    assert (again.returncode, in_json(again)["same"]) == (0, 1)


def test_a_limit_below_the_target_is_wrong_usage(store: Database, tmp_path: Path) -> None:
    ran = rag_sql("load", tmp_path, "--tenant", "acme", "--passage-limit", "9", url=store.url("acme_curator"))
    assert (ran.returncode, "is less than the target" in ran.stderr) == (2, True)


def test_files_that_state_no_language_have_that_of_the_command_line(store: Database, tmp_path: Path) -> None:
    (tmp_path / "plain.md").write_text("The valves were closing.")
    (tmp_path / "stated.md").write_text("---\nlanguage: simple\n---\nThe valves were closing.")
    url = store.url("acme_curator")
    unknown = rag_sql("load", tmp_path / "plain.md", "-t", "acme", "--language", "klingon", url=url)
    assert unknown.returncode == 1
    assert "plain.md:1: language: must be a text search configuration" in unknown.stderr
    assert rag_sql("load", tmp_path, "-t", "acme", "--language", "english", url=url).returncode == 0
    found = in_json(rag_sql("search", "valve", "-t", "acme", "--json", url=url))
    assert [hit["document_id"] for hit in found] == ["plain"]
