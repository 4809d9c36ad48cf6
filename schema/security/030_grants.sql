-- Grants on tables. Everything is taken away first, so that what stands here is what there is.
--
-- Inserts are granted column by column: what the database derives (offsets, lengths, hashes, words, who and when)
-- appears in no list. Nobody is granted update, delete, truncate, references or trigger.

set local role rag_owner;

revoke all on all tables in schema rag, rag_auth, rag_index
  from public, rag_binder, rag_search, rag_recorder, rag_reader, rag_curator, rag_publisher, rag_reviewer, rag_auditor;

grant select on rag_auth.membership, rag_auth.signing_key, rag.tenant to rag_binder;

grant select on
  rag.tenant, rag.attribute, rag.version, rag.passage, rag.withdrawal, rag.succession, rag.span, rag.erasure, rag.contract,
  rag.packet, rag.packet_source, rag.packet_span, rag.approval,
  rag.trace, rag.trace_candidate, rag.trace_passage, rag.trace_answer, rag.trace_verdict, rag.trace_time, rag.trace_purge,
  rag.embedding_model
  to rag_reader, rag_auditor;

-- Which migration the tables stand at; no tenant's data.
grant select on rag.alembic_version to rag_reader, rag_auditor;

grant insert (tenant, attribute, type)
  on rag.attribute to rag_curator, rag_publisher;
grant insert (
  tenant, document_id, version, title, body, applies_to, effective_from, published, source, metadata, outline, language
)
  on rag.version to rag_curator, rag_publisher;
grant insert (tenant, document_id, version, withdrawn_from, note)
  on rag.withdrawal to rag_curator, rag_publisher;
grant insert (tenant, document_id, successor_id, superseded_from, note)
  on rag.succession to rag_curator, rag_publisher;
grant insert (tenant, document_id, version, span_id, fact, quote, occurrence)
  on rag.span to rag_curator, rag_publisher;
grant insert (tenant, question_id, version, content)
  on rag.contract to rag_curator, rag_publisher;
grant insert (tenant, model, model_version, dimension)
  on rag.embedding_model to rag_curator, rag_publisher;

grant insert (tenant, document_id, version, range_start, range_end, heading_path, tokens, text, text_sha256, words)
  on rag.passage to rag_recorder;
grant insert (tenant, scope_id, applies_to, attributes) on rag_index.scope to rag_recorder;
grant insert (tenant, attribute, type, first_key, end_key, scope_id) on rag_index.scope_value to rag_recorder;
-- A type that is declared is a type of what is stored already.
grant select (tenant, scope_id, applies_to) on rag_index.scope to rag_recorder;
grant insert (
  tenant, segment_id, language, passages, lengths, scope_ids, scope_starts, recorded_last, used_from
) on rag_index.segment to rag_recorder;
grant insert (tenant, segment_id, word, passages, entries, most, shortest) on rag_index.posting to rag_recorder;
grant insert (
  tenant, document_id, version, segment_id, first_ordinal, range_ends, effective_from, recorded_at
) on rag_index.version to rag_recorder;
grant insert (tenant) on rag_index.turn to rag_recorder;
-- Derived, not evidence: until when a version is in use becomes known, and loads take turns.
grant select, update (used_until) on rag_index.version to rag_recorder;
grant select, update (turns) on rag_index.turn to rag_recorder;

grant select on rag_index.scope, rag_index.scope_value, rag_index.segment, rag_index.posting, rag_index.version to rag_search;
grant select (tenant, document_id, version, range_start, range_end, words) on rag.passage to rag_search;
grant select (tenant, document_id, version, withdrawn_from, recorded_at) on rag.withdrawal to rag_search;
grant select (tenant, document_id, superseded_from, recorded_at) on rag.succession to rag_search;

grant insert (
  tenant, outcome, question_id, contract_tenant, contract_version, contract_pinned, case_facts, query, k, method,
  valid_at, known_at, required, missing, preimage, decision_took, parameters
) on rag.packet to rag_recorder;
grant insert (tenant, packet_id, position, score, document_tenant, document_id, version, range_start, range_end)
  on rag.packet_source to rag_recorder;
grant insert (tenant, packet_id, position, document_tenant, document_id, version, span_id)
  on rag.packet_span to rag_recorder;
grant insert (
  tenant, evidence_digest, draft_digest, decision_number, packet_id, shown_digest, decision, claims,
  reviewer_name, note
) on rag.approval to rag_recorder;
grant insert (tenant, trace_id, packet_id, budget, neighbours, outcome, missing, query, query_sha256)
  on rag.trace to rag_recorder;
grant insert (
  tenant, trace_id, position, score, document_tenant, document_id, version, range_start, eligible, reason
) on rag.trace_candidate to rag_recorder;
grant insert (
  tenant, trace_id, position, label, added_as, left_out, tokens, document_tenant, document_id, version, range_start
) on rag.trace_passage to rag_recorder;
grant insert (tenant, trace_id, prompt_version, model, answer_sha256, citations, answer, verdict)
  on rag.trace_answer to rag_recorder;
grant insert (tenant, trace_id, range_start, range_end, verdict, checks) on rag.trace_verdict to rag_recorder;
grant insert (tenant, trace_id, stage, took) on rag.trace_time to rag_recorder;

grant select on rag.embedding_model, rag_index.bucket, rag_index.embedding to rag_search;
grant insert (tenant, model, model_version) on rag_index.bucket to rag_search;
grant insert (bucket, tenant, model, model_version, document_id, version, range_start, embedding)
  on rag_index.embedding to rag_search;

-- The reserved tenant. Here and not in tables/, because only the policies let even the owner write.
insert into rag.tenant (tenant) values ('public') on conflict do nothing;

reset role;
