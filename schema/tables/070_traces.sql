-- Traces: the record of one retrieval through the context that was handed over, and of the answer that came back.
--
-- A trace belongs to a packet, which has the question, the case, the contract, the method and what was selected. The trace
-- adds what came before (the candidates, with the reason why not) and after: the context, passage by passage, with the
-- label under which it was handed over or why it was not; the outcome on that context; then the answer, the labels that it
-- cites, and what an audit said of its sentences. Document text is never copied into a trace: it is there by reference.
--
-- What is kept of the query and of the answer is what the contract says (`keep`): their text, their SHA-256 or neither.
-- Traces are append-only. They end when the time is over for which their tenant keeps them (rag.tenant.trace_retention):
-- `rag-sql trace purge` removes them then, no earlier, and rag.trace_purge records that it did.
--
-- Written only by rag_api.record_trace and rag_api.record_answer, definer functions of rag_recorder.

-- A trace, or a part of one, ends when the time is over for which its tenant keeps traces; where the tenant says no time,
-- never. RS070 for one that goes earlier, whoever removes it.
create function rag.refuse_early_purge()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (
    select
    from rag.trace t
    join rag.tenant n on n.tenant = t.tenant
    where t.tenant = old.tenant and t.trace_id = old.trace_id and t.recorded_at < now() - n.trace_retention
  ) then
    raise exception using
      errcode = 'RS070',
      message = format('delete of %I.%I refused: the trace is kept', tg_table_schema, tg_table_name),
      hint = 'How long a tenant keeps traces is set with: rag-sql tenant retain; what is over then goes with: rag-sql trace purge';
  end if;
  return old;
end;
$$;
revoke all on function rag.refuse_early_purge from public;
comment on function rag.refuse_early_purge is 'Trigger: refuses to remove a trace that its tenant keeps (RS070).';

create table rag.trace (
  tenant text collate "C" not null,
  trace_id uuid not null default gen_random_uuid(),
  packet_id uuid not null,
  budget integer not null,
  neighbours integer not null,
  outcome text not null,
  missing text[] not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  query text,
  query_sha256 bytea,

  constraint trace_key primary key (tenant, trace_id),
  constraint trace_packet_exists foreign key (tenant, packet_id) references rag.packet (tenant, packet_id),
  constraint trace_budget_is_in_range check (budget between 1 and 10000000),
  constraint trace_neighbours_is_in_range check (neighbours between 0 and 10),
  constraint trace_outcome_is_known check (outcome in ('SufficientForTemplate', 'AskForEvidence', 'NeedsDecision'))
);
create index trace_by_packet on rag.trace (tenant, packet_id);
alter table rag.trace enable row level security;
alter table rag.trace force row level security;
alter table rag.trace
  alter column query set statistics 0,
  alter column query_sha256 set statistics 0,
  alter column packet_id set statistics 0,
  alter column budget set statistics 0,
  alter column neighbours set statistics 0,
  alter column outcome set statistics 0,
  alter column missing set statistics 0,
  alter column recorded_by set statistics 0;
create trigger trace_is_append_only
  before truncate on rag.trace
  for each statement execute function rag.refuse_change();
create trigger trace_changes_by_erasure
  before update on rag.trace
  for each row execute function rag.refuse_change_but_erasure('packet', 'query');
create trigger trace_is_kept
  before delete on rag.trace
  for each row execute function rag.refuse_early_purge();
comment on table rag.trace is 'Retrievals through the context that was handed over. Written by rag_api.record_trace only.';
comment on column rag.trace.packet_id is 'The packet that was decided: question, case, contract, method, selection.';
comment on column rag.trace.budget is 'Most tokens of the context, headings included.';
comment on column rag.trace.neighbours is 'How many passages before and after a selected one were added while the budget lasted.';
comment on column rag.trace.outcome is 'The outcome on the context: what was lost to the budget is missing.';
comment on column rag.trace.missing is 'Required facts without a witness in the context, in contract order.';
comment on column rag.trace.query is 'The query, where the contract keeps texts.';
comment on column rag.trace.query_sha256 is 'SHA-256 of the query''s UTF-8 bytes, where the contract keeps texts or digests.';

create table rag.trace_candidate (
  tenant text collate "C" not null,
  trace_id uuid not null,
  position integer not null,
  score integer not null,
  document_tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  range_start integer not null,
  eligible boolean not null,
  reason text,

  constraint trace_candidate_key primary key (tenant, trace_id, position),
  constraint trace_candidate_trace_exists foreign key (tenant, trace_id) references rag.trace (tenant, trace_id),
  constraint trace_candidate_is_visible check (document_tenant in ('public', tenant)),
  constraint trace_candidate_passage_exists foreign key (document_tenant, document_id, version, range_start)
    references rag.passage (tenant, document_id, version, range_start)
);
create index trace_candidate_by_passage on rag.trace_candidate (tenant, document_tenant, document_id, version, range_start);
alter table rag.trace_candidate enable row level security;
alter table rag.trace_candidate force row level security;
alter table rag.trace_candidate
  alter column score set statistics 0,
  alter column document_id set statistics 0,
  alter column eligible set statistics 0,
  alter column reason set statistics 0;
