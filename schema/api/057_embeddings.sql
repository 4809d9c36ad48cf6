-- Embeddings: storing vectors of passages, and searching by them.
--
--   add_embeddings       stores vectors that somebody made of passages of the bound tenant
--   missing_embeddings   passages of the bound tenant that have none of a model
--   _vector              a vector as it is kept and searched with
--   _store_embeddings    writes vectors; rag_search's
--   _unembedded          which passages have none; rag_search's
--   _vector_search       the eligible passages that are nearest to a vector; rag_search's, as is
--   _nearest             the same of one tenant
--   _bucket              in which bucket a tenant's vectors of a model are
--
-- Vectors and buckets are in rag_index (tables/090_embeddings), which the functions of rag_search alone reach, under the
-- policies: public and the bound tenant, to write the tenant that the session may write for.

set local role rag_owner;

-- A vector as it is kept: of length 1, in half precision, from a text such as [0.1,-2,3e-4]. RS016 unless it is a list of 1 to
-- 4,000 finite numbers that are not all 0. Brought to length 1 before it is rounded, so that nothing is too great or too
-- small for half precision.
create function rag_api._vector(
  p_text text
)
  returns public.halfvec
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_vector public.vector;
  v_problem text;
begin
  begin
    v_vector := p_text::public.vector;
  exception
    when data_exception or program_limit_exceeded then
      v_problem := left(sqlerrm, 200);
  end;
  if v_problem is null and v_vector is null then
    v_problem := 'It is null.';
  elsif v_problem is null and public.vector_norm(v_vector) = 0 then
    v_problem := 'All its numbers are 0, so it has no direction.';
  elsif v_problem is null and public.vector_dims(v_vector) > 4000 then
    v_problem := format('It has %s numbers.', public.vector_dims(v_vector));
  end if;
  if v_problem is not null then
    raise exception using
      errcode = 'RS016',
      message = 'this is no vector',
      detail = v_problem,
      hint = 'A vector is a list of 1 to 4000 finite numbers, not all of them 0: [0.1,-2,3e-4].';
  end if;
  return public.l2_normalize(v_vector)::public.halfvec;
end;
$$;
revoke all on function rag_api._vector from public;
grant execute on function rag_api._vector to rag_reader;
comment on function rag_api._vector is 'Private: a vector of length 1 in half precision; RS016 when it is none.';

create view rag_api.embedding_model with (security_invoker = true) as
  select m.tenant, m.model, m.model_version, m.dimension, m.recorded_at, m.recorded_by
  from rag.embedding_model m;
grant select on rag_api.embedding_model to rag_reader, rag_auditor;
comment on view rag_api.embedding_model is 'Models of which public and the bound tenant have vectors.';

grant create on schema rag_api to rag_search;
set local role rag_search;
-- The settings of graphs are pgvector's own, and known once it is loaded.
do $$ begin perform '[1]'::public.halfvec; end $$;

-- The bucket that a tenant's vectors of a model are in; null when it has none. Opens the partition, and so has this session
-- take note of which there are: it may have looked before this one was attached, and who has read a table in a transaction
-- need not hear of new partitions in the next statement.
create function rag_api._bucket(
  p_tenant text,
  p_model text,
  p_model_version text
)
  returns integer
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_bucket constant integer := (
    select b.bucket from rag_index.bucket b
    where b.tenant = p_tenant and b.model = p_model and b.model_version = p_model_version);
begin
  if v_bucket <> 0 then
    perform pg_relation_size(to_regclass(format('rag_index.embedding_%s', v_bucket)));
  end if;
  return v_bucket;
end;
$$;
revoke all on function rag_api._bucket from public;
comment on function rag_api._bucket is 'Private: the bucket that a tenant''s vectors of a model are in.';

-- Stores vectors for the tenant that the session may write for, in the bucket that its model is in; returns how many were not
-- there. A definer function of rag_search, because no role that loads reaches rag_index. add_embeddings has said what is wrong
-- with any of them; here a passage that does not exist, or a vector of another dimension than is registered, is passed over,
-- so that whoever calls this one directly stores nothing that the other would refuse.
--
-- Which bucket it is is read after the lock is held: a move of the vectors (rag-sql maintain) waits for those who write, and
-- who writes for the move. A transaction that sees the database as it was when it began would read the bucket of then: RS010.
create function rag_api._store_embeddings(
  p_model text,
  p_model_version text,
  p_document_ids text[],
  p_versions integer[],
  p_range_starts integer[],
  p_vectors public.halfvec[]
)
  returns bigint
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.write_tenant();
  v_bucket integer;
  v_stored bigint;
