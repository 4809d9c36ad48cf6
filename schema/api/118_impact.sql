-- What a change touches: documents, spans, coverage of facts, packets and approvals, between two instants of knowledge.
--
-- "Before" is what had been recorded by the first instant, "after" by the second, and both are asked for the same instant
-- of validity: what time alone brings about, such as a scheduled version that takes effect, is no change. So the same
-- functions say what a load has changed, after it, and what it would change, within a transaction that is rolled back.
--
-- They read, and copy no rule: which version is current is asked of version_status, and whether an approval's evidence is
-- the same of the functions by which require_approval decides again. What committed after the first instant but began
-- before it counts as known by then, as everywhere (recorded_at).
--
--   document_impact    documents whose current version is another, or none, or which have one that is scheduled
--   span_impact        what became of the quotations of versions that are not current any more
--   coverage_impact    facts that lost or gained a witness, for what it applies to, and whether any is left
--   packet_impact      packets for which another decision is made now, with the approvals that go stale
--   impact             all of it in one row
--   carriable_spans    which spans of a replaced version can be added to the one that replaced it, and what stops others

set local role rag_owner;

-- The instants in full. Without p_since: before and after what this transaction has recorded, from the microsecond before it
-- began to its beginning, so that what others record meanwhile is left out. RS010 for instants that are none.
create function rag_api._impact_instants(
  p_since timestamptz,
  p_until timestamptz,
  p_valid_at timestamptz
)
  returns table (since timestamptz, until timestamptz, valid_at timestamptz)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  since := coalesce(p_since, now() - interval '1 microsecond');
  until := coalesce(p_until, case when p_since is null then now() else statement_timestamp() end);
  valid_at := coalesce(p_valid_at, until);
  perform rag_api._check_instants(valid_at, since);
  perform rag_api._check_instants(valid_at, until);
  if since > until then
    raise exception using
      errcode = 'RS010',
      message = 'the first instant lies after the second';
  end if;
  return next;
end;
$$;
revoke all on function rag_api._impact_instants from public;
grant execute on function rag_api._impact_instants to rag_reader;
comment on function rag_api._impact_instants is 'Private: the instants that impact compares, in full; RS010.';

-- The current version of each visible document before and after; null where none is.
create function rag_api._versions_of_two_instants(
  p_since timestamptz,
  p_until timestamptz,
  p_valid_at timestamptz
)
  returns table (tenant text, document_id text, was_version integer, new_version integer)
  language sql
  stable
  parallel restricted
begin atomic
  select coalesce(b.tenant, a.tenant), coalesce(b.document_id, a.document_id), b.version, a.version
  from (
    select v.tenant, v.document_id, v.version
    from rag_api.version_status(p_valid_at, p_since) as v
    where v.status = 'current'
  ) as b
  full join (
    select v.tenant, v.document_id, v.version
    from rag_api.version_status(p_valid_at, p_until) as v
    where v.status = 'current'
  ) as a on a.tenant = b.tenant and a.document_id = b.document_id;
end;
revoke all on function rag_api._versions_of_two_instants from public;
grant execute on function rag_api._versions_of_two_instants to rag_reader;
comment on function rag_api._versions_of_two_instants is 'Private: the current version of each visible document at two instants of knowledge.';

