-- Ranking: how many distinct words of the query occur in a passage. Integers of overlap, not probabilities.
--
-- Ties end in document id, visibility, version, range start, by bytes, so an order never depends on how rows lie in a
-- table or on the locale of the database. A column that a function returns has lost the collation of the table's: an
-- order by one says collate "C" itself. Nothing is taken over the corpus (no document frequency, no lengths): what is
-- not eligible cannot move an eligible score (law 2).

set local role rag_owner;

-- Eligible passages with their scores, also those of score 0. The building block of selection: filter first, then rank.
create function rag_api.ranking(
  p_query text,
  p_case_facts jsonb,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (tenant text, document_id text, version integer, range_start integer, range_end integer, score integer)
  language sql
  stable
  parallel restricted
begin atomic
  select
    p.tenant,
    p.document_id,
    p.version,
    p.range_start,
    p.range_end,
    -- What is left of the passage's words when the query's are taken out, subtracted from all: one merge in C.
    length(p.words) - length(ts_delete(p.words, (select rag.words(p_query))))
  from rag_api.eligible(p_case_facts, p_valid_at, p_known_at) as e
  join rag_api.passage p on p.tenant = e.tenant and p.document_id = e.document_id and p.version = e.version;
end;
revoke all on function rag_api.ranking from public;
grant execute on function rag_api.ranking to rag_reader, rag_auditor;
comment on function rag_api.ranking is 'Score of every eligible passage: distinct words of the query that occur in it.';

-- The K best eligible passages with a score of at least 1: min(K, eligible matches) rows, always (law 1). None for a K
-- outside 1 to 1,000, which decide refuses.
create function rag_api.selection(
  p_query text,
  p_case_facts jsonb,
  p_k integer,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (
    "position" integer,
    score integer,
    tenant text,
    document_id text,
    version integer,
    range_start integer,
    range_end integer
  )
  language sql
  stable
  parallel restricted
begin atomic
  select
    row_number() over (order by s.score desc, s.document_id collate "C", s.tenant collate "C", s.version, s.range_start)::integer,
    s.score,
    s.tenant,
    s.document_id,
    s.version,
    s.range_start,
    s.range_end
  from (
    select r.tenant, r.document_id, r.version, r.range_start, r.range_end, r.score
    from rag_api.ranking(p_query, p_case_facts, p_valid_at, p_known_at) as r
    where r.score >= 1
    order by r.score desc, r.document_id collate "C", r.tenant collate "C", r.version, r.range_start
    limit case when p_k between 1 and 1000 then p_k else 0 end
  ) as s;
end;
revoke all on function rag_api.selection from public;
grant execute on function rag_api.selection to rag_reader;
comment on function rag_api.selection is 'The K best eligible passages with a score of at least 1, in order.';

-- Every visible passage with its score, eligible or not, and why: what a person looks at. Ineligible passages are shown
-- here and nowhere on the way to a decision.
create function rag_api.candidates(
  p_query text,
  p_case_facts jsonb,
  p_k integer,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
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
    effective_version integer
  )
  language sql
  stable
  parallel restricted
begin atomic
  select
    c.score,
    c.tenant,
    c.document_id,
    c.version,
    c.range_start,
    c.range_end,
    c.eligible,
    case when c.eligible then c.eligible_position end,
    coalesce(c.eligible and c.score >= 1 and c.eligible_position <= p_k, false),
    c.reason,
    c.attribute,
    c.applies_to,
    c.case_value,
    c.effective_version
  from (
    select
      s.*,
      row_number() over (
        partition by s.eligible
        order by s.score desc, s.document_id collate "C", s.tenant collate "C", s.version, s.range_start
      )::integer as eligible_position
    from (
      select
        length(p.words) - length(ts_delete(p.words, (select rag.words(p_query)))) as score,
        p.tenant,
        p.document_id,
        p.version,
        p.range_start,
        p.range_end,
        e.eligible,
        e.reason,
        e.attribute,
        e.applies_to,
        e.case_value,
        e.effective_version
      from rag_api.eligibility(p_case_facts, p_valid_at, p_known_at) as e
      join rag_api.passage p on p.tenant = e.tenant and p.document_id = e.document_id and p.version = e.version
    ) as s
  ) as c
  order by c.score desc, c.document_id collate "C", c.tenant collate "C", c.version, c.range_start;
end;
revoke all on function rag_api.candidates from public;
grant execute on function rag_api.candidates to rag_reader, rag_auditor;
comment on function rag_api.candidates is
  'Every visible passage with score, eligibility, reason and place: for people, never for a decision.';

-- For the auditor: the ranking over every tenant's passages, as a system would have it that ranks first and asks
-- questions later, with what a tenant may use of it. `position` is the place in that global order; "take K, then filter"
-- is `where position <= K and eligible`. A tenant cannot call this: it cannot see the others at all.
create function rag_api.global_ranking(
  p_tenant text,
  p_query text,
  p_case_facts jsonb,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (
    "position" integer,
    score integer,
    tenant text,
    document_id text,
    version integer,
    eligible boolean,
    reason text,
    attribute text,
    applies_to text[],
    case_value text
  )
  language sql
  stable
  parallel restricted
begin atomic
  select
    row_number() over (
      order by c.score desc, c.document_id collate "C", c.tenant collate "C", c.version, c.range_start
    )::integer,
    c.score,
    c.tenant,
    c.document_id,
    c.version,
    c.eligible and c.tenant in ('public', p_tenant),
    case when c.tenant in ('public', p_tenant) then c.reason else 'other_tenant' end,
    case when c.tenant in ('public', p_tenant) then c.attribute end,
    case when c.tenant in ('public', p_tenant) then c.applies_to end,
    case when c.tenant in ('public', p_tenant) then c.case_value end
  from rag_api.candidates(p_query, p_case_facts, 1, p_valid_at, p_known_at) as c
  order by 1;
end;
revoke all on function rag_api.global_ranking from public;
grant execute on function rag_api.global_ranking to rag_auditor;
comment on function rag_api.global_ranking is
  'Auditor: all tenants'' passages ranked together, with what one tenant may use of them.';

reset role;
