"""A clock that moves by hand."""

from __future__ import annotations

import asyncio
import time

from trimask_core.basics.clock import ManualClock, SystemClock


def test_the_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(1_000)
    assert clock.now_ms() == clock.now_ms() == 1_000
    clock.advance(1.5)
    assert clock.now_ms() == 2_500


def test_sleeping_on_it_advances_it_and_lets_others_run() -> None:
    clock = ManualClock()
    order: list[str] = []

    async def sleeper() -> None:
        await clock.sleep(3600)
        order.append("woke")

    async def both() -> None:
        task = asyncio.create_task(sleeper())
        await asyncio.sleep(0)
        order.append("ran meanwhile")
        await task

    asyncio.run(both())
    assert clock.now_ms() == 3_600_000
    assert order == ["ran meanwhile", "woke"]


def test_the_system_clock_is_unix_time_in_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    now = SystemClock().now_ms()
    asyncio.run(SystemClock().sleep(0))
    assert before <= now <= time.time_ns() // 1_000_000
