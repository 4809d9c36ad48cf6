"""Evaluation sets: YAML that a person writes about the questions of a corpus, and answers that a model gave.

A set names passages once, under ``passages``, by document, version and a quotation that stands in one passage. Its
cases say by these names what must be retrieved, what must not be used, and what an answer has to cite. Whatever is
misspelt is refused with file and line: an expectation that nobody checks would look like one that holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rag_sql import _files
from rag_sql._audit_model import AuditVerdict
from rag_sql._models import Outcome
from rag_sql._yaml import Lines
from rag_sql.errors import FileRefused

__all__ = ["AnswerNeeds", "Case", "EvaluationSet", "NamedPassage", "read_answers", "read_set"]

Kind = TypeVar("Kind", bound=StrEnum)


@dataclass(frozen=True)
class NamedPassage:
    """A passage as a person names it: the one of a version in which a quotation stands.

    Attributes
    ----------
    tenant : str or None
        Whose document; None where only one that is visible has this id and version.
    document_id, version, quote : str, int, str
    line : int
        Of the quotation.
    """

    tenant: str | None
    document_id: str
    version: int
    quote: str
    line: int


@dataclass(frozen=True)
class AnswerNeeds:
    """What an answer must be.

    Attributes
    ----------
    text : str or None
        The answer that the set itself has.
    cites : tuple of str
        Names of required passages that it must cite.
    says, never_says : tuple of str
        Texts that must, and must not, stand in it.
    audit : tuple of AuditVerdict
        What the audit may say of it.
    """

    text: str | None = None
    cites: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    never_says: tuple[str, ...] = ()
    audit: tuple[AuditVerdict, ...] = (AuditVerdict.NO_FINDING,)


@dataclass(frozen=True)
class Case:
    """A case of a set: a question that is asked, and what is expected at each stage.

    Attributes
    ----------
    case_id, kind : str
        Unique in the set; what it is an example of, in the writer's words.
    question_id, contract_version : str, int or None
    query, case_facts, k, budget, neighbours
        As for ``record_packet`` and ``record_trace``.
    outcome : Outcome
        Expected, on the context.
    required, forbidden : tuple of str
        Names of passages that must reach the context; that must be neither eligible nor in it.
    answer : AnswerNeeds or None
        None where the case says nothing about answers.
    line : int
    """

    case_id: str
    kind: str
    question_id: str
    contract_version: int | None
    query: str
    case_facts: Mapping[str, str]
    k: int
    budget: int
    neighbours: int
    outcome: Outcome
    required: tuple[str, ...]
    forbidden: tuple[str, ...]
    answer: AnswerNeeds | None
    line: int


@dataclass(frozen=True)
class EvaluationSet:
    """A file of cases, and the passages that they name."""

    path: Path
    passages: Mapping[str, NamedPassage]
    cases: tuple[Case, ...]

    def refusal(self, line: int, reason: str, **rest: Any) -> FileRefused:
        """The error of what is wrong on a line."""
        return FileRefused(_files.shown(self.path), line, reason, **rest)


@dataclass(frozen=True)
class _Value:
    """A value of the file with its place: whatever is read from it is checked, and refused with its line."""

    path: Path
    lines: Lines
    value: Any
    place: str = ""

    @property
    def line(self) -> int:
        return _files.line_of(self.lines, self.place) or 1

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        raise FileRefused(_files.shown(self.path), self.line, reason, hint=hint)

    def _name(self) -> str:
        return self.place.rpartition(".")[2]

    def _at(self, key: object, value: Any) -> _Value:
        return _Value(self.path, self.lines, value, f"{self.place}.{key}" if self.place else str(key))

    def entries(self) -> dict[str, _Value]:
        if not isinstance(self.value, dict):
            self.refuse(f"{self._name() or 'an evaluation set'} must be a mapping")
        return {key: self._at(key, value) for key, value in self.value.items()}

    def keys(self, needed: Iterable[str], others: Iterable[str]) -> dict[str, _Value]:
        """The entries of a mapping of these keys; one left empty would be an expectation that is none."""
        found = self.entries()
        known = [*needed, *others]
        for key, entry in found.items():
            if key not in known:
                entry.refuse(f"{key} is no key here", f"The keys are: {', '.join(known)}.")
            if entry.value is None:
                entry.refuse(f"{key} has no value", "Give it one, or leave the key out.")
        for key in needed:
            if key not in found:
                self.refuse(f"{key} is missing")
        return found

    def items(self) -> list[_Value]:
        if not isinstance(self.value, list) or not self.value:
            self.refuse(f"{self._name()} must be a list of at least one")
        return [self._at(number, value) for number, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value or self.value.isspace():
            self.refuse(f"{self._name()} must be a text")
        return self.value

    def texts(self) -> tuple[str, ...]:
        for item in self.items():
            if not isinstance(item.value, str) or not item.value.strip():
                item.refuse(f"{self._name()} must be a list of texts")
        return tuple(self.value)

    def whole(self) -> int:
        value = self.value
        if not (isinstance(value, str) and len(value) <= 9 and value.isascii() and value.isdigit()):
            self.refuse(f"{self._name()} must be a whole number")
        return int(value)

    def one_of(self, kind: type[Kind]) -> Kind:
        if self.value not in list(kind):
            self.refuse(f"{self.value!r} is none of: {', '.join(kind)}")
        return kind(self.value)

    def names(self, known: Iterable[str], what: str) -> tuple[str, ...]:
        known = list(known)
        for item, name in zip(self.items(), self.texts(), strict=True):
            if name not in known:
                item.refuse(f"{name!r} {what}", f"There are: {', '.join(known) or 'none'}.")
        return self.texts()


#: Settings of a case, and what they are where neither the case nor the set says it.
_SETTINGS = {"k": 10, "budget": 2000, "neighbours": 1}


def read_set(path: Path) -> EvaluationSet:
    """Read an evaluation set; raises FileRefused for what is none, with the line."""
    value, lines = _files._parse(path, _files.read_text(path), 1)
    whole = _Value(path, lines, value).keys(["cases"], ["passages", *_SETTINGS])
    passages = (
        {name: _passage(entry) for name, entry in whole["passages"].entries().items()} if "passages" in whole else {}
    )
    settings = {key: whole[key].whole() if key in whole else value for key, value in _SETTINGS.items()}
    cases: dict[str, Case] = {}
    for entry in whole["cases"].items():
        case = _case(entry, passages, settings)
        if case.case_id in cases:
            entry.refuse(f"the id {case.case_id!r} stands more than once")
        cases[case.case_id] = case
    return EvaluationSet(path, passages, tuple(cases.values()))


def _passage(entry: _Value) -> NamedPassage:
    found = entry.keys(["document", "version", "quote"], ["tenant"])
    return NamedPassage(
        tenant=found["tenant"].text() if "tenant" in found else None,
        document_id=found["document"].text(),
        version=found["version"].whole(),
        quote=found["quote"].text(),
        line=found["quote"].line,
    )


def _case(entry: _Value, passages: Mapping[str, NamedPassage], settings: Mapping[str, int]) -> Case:
    needed = ["id", "question", "query", "outcome"]
    others = ["kind", "contract_version", "case", "required", "forbidden", "answer", *_SETTINGS]
    found = entry.keys(needed, others)
    outcome = found["outcome"].one_of(Outcome)
    required, forbidden = (
        found[key].names(passages, "names no passage") if key in found else () for key in ("required", "forbidden")
    )
    if outcome is Outcome.UNSUPPORTED_QUESTION:
        for key in ("required", "forbidden", "answer"):
            if key in found:
                found[key].refuse(f"nothing is retrieved for an unsupported question, so {key} expects nothing")
    elif not required:
        entry.refuse("required is missing", "Name the passages that the answer needs.")
    facts = found["case"].entries() if "case" in found else {}
    return Case(
        case_id=found["id"].text(),
        kind=found["kind"].text() if "kind" in found else "",
        question_id=found["question"].text(),
        contract_version=found["contract_version"].whole() if "contract_version" in found else None,
        query=found["query"].text(),
        case_facts={attribute: value.text() for attribute, value in facts.items()},
        outcome=outcome,
        required=required,
        forbidden=forbidden,
        answer=_needs(found["answer"], required) if "answer" in found else None,
        line=entry.line,
        **{key: found[key].whole() if key in found else value for key, value in settings.items()},
    )


def _needs(entry: _Value, required: tuple[str, ...]) -> AnswerNeeds:
    found = entry.keys([], ["text", "cites", "says", "never_says", "audit"])
    verdicts = AnswerNeeds.audit
    if "audit" in found:
        several = found["audit"].items() if isinstance(found["audit"].value, list) else [found["audit"]]
        verdicts = tuple(item.one_of(AuditVerdict) for item in several)
    return AnswerNeeds(
        text=found["text"].text() if "text" in found else None,
        cites=found["cites"].names(required, "is not among the required passages") if "cites" in found else (),
        says=found["says"].texts() if "says" in found else (),
        never_says=found["never_says"].texts() if "never_says" in found else (),
        audit=verdicts,
    )


def read_answers(path: Path, cases: Iterable[str]) -> dict[str, str]:
    """Read answers by the ids of their cases: JSON lines, each ``{"id": ..., "answer": ...}``.

    Raises
    ------
    FileRefused
        A line is no such object, or names no case, or one that has its answer.
    """
    known, answers = set(cases), dict[str, str]()
    for number, line in enumerate(_files.read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        value = _files.parse_line(path, number, line)
        case_id, answer = value.get("id"), value.get("answer")
        reason = ""
        if value.keys() != {"id", "answer"} or not isinstance(case_id, str) or not isinstance(answer, str):
            reason = "a line must be an object with the keys id and answer, both texts"
        elif case_id not in known:
            reason = f"no case has the id {case_id!r}"
        elif case_id in answers:
            reason = f"the case {case_id!r} has more than one answer"
        if reason:
            raise FileRefused(_files.shown(path), number, reason)
        answers[str(case_id)] = str(answer)
    return answers
