"""Signals to a node's process: SIGTERM and SIGINT stop it gracefully, a second one at once, SIGHUP reloads keys."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol

CALLS_SECONDS = 8.0
GRACE_SECONDS = 15.0
EXIT_GRACE_EXCEEDED = 1


class Running(Protocol):
    """A node as its process sees it."""

    def reload_keys(self) -> bool:
        """Reload renewed key files."""
        ...

    async def wind_down(self) -> None:
        """What is done before the ports close."""
        ...

    async def stop(self, grace_seconds: float = ...) -> None:
        """Finish calls under way, save, and close."""
        ...

    @property
    def log(self) -> logging.Logger:
        """The log, for a process that does not stop in time."""
        ...


async def serve_until_signal(start: Callable[[], Awaitable[Running]]) -> None:
    """Start a node and run it until a signal; then drain and stop within `GRACE_SECONDS`."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop(number: int) -> None:
        if stopping.is_set():
            # Nothing is lost: what was acknowledged is on disk, and what was not is sent again.
            os._exit(128 + number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    node: Running | None = None

    def reload() -> None:
        if node is not None:  # while it starts it reads its keys anyway, and must not be ended by this signal
            node.reload_keys()

    loop.add_signal_handler(signal.SIGHUP, reload)
    node = await start()
    _freeze_garbage_collector()
    await stopping.wait()
    # In a separate thread, so that it ends the process even if the event loop is blocked (by a long matrix product).
    watchdog = threading.Timer(GRACE_SECONDS - 0.5, _give_up, (node,))
    watchdog.daemon = True
    watchdog.start()
    await node.wind_down()
    await node.stop(CALLS_SECONDS)
    watchdog.cancel()


def _freeze_garbage_collector() -> None:
    """Exempt what lives as long as the process from garbage collection, which took a tenth of a busy node's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _give_up(node: Running) -> None:
    node.log.error("not drained after %.0f seconds; stopping all the same", GRACE_SECONDS)
    os._exit(EXIT_GRACE_EXCEEDED)
