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

        async def guarded() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Exception:  # noqa: BLE001 - logged, whatever it was
                self._log.exception("failed while %s", what)

        task = asyncio.create_task(guarded(), name=what)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def cancel(self) -> None:
        """End all of them."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
