"""Commands on the types of attributes: attribute set|list."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from rag_sql import _render
from rag_sql.cli._apps import attribute_app
from rag_sql.cli._common import (
    HomeOption,
    JsonOption,
    RequiredTenant,
    TenantOption,
    UrlOption,
    command,
    open_store,
    out,
    print_json,
)

__all__: list[str] = []


@command(attribute_app, "set")
def attribute_set(
    attribute: Annotated[str, typer.Argument(metavar="NAME", help="A key of applies_to and of case facts.")],
    attribute_type: Annotated[
        str,
        typer.Argument(
            metavar="TYPE", help="text, number, flag, date, version-pep440, version-semver or version-numeric."
        ),
    ],
    tenant: RequiredTenant,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Declare the type of an attribute. Refused while a stored value is none of the type."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        status = bound.set_attribute(attribute, attribute_type)
    if as_json:
        print_json({"attribute": attribute, "type": attribute_type, "status": status})
    else:
        out.print(
            f"attribute {attribute} is a {attribute_type}: {status}", markup=False, highlight=False, soft_wrap=True
        )


@command(attribute_app, "list")
def attribute_list(
    tenant: TenantOption = None,
    database_url: UrlOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List attributes and their types; one that is not listed is a text."""
    with open_store(database_url, home) as store, store.tenant(tenant) as bound:
        rows = bound.attributes()
    print_json([asdict(row) for row in rows]) if as_json else _render.attributes(out, rows)
