"""Evaluation: what becomes of the cases of a set, stage by stage, against the store as it is.

Each case is decided, its context assembled, its answer recorded and diagnosed as in use, by the same functions, and all
of it is rolled back. A stage is judged by what is lost in it. What was lost before it is not held against it: there it
is not judged, and neither are the stages of an answer where there is none. Nothing is averaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rag_sql import _statements
from rag_sql._audit import audit_answer
from rag_sql._audit_text import cut, says
from rag_sql._evaluation_files import AnswerNeeds, Case, EvaluationSet, read_answers, read_set
from rag_sql._models import ContextPassage, Outcome, Trace
from rag_sql._rows import TraceFinding
from rag_sql._tenant import Tenant
from rag_sql.errors import (
    FileRefused,
    InvalidRequest,
    NothingToAudit,
    PassageWithoutText,
    RagSqlError,
    UnsupportedQuestion,
)

__all__ = ["STAGES", "CaseFinding", "EvaluatedCase", "Evaluation", "StageVerdict", "evaluate"]

#: The stages, in the order in which evidence passes through them.
STAGES = ("retrieved", "in_context", "covered", "cited", "audit")


#: Stands in the place of model and prompt version, which an evaluation does not know.
_WHO = "evaluation"


class StageVerdict(StrEnum):
    """What is said of a case at one stage."""

    PASSED = "pass"
    FAILED = "fail"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True)
class CaseFinding:
    """One thing that was not as a case expects.

    Attributes
    ----------
    stage : str
        One of the five in ``STAGES``.
    finding : str
        ``retrieval_miss``, ``eligible``; ``context_loss``, ``handed_over``; ``outcome``; ``unknown_citation``,
        ``not_cited``; ``not_said``, ``said``, ``states_decision``, ``not_auditable`` or the audit's verdict.
    passages : tuple of str
        Names, in the set, of the passage that is concerned.
    detail : str
        One sentence for a reader.
    """

    stage: str
    finding: str
    passages: tuple[str, ...]
    detail: str


@dataclass(frozen=True)
class EvaluatedCase:
    """What became of a case.

    Attributes
    ----------
    case_id, kind, question_id, query : str
        As the set has them.
    outcome : Outcome
        On the context.
    missing : tuple of str
        Required facts without a witness in the context.
    needed_decision : mapping or None
        What only a person can decide, as the contract has it.
    context : tuple of ContextPassage
        What is to be handed to a model.
    answer : str or None
        What was judged.
    stages : mapping of str to StageVerdict
        By stage, in order.
    findings : tuple of CaseFinding
        In the order of the stages.
    """

    case_id: str
    kind: str
    question_id: str
    query: str
    outcome: Outcome
    missing: tuple[str, ...]
    needed_decision: Mapping[str, Any] | None
    context: tuple[ContextPassage, ...]
    answer: str | None
    stages: Mapping[str, StageVerdict]
    findings: tuple[CaseFinding, ...]

    def to_dict(self) -> dict[str, Any]:
        """The case as JSON values, its identifier under ``id`` as in the set."""
        values = asdict(self)
        return {"id": values.pop("case_id"), **values}


@dataclass(frozen=True)
class Evaluation:
    """What became of the cases of a set.

    Attributes
    ----------
    cases : tuple of EvaluatedCase
        In the order of the set.
    unanswered : tuple of str
        Cases that say what an answer must be and have none, though answers were given for the run.
    """

    cases: tuple[EvaluatedCase, ...]
    unanswered: tuple[str, ...]

    @property
    def as_expected(self) -> bool:
        """Whether no case fails at any stage, and no answer stayed away."""
        return not self.unanswered and not any(case.findings for case in self.cases)

    def totals(self) -> dict[str, dict[StageVerdict, int]]:
        """The number of cases of each verdict, by stage; never averaged into one score."""
        return {
            stage: {verdict: sum(case.stages[stage] is verdict for case in self.cases) for verdict in StageVerdict}
            for stage in STAGES
        }

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON values."""
        return {
            "as_expected": self.as_expected,
            "totals": self.totals(),
            "unanswered": list(self.unanswered),
            "cases": [case.to_dict() for case in self.cases],
        }


