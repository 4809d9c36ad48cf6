-- Passages: the retrievable pieces of versions.
--
-- A version states where it is cut (rag.version.outline: for each passage where it ends, and the headings above it); one
-- that states nothing is one passage. Passages are cut by a trigger (085_indexing.sql), in the statement that stores the
-- version, and by nothing else: no role may insert one. So every version has at least one, they follow each other without a gap from the
-- body's first character to its last, and each is what its range says. The passage before one ends where it begins.
--
-- A passage that is the whole body does not repeat it: its text is the version's (rag_api.passage puts them together).

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
  before delete or truncate on rag.passage
  for each statement execute function rag.refuse_change();
create trigger passage_changes_by_erasure
  before update on rag.passage
  for each row execute function rag.refuse_change_but_erasure('version', 'heading_path', 'text', 'words');
comment on table rag.passage is 'Retrievable pieces of versions, cut when a version is stored and by nothing else.';
comment on column rag.passage.range_start is 'Start in the body, in code points from 0; the end of the passage before.';
comment on column rag.passage.range_end is 'End in the body, exclusive; the start of the passage after.';
comment on column rag.passage.heading_path is 'Headings above the passage, outermost first.';
comment on column rag.passage.tokens is 'How many tokens the loader''s counter counted; null: words and punctuation marks are counted.';
comment on column rag.passage.text is 'The passage; null where it is the whole body, which is not stored twice.';
comment on column rag.passage.text_sha256 is 'SHA-256 of the text''s UTF-8 bytes.';
comment on column rag.passage.words is 'Distinct words of the text (rag.words).';
