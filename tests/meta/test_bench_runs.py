"""`python -m bench` runs, and its JSON has the shape that readers of it rely on. No speed is asserted here."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_quick_run_writes_results_beside_their_limits(tmp_path: Path) -> None:
    out = tmp_path / "made" / "bench.json"
    done = _bench("--quick", "--only", "normals", "device", "--out", str(out))
    assert done.returncode == 0, done.stderr
    data = json.loads(out.read_text(encoding="utf-8"))
    assert data["format"] == "trimask-bench/1"
    assert data["quick"] is True
    assert data["machine"]["cores"] >= 1
    assert {result["suite"] for result in data["results"]} == {"deterministic normals", "a device"}
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
    assert upload["detail"]["theoretical"] < upload["value"] < 10_240 + 100 * 3


def test_unknown_name_is_refused_with_the_names_there_are() -> None:
    done = _bench("--only", "nothing")
    assert done.returncode == 2
    assert "submit" in done.stderr