-- Documents whose current version is another than before, or which have a version that takes effect later and was recorded
-- in between (the next one, where there are several): ask for that instant what it will touch. RS010.
create function rag_api.document_impact(
  p_since timestamptz default null,
  p_until timestamptz default null,
  p_valid_at timestamptz default null
)
  returns table (
    tenant text,
    document_id text,
    was_version integer,
    new_version integer,
    scheduled_version integer,
    scheduled_from timestamptz
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_at record;
begin
  select i.since, i.until, i.valid_at into v_at from rag_api._impact_instants(p_since, p_until, p_valid_at) as i;
  return query
  with scheduled as materialized (
    select distinct on (s.tenant, s.document_id) s.tenant, s.document_id, s.version, v.effective_from
    from rag_api.version_status(v_at.valid_at, v_at.until) as s
    join rag.version v on v.tenant = s.tenant and v.document_id = s.document_id and v.version = s.version
    where s.status = 'scheduled' and v.recorded_at > v_at.since
    order by s.tenant, s.document_id, v.effective_from, v.version
  )
  select
    coalesce(c.tenant, s.tenant), coalesce(c.document_id, s.document_id), c.was_version, c.new_version, s.version,
    s.effective_from
  from rag_api._versions_of_two_instants(v_at.since, v_at.until, v_at.valid_at) as c
  full join scheduled s on s.tenant = c.tenant and s.document_id = c.document_id
  where s.version is not null or c.was_version is distinct from c.new_version
  order by coalesce(c.document_id, s.document_id) collate "C", coalesce(c.tenant, s.tenant) collate "C";
end;
$$;
revoke all on function rag_api.document_impact from public;
grant execute on function rag_api.document_impact to rag_reader;
comment on function rag_api.document_impact is
  'Documents whose current version is another than at an earlier instant of knowledge, or which have one that takes effect later.';

-- What became of each span of a version that was current and is not any more. RS010.
--   exact   the quotation stands at the same place in the version that is current now
--   moved   it stands elsewhere there
--   gone    it does not, or the document has no current version
-- For what is gone `suggestion` is the passage that comes nearest, of the document's current version, or of any where it has
-- none: for people to look at, it licenses nothing. A quotation that survives is evidence again only when the new version has
-- a span of it (`is_curated`).
create function rag_api.span_impact(
  p_since timestamptz default null,
  p_until timestamptz default null,
  p_valid_at timestamptz default null
)
  returns table (
    tenant text,
    document_id text,
    version integer,
    span_id text,
    fact text,
    quote text,
    range_start integer,
    survival text,
    new_version integer,
    new_range_start integer,
    is_curated boolean,
    suggestion jsonb
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_at record;
begin
  select i.since, i.until, i.valid_at into v_at from rag_api._impact_instants(p_since, p_until, p_valid_at) as i;
  return query
  with replaced as materialized (
    select c.tenant, c.document_id, c.was_version, c.new_version
    from rag_api._versions_of_two_instants(v_at.since, v_at.until, v_at.valid_at) as c
    where c.was_version is distinct from c.new_version
  ), located as materialized (
    select
      s.tenant, s.document_id, s.version, s.span_id, s.fact, s.quote, s.range_start, r.new_version,
      case
        when substr(v.body, s.range_start + 1, char_length(s.quote)) collate "C" = s.quote then s.range_start
        else coalesce(rag.locate(v.body, s.quote, s.occurrence), rag.locate(v.body, s.quote, 1))
      end as new_range_start
    from replaced r
    join rag.span s on s.tenant = r.tenant and s.document_id = r.document_id and s.version = r.was_version
    left join rag.version v on v.tenant = r.tenant and v.document_id = r.document_id and v.version = r.new_version
    where s.recorded_at <= v_at.until
  )
  select
    l.tenant, l.document_id, l.version, l.span_id, l.fact, l.quote, l.range_start,
    case
      when l.new_range_start is null then 'gone'
      when l.new_range_start = l.range_start then 'exact'
      else 'moved'
    end,
    l.new_version,
    l.new_range_start,
    exists (
      select from rag.span o
      where o.tenant = l.tenant
        and o.document_id = l.document_id
        and o.version = l.new_version
        and o.fact = l.fact
        and o.quote = l.quote
        and o.recorded_at <= v_at.until
    ),
    (
      select to_jsonb(n)
      from rag_api._nearest_passages(
        l.quote, 1, l.tenant, l.document_id, l.new_version, v_at.valid_at, v_at.until) as n
      where l.new_range_start is null
    )
  from located l
  order by l.document_id collate "C", l.tenant collate "C", l.range_start, l.span_id collate "C";
end;
$$;
revoke all on function rag_api.span_impact from public;
grant execute on function rag_api.span_impact to rag_reader;
comment on function rag_api.span_impact is
  'What became of the quotations of versions that are not current any more: exact, moved or gone; a suggestion licenses nothing.';

-- The facts that lost or gained a witness, of the contracts in force after the change: a row for each proposition, document
-- and applies_to with which a current version witnesses it now and did not before, or did and does not. A document whose new
-- version has the same quotation, curated and for the same cases, is in no row. RS010.
create function rag_api.coverage_impact(
  p_since timestamptz default null,
  p_until timestamptz default null,
  p_valid_at timestamptz default null
)
  returns table (
    question_id text,
    contract_tenant text,
    contract_version integer,
    fact_position integer,
    fact text,
    quote text,
    change text,
    tenant text,
    document_id text,
    version integer,
    applies_to jsonb,
    is_covered boolean
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_at record;
begin
  select i.since, i.until, i.valid_at into v_at from rag_api._impact_instants(p_since, p_until, p_valid_at) as i;
  return query
  with in_force as materialized (
    select distinct on (c.question_id) c.question_id, c.tenant, c.version
    from rag.contract c
    where c.recorded_at <= v_at.until
    order by c.question_id, c.tenant = 'public', c.version desc
  ), proposition as materialized (
    select p.question_id, p.tenant, p.version, p.fact_position, p.fact, p.quote
    from in_force f
    join rag_api.proposition p on p.tenant = f.tenant and p.question_id = f.question_id and p.version = f.version
  ), present as materialized (
    select c.tenant, c.document_id, c.was_version, c.new_version
    from rag_api._versions_of_two_instants(v_at.since, v_at.until, v_at.valid_at) as c
  ), touched as materialized (
    select c.tenant, c.document_id, c.was_version, c.new_version
    from present c
    where c.was_version is distinct from c.new_version
      or exists (
        select from rag.span s
        where s.tenant = c.tenant
          and s.document_id = c.document_id
          and s.version = c.new_version
          and s.recorded_at > v_at.since
          and s.recorded_at <= v_at.until
      )
  ), witness as materialized (
    select distinct p.question_id, p.fact_position, p.quote, s.tenant, s.document_id, w.is_after, s.version, v.applies_to
    from touched t
    cross join lateral (values (t.was_version, v_at.since, false), (t.new_version, v_at.until, true))
      as w(version, known_at, is_after)
    join rag.span s on s.tenant = t.tenant and s.document_id = t.document_id and s.version = w.version
    join proposition p on p.fact = s.fact and p.quote = s.quote
    join rag.version v on v.tenant = s.tenant and v.document_id = s.document_id and v.version = s.version
    where s.recorded_at <= w.known_at
  ), changed as materialized (
    select w.question_id, w.fact_position, w.quote, w.tenant, w.document_id, w.is_after, w.version, w.applies_to
    from witness w
    where not exists (
      select from witness o
      where (o.question_id, o.fact_position, o.quote, o.tenant, o.document_id, o.applies_to)
          = (w.question_id, w.fact_position, w.quote, w.tenant, w.document_id, w.applies_to)
        and o.is_after <> w.is_after
    )
  ), covered as materialized (
    select distinct p.question_id, p.fact_position
    from proposition p
    join rag.span s on s.fact = p.fact and s.quote = p.quote
    join present c on c.tenant = s.tenant and c.document_id = s.document_id and c.new_version = s.version
    where s.recorded_at <= v_at.until
      and (p.question_id, p.fact_position) in (select w.question_id, w.fact_position from changed w)
  )
  select
    w.question_id, p.tenant, p.version, w.fact_position, p.fact, w.quote,
    case when w.is_after then 'gained' else 'lost' end,
    w.tenant, w.document_id, w.version, w.applies_to,
    (w.question_id, w.fact_position) in (select c.question_id, c.fact_position from covered c)
  from changed w
  join proposition p on p.question_id = w.question_id and p.fact_position = w.fact_position and p.quote = w.quote
  order by
    w.question_id collate "C", w.fact_position, w.document_id collate "C", w.tenant collate "C", w.is_after,
    w.quote collate "C";
end;
$$;
revoke all on function rag_api.coverage_impact from public;
grant execute on function rag_api.coverage_impact to rag_reader;
comment on function rag_api.coverage_impact is
  'Facts of the contracts in force that lost or gained a witness, for what it applies to, and whether any witness is left.';

-- Packets of the bound tenant for which another decision is made after the change than before: by evidence, outcome, or
-- because the request cannot be decided any more. RS010.
--   turns_stale   its evidence was the same before and is not now: the approvals in `approvals` go stale with it
--   holds_again   the other way round: those approvals may be used again
--   differs       it did not hold before and does not now: facts were missing, or it was stale already
-- Each request is decided twice, however many packets have it. A packet that rests on a version which was not current
-- before is stale and stays it, so nothing is decided for it: what is replaced does not come back. Of one that was recorded
-- in between, "before" is its own instant.
create function rag_api.packet_impact(
  p_since timestamptz default null,
  p_until timestamptz default null,
  p_valid_at timestamptz default null
)
  returns table (
    packet_id uuid,
    question_id text,
    case_facts jsonb,
    query text,
    effect text,
    was_outcome text,
    new_outcome text,
    missing text[],
    changes text[],
    approvals jsonb
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_tenant constant text := rag_auth.tenant();
  v_at record;
begin
  select i.since, i.until, i.valid_at into v_at from rag_api._impact_instants(p_since, p_until, p_valid_at) as i;
  return query
  with replaced as materialized (
    select v.tenant, v.document_id, v.version
    from rag_api.version_status(v_at.valid_at, v_at.since) as v
    where v.status <> 'current'
  ), live as materialized (
    select
      p as packet, b.since,
      dense_rank() over (
        order by
          p.question_id, case when p.contract_pinned then p.contract_version end, p.case_facts, p.query, p.k, p.method,
          p.parameters, b.since
      ) as request
    from rag.packet p
    cross join lateral (
      select case
        when p.recorded_at <= v_at.since then v_at.since
        else least(greatest(v_at.since, p.known_at), v_at.until)
      end as since
    ) as b
    where p.tenant = v_tenant
      and p.recorded_at <= v_at.until
      and (p.recorded_at > v_at.since or not exists (
        select
        from rag.packet_source s
        join replaced r on r.tenant = s.document_tenant and r.document_id = s.document_id and r.version = s.version
        where s.tenant = p.tenant and s.packet_id = p.packet_id
      ))
  ), decided as materialized (
    select
      r.request, b.outcome as was_outcome, b.digest as was_digest, a.outcome as new_outcome, a.digest as new_digest, a.missing,
      (b.outcome, b.digest, b.problem) is distinct from (a.outcome, a.digest, a.problem) as differs
    from (select distinct on (l.request) l.request, l.packet, l.since from live l order by l.request) as r
    cross join lateral rag_api._decided_again(r.packet, v_at.valid_at, r.since) as b
    cross join lateral rag_api._decided_again(r.packet, v_at.valid_at, v_at.until) as a
  ), touched as materialized (
    select
      l.packet, d.was_outcome, d.new_outcome, d.missing,
      rag_api._holds(l.packet, d.was_outcome, d.was_digest) as held,
      rag_api._holds(l.packet, d.new_outcome, d.new_digest) as holds
    from live l
    join decided d on d.request = l.request
    where d.differs
  )
  select
    (t.packet).packet_id, (t.packet).question_id, (t.packet).case_facts, (t.packet).query,
    case when t.held then 'turns_stale' when t.holds then 'holds_again' else 'differs' end,
    t.was_outcome, t.new_outcome, t.missing,
    array(
      select format('%s: %s -> %s', c.subject, c.was, c.is_now)
      from rag_api._evidence_changes((t.packet).packet_id, v_at.valid_at, v_at.until) as c
      where t.held
    ),
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'draft_digest', encode(a.draft_digest, 'hex'),
        'decision_number', a.decision_number,
        'reviewer', coalesce(a.reviewer_name, a.reviewer_login),
        'recorded_at', rag_api._utc(a.recorded_at)
      ) order by a.recorded_at, a.draft_digest), '[]')
      from (
        select distinct on (o.draft_digest)
          o.draft_digest, o.decision_number, o.decision, o.reviewer_name, o.reviewer_login, o.recorded_at
        from rag.approval o
        where o.tenant = v_tenant and o.evidence_digest = (t.packet).digest and o.recorded_at <= v_at.until
        order by o.draft_digest, o.decision_number desc
      ) as a
      where a.decision = 'approved' and (t.held or t.holds)
    )
  from touched t
  order by t.held desc, t.holds desc, (t.packet).recorded_at, (t.packet).packet_id;
