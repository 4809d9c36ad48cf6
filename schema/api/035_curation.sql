-- Curation: spans that come after their documents, and what of a contract stands where.
--
-- Adding spans is done with the caller's own rights, like loading: grants and policies decide, add_spans adds validation
-- with clear errors. The trigger on rag.span finds the places (law 3). A span that is added is new evidence: a decision
-- made before does not have it, a digest made after does.
--
-- Looking proposes and licenses nothing: where a proposition's quotation stands, byte by byte, and which passage comes
-- nearest to one that stands nowhere. Only current versions are looked at, since only they can be used.

set local role rag_owner;

-- What is wrong with the spans of a curation: position in the list (from 0), key, problem.
create function rag_api._added_span_problems(
  p_spans jsonb
)
  returns table (span_position integer, key text, problem text)
  language sql
  stable
begin atomic
  with span as (
    select (i - 1)::integer as span_position, case when jsonb_typeof(s) = 'object' then s else '{}' end as s
    from jsonb_array_elements(p_spans) with ordinality as t(s, i)
  )
  select span_position, k, 'must be a text of 1 to 200 bytes, without control characters or outer spaces'
    from span, unnest(array['document', 'span']) as k
    where not rag_api._is_name(s -> k)
  union all
  select span_position, 'version', 'must be a whole number from 1 to 2147483647'
    from span
    where case
      when jsonb_typeof(s -> 'version') is distinct from 'number' then true
      when s ->> 'version' !~ '^[1-9][0-9]{0,9}$' then true
      else (s ->> 'version')::numeric > 2147483647
    end
  union all
  select span_position, p.key, p.problem
    from span, rag_api._span_problems(s) as p
  union all
  select span_position, k, 'unknown key; a span has document, version, span, fact, quote and occurrence'
    from span, jsonb_object_keys(s) as k
    where k not in ('document', 'version', 'span', 'fact', 'quote', 'occurrence')
  union all
  select max(span_position), 'span',
      format('span "%s" of "%s" version %s stands more than once', s ->> 'span', s ->> 'document', s ->> 'version')
    from span group by s ->> 'document', s ->> 'version', s ->> 'span' having count(*) > 1;
end;
revoke all on function rag_api._added_span_problems from public;
grant execute on function rag_api._added_span_problems to rag_curator, rag_publisher;
comment on function rag_api._added_span_problems is 'Private: what is wrong with a list of spans to add.';

-- Adds spans to versions of the bound tenant that exist, all or nothing. p_spans is an array of objects with the keys
-- document, version, span, fact, quote and, where the quotation is ambiguous, occurrence.
--
-- A span that exists with the same fact, quotation and occurrence is left alone (`same`); with other content it is
-- refused (RS025), since a span is immutable.
--
-- Returns one row per span, in the order given: `new` or `same`. Raises RS002, RS003; RS020, RS022, RS025 and RS028 with the
-- place in COLUMN (position in the array, then the key); RS023 and RS024 with document, version and span in TABLE,
-- DATATYPE and CONSTRAINT. RS022 is the same whether another tenant has such a version or nobody has.
create function rag_api.add_spans(
  p_spans jsonb
)
  returns table (document_id text, version integer, span_id text, status text)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_tenant constant text := rag_api._writable_tenant();
  v_problem record;
  v_new_documents text[];
  v_new_versions integer[];
  v_new_spans text[];
