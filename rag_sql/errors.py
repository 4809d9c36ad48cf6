"""Every error of rag-sql: one class for each SQLSTATE of class ``RS``, and those that arise before a server answers.

The database raises, with message, detail and hint; :func:`translate` maps by SQLSTATE, and constraint violations by the
constraint's name. No message is ever parsed. Errors of the driver that are not ours pass untouched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy.exc

__all__ = [
    "AmbiguousQuote",
    "AppendOnly",
    "AttributeMisfit",
    "BindingLost",
    "ConcurrentDecision",
    "ConnectionLost",
    "ContractConflict",
    "DatabaseTooNew",
    "DimensionMismatch",
    "EmbeddedUnavailable",
    "EmbedderUnavailable",
    "EvidenceErased",
    "EvidenceInsufficient",
    "ExtensionMissing",
    "FileRefused",
    "InvalidCase",
    "InvalidClaims",
    "InvalidContract",
    "InvalidDocument",
    "InvalidRequest",
    "InvalidVector",
    "MayOnlyRead",
    "NoApproval",
    "NotAllowed",
    "NotInstalled",
    "NothingLicensed",
    "NothingToAudit",
    "PacketNotFound",
    "PacketOutdated",
    "PassageNotFound",
    "PassageWithoutText",
    "PresentationChanged",
    "QuoteCutsCharacter",
    "QuoteNotFound",
    "RagSqlError",
    "ReadOnlyServer",
    "Rejected",
    "RoleNotAdministrable",
    "SignatureRefused",
    "SpanConflict",
    "StaleApproval",
    "TenantNotBound",
    "TenantRequired",
    "TraceAnswered",
    "TraceNotFound",
    "TracesInUse",
    "UnknownContractVersion",
    "UnknownKey",
    "UnknownLabel",
    "UnknownLogin",
    "UnknownModel",
    "UnsuitableDatabase",
    "UnsupportedQuestion",
    "UpgradeBlocked",
    "VectorsMoved",
    "VersionConflict",
    "VersionErased",
    "VersionNotFound",
]


class RagSqlError(Exception):
    """Base class of all errors of rag-sql.

    Attributes
    ----------
    sqlstate : str or None
        Five characters of class ``RS``, fixed for each class that has them. Where an error of PostgreSQL's own stands
        for one of ours, its code; None where no server was involved.
    message, detail, hint : str
        What happened, what exactly, and what to do; detail and hint may be empty.
    column, table, datatype, constraint : str
        Fields of the server's error that say where in the input the fault is: the path of the value, and for a span
        the document, its version and the span's id. Empty where they do not apply.
    """

    sqlstate: str | None = None

    def __init__(
        self,
        message: str,
        *,
        detail: str = "",
        hint: str = "",
        column: str = "",
        table: str = "",
        datatype: str = "",
        constraint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.column = column
        self.table = table
        self.datatype = datatype
        self.constraint = constraint


class TenantNotBound(RagSqlError):
    """The asserted tenant is not granted to this login, or there is no such tenant."""

    sqlstate = "RS001"


class TenantRequired(RagSqlError):
    """The operation belongs to a tenant and none is bound."""

    sqlstate = "RS002"


class NotAllowed(RagSqlError):
    """The login is not in the group that may write for the bound tenant."""

    sqlstate = "RS003"


class SignatureRefused(RagSqlError):
    """A signature does not prove its tenant: for another login or transaction, or by a key that is not valid."""

    sqlstate = "RS004"


class MayOnlyRead(RagSqlError):
    """Evidence was to be changed, or decided about, for a tenant that the session may only read for."""

    sqlstate = "RS005"


class InvalidRequest(RagSqlError):
    """A query without a word, a K outside 1 to 1,000, an unknown decision, or a text too long or not to be stored."""

    sqlstate = "RS010"


class InvalidCase(RagSqlError):
    """The case facts do not fit the contract's case attributes."""

    sqlstate = "RS011"


class UnknownContractVersion(RagSqlError):
    """The question has a contract, but not in the version that was named."""

    sqlstate = "RS012"


