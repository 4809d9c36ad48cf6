-- Eligibility: which versions may be used for a case. A plain predicate over metadata; it knows nothing about relevance,
-- and relevance knows nothing about it. It runs before any ranking (law 1).
--
-- A version is eligible when it is visible to the tenant (row-level security), current at the instant, and applicable:
-- for each attribute it names, the case states one of its values, or one in a range of its values, compared as the attribute's
-- type says (tables/012_values). An attribute it does not name applies to every case.

set local role rag_owner;
grant create on schema rag_api to rag_search;
set local role rag_search;

-- What the visible versions apply to, each combination of a tenant's once: few rows, even where versions are many. A definer
-- function, because no run-time role may read the index; the policies of rag_search hold it to what the caller may see.
create function rag_api._stated_scopes()
  returns table (tenant text, scope_id uuid, applies_to jsonb, attributes integer)
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  return query select s.tenant, s.scope_id, s.applies_to, s.attributes from rag_index.scope s;
end;
$$;
revoke all on function rag_api._stated_scopes from public;
grant execute on function rag_api._stated_scopes to rag_owner, rag_reader, rag_auditor;
comment on function rag_api._stated_scopes is 'Private: the distinct applies_to of the versions that the caller may see.';

-- Which attributes of which scopes some values fit: for each case (p_cases) the values of its attributes, by their keys, in the
-- types in which a tenant's scopes are compared; all arrays are parallel. Read by key, so that what does not fit costs nothing.
create function rag_api._fitting_attributes(
  p_cases integer[],
  p_tenants text[],
  p_attributes text[],
  p_types text[],
  p_keys text[]
)
  returns table (case_number integer, tenant text, scope_id uuid, attributes text[])
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  perform rag_auth.tenant();  -- an error where it is not proven, also where no row asks for it
  return query
  with stated as (
    select * from unnest(p_cases, p_tenants, p_attributes, p_types, p_keys) as c(case_number, tenant, attribute, type, key)
  )
  select f.case_number, f.tenant, f.scope_id, array_agg(distinct f.attribute)
  from (
    -- Without an order a set of values is those values.
    select c.case_number, v.tenant, v.scope_id, v.attribute
    from stated c
    join rag_index.scope_value v
      on v.tenant = c.tenant and v.attribute = c.attribute and v.type = c.type and v.first_key = c.key collate "C"
    where c.type in ('text', 'number', 'flag')
    union all
    select c.case_number, v.tenant, v.scope_id, v.attribute
    from stated c
    join rag_index.scope_value v
      on v.tenant = c.tenant and v.attribute = c.attribute and v.type = c.type and v.first_key <= c.key collate "C"
    where c.type not in ('text', 'number', 'flag') and (v.end_key is null or c.key collate "C" < v.end_key)
  ) as f
  group by f.case_number, f.tenant, f.scope_id;
end;
$$;
revoke all on function rag_api._fitting_attributes from public;
grant execute on function rag_api._fitting_attributes to rag_owner, rag_reader, rag_auditor;
comment on function rag_api._fitting_attributes is 'Private: which attributes of which distinct applies_to fit the values of cases.';

set local role rag_owner;
revoke create on schema rag_api from rag_search;

-- The types in which what a tenant's versions state of an attribute is compared, for each visible tenant: as a text, as the
-- tenant declares it, and as whoever asks does (`is_asked`): who takes a firmware for a version must not miss a public exception that writes
-- it as a text.
create function rag_api._compared_types(
  p_known_at timestamptz
)
  returns table (tenant text, attribute text, type text, is_asked boolean)
  language sql
  stable
  parallel restricted
begin atomic
  with declared as materialized (
    select t.tenant, t.attribute, t.type from rag_api._attribute_types(p_known_at) as t where t.type <> 'text'
  )
  select d.tenant, d.attribute, d.type, false from declared d where d.tenant <> coalesce((select rag_auth.tenant()), 'public')
  union
  select o.tenant, d.attribute, d.type, true
  from declared d
  cross join rag.tenant o
  where d.tenant = coalesce((select rag_auth.tenant()), 'public');
