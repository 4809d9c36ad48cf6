"""The demo: the gateway corpus in a fresh database of its own, with real logins, against the article's statements.

Every selection, order, verdict and digest is the server's. What is expected stands in :data:`_EXPECTED`; a difference
is reported and makes the demo fail. Digests are compared only for being different.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from rag_sql import _admin, _demo_travel, _files, _install, _loading, _resources, _statements
from rag_sql._drafting import draft
from rag_sql._models import Claim, Decision, Verdict
from rag_sql._rows import Candidate
from rag_sql._store import EvidenceStore, make_engine
from rag_sql._tenant import Tenant
from rag_sql.errors import NoApproval, RagSqlError, StaleApproval

__all__ = ["Check", "DemoResult", "run"]

QUESTION = "gateway-explain-and-next-step-v1"
QUERY = "Gateway G2 telemetry reconnect audit hold rollback"
CASE = {"model": "G2", "firmware": "2.4.1"}

#: The demo's logins: which tenant each is bound to, and which groups it joins.
_LOGINS: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "publisher": ("public", ("publisher",)),
    "acme_reader": ("acme", ("reader",)),
    "acme_curator": ("acme", ("curator",)),
    "acme_reviewer": ("acme", ("reviewer",)),
    "northwind_curator": ("northwind", ("curator",)),
    "auditor": (None, ("auditor",)),
}

_EXPECTED: dict[str, Any] = {
    "ranking": [
        ("OLD-240", 9, 7),
        ("PRIVATE", 1, 7),
        ("GW-241", 3, 4),
        ("HOLD-7", 2, 4),
        ("G2-USB", 1, 2),
        ("BILL-42", 1, 0),
    ],
    "reasons": {
        "OLD-240": "attribute_differs",
        "PRIVATE": "other_tenant",
        "GW-241": None,
        "HOLD-7": None,
        "G2-USB": None,
        "BILL-42": None,
    },
    "K=2": ([], ["GW-241", "HOLD-7"], []),
    "K=1": ([], ["GW-241"], ["audit-constraint"]),
    "K=3": (["GW-241"], ["GW-241", "HOLD-7", "G2-USB"], []),
    "verdicts": ["", "", "the rule does not license this sentence"],
    "unselected citation": "cited source is not in the selected evidence",
    "changed quotation": ["audit-constraint"],
    "version bump": [],
    "unsupported question": "UnsupportedQuestion",
    "wall": ["BILL-42", "G2-USB", "GW-241", "OLD-240", "PRIVATE"],
}


@dataclass(frozen=True)
class Check:
    """One statement: what the article says, what the server says."""

    name: str
    expected: Any
    actual: Any

    @property
    def holds(self) -> bool:
        """Whether they agree."""
        return bool(self.expected == self.actual)


@dataclass
class DemoResult:
    """What the demo found, in the order in which it is shown."""

    checks: list[Check] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    ranking: list[Mapping[str, Any]] = field(default_factory=list)
    eligibility: list[Candidate] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    approval: list[str] = field(default_factory=list)
    wall: list[str] = field(default_factory=list)
    travel: list[str] = field(default_factory=list)
    server: str = ""
    database: str = ""

    def check(self, name: str, actual: Any) -> None:
        """Compare with the article."""
        self.checks.append(Check(name, _EXPECTED[name], actual))

    @property
    def holds(self) -> bool:
        """Whether every statement holds."""
        return all(check.holds for check in self.checks)


@contextmanager
def _fresh_database(admin_url: sa.URL) -> Iterator[tuple[sa.Engine, dict[str, sa.URL]]]:
    """A database and logins of the demo's own, gone afterwards."""
    suffix = secrets.token_hex(4)
    database = f"rag_sql_demo_{suffix}"
    maintenance = make_engine(admin_url, isolation_level="AUTOCOMMIT")
    logins = {name: f"{name}_{suffix}" for name in _LOGINS}
    # A password each, so that the demo also runs on a server that asks for one.
    passwords = {name: secrets.token_urlsafe(24) for name in _LOGINS}
    with ExitStack() as undo:
        undo.callback(maintenance.dispose)
        connection = undo.enter_context(maintenance.connect())

        def run(statement: str, *parts: sql.Composable) -> None:
            connection.exec_driver_sql(sql.SQL(statement).format(*parts).as_string())

        run("create database {} encoding 'UTF8' template template0", sql.Identifier(database))
        undo.callback(run, "drop database {} with (force)", sql.Identifier(database))
        engine = make_engine(admin_url.set(database=database))
        undo.callback(engine.dispose)
        _install.install(engine)
        for name, login in logins.items():
            run("create role {} login password {}", sql.Identifier(login), sql.Literal(passwords[name]))
            undo.callback(run, "drop role {}", sql.Identifier(login))
        for tenant in ("acme", "northwind"):
            _admin.add_tenant(engine, tenant)
        for name, (bound, groups) in _LOGINS.items():
            if bound is not None:
                _admin.grant_tenant(engine, bound, logins[name], groups)
            else:
                with engine.begin() as administration:
                    _admin.join_groups(administration, logins[name], groups)
        urls = {
            name: admin_url.set(database=database, username=login, password=passwords[name])
            for name, login in logins.items()
        }
        yield engine, urls


