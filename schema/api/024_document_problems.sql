-- What is wrong with documents and spans that are to be stored, before anything of them is: every problem with the place of
-- the value, so that a loader can say file and line.

set local role rag_owner;

-- Whether a value can name a document, a span, a fact or an attribute.
create function rag_api._is_name(
  p_value jsonb
)
  returns boolean
  language sql
  immutable
  parallel safe
return coalesce(
  jsonb_typeof(p_value) = 'string'
  and octet_length(p_value #>> '{}') between 1 and 200
  and p_value #>> '{}' !~ '[[:cntrl:]]'
  and p_value #>> '{}' = btrim(p_value #>> '{}'),
  false
);
revoke all on function rag_api._is_name from public;
grant execute on function rag_api._is_name to rag_curator, rag_publisher;
comment on function rag_api._is_name is 'Private: whether a value is a text of 1 to 200 bytes, without control characters or outer spaces.';

-- What is wrong with what a span says, whether it comes with its document or after it: key, problem.
create function rag_api._span_problems(
  p_span jsonb
)
  returns table (key text, problem text)
  language sql
  immutable
  parallel safe
begin atomic
  select 'fact', 'must be a text of 1 to 200 bytes, without control characters or outer spaces'
    where not rag_api._is_name(p_span -> 'fact')
  union all
  select 'quote', 'must be a text of 1 byte to 1 MiB'
    where jsonb_typeof(p_span -> 'quote') is distinct from 'string'
      or octet_length(p_span ->> 'quote') not between 1 and 1048576
  union all
  select 'occurrence', 'must be a whole number from 1 to 1000'
    where p_span ? 'occurrence' and (
      jsonb_typeof(p_span -> 'occurrence') <> 'number' or p_span ->> 'occurrence' !~ '^([1-9][0-9]{0,2}|1000)$'
    );
end;
revoke all on function rag_api._span_problems from public;
grant execute on function rag_api._span_problems to rag_curator, rag_publisher;
comment on function rag_api._span_problems is 'Private: what is wrong with the fact, quotation and occurrence of a span.';

-- What is wrong with the documents of a load: position in the list (from 0), path within the document, problem.
create function rag_api._document_problems(
  p_documents jsonb
)
  returns table (document_position integer, path text, problem text)
  language sql
  stable
begin atomic
  with document as (
    select (i - 1)::integer as document_position, case when jsonb_typeof(d) = 'object' then d else '{}' end as d
    from jsonb_array_elements(p_documents) with ordinality as t(d, i)
  ), attribute as (
    select document_position, 'applies_to.' || a.key as path, a.key, a.value
    from document, jsonb_each(case when jsonb_typeof(d -> 'applies_to') = 'object' then d -> 'applies_to' else '{}' end) a
  ), typed as (
    select a.document_position, a.path, t.type, v #>> '{}' as value
    from attribute a
    join rag_api._attribute_types(null) as t
      on t.tenant = coalesce((select rag_auth.tenant()), 'public') and t.attribute = a.key and t.type <> 'text'
    cross join jsonb_array_elements(case when jsonb_typeof(a.value) = 'array' then a.value else '[]' end) as v
    where jsonb_typeof(v) = 'string'
  ), misfit as materialized (
    -- Each value is looked at once, however many documents state it.
    select d.type, d.value, rag.value_problem(d.type, d.value) as problem
    from (select distinct t.type, t.value from typed t offset 0) as d
  ), span as (
    select
      document_position,
      'spans.' || (j - 1) as path,
      case when jsonb_typeof(s) = 'object' then s else '{}' end as s
    from document,
      jsonb_array_elements(case when jsonb_typeof(d -> 'spans') = 'array' then d -> 'spans' else '[]' end)
      with ordinality as t(s, j)
  ), successor as (
    select document_position, 'successors.' || (j - 1) as path, s as value, d -> 'id' as id
    from document,
      jsonb_array_elements(case when jsonb_typeof(d -> 'successors') = 'array' then d -> 'successors' else '[]' end)
      with ordinality as t(s, j)
  ), name as (
    select document_position, 'applies_to.' || key as path, to_jsonb(key) as value
      from document, jsonb_object_keys(case when jsonb_typeof(d -> 'applies_to') = 'object' then d -> 'applies_to' else '{}' end) as key
    union all select document_position, 'id' as path, d -> 'id' as value from document
    union all select document_position, path || '.id', s -> 'id' from span
    union all select document_position, path, value from successor
  )
  select document_position, path, 'must be a text of 1 to 200 bytes, without control characters or outer spaces'
    from name
    where not rag_api._is_name(value)
  union all
  select document_position, 'version', 'must be a whole number from 1 to 2147483647'
    from document
    where jsonb_typeof(d -> 'version') is distinct from 'number'
      or d ->> 'version' !~ '^[1-9][0-9]{0,9}$'
      or (d ->> 'version')::numeric > 2147483647
  union all
  select document_position, 'body', 'must be a text of 1 byte to 10 MiB'
    from document
    where jsonb_typeof(d -> 'body') is distinct from 'string'
      or octet_length(d ->> 'body') not between 1 and 10485760
  union all
  -- Only a long body can have that many words; rag.word_vector is the backstop.
  select document_position, 'body', 'its distinct words exceed 1 MiB; cut it into passages, or split the document'
    from document
    where coalesce(d -> 'outline', '[]') = '[]'
      and octet_length(d ->> 'body') between 900000 and 10485760
      and (select sum(octet_length(w) + 1) from unnest(rag.words(d ->> 'body')) as w) > 1048575
  union all
  select document_position, k, format('must be a text of at most %s bytes', most)
    from document, (values ('title', 1000), ('source', 4096)) as v(k, most)
    where d ? k and (jsonb_typeof(d -> k) <> 'string' or octet_length(d ->> k) > most)
  union all
  select document_position, k, 'must be a date or a time, such as 2026-03-01 or 2026-03-01T09:00:00Z'
    from document, unnest(array['effective_from', 'superseded_from']) as k
    where d ? k and not (
      jsonb_typeof(d -> k) = 'string'
      and d ->> k ~ '^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?$'
      and d ->> k !~ '^0000'
      and pg_input_is_valid(d ->> k, 'timestamptz')
    )
  union all
  select document_position, 'superseded_from', 'is the time of successors, and there are none'
    from document where d ? 'superseded_from' and not d ? 'successors'
  union all
  select document_position, 'successors', 'must be a list of 1 to 100 ids of documents'
    from document
    where d ? 'successors'
      and case jsonb_typeof(d -> 'successors') when 'array' then jsonb_array_length(d -> 'successors') else 0 end
        not between 1 and 100
  union all
  select document_position, path, 'must be another document: none takes its own place'
    from successor where value = id
  union all
  select document_position, 'published', 'must be a date, such as 2026-03-01'
    from document
    where d ? 'published' and not (
      jsonb_typeof(d -> 'published') = 'string'
      and d ->> 'published' ~ '^\d{4}-\d\d-\d\d$'
      and pg_input_is_valid(d ->> 'published', 'date')
    )
  union all
  select document_position, 'language', 'must be a text search configuration of the server, such as simple or english'
    from document
    where d ? 'language' and not (
      jsonb_typeof(d -> 'language') = 'string'
      and exists (
        select from pg_catalog.pg_ts_config c
        where c.cfgname = d ->> 'language' and c.cfgnamespace = 'pg_catalog'::regnamespace
      )
    )
  union all
  select document_position, 'outline', 'must be a list of passages that ends with the body, each with end, a whole number, and headings'
    from document
    where d ? 'outline' and not rag.is_outline(d -> 'outline', char_length(d ->> 'body'))
  union all
  select document_position, 'metadata', 'must be a mapping'
    from document where d ? 'metadata' and jsonb_typeof(d -> 'metadata') <> 'object'
  union all
  select document_position, k, 'must have at most 65536 bytes as JSON'
    from document, unnest(array['metadata', 'applies_to']) as k
    where octet_length((d -> k)::text) > 65536
  union all
  select document_position, 'applies_to', 'must be a mapping of attributes to lists of values'
    from document where d ? 'applies_to' and jsonb_typeof(d -> 'applies_to') <> 'object'
  union all
  select document_position, path, 'must be a list of at least one value, each a text of 1 to 200 bytes'
    from attribute a
    where jsonb_typeof(value) <> 'array'
      or value = '[]'
      or exists (
        select from jsonb_array_elements(case when jsonb_typeof(a.value) = 'array' then a.value else '[]' end) as v
        where jsonb_typeof(v) <> 'string' or octet_length(v #>> '{}') not between 1 and 200
      )
  union all
  select document_position, path, 'a version that applies to every value leaves the attribute out; * is no value'
    from attribute where jsonb_typeof(value) = 'array' and value ? '*'
  union all
  select t.document_position, t.path, m.problem
    from typed t
    join misfit m on m.type = t.type and m.value = t.value
    where m.problem is not null
  union all
  select document_position, 'spans', 'must be a list'
    from document where d ? 'spans' and jsonb_typeof(d -> 'spans') <> 'array'
  union all
  select document_position, path || '.' || p.key, p.problem
    from span, rag_api._span_problems(s) as p
  union all
  select document_position, path || '.' || k, 'unknown key; a span has id, fact, quote and occurrence'
    from span, jsonb_object_keys(s) as k
    where k not in ('id', 'fact', 'quote', 'occurrence')
  union all
  select document_position, k, 'unknown key; keep it under metadata'
    from document, jsonb_object_keys(d) as k
    where k not in ('id', 'version', 'title', 'body', 'applies_to', 'effective_from', 'published', 'source', 'language', 'metadata', 'outline',
      'spans', 'successors', 'superseded_from')
  union all
  select max(document_position), max(path) || '.id', format('span "%s" stands more than once', s ->> 'id')
    from span group by document_position, s ->> 'id' having count(*) > 1
  union all
  select max(document_position), 'id', format('"%s" version %s stands more than once in this load', d ->> 'id', d ->> 'version')
    from document group by d ->> 'id', d ->> 'version' having count(*) > 1;
end;
revoke all on function rag_api._document_problems from public;
grant execute on function rag_api._document_problems to rag_curator, rag_publisher;
comment on function rag_api._document_problems is 'Private: what is wrong with a list of documents.';

reset role;
