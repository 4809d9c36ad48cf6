"""What a person sees: tables and lines for the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_sql._admin import KeyRow, TenantRow
from rag_sql._evaluation import STAGES, Evaluation, StageVerdict
from rag_sql._install import Status
from rag_sql._models import Approval, Claim, Evidence, Outcome, Packet, Review, Trace, Verdict
from rag_sql._rows import (
    ApprovalRow,
    AttributeRow,
    Candidate,
    Change,
    ClauseRow,
    ContractRow,
    Hit,
    PacketRow,
    TraceCandidate,
    TraceFinding,
    TracePassage,
    TraceRow,
    TraceTime,
    TraceVerdict,
)

if TYPE_CHECKING:
    from rag_sql._demo import DemoResult

__all__: list[str] = []


#: What a terminal takes for a command; line ends and tabs are none.
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\ufffd")


def as_text(value: object, style: str = "") -> Text:
    """A value as it is: document text is no markup, and gives a terminal no commands."""
    return Text(("" if value is None else str(value)).translate(_CONTROLS), style=style)


def _plain(console: Console, text: str, style: str = "") -> None:
    console.print(as_text(text, style), soft_wrap=not console.is_terminal)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in {"score", "rank"} else "left", overflow="fold")
    return table


def _row(table: Table, *cells: object, style: str = "") -> None:
    table.add_row(*map(as_text, cells), style=style)


def status(console: Console, found: Status) -> None:
    """What a database holds, in two lines."""
    _plain(console, f"{found.database} on PostgreSQL {found.server}, as {found.login}")
    _plain(console, f"{found.state}: revision {found.revision or 'none'}, this rag-sql has {found.head}")
    if found.state == "outdated":
        what = "its functions and policies are" if found.revision == found.head else "it is"
        _plain(console, f"{what} another release's: rag-sql upgrade")


def tenants(console: Console, rows: Sequence[TenantRow]) -> None:
    """Tenants, their logins, and how long they keep traces."""
    table = _table("", "tenant", "logins", "keeps traces")
    for row in rows:
        logins = (f"{login} (only reads)" if login in row.read_only else login for login in row.logins)
        kept = "" if row.tenant == "public" else row.trace_retention or "without end"
        _row(table, row.tenant, ", ".join(logins), kept)
    console.print(table)


def keys(console: Console, rows: Sequence[KeyRow]) -> None:
    """Keys of applications, without their secrets."""
    table = _table("", "key", "login", "expires", "since")
    for row in rows:
        _row(table, row.key_id, row.login, _when(row.expires_at), _when(row.recorded_at))
    console.print(table)


def attributes(console: Console, rows: Sequence[AttributeRow]) -> None:
    """Attributes and their types."""
    table = _table("", "attribute", "type", "declared by", "since")
    for row in rows:
        _row(table, row.attribute, row.type, row.declared_by, _when(row.recorded_at))
    console.print(table)


def trace(console: Console, found: Trace, left_out: Sequence[TracePassage]) -> None:
    """What is to be handed to a model, under its labels, the outcome on it, and what was left out."""
    lost = f", missing: {', '.join(found.missing)}" if found.missing else ""
    _plain(console, f"{found.outcome}{lost}", "bold")
    for passage in found.context:
        above = f" · {' / '.join(passage.heading_path)}" if passage.heading_path else ""
        where = f"{passage.document_id} v{passage.version} {passage.range_start}-{passage.range_end}"
        _plain(console, f"[{passage.label}] {where} ({passage.added_as}){above}", "bold")
        _plain(console, passage.text.strip())
    for row in left_out:
        why = str(row.left_out).replace("_", " ")
        _plain(
            console, f"left out, {why}: {row.document_id} v{row.version} from {row.range_start}, {row.tokens} tokens"
        )
    _plain(console, f"trace {found.trace_id}")


def traces(console: Console, rows: Sequence[TraceRow]) -> None:
    """Traces, a line each."""
    table = _table("", "trace", "recorded", "question", "outcome", "model", "cites", "audit")
    for row in rows:
        cites = None if row.citations is None else " ".join(row.citations)
        _row(table, row.trace_id, _when(row.recorded_at), row.question_id, row.outcome, row.model, cites, row.verdict)
    console.print(table)


def trace_head(console: Console, row: TraceRow) -> None:
    """What was asked, and the outcome on what was handed over."""
    case = " ".join(f"{name}={value}" for name, value in row.case_facts.items())
    _plain(
        console, f"{row.question_id} {case}".rstrip() + f" · K {row.k} · budget {row.budget} · packet {row.packet_id}"
    )
    if row.query is not None:
        _plain(console, f"query: {row.query}")
    lost = f", missing from what was handed over: {', '.join(row.missing)}" if row.missing else ""
    _plain(console, f"{row.outcome}{lost}", "red" if lost else "bold")


def trace_answer(
    console: Console, row: TraceRow, labels: Collection[str | None], verdicts: Sequence[TraceVerdict]
) -> None:
    """What came back: who wrote it, what it cites, and what an audit said of it, sentence by sentence."""
    if row.citations is None:
        _plain(console, "no answer is recorded")
        return
    cites = " ".join(label if label in labels else f"{label} (not handed over)" for label in row.citations)
    _plain(console, f"answer of {row.model}, prompt {row.prompt_version}, cites {cites or 'nothing'}")
    if not verdicts:
        _plain(console, "nobody audited it")
        return
    kept = row.answer is not None
    table = _table("", "from", "to", "verdict", "found by", *(["sentence"] if kept else []))
    for verdict in verdicts:
        said = [" ".join((verdict.sentence or "").split())] if kept else []
        _row(table, verdict.range_start, verdict.range_end, verdict.verdict, " ".join(verdict.checks), *said)
    console.print(table)
    _plain(
        console, f"the audit says: {row.verdict}" + ("" if kept else " (the contract does not keep the answer's text)")
    )


def trace_times(console: Console, rows: Sequence[TraceTime]) -> None:
    """How long each stage took, where somebody measured it."""
    said = [f"{row.stage} {row.took / timedelta(milliseconds=1):.1f} ms" for row in rows if row.took is not None]
    if said:
        _plain(console, f"took: {', '.join(said)}")


def trace_stages(console: Console, candidates: Sequence[TraceCandidate], passages: Sequence[TracePassage]) -> None:
    """A trace, stage by stage."""
    table = _table("candidates", "rank", "score", "document", "version", "from", "visibility", "not eligible because")
    for row in candidates:
        _row(
            table,
            row.position,
            row.score,
            row.document_id,
            row.version,
            row.range_start,
            row.document_tenant,
            (row.reason or "").replace("_", " "),
        )
    console.print(table)
    table = _table(
        "on the way into the context", "label", "document", "version", "from", "tokens", "added as", "left out"
    )
    for passage in passages:
        _row(
            table,
            passage.label,
            passage.document_id,
            passage.version,
            passage.range_start,
            passage.tokens,
            passage.added_as,
            (passage.left_out or "").replace("_", " "),
            style="" if passage.label else "red",
        )
    console.print(table)


def _words(name: str) -> str:
    return name.replace("_", " ")


def evaluation(console: Console, found: Evaluation) -> None:
    """Cases by stage, what was lost or wrong in each, and how many of each verdict there are at each stage."""
    table = _table("", "case", "kind", *map(_words, STAGES))
    for case in found.cases:
        _row(table, case.case_id, case.kind, *map(_words, case.stages.values()))
    console.print(table)
    if any(case.findings for case in found.cases):
        table = _table("not as expected", "case", "stage", "finding", "passage", "what")
        for case in found.cases:
            for row in case.findings:
                _row(table, case.case_id, _words(row.stage), _words(row.finding), ", ".join(row.passages), row.detail)
        console.print(table)
    table = _table("cases", "stage", *map(_words, StageVerdict))
    for stage, counts in found.totals().items():
        _row(table, _words(stage), *counts.values())
    console.print(table)
    if found.unanswered:
        _plain(console, f"no answer: {', '.join(found.unanswered)}")


def trace_findings(console: Console, findings: Sequence[TraceFinding], verdict: str | None) -> None:
    """Where evidence was lost; what it does not mean when it was not, and what an audit has said of the answer."""
    for row in findings:
        what = row.label or f"{row.document_id} v{row.version} from {row.range_start} ({row.tenant})"
        _plain(console, f"{row.finding}: {what}", "red")
    if not findings:
        _plain(console, "nothing found; that does not mean that the answer is right: only identifiers were compared")
    if verdict is not None:
        _plain(console, f"the audit of the answer said: {verdict}")


def reason(candidate: Candidate) -> str:
    """Why a passage may not be used, in words."""
    match candidate.reason:
        case None:
            return ""
        case "superseded" if candidate.successors:
            return f"superseded by {', '.join(candidate.successors)}"
        case "superseded":
            return f"superseded by version {candidate.effective_version}"
        case "attribute_differs" | "attribute_not_stated":
            stated = "does not state it" if candidate.case_value is None else f"has {candidate.case_value}"
            return f"applies to {candidate.attribute} {' or '.join(candidate.applies_to or ())}; the case {stated}"
        case other:
            return other


def candidates(console: Console, rows: Sequence[Candidate], limit: int) -> None:
    """Every visible passage with its score, place and reason."""
    table = _table("", "score", "document", "version", "visibility", "rank", "selected", "not eligible because")
    for row in rows[:limit]:
        _row(
            table,
            row.score,
            row.document_id,
            row.version,
            row.tenant,
            row.eligible_position,
            "yes" if row.selected else "",
            reason(row),
            style="bold" if row.selected else "dim" if not row.eligible else "",
        )
    console.print(table)
    if len(rows) > limit:
        _plain(console, f"... {len(rows) - limit} more (--limit)")


def hits(console: Console, found: Sequence[Hit]) -> None:
    """Passages that a search found: rank, score, place, the beginning of the text."""
    table = _table("", "rank", "score", "document", "version", "visibility", "from", "text")
    for hit in found:
        words = ", ".join(f"{word} {part}" for word, part in hit.why.items()) if isinstance(hit.why, dict) else ""
        start = " ".join(hit.text[:300].split())[:100]
        shown = f"{start} [{words}]" if words else start
        _row(table, hit.position, hit.score, hit.document_id, hit.version, hit.tenant, hit.range_start, shown)
    console.print(table) if found else _plain(console, "nothing that may be used has a word of the query")


def evidence(console: Console, found: Evidence, claims: Sequence[Claim]) -> None:
    """A decision or a packet: outcome, selected passages, coverage, identity, draft."""
    _plain(console, f"{found.question_id}: {found.outcome}", "bold")
    if found.outcome is Outcome.UNSUPPORTED_QUESTION:
        _plain(
            console,
            "No contract that is visible here supports this question; more documents cannot change that."
            " See: rag-sql contract list",
        )
        return
    if found.is_erased:
        _plain(console, "evidence erased: neither valid nor broken; who did, when and why says rag_api.erasure", "red")
    stated = ", ".join(f"{key}={value}" for key, value in sorted(found.case_facts.items())) or "none stated"
    _plain(
        console,
        f"contract {found.contract.tenant} version {found.contract.version} · case {stated} · K={found.request.k}",
    )
    table = _table("selected", "rank", "score", "document", "version", "visibility", "spans")
    for source in found.sources:
        _row(
            table,
            source.position,
            source.score,
            source.document_id,
            source.version,
            source.tenant,
            ", ".join(f"{span.span_id} ({span.fact})" for span in source.spans),
        )
    console.print(table)
    covered = {witness.fact: witness for witness in found.witnesses}
    table = _table("required facts", "fact", "witness", "quotation")
    for fact in found.required:
        witness = covered.get(fact)
        if witness is None:
            _row(table, fact, "missing" if fact in found.missing else "erased", "", style="red")
        else:
            _row(table, fact, f"{witness.document_id} v{witness.version} {witness.span_id}", witness.quote)
    console.print(table)
    if claims:
        _plain(console, "draft of licensed clauses", "bold")
        for claim in claims:
            _plain(console, f"  {claim.text} [{claim.document_id} v{claim.version} {claim.span_id}]")
    if needed := found.needed_decision:
        _plain(console, f"only a person decides: {needed['about']} (decided by {needed['decided_by']})", "bold")
        _plain(console, f"  {needed['refer']}")
    _plain(console, f"evidence ev-{found.digest}")
    if isinstance(found, Packet):
        _plain(console, f"packet {found.packet_id}, recorded {found.recorded_at} by {found.recorded_by}")


def verdicts(console: Console, rows: Sequence[Verdict]) -> None:
    """Claims with their verdicts."""
    table = _table("claims", "verdict", "cites", "claim")
    for row in rows:
        claim = row.claim
        _row(
            table,
            "licensed" if row.licensed else f"withheld: {row.reason}",
            f"{claim.document_id} v{claim.version} {claim.span_id}",
            claim.text,
            style="" if row.licensed else "red",
        )
    console.print(table)


def review(console: Console, shown: Review, changes: Sequence[Change]) -> None:
    """What a reviewer decides about."""
    verdicts(console, shown.verdicts)
    for change in changes:
        _plain(console, f"changed since: {change.subject}: {change.was} -> {change.is_now}", "red")
    _plain(console, f"evidence {shown.evidence_digest}")
    _plain(console, f"draft    {shown.draft_digest}")
    _plain(console, f"shown    {shown.shown_digest}")


def withheld(console: Console, claims: Sequence[Claim]) -> None:
    """Claims that are part of what was approved and may not be said."""
    for claim in claims:
        _plain(console, f"withheld, not to be said: {claim.text}", "red")


def approval(console: Console, found: Approval, claims: Sequence[Claim]) -> None:
    """An approval that holds, and what of the draft it does not let pass."""
    by = found.reviewer_name or found.reviewer_login
    _plain(console, f"approved: decision {found.decision_number} by {by} at {found.recorded_at.isoformat()}")
    withheld(console, [claims[position - 1] for position in found.withheld])


def contracts(console: Console, rows: Sequence[ContractRow]) -> None:
    """Contracts, a line each."""
    table = _table("", "question", "version", "owner", "case", "required facts")
    for row in rows:
        newest = f"{row.version} (newest)" if row.is_newest else row.version
        _row(table, row.question_id, newest, row.tenant, ", ".join(row.case_attributes), ", ".join(row.required_facts))
    console.print(table)


def contract(console: Console, row: ContractRow, clauses: Sequence[ClauseRow]) -> None:
    """One contract: what it requires and licenses."""
    _plain(console, f"{row.question_id} version {row.version} of {row.tenant}", "bold")
    _plain(console, f"case: {', '.join(row.case_attributes) or 'no attributes'} · content {row.content_sha256[:16]}")
    _plain(console, f"traces keep of queries and answers: {row.keep}")
    if row.decision:
        _plain(console, f"{row.decision['decided_by']} decides {row.decision['about']}; say: {row.decision['refer']}")
        for sentence in row.decision["never_say"]:
            _plain(console, f"never say: {sentence}")
    table = _table("", "fact", "on this quotation", "may be said")
    for clause in clauses:
        _row(table, clause.fact, clause.quote, clause.clause)
    console.print(table)


def packets(console: Console, rows: Sequence[PacketRow]) -> None:
    """Packets, a line each."""
    table = _table("", "packet", "recorded", "by", "question", "outcome", "digest")
    for row in rows:
        _row(
            table,
            row.packet_id,
            _when(row.recorded_at),
            row.recorded_by,
            row.question_id,
            f"{row.outcome}, evidence erased" if row.is_erased else row.outcome,
            row.digest[:16],
        )
    console.print(table)


def approvals(console: Console, rows: Sequence[ApprovalRow]) -> None:
    """Decisions, a line each."""
    table = _table("", "status", "packet", "decision", "recorded", "reviewer", "question", "note")
    for row in rows:
        decision = f"{row.decision_number} {row.decision}"
        _row(
            table,
            row.status,
            row.packet_id,
            decision,
            _when(row.recorded_at),
            row.reviewer,
            row.question_id,
            row.note,
            style="green" if row.status == "approved" else "red" if row.status == "stale" else "dim",
        )
    console.print(table)


def _when(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M")


#: How words of a diff are shown: what both texts have, the old one's, the new one's.
_DIFF_STYLES = {" ": "", "-": "red", "+": "green"}


def diff(words: Iterable[tuple[str, str]], indent: str) -> Text:
    """Words of a diff in a row, each with its mark."""
    found = Text(indent)
    for number, (mark, word) in enumerate(words):
        found.append(" " if number else "")
        found.append_text(as_text(f"{mark.strip()}{word}", _DIFF_STYLES[mark]))
    return found


def demo(console: Console, result: DemoResult) -> None:
    """The demo's findings, then whether they are the article's."""
    _plain(console, f"PostgreSQL {result.server}, database {result.database}")
    console.print()
    _plain(
        console,
        "Seen by the auditor; a tenant's login cannot see PRIVATE at all, so only the auditor can take, then filter.",
        "dim",
    )
    table = _table("ranking over all tenants", "rank", "document", "score", "visibility", "eligible for acme", "reason")
    for row in result.ranking:
        why = row["reason"] or ""
        if why == "attribute_differs":
            why = f"applies to {row['attribute']} {' or '.join(row['applies_to'])}; the case has {row['case_value']}"
        _row(
            table,
            row["position"],
            f"{row['document_id']} v{row['version']}",
            row["score"],
            row["tenant"],
            "yes" if row["eligible"] else "no",
            why.replace("_", " "),
        )
    console.print(table)
    console.print()
    _plain(console, "Seen by a reader of acme", "bold")
    candidates(console, result.eligibility, 30)
    console.print()
    for line in result.lines:
        _plain(console, line)
    console.print()
    verdicts(console, result.verdicts)
    console.print()
    for heading, line in zip(("approval", "approval after HOLD-7 was bumped"), result.approval, strict=True):
        _plain(console, f"{heading}: {line}")
    for line in result.wall:
        _plain(console, line)
    console.print()
    _plain(console, "travel receipts: an exception, lost at each stage in turn", "bold")
    for line in result.travel:
        _plain(console, line)
    console.print()
    failed = [check for check in result.checks if not check.holds]
    for check in failed:
        _plain(console, f"DIFFERS {check.name}: expected {check.expected!r}, the server says {check.actual!r}", "red")
    if not failed:
        _plain(console, f"{len(result.checks)} statements compared with the article: all hold", "green")
