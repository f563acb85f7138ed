"""The path of a row: what docs/architecture.md names exists, and it passes no more files than it did."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = {"trimask_core": "client", "trimask_client": "client", "trimask_server": "server"}
STEP = re.compile(r"`(trimask_\w+/[\w/]+\.py):([\w.]+)`")


def _path_of(part: str) -> str:
    """One list of the page: from its mark to the end of its steps."""
    return PAGE.split(f"<!-- path: {part} -->\n")[1].split("\n\n")[0]


def _names(path: Path) -> set[str]:
    """Functions, classes and methods, as `name` or `Class.name`; nothing of a file that is not there."""
    found: set[str] = set()
    if not path.is_file():
        return found
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))
            found.update(f"{node.name}.{item.name}" for item in methods)
    return found


def test_every_step_exists() -> None:
    steps = sorted(set(STEP.findall(PAGE)))
    assert len(steps) > 20
    names = {file: _names(ROOT / FOLDERS[file.split("/")[0]] / file) for file, _ in steps}
    assert [f"{file}:{name}" for file, name in steps if name not in names[file]] == []


def test_each_step_of_a_way_names_a_function() -> None:
    for part in ("shared", "rows", "moments"):
        steps = re.split(r"^\d+\. ", _path_of(part), flags=re.MULTILINE)[1:]
        assert len(steps) > 5
        assert [step for step in steps if not STEP.search(step)] == []


def test_suites_stay_out_of_the_shared_way_and_out_of_each_other() -> None:
    files = {
        part: {file for file, _ in STEP.findall(_path_of(part))} for part in ("shared", "rows", "moments")
    }
    for file in files["shared"]:
        assert not re.search(r"(trimask_core|suites)/(rows|moments)/", file), file
    assert not any("/moments/" in file for file in files["rows"])
    assert not any("/rows/" in file for file in files["moments"])


def test_a_row_and_a_report_pass_no_more_files() -> None:
    """A bound on what a reader of either path has to open, with room for what runs by the clock; lower it when it falls."""
    script = ROOT / "scripts" / "trace_paths.py"
    printed = subprocess.run([sys.executable, script, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(printed.stdout)
    files = {way: {step.split(":")[0] for step in steps} for way, steps in found.items()}
    assert "trimask_server/suites/rows/math.py" in files["row"]
    assert "trimask_core/moments/report.py" in files["report"]
    assert (len(files["row"]) <= 84, len(files["report"]) <= 80) == (True, True), (
        len(files["row"]),
        len(files["report"]),
    )
