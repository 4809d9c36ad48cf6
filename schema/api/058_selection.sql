-- Selection: the ranking methods, under one roof.
--
--   overlap   distinct words of the query that occur in the passage; statistics of nothing
--   bm25      parameters k1, b; words as the text search configuration of the document's language has them
--   vector    parameters model, model_version, vector: similarity to an embedding of the query
--   hybrid    both of the last, put together by reciprocal ranks (Cormack, Clarke and Buettcher 2009): bm25_weight / (rrf_k +
--             rank by bm25) + vector_weight / (rrf_k + rank by vector), over the first `depth` of each
--
-- Scores are whole numbers and ties end by bytes (050_ranking), so that the same evidence ranks the same. Statistics are taken
-- over the eligible passages alone (law 2). A decision ranks exactly; `search` says so where it does not.

set local role rag_owner;

-- The parameters of a method in full: what is not given has its default. RS010 for an unknown method, an unknown parameter, one
-- that is missing or out of range.
create function rag_api._ranking_parameters(
  p_method text,
  p_parameters jsonb
)
  returns jsonb
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_known constant jsonb := rag.ranking_parameters(p_method);
  v_problem text;
begin
  if v_known is null then
    raise exception using
      errcode = 'RS010',
      message = format('unknown ranking method "%s"', coalesce(p_method, 'null')),
      hint = 'Methods are overlap, bm25, vector and hybrid.';
  end if;
  if p_parameters <> '{}' or p_parameters is null then
    select r.problem into v_problem
    from rag.ranking_problems(p_method, p_parameters) as r
    order by r.path collate "C", r.problem collate "C"
    limit 1;
    if found then
      raise exception using errcode = 'RS010', message = format('ranking by %s: %s', p_method, v_problem);
    end if;
  end if;
  if v_known ? 'model' and not coalesce(p_parameters ?& array['model', 'vector'], false) then
    raise exception using
      errcode = 'RS010',
      message = format('ranking by %s needs a model and the vector of the query by it', p_method),
      hint = 'Parameters: {"model": "minilm", "vector": [0.1, ...]}. Models: select model from rag_api.embedding_model;';
  end if;
  return jsonb_strip_nulls(v_known) || p_parameters;
end;
$$;
revoke all on function rag_api._ranking_parameters from public;
grant execute on function rag_api._ranking_parameters to rag_reader, rag_auditor;
comment on function rag_api._ranking_parameters is 'Private: the parameters of a ranking method in full; RS010.';

-- The parameters of a request in full: those given, else the contract's where it chooses this method, else the defaults. RS010.
create function rag_api._request_parameters(
  p_contract jsonb,
  p_method text,
  p_parameters jsonb
)
  returns jsonb
  language sql
  immutable
return rag_api._ranking_parameters(
  p_method,
  case when p_contract -> 'ranking' ->> 'method' = p_method then (p_contract -> 'ranking') - 'method' else '{}' end
    || coalesce(p_parameters, '{}')
);
revoke all on function rag_api._request_parameters from public;
grant execute on function rag_api._request_parameters to rag_reader;
comment on function rag_api._request_parameters is 'Private: the parameters of a request in full, with its contract''s; RS010.';

-- The K best eligible passages by a method (all matches for a null K), with the rank in each arm. With p_all passages that are not
-- eligible too; without p_exact a graph may serve vectors. Parameters are in full (_ranking_parameters), instants are
-- instants.
create function rag_api._ranked(
  p_query text,
  p_case_facts jsonb,
  p_k integer,
  p_valid_at timestamptz,
  p_known_at timestamptz,
  p_method text,
  p_parameters jsonb,
  p_all boolean,
  p_why boolean,
  p_exact boolean
)
  returns table (
    score integer, tenant text, document_id text, version integer, range_start integer, range_end integer,
    bm25_rank integer, vector_rank integer, why jsonb
  )
  language plpgsql
  stable
  parallel restricted
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_tenants text[];
  v_scope_ids uuid[];
  v_vector public.halfvec;
  v_depth integer;
