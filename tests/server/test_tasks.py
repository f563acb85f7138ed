"""Background tasks of a node: failures are logged, and a node that stops leaves none."""

from __future__ import annotations

import ast
import asyncio
import gc
import logging
import warnings
from pathlib import Path

import pytest

from trimask_server.collector.driver import set_within
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


async def _tasks_end_that_are_woken_as_they_are_cancelled(turns: int) -> None:
    """A loop that rests until it is woken is woken, and so many turns of the event loop later cancelled."""
    tasks, wake = Tasks(LOG), asyncio.Event()

    async def work() -> None:
        while True:
            wake.clear()
            await set_within(wake, 60)

    tasks.spawn(work(), "working")
    await asyncio.sleep(0.01)
    wake.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await tasks.cancel()


@pytest.mark.parametrize("turns", range(5))
def test_repro_a_node_stops_that_is_woken_as_it_stops(turns: int) -> None:
    asyncio.run(_tasks_end_that_are_woken_as_they_are_cancelled(turns))


def test_nothing_waits_in_a_way_that_forgets_that_it_was_cancelled() -> None:
    """`asyncio.wait_for` of Python 3.11 does (see `set_within`); `asyncio.timeout` does not."""
    server = Path(__file__).parents[2] / "server" / "trimask_server"
    offenders = [
        f"{path.relative_to(server)}:{node.lineno}"
        for path in sorted(server.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "wait_for"
    ]
    assert offenders == []
