-- Traces: assembling and recording what is handed to a model. What comes back is recorded in 115_answers, and where
-- evidence was lost is found in 116_diagnosis.
--
--   record_trace     assembles the context of a packet, records it passage by passage, returns it for the model

set local role rag_owner;
grant create on schema rag_api to rag_recorder;

create view rag_api.trace with (security_invoker = true) as
  select
    t.tenant, t.trace_id, t.packet_id, p.question_id, t.outcome, t.missing, t.budget, t.neighbours,
    a.model, a.prompt_version, a.citations, a.verdict, t.recorded_at, t.recorded_by, a.recorded_at as answered_at,
    p.contract_tenant, p.contract_version, p.case_facts, p.k, p.method, p.valid_at, p.known_at,
    encode(t.query_sha256, 'hex') as query_sha256, encode(a.answer_sha256, 'hex') as answer_sha256, t.query, a.answer
  from rag.trace t
  join rag.packet p on p.tenant = t.tenant and p.packet_id = t.packet_id
  left join rag.trace_answer a on a.tenant = t.tenant and a.trace_id = t.trace_id;
grant select on rag_api.trace to rag_reader, rag_auditor;
comment on view rag_api.trace is
  'Retrievals: what was asked and decided, the outcome on the context that was handed over, the answer and its verdict.';

create view rag_api.trace_verdict with (security_invoker = true) as
  select
    v.tenant, v.trace_id, v.range_start, v.range_end, v.verdict, v.checks,
    substr(a.answer, v.range_start + 1, v.range_end - v.range_start) as sentence
  from rag.trace_verdict v
  join rag.trace_answer a on a.tenant = v.tenant and a.trace_id = v.trace_id;
grant select on rag_api.trace_verdict to rag_reader, rag_auditor;
comment on view rag_api.trace_verdict is 'What an audit said of the sentences of answers, by their place; the sentence where texts are kept.';

create view rag_api.trace_time with (security_invoker = true) as
  select t.tenant, t.trace_id, 'decision' as stage, p.decision_took as took
  from rag.trace t
  join rag.packet p on p.tenant = t.tenant and p.packet_id = t.packet_id
  union all
  select t.tenant, t.trace_id, t.stage, t.took
  from rag.trace_time t;
grant select on rag_api.trace_time to rag_reader, rag_auditor;
comment on view rag_api.trace_time is
  'How long each stage took: decision, context, candidates (as the server measured), answer, audit (as the application says).';

create view rag_api.trace_purge with (security_invoker = true) as
  select p.tenant, p.recorded_before, p.traces, p.recorded_at, p.recorded_by
  from rag.trace_purge p;
grant select on rag_api.trace_purge to rag_reader, rag_auditor;
comment on view rag_api.trace_purge is 'Removals of traces whose time was over: how many, and recorded before when.';

create view rag_api.trace_candidate with (security_invoker = true) as
  select
    c.tenant, c.trace_id, c.position, c.score, c.document_tenant, c.document_id, c.version, c.range_start, c.eligible, c.reason
  from rag.trace_candidate c;
grant select on rag_api.trace_candidate to rag_reader, rag_auditor;
comment on view rag_api.trace_candidate is 'The best visible passages for the query of a trace, and why one may not be used.';

create view rag_api.trace_passage with (security_invoker = true) as
  select
    c.tenant, c.trace_id, c.position, c.label, c.added_as, c.left_out, c.tokens, c.document_tenant, c.document_id, c.version,
    p.range_start, p.range_end, p.heading_path, p.text
  from rag.trace_passage c
  join rag_api.passage p
    on p.tenant = c.document_tenant
    and p.document_id = c.document_id
    and p.version = c.version
    and p.range_start = c.range_start;
grant select on rag_api.trace_passage to rag_reader, rag_auditor;
comment on view rag_api.trace_passage is
  'What became of each passage of a trace: handed over under a label, or left out and why. The text is the document''s.';

-- A trace of the bound tenant; RS002 when none is bound, RS054 when there is no such trace or it is another tenant's.
create function rag_api._trace(
  p_trace_id uuid
)
  returns rag.trace
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_trace rag.trace;
begin
  select t.* into v_trace from rag.trace t where t.tenant = v_tenant and t.trace_id = p_trace_id;
  if not found then
    raise exception using
      errcode = 'RS054',
      message = format('there is no trace %s', coalesce(p_trace_id::text, 'null'));
  end if;
  return v_trace;
