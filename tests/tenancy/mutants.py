"""Proof that the tests of the wall can fail: every stone of it is taken out, or made weak, and a test has to notice.

``python -m tests.tenancy.mutants [--all | --sample N] [--seed DAY]`` does so on a server of its own: with every mutant,
or with some, of each kind in turn, that the day chooses. Which there are comes from the catalog (``kinds.py``). One is
noticed by one of these, and where the first does not notice it the next is asked:

``probe``    what logins see of the object and can do with it is other than it was (``wall.first_difference``); for
             triggers, what the superuser can do
``rules``    a test of ``test_catalog.py``, called with the mutated catalog
``matrix``   the comparison of ``test_privileges.py``

Every mutant is taken back; at the end the catalog is what it was.
"""

from __future__ import annotations

import argparse
import inspect
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product, zip_longest
from typing import Any

import psycopg

from rag_sql._embedded import SUPERUSER
from tests.conftest import Database
from tests.schema.fingerprint import fingerprint
from tests.tenancy import privileges, test_catalog, wall
from tests.tenancy.kinds import CATALOG, LESS, MORE
from tests.tenancy.wall import INSERTS, Connection, Sessions

BINDING = "binding"

#: Other bodies of the functions that bind: what a proof must not become.
BINDINGS = {
    ("rag_auth.tenant()", "without proof"): "nullif(current_setting('rag.tenant', true), '')",
    ("rag_auth.tenant()", "that falls back to public"): (
        "(select m.tenant from rag_auth.membership m"
        " where m.login = session_user::text and m.tenant = nullif(current_setting('rag.tenant', true), ''))"
    ),
    # Inside the definer function that is its owner, who is bound to nothing.
    ("rag_auth.tenant()", "to the current user"): (
        "(select m.tenant from rag_auth.membership m"
        " where m.login = current_user::text and m.tenant = nullif(current_setting('rag.tenant', true), ''))"
    ),
    ("rag_auth.signed_tenant(text)", "that nobody verifies"): "split_part(p_asserted, ':', 1)",
    ("rag_auth.write_tenant()", "whatever the right"): "rag_auth.tenant()",
}

#: What a probe looks at for functions that it does not call by themselves.
SEEN_IN = {
    "rag_auth.tenant": ("tables", "rag.version"),
    "rag_auth.signed_tenant": ("tables", "rag.version"),
    "rag_auth.readable": ("tables", "rag.version"),
    "rag_auth.write_tenant": ("tables", "rag.version"),
    "rag_auth.required_tenant": ("functions", "_writable_tenant"),
    "rag_auth.own_tenants": ("views", "rag_api.membership"),
    "rag.cut_versions": ("functions", "load_documents"),
}

#: What is done to a table to see whether its triggers stand: all of it is refused, or done, by one of them.
_TRIED = (
    "update {} set tenant = tenant",
    "delete from {} where tenant = 'acme'",
    "truncate {} cascade",
    "select rag_auth.purge_traces('northwind')",
    # What is erased comes neither back into use nor into what is stored after.
    (
        "do $$ declare v timestamptz; begin foreach v in array array['-infinity', '2020-01-01']::timestamptz[] loop"
        " update rag_index.version set used_until = v; end loop; end $$"
    ),
)
#: An erasure of what an insertion refers to, in the same statement.
_ERASED = (
    "with document as (insert into rag.erasure (tenant, document_id, version, reason)"
    " values (%(tenant)s, %(document_id)s, %(version)s, 'x'), ('public', 'GW-241', 3, 'x'))"
)
#: What triggers write beside what is done.
_WRITTEN = (
    "select (select count(*) from rag.passage), (select count(*) from rag.trace_purge),"
    " (select sum(turns) from rag_index.turn), (select count(*) from rag_index.scope_value),"
    " (select count(*) from rag_index.version where used_until < 'infinity'),"
    " (select count(*) from rag_index.version where used_until = '-infinity')"
)


