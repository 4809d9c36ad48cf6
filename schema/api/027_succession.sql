-- Superseding a document by others: what takes its place, and from when on.
--
-- What a document states of itself when it is loaded is stored by load_documents; this states it of one that is there. It is
-- not taken back, and holds for every version, also for those to come.

set local role rag_owner;

-- Has other documents take the place of one of the bound tenant, from an instant on (null: now): none of its versions is
-- used from then on, and whoever asks why is told the others. They need not be there yet. What a successor has superseded by
-- then changes nothing; an earlier instant than before counts. RS002, RS003; RS022 when there is no such document, whoever else
-- may have one; RS010 for no successor or more than 100, for one that is no id or the document itself, an instant that is not
-- finite, a note over 4,000 bytes.
create function rag_api.supersede_document(
  p_document_id text,
  p_successors text[],
  p_superseded_from timestamptz default null,
  p_note text default null
)
  returns void
  language plpgsql
  volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant text := rag_api._writable_tenant();
  v_unfit text;
begin
  if coalesce(cardinality(p_successors), 0) not between 1 and 100 or array_ndims(p_successors) > 1 then
    raise exception using errcode = 'RS010', message = 'successors must be given as a list of 1 to 100 ids of documents';
  end if;
  select coalesce(to_json(s)::text, 'null') into v_unfit
  from unnest(p_successors) as s
  where not rag_api._is_name(to_jsonb(s)) or s = p_document_id
  limit 1;
  if found then
    raise exception using
      errcode = 'RS010',
      message = format('%s cannot take the place of document "%s"', v_unfit, p_document_id),
      hint = 'A successor is the id of another document: 1 to 200 bytes, without control characters or outer spaces.';
  end if;
  if not isfinite(p_superseded_from) then
    raise exception using errcode = 'RS010', message = 'an instant must be finite';
  end if;
  if octet_length(p_note) > 4000 then
    raise exception using
      errcode = 'RS010',
      message = format('the note has %s bytes; 4000 is the most', octet_length(p_note));
  end if;
  if not exists (select from rag.version v where v.tenant = v_tenant and v.document_id = p_document_id) then
    raise exception using errcode = 'RS022', message = format('no document "%s"', p_document_id);
  end if;
  insert into rag.succession (tenant, document_id, successor_id, superseded_from, note)
  select v_tenant, p_document_id, s, coalesce(p_superseded_from, now()), p_note
  from unnest(p_successors) as s
  where not exists (
    select from rag.succession o
    where o.tenant = v_tenant
      and o.document_id = p_document_id
      and o.successor_id = s
      and o.superseded_from <= coalesce(p_superseded_from, now())
  )
  order by s collate "C"
  on conflict do nothing;
end;
$$;
revoke all on function rag_api.supersede_document from public;
grant execute on function rag_api.supersede_document to rag_curator, rag_publisher;
comment on function rag_api.supersede_document is
  'Has other documents take the place of one of the bound tenant; RS022 when there is none.';

reset role;