end;
$$;
revoke all on function rag_api._trace from public;
grant execute on function rag_api._trace to rag_reader;
comment on function rag_api._trace is 'Private: a trace of the bound tenant; RS002, RS054.';

-- What the contract of a packet has traces keep of queries and answers: text, digest or none.
create function rag_api._kept(
  p_packet_id uuid
)
  returns text
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_packet constant rag.packet := rag_api._packet(p_packet_id);
begin
  return (
    select coalesce(c.content ->> 'keep', 'digest')
    from rag.contract c
    where c.tenant = v_packet.contract_tenant
      and c.question_id = v_packet.question_id
      and c.version = v_packet.contract_version
  );
end;
$$;
revoke all on function rag_api._kept from public;
grant execute on function rag_api._kept to rag_reader;
comment on function rag_api._kept is 'Private: what traces of a packet keep of its query and of answers; RS002, RS050.';

set local role rag_recorder;

-- Assembles the context of a packet, records the trace, and returns what is to be handed to the model:
--   {"trace_id", "packet_id", "outcome", "missing", "context": [{"label", "added_as", "tenant", "document_id", "version",
--    "range_start", "range_end", "heading_path", "text"}]}
-- The outcome is that on the context. p_candidates says how many of the best visible passages are recorded with the reason
-- why they may not be used.
--
-- A definer function of rag_recorder, because no run-time role may insert a trace. RS002, RS050; RS010 for an argument
-- out of range; RS057 when a selected version is not current now, such as one that was withdrawn since; RS063 when one was
-- erased.
create function rag_api.record_trace(
  p_packet_id uuid,
  p_budget integer default 2000,
  p_neighbours integer default 1,
  p_candidates integer default 50
)
  returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_packet constant rag.packet := rag_api._packet(p_packet_id);
  v_words constant text[] := rag.words(v_packet.query);
  v_kept constant text := rag_api._kept(p_packet_id);
  v_trace_id constant uuid := gen_random_uuid();
  v_began timestamptz := clock_timestamp();
  v_context_took interval;
  v_missing text[];
  v_outdated text;
  v_outcome text;
  v_document jsonb;
