-- The decision: contract, case, eligibility, ranking, selection, witnesses, coverage, outcome, identity. One call, one
-- round trip, reads only: it runs on a replica.
--
-- Everything is validated first, in the open: a check inside a query that nothing reads would never run. The building
-- blocks get plain arguments, so that the planner sees through them. The function is stable: all its queries see the
-- snapshot of the statement that calls it.

set local role rag_owner;

-- The selected passages in order of rank, with text and spans, as a packet and a decision show them.
create function rag_api._sources(
  p_selection rag.source_ref[],
  p_scores integer[],
  p_spans rag.span[]
)
  returns jsonb
  language sql
  stable
  parallel restricted
begin atomic
  select coalesce(jsonb_agg(jsonb_build_object(
    'position', r.i,
    'score', p_scores[r.i],
    'tenant', p.tenant,
    'document_id', p.document_id,
    'version', p.version,
    'range_start', p.range_start,
    'range_end', p.range_end,
    'heading_path', to_jsonb(p.heading_path),
    'title', v.title,
    'source', v.source,
    'text', p.text,
    'text_sha256', encode(p.text_sha256, 'hex'),
    'spans', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'span_id', s.span_id,
        'fact', s.fact,
        'range_start', s.range_start,
        'range_end', s.range_end,
        'quote', s.quote
      ) order by s.span_id collate "C"), '[]')
      from unnest(p_spans) as s
      where s.tenant = p.tenant
        and s.document_id = p.document_id
        and s.version = p.version
        and s.range_start >= p.range_start
        and s.range_start < p.range_end
    )
  ) order by r.i), '[]')
  from unnest(p_selection) with ordinality as r(tenant, document_id, version, range_start, range_end, i)
  join rag_api.passage p
    on p.tenant = r.tenant
    and p.document_id = r.document_id
    and p.version = r.version
    and p.range_start = r.range_start
    and p.range_end = r.range_end
  join rag.version v on v.tenant = p.tenant and v.document_id = p.document_id and v.version = p.version;
end;
revoke all on function rag_api._sources from public;
grant execute on function rag_api._sources to rag_reader;
comment on function rag_api._sources is 'Private: selected passages as JSON, in order of rank.';

