"""The wheel and the source distribution carry everything that a checkout has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from rag_sql._embedded import SUPERUSER, EmbeddedServer, find_client
from tests.conftest import Server
from tests.packaging.reader import Reader, blocks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SHARED = ("schema", "migrations", "seed")


#: The gate runs these two, on a clean checkout.
OF_THE_GATE = re.compile(r"^python3 -m venv .*(demo|pytest)$", re.MULTILINE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs are of an environment, outside the checkout, with the wheel and this one's dependencies."""
    (wheel,) = built.glob("*.whl")
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)],
        check=True,
    )
    site = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    # A path in a .pth file comes after what is installed here, and without the .pth files there: without the checkout.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return python.parent


@pytest.fixture
def homes() -> Iterator[Path]:
    """A folder for servers, which their account can reach and whose name is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="rag-sql-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


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


def test_the_source_distribution_has_every_file_that_the_readme_shows(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    links = set(re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", README))
    assert "docs/flow.svg" in links
    assert links <= names


@pytest.mark.slow
def test_the_program_runs_what_is_in_the_wheel(installed: Path) -> None:
    where = [str(installed / "python"), "-P", "-c", "import rag_sql; print(rag_sql.__file__)"]
    printed = subprocess.run(where, cwd="/", check=True, capture_output=True, text=True).stdout
    assert Path(printed).is_relative_to(installed.parent)


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel_outside_the_checkout(installed: Path, server: Server, tmp_path: Path) -> None:
    """Schema, migrations and seed are found inside the package."""
    result = subprocess.run(
        [str(installed / "rag-sql"), "demo", "--database-url", server.embedded.url(SUPERUSER, "postgres")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "all hold" in result.stdout


@pytest.mark.slow
def test_every_block_of_the_readme_does_what_it_says(installed: Path, tmp_path: Path, homes: Path) -> None:
    """In order, as one session in an empty folder, with the wheel's programs and a server of the session's own.

    The host `db` is another server, on which nothing has been installed.
    """
    with EmbeddedServer(homes / "embedded"), EmbeddedServer(homes / "db") as db:
        at_db = conninfo_to_dict(db.conninfo(SUPERUSER, "postgres"))
        psql = find_client("psql")
        assert psql is not None
        reader = Reader(
            tmp_path,
            {
                "PATH": os.pathsep.join([str(installed), os.environ["PATH"], str(Path(psql).parent)]),
                "LANG": "C.UTF-8",
                "RAG_SQL_HOME": str(homes / "embedded"),
                **{name: value for name, value in os.environ.items() if name.startswith("RAG_SQL_PG_")},
                "PGHOST": str(at_db["host"]),
                "PGPORT": str(at_db["port"]),
            },
        )
        page = README.replace("-h db ", "").replace("@db/", "@/")
        for block in blocks(page):
            if not OF_THE_GATE.search(block.text):
                reader.follow(block)


def test_every_block_is_found_and_every_file_that_one_shows_is_used_by_a_later_one() -> None:
    found = blocks(README)
    assert len(re.findall(r"^\s*(```|~~~)", README, re.MULTILINE)) == 2 * len(found)  # no fence that is not looked at
    for place, block in enumerate(found):
        assert not block.name or any(block.name in later.text for later in found[place + 1 :]), block.name


@pytest.mark.parametrize(
    "block",
    [
        "sh\nfalse\n",
        "sh\nfalse | true\n",
        "sh\ntrue  # exit code 1\n",
        "sh\nfalse  # exit code 3\n",
        "console\n$ true  # exit code 3\n",
        "console\n$ echo said\n",
        "console\n$ echo said\nsomething else\n",
        "console\n$ true\n$ echo said\n...\nsomething else\n",
        "python\nraise SystemExit(1)\n",
        "text\nnothing was printed\n",
        "ruby\nputs 1\n",
        "yaml\nof: no file\n",
    ],
)
def test_a_block_that_does_not_do_what_it_says_is_found(tmp_path: Path, block: str) -> None:
    reader = Reader(tmp_path, {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])})
    (found,) = blocks(f"```{block}```\n")
    with pytest.raises(AssertionError):
        reader.follow(found)


def test_a_session_keeps_what_it_exports_and_knows_its_own_ids(tmp_path: Path) -> None:
    reader = Reader(tmp_path, {"PATH": os.environ["PATH"]})
    one, other = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "12")
    page = (
        f"```sh\nexport ID={one}\n```\n"
        f"```console\n$ echo packet $ID at 2026-01-01T00:00:00Z\npacket {other} at 2027-12-31T10:00:00.5+00:00\n```\n"
        f"```console\n$ test {other} = $ID\n$ echo no  # exit code 0\n...\nno\n```\n"
        f"```data of.txt\nwords\n```\n```sh\ngrep -q words of.txt\n```\n"
    )
    for block in blocks(page):
        reader.follow(block)
