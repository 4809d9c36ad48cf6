"""The wall as the catalog has it: rules that hold for every object, so that a new one cannot be forgotten."""

from __future__ import annotations

import re
from typing import Any, LiteralString

import pytest

from rag_sql import _install, _resources
from rag_sql._embedded import SUPERUSER
from tests.conftest import LOGINS, Database, Server
from tests.tenancy.wall import Connection

#: No tenant's data: the migration that the tables stand at.
NO_TENANT = "rag.alembic_version"

#: Of no tenant: the keys of logins that serve many.
KEYS = "rag_auth.signing_key"

_INSTANT = "timestamp with time zone"
_DOUBLE = "double precision"

#: Every definer function, with its owner.
DEFINERS = {
    ("rag_auth.tenant()", "rag_binder"),
    ("rag_auth.write_tenant()", "rag_binder"),
    ("rag_auth.required_tenant()", "rag_binder"),
    ("rag_auth.own_tenants()", "rag_binder"),
    ("rag.cut_versions()", "rag_recorder"),
    ("rag.take_turn()", "rag_recorder"),
    ("rag.end_stated_uses()", "rag_recorder"),
    ("rag.index_values()", "rag_recorder"),
    (f"rag_api.record_packet(text,text,jsonb,integer,integer,{_INSTANT},{_INSTANT},text,jsonb)", "rag_recorder"),
    ("rag_api._stated_scopes()", "rag_search"),
    ("rag_api._fitting_attributes(integer[],text[],text[],text[],text[])", "rag_search"),
    ("rag_api._store_embeddings(text,text,text[],integer[],integer[],halfvec[])", "rag_search"),
    ("rag_api._unembedded(text,text,integer)", "rag_search"),
    (
        f"rag_api._vector_search(text,text,halfvec,integer,boolean,text[],uuid[],{_INSTANT},{_INSTANT},boolean)",
        "rag_search",
    ),
    (
        f"rag_api._bm25_search(text,integer,{_DOUBLE},{_DOUBLE},text[],uuid[],{_INSTANT},{_INSTANT},boolean,boolean)",
        "rag_search",
    ),
    (f"rag_api._overlap_search(text[],integer,text[],uuid[],{_INSTANT},{_INSTANT})", "rag_search"),
    ("rag_api.approve(uuid,jsonb,bytea,text,text,text)", "rag_recorder"),
    ("rag_api.record_trace(uuid,integer,integer,integer)", "rag_recorder"),
    ("rag_api.record_answer(uuid,text,text[],text,text,jsonb,interval,interval)", "rag_recorder"),
}

#: A trace and its parts, which the owner removes when their time is over (tests/api/test_retention.py).
TRACES = ("trace", "trace_candidate", "trace_passage", "trace_answer", "trace_verdict", "trace_time")

#: What an erasure empties, which the owner does in its transaction (tests/api/test_erasure.py).
ERASED = (
    *("version", "passage", "span", "withdrawal", "succession", "contract", "packet", "approval"),
    *("trace", "trace_answer"),
)

