-- Retention: how long a tenant keeps its traces, and removing those whose time is over.
--
-- Administration: the installing login acts as rag_owner for these. No run-time role may call them. What may be removed is
-- not decided here: the policies show rag_owner traces whose time is over and no others, and a trigger of the tables refuses
-- to remove any other, whoever asks (tables/070_traces).

set local role rag_owner;

-- Says how long a tenant keeps traces, in days and parts of days (a month is not always as long); null: without end. RS083
-- when there is no such tenant; RS010 for a time that is not positive, over 100 years, or has months.
create or replace function rag_auth.set_trace_retention(
  p_tenant text,
  p_retention interval
)
  returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  if p_retention <= interval '0' or p_retention > interval '36525 days'
    or extract(month from p_retention) <> 0 or extract(year from p_retention) <> 0
  then
    raise exception using
      errcode = 'RS010',
      message = format('traces cannot be kept for %s', p_retention),
      hint = 'A time is in days, positive and at most 36525; null keeps them without end.';
  end if;
  update rag.tenant t set trace_retention = p_retention where t.tenant = p_tenant and t.tenant <> 'public';
  if not found then
    raise exception using
      errcode = 'RS083',
      message = format('there is no tenant "%s" that has traces', p_tenant),
      hint = 'List the tenants: rag-sql tenant list';
  end if;
end;
$$;
revoke all on function rag_auth.set_trace_retention from public;
comment on function rag_auth.set_trace_retention is
  'Says how long a tenant keeps traces (null: without end); RS083 when there is no such tenant, RS010.';

-- Removes the traces of a tenant whose time is over, with all their parts; a trigger of the table records it. Returns how
-- many. RS083 when there is no such tenant. Packets, approvals and documents stay.
--
-- The tenant's row is locked first: until the end nobody says that traces are kept longer, and a second purge waits. RS071
-- when an answer is being recorded for one of the traces, after a wait of ten seconds: nothing is removed then.
create or replace function rag_auth.purge_traces(
  p_tenant text
)
  returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set lock_timeout = '10s'
as $$
declare
  v_before timestamptz;
  v_due uuid[];
begin
  select now() - t.trace_retention into v_before
  from rag.tenant t
  where t.tenant = p_tenant and t.tenant <> 'public'
  for update;
  if not found then
    raise exception using
      errcode = 'RS083',
      message = format('there is no tenant "%s" that has traces', p_tenant),
      hint = 'List the tenants: rag-sql tenant list';
  end if;
  select coalesce(array_agg(t.trace_id), '{}') into v_due
  from rag.trace t
  where t.tenant = p_tenant and t.recorded_at < v_before;
  delete from rag.trace_verdict c where c.tenant = p_tenant and c.trace_id = any (v_due);
  delete from rag.trace_answer c where c.tenant = p_tenant and c.trace_id = any (v_due);
  delete from rag.trace_time c where c.tenant = p_tenant and c.trace_id = any (v_due);
  delete from rag.trace_passage c where c.tenant = p_tenant and c.trace_id = any (v_due);
  delete from rag.trace_candidate c where c.tenant = p_tenant and c.trace_id = any (v_due);
  delete from rag.trace t where t.tenant = p_tenant and t.trace_id = any (v_due);
  return cardinality(v_due);
exception
  when lock_not_available or foreign_key_violation then
    raise exception using
      errcode = 'RS071',
      message = format('traces of "%s" are in use', p_tenant),
      detail = 'An answer is being recorded for one whose time is over.',
      hint = 'Purge again.';
end;
$$;
revoke all on function rag_auth.purge_traces from public;
comment on function rag_auth.purge_traces is
  'Removes a tenant''s traces whose time is over, which is recorded; how many. RS071, RS083 when there is no such tenant.';

reset role;
