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
  v_words text[] := array_remove(regexp_split_to_array(lower(p_body), '\W+'), '');
begin
  -- array_to_tsvector sorts and removes duplicates itself, faster than rag.words; the two must agree on what a word is.
  -- Only a long body can have a word, or as many words, as tsvector cannot hold.
  if octet_length(p_body) > 900000
    or exists (select from unnest(v_words) as w where octet_length(w) > 255)
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
-- Tenants, and which login is bound to which.
--
-- A tenant is an isolation boundary with a short slug. `public` is reserved: every tenant reads it and no tenant
-- writes it; only a login that is granted `public` and is a rag_publisher does.
--
-- Tables: rag.tenant, rag_auth.membership. Both are written by the installing login through the functions of
-- security/010_binding.sql (`rag-sql tenant add|grant|revoke`), never by a run-time role.

create table rag.tenant (
  tenant text collate "C" not null,
  recorded_at timestamptz not null default now(),

  constraint tenant_key primary key (tenant),
  constraint tenant_is_slug check (tenant ~ '^[a-z][a-z0-9-]{0,62}$')
);
alter table rag.tenant enable row level security;
alter table rag.tenant force row level security;
comment on table rag.tenant is 'Isolation boundaries. public is the reserved tenant that everyone reads.';
comment on column rag.tenant.tenant is 'Slug: a lower-case letter, then letters, digits and hyphens; at most 63.';

-- A login is bound by name. Revoke before you drop a login: a later login of the same name would inherit the row.
create table rag_auth.membership (
  login text collate "C" not null,
  tenant text collate "C" not null,
  recorded_at timestamptz not null default now(),

  constraint membership_key primary key (login, tenant),
  constraint membership_tenant_exists foreign key (tenant) references rag.tenant (tenant)
);
alter table rag_auth.membership enable row level security;
alter table rag_auth.membership force row level security;
comment on table rag_auth.membership is 'Which login may assert which tenant. The proof behind rag_auth.tenant().';
-- Documents: immutable versions, and withdrawals.
--
-- A document is a stable identity (tenant, document_id); it exists by having versions. A version is immutable: body,
-- applicability, effective time and source never change; a change is the next version. Ends of validity are derived
-- (rag_api.version_status), never stored.
--
-- Until passages are cut, a version is one passage: rag_api.passage is the only place that says so.
--
-- Invariants: bodies are not empty and at most 10 MiB; identifiers are at most 200 bytes, so that every key fits a
-- B-tree page; what is derived from the body (length, SHA-256, words) is generated and no role may write it.

create table rag.version (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  title text,
  body text not null,
  applies_to jsonb not null default '{}',
  effective_from timestamptz not null default now(),
  published date,
  source text,
  metadata jsonb not null default '{}',
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  body_length integer not null generated always as (char_length(body)) stored,
  body_sha256 bytea not null generated always as (sha256(rag.utf8(body))) stored,
  words tsvector not null generated always as (rag.word_vector(body)) stored,

  constraint version_key primary key (tenant, document_id, version),
  -- Referenced by spans, so that a CHECK of theirs can see how long the body is.
  constraint version_body_length_key unique (tenant, document_id, version, body_length),
  constraint version_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint version_is_positive check (version > 0),
  constraint version_document_id_fits check (octet_length(document_id) between 1 and 200),
  constraint version_document_id_is_printable check (document_id !~ '[[:cntrl:]]' and document_id = btrim(document_id)),
  constraint version_body_fits check (body <> '' and octet_length(body) <= 10485760),
  constraint version_applies_to_is_canonical check (
    rag.canonical_applies_to(applies_to) is not null and applies_to = rag.canonical_applies_to(applies_to)
  ),
  constraint version_effective_from_is_in_range check (
    effective_from >= timestamptz '0001-01-01 00:00:00+00' and effective_from < timestamptz '10000-01-01 00:00:00+00'
  ),
  constraint version_metadata_is_object check (jsonb_typeof(metadata) = 'object')
);
-- Serves `current`: the greatest (effective_from, version) of a document, without touching the rows.
create index version_by_effective_time on rag.version
  (tenant, document_id, effective_from desc, version desc) include (recorded_at);
alter table rag.version enable row level security;
alter table rag.version force row level security;

