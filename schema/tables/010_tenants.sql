-- Tenants, and which login is bound to which.
--
-- A tenant is an isolation boundary with a short slug. `public` is reserved: every tenant reads it and no tenant
-- writes it; only a login that is granted `public` and is a rag_publisher does.
--
-- Tables: rag.tenant, rag_auth.membership. Both are written by the installing login through the functions of
-- security/010_binding.sql (`rag-sql tenant add|grant|revoke`), never by a run-time role.

create table rag.tenant (
  tenant text collate "C" not null,
  recorded_at timestamptz not null default now(),
  trace_retention interval,

  constraint tenant_key primary key (tenant),
  constraint tenant_is_slug check (tenant ~ '^[a-z][a-z0-9-]{0,62}$'),
  constraint tenant_trace_retention_is_positive check (trace_retention > interval '0')
);
alter table rag.tenant enable row level security;
alter table rag.tenant force row level security;
comment on table rag.tenant is 'Isolation boundaries. public is the reserved tenant that everyone reads.';
comment on column rag.tenant.tenant is 'Slug: a lower-case letter, then letters, digits and hyphens; at most 63.';
comment on column rag.tenant.trace_retention is 'How long traces are kept; null: without end.';

-- A login is bound by name. Revoke before you drop a login: a later login of the same name would inherit the row.
create table rag_auth.membership (
  login text collate "C" not null,
  tenant text collate "C" not null,
  recorded_at timestamptz not null default now(),

  constraint membership_key primary key (login, tenant),
  constraint membership_tenant_exists foreign key (tenant) references rag.tenant (tenant)
);
alter table rag_auth.membership enable row level security;
alter table rag_auth.membership force row level security;
comment on table rag_auth.membership is 'Which login may assert which tenant. The proof behind rag_auth.tenant().';
