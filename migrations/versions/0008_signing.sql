-- The right: what is granted already stays a grant to write.
alter table rag_auth.membership add column may_write boolean not null default true;
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
