"""Commands of readers and reviewers: ask, explain, packet, approve."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_sql import _render
from rag_sql._drafting import draft
from rag_sql._models import Claim, Outcome, Packet
from rag_sql._tenant import Tenant
from rag_sql.cli._apps import app, packet_app
from rag_sql.cli._common import (
    EXIT_CODES,
    CaseOption,
    ClaimsOption,
    HomeOption,
    JsonOption,
    KnownAtOption,
    KOption,
    MethodOption,
    ParameterOption,
    QueryOption,
    RequiredTenant,
    TenantOption,
    UrlOption,
    ValidAtOption,
    case_of,
    command,
    err,
    open_store,
    out,
    parameters_of,
    print_json,
    uuid_of,
)
from rag_sql.errors import EvidenceInsufficient, InvalidClaims, PresentationChanged

__all__: list[str] = []


@command(app)
def ask(
    question: Annotated[str, typer.Argument(help="Question id: selects the contract.")],
    query: QueryOption,
    tenant: TenantOption = None,
    case: CaseOption = None,
    k: KOption = 10,
    method: MethodOption = None,
    parameter: ParameterOption = None,
    contract_version: Annotated[int | None, typer.Option("--contract-version", help="Default: the newest.")] = None,
    valid_at: ValidAtOption = None,
    known_at: KnownAtOption = None,
    record: Annotated[bool, typer.Option("--record", help="Store the decision as a packet.")] = False,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide whether the evidence is enough; the exit code is the outcome."""
    facts = case_of(case)
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        decide = bound.record_packet if record else bound.decide
        evidence = decide(
            question,
            query=query,
            case=facts,
            k=k,
            contract_version=contract_version,
            valid_at=valid_at,
            known_at=known_at,
            method=method,
            parameters=parameters_of(parameter, method, query),
        )
    claims = draft(evidence) if evidence.covered else ()
    if as_json:
        if evidence.outcome is Outcome.UNSUPPORTED_QUESTION:
            document: Mapping[str, Any] = {"outcome": evidence.outcome, "question_id": evidence.question_id}
        elif isinstance(evidence, Packet):
            document = {**evidence.document, "witnesses": [asdict(witness) for witness in evidence.witnesses]}
        else:
            document = asdict(evidence)
        print_json({**document, "draft": [asdict(claim) for claim in claims]})
    else:
        _render.evidence(out, evidence, claims)
    raise typer.Exit(EXIT_CODES[evidence.outcome])


@command(app)
def explain(
    question: Annotated[str, typer.Argument(help="Question id: selects the contract.")],
    query: QueryOption,
    tenant: TenantOption = None,
    case: CaseOption = None,
    k: KOption = 10,
    method: MethodOption = None,
    parameter: ParameterOption = None,
    contract_version: Annotated[int | None, typer.Option("--contract-version", help="Default: the newest.")] = None,
    valid_at: ValidAtOption = None,
    known_at: KnownAtOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows to print; --json prints all.")] = 30,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say of every visible passage why it was or was not selected."""
    facts = case_of(case)
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        rows = bound.explain(
            question,
            query=query,
            case=facts,
            k=k,
            contract_version=contract_version,
            valid_at=valid_at,
            known_at=known_at,
            method=method,
            parameters=parameters_of(parameter, method, query),
        )
    print_json([asdict(row) for row in rows]) if as_json else _render.candidates(out, rows, limit)


@command(packet_app, "show")
def packet_show(
    packet_id: Annotated[str, typer.Argument(help="The packet's id.")],
    tenant: RequiredTenant,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a packet; --json prints the document that `packet verify` takes."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        packet = bound.packet(uuid_of(packet_id))
    if as_json:
        typer.echo(packet.to_json())
    else:
        _render.evidence(out, packet, draft(packet) if packet.covered and not packet.is_erased else ())


@command(packet_app, "verify")
def packet_verify(
    path: Annotated[Path, typer.Argument(help="A packet's JSON document; - for standard input.")],
    as_json: JsonOption = False,
) -> None:
    """Verify a packet from its document alone, without a database.

    Exit code 1 when something does not hold; 5 when evidence was erased, and the rest holds.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
        packet = Packet.from_json(text)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="PATH") from None
    problems = packet.verify()
    if as_json:
        print_json({"packet_id": packet.packet_id, "digest": packet.digest, "problems": problems})
    elif problems:
        for problem in problems:
            err.print(f"packet {packet.packet_id}: {problem}", markup=False, highlight=False, soft_wrap=True)
    else:
        out.print(f"the evidence of packet {packet.packet_id} holds: texts, spans, contract, coverage", soft_wrap=True)
        out.print(f"digest {packet.digest}", soft_wrap=True)
    raise typer.Exit(1 if problems else 0)


@command(app)
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
    """Show a packet's draft with its verdicts and approve exactly that; or check that an approval still holds.

    A draft file is a JSON array of objects with text, fact, tenant, document_id, version and span_id.
    """
    identifier = uuid_of(packet_id)
    if check and (reject or shown or reviewer or note):
        raise typer.BadParameter(
            "decides nothing: it goes with none of --reject, --shown, --as and --note", param_hint="--check"
        )
    with open_store(database_url, home) as store:
        with store.tenant(tenant) as bound:
            drafted = _read_claims(claims) if claims else _template_draft(bound, identifier)
            if check:
                approval = bound.require_approval(identifier, drafted)
                print_json(asdict(approval)) if as_json else _render.approval(out, approval, drafted)
                return
            review = bound.review(identifier, drafted)
            changes = bound.evidence_changes(identifier)
        asks = shown is None and sys.stdin.isatty()
        if not as_json or asks:
            _render.review(err if as_json else out, review, changes)
        if shown is None:
            if not asks:
                raise typer.BadParameter(
                    f"not a terminal: pass the digest of what was shown, --shown {review.shown_digest}",
                    param_hint="--shown",
                )
            if not typer.confirm("Reject this?" if reject else "Approve this?", err=True):
                err.print("nothing was decided")
                raise typer.Exit(1)
            shown = review.shown_digest
        elif shown != review.shown_digest:
            raise PresentationChanged(
                "what was shown is not what would be shown now", hint="Look again: run the command without --shown."
            )
        with store.tenant(tenant) as bound:
            decide = bound.reject if reject else bound.approve
            number = decide(review, reviewer_name=reviewer, note=note)
    if as_json:
        print_json({"decision_number": number, "decision": "rejected" if reject else "approved", "shown_digest": shown})
    else:
        out.print(f"{'rejected' if reject else 'approved'}: decision {number}")
        _render.withheld(out, [verdict.claim for verdict in review.verdicts if not verdict.licensed and not reject])


def _template_draft(tenant: Tenant, packet_id: str) -> tuple[Claim, ...]:
    packet = tenant.packet(packet_id)
    if packet.is_erased:
        tenant.evidence_changes(packet_id)  # raises, and says what was erased, when and why
    if not packet.covered:
        raise EvidenceInsufficient(
            f"packet {packet.packet_id} is not sufficient: required facts are missing",
            detail=f"Missing: {', '.join(packet.missing)}",
            hint="Load the missing evidence, decide again and record a new packet.",
        )
    return draft(packet)


def _read_claims(path: Path) -> tuple[Claim, ...]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidClaims(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidClaims(f"{path} is not JSON: {error}") from error
    try:
        return tuple(Claim(**claim) for claim in found)
    except TypeError as error:
        raise InvalidClaims(
            f"{path} is not an array of claims",
            hint="A claim has text, fact, tenant, document_id, version and span_id, and nothing else.",
        ) from error
