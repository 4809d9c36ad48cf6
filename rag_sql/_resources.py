"""Where the SQL, the migrations and the seed lie: in an installed wheel, or beside the package in a checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

__all__ = ["find"]


def find(name: str) -> Path:
    """The folder ``schema``, ``migrations`` or ``seed``.

    Raises
    ------
    FileNotFoundError
        The folder is in neither place; both are named.
    """
    packaged = Path(str(resources.files("rag_sql"))) / "_share" / name
    checkout = Path(__file__).resolve().parent.parent / name
    for candidate in (packaged, checkout):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{name}: neither {packaged} nor {checkout} is a folder")
