-- Binding: which tenant a session may act for.
--
-- A transaction asserts a tenant (the setting rag.tenant, local to the transaction; rag_api.bind sets it). A setting is
-- an assertion that anyone can make, at any time, even in the middle of a statement: the proof is here. The asserted
-- tenant is bound only where (session_user, tenant) is granted in rag_auth.membership. session_user does not change
-- under `set role` or inside a definer function.
--
--   nothing asserted          null: public only
--   asserted and granted      the tenant
--   asserted, not granted     an error (RS001), never public alone: that could miss the tenant's own exception.
--                             The error is the same whether the tenant exists or not.
--
-- The functions below are definer functions of rag_binder, which can read the membership table and nothing else.

set local role rag_owner;
grant create on schema rag_auth to rag_binder;
grant select on rag_auth.membership to rag_binder;
set local role rag_binder;

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
  if not exists (
    select from rag_auth.membership m
    where m.login = session_user::text and m.tenant = v_asserted
  ) then
    raise exception using
      errcode = 'RS001',
      message = format('tenant "%s" is not bound to login "%s"', v_asserted, session_user),
      hint = format('Ask the administrator of the store for: rag-sql tenant grant %s %s', v_asserted, session_user);
  end if;
  return v_asserted;
end;
$$;
revoke all on function rag_auth.tenant from public;
grant execute on function rag_auth.tenant to rag_reader, rag_auditor;
comment on function rag_auth.tenant is
  'The tenant that this session is bound to; null when none is asserted; RS001 when the asserted one is not granted.';

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
grant execute on function rag_auth.required_tenant to rag_reader;
comment on function rag_auth.required_tenant is 'The bound tenant; RS002 when none is asserted.';

-- The tenants that this session's login may bind, in byte order: its own rows of the membership table, and no row about
-- any other login. It asserts nothing, so it also answers whoever asserted the wrong tenant.
create or replace function rag_auth.own_tenants()
  returns table (tenant text)
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  return query select m.tenant from rag_auth.membership m where m.login = session_user::text order by m.tenant;
end;
$$;
revoke all on function rag_auth.own_tenants from public;
grant execute on function rag_auth.own_tenants to rag_reader, rag_auditor;
comment on function rag_auth.own_tenants is 'The tenants that this session''s login may bind; rag_api.membership shows them.';

reset role;
set local role rag_owner;
revoke create on schema rag_auth from rag_binder;

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

-- Binds a login to a tenant. Refused for a login that row-level security does not hold (superuser, BYPASSRLS, owner of
-- the tables), or that can become such a role: the grant would promise a wall that is not there. RS083 when there is no
-- such login or tenant.
create or replace function rag_auth.grant_tenant(
  p_tenant text,
  p_login text
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_role pg_catalog.pg_roles;
  v_reached text;
begin
  select r.* into v_role from pg_catalog.pg_roles r where r.rolname = p_login;
  if not found or not v_role.rolcanlogin then
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
  if not exists (select from rag.tenant t where t.tenant = p_tenant) then
    raise exception using
      errcode = 'RS083',
      message = format('there is no tenant "%s"', p_tenant),
      hint = format('Add it first: rag-sql tenant add %s', p_tenant);
  end if;
  insert into rag_auth.membership (login, tenant) values (p_login, p_tenant) on conflict do nothing;
end;
$$;
revoke all on function rag_auth.grant_tenant from public;
comment on function rag_auth.grant_tenant is 'Lets a login assert a tenant; RS083 when the login or the tenant does not fit.';

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

reset role;
