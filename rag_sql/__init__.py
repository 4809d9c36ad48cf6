"""rag-sql: a SQL-native evidence store for retrieval-augmented generation.

PostgreSQL holds versioned documents, exact quotations, tenants' walls and the rules that say when a set of passages is
enough to answer; this package binds a tenant and calls it.
"""

from importlib.metadata import version

from rag_sql import errors
from rag_sql._drafting import Drafter, DraftRequest, draft, template_drafter
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
from rag_sql._rows import (
    AddedSpan,
    Candidate,
    Change,
    Citation,
    Finding,
    LoadedDocument,
    NearestPassage,
    PropositionOccurrence,
)
from rag_sql._store import EvidenceStore
from rag_sql._tenant import Tenant

__all__ = [
    "AddedSpan",
    "Approval",
    "Candidate",
    "Change",
    "Citation",
    "Claim",
    "ContextPassage",
    "Contract",
    "Decision",
    "DraftRequest",
    "Drafter",
    "Evidence",
    "EvidenceStore",
    "Finding",
    "LoadedDocument",
    "NearestPassage",
    "Outcome",
    "Packet",
    "PropositionOccurrence",
    "Request",
    "Review",
    "Source",
    "Span",
    "Tenant",
    "Trace",
    "Verdict",
    "Witness",
    "draft",
    "errors",
    "template_drafter",
]

__version__ = version("rag-sql")
