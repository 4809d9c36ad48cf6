-- The wall between tenants: row-level security, enabled and forced on every table (tables/), one policy per command.
--
--   <table>_select          what a reader sees: public and the bound tenant, or the bound tenant alone
--   <table>_insert[_...]    what may be added, by whom
--   <table>_audit           what the auditor sees: everything
--   <table>_fence_...       restrictive: whatever permissive policy is added later, readers stay inside
--
-- No policy, and no grant, lets a run-time role update or delete: evidence is append-only.
--
-- What decisions rest on, and a reviewer's decision, take the right to write (rag_auth.write_tenant()). A packet or a
-- trace is the record of somebody's asking, made by the database, and changes nothing for anyone: who may read may ask,
-- and leaves that record.
--
-- The predicate for reading has two halves that say the same. `tenant = any (array['public', (select rag_auth.tenant())])`,
-- element by element, is for the planner: it can use an index that leads with the tenant on every supported server, prunes
-- partitions at run time, estimates well, and evaluates the function once a statement. Text equality is leakproof, so no
-- function of the query that can fail sees a hidden row.
--
-- Before it stands `(select rag_auth.readable(true))[tenant] is not null`, a look into an object. PostgreSQL asks conditions
-- of the query before a policy where it takes them for harmless and for cheaper, and then EXPLAIN ANALYZE tells whether the
-- policy was asked at all: a hidden value could be found out by halves. Nothing is cheaper than a subscript, whose cost is
-- not counted, so that everything else is asked of visible rows. What is as cheap (a null, a flag, a subscript) and written
-- round a union still goes ahead: tests/tenancy/README.md, E05.
--
-- A policy and its fence are written alike, letter by letter: PostgreSQL then asks once.
--
-- All policies are dropped and created again on every upgrade: what stands here is what there is.

set local role rag_owner;

do $$
declare
  v_policy record;
begin
  for v_policy in
    select p.polname, p.polrelid::regclass as table_name
    from pg_catalog.pg_policy p
    join pg_catalog.pg_class c on c.oid = p.polrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('rag', 'rag_auth', 'rag_index')
  loop
    execute format('drop policy %I on %s', v_policy.polname, v_policy.table_name);
  end loop;
end
$$;

-- Administration: the installing login acts as rag_owner, which forced row-level security holds too.
create policy tenant_admin_select on rag.tenant for select to rag_owner using (true);
create policy tenant_admin_insert on rag.tenant for insert to rag_owner with check (true);
create policy tenant_admin_update on rag.tenant for update to rag_owner using (tenant <> 'public');
create policy membership_admin_select on rag_auth.membership for select to rag_owner using (true);
create policy membership_admin_insert on rag_auth.membership for insert to rag_owner with check (true);
create policy membership_admin_delete on rag_auth.membership for delete to rag_owner using (true);
create policy signing_key_admin_select on rag_auth.signing_key for select to rag_owner using (true);
create policy signing_key_admin_insert on rag_auth.signing_key for insert to rag_owner with check (true);
create policy signing_key_admin_delete on rag_auth.signing_key for delete to rag_owner using (true);

-- What proofs are made of.
create policy tenant_binder_select on rag.tenant for select to rag_binder using (true);
create policy membership_binder_select on rag_auth.membership for select to rag_binder using (true);
create policy signing_key_binder_select on rag_auth.signing_key for select to rag_binder using (true);

-- tenant
create policy tenant_select on rag.tenant for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy tenant_audit on rag.tenant for select to rag_auditor
  using (true);
create policy tenant_fence_select on rag.tenant as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));

-- attribute
create policy attribute_select on rag.attribute for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy attribute_insert_curator on rag.attribute for insert to rag_curator
  with check (tenant = (select rag_auth.write_tenant()) and tenant <> 'public');
create policy attribute_insert_publisher on rag.attribute for insert to rag_publisher
  with check (tenant = (select rag_auth.write_tenant()) and tenant = 'public');
create policy attribute_audit on rag.attribute for select to rag_auditor
  using (true);
