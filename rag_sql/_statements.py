"""Every statement that the client issues at run time: calls of ``rag_api``, by name, in named notation.

What administers a store, which no run-time login may, is in ``_install`` and ``_admin``.
"""

from __future__ import annotations

from sqlalchemy import TextClause, text

__all__: list[str] = []


def _statement(sql: str) -> TextClause:
    return text(sql)


TRANSACTION_IDENTITY = _statement("select login, backend_pid, begun_at from rag_api.transaction_identity()")

BIND = _statement("select rag_api.bind(p_tenant => :tenant)")

LOAD_DOCUMENTS = _statement(
    "select document_id, version, status, superseded_by, successors"
    " from rag_api.load_documents(p_documents => cast(:documents as jsonb))"
)

SAME_DOCUMENTS = _statement(
    "select position from rag_api.same_documents("
    "p_documents => cast(:documents as jsonb), p_body_sha256 => cast(:body_sha256 as bytea[])) as t(position)"
)

ADD_SPANS = _statement(
    "select document_id, version, span_id, status from rag_api.add_spans(p_spans => cast(:spans as jsonb))"
)

MISSING_EMBEDDINGS = _statement(
    "select document_id, version, range_start, text from rag_api.missing_embeddings("
    "p_model => :model, p_model_version => :model_version, p_limit => :limit)"
)

COUNT_MISSING_EMBEDDINGS = _statement(
    "select count(*) from rag_api.missing_embeddings("
    "p_model => :model, p_model_version => :model_version, p_limit => null)"
)

ADD_EMBEDDINGS = _statement(
    "select rag_api.add_embeddings(p_model => :model, p_model_version => :model_version,"
    " p_document_ids => cast(:document_ids as text[]), p_versions => cast(:versions as integer[]),"
    " p_range_starts => cast(:range_starts as integer[]), p_vectors => cast(:vectors as text[]))"
)

PROPOSITION_OCCURRENCES = _statement(
    "select fact_position, fact, proposition_position, quote, tenant, document_id, version, range_start, is_repeated,"
    " span_ids from rag_api.proposition_occurrences("
    "p_question_id => :question_id, p_contract_version => :contract_version)"
)

NEAREST_PASSAGE = _statement(
    "select score, tenant, document_id, version, range_start, range_end, text"
    " from rag_api.nearest_passage(p_quote => :quote, p_k => :k)"
)

CARRIABLE_SPANS = _statement(
    "select document_id, version, span_id, fact, quote, occurrence, new_version, obstacle, suggestion"
    " from rag_api.carriable_spans(p_document_ids => cast(:document_ids as text[]))"
)

IMPACT = _statement(
    "select since, until, valid_at, documents, spans, facts, packets"
    " from rag_api.impact(p_since => :since, p_until => :until, p_valid_at => :valid_at)"
)

WITHDRAW_VERSION = _statement(
    "select rag_api.withdraw_version(p_document_id => :document_id, p_version => :version,"
    " p_withdrawn_from => :withdrawn_from, p_note => :note)"
)

SUPERSEDE_DOCUMENT = _statement(
    "select rag_api.supersede_document(p_document_id => :document_id, p_successors => cast(:successors as text[]),"
    " p_superseded_from => :superseded_from, p_note => :note)"
)

HISTORY = _statement(
    "select tenant, document_id, version, status, title, effective_from, recorded_at, recorded_by, withdrawn_from,"
    " withdrawal_note, successions, spans_gained, spans_lost, case when cast(:bodies as boolean) then body end as body"
    " from rag_api.history(p_document_id => :document_id, p_valid_at => :valid_at, p_known_at => :known_at)"
)

SET_ATTRIBUTE = _statement("select rag_api.set_attribute(p_attribute => :attribute, p_type => :type)")

ATTRIBUTES = _statement(
    "select tenant, attribute, type, declared_by, recorded_at, recorded_by from rag_api.attribute"
    " where tenant = :tenant order by attribute"
)

ADD_CONTRACT = _statement(
    "select rag_api.add_contract(p_question_id => :question_id, p_version => :version,"
    " p_content => cast(:content as jsonb))"
)

_REQUEST = (
    "p_question_id => :question_id, p_query => :query, p_case_facts => cast(:case_facts as jsonb), p_k => :k,"
    " p_contract_version => :contract_version, p_valid_at => :valid_at, p_known_at => :known_at,"
    " p_method => :method, p_parameters => cast(:parameters as jsonb)"
)

