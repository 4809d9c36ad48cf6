-- Embeddings: vectors of passages, of several models side by side, for search by meaning.
--
-- A model is a name and a version; its vectors have one dimension, which is registered with the first of them
-- (rag.embedding_model). A passage has a vector of each model or none. Vectors are kept with length 1, since only their
-- direction counts.
--
-- Vectors stand in rag_index, where no run-time role has a grant: rag_api._store_embeddings and rag_api._vector_search,
-- definer functions of rag_search, are the only way to them (api/057_embeddings).
--
-- rag_index.embedding is partitioned by bucket. Bucket 0 is shared: there a tenant's vectors are found through the key and
-- compared one by one. A tenant with many has, for each model, a bucket of its own with a graph over it (HNSW), and so has
-- public: never one graph for several tenants, since in a shared one the vectors of one crowd out those of another. Which
-- bucket it is says rag_index.bucket, and `rag-sql maintain` moves vectors when there are enough, or too few. A bucket's
-- number is random and tells nothing: names and bounds of partitions are readable by everyone.
--
-- Lock order: writers of a model's vectors take the lock of their bucket's row shared, a move takes it exclusive, each before
-- it reads which bucket it is. The lock's key is random: everyone sees the keys of locks.

create table rag.embedding_model (
  tenant text collate "C" not null,
  model text collate "C" not null,
  model_version text collate "C" not null,
  dimension integer not null,
  recorded_at timestamptz not null default now(),
  recorded_by text not null default session_user,

  constraint embedding_model_key primary key (tenant, model, model_version),
  constraint embedding_model_tenant_exists foreign key (tenant) references rag.tenant (tenant),
  constraint embedding_model_fits check (octet_length(model) between 1 and 200),
  constraint embedding_model_is_printable check (model !~ '[[:cntrl:]]' and model = btrim(model)),
  constraint embedding_model_version_fits check (octet_length(model_version) between 1 and 200),
  constraint embedding_model_version_is_printable check (
    model_version !~ '[[:cntrl:]]' and model_version = btrim(model_version)
  ),
  -- What a graph over half-precision numbers can have.
  constraint embedding_model_dimension_is_in_range check (dimension between 1 and 4000)
);
alter table rag.embedding_model enable row level security;
alter table rag.embedding_model force row level security;
alter table rag.embedding_model
  alter column model set statistics 0,
  alter column model_version set statistics 0,
  alter column recorded_by set statistics 0;
create trigger embedding_model_is_append_only
  before update or delete or truncate on rag.embedding_model
  for each statement execute function rag.refuse_change();
comment on table rag.embedding_model is 'Models of which a tenant has vectors.';
comment on column rag.embedding_model.model is 'Name of the model; 1 to 200 bytes.';
comment on column rag.embedding_model.model_version is 'Version of the model: vectors of two do not compare. 1 to 200 bytes.';
comment on column rag.embedding_model.dimension is 'Numbers in each of its vectors; 1 to 4000.';
comment on column rag.embedding_model.recorded_by is 'Login of the session.';

create table rag_index.bucket (
  tenant text collate "C" not null,
  model text collate "C" not null,
  model_version text collate "C" not null,
  bucket integer not null default 0,
  -- The first half of a random uuid: 60 of its 64 bits are random.
  lock_key bigint not null default ('x' || left(replace(gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint,

  constraint bucket_key primary key (tenant, model, model_version),
  constraint bucket_model_exists foreign key (tenant, model, model_version)
    references rag.embedding_model (tenant, model, model_version),
  constraint bucket_is_not_negative check (bucket >= 0)
);
alter table rag_index.bucket enable row level security;
alter table rag_index.bucket force row level security;
comment on table rag_index.bucket is 'In which partition of rag_index.embedding the vectors of a tenant''s model are.';
comment on column rag_index.bucket.bucket is '0: the shared one. Otherwise the number of a partition that nobody else is in; random.';
comment on column rag_index.bucket.lock_key is 'Key of the lock that writers and moves of the model''s vectors take; random.';

create table rag_index.embedding (
  bucket integer not null,
  tenant text collate "C" not null,
  model text collate "C" not null,
  model_version text collate "C" not null,
  document_id text collate "C" not null,
  version integer not null,
  range_start integer not null,
  embedding public.halfvec not null,
  recorded_at timestamptz not null default now(),

  constraint embedding_key primary key (tenant, model, model_version, document_id, version, range_start, bucket)
) partition by list (bucket);
alter table rag_index.embedding enable row level security;
alter table rag_index.embedding force row level security;
-- Vectors do not compress, and who compares many wants them in their rows: up to a page of 8 kB they stay there.
alter table rag_index.embedding
  alter column embedding set storage external,
  alter column embedding set statistics 0;
comment on table rag_index.embedding is 'Vectors of passages, by model, in buckets.';
comment on column rag_index.embedding.bucket is 'What rag_index.bucket says; rows with another number are on their way out.';
comment on column rag_index.embedding.recorded_at is 'When the vector was stored: what was decided before is decided again without it.';
comment on column rag_index.embedding.embedding is 'The vector, of length 1, in half precision.';

create table rag_index.embedding_0 partition of rag_index.embedding for values in (0) with (toast_tuple_target = 8160);
alter table rag_index.embedding_0 enable row level security;
alter table rag_index.embedding_0 force row level security;
comment on table rag_index.embedding_0 is 'The shared bucket: vectors of all who have no bucket of their own.';
