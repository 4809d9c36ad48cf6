-- Postings take one number for each passage, and segments are numbered: the index is smaller, and quicker to make. What stands is
-- written anew, a table at a time; nothing of it changes but its form, and that a word counts 255 times at most in a long passage
-- too. The words of a passage are found in a quicker way, and are the same ones.

drop function if exists rag_index.due(integer);
drop function if exists rag_index.merge(text, uuid[]);

create function rag_index.to_entries(
  p_ordinals integer[],
  p_frequencies smallint[]
)
  returns integer[]
  language sql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
  select coalesce(array_agg(256 * o.ordinal + least(coalesce(o.frequency, 1), 255) order by o.ordinal), '{}')
  from unnest(p_ordinals, p_frequencies) as o(ordinal, frequency)
$$;

alter table rag_index.segment
  alter column segment_id type bigint using hashtextextended(segment_id::text, 0),
  add constraint segment_passages_fit_entries check (passages <= 8000000);
alter table rag_index.version
  alter column segment_id type bigint using hashtextextended(segment_id::text, 0);
alter table rag_index.posting alter column ordinals drop not null;  -- its constraint is named after it
alter table rag_index.posting rename column ordinals to entries;
alter table rag_index.posting
  alter column segment_id type bigint using hashtextextended(segment_id::text, 0),
  alter column entries type integer[] using rag_index.to_entries(entries, frequencies),
  alter column entries set storage external,  -- a new type begins with its own
  alter column most type smallint using least(most, 255);
alter table rag_index.posting
  alter column entries set not null,
  drop column frequencies;
drop function rag_index.to_entries;
comment on column rag_index.segment.segment_id is 'A number drawn at random: one that is counted would tell how often others load.';
comment on column rag_index.posting.passages is 'How many; the length of the list.';
comment on column rag_index.posting.entries is
  'For each of them 256 times its ordinal and, added to that, how often the word occurs in it, counted to 255; ascending.';

-- The words of a body as a tsvector without positions: sorted and distinct, so that an overlap is one merge in C.
-- Raises RS020 where they exceed the 1 MiB that a tsvector holds.
create or replace function rag.word_vector(
  p_body text
)
  returns tsvector
  language plpgsql
  immutable
  strict
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  -- What mostly stands between words is replaced character by character, which takes half the time of looking for a pattern.
  v_text constant text := replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
    lower(p_body), e'\n', ' '), e'\t', ' '), '.', ' '), ',', ' '), ';', ' '), ':', ' '), '-', ' '), '/', ' '), '(', ' '),
    ')', ' '), '"', ' '), '''', ' ');
  v_words text[] := array_remove(
    case when v_text ~ '[^\w ]' then regexp_split_to_array(v_text, '\W+') else string_to_array(v_text, ' ') end, '');
begin
  -- array_to_tsvector sorts and removes duplicates itself, faster than rag.words; the two must agree on what a word is.
  -- Only a long body can have as many words as tsvector cannot hold, and only one of 64 characters or more has 256 bytes.
  if octet_length(p_body) > 900000
    or p_body ~ '\w{64}' and exists (select from unnest(v_words) as w where octet_length(w) > 255)
  then
    v_words := rag.words(p_body);
    if (select sum(octet_length(w) + 1) from unnest(v_words) as w) > 1048575 then
      raise exception using
        errcode = 'RS020',
        message = 'the distinct words of the body exceed 1 MiB',
        column = 'body',
        hint = 'Split the document into several documents.';
    end if;
  end if;
  return array_to_tsvector(v_words);
end;
$$;

grant create on schema rag to rag_recorder;
set local role rag_recorder;

-- Cuts the versions that a statement has stored, and indexes the passages: a segment for each language.
create or replace function rag.cut_versions()
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

set local role rag_owner;
revoke create on schema rag from rag_recorder;

-- A column of another type has no statistics yet.
analyze rag_index.segment, rag_index.posting, rag_index.version;
