-- The search of the index: definer functions of rag_search, which return places and scores of what the caller may see. The
-- policies of rag_search show them the bound tenant and public and nothing else, whatever a query of theirs says; no text is
-- in their reach but the words of the index.
--
-- What may be used for a case is a few ranges of ordinals in each segment (080_index): the scopes that fit the case, less
-- the versions that are not in use at the instant. Statistics are taken over those ranges, so that what is not eligible
-- changes no score (law 2), and nothing is limited before they are applied (law 1).

set local role rag_owner;
grant create on schema rag_api to rag_search;
set local role rag_search;

-- The segments with something that may be used, and what of each: `cuts` are the ordinals at which eligibility begins and
-- ends in turn, null where all of the segment is eligible. An ordinal is eligible when an odd number of cuts is at or below
-- it. p_tenants and p_scope_ids are the scopes that fit the case, pairwise. With p_all also the segments of which nothing is.
--
-- At one instant (the usual question) what is not in use is known from rag_index.version alone; at two, whose answers
-- nobody keeps, what is in use is derived, for all segments at once: the same work whatever the planner knows of the tables.
create function rag_api._eligible_segments(
  p_tenants text[],
  p_scope_ids uuid[],
  p_valid_at timestamptz,
  p_known_at timestamptz,
  p_all boolean
)
  returns table (tenant text, segment_id bigint, language text, cuts integer[], passages bigint, length bigint)
  language sql
  stable
  parallel restricted
begin atomic
  with fitting as materialized (
    -- In order, so that a scope is found by halves: a join would be planned for few.
    select t.tenant, array_agg(t.scope_id order by t.scope_id) as scope_ids
    from (select e.tenant collate "C" as tenant, e.scope_id from unnest(p_tenants, p_scope_ids) as e(tenant, scope_id)) as t
    group by t.tenant
  ), candidate as materialized (
    -- Put together with nothing, an array is read from its side table once, and not for each bound that is looked up.
    select
      s.tenant, s.segment_id, s.language, s.passages, s.lengths || '{}'::integer[] as lengths, s.recorded_last, s.scope_ids,
      s.scope_starts
    from rag_index.segment s
    where (p_all or s.tenant = any (p_tenants))
      and (p_all or p_valid_at <> p_known_at or (s.used_from <= p_valid_at and p_valid_at < s.used_until))
  ), derived as materialized (
    select e.tenant, e.segment_id, range_agg(int4range(e.first_ordinal, e.first_ordinal + e.passages)) as ranges
    from (
      select
        v.tenant, v.document_id, v.version, v.segment_id, v.first_ordinal, cardinality(v.range_ends) as passages, v.used_until,
        row_number() over (partition by v.tenant, v.document_id order by v.effective_from desc, v.version desc) as place
      from rag_index.version v
      where p_valid_at <> p_known_at
        and v.tenant = any (p_tenants)
        and v.effective_from <= p_valid_at
        and v.recorded_at <= p_known_at
    ) as e
    where e.place = 1
      and e.used_until > '-infinity'  -- or it was erased
      and not exists (
        select from rag.withdrawal w
        where w.tenant = e.tenant
          and w.document_id = e.document_id
          and w.version = e.version
          and w.withdrawn_from <= p_valid_at
          and w.recorded_at <= p_known_at
      )
      and not exists (
        select from rag.succession n
        where n.tenant = e.tenant
          and n.document_id = e.document_id
          and n.superseded_from <= p_valid_at
          and n.recorded_at <= p_known_at
      )
    group by e.tenant, e.segment_id
  )
  select
    s.tenant, s.segment_id, s.language,
    nullif(coalesce(c.cuts, '{}'), array[1, s.passages + 1]), coalesce(c.passages, 0), coalesce(c.length, 0)
  from candidate s
  left join derived d on d.tenant = s.tenant and d.segment_id = s.segment_id
  left join fitting f on f.tenant = s.tenant
  cross join lateral (
    select range_agg(int4range(u.first_ordinal, u.end_ordinal)) as ranges
    from unnest(s.scope_ids, s.scope_starts, s.scope_starts[2:]) as u(scope_id, first_ordinal, end_ordinal)
    where f.scope_ids[width_bucket(u.scope_id, f.scope_ids)] = u.scope_id
  ) as applicable
  cross join lateral (
    select range_agg(int4range(o.first_ordinal, o.first_ordinal + cardinality(o.range_ends))) as ranges
    from (
      select v.first_ordinal, v.range_ends
      from rag_index.version v
      where p_valid_at = p_known_at
        and p_known_at >= s.recorded_last
        and v.tenant = s.tenant
        and v.segment_id = s.segment_id
        and (v.used_until < 'infinity' or v.effective_from > v.recorded_at)
        and (v.used_until <= p_valid_at or v.effective_from > p_valid_at)
      union all
      select v.first_ordinal, v.range_ends
      from rag_index.version v
      where p_valid_at = p_known_at
        and p_known_at < s.recorded_last
        and v.tenant = s.tenant
        and v.segment_id = s.segment_id
        and (v.used_until <= p_valid_at or greatest(v.effective_from, v.recorded_at) > p_valid_at)
    ) as o
  ) as unused
  cross join lateral (
    select
      array_agg(b.bound order by b.bound) as cuts,
      sum(case when b.is_end then b.bound else -b.bound end) as passages,
      sum(case when b.is_end then s.lengths[b.bound] else -s.lengths[b.bound] end) as length
    from unnest(
      case
        when p_valid_at = p_known_at then applicable.ranges - coalesce(unused.ranges, '{}')
        else applicable.ranges * d.ranges
      end
    ) as r
    cross join lateral (values (lower(r), false), (upper(r), true)) as b(bound, is_end)
  ) as c
  where p_all or c.cuts is not null;
