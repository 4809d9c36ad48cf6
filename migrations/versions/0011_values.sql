-- Values that have an order: dates, versions in three schemes, and ranges of them. What each combination of attributes names is
-- stored once, as ranges of keys.

-- The parts of a version in normal form (no leading zeros, no trailing .0), null when it is none of the scheme:
--   pep440    epoch, release, phase of the pre-release (a, b, rc), its number, post, dev, local
--   semver    '0', three numbers, pre-release; build metadata has no place in the order and is no part
--   numeric   '0', the numbers
create function rag.version_parts(
  p_scheme text,
  p_version text
)
  returns text[]
  language plpgsql
  immutable
  strict
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_found text[];
  v_plain constant text := '(^|[.])0+(?=[0-9])';  -- a zero before a digit, at the beginning of a number
begin
  if p_scheme in ('version-pep440', 'version-numeric') and p_version ~ '^[0-9]+(\.[0-9]+)*$' then
    return array['0', regexp_replace(regexp_replace(p_version, v_plain, '\1', 'g'), '(\.0)+$', '')];
  end if;
  case p_scheme
    when 'version-pep440' then
      v_found := regexp_match(lower(p_version), '^\s*v?'
        '(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)'
        '(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?([0-9]*))?'
        '(?:-([0-9]+)|[-_.]?(post|rev|r)[-_.]?([0-9]*))?'
        '(?:[-_.]?(dev)[-_.]?([0-9]*))?'
        '(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*$');
      return case when v_found is not null then array[
        regexp_replace(coalesce(v_found[1], '0'), v_plain, '', ''),
        regexp_replace(regexp_replace(v_found[2], v_plain, '\1', 'g'), '(\.0)+$', ''),
        case v_found[3] when 'alpha' then 'a' when 'beta' then 'b' when 'c' then 'rc' when 'pre' then 'rc'
          when 'preview' then 'rc' else v_found[3] end,
        case when v_found[3] is not null then regexp_replace(coalesce(nullif(v_found[4], ''), '0'), v_plain, '', '') end,
        case when v_found[5] is not null or v_found[6] is not null
          then regexp_replace(coalesce(v_found[5], nullif(v_found[7], ''), '0'), v_plain, '', '') end,
        case when v_found[8] is not null then regexp_replace(coalesce(nullif(v_found[9], ''), '0'), v_plain, '', '') end,
        -- Only what is a number loses its zeros: 0a stays.
        regexp_replace(translate(v_found[10], '-_', '..'), '(^|[.])0+(?=[0-9]+(?:$|[.]))', '\1', 'g')
      ] end;
    when 'version-semver' then
      v_found := regexp_match(p_version,
        '^((?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*))'
        '(?:-((?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?'
        '(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$');
      return case when v_found is not null then '0'::text || v_found end;
    else
      return null;
  end case;
end;
$$;
revoke all on function rag.version_parts from public;
grant execute on function rag.version_parts to rag_reader, rag_auditor;
comment on function rag.version_parts is 'The parts of a version in normal form; null when it is none of the scheme.';

-- A value in the canonical form of its type, in which equal values are equal texts; null for a value that is none of it.
create or replace function rag.canonical_value(
  p_type text,
  p_value text
)
  returns text
  language plpgsql
  immutable
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_parts text[];
begin
  case p_type
    when 'text' then
      return p_value;
    when 'number' then
      return case when p_value ~ '^-?[0-9]{1,100}(\.[0-9]{1,100})?$' then trim_scale(p_value::numeric)::text end;
    when 'flag' then
      return case when p_value in ('true', 'false') then p_value end;
    when 'date' then
      return case
        when p_value !~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$' or p_value ~ '^0000' then null
        when p_value ~ '-(31)$' and p_value ~ '-(02|04|06|09|11)-' then null
        when p_value ~ '-02-30$' then null
        -- The 29th of February is one every four years, but not every hundred, but every four hundred.
        when p_value ~ '-02-29$' and (
          left(p_value, 4)::integer % 4 <> 0 or left(p_value, 4)::integer % 100 = 0 and left(p_value, 4)::integer % 400 <> 0
        ) then null
        else p_value
      end;
    else
      v_parts := rag.version_parts(p_type, p_value);
      return case
        when p_type = 'version-pep440' then
          case when v_parts[1] <> '0' then v_parts[1] || '!' else '' end || v_parts[2]
            || coalesce(v_parts[3] || v_parts[4], '') || coalesce('.post' || v_parts[5], '')
            || coalesce('.dev' || v_parts[6], '') || coalesce('+' || v_parts[7], '')
        else v_parts[2] || coalesce('-' || v_parts[3], '')
      end;
  end case;
