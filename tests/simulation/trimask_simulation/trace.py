"""What happened, in order, with the virtual time; and how many faults of each kind were injected."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter

from trimask_simulation.loop import CURRENT

__all__ = ["Trace", "TraceHandler"]


class Trace:
    """Events are hashed as they come, so that two runs can be compared; their text is kept if asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, keep: bool) -> None:
        self._loop = loop
        self._hash = hashlib.sha256()
        self._keep = keep
        self.lines: list[str] = []
        self.faults: Counter[str] = Counter()
        self.mistakes: list[str] = []  # errors that no fault explains, only a program that is wrong

    def event(self, who: str, what: str, data: bytes = b"") -> None:
        """Something happened; `data` goes into the hash whole and into the text as eight digits."""
        digest = hashlib.sha256(data).hexdigest()[:8] if data else ""
        line = f"{self._loop.time():10.4f} {who:<13} {what}{' ' if digest else ''}{digest}"
        self._hash.update(line.encode() + b"\n")
        if self._keep:
            self.lines.append(line)

    def fault(self, kind: str, who: str, what: str = "") -> None:
        """A fault was injected."""
        self.faults[kind] += 1
        self.event(who, f"FAULT {kind} {what}".rstrip())

    @property
    def digest(self) -> str:
        """The hash of everything so far."""
        return self._hash.hexdigest()


class TraceHandler(logging.Handler):
    """A node's own log, in the trace. Tracebacks are kept as text only: they name lines of source."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        who = str(CURRENT.get())  # workers of a node have one logger
        self._trace.event(who, f"{record.levelname} {record.getMessage()}")
        if record.exc_info and isinstance(record.exc_info[1], (TypeError, AttributeError, NameError)):
            self._trace.mistakes.append(f"{who}: {record.exc_info[1]!r}")
        if record.exc_info and record.exc_info[1] is not None and self._trace._keep:
            text = logging.Formatter().formatException(record.exc_info)
            self._trace.lines += [f"{'':25}{line}" for line in text.splitlines()]
