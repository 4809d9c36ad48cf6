"""``rag-sql attribute``: declaring types, and being told what was not declared."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_cli import in_json, rag_sql
from tests.conftest import Database


def test_a_type_is_declared_and_listed(store: Database) -> None:
    url = store.url("acme_curator")
    ran = rag_sql("attribute", "set", "amount", "number", "--tenant", "acme", url=url)
    assert (ran.returncode, ran.stdout.strip()) == (0, "attribute amount is a number: new")
    ran = rag_sql("attribute", "set", "amount", "flag", "--tenant", "acme", "--json", url=url)
    assert in_json(ran) == {"attribute": "amount", "type": "flag", "status": "changed"}
    (row,) = in_json(rag_sql("attribute", "list", "--tenant", "acme", "--json", url=url))
    assert (row["attribute"], row["type"], row["declared_by"], row["recorded_by"]) == (
        "amount",
        "flag",
        "acme",
        "acme_curator",
    )
    assert "amount" in rag_sql("attribute", "list", "--tenant", "acme", url=url).stdout


def test_a_load_says_which_attributes_were_not_declared(store: Database, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\napplies_to:\n  model: [G2]\n---\nText.\n", "utf-8")
    arguments = ("load", tmp_path, "--tenant", "acme")
    first = rag_sql(*arguments, url=store.url("acme_curator"))
    assert first.returncode == 0
    assert first.stderr.splitlines()[0] == 'notice: attribute "model" was not declared: it is a text now'
    assert "rag-sql attribute set model version-numeric --tenant acme" in first.stderr
    assert not rag_sql(*arguments, url=store.url("acme_curator")).stderr


def test_a_type_that_does_not_fit_what_is_stored_says_what_does_not(gateway: Database) -> None:
    ran = rag_sql("attribute", "set", "firmware", "number", "--tenant", "public", url=gateway.url("publisher"))
    assert ran.returncode == 1
    assert "AttributeMisfit RS027" in ran.stderr
    assert 'version 9: "2.4.0"' in ran.stderr
