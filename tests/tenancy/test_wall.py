"""Law 7, tenancy is in the database: what each login gets, and that a stranger gets nothing of acme's."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, LOGINS, QUERY, QUESTION, Database
from tests.tenancy import test_catalog, wall
from tests.tenancy.wall import CALLS, INSERTS, SESSION_NAMES, SIDE_TABLES, STRANGERS, TABLES

PROOFS = {"rag_auth.membership", "rag_auth.signing_key"}
EVIDENCE = tuple(table for table in TABLES if table not in {"rag.tenant", *PROOFS, *SIDE_TABLES})
CURATED = (
    "rag.attribute",
    "rag.version",
    "rag.withdrawal",
    "rag.succession",
    "rag.span",
    "rag.contract",
    "rag.embedding_model",
)
TRACES = tuple(
    f"rag.{table}"
    for table in ("trace", "trace_candidate", "trace_passage", "trace_answer", "trace_verdict", "trace_time")
)
#: What an erasure empties: of it the owner sees what its transaction erases.
ERASED = tuple(f"rag.{table}" for table in test_catalog.ERASED)
RECORDED = (
    "rag.trace",
    "rag.trace_candidate",
    "rag.trace_passage",
    "rag.trace_answer",
    "rag.passage",
    "rag.packet",
    "rag.packet_source",
    "rag.packet_span",
    "rag.approval",
)

#: The view of the tenants that a login may bind, whichever it asserts; it shows no evidence.
OWN_TENANTS = "rag_api.membership"

#: A statement that the server turns down for lack of a right.
DENIED = "42501"

Probe = dict[str, Any]


# The probe looks everywhere


def test_every_table_is_probed(spent: Database) -> None:
    with spent.connect(SUPERUSER) as connection:
        tables = wall.relations(connection, "rpft", "rag", "rag_auth", "rag_index")
    assert set(tables) - {"rag.alembic_version"} == set(INSERTS)


def test_every_function_is_probed_under_its_own_name(spent: Database) -> None:
    with spent.connect(SUPERUSER) as connection:
        functions = connection.execute(
            "select proname::text from pg_proc where pronamespace = 'rag_api'::regnamespace order by 1"
        ).fetchall()
    assert [name for (name,) in functions] == sorted(CALLS)


@pytest.mark.parametrize("table", EVIDENCE)
def test_every_table_holds_rows_of_both_tenants(probed: Probe, table: str) -> None:
    assert {"acme", "northwind"} <= set(probed["tables"]["auditor as None"][table]["sees"]["rows"])


@pytest.mark.parametrize(
    "function",
    [
        "_packet_selection",
        "_resolve_contract",
        "_sources",
        "candidates",
        "decide",
        "eligibility",
        "explain",
        "packet_document",
        "ranking",
        "record_packet",
        "selection",
        "version_status",
    ],
)
def test_the_calls_reach_acmes_evidence_for_acme(probed: Probe, function: str) -> None:
    assert probed["functions"]["acme_reader as acme"][function]["acme"]["texts"] == ["acme"]


def test_a_witness_of_acmes_is_found_for_acme_alone(probed: Probe) -> None:
    assert probed["functions"]["acme_reader as acme"]["witnesses"]["acme"]["rows"] == 1
    assert probed["functions"]["northwind_reader as northwind"]["witnesses"]["acme"]["rows"] == 0


@pytest.mark.parametrize("session", SESSION_NAMES)
def test_what_a_call_raises_is_an_error_of_the_stores_or_a_right_that_is_missing(probed: Probe, session: str) -> None:
    """A call that does not fit its function would tell nothing."""
    for function, results in probed["functions"][session].items():
        for victim, result in results.items():
            state = result["state"]
            assert state in {"ok", DENIED} or state.startswith("RS"), f"{function} for {victim}: {result['error']}"


def test_the_calls_that_write_succeed_for_whom_they_are_meant(probed: Probe) -> None:
    functions = probed["functions"]
    assert functions["acme_curator as acme"]["withdraw_version"]["acme"]["state"] == "ok"
    assert functions["acme_reviewer as acme"]["approve"]["acme"]["state"] == "ok"
    assert functions["acme_reader as acme"]["record_packet"]["acme"]["state"] == "ok"


# What is seen


@pytest.mark.parametrize("stage", ["tables", "wide", "unfenced"])
@pytest.mark.parametrize("session", STRANGERS)
def test_D04_a_stranger_sees_no_row_of_acmes(probed: Probe, session: str, stage: str) -> None:
    """Also when everything is allowed and only the fences hold, and when there are no fences."""
    for table, seen in probed[stage][session].items():
        assert not of_acme(seen["sees"]), table


@pytest.mark.parametrize("session", STRANGERS)
def test_C01_a_stranger_sees_no_row_of_acmes_in_a_view(probed: Probe, session: str) -> None:
    for view, seen in probed["views"][session].items():
        assert view == OWN_TENANTS or not of_acme(seen), view


@pytest.mark.parametrize("session", SESSION_NAMES)
def test_a_login_sees_its_own_tenants_and_nobody_elses(probed: Probe, session: str) -> None:
    login = session.split()[0]
    tenants, groups = LOGINS[login] if login in LOGINS else wall.EXTRA_LOGINS[login]
    seen = probed["views"][session][OWN_TENANTS]
    assert seen["state"] == ("ok" if groups else DENIED)
    assert seen.get("rows", {}) == (dict.fromkeys(tenants, 1) if groups else {})


def of_acme(seen: dict[str, Any]) -> bool:
    return seen["state"] == "ok" and ("acme" in seen["rows"] or "acme" in seen["texts"])


@pytest.mark.parametrize("session", ["acme_reader as None", "unbound_reader as None"])
def test_A07_without_a_tenant_only_public_is_seen(probed: Probe, session: str) -> None:
    views = [seen for view, seen in probed["views"][session].items() if view != OWN_TENANTS]
    for seen in [*(table["sees"] for table in probed["tables"][session].values()), *views]:
        assert seen["state"] == DENIED or set(seen["rows"]) <= {"public", "None"}


@pytest.mark.parametrize(
    ("session", "tenant"),
    [
        ("acme_reader as acme", "acme"),
        ("northwind_reader as northwind", "northwind"),
        ("service as northwind", "northwind"),
    ],
)
def test_D05_a_reader_sees_its_own_tenant_and_public(probed: Probe, session: str, tenant: str) -> None:
    seen = {table: set(found["sees"].get("rows", ())) for table, found in probed["tables"][session].items()}
    shared = {"rag.tenant", "rag.attribute", "rag.version", "rag.passage", "rag.span", "rag.contract"}
    hidden = {*PROOFS, *SIDE_TABLES}
    assert seen == {
        table: {tenant, "public"} if table in shared else set() if table in hidden else {tenant} for table in TABLES
    }


@pytest.mark.parametrize("session", ["outsider as None", "outsider as acme"])
def test_a_login_without_a_group_gets_nothing_at_all(probed: Probe, session: str) -> None:
    everything = [
        *(found["sees"]["state"] for found in probed["tables"][session].values()),
        *(state for found in probed["tables"][session].values() for state in found["adds"].values()),
        *(found["state"] for found in probed["views"][session].values()),
        *(result["state"] for results in probed["functions"][session].values() for result in results.values()),
    ]
    assert set(everything) == {DENIED}


@pytest.mark.parametrize("table", sorted(PROOFS))
@pytest.mark.parametrize("session", SESSION_NAMES)
def test_nobody_reads_who_is_bound_to_which_tenant_and_with_what_key(probed: Probe, session: str, table: str) -> None:
    assert probed["tables"][session][table]["sees"]["state"] == DENIED


@pytest.mark.parametrize("table", EVIDENCE)
def test_B01_forced_row_security_holds_the_owner(probed: Probe, table: str) -> None:
    """It sees and removes northwind's traces, whose time is over, and sees what was erased; it adds records of purges
    and erasures, and changes no row that no erasure of its transaction names."""
    owner = probed["keys"]["owner_key"][table]
    seen = {**{trace: ["northwind"] for trace in TRACES}, "rag.erasure": ["acme", "northwind"]}
    assert list(owner["sees"]["rows"]) == seen.get(table, [])
    added = {"rag.span": {"RS022"}, "rag.trace_purge": {"ok", "23503"}, "rag.erasure": {"ok", "23503"}}
    assert set(owner["adds"].values()) == added.get(table, {DENIED})
    if owner["changes"]["state"] == "ok":
        assert (table in ERASED, owner["changes"]["rows"]) == (True, {})
    else:
        assert owner["changes"]["state"] == "RS070"
    assert owner["removes"]["state"] in ({"ok", "23503"} if table in TRACES else {"RS070"})


def test_the_binder_reads_what_proofs_are_made_of_and_nothing_else(probed: Probe) -> None:
    states = {table: found["sees"]["state"] for table, found in probed["keys"]["binder_key"].items()}
    assert states == {table: "ok" if table in {*PROOFS, "rag.tenant"} else DENIED for table in TABLES}


def test_the_searcher_reads_the_index_and_places_of_passages_within_the_wall(probed: Probe) -> None:
    """Its functions run for the caller's tenant: another's vectors are out of their reach, whatever they ask for."""
    found = probed["keys"]["search_key"]
    seen = {table: set(found[table]["sees"]["rows"]) for table in TABLES if found[table]["sees"]["state"] == "ok"}
    # Of passages, withdrawals and successions it reads columns; a partition is read through its table.
    assert set(seen) == {"rag.embedding_model", *SIDE_TABLES} - {"rag_index.turn", "rag_index.embedding_0"}
    assert all("northwind" in tenants <= {"northwind", "public"} for tenants in seen.values())
    added = {table: {tenant for tenant, state in found[table]["adds"].items() if state != DENIED} for table in TABLES}
    assert {table for table in TABLES if added[table]} == {"rag_index.bucket", "rag_index.embedding"}
    assert added["rag_index.bucket"] == added["rag_index.embedding"] == {"northwind"}
    assert {found[table][verb]["state"] for table in TABLES for verb in ("changes", "removes")} == {DENIED}


# What functions tell


@pytest.mark.parametrize("session", STRANGERS)
def test_a_function_gives_a_stranger_nothing_of_acmes(probed: Probe, session: str) -> None:
    for function, results in probed["functions"][session].items():
        assert "acme" not in results["acme"].get("texts", []), function


@pytest.mark.parametrize("session", [name for name in STRANGERS if not name.startswith("both_")])
def test_E01_E02_E11_acmes_evidence_and_what_does_not_exist_are_the_same_to_a_stranger(
    probed: Probe, session: str
) -> None:
    """The same result, or the same error with every field of it."""
    for function, results in probed["functions"][session].items():
        if function not in wall.PURE:
            assert results["acme"] == results["nowhere"], function


@pytest.mark.parametrize("session", [name for name in STRANGERS if name.endswith(" as acme")])
def test_an_asserted_tenant_that_is_not_proven_is_an_error_everywhere(probed: Probe, session: str) -> None:
    """Never public alone: that could miss the tenant's own exception."""
    if session.startswith("outsider"):
        return
    refused = "RS004" if session.startswith("forger") else "RS001"
    for table in EVIDENCE:
        assert probed["tables"][session][table]["sees"]["state"] == refused
    for function, results in probed["functions"][session].items():
        if function not in wall.PURE | {"bind"}:
            assert results["acme"]["state"] in {refused, DENIED}, function


