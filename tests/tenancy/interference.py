"""Law 2, non-interference, on random corpora: what a tenant gets before and after what must not matter to it.

``python -m tests.tenancy.interference [--law a|b] [--runs N] [--seed DAY]``; a run is made of its seed and its number.

(a)  Acme looks at everything that it can call, select or explain; northwind adds, supersedes and withdraws documents,
     names their successors, adds spans, vectors, contracts, packets, traces, answers, approvals and attributes, and the
     owner maintains the index; acme looks again. All is the same, but for the figures of ``VOLUME``, and no estimate
     tells what northwind's rows hold.
(b)  Documents of acme's own and public ones come that are visible and not eligible; what acme decides is the same.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from rag_sql import _maintain_embeddings, _maintenance
from rag_sql._embedded import SUPERUSER
from tests.conftest import CASE, QUERY, QUESTION, Database, Server
from tests.tenancy import wall
from tests.tenancy.conftest import copied
from tests.tenancy.mutants import today
from tests.tenancy.test_catalog import COLUMNS_WITH_STATISTICS
from tests.tenancy.wall import CALLS, TABLES, Connection, Cursor, Sessions

#: What another tenant's rows may change of what is seen: by the beginning of the observation's name, and why. Each is a
#: figure of volume that a login with raw SQL can ask the server for; what rows hold is not among them.
VOLUME = {
    "size: ": "bytes of tables, indexes and the database, which all tenants share; anyone may ask for them",
    "bucket: ": "that somebody has many vectors of a model: a table with a random number, its bytes and its rows",
    "catalog: ": "pages and rows of tables as pg_class and the statistics views count them, all tenants together",
    "server: ": "numbers of transactions and bytes written, of the whole server",
    "estimate: ": "the planner's costs and numbers of rows, and what it prefers by them: sizes of whole tables",
    "removed: ": "rows that a sequential scan passed over: the others' in the table, whatever they hold",
}

_SCANS = (
    "set local enable_seqscan = on; set local enable_indexscan = on; set local enable_indexonlyscan = off;"
    " set local enable_bitmapscan = off; savepoint attempt"
)

#: How a value is asked for. Arrays are half as dear to the planner as the first, and asked before what is dearer.
_ASKED_BY = ("= %(v)s", ">= any (array[%(v)s])", "= any (array[%(v)s])")

# What a plan says that does not repeat the value which was asked for.
_FIGURES = re.compile(r"\(cost=[^)]*\)|\(actual [^)]*\)|never executed|Removed by Filter: \d+")

_WORDS = [*QUERY.split(), "alpha", "beta", "Gateway", "pressure", "valve", "unrelated", "quarterly", "billing"]
_IDS = ["HOLD-7", "GW-241", "PRIVATE", "OLD-240", "A-1", "B-1", "C-1", "acme-secret-document"]
_QUOTES = [
    "G2 firmware 2.4.1 may stop sending telemetry after a reconnect.",
    "While an audit hold is active, collect a diagnostic export and do not roll back firmware",
    "While an audit hold is active, roll back firmware",
]
_APPLIES = [
    {},
    {"model": ["G2"]},
    {"model": ["G2", "G3"], "firmware": ["2.4.1"]},
    {"firmware": ["9.9"]},
    {"firmware": [">=2.4,<2.5", "9.x"]},
    {"region": ["EU"]},
]
_TYPES = ["number", "text", "flag", "date", "version-numeric", "version-pep440"]
_UNFIT = [{"firmware": ["9.9"]}, {"region": ["EU"]}, {"model": ["G3"]}, {"model": ["G2"], "region": ["EU"]}]
_UNFIT += [{"firmware": [">=9,<10", "!=2.4.1,<2.5"]}]

#: The logins of a tenant: who curates, who asks, who reviews.
_LOGINS = {
    "acme": ("acme_curator", "acme_reader", "acme_reviewer"),
    "northwind": ("northwind_curator", "northwind_reader", "northwind_curator"),
    "public": ("publisher", "publisher", "publisher"),
}

#: What only a reviewer does.
_REVIEWING = ("approve", "review_packet", "require_approval")

#: What a decision is made of, and what is made of it (law 2b); explain, candidates and the fingerprint are exempt.
DECIDING = (
    "decide",
    "eligible",
    "ranking",
    "selection",
    "_selected_spans",
    "witnesses",
    "missing_facts",
    "_sources",
    "evidence_preimage",
    "check_claims",
    "record_packet",
    "packet_document",
    "_context",
    "_missing_in_context",
    "cite",
    "review_packet",
    "evidence_changes",
    "require_approval",
)

#: The other ways of ranking, with their parameters; what is asked without one ranks by overlap.
_METHODS = {
    "bm25": "{}",
    "vector": '{"model": "probe", "vector": [1, 0.5]}',
    "hybrid": '{"model": "probe", "vector": [1, 0.5], "depth": 5}',
}

#: A decision by each of them, and what it is made of.
DECIDING_BY = {
    f"{function} by {method}": call.format(f"p_method => '{method}', p_parameters => '{parameters}'")
    for method, parameters in _METHODS.items()
    for function, call in {
        "search": "select * from rag_api.search(%(query)s, 9, {}, p_case_facts => %(case)s, p_why => true)",
        "selection": "select * from rag_api.selection(%(query)s, %(case)s, 9, {})",
        "decide": f"select * from rag_api.decide('{QUESTION}', %(query)s, %(case)s, 5, {{}})",
        "record_packet": f"select rag_api.record_packet('{QUESTION}', %(query)s, %(case)s, 5, {{}})",
    }.items()
}

#: What people look at, by each of them.
SHOWN_BY = {
    f"{function} by {method}": call.format(f"p_method => '{method}', p_parameters => '{parameters}'")
    for method, parameters in _METHODS.items()
    for function, call in {
        "candidates": "select * from rag_api.candidates(%(query)s, %(case)s, 9, {})",
        "explain": f"select * from rag_api.explain('{QUESTION}', %(query)s, %(case)s, 5, {{}})",
    }.items()
}

Seen = dict[str, str]


# What is done


class Actor:
    """Somebody who fills a tenant's part of the store, at random but always the same."""

    def __init__(self, sessions: Sessions, tenant: str, chosen: random.Random) -> None:
        self._sessions = sessions
        self._tenant = tenant
        self._chosen = chosen
        self._versions: dict[str, int] = {}
        self.did: Counter[str] = Counter()

    def act(self, times: int, *, declares: bool = True) -> None:
        """Do so many things, chosen at random; types of attributes are declared or not."""
        actions: list[Callable[[], None]] = [self.document, self.document, self.spans, self.withdrawal, self.contract]
        actions += [self.embeddings, self.withdrawals, self.succession]
        if self._tenant != "public":
            actions += [self.packet, self.packet, *([self.attribute] if declares else [])]
        for _ in range(times):
            action = self._chosen.choice(actions)
            try:
                action()
            except psycopg.Error as error:
                if not (error.sqlstate or "").startswith("RS"):
                    raise
            else:
                self.did[action.__name__] += 1

    def document(self, *, withdrawn: bool = False, **stated: Any) -> None:
        """A document, or a new version of one; withdrawn in the same moment, or stating what takes its place."""
        chosen = self._chosen
        name = chosen.choice(_IDS)
        self._versions[name] = self._versions.get(name, chosen.choice([3, 9])) + chosen.randint(1, 3)
        quotes = chosen.sample(_QUOTES, chosen.randint(0, 2))
        words = [*quotes, " ".join(chosen.choices(_WORDS, k=chosen.randint(3, 30)))]
        document = {
            "id": name,
            "version": self._versions[name],
            "title": f"{self._tenant} {chosen.choice(_WORDS)}",
            "body": ". ".join(chosen.sample(words, len(words))) + ".",
            "applies_to": chosen.choice(_APPLIES),
            "spans": [
                {"id": f"s{i}", "fact": chosen.choice(["known-issue", "audit-constraint"]), "quote": quote}
                for i, quote in enumerate(quotes)
            ],
        }
        effective_from = chosen.choice([None, None, None, "2020-01-01", "2999-01-01"])
        if effective_from is not None:
            document["effective_from"] = effective_from
        document |= stated
        withdrawal = ", rag_api.withdraw_version(%s, %s)" if withdrawn else ""
        gone = (document["id"], document["version"]) if withdrawn else ()
        self._call(0, "rag_api.load_documents(%s)" + withdrawal, json.dumps([document]), *gone)
        if chosen.random() < 0.5:
            self._embed("probe", {document["id"]: document["version"]})

    def embeddings(self) -> None:
        """Vectors of what is there: for the model that acme's queries use, or for another."""
        self._embed(self._chosen.choice(["probe", "another"]), self._versions)

    def _embed(self, model: str, versions: dict[Any, Any]) -> None:
        vectors = [json.dumps([self._chosen.uniform(-1, 1), 0.5]) for _ in versions]
        call = "rag_api.add_embeddings(%s, '1', %s::text[], %s::integer[], %s::integer[], %s::text[])"
        self._call(0, call, model, [*versions], [*versions.values()], [0] * len(versions), vectors)

    def spans(self) -> None:
        """A quotation of a document that is there."""
        name, version = self._one_of_mine()
        span = {"document": name, "version": version, "span": f"x{self._chosen.random()}", "fact": "known-issue"}
        self._call(0, "rag_api.add_spans(%s)", json.dumps([span | {"quote": self._chosen.choice(_QUOTES)}]))

    def withdrawal(self) -> None:
        self._call(0, "rag_api.withdraw_version(%s, %s)", *self._one_of_mine())

    def withdrawals(self) -> None:
        """Of all that is there, in one statement."""
        names = sorted(self._versions)
        every = "count(rag_api.withdraw_version(d, v)) from unnest(%s::text[], %s::integer[]) as t(d, v)"
        self._call(0, every, names, [self._versions[name] for name in names])

    def succession(self) -> None:
        """Another document takes the place of one, now or before it was loaded."""
        (name, _), successor = self._one_of_mine(), self._chosen.choice(_IDS)
        since = self._chosen.choice([None, "2020-01-01", "2999-01-01"])
        self._call(0, "rag_api.supersede_document(%s, array[%s], %s)", name, successor, since)

    def contract(self) -> None:
        """Of the question that acme asks, or of another."""
        chosen = self._chosen
        facts = [
            {"fact": fact, "propositions": [{"quote": chosen.choice(_QUOTES), "clauses": [chosen.choice(_WORDS)]}]}
            for fact in chosen.sample(["known-issue", "audit-constraint", "other"], chosen.randint(1, 3))
        ]
        content = json.dumps({"case": ["model", "firmware"], "facts": facts})
        question = "another-question" if self._tenant in ("acme", "public") else chosen.choice([QUESTION, "q"])
        self._call(0, "rag_api.add_contract(%s, %s, %s)", question, chosen.randint(2, 9), content)

    def attribute(self) -> None:
        name, kind = self._chosen.choice(["model", "firmware", "size"]), self._chosen.choice(_TYPES)
        self._call(0, "rag_api.set_attribute(%s, %s)", name, kind)

    def packet(self) -> None:
        """A packet with its trace, an answer, and what a reviewer decides."""
        chosen = self._chosen
        query = " ".join(chosen.choices(_WORDS, k=4))
        k = chosen.randint(1, 6)
        packet = self._call(1, "rag_api.record_packet(%s, %s, %s, %s)", QUESTION, query, json.dumps(CASE), k)
        trace = self._call(1, "rag_api.record_trace(%s)", packet["packet_id"])
        self._call(1, "rag_api.record_answer(%s, %s, '{}', 'model', 'x')", trace["trace_id"], query)
        claims = wall.CLAIMS % {"tenant": self._tenant, "document_id": chosen.choice(_IDS), "version": 3}
        shown = "(select shown_digest from rag_api.review_packet(%s, %s) limit 1)"
        packet_id = packet["packet_id"]
        self._call(
            2, f"rag_api.approve(%s, %s, {shown}, 'rejected', 'name', 'note')", packet_id, claims, packet_id, claims
        )

    def _one_of_mine(self) -> tuple[str, int]:
        name = self._chosen.choice(sorted(self._versions) or _IDS)
        return name, self._versions.get(name, 1)

    def _call(self, login: int, call: str, *values: Any) -> Any:
        connection = self._sessions.connection(_LOGINS[self._tenant][login])
        with connection.transaction():
            wall.assert_tenant(connection.cursor(), self._tenant)
            row = connection.execute(f"select {call}".encode(), values).fetchone()
        return row and row[0]