begin
  if jsonb_typeof(p_spans) is distinct from 'array' then
    raise exception using errcode = 'RS020', message = 'spans must be given as a JSON array';
  end if;

  select p.span_position, p.key, p.problem into v_problem
  from rag_api._added_span_problems(p_spans) p
  order by p.span_position, p.key collate "C"
  limit 1;
  if found then
    raise exception using
      errcode = 'RS020',
      message = format('%s: %s', v_problem.key, v_problem.problem),
      column = format('%s.%s', v_problem.span_position, v_problem.key);
  end if;

  -- Here and below what is stored is looked up by its key, span by span: as joins these would be planned by statistics,
  -- which tell nothing of a tenant that was loaded a moment ago.
  select i - 1 as span_position, s ->> 'document' as document, s ->> 'version' as version into v_problem
  from jsonb_array_elements(p_spans) with ordinality as t(s, i)
  where (
    select true from rag.version v
    where v.tenant = v_tenant and v.document_id = s ->> 'document' and v.version = (s ->> 'version')::integer
  ) is null
  order by i
  limit 1;
  if found then
    raise exception using
      errcode = 'RS022',
      message = format('no version %s of document "%s"', v_problem.version, v_problem.document),
      column = format('%s.version', v_problem.span_position),
      hint = 'Spans are added for the tenant that the document belongs to, after the document was loaded.';
  end if;

  select i - 1 as span_position, e.document_id as document, e.version into v_problem
  from jsonb_array_elements(p_spans) with ordinality as t(s, i)
  join rag.erasure e
    on e.tenant = v_tenant and e.document_id = s ->> 'document' and e.version = (s ->> 'version')::integer
  order by i
  limit 1;
  if found then
    raise exception using
      errcode = 'RS028',
      message = format('version %s of document "%s" was erased', v_problem.version, v_problem.document),
      column = format('%s.version', v_problem.span_position),
      hint = 'Who erased it, when and why: select * from rag_api.erasure;';
  end if;

  -- In one order, whatever order the spans came in: two curators wait for each other and do not deadlock. A span that
  -- another curator has just stored is compared below, like any that was there.
  with inserted as (
    insert into rag.span (tenant, document_id, version, span_id, fact, quote, occurrence)
    select v_tenant, s.document, s.version, s.span, s.fact, s.quote, s.occurrence
    from jsonb_to_recordset(p_spans)
      as s(document text, version integer, span text, fact text, quote text, occurrence integer)
    -- What is there is not located again; the conflict clause is for what another curator stores meanwhile.
    where (
      select true from rag.span o
      where o.tenant = v_tenant and o.document_id = s.document and o.version = s.version and o.span_id = s.span
    ) is null
    order by s.document collate "C", s.version, s.span collate "C"
    on conflict on constraint span_key do nothing
    returning document_id, version, span_id
  )
  select coalesce(array_agg(n.document_id), '{}'), coalesce(array_agg(n.version), '{}'), coalesce(array_agg(n.span_id), '{}')
  into v_new_documents, v_new_versions, v_new_spans
  from inserted n;

  -- A span that is there must be the same; those stored just now are.
  select s.i - 1 as span_position, s.document, s.version, s.span, c.what into v_problem
  from rows from (
    jsonb_to_recordset(p_spans) as (document text, version integer, span text, fact text, quote text, occurrence integer)
  ) with ordinality as s(document, version, span, fact, quote, occurrence, i)
  cross join lateral (
    select o.fact, o.quote, o.occurrence
    from rag.span o
    where o.tenant = v_tenant and o.document_id = s.document and o.version = s.version and o.span_id = s.span
    offset 0
  ) as o
  cross join lateral (
    select string_agg(what, ', ') as what
    from (values
      ('fact', o.fact = s.fact),
      ('quote', o.quote = s.quote),
      ('occurrence', o.occurrence is not distinct from s.occurrence)
    ) as comparison(what, same)
    where not same
  ) c
  where c.what is not null
  order by s.i
  limit 1;
  if found then
    raise exception using
      errcode = 'RS025',
      message = format('span "%s" of "%s" version %s exists with other content: %s',
        v_problem.span, v_problem.document, v_problem.version, v_problem.what),
      column = format('%s.span', v_problem.span_position),
      hint = 'A span is immutable: give the changed one another id.';
  end if;

  -- A sub-select in the list of columns is hashed, however many spans there are.
  return query
  select
    s ->> 'document',
    (s ->> 'version')::integer,
    s ->> 'span',
    case
      when (s ->> 'document', (s ->> 'version')::integer, s ->> 'span') in (
        select n.document_id, n.version, n.span_id
        from unnest(v_new_documents, v_new_versions, v_new_spans) as n(document_id, version, span_id)
      )
      then 'new'
      else 'same'
    end
  from jsonb_array_elements(p_spans) with ordinality as t(s, i)
  order by i;
end;
$$;
revoke all on function rag_api.add_spans from public;
grant execute on function rag_api.add_spans to rag_curator, rag_publisher;
comment on function rag_api.add_spans is
  'Adds spans (array of objects: document, version, span, fact, quote, occurrence) for the bound tenant, all or nothing; new or same per span.';

-- The places of a contract's propositions in current visible versions; a proposition that stands nowhere has one row.
create function rag_api._occurrences(
  p_contract_tenant text,
  p_question_id text,
  p_contract_version integer
)
  returns table (
    fact_position integer,
    fact text,
    proposition_position integer,
    quote text,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    is_repeated boolean,
    span_ids text[]
  )
  language sql
  stable
  parallel restricted
begin atomic
  with proposition as materialized (
    select p.fact_position, p.fact, p.proposition_position, p.quote
    from rag_api.proposition p
    where p.tenant = p_contract_tenant
      and p.question_id = p_question_id
      and p.version = p_contract_version
  ), place as (
    select
      q.fact_position,
      q.proposition_position,
      v.tenant,
      v.document_id,
      v.version,
      a.place - 1 as range_start,
      rag.locate(v.body, q.quote, 2) is not null as is_repeated
    from rag_api.version_status() as s
    join rag.version v on v.tenant = s.tenant and v.document_id = s.document_id and v.version = s.version
    cross join proposition q
    -- offset 0: each body is searched once, not for the filter and again for the place.
    cross join lateral (select position((q.quote collate "C") in v.body) as place offset 0) as a
    where s.status = 'current' and a.place > 0
  )
  select
    q.fact_position,
    q.fact,
    q.proposition_position,
    q.quote,
    l.tenant,
    l.document_id,
    l.version,
    l.range_start,
    coalesce(l.is_repeated, false),
    array(
      select s.span_id
      from rag.span s
      where s.tenant = l.tenant
        and s.document_id = l.document_id
        and s.version = l.version
        and s.fact = q.fact
        and s.quote = q.quote
      order by s.span_id collate "C"
    )
  from proposition q
  left join place l on l.fact_position = q.fact_position and l.proposition_position = q.proposition_position
  order by q.fact_position, q.proposition_position, l.document_id collate "C", l.tenant collate "C", l.version;