end;
revoke all on function rag_api._compared_types from public;
grant execute on function rag_api._compared_types to rag_reader, rag_auditor;
comment on function rag_api._compared_types is 'Private: the types, beside text, in which attributes of each visible tenant are compared.';

-- The key of what a case states, in a type. RS011 for a value that is none of the type that the attribute has for whoever asks
-- (p_is_asked): it would fit nothing, and nobody would be told. In another's type such a value fits nothing and is no error:
-- another's declaration must not stop anybody's decisions.
create function rag_api._case_key(
  p_attribute text,
  p_type text,
  p_value text,
  p_is_asked boolean
)
  returns text
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_key constant text := rag.value_key(p_type, p_value);
begin
  if v_key is null and p_is_asked then
    raise exception using
      errcode = 'RS011',
      message = format('the case states %s as attribute "%s", which is no %s', to_json(p_value), p_attribute, p_type);
  end if;
  return v_key;
end;
$$;
revoke all on function rag_api._case_key from public;
grant execute on function rag_api._case_key to rag_reader, rag_auditor;
comment on function rag_api._case_key is 'Private: the key of what a case states, in a type; RS011.';

-- Which attributes of which scopes fit each of some cases (an array of objects, attribute to value; numbered from 1). RS011.
create function rag_api._fitting(
  p_cases jsonb,
  p_known_at timestamptz
)
  returns table (case_number integer, tenant text, scope_id uuid, attributes text[])
  language sql
  stable
  parallel restricted
begin atomic
  with fact as materialized (
    select c.i::integer as case_number, f.key collate "C" as attribute, f.value collate "C" as value
    from jsonb_array_elements(p_cases) with ordinality as c(facts, i)
    cross join jsonb_each_text(case when jsonb_typeof(c.facts) = 'object' then c.facts else '{}' end) as f
    where f.value is not null
  ), type as materialized (
    select t.tenant, a.attribute, 'text' collate "C" as type, false as is_asked
    from rag.tenant t
    cross join (select distinct f.attribute from fact f) as a
    union all
    select t.tenant, t.attribute, t.type collate "C", t.is_asked from rag_api._compared_types(p_known_at) as t
  ), key as materialized (
    -- Once for each value, however many cases and tenants have it.
    select v.attribute, v.value, v.type, rag_api._case_key(v.attribute, v.type, v.value, v.is_asked) as key
    from (
      select f.attribute, f.value, t.type, bool_or(t.is_asked) as is_asked
      from fact f
      join type t on t.attribute = f.attribute
      group by f.attribute, f.value, t.type
    ) as v
  ), argument as materialized (
    select
      array_agg(f.case_number) as cases, array_agg(t.tenant) as tenants, array_agg(f.attribute) as attributes,
      array_agg(t.type) as types, array_agg(k.key) as keys
    from fact f
    join type t on t.attribute = f.attribute
    join key k on k.attribute = f.attribute and k.value = f.value and k.type = t.type
    where k.key is not null
  )
  select r.case_number, r.tenant, r.scope_id, r.attributes
  from argument a
  cross join lateral rag_api._fitting_attributes(a.cases, a.tenants, a.attributes, a.types, a.keys) as r;
end;
revoke all on function rag_api._fitting from public;
grant execute on function rag_api._fitting to rag_reader, rag_auditor;
comment on function rag_api._fitting is 'Private: which attributes of which distinct applies_to fit each of some cases.';

-- Each distinct applies_to of a visible tenant, whether a case fits it, and which of its attributes fit. They are compared once,
-- however many versions have them.
create function rag_api._scopes(
  p_case_facts jsonb,
  p_known_at timestamptz
)
  returns table (tenant text, scope_id uuid, applies_to jsonb, applies boolean, fitting text[])
  language sql
  stable
  parallel restricted
begin atomic
  select
    s.tenant, s.scope_id, s.applies_to, s.attributes = coalesce(cardinality(f.attributes), 0), coalesce(f.attributes, '{}')
  from rag_api._stated_scopes() as s
  left join rag_api._fitting(jsonb_build_array(p_case_facts), p_known_at) as f
    on f.tenant = s.tenant and f.scope_id = s.scope_id;
