-- Context: what is handed to a model, assembled from a packet's passages and recorded passage by passage.
--
-- The order in which passages are placed: those that witness a required fact, in contract order; the other selected ones,
-- by rank; then neighbours of both. A passage with the same bytes under the same headings as one before it is left out,
-- unless it is a witness. What is handed over is the longest beginning of that order that fits the budget: neighbours go first, witnesses last. Then
-- coverage is computed again: an exception that was lost to the budget is missing.

set local role rag_owner;

-- What becomes of each passage of a packet, in the order in which they are placed. `label` is P1, P2, ... for what is handed
-- over, else null, and `left_out` says why: duplicate or over_budget. `tokens` are those of the text and of the headings
-- above it. p_neighbours says how many passages before and after a selected one are added.
create function rag_api._context(
  p_tenant text,
  p_packet_id uuid,
  p_budget integer,
  p_neighbours integer
)
  returns table (
    "position" integer,
    label text,
    added_as text,
    left_out text,
    tokens integer,
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
  with selected as materialized (
    select s.position, s.document_tenant as tenant, s.document_id, s.version, s.range_start, s.range_end, p.text_sha256
    from rag.packet_source s
    join rag.passage p
      on p.tenant = s.document_tenant
      and p.document_id = s.document_id
      and p.version = s.version
      and p.range_start = s.range_start
    where s.tenant = p_tenant and s.packet_id = p_packet_id
  ), witness as (
    -- The span that is cited for each covered fact, as rag_api.witnesses ranks them, on the packet's own spans.
    select distinct on (o.fact_position) o.fact_position, s.tenant, s.document_id, s.version, s.range_start, s.range_end
    from rag.packet k
    join rag_api.proposition o
      on o.tenant = k.contract_tenant and o.question_id = k.question_id and o.version = k.contract_version
    join rag_api._packet_spans(p_tenant, p_packet_id) as s on s.fact = o.fact and s.quote = o.quote
    where k.tenant = p_tenant and k.packet_id = p_packet_id
    order by
      o.fact_position, s.document_id collate "C", s.span_id collate "C", s.tenant collate "C", s.version
  ), ranked as (
    -- A witness across passages needs all of them.
    select s.*, w.fact_position
    from selected s
    left join lateral (
      select min(w.fact_position) as fact_position
      from witness w
      where w.tenant = s.tenant
        and w.document_id = s.document_id
        and w.version = s.version
        and w.range_start < s.range_end
        and w.range_end > s.range_start
    ) as w on true
  ), neighbour as (
    select distinct on (n.tenant, n.document_id, n.version, n.range_start)
      n.tenant, n.document_id, n.version, n.range_start, n.range_end, n.text_sha256,
      r.fact_position, r.position, abs(n.number - r.number) as distance
    from (
      select r.*, n.number
      from ranked r
      join lateral (
        select count(*) as number
        from rag.passage p
        where (p.tenant, p.document_id, p.version) = (r.tenant, r.document_id, r.version) and p.range_start <= r.range_start
      ) as n on true
    ) as r
    join lateral (
      select
        p.tenant, p.document_id, p.version, p.range_start, p.range_end, p.text_sha256,
        row_number() over (order by p.range_start) as number
      from rag.passage p
      where (p.tenant, p.document_id, p.version) = (r.tenant, r.document_id, r.version)
    ) as n on n.number between r.number - p_neighbours and r.number + p_neighbours and n.number <> r.number
    where not exists (
      select from selected s
      where (s.tenant, s.document_id, s.version, s.range_start) = (n.tenant, n.document_id, n.version, n.range_start)
    )
    order by
      n.tenant, n.document_id, n.version, n.range_start, r.fact_position nulls last, r.position, abs(n.number - r.number)
  ), placed as (
    select
      row_number() over (
        order by
          a.added_as = 'neighbour', a.fact_position nulls last, a.position, a.distance,
          a.document_id collate "C", a.tenant collate "C", a.version, a.range_start
      )::integer as place,
      a.added_as, a.tenant, a.document_id, a.version, a.range_start, a.range_end, a.text_sha256
    from (
      select
        case when r.fact_position is null then 'selected' else 'witness' end as added_as,
        r.tenant, r.document_id, r.version, r.range_start, r.range_end, r.text_sha256, r.fact_position, r.position,
        0 as distance
      from ranked r
      union all
      select
        'neighbour', n.tenant, n.document_id, n.version, n.range_start, n.range_end, n.text_sha256, n.fact_position,
        n.position, n.distance
      from neighbour n
    ) as a
  ), weighed as (
    select
      d.place, d.added_as, d.tenant, d.document_id, d.version, d.range_start, d.range_end, d.is_duplicate, d.tokens,
      sum(case when d.is_duplicate then 0 else d.tokens end) over (order by d.place) as total
    from (
      select
        a.*,
        p.tokens + rag.count_tokens(array_to_string(p.heading_path, ' ')) as tokens,
        a.added_as <> 'witness'
          and row_number() over (
            partition by a.text_sha256, p.heading_path order by a.place
          ) > 1 as is_duplicate
      from placed a
      join rag_api.passage p
        on p.tenant = a.tenant and p.document_id = a.document_id and p.version = a.version and p.range_start = a.range_start
    ) as d
  )
  select
    w.place,
    case when not w.is_duplicate and w.total <= p_budget
      then 'P' || count(*) filter (where not w.is_duplicate and w.total <= p_budget) over (order by w.place) end,
    w.added_as,
    case when w.is_duplicate then 'duplicate' when w.total > p_budget then 'over_budget' end,
    w.tokens,
    w.tenant,
    w.document_id,
    w.version,
    w.range_start,
    w.range_end
  from weighed w
  order by w.place;
end;
revoke all on function rag_api._context from public;
grant execute on function rag_api._context to rag_reader;
comment on function rag_api._context is 'Private: what becomes of each passage of a packet on the way into the context.';

-- The outcome on what is handed over: required facts that no span of a packet witnesses whose passages are all there.
create function rag_api._missing_in_context(
  p_tenant text,
  p_packet_id uuid,
  p_context rag.source_ref[]
)
  returns text[]
  language sql
  stable
  parallel restricted
begin atomic
  -- Null for a packet that is not there to be seen, which has nothing that could be missing.
  select array(
    select f.fact
    from unnest(k.required) with ordinality as f(fact, i)
    where not exists (
      select
      from rag_api._packet_spans(p_tenant, p_packet_id) as s
      join rag_api.proposition o
        on o.tenant = k.contract_tenant and o.question_id = k.question_id and o.version = k.contract_version
        and o.fact = s.fact and o.quote = s.quote
      where s.fact = f.fact
        and not exists (
          select from rag.passage p
          where p.tenant = s.tenant
            and p.document_id = s.document_id
            and p.version = s.version
            and p.range_start < s.range_end
            and p.range_end > s.range_start
            and not exists (
              select from unnest(p_context) as c
              where (c.tenant, c.document_id, c.version, c.range_start) = (p.tenant, p.document_id, p.version, p.range_start)
            )
        )
    )
    order by f.i
  )
  from rag.packet k
  where k.tenant = p_tenant and k.packet_id = p_packet_id;
end;
revoke all on function rag_api._missing_in_context from public;
grant execute on function rag_api._missing_in_context to rag_reader;
comment on function rag_api._missing_in_context is 'Private: required facts of a packet that nothing in a context witnesses.';

reset role;
