"""Documentation that cannot rot: what it says is run, and what there is, is said.

The README's blocks are followed in tests/packaging.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import rag_sql
from rag_sql import errors
from rag_sql.cli import app
from tests.conftest import CASE, QUERY, QUESTION, Database

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SCHEMA = (ROOT / "schema" / "README.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("code", blocks(SCHEMA, "sql"))
def test_the_sql_of_the_schemas_readme_runs(gateway: Database, code: str) -> None:
    with gateway.tenant("acme_reader") as acme:
        acme.record_packet(QUESTION, query=QUERY, case=CASE, k=2)
    statements = [statement.strip() for statement in code.split(";") if statement.strip()]
    with gateway.connect("acme_reader", autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
            assert cursor.description is None or cursor.rowcount > 0, statement


def test_every_command_is_documented() -> None:
    def names(command: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        children = getattr(command, "commands", None)
        if children is None:
            assert getattr(command, "help", None), f"{' '.join(path)} has no help"
            return [path]
        return [name for child, sub in children.items() for name in names(sub, (*path, child))]

    assert len(names(get_command(app))) > 10
    for name in names(get_command(app)):
        assert re.search(r"rag-sql " + " ".join(name) + r"\b", README), " ".join(name)


def test_exit_codes_are_the_same_in_the_readme_and_in_the_help() -> None:
    table = README[README.index("| result | exit code | what to do |") :].partition("\n\n")[0]
    documented = re.findall(r"^\| [^|]+ \| (\d+) \|", table, re.MULTILINE)
    epilog = get_command(app).epilog or ""
    assert sorted(documented) == sorted(re.findall(r"\b(\d+) ", epilog)) == ["0", "1", "130", "2", "3", "4", "5", "6"]


def test_every_error_code_is_in_the_table_with_its_class() -> None:
    documented = dict(re.findall(r"^\| (RS\d{3}) \| `(\w+)` \|", SCHEMA, re.MULTILINE))
    assert documented == {code: cls.__name__ for code, cls in errors.BY_SQLSTATE.items()}
    for name in errors.__all__:
        assert name == "RagSqlError" or f"`{name}`" in SCHEMA


def test_every_code_that_the_schema_raises_has_a_class() -> None:
    raised = set()
    for path in (ROOT / "schema").rglob("*.sql"):
        raised |= set(re.findall(r"errcode = '(\w+)'", path.read_text("utf-8")))
    assert raised == set(errors.BY_SQLSTATE)


def test_everything_public_has_a_docstring() -> None:
    for name in rag_sql.__all__:
        thing = getattr(rag_sql, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and inspect.isfunction(value):
                    assert inspect.getdoc(value), f"{name}.{member}"


def test_every_dependency_has_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    table = README[README.index("| dependency | for |") :].lower()
    for dependency in wanted:
        name = re.split(r"[\[<>=]", dependency)[0]
        assert name == "rag-sql" or name in table, name


def test_every_file_that_the_schemas_readme_names_exists() -> None:
    for name in re.findall(r"`((?:tables|security|api)/\d\w+\.sql)`", SCHEMA):
        assert (ROOT / "schema" / name).is_file(), name
    for name in re.findall(r"`(tests/[\w/]+(?:\.py)?)`", SCHEMA):
        assert (ROOT / name).exists(), name