class UnsupportedQuestion(RagSqlError):
    """No contract supports the question, where one is needed (``decide`` returns it as an outcome instead)."""

    sqlstate = "RS013"


class UnknownModel(RagSqlError):
    """Neither the tenant nor public has vectors of the model."""

    sqlstate = "RS014"


class DimensionMismatch(RagSqlError):
    """A vector has another dimension than the model's vectors that are there."""

    sqlstate = "RS015"


class InvalidVector(RagSqlError):
    """What was given is no vector: no list of finite numbers, too long a one, or one of which all are 0."""

    sqlstate = "RS016"


class PassageNotFound(RagSqlError):
    """There is no such passage, or it is not the tenant's."""

    sqlstate = "RS017"


class VectorsMoved(RagSqlError):
    """The vectors were moved after the transaction began to see the database as it was; repeat it."""

    sqlstate = "RS018"


class InvalidDocument(RagSqlError):
    """A document of a load, or a span to add, is malformed."""

    sqlstate = "RS020"


class VersionConflict(RagSqlError):
    """A version that exists was loaded with other content."""

    sqlstate = "RS021"


class VersionNotFound(RagSqlError):
    """There is no such version, or it is not this tenant's."""

    sqlstate = "RS022"


class QuoteNotFound(RagSqlError):
    """A span's quotation, or the occurrence it names, is not in the body."""

    sqlstate = "RS023"


class AmbiguousQuote(RagSqlError):
    """A span's quotation occurs more than once and the span names no occurrence."""

    sqlstate = "RS024"


class SpanConflict(RagSqlError):
    """A span that exists was added with other content."""

    sqlstate = "RS025"


class QuoteCutsCharacter(RagSqlError):
    """A span's quotation begins or ends inside a character, such as between a letter and its accent."""

    sqlstate = "RS026"


class AttributeMisfit(RagSqlError):
    """An attribute cannot be declared so: stored values are none of the type; ``detail`` lists the first ten."""

    sqlstate = "RS027"


class VersionErased(RagSqlError):
    """The version was erased; its number is not given again, and nothing is added to it."""

    sqlstate = "RS028"


class InvalidContract(RagSqlError):
    """A contract is malformed."""

    sqlstate = "RS030"


class ContractConflict(RagSqlError):
    """A contract version that exists was added with other content."""

    sqlstate = "RS031"


class InvalidClaims(RagSqlError):
    """The claims of a draft are malformed or too many, or there are none."""

    sqlstate = "RS040"


class PacketNotFound(RagSqlError):
    """There is no such packet, or it is not this tenant's."""

    sqlstate = "RS050"


class EvidenceInsufficient(RagSqlError):
    """A packet in which required facts are missing cannot be approved."""

    sqlstate = "RS051"


class PresentationChanged(RagSqlError):
    """What the reviewer was shown is not what would be shown now."""

    sqlstate = "RS052"


class NothingLicensed(RagSqlError):
    """A draft of which no claim is licensed cannot be approved."""

    sqlstate = "RS053"


class TraceNotFound(RagSqlError):
    """There is no such trace, or it is not this tenant's."""

    sqlstate = "RS054"


class UnknownLabel(RagSqlError):
    """A label under which nothing was handed over was to be shown as a citation."""

    sqlstate = "RS055"


class TraceAnswered(RagSqlError):
    """A trace has its answer; another one belongs to another trace."""

    sqlstate = "RS056"


class PacketOutdated(RagSqlError):
    """A packet whose evidence is not current any more cannot be handed to a model; ``detail`` names the versions."""

    sqlstate = "RS057"


class ConcurrentDecision(RagSqlError):
    """Another decided about the same draft, or declared the same attribute, at the same moment; look again."""


class NoApproval(RagSqlError):
    """Nobody has decided about this draft on this evidence."""

    sqlstate = "RS060"


class Rejected(RagSqlError):
    """The newest decision about this draft is a rejection."""

    sqlstate = "RS061"


class StaleApproval(RagSqlError):
    """The evidence is no longer what was approved; ``detail`` has a line for each difference."""

    sqlstate = "RS062"


