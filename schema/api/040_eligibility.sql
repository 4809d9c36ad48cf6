-- Eligibility: which versions may be used for a case. A plain predicate over metadata; it knows nothing about relevance,
-- and relevance knows nothing about it. It runs before any ranking (law 1).
--
-- A version is eligible when it is visible to the tenant (row-level security), current at the instant, and applicable:
-- for each attribute it names, the case states one of its values, compared as the attribute's type says. An attribute it
-- does not name applies to every case.

set local role rag_owner;
grant create on schema rag_api to rag_search;
set local role rag_search;

-- What the visible versions apply to, each combination of a tenant's once: few rows, even where versions are many. A definer
-- function, because no run-time role may read the index; the policies of rag_search hold it to what the caller may see.
create function rag_api._stated_scopes()
  returns table (tenant text, scope_id uuid, applies_to jsonb)
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  return query select s.tenant, s.scope_id, s.applies_to from rag_index.scope s;
end;
$$;
revoke all on function rag_api._stated_scopes from public;
grant execute on function rag_api._stated_scopes to rag_owner, rag_reader, rag_auditor;
comment on function rag_api._stated_scopes is 'Private: the distinct applies_to of the versions that the caller may see.';

set local role rag_owner;
revoke create on schema rag_api from rag_search;

-- Each distinct applies_to of the visible versions, compared with a case once: they are few even where versions are many.
-- One row compares its values as texts; beside it stands one (`is_typed`) for each tenant whose versions have an attribute
-- of it that they, or whoever asks, declare as something else: there values also match that are equal in the canonical form
-- of such a type (2.50 and 2.5). Who declares what can therefore make a version apply that would not; a value that is none
-- of a type equals none that is, and is no error: another's declaration must not stop anybody's decisions.
-- `applies` says whether a version with it applies; otherwise the first attribute in byte order that does not fit, the
-- version's values and the case's (null when the case does not state the attribute).
create function rag_api._scopes(
  p_case_facts jsonb,
  p_known_at timestamptz
)
  returns table (
    is_typed boolean,
    tenant text,
    applies_to jsonb,
    applies boolean,
    attribute text,
    applies_to_values text[],
    case_value text
  )
  language sql
  stable
  parallel restricted
begin atomic
  with declared as materialized (
    select t.tenant, t.attribute, t.type from rag_api._attribute_types(p_known_at) as t where t.type <> 'text'
  ), typed as materialized (
    select d.tenant, d.attribute, d.type from declared d
    union
    select o.tenant, d.attribute, d.type
    from declared d
    cross join rag.tenant o
    where d.tenant = coalesce((select rag_auth.tenant()), 'public')
  ), stated as materialized (
    select s.tenant, s.applies_to from rag_api._stated_scopes() as s
  ), scope as (
    select distinct false as is_typed, null::text as tenant, s.applies_to from stated s
    union all
    select true, s.tenant, s.applies_to
    from stated s
    where exists (select from typed t where t.tenant = s.tenant and s.applies_to ? t.attribute)
  )
  select d.is_typed, d.tenant, d.applies_to, m.attribute is null, m.attribute, m.applies_to_values, m.case_value
  from scope d
  left join lateral (
    select
      a.key as attribute,
      array(select jsonb_array_elements_text(a.value)) as applies_to_values,
      p_case_facts ->> a.key as case_value
    from jsonb_each(d.applies_to) as a
    where not coalesce(a.value ? (p_case_facts ->> a.key), false)
      and not exists (
        select
        from typed t
        cross join jsonb_array_elements_text(a.value) as x
        where t.tenant = d.tenant
          and t.attribute = a.key
          and rag.canonical_value(t.type, x) = rag.canonical_value(t.type, p_case_facts ->> a.key)
      )
    order by a.key collate "C"
    limit 1
  ) as m on true;
end;
revoke all on function rag_api._scopes from public;
grant execute on function rag_api._scopes to rag_reader, rag_auditor;
comment on function rag_api._scopes is 'Private: each distinct applies_to, as texts and as typed by a tenant, and whether a case fits it.';