DECIDE = _statement(
    "select outcome, question_id, contract_tenant, contract_version, contract_sha256, contract, case_facts, query, k,"
    " method, parameters, valid_at, known_at, required, missing, sources, witnesses, preimage, digest"
    " from rag_api.decide(" + _REQUEST + ")"
)

RECORD_PACKET = _statement(f"select rag_api.record_packet({_REQUEST})")

SEARCH = _statement(
    "select position, score, bm25_rank, vector_rank, tenant, document_id, version, range_start, range_end, title,"
    " heading_path, text, why from rag_api.search(p_query => :query, p_k => :k, p_method => :method,"
    " p_parameters => cast(:parameters as jsonb), p_case_facts => cast(:case_facts as jsonb),"
    " p_valid_at => :valid_at, p_known_at => :known_at, p_why => :why) order by position"
)

EXPLAIN = _statement(
    "select score, tenant, document_id, version, range_start, range_end, eligible, eligible_position, selected, reason,"
    " attribute, applies_to,"
    " case_value, effective_version, successors"
    " from rag_api.explain(" + _REQUEST + ")"
)

CHECK_CLAIMS = _statement(
    "select position, claim, verdict, reason from rag_api.check_claims("
    "p_contract_tenant => :contract_tenant, p_question_id => :question_id, p_contract_version => :contract_version,"
    " p_selection => array(select row(s.tenant, s.document_id, s.version, s.range_start, s.range_end)::rag.source_ref"
    " from jsonb_to_recordset(cast(:selection as jsonb)) as s(tenant text, document_id text, version integer,"
    " range_start integer, range_end integer)), p_claims => cast(:claims as jsonb),"
    " p_known_at => cast(:known_at as timestamptz)) order by position"
)

PACKET_DOCUMENT = _statement("select rag_api.packet_document(p_packet_id => cast(:packet_id as uuid))")

RECORD_TRACE = _statement(
    "select rag_api.record_trace(p_packet_id => cast(:packet_id as uuid), p_budget => :budget,"
    " p_neighbours => :neighbours, p_candidates => :candidates)"
)

RECORD_ANSWER = _statement(
    "select rag_api.record_answer(p_trace_id => cast(:trace_id as uuid), p_answer => :answer,"
    " p_citations => :citations, p_model => :model, p_prompt_version => :prompt_version,"
    " p_verdicts => cast(:verdicts as jsonb), p_answer_took => cast(:answer_took as interval),"
    " p_audit_took => cast(:audit_took as interval))"
)

CITE = _statement(
    "select label, tenant, document_id, version, range_start, range_end, title, url"
    " from rag_api.cite(p_trace_id => cast(:trace_id as uuid), p_labels => :labels)"
)

DIAGNOSE_TRACE = _statement(
    "select finding, tenant, document_id, version, range_start, label from rag_api.diagnose_trace("
    "p_trace_id => cast(:trace_id as uuid), p_required => array("
    "select row(p.tenant, p.document_id, p.version, p.range_start, p.range_end)::rag.source_ref"
    " from jsonb_to_recordset(cast(:required as jsonb)) as p(tenant text, document_id text, version integer,"
    " range_start integer, range_end integer)))"
)

DIAGNOSE_IDS = _statement(
    "select finding, id from rag_api.diagnose_ids(p_required => cast(:required as text[]),"
    " p_retrieved => cast(:retrieved as text[]), p_context => cast(:context as jsonb),"
    " p_citations => cast(:citations as text[]))"
)

PASSAGES_QUOTED = _statement(
    "select n.name, p.tenant, count(*) filter (where position(n.quote in p.text) > 0) as passages,"
    " min(p.range_start) filter (where position(n.quote in p.text) > 0) as range_start,"
    " min(p.range_end) filter (where position(n.quote in p.text) > 0) as range_end"
    " from jsonb_to_recordset(cast(:named as jsonb))"
    " as n(name text, tenant text, document_id text, version integer, quote text)"
    " join rag_api.passage p on p.document_id = n.document_id and p.version = n.version"
    " and p.tenant = coalesce(n.tenant, p.tenant) group by n.name, p.tenant order by n.name, p.tenant"
)

ELIGIBLE_AMONG = _statement(
    "select e.tenant, e.document_id, e.version"
    " from rag_api.eligibility(p_case_facts => cast(:case_facts as jsonb)) as e"
    " join (select distinct tenant, document_id, version from jsonb_to_recordset(cast(:places as jsonb))"
    " as p(tenant text, document_id text, version integer)) as p using (tenant, document_id, version)"
    " where e.eligible"
)