begin
  if v_tenant is null
    or not pg_has_role(session_user, case v_tenant when 'public' then 'rag_publisher' else 'rag_curator' end, 'usage')
  then
    raise exception using
      errcode = 'RS003',
      message = format('login "%s" may not write for tenant "%s"', session_user, coalesce(v_tenant, ''));
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using
      errcode = 'RS010',
      message = format('vectors are not stored in a transaction that is %s', current_setting('transaction_isolation')),
      hint = 'Begin it as read committed.';
  end if;
  insert into rag_index.bucket (tenant, model, model_version)
  select m.tenant, m.model, m.model_version
  from rag.embedding_model m
  where m.tenant = v_tenant and m.model = p_model and m.model_version = p_model_version
  on conflict do nothing;
  perform pg_advisory_xact_lock_shared(b.lock_key)
  from rag_index.bucket b
  where b.tenant = v_tenant and b.model = p_model and b.model_version = p_model_version;
  v_bucket := rag_api._bucket(v_tenant, p_model, p_model_version);
  insert into rag_index.embedding (bucket, tenant, model, model_version, document_id, version, range_start, embedding)
  select v_bucket, v_tenant, p_model, p_model_version, n.document_id, n.version, n.range_start, n.embedding
  from unnest(p_document_ids, p_versions, p_range_starts, p_vectors) as n(document_id, version, range_start, embedding)
  join rag.passage p
    on p.tenant = v_tenant and p.document_id = n.document_id and p.version = n.version and p.range_start = n.range_start
  join rag_index.version i
    on i.tenant = v_tenant and i.document_id = n.document_id and i.version = n.version and i.used_until > '-infinity'  -- or erased
  join rag.embedding_model m
    on m.tenant = v_tenant and m.model = p_model and m.model_version = p_model_version
    and m.dimension = public.vector_dims(n.embedding)
  where v_bucket is not null and public.l2_norm(n.embedding) > 0
  on conflict do nothing;
  get diagnostics v_stored = row_count;
  return v_stored;
end;
$$;
revoke all on function rag_api._store_embeddings from public;
grant execute on function rag_api._store_embeddings to rag_curator, rag_publisher;
comment on function rag_api._store_embeddings is 'Private: writes vectors of passages of the bound tenant; how many were new. RS003, RS005, RS010.';

-- The places of passages of the bound tenant that have no vector of a model, in the order of their keys; at most p_limit, or
-- all where it is null. RS002, RS010. A definer function of rag_search, which alone reads rag_index.
create function rag_api._unembedded(
  p_model text,
  p_model_version text,
  p_limit integer
)
  returns table (document_id text, version integer, range_start integer)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_bucket constant integer := coalesce(rag_api._bucket(v_tenant, p_model, p_model_version), 0);
begin
  if p_limit < 1 then
    raise exception using errcode = 'RS010', message = format('a limit is at least 1, not %s', p_limit);
  end if;
  return query
  select p.document_id, p.version, p.range_start
  from rag.passage p
  join rag_index.version i
    on i.tenant = p.tenant and i.document_id = p.document_id and i.version = p.version and i.used_until > '-infinity'  -- or erased
  where p.tenant = v_tenant
    and not exists (
      select from rag_index.embedding e
      where e.bucket = v_bucket
        and e.tenant = v_tenant
        and e.model = p_model
        and e.model_version = p_model_version
        and e.document_id = p.document_id
        and e.version = p.version
        and e.range_start = p.range_start
    )
  order by p.document_id, p.version, p.range_start
  limit p_limit;
end;
$$;
revoke all on function rag_api._unembedded from public;
grant execute on function rag_api._unembedded to rag_reader;
comment on function rag_api._unembedded is 'Private: places of passages of the bound tenant without a vector of a model; RS002, RS010.';

