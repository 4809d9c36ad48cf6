-- Packets: recording what a decision relied on, and reading it back.

set local role rag_owner;
grant create on schema rag_api to rag_recorder;
-- Everything the recorder reads, it reads as a member of rag_reader, under the caller's binding.

create view rag_api.packet with (security_invoker = true) as
  select
    p.tenant, p.packet_id, p.outcome, p.missing, p.question_id, p.contract_tenant, p.contract_version, p.case_facts,
    p.k, p.method, p.parameters, p.recorded_at, p.recorded_by, p.valid_at, p.known_at, p.required, encode(p.digest, 'hex') as digest,
    rag.is_evidence_erased(p.tenant, p.packet_id) as is_erased, p.query
  from rag.packet p;
grant select on rag_api.packet to rag_reader, rag_auditor;
comment on view rag_api.packet is 'Recorded packets of the bound tenant: request, outcome, digest, whether its evidence was erased.';

create view rag_api.packet_source with (security_invoker = true) as
  select
    s.tenant, s.packet_id, s.position, s.score, s.document_tenant, s.document_id, s.version, s.range_start, s.range_end,
    array(
      select n.span_id from rag.packet_span n
      where n.tenant = s.tenant and n.packet_id = s.packet_id and n.position = s.position
      order by n.span_id
    ) as span_ids
  from rag.packet_source s;
grant select on rag_api.packet_source to rag_reader, rag_auditor;
comment on view rag_api.packet_source is 'Selected passages of recorded packets, in order of rank.';

-- A label says what a span was meant for; whether it covered the fact is decided as rag_api.witnesses decides it, unless the
-- quotation was erased.
create view rag_api.packet_span with (security_invoker = true) as
  select
    n.tenant, n.packet_id, n.position, n.document_tenant, n.document_id, n.version, n.span_id, s.fact,
    case when s.quote is not null then exists (
      select from rag_api.proposition o
      where o.tenant = p.contract_tenant
        and o.question_id = p.question_id
        and o.version = p.contract_version
        and o.fact = s.fact
        and o.quote = s.quote
    ) end as is_witness,
    s.range_start, s.range_end, s.quote
  from rag.packet_span n
  join rag.packet p on p.tenant = n.tenant and p.packet_id = n.packet_id
  join rag.span s
    on s.tenant = n.document_tenant
    and s.document_id = n.document_id
    and s.version = n.version
    and s.span_id = n.span_id;
grant select on rag_api.packet_span to rag_reader, rag_auditor;
comment on view rag_api.packet_span is
  'Quotations that recorded packets rest on: the spans that their passages had then, and whether each covered its fact.';

-- A time as text, in UTC and to the microsecond, whatever the session's settings are.
create function rag_api._utc(
  p_time timestamptz
)
  returns text
  language sql
  stable
  parallel safe
return pg_catalog.to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
revoke all on function rag_api._utc from public;
grant execute on function rag_api._utc to rag_reader, rag_auditor;
comment on function rag_api._utc is 'Private: a time as ISO 8601 text in UTC.';

-- The passages of a packet, by place.
create function rag_api._packet_selection(
  p_tenant text,
  p_packet_id uuid
)
  returns rag.source_ref[]
  language sql
  stable
  parallel restricted
begin atomic
  select coalesce(array_agg(
    (s.document_tenant, s.document_id, s.version, s.range_start, s.range_end)::rag.source_ref order by s.position), '{}')
  from rag.packet_source s
  where s.tenant = p_tenant and s.packet_id = p_packet_id;
end;
revoke all on function rag_api._packet_selection from public;
grant execute on function rag_api._packet_selection to rag_reader;
comment on function rag_api._packet_selection is 'Private: the passages of a packet, by place.';

-- The spans that the passages of a packet had when it was recorded: those, and no later ones, are its evidence.
create function rag_api._packet_spans(
  p_tenant text,
  p_packet_id uuid
)
  returns setof rag.span
  language sql
  stable
  parallel restricted
begin atomic
  select
    s.tenant, s.document_id, s.version, s.span_id, s.fact, s.quote, s.occurrence, s.recorded_at, s.recorded_by,
    s.body_length, s.range_start, s.range_end
  from rag.packet_span n
  join rag.span s
    on s.tenant = n.document_tenant
    and s.document_id = n.document_id
    and s.version = n.version
    and s.span_id = n.span_id
  where n.tenant = p_tenant and n.packet_id = p_packet_id;
