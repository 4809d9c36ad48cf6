-- Approvals: a reviewer decides about one digest, one draft and what was shown; the decision holds only while the
-- evidence is the same.
--
--   review_packet      what a reviewer looks at: verdicts, and the digests that a decision is about
--   approve            records a decision on exactly what was shown
--   evidence_changes   what differs between a packet and a decision made now
--   require_approval   the gate before use: the newest decision, or an error that says why not

set local role rag_owner;
grant create on schema rag_api to rag_recorder;

-- What a reviewer is shown: one verdict per claim, withheld ones with their reasons, and the digests that a decision
-- binds (the same on every row): evidence, draft, and shown, which covers both and every verdict and reason.
-- RS002; RS040 when the claims are malformed; RS050 when there is no such packet, RS063 when its evidence was erased.
create function rag_api.review_packet(
  p_packet_id uuid,
  p_claims jsonb
)
  returns table (
    "position" integer,
    claim jsonb,
    verdict text,
    reason text,
    evidence_digest bytea,
    draft_digest bytea,
    shown_digest bytea
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_packet rag.packet;
begin
  perform rag_api._check_claims(p_claims);
  v_packet := rag_api._packet(p_packet_id);
  perform rag_api._check_evidence(p_packet_id);
  return query
  with verdict as materialized (
    select v.position, v.claim, v.verdict, v.reason
    from rag_api._verdicts(
      v_packet.contract_tenant, v_packet.question_id, v_packet.contract_version,
      rag_api._packet_selection(v_tenant, p_packet_id),
      array(select s from rag_api._packet_spans(v_tenant, p_packet_id) as s), p_claims) as v
  ), draft as (
    select sha256(rag_api.draft_preimage(p_claims)) as digest
  )
  select
    v.position, v.claim, v.verdict, v.reason, v_packet.digest, d.digest,
    sha256(
      rag_api._text('rag-sql shown 1')
      || rag.field(v_packet.digest)
      || rag.field(d.digest)
      || (
        select rag_api._number(count(*))
          || string_agg(rag_api._text(s.verdict) || rag_api._text(s.reason), ''::bytea order by s.position)
        from verdict s
      )
    )
  from verdict v
  cross join draft d
  order by v.position;
end;
$$;
revoke all on function rag_api.review_packet from public;
grant execute on function rag_api.review_packet to rag_reader;
comment on function rag_api.review_packet is
  'What a reviewer is shown for a packet and a draft: verdicts, reasons, and the digests a decision binds.';

-- The request of a packet, decided again: for an instant, from what had been recorded at another (null: now). `problem` says
-- why it cannot be: the contract that answers the question then, or the types of its attributes, do not take this request.
create function rag_api._decided_again(
  p_packet rag.packet,
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (
    outcome text,
    contract_tenant text,
    contract_version integer,
    case_facts jsonb,
    missing text[],
    sources jsonb,
    digest bytea,
    problem text
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  return query
  select
    d.outcome, d.contract_tenant, d.contract_version, d.case_facts, d.missing, d.sources, d.digest, null::text
  from rag_api.decide(
    p_question_id => p_packet.question_id,
    p_query => p_packet.query,
    p_case_facts => p_packet.case_facts,
    p_k => p_packet.k,
    p_contract_version => case when p_packet.contract_pinned then p_packet.contract_version end,
    p_valid_at => p_valid_at,
    p_known_at => p_known_at,
    p_method => p_packet.method,
    p_parameters => p_packet.parameters
  ) as d;
exception
  when sqlstate 'RS010' or sqlstate 'RS011' or sqlstate 'RS012' then
    problem := sqlerrm;
    return next;
end;
$$;
revoke all on function rag_api._decided_again from public;
grant execute on function rag_api._decided_again to rag_reader;
comment on function rag_api._decided_again is 'Private: the request of a packet, decided again; or why it cannot be.';

-- Whether a decision made again rests on the evidence of a packet, and that is sufficient: what an approval hangs on.
create function rag_api._holds(
  p_packet rag.packet,
  p_outcome text,
  p_digest bytea
)
  returns boolean
  language sql
  immutable
  parallel safe
return coalesce(p_outcome not in ('AskForEvidence', 'UnsupportedQuestion') and p_digest = p_packet.digest, false);
revoke all on function rag_api._holds from public;
grant execute on function rag_api._holds to rag_reader;
comment on function rag_api._holds is 'Private: whether a decision made again rests on the evidence of a packet, which is sufficient.';

-- What a decision would rest on that a packet did not, made for an instant, from what had been recorded at another (null:
-- now), document by document; no row when the evidence is the same and still sufficient. RS002, RS050.
create function rag_api._evidence_changes(
  p_packet_id uuid,
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (subject text, was text, is_now text)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_packet rag.packet;
  v_now record;
begin
  v_packet := rag_api._packet(p_packet_id);
  select
    d.outcome, d.contract_tenant, d.contract_version, d.case_facts, d.missing, d.sources, d.digest, d.problem
  into v_now
  from rag_api._decided_again(v_packet, p_valid_at, p_known_at) as d;
  if rag_api._holds(v_packet, v_now.outcome, v_now.digest) then
    return;
  end if;
  if v_now.problem is not null then
    return query select
      'contract ' || v_packet.question_id,
      format('%s version %s', v_packet.contract_tenant, v_packet.contract_version),
      v_now.problem;
    return;
  end if;

  if v_now.outcome in ('AskForEvidence', 'UnsupportedQuestion') then
    return query select
      'outcome',
      v_packet.outcome,
      v_now.outcome || coalesce(' (missing: ' || nullif(array_to_string(v_now.missing, ', '), '') || ')', '');
  end if;
  if v_now.digest is not distinct from v_packet.digest then
    return;
  end if;
  if (v_now.contract_tenant, v_now.contract_version)
    is distinct from (v_packet.contract_tenant, v_packet.contract_version)
  then
    return query select
      'contract ' || v_packet.question_id,
      format('%s version %s', v_packet.contract_tenant, v_packet.contract_version),
      format('%s version %s', v_now.contract_tenant, v_now.contract_version);
  end if;
  -- An attribute has another type now, and with it another canonical form.
  if v_now.case_facts is distinct from v_packet.case_facts then
    return query select 'case facts', v_packet.case_facts::text, v_now.case_facts::text;
  end if;

  return query
  with was as (
    select
      s.document_tenant as tenant,
      s.document_id,
      s.range_start,
      s.version,
      array(
        select n.span_id from rag.packet_span n
        where n.tenant = s.tenant and n.packet_id = s.packet_id and n.position = s.position
        order by n.span_id
      ) as span_ids
    from rag.packet_source s
    where s.tenant = v_tenant and s.packet_id = p_packet_id
  ), now_selected as (
    select
      s.tenant,
      s.document_id,
      s.range_start,
      s.version,
      array(select n ->> 'span_id' from jsonb_array_elements(s.spans) as n order by n ->> 'span_id' collate "C") as span_ids
    from jsonb_to_recordset(v_now.sources)
      as s(tenant text, document_id text, range_start integer, version integer, spans jsonb)
  )
  select
    format('%s (%s)', coalesce(w.document_id, n.document_id), coalesce(w.tenant, n.tenant))
      || coalesce(' from ' || nullif(coalesce(w.range_start, n.range_start), 0), ''),
    case when w.document_id is null then 'not selected'
      else format('version %s, spans: %s', w.version, array_to_string(w.span_ids, ', ')) end,
    case when n.document_id is null then format(
        'not selected (%s)', coalesce('superseded by ' || array_to_string(e.successors, ', '), e.reason, 'others rank before it'))
      else format('version %s, spans: %s', n.version, array_to_string(n.span_ids, ', ')) end
  from was w
  full join now_selected n
    on n.tenant = w.tenant collate "C"
    and n.document_id = w.document_id collate "C"
    and n.range_start = w.range_start
  left join rag_api.eligibility(v_packet.case_facts, p_valid_at, p_known_at) as e
    on e.tenant = w.tenant and e.document_id = w.document_id and e.version = w.version
  where (w.version, w.span_ids) is distinct from (n.version, n.span_ids collate "C")
  order by
    coalesce(w.document_id, n.document_id) collate "C", coalesce(w.tenant, n.tenant) collate "C",
    coalesce(w.range_start, n.range_start);
  if not found and v_now.outcome not in ('AskForEvidence', 'UnsupportedQuestion') then
    -- Whatever the cause, another digest is other evidence; this also follows a line about the contract.
    return query select 'evidence', encode(v_packet.digest, 'hex'), encode(v_now.digest, 'hex');
  end if;
end;
$$;
revoke all on function rag_api._evidence_changes from public;
grant execute on function rag_api._evidence_changes to rag_reader;
comment on function rag_api._evidence_changes is
  'Private: what differs between a packet and a decision made again at two instants; no row when nothing does.';

-- What a decision made now would rest on that a packet did not, document by document; no row when the evidence is the
-- same and still sufficient. `subject` names the document (or the contract, or the outcome), `was` and `is_now` what it
-- was and is. RS002, RS050, RS063.
create function rag_api.evidence_changes(
  p_packet_id uuid
)
  returns table (subject text, was text, is_now text)
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform rag_auth.required_tenant();
  perform rag_api._check_evidence(p_packet_id);
  return query select c.subject, c.was, c.is_now from rag_api._evidence_changes(p_packet_id, null, null) as c;
end;
$$;
revoke all on function rag_api.evidence_changes from public;
grant execute on function rag_api.evidence_changes to rag_reader;
comment on function rag_api.evidence_changes is
  'What differs between a packet and a decision made now, document by document; no row when nothing does.';

-- The gate before use: decides again, now, and returns the approval for this packet and this draft, or raises
--   RS060  nobody has decided about this draft on this evidence
--   RS061  the newest decision is a rejection
--   RS062  the evidence, or what was shown, is no longer the same; DETAIL has a line for each difference
--   RS063  the evidence was erased; DETAIL says what, when, by whom and why
-- and RS002, RS040, RS050. `withheld` has the positions of the claims that were shown as withheld: they are part of what
-- was approved and may not be said.
create function rag_api.require_approval(
  p_packet_id uuid,
  p_claims jsonb
)
  returns table (
    packet_id uuid,
    evidence_digest bytea,
    draft_digest bytea,
    shown_digest bytea,
    decision_number integer,
    reviewer_login text,
    reviewer_name text,
    note text,
    withheld integer[],
    recorded_at timestamptz
  )
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_review record;
  v_approval rag.approval;
  v_changes text;
begin
  select
    (array_agg(r.evidence_digest))[1] as evidence_digest,
    (array_agg(r.draft_digest))[1] as draft_digest,
    (array_agg(r.shown_digest))[1] as shown_digest,
    coalesce(array_agg(r.position order by r.position) filter (where r.verdict <> 'licensed'), '{}') as withheld
  into v_review
  from rag_api.review_packet(p_packet_id, p_claims) as r;

  select a.* into v_approval
  from rag.approval a
  where a.tenant = v_tenant
    and a.evidence_digest = v_review.evidence_digest
    and a.draft_digest = v_review.draft_digest
  order by a.decision_number desc
  limit 1;
  if not found then
    raise exception using
      errcode = 'RS060',
      message = format('nobody has approved this draft on the evidence of packet %s', p_packet_id);
  end if;
  if v_approval.decision = 'rejected' then
    raise exception using
      errcode = 'RS061',
      message = format('this draft on the evidence of packet %s was rejected by %s', p_packet_id,
        coalesce(v_approval.reviewer_name, v_approval.reviewer_login)),
      detail = coalesce(v_approval.note, '');
  end if;

  select string_agg(format('%s: %s -> %s', c.subject, c.was, c.is_now), e'\n') into v_changes
  from rag_api.evidence_changes(p_packet_id) as c;
  if v_changes is null and v_approval.shown_digest <> v_review.shown_digest then
    v_changes := 'verdicts: what was shown to the reviewer would be shown differently now';
  end if;
  if v_changes is not null then
    raise exception using
      errcode = 'RS062',
      message = format('the approval of packet %s is stale: the evidence has changed', p_packet_id),
      detail = v_changes,
      hint = 'Decide again, record the new packet and have it reviewed.';
  end if;

  return query select
    p_packet_id, v_approval.evidence_digest, v_approval.draft_digest, v_approval.shown_digest,
    v_approval.decision_number, v_approval.reviewer_login, v_approval.reviewer_name, v_approval.note,
    v_review.withheld, v_approval.recorded_at;
end;
$$;
revoke all on function rag_api.require_approval from public;
grant execute on function rag_api.require_approval to rag_reader;
comment on function rag_api.require_approval is
  'The approval of a packet''s draft, provided the evidence is the same now; else RS060, RS061, RS062 with what changed, or RS063.';

create view rag_api.approval with (security_invoker = true) as
  select
    a.tenant, a.packet_id, a.decision, a.decision_number,
    a.decision_number = max(a.decision_number) over (partition by a.tenant, a.evidence_digest, a.draft_digest)
      as is_newest,
    a.reviewer_login, a.reviewer_name, a.recorded_at, a.note, encode(a.evidence_digest, 'hex') as evidence_digest,
    encode(a.draft_digest, 'hex') as draft_digest, encode(a.shown_digest, 'hex') as shown_digest, a.claims
  from rag.approval a;
grant select on rag_api.approval to rag_reader, rag_auditor;
comment on view rag_api.approval is 'Reviewers'' decisions of the bound tenant; the newest on a draft and its evidence counts.';

-- Decisions with what each is worth now: replaced by a newer one, rejected, erased, stale, or approved. Decides again for every
-- newest approval, so it is for looking, and require_approval for using.
create view rag_api.approval_status with (security_invoker = true) as
  select
    a.packet_id,
    case
      when not a.is_newest then 'replaced'
      when a.decision = 'rejected' then 'rejected'
      when rag.is_evidence_erased(a.tenant, a.packet_id) then 'erased'
      when exists (select from rag_api.evidence_changes(a.packet_id)) then 'stale'
      else 'approved'
    end as status,
    coalesce(a.reviewer_name, a.reviewer_login) as reviewer, a.recorded_at, a.decision, a.decision_number,
    p.question_id, a.note, a.evidence_digest, a.draft_digest
  from rag_api.approval a
  join rag.packet p on p.tenant = a.tenant and p.packet_id = a.packet_id
  where a.tenant = (select rag_auth.tenant());
grant select on rag_api.approval_status to rag_reader;
comment on view rag_api.approval_status is
  'Decisions of the bound tenant with what each is worth now: approved, stale, erased, rejected, replaced.';

set local role rag_recorder;

-- Records a decision ('approved' or 'rejected') about a packet and a draft. p_shown_digest is the digest of what the
-- reviewer saw (review_packet): when the database would show something else now, nothing is recorded (RS052). An
-- insufficient packet cannot be approved (RS051), nor a draft without any licensed claim (RS053). Also RS002, RS005; RS010 for
-- another decision, a name of other than 1 to 200 bytes, or a note over 4,000; RS040, RS050, RS063.
--
-- A definer function of rag_recorder, because no run-time role may insert a decision; who may call it is rag_reviewer.
create function rag_api.approve(
  p_packet_id uuid,
  p_claims jsonb,
  p_shown_digest bytea,
  p_decision text default 'approved',
  p_reviewer_name text default null,
  p_note text default null
)
  returns integer
  language plpgsql
  volatile
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_auth.required_tenant();
  v_review record;
  v_number integer;
begin
  perform rag_auth.write_tenant();
  if p_decision is null or p_decision not in ('approved', 'rejected') then
    raise exception using
      errcode = 'RS010',
      message = format('a decision is approved or rejected, not %s', coalesce(p_decision, 'null'));
  end if;
  if octet_length(p_reviewer_name) not between 1 and 200 then
    raise exception using
      errcode = 'RS010',
      message = format('a reviewer''s name has 1 to 200 bytes, not %s', octet_length(p_reviewer_name));
  end if;
  if octet_length(p_note) > 4000 then
    raise exception using
      errcode = 'RS010',
      message = format('the note has %s bytes; 4000 is the most', octet_length(p_note));
  end if;
  select
    (array_agg(r.evidence_digest))[1] as evidence_digest,
    (array_agg(r.draft_digest))[1] as draft_digest,
    (array_agg(r.shown_digest))[1] as shown_digest,
    bool_or(r.verdict = 'licensed') as licensed
  into v_review
  from rag_api.review_packet(p_packet_id, p_claims) as r;
  if v_review.shown_digest is distinct from p_shown_digest then
    raise exception using
      errcode = 'RS052',
      message = format('what was shown for packet %s is not what would be shown now', p_packet_id),
      hint = 'Show the packet to the reviewer again: rag_api.review_packet.';
  end if;
  if p_decision = 'approved' and not v_review.licensed then
    raise exception using
      errcode = 'RS053',
      message = 'no claim of the draft is licensed: there is nothing to approve',
      hint = 'Reject the draft, or draft again from the licensed clauses.';
  end if;
  if p_decision = 'approved' and exists (
    select from rag.packet p
    where p.tenant = v_tenant and p.packet_id = p_packet_id and p.outcome = 'AskForEvidence'
  ) then
    raise exception using
      errcode = 'RS051',
      message = format('packet %s is not sufficient: required facts are missing', p_packet_id),
      hint = 'Load the missing evidence, decide again and record a new packet.';
  end if;

  -- Two decisions at the same moment get the same number; the key lets one of them in.
  insert into rag.approval (
    tenant, evidence_digest, draft_digest, decision_number, packet_id, shown_digest, decision, claims, reviewer_name, note
  )
  select
    v_tenant, v_review.evidence_digest, v_review.draft_digest, coalesce(max(a.decision_number), 0) + 1,
    p_packet_id, v_review.shown_digest, p_decision, p_claims, p_reviewer_name, p_note
  from rag.approval a
  where a.tenant = v_tenant
    and a.evidence_digest = v_review.evidence_digest
    and a.draft_digest = v_review.draft_digest
  returning decision_number into v_number;
  return v_number;
end;
$$;
revoke all on function rag_api.approve from public;
grant execute on function rag_api.approve to rag_reviewer;
comment on function rag_api.approve is
  'Records a reviewer''s decision on exactly what was shown; returns its number. RS051 insufficient, RS052 shown differs.';

reset role;
set local role rag_owner;
revoke create on schema rag_api from rag_recorder;
reset role;
