"""rag-sql: a SQL-native evidence store for retrieval-augmented generation.

PostgreSQL holds versioned documents, exact quotations, tenants' walls and the rules that say when a set of passages is
enough to answer; this package binds a tenant and calls it.
"""

from importlib.metadata import version

from rag_sql import errors
from rag_sql._audit import CHECKERS, audit_answer
from rag_sql._audit_model import (
    AuditedSentence,
    AuditReport,
    AuditVerdict,
    CheckCount,
    Checker,
    Finding,
    Held,
)
from rag_sql._drafting import Drafter, DraftRequest, draft, template_drafter
from rag_sql._embedding import Embedder
from rag_sql._evaluation import CaseFinding, EvaluatedCase, Evaluation, StageVerdict, evaluate
from rag_sql._history import HistoryVersion, QuotedFact, Succession
from rag_sql._impact import (
    ApprovalImpact,
    CarriableSpan,
    CoverageImpact,
    DocumentImpact,
    Impact,
    PacketImpact,
    SpanImpact,
)
from rag_sql._minilm import minilm
from rag_sql._models import (
    Approval,
    Claim,
    ContextPassage,
    Contract,
    Decision,
    Evidence,
    Outcome,
    Packet,
    Request,
    Review,
    Source,
    Span,
    Trace,
    Verdict,
    Witness,
)
from rag_sql._passages import outline
from rag_sql._rows import (
    AddedSpan,
    Candidate,
    Change,
    Citation,
    Hit,
    LoadedDocument,
    MissingEmbedding,
    NearestPassage,
    PropositionOccurrence,
    TraceFinding,
)
from rag_sql._selectors import from_code_points, resolve_selector, selectors, to_code_points
from rag_sql._store import EvidenceStore
from rag_sql._tenant import Tenant

__all__ = [
    "CHECKERS",
    "AddedSpan",
    "Approval",
    "ApprovalImpact",
    "AuditReport",
    "AuditVerdict",
    "AuditedSentence",
    "Candidate",
    "CarriableSpan",
    "CaseFinding",
    "Change",
    "CheckCount",
    "Checker",
    "Citation",
    "Claim",
    "ContextPassage",
    "Contract",
    "CoverageImpact",
    "Decision",
    "DocumentImpact",
    "DraftRequest",
    "Drafter",
    "Embedder",
    "EvaluatedCase",
    "Evaluation",
    "Evidence",
    "EvidenceStore",
    "Finding",
    "Held",
    "HistoryVersion",
    "Hit",
    "Impact",
    "LoadedDocument",
    "MissingEmbedding",
    "NearestPassage",
    "Outcome",
    "Packet",
    "PacketImpact",
    "PropositionOccurrence",
    "QuotedFact",
    "Request",
    "Review",
    "Source",
    "Span",
    "SpanImpact",
    "StageVerdict",
    "Succession",
    "Tenant",
    "Trace",
    "TraceFinding",
    "Verdict",
    "Witness",
    "audit_answer",
    "draft",
    "errors",
    "evaluate",
    "from_code_points",
    "minilm",
    "outline",
    "resolve_selector",
    "selectors",
    "template_drafter",
    "to_code_points",
]

__version__ = version("rag-sql")
