-- Binding: which tenant a session may act for, and with which right.
--
-- A transaction asserts a tenant (the setting rag.tenant, local to the transaction; rag_api.bind sets it). A setting is
-- an assertion that anyone can make, at any time, even in the middle of a statement: the proof is here. There are two.
--
--   a grant       the text is the tenant (acme), and (session_user, tenant) is in rag_auth.membership, which also says
--                 with which right. session_user does not change under `set role` or inside a definer function.
--   a signature   the text is acme:write:KEY:SIGNATURE, for a login that serves many tenants. The signature is an
--                 HMAC-SHA256 over the login, this backend, this transaction, the tenant and the right, under a secret
--                 that the application holds and whoever gets hold of its connection does not. It is worth nothing
--                 in the next transaction, in another session, or to another login. schema/README.md has the bytes.
--
--   nothing asserted          null: public only
--   asserted and proven       the tenant
--   asserted, not proven      an error, never public alone: that could miss the tenant's own exception. RS001 is the
--                             same whether the tenant exists or not, RS004 whatever is wrong with the signature.
--
-- A session's transactions do not begin at the same microsecond, unless one message of the client's begins several; and
-- whoever signs has first got an answer from the last of these.
--
-- The definer functions below are rag_binder's, which can read memberships, keys and names of tenants, and nothing else.
-- Nothing is written, so that a tenant can be bound in a read-only transaction and on a standby.

set local role rag_owner;
grant create on schema rag_auth to rag_binder;
grant select on rag_auth.membership, rag_auth.signing_key, rag.tenant to rag_binder;
set local role rag_binder;

-- The bytes that are signed (schema/README.md, "Byte layouts"). The time is that of the transaction's beginning, in
-- microseconds since 1970. Runs in every statement, so it is written such that it is inlined: rag.field would not be.
create or replace function rag_auth.signed_bytes(
  p_login text,
  p_backend_pid integer,
  p_begun_at bigint,
  p_tenant text,
  p_right text
)
  returns bytea
  language sql
  stable
  parallel safe
return
  '\x0000000000000010'::bytea || 'rag-sql tenant 1'::bytea
  || int8send(octet_length(p_login)) || convert_to(p_login, 'UTF8')
  || '\x0000000000000008'::bytea || int8send(p_backend_pid)
  || '\x0000000000000008'::bytea || int8send(p_begun_at)
  || int8send(octet_length(p_tenant)) || convert_to(p_tenant, 'UTF8')
  || int8send(octet_length(p_right)) || convert_to(p_right, 'UTF8');
revoke all on function rag_auth.signed_bytes from public;
comment on function rag_auth.signed_bytes is 'The bytes that a signature for a tenant is over.';

-- HMAC-SHA256 (RFC 2104) of bytes, by the pads of a key.
create or replace function rag_auth.hmac_sha256(
  p_inner_pad bytea,
  p_outer_pad bytea,
  p_bytes bytea
)
  returns bytea
  language sql
  immutable
  parallel safe
return pg_catalog.sha256(p_outer_pad || pg_catalog.sha256(p_inner_pad || p_bytes));
revoke all on function rag_auth.hmac_sha256 from public;
comment on function rag_auth.hmac_sha256 is 'HMAC-SHA256 of bytes, by the pads of a key.';

-- A secret of at most 64 bytes, filled with zeros to 64, each byte xor p_byte: 0x36 makes the inner pad, 0x5c the outer.
create or replace function rag_auth.hmac_pad(
  p_secret bytea,
  p_byte integer
)
  returns bytea
  language sql
  immutable
  parallel safe
