-- Cutting and indexing: what happens in the statement that stores versions, and in those that withdraw or supersede them.
--
-- They are definer functions of rag_recorder, because no role that loads may insert a passage or touch the index; the
-- policies let it write for the bound tenant alone.
--
-- Lock order: the tenant's row of rag_index.turn (one load after the other; whoever comes second sees what the first has
-- stored, so that each ends the use of the other's), then keys of versions and of successions, then rows of
-- rag_index.version by document and version.

grant create on schema rag to rag_recorder;
grant usage on schema rag_index to rag_recorder;
grant execute on function rag.pieces, rag.value_ranges, rag.value_clauses, rag.clause_bounds, rag.value_key, rag.numbers_key,
  rag.canonical_value, rag.version_parts to rag_recorder;
set local role rag_recorder;

-- From when on the versions of some documents are not in use any more, for a question of that instant: from the first
-- instant at which a version with a greater (effective_from, version) is both effective and recorded, or a withdrawal of it
-- is, or a successor of the document.
create function rag.end_uses(
  p_tenant text,
  p_document_ids text[]
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  -- The statistics do not know a tenant that was loaded a moment ago: for one row expected, thousands would be joined with
  -- thousands, one by one.
  set enable_nestloop = off
as $$
begin
  perform
  from rag_index.version v
  where v.tenant = p_tenant and v.document_id = any (p_document_ids)
  order by v.document_id, v.version
  for no key update;
  update rag_index.version v
  set used_until = e.used_until
  from (
    select
      o.document_id,
      o.version,
      least(
        min(greatest(o.effective_from, o.recorded_at)) over (
          partition by o.document_id
          order by o.effective_from desc, o.version desc
          rows between unbounded preceding and 1 preceding
        ),
        (
          select min(greatest(w.withdrawn_from, w.recorded_at))
          from rag.withdrawal w
          where w.tenant = p_tenant and w.document_id = o.document_id and w.version = o.version
        ),
        (
          select min(greatest(s.superseded_from, s.recorded_at))
          from rag.succession s
          where s.tenant = p_tenant and s.document_id = o.document_id
        ),
        'infinity'
      ) as used_until
    from rag_index.version o
    where o.tenant = p_tenant and o.document_id = any (p_document_ids)
  ) as e
  where v.tenant = p_tenant
    and v.document_id = any (p_document_ids)
    and v.document_id = e.document_id
    and v.version = e.version
    and v.used_until <> e.used_until;
end;
$$;
revoke all on function rag.end_uses from public;
comment on function rag.end_uses is 'Derives from when on the versions of some documents are not in use any more.';

-- Before anything is stored: who has stored a version and then waits would hold up whoever has the turn.
create function rag.take_turn()
  returns trigger
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into rag_index.turn as t (tenant)
  select w.tenant from (select rag_auth.write_tenant() as tenant) as w where w.tenant is not null
  on conflict (tenant) do update set turns = t.turns + 1;
  return null;
end;
$$;
revoke all on function rag.take_turn from public;
grant execute on function rag.take_turn to rag_owner;  -- who makes the triggers
comment on function rag.take_turn is
  'Trigger: waits until no other transaction stores versions, withdrawals, successions or types of the bound tenant.';

create function rag.end_stated_uses()
  returns trigger
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform rag.end_uses(s.tenant, array_agg(distinct s.document_id)) from stored s group by s.tenant;
  return null;
end;
$$;
revoke all on function rag.end_stated_uses from public;
grant execute on function rag.end_stated_uses to rag_owner;  -- who makes the trigger
comment on function rag.end_stated_uses is 'Trigger: ends the use of versions in the index that were withdrawn or superseded.';

-- A new type of an attribute: what the tenant's versions state of it is read in that type too.
create function rag.index_values()
  returns trigger
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into rag_index.scope_value (tenant, attribute, type, first_key, end_key, scope_id)
  select s.tenant, d.attribute, d.type, r.first_key, r.end_key, s.scope_id
  from stored d
  join rag_index.scope s on s.tenant = d.tenant and s.applies_to ? d.attribute
  cross join lateral rag.value_ranges(d.type, array(select jsonb_array_elements_text(s.applies_to -> d.attribute))) as r
  where d.type <> 'text'
  on conflict do nothing;
  return null;
end;
$$;
revoke all on function rag.index_values from public;
grant execute on function rag.index_values to rag_owner;  -- who makes the trigger
comment on function rag.index_values is 'Trigger: indexes what versions state of an attribute in a type that it is declared to have.';

-- Cuts the versions that a statement has stored, and indexes the passages: a segment for each language.
create function rag.cut_versions()
  returns trigger
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set work_mem = '64MB'
  set jit = off
as $$
declare
  v_tenant constant text := (select min(s.tenant) from stored s);  -- one: the policies hold whoever inserts
begin
  if v_tenant is null then
    return null;
  end if;
  with piece as materialized (
    select
      q.*,
      row_number() over (
        partition by q.language order by q.scope_id, q.document_id, q.version, q.range_start
      )::integer as ordinal
    from (
      select
        v.document_id, v.version, v.language, v.effective_from, v.recorded_at, v.applies_to,
        rag_index.scope_id(v.applies_to) as scope_id,
        0 as range_start, v.body_length as range_end, '{}'::text[] as heading_path, null::integer as tokens,
        v.body as text, true as is_whole, v.body_sha256 as text_sha256
      from stored v
      where v.outline = '[]'
      union all
      select
        v.document_id, v.version, v.language, v.effective_from, v.recorded_at, v.applies_to,
        rag_index.scope_id(v.applies_to),
        p.range_start, p.range_end,
        array(select jsonb_array_elements_text(v.outline -> (p.piece_number - 1) -> 'headings')),
        (v.outline -> (p.piece_number - 1) ->> 'tokens')::integer,
        p.text, false, sha256(rag.utf8(p.text))
      from stored v
      cross join lateral (
        select array_agg((o ->> 'end')::integer order by i) as ends
        from jsonb_array_elements(v.outline) with ordinality as t(o, i)
      ) as e
      cross join lateral rag.pieces(v.body, e.ends) as p
      where v.outline <> '[]'
    ) as q
  ), passage as (
    insert into rag.passage
      (tenant, document_id, version, range_start, range_end, heading_path, tokens, text, text_sha256, words)
    select
      v_tenant, p.document_id, p.version, p.range_start, p.range_end, p.heading_path, p.tokens,
      case when not p.is_whole then p.text end, p.text_sha256, rag.word_vector(p.text)
    from piece p
  ), scope as (
    insert into rag_index.scope (tenant, scope_id, applies_to, attributes)
    select v_tenant, d.scope_id, d.applies_to, (select count(*) from jsonb_object_keys(d.applies_to))
    from (select distinct p.scope_id, p.applies_to from piece p) as d
    order by d.scope_id
    on conflict do nothing
    returning scope_id, applies_to
  ), scope_value as (
    insert into rag_index.scope_value (tenant, attribute, type, first_key, end_key, scope_id)
    select v_tenant, a.key, t.type, r.first_key, r.end_key, s.scope_id
    from scope s
    cross join lateral jsonb_each(s.applies_to) as a
    cross join lateral (
      select 'text' as type
      union
      select unnest(case v_tenant
        when 'public' then array['number', 'flag', 'date', 'version-pep440', 'version-semver', 'version-numeric']
        else array(
          select d.type
          from rag.attribute d
          where d.tenant in (v_tenant, 'public') and d.attribute = a.key
          order by d.tenant = 'public', d.declaration_number desc
          limit 1
        )
      end)
    ) as t
    cross join lateral rag.value_ranges(t.type, array(select jsonb_array_elements_text(a.value))) as r
  ), segment as materialized (
    select p.language, hashtextextended(gen_random_uuid()::text, 0) as segment_id from piece p group by p.language
  ), vector as materialized (
    select p.language, p.ordinal, to_tsvector(p.language::regconfig, p.text) as words
    from piece p
    where octet_length(p.text) <= 16000
  ), long as materialized (
    select p.language, p.ordinal, w.lexeme as word, least(sum(cardinality(w.positions)), 32767)::integer as frequency
    from piece p
    cross join lateral rag_index.parts(p.text) as part
    cross join lateral unnest(to_tsvector(p.language::regconfig, part)) as w
    where octet_length(p.text) > 16000
    group by p.language, p.ordinal, w.lexeme
  ), list as materialized (
    -- Not in order, so that words are hashed and never sorted: each list is put in order by itself. Lists grow in memory, by up
    -- to 18 bytes for each word of each passage, which is less than what the load itself takes.
    select e.language, e.word, array_agg(e.entry) as entries
    from (
      select v.language, w.lexeme collate "C" as word, 256 * v.ordinal + cardinality(w.positions) as entry
      from vector v
      cross join lateral unnest(v.words) as w
      union all
      select o.language, o.word collate "C", 256 * o.ordinal + least(o.frequency, 255) from long o
    ) as e
    group by e.language, e.word
  ), measured as (
    -- Its distinct words, and how often each is repeated.
    select l.language, l.ordinal, sum(l.occurrences) as length
    from (
      select v.language, v.ordinal, length(v.words) as occurrences from vector v
      union all
      select i.language, e.entry >> 8, (e.entry & 255) - 1
      from list i
      cross join lateral unnest(i.entries) as e(entry)
      where e.entry & 255 > 1
      union all
      select o.language, o.ordinal, 1 + o.frequency - least(o.frequency, 255) from long o
      union all
      select p.language, p.ordinal, 0 from piece p
    ) as l
    group by l.language, l.ordinal
  ), counted as materialized (
    select n.language, count(*)::integer as passages, 0 || array_agg(n.until order by n.ordinal) as lengths
    from (
      select m.language, m.ordinal, (sum(m.length) over (partition by m.language order by m.ordinal))::integer as until
      from measured m
    ) as n
    group by n.language
  ), posting as (
    insert into rag_index.posting (tenant, segment_id, word, passages, entries, most, shortest)
    select v_tenant, s.segment_id, i.word, cardinality(i.entries), o.entries, o.most, o.shortest
    from list i
    join counted n using (language)
    join segment s using (language)
    cross join lateral (
      select
        array_agg(e.entry order by e.entry) as entries,
        max(e.entry & 255) as most,
        min(n.lengths[(e.entry >> 8) + 1] - n.lengths[e.entry >> 8]) as shortest
      from unnest(i.entries) as e(entry)
    ) as o
    order by s.segment_id, i.word  -- as the key has them
  ), version as (
    insert into rag_index.version
      (tenant, document_id, version, segment_id, first_ordinal, range_ends, effective_from, recorded_at)
    select
      v_tenant, p.document_id, p.version, s.segment_id, min(p.ordinal), array_agg(p.range_end order by p.ordinal),
      p.effective_from, p.recorded_at
    from piece p
    join segment s using (language)
    group by p.document_id, p.version, s.segment_id, p.effective_from, p.recorded_at
  )
  insert into rag_index.segment
    (tenant, segment_id, language, passages, lengths, scope_ids, scope_starts, recorded_last, used_from)
  select
    v_tenant, s.segment_id, s.language, n.passages, n.lengths, o.scope_ids, o.scope_starts || n.passages + 1,
    o.recorded_last, o.used_from
  from segment s
  join counted n using (language)
  join (
    select
      f.language,
      array_agg(f.scope_id order by f.first_ordinal) as scope_ids,
      array_agg(f.first_ordinal order by f.first_ordinal) as scope_starts,
      max(f.recorded_last) as recorded_last,
      min(f.used_from) as used_from
    from (
      select
        p.language, p.scope_id, min(p.ordinal) as first_ordinal, max(p.recorded_at) as recorded_last,
        min(greatest(p.effective_from, p.recorded_at)) as used_from
      from piece p
      group by p.language, p.scope_id
    ) as f
    group by f.language
  ) as o using (language);

  -- Only a document that has several versions can have one that ends another, or one that others take the place of.
  perform rag.end_uses(v_tenant, d.document_ids)
  from (
    select array_agg(distinct o.document_id) as document_ids
    from (
      select s.document_id
      from stored s
      where exists (
        select from rag_index.version v
        where v.tenant = v_tenant and v.document_id = s.document_id and v.version <> s.version
      )
      union all
      select s.document_id
      from stored s
      where exists (select from rag.succession n where n.tenant = v_tenant and n.document_id = s.document_id)
    ) as o
  ) as d
  where d.document_ids is not null;
  return null;
end;
$$;
revoke all on function rag.cut_versions from public;
grant execute on function rag.cut_versions to rag_owner;  -- who makes the trigger
comment on function rag.cut_versions is 'Trigger: cuts new versions into passages and indexes them.';
set local role rag_owner;
revoke create on schema rag from rag_recorder;

create trigger version_takes_turn
  before insert on rag.version
  for each statement execute function rag.take_turn();
create trigger withdrawal_takes_turn
  before insert on rag.withdrawal
  for each statement execute function rag.take_turn();
create trigger attribute_takes_turn
  before insert on rag.attribute
  for each statement execute function rag.take_turn();
create trigger attribute_is_indexed
  after insert on rag.attribute
  referencing new table as stored
  for each statement execute function rag.index_values();
create trigger succession_takes_turn
  before insert on rag.succession
  for each statement execute function rag.take_turn();
create trigger version_is_cut
  after insert on rag.version
  referencing new table as stored
  for each statement execute function rag.cut_versions();
create trigger withdrawal_ends_use
  after insert on rag.withdrawal
  referencing new table as stored
  for each statement execute function rag.end_stated_uses();
create trigger succession_ends_use
  after insert on rag.succession
  referencing new table as stored
  for each statement execute function rag.end_stated_uses();