# What may be added


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("session", SESSION_NAMES)
def test_rows_are_added_only_by_those_who_write_for_the_tenant(probed: Probe, session: str, table: str) -> None:
    writers = {
        "acme_curator as acme": "acme",
        "northwind_curator as northwind": "northwind",
        "service as northwind": "northwind",
        "publisher as public": "public",
    }
    added = {victim for victim, state in probed["tables"][session][table]["adds"].items() if state == "ok"}
    assert added == ({writers[session]} if session in writers and table in CURATED else set())


@pytest.mark.parametrize("stage", ["tables", "wide", "unfenced"])
@pytest.mark.parametrize("session", STRANGERS)
def test_E01_E02_a_stranger_adds_nothing_for_acme_and_cannot_tell_whether_it_exists(
    probed: Probe, session: str, stage: str
) -> None:
    for table in EVIDENCE:
        adds = probed[stage][session][table]["adds"]
        assert adds["acme"] == adds["nowhere"] != "ok", table


@pytest.mark.parametrize("stage", ["tables", "wide", "unfenced"])
@pytest.mark.parametrize("session", [name for name in SESSION_NAMES if not name.endswith(" as public")])
def test_D01_only_a_session_bound_to_public_adds_to_public(probed: Probe, session: str, stage: str) -> None:
    assert "ok" not in {probed[stage][session][table]["adds"]["public"] for table in EVIDENCE}


