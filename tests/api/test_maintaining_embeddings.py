"""Moving vectors into a bucket of their own and back: nobody notices, and a search finds min(K, eligible) rows."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from rag_sql import _install, _maintain_embeddings, errors
from rag_sql._embedded import SUPERUSER
from rag_sql._maintain_embeddings import maintain_embeddings
from tests.conftest import Clone, Database, Server
from tests.schema.fingerprint import fingerprint
from tests.vectors import Connection, Hit, add, search

SIZE = 400
CHOSEN = random.Random(5)
VECTORS = {f"D{number:03}": [CHOSEN.gauss(0, 1) for _ in range(8)] for number in range(SIZE)}
QUERIES = [[CHOSEN.gauss(0, 1) for _ in range(8)] for _ in range(5)]


@pytest.fixture(scope="module")
def template(server: Server, installed_template: Database) -> Iterator[Database]:
    """Acme has vectors of 400 documents, one in a hundred for model G2; northwind and public have three each."""
    database = server.create(installed_template.name)
    for login, tenant, vectors in (
        ("acme_curator", "acme", VECTORS),
        ("northwind_curator", "northwind", dict(list(VECTORS.items())[:3])),
        ("publisher", "public", dict(list(VECTORS.items())[:3])),
    ):
        with database.tenant(login) as bound:
            bound.load_documents(
                [
                    {"id": name, "version": 1, "body": name, "applies_to": {"model": [f"G{number % 100}"]}}
                    for number, name in enumerate(vectors)
                ]
            )
        with bound_to(database, login, tenant) as connection:
            add(connection, vectors)
    yield database
    server.drop(database)


@pytest.fixture
def store(clone: Clone, template: Database) -> Database:
    return clone(template)


@contextmanager
def bound_to(database: Database, login: str = "acme_reader", tenant: str = "acme") -> Iterator[Connection]:
    with database.connect(login) as connection:
        connection.execute("select rag_api.bind(%s)", [tenant])
        yield connection


def everything(database: Database, login: str = "acme_reader", tenant: str = "acme") -> list[list[Hit]]:
    with bound_to(database, login, tenant) as connection:
        return [search(connection, query, 1000, exact=True, case='{"model": "G2"}') for query in QUERIES]


def maintain(database: Database, above: int, below: int = 0) -> list[tuple[str, str, int]]:
    with database.engine(SUPERUSER) as engine:
        moved = maintain_embeddings(engine, promote_above=above, demote_below=below)
    return [(move.tenant, move.action, move.vectors) for move in moved]


def buckets(database: Database) -> dict[str, int]:
    """In which bucket each tenant is, with the partitions that there are."""
    with database.connect(SUPERUSER) as connection:
        rows = connection.execute("select tenant, bucket from rag_index.bucket").fetchall()
        tables = connection.execute(
            "select relname::text, relispartition from pg_class where relkind = 'r'"
            " and relnamespace = 'rag_index'::regnamespace and relname like 'embedding%'"
        ).fetchall()
        assert all(is_partition for _, is_partition in tables)
        assert {f"embedding_{bucket}" for _, bucket in rows} | {"embedding_0"} <= {name for name, _ in tables}
        found = dict(rows)
        found["partitions"] = len(tables)
        return found


def test_a_large_tenant_is_moved_and_back_and_every_answer_stays_the_same(store: Database) -> None:
    before = [everything(store), everything(store, "northwind_reader", "northwind")]
    untouched = fingerprint(store)
    assert maintain(store, above=SIZE) == []
    assert maintain(store, above=SIZE - 1) == [("acme", "promoted", SIZE)]
    found = buckets(store)
    assert found["acme"] > 0
    assert (found["northwind"], found["public"], found["partitions"]) == (0, 0, 2)
    assert [everything(store), everything(store, "northwind_reader", "northwind")] == before
    assert maintain(store, above=SIZE - 1, below=SIZE) == []
    assert maintain(store, above=SIZE, below=SIZE + 1) == [("acme", "demoted", SIZE)]
    assert buckets(store) == {"acme": 0, "northwind": 0, "public": 0, "partitions": 2}
    assert everything(store) == before[0]
    assert maintain(store, above=SIZE) == []
    assert buckets(store)["partitions"] == 1
    assert [everything(store), everything(store, "northwind_reader", "northwind")] == before
    assert fingerprint(store) == untouched


def test_a_bucket_of_its_own_is_behind_the_same_wall_and_has_a_graph(store: Database) -> None:
    maintain(store, above=SIZE - 1)
    with store.connect(SUPERUSER) as connection:
        (row,) = connection.execute(
            "select c.relname::text, relrowsecurity and relforcerowsecurity, relowner::regrole::text,"
            " not exists (select from aclexplode(relacl) where grantee <> relowner),"
            " exists (select from pg_index join pg_class i on i.oid = indexrelid"
            "  join pg_am a on a.oid = i.relam where indrelid = c.oid and amname = 'hnsw')"
            " from pg_class c join pg_inherits on inhrelid = c.oid"
            " where inhparent = 'rag_index.embedding'::regclass and relname <> 'embedding_0'"
        ).fetchall()
        assert row[1:] == (True, "rag_owner", True, True)
        shared = connection.execute("select distinct tenant from rag_index.embedding_0 order by 1").fetchall()
        assert shared == [("northwind",), ("public",)]
    for login in ("acme_curator", "northwind_curator", "auditor"):
        with store.connect(login) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"select from rag_index.{row[0]}".encode())
    with store.engine(SUPERUSER) as engine:
        _install.upgrade(engine)
    assert len(everything(store)[0]) > 0


#: So many versions are eligible before a graph is asked.
MANY = 10_000


#: Documents whose vectors crowd round one direction, and documents with vectors all round.
NEAR, ROUND = 4_200, 10_800
DIRECTION = [1.0, 0, 0, 0, 0, 0, 0, 0]


@pytest.fixture(scope="module")
def graph(server: Server, installed_template: Database) -> Iterator[Database]:
    """15,000 documents of acme's in a bucket of its own; one in 100 is singled out, one in 2,000, and all round."""
    database = server.create(installed_template.name)
    with database.connect(SUPERUSER) as connection:
        # What cuts and indexes writes for the bound tenant alone, whoever stores the version.
        connection.execute("insert into rag_auth.membership (login, tenant) values (session_user, 'acme')")
        connection.execute("select set_config('rag.tenant', 'acme', false)")
        connection.execute(
            "insert into rag.version (tenant, document_id, version, body, applies_to)"
            " select 'acme', 'D' || i, 1, 'x', jsonb_build_object('of', to_jsonb("
            "  array_remove(array['all', case when i %% 100 = 0 then 'hundred' end,"
            "   case when i > %s then 'round' end, case when i %% 2000 = 0 then 'thousands' end], null)))"
            " from generate_series(1, %s) i",
            [NEAR, NEAR + ROUND],
        )
        connection.execute(
            "insert into rag.embedding_model (tenant, model, model_version, dimension) values ('acme', 'hash', '1', 8);"
            "insert into rag_index.bucket (tenant, model, model_version) values ('acme', 'hash', '1');"
            "select setseed(0.5);"
            "insert into rag_index.embedding"
            " select 0, 'acme', 'hash', '1', document_id, 1, 0, (select array_agg("
            "   case when applies_to -> 'of' ? 'round' then random() - 0.5 else (n = 1)::integer + random() / 100 end"
            "   order by n)::public.halfvec from generate_series(1, 8) n) from rag.version;"
            "analyze"
        )
    assert maintain(database, above=MANY) == [("acme", "promoted", NEAR + ROUND)]
    yield database
    server.drop(database)


