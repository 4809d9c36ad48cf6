-- Maintenance of the search index: putting segments together, and those versions aside that are not in use any more.
--
-- A load makes a segment, and each search asks every segment of a tenant, so many small ones are slow. What was superseded
-- or withdrawn stays in its segment, where each search leaves it out, until it is put into one of the past, which searches
-- of the present do not open. `rag-sql maintain` does both, a segment at a time, while others read and load: readers see
-- the old segments or the new one, a load waits where it ends the use of a version that is being moved.
--
-- The installing login acts as rag_owner for these. No run-time role may call them.

set local role rag_owner;

create policy segment_admin_select on rag_index.segment for select to rag_owner using (true);
create policy segment_admin_insert on rag_index.segment for insert to rag_owner with check (true);
create policy segment_admin_delete on rag_index.segment for delete to rag_owner using (true);
create policy posting_admin_select on rag_index.posting for select to rag_owner using (true);
create policy posting_admin_insert on rag_index.posting for insert to rag_owner with check (true);
create policy posting_admin_delete on rag_index.posting for delete to rag_owner using (true);
create policy indexed_version_admin_select on rag_index.version for select to rag_owner using (true);
create policy indexed_version_admin_update on rag_index.version for update to rag_owner using (true);

-- Which segments of a tenant and a language, of the past or not, are due to be put together, and how many passages they have: where there are
-- p_segments or more. Smallest first, a segment goes with those before it unless it has more than twice as many passages as
-- all of them, so that each passage is moved a few times only however often it is asked; one of which a quarter is not in use
-- any more is due by itself. Segments have at most 262,144 passages.
create or replace function rag_index.due(
  p_segments integer
)
  returns table (tenant text, language text, segment_ids bigint[], passages bigint)
  language sql
  stable
begin atomic
  with measured as (
    select
      s.tenant, s.language, s.used_until <= statement_timestamp() as is_past, s.segment_id, s.passages,
      coalesce(u.passages, 0) as unused
    from rag_index.segment s
    left join lateral (
      select sum(cardinality(v.range_ends)) as passages
      from rag_index.version v
      where v.tenant = s.tenant and v.segment_id = s.segment_id
        and (v.used_until < 'infinity' or v.effective_from > v.recorded_at)
        and v.used_until <= statement_timestamp()
        and s.used_until > statement_timestamp()
    ) as u on true
    where s.passages < 200000
  ), ordered as (
    select
      m.*,
      coalesce(sum(m.passages) over w, 0) as smaller,
      row_number() over (partition by m.tenant, m.language, m.is_past order by m.passages, m.segment_id) as n,
      count(*) over (partition by m.tenant, m.language, m.is_past) as segments
    from measured m
    window w as (
      partition by m.tenant, m.language, m.is_past order by m.passages, m.segment_id rows between unbounded preceding and 1 preceding
    )
  ), chosen as (
    select o.*
    from ordered o
    where o.smaller + o.passages <= 262144
      and (
        -- It, or one that comes after it, goes with those before.
        o.segments >= p_segments and exists (
          select from ordered l
          where l.tenant = o.tenant and l.language = o.language and l.is_past = o.is_past and l.n >= o.n and l.n > 1
            and l.passages <= 2 * l.smaller and l.smaller + l.passages <= 262144
        )
        or o.unused * 4 >= o.passages
      )
  )
  select c.tenant, c.language, array_agg(c.segment_id order by c.n), sum(c.passages)::bigint
  from chosen c
  group by c.tenant, c.language, c.is_past;
end;
revoke all on function rag_index.due from public;
comment on function rag_index.due is 'Segments that are due to be put together, by tenant and language.';

