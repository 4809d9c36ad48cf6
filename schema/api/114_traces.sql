-- Traces: recording what was handed over and what came back, and finding out at which stage an answer went wrong.
--
--   record_trace     assembles the context of a packet, records it passage by passage, returns it for the model
--   record_answer    records the answer's digest and the labels it cites
--   cite             maps labels to stored documents: what may be shown as a citation
--   diagnose_trace   which required passages were lost, and where; which labels nobody handed over
--   diagnose_ids     the same for identifiers of another retriever
--
-- A diagnosis compares identifiers. No finding does not mean that the answer is right, complete or properly cited.

set local role rag_owner;
grant create on schema rag_api to rag_recorder;

create view rag_api.trace with (security_invoker = true) as
  select
    t.tenant, t.trace_id, t.packet_id, p.question_id, t.outcome, t.missing, t.budget, t.neighbours,
    a.model, a.prompt_version, a.citations, encode(a.answer_sha256, 'hex') as answer_sha256,
    t.recorded_at, t.recorded_by, a.recorded_at as answered_at
  from rag.trace t
  join rag.packet p on p.tenant = t.tenant and p.packet_id = t.packet_id
  left join rag.trace_answer a on a.tenant = t.tenant and a.trace_id = t.trace_id;
grant select on rag_api.trace to rag_reader, rag_auditor;
comment on view rag_api.trace is 'Retrievals with the outcome on the context that was handed over, and the answer''s model and citations.';

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

