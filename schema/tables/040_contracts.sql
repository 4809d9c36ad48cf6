-- Contracts: question types that the application supports.
--
-- A contract names the case attributes of a question, the facts an answer needs, per fact the curated propositions
-- that establish it, and per proposition the clauses that may be said on it. One row is one immutable contract
-- version; its content is
--
--   {"case": ["model", "firmware"],
--    "facts": [{"fact": "known-issue",
--               "propositions": [{"quote": "...", "clauses": ["..."]}]}],
--    "decision": {"about": "...", "decided_by": "...", "refer": "...", "never_say": ["..."]},
--    "keep": "digest",
--    "ranking": {"method": "bm25", "k1": 1.2}}
--
-- `decision` is left out where documents can answer the question. Where it stands, they can only say the rule: what is
-- decided, by whom, where to turn, and the sentences that would state the decision, which no clause may be. `keep` says
-- what traces keep of queries and answers: their text, their digest (also where it is left out), or none of both. `ranking`
-- says by which method passages are ranked, and its parameters, where a request does not; left out: overlap.
--
-- The order of facts, propositions and clauses has meaning (contract order). The views of api/030_contracts lay the
-- content out as rows. A contract is one row, so that nothing can be added to a version later: a clause more would be
-- a licence more.

create table rag.contract (
  tenant text collate "C" not null,
  question_id text collate "C" not null,
  version integer not null,
  content jsonb,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  content_sha256 bytea not null,

  constraint contract_key primary key (tenant, question_id, version),
  constraint contract_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint contract_version_is_positive check (version > 0),
  constraint contract_question_id_fits check (octet_length(question_id) between 1 and 200),
  constraint contract_question_id_is_printable check (question_id !~ '[[:cntrl:]]' and question_id = btrim(question_id)),
  constraint contract_content_fits check (octet_length(content::text) <= 8388608)
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
-- order; then the decision, what traces keep and how passages are ranked, where the contract says so, under another first field
-- (schema/README.md, "Byte layouts").
create function rag.contract_preimage(
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
  before delete or truncate on rag.contract
  for each statement execute function rag.refuse_change();
create trigger contract_changes_by_erasure
  before update on rag.contract
  for each row execute function rag.refuse_change_but_erasure('tenant', 'content');

comment on table rag.contract is 'Question types: case attributes, required facts, propositions, licensed clauses, what only a person decides.';
comment on column rag.contract.content is 'Case attributes and facts; laid out as rows by the views of rag_api. Null: erased with its tenant.';
comment on column rag.contract.content_sha256 is 'SHA-256 of rag.contract_preimage(content). Derived.';
