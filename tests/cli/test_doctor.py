"""``rag-sql doctor``: each fault is made in a clone, found, mended with the remedy that is printed, and gone."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rag_sql import _admin, _doctor, _install
from rag_sql._embedded import SUPERUSER, EmbeddedServer
from rag_sql._store import make_engine
from tests.cli.test_cli import in_json, rag_sql
from tests.conftest import Database, Server

ROLES = [*_admin.GROUPS.values(), "rag_owner", "rag_binder", "rag_search", "rag_recorder"]

AS_OWNER = "set local role rag_owner; "
A_KEY = (
    "insert into rag_auth.signing_key (key_id, login, inner_pad, outer_pad, expires_at) select %s,"
    " decode(repeat('36', 64), 'hex'), decode(repeat('5c', 64), 'hex'), now() + make_interval(days => %s);"
)
ASKS = "tenant = (select rag_auth.tenant())"
DEFINER = "language sql security definer set search_path = pg_catalog, pg_temp begin atomic select 1; end"
PARTITIONS = """
set local role rag_owner;
create table rag.parted (tenant text not null) partition by list (tenant);
alter table rag.parted enable row level security, force row level security;
create table rag.parted_a partition of rag.parted for values in ('a');
create table rag."Part" partition of rag.parted for values in ('b');
reset role;
alter table rag."Part" set schema public
"""
NOTE = """
set local role rag_owner;
create table rag.note (tenant text not null, note text);
alter table rag.note enable row level security, force row level security;
"""

#: Code, subjects, and the statements that make the fault; {db} is the database.
FAULTS = [
    ("login-attribute", "patient", "alter role patient superuser replication"),
    ("login-attribute", "patient", "alter role patient bypassrls"),
    ("login-reaches-owner", "patient", "grant rag_owner to patient"),
    ("login-reaches-owner", "patient", "grant rag_owner to patient with inherit false, set true"),
    ("login-reaches-owner", "patient", "grant rag_recorder to patient_group; grant patient_group to patient"),
    ("login-reaches-owner", "patient", "alter role patient_group bypassrls; grant patient_group to patient"),
    ("login-reaches-owner", "patient", "grant pg_execute_server_program to patient"),
    ("login-owns-database", "patient", "alter database {db} owner to patient"),
    ("login-reads-and-audits", "patient", "grant rag_auditor to patient_group; grant patient_group to patient"),
    ("store-role-attribute", "rag_search", "alter role rag_search login createdb"),
    ("database-privilege", "database {db}", "grant create, temp on database {db} to patient, rag_reader, public"),
    (
        "schema-privilege",
        'schema public, schema rag, schema "Own"',
        """
        grant create on schema public to public;
        grant create on schema rag to patient;
        create schema "Own" authorization patient
        """,
    ),
    ("table-owner", "rag.version", "alter table rag.version owner to patient"),
    (
        "row-security",
        "rag.span, rag.packet",
        "alter table rag.span disable row level security; alter table rag.packet no force row level security",
    ),
    ("row-security", 'rag.parted_a, public."Part"', PARTITIONS),
    (
        "fence",
        "rag.version, rag.span",
        """
        alter policy version_fence_insert on rag.version with check (true);
        alter policy span_fence_select on rag.span to rag_curator
        """,
    ),
    ("fence", "rag.note", f"{NOTE} grant select, insert (note) on rag.note to rag_reader"),
    ("fence", "rag.note", f"{NOTE} alter table rag.note drop column tenant; grant select on rag.note to public"),
    (
        "policy",
        'rag.version."P", rag.version.p, rag.version.q, rag.version.r, rag.span.p',
        f"""
        create policy "P" on rag.version for select to rag_reader using (true);
        create policy p on rag.version for select using ({ASKS});
        create policy q on rag.version for delete to patient using ({ASKS});
        create policy r on rag.version to rag_curator using ({ASKS});
        create policy p on rag.span for insert to patient with check (true)
        """,
    ),
    (
        "table-privilege",
        "rag.version, rag.packet",
        """
        grant update (title, body), delete, truncate on rag.version to rag_curator;
        grant references, trigger on rag.packet to public
        """,
    ),
    (
        "view-rights",
        "rag_api.version, public.leak",
        "alter view rag_api.version reset (security_invoker); create view public.leak as select body from rag.version",
    ),
    ("definer-path", "rag_auth.tenant()", "alter function rag_auth.tenant reset search_path"),
    ("definer-path", "rag_auth.tenant()", "alter function rag_auth.tenant set search_path = pg_catalog, rag_auth"),
    ("definer-path", "rag_auth.tenant()", "alter function rag_auth.tenant set search_path = pg_temp, pg_catalog"),
    (
        "definer-owner",
        "rag_api.leak(), public.leak(text)",
        f"""
        create function rag_api.leak() returns integer {DEFINER};
        revoke all on function rag_api.leak from public;
        create function public.leak(text) returns integer {DEFINER}
        """,
    ),
    ("function-privilege", "rag_auth.tenant()", "grant execute on function rag_auth.tenant to public"),
    ("membership-orphan", "patient two", AS_OWNER + "insert into rag_auth.membership values ('patient two', 'acme')"),
    (
        "signing-key",
        "key 0000000000f1, key 0000000000f2, key 0000000000f3",
        AS_OWNER
        + A_KEY % ("'0000000000f1', 'patient'", -1)
        + A_KEY % ("'0000000000f2', 'patient two'", 1)
        + A_KEY % ("'0000000000f3', 'patient two'", -1)
        + A_KEY % ("'0000000000f4', 'patient'", 1),
    ),
]

#: What a fault leaves behind when it is mended.
LEFTOVERS = """
delete from rag_auth.signing_key where login = 'patient';
drop table if exists rag.note, rag.parted cascade;
drop view if exists public.leak;
drop function if exists rag_api.leak(), public.leak(text);
drop schema if exists "Own";
drop role patient_group;
create role patient_group
"""


class Ward:
    """A store with open connections, a login `patient` among its readers, and a role for it to be in.

    It serves test after test as long as each leaves it cured.
    """

    def __init__(self, server: Server, template: Database) -> None:
        self.cured = True
        self.server = server
        self.database = server.create(template.name)
        self.engine = make_engine(self.database.url(SUPERUSER))
        self.admin = self.database.connect(SUPERUSER, autocommit=True)
        # Privileges on a database are not cloned with it.
        self.run(f"revoke create, temporary on database {self.database.name} from public")
        self.run("create role patient login; create role patient_group; grant rag_reader to patient")

    def run(self, statements: str) -> None:
        self.admin.execute(statements.encode())

    def found(self, **options: Any) -> list[dict[str, Any]]:
        return [asdict(finding) for finding in _doctor.examine(self.engine, **options)]

    def cure(self) -> None:
        """Mend whatever is found; then nothing is."""
        self.mend(self.found())
        assert self.found() == []
        self.cured = True

    def mend(self, found: list[Any]) -> None:
        """Run the remedies just as they are printed."""
        for remedy in {finding["remedy"] for finding in found}:
            if remedy.startswith("rag-sql "):
                result = rag_sql(*shlex.split(remedy)[1:], url=self.database.url(SUPERUSER))
                assert result.returncode == 0, result.stderr
            else:
                self.run(remedy)

    def close(self) -> None:
        self.engine.dispose()
        self.admin.close()
        self.server.drop(self.database)
        self.server.maintenance.execute("alter role rag_search nologin nocreatedb; drop role patient, patient_group")


@pytest.fixture(scope="module")
def wards(server: Server, installed_template: Database) -> Iterator[list[Ward]]:
    found = [Ward(server, installed_template)]
    yield found
    found[-1].close()


@pytest.fixture
def ward(wards: list[Ward], server: Server, installed_template: Database) -> Iterator[Ward]:
    """The ward, or a new one where the last test did not leave it cured."""
    if not wards[-1].cured:
        wards.pop().close()
        wards.append(Ward(server, installed_template))
    wards[-1].cured = False
    yield wards[-1]
    wards[-1].run(LEFTOVERS)


def examine(database: Database, *options: str, login: str = SUPERUSER) -> list[Any]:
    result = rag_sql("doctor", "--json", *options, url=database.url(login))
    found = in_json(result)
    assert result.returncode == int(any(finding["severity"] == "error" for finding in found)), result.stderr
    return list(found)


def codes(found: list[Any]) -> set[tuple[str, str]]:
    """Pairs of code and subject."""
    return {(finding["code"], finding["subject"]) for finding in found}


@pytest.mark.parametrize(("code", "subjects", "fault"), FAULTS)
def test_a_fault_is_found_and_its_remedy_mends_it(ward: Ward, code: str, subjects: str, fault: str) -> None:
    database = ward.database.name
    ward.run(fault.format(db=database))
    found = ward.found()
    assert codes(found) == {(code, subject) for subject in subjects.format(db=database).split(", ")}, found
    ward.mend(found)
    assert ward.found() == []
    ward.cured = True


def test_a_healthy_store_has_no_finding(ward: Ward) -> None:
    result = rag_sql("doctor", url=ward.database.url(SUPERUSER))
    assert (result.stdout, result.stderr, result.returncode) == ("no error\n", "", 0)
    everything = examine(ward.database, "--all", "--strict")
    assert {finding["code"] for finding in everything} == {check.code for check in _doctor._CHECKS}
    assert {finding["severity"] for finding in everything} == {"ok", "hint"}
    ward.cured = True


def test_strict_makes_errors_of_warnings_and_gives_hints_about_settings(ward: Ward) -> None:
    ward.run(AS_OWNER + "insert into rag_auth.membership values ('gone', 'acme')")
    assert [finding["severity"] for finding in ward.found()] == ["warning"]
    found = examine(ward.database, "--strict")
    assert {(finding["severity"], finding["code"], finding["subject"]) for finding in found} == {
        ("error", "membership-orphan", "gone"),
        ("hint", "log-parameters", "log_parameter_max_length"),
        ("hint", "idle-transaction", "idle_in_transaction_session_timeout"),
    }
    ward.mend(found)
    assert examine(ward.database, "--strict") == []  # settings of a database are those of its next connections
    ward.run(f"alter database {ward.database.name} reset all")
    ward.cured = True


def test_an_ordinary_login_finds_the_same_and_is_told_what_it_may_not_see(ward: Ward) -> None:
    ward.run("alter table rag.span disable row level security; alter role patient bypassrls")
    ward.run("grant truncate on rag.span to patient")
    ours = {("login-attribute", "patient"), ("row-security", "rag.span"), ("table-privilege", "rag.span")}
    found = examine(ward.database, login="acme_reader")
    assert codes(found) == {*ours, ("membership-unseen", "rag_auth.membership")}
    (unseen,) = (finding for finding in found if finding["code"] == "membership-unseen")
    assert unseen["severity"] == "warning"
    # Its remedy is the command that sees everything.
    result = rag_sql(*shlex.split(unseen["remedy"])[1:], "--json")
    assert codes(in_json(result)) == ours
    assert codes(examine(ward.database, login="outsider")) - codes(found) == {
        ("store-state-unseen", f"database {ward.database.name}")
    }
    ward.cure()


def test_a_login_outside_the_groups_is_examined_when_it_is_bound_or_named(ward: Ward) -> None:
    ward.run("revoke rag_reader from patient; alter role patient bypassrls; alter role patient_group bypassrls")
    assert ward.found() == []
    named = examine(ward.database, "--login", "patient", "--login", "acme_reader")
    assert codes(named) == {("login-attribute", "patient")}
    ward.run(AS_OWNER + "insert into rag_auth.membership (login, tenant) values ('patient', 'acme')")
    assert codes(ward.found()) == {("login-attribute", "patient")}
    ward.run(AS_OWNER + "delete from rag_auth.membership where login = 'patient'")
    assert ward.found() == []
    ward.run(AS_OWNER + A_KEY % ("'0000000000f1', 'patient'", 1))
    assert codes(ward.found()) == {("login-attribute", "patient")}


def test_a_named_login_that_is_not_there_is_said(ward: Ward) -> None:
    found = ward.found(logins=['No"body', "patient_group"])
    assert {finding["subject"]: finding["remedy"] for finding in found} == {
        'No"body': 'create role "No""body" login',
        "patient_group": "alter role patient_group login",
    }
    ward.cured = True


def test_the_installing_login_is_none_of_run_time(server: Server) -> None:
    """An ordinary owner is in every role of the store, as its administrator; a named one is taken at its word."""
    maintenance, database, roles = server.maintenance, server.create(), ", ".join(ROLES)
    try:
        maintenance.execute(
            f"create role chief login; grant {roles} to chief with admin true, inherit false, set true;"
            f"alter database {database.name} owner to chief".encode()
        )
        with database.connect(SUPERUSER) as connection:
            connection.execute("create extension vector")
        with database.engine("chief") as engine:
            _install.install(engine)
            _admin.add_tenant(engine, "acme")
        assert examine(database, login="chief") == []
        named = {code for code, _ in codes(examine(database, "--login", "chief", login="chief"))}
        assert named == {"login-reaches-owner", "login-reads-and-audits", "login-owns-database"}
    finally:
        server.drop(database)
        maintenance.execute(f"revoke {roles} from chief cascade; drop role chief".encode())


def test_a_copy_of_a_database_has_the_privileges_of_any_new_one(server: Server, installed_template: Database) -> None:
    """Privileges on a database travel neither with a clone nor with a dump: PUBLIC may make temporary tables again."""
    database = server.create(installed_template.name)
    try:
        with database.connect(SUPERUSER, autocommit=True) as admin:
            admin.execute("grant create on schema public to public")  # as a server before PostgreSQL 15 left it
            found = examine(database)
            assert codes(found) == {
                ("database-privilege", f"database {database.name}"),
                ("schema-privilege", "schema public"),
            }
            for finding in found:
                admin.execute(finding["remedy"].encode())
        assert examine(database) == []
        with database.connect("acme_reader") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("create temporary table membership (login text, tenant text)")
    finally:
        server.drop(database)


def test_a_database_without_a_store(server: Server) -> None:
    database = server.create()
    try:
        for login in (SUPERUSER, "outsider"):
            found = examine(database, login=login)
            assert {code for code, _ in codes(found)} == {"store-state", "extension-vector", "database-privilege"}
        (missing,) = (finding for finding in found if finding["code"] == "store-state")
        assert missing["remedy"] == "rag-sql install"
    finally:
        server.drop(database)


def test_a_store_of_another_release(ward: Ward) -> None:
    for release, remedy in (("99.0 00", "pip install --upgrade rag-sql"), ("0.0.1 00", "rag-sql upgrade")):
        ward.run(f"comment on schema rag_api is 'rag-sql [{release}]'")
        (found,) = ward.found()
        assert (found["code"], found["remedy"]) == ("store-state", remedy)
    ward.cure()


def test_a_missing_and_an_old_extension(ward: Ward) -> None:
    ward.run("drop extension vector cascade")
    found = ward.found()
    assert codes(found) == {("extension-vector", "extension vector")}
    ward.mend(found)
    assert ward.found() == []
    ward.run("set allow_system_table_mods = on")
    ward.run("update pg_extension set extversion = '0.7.4' where extname = 'vector'")
    (old,) = ward.found()
    assert (old["code"], old["remedy"]) == ("extension-vector", "alter extension vector update")
    assert "is 0.7.4" in old["problem"]


def test_a_database_whose_letters_are_not_lowered(server: Server) -> None:
    def create(name: str, options: str) -> Database:
        server.maintenance.execute(f"create database {name} {options} strategy file_copy".encode())
        return Database(server.embedded, name)

    def locale(database: Database) -> list[Any]:
        return [finding for finding in examine(database) if finding["code"] == "database-locale"]

    try:
        (encoding,) = locale(create("ward", "encoding 'LATIN1' locale 'C' template template0"))
        assert "encoding is LATIN1" in encoding["problem"]
        server.maintenance.execute(encoding["remedy"].encode())
        assert locale(Database(server.embedded, "ward_utf8")) == []
        server.maintenance.execute("drop database ward_utf8")
        (letters,) = locale(create("ward_utf8", "encoding 'UTF8' locale 'C' template template0"))
        assert "locale" in letters["problem"]
    finally:
        server.maintenance.execute("drop database if exists ward")
        server.maintenance.execute("drop database if exists ward_utf8")


def test_an_old_minor_is_an_error_and_on_the_embedded_server_a_warning(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_doctor, "OLDEST_MINOR", {16: 99, 17: 99, 18: 99})
    (found,) = ward.found()
    assert (found["code"], found["severity"]) == ("server-release", "error")
    embedded = {finding["code"]: finding["severity"] for finding in ward.found(embedded=True)}
    assert embedded == {"server-release": "warning", "embedded-release": "hint"}
    assert "error" in {finding["severity"] for finding in ward.found(embedded=True, strict=True)}
    ward.cured = True


def test_it_changes_nothing(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that wrote would be refused by the server."""
    writing = _doctor._Check("writing", "error", "select 'a', 'b', lo_create(0)::text")
    monkeypatch.setattr(_doctor, "_CHECKS", (writing,))
    result = rag_sql("doctor", url=ward.database.url(SUPERUSER))
    assert (result.returncode, "read-only transaction" in result.stderr) == (1, True)
    ward.cured = True


