-- Roles and namespaces. Runs first, on a fresh install and on every upgrade, as the installing login.
--
-- Roles belong to the cluster, so one installing role serves a cluster: the login that created these roles
-- administers them. Nobody logs in as any of them. Logins are the user's own and join the groups.
--
--   rag_owner      owns tables and views; never used at run time
--   rag_binder     owns the functions that bind a login to a tenant; reads grants, keys and tenants' names, nothing else
--   rag_search     owns the definer functions over rag_index; reads what decides about eligibility, of public and the bound tenant
--   rag_recorder   owns the definer functions that write packets, approvals, traces and passages
--   rag_reader     group: read and decide
--   rag_curator    group: load documents, spans and contracts of the bound tenant
--   rag_publisher  group: the same for public
--   rag_reviewer   group: approve
--   rag_auditor    group, disjoint from the others: reads every tenant
--
-- All are created by the first install, also those that later files will use, because creating a role is the step
-- that an administrator has to be asked for.
--
-- Raises RS082 when the database cannot hold a store; RS080 when a role exists that the installing login cannot
-- administer, or that has a dangerous attribute.

do $$
declare
  v_problem text;
  v_hint text;
begin
  if current_setting('server_version_num')::integer < 160000 then
    v_problem := format('the server is PostgreSQL %s', current_setting('server_version'));
    v_hint := 'rag-sql needs PostgreSQL 16 or newer.';
  elsif current_setting('server_encoding') <> 'UTF8' then
    v_problem := format('the encoding of the database is %s', current_setting('server_encoding'));
    v_hint := 'Create the database with: encoding ''UTF8'' template template0';
  elsif lower('É') <> 'é' or lower('I') <> 'i' then
    v_problem := 'its locale does not lower letters as words need it: ''É'' to ''é'', ''I'' to ''i''';
    v_hint := 'Create the database with: locale ''C.UTF-8'' template template0';
  elsif not exists (
    select from pg_catalog.pg_database d
    where d.datname = current_database() and pg_catalog.pg_has_role(d.datdba, 'USAGE')
  ) then
    v_problem := format('"%s" does not own the database', current_user);
    v_hint := format('Ask an administrator for: alter database %I owner to %I;', current_database(), current_user);
  end if;
  if v_problem is not null then
    raise exception using
      errcode = 'RS082',
      message = 'the store cannot be installed here: ' || v_problem,
      hint = v_hint;
  end if;
end
$$;

do $$
declare
  v_roles constant text[] := array[
    'rag_owner', 'rag_binder', 'rag_search', 'rag_recorder',
    'rag_reader', 'rag_curator', 'rag_publisher', 'rag_reviewer', 'rag_auditor'
  ];
  v_super constant boolean := (select rolsuper from pg_catalog.pg_roles where rolname = current_user);
  v_role text;
begin
  foreach v_role in array v_roles loop
    if not exists (select from pg_catalog.pg_roles where rolname = v_role) then
      begin
        execute format('create role %I nologin', v_role);
      exception
        when insufficient_privilege then
          raise exception using
            errcode = 'RS080',
            message = format('role "%s" does not exist and "%s" may not create it', v_role, current_user),
            hint = format('Ask an administrator for: alter role %I createrole;', current_user);
        -- Another database of the cluster is being installed at this moment.
        when duplicate_object or unique_violation then
          null;
      end;
    end if;

    if exists (
      select from pg_catalog.pg_roles
      where rolname = v_role and (rolcanlogin or rolsuper or rolbypassrls or rolcreaterole or rolreplication)
    ) then
      raise exception using
        errcode = 'RS080',
        message = format('role "%s" exists with an attribute that would open the wall between tenants', v_role),
        detail = 'The roles of the store have none of LOGIN, SUPERUSER, BYPASSRLS, CREATEROLE and REPLICATION.',
        hint = format('Ask an administrator for: alter role %I nologin nosuperuser nobypassrls nocreaterole noreplication;', v_role);
    end if;

    if not v_super and not pg_catalog.pg_has_role(current_user, v_role, 'MEMBER WITH ADMIN OPTION') then
      raise exception using
        errcode = 'RS080',
        message = format('role "%s" exists and "%s" cannot administer it', v_role, current_user),
        detail = 'Roles belong to the whole cluster: another login installed a store here first.',
        hint = format(
          'Install as that login, or ask an administrator for: grant %s to %I with admin true, inherit false, set true;',
          array_to_string(array(select quote_ident(r) from unnest(v_roles) r), ', '), current_user);
    end if;

    -- The installing login acts as these roles while it installs and inherits nothing from them afterwards.
    if not v_super and not pg_catalog.pg_has_role(current_user, v_role, 'SET') then
      execute format('grant %I to %I with inherit false, set true', v_role, current_user);
    end if;
  end loop;

  execute format('revoke create, temporary on database %I from public', current_database());
  revoke create on schema public from public;
end
$$;

-- Everyone who may write or review may also read. The recorder reads under the same policies as the caller it
-- records for.
grant rag_reader to rag_curator, rag_publisher, rag_reviewer, rag_recorder;

create schema if not exists rag authorization rag_owner;
create schema if not exists rag_auth authorization rag_owner;
create schema if not exists rag_index authorization rag_owner;

set local role rag_owner;
revoke all on schema rag, rag_auth, rag_index from public;
grant usage on schema rag, rag_auth to rag_reader, rag_auditor, rag_binder, rag_search;
grant usage on schema rag_index to rag_search;
comment on schema rag is 'rag-sql: tables. Read them through rag_api.';
comment on schema rag_auth is 'rag-sql: who is bound to which tenant, and the helpers of the policies.';
comment on schema rag_index is 'rag-sql: search side tables. No run-time role has a grant here.';
reset role;
