"""The catalog queries of ``rag-sql doctor``: one for each finding, with the statement that mends it.

Each answers rows of subject, problem and remedy, and none where all is well. They run with the path pinned to
``pg_catalog``, so that names come out qualified and quoted, and look at catalogs and settings that every login may
read. Parameter ``logins``: those to examine besides the members of the store's groups.
"""

from __future__ import annotations

from typing import Final

__all__: list[str] = []

#: What every query is run with; a part that it does not name is not evaluated.
#:   administrator  holds all roles of the store with admin option: the installing login, which is not one of run time
#:   runtime        logins in a group of the store, directly or through other roles, and those asked about
#:   above          roles that row-level security does not hold, or that own what it is made of
#:   ours           relations of the store, with partitions and children wherever they are
#:   granted        privileges on them that are not the owner's
START: Final = """
with recursive store_role as (
  select r.*
  from pg_roles r
  where r.rolname in ('rag_owner', 'rag_binder', 'rag_search', 'rag_recorder',
    'rag_reader', 'rag_curator', 'rag_publisher', 'rag_reviewer', 'rag_auditor')
), administrator as (
  select m.member as oid
  from pg_auth_members m
  join store_role r on r.oid = m.roleid
  where m.admin_option
  group by m.member
  having count(distinct m.roleid) = (select count(*) from store_role)
), inside as (
  select r.oid
  from store_role r
  where r.rolname in ('rag_reader', 'rag_curator', 'rag_publisher', 'rag_reviewer', 'rag_auditor')
  union
  select m.member
  from inside
  join pg_auth_members m on m.roleid = inside.oid
  where m.member not in (select a.oid from administrator a)
), runtime as (
  select r.*
  from pg_roles r
  where r.rolcanlogin
    and (r.oid in (select i.oid from inside i) or r.rolname = any (cast(:logins as text[])))
), here as (
  select d.datname, d.datdba, d.datacl
  from pg_database d
  where d.datname = current_database()
), above as (
  select r.oid, r.rolname
  from pg_roles r
  where r.rolsuper
    or r.rolbypassrls
    or r.rolname in ('rag_owner', 'rag_binder', 'rag_search', 'rag_recorder', 'pg_execute_server_program',
      'pg_read_server_files', 'pg_write_server_files', 'pg_database_owner')
    or r.oid = (select h.datdba from here h)
), ours as (
  select c.oid
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  where n.nspname in ('rag', 'rag_auth', 'rag_index', 'rag_api')
  union
  select i.inhrelid
  from ours
  join pg_inherits i on i.inhparent = ours.oid
), granted as (
  select c.oid, null::name as attname, a.grantee, a.privilege_type
  from ours
  join pg_class c on c.oid = ours.oid
  cross join lateral aclexplode(c.relacl) a
  where a.grantee <> c.relowner
  union all
  select c.oid, t.attname, a.grantee, a.privilege_type
  from ours
  join pg_class c on c.oid = ours.oid
  join pg_attribute t on t.attrelid = c.oid
  cross join lateral aclexplode(t.attacl) a
  where a.grantee <> c.relowner
)
"""

#: A grantee as a statement names it.
_GRANTEE: Final = "case a.grantee when 0 then 'public' else a.grantee::regrole::text end"

#: The grantee is everyone, or a role that a login of run time is or can become. What is above the wall is reported
#: by itself, once, and not again with everything it may do.
_AT_RUN_TIME: Final = """
(a.grantee = 0 or a.grantee not in (select r.oid from above r) and exists (
  select from runtime l where not l.rolsuper and pg_has_role(l.oid, a.grantee, 'MEMBER')))
"""

#: Definer functions that matter here: the store's own, and any that stands above the wall and can be called.
_DEFINERS: Final = f"""
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where p.prosecdef
  and n.nspname not in ('pg_catalog', 'information_schema')
  and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  and (
    n.nspname in ('rag', 'rag_auth', 'rag_index', 'rag_api')
    or p.proowner in (select r.oid from above r) and exists (
      select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where {_AT_RUN_TIME})
  )
"""

LOGIN_UNKNOWN: Final = """
select asked.name,
  'there is no login of this name',
  format(case when r.oid is null then 'create role %I login' else 'alter role %I login' end, asked.name)
from unnest(cast(:asked as text[])) as asked(name)
left join pg_roles r on r.rolname = asked.name
where not coalesce(r.rolcanlogin, false)
"""

