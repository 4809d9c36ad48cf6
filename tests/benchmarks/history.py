"""A real history replayed: what impact says before each change against what it brings about, and any decision again.

The revisions of five policies are loaded in order of their dates, each as its document's next version. Sentences are
curated, carried over to the next version, and curated anew where they are gone; contracts ask for them; packets are
recorded and approved on the way. Before each change (a load, then the curation that follows it) ``impact`` says which
approvals will turn stale, in a transaction that is rolled back. After it, that is compared with what became of them,
and this with what the hashes and spans of their passages say, worked out in Python (``_history.Texts``). Decisions are
made at random, for random instants of validity and knowledge, and all are made again in the end.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rag_sql import Claim, EvidenceStore, Impact, Packet, Tenant, _curation, draft
from rag_sql._store import make_engine
from rag_sql.errors import StaleApproval
from tests.benchmarks._history import (
    ARCHIVE,
    Evidence,
    Quotation,
    Revision,
    Texts,
    made_up,
    recorded,
    survival,
    words,
)
from tests.benchmarks._rows import Row, Scale, median
from tests.conftest import Server, installed

#: What research measured, and how far from it a way to cut sentences may be.
_SURVIVE, _WITHIN = 96.5, 0.5
_EFFECTS = ("turns_stale", "holds_again")
_NOT_THERE = f"left out: no {ARCHIVE}; set RAG_SQL_DATA to the folder that holds site-policy/revisions.jsonl.gz"


@dataclass(frozen=True)
class Sizes:
    """Revisions to replay; sentences curated per document; packets per change; decisions that are made again."""

    revisions: int
    sentences: int
    packets: int
    decisions: int


SIZES: dict[Scale, Sizes] = {"small": Sizes(25, 6, 2, 100), "full": Sizes(1_000, 12, 3, 1_000)}


def run(server: Server, scale: Scale) -> list[Row]:
    """What was said otherwise than it came, and decisions that were made otherwise again."""
    sizes = SIZES[scale]
    if not ARCHIVE.is_file():
        rows = measure(server, made_up(random.Random("history"), sizes.revisions), sizes)
        return [Row("the recorded history; what follows is a made-up one", note=_NOT_THERE), *rows]
    history = recorded()
    pairs, old, kept = survival(history)
    share = 100 * kept / old
    return [
        Row(
            f"of {old:,} sentences of {pairs} changes: survive byte for byte",
            share,
            "%",
            target=f"{_SURVIVE} within {_WITHIN}",
            reached=abs(share - _SURVIVE) <= _WITHIN,
        ),
        *measure(server, history[: sizes.revisions], sizes),
    ]


def measure(server: Server, history: Sequence[Revision], sizes: Sizes) -> list[Row]:
    """The same of any history."""
    database = server.create(installed(server).name)
    with ExitStack() as stack:
        stores = {}
        for login in ("acme_curator", "acme_reviewer"):
            engine = make_engine(database.url(login))
            stack.callback(engine.dispose)
            stores[login] = EvidenceStore(engine)
        replay = Replay(stores["acme_curator"], stores["acme_reviewer"], sizes)
        for number, revision in enumerate(history, start=1):
            replay.step(revision, sizes.decisions * number // len(history))
        rows = replay.rows()
    server.drop(database)
    return rows


@dataclass(frozen=True)
class Approved:
    """An approval in force: what was approved, and what it rests on as the texts have it."""

    packet: Packet
    claims: tuple[Claim, ...]
    contract_version: int
    evidence: Evidence


@dataclass(frozen=True)
class Decided:
    """A decision, its two instants, and what came of it."""

    question_id: str
    request: dict[str, Any]
    came: tuple[str, str, str]


class _Undo(Exception):
    """Leaves a tenant's block so that nothing of it is stored."""