@pytest.mark.parametrize(("of", "eligible"), [("all", NEAR + ROUND), ("hundred", 150), ("thousands", 7), ("none", 0)])
@pytest.mark.parametrize("k", [1, 10, 300, 1000])
def test_a_search_that_may_use_the_graph_finds_as_many_as_are_eligible(
    graph: Database, of: str, eligible: int, k: int
) -> None:
    with bound_to(graph) as connection:
        for query in QUERIES[:2]:
            exact = search(connection, query, k, case=f'{{"of": "{of}"}}')
            found = search(connection, query, k, exact=False, case=f'{{"of": "{of}"}}')
            assert len(found) == len(exact) == min(k, eligible)
            assert len(set(found) & set(exact)) >= 0.95 * len(exact)
            assert [hit for hit in found if hit in exact] == [hit for hit in exact if hit in found]
            if eligible <= MANY:
                assert found == exact


def test_all_are_compared_where_the_graph_finds_only_what_is_not_eligible(graph: Database) -> None:
    """More than it is asked for lie round the query, and none of these is: it cannot know before it has asked."""
    case = '{"of": "round"}'
    before = scans(graph)
    with bound_to(graph) as connection:
        found = search(connection, DIRECTION, 10, exact=False, case=case)
        assert found == search(connection, DIRECTION, 10, case=case)
        assert len(found) == 10
        connection.execute("select pg_stat_force_next_flush()")
    assert scans(graph) == before + 1