end;
revoke all on function rag_api._packet_spans from public;
grant execute on function rag_api._packet_spans to rag_reader;
comment on function rag_api._packet_spans is 'Private: the spans that a packet has.';

-- A packet of the bound tenant; RS002 when none is bound, RS050 when there is no such packet or it is another tenant's.
create function rag_api._packet(
  p_packet_id uuid
)
  returns rag.packet
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_packet rag.packet;
begin
  select p.* into v_packet from rag.packet p where p.tenant = v_tenant and p.packet_id = p_packet_id;
  if not found then
    raise exception using
      errcode = 'RS050',
      message = format('there is no packet %s', coalesce(p_packet_id::text, 'null'));
  end if;
  return v_packet;
end;
$$;
revoke all on function rag_api._packet from public;
grant execute on function rag_api._packet to rag_reader;
comment on function rag_api._packet is 'Private: a packet of the bound tenant; RS002, RS050.';

-- RS063 where evidence of a packet was erased; DETAIL names what, when, by whom and why. Such a packet is neither valid nor
-- broken: nobody can look at what it rested on, or decide it again.
create function rag_api._check_evidence(
  p_packet_id uuid
)
  returns void
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
begin
  if rag.is_evidence_erased(v_tenant, p_packet_id) then
    raise exception using
      errcode = 'RS063',
      message = format('the evidence of packet %s was erased', p_packet_id),
      detail = (
        select string_agg(
          coalesce(format('%s (%s) version %s', e.document_id, e.tenant, e.version), 'all of ' || e.tenant)
            || format(': erased %s by %s: %s', rag_api._utc(e.recorded_at), e.recorded_by, e.reason),
          e'\n' order by e.document_id, e.version, e.recorded_at)
        from rag.erasure e
        where (e.tenant = v_tenant and e.document_id is null)
          or exists (
            select from rag.packet_source s
            where s.tenant = v_tenant and s.packet_id = p_packet_id
              and s.document_tenant = e.tenant and s.document_id = e.document_id and s.version = e.version
          )
      ),
      hint = 'Decide again, on what is there, and record the new packet.';
  end if;
end;
$$;
revoke all on function rag_api._check_evidence from public;
grant execute on function rag_api._check_evidence to rag_reader;
comment on function rag_api._check_evidence is 'Private: RS063 where evidence of a packet of the bound tenant was erased.';

-- A packet whole, as one JSON document: enough to verify its evidence without a database. RS002, RS050. Texts, quotations and
-- what else was erased are null in it.
create function rag_api.packet_document(
  p_packet_id uuid
)
  returns jsonb
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_packet constant rag.packet := rag_api._packet(p_packet_id);
begin
  return (select jsonb_build_object(
    'format', 'rag-sql packet 1',
    'packet_id', v_packet.packet_id,
    'tenant', v_packet.tenant,
    'digest', encode(v_packet.digest, 'hex'),
    'preimage', encode(v_packet.preimage, 'hex'),
    'outcome', v_packet.outcome,
    'question_id', v_packet.question_id,
    'contract', jsonb_build_object(
      'tenant', c.tenant,
      'version', c.version,
      'sha256', encode(c.content_sha256, 'hex'),
      'content', c.content
    ),
    'case_facts', v_packet.case_facts,
    'request', jsonb_build_object(
      'query', v_packet.query,
      'k', v_packet.k,
      'method', v_packet.method,
      'parameters', v_packet.parameters,
      'contract_pinned', v_packet.contract_pinned,
      'valid_at', rag_api._utc(v_packet.valid_at),
      'known_at', rag_api._utc(v_packet.known_at)
    ),
    'required', to_jsonb(v_packet.required),
    'missing', to_jsonb(v_packet.missing),
    'sources', rag_api._sources(
      rag_api._packet_selection(v_packet.tenant, v_packet.packet_id),
      array(
        select s.score from rag.packet_source s
        where s.tenant = v_packet.tenant and s.packet_id = v_packet.packet_id
        order by s.position
      ),
      array(select s from rag_api._packet_spans(v_packet.tenant, v_packet.packet_id) as s)
    ),
    'recorded_at', rag_api._utc(v_packet.recorded_at),
    'recorded_by', v_packet.recorded_by
  )
  from rag.contract c
  where c.tenant = v_packet.contract_tenant and c.question_id = v_packet.question_id and c.version = v_packet.contract_version);