end;
revoke all on function rag_api._scopes from public;
grant execute on function rag_api._scopes to rag_reader, rag_auditor;
comment on function rag_api._scopes is 'Private: each distinct applies_to of each visible tenant, and whether a case fits it.';

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
  select v.tenant, v.document_id, v.version
  from rag_api._current_versions(p_valid_at, p_known_at) as v
  join rag_api._scopes(p_case_facts, p_known_at) as s on s.tenant = v.tenant and s.applies_to = v.applies_to
  where s.applies;
end;
revoke all on function rag_api.eligible from public;
grant execute on function rag_api.eligible to rag_reader, rag_auditor;
comment on function rag_api.eligible is 'The versions that may be used for a case.';

-- The same for many cases at once (an array of objects, numbered from 1), such as each device of a fleet. RS010, RS011.
create function rag_api.eligible_by_case(
  p_cases jsonb,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (case_number integer, tenant text, document_id text, version integer)
  language plpgsql
  stable
  parallel restricted
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform rag_api._check_instants(p_valid_at, p_known_at);
  if jsonb_typeof(p_cases) is distinct from 'array' or jsonb_path_exists(p_cases, 'strict $[*] ? (@.type() <> "object")') then
    raise exception using errcode = 'RS010', message = 'cases must be a JSON array of objects';
  end if;
  return query
  with scope as materialized (
    select s.tenant, s.scope_id, s.applies_to, s.attributes from rag_api._stated_scopes() as s
  ), fitting as (
    select f.case_number, s.tenant, s.applies_to
    from rag_api._fitting(p_cases, p_known_at) as f
    join scope s on s.tenant = f.tenant and s.scope_id = f.scope_id and s.attributes = cardinality(f.attributes)
    union all
    select c.case_number, s.tenant, s.applies_to
    from scope s
    cross join generate_series(1, jsonb_array_length(p_cases)) as c(case_number)
    where s.attributes = 0
  )
  select f.case_number, v.tenant, v.document_id, v.version
  from rag_api._current_versions(p_valid_at, p_known_at) as v
  join fitting f on f.tenant = v.tenant and f.applies_to = v.applies_to;
end;
$$;
revoke all on function rag_api.eligible_by_case from public;
grant execute on function rag_api.eligible_by_case to rag_reader, rag_auditor;
comment on function rag_api.eligible_by_case is 'The versions that may be used for each of many cases. RS010, RS011.';

-- Every visible version and, where it is not eligible, the reason; for people. A test holds it to rag_api.eligible.
--   superseded, scheduled, withdrawn, erased   its status at the instant; superseded by the effective version of its document, or
--                                      by other documents, which are named (successors, else null)
--   attribute_differs                  the case has a value that the version does not name: attribute, both values
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
    effective_version integer,
    successors text[]
  )
  language sql
  stable
  parallel restricted
begin atomic
  with scope as materialized (
    select s.tenant, s.applies_to, s.applies, m.attribute, m.applies_to_values, p_case_facts ->> m.attribute as case_value
    from rag_api._scopes(p_case_facts, p_known_at) as s
    left join lateral (
      -- The first that does not fit.
      select a.key as attribute, array(select jsonb_array_elements_text(a.value)) as applies_to_values
      from jsonb_each(s.applies_to) as a
      where a.key <> all (s.fitting)
      order by a.key collate "C"
      limit 1
    ) as m on true
  )
  select
    v.tenant,
    v.document_id,
    v.version,
    coalesce(v.status = 'current' and s.applies, false),
    case
      when v.status <> 'current' then v.status
      when s.applies then null
      when s.case_value is null then 'attribute_not_stated'
      else 'attribute_differs'
    end,
    case when v.status = 'current' then s.attribute end,
    case when v.status = 'current' then s.applies_to_values end,
    case when v.status = 'current' then s.case_value end,
    v.effective_version,
    v.successors
  from rag_api.version_status(p_valid_at, p_known_at) as v
  -- What an erased version applied to is not known any more, and perhaps to no other.
  left join scope s on s.tenant = v.tenant and s.applies_to = v.applies_to;
end;
revoke all on function rag_api.eligibility from public;
grant execute on function rag_api.eligibility to rag_reader, rag_auditor;
comment on function rag_api.eligibility is
  'Every visible version, whether it may be used for a case, and the reason when it may not.';

reset role;