@pytest.mark.parametrize("table", RECORDED)
def test_the_recorder_writes_for_the_bound_tenant_alone(probed: Probe, table: str) -> None:
    adds = probed["keys"]["recorder_key"][table]["adds"]
    assert adds["northwind"] in {"ok", "23503", "23505"}  # past the policies
    assert {adds[victim] for victim in ("acme", "public", "nowhere")} == {DENIED}
    assert probed["unfenced keys"]["recorder_key"][table]["adds"] == adds


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("session", SESSION_NAMES)
def test_B09_C07_C08_C20_D01_D02_D03_D10_D11_nothing_is_changed_removed_locked_or_copied_in(
    probed: Probe, session: str, table: str
) -> None:
    assert set(probed["writes"][session][table].values()) == {DENIED}


@pytest.mark.parametrize("session", [name for name in SESSION_NAMES if "curator" in name or "publisher" in name])
def test_what_the_database_derives_cannot_be_stated(spent: Database, session: str) -> None:
    derived = {
        "rag.attribute": ("declaration_number", "recorded_at", "recorded_by"),
        "rag.version": ("recorded_at", "recorded_by", "body_length", "body_sha256"),
        "rag.withdrawal": ("recorded_at", "recorded_by"),
        "rag.succession": ("recorded_at", "recorded_by"),
        "rag.span": ("recorded_at", "recorded_by", "body_length", "range_start", "range_end"),
        "rag.contract": ("recorded_at", "recorded_by", "content_sha256"),
    }
    login, tenant = session.split(" as ")
    with spent.connect(login) as connection:
        for table, columns in derived.items():
            for column in columns:
                with connection.cursor() as cursor:
                    wall.assert_tenant(cursor, tenant)
                    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.GeneratedAlways)):
                        cursor.execute(
                            sql.SQL("insert into {} (tenant, {}) values (%s, null)").format(
                                sql.Identifier(*table.split(".")), sql.Identifier(column)
                            ),
                            (tenant,),
                        )
                connection.rollback()


