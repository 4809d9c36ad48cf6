-- Comments on columns of tables, beside those that tables/ has: what has been released there changes only by a migration,
-- and words need none. Names that say what they are (tenant, document_id, version, title, note) have no comment.

set local role rag_owner;

comment on column rag_auth.membership.login is 'Name of the login. Revoke before it is dropped: a later one of the same name would have the tenant.';
comment on column rag_auth.membership.tenant is 'A tenant that the login may assert.';

comment on column rag.version.tenant is 'Whose document it is: public, or the tenant that alone sees it.';
comment on column rag.version.body is 'The whole text, as it was loaded; null: erased.';
comment on column rag.version.recorded_by is 'Login of the session.';
comment on column rag.withdrawal.recorded_by is 'Login of the session.';
comment on column rag.span.span_id is 'Identity within the version; 1 to 200 bytes.';
comment on column rag.span.recorded_by is 'Login of the session.';
comment on column rag.span.body_length is 'Length of the version''s body, so that a CHECK can hold the range inside it. Derived.';

comment on column rag.contract.tenant is 'Whose contract it is. A tenant''s own wins over a public one of the same question.';
comment on column rag.contract.question_id is 'Identity of the question type; 1 to 200 bytes.';
comment on column rag.contract.version is 'Positive integer, unique within the question. The newest is used unless one is named.';
comment on column rag.contract.recorded_by is 'Login of the session.';

comment on column rag.packet.tenant is 'The tenant that asked; never public.';
comment on column rag.packet.packet_id is 'Random, so that no tenant learns another''s rate.';
comment on column rag.packet.outcome is 'SufficientForTemplate, NeedsDecision or AskForEvidence.';
comment on column rag.packet.contract_tenant is 'Whose contract decided: public, or the tenant''s own.';
comment on column rag.packet.case_facts is 'Facts of the case: attribute to value; empty where they were erased with the tenant, as query and parameters are.';
comment on column rag.packet.query is 'Words that passages were ranked by.';
comment on column rag.packet.k is 'Most passages to select.';
comment on column rag.packet.required is 'Required facts, in contract order.';
comment on column rag.packet.missing is 'Required facts without a witness in the selected set, in contract order.';
comment on column rag.packet.recorded_by is 'Login of the session.';
comment on column rag.packet_source.position is 'Rank, from 1.';
comment on column rag.packet_source.score is 'Distinct words of the query that occur in the passage.';
comment on column rag.packet_source.range_start is 'Start of the passage in the body, in code points from 0.';
comment on column rag.packet_source.range_end is 'End of the passage in the body, exclusive.';
comment on column rag.packet_span.position is 'Rank of the passage that the span lies in.';
comment on column rag.packet_span.document_tenant is 'Visibility of the document: public or the packet''s tenant.';

comment on column rag.approval.decision_number is 'From 1, for each draft on its evidence. The greatest counts.';
comment on column rag.approval.decision is 'approved or rejected.';

reset role;
