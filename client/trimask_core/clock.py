"""The clock, passed in as a parameter so that tests can control time."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


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