create trigger trace_candidate_is_append_only
  before update or truncate on rag.trace_candidate
  for each statement execute function rag.refuse_change();
create trigger trace_candidate_is_kept
  before delete on rag.trace_candidate
  for each row execute function rag.refuse_early_purge();
comment on table rag.trace_candidate is 'The best visible passages for the query of a trace, eligible or not, and why not.';
comment on column rag.trace_candidate.position is 'Rank among all visible passages, from 1.';

create table rag.trace_passage (
  tenant text collate "C" not null,
  trace_id uuid not null,
  position integer not null,
  label text,
  added_as text not null,
  left_out text,
  tokens integer not null,
  document_tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  range_start integer not null,

  constraint trace_passage_key primary key (tenant, trace_id, position),
  constraint trace_passage_trace_exists foreign key (tenant, trace_id) references rag.trace (tenant, trace_id),
  constraint trace_passage_is_visible check (document_tenant in ('public', tenant)),
  constraint trace_passage_passage_exists foreign key (document_tenant, document_id, version, range_start)
    references rag.passage (tenant, document_id, version, range_start),
  constraint trace_passage_added_as_is_known check (added_as in ('witness', 'selected', 'neighbour')),
  constraint trace_passage_left_out_is_known check (left_out in ('duplicate', 'over_budget')),
  constraint trace_passage_has_label_or_reason check ((label is null) <> (left_out is null))
);
create index trace_passage_by_passage on rag.trace_passage (tenant, document_tenant, document_id, version, range_start);
alter table rag.trace_passage enable row level security;
alter table rag.trace_passage force row level security;
alter table rag.trace_passage
  alter column document_id set statistics 0,
  alter column label set statistics 0,
  alter column added_as set statistics 0,
  alter column left_out set statistics 0;
create trigger trace_passage_is_append_only
  before update or truncate on rag.trace_passage
  for each statement execute function rag.refuse_change();
create trigger trace_passage_is_kept
  before delete on rag.trace_passage
  for each row execute function rag.refuse_early_purge();
comment on table rag.trace_passage is 'What became of each passage on the way into the context, in the order in which they were placed.';
comment on column rag.trace_passage.label is 'The label under which it was handed over: P1, P2, ...; null when it was not.';
comment on column rag.trace_passage.added_as is 'witness (it covers a required fact), selected, or neighbour (next to a selected one).';
comment on column rag.trace_passage.left_out is 'Why it was not handed over: duplicate (another has the same bytes) or over_budget.';
comment on column rag.trace_passage.tokens is 'Its tokens, headings included.';

create table rag.trace_answer (
  tenant text collate "C" not null,
  trace_id uuid not null,
  prompt_version text not null,
  model text not null,
  answer_sha256 bytea,
  citations text[] not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  answer text,
  verdict text,

  constraint trace_answer_key primary key (tenant, trace_id),
  constraint trace_answer_trace_exists foreign key (tenant, trace_id) references rag.trace (tenant, trace_id),
  constraint trace_answer_prompt_version_fits check (octet_length(prompt_version) between 1 and 200),
  constraint trace_answer_model_fits check (octet_length(model) between 1 and 200),
  constraint trace_answer_verdict_is_known check (verdict in (
    'contradicted', 'unsupported', 'unknown_citation', 'uncited', 'review', 'unchecked', 'no_finding'
  ))
);
alter table rag.trace_answer enable row level security;
alter table rag.trace_answer force row level security;
alter table rag.trace_answer
  alter column answer set statistics 0,
  alter column verdict set statistics 0,
  alter column prompt_version set statistics 0,
  alter column model set statistics 0,
  alter column answer_sha256 set statistics 0,
  alter column citations set statistics 0,
  alter column recorded_by set statistics 0;
create trigger trace_answer_is_append_only
  before truncate on rag.trace_answer
  for each statement execute function rag.refuse_change();
create trigger trace_answer_changes_by_erasure
  before update on rag.trace_answer
  for each row execute function rag.refuse_change_but_erasure('trace', 'answer', 'citations');
create trigger trace_answer_is_kept
  before delete on rag.trace_answer
  for each row execute function rag.refuse_early_purge();