begin
  if p_k < 1 then
    return;
  end if;
  select coalesce(array_agg(f.tenant), '{}'), coalesce(array_agg(f.scope_id), '{}') into v_tenants, v_scope_ids
  from rag_api._scopes(p_case_facts, p_known_at) as f
  where f.applies;
  if p_method = 'overlap' then
    return query
    select o.score, o.tenant, o.document_id, o.version, o.range_start, o.range_end, null::integer, null::integer,
      case when p_why then (
        select jsonb_object_agg(w.word, 1)
        from rag_api.passage p
        cross join unnest(tsvector_to_array(p.words)) as w(word)
        where p.tenant = o.tenant and p.document_id = o.document_id and p.version = o.version and p.range_start = o.range_start
          and w.word = any (rag.words(p_query))
      ) end
    from rag_api._overlap_search(rag.words(p_query), p_k, v_tenants, v_scope_ids, p_valid_at, p_known_at) as o;
  elsif p_method = 'bm25' then
    return query
    select b.score, b.tenant, b.document_id, b.version, b.range_start, b.range_end, null::integer, null::integer, b.why
    from rag_api._bm25_search(
      p_query, p_k, (p_parameters ->> 'k1')::double precision, (p_parameters ->> 'b')::double precision,
      v_tenants, v_scope_ids, p_valid_at, p_known_at, p_all, p_why) as b
    where b.score >= 1;
  else
    v_vector := rag_api._vector(p_parameters ->> 'vector');
    v_depth := case
      when p_method = 'vector' then p_k
      when p_k is not null then greatest(p_k, (p_parameters ->> 'depth')::integer)
    end;
    return query
    with by_vector as materialized (
      select
        v.score, v.tenant collate "C" as tenant, v.document_id collate "C" as document_id, v.version, v.range_start,
        row_number() over (order by v.score desc, v.document_id collate "C", v.tenant collate "C", v.version, v.range_start)
          as rank
      from rag_api._vector_search(
        p_parameters ->> 'model', p_parameters ->> 'model_version', v_vector, v_depth, p_exact,
        v_tenants, v_scope_ids, p_valid_at, p_known_at, p_all) as v
    ), by_word as materialized (
      select
        b.tenant collate "C" as tenant, b.document_id collate "C" as document_id, b.version, b.range_start, b.why,
        row_number() over (order by b.score desc, b.document_id collate "C", b.tenant collate "C", b.version, b.range_start)
          as rank
      from rag_api._bm25_search(
        p_query, v_depth, (p_parameters ->> 'k1')::double precision, (p_parameters ->> 'b')::double precision,
        v_tenants, v_scope_ids, p_valid_at, p_known_at, p_all, p_why) as b
      where p_method = 'hybrid' and b.score >= 1
    ), found as (
      select
        case p_method when 'vector' then v.score else (
          coalesce(floor(10000000 * (p_parameters ->> 'vector_weight')::numeric / ((p_parameters ->> 'rrf_k')::numeric + v.rank)), 0)
          + coalesce(floor(10000000 * (p_parameters ->> 'bm25_weight')::numeric / ((p_parameters ->> 'rrf_k')::numeric + w.rank)), 0)
        )::integer end as score,
        tenant, document_id, version, range_start, w.rank as bm25_rank, v.rank as vector_rank, w.why
      from by_vector v
      full join by_word w using (tenant, document_id, version, range_start)
    )
    select
      f.score, f.tenant::text, f.document_id::text, f.version, f.range_start, p.range_end,
      case p_method when 'hybrid' then f.bm25_rank end::integer, case p_method when 'hybrid' then f.vector_rank end::integer,
      f.why
    from (
      select * from found where found.score >= 1
      order by found.score desc, found.document_id, found.tenant, found.version, found.range_start
      limit p_k
    ) as f
    join rag.passage p
      on p.tenant = f.tenant and p.document_id = f.document_id and p.version = f.version and p.range_start = f.range_start
    order by f.score desc, f.document_id, f.tenant, f.version, f.range_start;
  end if;
end;
$$;
revoke all on function rag_api._ranked from public;
grant execute on function rag_api._ranked to rag_reader, rag_auditor;
comment on function rag_api._ranked is 'Private: the best eligible passages by a method.';

