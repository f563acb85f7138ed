"""The clock, passed in as a parameter so that tests can control time, and how long to wait before a retry.

Nothing here sleeps. Waits grow exponentially, and their jitter keeps those that failed together (devices at a repaired
provider, workers at a restarted database) from coming back together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from trimask_core.basics.randomness import RandomSource


class Clock(Protocol):
    """Milliseconds since 1970 (UTC), and waiting."""

    def now_ms(self) -> int:
        """The time now."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the loop."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        import asyncio  # imported here: it takes 30 ms, and devices never sleep

        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to, or when somebody sleeps on it."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, seconds: float) -> None:
        """Move time forward."""
        self._now_ms += round(seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        import asyncio

        self.advance(seconds)
        await asyncio.sleep(0)


def jitter(source: RandomSource) -> float:
    """Uniform in [0, 1)."""
    return int.from_bytes(source.read(4), "big") / 2**32


@dataclass(frozen=True)
class Backoff:
    """Random pauses below a limit: `first` after one failure, doubled after each further failure, at most `longest`.

    A pause lies between `least` of that limit and all of it: 0 spreads callers most, 1/2 also keeps every one of them away
    for a while. The unit is the caller's.
    """

    first: float
    longest: float
    least: float = 0.0

    def limit(self, failures: int) -> float:
        """The longest pause after so many failures (at least one) in a row."""
        doublings = max(failures, 1) - 1
        # A float holds 2^1023 at most, and a patient device may fail more often than that.
        return min(self.longest, self.first * 2.0 ** min(doublings, 64))

    def pause(self, failures: int, source: RandomSource) -> float:
        """The pause after so many failures in a row."""
        return self.limit(failures) * (self.least + (1.0 - self.least) * jitter(source))
