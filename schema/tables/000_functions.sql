-- Functions that tables depend on: in generated columns and in triggers. They are part of the state, so they change
-- only by a migration; everything else that is code lives in security/ and api/.

-- The UTF-8 bytes of a text. convert_to is only stable, because it also names other encodings; with the name fixed
-- and the database in UTF-8 (law of the store, checked at install) the result depends on nothing else.
create function rag.utf8(
  p_text text
)
  returns bytea
  language sql
  immutable
  strict
  parallel safe
return pg_catalog.convert_to(p_text, 'UTF8');
revoke all on function rag.utf8 from public;
grant execute on function rag.utf8 to rag_reader, rag_auditor;
comment on function rag.utf8 is 'UTF-8 bytes of a text.';

-- The distinct words of a text: case-folded, split on characters that are no letter, digit or underscore, not
-- stemmed; in byte order. Empty for a text without a word. The one word splitter of the overlap ranker: bodies and
-- queries go through it alike.
-- A word over 255 bytes (an encoded blob, say) stands as the SHA-256 of its bytes: equality is kept and the limits of
-- tsvector are not met.
create function rag.words(
  p_text text
)
  returns text[]
  language sql
  immutable
  strict
  parallel safe
begin atomic
  select coalesce(array_agg(distinct
    case when octet_length(w) > 255 then encode(sha256(rag.utf8(w)), 'hex') else w end collate "C"
  ), '{}')
  from regexp_split_to_table(lower(p_text), '\W+') as w
  where w <> '';
end;
revoke all on function rag.words from public;
grant execute on function rag.words to rag_reader, rag_auditor;
comment on function rag.words is 'Distinct words of a text: case-folded, split on non-word characters, no stemming.';

-- The words of a body as a tsvector without positions: sorted and distinct, so that an overlap is one merge in C.
-- Raises RS020 where they exceed the 1 MiB that a tsvector holds.
create function rag.word_vector(
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
revoke all on function rag.word_vector from public;
grant execute on function rag.word_vector to rag_reader;
comment on function rag.word_vector is 'Distinct words of a body as a tsvector; RS020 over 1 MiB.';

-- applies_to as it is stored: values of each attribute distinct and in byte order. Null when it is no mapping of
-- attributes (1 to 200 bytes) to lists of at least one value (1 to 200 bytes each): an empty list would apply to nothing
-- and an empty value to no case, and neither may be mistaken for "applies to every case". `*` is no value either.
create function rag.canonical_applies_to(
  p_applies_to jsonb
)
  returns jsonb
  language sql
  immutable
  strict
  parallel safe
begin atomic
  select case when jsonb_typeof(p_applies_to) = 'object' and coalesce(bool_and(
      octet_length(a.key) between 1 and 200
      and jsonb_typeof(a.value) = 'array'
      and a.value <> '[]'
      and not exists (
        select from jsonb_array_elements(case when jsonb_typeof(a.value) = 'array' then a.value else '[]' end) as v
        where jsonb_typeof(v) <> 'string' or v = '"*"' or octet_length(v #>> '{}') not between 1 and 200
      )
    ), true) then coalesce(jsonb_object_agg(a.key, (
      -- By bytes: jsonb compares texts in the locale, and stored values must be the same in every database.
      select to_jsonb(array_agg(distinct v collate "C"))
      from jsonb_array_elements_text(case when jsonb_typeof(a.value) = 'array' then a.value else '[]' end) as v
    )) filter (where a.key is not null), '{}') end
  from (select 1) as one
  left join jsonb_each(case when jsonb_typeof(p_applies_to) = 'object' then p_applies_to else '{}' end) as a on true;
end;
revoke all on function rag.canonical_applies_to from public;
grant execute on function rag.canonical_applies_to to rag_reader;
comment on function rag.canonical_applies_to is
  'applies_to with distinct values in byte order; null when it is no mapping of attributes to lists of values.';

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

-- Law 5: evidence is append-only. No role has a grant to update, delete or truncate; this trigger also stops the
-- owner, so that a change is a decision (disable the trigger, as owner) and never a slip.
create function rag.refuse_change()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using
    errcode = 'RS070',
    message = format('%s of %I.%I refused: evidence is append-only', lower(tg_op), tg_table_schema, tg_table_name),
    hint = 'A change is a new row: load a new version, add a new contract version, record a new decision.';
end;
$$;
revoke all on function rag.refuse_change from public;
comment on function rag.refuse_change is 'Trigger: refuses update, delete and truncate (RS070).';

-- The one change that evidence knows: erasure (095_erasure.sql). A row is updated by rag_owner alone, in the transaction in
-- which an erasure of what it belongs to is recorded, and only so that the columns named here become empty: null, an empty
-- text, list or object. The first argument says what the row belongs to: a version, a packet, a trace, or the tenant.
create function rag.refuse_change_but_erasure()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_old constant jsonb := to_jsonb(old);
  v_new constant jsonb := to_jsonb(new);
  v_erased constant text[] := tg_argv[1:];
begin
  if current_user = 'rag_owner'
    and v_new - v_erased = v_old - v_erased
    and not exists (select from unnest(v_erased) as c where v_new -> c not in ('null', '""', '[]', '{}'))
    and (case tg_argv[0]
      when 'version' then rag.is_being_erased(old.tenant, v_old ->> 'document_id', (v_old ->> 'version')::integer)
      when 'packet' then rag.is_packet_being_erased(old.tenant, (v_old ->> 'packet_id')::uuid)
      when 'trace' then rag.is_packet_being_erased(old.tenant, (
        select t.packet_id from rag.trace t where t.tenant = old.tenant and t.trace_id = (v_old ->> 'trace_id')::uuid
      ))
      when 'tenant' then rag.is_being_erased(old.tenant, null, null)
    end)
  then
    return new;
  end if;
  raise exception using
    errcode = 'RS070',
    message = format('%s of %I.%I refused: evidence is append-only', lower(tg_op), tg_table_schema, tg_table_name),
    hint = 'A change is a new row; what must not be kept is erased with: rag-sql erase';
end;
$$;
revoke all on function rag.refuse_change_but_erasure from public;
comment on function rag.refuse_change_but_erasure is
  'Trigger: refuses an update (RS070) but one that empties columns of what is being erased.';

-- A passage by its place: the unit that is selected, cited and digested.
create type rag.source_ref as (
  tenant text,
  document_id text,
  version integer,
  range_start integer,
  range_end integer
);
comment on type rag.source_ref is
  'A passage by its place: tenant, document, version, range in code points (0-based, half-open).';