end;
$$;
revoke all on function rag.canonical_value from public;
grant execute on function rag.canonical_value to rag_reader, rag_auditor;
comment on function rag.canonical_value is
  'A value in the canonical form of its type (text, number, flag, date, version-...); null when it is none.';

-- Numbers between dots as a text whose order by bytes is theirs: before each number a character for how many digits it has. A
-- longer list comes after one that it begins with, unless that goes on with a space.
create function rag.numbers_key(
  p_numbers text
)
  returns text
  language plpgsql
  immutable
  strict
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_number text;
  v_key text := '';
begin
  foreach v_number in array string_to_array(p_numbers, '.') loop
    v_key := v_key || chr(64 + length(v_number)) || v_number;
  end loop;
  return v_key;
end;
$$;
revoke all on function rag.numbers_key from public;
grant execute on function rag.numbers_key to rag_reader, rag_auditor;
comment on function rag.numbers_key is 'Numbers between dots as a text whose order by bytes is theirs.';

-- The key of a value: keys compare by bytes (collate "C") as the type orders its values; null for a value that is none of it.
-- No key of a version begins with a whole other one. In a version a space, which is lower than whatever may follow, ends a list;
-- then come, in the order in which the scheme compares them,
--   pep440    pre-release (0 for a development release of the release itself, a, b, c, or z for none), post-release (0 none),
--             development release (z none), local version (0 none; a text comes before a number)
--   semver    pre-release: z none; a number (0) comes before a text (1)
create function rag.value_key(
  p_type text,
  p_value text
)
  returns text
  language plpgsql
  immutable
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_parts text[];
  v_part text;
  v_key text;
begin
  if p_type not like 'version-%' then
    return rag.canonical_value(p_type, p_value);
  end if;
  v_parts := rag.version_parts(p_type, p_value);
  if v_parts is null then
    return null;
  end if;
  v_key := rag.numbers_key(v_parts[1]) || rag.numbers_key(v_parts[2]) || ' ';
  if p_type = 'version-pep440' then
    if cardinality(v_parts) = 2 then
      return v_key || 'z0z0 ';
    end if;
    v_key := v_key
      || case
        when v_parts[3] is not null then translate(left(v_parts[3], 1), 'r', 'c') || rag.numbers_key(v_parts[4])
        when v_parts[5] is null and v_parts[6] is not null then '0'
        else 'z'
      end
      || coalesce('1' || rag.numbers_key(v_parts[5]), '0')
      || coalesce('a' || rag.numbers_key(v_parts[6]), 'z')
      || case when v_parts[7] is null then '0' else '1' end;
    foreach v_part in array string_to_array(coalesce(v_parts[7], ''), '.') loop
      v_key := v_key || case when v_part ~ '^[0-9]+$' then '1' || rag.numbers_key(v_part) else '0' || v_part || ' ' end;
    end loop;
    return v_key || ' ';
  elsif p_type = 'version-semver' then
    v_key := v_key || case when v_parts[3] is null then 'z' else 'a' end;
    foreach v_part in array string_to_array(coalesce(v_parts[3], ''), '.') loop
      v_key := v_key || case when v_part ~ '^[0-9]+$' then '0' || rag.numbers_key(v_part) else '1' || v_part || ' ' end;
    end loop;
    return v_key || ' ';
  end if;
  return v_key;
end;
$$;
revoke all on function rag.value_key from public;
grant execute on function rag.value_key to rag_reader, rag_auditor;
comment on function rag.value_key is 'A text that compares by bytes as the value''s type orders it; null when it is none of the type.';

-- Where a clause begins (key of the first value that it holds for) and ends (key of the first after those; null: nowhere); for !=
-- the same of what it leaves out. All null for a clause that is none. What is stated of a type without an order is a value.
create function rag.clause_bounds(
  p_type text,
  p_clause text,
  out first_key text,
  out end_key text,
  out is_excluded boolean
)
  language plpgsql
  immutable
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_clause text[];
  v_operator text;
  v_value text;
  v_beginning text[];
  v_key text;
