"""`trimask demo` as a person runs it, and the README's example on what it leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def _demo(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trimask_terminal", "demo", *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"COLUMNS": "120"},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    folder = tmp_path_factory.mktemp("demo")
    done = _demo(folder, "--participants", "300", "--block-size", "64", "--epsilon", "20", "--json")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_demo_reports_the_three_fits(finished: tuple[Path, dict[str, object]]) -> None:
    folder, report = finished
    out = folder / "out" / "demo"
    assert {path.name for path in out.iterdir()} == {
        "dataset.parquet", "manifest.json", "manifest.sig", "report.json", "report.png",
    }  # fmt: skip
    assert json.loads((out / "report.json").read_text()) == report
    assert report["participants"] == 300
    fits = report["fits"]
    assert isinstance(fits, dict)
    truth = {item["name"]: item for item in fits["rows"]["coefficients"]}
    release = {item["name"]: item for item in fits["release"]["coefficients"]}
    # Noise is drawn anew in every run: |release - truth| below 6 standard errors fails with probability 2e-8 for 7.
    for name, item in release.items():
        assert abs(item["coef"] - truth[name]["coef"]) < 6 * item["bse"], name
    assert report["guarantee"]["public"]["epsilon"] == 20.0  # type: ignore[index]


def test_readme_example_runs_as_pasted(finished: tuple[Path, dict[str, object]]) -> None:
    folder, _ = finished
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", blocks[0]], cwd=folder, capture_output=True, text=True, timeout=120,
        env=os.environ | {"MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Rows are not people" in done.stdout
    assert "(20, 1e-06)-differential privacy" in done.stdout
    assert (folder / "coefficients.png").stat().st_size > 10_000


def test_demo_on_own_data_without_noise(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'title = "Own"\npurpose = "mine"\ncontact = "me"\n[privacy]\nexact = true\n'
        "[collection]\nblock_rows = 32\nrelease_rows = 64\n"
        '[[attributes]]\nname = "y"\nkind = "continuous"\nminimum = -20\nmaximum = 20\n'
        '[[attributes]]\nname = "x"\nkind = "continuous"\nminimum = -3\nmaximum = 3\n'
    )
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 70)
    lines = [f"{2 + 3 * a + e:.4f},{a:.4f}" for a, e in zip(x, rng.normal(size=70), strict=True)]
    (tmp_path / "own.csv").write_text("y,x\n" + "\n".join(lines) + "\n")
    done = _demo(
        tmp_path, "--study", "own.toml", "--rows", "own.csv", "--right", "2", "--left", "1", "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["gram_relative_error"] < 1e-7
    truth, release = report["fits"]["rows"]["coefficients"], report["fits"]["release"]["coefficients"]
    for one, other in zip(truth, release, strict=True):
        assert one["coef"] == pytest.approx(other["coef"], rel=1e-5)
    # Unless --out says otherwise nothing but out/ is left behind.
    assert {path.name for path in tmp_path.iterdir()} == {"own.toml", "own.csv", "out"}


def test_demo_names_the_line_that_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'title = "Own"\npurpose = "mine"\ncontact = "me"\n[privacy]\nexact = true\n'
        "[collection]\nblock_rows = 32\nrelease_rows = 64\n"
        '[[attributes]]\nname = "y"\nkind = "continuous"\nminimum = 0\nmaximum = 1\n'
    )
    (tmp_path / "own.csv").write_text("y\n0.5\n1.5\n")
    done = _demo(tmp_path, "--study", "own.toml", "--rows", "own.csv")
    assert done.returncode == 2
    assert "line 3: y: must be between 0 and 1" in done.stderr
    assert "Traceback" not in done.stderr
