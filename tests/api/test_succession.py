"""Documents that others take the place of: never used from then on, and whoever asks why is told by which."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rag_sql import Succession, errors
from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, QUERY, QUESTION, Database

HOLD = "While an audit hold is active, collect a diagnostic export and do not roll back firmware"
NEWER: dict[str, Any] = {"id": "HOLD-7", "version": 3, "body": f"{HOLD} at once."}


def selected(database: Database, **instants: Any) -> set[str]:
    """What a question now, or at instants, has selected, by each method that needs no model."""
    found = []
    with database.tenant("acme_reader") as acme:
        for method in ("overlap", "bm25"):
            decision = acme.decide(QUESTION, query=QUERY, case=CASE, k=1000, method=method, **instants)
            found.append({source.document_id for source in decision.sources})
    assert found[0] == found[1]
    return found[0]


def reasons(database: Database, document_id: str) -> dict[int, tuple[str | None, tuple[str, ...] | None]]:
    with database.tenant("acme_reader") as acme:
        rows = acme.explain(QUESTION, query=QUERY, case=CASE, k=2)
    return {row.version: (row.reason, row.successors) for row in rows if row.document_id == document_id}


def test_a_document_with_a_successor_is_not_used_and_the_successor_is_named(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.supersede("HOLD-7", ["HOLD-9", "HOLD-8"], note="split in two")
    assert "HOLD-7" not in selected(gateway)
    assert reasons(gateway, "HOLD-7") == {2: ("superseded", ("HOLD-8", "HOLD-9"))}
    with gateway.tenant("acme_reader") as acme:
        assert acme.decide(QUESTION, query=QUERY, case=CASE, k=2).missing == ("audit-constraint",)


def test_every_version_is_superseded_also_one_that_is_loaded_later_or_only_scheduled(gateway: Database) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with gateway.tenant("acme_curator") as acme:
        acme.supersede("HOLD-7", ["HOLD-8"])
    with gateway.tenant("acme_curator") as acme:
        loaded = acme.load_documents(
            [NEWER, {**NEWER, "version": 4, "body": "for later", "effective_from": tomorrow.isoformat()}]
        )
    assert [entry.successors for entry in loaded] == [("HOLD-8",), ("HOLD-8",)]
    assert "HOLD-7" not in selected(gateway)
    assert "HOLD-7" not in selected(gateway, valid_at=tomorrow + timedelta(days=1))
    assert reasons(gateway, "HOLD-7") == dict.fromkeys((2, 3, 4), ("superseded", ("HOLD-8",)))
    with gateway.tenant("acme_reader") as acme:
        assert acme.search(HOLD, case=CASE)[0].document_id != "HOLD-7"


def test_within_a_document_it_is_the_version_that_is_said(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        assert acme.load_documents([NEWER])[0].successors is None
    assert reasons(gateway, "HOLD-7") == {2: ("superseded", None), 3: (None, None)}


def test_a_succession_that_is_stated_in_the_load_holds_for_the_documents_of_that_load(store: Database) -> None:
    old = {"id": "OLD", "version": 1, "body": "reset the gateway", "successors": ["NEW"]}
    with store.tenant("acme_curator") as acme:
        loaded = acme.load_documents([{**old, "version": 2}, old, {"id": "NEW", "version": 1, "body": "reset it"}])
        assert [entry.successors for entry in loaded] == [("NEW",), ("NEW",), None]
        assert [hit.document_id for hit in acme.search("reset")] == ["NEW"]
    with store.tenant("acme_curator") as acme:
        assert [hit.document_id for hit in acme.search("reset", method="overlap")] == ["NEW"]


def test_it_takes_effect_at_its_time_and_by_what_had_been_recorded(gateway: Database) -> None:
    """As a question of one instant has it from the index, and one of two from the tables."""
    with gateway.tenant("acme_reader") as acme:
        before = datetime.fromisoformat(acme.decide(QUESTION, query=QUERY, case=CASE, k=1).request.known_at)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with gateway.tenant("acme_curator") as acme:
        acme.supersede("HOLD-7", ["HOLD-8"], superseded_from=tomorrow)
    assert "HOLD-7" in selected(gateway)
    assert reasons(gateway, "HOLD-7") == {2: (None, None)}
    assert "HOLD-7" in selected(gateway, valid_at=tomorrow - timedelta(seconds=1))
    assert "HOLD-7" not in selected(gateway, valid_at=tomorrow)
    assert "HOLD-7" in selected(gateway, valid_at=tomorrow, known_at=before)
    with gateway.tenant("acme_curator") as acme:
        acme.supersede("HOLD-7", ["HOLD-9"], superseded_from=datetime(2020, 1, 1, tzinfo=UTC))
    assert "HOLD-7" not in selected(gateway)
    assert "HOLD-7" in selected(gateway, valid_at=before, known_at=before)
    assert reasons(gateway, "HOLD-7") == {2: ("superseded", ("HOLD-9",))}


def test_a_decision_is_repeated_to_the_byte_after_a_succession_and_an_approval_goes_stale(gateway: Database) -> None:
    with gateway.tenant("acme_reader") as acme:
        packet = acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    with gateway.tenant("acme_curator") as acme:
        acme.supersede("HOLD-7", ["HOLD-8"], superseded_from=datetime(2020, 1, 1, tzinfo=UTC))
    instant = datetime.fromisoformat(packet.request.known_at)
    with gateway.tenant("acme_reader") as acme:
        again = acme.decide(QUESTION, query=QUERY, case=CASE, k=2, valid_at=instant, known_at=instant)
        assert (again.preimage, again.digest) == (packet.preimage, packet.digest)
        (change,) = [change for change in acme.evidence_changes(packet.packet_id) if "HOLD-7" in change.subject]
    assert change.is_now == "not selected (superseded by HOLD-8)"


def test_a_tenants_own_document_takes_no_public_ones_place(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "GW-241", "version": 1, "body": "Gateway G2 notes.", "successors": ["GW-242"]}])
    with gateway.tenant("acme_reader") as acme:
        rows = acme.explain(QUESTION, query=QUERY, case=CASE, k=2)
    found = {row.tenant: (row.eligible, row.successors) for row in rows if row.document_id == "GW-241"}
    assert found == {"acme": (False, ("GW-242",)), "public": (True, None)}


def test_what_a_public_document_is_superseded_by_every_tenant_is_told(gateway: Database) -> None:
    with gateway.tenant("publisher") as public:
        public.supersede("GW-241", ["GW-242"])
    assert reasons(gateway, "GW-241") == {3: ("superseded", ("GW-242",))}


def test_stating_it_again_changes_nothing_and_an_earlier_instant_counts(gateway: Database) -> None:
    times = [datetime(year, 1, 1, tzinfo=UTC) for year in (2999, 2020, 2021, 2020)]
    for superseded_from in times:
        with gateway.tenant("acme_curator") as acme:
            acme.supersede("HOLD-7", ["HOLD-8"], superseded_from=superseded_from)
    with gateway.tenant("acme_reader") as acme:
        (version,) = acme.history("HOLD-7")
    assert [found.superseded_from for found in version.successions] == [times[1], times[0]]


@pytest.mark.parametrize(
    ("stated", "status"),
    [
        ({}, "same"),
        ({"successors": ["B"]}, "same"),
        ({"successors": ["C", "B"]}, "same"),
        ({"successors": ["B"], "superseded_from": "2026-01-01"}, "same"),
        ({"successors": ["B"], "superseded_from": "2026-01-02"}, "successors"),
        ({"successors": ["B", "D"]}, "successors"),
    ],
)
def test_what_a_version_that_is_there_may_state_of_its_successors(
    store: Database, stated: dict[str, Any], status: str
) -> None:
    """Nothing, or some of what is stored; others come with the next version, or are stated of the document."""
    document = {"id": "A", "version": 1, "body": "text"}
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{**document, "successors": ["B", "C"], "superseded_from": "2026-01-01"}])
        assert acme.same_documents([{**document, **stated}]) == ({0} if status == "same" else set())
        if status == "same":
            assert acme.load_documents([{**document, **stated}])[0].status == "same"
            return
    with store.store("acme_curator") as opened, pytest.raises(errors.VersionConflict) as caught:
        with opened.tenant("acme") as acme:
            acme.load_documents([{**document, **stated}])
    assert "other content: successors" in caught.value.message
    assert "rag-sql supersede" in caught.value.hint
    with store.tenant("acme_curator") as acme:
        assert acme.load_documents([{**document, **stated, "version": 2}])[0].status == "new"
        assert acme.load_documents([{**document, **stated, "version": 2}])[0].status == "same"


def test_without_a_time_it_holds_from_when_the_version_does(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        document = {"id": "A", "version": 1, "body": "text", "successors": ["B"]}
        acme.load_documents([{**document, "effective_from": "2026-02-03"}])
        (version,) = acme.history("A")
    (succession,) = version.successions
    assert succession == Succession(
        "B", datetime(2026, 2, 3, tzinfo=UTC), None, version.recorded_at, version.recorded_by
    )


@pytest.mark.parametrize(
    "call",
    [
        {"successors": []},
        {"successors": ["HOLD-8"] * 101},
        {"successors": ["HOLD-7"]},
        {"successors": ["HOLD-8", ""]},
        {"successors": [" HOLD-8"]},
        {"successors": ["HOLD-8", None]},
        {"successors": ["HOLD-8"], "note": "x" * 4001},
    ],
)
def test_a_succession_that_is_none_is_refused(shared_gateway: Database, call: dict[str, Any]) -> None:
    with (
        shared_gateway.store("acme_curator") as opened,
        pytest.raises(errors.InvalidRequest),
        opened.tenant("acme") as acme,
    ):
        acme.supersede("HOLD-7", **call)


@pytest.mark.parametrize("instant", ["infinity", "-infinity"])
def test_an_instant_that_is_not_finite_is_refused(shared_gateway: Database, instant: str) -> None:
    with shared_gateway.connect("acme_curator") as connection, pytest.raises(errors.InvalidRequest):
        connection.execute("select rag_api.bind(p_tenant => 'acme')")
        with errors.translate():
            connection.execute("select rag_api.supersede_document('HOLD-7', '{HOLD-8}', %s)", [instant])


def test_what_is_not_there_or_not_ones_own_is_the_same_error(gateway: Database) -> None:
    seen = set()
    for document_id in ("PRIVATE", "GW-241", "NOWHERE"):
        with (
            gateway.store("acme_curator") as opened,
            pytest.raises(errors.VersionNotFound) as caught,
            opened.tenant("acme") as acme,
        ):
            acme.supersede(document_id, ["X"])
        seen.add(caught.value.message.replace(document_id, "ID"))
    assert len(seen) == 1


@pytest.mark.parametrize(("login", "tenant"), [("acme_curator", None), ("public_curator", "public")])
def test_who_may_not_supersede(shared_gateway: Database, login: str, tenant: str | None) -> None:
    refused = errors.TenantRequired if tenant is None else errors.NotAllowed
    with shared_gateway.store(login) as opened, pytest.raises(refused), opened.tenant(tenant) as bound:
        bound.supersede("GW-241", ["X"])


def test_the_index_says_what_the_tables_say_of_the_end_of_use(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.supersede("HOLD-7", ["HOLD-8"], superseded_from=datetime(2999, 1, 1, tzinfo=UTC))
        acme.load_documents([NEWER])
    with gateway.connect(SUPERUSER) as superuser:
        found = superuser.execute(
            "select v.used_until = coalesce(n.recorded_at, s.superseded_from) from rag_index.version v"
            " join rag.succession s using (tenant, document_id)"
            " left join rag.version n on n.document_id = v.document_id and n.version > v.version"
            " where v.document_id = 'HOLD-7'"
        ).fetchall()
    assert found == [(True,), (True,)]


# History


def test_the_line_of_versions_says_what_each_gained_and_lost(store: Database) -> None:
    first = {"id": "fact-a", "fact": "a", "quote": "alpha"}
    with store.tenant("acme_curator") as acme:
        acme.load_documents(
            [
                {"id": "D", "version": 1, "body": "alpha beta", "effective_from": "2020-01-01", "spans": [first]},
                {
                    "id": "D",
                    "version": 3,
                    "body": "gamma beta",
                    "effective_from": "2021-01-01",
                    "spans": [{"id": "b", "fact": "b", "quote": "beta"}],
                },
                # Loaded as an afterthought: effective before version 3.
                {
                    "id": "D",
                    "version": 7,
                    "title": "Delta",
                    "body": "beta alpha",
                    "effective_from": "2020-06-01",
                    "spans": [{**first, "id": "renamed"}, {"id": "b", "fact": "b", "quote": "beta"}],
                },
                {"id": "D", "version": 8, "body": "later", "effective_from": "2999-01-01"},
            ]
        )
        acme.withdraw_version("D", 3, withdrawn_from=datetime(2022, 1, 1, tzinfo=UTC), note="wrong")
    with store.tenant("acme_reader") as acme:
        line = acme.history("D")
        assert [version.body for version in line] == ["alpha beta", "beta alpha", "gamma beta", "later"]
        assert {version.body for version in acme.history("D", bodies=False)} == {None}
    assert [(version.version, version.status, version.title) for version in line] == [
        (1, "superseded", None),
        (7, "superseded", "Delta"),
        (3, "withdrawn", None),
        (8, "scheduled", None),
    ]
    changed = [
        (
            [(span.fact, span.quote) for span in version.spans_gained],
            [(span.fact, span.quote) for span in version.spans_lost],
        )
        for version in line
    ]
    assert changed == [
        ([("a", "alpha")], []),
        ([("b", "beta")], []),
        ([], [("a", "alpha")]),
        ([], [("b", "beta")]),
    ]
    assert (line[2].withdrawn_from, line[2].withdrawal_note) == (datetime(2022, 1, 1, tzinfo=UTC), "wrong")
    assert [version.successions for version in line] == [()] * 4


def test_a_tenants_own_document_and_the_public_one_of_the_same_id_have_a_line_each(gateway: Database) -> None:
    with gateway.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "GW-241", "version": 9, "body": "Our own notes."}])
        assert [(row.tenant, row.version) for row in acme.history("GW-241")] == [("acme", 9), ("public", 3)]
    with gateway.tenant("northwind_reader") as northwind:
        assert [(row.tenant, row.version) for row in northwind.history("GW-241")] == [("public", 3)]


@pytest.mark.parametrize("document_id", ["PRIVATE", "NOWHERE"])
def test_there_is_no_history_of_what_is_not_there_or_anothers(shared_gateway: Database, document_id: str) -> None:
    with (
        shared_gateway.store("acme_reader") as opened,
        pytest.raises(errors.VersionNotFound) as caught,
        opened.tenant("acme") as acme,
    ):
        acme.history(document_id)
    assert caught.value.message == f'no document "{document_id}"'


def test_the_auditor_sees_every_line(gateway: Database) -> None:
    with gateway.tenant("northwind_curator") as northwind:
        northwind.supersede("PRIVATE", ["PUBLIC"])
    with gateway.connect("auditor") as auditor:
        found = auditor.execute("select tenant, successions -> 0 ->> 'successor_id' from rag_api.history('PRIVATE')")
        assert found.fetchall() == [("northwind", "PUBLIC")]


def test_history_is_what_was_known_at_an_instant(store: Database) -> None:
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "D", "version": 1, "body": "one"}])
    with store.connect("acme_reader") as connection:
        row = connection.execute("select clock_timestamp()").fetchone()
    assert row is not None
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "D", "version": 2, "body": "two"}])
        acme.supersede("D", ["E"])
    with store.tenant("acme_reader") as acme:
        (version,) = acme.history("D", valid_at=row[0], known_at=row[0])
        assert (version.version, version.status, version.successions) == (1, "current", ())
        assert [version.status for version in acme.history("D")] == ["superseded", "superseded"]