-- The K eligible passages of one tenant that are nearest to a vector, among those that had one of the model at p_known_at, in order:
-- min(K, eligible with a vector) rows, always (law 1). The score is 1 + floor((2 - cosine distance) * 500,000): from 1 for the
-- opposite direction to 1,000,001 for the same.
--
-- Exact: all eligible vectors are compared, and so they are where no more than 10,000 passages are eligible, which takes little.
-- Otherwise, in a bucket that has a graph, the graph is asked for the 200 K nearest (2,000 to 5,000). Where at least 5 K of these
-- are eligible, the K best of them are the answer: with so many to spare, few that belong there are missed. Where fewer are, it
-- is exact after all.
--
-- A transaction that sees the database as it was may look for a bucket that is gone (rag-sql maintain): RS018, and not a result
-- that lacks it.
--
-- What the graph gives is compared by the same expression as all vectors are. It need not come in order: more is found when
-- nothing is passed over for having been found late (relaxed_order).
create function rag_api._nearest(
  p_tenant text,
  p_model text,
  p_model_version text,
  p_vector public.halfvec,
  p_k integer,
  p_exact boolean,
  p_tenants text[],
  p_scope_ids uuid[],
  p_valid_at timestamptz,
  p_known_at timestamptz,
  p_all boolean
)
  returns table (score integer, document_id text, version integer, range_start integer)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set hnsw.iterative_scan = 'relaxed_order'
  set hnsw.ef_search = 1000
  set hnsw.scan_mem_multiplier = 4
  set random_page_cost = 1.1
as $$
declare
  v_bucket constant integer := rag_api._bucket(p_tenant, p_model, p_model_version);
  v_eligible constant bigint := coalesce((
    select sum(s.passages)
    from rag_api._eligible_segments(p_tenants, p_scope_ids, p_valid_at, p_known_at, false) as s
    where s.tenant = p_tenant
  ), 0);
  v_candidates constant integer := least(greatest(200 * p_k, 2000), 5000);
  v_found integer := 0;
  v_scores integer[];
  v_document_ids text[];
  v_versions integer[];
  v_range_starts integer[];
begin
  if v_bucket <> 0 and not p_exact and v_eligible > 10000 and v_candidates >= 5 * p_k then
    execute format(
      'with eligible as materialized (
        select s.tenant, s.segment_id, s.cuts from rag_api._eligible_segments($4, $5, $6, $7, false) as s
      )
      select
        count(*),
        (array_agg(h.score))[1:$2],
        (array_agg(h.document_id))[1:$2],
        (array_agg(h.version))[1:$2],
        (array_agg(h.range_start))[1:$2]
      from (
        select 1 + floor((2 - n.distance) * 500000)::integer as score, n.document_id, n.version, n.range_start
        from (
          select e.document_id, e.version, e.range_start, e.embedding operator(public.<=>) $1 as distance
          from rag_index.embedding e
          where e.bucket = %s and e.recorded_at <= $7
          order by (e.embedding::public.halfvec(%s)) operator(public.<=>) $1
          limit %s
        ) as n
        join rag_index.version v on v.tenant = $3 and v.document_id = n.document_id and v.version = n.version
        join eligible s
          on s.tenant = v.tenant
          and s.segment_id = v.segment_id
          and (s.cuts is null or width_bucket(v.first_ordinal, s.cuts) %% 2 = 1)
        order by score desc, n.document_id, n.version, n.range_start
      ) as h',
      v_bucket, public.vector_dims(p_vector), v_candidates)
    into v_found, v_scores, v_document_ids, v_versions, v_range_starts
    using p_vector, p_k, p_tenant, p_tenants, p_scope_ids, p_valid_at, p_known_at;
  end if;
  if v_found >= 5 * p_k then
    return query select * from unnest(v_scores, v_document_ids, v_versions, v_range_starts);
  else
    return query execute format(
      'with eligible as materialized (
        select s.tenant, s.segment_id, s.cuts from rag_api._eligible_segments($4, $5, $6, $7, $8) as s
      )
      select
        1 + floor((2 - (e.embedding operator(public.<=>) $1)) * 500000)::integer as score,
        e.document_id,
        e.version,
        e.range_start
      from eligible s
      join rag_index.version v
        on v.tenant = s.tenant
        and v.segment_id = s.segment_id
        and ($8 or s.cuts is null or width_bucket(v.first_ordinal, s.cuts) %% 2 = 1)
      join rag_index.embedding e on e.tenant = v.tenant and e.document_id = v.document_id and e.version = v.version
      where s.tenant = $3 and e.bucket = %s and e.tenant = $3 and e.model = $9 and e.model_version = $10 and e.recorded_at <= $7
      order by score desc, e.document_id, e.version, e.range_start
      limit $2',
      coalesce(v_bucket, 0))
    using p_vector, p_k, p_tenant, p_tenants, p_scope_ids, p_valid_at, p_known_at, p_all, p_model, p_model_version;
  end if;
  -- Asked of the catalog as it is now, whatever the transaction sees; and last, when nobody can take the bucket away any more.
  if v_bucket <> 0 and pg_partition_root(to_regclass(format('rag_index.embedding_%s', v_bucket))) is null then
    raise exception using
      errcode = 'RS018',
      message = 'the vectors were moved after this transaction began to see the database',
      hint = 'Repeat the transaction.';
  end if;
