-- Spans: exact quotations in versions, each with a fact label.
--
-- Law 3, the quotation decides: a curator gives the quotation, the database derives where it stands. The start is
-- found in the body by a trigger, the end follows from the quotation's length, and the foreign key on the body's
-- length lets a CHECK hold the range inside the body. No role has a grant on a derived column. A quotation that is not
-- in the body is refused (RS023); one that occurs more than once is refused until it names its occurrence (RS024); one
-- that begins or ends inside a character, between a letter and its accent, is refused too (RS026).
--
-- The label is a hint: coverage and claims compare the quotation itself.

create table rag.span (
  tenant text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  span_id text collate "C" not null,
  fact text collate "C" not null,
  quote text collate "C",
  occurrence integer,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,
  body_length integer not null,
  range_start integer not null,
  range_end integer not null,

  constraint span_key primary key (tenant, document_id, version, span_id),
  constraint span_version_exists foreign key (tenant, document_id, version, body_length)
    references rag.version (tenant, document_id, version, body_length),
  constraint span_within_body check (range_start >= 0 and range_end <= body_length),
  constraint span_quote_is_not_empty check (quote <> ''),
  constraint span_quote_fits check (octet_length(quote) <= 1048576),
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

-- Whether a cut between two neighbouring characters (code points) of a body goes through what a reader sees as one. The
-- empty text stands for the edge of the body, where nothing is cut. One look at each side decides:
--
--   after    a character that begins none: a combining mark (general categories M, Unicode 18), a joiner, a variation
--            selector, a skin tone, a tag, a vowel or final of decomposed Hangul
--   before   a zero-width joiner, which ties what follows to it
--   both     carriage return and line feed; two regional indicators, whose pairs make flags
--
-- That is the boundary of grapheme clusters (UAX #29) with two differences, which keep it to two characters: between two
-- flags that stand side by side it sees a cut where there is none (quote both), and it sees none between the consonants
-- of an Indic conjunct or after a sign that precedes its number.
create function rag.cuts_character(
  p_before text,
  p_after text
)
  returns boolean
  language sql
  immutable
  parallel safe
return p_before <> '' and p_after <> '' and (
  ascii(p_before) = 0x200d
  or (ascii(p_before) = 13 and ascii(p_after) = 10)
  or (ascii(p_before) between 0x1f1e6 and 0x1f1ff and ascii(p_after) between 0x1f1e6 and 0x1f1ff)
  or ascii(p_after) <@ '{
    [0x300,0x36f],[0x483,0x489],[0x591,0x5bd],[0x5bf,0x5bf],[0x5c1,0x5c2],[0x5c4,0x5c5],[0x5c7,0x5c9],[0x610,0x61a],
    [0x64b,0x65f],[0x670,0x670],[0x6d6,0x6dc],[0x6df,0x6e4],[0x6e7,0x6e8],[0x6ea,0x6ed],[0x711,0x711],[0x730,0x74a],
    [0x7a6,0x7b0],[0x7eb,0x7f3],[0x7fd,0x7fd],[0x816,0x819],[0x81b,0x823],[0x825,0x827],[0x829,0x82d],[0x859,0x85b],
    [0x897,0x89f],[0x8ca,0x8e1],[0x8e3,0x903],[0x93a,0x93c],[0x93e,0x94f],[0x951,0x957],[0x962,0x963],[0x981,0x983],
    [0x9bc,0x9bc],[0x9be,0x9cd],[0x9d7,0x9d7],[0x9e2,0x9e3],[0x9fe,0xa03],[0xa3c,0xa51],[0xa70,0xa71],[0xa75,0xa75],
    [0xa81,0xa83],[0xabc,0xabc],[0xabe,0xacd],[0xae2,0xae3],[0xafa,0xb03],[0xb3c,0xb3c],[0xb3e,0xb57],[0xb62,0xb63],
    [0xb82,0xb82],[0xbbe,0xbcd],[0xbd7,0xbd7],[0xc00,0xc04],[0xc3c,0xc3c],[0xc3e,0xc56],[0xc62,0xc63],[0xc81,0xc83],
    [0xcbc,0xcbc],[0xcbe,0xcd6],[0xce2,0xce3],[0xcf3,0xd03],[0xd3b,0xd3c],[0xd3e,0xd4d],[0xd57,0xd57],[0xd62,0xd63],
    [0xd81,0xd83],[0xdca,0xddf],[0xdf2,0xdf3],[0xe31,0xe31],[0xe34,0xe3a],[0xe47,0xe4e],[0xeb1,0xeb1],[0xeb4,0xebc],
    [0xec8,0xece],[0xf18,0xf19],[0xf35,0xf35],[0xf37,0xf37],[0xf39,0xf39],[0xf3e,0xf3f],[0xf71,0xf84],[0xf86,0xf87],
    [0xf8d,0xfbc],[0xfc6,0xfc6],[0x102b,0x103e],[0x1056,0x1059],[0x105e,0x1060],[0x1062,0x1064],[0x1067,0x106d],
    [0x1071,0x1074],[0x1082,0x108d],[0x108f,0x108f],[0x109a,0x109d],[0x1160,0x11ff],[0x135d,0x135f],[0x1712,0x1715],
    [0x1732,0x1734],[0x1752,0x1753],[0x1772,0x1773],[0x17b4,0x17d3],[0x17dd,0x17dd],[0x180b,0x180d],[0x180f,0x180f],
    [0x1885,0x1886],[0x18a9,0x18a9],[0x1920,0x193b],[0x1a17,0x1a1b],[0x1a55,0x1a7f],[0x1ab0,0x1b04],[0x1b34,0x1b44],
    [0x1b6b,0x1b73],[0x1b80,0x1b82],[0x1ba1,0x1bad],[0x1be6,0x1bf3],[0x1c24,0x1c37],[0x1cd0,0x1cd2],[0x1cd4,0x1ce8],
    [0x1ced,0x1ced],[0x1cf4,0x1cf4],[0x1cf7,0x1cf9],[0x1dc0,0x1dff],[0x200c,0x200d],[0x20d0,0x20f0],[0x2cef,0x2cf1],
    [0x2d7f,0x2d7f],[0x2de0,0x2dff],[0x302a,0x302f],[0x3099,0x309a],[0xa66f,0xa672],[0xa674,0xa67d],[0xa69e,0xa69f],
    [0xa6f0,0xa6f1],[0xa802,0xa802],[0xa806,0xa806],[0xa80b,0xa80b],[0xa823,0xa827],[0xa82c,0xa82c],[0xa880,0xa881],
    [0xa8b4,0xa8c5],[0xa8e0,0xa8f1],[0xa8ff,0xa8ff],[0xa926,0xa92d],[0xa947,0xa953],[0xa980,0xa983],[0xa9b3,0xa9c0],
    [0xa9e5,0xa9e5],[0xaa29,0xaa36],[0xaa43,0xaa43],[0xaa4c,0xaa4d],[0xaa7b,0xaa7d],[0xaab0,0xaab0],[0xaab2,0xaab4],
    [0xaab7,0xaab8],[0xaabe,0xaabf],[0xaac1,0xaac1],[0xaaeb,0xaaef],[0xaaf5,0xaaf6],[0xabe3,0xabea],[0xabec,0xabed],
    [0xd7b0,0xd7fb],[0xfb1e,0xfb1e],[0xfe00,0xfe0f],[0xfe20,0xfe2f],[0x101fd,0x101fd],[0x102e0,0x102e0],
    [0x10376,0x1037a],[0x10a01,0x10a0f],[0x10a38,0x10a3f],[0x10ae5,0x10ae6],[0x10d24,0x10d27],[0x10d69,0x10d6d],
    [0x10eab,0x10eac],[0x10ecb,0x10ecf],[0x10ef0,0x10eff],[0x10f46,0x10f50],[0x10f82,0x10f85],[0x11000,0x11002],
    [0x11038,0x11046],[0x11070,0x11070],[0x11073,0x11074],[0x1107f,0x11082],[0x110b0,0x110ba],[0x110c2,0x110c2],
    [0x11100,0x11102],[0x11127,0x11134],[0x11145,0x11146],[0x11173,0x11173],[0x11180,0x11182],[0x111b3,0x111c0],
    [0x111c9,0x111cc],[0x111ce,0x111cf],[0x1122c,0x11237],[0x1123e,0x1123e],[0x11241,0x11241],[0x112df,0x112ea],
    [0x11300,0x11303],[0x1133b,0x1133c],[0x1133e,0x1134d],[0x11357,0x11357],[0x11362,0x11374],[0x113b8,0x113d0],
    [0x113d2,0x113d2],[0x113e1,0x113e2],[0x11435,0x11446],[0x1145e,0x1145e],[0x114b0,0x114c3],[0x115af,0x115c0],
    [0x115dc,0x115dd],[0x11630,0x11640],[0x116ab,0x116b7],[0x1171d,0x1172b],[0x1182c,0x1183a],[0x11930,0x1193e],
    [0x11940,0x11940],[0x11942,0x11943],[0x119d1,0x119e0],[0x119e4,0x119e4],[0x11a01,0x11a0a],[0x11a33,0x11a39],
    [0x11a3b,0x11a3e],[0x11a47,0x11a47],[0x11a51,0x11a5b],[0x11a8a,0x11a99],[0x11b60,0x11b67],[0x11c2f,0x11c3f],
    [0x11c92,0x11cb6],[0x11d31,0x11d45],[0x11d47,0x11d47],[0x11d8a,0x11d97],[0x11df0,0x11df0],[0x11ef3,0x11ef6],
    [0x11f00,0x11f01],[0x11f03,0x11f03],[0x11f34,0x11f42],[0x11f5a,0x11f5a],[0x13440,0x13440],[0x13447,0x13455],
    [0x1611e,0x1612f],[0x16af0,0x16af4],[0x16b30,0x16b36],[0x16f4f,0x16f4f],[0x16f51,0x16f92],[0x16fe4,0x16ff1],
    [0x1bc9d,0x1bc9e],[0x1cf00,0x1cf46],[0x1d127,0x1d128],[0x1d165,0x1d169],[0x1d16d,0x1d172],[0x1d17b,0x1d182],
    [0x1d185,0x1d18b],[0x1d1aa,0x1d1ad],[0x1d242,0x1d244],[0x1d250,0x1d252],[0x1d25b,0x1d25c],[0x1d25f,0x1d25f],
    [0x1d280,0x1d281],[0x1da00,0x1da36],[0x1da3b,0x1da6c],[0x1da75,0x1da75],[0x1da84,0x1da84],[0x1da9b,0x1daaf],
    [0x1e000,0x1e02a],[0x1e08f,0x1e08f],[0x1e130,0x1e136],[0x1e2ae,0x1e2ae],[0x1e2ec,0x1e2ef],[0x1e4ec,0x1e4ef],
    [0x1e5ee,0x1e5ef],[0x1e6e3,0x1e6e3],[0x1e6e6,0x1e6e6],[0x1e6ee,0x1e6ef],[0x1e6f5,0x1e6f5],[0x1e8d0,0x1e8d6],
    [0x1e944,0x1e94a],[0x1f3fb,0x1f3ff],[0xe0020,0xe01ef]
  }'::int4multirange
);
revoke all on function rag.cuts_character from public;
grant execute on function rag.cuts_character to rag_curator, rag_publisher;
comment on function rag.cuts_character is
  'Whether a cut between two neighbouring characters goes through what a reader sees as one.';

-- Derives range_start, range_end and body_length of a new span from the version's body, which it reads with the inserting
-- login's own rights. RS022 when there is no such version (or it is not the login's to see), RS023, RS024; RS026 when
-- the quotation begins or ends inside a character. The error fields TABLE, DATATYPE and CONSTRAINT carry document,
-- version and span, so that a loader need not read the message.
create function rag.locate_span()
  returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_body text;
  v_around text;  -- the quotation with one character on either side
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

  -- Positions count from 1: this begins one character before the quotation, or with it where the body begins.
  v_around := substr(v_body, new.range_start, char_length(new.quote) + 2);
  if rag.cuts_character(case when new.range_start > 0 then left(v_around, 1) else '' end, left(new.quote, 1))
    or rag.cuts_character(
      right(new.quote, 1), substr(v_around, char_length(new.quote) + least(new.range_start, 1) + 1, 1))
  then
    raise exception using
      errcode = 'RS026',
      message = format('span "%s" quotes part of a character of "%s" version %s',
        new.span_id, new.document_id, new.version),
      detail = format('Quotation: %s', new.quote),
      table = new.document_id,
      datatype = new.version::text,
      constraint = new.span_id,
      hint = 'Quote the whole character: accents, joiners, variation selectors and skin tones belong to the one before.';
  end if;
  new.range_end := new.range_start + char_length(new.quote);
  return new;
end;
$$;
revoke all on function rag.locate_span from public;
comment on function rag.locate_span is
  'Trigger: derives a span''s place from its quotation (RS022, RS023, RS024, RS026).';

create trigger span_is_located
  before insert on rag.span
  for each row execute function rag.locate_span();
create trigger span_is_append_only
  before delete or truncate on rag.span
  for each statement execute function rag.refuse_change();
create trigger span_changes_by_erasure
  before update on rag.span
  for each row execute function rag.refuse_change_but_erasure('version', 'quote');

comment on table rag.span is 'Exact quotations in versions, located by the database.';
comment on column rag.span.fact is 'Fact label: a hint. Whether the span witnesses the fact is decided by the quotation.';
comment on column rag.span.quote is 'Text of the body, character by character; null: erased.';
comment on column rag.span.occurrence is 'Which occurrence of the quotation is meant, from 1; null when there is only one.';
comment on column rag.span.range_start is 'Start in the body, in code points from 0. Derived.';
comment on column rag.span.range_end is 'End in the body, exclusive. Derived.';
