"""Exit statuses of the programs, in one place (docs/command-line.md).

A script decides by them whether to correct its arguments, wait and retry, ask somebody, or go on.
Ctrl-C, SIGTERM and a closed terminal end a command the same way: it cleans up once, whatever signal comes then.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType

from trimask_core.basics.errors import ConnectionFailed, Refused, TrimaskError, VerificationError
from trimask_core.basics.refusals import Status

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


class Exit(IntEnum):
    """What the program's exit status says."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Exit:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    DONE = 0, "done"
    NO = (
        1,
        "carried out, and the answer is no: a check failed, an approval was declined, a study stays open, answers wait",
    )
    USAGE = 2, "not carried out: arguments, files or settings cannot be used; correct them"
    NETWORK = 3, "a node could not be reached, or TLS failed; the same command may work later"
    REFUSED = 4, "a node refused; the reason is in the message, and in docs/refusals.md"
    NOTHING = 5, "what was asked for is not there: no such study or dataset, or nothing published yet"
    UNTRUE = 6, "a signature, a hash or an invariant did not hold: do not use what was fetched"
    HUNG_UP = 129, "the terminal was closed (SIGHUP)"
    INTERRUPTED = 130, "interrupted (Ctrl-C)"
    ENDED = 143, "told to end (SIGTERM)"


class NothingThere(TrimaskError):
    """What was asked for does not exist (yet)."""


def exit_of(error: BaseException) -> Exit:
    """The status for an error that ends a command."""
    if isinstance(error, KeyboardInterrupt):
        number = error.number if isinstance(error, Interrupted) else signal.SIGINT
        return next(item for item in Exit if item == 128 + number)
    if isinstance(error, NothingThere):
        return Exit.NOTHING
    if isinstance(error, Refused):
        return Exit.NOTHING if error.reason.status is Status.NOT_FOUND else Exit.REFUSED
    # Transports have errors of their own for a node that cannot be reached; importing them all here would be slow.
    if isinstance(error, (ConnectionFailed, ConnectionError)) or type(error).__name__ == "Unreachable":
        return Exit.NETWORK
    return Exit.UNTRUE if isinstance(error, VerificationError) else Exit.USAGE