end;
revoke all on function rag_api._occurrences from public;
grant execute on function rag_api._occurrences to rag_reader;
comment on function rag_api._occurrences is 'Private: where the propositions of a contract stand in current visible versions.';

-- Where the propositions of the contract that the tenant would get stand: one row for each proposition and current
-- visible version that contains its quotation, in contract order; one row with nulls (span_ids empty) for a proposition
-- that stands nowhere. RS013 without a contract, RS012 without that version of it.
--   range_start   where the quotation begins first, in code points from 0
--   is_repeated   it stands there more than once: a span has to name its occurrence
--   span_ids      the spans of that fact with that quotation; empty when nobody has curated it yet
create function rag_api.proposition_occurrences(
  p_question_id text,
  p_contract_version integer default null
)
  returns table (
    fact_position integer,
    fact text,
    proposition_position integer,
    quote text,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    is_repeated boolean,
    span_ids text[]
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_contract rag.contract;
begin
  v_contract := rag_api._required_contract(p_question_id, p_contract_version, null);
  return query
  select
    o.fact_position, o.fact, o.proposition_position, o.quote, o.tenant, o.document_id, o.version, o.range_start,
    o.is_repeated, o.span_ids
  from rag_api._occurrences(v_contract.tenant, v_contract.question_id, v_contract.version) as o
  order by o.fact_position, o.proposition_position, o.document_id collate "C", o.tenant collate "C", o.version;
end;
$$;
revoke all on function rag_api.proposition_occurrences from public;
grant execute on function rag_api.proposition_occurrences to rag_reader;
comment on function rag_api.proposition_occurrences is
  'Where the propositions of a question''s contract stand in current versions, and which spans quote them there.';

-- The K passages that share most distinct words with a quotation, at least one; none for a quotation without a word: of
-- one version, or of all current visible ones where none is named.
create function rag_api._nearest_passages(
  p_quote text,
  p_k integer,
  p_tenant text,
  p_document_id text,
  p_version integer,
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (
    score integer,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    range_end integer,
    text text
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_words constant text[] := rag.words(p_quote);
begin
  return query
  select r.score, r.tenant, r.document_id, r.version, r.range_start, r.range_end, r.text
  from (
    select
      length(p.words) - length(ts_delete(p.words, v_words)) as score,
      p.tenant, p.document_id, p.version, p.range_start, p.range_end, p.text
    from (
      select p_tenant as tenant, p_document_id as document_id, p_version as version
      where p_version is not null
      union all
      select v.tenant, v.document_id, v.version
      from rag_api.version_status(p_valid_at, p_known_at) as v
      where p_version is null and v.status = 'current'
    ) as s
    join rag_api.passage p on p.tenant = s.tenant and p.document_id = s.document_id and p.version = s.version
  ) as r
  where r.score >= 1
  order by r.score desc, r.document_id collate "C", r.tenant collate "C", r.version, r.range_start
  limit p_k;
end;
$$;
revoke all on function rag_api._nearest_passages from public;
grant execute on function rag_api._nearest_passages to rag_reader;
comment on function rag_api._nearest_passages is
  'Private: the passages that share most words with a quotation, of one version or of all current ones.';

-- The K current visible passages that share most distinct words with a quotation, at least one; none for a quotation
-- without a word. For people who look for what a quotation was meant to be: it licenses nothing. RS010 for a K outside
-- 1 to 1,000, or a quotation longer than any that is stored (1 MiB).
create function rag_api.nearest_passage(
  p_quote text,
  p_k integer default 1
)
  returns table (
    score integer,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    range_end integer,
    text text
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_k is null or p_k not between 1 and 1000 then
    raise exception using
      errcode = 'RS010',
      message = format('K must be from 1 to 1000, not %s', coalesce(p_k::text, 'null'));
  end if;
  if octet_length(p_quote) > 1048576 then
    raise exception using
      errcode = 'RS010',
      message = format('the quotation has %s bytes; 1048576 is the most', octet_length(p_quote));
  end if;
  return query
  select n.score, n.tenant, n.document_id, n.version, n.range_start, n.range_end, n.text
  from rag_api._nearest_passages(p_quote, p_k, null, null, null, null, null) as n
  order by n.score desc, n.document_id collate "C", n.tenant collate "C", n.version, n.range_start;
end;
$$;
revoke all on function rag_api.nearest_passage from public;
grant execute on function rag_api.nearest_passage to rag_reader;
comment on function rag_api.nearest_passage is
  'The current visible passages that share most words with a quotation: for people, never for a decision.';

reset role;
