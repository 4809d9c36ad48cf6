"""Where the SQL, the migrations and the seed lie, in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_sql import _resources


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("schema", "tables/020_documents.sql"),
        ("schema", "api/090_decide.sql"),
        ("migrations", "env.py"),
        ("seed", "gateway/contract.yaml"),
    ],
)
def test_a_folder_is_found_with_what_belongs_there(name: str, part: str) -> None:
    assert (_resources.find(name) / part).is_file()


def test_a_wheels_own_folder_wins_over_a_checkout_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = tmp_path / "_share" / "schema"
    packaged.mkdir(parents=True)
    monkeypatch.setattr("importlib.resources.files", lambda _package: tmp_path)
    assert _resources.find("schema") == packaged
    assert _resources.find("seed") != tmp_path / "_share" / "seed"


def test_a_folder_that_is_nowhere_is_named_with_both_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.resources.files", lambda _package: tmp_path)
    with pytest.raises(FileNotFoundError) as raised:
        _resources.find("nothing")
    assert str(tmp_path / "_share" / "nothing") in str(raised.value)
    assert str(Path(_resources.__file__).resolve().parent.parent / "nothing") in str(raised.value)


def test_a_file_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_share").mkdir()
    (tmp_path / "_share" / "schema").write_text("x")
    monkeypatch.setattr("importlib.resources.files", lambda _package: tmp_path)
    assert _resources.find("schema") == Path(_resources.__file__).resolve().parent.parent / "schema"