class EvidenceErased(RagSqlError):
    """Something that a packet rests on was erased: it is neither valid nor broken; ``detail`` says what and why."""

    sqlstate = "RS063"


class AppendOnly(RagSqlError):
    """Evidence was to be updated, deleted or truncated."""

    sqlstate = "RS070"


class TracesInUse(RagSqlError):
    """Traces were to be removed, and an answer is being recorded for one of them; purge again."""

    sqlstate = "RS071"


class RoleNotAdministrable(RagSqlError):
    """A role of the store cannot be created or administered by the installing login."""

    sqlstate = "RS080"


class UpgradeBlocked(RagSqlError):
    """Objects of the user's depend on ``rag_api``; ``detail`` names them."""

    sqlstate = "RS081"


class UnsuitableDatabase(RagSqlError):
    """The database cannot hold a store: its encoding, its locale, the server version, or who owns it."""

    sqlstate = "RS082"


class UnknownLogin(RagSqlError):
    """A tenant cannot be granted or revoked: no such login or tenant, or row-level security does not hold the login."""

    sqlstate = "RS083"


class UnknownKey(RagSqlError):
    """A key was to be revoked that is not there."""

    sqlstate = "RS084"


class ExtensionMissing(RagSqlError):
    """``vector`` is not installed in the database and the installing login may not create it."""


class NotInstalled(RagSqlError):
    """The database holds no store, or an older one than this code needs."""


class DatabaseTooNew(RagSqlError):
    """The database was upgraded by a newer rag-sql than this one."""


class BindingLost(RagSqlError):
    """The transaction in which the tenant was bound has ended, or the connection commits every statement."""


class ReadOnlyServer(RagSqlError):
    """Something was to be stored where nothing can be: on a standby, or in a read-only transaction."""


class ConnectionLost(RagSqlError):
    """The server cannot be reached, or the connection to it ended; nothing of the open transaction is stored."""


class EmbeddedUnavailable(RagSqlError):
    """The embedded server cannot run here."""


class EmbedderUnavailable(RagSqlError):
    """The packaged embedding model is not installed; ``hint`` says how it is."""


class NothingToAudit(RagSqlError):
    """No sentence could be cut from an answer: an audit of nothing would pass everything."""


class PassageWithoutText(RagSqlError):
    """An answer cites a passage that was given without text."""


class FileRefused(RagSqlError):
    """A file was refused; nothing of it was loaded.

    Attributes
    ----------
    path : str
        The file.
    line : int
        Line of the fault, from 1; 0 where the fault has no line.
    reason : str
        What is wrong, without the place.
    cause_code : str or None
        SQLSTATE of the database's error, where it was the database that refused.
    """

    def __init__(
        self, path: str, line: int, reason: str, *, detail: str = "", hint: str = "", cause_code: str | None = None
    ) -> None:
        where = f"{path}:{line}" if line else path
        super().__init__(f"{where}: {reason}", detail=detail, hint=hint)
        self.path = path
        self.line = line
        self.reason = reason
        self.cause_code = cause_code


BY_SQLSTATE: dict[str, type[RagSqlError]] = {
    cls.sqlstate: cls for cls in RagSqlError.__subclasses__() if cls.sqlstate is not None
}

