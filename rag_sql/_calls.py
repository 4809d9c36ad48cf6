"""What every method of a tenant rests on: its transaction, and one way to call the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import sqlalchemy as sa

from rag_sql.errors import BindingLost, InvalidRequest, translate

__all__ = ["Calls", "whole_number"]


class Calls:
    """A transaction in which a tenant is bound."""

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

    @contextmanager
    def savepoint(self) -> Iterator[Self]:
        """A block inside the transaction that is undone as a whole when it ends with an error."""
        with self._connection.begin_nested():
            yield self


def whole_number(what: str, value: int) -> int:
    """The value, where the database can take it; which range is allowed, the database says."""
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise InvalidRequest(f"{what} must be a whole number from 1, not {value!r}")
    return value
