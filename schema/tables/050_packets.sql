-- Packets: what a decision relied on, under its digest.
--
-- A packet keeps the request (so that it can be decided again), the outcome, and the selected evidence by reference:
-- versions and spans are immutable, so a reference says as much as a copy. The pre-image of the digest is stored beside
-- it: the identity is those bytes, and nobody has to trust a re-serialisation. A packet without its pre-image was erased with
-- its tenant (095_erasure.sql).
--
-- Written only by rag_api.record_packet, a definer function of rag_recorder: no run-time role has an insert grant, so
-- a packet is always what the database decided. A packet belongs to the tenant that asked, never to public.

create table rag.packet (
  tenant text collate "C" not null,
  packet_id uuid not null default gen_random_uuid(),
  outcome text not null,
  question_id text collate "C" not null,
  contract_tenant text collate "C" not null,
  contract_version integer not null,
  contract_pinned boolean not null,
  case_facts jsonb not null,
  query text not null,
  k integer not null,
  method text not null,
  valid_at timestamptz not null,
  known_at timestamptz not null,
  required text[] not null,
  missing text[] not null,
  preimage bytea,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  digest bytea not null,
  decision_took interval,
  parameters jsonb not null default '{}',

  constraint packet_key primary key (tenant, packet_id),
  constraint packet_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint packet_is_never_public check (tenant <> 'public'),
  constraint packet_contract_is_visible check (contract_tenant in ('public', tenant)),
  constraint packet_contract_exists foreign key (contract_tenant, question_id, contract_version)
    references rag.contract (tenant, question_id, version),
  constraint packet_k_in_range check (k between 1 and 1000),
  constraint packet_outcome_is_known check (outcome in ('SufficientForTemplate', 'AskForEvidence', 'NeedsDecision'))
);
create index packet_by_digest on rag.packet (tenant, digest);
-- Every index leads with the column that the policy compares: one that led with another would count hidden rows for
-- whoever reads EXPLAIN ANALYZE.
create index packet_by_contract on rag.packet (tenant, contract_tenant, question_id, contract_version);
alter table rag.packet enable row level security;
alter table rag.packet force row level security;
alter table rag.packet
  alter column outcome set statistics 0,
  alter column question_id set statistics 0,
  alter column case_facts set statistics 0,
  alter column query set statistics 0,
  alter column method set statistics 0,
  alter column required set statistics 0,
  alter column missing set statistics 0,
  alter column preimage set statistics 0,
  alter column recorded_by set statistics 0,
  alter column digest set statistics 0,
  alter column parameters set statistics 0;
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
create trigger packet_is_append_only
  before delete or truncate on rag.packet
  for each statement execute function rag.refuse_change();
create trigger packet_changes_by_erasure
  before update on rag.packet
  for each row execute function rag.refuse_change_but_erasure('tenant', 'case_facts', 'query', 'preimage', 'parameters');
comment on table rag.packet is 'What a decision relied on, under its digest. Written by rag_api.record_packet only.';
comment on column rag.packet.contract_pinned is 'Whether the request named the contract''s version; otherwise the newest was used.';
comment on column rag.packet.method is 'Ranking method.';
comment on column rag.packet.parameters is 'Parameters of the method, all of them.';
comment on column rag.packet.valid_at is 'The instant for which eligibility was decided.';
comment on column rag.packet.known_at is 'The instant whose recorded state was used.';
comment on column rag.packet.preimage is 'The bytes that were hashed (schema/README.md, "Byte layouts").';
comment on column rag.packet.decision_took is 'How long the server took to decide; null for a packet from before this was measured.';
comment on column rag.packet.digest is 'SHA-256 of the pre-image: the identity of the evidence. Derived.';

create table rag.packet_source (
  tenant text collate "C" not null,
  packet_id uuid not null,
  position integer not null,
  score integer not null,
  document_tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  range_start integer not null,
  range_end integer not null,

  constraint packet_source_key primary key (tenant, packet_id, position),
  constraint packet_source_packet_exists foreign key (tenant, packet_id) references rag.packet (tenant, packet_id),
  constraint packet_source_is_visible check (document_tenant in ('public', tenant)),
  constraint packet_source_version_exists foreign key (document_tenant, document_id, version)
    references rag.version (tenant, document_id, version)
);
create index packet_source_by_version on rag.packet_source (tenant, document_tenant, document_id, version);
alter table rag.packet_source enable row level security;
alter table rag.packet_source force row level security;
create trigger packet_source_is_append_only
  before update or delete or truncate on rag.packet_source
  for each statement execute function rag.refuse_change();
comment on table rag.packet_source is 'Selected passages of a packet, in order of rank.';
comment on column rag.packet_source.document_tenant is 'Visibility of the document: public or the packet''s tenant.';

-- Spans may be added to a version later: a packet keeps which ones there were.
create table rag.packet_span (
  tenant text collate "C" not null,
  packet_id uuid not null,
  position integer not null,
  document_tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  span_id text collate "C" not null,

  constraint packet_span_key primary key (tenant, packet_id, position, span_id),
  constraint packet_span_source_exists foreign key (tenant, packet_id, position)
    references rag.packet_source (tenant, packet_id, position),
  constraint packet_span_is_visible check (document_tenant in ('public', tenant)),
  constraint packet_span_span_exists foreign key (document_tenant, document_id, version, span_id)
    references rag.span (tenant, document_id, version, span_id)
);
create index packet_span_by_span on rag.packet_span (tenant, document_tenant, document_id, version, span_id);
alter table rag.packet_span enable row level security;
alter table rag.packet_span force row level security;
alter table rag.packet_span alter column span_id set statistics 0;
create trigger packet_span_is_append_only
  before update or delete or truncate on rag.packet_span
  for each statement execute function rag.refuse_change();
comment on table rag.packet_span is 'Spans that the selected passages of a packet had when it was recorded.';