#: Constraints that a caller can meet, by name: because somebody else was quicker, or inserts without the functions.
BY_CONSTRAINT: dict[str, type[RagSqlError]] = {
    "approval_key": ConcurrentDecision,
    "version_key": VersionConflict,
    "contract_key": ContractConflict,
    "span_key": SpanConflict,
    "tenant_is_slug": InvalidRequest,
    "withdrawal_withdrawn_from_is_in_range": InvalidRequest,
    "withdrawal_note_fits": InvalidRequest,
    "succession_document_id_fits": InvalidRequest,
    "succession_document_id_is_printable": InvalidRequest,
    "succession_successor_id_fits": InvalidRequest,
    "succession_successor_id_is_printable": InvalidRequest,
    "succession_is_by_another": InvalidRequest,
    "succession_superseded_from_is_in_range": InvalidRequest,
    "succession_note_fits": InvalidRequest,
    "version_is_positive": InvalidDocument,
    "version_document_id_fits": InvalidDocument,
    "version_document_id_is_printable": InvalidDocument,
    "version_body_fits": InvalidDocument,
    "version_title_fits": InvalidDocument,
    "version_source_fits": InvalidDocument,
    "version_metadata_fits": InvalidDocument,
    "version_language_is_name": InvalidDocument,
    "version_metadata_is_object": InvalidDocument,
    "version_outline_fits_body": InvalidDocument,
    "version_applies_to_fits": InvalidDocument,
    "version_applies_to_is_canonical": InvalidDocument,
    "version_effective_from_is_in_range": InvalidDocument,
    "span_quote_is_not_empty": InvalidDocument,
    "span_quote_fits": InvalidDocument,
    "span_id_fits": InvalidDocument,
    "span_id_is_printable": InvalidDocument,
    "span_fact_fits": InvalidDocument,
    "span_fact_is_printable": InvalidDocument,
    "span_occurrence_is_in_range": InvalidDocument,
    "attribute_key": ConcurrentDecision,
    "attribute_type_is_known": InvalidRequest,
    "attribute_declaration_number_is_positive": InvalidRequest,
    "attribute_fits": InvalidRequest,
    "attribute_is_printable": InvalidRequest,
    "embedding_model_fits": InvalidRequest,
    "embedding_model_is_printable": InvalidRequest,
    "embedding_model_version_fits": InvalidRequest,
    "embedding_model_version_is_printable": InvalidRequest,
    "embedding_model_dimension_is_in_range": InvalidRequest,
    "contract_version_is_positive": InvalidContract,
    "contract_question_id_fits": InvalidContract,
    "contract_question_id_is_printable": InvalidContract,
    "contract_content_fits": InvalidContract,
}

#: Errors of PostgreSQL itself that have one meaning for a store, by class of the driver, with what to do.
_OF_THE_SERVER: dict[type[psycopg.Error], tuple[type[RagSqlError], str]] = {
    psycopg.errors.UntranslatableCharacter: (InvalidRequest, ""),  # a NUL character, escaped in JSON
    psycopg.errors.ReadOnlySqlTransaction: (
        ReadOnlyServer,
        "A standby decides and explains. To record, load or approve, use the primary's database URL.",
    ),
    psycopg.errors.AdminShutdown: (
        ConnectionLost,
        "What was not committed is not stored. When the server answers again, look what is there, and repeat.",
    ),
}


def from_driver(error: psycopg.Error) -> RagSqlError | None:
    """The error of ours that a driver error stands for, or None."""
    diag = error.diag
    cls = BY_SQLSTATE.get(error.sqlstate or "") or BY_CONSTRAINT.get(diag.constraint_name or "")
    hint = diag.message_hint or ""
    if type(error) in _OF_THE_SERVER:
        cls, hint = _OF_THE_SERVER[type(error)]
    elif error.sqlstate is None and isinstance(error, psycopg.DataError):
        cls = InvalidRequest  # a NUL character, bare
    elif error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        # Of libpq: no server answered, or it went away without a word.
        cls, hint = _OF_THE_SERVER[psycopg.errors.AdminShutdown]
    if cls is None:
        return None
    found = cls(
        diag.message_primary or str(error).strip(),
        detail=diag.message_detail or "",
        hint=hint,
        column=diag.column_name or "",
        table=diag.table_name or "",
        datatype=diag.datatype_name or "",
        constraint=diag.constraint_name or "",
    )
    found.sqlstate = cls.sqlstate or error.sqlstate
    return found


@contextmanager
def translate() -> Iterator[None]:
    """Turn errors of the driver, bare or wrapped by SQLAlchemy, into those of this module; let others pass."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidRequest("a text contains half of a surrogate pair, which is no character") from error
    except sqlalchemy.exc.DBAPIError as error:
        ours = from_driver(error.orig) if isinstance(error.orig, psycopg.Error) else None
        if ours is None:
            raise
        raise ours from error
    except psycopg.Error as error:
        ours = from_driver(error)
        if ours is None:
            raise
        raise ours from error