-- Puts segments of a tenant and a language together: one with what is in use or will be, one with what is not any more.
create or replace function rag_index.merge(
  p_tenant text,
  p_segment_ids bigint[]
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set enable_hashagg = off
as $$
declare
  v_now constant timestamptz := statement_timestamp();
  v_language text;
begin
  -- Another maintenance of these is waited for here, and then there is nothing to do; a load that ends the use of one waits.
  perform
  from rag_index.version v
  where v.tenant = p_tenant and v.segment_id = any (p_segment_ids)
  order by v.document_id, v.version
  for update;
  select min(s.language) into v_language
  from rag_index.segment s
  where s.tenant = p_tenant and s.segment_id = any (p_segment_ids)
  having count(*) = cardinality(p_segment_ids);
  if v_language is null then
    return;
  end if;

  with target as materialized (
    select t.is_past, hashtextextended(gen_random_uuid()::text, 0) as segment_id from (values (false), (true)) as t(is_past)
  ), moved as materialized (
    select
      v.document_id, v.version, v.segment_id, v.first_ordinal, s.scope_id, v.effective_from, v.recorded_at, v.used_until,
      t.is_past, t.segment_id as new_segment_id, cardinality(v.range_ends) as passages,
      (sum(cardinality(v.range_ends)) over (
        partition by t.is_past order by s.scope_id, v.document_id, v.version
      ) - cardinality(v.range_ends) + 1)::integer as new_first_ordinal
    from rag_index.version v
    join (
      select g.segment_id, g.scope_starts, g.scope_ids from rag_index.segment g where g.tenant = p_tenant
    ) as g on g.segment_id = v.segment_id
    cross join lateral (select g.scope_ids[width_bucket(v.first_ordinal, g.scope_starts)] as scope_id) as s
    join target t on t.is_past = (v.used_until <= v_now)
    where v.tenant = p_tenant and v.segment_id = any (p_segment_ids)
  ), map as materialized (
    -- For each segment the new ordinals by the old ones; those of the past are negative.
    select
      m.segment_id,
      array_agg(case when m.is_past then -1 else 1 end * (m.new_first_ordinal + o.i) order by m.first_ordinal + o.i) as ordinals
    from moved m
    cross join lateral generate_series(0, m.passages - 1) as o(i)
    group by m.segment_id
  ), counted as materialized (
    select n.is_past, count(*)::integer as passages, 0 || array_agg(n.until order by n.ordinal) as lengths
    from (
      select
        l.is_past, l.ordinal, (sum(l.length) over (partition by l.is_past order by l.ordinal))::integer as until
      from (
        select
          m.ordinals[o.i] < 0 as is_past, abs(m.ordinals[o.i]) as ordinal, s.lengths[o.i + 1] - s.lengths[o.i] as length
        from (
          select g.segment_id, g.passages, g.lengths || '{}'::integer[] as lengths
          from rag_index.segment g
          where g.tenant = p_tenant and g.segment_id = any (p_segment_ids)
          offset 0  -- once, and not for each passage
        ) as s
        join map m on m.segment_id = s.segment_id
        cross join lateral generate_series(1, s.passages) as o(i)
        offset 0  -- or whole arrays are sorted along
      ) as l
    ) as n
    group by n.is_past
  ), list as materialized (
    -- Sorted by word, and not hashed as when passages are loaded: there all lists grow in memory together.
    select n.is_past, n.word, array_agg(n.entry) as entries
    from (
      select o.ordinal < 0 as is_past, p.word, 256 * abs(o.ordinal) + (e.entry & 255) as entry
      from rag_index.posting p
      join map m on m.segment_id = p.segment_id
      cross join lateral unnest(p.entries) as e(entry)
      cross join lateral (select m.ordinals[e.entry >> 8] as ordinal) as o
      where p.tenant = p_tenant
      offset 0  -- or the map is sorted along
    ) as n
    group by n.is_past, n.word
  ), posting as (
    insert into rag_index.posting (tenant, segment_id, word, passages, entries, most, shortest)
    select p_tenant, t.segment_id, i.word, cardinality(i.entries), o.entries, o.most, o.shortest
    from list i
    join counted n using (is_past)
    join target t using (is_past)
    cross join lateral (
      select
        array_agg(e.entry order by e.entry) as entries,
        max(e.entry & 255) as most,
        min(n.lengths[(e.entry >> 8) + 1] - n.lengths[e.entry >> 8]) as shortest
      from unnest(i.entries) as e(entry)
    ) as o
    order by t.segment_id, i.word
  ), version as (
    update rag_index.version v
    set segment_id = m.new_segment_id, first_ordinal = m.new_first_ordinal
    from moved m
    where v.tenant = p_tenant and v.document_id = m.document_id and v.version = m.version
  )
  insert into rag_index.segment
    (tenant, segment_id, language, passages, lengths, scope_ids, scope_starts, recorded_last, used_from, used_until)
  select
    p_tenant, t.segment_id, v_language, l.passages, l.lengths, s.scope_ids, s.scope_starts || l.passages + 1,
    u.recorded_last, u.used_from, u.used_until
  from target t
  join counted l using (is_past)
  join (
    select
      f.is_past,
      array_agg(f.scope_id order by f.first_ordinal) as scope_ids,
      array_agg(f.first_ordinal order by f.first_ordinal) as scope_starts
    from (
      select m.is_past, m.scope_id, min(m.new_first_ordinal) as first_ordinal from moved m group by m.is_past, m.scope_id
    ) as f
    group by f.is_past
  ) as s using (is_past)
  join (
    select
      m.is_past, max(m.recorded_at) as recorded_last, min(greatest(m.effective_from, m.recorded_at)) as used_from,
      max(m.used_until) as used_until
    from moved m
    group by m.is_past
  ) as u using (is_past);

  delete from rag_index.posting p where p.tenant = p_tenant and p.segment_id = any (p_segment_ids);
  delete from rag_index.segment s where s.tenant = p_tenant and s.segment_id = any (p_segment_ids);
end;
$$;
revoke all on function rag_index.merge from public;
comment on function rag_index.merge is 'Puts segments of a tenant and a language together.';

reset role;
