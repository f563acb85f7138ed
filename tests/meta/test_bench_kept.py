"""`bench.kept`: what was stopped goes on, and nothing is run twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.intervals import KINDS, Held, facts, line
from bench.kept import kept, run


def twice(value: int, draws: int) -> int:
    """A job."""
    return value * draws


def test_what_is_done_is_kept_and_not_run_again(tmp_path: Path) -> None:
    path, jobs = tmp_path / "out" / "cells", {"a": (1,), "b": (2,)}
    assert dict(run(twice, jobs, path, 10, 1)) == {"a": 10, "b": 20} == kept(path, 10)
    assert kept(path, 11) == {}
    # Stopped in the middle of a line.
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join([line.replace("10}", "99}") for line in lines if '"a"' in line] + ['{"job": "b", "dr'])
    )
    assert list(run(twice, jobs, path, 10, 1, resume=True)) == [("a", 99), ("b", 20)]
    assert kept(path, 10) == {"a": 99, "b": 20}
    assert dict(run(twice, {"a": (1,)}, path, 10, 1)) == {"a": 10} == kept(path, 10)


def test_a_line_that_was_kept_is_printed_as_the_page_has_it() -> None:
    held = Held(
        np.array([0.94, 0.96, 0.1]),
        np.array([1.01, np.inf, 1.0]),
        np.ones(3),
        np.array([False, False, True]),
        0,
    )
    again = Held.of(held.to_dict())
    assert again.to_dict() == held.to_dict()
    found = dict.fromkeys(KINDS, again)
    assert line("RAND, rows, 4, 2.55", found).startswith("|RAND, rows, 4, 2.55|0.940–0.960, inf, 1 range|")
    told = list(
        facts([("RAND, rows, 4, 2.55", found), ("RAND, rows, 4, box", found), ("RAND, raw rows", {})])
    )
    assert len(told) == 2 * len(KINDS)
    assert told[-1].startswith("with a ball, cross-tab: 0.940 (RAND, rows, 4, 2.55) to 0.960")
