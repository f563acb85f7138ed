"""Ctrl-C, SIGTERM, a closed terminal: a command told once ends by itself, and leaves no process and no keys behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trimask_patience import patience, until

TIDY = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
from trimask_terminal.exits import Interrupted, raising_signals
try:
    with raising_signals():
        try:
            print("begun", flush=True)
            while True:  # a signal just before a long sleep begins would be seen at its end
                time.sleep(0.05)
        finally:
            print("tidying", flush=True)
            sys.stdin.readline()  # until it was told a second time
            print("tidied", flush=True)
except Interrupted as interrupted:
    print(interrupted.number)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_enough_and_the_second_disturbs_nothing(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TIDY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == "begun\n"
            program.send_signal(number)
            assert program.stdout.readline() == "tidying\n"
            program.send_signal(signal.SIGINT)
            program.send_signal(signal.SIGTERM)
            program.send_signal(signal.SIGHUP)
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.read() == f"tidied\n{int(number)}\n"
            assert program.wait(patience(90)) == 0
        finally:
            program.kill()


HUNG_UP = """
import os, signal
from trimask_terminal.exits import raising_signals
with raising_signals():
    os.kill(os.getpid(), signal.SIGHUP)
    print("goes on")
"""


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    ran = subprocess.run(["nohup", sys.executable, "-c", HUNG_UP], capture_output=True, text=True, check=True)
    assert ran.stdout == "goes on\n"


def members(session: int) -> list[int]:
    """The processes of a session that run; those that have ended and were not asked after do not count."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, its_session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(process.name))
    return found


@pytest.mark.parametrize(
    ("number", "to_all", "log", "words"),
    [
        (signal.SIGTERM, False, "collector/node.log", ""),  # while nodes start
        pytest.param(
            signal.SIGHUP, False, "collector/node.log", "", marks=pytest.mark.slow
        ),  # a closed window
        # As a terminal's Ctrl-C, which every process of the group is sent; while devices submit.
        pytest.param(signal.SIGINT, True, "R1/node.log", "registered", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, False, "R1/node.log", "registered", marks=pytest.mark.slow),
    ],
)
def test_repro_a_demo_leaves_no_process_and_no_keys(
    tmp_path: Path, number: signal.Signals, to_all: bool, log: str, words: str
) -> None:
    there = tmp_path / "tmp"
    there.mkdir()
    demo = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "trimask_terminal",
            "demo",
            "--participants",
            "20000",
            "--out",
            str(tmp_path / "out"),
        ],
        env=os.environ | {"TMPDIR": str(there)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        until(lambda: any(words in f.read_text() for f in there.glob(f"*/keys/{log}")), else_say=lambda: log)
        assert demo.poll() is None
        (os.killpg if to_all else os.kill)(demo.pid, number)
        _, said = demo.communicate(timeout=patience(90))
        assert demo.returncode == 128 + number
        assert "Traceback" not in said
        until(lambda: not members(demo.pid), else_say=lambda: "processes of the demo")
        assert list(there.iterdir()) == []
    finally:
        for left in members(demo.pid):
            os.kill(left, signal.SIGKILL)
        demo.wait(patience(90))
