"""The wheel and the source distribution carry everything that a checkout has."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from rag_sql._embedded import SUPERUSER
from tests.conftest import Server

ROOT = Path(__file__).parents[2]
SHARED = ("schema", "migrations", "seed")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def tree(*folders: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_the_package_and_the_shared_folders(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = tree("rag_sql") | {f"rag_sql/_share/{name}" for name in tree(*SHARED)}
    assert names == expected
    assert "rag_sql/py.typed" in names


def test_the_source_distribution_has_the_tests_too(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert tree("rag_sql", "tests", *SHARED) <= names


def test_the_demo_runs_from_the_wheel_outside_the_checkout(built: Path, server: Server, tmp_path: Path) -> None:
    """Schema, migrations and seed are found inside the package; its dependencies are those of this environment."""
    (wheel,) = built.glob("*.whl")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            "--target",
            str(tmp_path),
            str(wheel),
        ],
        check=True,
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import rag_sql;"
        f" assert rag_sql.__file__.startswith({str(tmp_path)!r}), rag_sql.__file__;"
        " from rag_sql.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", program, "demo", "--database-url", server.embedded.url(SUPERUSER, "postgres")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "all hold" in result.stdout
