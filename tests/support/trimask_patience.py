"""How long tests wait for what is to come: longer on a busy machine. The product's own deadlines are not touched."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def patience(seconds: float) -> float:
    """So many seconds of an idle machine: times the processes there are for each core, now or in the last minute."""
    busy = os.getloadavg()[0]
    with contextlib.suppress(OSError):  # not on every system; its averages lag behind
        busy = max(busy, float(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]))
    return seconds * max(1.0, busy / (os.cpu_count() or 1))


def until(ready: Callable[[], T | None], seconds: float = 120, else_say: Callable[[], object] = str) -> T:
    """What `ready` returns once it is true; `else_say` tells the reader of a failure what was waited for."""
    begun, pause, seconds_apart = time.monotonic(), threading.Event(), 0.02
    while not (found := ready()):
        assert time.monotonic() < begun + patience(seconds), f"still waiting: {else_say()}"
        pause.wait(seconds_apart)
        seconds_apart = min(0.1, 1.2 * seconds_apart)
    return found