end;
$$;
revoke all on function rag_api.packet_document from public;
grant execute on function rag_api.packet_document to rag_reader;
comment on function rag_api.packet_document is 'A packet of the bound tenant whole, as JSON; verifiable without a database. RS050.';

set local role rag_recorder;

-- Decides and stores, in one statement and from one snapshot; returns the packet (rag_api.packet_document).
--
-- A definer function of rag_recorder, because no run-time role may insert a packet: what is stored is what the database
-- decided. The binding is the session's (session_user), so the recorder sees and writes what the caller may see.
--
-- Raises what decide raises; RS002 when no tenant is bound, RS003 when it is public; RS013 for an unsupported question,
-- which has no evidence to keep. Nothing is stored when it raises.
create function rag_api.record_packet(
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
  returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_began constant timestamptz := clock_timestamp();
  v_packet_id uuid;
begin
  if v_tenant = 'public' then
    raise exception using
      errcode = 'RS003',
      message = 'a packet belongs to the tenant that asked, never to public',
      hint = 'Bind a tenant of your own, or use decide, which stores nothing.';
  end if;
  -- Only a decision is passed on: an unsupported question inserts nothing.
  with decision as materialized (
    select
      d.outcome, d.question_id, d.contract_tenant, d.contract_version, d.case_facts, d.query, d.k, d.method, d.parameters,
      d.valid_at, d.known_at, d.required, d.missing, d.sources, d.preimage
    from rag_api.decide(
      p_question_id => p_question_id,
      p_query => p_query,
      p_case_facts => p_case_facts,
      p_k => p_k,
      p_contract_version => p_contract_version,
      p_valid_at => p_valid_at,
      p_known_at => p_known_at,
      p_method => p_method,
      p_parameters => p_parameters
    ) as d
    where d.outcome <> 'UnsupportedQuestion'
  ), packet as (
    insert into rag.packet (
      tenant, outcome, question_id, contract_tenant, contract_version, contract_pinned, case_facts, query, k, method,
      parameters, valid_at, known_at, required, missing, preimage, decision_took
    )
    select
      v_tenant, d.outcome, d.question_id, d.contract_tenant, d.contract_version, p_contract_version is not null,
      d.case_facts, d.query, d.k, d.method, d.parameters, d.valid_at, d.known_at, d.required, d.missing, d.preimage,
      clock_timestamp() - v_began
    from decision d
    returning packet_id
  ), source as (
    select
      s.position, s.score, s.tenant, s.document_id, s.version, s.range_start, s.range_end, s.spans
    from decision d
    cross join jsonb_to_recordset(d.sources) as s(
      "position" integer, score integer, tenant text, document_id text, version integer,
      range_start integer, range_end integer, spans jsonb
    )
  ), packet_source as (
    insert into rag.packet_source
      (tenant, packet_id, position, score, document_tenant, document_id, version, range_start, range_end)
    select
      v_tenant, p.packet_id, s.position, s.score, s.tenant, s.document_id, s.version, s.range_start, s.range_end
    from packet p
    cross join source s
  ), packet_span as (
    insert into rag.packet_span (tenant, packet_id, position, document_tenant, document_id, version, span_id)
    select v_tenant, p.packet_id, s.position, s.tenant, s.document_id, s.version, n.span_id
    from packet p
    cross join source s
    cross join jsonb_to_recordset(s.spans) as n(span_id text)
  )
  select p.packet_id into v_packet_id from packet p;

  if v_packet_id is null then
    raise exception using
      errcode = 'RS013',
      message = format('no contract supports the question "%s"', p_question_id),
      hint = 'Adding documents cannot make a question supported; it needs a contract.';
  end if;
  return rag_api.packet_document(v_packet_id);
end;
$$;
revoke all on function rag_api.record_packet from public;
grant execute on function rag_api.record_packet to rag_reader;
comment on function rag_api.record_packet is
  'Decides and stores in one statement; returns the packet as JSON. RS002, RS013 and what decide raises.';

reset role;
set local role rag_owner;
revoke create on schema rag_api from rag_recorder;
reset role;