begin
  if p_budget is null or p_budget not between 1 and 10000000
    or p_neighbours is null or p_neighbours not between 0 and 10
    or p_candidates is null or p_candidates not between 0 and 1000
  then
    raise exception using
      errcode = 'RS010',
      message = 'the budget must be from 1 to 10000000 tokens, neighbours from 0 to 10, candidates from 0 to 1000';
  end if;

  -- What was erased, withdrawn or superseded since is handed to nobody.
  perform rag_api._check_evidence(p_packet_id);
  select string_agg(format('"%s" version %s (%s)', s.document_id, s.version, s.document_tenant), ', ' order by s.position)
  into v_outdated
  from rag.packet_source s
  where s.tenant = v_packet.tenant
    and s.packet_id = p_packet_id
    and (
      -- A query of its own for each document: the status of one costs nothing, that of all is a scan.
      select v.status from rag_api.version_status() as v
      where v.tenant = s.document_tenant and v.document_id = s.document_id and v.version = s.version
    ) is distinct from 'current';
  if v_outdated is not null then
    raise exception using
      errcode = 'RS057',
      message = format('packet %s rests on what is not current any more', p_packet_id),
      detail = v_outdated,
      hint = 'Decide again and record the new packet.';
  end if;

  with context as materialized (
    select
      c.position, c.label, c.added_as, c.left_out, c.tokens, c.tenant, c.document_id, c.version, c.range_start, c.range_end
    from rag_api._context(v_packet.tenant, p_packet_id, p_budget, p_neighbours) as c
  ), coverage as materialized (
    select rag_api._missing_in_context(v_packet.tenant, p_packet_id, array(
      select (c.tenant, c.document_id, c.version, c.range_start, c.range_end)::rag.source_ref
      from context c
      where c.label is not null
    )) as missing
  ), trace as (
    insert into rag.trace (tenant, trace_id, packet_id, budget, neighbours, outcome, missing, query, query_sha256)
    select
      v_packet.tenant, v_trace_id, p_packet_id, p_budget, p_neighbours,
      case when cardinality(o.missing) > 0 then 'AskForEvidence' else v_packet.outcome end,
      o.missing,
      case when v_kept = 'text' then v_packet.query end,
      case when v_kept in ('text', 'digest') then sha256(rag.utf8(v_packet.query)) end
    from coverage o
    returning outcome, missing
  ), passage as (
    insert into rag.trace_passage
      (tenant, trace_id, position, label, added_as, left_out, tokens, document_tenant, document_id, version, range_start)
    select
      v_packet.tenant, v_trace_id, c.position, c.label, c.added_as, c.left_out, c.tokens, c.tenant, c.document_id,
      c.version, c.range_start
    from context c
  )
  select t.outcome, t.missing into v_outcome, v_missing
  from trace t;
  v_context_took := clock_timestamp() - v_began;
  v_began := clock_timestamp();

  insert into rag.trace_candidate
    (tenant, trace_id, position, score, document_tenant, document_id, version, range_start, eligible, reason)
  select
    v_packet.tenant, v_trace_id, c.position, c.score, c.tenant, c.document_id, c.version, c.range_start, c.eligible, c.reason
  from (
    -- As rag_api.candidates ranks, but the best first and then why they may not be used: few of all are looked at twice.
    select
      row_number() over (
        order by a.score desc, a.document_id collate "C", a.tenant collate "C", a.version, a.range_start
      )::integer as position,
      a.score, a.tenant, a.document_id, a.version, a.range_start, e.eligible, e.reason
    from (
      select s.score, s.tenant, s.document_id, s.version, s.range_start
      from (
        (
          select
            length(p.words) - length(ts_delete(p.words, v_words)) as score,
            p.tenant, p.document_id, p.version, p.range_start
          from rag_api.passage p
          where v_packet.method = 'overlap'
          offset 0  -- or the score is computed again wherever it is named
        )
        union all
        select r.score, r.tenant, r.document_id, r.version, r.range_start
        from rag_api._ranked(
          v_packet.query, v_packet.case_facts, p_candidates, v_packet.valid_at, v_packet.known_at,
          v_packet.method, v_packet.parameters, true, false, true) as r
        where v_packet.method <> 'overlap'
      ) as s
      join rag.version v
        on v.tenant = s.tenant collate "C" and v.document_id = s.document_id collate "C" and v.version = s.version
      where s.score >= 1 and v.recorded_at <= v_packet.known_at
      order by s.score desc, s.document_id collate "C", s.tenant collate "C", s.version, s.range_start
      limit p_candidates
    ) as a
    cross join lateral (
      select i.eligible, i.reason
      from rag_api.eligibility(v_packet.case_facts, v_packet.valid_at, v_packet.known_at) as i
      where i.tenant = a.tenant and i.document_id = a.document_id and i.version = a.version
      offset 0  -- or every version's status is derived
    ) as e
  ) as c;
  insert into rag.trace_time (tenant, trace_id, stage, took)
  values
    (v_packet.tenant, v_trace_id, 'context', v_context_took),
    (v_packet.tenant, v_trace_id, 'candidates', clock_timestamp() - v_began);

  select jsonb_build_object(
    'trace_id', v_trace_id,
    'packet_id', p_packet_id,
    'outcome', v_outcome,
    'missing', to_jsonb(v_missing),
    'context', coalesce(jsonb_agg(jsonb_build_object(
      'label', c.label,
      'added_as', c.added_as,
      'tenant', c.document_tenant,
      'document_id', c.document_id,
      'version', c.version,
      'range_start', c.range_start,
      'range_end', c.range_end,
      'heading_path', to_jsonb(c.heading_path),
      'text', c.text
    ) order by c.position), '[]')
  ) into v_document
  from rag_api.trace_passage c
  where c.tenant = v_packet.tenant and c.trace_id = v_trace_id and c.label is not null;
  return v_document;
end;
$$;
revoke all on function rag_api.record_trace from public;
grant execute on function rag_api.record_trace to rag_reader;
comment on function rag_api.record_trace is
  'Assembles and records the context of a packet; returns it as JSON, with the outcome on it. RS010, RS050, RS057, RS063.';

reset role;
set local role rag_owner;
revoke create on schema rag_api from rag_recorder;
reset role;
