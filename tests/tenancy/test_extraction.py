"""Reading a hidden value out of plans and errors, character by character, and spoiling another tenant's search.

The attack is the one that read a hidden e-mail address of another tenant out of 166 plans where an index began with
another column than the tenant. It is shown to work on such a table, and to get nothing here, whatever the comparison
costs and however it is wrapped. What PostgreSQL leaves open to whoever may write any SQL is to guess a value whole,
which is not promised (README.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count

import psycopg
import pytest
from psycopg.types.json import Jsonb

from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, QUERY, QUESTION, Database, Server
from tests.tenancy.conftest import Copy
from tests.tenancy.test_inference import PLANS
from tests.tenancy.wall import Connection, assert_tenant

#: Whether a row with a value in a range exists: table, column, from (inclusive), to (exclusive).
Oracle = Callable[[str, str, str, str], object]

#: Columns of hidden rows, with the characters that are known before the attack. The policies of the first ones let
#: public through, those of the others the bound tenant alone.
SHARED = {
    ("rag.version", "document_id"): "acme-secret",
    ("rag.version", "title"): "acme-",
    ("rag.version", "body"): "Gateway acme-",
    ("rag.span", "quote"): "Gateway acme-",
    ("rag.attribute", "attribute"): "acme-",
    ("rag.contract", "question_id"): "hold-",
    ("rag.withdrawal", "note"): "acme-secret ",
    ("rag.succession", "successor_id"): "acme-secret-",
}
OWN = {
    ("rag.packet", "query"): "Gateway acme-",
    ("rag.trace_answer", "model"): "acme-secret ",
    ("rag.approval", "note"): "acme-secret ",
}
TARGETS = SHARED | OWN

COMPARISON = "select from {t} where {c} >= %s and {c} < %s"
ARRAY_OF_ONE = "select from {t} where {c} >= any (array[%s]) and {c} < any (array[%s])"
UNION = (
    "select from (select {c} from {t} union all select {c} from {t}) u"
    " where {c} >= any (array[%s]) and {c} < any (array[%s])"
)

QUERIES = {"comparison": COMPARISON, "array of one": ARRAY_OF_ONE, "union": UNION}

#: A subscript costs nothing, as the policy does not, and round a union it is asked first.
GUESS = "select from (select {c} from {t} union all select {c} from {t}) u where (%s::jsonb)[{c}] is not null"


@pytest.fixture(scope="module")
def extracted(server: Server, copy: Copy) -> Iterator[Database]:
    """A copy with a table as it should not be: row-level security, and an index that begins with a tenant's text."""
    database = copy()
    with database.connect(SUPERUSER) as connection:
        connection.execute(
            'create table public.careless (tenant text not null, email text collate "C" not null);'
            "create index on public.careless (email);"
            "alter table public.careless enable row level security;"
            "create policy careless_select on public.careless for select to rag_reader"
            " using (tenant = any (array['public', (select rag_auth.tenant())]));"
            "grant select on public.careless to rag_reader;"
            "insert into public.careless select 'public', 'somebody-' || i from generate_series(1, 2000) i;"
            "insert into public.careless values ('acme', 'ceo-hidden-address@acme.example')"
        )
    yield database
    server.drop(database)


@pytest.fixture
def stranger(extracted: Database) -> Iterator[Connection]:
    with extracted.connect("northwind_reader") as connection:
        connection.execute("select rag_api.bind('northwind')")
        yield connection
        connection.rollback()


def by_plan(connection: Connection, query: str, way: tuple[str, ...]) -> Oracle:
    """All that EXPLAIN says of a query that was run, but for the values that were asked about."""
    for setting in ("enable_seqscan", "enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"):
        connection.execute("select set_config(%s, %s, true)", (setting, "off" if setting in way else "on"))

    def ask(table: str, column: str, low: str, high: str) -> object:
        explain = "explain (analyze, costs off, timing off, summary off, buffers off) " + query.format(
            t=table, c=column
        )
        lines = "\n".join(line for (line,) in connection.execute(explain.encode(), (low, high)))
        # An array quotes its elements where it has to.
        return re.sub(r"'\{.*?\}'::text\[\]", "?", lines).replace(low, "?").replace(high, "?")

    return ask


def by_error(connection: Connection, query: str) -> Oracle:
    """Whether a tenant that is not granted, and that only a policy asks for, becomes an error."""

    def ask(table: str, column: str, low: str, high: str) -> object:
        with connection.cursor() as cursor:
            cursor.execute("savepoint asking")
            assert_tenant(cursor, "nowhere")
            try:
                cursor.execute(query.format(t=table, c=column).encode(), (low, high))
            except psycopg.Error as error:
                return error.sqlstate
            finally:
                cursor.execute("rollback to asking")
            return None

    return ask


def extract(ask: Oracle, table: str, column: str, known: str, longest: int = 40) -> tuple[str, int]:
    """The value that begins with `known`, found by halving the alphabet; and in how many questions."""
    asked = count(1)

    def there(low: str, high: str) -> bool:
        next(asked)
        return ask(table, column, low, high) != nothing

    # What no row looks like: a range that lies beyond the value, whatever that is.
    nothing = ask(table, column, known + "~~1", known + "~~2")
    found = known
    while len(found) < longest and there(found + " ", found + "~"):
        low, high = ord(" "), ord("~")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if there(found + chr(middle), found + chr(high)) else (low, middle)
        found += chr(low)
    return found, next(asked)


