"""Stores of other frameworks on the same server, each used as its own documentation does: bulk call, HNSW, filter.

Each has a table of its own in a database without the product. A passage belongs to a part, which is what each filters
by. None of them knows a tenant or a wall. One that is not installed is not among :func:`peers`, but among
:func:`missing`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import psycopg

from rag_sql._embedded import SUPERUSER
from tests.benchmarks._engines import optional
from tests.conftest import Database

K = 10

#: What :meth:`Peer.fill` reads.
VECTORS = "create table vectors (id text primary key, part text not null, embedding vector({dimension}) not null)"


@dataclass(frozen=True)
class Passage:
    """What a peer is given to store; with it a vector, since no model is run."""

    text: str
    part: str
    vector: list[float]


class Peer(Protocol):
    """A store of another framework."""

    name: str

    def load(self, passages: Sequence[Passage]) -> None:
        """Store passages by its own bulk call, with its own lexical index."""

    def fill(self, connection: psycopg.Connection[Any]) -> None:
        """Put what is in the table ``vectors`` into its table, in one statement: much faster than its own call."""

    def index(self) -> None:
        """Build its HNSW over what is there, with its own defaults."""

    def search(self, vector: list[float], part: str) -> list[str]:
        """Texts of the ten nearest in a part, by its own filter."""

    def close(self) -> None:
        """Give back its connections."""


class LangChain:
    """PGVectorStore of langchain-postgres: the part is a column, as it recommends for what is filtered by."""

    name = "langchain-postgres"

    def __init__(self, database: Database, dimension: int, *, lexical: bool) -> None:
        module: Any = import_module("langchain_postgres")
        self._indexes: Any = import_module("langchain_postgres.v2.indexes")
        hybrid: Any = import_module("langchain_postgres.v2.hybrid_search_config")
        fake: Any = import_module("langchain_core.embeddings")
        self._lexical = hybrid.HybridSearchConfig(tsv_lang="pg_catalog.simple") if lexical else None
        self._engine = module.PGEngine.from_connection_string(url=database.url(SUPERUSER))
        columns = [module.Column("part", "text")]
        self._engine.init_vectorstore_table(
            "langchain", dimension, metadata_columns=columns, hybrid_search_config=self._lexical
        )
        self._store = module.PGVectorStore.create_sync(
            self._engine,
            fake.DeterministicFakeEmbedding(size=dimension),  # asked for, never called
            "langchain",
            metadata_columns=["part"],
            hybrid_search_config=self._lexical,
        )
        if lexical:
            self._store.apply_hybrid_search_index()

    def load(self, passages: Sequence[Passage]) -> None:
        self._store.add_embeddings(
            [passage.text for passage in passages],
            [passage.vector for passage in passages],
            [{"part": passage.part} for passage in passages],
            [str(uuid.uuid4()) for _ in passages],
        )

    def fill(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "insert into langchain (langchain_id, content, embedding, part, langchain_metadata)"
            " select gen_random_uuid(), id, embedding, part, '{}' from vectors"
        )

    def index(self) -> None:
        self._store.apply_vector_index(self._indexes.HNSWIndex())

    def search(self, vector: list[float], part: str) -> list[str]:
        found = self._store.similarity_search_by_vector(vector, k=K, filter={"part": part})
        return [document.page_content for document in found]

    def close(self) -> None:
        self._engine._run_as_sync(self._engine.close())


class LlamaIndex:
    """PGVectorStore of llama-index-vector-stores-postgres, with the parameters for HNSW that its README gives."""

    name = "llama-index-vector-stores-postgres"

    def __init__(self, database: Database, dimension: int, *, lexical: bool) -> None:
        self._module: Any = import_module("llama_index.vector_stores.postgres")
        self._schema: Any = import_module("llama_index.core.schema")
        self._types: Any = import_module("llama_index.core.vector_stores")
        self._utils: Any = import_module("llama_index.core.vector_stores.utils")
        url = database.url(SUPERUSER)
        blocking = url.replace("+psycopg:", "+psycopg2:")  # its own driver: it binds what psycopg 3 cannot
        self._options: dict[str, Any] = {
            "connection_string": blocking,
            "async_connection_string": url,
            "table_name": "llama",
        }
        self._options |= {"embed_dim": dimension, "hybrid_search": lexical, "text_search_config": "simple"}
        self._options |= {"initialization_fail_on_error": True}
        self._store = self._module.PGVectorStore(**self._options)
        self._store._initialize()

    def load(self, passages: Sequence[Passage]) -> None:
        nodes = [
            self._schema.TextNode(text=passage.text, embedding=passage.vector, metadata={"part": passage.part})
            for passage in passages
        ]
        self._store.add(nodes)

    def fill(self, connection: psycopg.Connection[Any]) -> None:
        node = self._schema.TextNode(id_="<id>", text="<id>", metadata={"part": "<part>"})
        kept = self._utils.node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
        connection.execute(
            "insert into data_llama (text, metadata_, node_id, embedding)"
            " select id, cast(replace(replace(%s, '<id>', id), '<part>', part) as json), id, embedding from vectors",
            (self._schema.json.dumps(kept),),
        )

    def index(self) -> None:
        self._options["hnsw_kwargs"] = {"hnsw_m": 16, "hnsw_ef_construction": 64, "hnsw_ef_search": 40}
        self._store = self._module.PGVectorStore(**self._options)
        self._store._initialize()

    def search(self, vector: list[float], part: str) -> list[str]:
        only = self._types.MetadataFilters(filters=[self._types.MetadataFilter(key="part", value=part)])
        query = self._types.VectorStoreQuery(query_embedding=vector, similarity_top_k=K, filters=only)
        return [node.text for node in self._store.query(query).nodes]

    def close(self) -> None:
        self._store.client.dispose()


class Haystack:
    """PgvectorDocumentStore of pgvector-haystack, with HNSW as its strategy; its keyword index is always there."""

    name = "pgvector-haystack"

    def __init__(self, database: Database, dimension: int, *, lexical: bool) -> None:  # noqa: ARG002
        self._module: Any = import_module("haystack_integrations.document_stores.pgvector")
        self._haystack: Any = import_module("haystack")
        utils: Any = import_module("haystack.utils")
        retrievers: Any = import_module("haystack_integrations.components.retrievers.pgvector")
        self._retriever = retrievers.PgvectorEmbeddingRetriever
        conninfo = database.server.conninfo(SUPERUSER, database.name)
        self._options: dict[str, Any] = {
            "connection_string": utils.Secret.from_token(conninfo),
            "table_name": "haystack",
        }
        self._options |= {"embedding_dimension": dimension, "language": "simple"}
        self._store = self._module.PgvectorDocumentStore(**self._options)
        self._store.count_documents()  # makes the table

    def load(self, passages: Sequence[Passage]) -> None:
        self._store.write_documents(
            [
                self._haystack.Document(content=passage.text, embedding=passage.vector, meta={"part": passage.part})
                for passage in passages
            ]
        )

    def fill(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "insert into haystack (id, embedding, content, meta)"
            " select id, embedding, id, jsonb_build_object('part', part) from vectors"
        )

    def index(self) -> None:
        self._store.close()
        self._store = self._module.PgvectorDocumentStore(search_strategy="hnsw", **self._options)
        self._store.count_documents()

    def search(self, vector: list[float], part: str) -> list[str]:
        only = {"field": "meta.part", "operator": "==", "value": part}
        found = self._retriever(document_store=self._store).run(query_embedding=vector, filters=only, top_k=K)
        return [document.content for document in found["documents"]]

    def close(self) -> None:
        self._store.close()


_PEERS: dict[str, type[LangChain | LlamaIndex | Haystack]] = {
    "langchain_postgres": LangChain,
    "llama_index.vector_stores.postgres": LlamaIndex,
    "haystack_integrations.document_stores.pgvector": Haystack,
}


def peers() -> list[type[LangChain | LlamaIndex | Haystack]]:
    """Those that are installed."""
    return [peer for module, peer in _PEERS.items() if optional(module) is not None]


def missing() -> list[str]:
    """Names of those that are not."""
    return [peer.name for module, peer in _PEERS.items() if optional(module) is None]