-- Decides whether the evidence that a tenant may use is enough for a question.
--
-- `outcome`:
--   UnsupportedQuestion     no contract of this id; the corpus was not read and the other columns are null
--   AskForEvidence          `missing` lists the required facts without a witness, in contract order
--   NeedsDecision           every required fact has a witness, and the contract says that only a person can decide: the
--                           rule may be said (`contract`, key decision, says who decides), the decision may not
--   SufficientForTemplate   every required fact has a witness in the selected set
--
-- `case_facts` is the case in canonical form, each value a text, as its attribute's type has it.
-- `sources` is an array in order of rank: position, score, place, text, SHA-256 of the text, spans. `witnesses` is an
-- array in contract order: the span to cite for each covered fact, with its proposition's licensed clauses. `preimage`
-- is what `digest` is the SHA-256 of.
--
-- Null instants mean the start of the calling statement, not of its transaction: a long transaction does not decide on
-- what was current when it began.
--
-- Passages are ranked by p_method and p_parameters, else as the contract says, else by overlap; `method` and `parameters` say how.
--
-- Raises RS001; RS010 for a query without a word, a K outside 1 to 1,000, an instant or a ranking that is none; RS011 when the
-- case does not fit the contract; RS012 for an unknown version of the contract.
create function rag_api.decide(
  p_question_id text,
  p_query text,
  p_case_facts jsonb,
  p_k integer,
  p_contract_version integer default null,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null,
  p_method text default null,
  p_parameters jsonb default null
)
  returns table (
    outcome text,
    question_id text,
    contract_tenant text,
    contract_version integer,
    contract_sha256 bytea,
    contract jsonb,
    case_facts jsonb,
    query text,
    k integer,
    method text,
    parameters jsonb,
    valid_at timestamptz,
    known_at timestamptz,
    required text[],
    missing text[],
    sources jsonb,
    witnesses jsonb,
    preimage bytea,
    digest bytea
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_contract rag.contract;
  v_case_facts jsonb;
  v_selection rag.source_ref[];
  v_scores integer[];
  v_method text;
  v_parameters jsonb;
  v_valid_at constant timestamptz := coalesce(p_valid_at, statement_timestamp());
  v_known_at constant timestamptz := coalesce(p_known_at, statement_timestamp());
begin
  perform rag_api._check_instants(p_valid_at, p_known_at);
  select c.* into v_contract from rag_api._resolve_contract(p_question_id, p_contract_version, v_known_at) as c;
  if not found then
    outcome := 'UnsupportedQuestion';
    question_id := p_question_id;
    return next;
    return;
  end if;
  perform rag_api._check_request(p_query, p_k);
  v_case_facts := rag_api._case_facts(v_contract.content, p_case_facts, v_known_at);
  v_method := coalesce(p_method, v_contract.content -> 'ranking' ->> 'method', 'overlap');
  v_parameters := rag_api._request_parameters(v_contract.content, v_method, p_parameters);

  select
    coalesce(array_agg(
      (s.tenant, s.document_id, s.version, s.range_start, s.range_end)::rag.source_ref order by s.position), '{}'),
    coalesce(array_agg(s.score order by s.position), '{}')
  into v_selection, v_scores
  from rag_api.selection(p_query, v_case_facts, p_k, v_valid_at, v_known_at, v_method, v_parameters) as s;

  return query
  select
    case
      when cardinality(d.missing) > 0 then 'AskForEvidence'
      when v_contract.content ? 'decision' then 'NeedsDecision'
      else 'SufficientForTemplate'
    end,
    v_contract.question_id,
    v_contract.tenant,
    v_contract.version,
    v_contract.content_sha256,
    v_contract.content,
    v_case_facts,
    p_query,
    p_k,
    v_method,
    v_parameters,
    v_valid_at,
    v_known_at,
    array(select f ->> 'fact' from jsonb_array_elements(v_contract.content -> 'facts') with ordinality as t(f, i) order by i),
    d.missing,
    rag_api._sources(
      v_selection, v_scores, array(select s from rag_api._selected_spans(v_selection, v_known_at) as s)),
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'fact', w.fact,
        'tenant', w.tenant,
        'document_id', w.document_id,
        'version', w.version,
        'span_id', w.span_id,
        'quote', w.quote,
        'clauses', (
          select jsonb_agg(k.clause order by k.clause_position)
          from rag_api.clause k
          where k.tenant = v_contract.tenant
            and k.question_id = v_contract.question_id
            and k.version = v_contract.version
            and k.fact_position = w.fact_position
            and k.quote = w.quote
        )
      ) order by w.fact_position), '[]')
      from rag_api.witnesses(
        v_contract.tenant, v_contract.question_id, v_contract.version, v_selection, v_known_at) as w
      where w.rank = 1
    ),
    d.preimage,
    sha256(d.preimage)
  from (
    select
      array(
        select m.fact
        from rag_api.missing_facts(
          v_contract.tenant, v_contract.question_id, v_contract.version, v_selection, v_known_at) as m
        order by m.fact_position
      ) as missing,
      rag_api.evidence_preimage(
        v_contract.tenant, v_contract.question_id, v_contract.version, v_case_facts, v_selection, v_known_at
      ) as preimage
    offset 0  -- a fence: each is used more than once and must be computed once
  ) as d;
end;
$$;

revoke all on function rag_api.decide from public;
grant execute on function rag_api.decide to rag_reader;
comment on function rag_api.decide is
  'Decides whether the evidence the bound tenant may use is enough for a question. Reads only; record_packet stores.';

-- Why each visible passage was or was not selected for a question: rag_api.candidates, with the request checked against
-- the contract first (RS010, RS011, RS012). RS013 for an unsupported question.
create function rag_api.explain(
  p_question_id text,
  p_query text,
  p_case_facts jsonb,
  p_k integer,
  p_contract_version integer default null,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null,
  p_method text default null,
  p_parameters jsonb default null
)
  returns table (
    score integer,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    range_end integer,
    eligible boolean,
    eligible_position integer,
    selected boolean,
    reason text,
    attribute text,
    applies_to text[],
    case_value text,
    effective_version integer,
    successors text[]
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_contract rag.contract;
  v_case_facts jsonb;
  v_method text;
begin
  perform rag_api._check_instants(p_valid_at, p_known_at);
  v_contract := rag_api._required_contract(p_question_id, p_contract_version, p_known_at);
  perform rag_api._check_request(p_query, p_k);
  v_case_facts := rag_api._case_facts(v_contract.content, p_case_facts, p_known_at);
  v_method := coalesce(p_method, v_contract.content -> 'ranking' ->> 'method', 'overlap');
  return query
  select
    c.score, c.tenant, c.document_id, c.version, c.range_start, c.range_end, c.eligible, c.eligible_position, c.selected,
    c.reason, c.attribute, c.applies_to, c.case_value, c.effective_version, c.successors
  from rag_api.candidates(
    p_query, v_case_facts, p_k, p_valid_at, p_known_at,
    v_method, rag_api._request_parameters(v_contract.content, v_method, p_parameters)) as c
  order by c.score desc, c.document_id collate "C", c.tenant collate "C", c.version, c.range_start;
end;
$$;
revoke all on function rag_api.explain from public;
grant execute on function rag_api.explain to rag_reader;
comment on function rag_api.explain is 'Every visible passage for a question: score, eligibility, reason, place.';

reset role;