-- Statistics span all tenants and show in EXPLAIN estimates: none are kept on what a tenant wrote and no plan needs.
alter table rag.version
  alter column title set statistics 0,
  alter column body set statistics 0,
  alter column source set statistics 0,
  alter column metadata set statistics 0,
  alter column recorded_by set statistics 0,
  alter column body_sha256 set statistics 0,
  alter column words set statistics 0;

create trigger version_is_append_only
  before update or delete or truncate on rag.version
  for each statement execute function rag.refuse_change();

comment on table rag.version is 'Immutable versions of documents.';
comment on column rag.version.document_id is 'Stable identity within the tenant; 1 to 200 bytes.';
comment on column rag.version.version is 'Positive integer, unique within the document.';
comment on column rag.version.applies_to is
  'Attribute to list of values; a version applies to a case when each attribute named here has the case''s value in its list.';
comment on column rag.version.effective_from is 'When the rule begins to hold. Default: time of recording.';
comment on column rag.version.published is 'Date of publication, as the source states it.';
comment on column rag.version.source is 'Where the text comes from, as the source states it.';
comment on column rag.version.metadata is 'Keys of the source file that the store has no use for, kept as they were.';
comment on column rag.version.body_length is 'Length of the body in code points.';
comment on column rag.version.body_sha256 is 'SHA-256 of the body''s UTF-8 bytes.';
comment on column rag.version.words is 'Distinct words of the body (rag.words).';

create table rag.withdrawal (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  withdrawn_from timestamptz not null default now(),
  note text,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  -- A version may be withdrawn from an earlier instant than was announced first.
  constraint withdrawal_key primary key (tenant, document_id, version, withdrawn_from),
  constraint withdrawal_withdrawn_from_is_in_range check (
    withdrawn_from >= timestamptz '0001-01-01 00:00:00+00' and withdrawn_from < timestamptz '10000-01-01 00:00:00+00'
  ),
  constraint withdrawal_version_exists foreign key (tenant, document_id, version)
    references rag.version (tenant, document_id, version)
);
alter table rag.withdrawal enable row level security;
alter table rag.withdrawal force row level security;
alter table rag.withdrawal
  alter column note set statistics 0,
  alter column recorded_by set statistics 0;
create trigger withdrawal_is_append_only
  before update or delete or truncate on rag.withdrawal
  for each statement execute function rag.refuse_change();
comment on table rag.withdrawal is
  'Versions taken out of use. Withdrawing the newest version does not bring an older one back.';
comment on column rag.withdrawal.withdrawn_from is 'From when on the version may not be used. Default: time of recording.';
-- Spans: exact quotations in versions, each with a fact label.
--
-- Law 3, the quotation decides: a curator gives the quotation, the database derives where it stands. The start is
-- found in the body by a trigger, the end is generated from the quotation's length, and the foreign key on the body's
-- length lets a CHECK hold the range inside the body. No role has a grant on a derived column. A quotation that is not
-- in the body is refused (RS023); one that occurs more than once is refused until it names its occurrence (RS024).
--
-- The label is a hint: coverage and claims compare the quotation itself.

create table rag.span (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  span_id text collate "C" not null,
  fact text collate "C" not null,
  quote text collate "C" not null,
  occurrence integer,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  body_length integer not null,
  range_start integer not null,
  range_end integer not null generated always as (range_start + char_length(quote)) stored,

  constraint span_key primary key (tenant, document_id, version, span_id),
  constraint span_version_exists foreign key (tenant, document_id, version, body_length)
    references rag.version (tenant, document_id, version, body_length),
  constraint span_within_body check (range_start >= 0 and range_end <= body_length),
  constraint span_quote_is_not_empty check (quote <> ''),
  constraint span_id_fits check (octet_length(span_id) between 1 and 200),
  constraint span_id_is_printable check (span_id !~ '[[:cntrl:]]' and span_id = btrim(span_id)),
  constraint span_fact_fits check (octet_length(fact) between 1 and 200),
  constraint span_fact_is_printable check (fact !~ '[[:cntrl:]]' and fact = btrim(fact)),
  constraint span_occurrence_is_in_range check (occurrence between 1 and 1000)
);
alter table rag.span enable row level security;
alter table rag.span force row level security;
alter table rag.span
  alter column span_id set statistics 0,
  alter column fact set statistics 0,
  alter column quote set statistics 0,
  alter column recorded_by set statistics 0;

