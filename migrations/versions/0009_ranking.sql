-- Ranking by more than overlap: contracts and packets say how, versions in which language, and there is an index.

alter table rag.version
  add column language text collate "C" not null default 'simple',
  add constraint version_language_is_name check (language ~ '^[a-z][a-z0-9_]{0,62}$');
alter table rag.version alter column language set statistics 0;
comment on column rag.version.language is 'The text search configuration by which words of the body are found.';

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
  v_words text[] := array_remove(regexp_split_to_array(lower(p_body), '\W+'), '');
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

alter table rag.version drop constraint version_applies_to_is_canonical;
alter table rag.version add constraint version_applies_to_is_canonical check (
  applies_to = '{}' or (rag.canonical_applies_to(applies_to) is not null and applies_to = rag.canonical_applies_to(applies_to))
);

alter table rag.packet add column parameters jsonb not null default '{}';
alter table rag.packet alter column parameters set statistics 0;
comment on column rag.packet.parameters is 'Parameters of the method, all of them.';

-- Ranking methods and their parameters, for contracts that choose one and for requests that do.

-- The parameters of a method with their defaults, null where there is none; null for what is no method.
create function rag.ranking_parameters(
  p_method text
)
  returns jsonb
  language sql
  immutable
  parallel safe
return case p_method
  when 'overlap' then '{}'::jsonb
  when 'bm25' then '{"k1": 1.2, "b": 0.75}'
  when 'vector' then '{"model": null, "model_version": "1", "vector": null}'
  when 'hybrid' then '{"k1": 1.2, "b": 0.75, "model": null, "model_version": "1", "vector": null,
    "rrf_k": 60, "depth": 100, "bm25_weight": 1, "vector_weight": 1}'
end;
revoke all on function rag.ranking_parameters from public;
grant execute on function rag.ranking_parameters to rag_reader, rag_auditor;
comment on function rag.ranking_parameters is 'The parameters of a ranking method with their defaults; null for what is no method.';

-- What is wrong with the parameters of a method that is one: path and problem, empty when they are valid.
create function rag.ranking_problems(
  p_method text,
  p_parameters jsonb
)
  returns table (path text, problem text)
  language sql
  immutable
  parallel safe