create policy attribute_fence_select on rag.attribute as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy attribute_fence_insert on rag.attribute as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- version
create policy version_select on rag.version for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy version_insert_curator on rag.version for insert to rag_curator
  with check (tenant = (select rag_auth.write_tenant()) and tenant <> 'public');
create policy version_insert_publisher on rag.version for insert to rag_publisher
  with check (tenant = (select rag_auth.write_tenant()) and tenant = 'public');
create policy version_audit on rag.version for select to rag_auditor
  using (true);
create policy version_fence_select on rag.version as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy version_fence_insert on rag.version as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- passage
create policy passage_select on rag.passage for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy passage_insert on rag.passage for insert to rag_recorder
  with check (tenant = (select rag_auth.write_tenant()));
create policy passage_audit on rag.passage for select to rag_auditor
  using (true);
create policy passage_fence_select on rag.passage as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy passage_fence_insert on rag.passage as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- withdrawal
create policy withdrawal_select on rag.withdrawal for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy withdrawal_insert_curator on rag.withdrawal for insert to rag_curator
  with check (tenant = (select rag_auth.write_tenant()) and tenant <> 'public');
create policy withdrawal_insert_publisher on rag.withdrawal for insert to rag_publisher
  with check (tenant = (select rag_auth.write_tenant()) and tenant = 'public');
create policy withdrawal_audit on rag.withdrawal for select to rag_auditor
  using (true);
create policy withdrawal_fence_select on rag.withdrawal as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy withdrawal_fence_insert on rag.withdrawal as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- succession
create policy succession_select on rag.succession for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy succession_insert_curator on rag.succession for insert to rag_curator
  with check (tenant = (select rag_auth.write_tenant()) and tenant <> 'public');
create policy succession_insert_publisher on rag.succession for insert to rag_publisher
  with check (tenant = (select rag_auth.write_tenant()) and tenant = 'public');
create policy succession_audit on rag.succession for select to rag_auditor
  using (true);
create policy succession_fence_select on rag.succession as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy succession_fence_insert on rag.succession as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- span
create policy span_select on rag.span for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy span_insert_curator on rag.span for insert to rag_curator
  with check (tenant = (select rag_auth.write_tenant()) and tenant <> 'public');
create policy span_insert_publisher on rag.span for insert to rag_publisher
  with check (tenant = (select rag_auth.write_tenant()) and tenant = 'public');
create policy span_audit on rag.span for select to rag_auditor
  using (true);
create policy span_fence_select on rag.span as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy span_fence_insert on rag.span as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- erasure
create policy erasure_select on rag.erasure for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy erasure_audit on rag.erasure for select to rag_auditor
  using (true);
create policy erasure_fence_select on rag.erasure as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy erasure_fence_insert on rag.erasure as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- contract
create policy contract_select on rag.contract for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy contract_insert_curator on rag.contract for insert to rag_curator
  with check (tenant = (select rag_auth.write_tenant()) and tenant <> 'public');
create policy contract_insert_publisher on rag.contract for insert to rag_publisher
  with check (tenant = (select rag_auth.write_tenant()) and tenant = 'public');
create policy contract_audit on rag.contract for select to rag_auditor
  using (true);
create policy contract_fence_select on rag.contract as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy contract_fence_insert on rag.contract as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- packet
create policy packet_select on rag.packet for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy packet_insert on rag.packet for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy packet_audit on rag.packet for select to rag_auditor
  using (true);
create policy packet_fence_select on rag.packet as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy packet_fence_insert on rag.packet as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- packet_source
create policy packet_source_select on rag.packet_source for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy packet_source_insert on rag.packet_source for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy packet_source_audit on rag.packet_source for select to rag_auditor
  using (true);
create policy packet_source_fence_select on rag.packet_source as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy packet_source_fence_insert on rag.packet_source as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- packet_span
create policy packet_span_select on rag.packet_span for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy packet_span_insert on rag.packet_span for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy packet_span_audit on rag.packet_span for select to rag_auditor
  using (true);
