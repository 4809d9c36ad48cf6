"""The probe of the wall between tenants: what each login can get and do, written down so that two walls compare.

A tenant stands behind two walls: permissive policies say what a login may see and add, restrictive fences keep it
inside whatever permissive policy somebody adds. A probe looks at the store as it is, then with each wall alone:

``tables``      rows that each session sees in each table, and what it may insert for each tenant
``wide``        the same after a careless administrator: everything granted, policies that allow everything, so that
                only the fences hold
``unfenced``    the same without fences, so that only the permissive policies hold
``keys``        what the roles of the owner, the binder, the recorder and the searcher can do, through logins that get
                them
``views``       rows of each view of ``rag_api``
``functions``   each function of ``rag_api``, called for a victim's evidence and for evidence that does not exist
``writes``      update, delete, truncate, lock, copy, merge on each table
``binding``     ways to get a tenant without its grant

Every connection is a real login. What a probe does to the rows is rolled back; policies and grants are changed and put
back, so hand it a clone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, LiteralString, Self

import psycopg
from psycopg import sql

from rag_sql._embedded import SUPERUSER
from rag_sql._signing import TenantKey
from tests.conftest import CASE, QUERY, QUESTION, SERVICE_KEY, Database, add_key

Cursor = psycopg.Cursor[Any]
Connection = psycopg.Connection[Any]
Result = dict[str, Any]

#: Logins of the probe's own: the tenants they are bound to and the groups they join. The last four get roles that no
#: run-time login has, while a probe runs.
EXTRA_LOGINS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "northwind_publisher": (("northwind",), ("rag_publisher",)),
    "northwind_watcher": (("northwind",), ("rag_curator", "rag_reviewer")),
    "forger": ((), ("rag_curator",)),
    "owner_key": ((), ()),
    "binder_key": ((), ()),
    "recorder_key": (("northwind",), ()),
    "search_key": (("northwind",), ()),
}

#: Logins that sign for the tenant that they assert, and with what: the service with its key, the forger with a secret
#: that its own key does not have.
SIGNERS = {"service": SERVICE_KEY, "forger": TenantKey("00000000000b", bytes(32))}

#: Logins that may only read for their tenants, whatever their groups.
WATCHERS = {"northwind_watcher"}

#: Logins of the probe that get a role, while it runs.
KEYS = {
    "owner_key": "rag_owner",
    "binder_key": "rag_binder",
    "recorder_key": "rag_recorder",
    "search_key": "rag_search",
}

#: Who looks, and the tenant that is asserted.
SESSIONS: tuple[tuple[str, str | None], ...] = (
    ("acme_reader", "acme"),
    ("acme_reader", None),
    ("acme_curator", "acme"),
    ("acme_reviewer", "acme"),
    ("northwind_reader", "northwind"),
    ("northwind_curator", "northwind"),
    ("northwind_curator", "acme"),
    ("northwind_publisher", "northwind"),
    ("northwind_watcher", "northwind"),
    ("both_reader", "northwind"),
    ("unbound_reader", None),
    ("unbound_reader", "acme"),
    ("publisher", "public"),
    ("public_curator", "public"),
    ("auditor", None),
    ("outsider", None),
    ("outsider", "acme"),
    ("service", "northwind"),
    ("forger", "acme"),
)

SESSION_NAMES = tuple(f"{login} as {tenant}" for login, tenant in SESSIONS)

#: Sessions that must get nothing of acme's.
STRANGERS = tuple(name for name in SESSION_NAMES if not name.startswith(("acme_", "auditor")))

#: Texts that stand only in one tenant's rows, and in no argument of the probe.
MARKS = {
    "acme": ("acme-secret", "until the auditor closes the case"),
    "northwind": ("northwind-secret", "was approved for us"),
}


@dataclass(frozen=True)
class Target:
    """Evidence of one tenant, to be named in arguments."""

    length: int
    question_id: str
    packet_id: str
    trace_id: str


NOTHING = Target(
    179, "no-such-question", "00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000001"
)

_DOCUMENT = {"acme": ("HOLD-7", 2), "northwind": ("PRIVATE", 1), "public": ("GW-241", 3), "nowhere": ("NO-SUCH", 2)}

CLAIMS = (
    '[{"text": "x", "fact": "audit-constraint", "tenant": "%(tenant)s", "document_id": "%(document_id)s",'
    ' "version": %(version)s, "span_id": "s1"}]'
)
CONTENT = (
    '{"case": [], "facts": [{"fact": "known-issue",'
    ' "propositions": [{"quote": "Gateway %(t)s", "clauses": ["%(t)s clause"]}]}]}'
)

# What is inserted into each table for a tenant: columns a run-time role is granted.
INSERTS: dict[str, LiteralString] = {
    "rag.tenant": "insert into rag.tenant (tenant) values (%(tenant)s || '-2')",
    "rag_auth.membership": "insert into rag_auth.membership (login, tenant) values (session_user, %(tenant)s)",
    "rag_auth.signing_key": (
        "insert into rag_auth.signing_key (key_id, login, inner_pad, outer_pad, expires_at)"
        " values ('00000000000c', session_user, decode(repeat('36', 64), 'hex'), decode(repeat('5c', 64), 'hex'),"
        " 'infinity')"
    ),
    "rag.attribute": (
        "insert into rag.attribute (tenant, attribute, type) values (%(tenant)s, 'acme-secret', 'version-numeric')"
    ),
    "rag.version": "insert into rag.version (tenant, document_id, version, body) values (%(tenant)s, 'X', 1, 'x')",
    "rag.passage": (
        "insert into rag.passage"
        " (tenant, document_id, version, range_start, range_end, heading_path, text, text_sha256, words)"
        " values (%(tenant)s, %(document_id)s, %(version)s, 9999, 10000, '{}', 'x', 'x', '')"
    ),
    "rag.withdrawal": (
        "insert into rag.withdrawal (tenant, document_id, version) values (%(tenant)s, %(document_id)s, %(version)s)"
    ),
    "rag.succession": (
        "insert into rag.succession (tenant, document_id, successor_id) values (%(tenant)s, %(document_id)s, 'X')"
    ),
    "rag.span": (
        "insert into rag.span (tenant, document_id, version, span_id, fact, quote, occurrence)"
        " values (%(tenant)s, %(document_id)s, %(version)s, 's9', 'known-issue', 'a', 1)"
    ),
    "rag.erasure": (
        "insert into rag.erasure (tenant, document_id, version, reason)"
        " values (%(tenant)s, %(document_id)s, %(version)s, 'x')"
    ),
    "rag.contract": (
        "insert into rag.contract (tenant, question_id, version, content) values (%(tenant)s, 'x', 1, %(content)s)"
    ),
    "rag.packet": (
        "insert into rag.packet (tenant, outcome, question_id, contract_tenant, contract_version, contract_pinned,"
        " case_facts, query, k, method, valid_at, known_at, required, missing, preimage)"
        " values (%(tenant)s, 'AskForEvidence', %(question)s, 'public', 1, false, '{}', 'x', 1, 'x', now(), now(),"
        " '{}', '{}', 'x')"
    ),
    "rag.packet_source": (
        "insert into rag.packet_source"
        " (tenant, packet_id, position, score, document_tenant, document_id, version, range_start, range_end)"
        " values (%(tenant)s, %(packet_id)s, 99, 1, 'public', 'GW-241', 3, 0, 1)"
    ),
    "rag.packet_span": (
        "insert into rag.packet_span (tenant, packet_id, position, document_tenant, document_id, version, span_id)"
        " values (%(tenant)s, %(packet_id)s, 1, 'public', 'GW-241', 3, 's1')"
    ),
    "rag.trace": (
        "insert into rag.trace (tenant, packet_id, budget, neighbours, outcome, missing)"
        " values (%(tenant)s, %(packet_id)s, 1, 1, 'AskForEvidence', '{}')"
    ),
    "rag.trace_candidate": (
        "insert into rag.trace_candidate"
        " (tenant, trace_id, position, score, document_tenant, document_id, version, range_start, eligible)"
        " values (%(tenant)s, %(trace_id)s, 99, 1, 'public', 'GW-241', 3, 0, true)"
    ),
    "rag.trace_passage": (
        "insert into rag.trace_passage"
        " (tenant, trace_id, position, label, added_as, tokens, document_tenant, document_id, version, range_start)"
        " values (%(tenant)s, %(trace_id)s, 99, 'P99', 'selected', 1, 'public', 'GW-241', 3, 0)"
    ),
    "rag.trace_answer": (
        "insert into rag.trace_answer (tenant, trace_id, prompt_version, model, answer_sha256, citations)"
        " values (%(tenant)s, %(trace_id)s, 'x', 'x', 'x', '{}')"
    ),
    "rag.trace_verdict": (
        "insert into rag.trace_verdict (tenant, trace_id, range_start, range_end, verdict, checks)"
        " values (%(tenant)s, %(trace_id)s, 99, 100, 'review', '{}')"
    ),
    "rag.trace_time": (
        "insert into rag.trace_time (tenant, trace_id, stage, took) values (%(tenant)s, %(trace_id)s, 'audit', '1 s')"
    ),
    "rag.trace_purge": ("insert into rag.trace_purge (tenant, recorded_before, traces) values (%(tenant)s, now(), 1)"),
    "rag.embedding_model": (
        "insert into rag.embedding_model (tenant, model, model_version, dimension) values (%(tenant)s, 'x', '1', 2)"
    ),
    "rag_index.bucket": (
        "insert into rag_index.bucket (tenant, model, model_version) values (%(tenant)s, 'spare', '1')"
    ),
    "rag_index.embedding": (
        "insert into rag_index.embedding"
        " (bucket, tenant, model, model_version, document_id, version, range_start, embedding)"
        " values (0, %(tenant)s, 'x', '1', 'X', 1, 0, '[1, 2]')"
    ),
    "rag_index.embedding_0": (
        "insert into rag_index.embedding_0"
        " (bucket, tenant, model, model_version, document_id, version, range_start, embedding)"
        " values (0, %(tenant)s, 'x', '1', 'X', 1, 0, '[1, 2]')"
    ),
    "rag.approval": (
        "insert into rag.approval"
        " (tenant, evidence_digest, draft_digest, decision_number, packet_id, shown_digest, decision, claims)"
        " values (%(tenant)s, 'x', 'x', 1, %(packet_id)s, 'x', 'approved', '[]')"
    ),
}
# The search index, which no run-time role reaches.
INSERTS |= {
    "rag_index.turn": "insert into rag_index.turn (tenant) values (%(tenant)s) on conflict do nothing",
    "rag_index.scope": (
        "insert into rag_index.scope (tenant, scope_id, applies_to, attributes)"
        " values (%(tenant)s, gen_random_uuid(), '{}', 0)"
    ),
    "rag_index.scope_value": (
        "insert into rag_index.scope_value (tenant, attribute, type, first_key, scope_id)"
        " values (%(tenant)s, 'x', 'text', 'x', gen_random_uuid())"
    ),
    "rag_index.segment": (
        "insert into rag_index.segment"
        " (tenant, segment_id, language, passages, lengths, scope_ids, scope_starts, recorded_last, used_from)"
        " values (%(tenant)s, 1, 'simple', 1, '{0,1}', '{}', '{}', now(), now())"
    ),
    "rag_index.posting": (
        "insert into rag_index.posting (tenant, segment_id, word, passages, entries, most, shortest)"
        " values (%(tenant)s, 1, 'x', 1, '{257}', 1, 1)"
    ),
    "rag_index.version": (
        "insert into rag_index.version"
        " (tenant, document_id, version, segment_id, first_ordinal, range_ends, effective_from, recorded_at)"
        " values (%(tenant)s, 'X', 1, 1, 1, '{1}', now(), now())"
    ),
}
TABLES = tuple(INSERTS)

#: Vectors: no login but the functions of rag_search, and the owner who moves them, reaches these.
SIDE_TABLES = tuple(table for table in TABLES if table.startswith("rag_index."))

_SELECTION = "array[row(%(tenant)s, %(document_id)s, %(version)s, 0, %(length)s)::rag.source_ref]"
_CONTRACT = f"'public', '{QUESTION}', 1"
_SCOPES = (
    "array[%(tenant)s, 'public'],"
    " array['44136fa3-55b3-678a-1146-ad16f7e8649e', '44136fa3-55b3-678a-1146-ad16f7e8649e']::uuid[],"
    " statement_timestamp(), statement_timestamp()"
)
_REQUEST = f"'{QUESTION}', %(query)s, %(case)s, 5"

# A call of each function of rag_api whose arguments would reach a target's data.
CALLS: dict[str, str] = {
    "_added_span_problems": "select * from rag_api._added_span_problems(%(spans)s)",
    "_attribute_types": "select * from rag_api._attribute_types(null)",
    "_bm25_part": "select rag_api._bm25_part(1, 1, 1, 1, 1.2, 0.75)",
    "_bm25_search": f"select * from rag_api._bm25_search(%(query)s, 9, 1.2, 0.75, {_SCOPES}, true, true)",
    "_bucket": "select rag_api._bucket(%(tenant)s, 'probe', '1')",
    "_case_facts": 'select rag_api._case_facts(%(content)s, \'{"x": "1"}\', null)',
    "_check_evidence": "select rag_api._check_evidence(%(packet_id)s)",
    "_check_claims": "select rag_api._check_claims(%(claims)s)",
    "_case_key": "select rag_api._case_key('m', 'text', 'x', true)",
    "_check_instants": "select rag_api._check_instants('2026-01-01', '2026-01-02')",
    "_check_request": "select rag_api._check_request(%(query)s, 5)",
    "_context": "select * from rag_api._context(%(tenant)s, %(packet_id)s, 1000, 1)",
    "_versions_of_two_instants": "select * from rag_api._versions_of_two_instants('2026-01-01', now(), now())",
    "_decided_again": (
        "select d.* from rag.packet p cross join lateral rag_api._decided_again(p, null, null) d"
        " where p.packet_id = %(packet_id)s"
    ),
    "_declare_attributes": "select rag_api._declare_attributes(array['x'])",
    "_differences": "select * from rag_api._differences(%(tenant)s, %(documents)s::jsonb -> 0, '\\x00')",
    "_document_problems": "select * from rag_api._document_problems(%(documents)s)",
    "_current_versions": "select * from rag_api._current_versions(null, null)",
    "_effective_versions": "select * from rag_api._effective_versions(null, null)",
    "_eligible_segments": f"select * from rag_api._eligible_segments({_SCOPES}, true)",
    "_fitting": (
        "select * from rag_api._fitting("
        " jsonb_build_array(jsonb_build_object('acme-secret', 1, 'northwind-secret', 1, 'model', 'G2')), null)"
    ),
    "_fitting_attributes": (
        "select * from rag_api._fitting_attributes('{1,1,1}', '{acme,northwind,public}',"
        " '{acme-secret,northwind-secret,model}', '{text,number,text}', '{1,1,G2}')"
    ),
    "_compared_types": "select * from rag_api._compared_types(null)",
    "_evidence_changes": "select * from rag_api._evidence_changes(%(packet_id)s, null, null)",
    "_holds": ("select rag_api._holds(p, p.outcome, p.digest) from rag.packet p where p.packet_id = %(packet_id)s"),
    "_impact_instants": "select * from rag_api._impact_instants('2026-01-01', '2026-01-02', null)",
    "_is_name": "select rag_api._is_name('\"x\"')",
    "_kept": "select rag_api._kept(%(packet_id)s)",
    "_missing_in_context": f"select rag_api._missing_in_context(%(tenant)s, %(packet_id)s, {_SELECTION})",
    "_nearest_passages": "select * from rag_api._nearest_passages(%(query)s, 9, null, null, null, null, null)",
    "_number": "select rag_api._number(1)",
    "_occurrences": "select * from rag_api._occurrences(%(tenant)s, %(question_id)s, 1)",
    "_overlap_search": f"select * from rag_api._overlap_search(rag.words(%(query)s), 9, {_SCOPES})",
    "_packet": "select * from rag_api._packet(%(packet_id)s)",
    "_packet_selection": "select rag_api._packet_selection(%(tenant)s, %(packet_id)s)",
    "_packet_spans": "select * from rag_api._packet_spans(%(tenant)s, %(packet_id)s)",
    "_ranked": (
        "select * from rag_api._ranked(%(query)s, '{}', 9, now(), now(), 'bm25',"
        ' \'{"k1": 1, "b": 1}\', true, true, true)'
    ),
    "_ranking_parameters": "select rag_api._ranking_parameters('bm25', '{}')",
    "_request_parameters": "select rag_api._request_parameters('{}', 'bm25', '{}')",
    "_required_contract": "select * from rag_api._required_contract(%(question_id)s, 1, null)",
    "_resolve_contract": "select * from rag_api._resolve_contract(%(question_id)s, 1, null)",
    "_scopes": "select * from rag_api._scopes('{}', null)",
    "_selected_spans": f"select * from rag_api._selected_spans({_SELECTION}, null)",
    "_sources": f"select rag_api._sources({_SELECTION}, array[1], array(select s from rag.span s))",
    "_span_problems": "select * from rag_api._span_problems(cast(%(spans)s as jsonb) -> 0)",
    "_stated_scopes": "select * from rag_api._stated_scopes()",
    "_stated_time": "select rag_api._stated_time('2026-01-01', '2026-01-02')",
    "_superseded_documents": "select * from rag_api._superseded_documents(null, null)",
    "_text": "select rag_api._text('x')",
    "_trace": "select * from rag_api._trace(%(trace_id)s)",
    "_utc": "select rag_api._utc('2026-01-01')",
    "_versions": "select * from rag_api._versions(null, null)",
    "_verdicts": f"select * from rag_api._verdicts({_CONTRACT}, {_SELECTION},"
    " array(select s from rag.span s), %(claims)s)",
    "_withdrawn_versions": "select * from rag_api._withdrawn_versions(null, null)",
    "_writable_tenant": "select rag_api._writable_tenant()",
    "_store_embeddings": (
        "select rag_api._store_embeddings('probe', '1', array[%(document_id)s], array[%(version)s], '{0}',"
        " '{\"[1, 2]\"}')"
    ),
    "_unembedded": "select * from rag_api._unembedded('probe', '1', null)",
    "_nearest": f"select * from rag_api._nearest(%(tenant)s, 'probe', '1', '[1, 0]', 9, true, {_SCOPES}, true)",
    "_vector_search": f"select * from rag_api._vector_search('probe', '1', '[1, 0]', 9, true, {_SCOPES}, true)",
    "_vector": "select rag_api._vector('[1, 2]')",
    "add_contract": "select rag_api.add_contract(%(question_id)s, 1, %(content)s)",
    "add_embeddings": (
        "select rag_api.add_embeddings('probe', '1', array[%(document_id)s], array[%(version)s], '{0}', '{\"[1, 2]\"}')"
    ),
    "add_spans": "select * from rag_api.add_spans(%(spans)s)",
    "_verdict_problem": "select rag_api._verdict_problem('[]', 'x')",
    "approve": (
        "select rag_api.approve(%(packet_id)s, %(claims)s,"
        " (select shown_digest from rag_api.review_packet(%(packet_id)s, %(claims)s) limit 1), 'rejected')"
    ),
    "bind": "select rag_api.bind(%(tenant)s)",
    "candidates": "select * from rag_api.candidates(%(query)s, %(case)s, 9)",
    "carriable_spans": "select * from rag_api.carriable_spans(array[%(document_id)s])",
    "check_claims": f"select * from rag_api.check_claims({_CONTRACT}, {_SELECTION}, %(claims)s)",
    "cite": "select * from rag_api.cite(%(trace_id)s, '{P1}')",
    "corpus_fingerprint": "select rag_api.corpus_fingerprint()",
    "coverage_impact": "select * from rag_api.coverage_impact('2026-01-01')",
    "decide": f"select * from rag_api.decide({_REQUEST})",
    "diagnose_ids": "select * from rag_api.diagnose_ids('{a}', '{}', '{}', '{}')",
    "diagnose_trace": f"select * from rag_api.diagnose_trace(%(trace_id)s, {_SELECTION})",
    "document_impact": "select * from rag_api.document_impact('2026-01-01')",
    "draft_preimage": "select rag_api.draft_preimage(%(claims)s)",
    "eligibility": "select * from rag_api.eligibility(%(case)s)",
    "eligible_by_case": "select * from rag_api.eligible_by_case(jsonb_build_array(%(case)s::jsonb, '{}'::jsonb))",
    "eligible": "select * from rag_api.eligible(%(case)s)",
    "evidence_changes": "select * from rag_api.evidence_changes(%(packet_id)s)",
    "evidence_preimage": f"select rag_api.evidence_preimage({_CONTRACT}, '{{}}', {_SELECTION})",
    "explain": f"select * from rag_api.explain({_REQUEST})",
    "global_ranking": "select * from rag_api.global_ranking(%(tenant)s, %(query)s, %(case)s)",
    "history": "select * from rag_api.history(%(document_id)s)",
    "impact": "select * from rag_api.impact('2026-01-01')",
    "load_documents": "select * from rag_api.load_documents(%(documents)s)",
    "missing_facts": f"select * from rag_api.missing_facts(%(tenant)s, %(question_id)s, 1, {_SELECTION})",
    "missing_embeddings": "select * from rag_api.missing_embeddings('probe', '1', 100)",
    "nearest_passage": "select * from rag_api.nearest_passage(%(query)s, 9)",
    "packet_document": "select rag_api.packet_document(%(packet_id)s)",
    "packet_impact": "select * from rag_api.packet_impact('2026-01-01')",
    "proposition_occurrences": "select * from rag_api.proposition_occurrences(%(question_id)s)",
    "ranking": "select * from rag_api.ranking(%(query)s, %(case)s)",
    "record_answer": "select rag_api.record_answer(%(trace_id)s, 'x', '{}', 'x', 'x')",
    "record_trace": "select rag_api.record_trace(%(packet_id)s)",
    "record_packet": f"select rag_api.record_packet({_REQUEST})",
    "require_approval": "select * from rag_api.require_approval(%(packet_id)s, %(claims)s)",
    "review_packet": "select * from rag_api.review_packet(%(packet_id)s, %(claims)s)",
    "same_documents": "select * from rag_api.same_documents(%(documents)s, array[sha256('x')])",
    "search": "select * from rag_api.search(%(query)s, 9, p_case_facts => %(case)s, p_why => true)",
    "selection": "select * from rag_api.selection(%(query)s, %(case)s, 9)",
    "set_attribute": "select rag_api.set_attribute('x', 'number')",
    "supersede_document": "select rag_api.supersede_document(%(document_id)s, array['X'])",
    "span_impact": "select * from rag_api.span_impact('2026-01-01')",
    "transaction_identity": "select login from rag_api.transaction_identity()",
    "version_status": "select * from rag_api.version_status()",
    "withdraw_version": "select rag_api.withdraw_version(%(document_id)s, %(version)s)",
    "witnesses": f"select * from rag_api.witnesses({_CONTRACT}, {_SELECTION})",
}

#: How long tenants keep traces: northwind's are over at once, so that there are some which the owner may remove.
RETENTION = {"acme": None, "northwind": "1 us"}

#: Functions that read no table: what they return is made of their arguments.
PURE = {
    "_added_span_problems",
    "_bm25_part",
    "_case_key",
    "_ranking_parameters",
    "_request_parameters",
    "_check_claims",
    "_check_instants",
    "_check_request",
    "_impact_instants",
    "_is_name",
    "_number",
    "_span_problems",
    "_stated_time",
    "_text",
    "_utc",
    "_vector",
    "_verdict_problem",
    "diagnose_ids",
    "draft_preimage",
    "transaction_identity",
}

#: The column that says whose row it is, where that is no tenant.
OWNER_COLUMNS = {"rag_auth.signing_key": "login"}

# Ways to change, stop or copy what is stored: {table}, and the column {owner} that says whose row it is.
WRITES: dict[str, LiteralString] = {
    "update": "update {table} set {owner} = {owner}",
    "update where": "update {table} set {owner} = {owner} where {owner} = 'acme'",
    "update to acme": "update {table} set {owner} = 'acme'",
    "delete": "delete from {table}",
    "delete where": "delete from {table} where {owner} = 'acme'",
    "delete returning": "delete from {table} returning 1",
    "merge": "merge into {table} t using (values (1)) s(x) on true when matched then delete",
    "truncate": "truncate {table} cascade",
    "lock exclusive": "lock table {table} in access exclusive mode nowait",
    "lock share": "lock table {table} in share mode nowait",
    "lock row exclusive": "lock table {table} in row exclusive mode nowait",
    "select for update": "select from {table} for update",
    "select for key share": "select from {table} for key share",
    "copy from": "copy {table} from stdin",
    "disable": "alter table {table} disable row level security",
    "disable trigger": "alter table {table} disable trigger all",
    "drop": "drop table {table}",
    "references": "create table public.spy (t text references {table})",
    "comment": "comment on table {table} is 'x'",
}

# Statements that would get a tenant without its grant; each is followed by a look at every version.
BINDINGS: dict[str, tuple[LiteralString, ...]] = {
    "local setting": ("set local rag.tenant = 'acme'",),
    "session setting": ("set rag.tenant = 'acme'",),
    "setting in a block": ("do $$ begin set local rag.tenant = 'acme'; end $$",),
    "setting of the login": ("alter role current_user set rag.tenant = 'acme'",),
    "a tenant that does not exist": ("set local rag.tenant = 'nowhere'",),
    "spaces": ("set local rag.tenant = ' acme'",),
    "capitals": ("set local rag.tenant = 'ACME'",),
    "a list": ("set local rag.tenant = 'northwind,acme'",),
    "a quote": ("set local rag.tenant = 'acme''--'",),
    "empty": ("set local rag.tenant = ''",),
    "reset": ("set local rag.tenant = 'acme'", "reset rag.tenant"),
    "a proof that is kept": (
        "select set_config('rag.tenant', regexp_replace(current_setting('rag.tenant'), '^[^:]*', 'acme'), true)",
    ),
    "a signature that is made up": (
        "select set_config('rag.tenant', 'acme:read:00000000000a:' || repeat('0', 64), true)",
    ),
    "own key": (INSERTS["rag_auth.signing_key"],),
    "key function": ("select rag_auth.add_signing_key(session_user::text, 1)",),
    "owner": ("set role rag_owner",),
    "recorder": ("set role rag_recorder",),
    "binder": ("set role rag_binder",),
    "search": ("set role rag_search",),
    "auditor": ("set role rag_auditor",),
    "superuser": ("set role postgres",),
    "another login": ("set role acme_reader",),
    "another session": ("set session authorization acme_reader",),
    "own membership": ("insert into rag_auth.membership (login, tenant) values (session_user, 'acme')",),
    "grant function": ("select rag_auth.grant_tenant('acme', session_user::text)",),
    "tenant function": ("select rag_auth.add_tenant('acme2')",),
    "revoke function": ("select rag_auth.revoke_tenant('acme', 'acme_reader')",),
    "own function": ("create function rag_auth.tenant2() returns text return 'acme'",),
    "own schema": ("create schema mine",),
    "temporary table": ("create temporary table membership (login text, tenant text)",),
    "temporary function": ("create function pg_temp.tenant() returns text return 'acme'",),
    "row security off": ("set local row_security = off",),
    "replica": ("set local session_replication_role = replica",),
}

# A switch in the middle of one statement.
SWITCHES: dict[str, LiteralString] = {
    "after a row that needs no tenant": (
        "select tenant from rag.version where tenant = 'public' or set_config('rag.tenant', 'acme', true) is not null"
    ),
    "in where": "select tenant from rag.version where set_config('rag.tenant', 'acme', true) is not null",
    "in from": (
        "select v.tenant from (select set_config('rag.tenant', 'acme', true) offset 0) s, rag.version v"
        " where s.set_config is not null"
    ),
    "in a one-time filter": (
        "select tenant from rag.version where (select set_config('rag.tenant', 'acme', true)) is not null"
    ),
    "in a materialized query": (
        "with a as materialized (select tenant from rag.version),"
        " s as materialized (select set_config('rag.tenant', 'acme', true) from a),"
        " b as materialized (select tenant from rag.version where (select count(*) from s) > 0)"
        " select tenant from a union all select tenant from b"
    ),
    "with the proof kept": (
        "select tenant from rag.version where set_config('rag.tenant',"
        " regexp_replace(current_setting('rag.tenant'), '^[^:]*', 'acme'), true) is not null"
    ),
    "in a select list": (
        "select tenant, set_config('rag.tenant', 'acme', true), (select count(*) from rag.packet) from rag.version"
    ),
}


# The database to probe


def prepare(database: Database) -> None:
    """Give acme and northwind a row of everything, on top of the gateway corpus."""
    with database.connect(SUPERUSER, autocommit=True) as connection:
        for login, (tenants, groups) in EXTRA_LOGINS.items():
            with suppress(psycopg.errors.DuplicateObject):
                connection.execute(sql.SQL("create role {} login").format(sql.Identifier(login)))
            for group in groups:
                connection.execute(sql.SQL("grant {} to {}").format(sql.Identifier(group), sql.Identifier(login)))
            for tenant in tenants:
                may_write = login not in WATCHERS
                connection.execute("select rag_auth.grant_tenant(%s, %s, %s)", (tenant, login, may_write))
        add_key(connection, "forger", replace(SIGNERS["forger"], secret=b"another"))
    for tenant, question, curator, reader, reviewer in (
        ("acme", "hold-question", "acme_curator", "acme_reader", "acme_reviewer"),
        ("northwind", "private-question", "northwind_curator", "northwind_reader", "northwind_curator"),
    ):
        values = {"t": f"{tenant}-secret", "question": question}
        with _as(database, curator, tenant) as cursor:
            cursor.execute(
                "select rag_api.load_documents(jsonb_build_array("
                " jsonb_build_object('id', %(t)s || '-document', 'version', 1, 'title', %(t)s, 'source', %(t)s,"
                "  'body', 'Gateway ' || %(t)s, 'spans', jsonb_build_array(jsonb_build_object("
                "   'id', %(t)s, 'fact', 'known-issue', 'quote', 'Gateway ' || %(t)s))),"
                " jsonb_build_object('id', %(t)s || '-withdrawn', 'version', 1, 'body', %(t)s,"
                "  'applies_to', jsonb_build_object(%(t)s, jsonb_build_array('1'))),"
                " jsonb_build_object('id', %(t)s || '-superseded', 'version', 1, 'body', %(t)s),"
                " jsonb_build_object('id', %(t)s || '-erased', 'version', 1, 'body', 'Nothing of it')))",
                values,
            )
            cursor.execute("select rag_api.set_attribute(%(t)s, 'number')", values)
            cursor.execute(
                "select rag_api.add_embeddings(m, '1', array[%(t)s || '-document'], '{1}', '{0}', '{\"[1, 2]\"}')"
                " from unnest(array['probe', %(t)s || ' embedder']) m",
                values,
            )
            # A model without vectors, for a bucket that is not there yet.
            cursor.execute(
                "insert into rag.embedding_model (tenant, model, model_version, dimension)"
                " values (%s, 'spare', '1', 2)",
                [tenant],
            )
            cursor.execute(
                "select rag_api.withdraw_version(%(t)s || '-withdrawn', 1, '2026-01-01', %(t)s || ' note')", values
            )
            cursor.execute(
                "select rag_api.supersede_document("
                "%(t)s || '-superseded', array[%(t)s || '-successor'], '2026-01-01', %(t)s || ' note')",
                values,
            )
            cursor.execute(
                "select rag_api.add_contract(%(question)s, 1, %(content)s)", {**values, "content": CONTENT % values}
            )
        with _as(database, reader, tenant) as cursor:
            cursor.execute("select rag_api.record_packet(%(question)s, 'Gateway ' || %(t)s, '{}', 3)", values)
            cursor.execute("select rag_api.record_trace(p.packet_id) from rag.packet p")
        with database.connect(SUPERUSER, autocommit=True) as owner:
            owner.execute("set role rag_owner")
            erasure = "select rag_auth.erase(%(tenant)s, %(t)s || '-erased', null, false, %(t)s || ' reason', false)"
            owner.execute(erasure, {**values, "tenant": tenant})
            owner.execute("select rag_auth.set_trace_retention(%s, '1 us')", [tenant])
            owner.execute("select rag_auth.purge_traces(%s)", [tenant])
            owner.execute("select rag_auth.set_trace_retention(%s, %s)", [tenant, RETENTION[tenant]])
        with _as(database, reader, tenant) as cursor:
            cursor.execute(
                "select rag_api.record_answer((rag_api.record_trace(p.packet_id) ->> 'trace_id')::uuid,"
                " %(t)s || ' answer', array[%(t)s || ' label'], %(t)s || ' model', 'x',"
                ' \'[{"range_start": 0, "range_end": 9, "verdict": "review", "checks": ["names"]}]\')'
                " from rag.packet p",
                values,
            )
            cursor.execute("select rag_api.record_trace(p.packet_id) from rag.packet p")
        with _as(database, reviewer, tenant) as cursor:
            cursor.execute(
                "select rag_api.approve(p.packet_id, c, r.shown_digest, 'approved', %(t)s || ' name', %(t)s || ' note')"
                " from rag.packet p, jsonb_build_array(jsonb_build_object('text', %(t)s || ' clause', 'fact',"
                "  'known-issue', 'tenant', p.tenant, 'document_id', %(t)s || '-document', 'version', 1,"
                "  'span_id', %(t)s)) c, rag_api.review_packet(p.packet_id, c) r",
                values,
            )


@contextmanager
def _as(database: Database, login: str, tenant: str | None) -> Iterator[Cursor]:
    """A transaction of a login that asserts a tenant; committed."""
    with database.connect(login) as connection, connection.cursor() as cursor:
        assert_tenant(cursor, tenant)
        yield cursor


def assert_tenant(cursor: Cursor, tenant: str | None, key: TenantKey | None = None) -> None:
    """Assert a tenant as anyone can, without the proof that rag_api.bind asks for; signed where there is a key."""
    if tenant is not None and key is not None:
        row = cursor.execute(
            "select session_user::text, pg_backend_pid(),"
            " (extract(epoch from transaction_timestamp()) * 1000000)::bigint"
        ).fetchone()
        assert row is not None
        login, backend_pid, begun_at = row
        tenant = key.sign(login, backend_pid, begun_at, tenant, "write")
    cursor.execute("select set_config('rag.tenant', %s, true)", (tenant or "",))


def targets(connection: Connection) -> dict[str, Target]:
    """What the strangers will be after, by tenant; `nowhere` is what does not exist."""
    found = {"nowhere": NOTHING}
    for tenant, length, question_id, packet_id, trace_id in connection.execute(
        "select p.tenant, v.body_length, p.question_id, p.packet_id::text, t.trace_id::text"
        " from rag.packet p join rag.trace t on t.tenant = p.tenant and t.packet_id = p.packet_id"
        " and not exists (select from rag.trace_answer a where a.tenant = t.tenant and a.trace_id = t.trace_id)"
        " join rag.version v on v.tenant = p.tenant and v.document_id in ('HOLD-7', 'PRIVATE')"
    ):
        found[tenant] = Target(length, question_id, packet_id, trace_id)
    return found


def relations(connection: Connection, kinds: str, *schemas: str) -> list[str]:
    """Relations of the kinds (`r`, `p`, `v`, ...) by qualified name, from the catalog."""
    return [
        name
        for (name,) in connection.execute(
            "select c.oid::regclass::text from pg_class c where c.relnamespace::regnamespace::text = any (%s)"
            " and c.relkind::text = any (%s) order by 1",
            (list(schemas), list(kinds)),
        )
    ]


# The probe


class Sessions:
    """Connections to one database, by login; opened when they are first needed."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._stack = ExitStack()
        self._open: dict[str, Connection] = {}

    def __enter__(self) -> Self:
        self.admin = self._stack.enter_context(self.database.connect(SUPERUSER, autocommit=True))
        for login, role in KEYS.items():
            names = (sql.Identifier(role), sql.Identifier(login))
            self.admin.execute(sql.SQL("grant {} to {}").format(*names))
            self._stack.callback(self.admin.execute, sql.SQL("revoke {} from {}").format(*names))
        self.targets = targets(self.admin)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def connection(self, login: str) -> Connection:
        """The login's connection."""
        if login not in self._open:
            self._open[login] = self._stack.enter_context(self.database.connect(login))
        return self._open[login]

    @contextmanager
    def look(self, login: str, tenant: str | None) -> Iterator[Cursor]:
        """A transaction of a login that asserts a tenant; rolled back."""
        connection = self.connection(login)
        try:
            with connection.cursor() as cursor:
                assert_tenant(cursor, tenant, SIGNERS.get(login))
                cursor.execute("savepoint attempt")
                yield cursor
        finally:
            connection.rollback()

    def everyone(self) -> Iterator[tuple[str, Cursor]]:
        """Every session of the probe, by name, in a transaction of its own."""
        for name, (login, tenant) in zip(SESSION_NAMES, SESSIONS, strict=True):
            with self.look(login, tenant) as cursor:
                yield name, cursor