-- The K best eligible passages with a score of at least 1: min(K, eligible matches) rows, always (law 1). None for a K
-- outside 1 to 1,000, which decide refuses. RS010 for an instant that is none (_check_instants).
create function rag_api.selection(
  p_query text,
  p_case_facts jsonb,
  p_k integer,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null,
  p_method text default 'overlap',
  p_parameters jsonb default '{}'
)
  returns table (
    "position" integer,
    score integer,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    range_end integer
  )
  language plpgsql
  stable
  parallel restricted
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
as $$
begin
  perform rag_api._check_instants(p_valid_at, p_known_at);
  return query
  select
    row_number() over (
      order by s.score desc, s.document_id collate "C", s.tenant collate "C", s.version, s.range_start
    )::integer,
    s.score, s.tenant, s.document_id, s.version, s.range_start, s.range_end
  from rag_api._ranked(
    p_query, p_case_facts, case when p_k between 1 and 1000 then p_k else 0 end,
    coalesce(p_valid_at, statement_timestamp()), coalesce(p_known_at, statement_timestamp()),
    p_method, rag_api._ranking_parameters(p_method, p_parameters), false, false, true) as s
  order by 1;
end;
$$;
revoke all on function rag_api.selection from public;
grant execute on function rag_api.selection to rag_reader;
comment on function rag_api.selection is 'The K best eligible passages with a score of at least 1, in order.';

-- The same for people who want passages and no decision: the K best eligible passages, with their texts. A version that names an
-- attribute which the case does not state is not eligible. RS010.
create function rag_api.search(
  p_query text,
  p_k integer default 10,
  p_method text default 'bm25',
  p_parameters jsonb default '{}',
  p_case_facts jsonb default '{}',
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null,
  p_why boolean default false
)
  returns table (
    "position" integer,
    score integer,
    bm25_rank integer,
    vector_rank integer,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    range_end integer,
    title text,
    heading_path text[],
    text text,
    why jsonb
  )
  language plpgsql
  stable
  parallel restricted
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
as $$
begin
  perform rag_api._check_instants(p_valid_at, p_known_at);
  perform rag_api._check_request(p_query, p_k);
  if jsonb_typeof(p_case_facts) is distinct from 'object' then
    raise exception using errcode = 'RS010', message = 'case facts must be a JSON object';
  end if;
  return query
  select
    s.position::integer, s.score, s.bm25_rank, s.vector_rank, s.tenant, s.document_id, s.version, s.range_start, s.range_end,
    v.title, p.heading_path, p.text, s.why
  from rag_api._ranked(
    p_query, p_case_facts, p_k, coalesce(p_valid_at, statement_timestamp()), coalesce(p_known_at, statement_timestamp()),
    p_method, rag_api._ranking_parameters(p_method, p_parameters), false, p_why, false
  ) with ordinality as s(
    score, tenant, document_id, version, range_start, range_end, bm25_rank, vector_rank, why, "position")
  -- Each by its key, whatever is known of the tables.
  cross join lateral (
    select p.heading_path, p.text
    from rag_api.passage p
    where p.tenant = s.tenant and p.document_id = s.document_id and p.version = s.version and p.range_start = s.range_start
    offset 0
  ) as p
  cross join lateral (
    select v.title from rag.version v where v.tenant = s.tenant and v.document_id = s.document_id and v.version = s.version offset 0
  ) as v
  order by s.position;
end;
$$;
revoke all on function rag_api.search from public;
grant execute on function rag_api.search to rag_reader;
comment on function rag_api.search is 'The K best eligible passages for a query, with their texts. RS010.';

