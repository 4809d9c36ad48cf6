"""The written matrix of privileges is what the catalog says."""

from __future__ import annotations

from difflib import unified_diff

from rag_sql._embedded import SUPERUSER
from tests.conftest import Database
from tests.tenancy import privileges


def test_the_written_matrix_is_what_the_catalog_says(installed_template: Database) -> None:
    """A grant that changes has its line in the same change: who may do what, directly or through a group."""
    with installed_template.connect(SUPERUSER) as connection:
        found = privileges.matrix(connection)
    written = privileges.written().read_text("utf-8")
    difference = unified_diff(written.splitlines(), found.splitlines(), "written", "the catalog", lineterm="", n=0)
    assert written == found, "\n".join(["python -m tests.tenancy.privileges writes it", *difference])


def test_every_role_of_the_store_has_its_column(installed_template: Database) -> None:
    with installed_template.connect(SUPERUSER) as connection:
        roles = connection.execute("select rolname::text from pg_roles where rolname ~ '^rag_'").fetchall()
    assert {role for (role,) in roles} == {f"rag_{role}" for role in privileges.ROLES} - {"rag_PUBLIC"}
