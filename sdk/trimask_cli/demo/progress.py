"""How far the demo is, on stderr: bars in a terminal, else a line at each step's begin and end and now and then between."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

__all__ = ["Steps", "shown_steps"]

_LINE_SECONDS = 10.0


class Steps(Protocol):
    """One step after the other, each of so many people or nodes."""

    def begin(self, name: str, total: int) -> None:
        """The next step."""

    def reach(self, done: int) -> None:
        """So many of it are done."""


class _Bars:
    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=None, visible=False)

    def begin(self, name: str, total: int) -> None:
        self._task = self._bars.add_task(name, total=total)

    def reach(self, done: int) -> None:
        self._bars.update(self._task, completed=done)


class _Lines:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._started = time.monotonic()
        self._said = 0.0
        self._name, self._total, self._done = "", 0, -1  # what was said last

    def begin(self, name: str, total: int) -> None:
        self._name, self._total, self._done = name, total, -1
        self.reach(0)

    def reach(self, done: int) -> None:
        now = time.monotonic()
        ends = done == self._total
        if done != self._done and (self._done < 0 or ends or now - self._said >= _LINE_SECONDS):
            seconds = now - self._started
            print(f"{seconds:6.1f} s  {self._name}: {done:,} of {self._total:,}", file=self._file, flush=True)
            self._said, self._done = now, done


@contextmanager
def shown_steps() -> Iterator[Steps]:
    """To stderr, so that --json leaves one document on stdout."""
    if not sys.stderr.isatty():
        yield _Lines(sys.stderr)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr)) as bars:
        yield _Bars(bars)