LOGIN_ATTRIBUTE: Final = """
select l.rolname,
  'is ' || concat_ws(', ', case when l.rolsuper then 'SUPERUSER' end, case when l.rolbypassrls then 'BYPASSRLS' end,
    case when l.rolreplication then 'REPLICATION' end) || ': row-level security does not hold it',
  format('alter role %I nosuperuser nobypassrls noreplication', l.rolname)
from runtime l
where l.rolsuper or l.rolbypassrls or l.rolreplication
"""

LOGIN_REACHES: Final = """
select l.rolname,
  format('can become %s through %I', string_agg(quote_ident(r.rolname), ', ' order by r.rolname), d.rolname),
  format('revoke %I from %I granted by %I', d.rolname, l.rolname, g.rolname)
from runtime l
join pg_auth_members m on m.member = l.oid
join pg_roles d on d.oid = m.roleid
join pg_roles g on g.oid = m.grantor
join above r on pg_has_role(d.oid, r.oid, 'MEMBER')
where not l.rolsuper
  and (not d.rolsuper or r.oid = d.oid)
  and r.rolname <> 'pg_database_owner'
group by l.rolname, d.rolname, g.rolname
"""

LOGIN_OWNS_DATABASE: Final = """
select l.rolname,
  format('owns the database %I, so it may create in it and give it away', h.datname),
  format('alter database %I owner to %I', h.datname, coalesce(
    (select min(r.rolname) from administrator a join pg_roles r using (oid) where r.oid <> l.oid and r.rolcanlogin),
    (select r.rolname from pg_roles r where r.oid = 10)))
from runtime l
join here h on h.datdba = l.oid
"""

LOGIN_READS_AND_AUDITS: Final = """
select l.rolname,
  'is a reader and an auditor at once: the fence for readers holds its audits, and it reads as both',
  format('revoke %I from %I granted by %I', d.rolname, l.rolname, g.rolname)
from runtime l
join pg_auth_members m on m.member = l.oid
join pg_roles d on d.oid = m.roleid
join pg_roles g on g.oid = m.grantor
where not l.rolsuper
  and not d.rolsuper
  and pg_has_role(d.oid, to_regrole('rag_auditor')::oid, 'MEMBER')
  and pg_has_role(l.oid, to_regrole('rag_reader')::oid, 'MEMBER')
"""

STORE_ROLE_ATTRIBUTE: Final = """
select r.rolname,
  'a role of the store has ' || concat_ws(', ', case when r.rolcanlogin then 'LOGIN' end,
    case when r.rolsuper then 'SUPERUSER' end, case when r.rolbypassrls then 'BYPASSRLS' end,
    case when r.rolcreaterole then 'CREATEROLE' end, case when r.rolcreatedb then 'CREATEDB' end,
    case when r.rolreplication then 'REPLICATION' end),
  format('alter role %I nologin nosuperuser nobypassrls nocreaterole nocreatedb noreplication', r.rolname)
from store_role r
where r.rolcanlogin or r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication
"""

DATABASE_PRIVILEGE: Final = f"""
select format('database %I', h.datname),
  format('%s has %s', upper({_GRANTEE}), string_agg(a.privilege_type, ', ' order by a.privilege_type)),
  format('revoke %s on database %I from %s',
    lower(string_agg(a.privilege_type, ', ' order by a.privilege_type)), h.datname, {_GRANTEE})
from here h
cross join lateral aclexplode(coalesce(h.datacl, acldefault('d', h.datdba))) a
where a.privilege_type in ('CREATE', 'TEMPORARY')
  and {_AT_RUN_TIME}
group by h.datname, a.grantee
"""

SCHEMA_PRIVILEGE: Final = f"""
select format('schema %I', n.nspname),
  case when a.grantee = n.nspowner then format('is owned by %s', {_GRANTEE})
    else format('%s has CREATE', upper({_GRANTEE})) end
    || ': what is put there can be found in place of what was meant',
  case when a.grantee = n.nspowner then format('alter schema %I owner to %I', n.nspname, h.datdba::regrole)
    else format('revoke create on schema %I from %s', n.nspname, {_GRANTEE}) end
from pg_namespace n
cross join here h
cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
where a.privilege_type = 'CREATE'
  and n.nspname !~ '^pg_(toast|temp)'
  and {_AT_RUN_TIME}
"""

TABLE_OWNER: Final = """
select c.oid::regclass::text,
  format('is owned by %s, which may take the wall down', c.relowner::regrole),
  format('alter table %s owner to rag_owner', c.oid::regclass)
from ours
join pg_class c on c.oid = ours.oid
where c.relkind in ('r', 'p', 'v', 'm', 'f')
  and c.relowner is distinct from to_regrole('rag_owner')
"""

