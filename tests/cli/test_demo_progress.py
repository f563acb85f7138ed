"""How far the demo is, where there is no terminal: a file, a pipe, CI."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from trimask_cli.demo import run_demo


def lines(monkeypatch: pytest.MonkeyPatch, times: list[float], steps: list[int]) -> list[str]:
    """What is said of one step of ten, whose counts come at these times."""
    told = io.StringIO()
    clock = iter([0.0, *times])
    monkeypatch.setattr(sys, "stderr", told)
    # Not time.monotonic itself: clusters of other tests run in threads of this process.
    monkeypatch.setattr(run_demo, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with run_demo.shown_steps() as shown:
        shown.begin("blocks", 10)
        for done in steps:
            shown.reach(done)
    return [line.split("s  ")[1] for line in told.getvalue().splitlines()]


def test_a_step_is_said_at_its_begin_and_its_end_and_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    said = lines(monkeypatch, [1, 2, 3, 12, 13, 14], [1, 2, 4, 9, 10])
    assert said == ["blocks: 0 of 10", "blocks: 4 of 10", "blocks: 10 of 10"]


def test_what_moved_soon_after_a_line_is_said_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not: a count that stood still afterwards was never shown."""
    said = lines(monkeypatch, [1, 2, 13, 30, 31], [3, 3, 3, 10])
    assert said == ["blocks: 0 of 10", "blocks: 3 of 10", "blocks: 10 of 10"]