comment on table rag.trace_answer is 'The answer that came back for a trace, and the labels it cites. Written by rag_api.record_answer only.';
comment on column rag.trace_answer.prompt_version is 'Version of the instructions that the model was given.';
comment on column rag.trace_answer.model is 'Identifier of the model, as the application states it.';
comment on column rag.trace_answer.answer is 'The answer, where the contract keeps texts.';
comment on column rag.trace_answer.answer_sha256 is 'SHA-256 of the answer''s UTF-8 bytes, where the contract keeps texts or digests.';
comment on column rag.trace_answer.verdict is 'What the audit says of the answer, the weightiest of its sentences; null where none was stated.';
comment on column rag.trace_answer.citations is 'Labels that the answer cites, in order, also those that nobody handed over.';

create table rag.trace_verdict (
  tenant text collate "C" not null,
  trace_id uuid not null,
  range_start integer not null,
  range_end integer not null,
  verdict text not null,
  checks text[] not null,

  constraint trace_verdict_key primary key (tenant, trace_id, range_start),
  constraint trace_verdict_answer_exists foreign key (tenant, trace_id) references rag.trace_answer (tenant, trace_id),
  constraint trace_verdict_range_is_valid check (0 <= range_start and range_start < range_end),
  constraint trace_verdict_is_known check (verdict in (
    'contradicted', 'unsupported', 'unknown_citation', 'uncited', 'review', 'unchecked', 'no_finding'
  ))
);
alter table rag.trace_verdict enable row level security;
alter table rag.trace_verdict force row level security;
alter table rag.trace_verdict
  alter column verdict set statistics 0,
  alter column checks set statistics 0;
create trigger trace_verdict_is_append_only
  before update or truncate on rag.trace_verdict
  for each statement execute function rag.refuse_change();
create trigger trace_verdict_is_kept
  before delete on rag.trace_verdict
  for each row execute function rag.refuse_early_purge();
comment on table rag.trace_verdict is
  'What an audit said of the sentences of an answer, by their place in it, as the application states it.';
comment on column rag.trace_verdict.range_start is 'First code point of the sentence in the answer, 0-based.';
comment on column rag.trace_verdict.range_end is 'Code point after the sentence''s last.';
comment on column rag.trace_verdict.checks is 'Names of the checks that found something.';

create table rag.trace_time (
  tenant text collate "C" not null,
  trace_id uuid not null,
  stage text not null,
  took interval not null,

  constraint trace_time_key primary key (tenant, trace_id, stage),
  constraint trace_time_trace_exists foreign key (tenant, trace_id) references rag.trace (tenant, trace_id),
  constraint trace_time_stage_is_known check (stage in ('context', 'candidates', 'answer', 'audit')),
  constraint trace_time_is_not_negative check (took >= interval '0')
);
alter table rag.trace_time enable row level security;
alter table rag.trace_time force row level security;
alter table rag.trace_time
  alter column stage set statistics 0,
  alter column took set statistics 0;
create trigger trace_time_is_append_only
  before update or truncate on rag.trace_time
  for each statement execute function rag.refuse_change();
create trigger trace_time_is_kept
  before delete on rag.trace_time
  for each row execute function rag.refuse_early_purge();
comment on table rag.trace_time is 'How long the stages of a trace took; the decision''s time is the packet''s.';
comment on column rag.trace_time.took is
  'As the server measured it for context and candidates, as the application states it for answer and audit.';

create table rag.trace_purge (
  tenant text collate "C" not null,
  purge_id uuid not null default gen_random_uuid(),
  recorded_before timestamptz not null,
  traces integer not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  constraint trace_purge_key primary key (tenant, purge_id),
  constraint trace_purge_tenant_exists foreign key (tenant) references rag.tenant (tenant)
);
alter table rag.trace_purge enable row level security;
alter table rag.trace_purge force row level security;
alter table rag.trace_purge
  alter column traces set statistics 0,
  alter column recorded_by set statistics 0;
create trigger trace_purge_is_append_only
  before update or delete or truncate on rag.trace_purge
  for each statement execute function rag.refuse_change();
comment on table rag.trace_purge is 'Removals of traces whose time was over. Written by a trigger of rag.trace only.';
comment on column rag.trace_purge.recorded_before is 'Traces recorded before this instant were removed.';
comment on column rag.trace_purge.traces is 'How many.';

-- Whoever removes traces: it is recorded.
create function rag.record_purge()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into rag.trace_purge (tenant, recorded_before, traces)
  select g.tenant, now() - n.trace_retention, count(*)
  from gone g
  join rag.tenant n on n.tenant = g.tenant
  group by g.tenant, n.trace_retention;
  return null;
end;
$$;
revoke all on function rag.record_purge from public;
comment on function rag.record_purge is 'Trigger: records which traces were removed, by tenant.';

create trigger trace_purge_is_recorded
  after delete on rag.trace
  referencing old table as gone
  for each statement execute function rag.record_purge();