ROW_SECURITY: Final = """
select c.oid::regclass::text,
  'row-level security is ' || case when c.relrowsecurity then 'not forced' else 'off' end
    || case when c.relispartition then ' on this partition' else '' end,
  format('alter table %s enable row level security, force row level security', c.oid::regclass)
from ours
join pg_class c on c.oid = ours.oid
where c.relkind in ('r', 'p')
  and not (c.relrowsecurity and c.relforcerowsecurity)
  and c.oid::regclass::text <> 'rag.alembic_version'
"""

#: Parameter `known`: tables of which an upgrade makes the policies again.
FENCE: Final = """
select c.oid::regclass::text,
  format('readers may %s and no restrictive policy asks for their tenant', f.command),
  case
    when c.oid::regclass::text = any (cast(:known as text[])) then 'rag-sql upgrade'
    when t.attname is null then format('revoke %s on table %s from %s', f.command, c.oid::regclass, f.grantees)
    when f.command = 'select' then format('create policy %I on %s as restrictive for select to rag_reader'
      ' using (tenant = any (array[''public'', (select rag_auth.tenant())]))', 'fence_select', c.oid::regclass)
    else format('create policy %I on %s as restrictive for insert to rag_reader'
      ' with check (tenant = (select rag_auth.tenant()))', 'fence_insert', c.oid::regclass)
  end
from (
  select a.oid, lower(a.privilege_type) as command,
    string_agg(distinct case a.grantee when 0 then 'public' else a.grantee::regrole::text end, ', ') as grantees
  from granted a
  where a.privilege_type in ('SELECT', 'INSERT')
    and (a.grantee = 0 or pg_has_role(a.grantee, to_regrole('rag_reader')::oid, 'MEMBER')
      or pg_has_role(to_regrole('rag_reader')::oid, a.grantee, 'MEMBER'))
  group by a.oid, a.privilege_type
) f
join pg_class c on c.oid = f.oid
left join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant' and not t.attisdropped
where c.relkind in ('r', 'p')
  and c.oid::regclass::text <> 'rag.alembic_version'
  and not exists (
    select
    from pg_policy p
    where p.polrelid = c.oid
      and not p.polpermissive
      and p.polcmd::text in ('*', case f.command when 'select' then 'r' else 'a' end)
      and p.polroles && array[0, to_regrole('rag_reader')::oid]
      and pg_get_expr(case when f.command = 'select' or p.polwithcheck is null then p.polqual else p.polwithcheck end,
        p.polrelid) ~ 'rag_auth\\.(required_|write_)?tenant\\('
  )
"""

POLICY: Final = """
select c.oid::regclass || '.' || quote_ident(p.polname),
  format('a policy that the store does not have: it lets %s %s', f.grantees,
    case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete'
      else 'do everything' end)
    || case when f.asks then '' else ' without asking for a tenant' end,
  format('drop policy %I on %s', p.polname, c.oid::regclass)
from ours
join pg_class c on c.oid = ours.oid
join pg_policy p on p.polrelid = c.oid
cross join lateral (
  select string_agg(case r.oid when 0 then 'PUBLIC' else r.oid::regrole::text end, ', ') as grantees,
    bool_or(r.oid = 0) as everyone,
    coalesce(pg_get_expr(p.polqual, c.oid) ~ 'rag_auth\\.(required_|write_)?tenant\\(', true)
      and coalesce(pg_get_expr(p.polwithcheck, c.oid) ~ 'rag_auth\\.(required_|write_)?tenant\\(', true) as asks
  from unnest(p.polroles) as r(oid)
  where r.oid = 0
    or r.oid::regrole::text not in ('rag_owner', 'rag_binder', 'rag_search', 'rag_auditor')
) f
where p.polpermissive
  and f.grantees is not null
  and (f.everyone or p.polcmd in ('*', 'w', 'd') or not f.asks)
  and not (f.asks and f.grantees = 'rag_recorder' and c.oid::regclass::text || '.' || p.polname
    in ('rag_index.version.indexed_version_update', 'rag_index.turn.turn_update'))
"""

