-- Documents: immutable versions, withdrawals, and successors.
--
-- A document is a stable identity (tenant, document_id); it exists by having versions. A version is immutable: body,
-- applicability, effective time and source never change; a change is the next version. Ends of validity are derived
-- (rag_api.version_status), never stored. A version may be withdrawn, a document be superseded by others; neither is taken
-- back.
--
-- What is retrieved is a passage of a version (025_passages.sql); the outline says where a body is cut.
--
-- Invariants: bodies are not empty and at most 10 MiB; identifiers are at most 200 bytes, so that every key fits a
-- B-tree page; every text has its limit (schema/README.md, "Limits"); what is derived from the body (length, SHA-256)
-- a trigger derives and no role may write. A version without a body was erased (095_erasure.sql): its keys, times, length and
-- hash stay, so that its number is never given again and what rested on it can be named.

create table rag.version (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  title text,
  body text,
  applies_to jsonb not null default '{}',
  effective_from timestamptz not null default now(),
  published date,
  source text,
  metadata jsonb not null default '{}',
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  body_length integer not null,
  body_sha256 bytea not null,
  outline jsonb not null default '[]',
  language text collate "C" not null default 'simple',

  constraint version_key primary key (tenant, document_id, version),
  -- Referenced by spans, so that a CHECK of theirs can see how long the body is.
  constraint version_body_length_key unique (tenant, document_id, version, body_length),
  constraint version_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint version_is_positive check (version > 0),
  constraint version_document_id_fits check (octet_length(document_id) between 1 and 200),
  constraint version_document_id_is_printable check (document_id !~ '[[:cntrl:]]' and document_id = btrim(document_id)),
  constraint version_body_fits check (body <> '' and octet_length(body) <= 10485760),
  constraint version_applies_to_is_canonical check (
    applies_to = '{}' or (rag.canonical_applies_to(applies_to) is not null and applies_to = rag.canonical_applies_to(applies_to))
  ),
  constraint version_effective_from_is_in_range check (
    effective_from >= timestamptz '0001-01-01 00:00:00+00' and effective_from < timestamptz '10000-01-01 00:00:00+00'
  ),
  constraint version_outline_fits_body check (outline = '[]' or rag.is_outline(outline, body_length)),
  constraint version_language_is_name check (language ~ '^[a-z][a-z0-9_]{0,62}$'),
  constraint version_metadata_is_object check (jsonb_typeof(metadata) = 'object'),
  constraint version_title_fits check (octet_length(title) <= 1000),
  constraint version_source_fits check (octet_length(source) <= 4096),
  constraint version_metadata_fits check (octet_length(metadata::text) <= 65536),
  constraint version_applies_to_fits check (octet_length(applies_to::text) <= 65536)
);
-- Serves `current`: the greatest (effective_from, version) of a document, without touching the rows.
create index version_by_effective_time on rag.version
  (tenant, document_id, effective_from desc, version desc) include (recorded_at);
alter table rag.version enable row level security;
alter table rag.version force row level security;

-- Statistics span all tenants and show in EXPLAIN estimates: none are kept on what a tenant wrote and no plan needs.
alter table rag.version
  alter column title set statistics 0,
  alter column body set statistics 0,
  alter column source set statistics 0,
  alter column metadata set statistics 0,
  alter column recorded_by set statistics 0,
  alter column body_sha256 set statistics 0,
  alter column outline set statistics 0,
  alter column language set statistics 0;

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
create trigger version_is_append_only
  before delete or truncate on rag.version
  for each statement execute function rag.refuse_change();
create trigger version_changes_by_erasure
  before update on rag.version
  for each row execute function rag.refuse_change_but_erasure(
    'version', 'title', 'body', 'applies_to', 'source', 'metadata', 'outline');

comment on table rag.version is 'Immutable versions of documents.';
comment on column rag.version.document_id is 'Stable identity within the tenant; 1 to 200 bytes.';
comment on column rag.version.version is 'Positive integer, unique within the document.';
comment on column rag.version.applies_to is
  'Attribute to list of values; a version applies to a case when each attribute named here has the case''s value in its list.';