end;
$$;
revoke all on function rag_api._nearest from public;
comment on function rag_api._nearest is
  'Private: the eligible passages of one tenant that are nearest to a vector; ids and scores.';

-- The K eligible passages of public and the bound tenant that are nearest to a vector (rag_api._vector), in order, ties by
-- document, visibility, version and range start, by bytes. Exact for decisions; what it returns without p_exact may miss some
-- that a graph does not find, and never returns fewer. Ids and scores: the texts are read under the caller's policies.
--
-- p_tenants and p_scope_ids are the scopes that fit the case, pairwise; with p_all passages that are not eligible come too, all
-- of them for a null K.
--
-- RS014 when neither has vectors of the model, RS015 for a vector of another dimension, RS016 for none: before anything is
-- read. RS018 as _nearest.
create function rag_api._vector_search(
  p_model text,
  p_model_version text,
  p_vector public.halfvec,
  p_k integer,
  p_exact boolean,
  p_tenants text[],
  p_scope_ids uuid[],
  p_valid_at timestamptz,
  p_known_at timestamptz,
  p_all boolean
)
  returns table (score integer, tenant text, document_id text, version integer, range_start integer)
  language plpgsql
  stable
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.tenant();
  v_models integer;
  v_dimension integer;
begin
  if p_vector is null or public.l2_norm(p_vector) = 0 then
    raise exception using
      errcode = 'RS016',
      message = 'this is no vector',
      detail = case when p_vector is null then 'It is null.' else 'All its numbers are 0, so it has no direction.' end,
      hint = 'A vector is a list of 1 to 4000 finite numbers, not all of them 0: [0.1,-2,3e-4].';
  end if;
  select count(*), min(m.dimension) filter (where m.dimension <> public.vector_dims(p_vector)) into v_models, v_dimension
  from rag.embedding_model m
  where m.tenant in ('public', v_tenant) and m.model = p_model and m.model_version = p_model_version;
  if v_models = 0 then
    raise exception using
      errcode = 'RS014',
      message = format('there are no vectors of model "%s", version "%s"', p_model, p_model_version),
      hint = 'Models that have some: select * from rag_api.embedding_model. Vectors are made with: rag-sql embed';
  end if;
  if v_dimension is not null then
    raise exception using
      errcode = 'RS015',
      message = format('vectors of model "%s", version "%s", have %s numbers, not %s',
        p_model, p_model_version, v_dimension, public.vector_dims(p_vector)),
      hint = 'Make the vector of the query with the model that made those of the passages.';
  end if;
  return query
  select n.score, m.tenant, n.document_id, n.version, n.range_start
  from rag.embedding_model m
  cross join lateral rag_api._nearest(
    m.tenant, p_model, p_model_version, p_vector, p_k, p_exact, p_tenants, p_scope_ids, p_valid_at, p_known_at, p_all) as n
  where m.tenant in ('public', v_tenant) and m.model = p_model and m.model_version = p_model_version
  order by n.score desc, n.document_id collate "C", m.tenant, n.version, n.range_start
  limit p_k;
end;
$$;
revoke all on function rag_api._vector_search from public;
grant execute on function rag_api._vector_search to rag_reader;
comment on function rag_api._vector_search is
  'Private: the eligible passages of public and the bound tenant that are nearest to a vector; RS014, RS015, RS016, RS018.';

set local role rag_owner;
revoke create on schema rag_api from rag_search;

-- Stores vectors of passages of the bound tenant, all or nothing, and returns how many were new: what has a vector of the
-- model keeps it. The four arrays have an entry for each passage. The model is registered with its first vectors, with their
-- dimension; RS015 for a vector of another one, also than that of public's of this model, since one query searches both.
-- RS016 for what is no vector, RS017 for a passage that is not there or is not the tenant's, RS028 for one that was erased,
-- RS010 for a malformed call.
create function rag_api.add_embeddings(
  p_model text,
  p_model_version text,
  p_document_ids text[],
  p_versions integer[],
  p_range_starts integer[],
  p_vectors text[]
)
  returns bigint
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_api._writable_tenant();
  v_vectors public.halfvec[];
  v_dimension integer;
  v_wrong record;
