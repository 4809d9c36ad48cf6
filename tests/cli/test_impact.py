"""``rag-sql impact`` and ``rag-sql curate --carry``: what people and scripts are told when a document changes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rag_sql import draft
from tests.cli.test_cli import Ran, in_json, rag_sql
from tests.conftest import CASE, QUERY, QUESTION, SEED, Database

CHANGED = SEED / "changes" / "HOLD-7-v3-changed.md"


@pytest.fixture
def approved(gateway: Database) -> Database:
    """The gateway corpus with a packet that Ann has approved."""
    with gateway.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    with gateway.tenant("acme_reviewer") as acme:
        acme.approve(acme.review(packet.packet_id, draft(packet)), reviewer_name="Ann")
    return gateway


def impact(database: Database, *arguments: str | Path, login: str = "acme_curator", tenant: str = "acme") -> Ran:
    return rag_sql("impact", *arguments, "--tenant", tenant, url=database.url(login))


def carry(database: Database, *arguments: str, login: str = "acme_curator", tenant: str = "acme") -> Ran:
    return rag_sql("curate", "--carry", *arguments, "--tenant", tenant, url=database.url(login))


def written(folder: Path, text: str, name: str = "new.md") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def stored(database: Database) -> list[Any]:
    with database.connect("auditor") as auditor:
        return auditor.execute(
            "select (select count(*) from rag_api.version), (select count(*) from rag_api.span),"
            " (select count(*) from rag_api.attribute)"
        ).fetchall()


def test_before_a_load_it_says_what_the_load_would_touch_and_stores_nothing(approved: Database) -> None:
    before = stored(approved)
    ran = impact(approved, CHANGED)
    assert ran.returncode == 5
    lines = ran.stdout.splitlines()
    assert lines[0] == "1 file, nothing stored: 1 new with 1 span (0 of them superseded), 0 same, 0 empty, 0 refused"
    assert re.search(r"HOLD-7 \(acme\) +v2 +v3", ran.stdout)
    assert "HOLD-7 v2 s1 (audit-constraint): gone, not in version 3" in lines
    assert "  nearest: HOLD-7 version 3 (acme); a suggestion, which licenses nothing" in lines
    assert "While an audit hold is active, -collect" in ran.stdout
    facts = ran.stdout[ran.stdout.index("\nfacts") : ran.stdout.index("\npackets")]
    assert {"lost", "HOLD-7", "every", "none", "left"} <= set(facts.split())  # in a narrow table, line by line
    assert "HOLD-7 (acme): version 2, spans: s1 -> version 3, spans: s1" in ran.stdout
    assert lines[-1] == "1 approval of 1 packet would turn stale"
    assert stored(approved) == before
    assert rag_sql("load", CHANGED, "-t", "acme", url=approved.url("acme_curator")).returncode == 0


def test_a_load_that_touches_nothing_says_so(approved: Database, tmp_path: Path) -> None:
    path = written(tmp_path, "---\nid: NEW\n---\nNothing of the kind.\n")
    ran = impact(approved, path, "--applies-to", "never-heard-of=x")
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "no approval would turn stale")
    same = impact(approved, SEED / "acme")
    assert (same.returncode, same.stdout.splitlines()[1:]) == (
        0,
        ["nothing is touched", "no approval would turn stale"],
    )


def test_what_a_script_is_told_is_all_there(approved: Database) -> None:
    ran = impact(approved, CHANGED, "--json")
    found = in_json(ran)
    assert ran.returncode == 5
    assert (found["load"]["new"], found["load"]["refused"]) == (1, [])
    assert [row["document_id"] for row in found["documents"]] == ["HOLD-7"]
    (span,) = found["spans"]
    assert (span["survival"], span["suggestion"]["document_id"], ["-", "collect"] in span["suggestion"]["diff"]) == (
        "gone",
        "HOLD-7",
        True,
    )
    assert [(row["change"], row["is_covered"]) for row in found["facts"]] == [("lost", False)]
    (packet,) = found["packets"]
    assert (packet["effect"], [row["reviewer"] for row in packet["approvals"]]) == ("turns_stale", ["Ann"])


def test_afterwards_it_says_what_changes_have_touched(approved: Database) -> None:
    since = datetime.now(UTC).isoformat()
    assert impact(approved, "--since", since).stdout.splitlines() == ["nothing is touched", "no approval turned stale"]
    with approved.tenant("acme_curator") as acme:
        acme.withdraw_version("HOLD-7", 2)
    until = datetime.now(UTC).isoformat()
    ran = impact(approved, "--since", since, login="acme_reader")
    assert ran.returncode == 5
    assert "HOLD-7 v2 s1 (audit-constraint): gone, no version of it is current" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "1 approval of 1 packet turned stale"
    assert impact(approved, "--since", until).returncode == 0
    assert impact(approved, "--since", since, "--until", since).returncode == 0
    assert in_json(impact(approved, "--since", since, "--json"))["load"] is None


def test_a_file_that_takes_effect_later_is_looked_at_for_then(approved: Database, tmp_path: Path) -> None:
    later = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT00:00:00Z")
    path = written(tmp_path, f"---\nid: HOLD-7\nversion: 3\neffective_from: {later}\n---\nAnother rule.\n")
    ran = impact(approved, path)
    assert ran.returncode == 0
    assert f"version 3 on {later[:10]} 00:00" in ran.stdout
    assert f"what takes effect later touches nothing yet: look with --valid-at {later}" in ran.stdout
    assert impact(approved, path, "--valid-at", later).returncode == 5


def test_a_file_that_is_refused_is_said_with_the_impact_of_the_others(approved: Database, tmp_path: Path) -> None:
    bad = written(tmp_path, "---\nid: BAD\nversion: none\n---\nText.\n", "bad.md")
    ran = impact(approved, CHANGED, bad)
    assert ran.returncode == 1
    assert f"{bad}:3: version: must be a whole number" in ran.stderr
    assert "1 approval of 1 packet would turn stale" in ran.stdout


def test_what_touches_public_says_whose_the_packets_are(approved: Database, tmp_path: Path) -> None:
    path = written(tmp_path, "---\nid: GW-241\nversion: 4\n---\nG2 firmware 2.4.1 is fine.\n")
    ran = impact(approved, path, login="publisher", tenant="public")
    assert ran.returncode == 0
    assert "packets are the tenants' own: each sees with --since" in ran.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [str(CHANGED), "--since", "2026-01-01"],
        ["--until", "2026-01-01"],
        ["--since", "yesterday"],
        [str(CHANGED), "--until", "2026-01-01"],
    ],
)
def test_files_or_an_instant(shared_gateway: Database, arguments: list[str]) -> None:
    assert impact(shared_gateway, *arguments).returncode == 2


def test_an_instant_that_has_not_come_is_an_error(shared_gateway: Database) -> None:
    ran = impact(shared_gateway, "--since", (datetime.now(UTC) + timedelta(days=1)).isoformat())
    assert (ran.returncode, "RS010" in ran.stderr) == (1, True)


# Carrying spans over


@pytest.fixture
def revised(gateway: Database) -> Database:
    """A second version of a document, without spans: one quotation stands in it, one is gone, one stands twice."""
    old = "Returns take 14 days. Refunds take 5 days. Gifts count."
    quotes = {"returns": "Returns take 14 days.", "refunds": "Refunds take 5 days.", "gifts": "Gifts count."}
    with gateway.tenant("acme_curator") as acme:
        spans = [{"id": name, "fact": name, "quote": quote} for name, quote in quotes.items()]
        acme.load_documents([{"id": "R", "version": 1, "body": old, "spans": spans}])
        acme.load_documents(
            [{"id": "R", "version": 2, "body": "Gifts count. Refunds take 9 days. Returns take 14 days. Gifts count."}]
        )
    return gateway


def test_survivors_are_carried_over_and_the_rest_is_a_persons(revised: Database) -> None:
    dry = carry(revised, "--dry-run")
    assert dry.returncode == 3
    assert "R v1 returns (returns): would be added to version 2" in dry.stdout
    assert dry.stdout.splitlines()[-1] == "1 carried over, nothing stored, 2 left for a person"
    ran = carry(revised, "R")
    assert (ran.returncode, ran.stdout) == (3, dry.stdout.replace("would be ", "").replace(", nothing stored", ""))
    assert "R v1 refunds (refunds): its quotation is not in version 2" in ran.stdout
    assert "    Refunds take -5 +9 days." in ran.stdout
    assert "R v1 gifts (gifts): its quotation stands more or less often in version 2 than before" in ran.stdout
    assert in_json(carry(revised, "--json"))["carried"] == []
    with revised.tenant("acme_curator") as acme:
        assert [span.span_id for span in acme.carriable_spans(["R"])] == ["refunds", "gifts"]


def test_what_a_script_is_told_of_carrying(revised: Database) -> None:
    found = in_json(carry(revised, "R", "--dry-run", "--json"))
    assert found["dry_run"] is True
    assert [(span["span_id"], span["version"], span["new_version"]) for span in found["carried"]] == [("returns", 1, 2)]
    assert [(span["span_id"], span["obstacle"]) for span in found["left"]] == [
        ("refunds", "gone"),
        ("gifts", "ambiguous"),
    ]
    assert found["left"][0]["suggestion"]["diff"] == [
        [" ", "Refunds"],
        [" ", "take"],
        ["-", "5"],
        ["+", "9"],
        [" ", "days."],
    ]


def test_where_nothing_was_replaced_nothing_is_carried(shared_gateway: Database) -> None:
    ran = carry(shared_gateway)
    assert (ran.returncode, ran.stdout) == (0, "0 carried over, 0 left for a person\n")


def test_a_document_that_is_not_there_is_an_error(shared_gateway: Database) -> None:
    ran = carry(shared_gateway, "NO-SUCH")
    assert (ran.returncode, 'RS022: no document "NO-SUCH"' in ran.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments", [["--carry", "--check", QUESTION], ["--dry-run", "x.yaml"], ["a.yaml", "b.yaml"], ["--dry-run"]]
)
def test_carrying_goes_with_documents_alone(shared_gateway: Database, arguments: list[str]) -> None:
    ran = rag_sql("curate", *arguments, "--tenant", "acme", url=shared_gateway.url("acme_curator"))
    assert ran.returncode == 2