TRACES = _statement(
    "select trace_id::text, packet_id::text, question_id, outcome, missing, budget, model, prompt_version, citations,"
    " verdict, case_facts, k, query, answer, recorded_at, recorded_by from rag_api.trace"
    " where tenant = :tenant and (cast(:trace_id as uuid) is null or trace_id = cast(:trace_id as uuid))"
    " order by recorded_at desc, trace_id limit :limit"
)

TRACE_PASSAGES = _statement(
    "select label, added_as, left_out, tokens, document_tenant, document_id, version, range_start, range_end,"
    " heading_path, text from rag_api.trace_passage"
    " where tenant = :tenant and trace_id = cast(:trace_id as uuid) order by position"
)

TRACE_CANDIDATES = _statement(
    "select position, score, document_tenant, document_id, version, range_start, eligible, reason"
    " from rag_api.trace_candidate where tenant = :tenant and trace_id = cast(:trace_id as uuid) order by position"
)

TRACE_VERDICTS = _statement(
    "select range_start, range_end, verdict, checks, sentence from rag_api.trace_verdict"
    " where tenant = :tenant and trace_id = cast(:trace_id as uuid) order by range_start"
)

TRACE_TIMES = _statement(
    "select stage, took from rag_api.trace_time where tenant = :tenant and trace_id = cast(:trace_id as uuid)"
    " order by array_position(array['decision', 'context', 'candidates', 'answer', 'audit'], stage)"
)

REVIEW_PACKET = _statement(
    "select position, claim, verdict, reason, evidence_digest, draft_digest, shown_digest"
    " from rag_api.review_packet(p_packet_id => cast(:packet_id as uuid), p_claims => cast(:claims as jsonb))"
    " order by position"
)

APPROVE = _statement(
    "select rag_api.approve(p_packet_id => cast(:packet_id as uuid), p_claims => cast(:claims as jsonb),"
    " p_shown_digest => :shown_digest, p_decision => :decision, p_reviewer_name => :reviewer_name, p_note => :note)"
)

EVIDENCE_CHANGES = _statement(
    "select subject, was, is_now from rag_api.evidence_changes(p_packet_id => cast(:packet_id as uuid))"
)

REQUIRE_APPROVAL = _statement(
    "select packet_id::text, evidence_digest, draft_digest, shown_digest, decision_number, reviewer_login,"
    " reviewer_name, note, withheld, recorded_at"
    " from rag_api.require_approval(p_packet_id => cast(:packet_id as uuid), p_claims => cast(:claims as jsonb))"
)

CONTRACTS = _statement(
    "select tenant, question_id, version, is_newest, case_attributes, required_facts, decision, keep, content_sha256,"
    " recorded_at, recorded_by from rag_api.contract order by question_id, tenant, version"
)

CLAUSES = _statement(
    "select tenant, version, fact, quote, clause from rag_api.clause"
    " where question_id = :question_id order by tenant, version, fact_position, proposition_position, clause_position"
)

PACKETS = _statement(
    "select packet_id::text, question_id, outcome, digest, query, k, recorded_at, recorded_by, is_erased"
    " from rag_api.packet"
    " where tenant = :tenant order by recorded_at desc, packet_id limit :limit"
)

APPROVALS = _statement(
    "select packet_id::text, question_id, decision_number, decision, status, reviewer, note, recorded_at,"
    " evidence_digest, draft_digest from rag_api.approval_status"
    " order by recorded_at desc, packet_id, decision_number desc limit :limit"
)

CORPUS_FINGERPRINT = _statement("select rag_api.corpus_fingerprint()")

SPAN_CHECK = _statement(
    "select tenant, document_id, version, span_id, range_start, range_end, quote, found, expected_start"
    " from rag_api.span_check"
)

_GLOBAL_RANKING = (
    " from rag_api.global_ranking(p_tenant => :tenant, p_query => :query, p_case_facts => cast(:case_facts as jsonb))"
)

GLOBAL_RANKING = _statement(
    "select position, score, tenant, document_id, version, eligible, reason, attribute, applies_to, case_value"
    + _GLOBAL_RANKING
    + " order by position"
)

TAKE_THEN_FILTER = _statement(
    "select document_id" + _GLOBAL_RANKING + " where position <= :k and eligible order by position"
)