-- Where the p_occurrence-th occurrence of a quotation begins in a body, in code points from 0; null when there is no
-- such occurrence. Each occurrence costs a search from the one before, so their number is bounded (1,000). Occurrences
-- may overlap ("aa" occurs twice in "aaa"): each is a place a reader could mean.
create function rag.locate(
  p_body text,
  p_quote text,
  p_occurrence integer
)
  returns integer
  language plpgsql
  immutable
  strict
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  -- Searched as bytes: UTF-8 is self-synchronizing, so a match of bytes is a match of characters, and a cut costs
  -- nothing.
  v_body constant bytea := rag.utf8(p_body);
  v_quote constant bytea := rag.utf8(p_quote);
  v_at integer := 0;  -- 1-based position of the occurrence found last
  v_step integer;
begin
  if p_quote = '' then
    return null;
  end if;
  for i in 1 .. p_occurrence loop
    v_step := position(v_quote in substr(v_body, v_at + 1));
    if v_step = 0 then
      return null;
    end if;
    v_at := v_at + v_step;
  end loop;
  return char_length(convert_from(substr(v_body, 1, v_at - 1), 'UTF8'));
end;
$$;
revoke all on function rag.locate from public;
grant execute on function rag.locate to rag_reader, rag_auditor;
comment on function rag.locate is
  'Start of the n-th occurrence of a quotation in a body (code points, 0-based), or null.';

-- Derives range_start and body_length of a new span from the version's body, which it reads with the inserting
-- login's own rights. RS022 when there is no such version (or it is not the login's to see), RS023, RS024; the error
-- fields TABLE, DATATYPE and CONSTRAINT carry document, version and span, so that a loader need not read the message.
create function rag.locate_span()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_body text;
begin
  select v.body, v.body_length
  into v_body, new.body_length
  from rag.version v
  where (v.tenant, v.document_id, v.version) = (new.tenant, new.document_id, new.version);
  if not found then
    raise exception using
      errcode = 'RS022',
      message = format('no version %s of document "%s"', new.version, new.document_id);
  end if;

  new.range_start := rag.locate(v_body, new.quote, least(coalesce(new.occurrence, 1), 1000));
  if new.range_start is null then
    raise exception using
      errcode = 'RS023',
      message = case
        when new.occurrence > 1 and rag.locate(v_body, new.quote, 1) is not null
        then format('span "%s" quotes text that does not occur %s times in the body of "%s" version %s',
          new.span_id, new.occurrence, new.document_id, new.version)
        else format('span "%s" quotes text that is not in the body of "%s" version %s',
          new.span_id, new.document_id, new.version)
      end,
      detail = format('Quotation: %s', new.quote),
      table = new.document_id,
      datatype = new.version::text,
      constraint = new.span_id,
      hint = 'Copy the quotation from the body character by character; line breaks and typographic quotes count.';
  end if;
  if new.occurrence is null and rag.locate(v_body, new.quote, 2) is not null then
    raise exception using
      errcode = 'RS024',
      message = format('span "%s" quotes text that occurs more than once in "%s" version %s',
        new.span_id, new.document_id, new.version),
      detail = format('Quotation: %s', new.quote),
      table = new.document_id,
      datatype = new.version::text,
      constraint = new.span_id,
      hint = 'Quote more of the sentence, or name the occurrence (1, 2, ...).';
  end if;
  return new;
end;
$$;
revoke all on function rag.locate_span from public;
comment on function rag.locate_span is 'Trigger: derives a span''s place from its quotation (RS022, RS023, RS024).';

create trigger span_is_located
  before insert on rag.span
  for each row execute function rag.locate_span();
create trigger span_is_append_only
  before update or delete or truncate on rag.span
  for each statement execute function rag.refuse_change();

