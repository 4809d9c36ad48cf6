-- Spans: exact quotations in versions, each with a fact label.
--
-- Law 3, the quotation decides: a curator gives the quotation, the database derives where it stands. The start is
-- found in the body by a trigger, the end is generated from the quotation's length, and the foreign key on the body's
-- length lets a CHECK hold the range inside the body. No role has a grant on a derived column. A quotation that is not
-- in the body is refused (RS023); one that occurs more than once is refused until it names its occurrence (RS024).
--
-- The label is a hint: coverage and claims compare the quotation itself.

create table rag.span (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  span_id text collate "C" not null,
  fact text collate "C" not null,
  quote text collate "C" not null,
  occurrence integer,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  body_length integer not null,
  range_start integer not null,
  range_end integer not null generated always as (range_start + char_length(quote)) stored,

  constraint span_key primary key (tenant, document_id, version, span_id),
  constraint span_version_exists foreign key (tenant, document_id, version, body_length)
    references rag.version (tenant, document_id, version, body_length),
  constraint span_within_body check (range_start >= 0 and range_end <= body_length),
  constraint span_quote_is_not_empty check (quote <> ''),
  constraint span_id_fits check (octet_length(span_id) between 1 and 200),
  constraint span_id_is_printable check (span_id !~ '[[:cntrl:]]' and span_id = btrim(span_id)),
  constraint span_fact_fits check (octet_length(fact) between 1 and 200),
  constraint span_fact_is_printable check (fact !~ '[[:cntrl:]]' and fact = btrim(fact)),
  constraint span_occurrence_is_in_range check (occurrence between 1 and 1000)
);
alter table rag.span enable row level security;
alter table rag.span force row level security;
alter table rag.span
  alter column span_id set statistics 0,
  alter column fact set statistics 0,
  alter column quote set statistics 0,
  alter column recorded_by set statistics 0;

-- Where the p_occurrence-th occurrence of a quotation begins in a body, in code points from 0; null when there is no
-- such occurrence. Each occurrence costs a search from the one before, so their number is bounded (1,000). Occurrences
-- may overlap ("aa" occurs twice in "aaa"): each is a place a reader could mean.
create function rag.locate(
  p_body text,
  p_quote text,
  p_occurrence integer
)
  returns integer
  language plpgsql
  immutable
  strict
  parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  -- Searched as bytes: UTF-8 is self-synchronizing, so a match of bytes is a match of characters, and a cut costs
  -- nothing.
  v_body constant bytea := rag.utf8(p_body);
  v_quote constant bytea := rag.utf8(p_quote);
  v_at integer := 0;  -- 1-based position of the occurrence found last
  v_step integer;
begin
  if p_quote = '' then
    return null;
  end if;
  for i in 1 .. p_occurrence loop
    v_step := position(v_quote in substr(v_body, v_at + 1));
    if v_step = 0 then
      return null;
    end if;
    v_at := v_at + v_step;
  end loop;
  return char_length(convert_from(substr(v_body, 1, v_at - 1), 'UTF8'));
end;
$$;
revoke all on function rag.locate from public;
grant execute on function rag.locate to rag_reader, rag_auditor;
comment on function rag.locate is
  'Start of the n-th occurrence of a quotation in a body (code points, 0-based), or null.';

-- Derives range_start and body_length of a new span from the version's body, which it reads with the inserting
-- login's own rights. RS022 when there is no such version (or it is not the login's to see), RS023, RS024; the error
-- fields TABLE, DATATYPE and CONSTRAINT carry document, version and span, so that a loader need not read the message.
create function rag.locate_span()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_body text;
begin
  select v.body, v.body_length
  into v_body, new.body_length
  from rag.version v
  where (v.tenant, v.document_id, v.version) = (new.tenant, new.document_id, new.version);
  if not found then
    raise exception using
      errcode = 'RS022',
      message = format('no version %s of document "%s"', new.version, new.document_id);
  end if;

  new.range_start := rag.locate(v_body, new.quote, least(coalesce(new.occurrence, 1), 1000));
  if new.range_start is null then
    raise exception using
      errcode = 'RS023',
      message = case
        when new.occurrence > 1 and rag.locate(v_body, new.quote, 1) is not null
        then format('span "%s" quotes text that does not occur %s times in the body of "%s" version %s',
          new.span_id, new.occurrence, new.document_id, new.version)
        else format('span "%s" quotes text that is not in the body of "%s" version %s',
          new.span_id, new.document_id, new.version)
      end,
      detail = format('Quotation: %s', new.quote),
      table = new.document_id,
      datatype = new.version::text,
      constraint = new.span_id,
      hint = 'Copy the quotation from the body character by character; line breaks and typographic quotes count.';
  end if;
  if new.occurrence is null and rag.locate(v_body, new.quote, 2) is not null then
    raise exception using
      errcode = 'RS024',
      message = format('span "%s" quotes text that occurs more than once in "%s" version %s',
        new.span_id, new.document_id, new.version),
      detail = format('Quotation: %s', new.quote),
      table = new.document_id,
      datatype = new.version::text,
      constraint = new.span_id,
      hint = 'Quote more of the sentence, or name the occurrence (1, 2, ...).';
  end if;
  return new;
end;
$$;
revoke all on function rag.locate_span from public;
comment on function rag.locate_span is 'Trigger: derives a span''s place from its quotation (RS022, RS023, RS024).';

create trigger span_is_located
  before insert on rag.span
  for each row execute function rag.locate_span();
create trigger span_is_append_only
  before update or delete or truncate on rag.span
  for each statement execute function rag.refuse_change();

comment on table rag.span is 'Exact quotations in versions, located by the database.';
comment on column rag.span.fact is 'Fact label: a hint. Whether the span witnesses the fact is decided by the quotation.';
comment on column rag.span.quote is 'Text of the body, character by character.';
comment on column rag.span.occurrence is 'Which occurrence of the quotation is meant, from 1; null when there is only one.';
comment on column rag.span.range_start is 'Start in the body, in code points from 0. Derived.';
comment on column rag.span.range_end is 'End in the body, exclusive. Derived.';