create policy packet_span_fence_select on rag.packet_span as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy packet_span_fence_insert on rag.packet_span as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- approval
create policy approval_select on rag.approval for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy approval_insert on rag.approval for insert to rag_recorder
  with check (tenant = (select rag_auth.write_tenant()));
create policy approval_audit on rag.approval for select to rag_auditor
  using (true);
create policy approval_fence_select on rag.approval as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy approval_fence_insert on rag.approval as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- trace
create policy trace_select on rag.trace for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_insert on rag.trace for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy trace_audit on rag.trace for select to rag_auditor
  using (true);
create policy trace_fence_select on rag.trace as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_fence_insert on rag.trace as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- trace_candidate
create policy trace_candidate_select on rag.trace_candidate for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_candidate_insert on rag.trace_candidate for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy trace_candidate_audit on rag.trace_candidate for select to rag_auditor
  using (true);
create policy trace_candidate_fence_select on rag.trace_candidate as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_candidate_fence_insert on rag.trace_candidate as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- trace_passage
create policy trace_passage_select on rag.trace_passage for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_passage_insert on rag.trace_passage for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy trace_passage_audit on rag.trace_passage for select to rag_auditor
  using (true);
create policy trace_passage_fence_select on rag.trace_passage as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_passage_fence_insert on rag.trace_passage as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- trace_answer
create policy trace_answer_select on rag.trace_answer for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_answer_insert on rag.trace_answer for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy trace_answer_audit on rag.trace_answer for select to rag_auditor
  using (true);
create policy trace_answer_fence_select on rag.trace_answer as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_answer_fence_insert on rag.trace_answer as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- trace_verdict
create policy trace_verdict_select on rag.trace_verdict for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_verdict_insert on rag.trace_verdict for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy trace_verdict_audit on rag.trace_verdict for select to rag_auditor
  using (true);
create policy trace_verdict_fence_select on rag.trace_verdict as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_verdict_fence_insert on rag.trace_verdict as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- trace_time
create policy trace_time_select on rag.trace_time for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_time_insert on rag.trace_time for insert to rag_recorder
  with check (tenant = (select rag_auth.tenant()));
create policy trace_time_audit on rag.trace_time for select to rag_auditor
  using (true);
create policy trace_time_fence_select on rag.trace_time as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_time_fence_insert on rag.trace_time as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- trace_purge
create policy trace_purge_select on rag.trace_purge for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_purge_admin_insert on rag.trace_purge for insert to rag_owner
  with check (true);
create policy trace_purge_audit on rag.trace_purge for select to rag_auditor
  using (true);
create policy trace_purge_fence_select on rag.trace_purge as restrictive for select to rag_reader
  using ((select rag_auth.readable(false))[tenant] is not null and tenant = any (array[(select rag_auth.tenant())]));
create policy trace_purge_fence_insert on rag.trace_purge as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.tenant()));

-- embedding_model
create policy embedding_model_select on rag.embedding_model for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy embedding_model_insert_curator on rag.embedding_model for insert to rag_curator
  with check (tenant = (select rag_auth.write_tenant()) and tenant <> 'public');
create policy embedding_model_insert_publisher on rag.embedding_model for insert to rag_publisher
  with check (tenant = (select rag_auth.write_tenant()) and tenant = 'public');
create policy embedding_model_audit on rag.embedding_model for select to rag_auditor
  using (true);
create policy embedding_model_fence_select on rag.embedding_model as restrictive for select to rag_reader
  using ((select rag_auth.readable(true))[tenant] is not null and tenant = any (array['public', (select rag_auth.tenant())]));
create policy embedding_model_fence_insert on rag.embedding_model as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));

-- The search index. Functions of rag_search read for whoever calls them, within the same wall; no condition of anybody's
-- query comes near these policies, so the half that is for the planner is enough. What a load indexes the recorder writes,
-- for the bound tenant.
create policy passage_search on rag.passage for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy withdrawal_search on rag.withdrawal for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy succession_search on rag.succession for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));