end;
revoke all on function rag_api._eligible_segments from public;
comment on function rag_api._eligible_segments is 'Private: segments with eligible passages, and which of their ordinals are.';

-- What one word adds to the BM25 score of a passage, in 1/100,000, rounded down: p_weight is the word's (its rarity over the
-- eligible passages), p_frequency how often it occurs, p_length the passage's length in words, p_average the eligible
-- passages' average length. Each operation is one of IEEE 754, and each word's part is a whole number before parts are
-- added, so the score does not depend on the order of words or on the machine.
create function rag_api._bm25_part(
  p_weight double precision,
  p_frequency integer,
  p_length integer,
  p_average double precision,
  p_k1 double precision,
  p_b double precision
)
  returns integer
  language sql
  immutable
  parallel safe
return floor(
  100000 * p_weight * (p_frequency * (p_k1 + 1)) / (p_frequency + p_k1 * (1 - p_b + p_b * (p_length / p_average)))
)::integer;
revoke all on function rag_api._bm25_part from public;
comment on function rag_api._bm25_part is 'Private: what one word adds to the BM25 score of a passage, in 1/100,000.';

-- The K best eligible passages by BM25 (Robertson and Zaragoza 2009, with the idf of Lucene: ln(1 + (N - n + 0.5) / (n + 0.5))
-- over the N eligible passages, n of which have the word), min(K, eligible passages with a word) of them; all for a null
-- K. Ties end by bytes of document id, tenant, then version and place. With p_all also passages that are not eligible, with
-- the scores that they would have; with p_why what each word of the query adds.
--
-- Exact, and yet the lists of common words are seldom read whole (MaxScore, Turtle and Flood 1995): the rarest words' lists
-- are, their passages are scored in full (common words are looked up), and the K-th score says which of the other words a
-- passage could not reach it with alone. Once that holds for all the lists that were not read, nothing is missing.
create function rag_api._bm25_search(
  p_query text,
  p_k integer,
  p_k1 double precision,
  p_b double precision,
  p_tenants text[],
  p_scope_ids uuid[],
  p_valid_at timestamptz,
  p_known_at timestamptz,
  p_all boolean,
  p_why boolean
)
  returns table (
    score integer, tenant text, document_id text, version integer, range_start integer, range_end integer, why jsonb
  )
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
  -- What is looked up one by one is written so (lateral). All else is joined by hashing, whatever is known of the tables: a
  -- list that is walked through again for each passage costs more than the lookups.
  set enable_nestloop = off
