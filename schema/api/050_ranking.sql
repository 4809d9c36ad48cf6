-- Ranking, for people: what the words of a query weigh in every passage, said by the tables themselves. Integers of overlap, not
-- probabilities. A decision ranks by the index (055_search, 058_selection), which tests hold to this.
--
-- Ties end in document id, visibility, version, range start, by bytes, so an order never depends on how rows lie in a
-- table or on the locale of the database. A column that a function returns has lost the collation of the table's: an
-- order by one says collate "C" itself.

set local role rag_owner;

-- Eligible passages with their scores, also those of score 0. The building block of selection: filter first, then rank.
create function rag_api.ranking(
  p_query text,
  p_case_facts jsonb,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (tenant text, document_id text, version integer, range_start integer, range_end integer, score integer)
  language sql
  stable
  parallel restricted
begin atomic
  select
    p.tenant,
    p.document_id,
    p.version,
    p.range_start,
    p.range_end,
    -- What is left of the passage's words when the query's are taken out, subtracted from all: one merge in C.
    length(p.words) - length(ts_delete(p.words, (select rag.words(p_query))))
  from rag_api.eligible(p_case_facts, p_valid_at, p_known_at) as e
  join rag_api.passage p on p.tenant = e.tenant and p.document_id = e.document_id and p.version = e.version;
end;
revoke all on function rag_api.ranking from public;
grant execute on function rag_api.ranking to rag_reader, rag_auditor;
comment on function rag_api.ranking is 'Score of every eligible passage: distinct words of the query that occur in it.';

reset role;