create policy scope_search on rag_index.scope for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]) or (select pg_has_role(session_user, 'rag_auditor', 'usage')));
create policy scope_insert on rag_index.scope for insert to rag_recorder
  with check (tenant = (select rag_auth.write_tenant()));
create policy scope_select on rag_index.scope for select to rag_recorder
  using (tenant = (select rag_auth.write_tenant()));
create policy scope_value_search on rag_index.scope_value for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]) or (select pg_has_role(session_user, 'rag_auditor', 'usage')));
create policy scope_value_insert on rag_index.scope_value for insert to rag_recorder
  with check (tenant = (select rag_auth.write_tenant()));
create policy segment_search on rag_index.segment for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy segment_insert on rag_index.segment for insert to rag_recorder
  with check (tenant = (select rag_auth.write_tenant()));
create policy posting_search on rag_index.posting for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy posting_insert on rag_index.posting for insert to rag_recorder
  with check (tenant = (select rag_auth.write_tenant()));
create policy turn_select on rag_index.turn for select to rag_recorder
  using (tenant = (select rag_auth.write_tenant()));
create policy turn_insert on rag_index.turn for insert to rag_recorder
  with check (tenant = (select rag_auth.write_tenant()));
create policy turn_update on rag_index.turn for update to rag_recorder
  using (tenant = (select rag_auth.write_tenant()));
create policy turn_fence_select on rag_index.turn as restrictive for select to rag_reader
  using (tenant = (select rag_auth.write_tenant()));
create policy turn_fence_insert on rag_index.turn as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));
create policy turn_fence_update on rag_index.turn as restrictive for update to rag_reader
  using (tenant = (select rag_auth.write_tenant()));
create policy indexed_version_search on rag_index.version for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy indexed_version_select on rag_index.version for select to rag_recorder
  using (tenant = (select rag_auth.write_tenant()));
create policy indexed_version_insert on rag_index.version for insert to rag_recorder
  with check (tenant = (select rag_auth.write_tenant()));
create policy indexed_version_update on rag_index.version for update to rag_recorder
  using (tenant = (select rag_auth.write_tenant()));
create policy scope_fence_select on rag_index.scope as restrictive for select to rag_reader
  using (tenant = (select rag_auth.write_tenant()));
create policy scope_value_fence_insert on rag_index.scope_value as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));
create policy scope_fence_insert on rag_index.scope as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));
create policy segment_fence_insert on rag_index.segment as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));
create policy posting_fence_insert on rag_index.posting as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));
create policy indexed_version_fence_insert on rag_index.version as restrictive for insert to rag_reader
  with check (tenant = (select rag_auth.write_tenant()));
create policy indexed_version_fence_select on rag_index.version as restrictive for select to rag_reader
  using (tenant = (select rag_auth.write_tenant()));
create policy indexed_version_fence_update on rag_index.version as restrictive for update to rag_reader
  using (tenant = (select rag_auth.write_tenant()));
create policy embedding_model_search on rag.embedding_model for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy bucket_search on rag_index.bucket for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy bucket_insert on rag_index.bucket for insert to rag_search
  with check (tenant = (select rag_auth.write_tenant()));
create policy embedding_search on rag_index.embedding for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy embedding_insert on rag_index.embedding for insert to rag_search
  with check (tenant = (select rag_auth.write_tenant()));

-- Fences of rag_search, which is no reader: whatever is allowed besides, its functions find nothing of another tenant.
create policy passage_fence_search on rag.passage as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy withdrawal_fence_search on rag.withdrawal as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy succession_fence_search on rag.succession as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy scope_fence_search on rag_index.scope as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]) or (select pg_has_role(session_user, 'rag_auditor', 'usage')));
create policy scope_value_fence_search on rag_index.scope_value as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]) or (select pg_has_role(session_user, 'rag_auditor', 'usage')));
create policy segment_fence_search on rag_index.segment as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy posting_fence_search on rag_index.posting as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy indexed_version_fence_search on rag_index.version as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy embedding_model_fence_search on rag.embedding_model as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy bucket_fence_search on rag_index.bucket as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy embedding_fence_search on rag_index.embedding as restrictive for select to rag_search
  using (tenant = any (array['public', (select rag_auth.tenant())]));
