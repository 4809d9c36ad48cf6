-- Passages: versions are cut where their outline says. What stands has no outline and is one passage each, as it was.

-- Whether an outline fits a body of p_length code points: a list of objects with `end`, a whole number, each greater than
-- the one before and the last the body's length, `headings`, a list of at most 20 texts of 1 to 1,000 bytes, and
-- optionally `tokens`, a whole number: how many the loader's own counter counts. The empty list fits every body.
create function rag.is_outline(
  p_outline jsonb,
  p_length integer
)
  returns boolean
  language sql
  immutable
  strict
  parallel safe
begin atomic
  select coalesce(
    jsonb_typeof(p_outline) = 'array'
    and (p_outline = '[]' or (p_outline -> -1 ->> 'end' = p_length::text))
    and not exists (
      select
      from (
        select
          e.item,
          jsonb_typeof(e.item -> 'end') = 'number' and e.item ->> 'end' ~ '^[1-9][0-9]{0,8}$' as is_end,
          lag(e.item ->> 'end', 1, '0') over (order by e.i) as previous
        from jsonb_array_elements(case when jsonb_typeof(p_outline) = 'array' then p_outline else '[]' end)
          with ordinality as e(item, i)
      ) as p
      where jsonb_typeof(p.item) <> 'object'
        or p.is_end is not true
        -- A case: what is no number must not be compared as one.
        or case when p.is_end and p.previous ~ '^[0-9]{1,9}$' then (p.item ->> 'end')::integer <= p.previous::integer else true end
        or jsonb_typeof(p.item -> 'headings') is distinct from 'array'
        or jsonb_array_length(case when jsonb_typeof(p.item -> 'headings') = 'array' then p.item -> 'headings' else '[]' end) > 20
        or exists (
          select
          from jsonb_array_elements(case when jsonb_typeof(p.item -> 'headings') = 'array' then p.item -> 'headings' else '[]' end) as h
          where jsonb_typeof(h) <> 'string' or octet_length(h #>> '{}') not between 1 and 1000
        )
        or exists (
          select
          from jsonb_object_keys(case when jsonb_typeof(p.item) = 'object' then p.item else '{}' end) as k
          where k not in ('end', 'headings', 'tokens')
        )
        or (
          p.item ? 'tokens'
          and not (jsonb_typeof(p.item -> 'tokens') = 'number' and p.item ->> 'tokens' ~ '^(0|[1-9][0-9]{0,7})$')
        )
    ), false);
end;
revoke all on function rag.is_outline from public;
grant execute on function rag.is_outline to rag_curator, rag_publisher;
comment on function rag.is_outline is 'Whether an outline (end, headings and tokens of each passage) fits a body of this length in code points.';

-- How many tokens a text has where its loader did not say: words, of which one counts for each 16 letters begun, and
-- punctuation marks.
create function rag.count_tokens(
  p_text text
)
  returns integer
  language sql
  immutable
  strict
  parallel safe
return pg_catalog.regexp_count(p_text, '\w{1,16}|[^\w\s]');
revoke all on function rag.count_tokens from public;
grant execute on function rag.count_tokens to rag_reader;
comment on function rag.count_tokens is 'Number of words and punctuation marks of a text.';

alter table rag.version
  add column outline jsonb not null default '[]',
  add constraint version_outline_fits_body check (outline = '[]' or rag.is_outline(outline, body_length));
alter table rag.version alter column outline set statistics 0;
comment on column rag.version.outline is
  'How the body is cut: for each passage where it ends (code points) and the headings above it; empty: one passage.';

-- The pieces of a text, cut at the given ends (code points, ascending, the last one the text's length), in any order. By
-- halves, so that a long text is walked through a dozen times and not once for each piece.
create function rag.pieces(
  p_text text,
  p_ends integer[]
)
  returns table (piece_number integer, range_start integer, range_end integer, text text)
  language sql
  immutable
  strict
  parallel safe
begin atomic
  with recursive part(first_piece, last_piece, range_start, text) as (
    select 1, cardinality(p_ends), 0, p_text
    union all
    select h.first_piece, h.last_piece, h.range_start, h.text
    from part p
    cross join lateral (select (p.first_piece + p.last_piece) / 2 as middle) as m
    cross join lateral (
      select p.first_piece, m.middle, p.range_start, left(p.text, p_ends[m.middle] - p.range_start)
      union all
      select m.middle + 1, p.last_piece, p_ends[m.middle], substr(p.text, p_ends[m.middle] - p.range_start + 1)
    ) as h(first_piece, last_piece, range_start, text)
    where p.first_piece < p.last_piece
  )
  select p.first_piece, p.range_start, p_ends[p.first_piece], p.text
  from part p
  where p.first_piece = p.last_piece;
end;
revoke all on function rag.pieces from public;
comment on function rag.pieces is 'The pieces of a text, cut at the given ends in code points.';

create table rag.passage (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  range_start integer not null,
  range_end integer not null,
  heading_path text[] not null,
  tokens integer,
  text text,
  text_sha256 bytea not null,
  words tsvector not null,

  constraint passage_key primary key (tenant, document_id, version, range_start),
  constraint passage_version_exists foreign key (tenant, document_id, version)
    references rag.version (tenant, document_id, version),
  constraint passage_range_is_not_empty check (range_start >= 0 and range_end > range_start),
  constraint passage_text_fits_range check (char_length(text) = range_end - range_start)
);
-- What stands is one passage each. Forced row-level security holds the owner too, who has no policy here: it is put back.
alter table rag.version no force row level security;
insert into rag.passage (tenant, document_id, version, range_start, range_end, heading_path, text, text_sha256, words)
select v.tenant, v.document_id, v.version, 0, v.body_length, '{}', null, v.body_sha256, v.words
from rag.version v;
alter table rag.version force row level security;
alter table rag.version drop column words;

alter table rag.passage enable row level security;
alter table rag.passage force row level security;
-- Statistics span all tenants. Joins with rag.version are estimated by the foreign key and need none.
alter table rag.passage
  alter column document_id set statistics 0,
  alter column heading_path set statistics 0,
  alter column text set statistics 0,
  alter column text_sha256 set statistics 0,
  alter column words set statistics 0;
create trigger passage_is_append_only
  before update or delete or truncate on rag.passage
  for each statement execute function rag.refuse_change();
comment on table rag.passage is 'Retrievable pieces of versions, cut when a version is stored and by nothing else.';
comment on column rag.passage.range_start is 'Start in the body, in code points from 0; the end of the passage before.';
comment on column rag.passage.range_end is 'End in the body, exclusive; the start of the passage after.';
comment on column rag.passage.heading_path is 'Headings above the passage, outermost first.';
comment on column rag.passage.tokens is 'How many tokens the loader''s counter counted; null: words and punctuation marks are counted.';
comment on column rag.passage.text is 'The passage; null where it is the whole body, which is not stored twice.';
comment on column rag.passage.text_sha256 is 'SHA-256 of the text''s UTF-8 bytes.';
comment on column rag.passage.words is 'Distinct words of the text (rag.words).';

-- Cuts the versions that a statement has stored. A definer function of rag_recorder, because no role that loads may
-- insert a passage; the policy lets it write for the bound tenant alone.
grant create on schema rag to rag_recorder;
grant execute on function rag.pieces to rag_recorder;
set local role rag_recorder;
create function rag.cut_versions()
  returns trigger
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into rag.passage
    (tenant, document_id, version, range_start, range_end, heading_path, tokens, text, text_sha256, words)
  select v.tenant, v.document_id, v.version, 0, v.body_length, '{}', null::integer, null, v.body_sha256, rag.word_vector(v.body)
  from stored v
  where v.outline = '[]'
  union all
  select
    v.tenant, v.document_id, v.version, p.range_start, p.range_end,
    array(select jsonb_array_elements_text(v.outline -> (p.piece_number - 1) -> 'headings')),
    (v.outline -> (p.piece_number - 1) ->> 'tokens')::integer,
    p.text, sha256(rag.utf8(p.text)), rag.word_vector(p.text)
  from stored v
  cross join lateral (
    select array_agg((o ->> 'end')::integer order by i) as ends
    from jsonb_array_elements(v.outline) with ordinality as t(o, i)
  ) as e
  cross join lateral rag.pieces(v.body, e.ends) as p
  where v.outline <> '[]';
  return null;
end;
$$;
revoke all on function rag.cut_versions from public;
grant execute on function rag.cut_versions to rag_owner;  -- who makes the trigger
comment on function rag.cut_versions is 'Trigger: cuts new versions into passages.';
set local role rag_owner;
revoke create on schema rag from rag_recorder;

create trigger version_is_cut
  after insert on rag.version
  referencing new table as stored
  for each statement execute function rag.cut_versions();
