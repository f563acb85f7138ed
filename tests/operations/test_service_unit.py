"""What the systemd unit denies, carried out by hand: a node starts and stops with it."""

from __future__ import annotations

import errno
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trimask_patience import patience

UNIT = (Path(__file__).parents[2] / "deploy" / "trimask@.service").read_text(encoding="utf-8")
# Of systemd's sets @resources and @privileged, what programs and libraries are known to try; numbers of x86-64.
DENIED = {
    "mbind": 237, "set_mempolicy": 238, "move_pages": 279, "sched_setaffinity": 203, "setpriority": 141,
    "sched_setscheduler": 144, "setrlimit": 160, "chown": 92, "fchown": 93, "fchownat": 260, "setuid": 105,
    "setgroups": 116, "capset": 126, "chroot": 161,
}  # fmt: skip
# A seccomp filter, then the program: what systemd does before it starts one.
FILTERED = """
import ctypes, os, struct, sys
answer, numbers = int(sys.argv[1]), [int(word) for word in sys.argv[2].split(",")]
steps = [(0x20, 0, 0, 0)]
for number in numbers:
    steps += [(0x15, 0, 1, number), (0x06, 0, 0, answer)]
steps += [(0x06, 0, 0, 0x7FFF0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
system = ctypes.CDLL(None)
program = Program(len(steps), ctypes.addressof(text))
if system.prctl(38, 1, 0, 0, 0) or system.prctl(22, 2, ctypes.byref(program)):
    sys.exit(77)
os.execv(sys.argv[3], sys.argv[3:])
"""
_KILL, _ERRNO = 0x80000000, 0x00050000
_NOT_HERE = 77


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of system calls are those of x86-64")
def test_repro_a_node_starts_with_the_units_system_calls(keys_only: Any) -> None:
    """The unit killed every node while it loaded the matrix library, which asks for mbind and can do without."""
    assert "SystemCallFilter=~@privileged @resources" in UNIT
    named = re.search(r"^SystemCallErrorNumber=(\w+)$", UNIT, re.MULTILINE)
    answer = _KILL if named is None else _ERRNO | getattr(errno, named[1])
    node = subprocess.Popen(
        [
            *(sys.executable, "-c", FILTERED, str(answer), ",".join(map(str, DENIED.values()))),
            *(sys.executable, "-m", "trimask_terminal", "right"),
            *("--config", str(keys_only.folder / "R1" / "node.toml")),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    with node:
        assert node.stderr is not None
        lines = []
        for line in node.stderr:
            lines.append(line)
            if "ready role=right" in line:
                node.send_signal(signal.SIGTERM)
        status = node.wait(patience(60))
    if status == _NOT_HERE:
        pytest.skip("this system lets no program filter its system calls")
    assert status == 0, (status, "".join(lines))
    assert "stopped" in lines[-1]