def run(admin_url: sa.URL, step: Callable[[str], None] = lambda _name: None) -> DemoResult:
    """Run the demo on a server.

    Parameters
    ----------
    admin_url : sqlalchemy.URL
        A login that may create databases and roles, and the extension ``vector``.
    step : callable
        Told what is being done.
    """
    result = DemoResult()
    step("installing a fresh database with six logins")
    with _fresh_database(admin_url) as (engine, urls), ExitStack() as stack:
        status = _install.status(engine)
        result.server, result.database = status.server, status.database
        stores = {name: stack.enter_context(EvidenceStore.connect(url)) for name, url in urls.items()}
        step("loading six documents and a contract")
        _load(stores)
        step("ranking and deciding")
        _compare_orders(stores, urls["auditor"], result)
        step("checking claims")
        packet_id, claims, before = _check_claims(stores, result)
        step("approving, changing the evidence, asking again")
        _approve_and_change(stores, packet_id, claims, before, result)
        _look_over_the_wall(stores, result)
        step("losing an exception, stage by stage")
        _travel(stores, result)
    return result


@contextmanager
def _as(stores: Mapping[str, EvidenceStore], login: str) -> Iterator[Tenant]:
    with stores[login].tenant(_LOGINS[login][0]) as tenant:
        yield tenant


def _load(stores: Mapping[str, EvidenceStore]) -> None:
    seed = _resources.find("seed") / "gateway"
    with _as(stores, "publisher") as tenant:
        for attribute in CASE:
            tenant.set_attribute(attribute, "text")
    for login, folder in (("publisher", "public"), ("acme_curator", "acme"), ("northwind_curator", "northwind")):
        with _as(stores, login) as tenant:
            _loading.load(tenant, _files.find_files([seed / folder]), _files.Defaults())
    with _as(stores, "publisher") as tenant:
        question, version, content, _ = _files.read_contract(seed / "contract.yaml", "public")
        tenant.add_contract(question, version, content)


def _load_change(stores: Mapping[str, EvidenceStore], name: str) -> None:
    path = _resources.find("seed") / "gateway" / "changes" / name
    with _as(stores, "acme_curator") as tenant:
        _loading.load(tenant, _files.find_files([path]), _files.Defaults())


def _decide(tenant: Tenant, k: int, question: str = QUESTION) -> Decision:
    return tenant.decide(question, query=QUERY, case=CASE, k=k)


def _ids(decision: Decision) -> list[str]:
    return [source.document_id for source in decision.sources]


def _compare_orders(stores: Mapping[str, EvidenceStore], auditor: sa.URL, result: DemoResult) -> None:
    """Take-then-filter is the auditor's to show: a tenant cannot see PRIVATE at all."""
    parameters = {"tenant": "acme", "query": QUERY, "case_facts": json.dumps(CASE)}
    naive: dict[int, list[str]] = {}
    engine = make_engine(auditor)
    with engine.connect() as connection:
        result.ranking = [dict(row) for row in connection.execute(_statements.GLOBAL_RANKING, parameters).mappings()]
        for k in (2, 1, 3):
            taken = connection.execute(_statements.TAKE_THEN_FILTER, {**parameters, "k": k})
            naive[k] = list(taken.scalars())
    engine.dispose()
    result.check("ranking", [(row["document_id"], row["version"], row["score"]) for row in result.ranking])
    result.check("reasons", {row["document_id"]: row["reason"] for row in result.ranking})
    with _as(stores, "acme_reader") as tenant:
        result.eligibility = tenant.explain(QUESTION, query=QUERY, case=CASE, k=2)
        for k, taken_first in naive.items():
            decision = _decide(tenant, k)
            result.check(f"K={k}", (taken_first, _ids(decision), list(decision.missing)))
            result.lines.append(
                f"K={k} take-then-filter: [{', '.join(taken_first)}]"
                f"  filter-then-take: [{', '.join(_ids(decision))}]  missing={', '.join(decision.missing)}"
            )


