-- Attributes: the types of what versions apply to and of the facts of a case.
--
-- An attribute has a type (012_values.sql) by declaration. A tenant's own declaration counts for its documents and cases, else
-- the one of public, else the attribute is a text (rag_api.attribute). A declaration is never changed: the newest counts, so
-- that what was decided under an earlier one can be decided again.
--
-- What a document says is stored as it was said; values are compared as texts, and as the type says where the document's
-- tenant or the asking one declares one.

create table rag.attribute (
  tenant text collate "C" not null,
  attribute text collate "C" not null,
  declaration_number integer not null,
  type text collate "C" not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  constraint attribute_key primary key (tenant, attribute, declaration_number),
  constraint attribute_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint attribute_type_is_known check (
    type in ('text', 'number', 'flag', 'date', 'version-pep440', 'version-semver', 'version-numeric')
  ),
  constraint attribute_declaration_number_is_positive check (declaration_number > 0),
  constraint attribute_fits check (octet_length(attribute) between 1 and 200),
  constraint attribute_is_printable check (attribute !~ '[[:cntrl:]]' and attribute = btrim(attribute))
);
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
comment on column rag.attribute.type is 'text, number, flag, date, version-pep440, version-semver or version-numeric.';