comment on table rag.span is 'Exact quotations in versions, located by the database.';
comment on column rag.span.fact is 'Fact label: a hint. Whether the span witnesses the fact is decided by the quotation.';
comment on column rag.span.quote is 'Text of the body, character by character.';
comment on column rag.span.occurrence is 'Which occurrence of the quotation is meant, from 1; null when there is only one.';
comment on column rag.span.range_start is 'Start in the body, in code points from 0. Derived.';
comment on column rag.span.range_end is 'End in the body, exclusive. Derived.';
-- Contracts: question types that the application supports.
--
-- A contract names the case attributes of a question, the facts an answer needs, per fact the curated propositions
-- that establish it, and per proposition the clauses that may be said on it. One row is one immutable contract
-- version; its content is
--
--   {"case": ["model", "firmware"],
--    "facts": [{"fact": "known-issue",
--               "propositions": [{"quote": "...", "clauses": ["..."]}]}]}
--
-- in which the order of facts, propositions and clauses has meaning (contract order). The views of api/030_contracts
-- lay it out as rows. A contract is one row, so that nothing can be added to a version later: a clause more would be
-- a licence more.

create table rag.contract (
  tenant text collate "C" not null,
  question_id text collate "C" not null,
  version integer not null,
  content jsonb not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  content_sha256 bytea not null,

  constraint contract_key primary key (tenant, question_id, version),
  constraint contract_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint contract_version_is_positive check (version > 0),
  constraint contract_question_id_fits check (octet_length(question_id) between 1 and 200),
  constraint contract_question_id_is_printable check (question_id !~ '[[:cntrl:]]' and question_id = btrim(question_id))
);
alter table rag.contract enable row level security;
alter table rag.contract force row level security;
alter table rag.contract
  alter column question_id set statistics 0,
  alter column content set statistics 0,
  alter column recorded_by set statistics 0,
  alter column content_sha256 set statistics 0;

-- What is wrong with a contract's content: path and problem, empty when it is valid. The path names the place as the
-- contract's file has it (`facts.0.propositions.1.quote`).
create function rag.contract_problems(
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
  ), name as (  -- every text of the contract, with what it must be unique among
    select path, value, 'case' as scope, 200 as most from attribute
    union all select path || '.fact', value -> 'fact', 'facts', 200 from fact
    union all select path || '.quote', value -> 'quote', fact_path, 1048576 from proposition
    union all select path, value, proposition_path, 1048576 from clause
  )
  select '', 'a contract is a mapping with the keys case and facts'
    where jsonb_typeof(p_content) is distinct from 'object'
  union all
  select k, 'unknown key; a contract has case and facts'
    from jsonb_object_keys(case when jsonb_typeof(p_content) = 'object' then p_content else '{}' end) as k
    where k not in ('case', 'facts')
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
revoke all on function rag.contract_problems from public;
grant execute on function rag.contract_problems to rag_curator, rag_publisher;
comment on function rag.contract_problems is 'Path and problem of each fault in a contract''s content; empty when valid.';

-- Length-prefixed encoding, the one all digests are made of: 8 bytes of length, big-endian, then the bytes.
create function rag.field(
  p_bytes bytea
)
  returns bytea
  language sql
  immutable
  strict
  parallel safe
return pg_catalog.int8send(pg_catalog.octet_length(p_bytes)::bigint) || p_bytes;
revoke all on function rag.field from public;
grant execute on function rag.field to rag_reader, rag_auditor;
comment on function rag.field is 'Length-prefixed bytes: 8 bytes big-endian length, then the bytes.';

-- The bytes behind a contract's hash: case attributes in byte order, then facts, propositions and clauses in contract
-- order (schema/README.md, "Byte layouts").
create function rag.contract_preimage(
  p_content jsonb
)
  returns bytea
  language sql
  immutable
  strict
  parallel safe
begin atomic
  select rag.field(rag.utf8('rag-sql contract 1'))
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
    );
end;
revoke all on function rag.contract_preimage from public;
grant execute on function rag.contract_preimage to rag_reader, rag_auditor;
comment on function rag.contract_preimage is 'Bytes whose SHA-256 is a contract''s hash.';

-- Refuses invalid content (RS030, path in the COLUMN field) and derives the hash.
create function rag.seal_contract()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_problem record;
begin
  select p.path, p.problem into v_problem
  from rag.contract_problems(new.content) p
  order by p.path collate "C"
  limit 1;
  if found then
    raise exception using
      errcode = 'RS030',
      message = format('contract "%s" version %s is invalid: %s%s', new.question_id, new.version,
        case when v_problem.path = '' then '' else v_problem.path || ': ' end, v_problem.problem),
      column = v_problem.path;
  end if;
  new.content_sha256 := sha256(rag.contract_preimage(new.content));
  return new;
