"""The path of a row in docs/architecture.md: every file and function it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = {"trimask_core": "client", "trimask_client": "client", "trimask_server": "server"}
STEP = re.compile(r"`(trimask_\w+/[\w/]+\.py):([\w.]+)`")


def _path_of(part: str) -> str:
    """One list of the page: from its mark to the end of its steps."""
    return PAGE.split(f"<!-- path: {part} -->\n")[1].split("\n\n")[0]


def _names(path: Path) -> set[str]:
    """Functions, classes and methods, as `name` or `Class.name`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))
            found.update(f"{node.name}.{item.name}" for item in methods)
    return found


@pytest.mark.parametrize(("file", "name"), sorted(set(STEP.findall(PAGE))))
def test_a_step_exists(file: str, name: str) -> None:
    path = ROOT / FOLDERS[file.split("/")[0]] / file
    assert path.is_file(), file
    assert name in _names(path), f"{file} has no {name}"


@pytest.mark.parametrize("part", ["shared", "rows", "moments"])
def test_each_step_of_a_way_names_a_function(part: str) -> None:
    steps = re.split(r"^\d+\. ", _path_of(part), flags=re.MULTILINE)[1:]
    assert len(steps) > 5
    for step in steps:
        assert STEP.search(step), step


def test_suites_stay_out_of_the_shared_way_and_out_of_each_other() -> None:
    files = {
        part: {file for file, _ in STEP.findall(_path_of(part))} for part in ("shared", "rows", "moments")
    }
    for file in files["shared"]:
        assert not re.search(r"(trimask_core|suites)/(rows|moments)/", file), file
    assert not any("/moments/" in file for file in files["rows"])
    assert not any("/rows/" in file for file in files["moments"])