@dataclass
class Replay:
    """The store and the texts, side by side."""

    curator: EvidenceStore
    reviewer: EvidenceStore
    sizes: Sizes
    chosen: random.Random = field(default_factory=lambda: random.Random("replay"))
    texts: Texts = field(default_factory=Texts)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    given: dict[str, Approved] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    dates: list[datetime] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    changes: int = 0
    stale: int = 0
    revived: int = 0
    mispredicted: int = 0
    outlived: int = 0
    died: int = 0
    fates: int = 0
    misjudged: int = 0
    carried: int = 0
    quoted: int = 0
    miscarried: int = 0

    def step(self, revision: Revision, decisions: int) -> None:
        """Load a revision, curate what it needs, approve a few packets, and make decisions up to a number."""
        was = self.texts.body.get(revision.document)
        before = self.texts.quoted.get(revision.document, [])
        document = self.texts.next(revision)
        with self._change(lambda tenant: tenant.load_documents([document])) as found:
            self.texts.load(revision)
        fates = {span.span_id: span.survival for span in found.spans}
        expected = {q.span_id: self.texts.fate(revision.document, q, str(was)) for q in before}
        self.fates += len(expected)
        self.misjudged += sum(fates.get(span_id) != fate for span_id, fate in expected.items()) + len(
            fates.keys() - expected
        )

        self.dates.append(revision.date)
        # Some before the version has its spans: those come later, and are no evidence of what was decided.
        while self.texts.contracts and len(self.decided) < decisions and self.chosen.random() < 0.7:
            self._decide()
        plan = self._plan(revision.document, before)
        with self._change(lambda tenant: self._curate(tenant, plan)):
            self.quoted += len(before)
            self.carried += len(plan.carried)
            self.texts.quoted[revision.document] = [*plan.carried, *plan.new]
            self.texts.contracts |= plan.contracts
        self.miscarried += plan.miscarried
        for _ in range(self.sizes.packets):
            self._approve()
        while len(self.decided) < decisions:
            self._decide()

    # Changes

    @contextmanager
    def _change(self, change: Callable[[Tenant], object]) -> Iterator[Impact]:
        """Rehearse a change and make it; the block does the same to the texts. Then look what became of approvals."""
        found: list[Impact] = []
        with suppress(_Undo), self.curator.tenant("acme") as acme:
            change(acme)
            began = time.perf_counter()
            found.append(acme.impact())
            self.took.append(time.perf_counter() - began)
            self.asked.append(len(self.live))
            raise _Undo
        with self.curator.tenant("acme") as acme:
            change(acme)
        yield found[0]
        self.changes += 1
        # What rests on a version that is not current any more stays stale; of the others any may hold again.
        asked = {i: approved for i, approved in self.given.items() if i in self.live or self._may_hold(approved)}
        usable = {packet_id for packet_id, approved in asked.items() if self._usable(approved)}
        same = {i for i, approved in asked.items() if self._evidence_now(approved) == approved.evidence}
        named = {
            effect: {p.packet_id for p in found[0].packets if p.effect == effect and p.approvals} for effect in _EFFECTS
        }
        self.mispredicted += len(named["turns_stale"] ^ (self.live - usable))
        self.mispredicted += len(named["holds_again"] ^ (usable - self.live))
        self.stale += len(self.live - usable)
        self.revived += len(usable - self.live)
        self.outlived += len(usable - same)
        self.died += len(same - usable)
        self.live = usable

    def _may_hold(self, approved: Approved) -> bool:
        return all(self.texts.version[document] == version for document, version, *_ in approved.evidence)

    def _usable(self, approved: Approved) -> bool:
        with self.reviewer.tenant("acme") as acme:
            try:
                acme.require_approval(approved.packet.packet_id, approved.claims)
            except StaleApproval:
                return False
        return True

    def _evidence_now(self, approved: Approved) -> Evidence | None:
        """What its request rests on now, by the texts; None under another version of the contract."""
        packet = approved.packet
        if self.texts.contracts[packet.question_id][0] != approved.contract_version:
            return None
        if packet.request.method == "overlap":
            return self.texts.evidence(self.texts.select(packet.request.query, packet.request.k))
        with self.reviewer.tenant(
            "acme"
        ) as acme:  # by bm25 the store says which passages; what they are, the texts say
            asked: dict[str, Any] = {"query": packet.request.query, "case": {}, "k": packet.request.k, "method": "bm25"}
            sources = acme.decide(packet.question_id, **asked).sources
        return self.texts.evidence([(s.document_id, s.version, s.range_start, s.range_end) for s in sources])

    # Curation

    def _plan(self, document: str, before: Sequence[Quotation]) -> Plan:
        """What a curator does after a load: carry over what stands there, quote anew what is gone, renew contracts."""
        texts = self.texts
        plan = Plan(document, texts.version[document])
        plan.carried = [q for q in before if texts.body[document].count(q.quote) == 1]
        texts.quoted[document] = list(plan.carried)
        for quotation in before:
            if quotation not in plan.carried and (quote := texts.nearest(document, quotation.quote)):
                plan.new.append(Quotation(f"{quotation.fact} of version {plan.version}", quotation.fact, quote))
                texts.quoted[document].append(plan.new[-1])
        if not before:
            candidates = texts.candidates(document)
            quotes = self.chosen.sample(candidates, min(self.sizes.sentences, len(candidates)))
            plan.new = [Quotation(f"s{n}", f"{document} {n}", quote) for n, quote in enumerate(quotes)]
            plan.contracts = self._questions(document, plan.new)
        renewed = {quotation.fact: quotation.quote for quotation in plan.new}
        for question, (version, facts) in texts.contracts.items():
            if changed := {fact: renewed[fact] for fact in facts if fact in renewed}:
                plan.contracts[question] = (version + 1, facts | changed)
        return plan

    def _questions(self, document: str, quotations: Sequence[Quotation]) -> dict[str, tuple[int, dict[str, str]]]:
        """A question for each two facts of a document, and one for a fact of it with one of each other document."""
        found = {}
        for number in range(0, len(quotations) - 1, 2):
            pair = quotations[number : number + 2]
            found[f"{document} {number}"] = (1, {quotation.fact: quotation.quote for quotation in pair})
        for other, theirs in self.texts.quoted.items():
            if other != document and theirs:
                pair = [self.chosen.choice(quotations), self.chosen.choice(theirs)]
                found[f"{document} and {other}"] = (1, {quotation.fact: quotation.quote for quotation in pair})
        return found

    def _curate(self, tenant: Tenant, plan: Plan) -> None:
        report = _curation.carry(tenant, [plan.document])
        expected = {(q.span_id, q.fact, q.quote) for q in plan.carried}
        plan.miscarried = len({(span.span_id, span.fact, span.quote) for span in report.carried} ^ expected)
        place = {"document": plan.document, "version": plan.version}
        tenant.add_spans([{**place, "span": q.span_id, "fact": q.fact, "quote": q.quote} for q in plan.new])
        for question, (version, facts) in plan.contracts.items():
            asked = [{"fact": fact, "propositions": [{"quote": q, "clauses": [q]}]} for fact, q in facts.items()]
            tenant.add_contract(question, version, {"case": [], "facts": asked})

    # Packets and decisions

    def _approve(self) -> None:
        """Record a packet for a random question, and approve it where it is sufficient."""
        question = self.chosen.choice(sorted(self.texts.contracts))
        version, facts = self.texts.contracts[question]
        request: dict[str, Any] = {
            "query": " ".join(self._some_words(quote) for quote in facts.values()),
            "case": {},
            "k": self.chosen.choice((2, 2, 3, 5)),
            "method": self.chosen.choice(("overlap", "overlap", "bm25")),
        }
        with self.reviewer.tenant("acme") as acme:
            packet = acme.record_packet(question, **request)
            self.packets.append(packet)
            if not packet.sufficient:
                return
            claims = draft(packet)
            acme.approve(acme.review(packet.packet_id, claims))
        places = [(s.document_id, s.version, s.range_start, s.range_end) for s in packet.sources]
        self.given[packet.packet_id] = Approved(packet, claims, version, self.texts.evidence(places))
        self.live.add(packet.packet_id)

    def _some_words(self, text: str) -> str:
        found = sorted(words(text))
        return " ".join(self.chosen.sample(found, min(len(found), 14)))

    def _decide(self) -> None:
        """A random decision, for random instants of validity and knowledge."""
        now = datetime.now(UTC)
        document = self.chosen.choice(sorted(self.texts.body))
        question = self.chosen.choice(sorted(self.texts.contracts))
        known = self.began + (now - self.began) * self.chosen.random() if self.chosen.random() < 0.5 else None
        valid = None
        if known or self.chosen.random() < 0.5:
            valid = self.dates[0] + (self.dates[-1] - self.dates[0] + timedelta(days=1)) * self.chosen.random()
        request: dict[str, Any] = {
            "query": self._some_words(self.texts.body[document]),
            "case": {},
            "k": self.chosen.randint(1, 20),
            "method": self.chosen.choice(("overlap", "bm25")),
        }
        with self.reviewer.tenant("acme") as acme:
            decision = acme.decide(question, **request, valid_at=valid, known_at=known)
        if decision.request.known_at:  # none where the question was not supported yet
            valid = datetime.fromisoformat(decision.request.valid_at)
            known = datetime.fromisoformat(decision.request.known_at)
        request |= {"valid_at": valid, "known_at": known}
        self.decided.append(Decided(question, request, (decision.outcome, decision.preimage, decision.digest)))

    # In the end

    def rows(self) -> list[Row]:
        """All decisions once more, and what was counted."""
        differing = sum(self._again(decided) != decided.came for decided in self.decided)
        packets = sum(self._again(_of_packet(packet)) != _of_packet(packet).came for packet in self.packets)
        known = sum(bool(decided.came[2]) for decided in self.decided)
        counted = [
            ("approvals that turned stale or held again otherwise than impact had said", self.mispredicted),
            ("approvals that outlived a change of their evidence", self.outlived),
            ("approvals that died without one", self.died),
            ("quotations whose fate impact told otherwise than the texts", self.misjudged),
            ("spans carried over otherwise than the texts say", self.miscarried),
            (f"of {len(self.decided):,} decisions, {known:,} with evidence: otherwise again", differing),
            (f"of {len(self.packets):,} packets: decided otherwise again", packets),
        ]
        share = 100 * (self.carried / self.quoted) if self.quoted else None
        return [
            Row(f"of {self.quoted:,} curated spans: carried over by curate --carry", share, "%"),
            Row("changes: loads, and the curation after each", self.changes, ""),
            Row("approvals given", len(self.given), ""),
            Row("approvals that turned stale", self.stale, ""),
            Row("approvals that held again, when what had displaced their evidence was gone", self.revived, ""),
            Row("approvals in force at a change, all changes together", sum(self.asked), ""),
            Row(f"impact of a change, with {median(self.asked):g} approvals in force", median(self.took) * 1000, "ms"),
            *(Row(what, number, "", target="none", reached=number == 0) for what, number in counted),
        ]

    def _again(self, decided: Decided) -> tuple[str, str, str]:
        with self.reviewer.tenant("acme") as acme:
            decision = acme.decide(decided.question_id, **decided.request)
        return decision.outcome, decision.preimage, decision.digest


@dataclass
class Plan:
    """The curation that follows a load."""

    document: str
    version: int
    carried: list[Quotation] = field(default_factory=list)
    new: list[Quotation] = field(default_factory=list)
    contracts: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    miscarried: int = 0


def _of_packet(packet: Packet) -> Decided:
    request = {
        "query": packet.request.query,
        "case": packet.case_facts,
        "k": packet.request.k,
        "method": packet.request.method,
        "parameters": packet.request.parameters,
        "valid_at": datetime.fromisoformat(packet.request.valid_at),
        "known_at": datetime.fromisoformat(packet.request.known_at),
    }
    return Decided(packet.question_id, request, (packet.outcome, packet.preimage, packet.digest))
