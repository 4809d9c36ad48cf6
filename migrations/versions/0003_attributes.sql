-- A value in the canonical form of its type, in which equal values are equal texts: a number without superfluous zeros
-- (2.50 and 02.5 are 2.5, -0 is 0), a flag as it is. Null for a value that is none of its type.
create function rag.canonical_value(
  p_type text,
  p_value text
)
  returns text
  language sql
  immutable
  parallel safe
return case p_type
  when 'text' then p_value
  when 'number' then case when p_value ~ '^-?[0-9]{1,100}(\.[0-9]{1,100})?$' then trim_scale(p_value::numeric)::text end
  when 'flag' then case when p_value in ('true', 'false') then p_value end
end;
revoke all on function rag.canonical_value from public;
grant execute on function rag.canonical_value to rag_reader, rag_auditor;
comment on function rag.canonical_value is
  'A value in the canonical form of its type (text, number, flag); null when it is none.';

create table rag.attribute (
  tenant text collate "C" not null,
  attribute text collate "C" not null,
  declaration_number integer not null,
  type text collate "C" not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  constraint attribute_key primary key (tenant, attribute, declaration_number),
  constraint attribute_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint attribute_type_is_known check (type in ('text', 'number', 'flag')),
  constraint attribute_declaration_number_is_positive check (declaration_number > 0),
  constraint attribute_fits check (octet_length(attribute) between 1 and 200),
  constraint attribute_is_printable check (attribute !~ '[[:cntrl:]]' and attribute = btrim(attribute))
);
-- What stands already is a text in its tenant, whatever public declares later. Forced row-level security holds the owner
-- too, who has no policy here: it is put back below.
alter table rag.version no force row level security;
alter table rag.contract no force row level security;
insert into rag.attribute (tenant, attribute, declaration_number, type)
select named.tenant, named.attribute, 1, 'text'
from (
  select v.tenant, jsonb_object_keys(v.applies_to) collate "C" as attribute from rag.version v
  union
  select c.tenant, jsonb_array_elements_text(c.content -> 'case') collate "C" from rag.contract c
) as named
order by named.tenant, named.attribute;
alter table rag.version force row level security;
alter table rag.contract force row level security;

alter table rag.attribute enable row level security;
alter table rag.attribute force row level security;
alter table rag.attribute
  alter column attribute set statistics 0,
  alter column type set statistics 0,
  alter column recorded_by set statistics 0;
-- The number follows the tenant's greatest, whatever was given: a number that is the greatest there can be would end all
-- declaring.
create function rag.number_declaration()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  new.declaration_number := 1 + coalesce((
    select max(a.declaration_number) from rag.attribute a
    where a.tenant = new.tenant and a.attribute = new.attribute
  ), 0);
  return new;
end;
$$;
revoke all on function rag.number_declaration from public;
comment on function rag.number_declaration is 'Trigger: numbers the declarations of an attribute.';
create trigger attribute_is_numbered
  before insert on rag.attribute
  for each row execute function rag.number_declaration();
create trigger attribute_is_append_only
  before update or delete or truncate on rag.attribute
  for each statement execute function rag.refuse_change();
comment on table rag.attribute is 'Declarations of the types of attributes; the newest of a tenant counts.';
comment on column rag.attribute.declaration_number is 'From 1 for each attribute of a tenant; the greatest counts. Derived.';
comment on column rag.attribute.type is 'text, number or flag.';