class _Undo(Exception):
    """Ends a savepoint so that nothing of it is stored."""


@contextmanager
def _undone(tenant: Tenant) -> Iterator[None]:
    try:
        with tenant.savepoint():
            yield
            raise _Undo
    except _Undo:
        pass


def evaluate(tenant: Tenant, file: Path, *, answers: Mapping[str, str] | Path | None = None) -> Evaluation:
    """Run an evaluation set against the store; nothing of it is stored.

    Parameters
    ----------
    tenant : Tenant
        Who asks. A login that may record packets.
    file : pathlib.Path
        The set, in YAML.
    answers : mapping of str to str, or pathlib.Path, optional
        Answers by the ids of cases, or a file of JSON lines ``{"id": ..., "answer": ...}``. They take the place of
        those in the set.

    Raises
    ------
    FileRefused
        With the line: the set or the answers are malformed; a quotation stands in no passage of its version, or in
        several; a question, a contract version or case facts are not the store's.
    InvalidRequest
        An answer is to a case that is not in the set.
    TenantRequired
    """
    found = read_set(file)
    ids = [case.case_id for case in found.cases]
    given = read_answers(answers, ids) if isinstance(answers, Path) else answers
    if unknown := [case_id for case_id in given or () if case_id not in ids]:
        raise InvalidRequest(f"no case has the id {unknown[0]!r}")
    places = _places(tenant, found)
    cases = []
    for case in found.cases:
        answer = (given or {}).get(case.case_id, case.answer.text if case.answer else None)
        try:
            with _undone(tenant):
                cases.append(_evaluated(tenant, case, places, answer))
        except RagSqlError as error:
            if error.sqlstate is None or not error.sqlstate.startswith("RS01"):
                raise
            raise _refusal(found, case, error) from error
    unanswered = [
        case.case_id
        for case, done in zip(found.cases, cases, strict=True)
        if given is not None and case.answer is not None and done.answer is None
    ]
    return Evaluation(tuple(cases), tuple(unanswered))


def _refusal(found: EvaluationSet, case: Case, error: RagSqlError) -> FileRefused:
    reason = f"case {case.case_id!r}: {error.message}"
    return found.refusal(case.line, reason, detail=error.detail, hint=error.hint, cause_code=error.sqlstate)


@dataclass(frozen=True)
class _Place:
    """The passage that a name stands for."""

    tenant: str
    document_id: str
    version: int
    range_start: int
    range_end: int

    def __str__(self) -> str:
        return f"{self.document_id} v{self.version} {self.range_start}-{self.range_end}"


def _places(tenant: Tenant, found: EvaluationSet) -> dict[str, _Place]:
    """The passages that the names of a set stand for: each the only one in which its quotation stands."""
    named = [{"name": name, **asdict(passage)} for name, passage in found.passages.items()]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in found.passages}
    for row in tenant._rows(_statements.PASSAGES_QUOTED, named=json.dumps(named)):
        rows[row.pop("name")].append(row)
    places = {}
    for name, passage in found.passages.items():
        version = f"version {passage.version} of {passage.document_id}"
        if not rows[name]:
            raise found.refusal(passage.line, f"{name}: there is no {version} that {tenant.name or 'public'} can see")
        if len(rows[name]) > 1:
            raise found.refusal(
                passage.line,
                f"{name}: {' and '.join(row['tenant'] for row in rows[name])} each have a {version}",
                hint="Say whose is meant under the key tenant.",
            )
        (row,) = rows[name]
        count = row.pop("passages")
        if count != 1:
            where = f"in {count} passages" if count else "in no passage"
            raise found.refusal(
                passage.line,
                f"{name}: the quotation stands {where} of {version}",
                hint="Copy it character by character from within one passage, as much as stands there alone.",
            )
        places[name] = _Place(document_id=passage.document_id, version=passage.version, **row)
    return places


