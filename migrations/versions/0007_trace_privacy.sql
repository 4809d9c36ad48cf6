-- What traces keep and how long: a contract says what of queries and answers, a tenant for how long; what an audit said of an
-- answer and how long each stage took stand in the trace. What stands is kept without end and without its query, as before.
-- And a proposition has a letter or a digit: one without stands in any document.

create or replace function rag.contract_problems(
  p_content jsonb
)
  returns table (path text, problem text)
  language sql
  immutable
  parallel safe
begin atomic
  with attribute as (
    select 'case.' || (i - 1) as path, v as value
    from jsonb_array_elements(case when jsonb_typeof(p_content -> 'case') = 'array' then p_content -> 'case' else '[]' end)
      with ordinality as a(v, i)
  ), fact as (
    select 'facts.' || (i - 1) as path, v as value
    from jsonb_array_elements(case when jsonb_typeof(p_content -> 'facts') = 'array' then p_content -> 'facts' else '[]' end)
      with ordinality as f(v, i)
  ), proposition as (
    select f.path as fact_path, f.path || '.propositions.' || (i - 1) as path, v as value
    from fact f, jsonb_array_elements(
      case when jsonb_typeof(f.value -> 'propositions') = 'array' then f.value -> 'propositions' else '[]' end
    ) with ordinality as p(v, i)
  ), clause as (
    select p.path as proposition_path, p.path || '.clauses.' || (i - 1) as path, v as value
    from proposition p, jsonb_array_elements(
      case when jsonb_typeof(p.value -> 'clauses') = 'array' then p.value -> 'clauses' else '[]' end
    ) with ordinality as c(v, i)
  ), decision as (
    select p_content -> 'decision' as value
    where jsonb_typeof(p_content) = 'object' and p_content ? 'decision'
  ), statement as (
    select 'decision.never_say.' || (i - 1) as path, v as value
    from decision d, jsonb_array_elements(
      case when jsonb_typeof(d.value -> 'never_say') = 'array' then d.value -> 'never_say' else '[]' end
    ) with ordinality as s(v, i)
  ), name as (  -- every text of the contract, with what it must be unique among
    select path, value, 'case' as scope, 200 as most from attribute
    union all select 'decision.' || k, d.value -> k, k, 1048576
      from decision d, unnest(array['about', 'decided_by', 'refer']) as k
      where jsonb_typeof(d.value) = 'object'
    union all select path, value, 'never_say', 1048576 from statement
    union all select path || '.fact', value -> 'fact', 'facts', 200 from fact
    union all select path || '.quote', value -> 'quote', fact_path, 1048576 from proposition
    union all select path, value, proposition_path, 1048576 from clause
  )
  select '', 'a contract is a mapping with the keys case and facts, and decision and keep where they are needed'
    where jsonb_typeof(p_content) is distinct from 'object'
  union all
  select k, 'unknown key; a contract has case and facts, and decision and keep where they are needed'
    from jsonb_object_keys(case when jsonb_typeof(p_content) = 'object' then p_content else '{}' end) as k
    where k not in ('case', 'facts', 'decision', 'keep')
  union all
  select 'case', 'must be a list of attribute names (it may be empty)'
    where jsonb_typeof(p_content) = 'object' and jsonb_typeof(p_content -> 'case') is distinct from 'array'
  union all
  select 'facts', 'must be a list of at least one fact'
    where jsonb_typeof(p_content) = 'object' and not exists (select from fact)
  union all
  select path || '.propositions', 'must be a list of at least one proposition'
    from fact f where not exists (select from proposition p where p.fact_path = f.path)
  union all
  select path || '.clauses', 'must be a list of at least one licensed clause'
    from proposition p where not exists (select from clause c where c.proposition_path = p.path)
  union all
  select f.path || '.' || k, 'unknown key; a fact has fact and propositions'
    from fact f, jsonb_object_keys(case when jsonb_typeof(f.value) = 'object' then f.value else '{}' end) as k
    where k not in ('fact', 'propositions')
  union all
  select p.path || '.' || k, 'unknown key; a proposition has quote and clauses'
    from proposition p, jsonb_object_keys(case when jsonb_typeof(p.value) = 'object' then p.value else '{}' end) as k
    where k not in ('quote', 'clauses')
  union all
  select 'decision', 'must be a mapping with about, decided_by, refer and never_say'
    from decision d where jsonb_typeof(d.value) <> 'object'
  union all
  select 'decision.' || k, 'unknown key; a decision has about, decided_by, refer and never_say'
    from decision d, jsonb_object_keys(case when jsonb_typeof(d.value) = 'object' then d.value else '{}' end) as k
    where k not in ('about', 'decided_by', 'refer', 'never_say')
  union all
  select 'decision.never_say', 'must be a list of at least one sentence that would state the decision'
    from decision d where jsonb_typeof(d.value) = 'object' and not exists (select from statement)
  union all
  -- A space or a dash stands in every document: a clause that rests on it would be licensed by any of them.
  select path || '.quote', 'must have a letter or a digit'
    from proposition where value ->> 'quote' <> '' and value ->> 'quote' !~ '\w'
  union all
  select 'keep', 'must be text, digest or none: what traces keep of queries and answers'
    where jsonb_typeof(p_content) = 'object' and p_content ? 'keep'
      and p_content -> 'keep' not in ('"text"', '"digest"', '"none"')
  union all
  select c.path, 'states the decision that documents cannot make (decision.never_say)'
    from clause c join statement s on s.value = c.value
  union all
  select path, format('must be a text of 1 to %s bytes', most)
    from name
    where jsonb_typeof(value) is distinct from 'string'
      or octet_length(value #>> '{}') not between 1 and most
  union all
  select path, 'must have no control characters and no outer spaces'
    from name
    where scope in ('case', 'facts')
      and jsonb_typeof(value) = 'string'
      and (value #>> '{}' ~ '[[:cntrl:]]' or value #>> '{}' <> btrim(value #>> '{}'))
  union all
  select max(path), format('stands more than once: %s', value #>> '{}')
    from name where jsonb_typeof(value) = 'string'
    group by scope, value having count(*) > 1;
end;

create or replace function rag.contract_preimage(
  p_content jsonb
)
  returns bytea
  language sql
  immutable
  strict
  parallel safe
begin atomic
  select rag.field(rag.utf8(
      case
        when p_content ? 'keep' then 'rag-sql contract 3'
        when p_content ? 'decision' then 'rag-sql contract 2'
        else 'rag-sql contract 1'
      end
    ))
    || rag.field(int8send(jsonb_array_length(p_content -> 'case')))
    || coalesce((
      select string_agg(rag.field(rag.utf8(a)), ''::bytea order by a collate "C")
      from jsonb_array_elements_text(p_content -> 'case') as a
    ), ''::bytea)
    || rag.field(int8send(jsonb_array_length(p_content -> 'facts')))
    || (
      select string_agg(
        rag.field(rag.utf8(f ->> 'fact'))
        || rag.field(int8send(jsonb_array_length(f -> 'propositions')))
        || (
          select string_agg(
            rag.field(rag.utf8(p ->> 'quote'))
            || rag.field(int8send(jsonb_array_length(p -> 'clauses')))
            || (
              select string_agg(rag.field(rag.utf8(c)), ''::bytea order by k)
              from jsonb_array_elements_text(p -> 'clauses') with ordinality as cc(c, k)
            ), ''::bytea order by j)
          from jsonb_array_elements(f -> 'propositions') with ordinality as pp(p, j)
        ), ''::bytea order by i)
      from jsonb_array_elements(p_content -> 'facts') with ordinality as ff(f, i)
    )
    || case when p_content ? 'keep'
      then rag.field(int8send(case when p_content ? 'decision' then 1 else 0 end)) else ''::bytea end
    || case when p_content ? 'decision' then (
      select rag.field(rag.utf8(d ->> 'about')) || rag.field(rag.utf8(d ->> 'decided_by')) || rag.field(rag.utf8(d ->> 'refer'))
        || rag.field(int8send(jsonb_array_length(d -> 'never_say')))
        || (
          select string_agg(rag.field(rag.utf8(s)), ''::bytea order by i)
          from jsonb_array_elements_text(d -> 'never_say') with ordinality as ss(s, i)
        )
      from (select p_content -> 'decision' as d) as decision
    ) else ''::bytea end
    || case when p_content ? 'keep' then rag.field(rag.utf8(p_content ->> 'keep')) else ''::bytea end;
end;

alter table rag.tenant
  add column trace_retention interval,
  add constraint tenant_trace_retention_is_positive check (trace_retention > interval '0');
comment on column rag.tenant.trace_retention is 'How long traces are kept; null: without end.';

alter table rag.packet add column decision_took interval;
comment on column rag.packet.decision_took is 'How long the server took to decide; null for a packet from before this was measured.';

alter table rag.trace
  add column query text,
  add column query_sha256 bytea;
alter table rag.trace
  alter column query set statistics 0,
  alter column query_sha256 set statistics 0;
comment on column rag.trace.query is 'The query, where the contract keeps texts.';
comment on column rag.trace.query_sha256 is 'SHA-256 of the query''s UTF-8 bytes, where the contract keeps texts or digests.';

alter table rag.trace_answer
  alter column answer_sha256 drop not null,
  add column answer text,
  add column verdict text,
  add constraint trace_answer_verdict_is_known check (verdict in (
    'contradicted', 'unsupported', 'unknown_citation', 'uncited', 'review', 'unchecked', 'no_finding'
  ));
alter table rag.trace_answer
  alter column answer set statistics 0,
  alter column verdict set statistics 0;
comment on table rag.trace_answer is 'The answer that came back for a trace, and the labels it cites. Written by rag_api.record_answer only.';
comment on column rag.trace_answer.answer is 'The answer, where the contract keeps texts.';
comment on column rag.trace_answer.answer_sha256 is 'SHA-256 of the answer''s UTF-8 bytes, where the contract keeps texts or digests.';
comment on column rag.trace_answer.verdict is 'What the audit says of the answer, the weightiest of its sentences; null where none was stated.';

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

drop trigger trace_is_append_only on rag.trace;
create trigger trace_is_append_only
  before update or truncate on rag.trace
  for each statement execute function rag.refuse_change();
create trigger trace_is_kept
  before delete on rag.trace
  for each row execute function rag.refuse_early_purge();
drop trigger trace_candidate_is_append_only on rag.trace_candidate;
create trigger trace_candidate_is_append_only
  before update or truncate on rag.trace_candidate
  for each statement execute function rag.refuse_change();
create trigger trace_candidate_is_kept
  before delete on rag.trace_candidate
  for each row execute function rag.refuse_early_purge();
drop trigger trace_passage_is_append_only on rag.trace_passage;
create trigger trace_passage_is_append_only
  before update or truncate on rag.trace_passage
  for each statement execute function rag.refuse_change();
create trigger trace_passage_is_kept
  before delete on rag.trace_passage
  for each row execute function rag.refuse_early_purge();
drop trigger trace_answer_is_append_only on rag.trace_answer;
create trigger trace_answer_is_append_only
  before update or truncate on rag.trace_answer
  for each statement execute function rag.refuse_change();
create trigger trace_answer_is_kept
  before delete on rag.trace_answer
  for each row execute function rag.refuse_early_purge();

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
