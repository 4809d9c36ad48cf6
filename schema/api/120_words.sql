-- The words of rag_api: what each name of a column, of an argument and of a returned column means. A name means the same
-- wherever it stands; where it cannot, the word is said for that object alone (`object.name`), which wins.
--
-- They become the comments of the views' columns, and lines after each public function's own comment (PostgreSQL has no
-- comments on arguments), so that \d+ and \df+ in psql are the manual. Runs last, when everything is there. A test holds
-- that no column and no argument is without its word, and no word without its use.

do $$
declare
  v_comment record;
begin
  for v_comment in
  with word (name, meaning) as (values
    -- Who and where
    ('tenant', 'whose row it is: public, or the bound tenant'),
    ('membership.tenant', 'a tenant that is granted to this login: public to write for it, since everybody reads it'),
    ('may_write', 'whether it may change evidence and decide about it, or only read, ask and record what it asked'),
    ('login', 'login of the session'),
    ('backend_pid', 'process of the server that runs the transaction'),
    ('begun_at', 'when the transaction began, in microseconds since 1970'),
    ('fact_coverage.tenant', 'whose document it is: public, or the bound tenant'),
    ('document_tenant', 'whose document it is: public, or the packet''s tenant'),
    ('contract_tenant', 'whose contract it is: public, or the tenant''s own, which wins'),
    ('recorded_at', 'when the row was recorded'),
    ('recorded_by', 'login of the session that recorded it'),
    ('revision', 'number of the newest migration that was applied'),

    -- Documents
    ('document_id', 'identity of the document within its tenant'),
    ('version', 'version of the document'),
    ('title', 'title, as the source states it'),
    ('body', 'the whole text'),
    ('body_length', 'length of the body in code points'),
    ('body_sha256', 'SHA-256 of the body''s UTF-8 bytes, in hex'),
    ('source', 'where the text comes from, as the source states it'),
    ('published', 'date of publication, as the source states it'),
    ('language', 'text search configuration by which its words are found'),
    ('metadata', 'keys of the source file that the store has no use for'),
    ('effective_from', 'from when on the rule holds'),
    ('effective_version', 'the version of the document that is effective at the instant'),
    ('status', 'current, superseded, scheduled, withdrawn or erased'),
    ('successors', 'documents of the same tenant that take its document''s place at the instant; null when none does'),
    ('successor_id', 'document of the same tenant that takes its place; it need not be there'),
    ('superseded_from', 'from when on no version of the document may be used'),
    ('successions', 'what takes its document''s place, also what is announced: successor_id, superseded_from, note, recorded_at, recorded_by'),
    ('withdrawal_note', 'why it is withdrawn, for people'),
    ('spans_gained', 'quotations with their facts that the version before has not: fact, quote; of the first all'),
    ('spans_lost', 'quotations with their facts that the version before has and this one has not: fact, quote'),
    ('load_documents.status', 'new, or same where the version was there with this content'),
    ('add_spans.status', 'new, or same where the span was there with this content'),
    ('superseded_by', 'the version that is effective in its place as it stands; null when none is'),
    ('withdrawn_from', 'from when on the version may not be used'),
    ('note', 'why, for people'),
    ('erasure_id', 'identity of the record'),
    ('erasure.document_id', 'the document; null: all that the tenant had'),
    ('erasure.reason', 'why, for people'),
    ('erasure.recorded_at', 'when it was erased'),
    ('erasure.recorded_by', 'login of the session that erased it'),
    ('heading_path', 'headings above the passage, outermost first'),
    ('tokens', 'number of tokens: as the loader counted, else words and punctuation marks'),
    ('text', 'text of the passage'),
    ('text_sha256', 'SHA-256 of the text''s UTF-8 bytes, as digests take it'),
    ('words', 'distinct words of the text, case-folded'),
    ('range_start', 'where it begins in the body: code points, from 0'),
    ('range_end', 'where it ends in the body: code points, exclusive'),

    -- Spans
    ('span_id', 'identity of the span within its version'),
    ('span_ids', 'the spans that it had when the packet was recorded'),
    ('proposition_occurrences.span_ids', 'spans of the fact with this quotation there; empty: nobody has curated it yet'),
    ('fact', 'the fact; of a span its label, a hint: the quotation decides'),
    ('quote', 'quotation, character by character'),
    ('occurrence', 'which occurrence of the quotation is meant, from 1; null where there is one'),
    ('found', 'what stands at the stored place'),
    ('expected_start', 'where the quotation stands'),
    ('is_repeated', 'it stands there more than once: a span has to name its occurrence'),

    -- Contracts
    ('question_id', 'identity of the question type'),
    ('contract_version', 'version of the contract'),
    ('contract.version', 'version of the contract'),
    ('proposition.version', 'version of the contract'),
    ('clause.version', 'version of the contract'),
    ('contract_sha256', 'SHA-256 that identifies the contract''s content'),
    ('content_sha256', 'SHA-256 that identifies the contract''s content, in hex'),
    ('contract', 'content of the contract: case attributes, facts, and what only a person decides'),
    ('is_newest', 'no later version of this owner''s contract'),
    ('approval.is_newest', 'no later decision about this draft on this evidence: the one that counts'),
    ('is_in_force', 'what a question asked now gets: the newest, and the tenant''s own before a public one'),
    ('case_attributes', 'attributes that a case has to state'),
    ('contract.decision', 'what only a person decides, by whom, where to turn, and what would state it; null where documents decide'),
    ('keep', 'what traces keep of queries and answers: text, digest or none'),
    ('required_facts', 'facts that an answer needs, in contract order'),
    ('fact_position', 'place of the fact in the contract, from 1'),
    ('proposition_position', 'place of the proposition within its fact, from 1'),
    ('clause_position', 'place of the clause within its proposition, from 1'),
    ('clause', 'a sentence that may be said on the proposition'),
    ('is_covered', 'a span of a current version quotes a proposition of the fact'),

    -- Eligibility
    ('applies_to', 'attribute to list of values; an attribute that is not named applies to every case'),
    ('eligible', 'may be used for this case: visible, current at the instant, applicable'),
    ('p_cases', 'cases, as a JSON array of objects of attributes to values'),
    ('case_number', 'which of the cases, from 1'),
    ('reason', 'why not: superseded, scheduled, withdrawn, erased, attribute_differs, attribute_not_stated; null when eligible'),
    ('global_ranking.reason', 'why not: other_tenant, superseded, scheduled, withdrawn, erased, attribute_differs, attribute_not_stated'),
    ('attribute', 'first attribute that does not fit'),
    ('attribute.attribute', 'key of applies_to and of case facts'),
    ('type', 'text, number, flag, date, version-pep440, version-semver or version-numeric'),
    ('declared_by', 'whose declaration counts: the tenant''s own, or public''s'),
    ('case_value', 'the case''s value of that attribute; null where it states none'),
    ('candidates.applies_to', 'the version''s values of that attribute'),
    ('eligibility.applies_to', 'the version''s values of that attribute'),
    ('explain.applies_to', 'the version''s values of that attribute'),
    ('global_ranking.applies_to', 'the version''s values of that attribute'),

    -- Ranking and coverage
    ('score', 'by overlap: distinct words of the query that occur in the passage; by bm25 in 1/100,000; by vector and hybrid see search'),
    ('search.score', 'bm25 in 1/100,000; overlap: distinct words; vector: 1 to 1,000,001, cosine similarity; hybrid: reciprocal ranks'),
    ('bm25_rank', 'hybrid: rank by bm25; null where it is not among the first'),
    ('vector_rank', 'hybrid: rank by vector; null where it is not among the first'),
    ('why', 'what each word of the query adds to the score, where it was asked for'),
    ('nearest_passage.score', 'distinct words of the quotation that occur in the passage'),
    ('position', 'rank of the passage in the selection, from 1'),
    ('global_ranking.position', 'rank among all tenants'' passages, from 1'),
    ('check_claims.position', 'place of the claim in the draft, from 1'),
    ('review_packet.position', 'place of the claim in the draft, from 1'),
    ('eligible_position', 'rank among the eligible passages, from 1; null when not eligible'),
    ('selected', 'among the K that a decision takes'),
    ('rank', '1 for the witness that is cited'),
    ('is_witness', 'the quotation equals a proposition of its fact: it covered the fact; null where it was erased'),

    -- Decisions and packets
    ('packet_id', 'identity of the packet'),
    ('is_erased', 'something that it rests on was erased: it is neither valid nor broken'),
    ('outcome', 'SufficientForTemplate, AskForEvidence, NeedsDecision or UnsupportedQuestion'),
    ('case_facts', 'facts of the case: attribute to value'),
    ('query', 'words that passages were ranked by'),
    ('k', 'most passages to select'),
    ('method', 'ranking method: overlap, bm25, vector or hybrid'),
    ('parameters', 'parameters of the method, all of them'),
    ('valid_at', 'instant for which eligibility was decided'),
    ('known_at', 'instant whose recorded state was used'),
    ('required', 'required facts, in contract order'),
    ('missing', 'required facts without a witness, in contract order'),
    ('sources', 'selected passages in order of rank: position, score, place, text, SHA-256, spans'),
    ('witnesses', 'for each covered fact the span to cite, with its licensed clauses'),
    ('preimage', 'the bytes that the digest is the SHA-256 of'),
    ('digest', 'SHA-256 that identifies the evidence'),
    ('packet.digest', 'SHA-256 that identifies the evidence, in hex'),

    -- Claims and approvals
    ('claim', 'the claim, as it was given'),
    ('claims', 'the draft: claims with their citations'),
    ('verdict', 'licensed or withheld'),
    ('check_claims.reason', 'why a claim is withheld'),
    ('review_packet.reason', 'why a claim is withheld'),
    ('decision', 'approved or rejected'),
    ('decision_number', 'number of the decision about this draft on this evidence, from 1; the greatest counts'),
    ('approval_status.status', 'worth now: approved, stale (the evidence has changed), erased (it was erased), rejected, or replaced by a newer decision'),
    ('reviewer', 'the reviewer''s name, or the login where none was stated'),
    ('reviewer_login', 'login of the reviewer''s session'),
    ('reviewer_name', 'the reviewer, as the application states it'),
    ('evidence_digest', 'SHA-256 that identifies the packet''s evidence'),
    ('draft_digest', 'SHA-256 that identifies the draft'),
    ('shown_digest', 'SHA-256 of what the reviewer was shown: evidence, draft, verdicts and reasons'),
    ('withheld', 'positions of claims that were shown as withheld: they may not be said'),
    ('subject', 'document, contract, or outcome that differs'),
    ('was', 'what the packet has'),
    ('is_now', 'what a decision made now has'),

    -- What a change touches
    ('since', 'the instant of knowledge before the change'),
    ('until', 'the instant of knowledge after it'),
    ('impact.valid_at', 'instant for which both are asked'),
    ('was_version', 'the version that was current before; null where none was'),
    ('new_version', 'the version that is current after it; null where none is'),
    ('carriable_spans.version', 'the version that was replaced'),
    ('carriable_spans.new_version', 'the version that is current'),
    ('scheduled_version', 'the next version that takes effect later, of those recorded in between; null where there is none'),
    ('scheduled_from', 'when it takes effect'),
    ('span_impact.version', 'the version that was current before'),
    ('survival', 'exact (at the same place in the version that is current after it), moved, or gone'),
    ('new_range_start', 'where the quotation stands there; null where it is gone'),
    ('is_curated', 'a span of the same fact with this quotation is there'),
    ('suggestion', 'the passage that comes nearest to what is gone: for people to look at, it licenses nothing'),
    ('obstacle', 'what stops it: gone, ambiguous, span_id_taken, cuts_character; null where add_spans takes it as it is'),
    ('change', 'lost or gained'),
    ('coverage_impact.quote', 'the proposition'),
    ('coverage_impact.version', 'the version that witnessed it before, or witnesses it after'),
    ('coverage_impact.is_covered', 'a span of a version that is current after the change witnesses the fact, for whatever case'),
    ('effect', 'turns_stale, holds_again, or differs where it holds neither before nor after'),
    ('was_outcome', 'outcome of its request, decided before the change; null where it cannot be'),
    ('new_outcome', 'outcome of its request, decided after it; null where it cannot be'),
    ('packet_impact.missing', 'required facts without a witness after the change'),
    ('changes', 'why it turns stale, a line for each difference'),
    ('approvals', 'approvals in force on its evidence: draft_digest, decision_number, reviewer, recorded_at'),
    ('documents', 'rows of document_impact'),
    ('spans', 'rows of span_impact'),
    ('facts', 'rows of coverage_impact'),
    ('packets', 'rows of packet_impact'),

    -- Traces
    ('trace_id', 'identity of the trace'),
    ('budget', 'most tokens of the context, headings included'),
    ('neighbours', 'how many passages before and after a selected one were added while the budget lasted'),
    ('label', 'the label under which it was handed over: P1, P2, ...'),
    ('trace_passage.label', 'the label under which it was handed over: P1, P2, ...; null when it was not'),
    ('added_as', 'witness, selected, or neighbour of a selected one'),
    ('left_out', 'why it was not handed over: duplicate or over_budget'),
    ('trace_passage.tokens', 'its tokens, headings included'),
    ('trace_passage.position', 'place in the order in which passages were placed, from 1'),
    ('trace_candidate.position', 'rank among all visible passages, from 1'),
    ('trace.outcome', 'the outcome on the context that was handed over'),
    ('trace.missing', 'required facts without a witness in the context, in contract order'),
    ('model', 'identifier of the model, as the application states it'),
    ('prompt_version', 'version of the instructions that the model was given'),
    ('citations', 'labels that the answer cites, also those that nobody handed over'),
    ('trace.query', 'the query, where the contract keeps texts'),
    ('query_sha256', 'SHA-256 of the query''s UTF-8 bytes, in hex, where the contract keeps texts or digests'),
    ('answer', 'the answer, where the contract keeps texts'),
    ('answer_sha256', 'SHA-256 of the answer''s UTF-8 bytes, in hex, where the contract keeps texts or digests'),
    ('trace.verdict', 'what the audit says of the answer: the weightiest verdict of its sentences; null where none was stated'),
    ('trace_verdict.verdict', 'what the audit says of the sentence: contradicted, unsupported, unknown_citation, uncited, '
      'review, unchecked or no_finding'),
    ('trace_verdict.range_start', 'first code point of the sentence in the answer, 0-based'),
    ('trace_verdict.range_end', 'code point after the last of the sentence'),
    ('checks', 'names of the checks that found something'),
    ('sentence', 'the sentence, where the contract keeps texts'),
    ('stage', 'decision, context, candidates, answer or audit'),
    ('took', 'how long it took'),
    ('recorded_before', 'traces recorded before this instant were removed'),
    ('traces', 'how many traces were removed'),
    ('trace_retention', 'how long traces are kept; null: without end'),
    ('answered_at', 'when the answer was recorded'),
    ('url', 'the stored source, where it is an http or https address'),
    ('finding', 'retrieval_miss, context_loss, unrecorded_context or unknown_citation'),
    ('id', 'the identifier, or the label'),
    ('diagnose_trace.label', 'the unknown label'),

    -- Embeddings
    ('embedding_model.model', 'name of the embedding model'),
    ('model_version', 'version of the model: vectors of two do not compare'),
    ('dimension', 'numbers in each of its vectors'),

    -- Arguments
    ('add_embeddings.p_model', 'name of the embedding model'),
    ('missing_embeddings.p_model', 'name of the embedding model'),
    ('p_model_version', 'version of the model'),
    ('p_document_ids', 'for each passage its document, of the bound tenant'),
    ('p_versions', 'for each passage the version of its document'),
    ('p_range_starts', 'for each passage where it begins: code points, from 0'),
    ('p_vectors', 'for each passage its vector, as a text: [0.1,-2,3e-4]'),
    ('p_limit', 'most passages; null: all'),
    ('p_trace_id', 'the trace, of the bound tenant'),
    ('p_budget', 'most tokens of the context, headings included'),
    ('p_neighbours', 'how many passages before and after a selected one to add while the budget lasts, 0 to 10'),
    ('p_candidates', 'how many of the best visible passages to record, 0 to 1000'),
    ('p_answer', 'the answer; kept as the contract says'),
    ('p_verdicts', 'what an audit said of each sentence: [{"range_start", "range_end", "verdict", "checks"}], in the order of '
      'the answer; null where nobody audited it'),
    ('p_answer_took', 'how long the model took'),
    ('p_audit_took', 'how long the audit took'),
    ('p_citations', 'labels that the answer cites, in order'),
    ('p_model', 'identifier of the model'),
    ('p_prompt_version', 'version of the instructions'),
    ('p_labels', 'labels of the trace'),
    ('p_required', 'passages that the answer needs, as a person says: array of (tenant, document_id, version, range_start, '
      'range_end)::rag.source_ref, which rag_api.passage has'),
    ('diagnose_ids.p_required', 'identifiers that the answer needs, as a person says'),
    ('p_retrieved', 'identifiers that the retriever returned'),
    ('p_context', 'JSON object: label to identifier, as handed over'),
    ('p_tenant', 'the tenant, or a tenant with its signature; null: public only'),
    ('global_ranking.p_tenant', 'the tenant for which eligibility is said'),
    ('p_documents', 'JSON array of objects: id, version, body; optionally title, applies_to, effective_from, published, '
      'source, language, metadata, outline (end and headings of each passage), spans (id, fact, quote, occurrence), '
      'successors (ids), superseded_from'),
    ('p_spans', 'JSON array of objects: document, version, span, fact, quote, optionally occurrence'),
    ('p_body_sha256', 'SHA-256 of each document''s body, in the order of the documents'),
    ('same_documents.p_documents', 'as for load_documents, without the bodies'),
    ('p_document_id', 'the document, of the bound tenant'),
    ('p_version', 'its version'),
    ('add_contract.p_version', 'version of the contract: a positive integer'),
    ('p_attribute', 'key of applies_to and of case facts'),
    ('p_type', 'text, number, flag, date, version-pep440, version-semver or version-numeric'),
    ('p_withdrawn_from', 'from when on; null: now'),
    ('p_successors', 'ids of the documents that take its place, 1 to 100'),
    ('p_superseded_from', 'from when on; null: now'),
    ('history.p_document_id', 'the document, of the bound tenant or public'),
    ('p_note', 'a note, for people'),
    ('p_question_id', 'the question: selects the contract'),
    ('p_content', 'JSON object: case (list of attributes), facts (fact, propositions (quote, clauses)), optionally decision '
      '(about, decided_by, refer, never_say)'),
    ('p_contract_tenant', 'owner of the contract: public, or the bound tenant'),
    ('p_contract_version', 'version of the contract; by default the newest'),
    ('p_case_facts', 'facts of the case, such as {"model": "G2"}'),
    ('p_query', 'words to rank passages by; at least one'),
    ('p_k', 'most passages, 1 to 1000'),
    ('p_method', 'ranking method: overlap, bm25, vector or hybrid; null: as the contract says'),
    ('search.p_method', 'ranking method: overlap, bm25, vector or hybrid'),
    ('selection.p_method', 'ranking method: overlap, bm25, vector or hybrid'),
    ('candidates.p_method', 'ranking method: overlap, bm25, vector or hybrid'),
    ('p_parameters', 'parameters of the method, such as {"k1": 1.2, "b": 0.75}; others have their defaults'),
    ('p_why', 'whether to say what each word of the query adds'),
    ('p_valid_at', 'when the rules have to hold; null: now'),
    ('p_known_at', 'from what had been recorded by then; null: now'),
    ('p_since', 'from what had been recorded by then on; null: what this transaction has recorded'),
    ('p_until', 'to what had been recorded by then; null: now'),
    ('impact.p_valid_at', 'when the rules have to hold, before and after; null: p_until'),
    ('document_impact.p_valid_at', 'when the rules have to hold, before and after; null: p_until'),
    ('span_impact.p_valid_at', 'when the rules have to hold, before and after; null: p_until'),
    ('coverage_impact.p_valid_at', 'when the rules have to hold, before and after; null: p_until'),
    ('packet_impact.p_valid_at', 'when the rules have to hold, before and after; null: p_until'),
    ('carriable_spans.p_document_ids', 'the documents, of the bound tenant; null: all'),
    ('p_selection', 'array of places of passages: (tenant, document, version, range start, range end)'),
    ('p_quote', 'the quotation to look for'),
    ('p_claims', 'JSON array of claims: text, fact, tenant, document_id, version, span_id'),
    ('p_packet_id', 'the packet, of the bound tenant'),
    ('p_shown_digest', 'digest of what the reviewer saw (review_packet)'),
    ('p_decision', 'approved or rejected'),
    ('p_reviewer_name', 'the reviewer, as the application knows it')
  ), item as (
    select c.oid, c.relowner as owner, 'column' as kind, c.relname::text as object, a.attname::text as name, a.attnum::integer as place
    from pg_catalog.pg_class c
    join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0
    where c.relnamespace = 'rag_api'::regnamespace and c.relkind = 'v'
    union all
    select p.oid, p.proowner, case when n.mode = 't' then 'returns' else 'arguments' end, p.proname::text, n.name, n.place::integer
    from pg_catalog.pg_proc p
    cross join lateral unnest(p.proargnames, p.proargmodes::text[]) with ordinality as n(name, mode, place)
    where p.pronamespace = 'rag_api'::regnamespace and p.proname !~ '^_'
  ), said as (
    select i.oid, i.owner, i.kind, i.object, i.name, i.place, coalesce(o.meaning, w.meaning) as meaning
    from item i
    left join word o on o.name = i.object || '.' || i.name
    left join word w on w.name = i.name
  ), list as (
    select oid, owner, kind, string_agg(format(e'\n  %s  %s', rpad(name, 20), meaning), '' order by place) as lines
    from said
    where kind <> 'column' and meaning is not null
    group by oid, owner, kind
  )
  select owner::regrole::text as owner, format('comment on column rag_api.%I.%I is %L', object, name, meaning) as statement
  from said
  where kind = 'column' and meaning is not null
  union all
  select l.owner::regrole::text, format('comment on function %s is %L', l.oid::regprocedure,
    pg_catalog.obj_description(l.oid, 'pg_proc') || string_agg(e'\n' || l.kind || ':' || l.lines, '' order by l.kind))
  from list l
  group by l.oid, l.owner
  loop
    execute 'set local role ' || v_comment.owner;
    execute v_comment.statement;
  end loop;
end
$$;

reset role;
