-- Traces: the record of one retrieval through the context that was handed over, and of the answer that came back.
--
-- A trace belongs to a packet, which has the question, the case, the contract, the method and what was selected. The trace
-- adds what came before (the candidates, with the reason why not) and after: the context, passage by passage, with the
-- label under which it was handed over or why it was not; the outcome on that context; then the answer's digest and the
-- labels that it cites. Document text is never copied into a trace, nor is an answer's: both are there by reference or by
-- digest.
--
-- Written only by rag_api.record_trace and rag_api.record_answer, definer functions of rag_recorder.

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
  alter column packet_id set statistics 0,
  alter column budget set statistics 0,
  alter column neighbours set statistics 0,
  alter column outcome set statistics 0,
  alter column missing set statistics 0,
  alter column recorded_by set statistics 0;
create trigger trace_is_append_only
  before update or delete or truncate on rag.trace
  for each statement execute function rag.refuse_change();
comment on table rag.trace is 'Retrievals through the context that was handed over. Written by rag_api.record_trace only.';
comment on column rag.trace.packet_id is 'The packet that was decided: question, case, contract, method, selection.';
comment on column rag.trace.budget is 'Most tokens of the context, headings included.';
comment on column rag.trace.neighbours is 'How many passages before and after a selected one were added while the budget lasted.';
comment on column rag.trace.outcome is 'The outcome on the context: what was lost to the budget is missing.';
comment on column rag.trace.missing is 'Required facts without a witness in the context, in contract order.';

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
  before update or delete or truncate on rag.trace_candidate
  for each statement execute function rag.refuse_change();
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
  before update or delete or truncate on rag.trace_passage
  for each statement execute function rag.refuse_change();
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
  answer_sha256 bytea not null,
  citations text[] not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  constraint trace_answer_key primary key (tenant, trace_id),
  constraint trace_answer_trace_exists foreign key (tenant, trace_id) references rag.trace (tenant, trace_id),
  constraint trace_answer_prompt_version_fits check (octet_length(prompt_version) between 1 and 200),
  constraint trace_answer_model_fits check (octet_length(model) between 1 and 200)
);
alter table rag.trace_answer enable row level security;
alter table rag.trace_answer force row level security;
alter table rag.trace_answer
  alter column prompt_version set statistics 0,
  alter column model set statistics 0,
  alter column answer_sha256 set statistics 0,
  alter column citations set statistics 0,
  alter column recorded_by set statistics 0;
create trigger trace_answer_is_append_only
  before update or delete or truncate on rag.trace_answer
  for each statement execute function rag.refuse_change();
comment on table rag.trace_answer is 'The answer that came back for a trace, by digest, and the labels it cites. Written by rag_api.record_answer only.';
comment on column rag.trace_answer.prompt_version is 'Version of the instructions that the model was given.';
comment on column rag.trace_answer.model is 'Identifier of the model, as the application states it.';
comment on column rag.trace_answer.answer_sha256 is 'SHA-256 of the answer''s UTF-8 bytes.';
comment on column rag.trace_answer.citations is 'Labels that the answer cites, in order, also those that nobody handed over.';