begin
  is_excluded := false;
  if p_type in ('text', 'number', 'flag') then
    first_key := rag.canonical_value(p_type, p_clause);
    end_key := first_key || chr(1);  -- nothing lies between a text and itself with the least character after it
    return;
  end if;
  v_clause := regexp_match(p_clause, '^\s*(>=|<=|>|<|==|=|!=)?\s*(\S.*?)\s*$');
  v_operator := coalesce(v_clause[1], '=');
  v_value := v_clause[2];
  is_excluded := v_operator = '!=';
  if v_operator in ('=', '==', '!=') and p_type like 'version-%' and v_value ~ '\.[xX*]$' then
    v_beginning := regexp_match(lower(v_value),
      case p_type
        when 'version-pep440' then '^v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)\.[x*]$'
        when 'version-semver' then '^()((?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))?)\.[x*]$'
        else '^()([0-9]+(?:\.[0-9]+)*)\.[x*]$'
      end);
    v_value := regexp_replace(v_beginning[2], '(^|[.])0+(?=[0-9])', '\1', 'g');
    v_key := rag.numbers_key(regexp_replace(coalesce(nullif(v_beginning[1], ''), '0'), '^0+(?=[0-9])', ''));
    -- What begins with 2.0 is 2 (that is how 2.0 is written) and whatever comes between it and the last that begins so.
    first_key := v_key || case
      when p_type = 'version-semver' then rag.numbers_key(v_value)
      else rag.numbers_key(regexp_replace(v_value, '(\.0)+$', '')) || ' '
    end;
    end_key := v_key || rag.numbers_key(v_value) || chr(1114111);  -- the greatest character
    return;
  end if;
  if p_type = 'version-semver' and v_operator in ('<', '<=', '>', '>=') and v_value ~ '^[0-9]+(\.[0-9]+)?$' then
    v_value := v_value || case when v_value ~ '\.' then '.0' else '.0.0' end;
  end if;
  v_key := rag.value_key(p_type, v_value);
  if v_key is not null then
    first_key := case when v_operator in ('<', '<=') then '' when v_operator = '>' then v_key || chr(1) else v_key end;
    end_key := case when v_operator = '<' then v_key when v_operator not in ('>', '>=') then v_key || chr(1) end;
  end if;
end;
$$;
revoke all on function rag.clause_bounds from public;
grant execute on function rag.clause_bounds to rag_reader, rag_auditor;
comment on function rag.clause_bounds is 'The keys at which the values that a clause holds for, or leaves out, begin and end.';

-- What stands in a list of stated values, clause by clause: the number of the value, how many clauses it has, the character at which
-- the clause begins, and its bounds.
create function rag.value_clauses(
  p_type text,
  p_values text[]
)
  returns table (
    value_number bigint,
    clauses bigint,
    clause_position bigint,
    clause text,
    first_key text,
    end_key text,
    is_excluded boolean
  )
  language sql
  immutable
  parallel safe
begin atomic
  select
    v.i,
    count(*) over (partition by v.i),
    1 + length(c.clause) - length(ltrim(c.clause))
      + coalesce(sum(length(c.clause) + 1) over (
        partition by v.i order by c.j rows between unbounded preceding and 1 preceding), 0),
    c.clause, b.first_key, b.end_key, b.is_excluded
  from unnest(p_values) with ordinality as v(value, i)
  cross join lateral unnest(
    case when p_type in ('text', 'number', 'flag') then array[v.value] else string_to_array(v.value, ',') end
  ) with ordinality as c(clause, j)
  cross join lateral rag.clause_bounds(p_type, c.clause) as b;
end;
revoke all on function rag.value_clauses from public;
grant execute on function rag.value_clauses to rag_reader, rag_auditor;
comment on function rag.value_clauses is 'The clauses of stated values, with their bounds.';

-- The set of all values that are stated, by any of p_values, as ranges of keys that do not touch: each from its first key to
-- before the end key (null: without end). No row when no value is in it, and when one of p_values is none of the type.
create function rag.value_ranges(
  p_type text,
  p_values text[]
)
  returns table (first_key text, end_key text)
  language sql
  immutable
  parallel safe
begin atomic
  with clause as materialized (
    select c.value_number, c.clauses, c.first_key, c.end_key, c.is_excluded from rag.value_clauses(p_type, p_values) as c
  ), step as (
    -- At each bound one clause more holds, or one fewer.
    select c.value_number, c.clauses, s.at collate "C" as at, s.step
    from clause c
    cross join lateral (
      select c.first_key, case when c.is_excluded then -1 else 1 end
      union all select c.end_key, case when c.is_excluded then 1 else -1 end where c.end_key is not null
      union all select '', 1 where c.is_excluded
    ) as s(at, step)
  ), held as (
    select
      s.value_number, s.at,
      sum(sum(s.step)) over (partition by s.value_number order by s.at) = s.clauses as holds
    from step s
    group by s.value_number, s.clauses, s.at
  ), changed as (
    select h.value_number, h.at, h.holds, lag(h.holds, 1, false) over (partition by h.value_number order by h.at) as held from held h
  ), stated as (
    -- At each bound one value more, or one fewer.
    select c.at, sum(sum(case when c.holds then 1 else -1 end)) over (order by c.at) > 0 as is_in
    from changed c
    where c.holds <> c.held
    group by c.at
  ), bound as (
    select s.at, s.is_in, s.is_in <> lag(s.is_in, 1, false) over (order by s.at) as is_bound from stated s
  ), range as (
    select b.at, b.is_in, lead(b.at) over (order by b.at) as end_key from bound b where b.is_bound
  )
  select r.at, r.end_key
  from range r
  where r.is_in and not exists (select from clause c where c.first_key is null);
