"""The command line: ``rag-sql``.

Exit codes: 0 sufficient, or done; 1 error; 2 usage; 3 ask for evidence; 4 unsupported question; 5 approval missing,
rejected or stale; 6 needs decision. Errors go to standard error: code, what, and what to do.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import psycopg
import sqlalchemy as sa
import typer
from rich.console import Console
from rich.progress import Progress

from rag_sql import _admin, _files, _install, _render
from rag_sql._drafting import draft
from rag_sql._local import OPERATOR, LocalStore
from rag_sql._models import Claim, Outcome, Packet
from rag_sql._store import EvidenceStore, make_engine
from rag_sql.errors import InvalidClaims, NoApproval, RagSqlError, Rejected, StaleApproval, UnsupportedQuestion

__all__ = ["app", "main"]

EXIT_CODES = {
    Outcome.SUFFICIENT_FOR_TEMPLATE: 0,
    Outcome.ASK_FOR_EVIDENCE: 3,
    Outcome.UNSUPPORTED_QUESTION: 4,
}

app = typer.Typer(
    help="A SQL-native evidence store for retrieval-augmented generation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
tenant_app = typer.Typer(help="Tenants, and the logins bound to them.", no_args_is_help=True)
contract_app = typer.Typer(help="Contracts: the question types that are supported.", no_args_is_help=True)
packet_app = typer.Typer(help="Packets: what decisions relied on.", no_args_is_help=True)
app.add_typer(tenant_app, name="tenant")
app.add_typer(contract_app, name="contract")
app.add_typer(packet_app, name="packet")

# Not a terminal: nobody set a width, and lines that are folded cannot be searched.
out = Console(width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True)

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="RAG_SQL_DATABASE_URL",
        help="postgresql://login@host/database; without it the embedded server is started.",
        show_default=False,
        show_envvar=False,
    ),
]
HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home", help="Where the embedded server's data lives; default: the user data folder.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TenantOption = Annotated[str | None, typer.Option("--tenant", "-t", help="The tenant to bind; without it public only.")]
RequiredTenant = Annotated[str, typer.Option("--tenant", "-t", help="The tenant to bind.")]
QueryOption = Annotated[str, typer.Option("--query", "-q", help="Words for the ranker.")]
CaseOption = Annotated[
    list[str] | None, typer.Option("--case", "-c", metavar="KEY=VALUE", help="A fact of the case; repeatable.")
]
KOption = Annotated[int, typer.Option("--k", "-k", help="Most passages to select, 1 to 1000.")]
ClaimsOption = Annotated[
    Path | None, typer.Option("--claims", help="The draft: a JSON array of claims. Default: the template renderer's.")
]

P = ParamSpec("P")
_debug = False


def _command(group: typer.Typer, name: str | None = None) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Register a command whose errors are printed as code, what and what to do, never as a traceback."""

    def register(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                function(*args, **kwargs)
            except (RagSqlError, sa.exc.DBAPIError, psycopg.Error) as error:
                if _debug:
                    raise
                raise typer.Exit(_report(error)) from None

        group.command(name)(guarded)
        return guarded

    return register


def _report(error: Exception) -> int:
    """Print an error to standard error; the exit code that belongs to it."""
    if isinstance(error, RagSqlError):
        code, message, detail, hint = error.sqlstate, error.message, error.detail, error.hint
        name = type(error).__name__
    else:
        driver = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        diag = driver.diag if isinstance(driver, psycopg.Error) else None
        code = driver.sqlstate if isinstance(driver, psycopg.Error) else None
        message = (diag.message_primary if diag else None) or str(driver).strip()
        detail, hint = (diag.message_detail or "", diag.message_hint or "") if diag else ("", "")
        name = type(driver).__name__
    label = f"{name} {code}" if code else name
    err.print(f"error: {label}: {message}", markup=False, highlight=False, soft_wrap=True)
    for line in detail.splitlines():
        err.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    if hint:
        err.print(f"hint: {hint}", markup=False, highlight=False, soft_wrap=True)
    if isinstance(error, NoApproval | Rejected | StaleApproval):
        return 5
    return 4 if isinstance(error, UnsupportedQuestion) else 1


@app.callback()
def _root(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    global _debug
    _debug = debug


@contextmanager
def _store(url: str | None, home: Path | None) -> Iterator[EvidenceStore]:
    """The store, as an ordinary login."""
    with EvidenceStore.connect(_parsed(url)) if url else EvidenceStore.embedded(home) as store:
        yield store


@contextmanager
def _engine(url: str | None, home: Path | None, *, install: bool) -> Iterator[tuple[sa.Engine, bool]]:
    """An engine, and whether it is the embedded server's: of the installing login there, or of the ordinary one."""
    with LocalStore(home) if not url else nullcontext() as local:
        if local is None:
            engine = make_engine(_parsed(str(url)))
        else:
            engine = make_engine(local.admin_url() if install else local.url())
        try:
            yield engine, local is not None
        finally:
            engine.dispose()


def _parsed(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except sa.exc.ArgumentError:
        raise typer.BadParameter("not a database URL: postgresql://login@host/database") from None


def _json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def _pairs(values: list[str] | None, option: str) -> list[tuple[str, str]]:
    pairs = []
    for value in values or []:
        key, equals, rest = value.partition("=")
        if not (key and equals and rest):
            raise typer.BadParameter(f"{value!r} is not KEY=VALUE", param_hint=option)
        pairs.append((key, rest))
    return pairs


def _case(values: list[str] | None) -> dict[str, str]:
    pairs = _pairs(values, "--case")
    case = dict(pairs)
    if len(case) < len(pairs):
        raise typer.BadParameter("an attribute is stated more than once", param_hint="--case")
    return case


@_command(app)
def demo(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Run the gateway corpus in a fresh database of its own and compare with the article's statements."""
    from rag_sql import _demo

    with _demo_server(database_url, home) as url, err.status("starting") as status:
        result = _demo.run(url, lambda step: status.update(step))
    if as_json:
        _json({"holds": result.holds, **asdict(result)})
    else:
        _render.demo(out, result)
    raise typer.Exit(0 if result.holds else 1)


@contextmanager
def _demo_server(url: str | None, home: Path | None) -> Iterator[sa.URL]:
    if url:
        yield _parsed(url)
        return
    with LocalStore(home, prepare=False) as local:
        yield sa.make_url(local.admin_url()).set(database="postgres")


@_command(app)
def install(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Install the store. Needs the database's owner with CREATEROLE."""
    with _engine(database_url, home, install=True) as (engine, _):
        status_now = _install.install(engine)
    _json(asdict(status_now)) if as_json else _render.status(out, status_now)


@_command(app)
def upgrade(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Bring an installed store to this version of rag-sql."""
    with _engine(database_url, home, install=True) as (engine, _):
        status_now = _install.upgrade(engine)
        _json(asdict(status_now)) if as_json else _render.status(out, status_now)


@_command(app)
def status(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Say what the database holds. Exit code 1 unless it is current."""
    with _engine(database_url, home, install=False) as (engine, _):
        status_now = _install.status(engine)
        _json(asdict(status_now)) if as_json else _render.status(out, status_now)
    raise typer.Exit(0 if status_now.state == "current" else 1)


@_command(tenant_app, "add")
def tenant_add(
    name: Annotated[str, typer.Argument(help="A slug: a lower-case letter, then letters, digits, hyphens.")],
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a tenant. On the embedded server its one login is bound to it as well."""
    with _engine(database_url, home, install=True) as (engine, embedded):
        _admin.add_tenant(engine, name)
        if embedded:
            _admin.grant_tenant(engine, name, OPERATOR)
    _json({"tenant": name}) if as_json else out.print(f"tenant {name} is there")


@_command(tenant_app, "list")
def tenant_list(database_url: UrlOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List tenants and the logins bound to them."""
    with _engine(database_url, home, install=True) as (engine, _):
        rows = _admin.list_tenants(engine)
    _json([asdict(row) for row in rows]) if as_json else _render.tenants(out, rows)


@_command(tenant_app, "grant")
def tenant_grant(
    name: Annotated[str, typer.Argument(help="The tenant.")],
    login: Annotated[str, typer.Argument(help="An existing login, neither superuser nor BYPASSRLS.")],
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", help="reader, curator, publisher or reviewer; repeatable.")
    ] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a login assert a tenant, and have it join groups of the store."""
    allowed = [known for known in _admin.GROUPS if known != "auditor"]
    for wanted in group or []:
        if wanted not in allowed:
            raise typer.BadParameter(f"{wanted!r} is not one of {', '.join(allowed)}", param_hint="--group")
    with _engine(database_url, home, install=True) as (engine, _):
        _admin.grant_tenant(engine, name, login, group or ())
    _json({"tenant": name, "login": login}) if as_json else out.print(f"{login} may assert {name}")


@_command(tenant_app, "revoke")
def tenant_revoke(
    name: Annotated[str, typer.Argument(help="The tenant.")],
    login: Annotated[str, typer.Argument(help="The login.")],
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a tenant from a login."""
    with _engine(database_url, home, install=True) as (engine, _):
        _admin.revoke_tenant(engine, name, login)
    _json({"tenant": name, "login": login}) if as_json else out.print(f"{login} may no longer assert {name}")


@_command(app)
def load(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders: Markdown (.md) or JSON lines (.jsonl).")],
    tenant: RequiredTenant,
    id_prefix: Annotated[str, typer.Option("--id-prefix", help="Put before ids made from paths.")] = "",
    version: Annotated[int, typer.Option("--version", min=1, help="Version of files that state none.")] = 1,
    applies_to: Annotated[
        list[str] | None,
        typer.Option("--applies-to", metavar="KEY=VALUE", help="What the documents apply to; repeatable."),
    ] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load documents for a tenant, all or nothing."""
    attributes: dict[str, list[str]] = {}
    for key, value in _pairs(applies_to, "--applies-to"):
        attributes.setdefault(key, []).append(value)
    defaults = _files.Defaults(id_prefix, version, {key: sorted(set(values)) for key, values in attributes.items()})
    files = _files.find_files(paths)
    with (
        _store(database_url, home) as store,
        Progress(console=err, transient=True, disable=not sys.stderr.isatty()) as progress,
        store.tenant(tenant) as bound,
    ):
        task = progress.add_task("loading", total=len(files))
        report = _files.load(bound, files, defaults, lambda done: progress.advance(task, done))
    if as_json:
        _json({"files": len(files), **asdict(report)})
    else:
        out.print(f"{len(files)} files: {report.new} new, {report.same} same, {report.empty} empty")


@_command(contract_app, "add")
def contract_add(
    path: Annotated[Path, typer.Argument(help="A contract in YAML.")],
    tenant: RequiredTenant,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a contract version for a tenant."""
    question, version, content, lines = _files.read_contract(path, tenant)
    with _store(database_url, home) as store, store.tenant(tenant) as bound:
        try:
            added = bound.add_contract(question, version, content)
        except RagSqlError as error:
            if not error.column:
                raise
            raise _files.contract_refusal(error, path, lines) from error
    if as_json:
        _json({"question_id": question, "version": version, "status": added})
    else:
        out.print(f"contract {question} version {version}: {added}")


@_command(app)
def ask(
    question: Annotated[str, typer.Argument(help="Question id: selects the contract.")],
    query: QueryOption,
    tenant: TenantOption = None,
    case: CaseOption = None,
    k: KOption = 10,
    contract_version: Annotated[int | None, typer.Option("--contract-version", help="Default: the newest.")] = None,
    record: Annotated[bool, typer.Option("--record", help="Store the decision as a packet.")] = False,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide whether the evidence is enough; the exit code is the outcome."""
    facts = _case(case)
    with _store(database_url, home) as store, store.tenant(tenant) as bound:
        method = bound.record_packet if record else bound.decide
        evidence = method(question, query=query, case=facts, k=k, contract_version=contract_version)
    claims = draft(evidence) if evidence.sufficient else ()
    if as_json:
        document = evidence.document if isinstance(evidence, Packet) else asdict(evidence)
        _json({**document, "draft": [asdict(claim) for claim in claims]})
    else:
        _render.evidence(out, evidence, claims)
    raise typer.Exit(EXIT_CODES[evidence.outcome])


@_command(app)
def explain(
    question: Annotated[str, typer.Argument(help="Question id: selects the contract.")],
    query: QueryOption,
    tenant: TenantOption = None,
    case: CaseOption = None,
    k: KOption = 10,
    contract_version: Annotated[int | None, typer.Option("--contract-version", help="Default: the newest.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows to print; --json prints all.")] = 30,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say of every visible passage why it was or was not selected."""
    facts = _case(case)
    with _store(database_url, home) as store, store.tenant(tenant) as bound:
        rows = bound.explain(question, query=query, case=facts, k=k, contract_version=contract_version)
    _json([asdict(row) for row in rows]) if as_json else _render.candidates(out, rows, limit)


@_command(packet_app, "show")
def packet_show(
    packet_id: Annotated[str, typer.Argument(help="The packet's id.")],
    tenant: RequiredTenant,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a packet; --json prints the document that `packet verify` takes."""
    with _store(database_url, home) as store, store.tenant(tenant) as bound:
        packet = bound.packet(_uuid(packet_id))
    if as_json:
        typer.echo(packet.to_json())
    else:
        _render.evidence(out, packet, draft(packet) if packet.sufficient else ())


@_command(packet_app, "verify")
def packet_verify(
    path: Annotated[Path, typer.Argument(help="A packet's JSON document; - for standard input.")],
    as_json: JsonOption = False,
) -> None:
    """Verify a packet from its document alone, without a database. Exit code 1 when something does not hold."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
        packet = Packet.from_json(text)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="PATH") from None
    problems = packet.verify()
    if as_json:
        _json({"packet_id": packet.packet_id, "digest": packet.digest, "problems": problems})
    elif problems:
        for problem in problems:
            err.print(f"packet {packet.packet_id}: {problem}", markup=False, highlight=False, soft_wrap=True)
    else:
        out.print(f"packet {packet.packet_id} holds: digest {packet.digest}", soft_wrap=True)
    raise typer.Exit(1 if problems else 0)


@_command(app)
def approve(
    packet_id: Annotated[str, typer.Argument(help="The packet's id.")],
    tenant: RequiredTenant,
    claims: ClaimsOption = None,
    shown: Annotated[
        str | None, typer.Option("--shown", help="Digest of what was shown: decides without asking.")
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Reject instead.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Decide nothing: check that an approval holds now.")] = False,
    reviewer: Annotated[str | None, typer.Option("--as", help="The reviewer's name.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="A note on the decision.")] = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a packet's draft with its verdicts and approve exactly that; or check that an approval still holds."""
    identifier = _uuid(packet_id)
    with _store(database_url, home) as store:
        with store.tenant(tenant) as bound:
            drafted = _read_claims(claims) if claims else draft(bound.packet(identifier))
            if check:
                approval = bound.require_approval(identifier, drafted)
                _json(asdict(approval)) if as_json else _render.approval(out, approval)
                return
            review = bound.review(identifier, drafted)
        if not as_json or shown is None:
            _render.review(err if as_json else out, review)
        if shown is None:
            if not sys.stdin.isatty():
                raise typer.BadParameter(
                    f"not a terminal: pass the digest of what was shown, --shown {review.shown_digest}",
                    param_hint="--shown",
                )
            typer.confirm("Reject this?" if reject else "Approve this?", abort=True, err=True)
            shown = review.shown_digest
        elif shown != review.shown_digest:
            raise typer.BadParameter("something else would be shown now; look again", param_hint="--shown")
        with store.tenant(tenant) as bound:
            decide = bound.reject if reject else bound.approve
            number = decide(review, reviewer_name=reviewer, note=note)
    if as_json:
        _json({"decision_number": number, "decision": "rejected" if reject else "approved", "shown_digest": shown})
    else:
        out.print(f"{'rejected' if reject else 'approved'}: decision {number}")


def _uuid(text: str) -> str:
    import uuid

    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no packet id", param_hint="PACKET_ID") from None


def _read_claims(path: Path) -> tuple[Claim, ...]:
    try:
        return tuple(Claim(**claim) for claim in json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidClaims(f"{path}: {error}") from error


def main() -> None:
    """Entry point of ``rag-sql``."""
    # A pipe that closes early (`rag-sql explain ... | head`) ends the program quietly.
    try:
        app()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
