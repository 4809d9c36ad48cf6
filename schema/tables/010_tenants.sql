-- Tenants, and which login is bound to which.
--
-- A tenant is an isolation boundary with a short slug. `public` is reserved: every tenant reads it and no tenant
-- writes it; only a login that is granted `public` and is a rag_publisher does.
--
-- Tables: rag.tenant, rag_auth.membership, rag_auth.signing_key. All are written by the installing login through the
-- functions of security/010_binding.sql (`rag-sql tenant add|grant|revoke|key`), never by a run-time role.

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
  may_write boolean not null default true,

  constraint membership_key primary key (login, tenant),
  constraint membership_tenant_exists foreign key (tenant) references rag.tenant (tenant)
);
alter table rag_auth.membership enable row level security;
alter table rag_auth.membership force row level security;
comment on table rag_auth.membership is 'Which login may assert which tenant. The proof behind rag_auth.tenant().';
comment on column rag_auth.membership.may_write is
  'Whether the login may change evidence and decide about it, or only read, ask and record what it asked.';

-- What proves a tenant for a login that serves many: the application signs with a secret (HMAC-SHA256), and here is what
-- verifying takes. Both pads follow from the secret and the secret from each: whoever reads this table can sign, so
-- rag_binder alone may, and a copy of the database is a copy of the keys. Several keys of a login may be valid at once,
-- so that one can take another's place.
create table rag_auth.signing_key (
  key_id text collate "C" not null,
  login text collate "C" not null,
  inner_pad bytea not null,
  outer_pad bytea not null,
  expires_at timestamptz not null,
  recorded_at timestamptz not null default now(),

  constraint signing_key_key primary key (key_id),
  constraint signing_key_key_id_is_hexadecimal check (key_id ~ '^[0-9a-f]{12}$'),
  constraint signing_key_pads_are_blocks check (octet_length(inner_pad) = 64 and octet_length(outer_pad) = 64)
);
alter table rag_auth.signing_key enable row level security;
alter table rag_auth.signing_key force row level security;
-- A histogram would be a second place where secrets stand.
alter table rag_auth.signing_key
  alter column inner_pad set statistics 0,
  alter column outer_pad set statistics 0;
comment on table rag_auth.signing_key is 'Keys with which an application signs for tenants. The proof behind a signed rag.tenant.';
comment on column rag_auth.signing_key.key_id is 'Names the key in a signature; twelve hexadecimal digits.';
comment on column rag_auth.signing_key.login is 'The login that may use it, and no other.';
comment on column rag_auth.signing_key.inner_pad is 'The secret, filled with zeros to 64 bytes, each byte xor 0x36 (RFC 2104).';
comment on column rag_auth.signing_key.outer_pad is 'The same, each byte xor 0x5c.';
comment on column rag_auth.signing_key.expires_at is 'From when on nothing signed with it is accepted.';
