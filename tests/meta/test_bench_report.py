"""What `python -m bench` says of a run is true: helpers are counted, and what moved since another run is named."""

from __future__ import annotations

import secrets
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.cluster import tree_usage
from bench.report import compared
from bench.results import Result, Settings, write_json

_BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True); input()"
_PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[2]])"


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processor time of others is read from /proc"
)
def test_processor_time_of_a_node_is_its_helpers_too() -> None:
    marker = secrets.token_hex(8)
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, marker, _BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        assert parent.stdout.readline() == "done\n"
        found = tree_usage(marker)
        alone = (
            sum(map(int, Path(f"/proc/{parent.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
            / 100
        )
        assert found.seconds >= alone + 0.25
        assert found.megabytes > 5
        parent.communicate("\n")
    assert (
        tree_usage(secrets.token_hex(8)).seconds != tree_usage(marker).seconds
    )  # not a number is not itself


def test_what_got_worse_since_another_run_is_named(tmp_path: Path) -> None:
    speed = Result("submit", "calls", "speed", 1000, 2000, "/s", "echo", 0.5, 0.5)
    budget = Result("a person", "R1", "budget", 300, 600, "us CPU", "wanted", 0.5, 1.0)
    gone = replace(speed, name="gone")
    old = tmp_path / "old.json"
    write_json(old, [speed, budget, gone], Settings(), 1.0)
    said = StringIO()
    console = Console(file=said, width=200)
    # Fewer calls, and more of the budget: both are worse. A hair's breadth is neither.
    assert compared(old, [replace(speed, ratio=0.4), replace(budget, ratio=0.6)], console) == [
        "a person: R1",
        "submit: calls",
    ]
    assert "not measured this time: submit: gone" in said.getvalue()
    assert compared(old, [replace(speed, ratio=0.6), replace(budget, ratio=0.52)], console) == []
    assert "better submit: calls: ratio 0.5 before, 0.6 now" in said.getvalue()
