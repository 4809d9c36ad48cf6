-- Ranking methods and their parameters, for contracts that choose one and for requests that do.

-- The parameters of a method with their defaults, null where there is none; null for what is no method.
create function rag.ranking_parameters(
  p_method text
)
  returns jsonb
  language sql
  immutable
  parallel safe
return case p_method
  when 'overlap' then '{}'::jsonb
  when 'bm25' then '{"k1": 1.2, "b": 0.75}'
  when 'vector' then '{"model": null, "model_version": "1", "vector": null}'
  when 'hybrid' then '{"k1": 1.2, "b": 0.75, "model": null, "model_version": "1", "vector": null,
    "rrf_k": 60, "depth": 100, "bm25_weight": 1, "vector_weight": 1}'
end;
revoke all on function rag.ranking_parameters from public;
grant execute on function rag.ranking_parameters to rag_reader, rag_auditor;
comment on function rag.ranking_parameters is 'The parameters of a ranking method with their defaults; null for what is no method.';

-- What is wrong with the parameters of a method that is one: path and problem, empty when they are valid.
create function rag.ranking_problems(
  p_method text,
  p_parameters jsonb
)
  returns table (path text, problem text)
  language sql
  immutable
  parallel safe
begin atomic
  with parameter as (
    select a.key, a.value, jsonb_typeof(a.value) as type
    from jsonb_each(case when jsonb_typeof(p_parameters) = 'object' then p_parameters else '{}' end) as a
  ), range as (
    select r.key, r.least, r.most
    from (values
      ('k1', 0, 10), ('b', 0, 1), ('rrf_k', 1, 1000), ('depth', 1, 1000), ('bm25_weight', 0, 100), ('vector_weight', 0, 100)
    ) as r(key, least, most)
  )
  select '', 'parameters must be a JSON object' where jsonb_typeof(p_parameters) is distinct from 'object'
  union all
  select p.key, format('unknown parameter %s', to_json(p.key)) from parameter p where not rag.ranking_parameters(p_method) ? p.key
  union all
  select p.key, format('%s must be a number from %s to %s with at most six decimals', p.key, r.least, r.most)
  from parameter p
  join range r on r.key = p.key
  where case
    when p.type = 'number' then
      (p.value #>> '{}')::numeric not between r.least and r.most or round((p.value #>> '{}')::numeric, 6) <> (p.value #>> '{}')::numeric
    else true
  end
  union all
  select 'depth', 'depth must be a whole number'
  from parameter p
  where p.key = 'depth' and p.type = 'number' and trunc((p.value #>> '{}')::numeric) <> (p.value #>> '{}')::numeric
  union all
  select p.key, format('%s must be a text of 1 to 200 bytes', p.key)
  from parameter p
  where p.key in ('model', 'model_version') and (p.type <> 'string' or octet_length(p.value #>> '{}') not between 1 and 200)
  union all
  select 'vector', 'vector must be a list of 1 to 16000 numbers'
  from parameter p
  where p.key = 'vector' and (
    p.type <> 'array'
    or jsonb_array_length(case when p.type = 'array' then p.value else '[]' end) not between 1 and 16000
    or exists (
      select from jsonb_array_elements(case when p.type = 'array' then p.value else '[]' end) as v
      where jsonb_typeof(v) <> 'number'
    )
  );
end;
revoke all on function rag.ranking_problems from public;
grant execute on function rag.ranking_problems to rag_reader;
comment on function rag.ranking_problems is 'Path and problem of each fault in the parameters of a ranking method; empty when valid.';
