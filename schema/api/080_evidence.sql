-- Identity: SHA-256 over length-prefixed bytes in a fixed order (schema/README.md, "Byte layouts").
--
-- Every item is a field: 8 bytes of length, big-endian, then the bytes. Texts are UTF-8, numbers 8 bytes big-endian,
-- lists a count and then their items. The first field names the layout, so that no two kinds of digest can be confused.
-- Nothing comes from jsonb text, a float, a locale's order or a clock.

set local role rag_owner;

create function rag_api._text(
  p_text text
)
  returns bytea
  language sql
  immutable
  parallel safe
return rag.field(rag.utf8(p_text));
revoke all on function rag_api._text from public;
grant execute on function rag_api._text to rag_reader, rag_auditor;
comment on function rag_api._text is 'Private: a text as a field.';

create function rag_api._number(
  p_number bigint
)
  returns bytea
  language sql
  immutable
  parallel safe
return rag.field(pg_catalog.int8send(p_number));
revoke all on function rag_api._number from public;
grant execute on function rag_api._number to rag_reader, rag_auditor;
comment on function rag_api._number is 'Private: a number as a field.';

-- The bytes that identify selected evidence: question id; contract owner, version and content hash; case facts by name;
-- then each selected passage by document id, visibility, version and range start: its place, the SHA-256 of its text,
-- and the spans that begin in it and that the selection has whole (those recorded at p_known_at) by id with fact and
-- place. The order of rank is not part of it: the
-- identity is that of the set.
create function rag_api.evidence_preimage(
  p_contract_tenant text,
  p_question_id text,
  p_contract_version integer,
  p_case_facts jsonb,
  p_selection rag.source_ref[],
  p_known_at timestamptz default null
)
  returns bytea
  language sql
  stable
  parallel restricted
begin atomic
  with span as materialized (
    select s.tenant, s.document_id, s.version, s.span_id, s.fact, s.range_start, s.range_end
    from rag_api._selected_spans(p_selection, p_known_at) as s
  )
  select
    rag_api._text('rag-sql evidence 1')
    || rag_api._text(c.question_id)
    || rag_api._text(c.tenant)
    || rag_api._number(c.version)
    || rag.field(c.content_sha256)
    || (
      select rag_api._number(count(*)) || coalesce(
        string_agg(rag_api._text(f.key) || rag_api._text(f.value), ''::bytea order by f.key collate "C"), ''::bytea)
      from jsonb_each_text(p_case_facts) as f
    )
    || (
      select rag_api._number(count(*)) || coalesce(
        string_agg(
          rag_api._text(p.document_id)
          || rag_api._text(p.tenant)
          || rag_api._number(p.version)
          || rag_api._number(p.range_start)
          || rag_api._number(p.range_end)
          || rag.field(p.text_sha256)
          || (
            select rag_api._number(count(*)) || coalesce(
              string_agg(
                rag_api._text(s.span_id)
                || rag_api._text(s.fact)
                || rag_api._number(s.range_start)
                || rag_api._number(s.range_end),
                ''::bytea order by s.span_id collate "C"),
              ''::bytea)
            from span s
            where s.tenant = p.tenant
              and s.document_id = p.document_id
              and s.version = p.version
              and s.range_start >= p.range_start
              and s.range_start < p.range_end
          ),
          ''::bytea order by p.document_id, p.tenant, p.version, p.range_start),
        ''::bytea)
      from unnest(p_selection) as r
      join rag_api.passage p
        on p.tenant = r.tenant
        and p.document_id = r.document_id
        and p.version = r.version
        and p.range_start = r.range_start
        and p.range_end = r.range_end
    )
  from rag.contract c
  where c.tenant = p_contract_tenant
    and c.question_id = p_question_id
    and c.version = p_contract_version;
end;
revoke all on function rag_api.evidence_preimage from public;
grant execute on function rag_api.evidence_preimage to rag_reader;
comment on function rag_api.evidence_preimage is 'The bytes whose SHA-256 is the identity of selected evidence.';

-- The bytes that identify a draft: its claims in order.
create function rag_api.draft_preimage(
  p_claims jsonb
)
  returns bytea
  language sql
  immutable
  parallel safe
begin atomic
  select
    rag_api._text('rag-sql draft 1')
    || rag_api._number(count(*))
    || coalesce(
      string_agg(
        rag_api._text(c ->> 'text')
        || rag_api._text(c ->> 'fact')
        || rag_api._text(c ->> 'document_id')
        || rag_api._text(c ->> 'tenant')
        || rag_api._number((c ->> 'version')::bigint)
        || rag_api._text(c ->> 'span_id'),
        ''::bytea order by i),
      ''::bytea)
  from jsonb_array_elements(p_claims) with ordinality as t(c, i);
end;
revoke all on function rag_api.draft_preimage from public;
grant execute on function rag_api.draft_preimage to rag_reader;
comment on function rag_api.draft_preimage is 'The bytes whose SHA-256 is the identity of a draft.';

