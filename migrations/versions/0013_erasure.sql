-- Erasure: texts of evidence can be emptied, in a transaction that records it, and stay empty. Derived columns are no longer
-- generated, because they outlive what they are derived from; triggers derive them. Nothing that stands is rewritten.

alter table rag.version
  alter column body drop not null,
  alter column body_length drop expression,
  alter column body_sha256 drop expression;
alter table rag.span
  alter column quote drop not null,
  alter column range_end drop expression;
alter table rag.contract alter column content drop not null;
alter table rag.packet
  alter column preimage drop not null,
  alter column digest drop expression;
comment on column rag.version.body_length is 'Length of the body in code points. Derived.';
comment on column rag.version.body_sha256 is 'SHA-256 of the body''s UTF-8 bytes. Derived.';
comment on column rag.span.quote is 'Text of the body, character by character; null: erased.';
comment on column rag.contract.content is 'Case attributes and facts; laid out as rows by the views of rag_api. Null: erased with its tenant.';
comment on column rag.packet.digest is 'SHA-256 of the pre-image: the identity of the evidence. Derived.';
comment on column rag.approval.claims is 'The draft, for people to read; empty: erased. Its identity is draft_digest.';

-- The one change that evidence knows: erasure (095_erasure.sql). A row is updated by rag_owner alone, in the transaction in
-- which an erasure of what it belongs to is recorded, and only so that the columns named here become empty: null, an empty
-- text, list or object. The first argument says what the row belongs to: a version, a packet, a trace, or the tenant.
create function rag.refuse_change_but_erasure()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_old constant jsonb := to_jsonb(old);
  v_new constant jsonb := to_jsonb(new);
  v_erased constant text[] := tg_argv[1:];
begin
  if current_user = 'rag_owner'
    and v_new - v_erased = v_old - v_erased
    and not exists (select from unnest(v_erased) as c where v_new -> c not in ('null', '""', '[]', '{}'))
    and (case tg_argv[0]
      when 'version' then rag.is_being_erased(old.tenant, v_old ->> 'document_id', (v_old ->> 'version')::integer)
      when 'packet' then rag.is_packet_being_erased(old.tenant, (v_old ->> 'packet_id')::uuid)
      when 'trace' then rag.is_packet_being_erased(old.tenant, (
        select t.packet_id from rag.trace t where t.tenant = old.tenant and t.trace_id = (v_old ->> 'trace_id')::uuid
      ))
      when 'tenant' then rag.is_being_erased(old.tenant, null, null)
    end)
  then
    return new;
  end if;
  raise exception using
    errcode = 'RS070',
    message = format('%s of %I.%I refused: evidence is append-only', lower(tg_op), tg_table_schema, tg_table_name),
    hint = 'A change is a new row; what must not be kept is erased with: rag-sql erase';
end;
$$;
revoke all on function rag.refuse_change_but_erasure from public;
comment on function rag.refuse_change_but_erasure is
  'Trigger: refuses an update (RS070) but one that empties columns of what is being erased.';

-- What is derived from the body; no role has a grant on these columns.
create function rag.measure_body()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  new.body_length := char_length(new.body);
  new.body_sha256 := sha256(rag.utf8(new.body));
  return new;
end;
$$;
revoke all on function rag.measure_body from public;
comment on function rag.measure_body is 'Trigger: derives the length and the SHA-256 of a body.';
create trigger version_is_measured
  before insert on rag.version
  for each row execute function rag.measure_body();

-- Whatever is inserted, the digest is that of the pre-image.
create function rag.digest_packet()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  new.digest := sha256(new.preimage);
  return new;
end;
$$;
revoke all on function rag.digest_packet from public;
comment on function rag.digest_packet is 'Trigger: derives the digest of a packet.';
create trigger packet_is_digested
  before insert on rag.packet
  for each row execute function rag.digest_packet();

-- Derives range_start, range_end and body_length of a new span from the version's body, which it reads with the inserting
-- login's own rights. RS022 when there is no such version (or it is not the login's to see), RS023, RS024; RS026 when
-- the quotation begins or ends inside a character. The error fields TABLE, DATATYPE and CONSTRAINT carry document,
-- version and span, so that a loader need not read the message.
create or replace function rag.locate_span()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_body text;
  v_around text;  -- the quotation with one character on either side