create policy bucket_fence_insert on rag_index.bucket as restrictive for insert to rag_search
  with check (tenant = (select rag_auth.write_tenant()));
create policy embedding_fence_insert on rag_index.embedding as restrictive for insert to rag_search
  with check (tenant = (select rag_auth.write_tenant()));

-- Moving vectors between buckets (rag-sql maintain), which the installing login does as rag_owner.
create policy bucket_admin_select on rag_index.bucket for select to rag_owner using (true);
create policy bucket_admin_update on rag_index.bucket for update to rag_owner using (true);
create policy embedding_admin_select on rag_index.embedding for select to rag_owner using (true);
create policy embedding_admin_insert on rag_index.embedding for insert to rag_owner with check (true);
create policy embedding_admin_delete on rag_index.embedding for delete to rag_owner using (true);

-- Purging (050_retention): the owner sees and removes traces whose time is over, with their parts, and no others.
create policy trace_admin_select on rag.trace for select to rag_owner
  using (recorded_at < now() - (select n.trace_retention from rag.tenant n where n.tenant = trace.tenant));
create policy trace_admin_delete on rag.trace for delete to rag_owner
  using (true);
create policy trace_candidate_admin_select on rag.trace_candidate for select to rag_owner
  using (exists (select from rag.trace t where t.tenant = trace_candidate.tenant and t.trace_id = trace_candidate.trace_id));
create policy trace_candidate_admin_delete on rag.trace_candidate for delete to rag_owner
  using (true);
create policy trace_passage_admin_select on rag.trace_passage for select to rag_owner
  using (exists (select from rag.trace t where t.tenant = trace_passage.tenant and t.trace_id = trace_passage.trace_id));
create policy trace_passage_admin_delete on rag.trace_passage for delete to rag_owner
  using (true);
create policy trace_answer_admin_select on rag.trace_answer for select to rag_owner
  using (exists (select from rag.trace t where t.tenant = trace_answer.tenant and t.trace_id = trace_answer.trace_id));
create policy trace_answer_admin_delete on rag.trace_answer for delete to rag_owner
  using (true);
create policy trace_verdict_admin_select on rag.trace_verdict for select to rag_owner
  using (exists (select from rag.trace t where t.tenant = trace_verdict.tenant and t.trace_id = trace_verdict.trace_id));
create policy trace_verdict_admin_delete on rag.trace_verdict for delete to rag_owner
  using (true);
create policy trace_time_admin_select on rag.trace_time for select to rag_owner
  using (exists (select from rag.trace t where t.tenant = trace_time.tenant and t.trace_id = trace_time.trace_id));
create policy trace_time_admin_delete on rag.trace_time for delete to rag_owner
  using (true);

-- Where the planner makes one index condition of an `or` (PostgreSQL 18), the second half is written as one: the same, without
-- an array that is built for every row of a scan.
do $$
declare
  v_array constant text := 'tenant = ANY (ARRAY[''public''::text, ( SELECT rag_auth.tenant() AS tenant)])';
  v_or constant text := '(tenant = ''public'' or tenant = (select rag_auth.tenant()))';
  v_policy record;
begin
  if current_setting('server_version_num')::integer < 180000 then
    return;
  end if;
  for v_policy in
    select p.polname, p.polrelid::regclass as table_name, pg_catalog.pg_get_expr(p.polqual, p.polrelid) as condition
    from pg_catalog.pg_policy p
    join pg_catalog.pg_class c on c.oid = p.polrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('rag', 'rag_index') and position(v_array in pg_catalog.pg_get_expr(p.polqual, p.polrelid)) > 0
  loop
    execute format(
      'alter policy %I on %s using (%s)', v_policy.polname, v_policy.table_name, replace(v_policy.condition, v_array, v_or));
  end loop;
end
$$;

reset role;
