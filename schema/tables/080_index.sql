-- The search index: inverted lists of the passages of each tenant, and when and for what each version may be used.
--
-- Full-text indexes cannot serve a query under row-level security: their operators may fail, so PostgreSQL asks them after
-- the policies. These tables are read by the definer functions of rag_search alone (api/055_search), which return places and
-- scores of what the caller may see; texts are then read under the policies. No run-time role has a grant here.
--
-- A segment is a set of passages of one tenant in one language that are indexed together: what one statement loaded, or
-- what maintenance has put together from several. In it passages have ordinals from 1, by scope, document, version and place,
-- so that a scope is one range of ordinals, a version is one, and what may be used for a case is a few ranges.
--
-- All of it is derived (a load writes it in the same transaction) and can be derived again from the tables of rag.

-- What versions of a tenant apply to, each combination once: they are few even where versions are many.
create table rag_index.scope (
  tenant text collate "C" not null,
  scope_id uuid not null,
  applies_to jsonb not null,
  attributes integer not null,

  constraint scope_key primary key (tenant, scope_id)
);
comment on table rag_index.scope is 'Distinct applies_to of a tenant''s versions.';
comment on column rag_index.scope.scope_id is 'The first half of the SHA-256 of applies_to as text.';
comment on column rag_index.scope.attributes is 'How many attributes it names.';

-- The values of each attribute of a scope as ranges of keys (tables/012_values), in each type that somebody who may ask for it can
-- have declared: as a text, as the tenant declares it; what public states in every type that it has values of. So a case is
-- compared with a scope by reading what fits it, and a type that is declared later changes nothing that is stored here.
create table rag_index.scope_value (
  tenant text collate "C" not null,
  attribute text collate "C" not null,
  type text collate "C" not null,
  first_key text collate "C" not null,
  end_key text collate "C",
  scope_id uuid not null,

  constraint scope_value_key primary key (tenant, attribute, type, first_key, scope_id)
);
comment on table rag_index.scope_value is 'What values of an attribute a scope names, as ranges of keys, for each type of the attribute.';
comment on column rag_index.scope_value.first_key is 'Key of the first value of the range.';
comment on column rag_index.scope_value.end_key is 'Key of the first value after the range; null: it has no end.';

create table rag_index.segment (
  tenant text collate "C" not null,
  segment_id bigint not null,
  language text collate "C" not null,
  passages integer not null,
  lengths integer[] not null,
  scope_ids uuid[] not null,
  scope_starts integer[] not null,
  recorded_last timestamptz not null,
  used_from timestamptz not null,
  used_until timestamptz not null default 'infinity',

  constraint segment_key primary key (tenant, segment_id),
  constraint segment_passages_fit_entries check (passages <= 8000000)
);
comment on table rag_index.segment is 'Passages of a tenant that are indexed together.';
comment on column rag_index.segment.segment_id is 'A number drawn at random: one that is counted would tell how often others load.';
comment on column rag_index.segment.passages is 'How many there are; their ordinals are from 1.';
comment on column rag_index.segment.lengths is
  'For each passage how many words stand in those before it; at last in all. Differences are the passages'' lengths.';
comment on column rag_index.segment.scope_ids is 'What the passages apply to, in the order of their ordinals.';
comment on column rag_index.segment.scope_starts is 'The first ordinal of each scope, and after the last one, the number of passages and one.';
comment on column rag_index.segment.recorded_last is 'When the newest of its versions was recorded.';
comment on column rag_index.segment.used_from is 'When the first of its versions is in use.';
comment on column rag_index.segment.used_until is 'From when on none of its versions is in use any more, as far as maintenance knows.';

create table rag_index.posting (
  tenant text collate "C" not null,
  segment_id bigint not null,
  word text collate "C" not null,
  passages integer not null,
  entries integer[] not null,
  most smallint not null,
  shortest integer not null,

  constraint posting_key primary key (tenant, segment_id, word)
);
-- Uncompressed: they are read far more often than written, and a part of a list is found by its place.
alter table rag_index.posting alter column entries set storage external;
comment on table rag_index.posting is 'Which passages of a segment a word occurs in.';
comment on column rag_index.posting.passages is 'How many; the length of the list.';
comment on column rag_index.posting.entries is
  'For each of them 256 times its ordinal and, added to that, how often the word occurs in it, counted to 255; ascending.';
