-- Erasing: a document's texts, or a tenant's, and what was copied from them.
--
-- Administration: the installing login acts as rag_owner for these. No run-time role may call them. What may be changed is
-- not decided here: the policies below show rag_owner what an erasure of this very transaction names, and a trigger of the
-- tables lets nothing but that become empty (tables/095_erasure).
--
-- What goes with a document: body, title, source, metadata, outline and applies_to of its versions; headings, text and words
-- of their passages; quotations; notes on their withdrawal; their places in the lists of words, and words that only they
-- have; vectors; drafts, notes on decisions, and queries and answers of traces of packets that rest on them. With a tenant, all
-- of that, and notes on successions, and contracts, and of every packet case facts, query, parameters and pre-image. What stays: keys, numbers, times,
-- logins and reviewers, SHA-256s; the record.
--
-- Lock order: the tenant's turn, the tenant, buckets of vectors, versions, contracts, packets, traces. Who stores what refers
-- to one of them is waited for, or waits and is refused (rag.refuse_erased); no vector is stored without its bucket's lock.

set local role rag_owner;

create policy erasure_admin_select on rag.erasure for select to rag_owner using (true);
create policy erasure_admin_insert on rag.erasure for insert to rag_owner with check (true);
create policy version_erasure_select on rag.version for select to rag_owner
  using (rag.is_being_erased(tenant, document_id, version));
create policy version_erasure_update on rag.version for update to rag_owner
  using (rag.is_being_erased(tenant, document_id, version));
create policy passage_erasure_select on rag.passage for select to rag_owner
  using (rag.is_being_erased(tenant, document_id, version));
create policy passage_erasure_update on rag.passage for update to rag_owner
  using (rag.is_being_erased(tenant, document_id, version));
create policy span_erasure_select on rag.span for select to rag_owner
  using (rag.is_being_erased(tenant, document_id, version));
create policy span_erasure_update on rag.span for update to rag_owner
  using (rag.is_being_erased(tenant, document_id, version));
create policy withdrawal_erasure_select on rag.withdrawal for select to rag_owner
  using (rag.is_being_erased(tenant, document_id, version));
create policy withdrawal_erasure_update on rag.withdrawal for update to rag_owner
  using (rag.is_being_erased(tenant, document_id, version));
-- Also those that quote a document, to count them.
create policy contract_erasure_select on rag.contract for select to rag_owner
  using (
    (select array_agg(distinct e.tenant) from rag.erasure e where e.recorded_at = transaction_timestamp())
      && array['public', tenant]
  );
create policy contract_erasure_update on rag.contract for update to rag_owner
  using (rag.is_being_erased(tenant, null, null));
create policy succession_erasure_select on rag.succession for select to rag_owner
  using (rag.is_being_erased(tenant, null, null));
create policy succession_erasure_update on rag.succession for update to rag_owner
  using (rag.is_being_erased(tenant, null, null));
create policy packet_source_erasure_select on rag.packet_source for select to rag_owner
  using (rag.is_being_erased(document_tenant, document_id, version) or rag.is_being_erased(tenant, null, null));
create policy packet_erasure_select on rag.packet for select to rag_owner
  using (rag.is_packet_being_erased(tenant, packet_id));
create policy packet_erasure_update on rag.packet for update to rag_owner
  using (rag.is_packet_being_erased(tenant, packet_id));
create policy approval_erasure_select on rag.approval for select to rag_owner
  using (rag.is_packet_being_erased(tenant, packet_id));
create policy approval_erasure_update on rag.approval for update to rag_owner
  using (rag.is_packet_being_erased(tenant, packet_id));
create policy trace_erasure_select on rag.trace for select to rag_owner
  using (rag.is_packet_being_erased(tenant, packet_id));
create policy trace_erasure_update on rag.trace for update to rag_owner
  using (rag.is_packet_being_erased(tenant, packet_id));
-- Of the traces that rag_owner sees: those, and those whose time is over.
create policy trace_answer_erasure_update on rag.trace_answer for update to rag_owner
  using (exists (select from rag.trace t where t.tenant = trace_answer.tenant and t.trace_id = trace_answer.trace_id));

create policy scope_admin_select on rag_index.scope for select to rag_owner using (true);
create policy scope_admin_delete on rag_index.scope for delete to rag_owner using (true);
create policy scope_value_admin_select on rag_index.scope_value for select to rag_owner using (true);
create policy scope_value_admin_delete on rag_index.scope_value for delete to rag_owner using (true);
create policy posting_admin_update on rag_index.posting for update to rag_owner using (true);
create policy turn_admin_select on rag_index.turn for select to rag_owner using (true);
create policy turn_admin_insert on rag_index.turn for insert to rag_owner with check (true);
create policy turn_admin_update on rag_index.turn for update to rag_owner using (true);