def maintain(database: Database) -> None:
    """What the owner runs from time to time: segments are put together, and whoever has a vector gets a bucket."""
    with database.engine(SUPERUSER) as engine:
        _maintenance.maintain(engine, least=2)
        _maintain_embeddings.maintain_embeddings(engine, promote_above=0, demote_below=0)


def add_ineligible(sessions: Sessions, chosen: random.Random) -> str:
    """Add a document of acme's or a public one that is visible and not eligible; why it is not."""
    tenant, known = chosen.choice([("acme", "HOLD-7"), ("public", "GW-241")])
    actor = Actor(sessions, tenant, chosen)
    why = chosen.choice(["does not apply", "scheduled", "superseded", "succeeded", "withdrawn"])
    stated: dict[str, Any] = {
        "id": f"N-{chosen.randrange(10**9)}",
        "body": f"{QUERY}. {' '.join(_QUOTES)}",
        "spans": [{"id": "s", "fact": "known-issue", "quote": _QUOTES[0]}],
        "applies_to": {},
        "effective_from": "2020-01-01",
    }
    if why == "does not apply":
        stated["applies_to"] = chosen.choice(_UNFIT)
    elif why == "scheduled":
        stated |= {"id": chosen.choice([known, stated["id"]]), "effective_from": "2999-01-01"}
    elif why == "superseded":
        stated |= {"id": known, "effective_from": "1990-01-01"}
    elif why == "succeeded":
        stated |= {"successors": [known]}
    actor.document(version=chosen.randint(1000, 10**9), withdrawn=why == "withdrawn", **stated)
    return why