@dataclass(frozen=True)
class Mutant:
    """One change of the catalog, with what takes it back.

    Attributes
    ----------
    kind, name, about : str
        Which mutation of which object, and what of it.
    change, undo : str
        Statements.
    """

    kind: str
    name: str
    about: str
    change: str
    undo: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.name} {self.about}".rstrip()

    @property
    def part(self) -> tuple[str, str] | None:
        """What a probe has to look at, if it can; a function by its name alone."""
        name = self.name.removeprefix("function ").partition("(")[0]
        if self.kind == "trigger switched off":
            return "triggers", name
        if name in SEEN_IN:
            return SEEN_IN[name]
        if name in INSERTS:
            return "tables", name
        schema, _, bare = name.partition(".")
        if schema == "rag_api":
            return ("functions", bare) if self.name.startswith("function ") else ("views", name)
        return None


def mutants(admin: Connection) -> list[Mutant]:
    """Every mutant that there is, in an order of its own."""
    found = [
        Mutant(kind, *row)
        for kind, query in (LESS | MORE).items()
        for row in admin.execute((CATALOG + query).encode()).fetchall()
    ]
    for (function, about), value in BINDINGS.items():
        ((definition, source),) = admin.execute(
            "select pg_get_functiondef(oid), prosrc from pg_proc where oid = %s::regprocedure", (function,)
        ).fetchall()
        change = definition.replace(source, f"\nbegin\n  return {value};\nend;\n")
        found.append(Mutant(BINDING, f"function {function}", about, change, definition))
    return sorted(found, key=lambda mutant: (mutant.kind, mutant.name, mutant.about))


def sample(found: Sequence[Mutant], number: int, seed: str) -> list[Mutant]:
    """So many of them: one of each kind, then another of each, and so on."""
    chosen = random.Random(seed)
    kinds: dict[str, list[Mutant]] = {}
    for mutant in chosen.sample(found, len(found)):
        kinds.setdefault(mutant.kind, []).append(mutant)
    rounds = zip_longest(*chosen.sample(sorted(kinds.values(), key=lambda of_kind: of_kind[0].kind), len(kinds)))
    return [mutant for of_round in rounds for mutant in of_round if mutant is not None][:number]


def today() -> str:
    """The seed of a day."""
    return datetime.now(UTC).date().isoformat()


