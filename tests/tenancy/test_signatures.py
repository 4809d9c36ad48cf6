"""Signatures: each proves one tenant, with one right, to one login, in one transaction of one backend; nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_sql import EvidenceStore, errors
from rag_sql._embedded import SUPERUSER
from rag_sql._signing import Right, TenantKey, signed_bytes
from tests.conftest import SERVICE_KEY, Database, Server, add_key

Connection = psycopg.Connection[Any]

VECTORS = json.loads((Path(__file__).parent / "golden" / "signatures.json").read_text("utf-8"))

#: RFC 4231, cases 1 and 2: key, text, HMAC-SHA256.
RFC_4231 = (
    ("0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (
        b"Jefe".hex(),
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
)

HMAC = "select encode(rag_auth.hmac_sha256(rag_auth.hmac_pad(s, 54), rag_auth.hmac_pad(s, 92), {}), 'hex') from"


@pytest.fixture(scope="module")
def superuser(spent: Database) -> Iterator[Connection]:
    with spent.connect(SUPERUSER, autocommit=True) as connection:
        yield connection


@pytest.fixture
def service(spent: Database) -> Iterator[Connection]:
    with spent.connect("service", autocommit=True) as connection:
        yield connection


def signed(
    connection: Connection, tenant: str, right: Right = "write", *, key: TenantKey = SERVICE_KEY, **other: Any
) -> str:
    """An assertion for the transaction that is open; `other` names what it is signed for in place of what is so."""
    row = connection.execute("select login, backend_pid, begun_at from rag_api.transaction_identity()").fetchone()
    assert row is not None
    identity = {"login": row[0], "backend_pid": row[1], "begun_at": row[2]} | other
    return key.sign(**identity, tenant=tenant, right=right)


def bind(connection: Connection, assertion: str | None) -> None:
    connection.execute("select rag_api.bind(p_tenant => %s)", (assertion,))


def seen(connection: Connection) -> set[str]:
    return {tenant for (tenant,) in connection.execute("select tenant from rag.version")}


def refused(connection: Connection, assertion: str) -> tuple[str | None, str, str]:
    """How an assertion is refused, whether it is bound or merely set: code, message and hint."""
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        bind(connection, assertion)
    with pytest.raises(psycopg.Error) as read, connection.transaction():
        connection.execute("select set_config('rag.tenant', %s, true)", (assertion,))
        seen(connection)
    assert read.value.sqlstate == caught.value.sqlstate
    diag = caught.value.diag
    assert diag.message_detail is None
    return caught.value.sqlstate, diag.message_primary or "", diag.message_hint or ""


# The format


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['login']} {vector['right']}")
def test_a_vector_is_signed_alike_by_the_database_and_in_python(superuser: Connection, vector: dict[str, Any]) -> None:
    fields = [vector[name] for name in ("login", "backend_pid", "begun_at", "tenant", "right")]
    assert signed_bytes(*fields).hex() == vector["signed_bytes"]
    key = TenantKey("00000000000a", bytes.fromhex(vector["secret"]))
    assert key.sign(*fields) == f"{vector['tenant']}:{vector['right']}:00000000000a:{vector['signature']}"
    found = superuser.execute(
        HMAC.format("rag_auth.signed_bytes(%s, %s, %s, %s, %s)") + " cast(%s as bytea) s", (*fields, key.secret)
    ).fetchone()
    assert found == (vector["signature"],)


@pytest.mark.parametrize(("key", "text", "expected"), RFC_4231)
def test_the_databases_hmac_is_that_of_rfc_4231(superuser: Connection, key: str, text: bytes, expected: str) -> None:
    found = superuser.execute(HMAC.format("%s") + " cast(%s as bytea) s", (text, bytes.fromhex(key))).fetchone()
    assert found == (expected,)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=70)


@given(
    login=texts,
    backend_pid=st.integers(-(2**31), 2**31 - 1),
    begun_at=st.integers(-(2**63), 2**63 - 1),
    tenant=texts,
    right=texts,
)
@settings(deadline=None)
def test_the_database_and_python_sign_the_same_bytes(superuser: Connection, **fields: Any) -> None:
    row = superuser.execute("select rag_auth.signed_bytes(%s, %s, %s, %s, %s)", (*fields.values(),)).fetchone()
    assert row == (signed_bytes(**fields),)


@given(st.lists(texts, min_size=3, max_size=3), st.lists(texts, min_size=3, max_size=3))
def test_other_fields_are_other_bytes(one: list[str], other: list[str]) -> None:
    """No character of a name can pass for the border between two fields."""
    assert (signed_bytes(one[0], 1, 2, *one[1:]) == signed_bytes(other[0], 1, 2, *other[1:])) == (one == other)


def test_a_key_is_read_as_it_is_printed_and_does_not_show_its_secret() -> None:
    assert TenantKey.parse(f" {SERVICE_KEY}\n") == SERVICE_KEY
    assert SERVICE_KEY.secret.hex() not in repr(SERVICE_KEY)
    for text in ("", "00000000000a", f"{SERVICE_KEY}0", str(SERVICE_KEY).upper(), str(SERVICE_KEY)[:-1]):
        with pytest.raises(errors.InvalidRequest) as caught:
            TenantKey.parse(text)
        assert not text or text not in str(caught.value)


# What is proven


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_signature_proves_its_tenant_until_its_transaction_ends(service: Connection, ending: str) -> None:
    service.execute("begin")
    assertion = signed(service, "northwind")
    bind(service, assertion)
    assert seen(service) == {"northwind", "public"}
    service.execute("savepoint inside")
    assert seen(service) == {"northwind", "public"}
    service.execute("rollback to inside")
    assert seen(service) == {"northwind", "public"}
    service.execute(ending.encode())
    assert seen(service) == {"public"}
    with service.transaction():
        assert refused(service, assertion)[0] == "RS004"


def test_one_transaction_may_be_bound_to_one_tenant_after_another(service: Connection) -> None:
    with service.transaction():
        for tenant in ("acme", "northwind"):
            bind(service, signed(service, tenant))
            assert seen(service) == {tenant, "public"}
        bind(service, None)
        assert seen(service) == {"public"}


def test_nothing_is_written_to_prove_a_tenant(service: Connection) -> None:
    with service.transaction():
        service.execute("set transaction read only")
        bind(service, signed(service, "acme"))
        assert seen(service) == {"acme", "public"}


def test_a_login_that_signs_is_granted_nothing_by_it(service: Connection) -> None:
    with service.transaction():
        bind(service, signed(service, "acme"))
        assert refused(service, "acme")[0] == "RS001"
        assert service.execute("select tenant from rag_api.membership").fetchall() == []


def test_a_tenant_that_does_not_exist_is_an_error_however_well_it_is_signed(service: Connection) -> None:
    with service.transaction():
        assert refused(service, signed(service, "acmee"))[0] == "RS001"
        assert refused(service, signed(service, ""))[0] == "RS001"


# What is refused


def _after(*statements: str) -> Callable[[Connection], str]:
    """A signature for the transaction that is open, after which something is run."""

    def make(connection: Connection) -> str:
        assertion = signed(connection, "acme")
        for statement in statements:
            connection.execute(statement.encode())
        return assertion

    return make


def _last_of_several(connection: Connection) -> str:
    """Transactions that begin in one message begin at the same instant, but nobody signs before the answer to it."""
    connection.execute("commit; begin; commit; begin")
    return _after("commit; begin; commit; begin")(connection)


def _in_another_backend(connection: Connection) -> str:
    """Signed for a transaction of the same login in another backend."""
    with psycopg.connect(connection.info.dsn) as other:
        return signed(other, "acme")


#: What is no proof, made in a transaction of the service's.
FORGERIES: dict[str, Callable[[Connection], str]] = {
    "of the transaction before": _after("commit", "begin"),
    "of the transaction before, in one message": _after("commit; begin"),
    "of the transaction that was rolled back": _after("rollback; begin"),
    "of the transaction that it is chained to": _after("commit and chain"),
    "of the last of several in one message": _last_of_several,
    "of another backend": _in_another_backend,
    "for another login": lambda connection: signed(connection, "acme", login="acme_reader"),
    "for another backend": lambda connection: signed(connection, "acme", backend_pid=1),
    "for the microsecond after": lambda connection: signed(connection, "acme", begun_at=1),
    "for another tenant": lambda connection: signed(connection, "northwind").replace("northwind", "acme", 1),
    "for reading alone": lambda connection: signed(connection, "acme", "read").replace(":read:", ":write:", 1),
    "for writing": lambda connection: signed(connection, "acme").replace(":write:", ":read:", 1),
    "with another secret": lambda c: signed(c, "acme", key=replace(SERVICE_KEY, secret=bytes(32))),
    "with a key that does not exist": lambda c: signed(c, "acme", key=replace(SERVICE_KEY, key_id="0" * 12)),
    "with the key of another login": lambda c: signed(c, "acme", key=TenantKey("00000000000d", bytes(32))),
    "with a key that has expired": lambda c: signed(c, "acme", key=TenantKey("00000000000e", bytes(32))),
    "truncated": lambda connection: signed(connection, "acme")[:-1],
    "truncated by a byte": lambda connection: signed(connection, "acme")[:-2],
    "extended": lambda connection: signed(connection, "acme") + "00",
    "in capitals": lambda c: ":".join([*(part := signed(c, "acme").split(":"))[:3], part[3].upper()]),
    "with a part more": lambda connection: signed(connection, "acme") + ":",
    "without a right": lambda connection: signed(connection, "acme").replace(":write:", "::", 1),
    "with a right that is none": lambda connection: signed(connection, "acme").replace(":write:", ":all:", 1),
    "empty": lambda _: "acme:write:00000000000a:",
    "no hexadecimal": lambda _: "acme:write:00000000000a:" + "g" * 64,
    "a colon": lambda _: ":",
    "a tenant and a colon": lambda _: "acme:",
    "a right alone": lambda _: "acme:write",
}


@pytest.fixture(scope="module")
def other_keys(superuser: Connection) -> None:
    add_key(superuser, "acme_reader", TenantKey("00000000000d", bytes(32)))
    add_key(superuser, "service", TenantKey("00000000000e", bytes(32)), days=-1)


@pytest.mark.usefixtures("other_keys")
@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_proves_nothing_is_one_error_that_says_nothing_more(service: Connection, forgery: str) -> None:
    service.execute("begin")
    assertion = FORGERIES[forgery](service)
    tenant = assertion.partition(":")[0]
    assert refused(service, assertion) == (
        "RS004",
        f'the signature does not prove tenant "{tenant}" for login "service" in this transaction',
        "Sign in every transaction, with a key of this login that has not expired: rag-sql tenant key list",
    )
    service.execute("rollback")


@given(st.data())
@settings(deadline=None)
def test_whatever_is_changed_in_an_assertion_it_proves_nothing(spent: Database, data: st.DataObject) -> None:
    with spent.connect("service") as connection:
        good = signed(connection, "acme")
        place = data.draw(st.integers(0, len(good) - 1))
        kind = data.draw(st.sampled_from(["replace", "insert", "remove"]))
        letter = data.draw(st.sampled_from("0123456789abcdefghijklmnopqrstuvwxyz:-"))
        rest = good[place + (kind != "insert") :]
        changed = good[:place] + (letter if kind != "remove" else "") + rest
        bind(connection, good)
        if changed != good:
            assert refused(connection, changed)[0] == "RS004"


@given(st.data())
@settings(deadline=None)
def test_whatever_is_signed_in_place_of_what_is_so_it_proves_nothing(spent: Database, data: st.DataObject) -> None:
    with spent.connect("service") as connection:
        row = connection.execute("select login, backend_pid, begun_at from rag_api.transaction_identity()").fetchone()
        assert row is not None
        so: dict[str, Any] = {"login": row[0], "backend_pid": row[1], "begun_at": row[2]}
        name = data.draw(st.sampled_from(sorted(so)))
        near: Any = so[name] + data.draw(st.integers(-1000, 1000)) if name != "login" else data.draw(texts)
        if near != so[name]:
            assert refused(connection, signed(connection, "acme", **{name: near}))[0] == "RS004"


@pytest.mark.usefixtures("other_keys")
def test_another_login_gets_nothing_by_the_services_key(spent: Database) -> None:
    for login in ("acme_reader", "unbound_reader"):
        with spent.connect(login) as connection:
            for name in (login, "service"):
                assert refused(connection, signed(connection, "acme", login=name))[0] == "RS004"


def test_a_bad_signature_is_an_error_though_the_tenant_is_granted(spent: Database) -> None:
    with spent.connect("acme_reader") as connection:
        assert refused(connection, signed(connection, "acme"))[0] == "RS004"
        bind(connection, "acme")
        assert seen(connection) == {"acme", "public"}


# Keys


def test_two_keys_are_valid_at_once_and_one_that_is_revoked_at_once_is_not(
    service: Connection, superuser: Connection
) -> None:
    next_key = TenantKey("0000000000f0", b"n" * 32)
    add_key(superuser, "service", next_key)
    with service.transaction():
        for key in (SERVICE_KEY, next_key):
            bind(service, signed(service, "acme", key=key))
            assert seen(service) == {"acme", "public"}
        superuser.execute("select rag_auth.revoke_signing_key(%s)", (next_key.key_id,))
        with pytest.raises(psycopg.Error) as caught, service.transaction():
            seen(service)
        assert caught.value.sqlstate == "RS004"
        bind(service, signed(service, "acme"))
        assert seen(service) == {"acme", "public"}


def test_keys_are_made_at_random_and_never_alike(superuser: Connection) -> None:
    made = []
    for _ in range(20):
        row = superuser.execute("select key_id, secret from rag_auth.add_signing_key('service', 1)").fetchone()
        assert row is not None
        made.append(row)
        superuser.execute("select rag_auth.revoke_signing_key(%s)", (row[0],))
    assert len({key_id for key_id, _ in made}) == len({secret for _, secret in made}) == 20
    assert {len(secret) for _, secret in made} == {32}


def test_a_secret_that_is_made_is_signed_with(service: Connection, superuser: Connection) -> None:
    row = superuser.execute("select key_id, secret from rag_auth.add_signing_key('service', 1)").fetchone()
    assert row is not None
    with service.transaction():
        bind(service, signed(service, "acme", key=TenantKey(*row)))
        assert seen(service) == {"acme", "public"}
    superuser.execute("select rag_auth.revoke_signing_key(%s)", (row[0],))


def test_a_secret_stands_in_no_log_of_statements(server: Server, superuser: Connection) -> None:
    """Made by the server and returned: no statement and no parameter has it."""
    superuser.execute("set log_statement = 'all'; set log_min_duration_statement = 0; set log_duration = on")
    try:
        row = superuser.execute("select key_id, secret from rag_auth.add_signing_key('service', %s)", (1,)).fetchone()
        assert row is not None
        key_id, secret = row
        pads = superuser.execute(
            "select inner_pad, outer_pad from rag_auth.signing_key where key_id = %s", (key_id,)
        ).fetchone()
        superuser.execute("select rag_auth.revoke_signing_key(%s)", (key_id,))
    finally:
        superuser.execute("reset all")
    log = (server.embedded.home / "server.log").read_text("utf-8", "replace")
    assert key_id in log
    assert pads is not None
    assert [kept for kept in (secret, *pads) if kept.hex() in log] == []


@pytest.mark.parametrize("login", ["service", "acme_curator", "auditor"])
def test_nobody_finds_a_secret_in_the_catalog(spent: Database, login: str) -> None:
    """World-readable are the texts of functions, settings of roles and databases, statistics, comments."""
    kept = [SERVICE_KEY.secret.hex(), bytes(byte ^ 0x36 for byte in SERVICE_KEY.secret).hex()]
    with spent.connect(SUPERUSER, autocommit=True) as superuser:
        superuser.execute("analyze rag_auth.signing_key")
    with spent.connect(login) as connection:
        for query in (
            "select prosrc || coalesce(pg_get_function_sqlbody(oid), '') from pg_proc",
            "select setconfig::text from pg_db_role_setting",
            "select s::text from pg_stats s",
            "select description from pg_description",
            "select query from pg_stat_activity",
        ):
            said = "\n".join(str(text) for (text,) in connection.execute(query.encode()))
            assert not any(secret in said for secret in kept), query


def test_another_session_of_the_login_reads_no_signature_in_the_activity(spent: Database) -> None:
    """The client binds it as a parameter; what is in the text of a statement, every session of the login can read."""
    with (
        spent.connect("service", autocommit=True) as spy,
        spent.engine("service") as engine,
        EvidenceStore(engine, tenant_key=str(SERVICE_KEY)).tenant("acme"),
    ):
        said = [
            query
            for (query,) in spy.execute(
                "select query from pg_stat_activity where usename = 'service' and pid <> pg_backend_pid()"
                " and datname = current_database()"
            )
        ]
    assert said == ["select rag_api.bind(p_tenant => $1)"]