# Row security is really active


@pytest.mark.parametrize("login", [login for login in LOGINS if login not in {"outsider"}])
def test_B01_row_security_cannot_be_switched_off(spent: Database, login: str) -> None:
    with spent.connect(login) as connection:
        for table in EVIDENCE:
            connection.execute("set local row_security = off")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="affected by row-level security policy"):
                connection.execute(sql.SQL("select from {}").format(sql.Identifier(*table.split("."))))
            connection.rollback()


@pytest.mark.parametrize("call", ["record_packet", "approve", "decide", "packet_document"])
def test_B01_a_function_with_row_security_off_raises(spent: Database, call: str) -> None:
    with wall.Sessions(spent) as sessions, sessions.look("northwind_curator", "northwind") as cursor:
        cursor.execute("set local row_security = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="affected by row-level security policy"):
            cursor.execute(CALLS[call].encode(), wall.arguments(sessions.targets, "acme"))


# Binding


@pytest.mark.parametrize("way", wall.BINDINGS)
@pytest.mark.parametrize("session", [name for name in STRANGERS if not name.startswith("both_")])
def test_A01_A04_no_way_of_asserting_acme_shows_its_rows(probed: Probe, session: str, way: str) -> None:
    assert not of_acme(probed["binding"][session][way])


@pytest.mark.parametrize("way", wall.SWITCHES)
@pytest.mark.parametrize("session", [name for name in STRANGERS if not name.startswith("both_")])
def test_A02_A03_a_tenant_switched_in_the_middle_of_a_query_shows_nothing(
    probed: Probe, session: str, way: str
) -> None:
    assert not of_acme(probed["binding"][session][way])


@pytest.mark.parametrize("login", ["northwind_reader", "northwind_curator", "unbound_reader"])
def test_a_tenant_that_is_not_granted_and_one_that_does_not_exist_are_the_same_error(
    spent: Database, login: str
) -> None:
    said = []
    with spent.connect(login) as connection:
        for tenant in ("acme", "nowhere"):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute("select rag_api.bind(%s)", (tenant,))
            connection.rollback()
            diag = caught.value.diag
            said.append(
                (diag.sqlstate, *(str(text).replace(tenant, "?") for text in (diag.message_primary, diag.message_hint)))
            )
    assert said[0] == said[1]
    assert said[0][0] == "RS001"


@pytest.mark.parametrize(
    "way",
    [
        "owner",
        "recorder",
        "binder",
        "search",
        "auditor",
        "superuser",
        "another login",
        "another session",
        "own membership",
        "own key",
        "key function",
        "grant function",
        "tenant function",
        "revoke function",
        "own function",
        "own schema",
        "temporary table",
        "temporary function",
        "replica",
    ],
)
def test_B04_no_role_tenant_or_object_of_ones_own(probed: Probe, way: str) -> None:
    for session in STRANGERS:
        assert probed["binding"][session][way] == {"state": "refused", "error": DENIED}, session


def test_A04_A10_a_tenant_in_the_connections_options_is_an_assertion_like_any_other(spent: Database) -> None:
    with spent.connect("northwind_reader", options="-c rag.tenant=acme", autocommit=True) as connection:
        for statement in ("select 1", "discard all", "reset all", "reset rag.tenant"):
            connection.execute(statement)
            with pytest.raises(psycopg.Error) as caught:
                connection.execute("select from rag.version")
            assert caught.value.sqlstate == "RS001"


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_A11_a_binding_ends_with_its_transaction(spent: Database, ending: str) -> None:
    with spent.connect("northwind_reader", autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("select rag_api.bind('northwind')")
        assert tenants_seen(connection) == {"northwind", "public"}
        connection.execute(ending.encode())
        assert tenants_seen(connection) == {"public"}


def test_A08_a_session_setting_is_gone_after_discard_all(spent: Database) -> None:
    with spent.connect("northwind_reader", autocommit=True) as connection:
        connection.execute("set rag.tenant = 'northwind'")
        assert tenants_seen(connection) == {"northwind", "public"}
        connection.execute("discard all")
        assert tenants_seen(connection) == {"public"}


def test_binding_to_nothing_overrides_a_session_setting(spent: Database) -> None:
    with spent.connect("northwind_reader") as connection:
        connection.execute("set rag.tenant = 'northwind'")
        connection.execute("select rag_api.bind(null)")
        assert tenants_seen(connection) == {"public"}


def test_A11_a_savepoint_rolled_back_takes_its_binding_along(spent: Database) -> None:
    with spent.connect("both_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        connection.execute("savepoint here")
        connection.execute("select rag_api.bind('acme')")
        assert tenants_seen(connection) == {"acme", "public"}
        connection.execute("rollback to here")
        assert tenants_seen(connection) == {"northwind", "public"}


def test_an_error_that_is_caught_leaves_no_foreign_binding(spent: Database) -> None:
    with spent.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        connection.execute("do $$ begin perform rag_api.bind('acme'); exception when others then null; end $$")
        assert tenants_seen(connection) == {"northwind", "public"}


def test_A12_a_cursor_opened_before_a_switch_never_crosses_the_wall(spent: Database) -> None:
    """It goes on with the rows of the tenant that was bound, or is refused for the one that is not granted."""
    with spent.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        connection.execute("declare before_switch cursor for select tenant from rag.version")
        rows = connection.execute("fetch 1 from before_switch").fetchall()
        connection.execute("select set_config('rag.tenant', 'acme', true)")
        with suppress(psycopg.DatabaseError):
            rows += connection.execute("fetch all from before_switch").fetchall()
        assert {tenant for (tenant,) in rows} <= {"northwind", "public"}


def test_A12_a_cursor_opened_before_a_switch_shows_the_new_tenant_to_nobody_who_has_both(spent: Database) -> None:
    """Both halves of the policy have to agree: one was asked before the switch, the other may be asked after it."""
    with spent.connect("both_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        connection.execute("declare before_switch cursor for select tenant from rag.version")
        rows = connection.execute("fetch 1 from before_switch").fetchall()
        connection.execute("select set_config('rag.tenant', 'acme', true)")
        rows += connection.execute("fetch all from before_switch").fetchall()
        assert {tenant for (tenant,) in rows} <= {"northwind", "public"}


def test_A12_a_cursor_opened_after_a_switch_is_refused(spent: Database) -> None:
    with spent.connect("northwind_reader") as connection:
        connection.execute("declare early cursor for select tenant from rag.version")
        connection.execute("select set_config('rag.tenant', 'acme', true)")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("fetch all from early")
        assert caught.value.sqlstate == "RS001"


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_B06_a_prepared_statement_keeps_nobodys_tenant(spent: Database, mode: str) -> None:
    with spent.connect("both_reader", autocommit=True) as connection:
        connection.execute(f"set plan_cache_mode = {mode}".encode())
        connection.execute("prepare looking as select distinct tenant from rag.version")
        seen = []
        for tenant in ("acme", "northwind", ""):
            connection.execute("select set_config('rag.tenant', %s, false)", (tenant,))
            seen.append({row[0] for row in connection.execute("execute looking")})
        assert seen == [{"acme", "public"}, {"northwind", "public"}, {"public"}]


def test_B05_one_session_asking_as_reader_and_through_the_recorder_sees_its_own_each_time(spent: Database) -> None:
    """Plans of one function, used under two roles."""
    requests = (
        sql.SQL("select sources from rag_api.decide({})"),
        sql.SQL("select rag_api.record_packet({}) -> 'sources'"),
    )
    arguments = sql.SQL(", ").join(map(sql.Literal, (QUESTION, QUERY, json.dumps(CASE), 9)))
    with spent.connect("both_reader") as connection:
        for tenant in ("acme", "northwind") * 3:
            connection.execute("select rag_api.bind(%s)", (tenant,))
            for request in requests * 2:
                row = connection.execute(request.format(arguments)).fetchone()
                assert row is not None
                assert {source["tenant"] for source in row[0]} == {tenant, "public"}
        connection.rollback()


def tenants_seen(connection: psycopg.Connection[Any]) -> set[str]:
    return {tenant for (tenant,) in connection.execute("select tenant from rag.version")}
