"""What every method of a tenant rests on: its transaction, and one way to call the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import sqlalchemy as sa

from rag_sql._binding import Binding
from rag_sql.errors import InvalidRequest, translate

__all__ = ["Calls", "whole_number"]


class Calls:
    """A transaction in which a tenant is bound."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self.name = binding.name

    def _rows(self, statement: sa.TextClause, **parameters: Any) -> list[dict[str, Any]]:
        connection = self._binding.connection()
        with translate():
            rows = connection.execute(statement, parameters).mappings().all()
        return [dict(row) for row in rows]

    def _value(self, statement: sa.TextClause, **parameters: Any) -> Any:
        (row,) = self._rows(statement, **parameters)
        (value,) = row.values()
        return value

    @contextmanager
    def savepoint(self) -> Iterator[Self]:
        """A block inside the transaction that is undone as a whole when it ends with an error."""
        with self._binding.connection().begin_nested():
            yield self


def whole_number(what: str, value: int) -> int:
    """The value, where the database can take it; which range is allowed, the database says."""
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise InvalidRequest(f"{what} must be a whole number from 1, not {value!r}")
    return value