TABLE_PRIVILEGE: Final = f"""
select a.oid::regclass::text,
  format('%s has %s: evidence is only added, and these go past row-level security or queue before everyone',
    upper({_GRANTEE}), string_agg(distinct a.privilege_type, ', ')),
  format('revoke %s on table %s from %s',
    string_agg(lower(a.privilege_type) || coalesce(' (' || quote_ident(a.attname) || ')', ''), ', '
      order by a.privilege_type, a.attname),
    a.oid::regclass, {_GRANTEE})
from granted a
where a.privilege_type not in ('SELECT', 'INSERT')
  -- When a version is not in use any more is derived, and ends earlier than was known.
  and not coalesce({_GRANTEE} = 'rag_recorder' and a.privilege_type = 'UPDATE'
    and a.oid::regclass::text || '.' || a.attname in ('rag_index.version.used_until', 'rag_index.turn.turns'), false)
group by a.oid, a.grantee
"""

VIEW: Final = """
select c.oid::regclass::text,
  format('reads with the rights of %s, not of the caller', c.relowner::regrole),
  format('alter view %s set (security_invoker = true)', c.oid::regclass)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'v'
  and not coalesce((
    select o.option_value::boolean from pg_options_to_table(c.reloptions) o where o.option_name = 'security_invoker'
  ), false)
  and (
    n.nspname in ('rag', 'rag_auth', 'rag_index', 'rag_api')
    or exists (
      select
      from pg_rewrite w
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
      join ours on ours.oid = d.refobjid and d.refclassid = 'pg_class'::regclass
      where w.ev_class = c.oid
    )
  )
"""

DEFINER_PATH: Final = f"""
select p.oid::regprocedure::text,
  format('runs with the rights of %s and its search_path ', p.proowner::regrole)
    || coalesce('is ' || s.path || ', not ending in pg_temp', 'is the caller''s'),
  format('alter routine %s set search_path = ', p.oid::regprocedure)
    || case when s.path is null or s.path ~ 'pg_temp' then 'pg_catalog, pg_temp' else s.path || ', pg_temp' end
from (
  select p.oid, p.proowner, (select substr(c, 13) from unnest(p.proconfig) as c where c like 'search\\_path=%') as path
  {_DEFINERS}
) s
join pg_proc p on p.oid = s.oid
where s.path is null or s.path !~ '(^|, *)pg_temp$'
"""

DEFINER_OWNER: Final = f"""
select p.oid::regprocedure::text,
  format('runs with the rights of %s, whoever calls it', p.proowner::regrole),
  format('alter routine %s security invoker', p.oid::regprocedure)
{_DEFINERS}
  and p.proowner::regrole::text not in ('rag_binder', 'rag_search', 'rag_recorder')
"""

FUNCTION_PRIVILEGE: Final = """
select p.oid::regprocedure::text,
  'PUBLIC may execute it',
  format('revoke execute on routine %s from public', p.oid::regprocedure)
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
where n.nspname in ('rag', 'rag_auth', 'rag_index', 'rag_api')
  and a.grantee = 0
"""

EXTENSION: Final = """
select 'extension vector',
  case when e.oid is null then 'is not in this database'
    else format('is %s; 0.8 or newer is needed', e.extversion) end,
  case when e.oid is null then 'create extension vector schema public' else 'alter extension vector update' end
from (values ('vector')) as wanted(name)
left join pg_extension e on e.extname = wanted.name
where e.oid is null
  or cast(regexp_split_to_array(substring(e.extversion from '^\\d+\\.\\d+'), '\\.') as integer[]) < array[0, 8]
"""

# Letters by number: a text that the encoding does not have cannot be sent.
ENCODING: Final = """
select format('database %I', d.datname),
  case when getdatabaseencoding() <> 'UTF8' then format('its encoding is %s', getdatabaseencoding())
    else 'its locale does not lower letters as words need it (E with an acute accent, or I)' end,
  format('create database %I encoding ''UTF8'' locale ''C.UTF-8'' template template0', d.datname || '_utf8')
from pg_database d
where d.datname = current_database()
  and case when getdatabaseencoding() <> 'UTF8' then true
    else lower(chr(201) collate "default") <> chr(233) or lower('I' collate "default") <> 'i' end
"""

LOG_PARAMETERS: Final = """
select s.name,
  format('is %s: texts and queries of tenants reach the server''s log when statements are logged', s.setting),
  format('alter database %I set %I = 0', current_database(), s.name)
from pg_settings s
where s.name in ('log_parameter_max_length', 'log_parameter_max_length_on_error')
  and s.setting <> '0'
"""

IDLE_TRANSACTION: Final = """
select s.name,
  'is not set: a session that is idle in a transaction holds back an upgrade and the cleaning of every table',
  format('alter database %I set %I = ''60s''', current_database(), s.name)
from pg_settings s
where s.name = 'idle_in_transaction_session_timeout'
  and s.setting = '0'
"""