-- The stored documents behind labels of a trace, in the order given: what may be shown as a citation. `url` is the stored
-- source where that is an http or https address, never anything an answer says. RS002, RS054; RS055 for a label under which
-- nothing was handed over.
create function rag_api.cite(
  p_trace_id uuid,
  p_labels text[]
)
  returns table (
    label text,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    range_end integer,
    title text,
    url text
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_trace constant rag.trace := rag_api._trace(p_trace_id);
  v_unknown text;
begin
  if p_labels is null then
    raise exception using errcode = 'RS010', message = 'labels must be given as an array of texts';
  end if;
  select string_agg(coalesce(to_json(l.label)::text, 'null'), ', ' order by l.i) into v_unknown
  from unnest(p_labels) with ordinality as l(label, i)
  where not exists (
    select from rag.trace_passage c
    where c.tenant = v_trace.tenant and c.trace_id = v_trace.trace_id and c.label = l.label
  );
  if v_unknown is not null then
    raise exception using
      errcode = 'RS055',
      message = format('nothing was handed over under %s', v_unknown),
      hint = 'The labels of a trace: select label, document_id from rag_api.trace_passage where label is not null;';
  end if;
  return query
  select
    c.label, c.document_tenant, c.document_id, c.version, p.range_start, p.range_end, v.title,
    case when v.source ~ '^https?://[^[:space:][:cntrl:]]+$' then v.source end
  from unnest(p_labels) with ordinality as l(label, i)
  join rag.trace_passage c on c.tenant = v_trace.tenant and c.trace_id = v_trace.trace_id and c.label = l.label
  join rag.passage p
    on p.tenant = c.document_tenant
    and p.document_id = c.document_id
    and p.version = c.version
    and p.range_start = c.range_start
  join rag.version v on v.tenant = c.document_tenant and v.document_id = c.document_id and v.version = c.version
  order by l.i;
end;
$$;
revoke all on function rag_api.cite from public;
grant execute on function rag_api.cite to rag_reader;
comment on function rag_api.cite is 'The stored documents behind labels of a trace; RS055 for a label under which nothing was handed over.';

-- No finding does not mean that the answer is right: identifiers were compared, and nothing else. For the identifiers of any
-- retriever: which required ones were not retrieved (retrieval_miss), were retrieved and not handed over (context_loss),
-- which were handed over and not retrieved (unrecorded_context), and which cited labels nobody handed over
-- (unknown_citation). p_context maps labels to identifiers. RS010 when nothing is required, or an argument is null or
-- malformed.
create function rag_api.diagnose_ids(
  p_required text[],
  p_retrieved text[],
  p_context jsonb,
  p_citations text[]
)
  returns table (finding text, id text)
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(cardinality(p_required), 0) = 0 then
    raise exception using
      errcode = 'RS010',
      message = 'nothing is required: annotate the evidence that the answer needs',
      hint = 'A diagnosis of nothing would find nothing.';
  end if;
  if p_retrieved is null or p_citations is null
    or array_ndims(p_required) > 1 or array_ndims(p_retrieved) > 1 or array_ndims(p_citations) > 1
    or array_position(p_required || p_retrieved || p_citations, null) is not null
    or jsonb_typeof(p_context) is distinct from 'object'
    or exists (select from jsonb_each(p_context) as c where jsonb_typeof(c.value) <> 'string')
  then
    raise exception using
      errcode = 'RS010',
      message = 'retrieved and citations must be lists of texts, context a JSON object of labels to identifiers';
  end if;
  return query
  select distinct f.finding, f.id collate "C"
  from (
    select 'retrieval_miss', r from unnest(p_required) as r where r <> all (p_retrieved)
    union all
    select 'context_loss', r from unnest(p_required) as r
      where r = any (p_retrieved) and not exists (select from jsonb_each_text(p_context) as c where c.value = r)
    union all
    select 'unrecorded_context', c.value from jsonb_each_text(p_context) as c where c.value <> all (p_retrieved)
    union all
    select 'unknown_citation', l from unnest(p_citations) as l where not p_context ? l
  ) as f(finding, id)
  order by 1, 2;
end;
$$;
revoke all on function rag_api.diagnose_ids from public;
grant execute on function rag_api.diagnose_ids to rag_reader, rag_auditor;
comment on function rag_api.diagnose_ids is
  'No finding does not mean that the answer is right. Which required identifiers were lost at which stage; unknown citations.';

-- No finding does not mean that the answer is right: identifiers were compared, and nothing else. The findings of
-- diagnose_ids for a trace, on the passages that a person says the answer needs. What expansion added counts as retrieved:
-- it stands in the record. RS002, RS054; RS010 when nothing is required, or something that is no visible passage.
create function rag_api.diagnose_trace(
  p_trace_id uuid,
  p_required rag.source_ref[]
)
  returns table (finding text, tenant text, document_id text, version integer, range_start integer, label text)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_trace constant rag.trace := rag_api._trace(p_trace_id);
begin
  if coalesce(cardinality(p_required), 0) = 0 then
    raise exception using
      errcode = 'RS010',
      message = 'nothing is required: name the passages that the answer needs',
      hint = 'A diagnosis of nothing would find nothing.';
  end if;
  if exists (
    select from unnest(p_required) as r
    where not exists (
      select from rag.passage p
      where (p.tenant, p.document_id, p.version, p.range_start) = (r.tenant, r.document_id, r.version, r.range_start)
    )
  ) then
    raise exception using
      errcode = 'RS010',
      message = 'a required place is no passage',
      hint = 'Passages and their places: select tenant, document_id, version, range_start from rag_api.passage;';
  end if;
  return query
  select
    case when c.position is null then 'retrieval_miss' else 'context_loss' end,
    r.tenant collate "C", r.document_id collate "C", r.version, r.range_start, null::text
  from (select distinct q.tenant, q.document_id, q.version, q.range_start from unnest(p_required) as q) as r
  left join rag.trace_passage c
    on c.tenant = v_trace.tenant
    and c.trace_id = v_trace.trace_id
    and (c.document_tenant, c.document_id, c.version, c.range_start) = (r.tenant, r.document_id, r.version, r.range_start)
  where c.label is null
  union all
  select 'unknown_citation', null, null, null, null, l.label
  from (
    select distinct unnest(a.citations) as label
    from rag.trace_answer a
    where a.tenant = v_trace.tenant and a.trace_id = v_trace.trace_id
  ) as l
  where not exists (
    select from rag.trace_passage c
    where c.tenant = v_trace.tenant and c.trace_id = v_trace.trace_id and c.label = l.label
  )
  order by 1, 3, 2, 4, 5, 6;
end;
$$;
revoke all on function rag_api.diagnose_trace from public;
grant execute on function rag_api.diagnose_trace to rag_reader;
comment on function rag_api.diagnose_trace is
  'No finding does not mean that the answer is right. Which required passages a trace lost at which stage; unknown citations.';

set local role rag_recorder;

-- Assembles the context of a packet, records the trace, and returns what is to be handed to the model:
--   {"trace_id", "packet_id", "outcome", "missing", "context": [{"label", "added_as", "tenant", "document_id", "version",
--    "range_start", "range_end", "heading_path", "text"}]}
-- The outcome is that on the context. p_candidates says how many of the best visible passages are recorded with the reason
-- why they may not be used.
--
-- A definer function of rag_recorder, because no run-time role may insert a trace. RS002, RS050; RS010 for an argument
-- out of range; RS057 when a selected version is not current now, such as one that was withdrawn since.
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
  v_missing text[];
  v_outdated text;
  v_outcome text;
  v_trace_id uuid;
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

  -- What was withdrawn or superseded since is handed to nobody.
  select string_agg(format('"%s" version %s (%s)', s.document_id, s.version, s.document_tenant), ', ' order by s.position)
  into v_outdated
  from rag.packet_source s
  where s.tenant = v_packet.tenant
    and s.packet_id = p_packet_id
    and not exists (
      select from rag_api.version_status() as v
      where v.tenant = s.document_tenant and v.document_id = s.document_id and v.version = s.version and v.status = 'current'
    );
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
    insert into rag.trace (tenant, packet_id, budget, neighbours, outcome, missing)
    select
      v_packet.tenant, p_packet_id, p_budget, p_neighbours,
      case when cardinality(o.missing) > 0 then 'AskForEvidence' else v_packet.outcome end,
      o.missing
    from coverage o
    returning trace_id, outcome, missing
  ), passage as (
    insert into rag.trace_passage
      (tenant, trace_id, position, label, added_as, left_out, tokens, document_tenant, document_id, version, range_start)
    select
      v_packet.tenant, t.trace_id, c.position, c.label, c.added_as, c.left_out, c.tokens, c.tenant, c.document_id,
      c.version, c.range_start
    from trace t
    cross join context c
  )
  select t.trace_id, t.outcome, t.missing into v_trace_id, v_outcome, v_missing
  from trace t;

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
      select
        length(p.words) - length(ts_delete(p.words, v_words)) as score,
        p.tenant, p.document_id, p.version, p.range_start
      from rag_api.passage p
      join rag.version v on v.tenant = p.tenant and v.document_id = p.document_id and v.version = p.version
      where v.recorded_at <= v_packet.known_at
        and length(p.words) - length(ts_delete(p.words, v_words)) >= 1
      order by
        length(p.words) - length(ts_delete(p.words, v_words)) desc,
        p.document_id collate "C", p.tenant collate "C", p.version, p.range_start
      limit p_candidates
    ) as a
    join rag_api.eligibility(v_packet.case_facts, v_packet.valid_at, v_packet.known_at) as e
      on e.tenant = a.tenant and e.document_id = a.document_id and e.version = a.version
  ) as c;

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
  'Assembles and records the context of a packet; returns it as JSON, with the outcome on it. RS010, RS050, RS057.';

