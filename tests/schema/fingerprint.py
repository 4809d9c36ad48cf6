"""The catalog of a store as facts, free of order and of OIDs, so that two databases can be compared line by line."""

from __future__ import annotations

from tests.conftest import Database

_FACTS = """
with namespace as (
  select oid, nspname, nspowner, nspacl from pg_namespace where nspname in ('rag', 'rag_auth', 'rag_index', 'rag_api')
), relation as (
  select c.*, n.nspname || '.' || c.relname as name from pg_class c join namespace n on n.oid = c.relnamespace
), fact(kind, name, value) as (
  select 'namespace', nspname, concat_ws(' | ', nspowner::regrole,
      array(select a::text from unnest(nspacl) a order by 1)) from namespace
  union all
  select 'relation', name, concat_ws(' | ', relkind, relowner::regrole, relrowsecurity, relforcerowsecurity,
      array_to_string(reloptions, ','), pg_get_partkeydef(oid), pg_get_expr(relpartbound, oid),
      array(select a::text from unnest(relacl) a order by 1))
    from relation where relkind in ('r', 'p', 'v')
  union all
  select 'column', r.name || '.' || a.attname, concat_ws(' | ', format_type(a.atttypid, a.atttypmod), a.attnotnull,
      a.attgenerated, a.attidentity, a.attstattarget, a.attstorage, a.attcollation::regcollation,
      array(select x::text from unnest(a.attacl) x order by 1),
      pg_get_expr(d.adbin, d.adrelid))
    from relation r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where r.relkind in ('r', 'p', 'v')
  union all
  select 'view', name, pg_get_viewdef(oid) from relation where relkind = 'v'
  union all
  select 'index', r.name, concat_ws(' | ', pg_get_indexdef(i.indexrelid), i.indisvalid)
    from pg_index i join relation r on r.oid = i.indexrelid
  union all
  select 'constraint', coalesce(r.name, '') || '.' || k.conname,
    concat_ws(' | ', pg_get_constraintdef(k.oid), k.convalidated)
    from pg_constraint k join relation r on r.oid = k.conrelid
  union all
  select 'trigger', r.name || '.' || t.tgname, concat_ws(' | ', pg_get_triggerdef(t.oid), t.tgenabled)
    from pg_trigger t join relation r on r.oid = t.tgrelid where not t.tgisinternal
  union all
  select 'policy', r.name || '.' || p.polname, concat_ws(' | ', p.polpermissive, p.polcmd,
      array(select x::regrole::text from unnest(p.polroles) x order by 1),
      pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
    from pg_policy p join relation r on r.oid = p.polrelid
  union all
  select 'function', p.oid::regprocedure::text, concat_ws(' | ', p.proowner::regrole, pg_get_functiondef(p.oid),
      array(select a::text from unnest(coalesce(p.proacl, acldefault('f', p.proowner))) a order by 1))
    from pg_proc p join namespace n on n.oid = p.pronamespace
  union all
  select 'type', t.oid::regtype::text, array(
      select a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
      from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 order by a.attnum)::text
    from pg_type t join pg_class c on c.oid = t.typrelid join namespace n on n.oid = t.typnamespace
    where c.relkind = 'c'
  union all
  select 'comment', i.identity || coalesce(' column ' || a.attname, ''), d.description
    from pg_description d cross join lateral pg_identify_object(d.classoid, d.objoid, 0) i
    left join pg_attribute a on d.classoid = 'pg_class'::regclass and a.attrelid = d.objoid and a.attnum = d.objsubid
      and d.objsubid > 0
    where i.schema in ('rag', 'rag_auth', 'rag_index', 'rag_api')
      or i.identity in ('rag', 'rag_auth', 'rag_index', 'rag_api')
)
select concat_ws(' :: ', kind, name, value) from fact order by 1
"""


def fingerprint(database: Database) -> list[str]:
    """Columns, constraints, indexes, policies, options, function bodies, privileges, comments; one fact a line."""
    with database.connect("postgres") as connection:
        return [row[0] for row in connection.execute(_FACTS).fetchall()]