def _check_claims(stores: Mapping[str, EvidenceStore], result: DemoResult) -> tuple[str, tuple[Claim, ...], str]:
    seed = _resources.find("seed") / "gateway"
    candidates = tuple(Claim(**claim) for claim in json.loads((seed / "claims.json").read_text("utf-8")))
    stray = Claim(candidates[1].text, "audit-constraint", "acme", "HOLD-9", 1, "s1")
    with _as(stores, "acme_reader") as tenant:
        packet = tenant.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
        result.verdicts = tenant.check_claims(packet, [*candidates, stray])
    *three, refused = result.verdicts
    result.check("verdicts", [verdict.reason for verdict in three])
    result.check("unselected citation", refused.reason)
    return packet.packet_id, draft(packet), packet.digest


def _approve_and_change(
    stores: Mapping[str, EvidenceStore], packet_id: str, claims: tuple[Claim, ...], before: str, result: DemoResult
) -> None:
    with _as(stores, "acme_reviewer") as tenant:
        tenant.approve(tenant.review(packet_id, claims), reviewer_name="Reviewer of the demo")
    result.approval.append(_required(stores, packet_id, claims))

    _load_change(stores, "HOLD-7-v3-changed.md")
    with _as(stores, "acme_reader") as tenant:
        changed = _decide(tenant, 2)
    result.check("changed quotation", list(changed.missing))
    result.lines.append(f"changed quote, old tag: missing={', '.join(changed.missing)}")

    _load_change(stores, "HOLD-7-v4-same-quotation.md")
    with _as(stores, "acme_reader") as tenant:
        bumped = _decide(tenant, 2)
        unsupported = _decide(tenant, 2, "gateway-free-question")
    result.check("version bump", list(bumped.missing))
    result.lines.append(
        f"version bump only: missing=[{', '.join(bumped.missing)}]"
        f" snapshot ev-{bumped.digest[:16]} (was ev-{before[:16]})"
    )
    result.check("unsupported question", str(unsupported.outcome))
    result.lines.append(f"question {unsupported.question_id}: {unsupported.outcome}")
    result.approval.append(_required(stores, packet_id, claims))

    result.checks.append(Check("a version bump changes the digest", True, bumped.digest != before))
    result.checks.append(Check("the approval is accepted", True, result.approval[0].startswith("accepted")))
    result.checks.append(Check("the approval goes stale", True, result.approval[1].startswith("StaleApproval")))


def _required(stores: Mapping[str, EvidenceStore], packet_id: str, claims: tuple[Claim, ...]) -> str:
    """Ask for the approval, as the application does before it uses a draft; what came of it."""
    try:
        with _as(stores, "acme_reader") as tenant:
            approval = tenant.require_approval(packet_id, claims)
    except (NoApproval, StaleApproval) as error:
        return f"{type(error).__name__}: {error.detail or error.message}"
    return f"accepted: decision {approval.decision_number} by {approval.reviewer_name}"


def _look_over_the_wall(stores: Mapping[str, EvidenceStore], result: DemoResult) -> None:
    """The other tenant's login: what it sees, and what it is told when it asserts acme."""
    with _as(stores, "northwind_curator") as tenant:
        seen = {candidate.document_id for candidate in tenant.explain(QUESTION, query=QUERY, case=CASE, k=9)}
    result.check("wall", sorted(seen))
    result.wall.append(f"northwind's login sees {', '.join(sorted(seen))}")
    try:
        with stores["northwind_curator"].tenant("acme"):
            refused = "nothing: acme was bound"
    except RagSqlError as error:
        refused = type(error).__name__
    result.checks.append(Check("northwind's login asserts acme", "TenantNotBound", refused))
    result.wall.append(f"northwind's login asserts acme: {refused}")


def _travel(stores: Mapping[str, EvidenceStore], result: DemoResult) -> None:
    """The second corpus: a policy in two revisions, with an exception."""
    with _as(stores, "acme_curator") as tenant:
        _demo_travel.add(tenant)
    with _as(stores, "acme_reader") as tenant:
        for name, actual in _demo_travel.statements(tenant):
            result.checks.append(Check(name, _demo_travel.EXPECTED[name], actual))
            result.travel.append(f"{name}: {_said(actual)}")


def _said(value: Any) -> str:
    """A finding as a person reads it."""
    if isinstance(value, str):
        return value
    return ", ".join(_said(part) for part in value) or "no finding"