def test_E05_a_careless_index_gives_a_hidden_value_away(stranger: Connection) -> None:
    """The attack works where it can."""
    ask = by_plan(stranger, COMPARISON, PLANS["no sequential and no bitmap scan"])
    found, asked = extract(ask, "public.careless", "email", "ceo-")
    assert found == "ceo-hidden-address@acme.example"
    assert asked < 300


@pytest.mark.parametrize("way", PLANS)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("target", TARGETS)
def test_E05_plans_give_no_hidden_value_away(
    stranger: Connection, target: tuple[str, str], query: str, way: str
) -> None:
    known = TARGETS[target]
    assert extract(by_plan(stranger, QUERIES[query], PLANS[way]), *target, known) == (known, 2)


@pytest.mark.parametrize("cost", ["0", "2.3e-308", "1e300"])
@pytest.mark.parametrize("query", QUERIES)
def test_E05_nor_do_they_whatever_a_comparison_is_said_to_cost(stranger: Connection, query: str, cost: str) -> None:
    stranger.execute("select set_config('cpu_operator_cost', %s, true)", (cost,))
    for target in (("rag.version", "body"), ("rag.packet", "query")):
        ask = by_plan(stranger, QUERIES[query], PLANS["sequential scans only"])
        assert extract(ask, *target, TARGETS[target]) == (TARGETS[target], 2)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("target", TARGETS)
def test_E05_errors_give_no_hidden_value_away(stranger: Connection, target: tuple[str, str], query: str) -> None:
    known = TARGETS[target]
    for setting in ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"):
        stranger.execute("select set_config(%s, 'off', true)", (setting,))
    assert extract(by_error(stranger, QUERIES[query]), *target, known) == (known, 2)


@pytest.mark.xfail(strict=True, reason="what costs nothing and stands round a union is asked before the policy")
@pytest.mark.parametrize("target", [("rag.version", "title"), ("rag.packet", "query")])
def test_E05_not_promised_a_value_that_is_guessed_whole_is_not_confirmed(
    extracted: Database, stranger: Connection, target: tuple[str, str]
) -> None:
    table, column = target
    with extracted.connect(SUPERUSER) as superuser:
        (value,) = superuser.execute(f"select min({column}) from {table} where {column} ~ 'acme-secret'").fetchall()[0]
    for setting in PLANS["sequential scans only"]:
        stranger.execute("select set_config(%s, 'off', true)", (setting,))
    explain = "explain (analyze, costs off, timing off, summary off, buffers off) " + GUESS.format(t=table, c=column)
    right, wrong = (
        "\n".join(line for (line,) in stranger.execute(explain.encode(), (Jsonb({guess: 1}),))).replace(guess, "?")
        for guess in (value, value + "?")
    )
    assert right == wrong


@pytest.mark.xfail(strict=True, reason="what costs nothing and stands round a union is asked before the policy")
def test_E05_not_promised_a_number_in_a_range_is_not_confirmed(extracted: Database, stranger: Connection) -> None:
    """A constant array that is subscripted by a column is null outside its range."""
    with extracted.connect(SUPERUSER) as superuser:
        ((longest,),) = superuser.execute("select max(body_length) from rag.version where tenant = 'acme'").fetchall()
    for setting in PLANS["sequential scans only"]:
        stranger.execute("select set_config(%s, 'off', true)", (setting,))

    def plan(low: int) -> str:
        array = f"[{low}:{low + 1}]={{1,1}}"
        return "\n".join(
            line
            for (line,) in stranger.execute(
                "explain (analyze, costs off, timing off, summary off, buffers off) select from"
                " (select body_length d from rag.version union all select body_length from rag.version) u"
                " where (%s::int[])[d] is not null",
                (array,),
            )
        ).replace(array, "?")

    assert plan(longest) == plan(longest + 100_000)


# Spoiling another's search


def test_E21_three_hundred_matching_documents_of_acme_change_nothing_of_northwinds_selection(
    server: Server, copy: Copy
) -> None:
    """There is no index of nearest neighbours that acme could fill: what is eligible for northwind is ranked alone."""
    database = copy()
    before = answers(database)
    with database.tenant("acme_curator") as acme:
        acme.load_documents(
            [{"id": f"CROWD-{i}", "version": 1, "body": QUERY, "applies_to": {"model": ["G2"]}} for i in range(300)]
        )
    assert answers(database) == before
    with database.tenant("acme_reader") as acme:
        crowd = acme.decide(QUESTION, query=QUERY, case=CASE, k=50).sources
    server.drop(database)
    assert len([source for source in crowd if source.document_id.startswith("CROWD-")]) == 50


def answers(database: Database) -> list[object]:
    """Everything that northwind's search says, by several functions, for more passages than there are and for one."""
    with database.tenant("northwind_reader") as northwind:
        return [
            northwind.corpus_fingerprint(),
            northwind.nearest_passage(QUERY, k=3),
            *(northwind.decide(QUESTION, query=QUERY, case=CASE, k=k).digest for k in (1, 2, 9, 400)),
            *(northwind.decide(QUESTION, query=QUERY, case=CASE, k=k).sources for k in (1, 2, 9, 400)),
            northwind.explain(QUESTION, query=QUERY, case=CASE, k=9),
        ]
