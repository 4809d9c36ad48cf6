-- Documents and spans, to look at: passages, the status of versions, documents, spans and whether they hold.

set local role rag_owner;

-- Passages with their texts. The text of a passage that is the whole body is the version's; who does not ask for the text
-- does not read it.
create view rag_api.passage with (security_invoker = true) as
  select
    p.tenant,
    p.document_id,
    p.version,
    p.range_start,
    p.range_end,
    p.heading_path,
    coalesce(p.tokens, rag.count_tokens(coalesce(p.text, v.body))) as tokens,
    coalesce(p.text, v.body) as text,
    p.text_sha256,
    p.words
  from rag.passage p
  left join rag.version v on v.tenant = p.tenant and v.document_id = p.document_id and v.version = p.version;
grant select on rag_api.passage to rag_reader, rag_auditor;
comment on view rag_api.passage is
  'Retrievable pieces of versions: range in code points, headings above, text, SHA-256 of the text, distinct words.';

-- The version of each visible document that is effective at an instant, from what had been recorded at another: the
-- greatest (effective_from, version). Whether it was withdrawn is another matter: an older one does not come back. One that was
-- erased is at no instant, and none comes back for it. Null instants mean now. Said as "there is no greater one", which the planner makes a join of, with an estimate near the
-- truth.
create function rag_api._effective_versions(
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (tenant text, document_id text, version integer, applies_to jsonb)
  language sql
  stable
  parallel restricted
begin atomic
  select v.tenant, v.document_id, v.version, v.applies_to
  from rag.version v
  where v.effective_from <= coalesce(p_valid_at, statement_timestamp())
    and v.recorded_at <= coalesce(p_known_at, statement_timestamp())
    and v.body is not null
    and not exists (
      select from rag.version n
      where n.tenant = v.tenant
        and n.document_id = v.document_id
        and (n.effective_from, n.version) > (v.effective_from, v.version)
        and n.effective_from <= coalesce(p_valid_at, statement_timestamp())
        and n.recorded_at <= coalesce(p_known_at, statement_timestamp())
    );
end;
revoke all on function rag_api._effective_versions from public;
grant execute on function rag_api._effective_versions to rag_reader, rag_auditor;
comment on function rag_api._effective_versions is
  'Private: the greatest (effective_from, version) of each visible document at an instant, withdrawn or not.';

-- The visible versions that are out of use at an instant, from what had been recorded at another.
create function rag_api._withdrawn_versions(
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (tenant text, document_id text, version integer)
  language sql
  stable
  parallel restricted
begin atomic
  select distinct w.tenant, w.document_id, w.version
  from rag.withdrawal w
  where w.withdrawn_from <= coalesce(p_valid_at, statement_timestamp())
    and w.recorded_at <= coalesce(p_known_at, statement_timestamp());
end;
revoke all on function rag_api._withdrawn_versions from public;
grant execute on function rag_api._withdrawn_versions to rag_reader, rag_auditor;
comment on function rag_api._withdrawn_versions is 'Private: the visible versions that are out of use at an instant.';

-- The visible documents that others take the place of at an instant, from what had been recorded at another, with those.
create function rag_api._superseded_documents(
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (tenant text, document_id text, successors text[])
  language sql
  stable
  parallel restricted
begin atomic
  select s.tenant, s.document_id, array_agg(distinct s.successor_id order by s.successor_id)
  from rag.succession s
  where s.superseded_from <= coalesce(p_valid_at, statement_timestamp())
    and s.recorded_at <= coalesce(p_known_at, statement_timestamp())
  group by s.tenant, s.document_id;
end;
revoke all on function rag_api._superseded_documents from public;
grant execute on function rag_api._superseded_documents to rag_reader, rag_auditor;
comment on function rag_api._superseded_documents is
  'Private: the visible documents that others take the place of at an instant, with those.';

-- The version of each visible document that may be used at an instant, whatever the case: effective, not withdrawn, and no other
-- document has taken the place of its document. Null instants mean now.
create function rag_api._current_versions(
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (tenant text, document_id text, version integer, applies_to jsonb)
  language sql
  stable
  parallel restricted
begin atomic
  select e.tenant, e.document_id, e.version, e.applies_to
  from rag_api._effective_versions(p_valid_at, p_known_at) as e
  where not exists (
      select from rag_api._withdrawn_versions(p_valid_at, p_known_at) as w
      where w.tenant = e.tenant and w.document_id = e.document_id and w.version = e.version
    )
    and not exists (
      select from rag_api._superseded_documents(p_valid_at, p_known_at) as s
      where s.tenant = e.tenant and s.document_id = e.document_id
    );
end;
revoke all on function rag_api._current_versions from public;
grant execute on function rag_api._current_versions to rag_reader, rag_auditor;
comment on function rag_api._current_versions is 'Private: the version of each visible document that may be used at an instant.';

-- Every visible version at an instant, from what had been recorded at another (null: now), with its status:
--   erased       its text was erased: it is used at no instant
--   superseded   other documents take the place of its document (`successors`), whether it is effective or not
--   scheduled    not yet effective
--   superseded   a version of the same document with a greater (effective_from, version) is effective
--   withdrawn    the effective version, but taken out of use
--   current      the one to use
-- In one pass, without a join of the table with itself: before the first analyze, as right after a load, the planner would
-- take one for cheap in any order, and a condition on the tenant would make it quadratic, or worse.
create function rag_api._versions(
  p_valid_at timestamptz,
  p_known_at timestamptz
)
  returns table (
    tenant text,
    document_id text,
    version integer,
    status text,
    successors text[],
    effective_version integer,
    title text,
    body text,
    applies_to jsonb,
    effective_from timestamptz,
    published date,
    source text,
    language text,
    metadata jsonb,
    recorded_at timestamptz,
    recorded_by text,
    body_length integer,
    body_sha256 bytea
  )
  language sql
  stable
  parallel restricted
begin atomic
  select
    v.tenant,
    v.document_id,
    v.version,
    case
      when v.body is null then 'erased'
      when s.document_id is not null then 'superseded'
      when not v.is_effective then 'scheduled'
      when v.version <> v.effective_version then 'superseded'
      when w.version is not null then 'withdrawn'
      else 'current'
    end,
    s.successors,
    v.effective_version,
    v.title,
    v.body,
    v.applies_to,
    v.effective_from,
    v.published,
    v.source,
    v.language,
    v.metadata,
    v.recorded_at,
    v.recorded_by,
    v.body_length,
    v.body_sha256
  from (
    select
      a.*,
      a.effective_from <= coalesce(p_valid_at, statement_timestamp()) as is_effective,
      first_value(case when a.effective_from <= coalesce(p_valid_at, statement_timestamp()) then a.version end) over (
        partition by a.tenant, a.document_id
        order by a.effective_from <= coalesce(p_valid_at, statement_timestamp()) desc, a.effective_from desc, a.version desc
      ) as effective_version
    from rag.version a
    where a.recorded_at <= coalesce(p_known_at, statement_timestamp())
  ) as v
  left join rag_api._withdrawn_versions(p_valid_at, p_known_at) as w
    on w.tenant = v.tenant and w.document_id = v.document_id and w.version = v.version
  left join rag_api._superseded_documents(p_valid_at, p_known_at) as s
    on s.tenant = v.tenant and s.document_id = v.document_id;
end;
revoke all on function rag_api._versions from public;
grant execute on function rag_api._versions to rag_reader, rag_auditor;
comment on function rag_api._versions is 'Private: every visible version at an instant, with its status.';

-- The status of every visible version at an instant, from what had been recorded at another (null: now): current,
-- superseded, scheduled, withdrawn, erased, as _versions says; the version that is effective then, and which documents take
-- the place of its document, null where none does.
create function rag_api.version_status(
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (
    tenant text,
    document_id text,
    version integer,
    status text,
    effective_version integer,
    successors text[],
    applies_to jsonb
  )
  language sql
  stable
  parallel restricted
begin atomic
  select v.tenant, v.document_id, v.version, v.status, v.effective_version, v.successors, v.applies_to
  from rag_api._versions(p_valid_at, p_known_at) as v;
end;
revoke all on function rag_api.version_status from public;
grant execute on function rag_api.version_status to rag_reader, rag_auditor;
comment on function rag_api.version_status is
  'Status of every visible version: current, superseded, scheduled, withdrawn, erased; the version effective at the instant; successors.';

create view rag_api.version with (security_invoker = true) as
  select
    v.tenant,
    v.document_id,
    v.version,
    v.status,
    v.successors,
    v.title,
    v.applies_to,
    v.effective_from,
    v.published,
    v.recorded_at,
    v.recorded_by,
    v.body_length,
    encode(v.body_sha256, 'hex') as body_sha256,
    v.source,
    v.language,
    v.metadata,
    v.body
  from rag_api._versions(null, null) as v;
grant select on rag_api.version to rag_reader, rag_auditor;
comment on view rag_api.version is 'Every visible version with its status now.';

create view rag_api.document with (security_invoker = true) as
  select v.tenant, v.document_id, v.version, v.title, v.applies_to, v.effective_from, v.published, v.source, v.body
  from rag_api.version v
  where v.status = 'current';
grant select on rag_api.document to rag_reader, rag_auditor;
comment on view rag_api.document is 'The current version of every visible document.';

create view rag_api.withdrawal with (security_invoker = true) as
  select w.tenant, w.document_id, w.version, w.withdrawn_from, w.recorded_at, w.recorded_by, w.note
  from rag.withdrawal w;
grant select on rag_api.withdrawal to rag_reader, rag_auditor;
comment on view rag_api.withdrawal is 'Versions of the bound tenant and of public that were taken out of use, and from when on.';

create view rag_api.succession with (security_invoker = true) as
  select s.tenant, s.document_id, s.successor_id, s.superseded_from, s.recorded_at, s.recorded_by, s.note
  from rag.succession s;
grant select on rag_api.succession to rag_reader, rag_auditor;
comment on view rag_api.succession is
  'Documents of the bound tenant and of public that others take the place of, by which ones and from when on.';
-- What was erased: of a version its length and hash stay; a row without a document is of all that the tenant had.
create view rag_api.erasure with (security_invoker = true) as
  select
    e.tenant, e.erasure_id, e.document_id, e.version, v.body_length, encode(v.body_sha256, 'hex') as body_sha256, e.reason,
    e.recorded_at, e.recorded_by
  from rag.erasure e
  left join rag.version v on v.tenant = e.tenant and v.document_id = e.document_id and v.version = e.version;
grant select on rag_api.erasure to rag_reader, rag_auditor;
comment on view rag_api.erasure is 'Versions of the bound tenant and of public that were erased: by whom, when, why.';

create view rag_api.span with (security_invoker = true) as
  select
    s.tenant, s.document_id, s.version, s.span_id, s.fact, s.occurrence, s.range_start, s.range_end,
    s.recorded_at, s.recorded_by, s.quote
  from rag.span s;
grant select on rag_api.span to rag_reader, rag_auditor;
comment on view rag_api.span is 'Every visible span with its text and its place (code points, 0-based, half-open); no text: erased.';

-- Recomputes every visible span from its body, where that was not erased, and lists those that do not hold: always empty. It does not use what was
-- derived at insert: it cuts the stored range out of the body and searches the quotation again.
create view rag_api.span_check with (security_invoker = true) as
  select
    s.tenant, s.document_id, s.version, s.span_id, s.range_start, s.range_end, s.quote,
    substr(v.body, s.range_start + 1, s.range_end - s.range_start) as found,
    rag.locate(v.body, s.quote, coalesce(s.occurrence, 1)) as expected_start
  from rag.span s
  join rag.version v on v.tenant = s.tenant and v.document_id = s.document_id and v.version = s.version
  where v.body is not null
    and (
      substr(v.body, s.range_start + 1, s.range_end - s.range_start) collate "C" is distinct from s.quote
      or rag.locate(v.body, s.quote, coalesce(s.occurrence, 1)) is distinct from s.range_start
    );
grant select on rag_api.span_check to rag_reader, rag_auditor;
comment on view rag_api.span_check is 'Spans whose stored place does not hold their quotation. Always empty.';

reset role;