begin
  select v.body, v.body_length
  into v_body, new.body_length
  from rag.version v
  where (v.tenant, v.document_id, v.version) = (new.tenant, new.document_id, new.version);
  if not found then
    raise exception using
      errcode = 'RS022',
      message = format('no version %s of document "%s"', new.version, new.document_id);
  end if;

  new.range_start := rag.locate(v_body, new.quote, least(coalesce(new.occurrence, 1), 1000));
  if new.range_start is null then
    raise exception using
      errcode = 'RS023',
      message = case
        when new.occurrence > 1 and rag.locate(v_body, new.quote, 1) is not null
        then format('span "%s" quotes text that does not occur %s times in the body of "%s" version %s',
          new.span_id, new.occurrence, new.document_id, new.version)
        else format('span "%s" quotes text that is not in the body of "%s" version %s',
          new.span_id, new.document_id, new.version)
      end,
      detail = format('Quotation: %s', new.quote),
      table = new.document_id,
      datatype = new.version::text,
      constraint = new.span_id,
      hint = 'Copy the quotation from the body character by character; line breaks and typographic quotes count.';
  end if;
  if new.occurrence is null and rag.locate(v_body, new.quote, 2) is not null then
    raise exception using
      errcode = 'RS024',
      message = format('span "%s" quotes text that occurs more than once in "%s" version %s',
        new.span_id, new.document_id, new.version),
      detail = format('Quotation: %s', new.quote),
      table = new.document_id,
      datatype = new.version::text,
      constraint = new.span_id,
      hint = 'Quote more of the sentence, or name the occurrence (1, 2, ...).';
  end if;

  -- Positions count from 1: this begins one character before the quotation, or with it where the body begins.
  v_around := substr(v_body, new.range_start, char_length(new.quote) + 2);
  if rag.cuts_character(case when new.range_start > 0 then left(v_around, 1) else '' end, left(new.quote, 1))
    or rag.cuts_character(
      right(new.quote, 1), substr(v_around, char_length(new.quote) + least(new.range_start, 1) + 1, 1))
  then
    raise exception using
      errcode = 'RS026',
      message = format('span "%s" quotes part of a character of "%s" version %s',
        new.span_id, new.document_id, new.version),
      detail = format('Quotation: %s', new.quote),
      table = new.document_id,
      datatype = new.version::text,
      constraint = new.span_id,
      hint = 'Quote the whole character: accents, joiners, variation selectors and skin tones belong to the one before.';
  end if;
  new.range_end := new.range_start + char_length(new.quote);
  return new;
end;
$$;

drop trigger version_is_append_only on rag.version;
create trigger version_is_append_only
  before delete or truncate on rag.version
  for each statement execute function rag.refuse_change();
create trigger version_changes_by_erasure
  before update on rag.version
  for each row execute function rag.refuse_change_but_erasure(
    'version', 'title', 'body', 'applies_to', 'source', 'metadata', 'outline');
drop trigger succession_is_append_only on rag.succession;
create trigger succession_is_append_only
  before delete or truncate on rag.succession
  for each statement execute function rag.refuse_change();
create trigger succession_changes_by_erasure
  before update on rag.succession
  for each row execute function rag.refuse_change_but_erasure('tenant', 'note');
drop trigger withdrawal_is_append_only on rag.withdrawal;
create trigger withdrawal_is_append_only
  before delete or truncate on rag.withdrawal
  for each statement execute function rag.refuse_change();
create trigger withdrawal_changes_by_erasure
  before update on rag.withdrawal
  for each row execute function rag.refuse_change_but_erasure('version', 'note');
drop trigger passage_is_append_only on rag.passage;
create trigger passage_is_append_only
  before delete or truncate on rag.passage
  for each statement execute function rag.refuse_change();
create trigger passage_changes_by_erasure
  before update on rag.passage
  for each row execute function rag.refuse_change_but_erasure('version', 'heading_path', 'text', 'words');
drop trigger span_is_append_only on rag.span;
create trigger span_is_append_only
  before delete or truncate on rag.span
  for each statement execute function rag.refuse_change();
create trigger span_changes_by_erasure
  before update on rag.span
  for each row execute function rag.refuse_change_but_erasure('version', 'quote');
drop trigger contract_is_append_only on rag.contract;
create trigger contract_is_append_only
  before delete or truncate on rag.contract
  for each statement execute function rag.refuse_change();
create trigger contract_changes_by_erasure
  before update on rag.contract
  for each row execute function rag.refuse_change_but_erasure('tenant', 'content');
drop trigger packet_is_append_only on rag.packet;
create trigger packet_is_append_only
  before delete or truncate on rag.packet
  for each statement execute function rag.refuse_change();
create trigger packet_changes_by_erasure
  before update on rag.packet
  for each row execute function rag.refuse_change_but_erasure('tenant', 'case_facts', 'query', 'preimage', 'parameters');
drop trigger approval_is_append_only on rag.approval;
create trigger approval_is_append_only
  before delete or truncate on rag.approval
  for each statement execute function rag.refuse_change();
create trigger approval_changes_by_erasure
  before update on rag.approval
  for each row execute function rag.refuse_change_but_erasure('packet', 'claims', 'note');
drop trigger trace_is_append_only on rag.trace;
create trigger trace_is_append_only
  before truncate on rag.trace
  for each statement execute function rag.refuse_change();
create trigger trace_changes_by_erasure
  before update on rag.trace
  for each row execute function rag.refuse_change_but_erasure('packet', 'query');
drop trigger trace_answer_is_append_only on rag.trace_answer;
create trigger trace_answer_is_append_only
  before truncate on rag.trace_answer
  for each statement execute function rag.refuse_change();
create trigger trace_answer_changes_by_erasure
  before update on rag.trace_answer
  for each row execute function rag.refuse_change_but_erasure('trace', 'answer', 'citations');

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
