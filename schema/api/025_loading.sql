-- Loading and withdrawing documents.
--
-- Writing is done with the caller's own rights: a curator's grants and the policies decide what may be added, the
-- functions add validation with clear errors. All writes are set-based: one call takes any number of documents.

set local role rag_owner;

-- RS003 unless the caller is in the group that writes for the bound tenant, RS005 when its login may only read for it. The
-- policies would refuse as well, a missing group with the same SQLSTATE as a missing grant; this says which.
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
  return rag_auth.write_tenant();
end;
$$;
revoke all on function rag_api._writable_tenant from public;
grant execute on function rag_api._writable_tenant to rag_curator, rag_publisher;
comment on function rag_api._writable_tenant is 'Private: the bound tenant, where the caller may write for it; RS002, RS003, RS005.';

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
    ('language', v.language = coalesce(p_document ->> 'language', 'simple')),
    ('metadata', v.metadata = coalesce(p_document -> 'metadata', '{}')),
    ('successors', not exists (
      select from jsonb_array_elements_text(coalesce(p_document -> 'successors', '[]')) as o(successor_id)
      where not exists (
        select from rag.succession n
        where (n.tenant, n.document_id, n.successor_id) = (v.tenant, v.document_id, o.successor_id)
          and (
            not p_document ? 'superseded_from' or n.superseded_from = (p_document ->> 'superseded_from')::timestamptz
          )
      )
    )),
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
-- body and, optionally, title, applies_to, effective_from, published, source, language, metadata, outline (end and headings of each
-- passage; without it the body is one), spans (id, fact, quote, occurrence), successors (ids of documents that take its
-- place) and superseded_from (from when on; without it effective_from). Times without an offset are UTC.
--
-- A version that exists with the same content is left alone (`same`); with other content it is refused (RS021), since a
-- version is immutable. The outline is not compared: where a body is cut is no part of what it says, and what is there
-- stays as it was cut. A load that states no effective_from does not question the stored one, and one that states
-- fewer spans than are stored does not either: a curator may add spans to a version that exists. So with successors: of a
-- version that exists those that are stated, from the time that is stated, have to be there (RS021); others come with the
-- next version, or by supersede_document. An attribute that was not declared is declared as a text, with a notice.
--
-- Returns one row per document, in the order given: `new` or `same`, and by which version, and by which other documents it
-- is superseded as it stands (null when by none). Raises RS002, RS003, RS020 (COLUMN names the
-- place: position in the array, then the path), RS021, RS023, RS024; RS028 for a version that was erased, whose number is not
-- given again.
create function rag_api.load_documents(
  p_documents jsonb
)
  returns table (document_id text, version integer, status text, superseded_by integer, successors text[])
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
      (tenant, document_id, version, title, body, applies_to, effective_from, published, source, metadata, outline, language)
    select
      v_tenant,
      d ->> 'id',
      (d ->> 'version')::integer,
      d ->> 'title',
      d ->> 'body',
      case when d ? 'applies_to' then rag.canonical_applies_to(d -> 'applies_to') else '{}' end,
      coalesce((d ->> 'effective_from')::timestamptz, now()),
      (d ->> 'published')::date,
      d ->> 'source',
      coalesce(d -> 'metadata', '{}'),
      coalesce(d -> 'outline', '[]'),
      coalesce(d ->> 'language', 'simple')
    from jsonb_array_elements(p_documents) as d
    -- What is there costs no splitting into words; the conflict clause is for what another load stores meanwhile. Counted, a
    -- version is looked up by its key, one after the other; joined, all of the tenant's would be read for one document.
    where 0 = (
      select count(*) from rag.version v
      where v.tenant = v_tenant and v.document_id = d ->> 'id' and v.version = (d ->> 'version')::integer
    )
    order by d ->> 'id' collate "C", (d ->> 'version')::integer
    on conflict do nothing  -- without a name: which key meets the other's row first is not known
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

  if jsonb_path_exists(p_documents, '$[*].successors') then
    insert into rag.succession (tenant, document_id, successor_id, superseded_from)
    select
      v_tenant, d ->> 'id', o.successor_id,
      coalesce((d ->> 'superseded_from')::timestamptz, (d ->> 'effective_from')::timestamptz, now())
    from jsonb_array_elements(p_documents) as d
    join unnest(v_new_ids, v_new_versions) as n(id, version)
      on n.id = d ->> 'id' and n.version = (d ->> 'version')::integer
    cross join jsonb_array_elements_text(d -> 'successors') as o(successor_id)
    order by d ->> 'id' collate "C", o.successor_id collate "C"
    on conflict do nothing;
  end if;

  -- Asked when this load has its turn: no erasure is at work.
  select i - 1 as document_position, e.document_id as id, e.version into v_problem
  from jsonb_array_elements(p_documents) with ordinality as t(d, i)
  join rag.erasure e
    on e.tenant = v_tenant and e.document_id = d ->> 'id' and e.version = (d ->> 'version')::integer
  order by i
  limit 1;
  if found then
    raise exception using
      errcode = 'RS028',
      message = format('version %s of document "%s" was erased', v_problem.version, v_problem.id),
      column = format('%s.version', v_problem.document_position),
      hint = 'Its number is not given again: give the document the next one. Who erased it: select * from rag_api.erasure;';
  end if;

  -- A version that was there must be the same in everything this load states.
  select i - 1 as document_position, d ->> 'id' as id, d ->> 'version' as version, c.what into v_problem
  from (
    select t.d, t.i
    from jsonb_array_elements(p_documents) with ordinality as t(d, i)
    where not exists (
      select from unnest(v_new_ids, v_new_versions) as n(id, version)
      where n.id = d ->> 'id' and n.version = (d ->> 'version')::integer
    )
    offset 0  -- then each by its key
  ) as t
  cross join lateral (
    select string_agg(what, ', ') as what
    from rag_api._differences(v_tenant, d, sha256(rag.utf8(d ->> 'body'))) as what
  ) c
  where c.what is not null
  order by i
  limit 1;
  if found then
    raise exception using
      errcode = 'RS021',
      message = format('"%s" version %s exists with other content: %s', v_problem.id, v_problem.version, v_problem.what),
      column = format('%s.version', v_problem.document_position),
      hint = 'A version is immutable: give the changed document the next version number.'
        || case when v_problem.what ~ '\msuccessors\M'
          then ' Successors of a document that is there: rag-sql supersede, rag_api.supersede_document.' else '' end;
  end if;

  return query
  select
    d ->> 'id',
    (d ->> 'version')::integer,
    case when n.id is null then 'same' else 'new' end,
    -- The last that has begun, unless this one's time is still to come.
    case when c.version <> (d ->> 'version')::integer then (
      select c.version
      from rag.version v
      where v.tenant = v_tenant
        and v.document_id = d ->> 'id'
        and v.version = (d ->> 'version')::integer
        and v.effective_from <= statement_timestamp()
    ) end,
    (
      select array_agg(distinct o.successor_id order by o.successor_id)
      from rag.succession o
      where o.tenant = v_tenant and o.document_id = d ->> 'id' and o.superseded_from <= statement_timestamp()
    )
  from jsonb_array_elements(p_documents) with ordinality as t(d, i)
  left join unnest(v_new_ids, v_new_versions) as n(id, version)
    on n.id = d ->> 'id' and n.version = (d ->> 'version')::integer
  left join lateral (
    select w.version
    from rag.version w
    where w.tenant = v_tenant and w.document_id = d ->> 'id' and w.effective_from <= statement_timestamp()
    order by w.effective_from desc, w.version desc
    limit 1
  ) as c on true
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
-- load_documents says which, as of one that was erased. Reads only, and a version that exists never changes, so the answer
-- stays true. Raises
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
  where 0 < (
    select count(*) from rag.version v
    where v.tenant = v_tenant and v.document_id = d ->> 'id' and v.version::text = d ->> 'version' and v.body is not null
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
-- else may have one, RS028 when it was erased; RS010 for an instant that is not finite or a note over 4,000 bytes.
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
comment on function rag_api.withdraw_version is
  'Takes a version of the bound tenant out of use; RS022 when there is none, RS028 when it was erased.';

reset role;
