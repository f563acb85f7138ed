"""Ctrl-C and SIGTERM end a command the same way: it cleans up once, and a second signal does not interrupt that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Told", "heeding_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Told(KeyboardInterrupt):
    """A signal asked the program to end; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


@contextmanager
def heeding_signals() -> Iterator[None]:
    """Raise the first signal as an exception, so that every `finally` runs; ignore later signals.

    By itself SIGTERM would end Python at once, with its child processes running on and its temporary files left; and a
    second Ctrl-C would interrupt the cleanup.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def told(number: int, _: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Told(number)

    before = {number: signal.signal(number, told) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