as $$
#variable_conflict use_column
declare
  v_segments text[];         -- of eligible segments: the tenant,
  v_segment_ids bigint[];    -- the segment,
  v_languages text[];        -- its language,
  v_cuts text[];             -- which ordinals are eligible, as a text: arrays of arrays have one length
  v_average double precision;
  v_count double precision;
  v_word_languages text[];   -- of the query's words, rarest first: the language,
  v_words text[];            -- the word,
  v_passages bigint[];       -- how many eligible passages have it,
  v_weights double precision[];
  v_bounds bigint[];         -- the most it can add to a score
  v_open integer := 0;       -- how many words' lists are read
  v_needed integer;
  v_rest bigint := 0;        -- the most that the others can add
  v_threshold bigint := 1;   -- what a passage must reach
  v_hits integer[];
  v_ordinals integer[];
  v_scores bigint[];
begin
  select
    array_agg(s.tenant), array_agg(s.segment_id), array_agg(s.language), array_agg(s.cuts::text),
    sum(s.passages), greatest(sum(s.length), 1)::double precision / nullif(sum(s.passages), 0)
  into v_segments, v_segment_ids, v_languages, v_cuts, v_count, v_average
  from rag_api._eligible_segments(p_tenants, p_scope_ids, p_valid_at, p_known_at, p_all) as s;
  if v_average is null or p_k < 1 then
    return;
  end if;

  with word as materialized (
    select l.language, w.word
    from (select distinct language from unnest(v_languages) as language) as l
    cross join lateral unnest(tsvector_to_array(to_tsvector(l.language::regconfig, p_query))) as w(word)
  ), segment as materialized (
    select e.tenant, e.segment_id, e.language, e.cuts::integer[] as cuts
    from unnest(v_segments, v_segment_ids, v_languages, v_cuts) as e(tenant, segment_id, language, cuts)
  ), found as materialized (
    select
      w.language, w.word, p.most, p.shortest, s.cuts, p.passages,
      case when s.cuts is not null then p.entries || '{}'::integer[] end as entries
    from segment s
    join word w using (language)
    cross join lateral (
      select p.most, p.shortest, p.passages, p.entries
      from rag_index.posting p
      where p.tenant = s.tenant and p.segment_id = s.segment_id and p.word = w.word
      offset 0
    ) as p
  ), listed as materialized (  -- or passages are counted wherever their number is named
    select
      f.language, f.word, f.most, f.shortest,
      case
        when f.cuts is null then f.passages
        -- One by one, or by what lies between the cuts: whichever are fewer.
        when f.passages < cardinality(f.cuts) then (
          select count(*) from unnest(f.entries) as u(entry) where width_bucket(u.entry >> 8, f.cuts) % 2 = 1
        )
        else (
          select sum((case when c.i % 2 = 0 then 1 else -1 end) * width_bucket(256 * c.cut - 1, f.entries))
          from unnest(f.cuts) with ordinality as c(cut, i)
        )
      end as passages
    from found f
  ), weighed as (
    select
      l.language, l.word, sum(l.passages) as passages, max(l.most)::integer as most, min(l.shortest) as shortest,
      ln(1 + (v_count::numeric - sum(l.passages) + 0.5) / (sum(l.passages) + 0.5))::double precision as weight
    from listed l
    group by l.language, l.word
    having sum(l.passages) > 0
  )
  select
    array_agg(w.language order by w.passages, w.word, w.language),
    array_agg(w.word order by w.passages, w.word, w.language),
    array_agg(w.passages order by w.passages, w.word, w.language),
    array_agg(w.weight order by w.passages, w.word, w.language),
    -- Rounding can put a part above the bound by one.
    array_agg(rag_api._bm25_part(w.weight, w.most, w.shortest, v_average, p_k1, p_b) + 1
      order by w.passages, w.word, w.language)
  into v_word_languages, v_words, v_passages, v_weights, v_bounds
  from weighed w;
  if v_words is null then
    return;
  end if;

  -- The rarest words, until there are some passages to rank.
  v_needed := case when p_k is null then cardinality(v_words) else (
    select coalesce(min(o.i) filter (where o.total >= 1500 + 4 * p_k), max(o.i))
    from (select p.i, sum(p.passages) over (order by p.i) as total from unnest(v_passages) with ordinality as p(passages, i)) as o
  ) end;
  while v_open < v_needed loop
    v_open := v_needed;
    v_rest := coalesce((select sum(b.bound) from unnest(v_bounds[v_open + 1:]) as b(bound)), 0);
    with segment as materialized (
      select e.i, e.tenant, e.segment_id, e.language, e.cuts::integer[] as cuts, s.lengths || '{}'::integer[] as lengths
      from unnest(v_segments, v_segment_ids, v_languages, v_cuts) with ordinality as e(tenant, segment_id, language, cuts, i)
      cross join lateral (
        select s.lengths from rag_index.segment s where s.tenant = e.tenant and s.segment_id = e.segment_id offset 0
      ) as s
    ), list as materialized (
      -- Put together with nothing, an array is read from its side table once, and not for each passage that is looked up.
      select s.i, w.i as word_position, w.weight, p.entries || '{}'::integer[] as entries
      from segment s
      join unnest(v_word_languages, v_words, v_weights) with ordinality as w(language, word, weight, i)
        on w.language = s.language
      cross join lateral (
        select p.entries
        from rag_index.posting p
        where p.tenant = s.tenant and p.segment_id = s.segment_id and p.word = w.word
        offset 0
      ) as p
    ), found as materialized (
      select a.i, a.ordinal, a.length, sum(a.part) as score
      from (
        select
          l.i, u.entry >> 8 as ordinal, n.length,
          rag_api._bm25_part(l.weight, u.entry & 255, n.length, v_average, p_k1, p_b) as part
        from list l
        join segment s on s.i = l.i
        cross join lateral unnest(l.entries) as u(entry)
        cross join lateral (select s.lengths[(u.entry >> 8) + 1] - s.lengths[u.entry >> 8] as length) as n
        where l.word_position <= v_open
          and (p_all or s.cuts is null or width_bucket(u.entry >> 8, s.cuts) % 2 = 1)
        offset 0  -- or whole lists are sorted along with what was computed from them
      ) as a
      group by a.i, a.ordinal, a.length
    ), best as materialized (
      select f.i, f.ordinal, f.length, f.score from found f where v_rest > 0 order by f.score desc limit 2 * p_k
    ), reached as (
      -- What K passages have in full: of those that are best by the words whose lists were read.
      select sum(c.score)::bigint as score
      from (
        select b.i, b.ordinal, b.score from best b
        union all
        select b.i, b.ordinal, rag_api._bm25_part(l.weight, e.entry & 255, b.length, v_average, p_k1, p_b)
        from best b
        join list l on l.i = b.i
        cross join lateral (select l.entries[width_bucket(256 * b.ordinal + 255, l.entries)] as entry) as e
        where l.word_position > v_open
          and e.entry >> 8 = b.ordinal
      ) as c
      group by c.i, c.ordinal
      order by 1 desc
      offset p_k - 1
      limit 1
    ), kept as materialized (
      select f.i, f.ordinal, f.length, f.score
      from found f
      where f.score + v_rest >= greatest(v_threshold, (select r.score from reached r where p_k is not null))
    ), looked_up as (
      select k.i, k.ordinal, rag_api._bm25_part(l.weight, e.entry & 255, k.length, v_average, p_k1, p_b) as part
      from kept k
      join list l on l.i = k.i
      cross join lateral (select l.entries[width_bucket(256 * k.ordinal + 255, l.entries)] as entry) as e
      where l.word_position > v_open
        and e.entry >> 8 = k.ordinal
      offset 0
    ), scored as (
      select c.i, c.ordinal, sum(c.score)::bigint as score
      from (
        select k.i, k.ordinal, k.score from kept k
        union all
        select l.i, l.ordinal, l.part from looked_up l
      ) as c
      group by c.i, c.ordinal
    ), ranked as (
      select c.i, c.ordinal, c.score, rank() over (order by c.score desc) as rank
      from scored c
      where c.score >= v_threshold
    )
    select
      array_agg(r.i), array_agg(r.ordinal), array_agg(r.score), case when count(*) >= p_k then min(r.score) else 1 end
    into v_hits, v_ordinals, v_scores, v_threshold
    from ranked r
    where p_k is null or r.rank <= p_k;
    v_needed := case when v_threshold = 1 then cardinality(v_words) else (
      select coalesce(max(b.i) filter (where b.rest >= v_threshold), v_open)
      from (
        select b.i, sum(b.bound) over (order by b.i desc) as rest
        from unnest(v_bounds) with ordinality as b(bound, i)
      ) as b
    ) end;
  end loop;

  return query
  select
    least(h.score, 2147483647)::integer, v_segments[h.i], v.document_id, v.version,
    coalesce(v.range_ends[h.ordinal - v.first_ordinal], 0), v.range_ends[h.ordinal - v.first_ordinal + 1],
    case when p_why then (
      select jsonb_object_agg(w.word, rag_api._bm25_part(w.weight, e.entry & 255, s.length, v_average, p_k1, p_b))
      from (
        select s.language, s.lengths[h.ordinal + 1] - s.lengths[h.ordinal] as length
        from rag_index.segment s
        where s.tenant = v_segments[h.i] and s.segment_id = v_segment_ids[h.i]
        offset 0
      ) as s
      join unnest(v_word_languages, v_words, v_weights) as w(language, word, weight) on w.language = s.language
      cross join lateral (
        select p.entries[width_bucket(256 * h.ordinal + 255, p.entries)] as entry
        from rag_index.posting p
        where p.tenant = v_segments[h.i] and p.segment_id = v_segment_ids[h.i] and p.word = w.word
        offset 0
      ) as e
      where e.entry >> 8 = h.ordinal
    ) end
  from unnest(v_hits, v_ordinals, v_scores) as h(i, ordinal, score)
  cross join lateral (
    select i.document_id, i.version, i.first_ordinal, i.range_ends
    from rag_index.version i
    where i.tenant = v_segments[h.i] and i.segment_id = v_segment_ids[h.i] and i.first_ordinal <= h.ordinal
    order by i.first_ordinal desc
    limit 1
  ) as v
  order by h.score desc, v.document_id, v_segments[h.i] collate "C", v.version, 5
  limit p_k;
