-- Binding a transaction to a tenant, and what is installed.

set local role rag_owner;

-- Asserts a tenant for the rest of the transaction and proves it at once: a name that is granted to the login (else
-- RS001), or one that the application has signed for this transaction, acme:write:KEY:SIGNATURE (else RS004). Null
-- asserts none: public only; an empty text is RS010, since it is more often a variable that nobody set. Returns what was
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
  'Binds this transaction to a tenant (null: public only) and returns what was bound. RS001, RS004 when it is not proven.';

-- What a signature has to be over beside the tenant and the right, which are the application's own to say. Never the bytes
-- themselves: who signs whatever it is handed signs for whoever hands it over.
create function rag_api.transaction_identity()
  returns table (login text, backend_pid integer, begun_at bigint)
  language sql
  stable
  parallel restricted
begin atomic
  select session_user::text, pg_backend_pid(), (extract(epoch from transaction_timestamp()) * 1000000)::bigint;
end;
revoke all on function rag_api.transaction_identity from public;
grant execute on function rag_api.transaction_identity to rag_reader;
comment on function rag_api.transaction_identity is
  'Login, backend and beginning of this transaction: what a signature for a tenant is over, beside tenant and right.';

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
  select m.tenant, m.may_write from rag_auth.own_tenants() as m;
grant select on rag_api.membership to rag_reader, rag_auditor;
comment on view rag_api.membership is 'The tenants that are granted to this login.';

reset role;
