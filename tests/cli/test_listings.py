"""Commands that list and show, and psql bound to a tenant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_sql import draft
from tests.cli.test_cli import in_json, rag_sql
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database


@pytest.fixture
def decided(gateway: Database) -> Database:
    """Four decisions: one approved and replaced by a rejection, one approved, one stale."""
    ids = []
    for k in (2, 3):
        with gateway.tenant("acme_reader") as acme:
            ids.append(acme.record_packet(QUESTION, query=QUERY, case=CASE, k=k))
        with gateway.tenant("acme_reviewer") as acme:
            acme.approve(acme.review(ids[-1].packet_id, draft(ids[-1])), reviewer_name="Ann", note="fine")
    with gateway.tenant("acme_reviewer") as acme:
        acme.reject(acme.review(ids[0].packet_id, draft(ids[0])), reviewer_name="Bob")
    return gateway


def test_decisions_are_listed_with_what_each_is_worth_now(decided: Database) -> None:
    def statuses() -> list[tuple[str, str]]:
        found = in_json(rag_sql("approvals", "-t", "acme", "--json", url=decided.url("acme_reader")))
        return sorted((row["reviewer"], row["status"]) for row in found)

    assert statuses() == [("Ann", "approved"), ("Ann", "replaced"), ("Bob", "rejected")]
    with decided.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 2)
    assert statuses() == [("Ann", "replaced"), ("Ann", "stale"), ("Bob", "rejected")]
    assert "stale" in rag_sql("approvals", "-t", "acme", url=decided.url("acme_reader")).stdout
    assert in_json(rag_sql("approvals", "-t", "northwind", "--json", url=decided.url("northwind_reader"))) == []


def test_packets_are_listed_and_exported_as_documents_that_verify(decided: Database, tmp_path: Path) -> None:
    url = decided.url("acme_reader")
    listed = in_json(rag_sql("packet", "list", "-t", "acme", "--json", url=url))
    assert len(listed) == 2
    folder = tmp_path / "packets"
    assert "2 packets written" in rag_sql("packet", "export", folder, "-t", "acme", url=url).stdout
    assert {path.stem for path in folder.iterdir()} == {row["packet_id"] for row in listed}
    for path in folder.iterdir():
        assert rag_sql("packet", "verify", path).returncode == 0
    assert "0 packets written" in rag_sql("packet", "export", folder, "-t", "acme", url=url).stdout
    assert in_json(rag_sql("packet", "list", "-t", "northwind", "--json", url=decided.url("northwind_reader"))) == []


def test_a_contract_is_listed_and_shown_with_its_clauses(shared_gateway: Database) -> None:
    url = shared_gateway.url("acme_reader")
    assert QUESTION in rag_sql("contract", "list", "-t", "acme", url=url).stdout
    (shown,) = in_json(rag_sql("contract", "show", QUESTION, "-t", "acme", "--json", url=url))
    assert (shown["tenant"], shown["is_newest"], shown["required_facts"]) == (
        "public",
        True,
        ["known-issue", "audit-constraint"],
    )
    assert [clause["fact"] for clause in shown["clauses"]] == ["known-issue", "audit-constraint"]
    assert "please send us a diagnostic export" in rag_sql("contract", "show", QUESTION, "-t", "acme", url=url).stdout
    assert rag_sql("contract", "show", "nope", "-t", "acme", url=url).returncode == 4


def test_checking_a_contract_stores_nothing(gateway: Database, tmp_path: Path) -> None:
    url = gateway.url("acme_curator")
    checked = rag_sql("contract", "check", SEED / "contract.yaml", "-t", "acme", url=url)
    assert (checked.returncode, "is valid: new" in checked.stdout) == (0, True)
    broken = tmp_path / "contract.yaml"
    broken.write_text((SEED / "contract.yaml").read_text("utf-8").replace("quote:", "qoute:", 1))
    refused = rag_sql("contract", "check", broken, "-t", "acme", url=url)
    line = next(number for number, text in enumerate(broken.read_text("utf-8").splitlines(), 1) if "qoute:" in text)
    assert (refused.returncode, f"{broken}:{line}: " in refused.stderr) == (1, True), refused.stderr
    listed = in_json(rag_sql("contract", "list", "-t", "acme", "--json", url=url))
    assert {row["tenant"] for row in listed} == {"public"}


def test_psql_is_bound_to_the_tenant_and_to_no_other(
    shared_gateway: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    url = shared_gateway.url("acme_reader")
    statement = "select string_agg(document_id, ' ' order by document_id) from document"
    assert rag_sql("psql", "-t", "acme", "--command", statement, url=url).returncode == 0
    seen = capfd.readouterr().out
    assert "BILL-42 G2-USB GW-241 HOLD-7 OLD-240" in seen
    assert "PRIVATE" not in seen
    assert rag_sql("psql", "-t", "northwind", "--command", statement, url=url).returncode != 0
    assert "is not bound to login" in capfd.readouterr().err
    assert rag_sql("psql", "-t", "acme -c role=x", "--command", statement, url=url).returncode == 2


def test_every_listing_is_json_when_asked(decided: Database) -> None:
    url = decided.url("acme_reader")
    for command in (["contract", "list"], ["packet", "list"], ["approvals"]):
        result = rag_sql(*command, "-t", "acme", "--json", url=url)
        assert isinstance(json.loads(result.stdout), list)
