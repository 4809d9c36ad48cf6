"""Errors: one class for each SQLSTATE, both ways; translated by code or constraint name, never by message."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc

import rag_sql
from rag_sql import _resources, errors
from rag_sql.errors import BY_CONSTRAINT, BY_SQLSTATE, FileRefused, RagSqlError, from_driver, translate

#: What arises before a server answers, or stands for a constraint: no SQLSTATE of ours.
CLIENT_ONLY = {
    "BindingLost",
    "ConcurrentDecision",
    "ConnectionLost",
    "DatabaseTooNew",
    "EmbeddedUnavailable",
    "EmbedderUnavailable",
    "ExtensionMissing",
    "FileRefused",
    "NotInstalled",
    "NothingToAudit",
    "PassageWithoutText",
    "ReadOnlyServer",
}

CLASSES: list[type[RagSqlError]] = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, RagSqlError)
]
SQL = {str(path): path.read_text(encoding="utf-8") for path in _resources.find("schema").rglob("*.sql")}


class ServerError(psycopg.Error):
    """An error as the driver raises it, with the fields that a server sends."""

    def __init__(self, sqlstate: str | None, **fields: str) -> None:
        super().__init__(fields.get("message_primary", ""))
        self.sqlstate = sqlstate
        self._fields = fields

    @property
    def diag(self) -> Any:
        names = ("message_primary", "message_detail", "message_hint")
        places = ("column_name", "table_name", "datatype_name", "constraint_name")
        return SimpleNamespace(**{name: self._fields.get(name) for name in names + places})


# Codes and classes


def raised_in_schema() -> set[str]:
    return {code for text in SQL.values() for code in re.findall(r"errcode\s*=\s*'([^']*)'", text)}


def test_every_code_that_the_schema_raises_has_a_class() -> None:
    assert raised_in_schema() - set(BY_SQLSTATE) == set()


def test_every_class_with_a_code_is_raised_by_the_schema() -> None:
    assert set(BY_SQLSTATE) - raised_in_schema() == set()


def test_the_schema_raises_no_other_way() -> None:
    """Every `raise exception` states its code; none is left to P0001."""
    for name, text in SQL.items():
        code = re.sub(r"--[^\n]*", "", text)
        for statement in re.findall(r"raise exception\b(.*?);", code, re.DOTALL):
            assert re.search(r"errcode\s*=\s*'RS[0-9]{3}'", statement), (name, statement)


def test_codes_are_of_our_class_and_belong_to_one_class_each() -> None:
    codes = [cls.sqlstate for cls in CLASSES if cls.sqlstate is not None]
    assert all(re.fullmatch("RS[0-9]{3}", code) for code in codes)
    assert len(codes) == len(set(codes)) == len(BY_SQLSTATE)


def test_the_classes_without_a_code_are_known() -> None:
    assert {cls.__name__ for cls in CLASSES if cls.sqlstate is None} == CLIENT_ONLY | {"RagSqlError"}


def test_every_class_is_exported_documented_and_caught_as_one() -> None:
    assert set(errors.__all__) == {cls.__name__ for cls in CLASSES}
    assert all(cls.__doc__ for cls in CLASSES)
    for cls in CLASSES:
        assert getattr(rag_sql, cls.__name__, None) is cls or getattr(rag_sql.errors, cls.__name__) is cls
        assert not issubclass(cls, psycopg.Error)


@pytest.mark.parametrize("name", BY_CONSTRAINT)
def test_a_constraint_that_is_mapped_exists(name: str) -> None:
    assert any(re.search(rf"constraint {name} ", text) for text in SQL.values())


# Translation


FIELDS = {
    "message_primary": "what",
    "message_detail": "exactly",
    "message_hint": "do this",
    "column_name": "0.id",
    "table_name": "D",
    "datatype_name": "3",
    "constraint_name": "s1",
}


@pytest.mark.parametrize("code", sorted(BY_SQLSTATE))
def test_a_code_becomes_its_class_with_every_field(code: str) -> None:
    found = from_driver(ServerError(code, **FIELDS))
    assert type(found) is BY_SQLSTATE[code]
    assert found is not None
    assert (found.sqlstate, found.message, str(found), found.detail, found.hint) == (
        code,
        "what",
        "what",
        "exactly",
        "do this",
    )
    assert (found.column, found.table, found.datatype, found.constraint) == ("0.id", "D", "3", "s1")


def test_fields_that_a_server_does_not_send_are_empty() -> None:
    found = from_driver(ServerError("RS010"))
    assert found is not None
    assert [found.detail, found.hint, found.column, found.table, found.datatype, found.constraint] == [""] * 6


@pytest.mark.parametrize("name", BY_CONSTRAINT)
def test_a_constraint_becomes_its_class_whatever_the_message(name: str) -> None:
    found = from_driver(ServerError("23505", message_primary="in any language", constraint_name=name))
    assert type(found) is BY_CONSTRAINT[name]


@pytest.mark.parametrize(
    "error",
    [
        ServerError("42501", message_primary="RS001: permission denied"),
        ServerError("23505", constraint_name="somebody_elses_key"),
        ServerError("RS999", message_primary="not ours yet"),
        ServerError("P0001", message_primary="RS023"),
        ServerError(None, message_primary="connection lost"),
    ],
    ids=lambda error: str(error.sqlstate),
)
def test_what_is_not_ours_passes_untouched(error: ServerError) -> None:
    assert from_driver(error) is None
    with pytest.raises(ServerError) as bare, translate():
        raise error
    assert bare.value is error
    wrapped = sqlalchemy.exc.DBAPIError("select", {}, error)
    with pytest.raises(sqlalchemy.exc.DBAPIError) as raised, translate():
        raise wrapped
    assert raised.value is wrapped


def test_ours_is_raised_from_what_the_driver_raised() -> None:
    error = ServerError("RS023", message_primary="not there")
    with pytest.raises(errors.QuoteNotFound) as bare, translate():
        raise error
    assert bare.value.__cause__ is error
    wrapped = sqlalchemy.exc.DBAPIError("select", {}, error)
    with pytest.raises(errors.QuoteNotFound, match=r"^not there$") as raised, translate():
        raise wrapped
    assert raised.value.__cause__ is wrapped


def test_an_error_of_anything_else_passes_untouched() -> None:
    with pytest.raises(KeyError), translate():
        raise KeyError("x")
    with pytest.raises(errors.BindingLost), translate():
        raise errors.BindingLost("gone")


# Files


def test_a_refused_file_says_where() -> None:
    error = FileRefused("d.md", 3, "is wrong", detail="d", hint="h", cause_code="RS020")
    assert (str(error), error.message) == ("d.md:3: is wrong", "d.md:3: is wrong")
    assert (error.path, error.line, error.detail, error.hint, error.cause_code) == ("d.md", 3, "d", "h", "RS020")
    assert str(FileRefused("d.md", 0, "is wrong")) == "d.md: is wrong"
    assert error.sqlstate is None