def scans(database: Database) -> int:
    """How often the graph has been asked."""
    with database.connect(SUPERUSER) as connection:
        (row,) = connection.execute(
            "select sum(idx_scan) from pg_stat_all_indexes where indexrelname like '%by_cosine'"
        ).fetchall()
        return int(row[0])


def test_the_graph_is_asked_for_a_search_and_not_for_a_decision(graph: Database) -> None:
    def asked(exact: bool) -> list[Hit]:
        with bound_to(graph) as connection:
            found = search(connection, QUERIES[0], 10, exact=exact, case='{"of": "all"}')
            connection.execute("select pg_stat_force_next_flush()")
            return found

    before = scans(graph)
    whole = asked(exact=True)
    assert scans(graph) == before
    assert len(asked(exact=False)) == len(whole) == 10
    assert scans(graph) == before + 1


def test_what_is_written_after_the_move_is_found_and_what_is_there_is_left(store: Database) -> None:
    maintain(store, above=SIZE - 1)
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "NEW", "version": 1, "body": "new"}])
    with bound_to(store, "acme_curator") as connection:
        missing = "select document_id from rag_api.missing_embeddings('hash', '1', null)"
        assert connection.execute(missing).fetchall() == [("NEW",)]
        assert add(connection, {"D000": QUERIES[0], "NEW": QUERIES[0]}) == 1
        assert connection.execute(missing).fetchall() == []
        for exact in (True, False):
            assert search(connection, QUERIES[0], 1, exact=exact) == [(1_000_001, "acme", "NEW", 1, 0)]


def test_readers_go_on_while_vectors_are_moved(store: Database) -> None:
    """One reads all the time, with and without the graph; each answer is whole."""
    stop = threading.Event()
    wrong: list[object] = []
    answers = 0
    before = everything(store)

    def read() -> None:
        nonlocal answers
        try:
            with store.connect("acme_reader", autocommit=True) as connection:
                connection.execute("set statement_timeout = '5s'")
                while not stop.is_set():
                    with connection.transaction():
                        connection.execute("select rag_api.bind('acme')")
                        for query, expected in zip(QUERIES, before, strict=True):
                            for exact in (True, False):
                                found = search(connection, query, 1000, exact=exact, case='{"model": "G2"}')
                                answers += 1
                                if found != expected:
                                    wrong.append(found)
        except psycopg.Error as error:
            wrong.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(4):
            maintain(store, above=SIZE - 1)
            maintain(store, above=SIZE, below=SIZE + 1)
    finally:
        stop.set()
        reader.join()
    assert wrong == []
    assert answers > 10


def test_a_reader_that_sees_the_past_finds_all_or_is_told(store: Database) -> None:
    """The emptied bucket stays until the next run; who comes after that is told to repeat, and misses nothing."""
    maintain(store, above=SIZE - 1)
    before = everything(store)
    with store.connect("acme_reader") as old, store.connect("acme_reader") as older:
        for connection in (old, older):
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("select rag_api.bind('acme')")
        maintain(store, above=SIZE, below=SIZE + 1)
        assert search(old, QUERIES[0], 1000, case='{"model": "G2"}') == before[0]
        old.rollback()
        maintain(store, above=SIZE)
        for exact in (True, False):
            with pytest.raises(errors.VectorsMoved), errors.translate(), older.transaction():
                search(older, QUERIES[0], exact=exact)


def test_a_move_waits_for_those_who_write_and_leaves_it_when_they_take_too_long(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_maintain_embeddings, "_PATIENCE", "100ms")
    with store.tenant("acme_curator") as acme:
        acme.load_documents([{"id": "NEW", "version": 1, "body": "new"}])
    with bound_to(store, "acme_curator") as writer:
        add(writer, {"NEW": QUERIES[0]})
        assert maintain(store, above=SIZE - 1) == [("acme", "busy", SIZE)]
        writer.commit()
    assert maintain(store, above=SIZE - 1) == [("acme", "promoted", SIZE + 1)]


def test_a_run_that_was_interrupted_while_a_bucket_was_detached_is_finished_by_the_next(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_maintain_embeddings, "_PATIENCE", "100ms")
    maintain(store, above=SIZE - 1)
    with bound_to(store) as reader:
        expected = search(reader, QUERIES[0])
        maintain(store, above=SIZE, below=SIZE + 1)
        maintain(store, above=SIZE)
        assert everything(store)[0]
        reader.rollback()
    assert maintain(store, above=SIZE) == []
    assert buckets(store)["partitions"] == 1
    with bound_to(store) as reader:
        assert search(reader, QUERIES[0]) == expected


def test_only_the_login_that_installed_moves_vectors(store: Database) -> None:
    with store.engine("acme_curator") as engine, pytest.raises(errors.NotAllowed):
        maintain_embeddings(engine)