-- Every visible passage with its score, eligible or not, and why: what a person looks at. Ineligible passages are shown
-- here and nowhere on the way to a decision; their scores are those that they would have. What the method does not find has
-- a score of 0.
create function rag_api.candidates(
  p_query text,
  p_case_facts jsonb,
  p_k integer,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null,
  p_method text default 'overlap',
  p_parameters jsonb default '{}'
)
  returns table (
    score integer,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    range_end integer,
    eligible boolean,
    eligible_position integer,
    selected boolean,
    reason text,
    attribute text,
    applies_to text[],
    case_value text,
    effective_version integer,
    successors text[]
  )
  language plpgsql
  stable
  parallel restricted
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  if p_method <> 'overlap' and not pg_has_role('rag_reader', 'usage') then
    raise exception using
      errcode = 'RS010',
      message = format('who audits sees candidates by overlap, not by %s', p_method),
      hint = 'Other methods rank what one tenant may use: ask as a reader of that tenant.';
  end if;
  return query
  with found as materialized (
    select f.score, f.tenant, f.document_id, f.version, f.range_start
    from rag_api._ranked(
      p_query, p_case_facts, null, coalesce(p_valid_at, statement_timestamp()), coalesce(p_known_at, statement_timestamp()),
      p_method, rag_api._ranking_parameters(p_method, p_parameters), true, false, true) as f
    where p_method <> 'overlap'  -- which scores words where they stand
  )
  select
    c.score,
    c.tenant,
    c.document_id,
    c.version,
    c.range_start,
    c.range_end,
    c.eligible,
    case when c.eligible then c.eligible_position end,
    coalesce(c.eligible and c.score >= 1 and c.eligible_position <= p_k, false),
    c.reason,
    c.attribute,
    c.applies_to,
    c.case_value,
    c.effective_version,
    c.successors
  from (
    select
      s.*,
      row_number() over (
        partition by s.eligible
        order by s.score desc, s.document_id collate "C", s.tenant collate "C", s.version, s.range_start
      )::integer as eligible_position
    from (
      select
        case p_method
          when 'overlap' then length(p.words) - length(ts_delete(p.words, (select rag.words(p_query))))
          else coalesce(f.score, 0)
        end as score,
        p.tenant,
        p.document_id,
        p.version,
        p.range_start,
        p.range_end,
        e.eligible,
        e.reason,
        e.attribute,
        e.applies_to,
        e.case_value,
        e.effective_version,
        e.successors
      from rag_api.eligibility(p_case_facts, p_valid_at, p_known_at) as e
      join rag_api.passage p on p.tenant = e.tenant and p.document_id = e.document_id and p.version = e.version
      left join found f
        on f.tenant = p.tenant and f.document_id = p.document_id and f.version = p.version and f.range_start = p.range_start
    ) as s
  ) as c
  order by c.score desc, c.document_id collate "C", c.tenant collate "C", c.version, c.range_start;
end;
$$;
revoke all on function rag_api.candidates from public;
grant execute on function rag_api.candidates to rag_reader, rag_auditor;
comment on function rag_api.candidates is
  'Every visible passage with score, eligibility, reason and place: for people, never for a decision.';

-- For the auditor: the ranking over every tenant's passages, as a system would have it that ranks first and asks
-- questions later, with what a tenant may use of it. `position` is the place in that global order; "take K, then filter"
-- is `where position <= K and eligible`. A tenant cannot call this: it cannot see the others at all.
create function rag_api.global_ranking(
  p_tenant text,
  p_query text,
  p_case_facts jsonb,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (
    "position" integer,
    score integer,
    tenant text,
    document_id text,
    version integer,
    eligible boolean,
    reason text,
    attribute text,
    applies_to text[],
    case_value text
  )
  language sql
  stable
  parallel restricted
begin atomic
  select
    row_number() over (
      order by c.score desc, c.document_id collate "C", c.tenant collate "C", c.version, c.range_start
    )::integer,
    c.score,
    c.tenant,
    c.document_id,
    c.version,
    c.eligible and c.tenant in ('public', p_tenant),
    case when c.tenant in ('public', p_tenant) then c.reason else 'other_tenant' end,
    case when c.tenant in ('public', p_tenant) then c.attribute end,
    case when c.tenant in ('public', p_tenant) then c.applies_to end,
    case when c.tenant in ('public', p_tenant) then c.case_value end
  from rag_api.candidates(p_query, p_case_facts, 1, p_valid_at, p_known_at) as c
  order by 1;
end;
revoke all on function rag_api.global_ranking from public;
grant execute on function rag_api.global_ranking to rag_auditor;
comment on function rag_api.global_ranking is
  'Auditor: all tenants'' passages ranked together, with what one tenant may use of them.';

reset role;
