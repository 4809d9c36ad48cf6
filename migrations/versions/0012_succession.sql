-- A document may name successors: other documents of its tenant, from a time. From then on none of its versions is used. What
-- stands is as it was: no document has one yet.

-- Documents that others take the place of: from then on every version of theirs, whenever it was loaded, is superseded. A
-- document is a name here, and so is its successor: a folder is loaded in any order.
create table rag.succession (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  successor_id text collate "C" not null,
  superseded_from timestamptz not null default now(),
  note text,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  -- A document may be superseded from an earlier instant than was announced first.
  constraint succession_key primary key (tenant, document_id, successor_id, superseded_from),
  constraint succession_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint succession_document_id_fits check (octet_length(document_id) between 1 and 200),
  constraint succession_document_id_is_printable check (document_id !~ '[[:cntrl:]]' and document_id = btrim(document_id)),
  constraint succession_successor_id_fits check (octet_length(successor_id) between 1 and 200),
  constraint succession_successor_id_is_printable check (
    successor_id !~ '[[:cntrl:]]' and successor_id = btrim(successor_id)
  ),
  constraint succession_is_by_another check (successor_id <> document_id),
  constraint succession_superseded_from_is_in_range check (
    superseded_from >= timestamptz '0001-01-01 00:00:00+00' and superseded_from < timestamptz '10000-01-01 00:00:00+00'
  ),
  constraint succession_note_fits check (octet_length(note) <= 4000)
);
alter table rag.succession enable row level security;
alter table rag.succession force row level security;
alter table rag.succession
  alter column successor_id set statistics 0,
  alter column note set statistics 0,
  alter column recorded_by set statistics 0;
create trigger succession_is_append_only
  before update or delete or truncate on rag.succession
  for each statement execute function rag.refuse_change();
comment on table rag.succession is
  'Documents that others take the place of: from then on no version of theirs is used, also none that comes later.';
comment on column rag.succession.successor_id is 'A document of the same tenant that takes its place; it need not be there yet.';
comment on column rag.succession.superseded_from is 'From when on the document may not be used. Default: time of recording.';
comment on column rag.succession.recorded_by is 'Login of the session.';

-- Whoever stores a succession takes a turn, and it ends uses in the index, as a withdrawal does.

comment on table rag_index.turn is 'Loads, withdrawals and successions of a tenant take turns.';

grant create on schema rag to rag_recorder;
set local role rag_recorder;

-- From when on the versions of some documents are not in use any more, for a question of that instant: from the first
-- instant at which a version with a greater (effective_from, version) is both effective and recorded, or a withdrawal of it
-- is, or a successor of the document.
create or replace function rag.end_uses(
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

comment on function rag.take_turn is
  'Trigger: waits until no other transaction stores versions, withdrawals, successions or types of the bound tenant.';

alter function rag.end_withdrawn_uses() rename to end_stated_uses;
comment on function rag.end_stated_uses is 'Trigger: ends the use of versions in the index that were withdrawn or superseded.';

-- Cuts the versions that a statement has stored, and indexes the passages: a segment for each language.
create or replace function rag.cut_versions()
  returns trigger
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
  set work_mem = '64MB'
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
    select p.language, gen_random_uuid() as segment_id from piece p group by p.language
  ), vector as materialized (
    select v.*, (select coalesce(sum(cardinality(w.positions)), 0)::integer from unnest(v.words) as w) as length
    from (
      select p.language, p.ordinal, to_tsvector(p.language::regconfig, p.text) as words
      from piece p
      where octet_length(p.text) <= 16000
      offset 0  -- or the words are found once more for the length
    ) as v
  ), long as materialized (
    select c.*, sum(c.frequency) over (partition by c.language, c.ordinal)::integer as length
    from (
      select p.language, p.ordinal, w.lexeme as word, least(sum(cardinality(w.positions)), 32767)::smallint as frequency
      from piece p
      cross join lateral rag_index.parts(p.text) as part
      cross join lateral unnest(to_tsvector(p.language::regconfig, part)) as w
      where octet_length(p.text) > 16000
      group by p.language, p.ordinal, w.lexeme
    ) as c
  ), measured as materialized (
    select p.language, p.ordinal, p.scope_id, p.effective_from, p.recorded_at, coalesce(l.length, 0) as length
    from piece p
    left join (
      select v.language, v.ordinal, v.length from vector v
      union all
      select distinct o.language, o.ordinal, o.length from long o
    ) as l using (language, ordinal)
  ), posting as (
    insert into rag_index.posting (tenant, segment_id, word, passages, ordinals, frequencies, most, shortest)
    select
      v_tenant, s.segment_id, g.word, g.passages, g.ordinals, case when g.most > 1 then g.frequencies end, g.most, g.shortest
    from (
      -- By word first: what is sorted by something that differs is sorted fast.
      select
        c.word, c.language, count(*) as passages,
        array_agg(c.ordinal order by c.ordinal) as ordinals, array_agg(c.frequency order by c.ordinal) as frequencies,
        max(c.frequency) as most, min(c.length) as shortest
      from (
        select w.lexeme collate "C" as word, v.language, v.ordinal, v.length, cardinality(w.positions)::smallint as frequency
        from vector v
        cross join lateral unnest(v.words) as w
        union all
        select o.word collate "C", o.language, o.ordinal, o.length, o.frequency from long o
      ) as c
      group by c.word, c.language
    ) as g
    join segment s using (language)
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
    v_tenant, s.segment_id, s.language, m.passages, m.lengths, o.scope_ids, o.scope_starts || m.passages + 1,
    m.recorded_last, m.used_from
  from segment s
  join (
    select
      n.language,
      count(*)::integer as passages,
      0 || array_agg(n.length_before + n.length order by n.ordinal) as lengths,
      max(n.recorded_at) as recorded_last,
      min(greatest(n.effective_from, n.recorded_at)) as used_from
    from (
      select d.*, (sum(d.length) over (partition by d.language order by d.ordinal) - d.length)::integer as length_before
      from measured d
    ) as n
    group by n.language
  ) as m using (language)
  join (
    select
      f.language,
      array_agg(f.scope_id order by f.first_ordinal) as scope_ids,
      array_agg(f.first_ordinal order by f.first_ordinal) as scope_starts
    from (
      select d.language, d.scope_id, min(d.ordinal) as first_ordinal from measured d group by d.language, d.scope_id
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

create trigger succession_takes_turn
  before insert on rag.succession
  for each statement execute function rag.take_turn();
create trigger succession_ends_use
  after insert on rag.succession
  referencing new table as stored
  for each statement execute function rag.end_stated_uses();