# What is seen


def everything(sessions: Sessions) -> Iterator[tuple[str, str]]:
    """All that acme can get, named; also without its tenant, and when it asks for what is northwind's."""
    relations = wall.relations(sessions.admin, "rv", "rag", "rag_auth", "rag_api")
    for login, tenant, victims in (
        ("acme_curator", "acme", ("acme", "northwind", "nowhere")),
        ("acme_reviewer", "acme", ("acme", "northwind")),
        ("acme_reader", None, ("northwind",)),
    ):
        with sessions.look(login, tenant) as cursor:
            who = f"{login} as {tenant}"
            for victim in victims:
                values = wall.arguments(sessions.targets, victim)
                for function, call in (CALLS | DECIDING_BY | SHOWN_BY).items():
                    if login != "acme_reviewer" or function in _REVIEWING:
                        yield f"call: {who}: {function} for {victim}", _answer(cursor, call, values)
                for table, insert in wall.INSERTS.items():
                    if login == "acme_curator":
                        yield f"insert: {table} for {victim}", _answer(cursor, insert, values)
            for relation in relations if login != "acme_reviewer" else ():
                yield f"rows: {who}: {relation}", _answer(cursor, f"select r::text from {relation} r")
    with sessions.look("acme_curator", "acme") as cursor:
        yield from _asked_of_the_server(cursor)
        values = wall.arguments(sessions.targets, "acme")
        for function, call in CALLS.items():
            yield f"estimate: {function}", _answer(cursor, f"explain {call}", values)