def probe(database: Database) -> dict[str, Any]:
    """Everything each session can get and do, by stage and session."""
    with Sessions(database) as sessions:
        views = relations(sessions.admin, "vmf", "rag_api")
        return look_at(sessions, TABLES, views, tuple(CALLS)) | _by_stage(_more_facts(sessions))


def look_at(
    sessions: Sessions, tables: Sequence[str] = (), views: Sequence[str] = (), functions: Sequence[str] = ()
) -> dict[str, Any]:
    """The part of a probe that is about some tables, views and functions of ``rag_api``."""
    return _by_stage(_parts(sessions, tables, views, functions))


def _by_stage(facts: Iterator[tuple[str, str, Result]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage, session, result in facts:
        found.setdefault(stage, {}).setdefault(session, {}).update(result)
    return found


def first_difference(
    sessions: Sessions,
    expected: dict[str, Any],
    tables: Sequence[str] = (),
    views: Sequence[str] = (),
    functions: Sequence[str] = (),
) -> str | None:
    """Where something looks other than it did: the first stage and session, or None. Looks no further."""
    with closing(_parts(sessions, tables, views, functions)) as facts:
        for stage, session, result in facts:
            if any(expected[stage][session][name] != seen for name, seen in result.items()):
                return f"{stage}, {session}"
    return None


def _parts(
    sessions: Sessions, tables: Sequence[str], views: Sequence[str], functions: Sequence[str]
) -> Generator[tuple[str, str, Result]]:
    if tables:
        yield from _facts(sessions, tables)
    if views:
        for name, cursor in sessions.everyone():
            yield "views", name, {view: _rows(cursor, view) for view in views}
    if functions:
        for name, cursor in sessions.everyone():
            yield "functions", name, {function: _calls(sessions, name, cursor, function) for function in functions}


def _facts(sessions: Sessions, tables: Sequence[str]) -> Generator[tuple[str, str, Result]]:
    """What is seen of tables and added to them: as the store is, then with each of the two walls alone."""
    for name, cursor in sessions.everyone():
        yield "tables", name, _look(cursor, tables, sessions.targets)
    yield from _key_facts("keys", sessions, tables)
    with _wide_open(sessions.admin, tables):
        for name, cursor in sessions.everyone():
            yield "wide", name, _look(cursor, tables, sessions.targets)
    with without_policies(sessions.admin, tables, sql.SQL("not polpermissive")):
        for name, cursor in sessions.everyone():
            yield "unfenced", name, _look(cursor, tables, sessions.targets)
        yield from _key_facts("unfenced keys", sessions, tables)


def _key_facts(stage: str, sessions: Sessions, tables: Sequence[str]) -> Iterator[tuple[str, str, Result]]:
    """What the roles behind the store can do, which forced row-level security holds too."""
    for login in KEYS:
        with sessions.look(login, "northwind" if login in {"recorder_key", "search_key"} else None) as cursor:
            result = _look(cursor, tables, sessions.targets)
            for table in tables:
                for verb, statement in (
                    ("changes", "update {table} set {owner} = {owner}"),
                    ("removes", "delete from {table}"),
                ):
                    query = sql.SQL(statement + " returning {owner}, null").format(**_names(table))
                    result[table][verb] = _attempt(cursor, query, by_tenant=True)
            yield stage, login, result


def _look(cursor: Cursor, tables: Sequence[str], known: dict[str, Target]) -> Result:
    return {table: {"sees": _rows(cursor, table), "adds": _adds(cursor, table, known)} for table in tables}


def _rows(cursor: Cursor, relation: str) -> Result:
    """Rows of a relation by tenant, and the tenants whose texts stand in them."""
    statement = sql.SQL("select to_jsonb(r) ->> 'tenant', r::text from {} r").format(_identifier(relation))
    return _attempt(cursor, statement, by_tenant=True)


def _adds(cursor: Cursor, table: str, known: dict[str, Target]) -> dict[str, str]:
    """What becomes of an insert for each tenant: its SQLSTATE, or `ok`."""
    return {
        tenant: _attempt(cursor, INSERTS[table], arguments(known, tenant))["state"]
        for tenant in ("acme", "northwind", "public", "nowhere")
    }


def arguments(known: dict[str, Target], tenant: str) -> dict[str, Any]:
    """Arguments of the statements, for a victim."""
    target = known.get(tenant, NOTHING)
    document_id, version = _DOCUMENT[tenant]
    place = {"tenant": tenant, "document_id": document_id, "version": version}
    return {
        **place,
        "length": target.length,
        "question_id": target.question_id,
        "packet_id": target.packet_id,
        "trace_id": target.trace_id,
        "claims": CLAIMS % place,
        "content": CONTENT % {"t": "x"},
        "documents": f'[{{"id": "{document_id}", "version": {version}, "body": "x", "applies_to": {{"kind": ["1"]}}}}]',
        "spans": f'[{{"document": "{document_id}", "version": {version}, "span": "s9", "fact": "known-issue",'
        ' "quote": "a", "occurrence": 1}]',
        "query": QUERY,
        "question": QUESTION,
        "case": json.dumps(CASE),
    }


def _attempt(
    cursor: Cursor, statement: str | sql.Composed, values: dict[str, Any] | None = None, *, by_tenant: bool = False
) -> Result:
    """Run a statement and take it back: what came of it."""
    try:
        cursor.execute(statement.encode() if isinstance(statement, str) else statement, values)
        rows = cursor.fetchall() if cursor.description else []
    except psycopg.Error as error:
        said = re.sub(r"(?<![\w-])(acme|nowhere)(?![\w-])", "<tenant>", everything(error))
        return {"state": error.sqlstate, "error": _scrub(said, values)}
    finally:
        cursor.execute("rollback to attempt")
    text = "\n".join(sorted(as_text(row) for row in rows))
    result: Result = {
        "state": "ok",
        "rows": len(rows),
        "texts": [tenant for tenant, marks in MARKS.items() if any(mark in text for mark in marks)],
    }
    if by_tenant:
        owners = [str(row[0]) for row in rows]
        result["rows"] = {tenant: owners.count(tenant) for tenant in sorted(set(owners))}
    else:
        result["digest"] = hashlib.sha256(_scrub(text, values).encode()).hexdigest()
    return result


def everything(error: psycopg.Error) -> str:
    """All that an error says to whoever gets it."""
    said = error.diag
    fields = (said.message_primary, said.message_detail, said.message_hint, said.column_name, said.table_name)
    return " | ".join(field for field in fields if field)


def as_text(value: Any) -> str:
    """A value as searchable text: bytes as the text they hold."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, tuple | list):
        return "|".join(as_text(item) for item in value)
    if isinstance(value, dict):
        return "|".join(f"{key}={as_text(item)}" for key, item in value.items())
    return str(value)


_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d(:\d\d)?)?"
)


def _scrub(text: str, values: dict[str, Any] | None) -> str:
    """Without the caller's own words, numbers of packets, and times: what is left must not tell victims apart."""
    for name in ("claims", "packet_id", "trace_id", "document_id", "question_id", "tenant"):
        if values is not None:
            text = re.sub(rf"(?<![\w-]){re.escape(str(values[name]))}(?![\w-])", f"<{name}>", text)
    return timeless(text)


def timeless(text: str) -> str:
    """Without the numbers of packets and traces, which are random, and without times."""
    return _CHANGING.sub("<changing>", text)


def _names(table: str) -> dict[str, sql.Identifier]:
    return {"table": _identifier(table), "owner": sql.Identifier(OWNER_COLUMNS.get(table, "tenant"))}


def _identifier(relation: str) -> sql.Identifier:
    return sql.Identifier(*relation.split("."))


def _more_facts(sessions: Sessions) -> Iterator[tuple[str, str, Result]]:
    """Changes, bindings."""
    for name, cursor in sessions.everyone():
        yield "writes", name, {table: _writes(cursor, table) for table in TABLES}
    for name, (login, tenant) in zip(SESSION_NAMES, SESSIONS, strict=True):
        yield "binding", name, {way: _bound(sessions, login, tenant, way) for way in BINDINGS}
        yield "binding", name, {way: _switched(sessions, login, tenant, way) for way in SWITCHES}


def _calls(sessions: Sessions, session: str, cursor: Cursor, function: str) -> dict[str, Result]:
    """A call of a function for each victim that is not the caller's own tenant, and for acme."""
    victims = ("acme", "nowhere", "northwind") if session.endswith(" as northwind") else ("acme", "nowhere")
    return {victim: _attempt(cursor, CALLS[function], arguments(sessions.targets, victim)) for victim in victims}


def _writes(cursor: Cursor, table: str) -> dict[str, str]:
    return {
        write: _attempt(cursor, sql.SQL(statement).format(**_names(table)))["state"]
        for write, statement in WRITES.items()
    }


def _bound(sessions: Sessions, login: str, tenant: str | None, way: str) -> Result:
    with sessions.look(login, tenant) as cursor:
        for statement in BINDINGS[way]:
            try:
                cursor.execute(statement)
            except psycopg.Error as error:
                return {"state": "refused", "error": error.sqlstate}
        cursor.execute("savepoint attempt")
        return _rows(cursor, "rag.version")


def _switched(sessions: Sessions, login: str, tenant: str | None, way: str) -> Result:
    with sessions.look(login, tenant) as cursor:
        return _attempt(cursor, SWITCHES[way], by_tenant=True)


# Changing the wall

#: Expressions over pg_policy: the statements that drop a policy, and that create it again as it is.
DROP_POLICY: LiteralString = "format('drop policy %I on %s', polname, polrelid::regclass)"
CREATE_POLICY: LiteralString = (
    "format('create policy %I on %s as %s for %s to %s%s%s', polname, polrelid::regclass,"
    " case when polpermissive then 'permissive' else 'restrictive' end,"
    " case polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update'"
    "  when 'd' then 'delete' else 'all' end,"
    " (select string_agg(case r when 0 then 'public' else r::regrole::text end, ', ') from unnest(polroles) r),"
    " ' using (' || pg_get_expr(polqual, polrelid) || ')',"
    " ' with check (' || pg_get_expr(polwithcheck, polrelid) || ')')"
)


@contextmanager
def _wide_open(admin: Connection, tables: Sequence[str]) -> Iterator[None]:
    """A careless administrator: tables readable and insertable by every reader, all rows."""
    for table in tables:
        admin.execute(
            sql.SQL(
                "create policy wide_select on {table} for select to public using (true);"
                "create policy wide_insert on {table} for insert to public with check (true);"
                "grant insert on {table} to rag_reader"
            ).format(table=_identifier(table))
        )
    try:
        yield
    finally:
        for table in tables:
            admin.execute(
                sql.SQL(
                    "drop policy wide_select on {table}; drop policy wide_insert on {table};"
                    "revoke insert on {table} from rag_reader"
                ).format(table=_identifier(table))
            )


@contextmanager
def without_policies(admin: Connection, tables: Sequence[str], condition: sql.Composable) -> Iterator[None]:
    """Drop the policies of tables for which a condition on pg_policy holds, and create them again."""
    dropped = admin.execute(
        sql.SQL(
            f"select {DROP_POLICY}, {CREATE_POLICY} from pg_policy where polrelid::regclass::text = any ({{}}) and {{}}"
        ).format(sql.Literal(list(tables)), condition)
    ).fetchall()
    for drop, _ in dropped:
        admin.execute(drop)
    try:
        yield
    finally:
        for _, create in dropped:
            admin.execute(create)