end;
$$;
revoke all on function rag_api.packet_impact from public;
grant execute on function rag_api.packet_impact to rag_reader;
comment on function rag_api.packet_impact is
  'Packets for which another decision is made than at an earlier instant of knowledge, and the approvals that go stale with them.';

-- All of it in one row, from one snapshot: arrays of the rows that the functions above return. Without p_since it says what
-- this transaction has changed, so that a load can be looked at before it is committed, or rolled back. RS010.
create function rag_api.impact(
  p_since timestamptz default null,
  p_until timestamptz default null,
  p_valid_at timestamptz default null
)
  returns table (
    since timestamptz,
    until timestamptz,
    valid_at timestamptz,
    documents jsonb,
    spans jsonb,
    facts jsonb,
    packets jsonb
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  return query
  select
    i.since, i.until, i.valid_at,
    (
      select coalesce(jsonb_agg(to_jsonb(d) - 'n' order by d.n), '[]')
      from rag_api.document_impact(i.since, i.until, i.valid_at) with ordinality as d(
        tenant, document_id, was_version, new_version, scheduled_version, scheduled_from, n)
    ),
    (
      select coalesce(jsonb_agg(to_jsonb(s) - 'n' order by s.n), '[]')
      from rag_api.span_impact(i.since, i.until, i.valid_at) with ordinality as s(
        tenant, document_id, version, span_id, fact, quote, range_start, survival, new_version, new_range_start,
        is_curated, suggestion, n)
    ),
    (
      select coalesce(jsonb_agg(to_jsonb(f) - 'n' order by f.n), '[]')
      from rag_api.coverage_impact(i.since, i.until, i.valid_at) with ordinality as f(
        question_id, contract_tenant, contract_version, fact_position, fact, quote, change, tenant, document_id, version,
        applies_to, is_covered, n)
    ),
    (
      select coalesce(jsonb_agg(to_jsonb(p) - 'n' order by p.n), '[]')
      from rag_api.packet_impact(i.since, i.until, i.valid_at) with ordinality as p(
        packet_id, question_id, case_facts, query, effect, was_outcome, new_outcome, missing, changes, approvals, n)
    )
  from rag_api._impact_instants(p_since, p_until, p_valid_at) as i;
end;
$$;
revoke all on function rag_api.impact from public;
grant execute on function rag_api.impact to rag_reader;
comment on function rag_api.impact is
  'What changed for the bound tenant between two instants of knowledge: documents, spans, facts, packets with their approvals.';

-- The spans of versions of the bound tenant that were replaced, and that the current version does not have yet: of each
-- document the newest version before the current one that has spans, so that a version nobody curated hides nothing. Of the
-- documents named (RS022 for one that the tenant does not have), or of all. A span that the current version has, by its
-- fact and quotation at that place, is in no row; nor is one that is gone and whose id a person has given to another there.
--
-- `obstacle` is null where add_spans takes it as it is: the quotation stands there once, or as often as before and the span
-- says which. Otherwise a person has to look:
--   gone              the quotation does not stand there; `suggestion` is what comes nearest, and licenses nothing
--   ambiguous         it stands there more than once, or more or less often than before: which is meant is not known
--   span_id_taken     a span with this id and other content is there
--   cuts_character    it begins or ends inside a character there
create function rag_api.carriable_spans(
  p_document_ids text[] default null
)
  returns table (
    document_id text,
    version integer,
    span_id text,
    fact text,
    quote text,
    occurrence integer,
    new_version integer,
    obstacle text,
    suggestion jsonb
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_unknown text;
begin
  select d.id into v_unknown
  from unnest(p_document_ids) as d(id)
  where not exists (select from rag.version v where v.tenant = v_tenant and v.document_id = d.id)
  order by d.id collate "C"
  limit 1;
  if found then
    raise exception using errcode = 'RS022', message = format('no document "%s"', v_unknown);
  end if;

  return query
  with present as materialized (
    select s.document_id, s.version, v.effective_from
    from rag_api.version_status() as s
    join rag.version v on v.tenant = s.tenant and v.document_id = s.document_id and v.version = s.version
    where s.tenant = v_tenant
      and s.status = 'current'
      and (p_document_ids is null or s.document_id = any (p_document_ids))
  ), replaced as materialized (
    select c.document_id, o.version, c.version as new_version
    from present c
    cross join lateral (
      select v.version
      from rag.version v
      where v.tenant = v_tenant
        and v.document_id = c.document_id
        and (v.effective_from, v.version) < (c.effective_from, c.version)
        and exists (
          select from rag.span s
          where s.tenant = v.tenant and s.document_id = v.document_id and s.version = v.version
        )
      order by v.effective_from desc, v.version desc
      limit 1
    ) as o
  ), located as materialized (
    select
      s.document_id, s.version, s.span_id, s.fact, s.quote, s.occurrence, s.range_start as was_range_start, r.new_version,
      n.body,
      rag.locate(n.body, s.quote, 1) is not null as stands_there,
      -- As often as before: without an occurrence that is once. Counted side by side, which overlaps change in both alike.
      case
        when s.occurrence is null then rag.locate(n.body, s.quote, 2) is null
        else cardinality(string_to_array(n.body, s.quote)) = cardinality(string_to_array(o.body, s.quote))
      end as as_often,
      rag.locate(n.body, s.quote, coalesce(s.occurrence, 1)) as range_start
    from replaced r
    join rag.span s on s.tenant = v_tenant and s.document_id = r.document_id and s.version = r.version
    join rag.version o on o.tenant = v_tenant and o.document_id = r.document_id and o.version = r.version
    join rag.version n on n.tenant = v_tenant and n.document_id = r.document_id and n.version = r.new_version
  ), judged as materialized (
    select
      l.document_id, l.version, l.span_id, l.fact, l.quote, l.occurrence, l.was_range_start, l.new_version,
      case
        when not l.stands_there then 'gone'
        when not l.as_often or l.range_start is null then 'ambiguous'
        when rag.cuts_character(
            case when l.range_start > 0 then substr(l.body, l.range_start, 1) else '' end, left(l.quote, 1))
          or rag.cuts_character(
            right(l.quote, 1), substr(l.body, l.range_start + char_length(l.quote) + 1, 1))
          then 'cuts_character'
        when t.span_id is not null then 'span_id_taken'
      end as obstacle
    from located l
    left join rag.span t
      on t.tenant = v_tenant
      and t.document_id = l.document_id
      and t.version = l.new_version
      and t.span_id = l.span_id
    where not (t.span_id is not null and not l.stands_there)
      and not exists (
        select from rag.span h
        where h.tenant = v_tenant
          and h.document_id = l.document_id
          and h.version = l.new_version
          and h.fact = l.fact
          and h.quote = l.quote
          and (h.range_start = l.range_start or h.span_id = l.span_id)
      )
  )
  select
    j.document_id, j.version, j.span_id, j.fact, j.quote, j.occurrence, j.new_version, j.obstacle,
    (
      select to_jsonb(n)
      from rag_api._nearest_passages(j.quote, 1, v_tenant, j.document_id, j.new_version, null, null) as n
      where j.obstacle = 'gone'
    )
  from judged j
  order by j.document_id collate "C", j.was_range_start, j.span_id collate "C";
end;
$$;
revoke all on function rag_api.carriable_spans from public;
grant execute on function rag_api.carriable_spans to rag_curator, rag_publisher;
comment on function rag_api.carriable_spans is
  'Spans of replaced versions that the current version does not have yet: what add_spans takes as it is, and what stops others.';

reset role;