-- A time as a list of one number, microseconds since 1970; the empty list where it is the default, the time of
-- recording: that is a clock and stays out.
create function rag_api._stated_time(
  p_time timestamptz,
  p_recorded_at timestamptz
)
  returns bytea
  language sql
  immutable
  parallel safe
return case
  when p_time = p_recorded_at then rag_api._number(0)
  else rag_api._number(1) || rag_api._number((extract(epoch from p_time) * 1000000)::bigint)
end;
revoke all on function rag_api._stated_time from public;
grant execute on function rag_api._stated_time to rag_reader, rag_auditor;
comment on function rag_api._stated_time is 'Private: a time that was stated, as a list of at most one number.';

-- Identity of everything the caller's retriever could have seen at an instant: every visible version with its body,
-- applicability, stated effective time, withdrawal, spans and the successors of its document, and the types of attributes
-- that are no texts. It does not depend on the order or the time of loading, and decide does not compute it: it changes with
-- any document, used or not. What was erased is in it at no instant.
create function rag_api.corpus_fingerprint(
  p_known_at timestamptz default null
)
  returns bytea
  language sql
  stable
  parallel restricted
begin atomic
  select sha256(
    rag_api._text('rag-sql corpus 2')
    || rag_api._number(count(*))
    || coalesce(string_agg(leaf.hash, ''::bytea order by leaf.document_id, leaf.tenant, leaf.version), ''::bytea)
    || (
      select rag_api._number(count(*)) || coalesce(
        string_agg(
          rag_api._text(t.attribute) || rag_api._text(t.tenant) || rag_api._text(t.type),
          ''::bytea order by t.attribute collate "C", t.tenant collate "C"),
        ''::bytea)
      from rag_api._attribute_types(p_known_at) as t
      where t.type <> 'text'
    )
  )
  from (
    select
      v.document_id,
      v.tenant,
      v.version,
      sha256(
        rag_api._text(v.document_id)
        || rag_api._text(v.tenant)
        || rag_api._number(v.version)
        || rag.field(v.body_sha256)
        || (
          select rag_api._number(count(*)) || coalesce(
            string_agg(
              rag_api._text(a.key) || rag_api._number(jsonb_array_length(a.value)) || (
                select string_agg(rag_api._text(x), ''::bytea order by x collate "C")
                from jsonb_array_elements_text(a.value) as x
              ), ''::bytea order by a.key collate "C"),
            ''::bytea)
          from jsonb_each(v.applies_to) as a
        )
        || rag_api._stated_time(v.effective_from, v.recorded_at)
        || (
          select rag_api._number(count(*)) || string_agg(rag_api._number(p.range_end), ''::bytea order by p.range_end)
          from rag.passage p
          where p.tenant = v.tenant and p.document_id = v.document_id and p.version = v.version
        )
        -- Which version takes effect after which may rest on defaults alone: the order says it without a clock.
        || rag_api._number(row_number() over (
          partition by v.tenant, v.document_id order by v.effective_from, v.version))
        || coalesce((
          select rag_api._number(1) || rag_api._stated_time(w.withdrawn_from, w.recorded_at)
          from rag.withdrawal w
          where w.tenant = v.tenant and w.document_id = v.document_id and w.version = v.version
            and w.recorded_at <= coalesce(p_known_at, statement_timestamp())
          order by w.withdrawn_from
          limit 1
        ), rag_api._number(0))
        || (
          select rag_api._number(count(*)) || coalesce(
            string_agg(
              rag_api._text(s.span_id) || rag_api._text(s.fact)
              || rag_api._number(s.range_start) || rag_api._number(s.range_end),
              ''::bytea order by s.span_id),
            ''::bytea)
          from rag.span s
          where s.tenant = v.tenant and s.document_id = v.document_id and s.version = v.version
            and s.recorded_at <= coalesce(p_known_at, statement_timestamp())
        )
        || case when v.language <> 'simple' then rag_api._text(v.language) else ''::bytea end
        || coalesce((
          select rag_api._number(count(*)) || string_agg(
            rag_api._text(n.successor_id) || rag_api._stated_time(n.superseded_from, n.recorded_at),
            ''::bytea order by n.successor_id)
          from (
            select distinct on (s.successor_id) s.successor_id, s.superseded_from, s.recorded_at
            from rag.succession s
            where s.tenant = v.tenant and s.document_id = v.document_id
              and s.recorded_at <= coalesce(p_known_at, statement_timestamp())
            order by s.successor_id, s.superseded_from
          ) as n
          having count(*) > 0
        ), ''::bytea)
      ) as hash
    from rag.version v
    where v.recorded_at <= coalesce(p_known_at, statement_timestamp())
      and v.body is not null
  ) as leaf;
end;
revoke all on function rag_api.corpus_fingerprint from public;
grant execute on function rag_api.corpus_fingerprint to rag_reader, rag_auditor;
comment on function rag_api.corpus_fingerprint is
  'SHA-256 identity of every visible version, independent of load order; never part of a digest.';

reset role;
