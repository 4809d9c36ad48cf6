-- Diagnosis: at which stage evidence was lost, and which cited labels nobody handed over.
--
--   diagnose_trace   for a trace, on the passages that a person says the answer needs
--   diagnose_ids     the same for identifiers of another retriever
--
-- A diagnosis compares identifiers. No finding does not mean that the answer is right, complete or properly cited.

set local role rag_owner;

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

reset role;
