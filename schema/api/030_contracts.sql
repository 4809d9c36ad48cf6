-- Contracts: adding, resolving, checking a case against one, and laying the content out as rows.

set local role rag_owner;

create view rag_api.contract with (security_invoker = true) as
  select
    c.tenant,
    c.question_id,
    c.version,
    c.version = max(c.version) over (partition by c.tenant, c.question_id) as is_newest,
    c.version = max(c.version) over (partition by c.tenant, c.question_id)
      and (c.tenant <> 'public' or not exists (
        select from rag.contract o
        where o.question_id = c.question_id and o.tenant = (select rag_auth.tenant()) and o.tenant <> 'public'
          and o.content is not null
      )) as is_in_force,
    array(select jsonb_array_elements_text(c.content -> 'case')) as case_attributes,
    array(select f ->> 'fact' from jsonb_array_elements(c.content -> 'facts') with ordinality as t(f, i) order by i)
      as required_facts,
    c.content -> 'decision' as decision,
    coalesce(c.content ->> 'keep', 'digest') as keep,
    encode(c.content_sha256, 'hex') as content_sha256,
    c.recorded_at,
    c.recorded_by
  from rag.contract c
  where c.content is not null;  -- or it was erased with its tenant
grant select on rag_api.contract to rag_reader, rag_auditor;
comment on view rag_api.contract is 'Visible contracts: case attributes and required facts, in contract order.';

create view rag_api.proposition with (security_invoker = true) as
  select
    c.tenant,
    c.question_id,
    c.version,
    f.i::integer as fact_position,
    f.fact ->> 'fact' collate "C" as fact,
    p.i::integer as proposition_position,
    p.proposition ->> 'quote' collate "C" as quote
  from rag.contract c
  cross join lateral jsonb_array_elements(c.content -> 'facts') with ordinality as f(fact, i)
  cross join lateral jsonb_array_elements(f.fact -> 'propositions') with ordinality as p(proposition, i);
grant select on rag_api.proposition to rag_reader, rag_auditor;
comment on view rag_api.proposition is 'Curated propositions: the quotations that establish a fact, by contract.';

create view rag_api.clause with (security_invoker = true) as
  select
    c.tenant,
    c.question_id,
    c.version,
    f.i::integer as fact_position,
    f.fact ->> 'fact' collate "C" as fact,
    p.i::integer as proposition_position,
    p.proposition ->> 'quote' collate "C" as quote,
    k.i::integer as clause_position,
    k.clause collate "C" as clause
  from rag.contract c
  cross join lateral jsonb_array_elements(c.content -> 'facts') with ordinality as f(fact, i)
  cross join lateral jsonb_array_elements(f.fact -> 'propositions') with ordinality as p(proposition, i)
  cross join lateral jsonb_array_elements_text(p.proposition -> 'clauses') with ordinality as k(clause, i);
grant select on rag_api.clause to rag_reader, rag_auditor;
comment on view rag_api.clause is 'Licensed clauses: the sentences that may be said on a proposition, by contract.';

-- Adds a contract version for the bound tenant: `new`, or `same` where it exists with this content. RS002, RS003; RS030
-- when the content is invalid (COLUMN names the place); RS031 when the version exists with other content. A case attribute
-- that was not declared is declared as a text, with a notice.
create function rag_api.add_contract(
  p_question_id text,
  p_version integer,
  p_content jsonb
)
  returns text
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_api._writable_tenant();
  v_stored jsonb;
begin
  if p_question_id is null
    or octet_length(p_question_id) not between 1 and 200
    or p_question_id ~ '[[:cntrl:]]'
    or p_question_id <> btrim(p_question_id)
  then
    raise exception using
      errcode = 'RS030',
      message = 'question: must be a text of 1 to 200 bytes, without control characters or outer spaces',
      column = 'question';
  end if;
  if p_version is null or p_version < 1 then
    raise exception using
      errcode = 'RS030',
      message = 'version: must be a whole number from 1',
      column = 'version';
  end if;
  if octet_length(p_content::text) > 8388608 then
    raise exception using
      errcode = 'RS030',
      message = 'a contract has at most 8 MiB, as JSON',
      hint = 'Split the question into several.';
  end if;

  insert into rag.contract (tenant, question_id, version, content)
  values (v_tenant, p_question_id, p_version, p_content)
  on conflict on constraint contract_key do nothing;
  if found then
    perform rag_api._declare_attributes(array(select jsonb_array_elements_text(p_content -> 'case')));
    return 'new';
  end if;
  select c.content into v_stored
  from rag.contract c
  where c.tenant = v_tenant and c.question_id = p_question_id and c.version = p_version;
  if v_stored is distinct from p_content then
    raise exception using
      errcode = 'RS031',
      message = format('contract "%s" version %s exists with other content', p_question_id, p_version),
      column = 'version',
      hint = 'A contract version is immutable: give the changed contract the next version number.';
  end if;
  return 'same';
