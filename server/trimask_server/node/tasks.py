"""Background tasks of one node: a failure is logged, and all of them are cancelled when the node stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Spawn", "Tasks"]

Spawn = Callable[[Coroutine[Any, Any, None], str], None]


class Tasks:
    """The tasks that run now."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run work in the background; a failure is logged as "failed while `what`"."""
        # Not inside another coroutine: one that is cancelled before it starts would leave `work` never awaited.
        task = asyncio.create_task(work, name=what)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("failed while %s", task.get_name(), exc_info=error)

    async def cancel(self) -> None:
        """End all of them."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
