-- Loading and withdrawing documents.
--
-- Writing is done with the caller's own rights: a curator's grants and the policies decide what may be added, the
-- functions add validation with clear errors. All writes are set-based: one call takes any number of documents.

set local role rag_owner;

-- Whether a value can name a document, a span, a fact or an attribute.
create function rag_api._is_name(
  p_value jsonb
)
  returns boolean
  language sql
  immutable
  parallel safe
return coalesce(
  jsonb_typeof(p_value) = 'string'
  and octet_length(p_value #>> '{}') between 1 and 200
  and p_value #>> '{}' !~ '[[:cntrl:]]'
  and p_value #>> '{}' = btrim(p_value #>> '{}'),
  false
);
revoke all on function rag_api._is_name from public;
grant execute on function rag_api._is_name to rag_curator, rag_publisher;
comment on function rag_api._is_name is 'Private: whether a value is a text of 1 to 200 bytes, without control characters or outer spaces.';

-- What is wrong with what a span says, whether it comes with its document or after it: key, problem.
create function rag_api._span_problems(
  p_span jsonb
)
  returns table (key text, problem text)
  language sql
  immutable
  parallel safe
begin atomic
  select 'fact', 'must be a text of 1 to 200 bytes, without control characters or outer spaces'
    where not rag_api._is_name(p_span -> 'fact')
  union all
  select 'quote', 'must be a text of 1 byte to 1 MiB'
    where jsonb_typeof(p_span -> 'quote') is distinct from 'string'
      or octet_length(p_span ->> 'quote') not between 1 and 1048576
  union all
  select 'occurrence', 'must be a whole number from 1 to 1000'
    where p_span ? 'occurrence' and (
      jsonb_typeof(p_span -> 'occurrence') <> 'number' or p_span ->> 'occurrence' !~ '^([1-9][0-9]{0,2}|1000)$'
    );
end;
revoke all on function rag_api._span_problems from public;
grant execute on function rag_api._span_problems to rag_curator, rag_publisher;
comment on function rag_api._span_problems is 'Private: what is wrong with the fact, quotation and occurrence of a span.';

-- What is wrong with the documents of a load: position in the list (from 0), path within the document, problem.
create function rag_api._document_problems(
  p_documents jsonb
)
  returns table (document_position integer, path text, problem text)
  language sql
  stable
begin atomic
  with document as (
    select (i - 1)::integer as document_position, case when jsonb_typeof(d) = 'object' then d else '{}' end as d
    from jsonb_array_elements(p_documents) with ordinality as t(d, i)
  ), attribute as (
    select document_position, 'applies_to.' || a.key as path, a.key, a.value
    from document, jsonb_each(case when jsonb_typeof(d -> 'applies_to') = 'object' then d -> 'applies_to' else '{}' end) a
  ), span as (
    select
      document_position,
      'spans.' || (j - 1) as path,
      case when jsonb_typeof(s) = 'object' then s else '{}' end as s
    from document,
      jsonb_array_elements(case when jsonb_typeof(d -> 'spans') = 'array' then d -> 'spans' else '[]' end)
      with ordinality as t(s, j)
  ), name as (
    select document_position, 'applies_to.' || key as path, to_jsonb(key) as value
      from document, jsonb_object_keys(case when jsonb_typeof(d -> 'applies_to') = 'object' then d -> 'applies_to' else '{}' end) as key
    union all select document_position, 'id' as path, d -> 'id' as value from document
    union all select document_position, path || '.id', s -> 'id' from span
  )
  select document_position, path, 'must be a text of 1 to 200 bytes, without control characters or outer spaces'
    from name
    where not rag_api._is_name(value)
  union all
  select document_position, 'version', 'must be a whole number from 1 to 2147483647'
    from document
    where jsonb_typeof(d -> 'version') is distinct from 'number'
      or d ->> 'version' !~ '^[1-9][0-9]{0,9}$'
      or (d ->> 'version')::numeric > 2147483647
  union all
  select document_position, 'body', 'must be a text of 1 byte to 10 MiB'
    from document
    where jsonb_typeof(d -> 'body') is distinct from 'string'
      or octet_length(d ->> 'body') not between 1 and 10485760
  union all
  -- Only a long body can have that many words; rag.word_vector is the backstop.
  select document_position, 'body', 'its distinct words exceed 1 MiB; cut it into passages, or split the document'
    from document
    where coalesce(d -> 'outline', '[]') = '[]'
      and octet_length(d ->> 'body') between 900000 and 10485760
      and (select sum(octet_length(w) + 1) from unnest(rag.words(d ->> 'body')) as w) > 1048575
  union all
  select document_position, k, format('must be a text of at most %s bytes', most)
    from document, (values ('title', 1000), ('source', 4096)) as v(k, most)
    where d ? k and (jsonb_typeof(d -> k) <> 'string' or octet_length(d ->> k) > most)
  union all
  select document_position, 'effective_from', 'must be a date or a time, such as 2026-03-01 or 2026-03-01T09:00:00Z'
    from document
    where d ? 'effective_from' and not (
      jsonb_typeof(d -> 'effective_from') = 'string'
      and d ->> 'effective_from' ~ '^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?$'
      and d ->> 'effective_from' !~ '^0000'
      and pg_input_is_valid(d ->> 'effective_from', 'timestamptz')
    )
  union all
  select document_position, 'published', 'must be a date, such as 2026-03-01'
    from document
    where d ? 'published' and not (
      jsonb_typeof(d -> 'published') = 'string'
      and d ->> 'published' ~ '^\d{4}-\d\d-\d\d$'
      and pg_input_is_valid(d ->> 'published', 'date')
    )
  union all
  select document_position, 'outline', 'must be a list of passages that ends with the body, each with end, a whole number, and headings'
    from document
    where d ? 'outline' and not rag.is_outline(d -> 'outline', char_length(d ->> 'body'))
  union all
  select document_position, 'metadata', 'must be a mapping'
    from document where d ? 'metadata' and jsonb_typeof(d -> 'metadata') <> 'object'
  union all
  select document_position, k, 'must have at most 65536 bytes as JSON'
    from document, unnest(array['metadata', 'applies_to']) as k
    where octet_length((d -> k)::text) > 65536
  union all
  select document_position, 'applies_to', 'must be a mapping of attributes to lists of values'
    from document where d ? 'applies_to' and jsonb_typeof(d -> 'applies_to') <> 'object'
  union all
  select document_position, path, 'must be a list of at least one value, each a text of 1 to 200 bytes'
    from attribute a
    where jsonb_typeof(value) <> 'array'
      or value = '[]'
      or exists (
        select from jsonb_array_elements(case when jsonb_typeof(a.value) = 'array' then a.value else '[]' end) as v
        where jsonb_typeof(v) <> 'string' or octet_length(v #>> '{}') not between 1 and 200
      )
  union all
  select document_position, path, 'a version that applies to every value leaves the attribute out; * is no value'
    from attribute where jsonb_typeof(value) = 'array' and value ? '*'
  union all
  select document_position, path, format('%s is no %s, as which the attribute is declared', to_json(s.value), t.type)
    from attribute a
    join rag_api._attribute_types(null) as t
      on t.tenant = coalesce((select rag_auth.tenant()), 'public') and t.attribute = a.key
    cross join jsonb_array_elements(case when jsonb_typeof(a.value) = 'array' then a.value else '[]' end) as v
    cross join lateral (select v #>> '{}' as value) as s
    where jsonb_typeof(v) = 'string' and rag.canonical_value(t.type, s.value) is null
  union all
  select document_position, 'spans', 'must be a list'
    from document where d ? 'spans' and jsonb_typeof(d -> 'spans') <> 'array'
  union all
  select document_position, path || '.' || p.key, p.problem
    from span, rag_api._span_problems(s) as p
  union all
  select document_position, path || '.' || k, 'unknown key; a span has id, fact, quote and occurrence'
    from span, jsonb_object_keys(s) as k
    where k not in ('id', 'fact', 'quote', 'occurrence')
  union all
  select document_position, k, 'unknown key; keep it under metadata'
    from document, jsonb_object_keys(d) as k
    where k not in ('id', 'version', 'title', 'body', 'applies_to', 'effective_from', 'published', 'source', 'metadata', 'outline',
      'spans')
  union all
  select max(document_position), max(path) || '.id', format('span "%s" stands more than once', s ->> 'id')
    from span group by document_position, s ->> 'id' having count(*) > 1
  union all
  select max(document_position), 'id', format('"%s" version %s stands more than once in this load', d ->> 'id', d ->> 'version')
    from document group by d ->> 'id', d ->> 'version' having count(*) > 1;
end;
revoke all on function rag_api._document_problems from public;
grant execute on function rag_api._document_problems to rag_curator, rag_publisher;
comment on function rag_api._document_problems is 'Private: what is wrong with a list of documents.';

-- RS003 unless the caller is in the group that writes for the bound tenant. The policies would refuse as well, with the
-- same SQLSTATE as a missing grant; this says which.
create function rag_api._writable_tenant()
  returns text
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_group constant text := case v_tenant when 'public' then 'rag_publisher' else 'rag_curator' end;
begin
  if not pg_has_role(v_group, 'usage') then
    raise exception using
      errcode = 'RS003',
      message = format('login "%s" may not write for tenant "%s"', session_user, v_tenant),
      hint = format('Ask the administrator of the store for: grant %I to %I;', v_group, session_user);
  end if;
  return v_tenant;
end;
$$;
revoke all on function rag_api._writable_tenant from public;
grant execute on function rag_api._writable_tenant to rag_curator, rag_publisher;
comment on function rag_api._writable_tenant is 'Private: the bound tenant, where the caller may write for it; RS002, RS003.';

-- In what a document of a load, well-formed, is other than the version of its id and number that is there: title, body,
-- ... No row when it is the same in everything that it states, and when there is no such version. The body is compared
-- by its SHA-256, the one that is in digests too, so that nobody needs the body to ask. A comparison that is null, which
-- none of a well-formed document is, counts as a difference.
create function rag_api._differences(
  p_tenant text,
  p_document jsonb,
  p_body_sha256 bytea
)
  returns table (what text)
  language sql
  stable
begin atomic
  select c.what
  from rag.version v
  cross join lateral (values
    ('body', v.body_sha256 = p_body_sha256),
    ('title', v.title collate "C" is not distinct from p_document ->> 'title'),
    -- What is stated as it is stored needs no canonical form to be the same.
    (
      'applies_to',
      v.applies_to = coalesce(p_document -> 'applies_to', '{}')
        or v.applies_to = rag.canonical_applies_to(coalesce(p_document -> 'applies_to', '{}'))
    ),
    (
      'effective_from',
      not p_document ? 'effective_from' or v.effective_from = (p_document ->> 'effective_from')::timestamptz
    ),
    ('published', v.published is not distinct from (p_document ->> 'published')::date),
    ('source', v.source collate "C" is not distinct from p_document ->> 'source'),
    ('metadata', v.metadata = coalesce(p_document -> 'metadata', '{}')),
    ('spans', not exists (
      select from jsonb_to_recordset(coalesce(p_document -> 'spans', '[]'))
        as s(id text, fact text, quote text, occurrence integer)
      where not exists (
        select from rag.span o
        where (o.tenant, o.document_id, o.version, o.span_id) = (v.tenant, v.document_id, v.version, s.id)
          and o.fact = s.fact and o.quote = s.quote and o.occurrence is not distinct from s.occurrence
      )
    ))
  ) as c(what, same)
  where v.tenant = p_tenant
    and v.document_id = p_document ->> 'id'
    and v.version = (p_document ->> 'version')::integer
    and c.same is not true;
end;
revoke all on function rag_api._differences from public;
grant execute on function rag_api._differences to rag_curator, rag_publisher;
comment on function rag_api._differences is
  'Private: in what a well-formed document is other than the version that is there; no row when in nothing.';

-- Loads documents for the bound tenant, all or nothing. p_documents is an array of objects with the keys id, version,
-- body and, optionally, title, applies_to, effective_from, published, source, metadata, outline (end and headings of each
-- passage; without it the body is one), spans (id, fact, quote, occurrence). Times without an offset are UTC.
--
-- A version that exists with the same content is left alone (`same`); with other content it is refused (RS021), since a
-- version is immutable. The outline is not compared: where a body is cut is no part of what it says, and what is there
-- stays as it was cut. A load that states no effective_from does not question the stored one, and one that states
-- fewer spans than are stored does not either: a curator may add spans to a version that exists. An attribute that was
-- not declared is declared as a text, with a notice.
--
-- Returns one row per document, in the order given: `new` or `same`, and by which version it is superseded as it stands
-- (null when by none). Raises RS002, RS003, RS020 (COLUMN names the
-- place: position in the array, then the path), RS021, RS023, RS024.
create function rag_api.load_documents(
  p_documents jsonb
)
  returns table (document_id text, version integer, status text, superseded_by integer)
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
  v_tenant constant text := rag_api._writable_tenant();
  v_problem record;
  v_new_ids text[];
  v_new_versions integer[];
begin
  if jsonb_typeof(p_documents) is distinct from 'array' then
    raise exception using errcode = 'RS020', message = 'documents must be given as a JSON array';
  end if;

  select p.document_position, p.path, p.problem into v_problem
  from rag_api._document_problems(p_documents) p
  order by p.document_position, p.path collate "C"
  limit 1;
  if found then
    raise exception using
      errcode = 'RS020',
      message = format('%s: %s', v_problem.path, v_problem.problem),
      column = format('%s.%s', v_problem.document_position, v_problem.path);
  end if;

  perform rag_api._declare_attributes(array(
    select distinct k
    from jsonb_array_elements(p_documents) as d
    cross join jsonb_object_keys(coalesce(d -> 'applies_to', '{}')) as k
  ));

  -- In one order, whatever order the documents came in: two loads of the same folder wait for each other and do not
  -- deadlock. A version that another load has just stored is compared below, like any that was there.
  with inserted as (
    insert into rag.version
      (tenant, document_id, version, title, body, applies_to, effective_from, published, source, metadata, outline)
    select
      v_tenant,
      d ->> 'id',
      (d ->> 'version')::integer,
      d ->> 'title',
      d ->> 'body',
      rag.canonical_applies_to(coalesce(d -> 'applies_to', '{}')),
      coalesce((d ->> 'effective_from')::timestamptz, now()),
      (d ->> 'published')::date,
      d ->> 'source',
      coalesce(d -> 'metadata', '{}'),
      coalesce(d -> 'outline', '[]')
    from jsonb_array_elements(p_documents) as d
    -- What is there costs no splitting into words; the conflict clause is for what another load stores meanwhile.
    where not exists (
      select from rag.version v
      where v.tenant = v_tenant and v.document_id = d ->> 'id' and v.version = (d ->> 'version')::integer
    )
    order by d ->> 'id' collate "C", (d ->> 'version')::integer
    on conflict on constraint version_key do nothing
    returning document_id, version
  )
  select coalesce(array_agg(n.document_id), '{}'), coalesce(array_agg(n.version), '{}')
  into v_new_ids, v_new_versions
  from inserted n;

  insert into rag.span (tenant, document_id, version, span_id, fact, quote, occurrence)
  select v_tenant, d ->> 'id', (d ->> 'version')::integer, s.id, s.fact, s.quote, s.occurrence
  from jsonb_array_elements(p_documents) as d
  join unnest(v_new_ids, v_new_versions) as n(id, version)
    on n.id = d ->> 'id' and n.version = (d ->> 'version')::integer
  cross join jsonb_to_recordset(coalesce(d -> 'spans', '[]')) as s(id text, fact text, quote text, occurrence integer)
  order by 2, 3, 4;

  -- A version that was there must be the same in everything this load states.
  select i - 1 as document_position, d ->> 'id' as id, d ->> 'version' as version, c.what into v_problem
  from jsonb_array_elements(p_documents) with ordinality as t(d, i)
  join rag.version v
    on v.tenant = v_tenant and v.document_id = d ->> 'id' and v.version = (d ->> 'version')::integer
  cross join lateral (
    select string_agg(what, ', ') as what
    from rag_api._differences(v_tenant, d, sha256(rag.utf8(d ->> 'body'))) as what
  ) c
  where c.what is not null
    and not exists (
      select from unnest(v_new_ids, v_new_versions) as n(id, version)
      where n.id = v.document_id and n.version = v.version
    )
  order by i
  limit 1;
  if found then
    raise exception using
      errcode = 'RS021',
      message = format('"%s" version %s exists with other content: %s', v_problem.id, v_problem.version, v_problem.what),
      column = format('%s.version', v_problem.document_position),
      hint = 'A version is immutable: give the changed document the next version number.';
  end if;

  return query
  select
    d ->> 'id',
    (d ->> 'version')::integer,
    case when n.id is null then 'same' else 'new' end,
    (
      select w.version
      from rag.version v
      join rag.version w on w.tenant = v.tenant and w.document_id = v.document_id
      where v.tenant = v_tenant
        and v.document_id = d ->> 'id'
        and v.version = (d ->> 'version')::integer
        and w.effective_from <= statement_timestamp()
        and (w.effective_from, w.version) > (v.effective_from, v.version)
      order by w.effective_from desc, w.version desc
      limit 1
    )
  from jsonb_array_elements(p_documents) with ordinality as t(d, i)
  left join unnest(v_new_ids, v_new_versions) as n(id, version)
    on n.id = d ->> 'id' and n.version = (d ->> 'version')::integer
  order by i;
end;
$$;
revoke all on function rag_api.load_documents from public;
grant execute on function rag_api.load_documents to rag_curator, rag_publisher;
comment on function rag_api.load_documents is
  'Loads documents (array of objects: id, version, body, ...) for the bound tenant, all or nothing; new or same per document.';

-- Which documents of a load are there already: those that load_documents would call `same`, by the same validation and
-- the same comparison, so that a load that is run again need not send their bodies. p_documents is as for
-- load_documents, without the bodies; p_body_sha256 has the SHA-256 of each body, in the same order.
--
-- Returns the positions (from 0) of those that are the same. What is not returned is new, different or malformed:
-- load_documents says which. Reads only, and a version that exists never changes, so the answer stays true. Raises
-- RS002, RS003, and RS020 for what is no array.
create function rag_api.same_documents(
  p_documents jsonb,
  p_body_sha256 bytea[]
)
  returns setof integer
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
as $$
declare
  v_tenant constant text := rag_api._writable_tenant();
  v_documents jsonb;
  v_positions integer[];
  v_malformed integer[];
begin
  if jsonb_typeof(p_documents) is distinct from 'array' then
    raise exception using errcode = 'RS020', message = 'documents must be given as a JSON array';
  end if;

  -- Only what there is a version for is looked at further. The number is compared as text: it may be none.
  select jsonb_agg(d order by i), array_agg(i - 1 order by i)
  into v_documents, v_positions
  from jsonb_array_elements(p_documents) with ordinality as t(d, i)
  where exists (
    select from rag.version v
    where v.tenant = v_tenant and v.document_id = d ->> 'id' and v.version::text = d ->> 'version'
  );

  -- A body whose SHA-256 is a stored one's is as well-formed as that.
  select coalesce(array_agg(distinct p.document_position), '{}') into v_malformed
  from rag_api._document_problems(v_documents) p
  where p.path <> 'body';

  return query
  select v_positions[i]
  from jsonb_array_elements(v_documents) with ordinality as t(d, i)
  -- A case, because what is malformed must not meet the casts of the comparison.
  where case when i - 1 <> all (v_malformed) then not exists (
    select from rag_api._differences(v_tenant, d, p_body_sha256[v_positions[i] + 1])
  ) end;
end;
$$;
revoke all on function rag_api.same_documents from public;
grant execute on function rag_api.same_documents to rag_curator, rag_publisher;
comment on function rag_api.same_documents is
  'Positions (from 0) of the documents, given without bodies, that load_documents would call same.';

-- Takes a version of the bound tenant out of use, from an instant on (null: now). Withdrawing what is withdrawn by then
-- changes nothing; withdrawing from an earlier instant than before counts. RS022 when there is no such version, whoever
-- else may have one; RS010 for an instant that is not finite or a note over 4,000 bytes.
create function rag_api.withdraw_version(
  p_document_id text,
  p_version integer,
  p_withdrawn_from timestamptz default null,
  p_note text default null
)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_api._writable_tenant();
begin
  if not isfinite(p_withdrawn_from) then
    raise exception using errcode = 'RS010', message = 'an instant must be finite';
  end if;
  if octet_length(p_note) > 4000 then
    raise exception using
      errcode = 'RS010',
      message = format('the note has %s bytes; 4000 is the most', octet_length(p_note));
  end if;
  if not exists (
    select from rag.version v
    where v.tenant = v_tenant and v.document_id = p_document_id and v.version = p_version
  ) then
    raise exception using
      errcode = 'RS022',
      message = format('no version %s of document "%s"', p_version, p_document_id);
  end if;
  insert into rag.withdrawal (tenant, document_id, version, withdrawn_from, note)
  select v_tenant, p_document_id, p_version, coalesce(p_withdrawn_from, now()), p_note
  where not exists (
    select from rag.withdrawal w
    where w.tenant = v_tenant
      and w.document_id = p_document_id
      and w.version = p_version
      and w.withdrawn_from <= coalesce(p_withdrawn_from, now())
  )
  on conflict do nothing;
end;
$$;
revoke all on function rag_api.withdraw_version from public;
grant execute on function rag_api.withdraw_version to rag_curator, rag_publisher;
comment on function rag_api.withdraw_version is 'Takes a version of the bound tenant out of use; RS022 when there is none.';

reset role;