class Guards:
    """The probe, the rules and the matrix, of one store."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._expected: dict[tuple[str, str], dict[str, Any]] = {}

    def noticed(self, mutant: Mutant) -> str | None:
        """Who notices a mutant: `probe`, `rules` or `matrix`; None if it survives."""
        asked: dict[str, Callable[[], bool]] = {"rules": self.breaks_a_rule, "matrix": self.differs_from_the_matrix}
        if mutant.kind not in MORE and mutant.part is not None:
            sort, name = mutant.part
            self.expect(sort, name)
            asked = {"probe": lambda: self.looks_other(sort, name), **asked}
        with changed(self._sessions.admin, mutant):
            return next((guard for guard, notices in asked.items() if notices()), None)

    def expect(self, sort: str, name: str) -> None:
        """Look at a part of the store as it stands, once; what differs between two looks would be no evidence."""
        if (sort, name) not in self._expected:
            self._expected[sort, name] = self._look(sort, name)
            assert not self.looks_other(sort, name), f"{name} looks different each time"

    def looks_other(self, sort: str, name: str) -> bool:
        expected = self._expected[sort, name]
        if sort == "triggers":
            return self._look(sort, name) != expected
        return wall.first_difference(self._sessions, expected, **{sort: [name]}) is not None

    def _look(self, sort: str, name: str) -> dict[str, Any]:
        if sort == "triggers":
            return _tried(self._sessions, name)
        return wall.look_at(self._sessions, **{sort: [name]})

    def breaks_a_rule(self) -> bool:
        return any(not _holds(rule, self._sessions.admin, arguments) for rule, arguments in rules())

    def differs_from_the_matrix(self) -> bool:
        return privileges.matrix(self._sessions.admin) != privileges.written().read_text("utf-8")


def rules() -> Iterator[tuple[Callable[..., None], dict[str, Any]]]:
    """The tests of the catalog that need nothing else, with each of their sets of arguments."""
    for name, test in inspect.getmembers(test_catalog, inspect.isfunction):
        marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        parameters = list(inspect.signature(test).parameters)
        if not name.startswith("test_") or "catalog" not in parameters:
            continue
        sets = [
            [dict(zip(_names(names), value if len(_names(names)) > 1 else (value,), strict=True)) for value in values]
            for names, values in marks
        ]
        for chosen in product(*sets):
            yield test, {key: value for one in chosen for key, value in one.items()}


def _names(names: str | Sequence[str]) -> Sequence[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def _holds(rule: Callable[..., None], admin: Connection, arguments: dict[str, Any]) -> bool:
    try:
        rule(admin, **arguments)
    except AssertionError:
        return False
    return True


def _tried(sessions: Sessions, table: str) -> dict[str, Any]:
    """What becomes of inserting into a table and changing it, with every right there is."""
    found: dict[str, Any] = {}
    values = wall.arguments(sessions.targets, "acme")
    with sessions.look(SUPERUSER, "acme") as cursor:
        # What cuts and indexes writes for the bound tenant alone, whoever stores the version.
        cursor.execute("insert into rag_auth.membership (login, tenant) values (session_user, 'acme')")
        cursor.execute("savepoint attempt")
        tried = (INSERTS[table], f"{_ERASED} {INSERTS[table]}", *(tried.format(table) for tried in _TRIED))
        for statement in tried:
            try:
                cursor.execute(statement.encode(), values)
                found[statement] = cursor.execute(_WRITTEN).fetchall()
            except psycopg.Error as error:
                # Of a truncation the first table that refuses is named.
                refused = error.diag.message_primary if error.sqlstate == "RS070" else ""
                found[statement] = f"{error.sqlstate} {refused}"
            cursor.execute("rollback to attempt")
    return found


@contextmanager
def changed(admin: Connection, mutant: Mutant) -> Iterator[None]:
    """The store with a mutant in it, for a while."""
    admin.execute(mutant.change.encode())
    try:
        yield
    finally:
        admin.execute(mutant.undo.encode())


def survivors(database: Database, sessions: Sessions, chosen: Sequence[Mutant]) -> tuple[list[Mutant], Counter[Any]]:
    """The mutants that nothing notices, and how many of each kind are noticed by whom. The store is left as it was."""
    guards = Guards(sessions)
    assert not guards.breaks_a_rule()
    assert not guards.differs_from_the_matrix()
    before = set(fingerprint(database))
    found: Counter[Any] = Counter()
    survived = []
    for number, mutant in enumerate(chosen, 1):
        by = guards.noticed(mutant)
        found[mutant.kind, by] += 1
        if by is None:
            survived.append(mutant)
        if number % 50 == 0 or number == len(chosen):
            left = before ^ set(fingerprint(database))
            assert not left, f"not taken back: {sorted(left)}"
    return survived, found


def main(arguments: list[str] | None = None) -> int:
    """Make mutants; 0 when none survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.tenancy.mutants", description=main.__doc__)
    parser.add_argument("--all", action="store_true", help="every mutant, of every kind")
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="so many, of each kind in turn (100)")
    parser.add_argument("--seed", default=today(), metavar="DAY", help="which ones; today's date")
    parser.add_argument("--kind", choices=sorted({*LESS, *MORE, BINDING}), help="of one kind alone")
    given = parser.parse_args(arguments)
    from tests.conftest import running_server
    from tests.tenancy.conftest import copied, walled_store

    began = time.monotonic()
    with running_server() as server:
        database = copied(server, walled_store(server))
        with Sessions(database) as sessions:
            found = [mutant for mutant in mutants(sessions.admin) if given.kind in (None, mutant.kind)]
            chosen = found if given.all else sample(found, given.sample, given.seed)
            print(f"{len(chosen)} of {len(found)} mutants, seed {given.seed}", flush=True)
            survived, counts = survivors(database, sessions, chosen)
    print(f"{'kind':50}{'mutants':>10}{'probe':>10}{'rules':>10}{'matrix':>10}{'survived':>10}")
    for kind in sorted({kind for kind, _ in counts}):
        of_kind = [counts[kind, by] for by in ("probe", "rules", "matrix", None)]
        print(f"{kind:50}" + "".join(f"{number:>10}" for number in (sum(of_kind), *of_kind)))
    for mutant in survived:
        print(f"survived: {mutant}\n  {mutant.change}")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
