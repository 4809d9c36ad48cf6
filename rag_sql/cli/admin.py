"""Commands of the installing login: demo, install, upgrade, status, tenant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
import typer

from rag_sql import _admin, _install, _render
from rag_sql._local import DATABASE, OPERATOR, LocalStore
from rag_sql.cli._apps import app, key_app, tenant_app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    UrlOption,
    command,
    err,
    open_engine,
    out,
    parsed_url,
    print_json,
)

__all__: list[str] = []


def _groups(given: list[str] | None) -> list[str] | None:
    allowed = [known for known in _admin.GROUPS if known != "auditor"]
    for wanted in given or []:
        if wanted not in allowed:
            raise typer.BadParameter(f"{wanted!r} is not one of {', '.join(allowed)}", param_hint="--group")
    return given


GroupOption = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", help="reader, curator, publisher or reviewer; repeatable.", callback=_groups),
]


@command(app)
def demo(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Run the gateway corpus in a fresh database of its own and compare with the article's statements."""
    from rag_sql import _demo

    with _demo_server(database_url, home) as url, err.status("starting") as status:
        result = _demo.run(url, lambda step: status.update(step))
    if as_json:
        print_json({"holds": result.holds, **asdict(result)})
    else:
        _render.demo(out, result)
    raise typer.Exit(0 if result.holds else 1)


@contextmanager
def _demo_server(url: str | None, home: Path | None) -> Iterator[sa.URL]:
    if url:
        yield parsed_url(url)
        return
    with LocalStore(home, prepare=False) as local:
        yield sa.make_url(local.admin_url()).set(database="postgres")


@command(app)
def install(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Install the store. Needs the database's owner with CREATEROLE."""
    with open_engine(database_url, home, install=True) as (engine, _), err.status("installing"):
        status_now = _install.install(engine)
    print_json(asdict(status_now)) if as_json else _render.status(out, status_now)


@command(app)
def upgrade(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Bring an installed store to this version of rag-sql."""
    with open_engine(database_url, home, install=True) as (engine, _):
        with err.status("upgrading"):
            status_now = _install.upgrade(engine)
        print_json(asdict(status_now)) if as_json else _render.status(out, status_now)


@command(app)
def status(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Say what the database holds, and install nothing. Exit code 1 unless it is current."""
    with open_engine(database_url, home, install=False, prepare=False) as (engine, local):
        status_now = _install.status(engine) if local is None or local.ready() else local.not_installed()
        where = "" if local is None else local.server.conninfo(OPERATOR, DATABASE)
        if as_json:
            print_json({**asdict(status_now), **({"home": local.server.home, "conninfo": where} if local else {})})
        else:
            _render.status(out, status_now)
            if local is not None:
                out.print(
                    f"embedded in {local.server.home}; while it runs: psql '{where}'", soft_wrap=True, highlight=False
                )
    raise typer.Exit(0 if status_now.state == "current" else 1)


@command(tenant_app, "add")
def tenant_add(
    name: Annotated[str, typer.Argument(help="A slug: a lower-case letter, then letters, digits, hyphens.")],
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a tenant. On the embedded server its one login is bound to it as well."""
    with open_engine(database_url, home, install=True) as (engine, local):
        _admin.add_tenant(engine, name)
        if local is not None:
            _admin.grant_tenant(engine, name, OPERATOR)
    print_json({"tenant": name}) if as_json else out.print(f"tenant {name} is there")


@command(tenant_app, "list")
def tenant_list(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List tenants and the logins bound to them."""
    with open_engine(database_url, home, install=True) as (engine, _):
        rows = _admin.list_tenants(engine)
    print_json([asdict(row) for row in rows]) if as_json else _render.tenants(out, rows)


@command(tenant_app, "grant")
def tenant_grant(
    name: Annotated[str, typer.Argument(help="The tenant.")],
    login: Annotated[str, typer.Argument(help="An existing login, neither superuser nor BYPASSRLS.")],
    group: GroupOption = None,
    read_only: Annotated[
        bool,
        typer.Option("--read-only", help="To read, ask and record what was asked; not to load, curate or approve."),
    ] = False,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a login assert a tenant, and have it join groups of the store. Granted again, the new right counts."""
    with open_engine(database_url, home, install=True) as (engine, _):
        _admin.grant_tenant(engine, name, login, group or (), read_only=read_only)
    if as_json:
        print_json({"tenant": name, "login": login, "read_only": read_only})
    else:
        out.print(f"{login} may assert {name}{', only to read' if read_only else ''}")


@command(tenant_app, "retain")
def tenant_retain(
    name: Annotated[str, typer.Argument(help="The tenant.")],
    days: Annotated[str, typer.Argument(metavar="DAYS|forever", help="How long its traces are kept.")],
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how long a tenant keeps traces. What is older goes with the next `rag-sql trace purge`."""
    if days != "forever" and not re.fullmatch(r"[1-9][0-9]{0,5}", days):
        raise typer.BadParameter(f"{days!r} is neither a number of days nor forever", param_hint="DAYS|forever")
    kept = None if days == "forever" else int(days)
    with open_engine(database_url, home, install=True) as (engine, _):
        _admin.set_trace_retention(engine, name, kept)
    if as_json:
        print_json({"tenant": name, "days": kept})
    else:
        out.print(f"{name} keeps traces " + ("without end" if kept is None else f"for {kept} days"))


@command(tenant_app, "revoke")
def tenant_revoke(
    name: Annotated[str, typer.Argument(help="The tenant.")],
    login: Annotated[str, typer.Argument(help="The login.")],
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a tenant from a login."""
    with open_engine(database_url, home, install=True) as (engine, _):
        revoked = _admin.revoke_tenant(engine, name, login)
    if as_json:
        print_json({"tenant": name, "login": login, "revoked": revoked})
    else:
        out.print(
            f"{login} may no longer assert {name}" if revoked else f"{login} could not assert {name} before either"
        )


@command(key_app, "add")
def key_add(
    login: Annotated[str, typer.Argument(help="The login of the application; no other can use the key.")],
    group: GroupOption = None,
    days: Annotated[int, typer.Option("--days", help="How long it is valid, 1 to 3650.")] = 90,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key for RAG_SQL_TENANT_KEY and print it, this once. Whoever has it and the login acts for every tenant."""
    with open_engine(database_url, home, install=True) as (engine, _):
        key, expires_at = _admin.add_key(engine, login, days, group or ())
    if as_json:
        print_json({"key_id": key.key_id, "login": login, "expires_at": expires_at, "key": str(key)})
    else:
        typer.echo(key)
        err.print(f"key {key.key_id} of {login}, valid until {expires_at:%Y-%m-%d %H:%M %Z}; it is not shown again")


@command(key_app, "list")
def key_list(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List keys, without their secrets."""
    with open_engine(database_url, home, install=True) as (engine, _):
        rows = _admin.list_keys(engine)
    print_json([asdict(row) for row in rows]) if as_json else _render.keys(out, rows)


@command(key_app, "revoke")
def key_revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id: what stands before the full stop.")],
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a key out of use, at once."""
    with open_engine(database_url, home, install=True) as (engine, _):
        _admin.revoke_key(engine, key_id)
    print_json({"key_id": key_id}) if as_json else out.print(f"key {key_id} proves nothing any more")