#: Every policy whose condition is `true`, with the role it is for.
OPEN_POLICIES = {
    ("rag.tenant", "tenant_admin_select", "rag_owner"),
    ("rag.tenant", "tenant_admin_insert", "rag_owner"),
    ("rag_auth.membership", "membership_admin_select", "rag_owner"),
    ("rag_auth.membership", "membership_admin_insert", "rag_owner"),
    ("rag_auth.membership", "membership_admin_delete", "rag_owner"),
    ("rag_auth.signing_key", "signing_key_admin_select", "rag_owner"),
    ("rag_auth.signing_key", "signing_key_admin_insert", "rag_owner"),
    ("rag_auth.signing_key", "signing_key_admin_delete", "rag_owner"),
    ("rag.tenant", "tenant_binder_select", "rag_binder"),
    ("rag_auth.membership", "membership_binder_select", "rag_binder"),
    ("rag_auth.signing_key", "signing_key_binder_select", "rag_binder"),
    ("rag.tenant", "tenant_audit", "rag_auditor"),
    ("rag.attribute", "attribute_audit", "rag_auditor"),
    ("rag.version", "version_audit", "rag_auditor"),
    ("rag.passage", "passage_audit", "rag_auditor"),
    ("rag.withdrawal", "withdrawal_audit", "rag_auditor"),
    ("rag.succession", "succession_audit", "rag_auditor"),
    ("rag.span", "span_audit", "rag_auditor"),
    ("rag.contract", "contract_audit", "rag_auditor"),
    ("rag.packet", "packet_audit", "rag_auditor"),
    ("rag.packet_source", "packet_source_audit", "rag_auditor"),
    ("rag.packet_span", "packet_span_audit", "rag_auditor"),
    ("rag.approval", "approval_audit", "rag_auditor"),
    ("rag.trace", "trace_audit", "rag_auditor"),
    ("rag.trace_candidate", "trace_candidate_audit", "rag_auditor"),
    ("rag.trace_passage", "trace_passage_audit", "rag_auditor"),
    ("rag.trace_answer", "trace_answer_audit", "rag_auditor"),
    ("rag.trace_verdict", "trace_verdict_audit", "rag_auditor"),
    ("rag.trace_time", "trace_time_audit", "rag_auditor"),
    ("rag.trace_purge", "trace_purge_audit", "rag_auditor"),
    ("rag.trace_purge", "trace_purge_admin_insert", "rag_owner"),
    ("rag.erasure", "erasure_audit", "rag_auditor"),
    ("rag.erasure", "erasure_admin_select", "rag_owner"),
    ("rag.erasure", "erasure_admin_insert", "rag_owner"),
    ("rag_index.scope", "scope_admin_select", "rag_owner"),
    ("rag_index.scope", "scope_admin_delete", "rag_owner"),
    ("rag_index.scope_value", "scope_value_admin_select", "rag_owner"),
    ("rag_index.scope_value", "scope_value_admin_delete", "rag_owner"),
    ("rag_index.posting", "posting_admin_update", "rag_owner"),
    ("rag_index.turn", "turn_admin_select", "rag_owner"),
    ("rag_index.turn", "turn_admin_insert", "rag_owner"),
    ("rag_index.turn", "turn_admin_update", "rag_owner"),
    ("rag_index.segment", "segment_admin_select", "rag_owner"),
    ("rag_index.segment", "segment_admin_insert", "rag_owner"),
    ("rag_index.segment", "segment_admin_delete", "rag_owner"),
    ("rag_index.posting", "posting_admin_select", "rag_owner"),
    ("rag_index.posting", "posting_admin_insert", "rag_owner"),
    ("rag_index.posting", "posting_admin_delete", "rag_owner"),
    ("rag_index.version", "indexed_version_admin_select", "rag_owner"),
    ("rag_index.version", "indexed_version_admin_update", "rag_owner"),
    *((f"rag.{table}", f"{table}_admin_delete", "rag_owner") for table in TRACES),
    ("rag.embedding_model", "embedding_model_audit", "rag_auditor"),
    ("rag_index.bucket", "bucket_admin_select", "rag_owner"),
    ("rag_index.bucket", "bucket_admin_update", "rag_owner"),
    ("rag_index.embedding", "embedding_admin_select", "rag_owner"),
    ("rag_index.embedding", "embedding_admin_insert", "rag_owner"),
    ("rag_index.embedding", "embedding_admin_delete", "rag_owner"),
}

