"""`trimask study status --watch`: in a real terminal, in a pipe, as JSON, and through a collector that goes away."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from trimask.data.connection import StudyStatus
from trimask_cli import owner
from trimask_cli.status_watch import line, view, watch
from trimask_core.basics.errors import TrimaskError
from trimask_patience import patience

STATUS = StudyStatus(
    "open", 20, 16, 48, 32, 5, 1, 1, "", {"R1": {"tampered_component": 2}, "L1": None, "collector": {}}
)
CLOSED = StudyStatus(
    "closed", 0, 0, 0, 128, 8, 1, 1, "all is published", {"R1": {}, "L1": {}, "collector": {}}
)


def _text(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(renderable)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_the_view(study: Any) -> None:
    text = _text(view(study, STATUS, "the collector was slow"))
    for words in (
        "20 of 32 rows",
        "64 of 32 rows",
        "tampered_component 2",
        "does not answer",
        "the collector was slow",
    ):
        assert words in text
    assert "next block" not in _text(view(study, CLOSED))
    assert "asking the collector" in _text(view(study, None))


def test_lines_when_something_changed(study: Any) -> None:
    answers: list[Any] = [
        STATUS,
        STATUS,
        TrimaskError("it is down"),
        TrimaskError("it is down"),
        STATUS,
        CLOSED,
    ]

    def ask() -> StudyStatus:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    pauses: list[float] = []
    console = Console(file=io.StringIO(), width=100)
    watch(study, ask, console, every_seconds=3, as_json=False, pause=pauses.append)
    lines = [text[10:] for text in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines == [line(STATUS), "collector: it is down (asking again)", line(STATUS), line(CLOSED)]
    assert "does not answer: L1" in lines[0]
    assert lines[3].endswith("all is published")
    assert pauses == [3] * 5


@pytest.mark.parametrize("terminal", [True, False])
def test_repro_a_collector_that_stays_away_ends_it(study: Any, *, terminal: bool) -> None:
    """It went on for ever. One that never answers is an error at once."""
    answers: list[Any] = [STATUS]
    now = [0.0]

    def ask() -> StudyStatus:
        if not answers:
            raise TrimaskError("it is down")
        return answers.pop()  # type: ignore[no-any-return]

    def pause(seconds: float) -> None:
        now[0] += seconds

    console = Console(file=io.StringIO(), width=100, force_terminal=terminal)
    for until in (310.0, 310.0):  # the second time it never answers
        with pytest.raises(TrimaskError, match="it is down"):
            watch(study, ask, console, every_seconds=10, as_json=False, pause=pause, clock=lambda: now[0])
        assert now[0] == until
    assert "asking again" in console.file.getvalue()  # type: ignore[attr-defined]


def test_json_lines(study: Any) -> None:
    console = Console(file=io.StringIO(), width=40)
    watch(study, lambda: CLOSED, console, every_seconds=3, as_json=True, pause=lambda _: None)
    found = json.loads(console.file.getvalue())  # type: ignore[attr-defined]
    assert found["published_rows"] == 128
    assert found["study_id"] == study.id.hex()


@pytest.fixture
def study_file(ops_lab: Any, tmp_path: Any) -> Any:
    signed = ops_lab.open_study("Watched")
    path = tmp_path / "study.json"
    path.write_text(signed.without_seed().to_json())
    return signed.study, path


def _command(path: Any) -> list[str]:
    return [
        sys.executable,
        "-m",
        "trimask_terminal",
        "study",
        "status",
        str(path),
        "--watch",
        "--every",
        "0.1",
    ]


def test_a_real_terminal_until_ctrl_c(ops_lab: Any, study_file: Any) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(_command(study_file[1]), stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while b"next release" not in seen:
        seen += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        seen += more
    assert process.wait(patience(30)) == 130
    os.close(ours)
    assert b"Traceback" not in seen
    assert b"Watched" in seen


def test_a_pipe_until_the_study_is_closed(ops_lab: Any, study_file: Any) -> None:
    study, path = study_file
    process = subprocess.Popen(_command(path), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "open: 0 waiting" in process.stdout.readline()
    owner.close_study(study, ops_lab.folder / "owner")
    rest, _ = process.communicate(timeout=patience(60))
    assert process.returncode == 0
    assert "closed: 0 waiting" in rest.splitlines()[-1]
