-- The public surface is dropped and rebuilt on every upgrade, so that no stale signature, option or grant survives.
-- This file runs before the migrations, because a table that a view reads cannot change its columns.
--
-- Never CASCADE: an object of the user's that depends on rag_api (a view of theirs, say) must not vanish. Objects are
-- dropped one by one, in passes, until a pass drops nothing; what then still stands is held by something outside, which
-- is named (RS081).

do $$
declare
  v_object record;
  v_dropped integer;
  v_holders text;
begin
  if to_regnamespace('rag_api') is null then
    return;
  end if;
  set local role rag_owner;
  loop
    v_dropped := 0;
    for v_object in
      select case c.relkind when 'v' then 'view' else 'table' end as kind, c.oid::regclass::text as identity
      from pg_catalog.pg_class c
      where c.relnamespace = 'rag_api'::regnamespace and c.relkind in ('v', 'r')
      union all
      select 'routine', p.oid::regprocedure::text
      from pg_catalog.pg_proc p
      where p.pronamespace = 'rag_api'::regnamespace
    loop
      begin
        execute format('drop %s %s', v_object.kind, v_object.identity);
        v_dropped := v_dropped + 1;
      exception
        when dependent_objects_still_exist then
          null;
      end;
    end loop;
    exit when v_dropped = 0;
  end loop;

  select string_agg(distinct pg_catalog.pg_describe_object(d.classid, d.objid, 0), e'\n' order by
    pg_catalog.pg_describe_object(d.classid, d.objid, 0))
  into v_holders
  from pg_catalog.pg_depend d
  cross join lateral (
    select n.nspname
    from pg_catalog.pg_identify_object(d.classid, d.objid, 0) as o
    join pg_catalog.pg_namespace n on n.nspname = o.schema
    union all
    select n.nspname
    from pg_catalog.pg_rewrite w
    join pg_catalog.pg_class c on c.oid = w.ev_class
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where d.classid = 'pg_rewrite'::regclass and w.oid = d.objid
    union all
    select n.nspname
    from pg_catalog.pg_policy p
    join pg_catalog.pg_class c on c.oid = p.polrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where d.classid = 'pg_policy'::regclass and p.oid = d.objid
  ) as holder
  where d.deptype in ('n', 'a')
    and holder.nspname <> 'rag_api'
    and d.refobjid in (
      select oid from pg_catalog.pg_class where relnamespace = 'rag_api'::regnamespace
      union all
      select oid from pg_catalog.pg_proc where pronamespace = 'rag_api'::regnamespace
      union all
      select oid from pg_catalog.pg_type where typnamespace = 'rag_api'::regnamespace
    );
  if v_holders is not null then
    raise exception using
      errcode = 'RS081',
      message = 'objects outside rag_api depend on it, so it cannot be rebuilt',
      detail = v_holders,
      hint = 'Drop them, upgrade, and create them again.';
  end if;
  drop schema rag_api;
  reset role;
end
$$;

create schema rag_api authorization rag_owner;
set local role rag_owner;
grant usage on schema rag_api to rag_reader, rag_auditor, rag_search;
reset role;