end;
$$;
revoke all on function rag_api.add_contract from public;
grant execute on function rag_api.add_contract to rag_curator, rag_publisher;
comment on function rag_api.add_contract is
  'Adds a contract version for the bound tenant: new, or same. RS030 invalid, RS031 exists with other content.';

-- The contract of a question: the tenant's own wins over a public one of the same id; the newest version unless one is
-- named; of those that had been recorded at p_known_at (null: now). No row for an unknown question; RS012 for an unknown
-- version of a known one.
create function rag_api._resolve_contract(
  p_question_id text,
  p_contract_version integer,
  p_known_at timestamptz
)
  returns setof rag.contract
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_contract rag.contract;
  v_owner text;
begin
  -- Readers see public and their own; 'public' sorts after the tenant's own by this flag.
  select c.tenant into v_owner
  from rag.contract c
  where c.question_id = p_question_id
    and c.tenant = any (array['public', (select rag_auth.tenant())])
    and c.content is not null
    and c.recorded_at <= coalesce(p_known_at, statement_timestamp())
  order by c.tenant = 'public'
  limit 1;
  if not found then
    return;
  end if;
  select c.* into v_contract
  from rag.contract c
  where c.tenant = v_owner
    and c.question_id = p_question_id
    and c.version = coalesce(p_contract_version, c.version)
    and c.content is not null
    and c.recorded_at <= coalesce(p_known_at, statement_timestamp())
  order by c.version desc
  limit 1;
  if not found then
    raise exception using
      errcode = 'RS012',
      message = format('contract "%s" has no version %s', p_question_id, p_contract_version),
      hint = 'List the versions: select * from rag_api.contract;';
  end if;
  return next v_contract;
end;
$$;
revoke all on function rag_api._resolve_contract from public;
grant execute on function rag_api._resolve_contract to rag_reader;
comment on function rag_api._resolve_contract is 'Private: the contract that answers a question, or no row; RS012.';

-- The contract of a question where one is needed: RS013 when there is none, RS012 as above.
create function rag_api._required_contract(
  p_question_id text,
  p_contract_version integer,
  p_known_at timestamptz
)
  returns rag.contract
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_contract rag.contract;
begin
  select c.* into v_contract from rag_api._resolve_contract(p_question_id, p_contract_version, p_known_at) as c;
  if not found then
    raise exception using
      errcode = 'RS013',
      message = format('no contract supports the question "%s"', p_question_id),
      hint = 'Adding documents cannot make a question supported; it needs a contract.';
  end if;
  return v_contract;
end;
$$;
revoke all on function rag_api._required_contract from public;
grant execute on function rag_api._required_contract to rag_reader;
comment on function rag_api._required_contract is 'Private: the contract that answers a question; RS012, RS013.';

-- The facts of a case in canonical form: each of the contract's attributes, as a text. A number or a flag may be given
-- as JSON has them or as a text. RS011 unless exactly the contract's attributes are stated, each as a value of its type:
-- one that is misspelt would silently widen or narrow what is eligible.
create function rag_api._case_facts(
  p_content jsonb,
  p_case_facts jsonb,
  p_known_at timestamptz
)
  returns jsonb
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_problem text;
  v_facts jsonb;
