"""`trimask demo` as a person runs it, and docs/first-study.md's example on what it leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trimask_cli.demo.devices import blood_pressure_population
from trimask_cli.study_file import bundled_definition
from trimask_core.moments.layout import MomentsLayout
from trimask_patience import patience
from trimask_terminal.program import main
from trimask_theory.planning.study_definition import load_definition

ROOT = Path(__file__).parents[2]


def _demo(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trimask_terminal", "demo", *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=patience(240),
        env=os.environ | {"COLUMNS": "120"},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which a demo of both suites ran, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    done = _demo(folder, "--participants", "300", "--block-size", "64", "--epsilon", "20")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_demo_reports_the_three_fits(finished: tuple[Path, str]) -> None:
    out = finished[0] / "out" / "demo" / "rows"
    assert {path.name for path in out.iterdir()} == {
        "README.md", "counted.bin", "dataset.parquet", "manifest.json", "manifest.sig", "report.json", "report.png",
    }  # fmt: skip
    report = json.loads((out / "report.json").read_text())
    assert report["participants"] == 300
    said = (out / "README.md").read_text()
    assert "from an institution that has their answers" in said
    assert "R1 300, R2 300, R3 300, R4 300" in said
    fits = report["fits"]
    truth = {item["name"]: item for item in fits["rows"]["coefficients"]}
    release = {item["name"]: item for item in fits["release"]["coefficients"]}
    # Noise is drawn anew in every run: |release - truth| below 6 standard errors fails with probability 2e-8 for 7.
    for name, item in release.items():
        assert abs(item["coef"] - truth[name]["coef"]) < 6 * item["bse"], name
    assert report["guarantee"]["public"]["epsilon"] == 20.0


def test_both_suites_side_by_side(finished: tuple[Path, str]) -> None:
    """The same people in both; the raw fits agree, and what is said at the end is what is counted."""
    folder, said = finished
    out = folder / "out" / "demo"
    assert {path.name for path in out.iterdir()} == {"rows", "moments", "report.json", "report.png"}
    report = json.loads((out / "report.json").read_text())
    rows, moments = report["suites"]["rows"], report["suites"]["moments"]
    for one, other in zip(
        rows["fits"]["rows"]["coefficients"], moments["fits"]["rows"]["coefficients"], strict=True
    ):
        assert one["coef"] == pytest.approx(other["coef"])  # raw rows of the same people
    assert [cost["institutions"] for cost in report["costs"].values()] == [7, 3]
    assert all(cost["cpu_ms_a_person"] > 0 for cost in report["costs"].values())
    counts = [len(report["effects_seen"][way]) for way in ("moments", "rows", "raw rows")]
    numbers = re.findall(r"(\d+) (?:of 6 effects|in TM²|in raw rows)", report["take_away"])
    assert counts == [int(number) for number in numbers]
    assert "age" in report["effects_seen"]["raw rows"]
    assert report["take_away"] in " ".join(said.split())
    assert "10 years older" in said


def test_what_a_researcher_sees_runs_as_pasted(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    page = (ROOT / "docs" / "first-study.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page.split("## What a researcher sees")[1], re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", blocks[0]], cwd=folder, capture_output=True, text=True, timeout=patience(120),
        env=os.environ | {"MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Rows are not people" in done.stdout
    assert "(20, 1e-06)-differential privacy" in done.stdout
    assert (folder / "coefficients.png").stat().st_size > 10_000


@pytest.mark.slow
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


def test_demo_of_the_moments_suite_is_exact_without_noise(tmp_path: Path) -> None:
    flags = ("--suite", "moments", "--right", "2", "--exact", "--participants", "64", "--seed", "7")
    done = _demo(tmp_path, *flags, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    out = tmp_path / "out" / "demo"
    assert {path.name for path in out.iterdir()} == {
        "README.md", "counted.bin", "moments.json", "manifest.json", "manifest.sig", "report.json", "report.png",
    }  # fmt: skip
    assert json.loads((out / "report.json").read_text()) == report
    assert (report["suite"], report["participants"], report["sigma"]) == ("moments", 64, 0.0)
    assert report["gram_relative_error"] == 0.0
    # Once more without the demo's own check: whole numbers, equal and not nearly.
    encoded = MomentsLayout.of(load_definition(bundled_definition("moments")).schema, 2.2)
    rows = [encoded.encode(person).z for person in blood_pressure_population(64, 7)]
    published = json.loads((out / "moments.json").read_text())
    q = encoded.q
    assert published["first"] == [sum(row[j] for row in rows) for j in range(q)]
    assert published["products"] == [
        sum(row[j] * row[k] for row in rows) for j in range(q) for k in range(j, q)
    ]
    assert [item["parties"] for item in report["collusion"]["coalitions"]] == [["R1", "R2"]]
    assert report["guarantee"] == {"public": None, "collector": None}


@pytest.mark.slow
def test_demo_of_the_moments_suite_with_noise(tmp_path: Path) -> None:
    flags = ("--suite", "moments", "--right", "3", "--participants", "160", "--epsilon", "400", "--seed", "7")
    done = _demo(tmp_path, *flags)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "demo" / "report.json").read_text())
    assert 0 < report["gram_relative_error"] < 1
    assert report["guarantee"]["public"]["epsilon"] == 400.0
    assert report["guarantee"]["collector"] is None
    truth = {item["name"]: item for item in report["fits"]["rows"]["coefficients"]}
    # So little noise that the fit is never refused: sigma is far below the smallest eigenvalue of the moments.
    # It is drawn anew in every run: age within 8 standard errors of the rows' fit fails with probability below 1e-12,
    # clipping included, which moves it by a fraction of one.
    age = next(item for item in report["fits"]["release"]["coefficients"] if item["name"] == "age")
    assert abs(age["coef"] - truth["age"]["coef"]) < 8 * age["bse"]
    assert "All 3 right providers together could read the answers" in done.stdout
    assert "Saved in out/demo: moments.json" in done.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--suite", "moments", "--left", "1"), "no left providers"),
        (("--suite", "moments", "--block-size", "64"), "no blocks"),
        (("--suite", "moments", "--study", "own.toml", "--rows", "own.csv"), 'says suite = "rows"'),
    ],
)
def test_demo_refuses_what_the_suite_has_not(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(bundled_definition())
    (tmp_path / "own.csv").write_text("systolic,age,bmi,salt,smoker,activity\n120,40,25,9,yes,low\n")
    assert main(["demo", *flags]) == 2
    assert words in capsys.readouterr().err


def test_demo_names_the_line_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(
        'title = "Own"\npurpose = "mine"\ncontact = "me"\n[privacy]\nexact = true\n'
        "[collection]\nblock_rows = 32\nrelease_rows = 64\n"
        '[[attributes]]\nname = "y"\nkind = "continuous"\nminimum = 0\nmaximum = 1\n'
    )
    (tmp_path / "own.csv").write_text("y\n0.5\n1.5\n")
    assert main(["demo", "--study", "own.toml", "--rows", "own.csv"]) == 2
    assert "line 3, column y, value '1.5': must be between 0 and 1" in capsys.readouterr().err
