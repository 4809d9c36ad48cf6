"""What there is to mutate: for each kind a query over the catalog, so that nothing has to be named.

A query says of each mutant which object it changes, what about it, the statement that changes it, and the one that
takes that back. ``LESS`` are kinds after which logins see or can do something else, so that a probe is asked first;
after one of ``MORE`` somebody might, and the rules of the catalog are asked.
"""

from __future__ import annotations

from tests.tenancy.wall import CREATE_POLICY, DROP_POLICY

#: What the queries read. Names are quoted where they need it; grantee 0 is everybody.
CATALOG = f"""
with role as (
  select oid, rolname::text as name from pg_roles where rolname ~ '^rag_'
), everybody as (
  select oid, name from role union all select 0, 'public'
), policy as (
  select polrelid::regclass::text as of_table, polname::text as name, polpermissive,
    {DROP_POLICY} as drops, {CREATE_POLICY} as creates,
    format('alter policy %I on %s', polname, polrelid::regclass) as alters,
    (select string_agg(r::regrole::text, ', ') from unnest(polroles) r) as roles,
    concat(' using (' || pg_get_expr(polqual, polrelid) || ')',
      ' with check (' || pg_get_expr(polwithcheck, polrelid) || ')') as condition,
    concat(case when polqual is not null then ' using (true)' end,
      case when polwithcheck is not null then ' with check (true)' end) as no_condition
  from pg_policy
), relation as (
  select oid, oid::regclass::text as name, relkind, relowner as owner, relrowsecurity, relforcerowsecurity,
    coalesce(relacl, acldefault('r', relowner)) as acl
  from pg_class where relnamespace::regnamespace::text ~ '^rag' and relkind in ('r', 'p', 'v')
), field as (
  select r.oid as of_relation, r.name as of_table, r.owner, quote_ident(attname) as name, attacl as acl
  from relation r join pg_attribute on attrelid = r.oid where relkind <> 'v' and attnum > 0 and not attisdropped
), function as (
  select oid, 'function ' || oid::regprocedure::text as name, proowner as owner, prosecdef, proconfig, proleakproof,
    coalesce(proacl, acldefault('f', proowner)) as acl
  from pg_proc where pronamespace::regnamespace::text ~ '^rag'
), object(sort, name, owner, acl) as (
  select case relkind when 'v' then 'view' else 'table' end, name, owner, acl from relation
  union all
  select 'function', name, owner, acl from function
  union all
  select 'schema', 'schema ' || nspname, nspowner, coalesce(nspacl, acldefault('n', nspowner))
  from pg_namespace where nspname ~ '^rag' or nspname = 'public'
  union all
  select 'database', 'database ' || quote_ident(datname), datdba, coalesce(datacl, acldefault('d', datdba))
  from pg_database where datname = current_database()
), granted as (
  select o.sort, o.name, lower(a.privilege_type) as privilege, e.name as grantee
  from object o cross join lateral aclexplode(o.acl) a join everybody e on e.oid = a.grantee and e.oid <> o.owner
), granted_columns as (
  select f.of_table, lower(a.privilege_type) as privilege, e.name as grantee, string_agg(f.name, ', ') as columns
  from field f cross join lateral aclexplode(f.acl) a join everybody e on e.oid = a.grantee group by 1, 2, 3
), lacking as (
  select o.sort, o.name, p.privilege, e.name as grantee
  from object o cross join everybody e
  join (values
    ('table', 'select'), ('table', 'insert'), ('table', 'update'), ('table', 'delete'), ('table', 'truncate'),
    ('table', 'references'), ('table', 'trigger'), ('view', 'select'), ('function', 'execute'),
    ('schema', 'usage'), ('schema', 'create'), ('database', 'create'), ('database', 'temporary')
  ) as p(sort, privilege) on p.sort = o.sort
  where e.oid <> o.owner and not exists (
    select from aclexplode(o.acl) a where a.grantee in (e.oid, 0) and a.privilege_type = upper(p.privilege))
)
"""

_TAKEN_AWAY = """
select name, privilege || ' from ' || grantee, format('revoke %s on %s from %s', privilege, name, grantee),
  format('grant %s on %s to %s', privilege, name, grantee)
from granted where sort = '{}'
"""
_TOO_MANY = """
select l.name, l.privilege || ' to ' || l.grantee, format('grant %s on %s to %s', l.privilege, l.name, l.grantee),
  -- A privilege that is taken from a table is taken from its columns too.
  concat(format('revoke %s on %s from %s', l.privilege, l.name, l.grantee),
    '; grant ' || l.privilege || ' (' || o.columns || ') on ' || l.name || ' to ' || l.grantee)
from lacking l
left join granted_columns o on o.of_table = l.name and o.privilege = l.privilege and o.grantee = l.grantee
where l.sort = '{}'
"""