def test_a_person_gets_a_table_and_lines_to_copy(ward: Ward) -> None:
    ward.run("alter table rag.span disable row level security; drop policy version_fence_select on rag.version")
    ward.run("drop policy version_fence_insert on rag.version")
    result = rag_sql("doctor", url=ward.database.url(SUPERUSER))
    assert result.returncode == 1
    assert result.stdout.splitlines()[-3:] == [
        "rag-sql upgrade  # mends 1, 2",
        "alter table rag.span enable row level security, force row level security;  -- mends 3",
        "3 errors",
    ]
    ward.cure()


def test_the_embedded_store() -> None:
    """Nothing is installed by looking; the store that is then made has no error, and its age is said."""
    place = Path(tempfile.mkdtemp(prefix="rag-sql-doctor-"))
    place.chmod(0o711)
    home = ("--home", place / "home")
    try:
        with EmbeddedServer(place / "home"):
            empty = rag_sql("doctor", "--json", *home)
            assert (empty.returncode, codes(in_json(empty))) == (1, {("store-state", "database rag_sql")})
            assert rag_sql("tenant", "add", "acme", *home).returncode == 0
            result = rag_sql("doctor", "--json", *home)
            assert result.returncode == 0, result.stdout
            (age,) = in_json(result)
            assert (age["code"], age["severity"]) == ("embedded-release", "hint")
            assert "months ago" in age["problem"]
    finally:
        shutil.rmtree(place, ignore_errors=True)