def _evaluated(tenant: Tenant, case: Case, places: Mapping[str, _Place], answer: str | None) -> EvaluatedCase:
    """A case decided, assembled, answered and diagnosed as in use."""
    try:
        packet = tenant.record_packet(
            case.question_id,
            query=case.query,
            case=case.case_facts,
            k=case.k,
            contract_version=case.contract_version,
        )
    except UnsupportedQuestion:
        return _unsupported(case)
    trace = tenant.record_trace(packet.packet_id, budget=case.budget, neighbours=case.neighbours, candidates=0)
    labels = _recorded(tenant, trace, answer)
    required = {name: places[name] for name in case.required}
    diagnosis = tenant.diagnose_trace(trace.trace_id, list(required.values())) if required else []
    context = {_key(passage): passage.label for passage in trace.context}
    needs = case.answer or AnswerNeeds()
    decision = packet.needed_decision
    findings = [
        *_lost(required, diagnosis),
        *_used(tenant, {name: places[name] for name in case.forbidden}, packet.case_facts, context),
        *_outcome(case, trace.outcome, trace.missing),
    ]
    if answer is not None:
        findings += _uncited({name: places[name] for name in needs.cites}, context, labels, diagnosis)
        findings += _said(needs, answer, decision["never_say"] if decision else [])
        findings += _audited(needs, answer, trace, decision["refer"] if decision else "")
    judged = {
        "retrieved": bool(required),
        "in_context": bool(required) and not any(row.finding == "retrieval_miss" for row in diagnosis),
        "covered": True,
        "cited": answer is not None and all(_key(places[name]) in context for name in needs.cites),
        "audit": answer is not None,
    }
    return EvaluatedCase(
        case_id=case.case_id,
        kind=case.kind,
        question_id=case.question_id,
        query=case.query,
        outcome=trace.outcome,
        missing=trace.missing,
        needed_decision=decision,
        context=trace.context,
        answer=answer,
        stages=_stages(findings, judged),
        findings=tuple(sorted(findings, key=lambda finding: STAGES.index(finding.stage))),
    )


def _unsupported(case: Case) -> EvaluatedCase:
    """A case whose question has no contract: there is nothing to retrieve, and nothing to answer."""
    findings = tuple(_outcome(case, Outcome.UNSUPPORTED_QUESTION, ()))
    return EvaluatedCase(
        case_id=case.case_id,
        kind=case.kind,
        question_id=case.question_id,
        query=case.query,
        outcome=Outcome.UNSUPPORTED_QUESTION,
        missing=(),
        needed_decision=None,
        context=(),
        answer=None,
        stages=_stages(findings, {"covered": True}),
        findings=findings,
    )


def _stages(findings: Sequence[CaseFinding], judged: Mapping[str, bool]) -> dict[str, StageVerdict]:
    failed = {finding.stage for finding in findings}
    return {
        stage: StageVerdict.FAILED
        if stage in failed
        else StageVerdict.PASSED
        if judged.get(stage, False)
        else StageVerdict.NOT_JUDGED
        for stage in STAGES
    }


def _key(place: Any) -> tuple[str, str, int, int]:
    """What a passage is known by, in whatever form it comes."""
    return place.tenant, place.document_id, place.version, place.range_start


def _recorded(tenant: Tenant, trace: Trace, answer: str | None) -> list[str]:
    """The labels that an answer cites, as they are recorded with it."""
    if not answer:
        return []
    sentences = cut(answer, [passage.label for passage in trace.context])
    labels = list(dict.fromkeys(label for sentence in sentences for label in sentence.citations))
    tenant.record_answer(trace.trace_id, answer, labels, model=_WHO, prompt_version=_WHO)
    return labels


