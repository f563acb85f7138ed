"""`trimask pull` against a real collector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import trimask
from trimask_client import Client
from trimask_lab import Lab, some_people
from trimask_terminal.program import main


@pytest.fixture(scope="module")
def closed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A study with two releases, and its file."""
    signed = lab.open_study()
    with Client(signed) as client:
        for answers in some_people(96, seed=11):
            client.submit(answers)
    lab.close(signed.study)
    path = tmp_path_factory.mktemp("pull") / "study.json"
    path.write_text(signed.without_seed().to_json())
    return path, signed.study


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMASK_CACHE", str(tmp_path / "cache"))


def test_every_release_is_pulled_and_opens(
    closed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, study = closed
    assert main(["pull", str(path), "--out", str(tmp_path), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["rows"] for entry in entries] == [48, 48]
    for entry in entries:
        assert trimask.Dataset.open(entry["folder"], study_id=study.id).rows == 48


def test_list_pulls_nothing(closed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, study = closed
    assert main(["pull", str(path), "--list", "--out", str(tmp_path / "none")]) == 0
    assert f"{study.id.hex()[:12]}-1: 48 rows x 3 columns\n" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


def test_one_release_by_name(closed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, study = closed
    name = f"{study.id.hex()[:12]}-2"
    assert main(["pull", str(path), name, "--out", str(tmp_path)]) == 0
    assert {folder.name for folder in tmp_path.iterdir()} == {name, "cache"}


@pytest.mark.parametrize(("kind", "read"), [("csv", pd.read_csv), ("arrow", pd.read_feather)])
def test_other_formats_lie_beside_the_signed_file(closed: Any, tmp_path: Path, kind: str, read: Any) -> None:
    path, study = closed
    name = f"{study.id.hex()[:12]}-1"
    assert main(["pull", str(path), name, "--format", kind, "--out", str(tmp_path)]) == 0
    dataset = trimask.Dataset.open(tmp_path / name)  # still opens: the signed files are untouched
    pd.testing.assert_frame_equal(read(tmp_path / name / f"dataset.{kind}"), dataset.to_pandas())


def test_unknown_dataset_is_named(closed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = closed
    assert main(["pull", str(path), "nothing-9"]) == 5
    assert "nothing-9 is not published; there are" in capsys.readouterr().err