#: Columns that a statement may insert, by table and role; nobody is granted a whole table.
INSERTABLE = {
    ("rag.attribute", "rag_curator"): "attribute tenant type",
    ("rag.version", "rag_curator"): (
        "applies_to body document_id effective_from language metadata outline published source tenant title version"
    ),
    ("rag.withdrawal", "rag_curator"): "document_id note tenant version withdrawn_from",
    ("rag.succession", "rag_curator"): "document_id note successor_id superseded_from tenant",
    ("rag.span", "rag_curator"): "document_id fact occurrence quote span_id tenant version",
    ("rag.contract", "rag_curator"): "content question_id tenant version",
    ("rag.embedding_model", "rag_curator"): "dimension model model_version tenant",
    ("rag_index.bucket", "rag_search"): "model model_version tenant",
    ("rag_index.embedding", "rag_search"): (
        "bucket document_id embedding model model_version range_start tenant version"
    ),
    ("rag.passage", "rag_recorder"): (
        "document_id heading_path range_end range_start tenant text text_sha256 tokens version words"
    ),
    ("rag.packet", "rag_recorder"): (
        "case_facts contract_pinned contract_tenant contract_version decision_took k known_at method missing outcome"
        " parameters preimage query question_id required tenant valid_at"
    ),
    ("rag.packet_source", "rag_recorder"): (
        "document_id document_tenant packet_id position range_end range_start score tenant version"
    ),
    ("rag.packet_span", "rag_recorder"): "document_id document_tenant packet_id position span_id tenant version",
    ("rag.approval", "rag_recorder"): (
        "claims decision decision_number draft_digest evidence_digest note packet_id reviewer_name shown_digest tenant"
    ),
    ("rag.trace", "rag_recorder"): "budget missing neighbours outcome packet_id query query_sha256 tenant trace_id",
    ("rag.trace_candidate", "rag_recorder"): (
        "document_id document_tenant eligible position range_start reason score tenant trace_id version"
    ),
    ("rag.trace_passage", "rag_recorder"): (
        "added_as document_id document_tenant label left_out position range_start tenant tokens trace_id version"
    ),
    ("rag.trace_answer", "rag_recorder"): (
        "answer answer_sha256 citations model prompt_version tenant trace_id verdict"
    ),
    ("rag.trace_verdict", "rag_recorder"): "checks range_end range_start tenant trace_id verdict",
    ("rag.trace_time", "rag_recorder"): "stage tenant took trace_id",
    ("rag_index.scope", "rag_recorder"): "applies_to attributes scope_id tenant",
    ("rag_index.scope_value", "rag_recorder"): "attribute end_key first_key scope_id tenant type",
    ("rag_index.segment", "rag_recorder"): (
        "language lengths passages recorded_last scope_ids scope_starts segment_id tenant used_from"
    ),
    ("rag_index.posting", "rag_recorder"): "entries most passages segment_id shortest tenant word",
    ("rag_index.version", "rag_recorder"): (
        "document_id effective_from first_ordinal range_ends recorded_at segment_id tenant version"
    ),
    ("rag_index.turn", "rag_recorder"): "tenant",
}
INSERTABLE |= {(table, "rag_publisher"): names for (table, role), names in INSERTABLE.items() if role == "rag_curator"}

#: Columns of text whose statistics show in estimates, because plans need them: identifiers, and words of a fixed list.
COLUMNS_WITH_STATISTICS = {
    *(
        f"rag.{table}.tenant"
        for table in ("tenant", "attribute", "version", "passage", "withdrawal", "succession", "span", "contract")
    ),
    "rag.embedding_model.tenant",
    *(f"rag.{table}.tenant" for table in ("packet", "packet_source", "packet_span", "approval")),
    *(f"rag.{table}.tenant" for table in ("trace", "trace_candidate", "trace_passage", "trace_answer")),
    *(f"rag.{table}.tenant" for table in ("trace_verdict", "trace_time", "trace_purge", "erasure")),
    *(f"rag.{table}.document_tenant" for table in ("trace_candidate", "trace_passage")),
    *(f"rag.{table}.document_id" for table in ("version", "withdrawal", "succession", "span")),
    *(f"rag.{table}.document_id" for table in ("packet_source", "packet_span")),
    *(f"rag.{table}.document_tenant" for table in ("packet_source", "packet_span")),
    "rag.packet.contract_tenant",
    "rag.version.applies_to",
}

RUN_TIME = ["rag_recorder", "rag_search", "rag_reader", "rag_curator", "rag_publisher", "rag_reviewer", "rag_auditor"]


@pytest.fixture(scope="module")
def catalog(spent: Database) -> Any:
    with spent.connect(SUPERUSER) as connection:
        yield connection


def rows(catalog: Connection, query: LiteralString, *values: Any) -> list[Any]:
    """Rows of a query; a column alone as plain values."""
    return [row[0] if len(row) == 1 else row for row in catalog.execute(query, values or None)]


# Tables


def test_C16_row_security_is_enabled_and_forced_on_every_table(catalog: Connection) -> None:
    assert rows(
        catalog,
        "select oid::regclass::text from pg_class where relkind in ('r', 'p')"
        " and relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and not (relrowsecurity and relforcerowsecurity)",
    ) == [NO_TENANT]


def test_C02_C10_C12_C13_C17_E03_there_is_nothing_that_row_security_does_not_cover(catalog: Connection) -> None:
    """Materialized views and foreign tables hold rows without it, sequences count them; rules go round it."""
    assert not rows(
        catalog,
        "select oid::regclass::text from pg_class"
        " where relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and (relkind in ('m', 'f', 'S') or relispartition or relhassubclass or (relkind <> 'v' and relhasrules))"
        " and oid not in (select relid from pg_partition_tree('rag_index.embedding')"
        "  union all select indexrelid from pg_index"
        "  where indrelid in (select relid from pg_partition_tree('rag_index.embedding')))",
    )


