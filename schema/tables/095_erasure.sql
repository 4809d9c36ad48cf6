-- Erasure: what must not be kept any more is emptied, and that it was is recorded for good.
--
-- Rows of evidence stay, with their keys, times and hashes, so that numbers are not given again and what rested on them can be
-- named; their texts go. That is the one update that evidence knows, and rag.refuse_change_but_erasure (000_functions) holds
-- it: by rag_owner, in the transaction of its record, to nothing. `rag-sql erase` does it (security/080_erasure.sql).
--
-- A version is erased once, so the key of its record is the version. A record without a document is of a whole tenant: of
-- its contracts, packets, drafts and traces too; each of its versions has a record of its own beside it.
--
-- What is stored meanwhile by somebody who had read the text before cannot bring it back: where something refers to a version
-- or a packet, a trigger asks again after the foreign key has waited for the erasure (rag.refuse_erased).

create table rag.erasure (
  tenant text collate "C" not null,
  erasure_id uuid not null default gen_random_uuid(),
  document_id text collate "C",
  version integer,
  reason text not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  constraint erasure_key primary key (tenant, erasure_id),
  constraint erasure_is_once unique (tenant, document_id, version),
  constraint erasure_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint erasure_version_exists foreign key (tenant, document_id, version)
    references rag.version (tenant, document_id, version),
  constraint erasure_is_of_version_or_tenant check ((document_id is null) = (version is null)),
  constraint erasure_reason_fits check (octet_length(reason) between 1 and 4000)
);
alter table rag.erasure enable row level security;
alter table rag.erasure force row level security;
alter table rag.erasure
  alter column document_id set statistics 0,
  alter column reason set statistics 0,
  alter column recorded_by set statistics 0;
create trigger erasure_is_append_only
  before update or delete or truncate on rag.erasure
  for each statement execute function rag.refuse_change();
comment on table rag.erasure is 'What was erased, by whom and why. Written by rag_auth.erase_document and rag_auth.erase_tenant only.';
comment on column rag.erasure.erasure_id is 'Random, so that no tenant learns another''s rate.';
comment on column rag.erasure.document_id is 'The document; null: the whole tenant.';
comment on column rag.erasure.version is 'The version that was erased; its length and hash stay in rag.version.';
comment on column rag.erasure.reason is 'Why, for people; 1 to 4,000 bytes.';
comment on column rag.erasure.recorded_at is 'When: the beginning of the erasing transaction.';
comment on column rag.erasure.recorded_by is 'Login of the session.';

-- Whether this transaction erases a version, or the whole tenant (nulls: the whole tenant alone). For policies and triggers;
-- two look-ups by key, and no list of erasures is read.
create function rag.is_being_erased(
  p_tenant text,
  p_document_id text,
  p_version integer
)
  returns boolean
  language sql
  stable
begin atomic
  select
    exists (
      select from rag.erasure e
      where e.tenant = p_tenant and e.document_id = p_document_id and e.version = p_version
        and e.recorded_at = transaction_timestamp()
    )
    or exists (
      select from rag.erasure e
      where e.tenant = p_tenant and e.document_id is null and e.recorded_at = transaction_timestamp()
    );
end;
revoke all on function rag.is_being_erased from public;
comment on function rag.is_being_erased is 'Whether this transaction erases a version, or its whole tenant.';

-- Whether this transaction erases something that a packet rests on, or its whole tenant.
create function rag.is_packet_being_erased(
  p_tenant text,
  p_packet_id uuid
)
  returns boolean
  language sql
  stable
begin atomic
  select
    rag.is_being_erased(p_tenant, null, null)
    or exists (
      select from rag.packet_source s
      where s.tenant = p_tenant and s.packet_id = p_packet_id
        and rag.is_being_erased(s.document_tenant, s.document_id, s.version)
    );
end;
revoke all on function rag.is_packet_being_erased from public;
comment on function rag.is_packet_being_erased is 'Whether this transaction erases evidence of a packet, or its whole tenant.';

-- Whether evidence of a packet was erased: a version that it rests on, or its contract and all of it with its tenant. Such a packet is neither
-- valid nor broken: what it rested on cannot be looked at any more.
create function rag.is_evidence_erased(
  p_tenant text,
  p_packet_id uuid
)
  returns boolean
  language sql
  stable
  parallel restricted