end;
$$;
revoke all on function rag.seal_contract from public;
comment on function rag.seal_contract is 'Trigger: validates a contract (RS030) and derives its hash.';

create trigger contract_is_sealed
  before insert on rag.contract
  for each row execute function rag.seal_contract();
create trigger contract_is_append_only
  before update or delete or truncate on rag.contract
  for each statement execute function rag.refuse_change();

comment on table rag.contract is 'Question types: case attributes, required facts, propositions, licensed clauses.';
comment on column rag.contract.content is 'Case attributes and facts; laid out as rows by the views of rag_api.';
comment on column rag.contract.content_sha256 is 'SHA-256 of rag.contract_preimage(content). Derived.';
-- Packets: what a decision relied on, under its digest.
--
-- A packet keeps the request (so that it can be decided again), the outcome, and the selected evidence by reference:
-- versions and spans are immutable, so a reference says as much as a copy. The pre-image of the digest is stored beside
-- it: the identity is those bytes, and nobody has to trust a re-serialisation.
--
-- Written only by rag_api.record_packet, a definer function of rag_recorder: no run-time role has an insert grant, so
-- a packet is always what the database decided. A packet belongs to the tenant that asked, never to public.

create table rag.packet (
  tenant text collate "C" not null,
  packet_id uuid not null default gen_random_uuid(),
  outcome text not null,
  question_id text collate "C" not null,
  contract_tenant text collate "C" not null,
  contract_version integer not null,
  contract_pinned boolean not null,
  case_facts jsonb not null,
  query text not null,
  k integer not null,
  method text not null,
  valid_at timestamptz not null,
  known_at timestamptz not null,
  required text[] not null,
  missing text[] not null,
  preimage bytea not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  digest bytea not null generated always as (sha256(preimage)) stored,

  constraint packet_key primary key (tenant, packet_id),
  constraint packet_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint packet_is_never_public check (tenant <> 'public'),
  constraint packet_contract_is_visible check (contract_tenant in ('public', tenant)),
  constraint packet_contract_exists foreign key (contract_tenant, question_id, contract_version)
    references rag.contract (tenant, question_id, version),
  constraint packet_k_in_range check (k between 1 and 1000),
  constraint packet_outcome_is_known check (outcome in ('SufficientForTemplate', 'AskForEvidence'))
);
create index packet_by_digest on rag.packet (tenant, digest);
-- Every index leads with the column that the policy compares: one that led with another would count hidden rows for
-- whoever reads EXPLAIN ANALYZE.
create index packet_by_contract on rag.packet (tenant, contract_tenant, question_id, contract_version);
alter table rag.packet enable row level security;
alter table rag.packet force row level security;
alter table rag.packet
  alter column outcome set statistics 0,
  alter column question_id set statistics 0,
  alter column case_facts set statistics 0,
  alter column query set statistics 0,
  alter column method set statistics 0,
  alter column required set statistics 0,
  alter column missing set statistics 0,
  alter column preimage set statistics 0,
  alter column recorded_by set statistics 0,
  alter column digest set statistics 0;
create trigger packet_is_append_only
  before update or delete or truncate on rag.packet
  for each statement execute function rag.refuse_change();
comment on table rag.packet is 'What a decision relied on, under its digest. Written by rag_api.record_packet only.';
comment on column rag.packet.contract_pinned is 'Whether the request named the contract''s version; otherwise the newest was used.';
comment on column rag.packet.method is 'Ranking method.';
comment on column rag.packet.valid_at is 'The instant for which eligibility was decided.';
comment on column rag.packet.known_at is 'The instant whose recorded state was used.';
comment on column rag.packet.preimage is 'The bytes that were hashed (schema/README.md, "Byte layouts").';
comment on column rag.packet.digest is 'SHA-256 of the pre-image: the identity of the evidence.';