def test_C12_a_bucket_of_vectors_that_is_read_directly_shows_nothing(catalog: Connection) -> None:
    """No policy lets anybody in, and nobody is granted it: the way is through the table of all buckets."""
    assert rows(
        catalog,
        "select relid::regclass::text,"
        " not exists (select from aclexplode(relacl) where grantee <> relowner),"
        " relrowsecurity and relforcerowsecurity,"
        " exists (select from pg_policy where polrelid = relid)"
        " from pg_partition_tree('rag_index.embedding') join pg_class on oid = relid where isleaf",
    ) == [("rag_index.embedding_0", True, True, False)]


def test_D06_D07_the_tenant_is_never_null(catalog: Connection) -> None:
    """Null fails open: keys and foreign keys skip it."""
    assert not rows(
        catalog,
        "select attrelid::regclass || '.' || attname from pg_attribute join pg_class c on c.oid = attrelid"
        " where relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index') and relkind in ('r', 'p')"
        " and (attname = 'tenant' or attname like '%\\_tenant') and not attnotnull",
    )


def test_every_table_has_a_tenant(catalog: Connection) -> None:
    assert rows(
        catalog,
        "select oid::regclass::text from pg_class c"
        " where relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index') and relkind in ('r', 'p')"
        " and not exists (select from pg_attribute where attrelid = c.oid and attname = 'tenant' and not attisdropped)"
        " order by 1",
    ) == [NO_TENANT, KEYS]


def test_E01_E05_E07_every_key_and_index_begins_with_the_tenant_that_the_policy_compares(catalog: Connection) -> None:
    """Another first column answers questions about hidden rows: how many were removed by the filter (E05)."""
    assert sorted(
        rows(
            catalog,
            "select indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid"
            " join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]"
            " where relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index')"
            " and (a.attname <> 'tenant' or i.indpred is not null)"
            # No login ever sees a plan that counts in the index.
            " and indexrelid::regclass::text <> 'rag_index.version_of_a_time'",
        )
    ) == [NO_TENANT + "_pkc", "rag_auth.membership_key", KEYS + "_key"]  # only the binder reads grants and keys


def test_E02_E23_every_foreign_key_carries_the_tenant(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select conrelid::regclass || '.' || conname from pg_constraint k"
        " where contype = 'f' and not exists ("
        "  select from unnest(conkey, confkey) as pair(here, there)"
        "  join pg_attribute h on h.attrelid = conrelid and h.attnum = here"
        "  join pg_attribute t on t.attrelid = confrelid and t.attnum = there"
        "  where t.attname = 'tenant' and (h.attname = 'tenant' or h.attname like '%\\_tenant'))",
    )


def test_E02_E23_a_foreign_key_to_another_visibility_is_checked_before_the_row_it_points_to(
    catalog: Connection,
) -> None:
    """The check answers first, the same for what exists and what does not."""
    assert not rows(
        catalog,
        "select conrelid::regclass || '.' || attname from pg_constraint k"
        " join pg_attribute on attrelid = conrelid and attnum = any (conkey)"
        " where contype = 'f' and attname like '%\\_tenant' and not exists ("
        "  select from pg_constraint c where c.contype = 'c' and c.conrelid = k.conrelid"
        "  and translate(pg_get_constraintdef(c.oid), '()', '')"
        "   = format('CHECK %1$I = ''public''::text OR %1$I = tenant', attname))",
    )


def test_E06_no_statistics_are_kept_on_what_tenants_write_freely(catalog: Connection) -> None:
    """Statistics span all tenants and show in EXPLAIN estimates."""
    kept = rows(
        catalog,
        "select attrelid::regclass || '.' || attname from pg_attribute join pg_class c on c.oid = attrelid"
        " join pg_type t on t.oid = atttypid"
        " where relnamespace::regnamespace::text = 'rag' and relkind in ('r', 'p') and attnum > 0 and not attisdropped"
        " and (typname in ('text', 'jsonb', 'tsvector') or typcategory = 'A' or typname = 'bytea')"
        " and attstattarget is distinct from 0 and attrelid <> %s::regclass",
        NO_TENANT,
    )
    assert set(kept) == COLUMNS_WITH_STATISTICS


# Policies


def test_D01_a_policy_is_about_one_command(catalog: Connection) -> None:
    assert not rows(catalog, "select polname::text from pg_policy where polcmd = '*'")


