-- History: the line of a document's versions, and what each gained and lost.

set local role rag_owner;

-- The versions of the visible documents of an id (the bound tenant's, and public's), in the order in which they take effect:
-- effective_from, version. Beside each its status at an instant, from what had been recorded at another (null: now), since when it is withdrawn, which quotations for which facts it has
-- that the one before had not, and which it has no more; the same on every row of a document, what takes its place.
-- `spans_gained` and `spans_lost` are arrays of objects (fact, quote) in the order of their places; of the first version all
-- are gained. `successions` is an array of objects (successor_id, superseded_from, note, recorded_at, recorded_by), also of
-- those that are announced for later. RS022 when there is no such document by then, or it is another tenant's; RS010.
create function rag_api.history(
  p_document_id text,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (
    tenant text,
    document_id text,
    version integer,
    status text,
    effective_from timestamptz,
    recorded_at timestamptz,
    recorded_by text,
    withdrawn_from timestamptz,
    withdrawal_note text,
    successions jsonb,
    spans_gained jsonb,
    spans_lost jsonb,
    title text,
    body text
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_known_at constant timestamptz := coalesce(p_known_at, statement_timestamp());
begin
  perform rag_api._check_instants(p_valid_at, p_known_at);
  return query
  with line as materialized (
    select
      v.tenant, v.version, v.status, v.effective_from, v.recorded_at, v.recorded_by, v.title,
      lag(v.version) over (partition by v.tenant order by v.effective_from, v.version) as before
    from rag_api._versions(p_valid_at, p_known_at) as v
    where v.document_id = p_document_id
  ), span as materialized (
    select s.tenant, s.version, s.fact, s.quote, min(s.range_start) as range_start
    from rag.span s
    where s.document_id = p_document_id and s.recorded_at <= v_known_at
    group by s.tenant, s.version, s.fact, s.quote
  )
  select
    l.tenant, p_document_id, l.version, l.status, l.effective_from, l.recorded_at, l.recorded_by,
    w.withdrawn_from, w.note,
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'successor_id', n.successor_id,
        'superseded_from', rag_api._utc(n.superseded_from),
        'note', n.note,
        'recorded_at', rag_api._utc(n.recorded_at),
        'recorded_by', n.recorded_by
      ) order by n.superseded_from, n.successor_id), '[]')
      from rag.succession n
      where n.tenant = l.tenant and n.document_id = p_document_id and n.recorded_at <= v_known_at
    ),
    (
      select coalesce(jsonb_agg(jsonb_build_object('fact', s.fact, 'quote', s.quote) order by s.range_start, s.fact), '[]')
      from span s
      where s.tenant = l.tenant and s.version = l.version and not exists (
        select from span o where o.tenant = l.tenant and o.version = l.before and o.fact = s.fact and o.quote = s.quote
      )
    ),
    (
      select coalesce(jsonb_agg(jsonb_build_object('fact', s.fact, 'quote', s.quote) order by s.range_start, s.fact), '[]')
      from span s
      where s.tenant = l.tenant and s.version = l.before and not exists (
        select from span o where o.tenant = l.tenant and o.version = l.version and o.fact = s.fact and o.quote = s.quote
      )
    ),
    l.title, v.body
  from line l
  join rag.version v on v.tenant = l.tenant and v.document_id = p_document_id and v.version = l.version
  left join lateral (
    select o.withdrawn_from, o.note
    from rag.withdrawal o
    where o.tenant = l.tenant and o.document_id = p_document_id and o.version = l.version
      and o.recorded_at <= v_known_at
    order by o.withdrawn_from
    limit 1
  ) as w on true
  order by l.tenant = 'public', l.tenant collate "C", l.effective_from, l.version;
  if not found then
    raise exception using
      errcode = 'RS022',
      message = format('no document "%s"', p_document_id),
      hint = 'Documents: select document_id, title from rag_api.document;';
  end if;
end;
$$;
revoke all on function rag_api.history from public;
grant execute on function rag_api.history to rag_reader, rag_auditor;
comment on function rag_api.history is
  'The versions of a document in the order in which they take effect, with what each gained and lost.';

reset role;
