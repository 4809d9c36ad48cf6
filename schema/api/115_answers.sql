-- Answers: recording what came back for a trace, and what may be shown as its citations.
--
--   record_answer    records the answer, the labels it cites and what an audit said of it
--   cite             maps labels to stored documents

set local role rag_owner;
grant create on schema rag_api to rag_recorder;

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
  if p_labels is null or array_ndims(p_labels) > 1 then
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

-- Whether verdicts are none that an audit of the answer could have: see rag_api.record_answer.
create function rag_api._verdict_problem(
  p_verdicts jsonb,
  p_answer text
)
  returns boolean
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_length constant integer := length(p_answer);
begin
  -- One condition after another: the later ones read what the earlier ones have checked.
  if jsonb_typeof(p_verdicts) <> 'array' or jsonb_array_length(p_verdicts) not between 1 and 10000 then
    return true;
  end if;
  if exists (
    select from jsonb_array_elements(p_verdicts) as v
    where jsonb_typeof(v) <> 'object'
      or jsonb_typeof(v -> 'range_start') is distinct from 'number' or v ->> 'range_start' !~ '^[0-9]{1,7}$'
      or jsonb_typeof(v -> 'range_end') is distinct from 'number' or v ->> 'range_end' !~ '^[0-9]{1,7}$'
      or jsonb_typeof(v -> 'verdict') is distinct from 'string'
      or v ->> 'verdict' not in (
        'contradicted', 'unsupported', 'unknown_citation', 'uncited', 'review', 'unchecked', 'no_finding'
      )
      or jsonb_typeof(v -> 'checks') is distinct from 'array'
  ) then
    return true;
  end if;
  return exists (
    select
    from (
      select
        (v ->> 'range_start')::integer as range_start,
        (v ->> 'range_end')::integer as range_end,
        lag((v ->> 'range_end')::integer, 1, 0) over (order by i) as after,
        v -> 'checks' as checks
      from jsonb_array_elements(p_verdicts) with ordinality as a(v, i)
    ) as s
    where s.range_start < s.after
      or s.range_end <= s.range_start
      or s.range_end > v_length
      or jsonb_array_length(s.checks) > 100
      or exists (
        select from jsonb_array_elements(s.checks) as c
        where jsonb_typeof(c) <> 'string' or c #>> '{}' !~ '^[a-z][a-z0-9_-]{0,63}$'
      )
  );
end;
$$;
revoke all on function rag_api._verdict_problem from public;
grant execute on function rag_api._verdict_problem to rag_reader;
comment on function rag_api._verdict_problem is 'Private: whether verdicts are none that an audit of the answer could have.';

set local role rag_recorder;

-- Records what came back for a trace: the answer, as the contract has it kept, the labels it cites, also those that nobody
-- handed over, and what an audit said of it. Where the contract does not keep texts, what is cited and is no label stands as ?1,
-- ?2, ... by its place: it would be a piece of the answer. p_verdicts is that of each sentence, in the order of the answer, by place in
-- code points: [{"range_start", "range_end", "verdict", "checks"}], null where nobody audited it. p_answer_took and
-- p_audit_took say how long the model and the audit took.
--
-- A trace has one answer, from the login that recorded it (RS003); RS056 for another. RS002, RS054; RS063 when evidence that was
-- handed over has been erased since; RS010 for an argument
-- that is missing, malformed or too long.
create function rag_api.record_answer(
  p_trace_id uuid,
  p_answer text,
  p_citations text[],
  p_model text,
  p_prompt_version text,
  p_verdicts jsonb default null,
  p_answer_took interval default null,
  p_audit_took interval default null
)
  returns void
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_trace constant rag.trace := rag_api._trace(p_trace_id);
  v_kept constant text := rag_api._kept(v_trace.packet_id);
  v_weights constant text[] := array[
    'contradicted', 'unsupported', 'unknown_citation', 'uncited', 'review', 'unchecked', 'no_finding'
  ];
