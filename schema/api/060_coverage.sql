-- Coverage: a property of the selected set. Required facts minus facts with a witness in the set.
--
-- A witness is a span of selected passages whose quotation equals a curated proposition of the span's fact. The label
-- alone is nothing: text is edited and labels stay. Quotation and proposition are compared by bytes.

set local role rag_owner;

-- The spans of a selection, of those that had been recorded at p_known_at (null: now): every passage that a span touches
-- is selected. A span across two passages is none of either alone. Spans may be added to a version later; a decision made
-- before does not have them.
create function rag_api._selected_spans(
  p_selection rag.source_ref[],
  p_known_at timestamptz
)
  returns setof rag.span
  language sql
  stable
  parallel restricted
begin atomic
  select distinct on (s.tenant, s.document_id, s.version, s.span_id)
    s.tenant, s.document_id, s.version, s.span_id, s.fact, s.quote, s.occurrence, s.recorded_at, s.recorded_by,
    s.body_length, s.range_start, s.range_end
  from unnest(p_selection) as r
  join rag.span s
    on s.tenant = r.tenant
    and s.document_id = r.document_id
    and s.version = r.version
    and s.range_start >= r.range_start
    and s.range_start < r.range_end
  where s.recorded_at <= coalesce(p_known_at, statement_timestamp())
    -- Passages follow each other without a gap: it is enough that each one that begins inside the span is selected.
    and (s.range_end <= r.range_end or not exists (
      select
      from rag.passage p
      where p.tenant = s.tenant
        and p.document_id = s.document_id
        and p.version = s.version
        and p.range_start > s.range_start
        and p.range_start < s.range_end
        and not exists (
          select from unnest(p_selection) as o
          where (o.tenant, o.document_id, o.version, o.range_start) = (p.tenant, p.document_id, p.version, p.range_start)
        )
    ));
end;
revoke all on function rag_api._selected_spans from public;
grant execute on function rag_api._selected_spans to rag_reader;
comment on function rag_api._selected_spans is 'Private: the spans of a selection: all passages that they touch are selected.';

-- Witnesses in a selection, by fact in contract order; `rank` 1 is the one that is cited: first by document id, then
-- span id, then visibility and version, by bytes.
create function rag_api.witnesses(
  p_contract_tenant text,
  p_question_id text,
  p_contract_version integer,
  p_selection rag.source_ref[],
  p_known_at timestamptz default null
)
  returns table (
    fact_position integer,
    fact text,
    rank integer,
    tenant text,
    document_id text,
    version integer,
    span_id text,
    quote text
  )
  language sql
  stable
  parallel restricted
begin atomic
  select
    p.fact_position,
    p.fact,
    row_number() over (partition by p.fact_position 
      order by s.document_id collate "C", s.span_id collate "C", s.tenant collate "C", s.version)::integer,
    s.tenant,
    s.document_id,
    s.version,
    s.span_id,
    s.quote
  from rag_api._selected_spans(p_selection, p_known_at) as s
  join rag_api.proposition p on p.fact = s.fact and p.quote = s.quote
  where p.tenant = p_contract_tenant
    and p.question_id = p_question_id
    and p.version = p_contract_version
  order by 1, 3;
end;
revoke all on function rag_api.witnesses from public;
grant execute on function rag_api.witnesses to rag_reader;
comment on function rag_api.witnesses is
  'Spans of a selection whose quotation equals a proposition of their fact; rank 1 is the one that is cited.';

-- Facts of a contract that nothing in a selection witnesses, in contract order; empty when coverage is complete. The
-- contract must be one that the caller sees (decide has resolved it): another has no facts, so none would be missing.
create function rag_api.missing_facts(
  p_contract_tenant text,
  p_question_id text,
  p_contract_version integer,
  p_selection rag.source_ref[],
  p_known_at timestamptz default null
)
  returns table (fact_position integer, fact text)
  language sql
  stable
  parallel restricted
begin atomic
  select p.fact_position, p.fact
  from rag_api.proposition p
  where p.tenant = p_contract_tenant
    and p.question_id = p_question_id
    and p.version = p_contract_version
    and p.proposition_position = 1
    and not exists (
      select
      from rag_api.witnesses(
        p_contract_tenant, p_question_id, p_contract_version, p_selection, p_known_at) as w
      where w.fact_position = p.fact_position
    )
  order by 1;
end;
revoke all on function rag_api.missing_facts from public;
grant execute on function rag_api.missing_facts to rag_reader;
comment on function rag_api.missing_facts is 'Required facts that no span of a selection witnesses, in contract order.';

-- What covers each fact, whatever the case and the ranking: for the contract that each question gets now, a row for each
-- span of a current version that quotes a proposition of the fact, and one row with nulls for a fact that nothing
-- covers. A decision can miss a fact that is covered here, since it sees only what is eligible and selected; it cannot
-- find one that is not.
--
-- Propositions are laid out once and joined by hash: nothing is known in advance about how many there are in a contract.
create view rag_api.fact_coverage with (security_invoker = true) as
  with proposition as materialized (
    select p.tenant, p.question_id, p.version, p.fact_position, p.fact, p.proposition_position, p.quote
    from rag_api.contract c
    join rag_api.proposition p on p.tenant = c.tenant and p.question_id = c.question_id and p.version = c.version
    where c.is_in_force
  )
  select
    f.question_id,
    f.tenant as contract_tenant,
    f.version as contract_version,
    f.fact_position,
    f.fact,
    w.span_id is not null as is_covered,
    w.tenant,
    w.document_id,
    w.version,
    w.span_id,
    w.applies_to,
    w.quote
  from proposition f
  left join (
    select p.question_id, p.fact_position, s.tenant, s.document_id, s.version, s.span_id, v.applies_to, s.quote
    from proposition p
    join rag.span s on s.fact = p.fact and s.quote = p.quote
    join rag_api.version_status() as v on v.tenant = s.tenant and v.document_id = s.document_id and v.version = s.version
    where v.status = 'current'
  ) as w on w.question_id = f.question_id and w.fact_position = f.fact_position
  where f.proposition_position = 1
  order by
    f.question_id collate "C", f.fact_position, w.document_id collate "C", w.span_id collate "C", w.tenant collate "C";
grant select on rag_api.fact_coverage to rag_reader;
comment on view rag_api.fact_coverage is
  'Facts of the contracts in force, with the spans of current versions that cover them; nulls where nothing does.';

reset role;