begin atomic
  select string_agg(
    set_byte('\x00', 0, p_byte # case when i < octet_length(p_secret) then get_byte(p_secret, i) else 0 end),
    ''::bytea order by i)
  from generate_series(0, 63) as i;
end;
revoke all on function rag_auth.hmac_pad from public;
grant execute on function rag_auth.hmac_pad to rag_owner;  -- who makes keys
comment on function rag_auth.hmac_pad is 'A pad of a key: the secret, filled to 64 bytes, each byte xor p_byte.';

-- The tenant of a signed assertion. RS004 unless its signature is this login's for this transaction in this backend, by
-- a key that is valid; RS001 when there is no such tenant, since a signature is made for any name.
-- Both sides are compared by their hashes under the key, so that how long it takes says nothing about the right one.
create or replace function rag_auth.signed_tenant(
  p_asserted text
)
  returns text
  language plpgsql
  stable
  parallel restricted
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_part constant text[] := string_to_array(p_asserted, ':');
  v_key record;
  v_is_signed boolean;
begin
  -- Runs in every statement: a pattern that counts to 64 would cost more than all the rest.
  if cardinality(v_part) = 4
    and v_part[2] in ('read', 'write')
    and octet_length(v_part[4]) = 64
    and v_part[4] ~ '^[0-9a-f]*$'
  then
    select k.inner_pad, k.outer_pad, exists (select from rag.tenant t where t.tenant = v_part[1]) as has_tenant into v_key
    from rag_auth.signing_key k
    where k.key_id = v_part[3] and k.login = session_user::text and k.expires_at > clock_timestamp();
    v_is_signed := sha256(v_key.outer_pad || decode(v_part[4], 'hex')) = sha256(
      v_key.outer_pad || rag_auth.hmac_sha256(
        v_key.inner_pad,
        v_key.outer_pad,
        rag_auth.signed_bytes(
          session_user::text,
          pg_backend_pid(),
          (extract(epoch from transaction_timestamp()) * 1000000)::bigint,
          v_part[1],
          v_part[2]
        )
      )
    );
  end if;
  if v_is_signed is not true then
    raise exception using
      errcode = 'RS004',
      message = format('the signature does not prove tenant "%s" for login "%s" in this transaction', v_part[1], session_user),
      hint = 'Sign in every transaction, with a key of this login that has not expired: rag-sql tenant key list';
  end if;
  if not v_key.has_tenant then
    raise exception using
      errcode = 'RS001',
      message = format('tenant "%s" is not bound to login "%s"', v_part[1], session_user),
      hint = 'There is no such tenant: rag-sql tenant list';
  end if;
  return v_part[1];
end;
$$;
revoke all on function rag_auth.signed_tenant from public;
comment on function rag_auth.signed_tenant is 'The tenant of a signed assertion; RS004 when the signature does not prove it.';

-- The bound tenant, or null when none is asserted. Policies call it as (select rag_auth.tenant()), once a statement.
-- Stable, never immutable: a cached plan must not keep somebody's tenant. No row is passed in.
create or replace function rag_auth.tenant()
  returns text
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_asserted constant text := nullif(current_setting('rag.tenant', true), '');
begin
  if v_asserted is null then
    return null;
  end if;
  if position(':' in v_asserted) > 0 then
    return rag_auth.signed_tenant(v_asserted);
  end if;
  if not exists (
    select from rag_auth.membership m
    where m.login = session_user::text and m.tenant = v_asserted
  ) then
    raise exception using
      errcode = 'RS001',
      message = format('tenant "%s" is not bound to login "%s"', v_asserted, session_user),
      hint = case
        when exists (select from rag_auth.signing_key k where k.login = session_user::text)
        then 'This login has keys: sign with one (RAG_SQL_TENANT_KEY), or have the tenant granted to it.'
        else format('Ask the administrator of the store for: rag-sql tenant grant %s %s', v_asserted, session_user)
      end;
  end if;
  return v_asserted;
end;
$$;
revoke all on function rag_auth.tenant from public;
grant execute on function rag_auth.tenant to rag_reader, rag_auditor, rag_search;
comment on function rag_auth.tenant is
  'The tenant that this session is bound to; null when none is asserted; RS001 or RS004 when it is not proven.';

-- The bound tenant where the session may write for it, or null when none is asserted; RS005 when it may only read. The
-- policies of what decisions rest on, and of decisions about them, ask for this one.
-- The right stands where the proof is: in what was signed, or beside the grant.
create or replace function rag_auth.write_tenant()
  returns text
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.tenant();
  v_right constant text := split_part(current_setting('rag.tenant', true), ':', 2);
begin
  if v_tenant is null or v_right = 'write' then
    return v_tenant;
  end if;
  if v_right = 'read' or not exists (
    select from rag_auth.membership m
    where m.login = session_user::text and m.tenant = v_tenant and m.may_write
  ) then
    raise exception using
      errcode = 'RS005',
      message = format('login "%s" may only read for tenant "%s"', session_user, v_tenant),
      hint = case v_right
        when 'read' then 'The application has signed for reading.'
        else format('Ask the administrator of the store for: rag-sql tenant grant %s %s', v_tenant, session_user)
      end;
  end if;
  return v_tenant;
end;
$$;
revoke all on function rag_auth.write_tenant from public;
grant execute on function rag_auth.write_tenant to rag_reader, rag_search;
comment on function rag_auth.write_tenant is
  'The bound tenant, where the session may write for it; null when none is asserted; RS005 when it may only read.';

-- The bound tenant where one is needed: RS002 when none is asserted.
create or replace function rag_auth.required_tenant()
  returns text
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.tenant();
begin
  if v_tenant is null then
    raise exception using
      errcode = 'RS002',
      message = 'no tenant is bound',
      hint = 'Bind one in this transaction: select rag_api.bind(p_tenant => ''acme'').';
  end if;
  return v_tenant;
end;
$$;
revoke all on function rag_auth.required_tenant from public;
grant execute on function rag_auth.required_tenant to rag_reader, rag_search;
comment on function rag_auth.required_tenant is 'The bound tenant; RS002 when none is asserted.';

-- The tenants that are granted to this session's login, in byte order: its own rows of the membership table, and no row
-- about any other login. It asserts nothing, so it also answers whoever asserted the wrong tenant.
drop function if exists rag_auth.own_tenants;
create function rag_auth.own_tenants()
  returns table (tenant text, may_write boolean)
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  select m.tenant, m.may_write from rag_auth.membership m where m.login = session_user::text order by m.tenant;
end;
$$;
revoke all on function rag_auth.own_tenants from public;
grant execute on function rag_auth.own_tenants to rag_reader, rag_auditor;
comment on function rag_auth.own_tenants is 'The tenants that are granted to this session''s login; rag_api.membership shows them.';

reset role;
set local role rag_owner;
revoke create on schema rag_auth from rag_binder;

-- The tenants whose rows this session may read, as the keys of an object: the bound one, and public where p_with_public. For
-- the policies, which look a row's tenant up in it (020_policies says why). Empty objects are the values that are taken out
-- fastest; no tenant has an empty name. Inlined where it is called.
create or replace function rag_auth.readable(
  p_with_public boolean
)
  returns jsonb
  language sql
  stable
  parallel restricted
return jsonb_build_object(
  case when p_with_public then 'public' else '' end, '{}'::jsonb,
  coalesce(rag_auth.tenant(), ''), '{}'::jsonb
);
revoke all on function rag_auth.readable from public;
grant execute on function rag_auth.readable to rag_reader;
comment on function rag_auth.readable is
  'The bound tenant, and public where p_with_public, as keys of an object; what rag_auth.tenant() raises.';

-- Administration: the installing login acts as rag_owner for these. No run-time role may call them.

-- RS010 when the name is no slug.
create or replace function rag_auth.add_tenant(
  p_tenant text
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_tenant is null or p_tenant !~ '^[a-z][a-z0-9-]{0,62}$' then
    raise exception using
      errcode = 'RS010',
      message = format('"%s" is no name for a tenant', coalesce(p_tenant, 'null')),
      hint = 'A name is a lower-case letter, then letters, digits and hyphens; at most 63.';
  end if;
  insert into rag.tenant (tenant) values (p_tenant) on conflict do nothing;
end;
$$;
revoke all on function rag_auth.add_tenant from public;
comment on function rag_auth.add_tenant is 'Adds a tenant; nothing happens where it exists.';

-- RS083 unless this is a login that may act for a tenant: one that exists, that row-level security holds (no superuser,
-- no BYPASSRLS, no owner of the tables), that cannot become such a role, and that is no auditor. A grant would promise a
-- wall that is not there, and the fence of readers would hold the audits.
create or replace function rag_auth.check_login(
  p_login text
)
  returns void
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_reached text;
begin
  if not exists (select from pg_catalog.pg_roles r where r.rolname = p_login and r.rolcanlogin) then
    raise exception using
      errcode = 'RS083',
      message = format('there is no login "%s"', p_login),
      hint = format('Create it first: create role %I login;', p_login);
  end if;
  -- Whatever the login is, or can become by set role.
  select string_agg(r.rolname, ', ' order by r.rolname) into v_reached
  from pg_catalog.pg_roles r
  where pg_catalog.pg_has_role(p_login, r.oid, 'MEMBER')
    and (r.rolsuper or r.rolbypassrls or r.rolname in ('rag_owner', 'rag_binder', 'rag_search', 'rag_recorder'));
  if v_reached is not null then
    raise exception using
      errcode = 'RS083',
      message = format('row-level security does not hold login "%s"', p_login),
      detail = format('It is, or can become: %s.', v_reached),
      hint = 'Grant the tenant to an ordinary login.';
  end if;
  if pg_catalog.pg_has_role(p_login, 'rag_auditor', 'MEMBER') then
    raise exception using
      errcode = 'RS083',
      message = format('login "%s" is an auditor, and an auditor acts for no tenant', p_login),
      detail = 'An auditor reads every tenant; what readers are kept from would be kept from its audits too.',
      hint = format('Use another login, or: revoke rag_auditor from %I;', p_login);
  end if;
end;
$$;
revoke all on function rag_auth.check_login from public;
comment on function rag_auth.check_login is 'RS083 unless this is a login that may act for a tenant.';

-- Binds a login to a tenant, with the right to write or only to read; granted again, with the right that is given now.
-- RS083 when there is no such tenant, or the login may act for none.
drop function if exists rag_auth.grant_tenant;
create function rag_auth.grant_tenant(
  p_tenant text,
  p_login text,
  p_may_write boolean default true
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform rag_auth.check_login(p_login);
  if not exists (select from rag.tenant t where t.tenant = p_tenant) then
    raise exception using
      errcode = 'RS083',
      message = format('there is no tenant "%s"', p_tenant),
      hint = format('Add it first: rag-sql tenant add %s', p_tenant);
  end if;
  delete from rag_auth.membership m where m.login = p_login and m.tenant = p_tenant and m.may_write <> p_may_write;
  insert into rag_auth.membership (login, tenant, may_write) values (p_login, p_tenant, p_may_write) on conflict do nothing;
end;
$$;
revoke all on function rag_auth.grant_tenant from public;
comment on function rag_auth.grant_tenant is
  'Lets a login assert a tenant, to write or only to read; RS083 when the login or the tenant does not fit.';

-- Takes a tenant from a login, also from one that was dropped since. True when it was granted; false when it was not,
-- though both exist: what was asked for holds. RS083 for a name that stands for nothing, which is a slip.
drop function if exists rag_auth.revoke_tenant;
create function rag_auth.revoke_tenant(
  p_tenant text,
  p_login text
)
  returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  delete from rag_auth.membership m where m.login = p_login and m.tenant = p_tenant;
  if found then
    return true;
  end if;
  if not exists (select from rag.tenant t where t.tenant = p_tenant) then
    raise exception using
      errcode = 'RS083',
      message = format('there is no tenant "%s"', p_tenant),
      hint = 'List the tenants and their logins: rag-sql tenant list';
  end if;
  if not exists (select from pg_catalog.pg_roles r where r.rolname = p_login) then
    raise exception using
      errcode = 'RS083',
      message = format('there is no login "%s"', p_login),
      hint = 'List the tenants and their logins: rag-sql tenant list';
  end if;
  return false;
end;
$$;
revoke all on function rag_auth.revoke_tenant from public;
comment on function rag_auth.revoke_tenant is
  'Takes a tenant from a login; whether it was granted. RS083 when there is no such login or tenant.';

-- Makes a key with which an application signs for any tenant as one login, and returns its secret: never again, since
-- only the pads are kept. Made here and not given, so that it stands in no statement, and in no log of statements.
-- RS083 for a login that may act for no tenant; RS010 for other than 1 to 3,650 days.
create or replace function rag_auth.add_signing_key(
  p_login text,
  p_days integer
)
  returns table (key_id text, secret bytea, expires_at timestamptz)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  -- Of a random uuid 122 bits are random, by the server's strong generator.
  v_random constant bytea :=
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
  v_secret constant bytea := sha256(v_random);
  v_key_id constant text := left(replace(gen_random_uuid()::text, '-', ''), 12);
begin
  perform rag_auth.check_login(p_login);
  if p_days is null or p_days not between 1 and 3650 then
    raise exception using
      errcode = 'RS010',
      message = format('a key is valid for 1 to 3650 days, not %s', coalesce(p_days::text, 'null'));
  end if;
  return query
  insert into rag_auth.signing_key as k (key_id, login, inner_pad, outer_pad, expires_at)
  values (
    v_key_id, p_login, rag_auth.hmac_pad(v_secret, 54), rag_auth.hmac_pad(v_secret, 92),
    now() + make_interval(days => p_days))
  returning k.key_id, v_secret, k.expires_at;
end;
$$;
revoke all on function rag_auth.add_signing_key from public;
comment on function rag_auth.add_signing_key is
  'Makes a key with which an application signs for tenants as a login; its secret is returned once. RS083, RS010.';

-- Takes a key out of use: transactions that are open lose what it proved, but those that see the database as it was when they
-- began (repeatable read): end their sessions. RS084 when there is none.
create or replace function rag_auth.revoke_signing_key(
  p_key_id text
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  delete from rag_auth.signing_key k where k.key_id = p_key_id;
  if not found then
    raise exception using
      errcode = 'RS084',
      message = format('there is no key "%s"', coalesce(p_key_id, 'null')),
      hint = 'List the keys: rag-sql tenant key list';
  end if;
end;
$$;
revoke all on function rag_auth.revoke_signing_key from public;
comment on function rag_auth.revoke_signing_key is 'Takes a key out of use; RS084 when there is none.';

reset role;