begin
  if not (rag_api._is_name(to_jsonb(p_model)) and rag_api._is_name(to_jsonb(p_model_version))) then
    raise exception using
      errcode = 'RS010',
      message = 'a model and its version are named by texts of 1 to 200 bytes, without control characters or outer spaces';
  end if;
  if (cardinality(p_document_ids), cardinality(p_versions), cardinality(p_range_starts))
    is distinct from (cardinality(p_vectors), cardinality(p_vectors), cardinality(p_vectors))
    or p_vectors is null
  then
    raise exception using
      errcode = 'RS010',
      message = 'documents, versions, range starts and vectors are arrays of one length';
  end if;
  if cardinality(p_vectors) = 0 then
    return 0;
  end if;

  v_vectors := array(select rag_api._vector(v.text) from unnest(p_vectors) with ordinality as v(text, place) order by v.place);
  if not exists (
    select from rag.embedding_model m where m.tenant = v_tenant and m.model = p_model and m.model_version = p_model_version
  ) then
    insert into rag.embedding_model (tenant, model, model_version, dimension)
    values (v_tenant, p_model, p_model_version, public.vector_dims(v_vectors[1]))
    on conflict do nothing;
  end if;
  select m.dimension, n.document_id, n.version, public.vector_dims(n.vector) as found into v_wrong
  from unnest(p_document_ids, p_versions, v_vectors) as n(document_id, version, vector)
  join rag.embedding_model m on m.tenant in ('public', v_tenant) and m.model = p_model and m.model_version = p_model_version
  where m.dimension <> public.vector_dims(n.vector)
  limit 1;
  if found then
    raise exception using
      errcode = 'RS015',
      message = format('vectors of model "%s", version "%s", have %s numbers, not %s',
        p_model, p_model_version, v_wrong.dimension, v_wrong.found),
      detail = format('The vector is for version %s of document "%s".', v_wrong.version, v_wrong.document_id),
      hint = 'Give vectors of another dimension another model version.';
  end if;

  select n.document_id, n.version, n.range_start into v_wrong
  from unnest(p_document_ids, p_versions, p_range_starts) as n(document_id, version, range_start)
  where not exists (
    select from rag.passage p
    where p.tenant = v_tenant
      and p.document_id = n.document_id
      and p.version = n.version
      and p.range_start = n.range_start
  )
  limit 1;
  if found then
    raise exception using
      errcode = 'RS017',
      message = format('no passage of version %s of document "%s" begins at %s',
        coalesce(v_wrong.version::text, 'null'), coalesce(v_wrong.document_id, 'null'),
        coalesce(v_wrong.range_start::text, 'null')),
      hint = 'Passages that have no vector yet: rag_api.missing_embeddings.';
  end if;
  select e.document_id, e.version into v_wrong
  from unnest(p_document_ids, p_versions) as n(document_id, version)
  join rag.erasure e on e.tenant = v_tenant and e.document_id = n.document_id and e.version = n.version
  limit 1;
  if found then
    raise exception using
      errcode = 'RS028',
      message = format('version %s of document "%s" was erased', v_wrong.version, v_wrong.document_id),
      hint = 'Passages that have no vector yet: rag_api.missing_embeddings.';
  end if;
  return rag_api._store_embeddings(p_model, p_model_version, p_document_ids, p_versions, p_range_starts, v_vectors);
end;
$$;
revoke all on function rag_api.add_embeddings from public;
grant execute on function rag_api.add_embeddings to rag_curator, rag_publisher;
comment on function rag_api.add_embeddings is
  'Stores vectors of passages of the bound tenant, all or nothing; how many were new. RS002, RS003, RS005, RS010, RS015, RS016, RS017, RS028.';

-- Passages of the bound tenant that have no vector of a model, with their texts, in the order of their keys: at most p_limit;
-- null: all. None when every passage has one. RS002 when no tenant is bound. RS010 for a limit below 1.
create function rag_api.missing_embeddings(
  p_model text,
  p_model_version text,
  p_limit integer
)
  returns table (document_id text, version integer, range_start integer, text text)
  language sql
  stable
begin atomic
  select p.document_id, p.version, p.range_start, p.text
  from rag_api._unembedded(p_model, p_model_version, p_limit) as m
  join rag_api.passage p
    on p.tenant = (select rag_auth.tenant())
    and p.document_id = m.document_id
    and p.version = m.version
    and p.range_start = m.range_start
  order by p.document_id, p.version, p.range_start;
end;
revoke all on function rag_api.missing_embeddings from public;
grant execute on function rag_api.missing_embeddings to rag_reader;
comment on function rag_api.missing_embeddings is 'Passages of the bound tenant that have no vector of a model; RS002, RS010.';

reset role;