def test_D02_D03_only_the_owner_updates_and_deletes_and_only_what_is_no_evidence_or_over(catalog: Connection) -> None:
    found = rows(
        catalog,
        "select polname::text, polroles = array['rag_owner'::regrole::oid] from pg_policy where polcmd in ('w', 'd')",
    )
    assert set(found) == {
        ("tenant_admin_update", True),
        ("membership_admin_delete", True),
        ("signing_key_admin_delete", True),
        ("bucket_admin_update", True),
        ("embedding_admin_delete", True),
        *((f"{table}_admin_delete", True) for table in TRACES),
        *((f"{table}_erasure_update", True) for table in ERASED),
        # The search index is derived: what it says of when a version is in use, and where it stands.
        ("segment_admin_delete", True),
        ("posting_admin_delete", True),
        ("posting_admin_update", True),
        ("scope_admin_delete", True),
        ("scope_value_admin_delete", True),
        ("turn_admin_update", True),
        ("indexed_version_admin_update", True),
        ("indexed_version_update", False),
        ("indexed_version_fence_update", False),
        ("turn_update", False),
        ("turn_fence_update", False),
    }


def test_the_owner_finds_what_it_has_to_erase(catalog: Connection) -> None:
    """An answer's trace says whether it sees the answer; what was selected says on what a packet rests."""
    found = rows(
        catalog,
        "select polname::text from pg_policy where polcmd = 'r' and polroles = array['rag_owner'::regrole::oid]"
        " and pg_get_expr(polqual, polrelid) ~ 'being_erased|rag.erasure'",
    )
    assert set(found) == {f"{table}_erasure_select" for table in (*ERASED, "packet_source")} - {
        "trace_answer_erasure_select"
    }


def test_policies_that_let_everything_through_are_the_listed_ones(catalog: Connection) -> None:
    found = rows(
        catalog,
        "select polrelid::regclass::text, polname::text, case r when 0 then 'public' else r::regrole::text end"
        " from pg_policy, unnest(polroles) as r"
        " where coalesce(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) = 'true'",
    )
    assert set(found) == OPEN_POLICIES
    assert len(found) == len(OPEN_POLICIES)


def test_no_policy_is_for_everyone(catalog: Connection) -> None:
    assert not rows(catalog, "select polname::text from pg_policy where 0 = any (polroles)")


def test_whoever_is_granted_a_table_is_let_through_by_a_policy_of_its_own(catalog: Connection) -> None:
    """Functions of rag_search and rag_recorder fall silent where a policy is missing, and nobody is told."""
    assert not rows(
        catalog,
        "select distinct c.oid::regclass::text, a.grantee::regrole::text, a.privilege_type from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace"
        " cross join lateral ("
        "  select x.grantee, x.privilege_type from aclexplode(c.relacl) as x"
        "  union select x.grantee, x.privilege_type from pg_attribute t, aclexplode(t.attacl) as x"
        "  where t.attrelid = c.oid"
        " ) as a"
        " where n.nspname in ('rag', 'rag_auth', 'rag_index') and c.relrowsecurity and a.grantee <> c.relowner"
        " and not exists ("
        "  select from pg_policy p, unnest(p.polroles) as r where p.polrelid = c.oid and p.polpermissive"
        "  and p.polcmd::text = case a.privilege_type"
        "   when 'SELECT' then 'r' when 'INSERT' then 'a' when 'UPDATE' then 'w' end"
        "  and pg_has_role(a.grantee, r, 'usage'))",
    )


@pytest.mark.parametrize(("command", "privilege"), [("r", "select"), ("a", "insert"), ("w", "update")])
@pytest.mark.parametrize("fenced", ["rag_reader", "rag_search"])
def test_D04_whatever_a_reader_may_do_to_a_table_is_fenced(
    catalog: Connection, command: str, privilege: str, fenced: str
) -> None:
    """A fence is restrictive, for readers (all groups but the auditors are) or rag_search, and asks for the tenant."""
    assert not rows(
        catalog,
        "select c.oid::regclass::text from pg_class c where relrowsecurity and exists ("
        "  select from pg_roles where rolname = any (%s) and pg_has_role(oid, %s, 'usage')"
        "  and (has_table_privilege(oid, c.oid, %s) or has_any_column_privilege(oid, c.oid, %s))"
        " ) and not exists ("
        "  select from pg_policy where polrelid = c.oid and not polpermissive and polcmd::text = %s"
        "  and polroles = array[%s::regrole::oid]"
        "  and coalesce(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))"
        "   ~ 'rag_auth.(write_)?tenant'"
        " )",
        RUN_TIME,
        fenced,
        privilege,
        privilege,
        command,
        fenced,
    )