def _asked_of_the_server(cursor: Cursor) -> Iterator[tuple[str, str]]:
    """Catalogs, statistics, sizes, and plans of tables."""
    yield "statistics: pg_stats", _answer(cursor, "select s::text from pg_stats s where schemaname ~ '^rag'")
    yield "statistics: extended", _answer(cursor, "select s::text from pg_stats_ext s where schemaname ~ '^rag'")
    yield "statistics: pg_statistic", _answer(cursor, "select s::text from pg_statistic s")
    yield (
        "bucket: side tables",
        _answer(
            cursor,
            "select relname, relkind, reltuples, pg_total_relation_size(c.oid) from pg_class c"
            " where relnamespace = 'rag_index'::regnamespace and relname ~ '^embedding_[1-9]'",
        ),
    )
    yield "size: database", _answer(cursor, "select pg_database_size(current_database())")
    yield "server: log", _answer(cursor, "select pg_current_wal_lsn()")
    yield "server: snapshot", _answer(cursor, "select pg_current_snapshot()")
    for table in TABLES:
        yield (
            f"size: {table}",
            _answer(cursor, f"select pg_total_relation_size('{table}'), pg_relation_size('{table}')"),
        )
        yield (
            f"catalog: {table}",
            _answer(
                cursor,
                "select relpages, reltuples, n_live_tup, n_dead_tup, n_tup_ins from pg_class"
                f" join pg_stat_user_tables on relid = pg_class.oid where relid = '{table}'::regclass",
            ),
        )
        yield f"places: {table}", _answer(cursor, f"select ctid, xmin, cmin from {table}")
        yield f"estimate: {table}", _answer(cursor, f"explain select from {table}")
        for name, way in (("removed", "indexscan"), ("plan", "seqscan")):
            cursor.execute(_SCANS.replace(f"enable_{way} = on", f"enable_{way} = off").encode())
            text = _answer(
                cursor, f"explain (analyze, costs off, timing off, summary off, buffers off) select from {table}"
            )
            yield f"{name}: {table}", text