-- Takes versions of a tenant out of the index: out of use at every instant, out of the lists of words, and what only they
-- apply to. Their ordinals are left free, so that those of others stay what they are; statistics are taken over what is
-- eligible, so that nothing has to be counted again.
create or replace function rag_index.erase_versions(
  p_tenant text,
  p_document_ids text[],
  p_versions integer[]
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_segment_ids bigint[];  -- that they stand in
  v_whole bigint[];        -- of these, the ones in which nothing else stands
begin
  update rag_index.version v
  set used_until = '-infinity'
  from unnest(p_document_ids, p_versions) as e(document_id, version)
  where v.tenant = p_tenant and v.document_id = e.document_id and v.version = e.version;

  select
    array_agg(s.segment_id),
    array_agg(s.segment_id) filter (where not exists (
      select from rag_index.version o
      where o.tenant = p_tenant and o.segment_id = s.segment_id and o.used_until > '-infinity'
    ))
  into v_segment_ids, v_whole
  from (
    select distinct v.segment_id
    from unnest(p_document_ids, p_versions) as e(document_id, version)
    join rag_index.version v on v.tenant = p_tenant and v.document_id = e.document_id and v.version = e.version
  ) as s;

  delete from rag_index.posting p where p.tenant = p_tenant and p.segment_id = any (v_whole);
  -- In the others every list is looked at, and not only those of the words that the texts have today: a dictionary may have
  -- changed since they were indexed.
  update rag_index.posting p
  set passages = k.passages, entries = k.entries, most = k.most
  from (
    select v.segment_id, range_agg(int4range(v.first_ordinal, v.first_ordinal + cardinality(v.range_ends))) as ordinals
    from rag_index.version v
    where v.tenant = p_tenant and v.segment_id = any (v_segment_ids) and v.used_until = '-infinity'
    group by v.segment_id
  ) as g
  join (
    -- Put together with nothing, a list is read from its side table once.
    select p.segment_id, p.word, p.entries || '{}'::integer[] as entries
    from rag_index.posting p
    where p.tenant = p_tenant and p.segment_id = any (v_segment_ids)
    offset 0
  ) as o on o.segment_id = g.segment_id
  cross join lateral (
    select
      count(*)::integer as passages,
      coalesce(array_agg(u.entry order by u.entry), '{}') as entries,
      coalesce(max(u.entry & 255), 1) as most
    from unnest(o.entries) as u(entry)
    where not u.entry >> 8 <@ g.ordinals
  ) as k
  where p.tenant = p_tenant
    and p.segment_id = o.segment_id
    and p.word = o.word
    and exists (
      select from unnest(g.ordinals) as r
      where width_bucket(256 * lower(r) - 1, o.entries) < width_bucket(256 * upper(r) - 1, o.entries)
    );
  delete from rag_index.posting p where p.tenant = p_tenant and p.segment_id = any (v_segment_ids) and p.passages = 0;

  delete from rag_index.scope c
  where c.tenant = p_tenant
    and not exists (
      select
      from rag_index.segment s
      join rag_index.version v on v.tenant = s.tenant and v.segment_id = s.segment_id
      where s.tenant = p_tenant
        and c.scope_id = any (s.scope_ids)
        and s.scope_ids[width_bucket(v.first_ordinal, s.scope_starts)] = c.scope_id
        and v.used_until > '-infinity'
    );

  delete from rag_index.scope_value c
  where c.tenant = p_tenant
    and not exists (select from rag_index.scope s where s.tenant = c.tenant and s.scope_id = c.scope_id);

  delete from rag_index.embedding b
  using unnest(p_document_ids, p_versions) as e(document_id, version)
  where b.tenant = p_tenant and b.document_id = e.document_id and b.version = e.version;
end;
$$;
revoke all on function rag_index.erase_versions from public;
comment on function rag_index.erase_versions is 'Takes versions of a tenant out of the index: use, words, what they apply to, vectors.';

-- Empties what an erasure of this transaction names: versions of a tenant, and what was made of the packets that rest on them,
-- given as pairs of tenant and id. With p_all what is the tenant's own besides.
create or replace function rag_auth.empty_erased(
  p_tenant text,
  p_document_ids text[],
  p_versions integer[],
  p_packet_tenants text[],
  p_packet_ids uuid[],
  p_all boolean
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform rag_index.erase_versions(p_tenant, p_document_ids, p_versions);
  update rag.version v
  set title = null, body = null, applies_to = '{}', source = null, metadata = '{}', outline = '[]'
  from unnest(p_document_ids, p_versions) as e(document_id, version)
  where v.tenant = p_tenant and v.document_id = e.document_id and v.version = e.version;
  update rag.passage p
  set heading_path = '{}', text = null, words = ''
  from unnest(p_document_ids, p_versions) as e(document_id, version)
  where p.tenant = p_tenant and p.document_id = e.document_id and p.version = e.version;
  update rag.span s
  set quote = null
  from unnest(p_document_ids, p_versions) as e(document_id, version)
  where s.tenant = p_tenant and s.document_id = e.document_id and s.version = e.version;
  update rag.withdrawal w
  set note = null
  from unnest(p_document_ids, p_versions) as e(document_id, version)
  where w.tenant = p_tenant and w.document_id = e.document_id and w.version = e.version;

  update rag.approval a
  set claims = '[]', note = null
  from unnest(p_packet_tenants, p_packet_ids) as k(tenant, packet_id)
  where a.tenant = k.tenant and a.packet_id = k.packet_id;
  update rag.trace_answer a
  set answer = null, citations = '{}'
  from unnest(p_packet_tenants, p_packet_ids) as k(tenant, packet_id)
  join rag.trace t on t.tenant = k.tenant and t.packet_id = k.packet_id
  where a.tenant = t.tenant and a.trace_id = t.trace_id;
  update rag.trace t
  set query = null
  from unnest(p_packet_tenants, p_packet_ids) as k(tenant, packet_id)
  where t.tenant = k.tenant and t.packet_id = k.packet_id;

  if p_all then
    update rag.contract c set content = null where c.tenant = p_tenant;
    update rag.succession s set note = null where s.tenant = p_tenant;
    update rag.packet p set case_facts = '{}', query = '', preimage = null, parameters = '{}' where p.tenant = p_tenant;
  end if;
end;
$$;
revoke all on function rag_auth.empty_erased from public;
comment on function rag_auth.empty_erased is 'Empties what an erasure of this transaction names.';

-- Erases versions of a document (null: all of them), or with p_all all that a tenant has, in one transaction, and records it.
-- Returns what was erased, and what rested on it: drafts and traces lose their texts; `contracts` that quote the document stay
-- as they are, and go with their tenant. With p_dry_run it says the same and changes nothing.
--
-- What was erased before is left out. RS083 when there is no such tenant, or all of public is meant; RS022 when there is no
-- such document or version; RS010 when it is not said whether a document or all is meant, for a reason of other than 1 to
-- 4,000 bytes, and in a transaction that sees the database as it was.
create or replace function rag_auth.erase(
  p_tenant text,
  p_document_id text,
  p_versions integer[],
  p_all boolean,
  p_reason text,
  p_dry_run boolean
)
  returns table (
    versions integer, passages bigint, spans bigint, vectors bigint,
    packets bigint, approvals bigint, traces bigint, contracts bigint
  )
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_document_ids text[];
  v_versions integer[];
  v_packet_tenants text[];
  v_packet_ids uuid[];
  v_unknown integer;
begin
  if p_all is distinct from (p_document_id is null) or (p_all and p_versions is not null) then
    raise exception using errcode = 'RS010', message = 'either a document is erased, with its versions, or all of a tenant';
  end if;
  if coalesce(octet_length(p_reason), 0) not between 1 and 4000 then
    raise exception using errcode = 'RS010', message = 'a reason for an erasure has 1 to 4000 bytes';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using
      errcode = 'RS010',
      message = format('nothing is erased in a transaction that is %s', current_setting('transaction_isolation')),
      hint = 'Begin it as read committed.';
  end if;
  if not exists (select from rag.tenant t where t.tenant = p_tenant) or (p_all and p_tenant = 'public') then
    raise exception using
      errcode = 'RS083',
      message = format('there is no tenant "%s" that could be erased', p_tenant),
      hint = case p_tenant when 'public' then 'Erase its documents one by one.' else 'List the tenants: rag-sql tenant list' end;
  end if;

  if not p_dry_run then
    insert into rag_index.turn as t (tenant) values (p_tenant) on conflict (tenant) do update set turns = t.turns + 1;
    perform from rag.tenant t where t.tenant = p_tenant for update;
    perform pg_advisory_xact_lock(b.lock_key) from (
      select b.lock_key from rag_index.bucket b where b.tenant = p_tenant order by b.model, b.model_version
    ) as b;
  end if;

  select v.version into v_unknown
  from unnest(coalesce(p_versions, array[null::integer])) as v(version)
  where p_document_id is not null
    and not exists (
      select from rag_index.version i
      where i.tenant = p_tenant and i.document_id = p_document_id and i.version = coalesce(v.version, i.version)
    )
  order by 1
  limit 1;
  if found then
    raise exception using
      errcode = 'RS022',
      message = case
        when v_unknown is null then format('no document "%s"', p_document_id)
        else format('no version %s of document "%s"', v_unknown, p_document_id)
      end,
      hint = 'The documents of a tenant, with their versions: select document_id, version from rag_api.version;';
  end if;
  select coalesce(array_agg(i.document_id order by i.document_id, i.version), '{}'),
    coalesce(array_agg(i.version order by i.document_id, i.version), '{}')
  into v_document_ids, v_versions
  from rag_index.version i
  where i.tenant = p_tenant
    and (p_document_id is null or i.document_id = p_document_id)
    and (p_versions is null or i.version = any (p_versions))
    and i.used_until > '-infinity';

  begin
    insert into rag.erasure (tenant, document_id, version, reason)
    select p_tenant, e.document_id, e.version, p_reason
    from unnest(v_document_ids, v_versions) as e(document_id, version)
    union all
    select p_tenant, null, null, p_reason where p_all;

    -- From here on rag_owner sees what they name.
    perform
    from unnest(v_document_ids, v_versions) as e(document_id, version)
    join rag.version v on v.tenant = p_tenant and v.document_id = e.document_id and v.version = e.version
    order by v.document_id, v.version
    for update of v;
    if p_all then
      perform from rag.contract c where c.tenant = p_tenant order by c.question_id, c.version for update;
    end if;
    -- The packets of another tenant can rest on what is public.
    select coalesce(array_agg(k.tenant order by k.tenant, k.packet_id), '{}'),
      coalesce(array_agg(k.packet_id order by k.tenant, k.packet_id), '{}')
    into v_packet_tenants, v_packet_ids
    from (
      select s.tenant, s.packet_id
      from unnest(v_document_ids, v_versions) as e(document_id, version)
      cross join (select t.tenant from rag.tenant t where p_tenant in ('public', t.tenant)) as t
      join rag.packet_source s
        on s.tenant = t.tenant and s.document_tenant = p_tenant and s.document_id = e.document_id and s.version = e.version
      union
      select p.tenant, p.packet_id from rag.packet p where p_all and p.tenant = p_tenant
    ) as k;
    perform
    from unnest(v_packet_tenants, v_packet_ids) as k(tenant, packet_id)
    join rag.packet p on p.tenant = k.tenant and p.packet_id = k.packet_id
    order by p.tenant, p.packet_id
    for update of p;
    perform
    from unnest(v_packet_tenants, v_packet_ids) as k(tenant, packet_id)
    join rag.trace t on t.tenant = k.tenant and t.packet_id = k.packet_id
    order by t.tenant, t.trace_id
    for update of t;

    select
      cardinality(v_versions),
      (
        select coalesce(sum(cardinality(i.range_ends)), 0)
        from unnest(v_document_ids, v_versions) as e(document_id, version)
        join rag_index.version i on i.tenant = p_tenant and i.document_id = e.document_id and i.version = e.version
      ),
      (
        select count(*)
        from unnest(v_document_ids, v_versions) as e(document_id, version)
        join rag.span s on s.tenant = p_tenant and s.document_id = e.document_id and s.version = e.version
      ),
      (
        select count(*)
        from unnest(v_document_ids, v_versions) as e(document_id, version)
        join rag_index.embedding b on b.tenant = p_tenant and b.document_id = e.document_id and b.version = e.version
      ),
      cardinality(v_packet_ids),
      (
        select count(*)
        from unnest(v_packet_tenants, v_packet_ids) as k(tenant, packet_id)
        join rag.approval a on a.tenant = k.tenant and a.packet_id = k.packet_id
      ),
      (
        select count(*)
        from unnest(v_packet_tenants, v_packet_ids) as k(tenant, packet_id)
        join rag.trace t on t.tenant = k.tenant and t.packet_id = k.packet_id
      ),
      (
        select count(*)
        from rag.contract c
        where c.content is not null
          and (p_all and c.tenant = p_tenant or not p_all and jsonb_path_query_array(c.content, '$.facts[*].propositions[*].quote') ?| array(
            select distinct s.quote
            from unnest(v_document_ids, v_versions) as e(document_id, version)
            join rag.span s on s.tenant = p_tenant and s.document_id = e.document_id and s.version = e.version
          ))
      )
    into versions, passages, spans, vectors, packets, approvals, traces, contracts;
    if p_dry_run then
      raise sqlstate 'RS000';  -- caught below; never seen outside
    end if;
    perform rag_auth.empty_erased(p_tenant, v_document_ids, v_versions, v_packet_tenants, v_packet_ids, p_all);
  exception
    when sqlstate 'RS000' then
      null;  -- and with it the record
  end;
  return next;
end;
$$;
revoke all on function rag_auth.erase from public;
comment on function rag_auth.erase is
  'Erases a document''s versions, or all of a tenant, and records it; what was erased and what rested on it. RS010, RS022, RS083.';

reset role;