def test_B06_C05_functions_in_policies_are_stable(catalog: Connection) -> None:
    """An immutable one would be folded into a cached plan, with somebody's tenant in it."""
    assert set(
        rows(
            catalog,
            "select distinct refobjid::regprocedure::text, provolatile::text from pg_depend"
            " join pg_proc p on p.oid = refobjid"
            " where classid = 'pg_policy'::regclass and refclassid = 'pg_proc'::regclass",
        )
    ) == {
        ("rag_auth.tenant()", "s"),
        ("rag_auth.write_tenant()", "s"),
        ("rag_auth.readable(boolean)", "s"),
        # Of the owner's policies for what its transaction erases.
        ("rag.is_being_erased(text,text,integer)", "s"),
        ("rag.is_packet_being_erased(text,uuid)", "s"),
    }


def test_policies_ask_for_the_tenant_once_a_statement(catalog: Connection) -> None:
    """As a subquery: no row reaches the function, and no function runs once a row."""
    for condition in rows(
        catalog,
        "select coalesce(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) from pg_policy",
    ):
        assert condition.count("tenant()") == sum(
            condition.count(f"( SELECT rag_auth.{name}() AS {name})") for name in ("tenant", "write_tenant")
        )
        assert condition.count("readable(") == condition.count("( SELECT rag_auth.readable(")


def test_what_decisions_rest_on_is_written_with_the_right_to_write(catalog: Connection) -> None:
    """And what is recorded of somebody's asking with the right to read: who may read may ask."""
    asked = {
        ("rag_auth.write_tenant" in condition, table)
        for table, condition in rows(
            catalog,
            "select polrelid::regclass::text, pg_get_expr(polwithcheck, polrelid) from pg_policy"
            " join pg_class c on c.oid = polrelid where polcmd = 'a' and pg_get_expr(polwithcheck, polrelid) <> 'true'",
        )
    }
    evidence = {"attribute", "version", "passage", "withdrawal", "succession", "span", "contract", "approval"}
    evidence |= {"embedding_model", "erasure"}
    records = {
        "packet",
        "packet_source",
        "packet_span",
        "trace",
        "trace_candidate",
        "trace_passage",
        "trace_answer",
        "trace_verdict",
        "trace_time",
        "trace_purge",
    }
    index = {"scope", "scope_value", "segment", "posting", "version", "turn", "bucket", "embedding"}
    assert asked == (
        {(True, f"rag.{table}") for table in evidence}
        | {(False, f"rag.{table}") for table in records}
        | {(True, f"rag_index.{table}") for table in index}
    )


# Views and functions


def test_C01_every_view_reads_with_the_rights_of_the_caller(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select oid::regclass::text from pg_class where relkind = 'v'"
        " and relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and not coalesce('security_invoker=true' = any (reloptions), false)",
    )


def test_C03_definer_functions_are_the_listed_ones(catalog: Connection) -> None:
    assert (
        set(
            rows(
                catalog,
                "select oid::regprocedure::text, proowner::regrole::text from pg_proc where prosecdef"
                " and pronamespace::regnamespace::text not in ('pg_catalog', 'information_schema')",
            )
        )
        == DEFINERS
    )


def test_C04_C05_a_function_finds_names_only_where_nobody_else_can_put_them(catalog: Connection) -> None:
    """Its path is pinned and ends in pg_temp, or its body was parsed when it was created."""
    assert not rows(
        catalog,
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)"
        " and (prosqlbody is null or prosecdef)",
    )


def test_C06_names_in_parsed_bodies_are_the_stores_or_the_servers_own(catalog: Connection) -> None:
    """Nothing of the schema public, say, was found when they were created, but what is pgvector's and written out."""
    assert not rows(
        catalog,
        "select pg_describe_object(classid, objid, 0), pg_describe_object(refclassid, refobjid, 0) from pg_depend d,"
        " lateral pg_identify_object(classid, objid, 0) o, lateral pg_identify_object(refclassid, refobjid, 0) r"
        " where o.schema in ('rag', 'rag_auth', 'rag_index', 'rag_api') and refclassid <> 'pg_namespace'::regclass"
        " and r.schema not in ('rag', 'rag_auth', 'rag_index', 'rag_api', 'pg_catalog', 'pg_toast')"
        " and not exists (select from pg_depend e join pg_extension on pg_extension.oid = e.refobjid"
        "  left join pg_type t on t.oid = d.refobjid and d.refclassid = 'pg_type'::regclass"
        "  where e.deptype = 'e' and e.refclassid = 'pg_extension'::regclass and extname = 'vector'"
        "  and e.classid = d.refclassid and e.objid in (d.refobjid, t.typelem))",
    )