begin atomic
  with parameter as (
    select a.key, a.value, jsonb_typeof(a.value) as type
    from jsonb_each(case when jsonb_typeof(p_parameters) = 'object' then p_parameters else '{}' end) as a
  ), range as (
    select r.key, r.least, r.most
    from (values
      ('k1', 0, 10), ('b', 0, 1), ('rrf_k', 1, 1000), ('depth', 1, 1000), ('bm25_weight', 0, 100), ('vector_weight', 0, 100)
    ) as r(key, least, most)
  )
  select '', 'parameters must be a JSON object' where jsonb_typeof(p_parameters) is distinct from 'object'
  union all
  select p.key, format('unknown parameter %s', to_json(p.key)) from parameter p where not rag.ranking_parameters(p_method) ? p.key
  union all
  select p.key, format('%s must be a number from %s to %s with at most six decimals', p.key, r.least, r.most)
  from parameter p
  join range r on r.key = p.key
  where case
    when p.type = 'number' then
      (p.value #>> '{}')::numeric not between r.least and r.most or round((p.value #>> '{}')::numeric, 6) <> (p.value #>> '{}')::numeric
    else true
  end
  union all
  select 'depth', 'depth must be a whole number'
  from parameter p
  where p.key = 'depth' and p.type = 'number' and trunc((p.value #>> '{}')::numeric) <> (p.value #>> '{}')::numeric
  union all
  select p.key, format('%s must be a text of 1 to 200 bytes', p.key)
  from parameter p
  where p.key in ('model', 'model_version') and (p.type <> 'string' or octet_length(p.value #>> '{}') not between 1 and 200)
  union all
  select 'vector', 'vector must be a list of 1 to 16000 numbers'
  from parameter p
  where p.key = 'vector' and (
    p.type <> 'array'
    or jsonb_array_length(case when p.type = 'array' then p.value else '[]' end) not between 1 and 16000
    or exists (
      select from jsonb_array_elements(case when p.type = 'array' then p.value else '[]' end) as v
      where jsonb_typeof(v) <> 'number'
    )
  );
end;
revoke all on function rag.ranking_problems from public;
grant execute on function rag.ranking_problems to rag_reader;
comment on function rag.ranking_problems is 'Path and problem of each fault in the parameters of a ranking method; empty when valid.';

create or replace function rag.contract_problems(
  p_content jsonb
)
  returns table (path text, problem text)
  language sql
  immutable
  parallel safe
begin atomic
  with attribute as (
    select 'case.' || (i - 1) as path, v as value
    from jsonb_array_elements(case when jsonb_typeof(p_content -> 'case') = 'array' then p_content -> 'case' else '[]' end)
      with ordinality as a(v, i)
  ), fact as (
    select 'facts.' || (i - 1) as path, v as value
    from jsonb_array_elements(case when jsonb_typeof(p_content -> 'facts') = 'array' then p_content -> 'facts' else '[]' end)
      with ordinality as f(v, i)
  ), proposition as (
    select f.path as fact_path, f.path || '.propositions.' || (i - 1) as path, v as value
    from fact f, jsonb_array_elements(
      case when jsonb_typeof(f.value -> 'propositions') = 'array' then f.value -> 'propositions' else '[]' end
    ) with ordinality as p(v, i)
  ), clause as (
    select p.path as proposition_path, p.path || '.clauses.' || (i - 1) as path, v as value
    from proposition p, jsonb_array_elements(
      case when jsonb_typeof(p.value -> 'clauses') = 'array' then p.value -> 'clauses' else '[]' end
    ) with ordinality as c(v, i)
  ), decision as (
    select p_content -> 'decision' as value
    where jsonb_typeof(p_content) = 'object' and p_content ? 'decision'
  ), statement as (
    select 'decision.never_say.' || (i - 1) as path, v as value
    from decision d, jsonb_array_elements(
      case when jsonb_typeof(d.value -> 'never_say') = 'array' then d.value -> 'never_say' else '[]' end
    ) with ordinality as s(v, i)
  ), name as (  -- every text of the contract, with what it must be unique among
    select path, value, 'case' as scope, 200 as most from attribute
    union all select 'decision.' || k, d.value -> k, k, 1048576
      from decision d, unnest(array['about', 'decided_by', 'refer']) as k
      where jsonb_typeof(d.value) = 'object'
    union all select path, value, 'never_say', 1048576 from statement
    union all select path || '.fact', value -> 'fact', 'facts', 200 from fact
    union all select path || '.quote', value -> 'quote', fact_path, 1048576 from proposition
    union all select path, value, proposition_path, 1048576 from clause
  )
  select '', 'a contract is a mapping with the keys case and facts, and decision, keep and ranking where they are needed'
    where jsonb_typeof(p_content) is distinct from 'object'
  union all
  select k, 'unknown key; a contract has case and facts, and decision, keep and ranking where they are needed'
    from jsonb_object_keys(case when jsonb_typeof(p_content) = 'object' then p_content else '{}' end) as k
    where k not in ('case', 'facts', 'decision', 'keep', 'ranking')
  union all
  select 'case', 'must be a list of attribute names (it may be empty)'
    where jsonb_typeof(p_content) = 'object' and jsonb_typeof(p_content -> 'case') is distinct from 'array'
  union all
  select 'facts', 'must be a list of at least one fact'
    where jsonb_typeof(p_content) = 'object' and not exists (select from fact)
  union all
  select path || '.propositions', 'must be a list of at least one proposition'
    from fact f where not exists (select from proposition p where p.fact_path = f.path)
  union all
  select path || '.clauses', 'must be a list of at least one licensed clause'
    from proposition p where not exists (select from clause c where c.proposition_path = p.path)
  union all
  select f.path || '.' || k, 'unknown key; a fact has fact and propositions'
    from fact f, jsonb_object_keys(case when jsonb_typeof(f.value) = 'object' then f.value else '{}' end) as k
    where k not in ('fact', 'propositions')
  union all
  select p.path || '.' || k, 'unknown key; a proposition has quote and clauses'
    from proposition p, jsonb_object_keys(case when jsonb_typeof(p.value) = 'object' then p.value else '{}' end) as k
    where k not in ('quote', 'clauses')
  union all
  select 'decision', 'must be a mapping with about, decided_by, refer and never_say'
    from decision d where jsonb_typeof(d.value) <> 'object'
  union all
  select 'decision.' || k, 'unknown key; a decision has about, decided_by, refer and never_say'
    from decision d, jsonb_object_keys(case when jsonb_typeof(d.value) = 'object' then d.value else '{}' end) as k
    where k not in ('about', 'decided_by', 'refer', 'never_say')
  union all
  select 'decision.never_say', 'must be a list of at least one sentence that would state the decision'
    from decision d where jsonb_typeof(d.value) = 'object' and not exists (select from statement)
  union all
  -- A space or a dash stands in every document: a clause that rests on it would be licensed by any of them.
  select path || '.quote', 'must have a letter or a digit'
    from proposition where value ->> 'quote' <> '' and value ->> 'quote' !~ '\w'
  union all
  select 'keep', 'must be text, digest or none: what traces keep of queries and answers'
    where jsonb_typeof(p_content) = 'object' and p_content ? 'keep'
      and p_content -> 'keep' not in ('"text"', '"digest"', '"none"')
  union all
  select 'ranking', 'must be a mapping with method (overlap, bm25, vector or hybrid) and its parameters'
    where jsonb_typeof(p_content) = 'object' and p_content ? 'ranking' and (
      jsonb_typeof(p_content -> 'ranking') <> 'object'
      or jsonb_typeof(p_content -> 'ranking' -> 'method') is distinct from 'string'
      or rag.ranking_parameters(p_content -> 'ranking' ->> 'method') is null
    )
  union all
  select 'ranking.vector', 'is the query''s: each request has its own'
    where jsonb_typeof(p_content -> 'ranking') = 'object' and p_content -> 'ranking' ? 'vector'
  union all
  select 'ranking.' || r.path, r.problem
    from rag.ranking_problems(p_content -> 'ranking' ->> 'method', case
      when jsonb_typeof(p_content -> 'ranking') = 'object' then (p_content -> 'ranking') - 'method' - 'vector' else '{}'
    end) as r
    where rag.ranking_parameters(p_content -> 'ranking' ->> 'method') is not null
  union all
  select c.path, 'states the decision that documents cannot make (decision.never_say)'
    from clause c join statement s on s.value = c.value
  union all
  select path, format('must be a text of 1 to %s bytes', most)
    from name
    where jsonb_typeof(value) is distinct from 'string'
      or octet_length(value #>> '{}') not between 1 and most
  union all
  select path, 'must have no control characters and no outer spaces'
    from name
    where scope in ('case', 'facts')
      and jsonb_typeof(value) = 'string'
      and (value #>> '{}' ~ '[[:cntrl:]]' or value #>> '{}' <> btrim(value #>> '{}'))
  union all
  select max(path), format('stands more than once: %s', value #>> '{}')
    from name where jsonb_typeof(value) = 'string'
    group by scope, value having count(*) > 1;
end;

create or replace function rag.contract_preimage(
  p_content jsonb
)
  returns bytea
  language sql
  immutable
  strict
  parallel safe
begin atomic
  select rag.field(rag.utf8(
      case
        when p_content ? 'ranking' then 'rag-sql contract 4'
        when p_content ? 'keep' then 'rag-sql contract 3'
        when p_content ? 'decision' then 'rag-sql contract 2'
        else 'rag-sql contract 1'
      end
    ))
    || rag.field(int8send(jsonb_array_length(p_content -> 'case')))
    || coalesce((
      select string_agg(rag.field(rag.utf8(a)), ''::bytea order by a collate "C")
      from jsonb_array_elements_text(p_content -> 'case') as a
    ), ''::bytea)
    || rag.field(int8send(jsonb_array_length(p_content -> 'facts')))
    || (
      select string_agg(
        rag.field(rag.utf8(f ->> 'fact'))
        || rag.field(int8send(jsonb_array_length(f -> 'propositions')))
        || (
          select string_agg(
            rag.field(rag.utf8(p ->> 'quote'))
            || rag.field(int8send(jsonb_array_length(p -> 'clauses')))
            || (
              select string_agg(rag.field(rag.utf8(c)), ''::bytea order by k)
              from jsonb_array_elements_text(p -> 'clauses') with ordinality as cc(c, k)
            ), ''::bytea order by j)
          from jsonb_array_elements(f -> 'propositions') with ordinality as pp(p, j)
        ), ''::bytea order by i)
      from jsonb_array_elements(p_content -> 'facts') with ordinality as ff(f, i)
    )
    || case when p_content ?| array['keep', 'ranking']
      then rag.field(int8send(case when p_content ? 'decision' then 1 else 0 end)) else ''::bytea end
    || case when p_content ? 'decision' then (
      select rag.field(rag.utf8(d ->> 'about')) || rag.field(rag.utf8(d ->> 'decided_by')) || rag.field(rag.utf8(d ->> 'refer'))
        || rag.field(int8send(jsonb_array_length(d -> 'never_say')))
        || (
          select string_agg(rag.field(rag.utf8(s)), ''::bytea order by i)
          from jsonb_array_elements_text(d -> 'never_say') with ordinality as ss(s, i)
        )
      from (select p_content -> 'decision' as d) as decision
    ) else ''::bytea end
    || case when p_content ? 'ranking'
      then rag.field(int8send(case when p_content ? 'keep' then 1 else 0 end)) else ''::bytea end
    || case when p_content ? 'keep' then rag.field(rag.utf8(p_content ->> 'keep')) else ''::bytea end
    || case when p_content ? 'ranking' then (
      -- Numbers as decimals without superfluous zeros: how a file writes them is no part of what they say.
      select rag.field(rag.utf8(r ->> 'method'))
        || rag.field(int8send((select count(*) from jsonb_object_keys(r - 'method'))))
        || coalesce((
          select string_agg(
            rag.field(rag.utf8(a.key)) || rag.field(rag.utf8(
              case jsonb_typeof(r -> a.key) when 'number' then trim_scale(a.value::numeric)::text else a.value end
            )), ''::bytea order by a.key collate "C")
          from jsonb_each_text(r - 'method') as a
        ), ''::bytea)
      from (select p_content -> 'ranking' as r) as ranking
    ) else ''::bytea end;
end;

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

  constraint scope_key primary key (tenant, scope_id)
);
comment on table rag_index.scope is 'Distinct applies_to of a tenant''s versions.';
comment on column rag_index.scope.scope_id is 'The first half of the SHA-256 of applies_to as text.';

create table rag_index.segment (
  tenant text collate "C" not null,
  segment_id uuid not null,
  language text collate "C" not null,
  passages integer not null,
  lengths integer[] not null,
  scope_ids uuid[] not null,
  scope_starts integer[] not null,
  recorded_last timestamptz not null,
  used_from timestamptz not null,
  used_until timestamptz not null default 'infinity',

  constraint segment_key primary key (tenant, segment_id)
);
comment on table rag_index.segment is 'Passages of a tenant that are indexed together.';
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
  segment_id uuid not null,
  word text collate "C" not null,
  passages integer not null,
  ordinals integer[] not null,
  frequencies smallint[],
  most smallint not null,
  shortest integer not null,

  constraint posting_key primary key (tenant, segment_id, word)
);
-- Uncompressed: they are read far more often than written, and a part of a list is found by its place.
alter table rag_index.posting
  alter column ordinals set storage external,
  alter column frequencies set storage external;
comment on table rag_index.posting is 'Which passages of a segment a word occurs in.';
comment on column rag_index.posting.passages is 'How many; the length of both lists.';
comment on column rag_index.posting.ordinals is 'Their ordinals, ascending.';
comment on column rag_index.posting.frequencies is 'How often the word occurs in each, counted to 255 in 16,000 characters; null: once in each.';
comment on column rag_index.posting.most is 'The greatest frequency.';
comment on column rag_index.posting.shortest is 'The length in words of the shortest of the passages.';

create table rag_index.version (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  segment_id uuid not null,
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
comment on table rag_index.turn is 'Loads and withdrawals of a tenant take turns.';
comment on column rag_index.turn.turns is 'How many there were.';
alter table rag_index.turn enable row level security;
alter table rag_index.turn force row level security;

alter table rag_index.scope enable row level security;
alter table rag_index.scope force row level security;
alter table rag_index.segment enable row level security;
alter table rag_index.segment force row level security;
alter table rag_index.posting enable row level security;
alter table rag_index.posting force row level security;
alter table rag_index.version enable row level security;
alter table rag_index.version force row level security;
alter table rag_index.scope alter column applies_to set statistics 0;
alter table rag_index.segment
  alter column lengths set statistics 0,
  alter column scope_ids set statistics 0,
  alter column scope_starts set statistics 0;
alter table rag_index.posting
  alter column word set statistics 0,
  alter column ordinals set statistics 0,
  alter column frequencies set statistics 0;
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

-- Cutting and indexing: what happens in the statement that stores versions, and in the one that withdraws them.
--
-- They are definer functions of rag_recorder, because no role that loads may insert a passage or touch the index; the
-- policies let it write for the bound tenant alone.
--
-- Lock order: the tenant's row of rag_index.turn (one load after the other; whoever comes second sees what the first has
-- stored, so that each ends the use of the other's), then keys of versions, then rows of rag_index.version by document and
-- version.

grant create on schema rag to rag_recorder;
grant usage on schema rag_index to rag_recorder;
grant execute on function rag.pieces to rag_recorder;
set local role rag_recorder;

-- From when on the versions of some documents are not in use any more, for a question of that instant: from the first
-- instant at which a version with a greater (effective_from, version) is both effective and recorded, or a withdrawal is.
create function rag.end_uses(
  p_tenant text,
  p_document_ids text[]
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
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
        'infinity'
      ) as used_until
    from rag_index.version o
    where o.tenant = p_tenant and o.document_id = any (p_document_ids)
  ) as e
  where v.tenant = p_tenant
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
comment on function rag.take_turn is 'Trigger: waits until no other transaction stores versions or withdrawals of the bound tenant.';

create function rag.end_withdrawn_uses()
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
revoke all on function rag.end_withdrawn_uses from public;
grant execute on function rag.end_withdrawn_uses to rag_owner;  -- who makes the trigger
comment on function rag.end_withdrawn_uses is 'Trigger: ends the use of withdrawn versions in the index.';

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
    insert into rag_index.scope (tenant, scope_id, applies_to)
    select distinct v_tenant, p.scope_id, p.applies_to
    from piece p
    order by p.scope_id
    on conflict do nothing
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

create trigger version_takes_turn
  before insert on rag.version
  for each statement execute function rag.take_turn();
create trigger withdrawal_takes_turn
  before insert on rag.withdrawal
  for each statement execute function rag.take_turn();
create trigger withdrawal_ends_use
  after insert on rag.withdrawal
  referencing new table as stored
  for each statement execute function rag.end_withdrawn_uses();

-- What stands is indexed, a segment for each tenant. Forced row-level security holds the owner too, who has no policy here: it
-- is put back.
alter table rag.version no force row level security;
alter table rag.passage no force row level security;
alter table rag.withdrawal no force row level security;
alter table rag_index.scope no force row level security;
alter table rag_index.segment no force row level security;
alter table rag_index.posting no force row level security;
alter table rag_index.version no force row level security;
do $$
declare
  v_tenant text;
begin
  for v_tenant in select distinct v.tenant from rag.version v order by v.tenant loop
    with piece as materialized (
      select
        q.*,
        row_number() over (
          partition by q.language order by q.scope_id, q.document_id, q.version, q.range_start
        )::integer as ordinal
      from (
        select
          v.document_id, v.version, v.language, v.effective_from, v.recorded_at, v.applies_to,
          rag_index.scope_id(v.applies_to) as scope_id, p.range_start, p.range_end, coalesce(p.text, v.body) as text
        from rag.version v
        join rag.passage p on p.tenant = v.tenant and p.document_id = v.document_id and p.version = v.version
        where v.tenant = v_tenant
      ) as q
    ), scope as (
      insert into rag_index.scope (tenant, scope_id, applies_to)
      select distinct v_tenant, p.scope_id, p.applies_to
      from piece p
      order by p.scope_id
      on conflict do nothing
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
  end loop;
end
$$;
update rag_index.version v
set used_until = e.used_until
from (
  select
    o.tenant,
    o.document_id,
    o.version,
    least(
      min(greatest(o.effective_from, o.recorded_at)) over (
        partition by o.tenant, o.document_id
        order by o.effective_from desc, o.version desc
        rows between unbounded preceding and 1 preceding
      ),
      (
        select min(greatest(w.withdrawn_from, w.recorded_at))
        from rag.withdrawal w
        where w.tenant = o.tenant and w.document_id = o.document_id and w.version = o.version
      ),
      'infinity'
    ) as used_until
  from rag_index.version o
) as e
where v.tenant = e.tenant
  and v.document_id = e.document_id
  and v.version = e.version
  and v.used_until <> e.used_until;
alter table rag.version force row level security;
alter table rag.passage force row level security;
alter table rag.withdrawal force row level security;
alter table rag_index.scope force row level security;
alter table rag_index.segment force row level security;
alter table rag_index.posting force row level security;
alter table rag_index.version force row level security;