comment on column rag.version.effective_from is 'When the rule begins to hold. Default: time of recording.';
comment on column rag.version.published is 'Date of publication, as the source states it.';
comment on column rag.version.source is 'Where the text comes from, as the source states it.';
comment on column rag.version.metadata is 'Keys of the source file that the store has no use for, kept as they were.';
comment on column rag.version.body_length is 'Length of the body in code points. Derived.';
comment on column rag.version.body_sha256 is 'SHA-256 of the body''s UTF-8 bytes. Derived.';
comment on column rag.version.outline is
  'How the body is cut: for each passage where it ends (code points) and the headings above it; empty: one passage.';
comment on column rag.version.language is 'The text search configuration by which words of the body are found.';

create table rag.withdrawal (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  withdrawn_from timestamptz not null default now(),
  note text,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  -- A version may be withdrawn from an earlier instant than was announced first.
  constraint withdrawal_key primary key (tenant, document_id, version, withdrawn_from),
  constraint withdrawal_withdrawn_from_is_in_range check (
    withdrawn_from >= timestamptz '0001-01-01 00:00:00+00' and withdrawn_from < timestamptz '10000-01-01 00:00:00+00'
  ),
  constraint withdrawal_note_fits check (octet_length(note) <= 4000),
  constraint withdrawal_version_exists foreign key (tenant, document_id, version)
    references rag.version (tenant, document_id, version)
);
alter table rag.withdrawal enable row level security;
alter table rag.withdrawal force row level security;
alter table rag.withdrawal
  alter column note set statistics 0,
  alter column recorded_by set statistics 0;
create trigger withdrawal_is_append_only
  before delete or truncate on rag.withdrawal
  for each statement execute function rag.refuse_change();
create trigger withdrawal_changes_by_erasure
  before update on rag.withdrawal
  for each row execute function rag.refuse_change_but_erasure('version', 'note');
comment on table rag.withdrawal is
  'Versions taken out of use. Withdrawing the newest version does not bring an older one back.';
comment on column rag.withdrawal.withdrawn_from is 'From when on the version may not be used. Default: time of recording.';

-- Documents that others take the place of: from then on every version of theirs, whenever it was loaded, is superseded. A
-- document is a name here, and so is its successor: a folder is loaded in any order.
create table rag.succession (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  successor_id text collate "C" not null,
  superseded_from timestamptz not null default now(),
  note text,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  -- A document may be superseded from an earlier instant than was announced first.
  constraint succession_key primary key (tenant, document_id, successor_id, superseded_from),
  constraint succession_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint succession_document_id_fits check (octet_length(document_id) between 1 and 200),
  constraint succession_document_id_is_printable check (document_id !~ '[[:cntrl:]]' and document_id = btrim(document_id)),
  constraint succession_successor_id_fits check (octet_length(successor_id) between 1 and 200),
  constraint succession_successor_id_is_printable check (
    successor_id !~ '[[:cntrl:]]' and successor_id = btrim(successor_id)
  ),
  constraint succession_is_by_another check (successor_id <> document_id),
  constraint succession_superseded_from_is_in_range check (
    superseded_from >= timestamptz '0001-01-01 00:00:00+00' and superseded_from < timestamptz '10000-01-01 00:00:00+00'
  ),
  constraint succession_note_fits check (octet_length(note) <= 4000)
);
alter table rag.succession enable row level security;
alter table rag.succession force row level security;
alter table rag.succession
  alter column successor_id set statistics 0,
  alter column note set statistics 0,
  alter column recorded_by set statistics 0;
create trigger succession_is_append_only
  before delete or truncate on rag.succession
  for each statement execute function rag.refuse_change();
create trigger succession_changes_by_erasure
  before update on rag.succession
  for each row execute function rag.refuse_change_but_erasure('tenant', 'note');
comment on table rag.succession is
  'Documents that others take the place of: from then on no version of theirs is used, also none that comes later.';
comment on column rag.succession.successor_id is 'A document of the same tenant that takes its place; it need not be there yet.';
comment on column rag.succession.superseded_from is 'From when on the document may not be used. Default: time of recording.';
comment on column rag.succession.recorded_by is 'Login of the session.';