def test_C06_an_operator_planted_before_the_install_is_not_found(server: Server) -> None:
    """It fits better than the server's own: numeric against integer, which there is none for."""
    database = server.create()
    with database.connect(SUPERUSER) as connection:
        connection.execute(
            "create function public.planted(numeric, integer) returns boolean language sql return false;"
            "create operator public.> (leftarg = numeric, rightarg = integer, function = public.planted);"
        )
    with database.engine(SUPERUSER) as engine:
        _install.install(engine)
    with database.connect(SUPERUSER) as connection:
        used = rows(
            connection,
            "select pg_describe_object(classid, objid, 0) from pg_depend where refclassid = 'pg_operator'::regclass"
            " and refobjid = 'public.>(numeric, integer)'::regoperator",
        )
    server.drop(database)
    assert used == []


def test_C03_public_may_execute_nothing(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select p.oid::regprocedure::text from pg_proc p"
        " cross join lateral aclexplode(coalesce(proacl, acldefault('f', proowner))) a"
        " where pronamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api') and a.grantee = 0",
    )


def test_E10_no_function_is_leakproof(catalog: Connection) -> None:
    """It would be handed rows before the policy is asked."""
    assert not rows(
        catalog,
        "select oid::regprocedure::text from pg_proc where proleakproof"
        " and pronamespace::regnamespace::text not in ('pg_catalog', 'information_schema')",
    )


def test_administration_is_the_owners(catalog: Connection) -> None:
    assert (
        rows(
            catalog,
            "select p.proname::text from pg_proc p cross join unnest(%s::text[]) as r"
            " where pronamespace = 'rag_auth'::regnamespace and has_function_privilege(r, p.oid, 'execute')"
            " and p.proname not in ('tenant', 'readable', 'write_tenant', 'required_tenant', 'own_tenants')",
            [*RUN_TIME, *LOGINS],
        )
        == []
    )


# Grants and roles


def test_C07_C08_C09_nobody_may_change_or_remove_rows(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select c.oid::regclass::text, a.grantee::regrole::text, a.privilege_type"
        " from pg_class c cross join lateral aclexplode(relacl) a"
        " where relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and a.grantee <> relowner and a.privilege_type <> 'SELECT'",
    )


def test_inserts_are_granted_by_column_and_never_on_what_is_derived(catalog: Connection) -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for table, role, column in rows(
        catalog,
        "select attrelid::regclass::text, a.grantee::regrole::text, attname::text"
        " from pg_attribute join pg_class c on c.oid = attrelid cross join lateral aclexplode(attacl) a"
        " where relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and a.privilege_type = 'INSERT' order by 3",
    ):
        found.setdefault((table, role), []).append(column)
    assert {key: " ".join(columns) for key, columns in found.items()} == INSERTABLE


def test_columns_that_are_granted_are_not_generated(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select attrelid::regclass || '.' || attname from pg_attribute join pg_class c on c.oid = attrelid"
        " where relnamespace::regnamespace::text = 'rag' and attacl is not null and attgenerated <> ''",
    )


def test_C15_only_the_stores_roles_have_grants(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select c.oid::regclass::text, a.grantee from pg_class c cross join lateral aclexplode(relacl) a"
        " where relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and (a.grantee = 0 or a.grantee::regrole::text not like 'rag\\_%' or a.is_grantable)",
    )


def test_C15_no_privilege_waits_for_objects_to_come(catalog: Connection) -> None:
    assert not rows(catalog, "select defaclrole::regrole::text, defaclacl::text from pg_default_acl")


def test_no_runtime_role_reaches_the_side_tables(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select r from unnest(%s::text[]) as r where has_schema_privilege(r, 'rag_index', 'usage')",
        [role for role in RUN_TIME if role not in {"rag_search", "rag_recorder"}] + list(LOGINS),
    )


def test_B02_B03_nobody_logs_in_as_a_role_of_the_store_and_none_is_above_the_wall(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select rolname::text from pg_roles where rolname like 'rag\\_%'"
        " and (rolcanlogin or rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication)",
    )