def decisions(sessions: Sessions) -> Iterator[tuple[str, str]]:
    """What acme decides, and what is made of its decisions; also of a packet and a trace that stood before."""
    with sessions.look("acme_reader", "acme") as cursor:
        values = wall.arguments(sessions.targets, "acme")
        for function, call in ({function: CALLS[function] for function in DECIDING} | DECIDING_BY).items():
            yield f"call: {function}", _answer(cursor, call, values)
        again = f"(rag_api.record_packet('{QUESTION}', %(query)s, %(case)s, 5) ->> 'packet_id')::uuid"
        yield "call: record_trace", _answer(cursor, f"select rag_api.record_trace({again}, p_candidates => 0)", values)


def telling_plans(sessions: Sessions, cursor: Cursor, chosen: random.Random) -> Iterator[str]:
    """Columns for which a plan tells a value of northwind's from one that nobody has: its estimates, or what it ran."""
    columns = sessions.admin.execute(
        "select c.oid::regclass::text, quote_ident(attname) from pg_attribute join pg_class c on c.oid = attrelid"
        " where relnamespace = 'rag'::regnamespace and relkind = 'r' and attnum > 0 and atttypid = 'text'::regtype"
        " order by 1, 2"
    ).fetchall()
    for table, column in columns:
        if table in TABLES and f"{table}.{column}" not in COLUMNS_WITH_STATISTICS:
            of_northwind = (
                f"select {column} from {table} where tenant = 'northwind' and {column} <> ''"
                f" except select {column} from {table} where tenant <> 'northwind'"
            )
            values = sorted(sessions.admin.execute(of_northwind.encode()).fetchall())
            if not values:
                continue
            (asked,) = chosen.choice(values)
            for condition in _ASKED_BY:
                explain = f"explain (analyze, timing off, summary off, buffers off) select from {table} where {column}"
                figures = [
                    _FIGURES.findall(_answer(cursor, f"{explain} {condition}", {"v": value}))
                    for value in (asked, asked + "!")
                ]
                assert figures[1], f"no plan of {table}"
                if figures[0] != figures[1]:
                    yield f"plans of {table} tell that {column} is: {asked}"


def _answer(cursor: Cursor, statement: str, values: dict[str, Any] | None = None) -> str:
    """All that a statement gives, or all that its error says, without times; and what it did is taken back."""
    try:
        cursor.execute(statement.encode(), values)
        rows = sorted(map(wall.as_text, cursor.fetchall())) if cursor.description else []
        answer = "\n".join(rows)
    except psycopg.Error as error:
        answer = f"{error.sqlstate} {wall.everything(error)}"
    finally:
        cursor.execute("rollback to attempt")
    return wall.timeless(answer)


# The laws


@dataclass(frozen=True)
class Found:
    """What a run found.

    Attributes
    ----------
    differences : list of str
        What must be the same and is not, with both texts.
    volume : Counter
        Figures of `VOLUME` that were others.
    did : Counter
        Actions that succeeded.
    """

    differences: list[str]
    volume: Counter[str]
    did: Counter[str]


