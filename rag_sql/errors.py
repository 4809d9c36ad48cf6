"""Every error of rag-sql: one class for each SQLSTATE of class ``RS``, and those that arise before a server answers.

The database raises, with message, detail and hint; :func:`translate` maps by SQLSTATE, and constraint violations by the
constraint's name. No message is ever parsed. Errors of the driver that are not ours pass untouched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import psycopg
import sqlalchemy.exc

__all__ = [
    "AmbiguousQuote",
    "AppendOnly",
    "AttributeMisfit",
    "BindingLost",
    "ConcurrentDecision",
    "ContractConflict",
    "DatabaseTooNew",
    "EmbeddedUnavailable",
    "EvidenceInsufficient",
    "ExtensionMissing",
    "FileRefused",
    "InvalidCase",
    "InvalidClaims",
    "InvalidContract",
    "InvalidDocument",
    "InvalidRequest",
    "NoApproval",
    "NotAllowed",
    "NotInstalled",
    "NothingLicensed",
    "NothingToAudit",
    "PacketNotFound",
    "PassageWithoutText",
    "PresentationChanged",
    "QuoteNotFound",
    "RagSqlError",
    "Rejected",
    "RoleNotAdministrable",
    "SpanConflict",
    "StaleApproval",
    "TenantNotBound",
    "TenantRequired",
    "UnknownContractVersion",
    "UnknownLogin",
    "UnsuitableDatabase",
    "UnsupportedQuestion",
    "UpgradeBlocked",
    "VersionConflict",
    "VersionNotFound",
]


class RagSqlError(Exception):
    """Base class of all errors of rag-sql.

    Attributes
    ----------
    sqlstate : str or None
        Five characters of class ``RS``; None where no server was involved. Fixed for each class.
    message, detail, hint : str
        What happened, what exactly, and what to do; detail and hint may be empty.
    column, table, datatype, constraint : str
        Fields of the server's error that say where in the input the fault is: the path of the value, and for a span
        the document, its version and the span's id. Empty where they do not apply.
    """

    sqlstate: ClassVar[str | None] = None

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


class InvalidRequest(RagSqlError):
    """A query without a word, a K outside 1 to 1,000, an unknown decision, or a text that PostgreSQL cannot hold."""

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


class AttributeMisfit(RagSqlError):
    """A value is none of its attribute's type: an attribute cannot be declared so, or stored values are of another."""

    sqlstate = "RS026"


class InvalidContract(RagSqlError):
    """A contract is malformed."""

    sqlstate = "RS030"


class ContractConflict(RagSqlError):
    """A contract version that exists was added with other content."""

    sqlstate = "RS031"


class InvalidClaims(RagSqlError):
    """The claims of a draft are malformed, or there are none."""

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


class ConcurrentDecision(RagSqlError):
    """Another reviewer decided about the same draft at the same moment; look again."""


class NoApproval(RagSqlError):
    """Nobody has decided about this draft on this evidence."""

    sqlstate = "RS060"


class Rejected(RagSqlError):
    """The newest decision about this draft is a rejection."""

    sqlstate = "RS061"


class StaleApproval(RagSqlError):
    """The evidence is no longer what was approved; ``detail`` has a line for each difference."""

    sqlstate = "RS062"


class AppendOnly(RagSqlError):
    """Evidence was to be updated, deleted or truncated."""

    sqlstate = "RS070"


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
    """A tenant cannot be granted: no such login or tenant, or row-level security does not hold the login."""

    sqlstate = "RS083"


class ExtensionMissing(RagSqlError):
    """``vector`` is not installed in the database and the installing login may not create it."""


class NotInstalled(RagSqlError):
    """The database holds no store, or an older one than this code needs."""


class DatabaseTooNew(RagSqlError):
    """The database was upgraded by a newer rag-sql than this one."""


class BindingLost(RagSqlError):
    """The transaction in which the tenant was bound has ended, or the connection commits every statement."""


class EmbeddedUnavailable(RagSqlError):
    """The embedded server cannot run here."""


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

#: Constraints that a caller can meet although the functions validate first, by name.
BY_CONSTRAINT: dict[str, type[RagSqlError]] = {
    "approval_key": ConcurrentDecision,
    "version_key": VersionConflict,
    "contract_key": ContractConflict,
    "tenant_is_slug": InvalidRequest,
}


def from_driver(error: psycopg.Error) -> RagSqlError | None:
    """The error of ours that a driver error stands for, or None."""
    diag = error.diag
    cls = BY_SQLSTATE.get(error.sqlstate or "") or BY_CONSTRAINT.get(diag.constraint_name or "")
    if isinstance(error, psycopg.errors.UntranslatableCharacter) or (
        isinstance(error, psycopg.DataError) and error.sqlstate is None
    ):
        cls = InvalidRequest  # a NUL character, escaped in JSON or bare
    if cls is None:
        return None
    return cls(
        diag.message_primary or str(error),
        detail=diag.message_detail or "",
        hint=diag.message_hint or "",
        column=diag.column_name or "",
        table=diag.table_name or "",
        datatype=diag.datatype_name or "",
        constraint=diag.constraint_name or "",
    )


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