def test_groups_lead_to_no_role_beyond_reading(catalog: Connection) -> None:
    """Whoever is in a group is a reader; nobody becomes owner, binder or recorder through one."""
    assert set(
        rows(
            catalog,
            "select member::regrole::text, roleid::regrole::text from pg_auth_members"
            " where member::regrole::text like 'rag\\_%'",
        )
    ) == {(role, "rag_reader") for role in ("rag_curator", "rag_publisher", "rag_reviewer", "rag_recorder")}


@pytest.mark.parametrize("login", LOGINS)
def test_B03_B04_a_login_reaches_only_its_groups(catalog: Connection, login: str) -> None:
    reachable = rows(
        catalog,
        "select rolname::text from pg_roles where pg_has_role(%s, oid, 'member') and rolname <> %s",
        login,
        login,
    )
    groups = {f"rag_{group}" for group in LOGINS[login][1]}
    assert set(reachable) == groups | ({"rag_reader"} if groups - {"rag_auditor"} else set())


@pytest.mark.parametrize("login", LOGINS)
def test_C06_C14_a_login_creates_nothing(catalog: Connection, login: str) -> None:
    assert not rows(
        catalog,
        "select nspname::text from pg_namespace where has_schema_privilege(%s, oid, 'create')",
        login,
    )
    assert rows(
        catalog,
        "select has_database_privilege(%s, current_database(), 'create'),"
        " has_database_privilege(%s, current_database(), 'temporary')",
        login,
        login,
    ) == [(False, False)]


# Comments


def test_every_object_says_what_it_is_for(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select oid::regclass::text from pg_class where relkind in ('r', 'p', 'v')"
        " and relnamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and obj_description(oid, 'pg_class') is null and oid <> %s::regclass"
        " union all select oid::regprocedure::text from pg_proc"
        " where pronamespace::regnamespace::text in ('rag', 'rag_auth', 'rag_index', 'rag_api')"
        " and obj_description(oid, 'pg_proc') is null"
        " union all select nspname::text from pg_namespace where nspname like 'rag%%'"
        " and obj_description(oid, 'pg_namespace') is null",
        NO_TENANT,
    )


def test_every_column_of_a_view_says_what_it_is(catalog: Connection) -> None:
    assert not rows(
        catalog,
        "select attrelid::regclass || '.' || attname from pg_attribute join pg_class c on c.oid = attrelid"
        " where relnamespace = 'rag_api'::regnamespace and relkind = 'v' and attnum > 0"
        " and col_description(attrelid, attnum) is null",
    )


def test_a_public_function_says_what_it_takes_and_what_it_returns(catalog: Connection) -> None:
    """PostgreSQL has no comments on arguments: they are lines of the function's."""
    assert not rows(
        catalog,
        "select proname || '.' || name from pg_proc, unnest(proargnames) as name"
        " where pronamespace = 'rag_api'::regnamespace and proname !~ '^_'"
        " and obj_description(pg_proc.oid, 'pg_proc') !~ ('\n  ' || name || ' ')",
    )


def test_every_word_is_the_name_of_something(catalog: Connection) -> None:
    names = rows(
        catalog,
        "select relname::text, attname::text from pg_attribute join pg_class c on c.oid = attrelid"
        " where relnamespace = 'rag_api'::regnamespace and relkind = 'v' and attnum > 0"
        " union select proname::text, name from pg_proc, unnest(proargnames) as name"
        " where pronamespace = 'rag_api'::regnamespace and proname !~ '^_'",
    )
    used = {name for _, name in names} | {f"{thing}.{name}" for thing, name in names}
    words = re.findall(r"^    \('([\w.]+)', ", (_resources.find("schema") / "api" / "120_words.sql").read_text(), re.M)
    assert len(words) == len(set(words)) > 100
    assert set(words) <= used


def test_what_people_look_at_prints_as_text(catalog: Connection) -> None:
    """Bytes print as escapes, a tsvector as noise. A passage alone has them: digests and scores are made of it."""
    assert rows(
        catalog,
        "select attrelid::regclass || '.' || attname from pg_attribute join pg_class c on c.oid = attrelid"
        " where relnamespace = 'rag_api'::regnamespace and relkind = 'v' and attnum > 0"
        " and atttypid in ('bytea'::regtype, 'tsvector'::regtype) order by 1",
    ) == ["rag_api.passage.text_sha256", "rag_api.passage.words"]