comment on column rag_index.posting.most is 'The greatest frequency.';
comment on column rag_index.posting.shortest is 'The length in words of the shortest of the passages.';

create table rag_index.version (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  segment_id bigint not null,
  first_ordinal integer not null,
  range_ends integer[] not null,
  effective_from timestamptz not null,
  recorded_at timestamptz not null,
  used_until timestamptz not null default 'infinity',

  constraint indexed_version_key primary key (tenant, document_id, version)
);
create index version_by_ordinal on rag_index.version (tenant, segment_id, first_ordinal);
-- The few whose time of use has an end, or began after they were recorded: what a search of the present leaves out.
create index version_of_a_time on rag_index.version (tenant, segment_id)
  where used_until < 'infinity' or effective_from > recorded_at;
comment on table rag_index.version is 'Where the passages of a version stand in the index, and when it is in use.';
comment on column rag_index.version.range_ends is 'Where each passage ends in the body; it begins where the one before ends.';
comment on column rag_index.version.used_until is
  'From when on it is not in use for a question of that instant: superseded or withdrawn, as recorded by then.';

-- One row of a tenant's, which whoever stores versions for it changes: loads take turns, so that each sees what the one
-- before has stored. A row, because advisory locks are for everybody to see.
create table rag_index.turn (
  tenant text collate "C" not null,
  turns bigint not null default 1,

  constraint turn_key primary key (tenant)
);
comment on table rag_index.turn is 'Loads, withdrawals and successions of a tenant take turns.';
comment on column rag_index.turn.turns is 'How many there were.';
alter table rag_index.turn enable row level security;
alter table rag_index.turn force row level security;

alter table rag_index.scope enable row level security;
alter table rag_index.scope force row level security;
alter table rag_index.scope_value enable row level security;
alter table rag_index.scope_value force row level security;
alter table rag_index.segment enable row level security;
alter table rag_index.segment force row level security;
alter table rag_index.posting enable row level security;
alter table rag_index.posting force row level security;
alter table rag_index.version enable row level security;
alter table rag_index.version force row level security;
alter table rag_index.scope alter column applies_to set statistics 0;
alter table rag_index.scope_value
  alter column attribute set statistics 0,
  alter column type set statistics 0,
  alter column first_key set statistics 0,
  alter column end_key set statistics 0;
alter table rag_index.segment
  alter column lengths set statistics 0,
  alter column scope_ids set statistics 0,
  alter column scope_starts set statistics 0;
alter table rag_index.posting
  alter column word set statistics 0,
  alter column entries set statistics 0;
alter table rag_index.version
  alter column document_id set statistics 0,
  alter column range_ends set statistics 0;

-- The identity of what a version applies to.
create function rag_index.scope_id(
  p_applies_to jsonb
)
  returns uuid
  language sql
  immutable
  strict
  parallel safe
return encode(substr(sha256(rag.utf8(p_applies_to::text)), 1, 16), 'hex')::uuid;
revoke all on function rag_index.scope_id from public;
grant execute on function rag_index.scope_id to rag_recorder;
comment on function rag_index.scope_id is 'The identity of a combination of attributes and values.';

-- A long text in parts that end between words: to_tsvector counts positions to 16,383 and takes a megabyte of words. A part
-- without a space is cut where it ends. What is left is found by bytes: to count ten million characters takes longer than to
-- copy them, and there are hundreds of parts.
create function rag_index.parts(
  p_text text
)
  returns setof text
  language plpgsql
  immutable
  strict
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_rest text := p_text;
  v_part text;
begin
  while v_rest <> '' loop
    v_part := left(v_rest, 16000);
    if octet_length(v_part) < octet_length(v_rest) and v_part ~ '\s' then
      v_part := left(v_part, char_length(v_part) - char_length(substring(v_part from '\S*$')));
    end if;
    return next v_part;
    v_rest := convert_from(substr(rag.utf8(v_rest), octet_length(v_part) + 1), 'UTF8');
  end loop;
end;
$$;
revoke all on function rag_index.parts from public;
grant execute on function rag_index.parts to rag_recorder;
comment on function rag_index.parts is 'A text in parts of at most 16,000 characters that end between words.';
