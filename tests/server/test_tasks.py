"""Background tasks of a node: failures are logged, and a node that stops leaves none."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings

import pytest

from trimask_server.runtime.host import Tasks

LOG = logging.getLogger("test_tasks")


def test_a_failure_is_logged_with_what_was_done(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async def fail() -> None:
            raise ValueError("here")

        tasks = Tasks(LOG)
        tasks.spawn(fail(), "counting")
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        await asyncio.sleep(0)  # callbacks of what has ended run now

    asyncio.run(run())
    (record,) = caplog.records
    assert record.getMessage() == "failed while counting"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


def test_repro_work_that_is_cancelled_before_it_starts_is_not_left_unawaited() -> None:
    async def run() -> None:
        tasks = Tasks(LOG)
        tasks.spawn(asyncio.sleep(0), "sleeping")
        await tasks.cancel()

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(run())
        gc.collect()
    assert [str(warning.message) for warning in found] == []