begin
  if coalesce(p_answer, '') = '' or octet_length(p_answer) > 1048576
    or octet_length(p_model) not between 1 and 200 or p_model is null
    or octet_length(p_prompt_version) not between 1 and 200 or p_prompt_version is null
    or p_citations is null or cardinality(p_citations) > 1000 or array_ndims(p_citations) > 1
    or exists (select from unnest(p_citations) as l where octet_length(l) not between 1 and 200 or l is null)
    or p_answer_took not between interval '0' and interval '1 day'
    or p_audit_took not between interval '0' and interval '1 day'
  then
    raise exception using
      errcode = 'RS010',
      message = 'an answer is a text of 1 byte to 1 MiB with at most 1000 citations, a model and a prompt version',
      hint = 'Labels, model and prompt version are texts of 1 to 200 bytes; times are from 0 to 1 day.';
  end if;
  if p_verdicts is not null and rag_api._verdict_problem(p_verdicts, p_answer) then
    raise exception using
      errcode = 'RS010',
      message = 'verdicts are those of the sentences of the answer, in their order: a list of at least one mapping with'
        ' range_start, range_end, verdict and checks',
      detail = 'At most 10000; the name of a check is a lower-case letter, then letters, digits, _ and -, at most 64.',
      hint = format('Ranges are in code points, half-open, within the answer; a verdict is one of %s.',
        array_to_string(v_weights, ', '));
  end if;
  if v_trace.recorded_by <> session_user then
    raise exception using
      errcode = 'RS003',
      message = format('trace %s was recorded by another login', p_trace_id),
      hint = 'Who handed the context over records what came back.';
  end if;
  perform rag_api._check_evidence(v_trace.packet_id);
  insert into rag.trace_answer (tenant, trace_id, prompt_version, model, answer_sha256, citations, answer, verdict)
  values (
    v_trace.tenant, v_trace.trace_id, p_prompt_version, p_model,
    case when v_kept in ('text', 'digest') then sha256(rag.utf8(p_answer)) end,
    -- What is no label at all can be anything that stood between brackets.
    case when v_kept = 'text' then p_citations else array(
      select
        case
          when l ~ '^P[0-9]{1,9}$' or exists (
            select from rag.trace_passage c
            where c.tenant = v_trace.tenant and c.trace_id = v_trace.trace_id and c.label = l
          ) then l
          else '?' || i
        end
      from unnest(p_citations) with ordinality as cited(l, i)
      order by i
    ) end,
    case when v_kept = 'text' then p_answer end,
    (
      select v ->> 'verdict' from jsonb_array_elements(p_verdicts) as v
      order by array_position(v_weights, v ->> 'verdict')
      limit 1
    )
  )
  on conflict on constraint trace_answer_key do nothing;
  if not found then
    raise exception using
      errcode = 'RS056',
      message = format('trace %s has its answer', p_trace_id),
      hint = 'Another answer belongs to another trace: record_trace.';
  end if;
  insert into rag.trace_verdict (tenant, trace_id, range_start, range_end, verdict, checks)
  select v_trace.tenant, v_trace.trace_id, v.range_start, v.range_end, v.verdict, v.checks
  from jsonb_to_recordset(p_verdicts) as v(range_start integer, range_end integer, verdict text, checks text[]);
  insert into rag.trace_time (tenant, trace_id, stage, took)
  select v_trace.tenant, v_trace.trace_id, t.stage, t.took
  from (values ('answer', p_answer_took), ('audit', p_audit_took)) as t(stage, took)
  where t.took is not null;
exception
  -- Its time was over, and it was removed at this moment.
  when foreign_key_violation then
    raise exception using
      errcode = 'RS054',
      message = format('there is no trace %s', p_trace_id);
end;
$$;
revoke all on function rag_api.record_answer from public;
grant execute on function rag_api.record_answer to rag_reader;
comment on function rag_api.record_answer is
  'Records an answer, the labels it cites and what an audit said of it. RS010, RS054, RS056 when the trace has its answer, RS063.';

reset role;
set local role rag_owner;
revoke create on schema rag_api from rag_recorder;
reset role;