create table rag.packet_source (
  tenant text collate "C" not null,
  packet_id uuid not null,
  position integer not null,
  score integer not null,
  document_tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  range_start integer not null,
  range_end integer not null,

  constraint packet_source_key primary key (tenant, packet_id, position),
  constraint packet_source_packet_exists foreign key (tenant, packet_id) references rag.packet (tenant, packet_id),
  constraint packet_source_is_visible check (document_tenant in ('public', tenant)),
  constraint packet_source_version_exists foreign key (document_tenant, document_id, version)
    references rag.version (tenant, document_id, version)
);
create index packet_source_by_version on rag.packet_source (tenant, document_tenant, document_id, version);
alter table rag.packet_source enable row level security;
alter table rag.packet_source force row level security;
create trigger packet_source_is_append_only
  before update or delete or truncate on rag.packet_source
  for each statement execute function rag.refuse_change();
comment on table rag.packet_source is 'Selected passages of a packet, in order of rank.';
comment on column rag.packet_source.document_tenant is 'Visibility of the document: public or the packet''s tenant.';

-- Spans may be added to a version later: a packet keeps which ones there were.
create table rag.packet_span (
  tenant text collate "C" not null,
  packet_id uuid not null,
  position integer not null,
  document_tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  span_id text collate "C" not null,

  constraint packet_span_key primary key (tenant, packet_id, position, span_id),
  constraint packet_span_source_exists foreign key (tenant, packet_id, position)
    references rag.packet_source (tenant, packet_id, position),
  constraint packet_span_is_visible check (document_tenant in ('public', tenant)),
  constraint packet_span_span_exists foreign key (document_tenant, document_id, version, span_id)
    references rag.span (tenant, document_id, version, span_id)
);
create index packet_span_by_span on rag.packet_span (tenant, document_tenant, document_id, version, span_id);
alter table rag.packet_span enable row level security;
alter table rag.packet_span force row level security;
alter table rag.packet_span alter column span_id set statistics 0;
create trigger packet_span_is_append_only
  before update or delete or truncate on rag.packet_span
  for each statement execute function rag.refuse_change();
comment on table rag.packet_span is 'Spans that the selected passages of a packet had when it was recorded.';
-- Approvals: a reviewer's decisions, each about one digest, one draft and what was shown.
--
-- A decision is a row; the newest one for (evidence digest, draft digest) counts. It is usable only while the evidence
-- is the same, which rag_api.require_approval finds out by deciding again.
--
-- Written only by rag_api.approve, a definer function of rag_recorder. Two reviewers who decide at the same moment
-- meet on the primary key: one of them is told.

create table rag.approval (
  tenant text collate "C" not null,
  evidence_digest bytea not null,
  draft_digest bytea not null,
  decision_number integer not null,
  packet_id uuid not null,
  shown_digest bytea not null,
  decision text not null,
  claims jsonb not null,
  reviewer_login text not null default session_user,
  reviewer_name text,
  note text,
  recorded_at timestamptz not null default now(),

  constraint approval_key primary key (tenant, evidence_digest, draft_digest, decision_number),
  constraint approval_packet_exists foreign key (tenant, packet_id) references rag.packet (tenant, packet_id),
  constraint approval_decision_is_known check (decision in ('approved', 'rejected'))
);
create index approval_by_packet on rag.approval (tenant, packet_id);
alter table rag.approval enable row level security;
alter table rag.approval force row level security;
alter table rag.approval
  alter column evidence_digest set statistics 0,
  alter column draft_digest set statistics 0,
  alter column shown_digest set statistics 0,
  alter column decision set statistics 0,
  alter column claims set statistics 0,
  alter column reviewer_login set statistics 0,
  alter column reviewer_name set statistics 0,
  alter column note set statistics 0;
create trigger approval_is_append_only
  before update or delete or truncate on rag.approval
  for each statement execute function rag.refuse_change();
comment on table rag.approval is 'Reviewers'' decisions. Written by rag_api.approve only; the newest counts.';
comment on column rag.approval.evidence_digest is 'Digest of the packet that was approved.';
comment on column rag.approval.draft_digest is 'Digest of the draft''s claims, in order.';
comment on column rag.approval.shown_digest is 'Digest of what the reviewer was shown: evidence, draft, verdicts and reasons.';
comment on column rag.approval.claims is 'The draft, for people to read. Its identity is draft_digest.';
comment on column rag.approval.reviewer_login is 'The login of the session.';
comment on column rag.approval.reviewer_name is 'The person, as the application states it.';
