"""`python -m bench` runs, and its JSON has the shape that readers of it rely on. No speed is asserted here."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import BEGIN, END, put_into
from bench.results import Result
from trimask_patience import patience

pytestmark = pytest.mark.slow  # of figures for a page, not of the product: `make test-all`

ROOT = Path(__file__).resolve().parents[2]


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )


def test_quick_run_writes_results_beside_their_limits(tmp_path: Path) -> None:
    out = tmp_path / "made" / "bench.json"
    done = _bench("--quick", "--only", "left", "device", "--out", str(out))
    assert done.returncode == 0, done.stderr
    data = json.loads(out.read_text(encoding="utf-8"))
    assert data["format"] == "trimask-bench/1"
    assert data["quick"] is True
    assert data["machine"]["cores"] >= 1
    assert {result["suite"] for result in data["results"]} == {"left masking", "a device"}
    for result in data["results"]:
        assert result["value"] > 0
        assert result["limit"] > 0
        spent = result["value"] / result["limit"]
        # A speed is a share of the limit's, so less time is a larger ratio; of a budget it is what was spent.
        expected = spent if result["kind"] == "budget" else 1 / spent
        assert math.isclose(result["ratio"], expected, rel_tol=1e-9)
        assert (result["met"] is None) == (result["required"] is None)


def test_upload_fits_its_budget_and_holds_at_least_its_content(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    assert _bench("--quick", "--only", "device", "--out", str(out)).returncode == 0
    (upload,) = (
        result
        for result in json.loads(out.read_text(encoding="utf-8"))["results"]
        if result["name"].startswith("uploaded in all")
    )
    assert upload["detail"]["theoretical"] < upload["value"] < 10_240 + (100 + 1088) * 4


def test_unknown_name_is_refused_with_the_names_there_are() -> None:
    done = _bench("--only", "nothing")
    assert done.returncode == 2
    assert "submit" in done.stderr


def test_the_page_takes_a_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    kept = Result("device", "sealed", "budget", 10.0, 500.0, "ms", "stated", 0.02, 1.0)
    put_into(page, [kept, Result("left", "no requirement", "speed", 1, 1, "ms", "dgemm", 1.0)], "One run.")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| device | sealed | 10 ms | 500 ms | 0.02 | ≤ 1, met | stated |" in text
    assert "old" not in text
    assert "no requirement" not in text


def test_the_documentation_has_the_marks() -> None:
    text = (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)
