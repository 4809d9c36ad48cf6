-- Settings under which functions of tables/ run, whatever the session that calls them has set. What has been released there
-- changes only by a migration; what a session's setting may do to it needs none.

set local role rag_owner;

-- A session may read a backslash in a text as an escape. '\W+' would be a W and a plus then, and a document would be stored
-- as one long word that no query finds.
alter function rag.word_vector set standard_conforming_strings = on;

reset role;