LESS = {
    "policy dropped": "select of_table, name, drops, creates from policy",
    "policy that lets every row through": """
select of_table, name, alters || no_condition, alters || condition from policy
where condition not in (' using (true)', ' with check (true)')
""",
    "fence that allows instead of forbidding": """
select of_table, name, drops || ';' || replace(creates, ' as restrictive ', ' '), drops || ';' || creates
from policy where not polpermissive
""",
    "row security switched off": """
select name, '', format('alter table %s disable row level security', name),
  format('alter table %s enable row level security', name)
from relation where relrowsecurity
""",
    "row security not forced on the owner": """
select name, '', format('alter table %s no force row level security', name),
  format('alter table %s force row level security', name)
from relation where relforcerowsecurity
""",
    "privilege on a table taken away": _TAKEN_AWAY.format("table"),
    "privilege on a view taken away": _TAKEN_AWAY.format("view"),
    "privilege on columns taken away": """
select of_table, privilege || ' from ' || grantee,
  format('revoke %s (%s) on %s from %s', privilege, columns, of_table, grantee),
  format('grant %s (%s) on %s to %s', privilege, columns, of_table, grantee)
from granted_columns
""",
    "privilege on a function taken away": _TAKEN_AWAY.format("function"),
    "definer function with the caller's rights": """
select name, '', format('alter %s security invoker', name), format('alter %s security definer', name)
from function where prosecdef
""",
    "definer function of the superuser's": """
select name, '', format('alter %s owner to %I', name, current_user),
  format('alter %s owner to %I', name, owner::regrole)
from function where prosecdef
""",
    "view with its owner's rights": """
select name, '', format('alter view %s set (security_invoker = false)', name),
  format('alter view %s set (security_invoker = true)', name)
from relation where relkind = 'v'
""",
    "trigger switched off": """
select r.name, tgname::text, format('alter table %s disable trigger %I', r.name, tgname),
  format('alter table %s enable trigger %I', r.name, tgname)
from relation r join pg_trigger on tgrelid = r.oid where not tgisinternal
""",
}

MORE = {
    "policy for everybody": "select of_table, name, alters || ' to public', alters || ' to ' || roles from policy",
    "privilege on a schema taken away": _TAKEN_AWAY.format("schema"),
    "privilege too many on a table": _TOO_MANY.format("table"),
    "privilege too many on a view": _TOO_MANY.format("view"),
    "column too many in an insert": """
select f.of_table, f.name || ' to ' || e.name, format('grant insert (%s) on %s to %s', f.name, f.of_table, e.name),
  format('revoke insert (%s) on %s from %s', f.name, f.of_table, e.name)
from field f join role e on e.oid <> f.owner
where not exists (select from aclexplode(f.acl) a where a.grantee = e.oid)
  and exists (select from field o, aclexplode(o.acl) a where o.of_relation = f.of_relation and a.grantee = e.oid)
""",
    "privilege too many on a function": _TOO_MANY.format("function"),
    "privilege too many on a schema": _TOO_MANY.format("schema"),
    "privilege too many on the database": _TOO_MANY.format("database"),
    "group left": """
select m.name, g.name, format('revoke %s from %s', g.name, m.name), format('grant %s to %s', g.name, m.name)
from pg_auth_members join role m on m.oid = member join role g on g.oid = roleid
""",
    "group too many": """
select m.name, g.name, format('grant %s to %s', g.name, m.name), format('revoke %s from %s', g.name, m.name)
from role m cross join role g
where not pg_has_role(m.oid, g.oid, 'member') and not pg_has_role(g.oid, m.oid, 'member')
""",
    "attribute too many of a role": """
select name, attribute, format('alter role %s %s', name, attribute), format('alter role %s no%s', name, attribute)
from role cross join unnest(string_to_array('login superuser bypassrls createrole createdb replication', ' ')) attribute
""",
    "function with its owner's rights": """
select name, '', format('alter %s security definer', name), format('alter %s security invoker', name)
from function where not prosecdef
""",
    "path of a function not pinned": """
select name, '', format('alter %s reset search_path', name), pg_get_functiondef(oid)
from function where 'search_path=pg_catalog, pg_temp' = any (proconfig)
""",
    "path of a function with public first": """
select name, '', format('alter %s set search_path = public, pg_catalog, pg_temp', name), pg_get_functiondef(oid)
from function where 'search_path=pg_catalog, pg_temp' = any (proconfig)
""",
    "function that is handed rows before the policy": """
select name, '', format('alter %s leakproof', name), format('alter %s not leakproof', name)
from function where not proleakproof
""",
    "function of a policy that a plan may keep": """
select distinct name, '', format('alter %s immutable', name), format('alter %s stable', name)
from function join pg_depend on refclassid = 'pg_proc'::regclass and refobjid = function.oid
where classid = 'pg_policy'::regclass
""",
}
