"""The client: binds a tenant for one transaction and calls ``rag_api``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import psycopg
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session

from rag_sql import _statements
from rag_sql._models import (
    Approval,
    ApprovalRow,
    Candidate,
    Change,
    Claim,
    ClauseRow,
    ContractRow,
    Decision,
    Evidence,
    LoadedDocument,
    Packet,
    PacketRow,
    Review,
    Verdict,
    claims_json,
)
from rag_sql.errors import BindingLost, InvalidRequest, NotAllowed, NotInstalled, UnsuitableDatabase, translate

__all__ = ["EvidenceStore", "Tenant", "make_engine"]

Bind = sa.Engine | sa.Connection | Session


def make_engine(url: str | sa.URL, **options: Any) -> sa.Engine:
    """An engine for a store: psycopg 3, safe behind a transaction pooler, connections cleaned when they go back."""
    parsed = sa.make_url(url)
    if parsed.drivername in {"postgres", "postgresql"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername != "postgresql+psycopg":
        raise UnsuitableDatabase(
            f"a store is reached through psycopg 3, not {parsed.drivername!r}",
            hint="Write the URL as postgresql://login@host/database.",
        )
    # A pooler gives each transaction another backend: a prepared statement would be on the wrong one.
    arguments = {"prepare_threshold": None, "client_encoding": "utf8"}
    engine = sa.create_engine(parsed, connect_args=arguments, pool_reset_on_return=None, **options)

    @event.listens_for(engine, "reset")
    def _discard_all(connection: psycopg.Connection[Any], _record: Any, state: Any) -> None:
        """Leave nothing to the next user: settings, cursors, prepared statements, listeners, temporary tables."""
        if state.terminate_only or connection.closed:
            return
        connection.rollback()
        autocommit = connection.autocommit
        connection.autocommit = True
        connection.execute("discard all")
        connection.autocommit = autocommit

    return engine


class EvidenceStore:
    """A store, reached through an engine, a connection or a session.

    Parameters
    ----------
    bind : sqlalchemy.Engine, sqlalchemy.Connection or sqlalchemy.orm.Session
        From an engine, each :meth:`tenant` block is a transaction of its own, committed when the block ends well. On
        the caller's connection or session the block works inside the caller's transaction, never commits, and puts
        the previous binding back.
    """

    def __init__(self, bind: Bind) -> None:
        self._bind = bind
        self._owned = ExitStack()

    @classmethod
    def connect(cls, url: str | sa.URL) -> Self:
        """Open a store by URL (``postgresql://login@host/database``), with an engine of its own."""
        engine = make_engine(url)
        store = cls(engine)
        store._owned.callback(engine.dispose)
        return store

    @classmethod
    def embedded(cls, home: str | Path | None = None) -> Self:
        """Open the store of the embedded server, installing it at first use.

        Where the environment variable ``RAG_SQL_DATABASE_URL`` names a database, that store is opened instead.

        Parameters
        ----------
        home : path, optional
            Where the data lives; default is the platform's user data folder.

        Raises
        ------
        EmbeddedUnavailable
            The platform has no binaries, or the server does not start; the message says what to do.
        """
        from rag_sql._local import LocalStore

        if url := os.environ.get("RAG_SQL_DATABASE_URL"):
            return cls.connect(url)

        with ExitStack() as opened:
            local = opened.enter_context(LocalStore(Path(home) if home is not None else None))
            engine = make_engine(local.url())
            opened.callback(engine.dispose)
            store = cls(engine)
            store._owned = opened.pop_all()
        return store

    def close(self) -> None:
        """Give back what the store opened itself; the caller's engine, connection or session is left alone."""
        self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @contextmanager
    def tenant(self, name: str | None) -> Iterator[Tenant]:
        """Bind a tenant for the length of a block, in one transaction.

        Parameters
        ----------
        name : str or None
            The tenant; None binds none, so that only public documents are seen.

        Raises
        ------
        TenantNotBound
            The tenant is not granted to the login, or does not exist.
        NotInstalled, NotAllowed
            The database holds no store; the login is in none of its groups.
        BindingLost
            The connection commits every statement, so that nothing can be bound for longer than one.
        """
        if isinstance(self._bind, sa.Engine):
            with self._bind.begin() as connection:
                _bind(connection, name)
                yield Tenant(connection, connection.get_transaction, name)
            return
        session_or_connection = self._bind
        connection = (
            session_or_connection.connection() if isinstance(session_or_connection, Session) else session_or_connection
        )
        before = _bind(connection, name)
        tenant = Tenant(connection, connection.get_transaction, name)
        try:
            yield tenant
        finally:
            # A transaction that failed takes the binding with it when it is rolled back.
            if tenant.alive() and not _failed(connection):
                connection.execute(_statements.BIND, {"tenant": before})


def _bind(connection: sa.Connection, name: str | None) -> str | None:
    """Assert and prove a tenant; the one asserted before is returned."""
    with translate():
        try:
            before: str | None = connection.execute(_statements.BIND, {"tenant": name}).scalar()
        except sa.exc.ProgrammingError as error:
            if isinstance(error.orig, psycopg.errors.InvalidSchemaName | psycopg.errors.UndefinedFunction):
                raise NotInstalled(
                    "no store is installed in this database, or an older one",
                    hint="Run: rag-sql install, or rag-sql upgrade",
                ) from error
            if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
                raise NotAllowed(
                    "this login is in none of the store's groups",
                    hint="Ask the administrator of the store for: grant rag_reader to LOGIN;",
                ) from error
            raise
    driver = connection.connection.driver_connection
    if isinstance(driver, psycopg.Connection) and driver.autocommit:
        raise BindingLost(
            "the connection commits every statement, so a tenant cannot stay bound",
            hint="Use a connection without the AUTOCOMMIT isolation level.",
        )
    return before


def _failed(connection: sa.Connection) -> bool:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver.info.transaction_status == psycopg.pq.TransactionStatus.INERROR


class Tenant:
    """The store as one tenant sees it, for the length of a transaction. Made by :meth:`EvidenceStore.tenant`."""

    def __init__(self, connection: sa.Connection, current: Any, name: str | None) -> None:
        self._connection = connection
        self._current = current
        self._transaction = current()
        self.name = name

    def alive(self) -> bool:
        """Whether the transaction in which the tenant was bound is still open and sound."""
        return self._transaction is not None and self._current() is self._transaction and self._transaction.is_active

    def _rows(self, statement: sa.TextClause, **parameters: Any) -> list[dict[str, Any]]:
        if not self.alive():
            raise BindingLost(
                "the transaction in which the tenant was bound has ended",
                hint="Open a new block: with store.tenant(...).",
            )
        with translate():
            rows = self._connection.execute(statement, parameters).mappings().all()
        return [dict(row) for row in rows]

    def _value(self, statement: sa.TextClause, **parameters: Any) -> Any:
        (row,) = self._rows(statement, **parameters)
        (value,) = row.values()
        return value

    # Documents and contracts

    def load_documents(self, documents: Sequence[Mapping[str, Any]]) -> list[LoadedDocument]:
        """Load documents, all or nothing, in one round trip.

        Parameters
        ----------
        documents : sequence of mappings
            Keys ``id``, ``version``, ``body`` and, optionally, ``title``, ``applies_to`` (attribute to list of texts),
            ``effective_from``, ``published``, ``source``, ``metadata``, ``spans`` (each ``id``, ``fact``, ``quote``
            and, where the quotation is ambiguous, ``occurrence``).

        Returns
        -------
        list of LoadedDocument
            One for each document, in order.

        Raises
        ------
        TenantRequired, NotAllowed, InvalidDocument, VersionConflict, QuoteNotFound, AmbiguousQuote
            Nothing was loaded.
        """
        rows = self._rows(_statements.LOAD_DOCUMENTS, documents=json.dumps(list(documents), ensure_ascii=False))
        return [LoadedDocument(**row) for row in rows]

    def withdraw_version(
        self, document_id: str, version: int, *, withdrawn_from: datetime | None = None, note: str | None = None
    ) -> None:
        """Take a version out of use from an instant on (default: now); an older version does not come back.

        Raises
        ------
        TenantRequired, NotAllowed, VersionNotFound
        """
        self._rows(
            _statements.WITHDRAW_VERSION,
            document_id=document_id,
            version=version,
            withdrawn_from=withdrawn_from,
            note=note,
        )

    def add_contract(self, question_id: str, version: int, content: Mapping[str, Any]) -> str:
        """Add a contract version; ``new``, or ``same`` where it exists with this content.

        Raises
        ------
        TenantRequired, NotAllowed, InvalidContract, ContractConflict
        """
        status: str = self._value(
            _statements.ADD_CONTRACT,
            question_id=question_id,
            version=version,
            content=json.dumps(content, ensure_ascii=False),
        )
        return status

    # Deciding

    def decide(
        self,
        question_id: str,
        *,
        query: str,
        case: Mapping[str, str],
        k: int,
        contract_version: int | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
    ) -> Decision:
        """Decide whether the evidence this tenant may use is enough; one round trip, reads only.

        Parameters
        ----------
        question_id : str
            Selects the contract. The tenant's own wins over a public one of the same id.
        query : str
            Words for the ranker.
        case : mapping of str to str
            The facts of the case: exactly the contract's case attributes.
        k : int
            Most passages to select, 1 to 1,000.
        contract_version : int, optional
            Default: the newest.
        valid_at, known_at : datetime, optional
            The instant the rules must hold at; the instant whose recorded state is used. Default: now.

        Raises
        ------
        InvalidRequest, InvalidCase, UnknownContractVersion
            An unsupported question is an outcome, not an error.
        """
        (row,) = self._rows(
            _statements.DECIDE,
            **_request(question_id, query, case, k, contract_version, valid_at, known_at),
        )
        return Decision._from_row(row)

    def record_packet(
        self,
        question_id: str,
        *,
        query: str,
        case: Mapping[str, str],
        k: int,
        contract_version: int | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
    ) -> Packet:
        """Decide and store, in one statement; parameters as in :meth:`decide`.

        Raises
        ------
        TenantRequired, UnsupportedQuestion, InvalidRequest, InvalidCase, UnknownContractVersion
            Nothing was stored.
        """
        document = self._value(
            _statements.RECORD_PACKET,
            **_request(question_id, query, case, k, contract_version, valid_at, known_at),
        )
        return Packet.from_document(document)

    def explain(
        self,
        question_id: str,
        *,
        query: str,
        case: Mapping[str, str],
        k: int,
        contract_version: int | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
    ) -> list[Candidate]:
        """Every visible passage with its score and why it was or was not selected; parameters as in :meth:`decide`.

        Raises
        ------
        UnsupportedQuestion, InvalidRequest, InvalidCase, UnknownContractVersion
        """
        rows = self._rows(
            _statements.EXPLAIN,
            **_request(question_id, query, case, k, contract_version, valid_at, known_at),
        )
        return [
            Candidate(**{**row, "applies_to": tuple(row["applies_to"]) if row["applies_to"] is not None else None})
            for row in rows
        ]

    # Claims and approvals

    def check_claims(self, evidence: Evidence, claims: Sequence[Claim]) -> list[Verdict]:
        """The claim gate: one verdict per claim, against a decision's or a packet's selection and spans.

        Raises
        ------
        InvalidClaims
            There is no claim, or one is malformed.
        """
        places = ("tenant", "document_id", "version", "range_start", "range_end")
        rows = self._rows(
            _statements.CHECK_CLAIMS,
            contract_tenant=evidence.contract.tenant,
            question_id=evidence.question_id,
            contract_version=evidence.contract.version,
            selection=json.dumps([{place: getattr(source, place) for place in places} for source in evidence.sources]),
            claims=claims_json(claims),
            known_at=evidence.request.known_at,
        )
        return [Verdict(Claim(**row["claim"]), row["verdict"], row["reason"]) for row in rows]

    def packet(self, packet_id: str) -> Packet:
        """A stored packet; raises PacketNotFound when there is none, or it is another tenant's."""
        return Packet.from_document(self._value(_statements.PACKET_DOCUMENT, packet_id=packet_id))

    def review(self, packet_id: str, claims: Sequence[Claim]) -> Review:
        """What a reviewer is shown: verdicts, withheld claims with their reasons, and the digests a decision binds.

        Raises
        ------
        TenantRequired, PacketNotFound, InvalidClaims
        """
        rows = self._rows(_statements.REVIEW_PACKET, packet_id=packet_id, claims=claims_json(claims))
        return Review(
            packet_id=packet_id,
            verdicts=tuple(Verdict(Claim(**row["claim"]), row["verdict"], row["reason"]) for row in rows),
            evidence_digest=rows[0]["evidence_digest"].hex(),
            draft_digest=rows[0]["draft_digest"].hex(),
            shown_digest=rows[0]["shown_digest"].hex(),
        )

    def approve(self, review: Review, *, reviewer_name: str | None = None, note: str | None = None) -> int:
        """Approve exactly what was shown; returns the decision's number.

        Raises
        ------
        TenantRequired, PacketNotFound, EvidenceInsufficient, NothingLicensed, PresentationChanged, ConcurrentDecision
        """
        return self._decide_review(review, "approved", reviewer_name, note)

    def reject(self, review: Review, *, reviewer_name: str | None = None, note: str | None = None) -> int:
        """Reject exactly what was shown; returns the decision's number. Raises as :meth:`approve`."""
        return self._decide_review(review, "rejected", reviewer_name, note)

    def _decide_review(self, review: Review, decision: str, reviewer_name: str | None, note: str | None) -> int:
        number: int = self._value(
            _statements.APPROVE,
            packet_id=review.packet_id,
            claims=claims_json([verdict.claim for verdict in review.verdicts]),
            shown_digest=bytes.fromhex(review.shown_digest),
            decision=decision,
            reviewer_name=reviewer_name,
            note=note,
        )
        return number

    def evidence_changes(self, packet_id: str) -> list[Change]:
        """What a decision made now would rest on that a packet did not; empty when nothing has changed.

        Raises
        ------
        TenantRequired, PacketNotFound
        """
        return [Change(**row) for row in self._rows(_statements.EVIDENCE_CHANGES, packet_id=packet_id)]

    def require_approval(self, packet_id: str, claims: Sequence[Claim]) -> Approval:
        """The gate before use: decides again, now, and returns the approval of this draft on this packet.

        Raises
        ------
        NoApproval
            Nobody has decided about this draft on this evidence.
        Rejected
            The newest decision is a rejection.
        StaleApproval
            The evidence, or what was shown, is no longer the same; ``detail`` has a line for each difference.
        TenantRequired, PacketNotFound, InvalidClaims
        """
        (row,) = self._rows(_statements.REQUIRE_APPROVAL, packet_id=packet_id, claims=claims_json(claims))
        digests = {key: row[key].hex() for key in ("evidence_digest", "draft_digest", "shown_digest")}
        return Approval(**{**row, **digests, "withheld": tuple(row["withheld"])})

    # Looking

    def contracts(self) -> list[ContractRow]:
        """Visible contract versions, by question."""
        return [
            ContractRow(
                **{
                    **row,
                    "case_attributes": tuple(row["case_attributes"]),
                    "required_facts": tuple(row["required_facts"]),
                }
            )
            for row in self._rows(_statements.CONTRACTS)
        ]

    def clauses(self, question_id: str) -> list[ClauseRow]:
        """Licensed clauses of all visible versions of a question's contracts, in contract order."""
        return [ClauseRow(**row) for row in self._rows(_statements.CLAUSES, question_id=question_id)]

    def packets(self, limit: int = 50) -> list[PacketRow]:
        """The tenant's newest packets, newest first."""
        rows = self._rows(_statements.PACKETS, tenant=self.name, limit=_whole_number("a limit", limit))
        return [PacketRow(**row) for row in rows]

    def approvals(self, limit: int = 50) -> list[ApprovalRow]:
        """The tenant's newest decisions, newest first, each with what it is worth now."""
        rows = self._rows(_statements.APPROVALS, limit=_whole_number("a limit", limit))
        return [ApprovalRow(**row) for row in rows]

    def corpus_fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything the retriever could see; it changes with any document, used or not."""
        fingerprint: bytes = self._value(_statements.CORPUS_FINGERPRINT)
        return fingerprint.hex()

    def span_check(self) -> list[dict[str, Any]]:
        """Spans whose stored place does not hold their quotation: always empty."""
        return self._rows(_statements.SPAN_CHECK)


def _request(
    question_id: str,
    query: str,
    case: Mapping[str, str],
    k: int,
    contract_version: int | None,
    valid_at: datetime | None,
    known_at: datetime | None,
) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "query": query,
        "case_facts": json.dumps(dict(case), ensure_ascii=False),
        "k": _whole_number("K", k),
        "contract_version": None if contract_version is None else _whole_number("a contract version", contract_version),
        "valid_at": valid_at,
        "known_at": known_at,
    }


def _whole_number(what: str, value: int) -> int:
    """The value, where the database can take it; which range is allowed, the database says."""
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise InvalidRequest(f"{what} must be a whole number from 1, not {value!r}")
    return value
