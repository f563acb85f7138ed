"""The device library in JavaScript: its types, its tests by node, and every vector again in Chromium."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from trimask_browser import ARGUMENTS, CHROMIUM, needs_browser
from trimask_web import REPOSITORY, WEB, run_node, serve_repository, type_checker
from web_cases import random_case

VECTORS = REPOSITORY / "tests" / "vectors"
# Published values and tables of the theory, which no device computes.
NOT_A_DEVICE_S = {"published-values.json", "moments-totals.json"}
IN_A_PAGE = """async () => {
  const { CHECKS } = await import('/tests/web/vector_checks.js');
  const read = async (name) => (await fetch(`/tests/vectors/${name}`)).text();
  const found = {};
  for (const [name, check] of Object.entries(CHECKS)) {
    try { found[name] = await check(read); } catch (error) { found[name] = String(error); }
  }
  return found;
}"""


def test_types() -> None:
    """Of the library, the page and these tests; tests/web/tsconfig.json includes all of client/web."""
    assert run_node(type_checker(), "--project", "tests/web") == ""


def test_by_node() -> None:
    tests = sorted((REPOSITORY / "tests" / "web").glob("*.test.js"))
    printed = run_node("--test", "--test-reporter=spec", *tests)
    assert "fail 0" in printed
    assert "pass 0" not in printed


@needs_browser
def test_every_vector_in_chromium() -> None:
    with serve_repository() as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.goto(f"{origin}/tests/web/package.json")
        found: dict[str, Any] = page.evaluate(IN_A_PAGE)
        browser.close()
    assert {name: result for name, result in found.items() if not (isinstance(result, int) and result)} == {}
    assert set(found) == {path.name for path in VECTORS.glob("*.json")} - NOT_A_DEVICE_S


@pytest.mark.parametrize(
    "numbers",
    [range(24), pytest.param(range(24, 500), marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
    ids=["24", "500"],
)
def test_random_studies_and_answers_give_the_same_bytes(numbers: range, tmp_path: Path) -> None:
    """Of both suites, sealed by Python and again by node from the same randomness."""
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([random_case(number) for number in numbers]), encoding="utf-8")
    assert f"{len(numbers)} alike" in run_node("tests/web/random_cases.js", path, seconds=900)


def test_tables_made_from_the_protos_and_the_catalogue() -> None:
    for name, text in runpy.run_path(str(REPOSITORY / "scripts" / "web_tables.py"))["documents"]().items():
        assert (WEB / "device" / name).read_text(encoding="utf-8") == text, "run python scripts/web_tables.py"


def test_nothing_is_loaded_from_elsewhere() -> None:
    """Every import is a file of the library: no package, no address."""
    for path in (WEB / "device").rglob("*.js"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(("import ", "export ", "} from ")) and " from " in line:
                assert ' from "./' in line or ' from "../' in line, f"{path.name}: {line}"
