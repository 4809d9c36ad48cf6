-- Binding a transaction to a tenant, and what is installed.

set local role rag_owner;

-- Asserts a tenant for the rest of the transaction and proves it at once (RS001 when it is not granted). Null asserts
-- none: public only; an empty text is RS010, since it is more often a variable that nobody set. Returns what was
-- asserted before, so that a caller can put it back.
create function rag_api.bind(
  p_tenant text
)
  returns text
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_before constant text := nullif(current_setting('rag.tenant', true), '');
begin
  if p_tenant = '' then
    raise exception using
      errcode = 'RS010',
      message = 'the name of a tenant is not empty',
      hint = 'Null binds none: public only.';
  end if;
  perform set_config('rag.tenant', coalesce(p_tenant, ''), true);
  perform rag_auth.tenant();
  -- The first statement of its transaction, and no BEGIN before it: the binding ends with this very statement.
  if v_before is null and transaction_timestamp() = statement_timestamp() then
    raise warning using
      message = 'the binding ends with this statement, because no transaction is open',
      hint = 'Begin a transaction first.';
  end if;
  return v_before;
end;
$$;
revoke all on function rag_api.bind from public;
grant execute on function rag_api.bind to rag_reader;
comment on function rag_api.bind is
  'Binds this transaction to a tenant (null: public only) and returns the one before. RS001 when it is not granted.';

create view rag_api.schema_revision with (security_invoker = true) as
  select version_num as revision from rag.alembic_version;
grant select on rag_api.schema_revision to rag_reader, rag_auditor;
comment on view rag_api.schema_revision is 'The migration that the tables stand at.';

create view rag_api.tenant with (security_invoker = true) as
  select tenant, recorded_at, trace_retention from rag.tenant;
grant select on rag_api.tenant to rag_reader, rag_auditor;
comment on view rag_api.tenant is 'public, and the tenant that this session is bound to.';

-- What others may bind is nobody's to read here: rag_auth.membership has no grant but the binder's.
create view rag_api.membership with (security_invoker = true) as
  select m.tenant from rag_auth.own_tenants() as m;
grant select on rag_api.membership to rag_reader, rag_auditor;
comment on view rag_api.membership is 'The tenants that this login may bind.';

reset role;
