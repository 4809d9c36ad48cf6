-- Attributes: which type each has, and declaring one.

set local role rag_owner;

-- The type of every attribute that is declared, for each visible tenant, from what had been recorded at an instant (null:
-- now): the tenant's newest own declaration, else the newest of public. What is not listed is a text.
create function rag_api._attribute_types(
  p_known_at timestamptz
)
  returns table (
    tenant text,
    attribute text,
    type text,
    declared_by text,
    recorded_at timestamptz,
    recorded_by text
  )
  language sql
  stable
  parallel restricted
begin atomic
  select distinct on (t.tenant, a.attribute)
    t.tenant, a.attribute, a.type, a.tenant, a.recorded_at, a.recorded_by
  from rag.tenant t
  join rag.attribute a on a.tenant = any (array['public', t.tenant])
  where a.recorded_at <= coalesce(p_known_at, statement_timestamp())
  order by t.tenant, a.attribute, a.tenant = 'public', a.declaration_number desc;
end;
revoke all on function rag_api._attribute_types from public;
grant execute on function rag_api._attribute_types to rag_reader, rag_auditor;
comment on function rag_api._attribute_types is 'Private: the type of every declared attribute, for each visible tenant.';

create view rag_api.attribute with (security_invoker = true) as
  select t.tenant, t.attribute, t.type, t.declared_by, t.recorded_at, t.recorded_by
  from rag_api._attribute_types(null) as t;
grant select on rag_api.attribute to rag_reader, rag_auditor;
comment on view rag_api.attribute is
  'Types of attributes in force for each visible tenant: its own declaration, else public''s. Others are texts.';

-- Declares attributes that nobody has declared for the bound tenant or public as texts, with a notice, and makes what
-- public declares the tenant's own: a later word of public's cannot turn what is stored into something else.
create function rag_api._declare_attributes(
  p_attributes text[]
)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_api._writable_tenant();
  v_attribute text;
begin
  for v_attribute in
    with declared as (
      insert into rag.attribute (tenant, attribute, type)
      select v_tenant, n.attribute, coalesce(t.type, 'text')
      from unnest(p_attributes) as n(attribute)
      left join rag_api._attribute_types(null) as t on t.tenant = v_tenant and t.attribute = n.attribute
      where t.declared_by is distinct from v_tenant
      -- In one order: two loads of the same folder wait for each other and do not deadlock.
      order by n.attribute collate "C"
      on conflict on constraint attribute_key do nothing
      returning attribute
    )
    select d.attribute
    from declared d
    where not exists (
      select from rag_api._attribute_types(null) as t where t.tenant = v_tenant and t.attribute = d.attribute
    )
    order by d.attribute
  loop
    raise notice using
      message = format('attribute "%s" was not declared: it is a text now', v_attribute),
      hint = format('Declare what is something else: rag-sql attribute set %s version-numeric --tenant %s',
        quote_ident(v_attribute), v_tenant);
  end loop;
end;
$$;
revoke all on function rag_api._declare_attributes from public;
grant execute on function rag_api._declare_attributes to rag_curator, rag_publisher;
comment on function rag_api._declare_attributes is 'Private: declares attributes that were not declared as texts, with a notice.';

-- Declares the type of an attribute for the bound tenant: `new`, `changed`, or `same` where it has this type by the
-- tenant's own declaration. RS002, RS003; RS010 for a name or a type that is none; RS027 when a value that the tenant's
-- versions state is none of the type (DETAIL lists the first ten), and nothing is declared.
create function rag_api.set_attribute(
  p_attribute text,
  p_type text
)
  returns text
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_api._writable_tenant();
  v_newest rag.attribute;
  v_misfits bigint;
  v_detail text;
begin
  if p_attribute is null or not rag_api._is_name(to_jsonb(p_attribute)) then
    raise exception using
      errcode = 'RS010',
      message = format('%s is no name for an attribute', coalesce(to_json(p_attribute)::text, 'null')),
      hint = 'A name is a text of 1 to 200 bytes, without control characters or outer spaces.';
  end if;
  if p_type is null or p_type not in ('text', 'number', 'flag', 'date', 'version-pep440', 'version-semver', 'version-numeric')
  then
    raise exception using
      errcode = 'RS010',
      message = format('%s is no type of an attribute', coalesce(to_json(p_type)::text, 'null')),
      hint = 'The types are text, number, flag, date, version-pep440, version-semver and version-numeric.';
  end if;

  select a.* into v_newest
  from rag.attribute a
  where a.tenant = v_tenant and a.attribute = p_attribute
  order by a.declaration_number desc
  limit 1;
  if v_newest.type = p_type then
    return 'same';
  end if;

  with misfit as (
    select v.document_id, v.version, s.value
    from rag.version v
    cross join lateral jsonb_array_elements_text(v.applies_to -> p_attribute) as s(value)
    where v.tenant = v_tenant
      and v.applies_to ? p_attribute
      and rag.value_problem(p_type, s.value) is not null
  ), shown as (
    select m.document_id, m.version, m.value
    from misfit m
    order by m.document_id collate "C", m.version, m.value collate "C"
    limit 10
  )
  select
    (select count(*) from misfit),
    string_agg(format('"%s" version %s: %s', s.document_id, s.version, to_json(s.value)), e'\n'
      order by s.document_id collate "C", s.version, s.value collate "C")
  into v_misfits, v_detail
  from shown s;
  if v_misfits > 0 then
    raise exception using
      errcode = 'RS027',
      message = format('attribute "%s" cannot be a %s: %s stored values are none', p_attribute, p_type, v_misfits),
      detail = v_detail,
      hint = 'Versions are immutable: give such values an attribute of another name in the next versions.';
  end if;

  insert into rag.attribute (tenant, attribute, type) values (v_tenant, p_attribute, p_type);
  return case when v_newest.tenant is null then 'new' else 'changed' end;
end;
$$;
revoke all on function rag_api.set_attribute from public;
grant execute on function rag_api.set_attribute to rag_curator, rag_publisher;
comment on function rag_api.set_attribute is
  'Declares the type of an attribute for the bound tenant: new, changed or same. RS010, RS027.';

reset role;
