"""Ctrl-C, SIGTERM and a closed terminal end a command the same way: it cleans up once, whatever signal comes then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupted", "raising_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


@contextmanager
def raising_signals() -> Iterator[None]:
    """Raise the first signal as an exception, so that every `finally` runs; ignore later signals.

    By itself SIGTERM would end Python at once, with its child processes running on and its temporary files left; and a
    second Ctrl-C would interrupt the cleanup. A signal that is ignored already (under `nohup`, say) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    handled = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
