"""Runs tests again and again, a share of the runs with busy processes beside them, and lists what failed and how often.

    python scripts/flakes.py --runs 10 --loaded 5 --load 20 -- -q -n 3 tests

Every run has a seed of its own, Python's hash seed: `PYTHONHASHSEED=3 pytest ...` runs in the same order of sets. What a
failing run printed is kept in `--folder`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TOLD = "TRIMASK_FLAKES"
_SECONDS = 300  # a test may take so long, as pyproject.toml says; under load longer
# A busy process ends with this one, however this one ends.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**6): pass"


def pytest_runtest_logreport(report: Any) -> None:
    """As pytest's plugin: notes a test that failed (a worker that died is told as its test's failure)."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(os.environ[_TOLD]).open("a") as told:
            told.write(json.dumps(report.nodeid) + "\n")


pytest_collectreport = pytest_runtest_logreport


@contextlib.contextmanager
def busy(load: int) -> Iterator[None]:
    """So many processes that do nothing but compute.

    In the session of the tests: where the system shares processors out by session (Linux's autogroups), one with a session
    of its own would have as much as all tests together, and not as much as a process on any server. In a group of its own
    each, for a terminal's Ctrl-C is for us; we end them.
    """
    with contextlib.ExitStack() as stack:
        for _ in range(load):
            process = subprocess.Popen([sys.executable, "-S", "-c", _BUSY], process_group=0)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def run(number: int, started: int, beside: int, arguments: list[str], folder: Path) -> dict[str, Any]:
    """One run of the tests, with busy processes started for it or there already: its seed, load, seconds, exit code and what
    failed."""
    load = started + beside
    told, output = folder / f"failed-{number}.txt", folder / f"run-{number}.txt"
    told.write_text("")
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"PYTHONHASHSEED": str(number), "PYTHONPATH": path, _TOLD: str(told.resolve())}
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    limit = _SECONDS * (1 + load // (os.cpu_count() or 1))
    start = time.monotonic()
    with busy(started), output.open("w") as printed:
        command = [sys.executable, "-m", "pytest", "-p", "flakes", f"--timeout={limit}", *arguments]
        code = subprocess.run(
            command, env=inherited | own, stdout=printed, stderr=subprocess.STDOUT, check=False
        ).returncode
    failed = sorted({json.loads(line) for line in told.read_text().splitlines()})
    told.unlink()
    if code == 0:
        output.unlink()
    return {
        "seed": number, "load": load, "seconds": round(time.monotonic() - start), "exit": code, "failed": failed,
    }  # fmt: skip


def summary(runs: list[dict[str, Any]]) -> str:
    """Every test that failed, most often first, with the seeds (and load) of those runs."""
    where: dict[str, list[str]] = {}
    for one in runs:
        for test in one["failed"] or ([f"exit code {one['exit']}"] if one["exit"] else []):
            where.setdefault(test, []).append(
                f"{one['seed']} at load {one['load']}" if one["load"] else str(one["seed"])
            )
    green = sum(one["exit"] == 0 for one in runs)
    loaded = sum(one["load"] > 0 for one in runs)
    lines = [f"{green} of {len(runs)} runs green, {loaded} of {len(runs)} under load"]
    for test, seeds in sorted(where.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"{len(seeds)} of {len(runs)}  {test}  seed {', '.join(seeds)}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """0 if every run was green."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--loaded", type=int, help="how many of the runs are under load; half of them")
    parser.add_argument("--load", type=int, default=20, help="how many busy processes")
    parser.add_argument("--beside", type=int, default=0, help="how many more there are already")
    parser.add_argument("--first", type=int, default=1, help="the first run's seed")
    parser.add_argument("--folder", type=Path, default=Path("out/flakes"), help="what failing runs printed")
    parser.add_argument("--json", action="store_true", help="the runs as JSON on standard output")
    parser.add_argument("pytest", nargs="*", help="what pytest is given")
    given = parser.parse_args(arguments)
    loaded = given.runs // 2 if given.loaded is None else given.loaded
    given.folder.mkdir(parents=True, exist_ok=True)
    runs: list[dict[str, Any]] = []
    for done in range(given.runs):
        at_load = (done + 1) * loaded // given.runs > done * loaded // given.runs
        one = run(given.first + done, given.load if at_load else 0, given.beside, given.pytest, given.folder)
        runs.append(one)
        ended = f"{len(one['failed'])} failed, exit code {one['exit']}" if one["exit"] else "green"
        print(
            f"run {done + 1} of {given.runs}, seed {one['seed']}, load {one['load']}: {ended}, {one['seconds']} s",
            file=sys.stderr,
            flush=True,
        )
    print(json.dumps(runs, indent=1) if given.json else summary(runs))
    return int(any(one["exit"] for one in runs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
