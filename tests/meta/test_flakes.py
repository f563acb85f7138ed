"""`make flakes`: a test that fails every second time is listed with its seeds; busy processes are there and then gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.flakes import busy, summary

ROOT = Path(__file__).parents[2]
TESTS = """
from pathlib import Path

def test_good():
    pass

def test_every_second():
    times = Path(__file__).with_name("times")
    with times.open("a") as file:
        file.write("x")
    assert len(times.read_text()) % 2
"""


def _children() -> set[int]:
    """The processes this one started and has not seen end."""
    return {int(pid) for pid in Path("/proc/thread-self/children").read_text().split()}


def _flakes(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "flakes.py"), *arguments, "--", "-q", "-c", "/dev/null"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_test_that_fails_every_second_time_is_listed_with_its_seeds(tmp_path: Path) -> None:
    (tmp_path / "test_tiny.py").write_text(TESTS)
    ran = _flakes(tmp_path, "--runs", "2", "--loaded", "1", "--load", "2", "--first", "7", "--json")
    assert ran.returncode == 1, ran.stderr
    assert [line.split(":")[0] for line in ran.stderr.splitlines()] == [
        "run 1 of 2, seed 7, load 0",
        "run 2 of 2, seed 8, load 2",
    ]
    runs = json.loads(ran.stdout)
    assert [(run["seed"], run["load"], run["exit"]) for run in runs] == [(7, 0, 0), (8, 2, 1)]
    assert [run["failed"] for run in runs] == [[], ["test_tiny.py::test_every_second"]]
    assert [path.name for path in (tmp_path / "out" / "flakes").iterdir()] == ["run-8.txt"]
    runs += [run | {"seed": run["seed"] + 2, "load": 0} for run in runs]
    assert summary(runs).splitlines() == [
        "2 of 4 runs green, 1 of 4 under load",
        "2 of 4  test_tiny.py::test_every_second  seed 8 at load 2, 10",
    ]


def test_a_run_that_ends_without_a_failing_test_is_told_by_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "test_tiny.py").write_text("import os\n\ndef test_ends_python():\n    os._exit(3)\n")
    ran = _flakes(tmp_path, "--runs", "1", "--load", "0")
    assert (ran.returncode, ran.stdout.splitlines()[1]) == (1, "1 of 1  exit code 3  seed 1")


def test_busy_processes_that_are_there_already_count_and_stretch_limits(tmp_path: Path) -> None:
    (tmp_path / "test_tiny.py").write_text(
        "def test_limit(pytestconfig):\n    assert pytestconfig.getoption('timeout') == 300 * 51\n"
    )
    ran = _flakes(
        tmp_path, "--runs", "1", "--load", "0", "--beside", str(50 * (os.cpu_count() or 1)), "--json"
    )
    assert (ran.returncode, json.loads(ran.stdout)[0]["load"]) == (0, 50 * (os.cpu_count() or 1)), ran.stdout


def test_busy_processes_share_the_session_of_the_tests_and_always_end() -> None:
    before, started, sessions, groups = _children(), set(), set(), set()

    def interrupted() -> None:
        with busy(3):
            started.update(_children() - before)
            sessions.update(os.getsid(pid) for pid in started)
            groups.update(os.getpgid(pid) for pid in started)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(started) == 3
    assert sessions == {
        os.getsid(0)
    }  # or each of them would have as much of a processor as all tests together
    assert groups == started  # a terminal's Ctrl-C is for who ends them
    assert not started & _children()
