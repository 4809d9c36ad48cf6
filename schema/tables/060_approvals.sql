-- Approvals: a reviewer's decisions, each about one digest, one draft and what was shown.
--
-- A decision is a row; the newest one for (evidence digest, draft digest) counts. It is usable only while the evidence
-- is the same, which rag_api.require_approval finds out by deciding again.
--
-- Written only by rag_api.approve, a definer function of rag_recorder. Two reviewers who decide at the same moment
-- meet on the primary key: one of them is told.

create table rag.approval (
  tenant text collate "C" not null,
  evidence_digest bytea not null,
  draft_digest bytea not null,
  decision_number integer not null,
  packet_id uuid not null,
  shown_digest bytea not null,
  decision text not null,
  claims jsonb not null,
  reviewer_login text not null default session_user,
  reviewer_name text,
  note text,
  recorded_at timestamptz not null default now(),

  constraint approval_key primary key (tenant, evidence_digest, draft_digest, decision_number),
  constraint approval_packet_exists foreign key (tenant, packet_id) references rag.packet (tenant, packet_id),
  constraint approval_decision_is_known check (decision in ('approved', 'rejected')),
  constraint approval_claims_fit check (jsonb_array_length(claims) <= 1000 and octet_length(claims::text) <= 4194304),
  constraint approval_reviewer_name_fits check (octet_length(reviewer_name) between 1 and 200),
  constraint approval_note_fits check (octet_length(note) <= 4000)
);
create index approval_by_packet on rag.approval (tenant, packet_id);
alter table rag.approval enable row level security;
alter table rag.approval force row level security;
alter table rag.approval
  alter column evidence_digest set statistics 0,
  alter column draft_digest set statistics 0,
  alter column shown_digest set statistics 0,
  alter column decision set statistics 0,
  alter column claims set statistics 0,
  alter column reviewer_login set statistics 0,
  alter column reviewer_name set statistics 0,
  alter column note set statistics 0;
create trigger approval_is_append_only
  before delete or truncate on rag.approval
  for each statement execute function rag.refuse_change();
create trigger approval_changes_by_erasure
  before update on rag.approval
  for each row execute function rag.refuse_change_but_erasure('packet', 'claims', 'note');
comment on table rag.approval is 'Reviewers'' decisions. Written by rag_api.approve only; the newest counts.';
comment on column rag.approval.evidence_digest is 'Digest of the packet that was approved.';
comment on column rag.approval.draft_digest is 'Digest of the draft''s claims, in order.';
comment on column rag.approval.shown_digest is 'Digest of what the reviewer was shown: evidence, draft, verdicts and reasons.';
comment on column rag.approval.claims is 'The draft, for people to read; empty: erased. Its identity is draft_digest.';
comment on column rag.approval.reviewer_login is 'The login of the session.';
comment on column rag.approval.reviewer_name is 'The person, as the application states it.';