-- The scopes that fit a case: what a search of the index is given.
create function rag_api._fitting_scopes(
  p_case_facts jsonb,
  p_known_at timestamptz
)
  returns table (tenant text, scope_id uuid)
  language sql
  stable
  parallel restricted
begin atomic
  with scope as materialized (
    select s.is_typed, s.tenant, s.applies_to, s.applies from rag_api._scopes(p_case_facts, p_known_at) as s
  )
  select g.tenant, g.scope_id
  from rag_api._stated_scopes() as g
  join scope s on s.applies_to = g.applies_to and not s.is_typed
  left join scope t on t.applies_to = g.applies_to and t.is_typed and t.tenant = g.tenant
  where coalesce(t.applies, s.applies);
end;
revoke all on function rag_api._fitting_scopes from public;
grant execute on function rag_api._fitting_scopes to rag_reader;
comment on function rag_api._fitting_scopes is 'Private: the distinct applies_to of each visible tenant that fit a case.';

-- The versions that may be used for a case, said by the tables themselves. A decision asks the index, which a test holds to
-- this.
create function rag_api.eligible(
  p_case_facts jsonb,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (tenant text, document_id text, version integer)
  language sql
  stable
  parallel restricted
begin atomic
  with scope as materialized (
    select s.is_typed, s.tenant, s.applies_to, s.applies from rag_api._scopes(p_case_facts, p_known_at) as s
  )
  select e.tenant, e.document_id, e.version
  from rag_api._effective_versions(p_valid_at, p_known_at) as e
  join scope s on s.applies_to = e.applies_to and not s.is_typed
  left join scope t on t.applies_to = e.applies_to and t.is_typed and t.tenant = e.tenant
  where coalesce(t.applies, s.applies)
    and not exists (
      select from rag_api._withdrawn_versions(p_valid_at, p_known_at) as w
      where w.tenant = e.tenant and w.document_id = e.document_id and w.version = e.version
    );
end;
revoke all on function rag_api.eligible from public;
grant execute on function rag_api.eligible to rag_reader, rag_auditor;
comment on function rag_api.eligible is 'The versions that may be used for a case.';

-- Every visible version and, where it is not eligible, the reason; for people. A test holds it to rag_api.eligible.
--   superseded, scheduled, withdrawn, erased   its status at the instant
--   attribute_differs                  the case has another value: attribute, both values
--   attribute_not_stated               the version names an attribute that the case does not state
create function rag_api.eligibility(
  p_case_facts jsonb,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (
    tenant text,
    document_id text,
    version integer,
    eligible boolean,
    reason text,
    attribute text,
    applies_to text[],
    case_value text,
    effective_version integer
  )
  language sql
  stable
  parallel restricted
begin atomic
  with scope as materialized (
    select s.is_typed, s.tenant, s.applies_to, s.applies, s.attribute, s.applies_to_values, s.case_value
    from rag_api._scopes(p_case_facts, p_known_at) as s
  )
  select
    v.tenant,
    v.document_id,
    v.version,
    v.status = 'current' and m.applies,
    case
      when v.status <> 'current' then v.status
      when m.applies then null
      when m.case_value is null then 'attribute_not_stated'
      else 'attribute_differs'
    end,
    case when v.status = 'current' then m.attribute end,
    case when v.status = 'current' then m.applies_to_values end,
    case when v.status = 'current' then m.case_value end,
    v.effective_version
  from rag_api.version_status(p_valid_at, p_known_at) as v
  -- What an erased version applied to is not known any more, and perhaps to no other.
  left join scope s on s.applies_to = v.applies_to and not s.is_typed
  left join scope t on t.applies_to = v.applies_to and t.is_typed and t.tenant = v.tenant
  cross join lateral (
    select
      coalesce(t.applies, s.applies) as applies,
      case when t.is_typed then t.attribute else s.attribute end as attribute,
      case when t.is_typed then t.applies_to_values else s.applies_to_values end as applies_to_values,
      case when t.is_typed then t.case_value else s.case_value end as case_value
  ) as m;
end;
revoke all on function rag_api.eligibility from public;
grant execute on function rag_api.eligibility to rag_reader, rag_auditor;
comment on function rag_api.eligibility is
  'Every visible version, whether it may be used for a case, and the reason when it may not.';

reset role;