end;
revoke all on function rag.value_ranges from public;
grant execute on function rag.value_ranges to rag_reader;
comment on function rag.value_ranges is 'The set of stated values as ranges of keys; no row when one of them is none of the type.';

-- What is wrong with a value that a document states of a type; null when nothing is. The place is in characters, from 1.
create function rag.value_problem(
  p_type text,
  p_value text
)
  returns text
  language plpgsql
  immutable
  strict
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_clause record;
begin
  if p_type in ('text', 'number', 'flag') then
    return case when rag.canonical_value(p_type, p_value) is null
      then format('%s is no %s, as which the attribute is declared', to_json(p_value), p_type) end;
  end if;
  select c.clause_position, btrim(c.clause) as clause into v_clause
  from rag.value_clauses(p_type, array[p_value]) as c
  where c.first_key is null
  order by c.clause_position
  limit 1;
  if found then
    return format('%s is no %s and no range of them, as which the attribute is declared: character %s, %s',
      to_json(p_value), p_type, v_clause.clause_position, to_json(v_clause.clause));
  end if;
  if not exists (select from rag.value_ranges(p_type, array[p_value])) then
    return format('%s holds for no %s', to_json(p_value), p_type);
  end if;
  return null;
end;
$$;
revoke all on function rag.value_problem from public;
grant execute on function rag.value_problem to rag_reader;
comment on function rag.value_problem is 'What is wrong with a value that a document states of a type; null when nothing is.';

alter table rag.attribute drop constraint attribute_type_is_known;
alter table rag.attribute add constraint attribute_type_is_known check (
  type in ('text', 'number', 'flag', 'date', 'version-pep440', 'version-semver', 'version-numeric')
);
comment on column rag.attribute.type is 'text, number, flag, date, version-pep440, version-semver or version-numeric.';

alter table rag_index.scope no force row level security;
alter table rag_index.scope add column attributes integer;
update rag_index.scope s set attributes = (select count(*) from jsonb_object_keys(s.applies_to));
alter table rag_index.scope alter column attributes set not null;
alter table rag_index.scope force row level security;
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

alter table rag_index.scope_value enable row level security;
alter table rag_index.scope_value
  alter column attribute set statistics 0,
  alter column type set statistics 0,
  alter column first_key set statistics 0,
  alter column end_key set statistics 0;

grant create on schema rag to rag_recorder;
grant execute on function rag.value_ranges, rag.value_clauses, rag.clause_bounds, rag.value_key, rag.numbers_key,
  rag.canonical_value, rag.version_parts to rag_recorder;
set local role rag_recorder;

comment on function rag.take_turn is
  'Trigger: waits until no other transaction stores versions, withdrawals or types of attributes of the bound tenant.';

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

  -- Only a document that has several versions can have one that ends another.
  perform rag.end_uses(v_tenant, d.document_ids)
  from (
    select array_agg(distinct s.document_id) as document_ids
    from stored s
    where exists (
      select from rag_index.version v
      where v.tenant = v_tenant and v.document_id = s.document_id and v.version <> s.version
    )
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

create trigger attribute_takes_turn
  before insert on rag.attribute
  for each statement execute function rag.take_turn();
create trigger attribute_is_indexed
  after insert on rag.attribute
  referencing new table as stored
  for each statement execute function rag.index_values();

-- What stands is read in the types that it has. Forced row-level security holds the owner too, who has no policy here: it is put
-- back, here and above.
alter table rag.attribute no force row level security;
alter table rag_index.scope no force row level security;
insert into rag_index.scope_value (tenant, attribute, type, first_key, end_key, scope_id)
select s.tenant, a.key, t.type, r.first_key, r.end_key, s.scope_id
from rag_index.scope s
cross join lateral jsonb_each(s.applies_to) as a
cross join lateral (
  select 'text' as type
  union
  select unnest(case s.tenant
    when 'public' then array['number', 'flag', 'date', 'version-pep440', 'version-semver', 'version-numeric']
    -- In every type that it has had: what was decided can be decided again.
    else array(select distinct d.type from rag.attribute d where d.tenant in (s.tenant, 'public') and d.attribute = a.key)
  end)
) as t
cross join lateral rag.value_ranges(t.type, array(select jsonb_array_elements_text(a.value))) as r;
alter table rag.attribute force row level security;
alter table rag_index.scope force row level security;
alter table rag_index.scope_value force row level security;
