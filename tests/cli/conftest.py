"""Keys and a study for the command line's tests, made once a worker and copied where a test writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from trimask_cli.study_file import bundled_definition
from trimask_server.local.keys import make_keys, node_places
from trimask_terminal.program import main


@dataclass(frozen=True)
class Result:
    """What a command printed and returned."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys/ and study.toml and study.json, not to be written to."""
    folder = tmp_path_factory.mktemp("cli")
    make_keys(folder / "keys", node_places(3, 2, "127.0.0.1", 7400))
    definition = folder / "study.toml"
    definition.write_text(bundled_definition())
    arguments = [
        "study",
        "new",
        str(definition),
        "--keys",
        str(folder / "keys"),
        "--out",
        str(folder / "study.json"),
    ]
    assert main(arguments) == 0
    return folder


@pytest.fixture
def study_folder(made: Path, tmp_path: Path) -> Path:
    """A copy of `made` for one test."""
    folder = tmp_path / "study"
    shutil.copytree(made, folder)
    return folder


@pytest.fixture
def trimask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the program in this process."""
    monkeypatch.setenv("COLUMNS", "200")
    capsys.readouterr()

    def run(*arguments: str | Path) -> Result:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run