begin
  if jsonb_typeof(p_case_facts) is distinct from 'object' then
    raise exception using
      errcode = 'RS011',
      message = 'case facts must be a JSON object of attributes to values',
      hint = 'For example: {"model": "G2", "firmware": "2.4.1"}';
  end if;
  with typed as materialized (
    select t.attribute, t.type
    from rag_api._attribute_types(p_known_at) as t
    where t.tenant = coalesce((select rag_auth.tenant()), 'public')
  ), stated as (
    select f.key, f.value, coalesce(t.type, 'text') as type, jsonb_typeof(f.value) as json_type, f.value #>> '{}' as text
    from jsonb_each(p_case_facts) as f
    left join typed t on t.attribute = f.key
  ), canonical as (
    select
      s.key,
      s.type,
      case
        when octet_length(s.text) between 1 and 200
          and (s.json_type = 'string' or (s.type, s.json_type) in (('number', 'number'), ('flag', 'boolean')))
        then rag.canonical_value(s.type, s.text)
      end as value
    from stated s
  )
  select
    (
      select string_agg(problem, '; ' order by name collate "C")
      from (
        select a as name, format('attribute "%s" is not stated', a) as problem
        from jsonb_array_elements_text(p_content -> 'case') as a
        where not p_case_facts ? a
        union all
        select c.key, format('attribute "%s" is not one of the contract''s', c.key)
        from canonical c
        where not p_content -> 'case' ? c.key
        union all
        select c.key, format('attribute "%s" must be a %s', c.key,
          case c.type
          when 'text' then 'text of 1 to 200 bytes' when 'flag' then 'flag, true or false' when 'date' then 'date, such as 2026-03-01'
          when 'version-pep440' then 'version as PEP 440 has them' when 'version-semver' then 'version as Semantic Versioning has them'
          when 'version-numeric' then 'version of numbers, such as 2.4.1' else c.type
        end)
        from canonical c
        where c.value is null
      ) as problems
    ),
    (select coalesce(jsonb_object_agg(c.key, c.value), '{}') from canonical c)
  into v_problem, v_facts;
  if v_problem is not null then
    raise exception using
      errcode = 'RS011',
      message = 'the case does not fit the contract: ' || v_problem,
      hint = format('The contract''s case attributes are: %s.',
        coalesce((select string_agg(a, ', ') from jsonb_array_elements_text(p_content -> 'case') as a), 'none'));
  end if;
  return v_facts;
end;
$$;
revoke all on function rag_api._case_facts from public;
grant execute on function rag_api._case_facts to rag_reader;
comment on function rag_api._case_facts is
  'Private: the facts of a case in canonical form; RS011 unless they are exactly the contract''s attributes.';

-- RS010 for a query without a word or over 64 KiB, and for a K outside 1 to 1,000: none may quietly select nothing.
create function rag_api._check_request(
  p_query text,
  p_k integer
)
  returns void
  language plpgsql
  immutable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_k is null or p_k not between 1 and 1000 then
    raise exception using
      errcode = 'RS010',
      message = format('K must be from 1 to 1000, not %s', coalesce(p_k::text, 'null'));
  end if;
  if octet_length(p_query) > 65536 then
    raise exception using
      errcode = 'RS010',
      message = format('the query has %s bytes; 65536 is the most', octet_length(p_query));
  end if;
  if coalesce(cardinality(rag.words(p_query)), 0) = 0 then
    raise exception using
      errcode = 'RS010',
      message = 'the query has no word',
      hint = 'Words are runs of letters, digits and underscores.';
  end if;
end;
$$;
revoke all on function rag_api._check_request from public;
grant execute on function rag_api._check_request to rag_reader;
comment on function rag_api._check_request is 'Private: RS010 for a query without a word or over 64 KiB, or a K outside 1 to 1000.';

-- RS010 for an instant that is not finite, or a p_known_at that has not come: what will have been recorded is not known.
create function rag_api._check_instants(
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns void
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  if not isfinite(p_valid_at) or not isfinite(p_known_at) then
    raise exception using errcode = 'RS010', message = 'an instant must be finite';
  end if;
  if p_known_at > statement_timestamp() then
    raise exception using
      errcode = 'RS010',
      message = 'known_at lies in the future',
      hint = 'To ask what will hold at a later time, use valid_at.';
  end if;
end;
$$;
revoke all on function rag_api._check_instants from public;
grant execute on function rag_api._check_instants to rag_reader, rag_auditor;
comment on function rag_api._check_instants is 'Private: RS010 for an infinite instant or a known_at in the future.';

reset role;