def _lost(required: Mapping[str, _Place], diagnosis: Sequence[TraceFinding]) -> Iterator[CaseFinding]:
    """Required passages that were lost on the way, each at its stage."""
    for finding, stage, what in (
        ("retrieval_miss", "retrieved", "was not retrieved"),
        ("context_loss", "in_context", "was retrieved and not handed over"),
    ):
        lost = [_key(row) for row in diagnosis if row.finding == finding]
        for name, place in required.items():
            if _key(place) in lost:
                yield CaseFinding(stage, finding, (name,), f"{place} {what}")


def _used(
    tenant: Tenant,
    forbidden: Mapping[str, _Place],
    case_facts: Mapping[str, str],
    context: Mapping[tuple[str, str, int, int], str],
) -> Iterator[CaseFinding]:
    """Forbidden passages that may be used for this case, or were handed over."""
    rows = tenant._rows(
        _statements.ELIGIBLE_AMONG,
        case_facts=json.dumps(dict(case_facts)),
        places=json.dumps([asdict(place) for place in forbidden.values()]),
    )
    eligible = {(row["tenant"], row["document_id"], row["version"]) for row in rows}
    for name, place in forbidden.items():
        if _key(place)[:3] in eligible:
            yield CaseFinding("retrieved", "eligible", (name,), f"{place} is eligible and must not be")
        if label := context.get(_key(place)):
            yield CaseFinding(
                "in_context", "handed_over", (name,), f"{place} was handed over as {label} and must not be"
            )


def _outcome(case: Case, outcome: Outcome, missing: Sequence[str]) -> Iterator[CaseFinding]:
    if outcome is not case.outcome:
        lacking = f"; missing: {', '.join(missing)}" if missing else ""
        yield CaseFinding("covered", "outcome", (), f"{outcome}, expected {case.outcome}{lacking}")


def _uncited(
    cites: Mapping[str, _Place],
    context: Mapping[tuple[str, str, int, int], str],
    labels: Sequence[str],
    diagnosis: Sequence[TraceFinding],
) -> Iterator[CaseFinding]:
    """Labels that nobody handed over, and passages that were handed over and had to be cited."""
    for row in diagnosis:
        if row.finding == "unknown_citation":
            yield CaseFinding("cited", row.finding, (), f"nothing was handed over as {row.label}")
    for name, place in cites.items():
        label = context.get(_key(place))
        if label is not None and label not in labels:
            yield CaseFinding("cited", "not_cited", (name,), f"{place} was handed over as {label} and is not cited")


def _said(needs: AnswerNeeds, answer: str, decides: Sequence[str]) -> Iterator[CaseFinding]:
    """Texts that had to be said and are not, or are and must not be; and a decision that only a person makes."""
    for text in needs.says:
        if not says(answer, text):
            yield CaseFinding("audit", "not_said", (), f"does not say {text!r}")
    for text in needs.never_says:
        if says(answer, text):
            yield CaseFinding("audit", "said", (), f"says {text!r}")
    for text in decides:
        if says(answer, text):
            yield CaseFinding("audit", "states_decision", (), f"states the decision that only a person makes: {text!r}")


def _audited(needs: AnswerNeeds, answer: str, trace: Trace, refer: str) -> Iterator[CaseFinding]:
    """What the audit says, where the case does not expect it.

    Whom to ask is the contract's sentence and in no document: word for word as it stands there it is not audited.
    """
    sources = {passage.label: "\n".join((*passage.heading_path, passage.text)) for passage in trace.context}
    try:
        report = audit_answer(answer.replace(refer, " " * len(refer)) if refer else answer, sources)
    except (NothingToAudit, PassageWithoutText) as error:
        yield CaseFinding("audit", "not_auditable", (), error.message)
        return
    if report.verdict not in needs.audit:
        expected = f"expected {' or '.join(needs.audit)}"
        reasons = [f"{' '.join(found.said.split())!r}: {found.reason}" for found in report.findings]
        yield CaseFinding("audit", str(report.verdict), (), "; ".join([expected, *reasons]))