def another_tenant(server: Server, template: Database, seed: str) -> Found:
    """Law 2 (a): a run."""
    chosen = random.Random(f"a {seed}")
    with _sessions(server, template) as sessions:
        for tenant in ("public", "acme", "northwind"):
            Actor(sessions, tenant, chosen).act(chosen.randint(0, 8))
        _analyze(sessions.admin)
        before = dict(everything(sessions))
        northwind = Actor(sessions, "northwind", chosen)
        northwind.act(chosen.randint(1, 12))
        if chosen.random() < 0.5:
            maintain(sessions.database)
            northwind.did["maintain"] += 1
        _analyze(sessions.admin)
        found = _compared(before, dict(everything(sessions)), northwind.did)
        with sessions.look("acme_curator", "acme") as cursor:
            found.differences.extend(telling_plans(sessions, cursor, chosen))
    return found


def not_eligible(server: Server, template: Database, seed: str) -> Found:
    """Law 2 (b): a run."""
    chosen = random.Random(f"b {seed}")
    with _sessions(server, template) as sessions:
        for tenant in ("public", "acme"):
            Actor(sessions, tenant, chosen).act(chosen.randint(0, 8), declares=False)
        before = dict(decisions(sessions))
        did = Counter(add_ineligible(sessions, chosen) for _ in range(chosen.randint(1, 8)))
        return _compared(before, dict(decisions(sessions)), did)


def after_an_eligible_document(server: Server, template: Database) -> set[str]:
    """What acme decides otherwise once it has another eligible document: the names of what law 2 (b) compares."""
    with _sessions(server, template) as sessions:
        before = dict(decisions(sessions))
        newer: dict[str, Any] = {"id": "HOLD-7", "version": 9, "body": QUERY, "applies_to": {}, "spans": []}
        newer["effective_from"] = datetime.now(UTC).isoformat()
        Actor(sessions, "acme", random.Random(0)).document(**newer)
        after = dict(decisions(sessions))
    return {name for name in before if before[name] != after[name]}


LAWS = {"a": another_tenant, "b": not_eligible}


@contextmanager
def _sessions(server: Server, template: Database) -> Iterator[Sessions]:
    """Sessions in a copy of the walled store, which is thrown away."""
    database = copied(server, template)
    try:
        with Sessions(database) as sessions:
            yield sessions
    finally:
        server.drop(database)


def _analyze(admin: Connection) -> None:
    """Statistics of all that is there, as autovacuum makes them in time."""
    for table in TABLES:
        admin.execute(f"analyze {table}".encode())


def _compared(before: Seen, after: Seen, did: Counter[str]) -> Found:
    assert before.keys() == after.keys()
    other = [name for name in before if before[name] != after[name]]
    volume = Counter(prefix for prefix in VOLUME for name in other if name.startswith(prefix))
    return Found(
        [f"{name}\n  {before[name]}\n  {after[name]}" for name in other if not name.startswith(tuple(VOLUME))],
        volume,
        did,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run a law; 0 when nothing interferes."""
    parser = argparse.ArgumentParser(prog="python -m tests.tenancy.interference", description=main.__doc__)
    parser.add_argument("--law", choices=sorted(LAWS), default="a")
    parser.add_argument("--runs", type=int, default=200, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first run, to repeat one")
    parser.add_argument("--seed", default=today(), metavar="DAY")
    given = parser.parse_args(arguments)
    from tests.conftest import running_server
    from tests.tenancy.conftest import walled_store

    began = time.monotonic()
    broken = 0
    volume: Counter[str] = Counter()
    did: Counter[str] = Counter()
    with running_server() as server:
        template = walled_store(server)
        for number in range(given.first, given.first + given.runs):
            found = LAWS[given.law](server, template, f"{given.seed} {number}")
            volume += found.volume
            did += found.did
            if found.differences:
                broken += 1
                print(
                    f"--law {given.law} --seed {given.seed} --first {number} --runs 1",
                    *found.differences,
                    sep="\n",
                    flush=True,
                )
    print(
        f"law 2 ({given.law}), seed {given.seed}: {given.runs} runs, {broken} broken, {time.monotonic() - began:.0f} s"
    )
    print("done:", ", ".join(f"{action} {times}" for action, times in sorted(did.items())))
    for prefix, reason in VOLUME.items() if given.law == "a" else ():
        print(f"{volume[prefix]:>8} x {prefix}{reason}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
