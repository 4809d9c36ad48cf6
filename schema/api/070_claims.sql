-- Claims: a citation is a pointer, not a licence. Every claim gets a verdict; nothing is averaged.
--
-- Five checks, in this order; the first that fails gives the reason:
--   source_not_selected    cited source is not in the selected evidence
--   fact_not_carried       span does not carry this fact
--   not_the_proposition    span text is not the curated proposition
--   states_decision        states a decision that documents cannot make
--   not_licensed           the rule does not license this sentence
--
-- The gate selects licensed clauses; it does not judge entailment: a paraphrase that a person would accept is withheld.

set local role rag_owner;

-- RS040 unless p_claims is an array of 1 to 1,000 claims, 4 MiB in all:
--   {"text": ..., "fact": ..., "tenant": ..., "document_id": ..., "version": ..., "span_id": ...}
-- COLUMN names the place: position in the array (from 0), then the key. A sentence may be as long as a clause (1 MiB),
-- what names something as long as a name (200 bytes).
create function rag_api._check_claims(
  p_claims jsonb
)
  returns void
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_problem record;
begin
  if jsonb_typeof(p_claims) is distinct from 'array' or jsonb_array_length(p_claims) = 0 then
    raise exception using errcode = 'RS040', message = 'claims must be a JSON array of at least one claim';
  end if;
  if jsonb_array_length(p_claims) > 1000 or octet_length(p_claims::text) > 4194304 then
    raise exception using
      errcode = 'RS040',
      message = format('a draft has at most 1000 claims and 4194304 bytes as JSON; this one has %s and %s',
        jsonb_array_length(p_claims), octet_length(p_claims::text)),
      hint = 'Split the draft: each part is checked and approved by itself.';
  end if;
  with claim as (
    select i - 1 as position, case when jsonb_typeof(c) = 'object' then c else '{}' end as c
    from jsonb_array_elements(p_claims) with ordinality as t(c, i)
  ), problem as (
    select position, k as key, format('must be a text of 1 to %s bytes', most) as problem
      from claim,
        (values ('text', 1048576), ('fact', 200), ('tenant', 200), ('document_id', 200), ('span_id', 200)) as v(k, most)
      where jsonb_typeof(c -> k) is distinct from 'string' or octet_length(c ->> k) not between 1 and most
    union all
    select position, 'version', 'must be a whole number from 1 to 2147483647'
      from claim
      where case
        when jsonb_typeof(c -> 'version') is distinct from 'number' then true
        when c ->> 'version' !~ '^[1-9][0-9]{0,9}$' then true
        else (c ->> 'version')::numeric > 2147483647
      end
    union all
    select position, k, 'unknown key; a claim has text, fact, tenant, document_id, version and span_id'
      from claim, jsonb_object_keys(c) as k
      where k not in ('text', 'fact', 'tenant', 'document_id', 'version', 'span_id')
  )
  select p.position, p.key, p.problem into v_problem
  from problem p
  order by p.position, p.key collate "C"
  limit 1;
  if found then
    raise exception using
      errcode = 'RS040',
      message = format('claim %s: %s: %s', v_problem.position + 1, v_problem.key, v_problem.problem),
      column = format('%s.%s', v_problem.position, v_problem.key);
  end if;
end;
$$;
revoke all on function rag_api._check_claims from public;
grant execute on function rag_api._check_claims to rag_reader;
comment on function rag_api._check_claims is 'Private: RS040 unless the claims are well formed.';

-- One verdict per claim, in order, on the spans that the evidence has: a packet's own, or a selection's. An empty reason
-- means licensed.
create function rag_api._verdicts(
  p_contract_tenant text,
  p_question_id text,
  p_contract_version integer,
  p_selection rag.source_ref[],
  p_spans rag.span[],
  p_claims jsonb
)
  returns table ("position" integer, claim jsonb, verdict text, reason text)
  language sql
  stable
  parallel restricted
begin atomic
  select
    j.position,
    j.claim,
    j.verdict,
    case j.verdict
      when 'source_not_selected' then 'cited source is not in the selected evidence'
      when 'fact_not_carried' then 'span does not carry this fact'
      when 'not_the_proposition' then 'span text is not the curated proposition'
      when 'states_decision' then 'states a decision that documents cannot make'
      when 'not_licensed' then 'the rule does not license this sentence'
      when 'licensed' then ''
    end
  from (
    select
      c.i::integer as "position",
      c.claim,
      case
        when not exists (
          select from unnest(p_selection) as r
          where r.tenant = c.claim ->> 'tenant'
            and r.document_id = c.claim ->> 'document_id'
            and r.version = (c.claim ->> 'version')::integer
        ) then 'source_not_selected'
        when s.fact is distinct from c.claim ->> 'fact' then 'fact_not_carried'
        when not exists (
          select from rag_api.proposition p
          where p.tenant = p_contract_tenant
            and p.question_id = p_question_id
            and p.version = p_contract_version
            and p.fact = s.fact
            and p.quote = s.quote
        ) then 'not_the_proposition'
        when exists (
          select from rag.contract d
          where d.tenant = p_contract_tenant
            and d.question_id = p_question_id
            and d.version = p_contract_version
            and d.content -> 'decision' -> 'never_say' ? (c.claim ->> 'text')
        ) then 'states_decision'
        when not exists (
          select from rag_api.clause k
          where k.tenant = p_contract_tenant
            and k.question_id = p_question_id
            and k.version = p_contract_version
            and k.fact = s.fact
            and k.quote = s.quote
            and k.clause = c.claim ->> 'text'
        ) then 'not_licensed'
        else 'licensed'
      end as verdict
    from jsonb_array_elements(p_claims) with ordinality as c(claim, i)
    left join unnest(p_spans) as s
      on s.tenant = c.claim ->> 'tenant'
      and s.document_id = c.claim ->> 'document_id'
      and s.version = (c.claim ->> 'version')::integer
      and s.span_id = c.claim ->> 'span_id'
  ) as j
  order by j.position;
end;
revoke all on function rag_api._verdicts from public;
grant execute on function rag_api._verdicts to rag_reader;
comment on function rag_api._verdicts is 'Private: one verdict per well-formed claim.';

-- The claim gate: one verdict per claim, in order, on the spans that had been recorded at p_known_at (null: now). RS040
-- when the claims are malformed.
create function rag_api.check_claims(
  p_contract_tenant text,
  p_question_id text,
  p_contract_version integer,
  p_selection rag.source_ref[],
  p_claims jsonb,
  p_known_at timestamptz default null
)
  returns table ("position" integer, claim jsonb, verdict text, reason text)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform rag_api._check_claims(p_claims);
  return query
  select v.position, v.claim, v.verdict, v.reason
  from rag_api._verdicts(
    p_contract_tenant, p_question_id, p_contract_version, p_selection,
    array(select s from rag_api._selected_spans(p_selection, p_known_at) as s), p_claims) as v;
end;
$$;
revoke all on function rag_api.check_claims from public;
grant execute on function rag_api.check_claims to rag_reader;
comment on function rag_api.check_claims is
  'Claim gate: licensed, or the first check that fails and its reason, per claim. RS040 when claims are malformed.';

reset role;
