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
from bench.report import BEGIN, END, PAPER, PEERS, compared, put_into
from bench.results import Result, Settings, write_json
from bench.roles import BYTES, CALLS, TOGETHER

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


def _costs(suite: str) -> list[Result]:
    rows = [BYTES, *(f"{way}: {part}" for way in (CALLS, TOGETHER) for part in _PARTS)]
    return [
        Result("a person", f"{suite}: {row}", "budget", 1000.0, 200.0, "us CPU", "a call", 5.0,
               detail={"row": row, "column": suite})
        for row in rows
    ]  # fmt: skip


_PARTS = ("all nodes", "the busiest right provider", "the collector")


def test_a_page_has_one_run_with_what_follows_from_it_and_keeps_what_was_not_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(f"{mark}\nold\n{END}\nafter" for mark in (BEGIN, PAPER, PEERS)))
    put_into(page, [*_costs("moments"), *_costs("rows")], "One run.")
    text = page.read_text()
    assert f"| {CALLS}: the collector | 1,000 (5) | 1,000 (5) |" in text
    # 32e6 / (1000 + 330 / 2) a provider; a collector of 1,000 us each bounds it at 1,000 a second; 330 of 1,330.
    assert f"| {CALLS} | 1,000 (the collector's bound) | 1.0 | 75% | 25% |" in text
    assert f"| `moments`, {CALLS} | 37 | 0.10 TB | 643 GB |" in text
    assert text.count("old") == 1, "no peer was measured"
    ours = {"ours": "in node: ours", "line": "in node: theirs"}
    put_into(
        page,
        [
            Result("peers", kind, "budget", 2.0, 8.0, kind, "theirs", 0.25, detail=ours | {"kind": kind})
            for kind in ("ms", "bytes")
        ],
        "",
    )
    after = page.read_text()
    assert "| in node: ours | 2 ms | 2 |" in after
    assert "| in node: theirs | 8 ms | 8 |" in after
    assert after.startswith(text.partition(PEERS)[0]), "the others stay"