begin atomic
  select
    exists (
      select
      from rag.packet p
      join rag.contract c
        on c.tenant = p.contract_tenant and c.question_id = p.question_id and c.version = p.contract_version
      where p.tenant = p_tenant and p.packet_id = p_packet_id and (p.preimage is null or c.content is null)
    )
    or exists (
      select
      from rag.packet_source s
      join rag.erasure e on e.tenant = s.document_tenant and e.document_id = s.document_id and e.version = s.version
      where s.tenant = p_tenant and s.packet_id = p_packet_id
    );
end;
revoke all on function rag.is_evidence_erased from public;
grant execute on function rag.is_evidence_erased to rag_reader, rag_auditor;
comment on function rag.is_evidence_erased is 'Whether a version that a packet rests on was erased, or the packet with its tenant.';

-- What refers to an erased version, or to a packet whose evidence was erased, is not stored: RS028 and RS063. After the
-- statement, when its foreign keys have been checked: each waits for an erasure that has locked the row, and this looks again.
create function rag.refuse_erased()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_document_id text;
  v_version integer;
  v_packet_id uuid;
begin
  if tg_argv[0] = 'version' then
    select e.document_id, e.version into v_document_id, v_version
    from stored s
    join rag.erasure e on e.tenant = s.tenant and e.document_id = s.document_id and e.version = s.version
    limit 1;
  elsif tg_argv[0] = 'source' then
    select s.packet_id into v_packet_id
    from stored s
    join rag.erasure e on e.tenant = s.document_tenant and e.document_id = s.document_id and e.version = s.version
    limit 1;
  elsif tg_argv[0] = 'packet' then
    select s.packet_id into v_packet_id from stored s where rag.is_evidence_erased(s.tenant, s.packet_id) limit 1;
  else
    select t.packet_id into v_packet_id
    from stored s
    join rag.trace t on t.tenant = s.tenant and t.trace_id = s.trace_id
    where rag.is_evidence_erased(t.tenant, t.packet_id)
    limit 1;
  end if;
  if v_version is not null then
    raise exception using
      errcode = 'RS028',
      message = format('version %s of document "%s" was erased', v_version, v_document_id),
      hint = 'Who did, when and why: select * from rag_api.erasure;';
  elsif v_packet_id is not null then
    raise exception using
      errcode = 'RS063',
      message = format('the evidence of packet %s was erased', v_packet_id),
      hint = 'Who did, when and why: select * from rag_api.erasure;';
  end if;
  return null;
end;
$$;
revoke all on function rag.refuse_erased from public;
comment on function rag.refuse_erased is
  'Trigger: refuses what refers to an erased version (RS028) or to a packet whose evidence was erased (RS063).';

create trigger withdrawal_is_of_kept_version
  after insert on rag.withdrawal
  referencing new table as stored
  for each statement execute function rag.refuse_erased('version');
create trigger span_is_of_kept_version
  after insert on rag.span
  referencing new table as stored
  for each statement execute function rag.refuse_erased('version');
create trigger packet_source_is_of_kept_version
  after insert on rag.packet_source
  referencing new table as stored
  for each statement execute function rag.refuse_erased('source');
create trigger approval_is_of_kept_evidence
  after insert on rag.approval
  referencing new table as stored
  for each statement execute function rag.refuse_erased('packet');
create trigger trace_is_of_kept_evidence
  after insert on rag.trace
  referencing new table as stored
  for each statement execute function rag.refuse_erased('packet');
create trigger trace_answer_is_of_kept_evidence
  after insert on rag.trace_answer
  referencing new table as stored
  for each statement execute function rag.refuse_erased('trace');

-- An erased version is in use at no instant, whatever is loaded or withdrawn after.
create function rag_index.keep_unused()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  new.used_until := old.used_until;
  return new;
end;
$$;
revoke all on function rag_index.keep_unused from public;
comment on function rag_index.keep_unused is 'Trigger: an erased version never comes into use again.';
create trigger indexed_version_stays_erased
  before update on rag_index.version
  for each row
  when (old.used_until = '-infinity')
  execute function rag_index.keep_unused();