-- Records what came back for a trace: the answer's SHA-256 and the labels it cites, also those that nobody handed over. A
-- trace has one answer, from the login that recorded it (RS003); RS056 for another. RS002, RS054; RS010 for an argument that is missing or too long.
create function rag_api.record_answer(
  p_trace_id uuid,
  p_answer text,
  p_citations text[],
  p_model text,
  p_prompt_version text
)
  returns void
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_trace constant rag.trace := rag_api._trace(p_trace_id);
begin
  if coalesce(p_answer, '') = '' or octet_length(p_answer) > 1048576
    or octet_length(p_model) not between 1 and 200 or p_model is null
    or octet_length(p_prompt_version) not between 1 and 200 or p_prompt_version is null
    or p_citations is null or cardinality(p_citations) > 1000
    or exists (select from unnest(p_citations) as l where octet_length(l) not between 1 and 200 or l is null)
  then
    raise exception using
      errcode = 'RS010',
      message = 'an answer is a text of 1 byte to 1 MiB with at most 1000 citations, a model and a prompt version',
      hint = 'Labels, model and prompt version are texts of 1 to 200 bytes.';
  end if;
  if v_trace.recorded_by <> session_user then
    raise exception using
      errcode = 'RS003',
      message = format('trace %s was recorded by another login', p_trace_id),
      hint = 'Who handed the context over records what came back.';
  end if;
  insert into rag.trace_answer (tenant, trace_id, prompt_version, model, answer_sha256, citations)
  values (v_trace.tenant, v_trace.trace_id, p_prompt_version, p_model, sha256(rag.utf8(p_answer)), p_citations)
  on conflict on constraint trace_answer_key do nothing;
  if not found then
    raise exception using
      errcode = 'RS056',
      message = format('trace %s has its answer', p_trace_id),
      hint = 'Another answer belongs to another trace: record_trace.';
  end if;
end;
$$;
revoke all on function rag_api.record_answer from public;
grant execute on function rag_api.record_answer to rag_reader;
comment on function rag_api.record_answer is 'Records an answer''s digest and the labels it cites. RS054, RS056 when the trace has its answer.';

reset role;
set local role rag_owner;
revoke create on schema rag_api from rag_recorder;
reset role;