end;
$$;
revoke all on function rag_api._bm25_search from public;
grant execute on function rag_api._bm25_search to rag_owner, rag_reader;
comment on function rag_api._bm25_search is 'Private: places and BM25 scores of the best eligible passages.';

-- The K best eligible passages by the number of distinct words of the query (p_words) that occur in them; ties as above.
create function rag_api._overlap_search(
  p_words text[],
  p_k integer,
  p_tenants text[],
  p_scope_ids uuid[],
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (score integer, tenant text, document_id text, version integer, range_start integer, range_end integer)
  language plpgsql
  stable
  parallel restricted
  security definer
  set search_path = pg_catalog, pg_temp
  set jit = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  return query
  with eligible as materialized (  -- once, and not for each passage
    select s.tenant, s.segment_id, s.cuts
    from rag_api._eligible_segments(p_tenants, p_scope_ids, p_valid_at, p_known_at, false) as s
  )
  select f.score, f.tenant, f.document_id, f.version, f.range_start, f.range_end
  from (
    select
      -- What is left of the passage's words when the query's are taken out, subtracted from all: one merge in C.
      length(p.words) - length(ts_delete(p.words, p_words)) as score,
      p.tenant, p.document_id, p.version, p.range_start, p.range_end
    from eligible s
    join rag_index.version v
      on v.tenant = s.tenant
      and v.segment_id = s.segment_id
      and (s.cuts is null or width_bucket(v.first_ordinal, s.cuts) % 2 = 1)
    join rag.passage p on p.tenant = v.tenant and p.document_id = v.document_id and p.version = v.version
    offset 0  -- or the score is computed again wherever it is named
  ) as f
  where f.score >= 1
  order by f.score desc, f.document_id, f.tenant, f.version, f.range_start
  limit p_k;
end;
$$;
revoke all on function rag_api._overlap_search from public;
grant execute on function rag_api._overlap_search to rag_owner, rag_reader;
comment on function rag_api._overlap_search is 'Private: places of the eligible passages in which most words of a query occur.';

set local role rag_owner;
revoke create on schema rag_api from rag_search;
reset role;
