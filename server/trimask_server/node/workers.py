"""The threads that apply masks: a few beside the event loop, each with one BLAS thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

__all__ = ["Workers"]

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Threads for linear algebra. NumPy releases the lock in it, so the loop goes on answering."""

    def __init__(self, threads: int) -> None:
        # Threads come from here; a BLAS that starts its own beside them only makes them wait for each other.
        self._limit = threadpool_limits(limits=1)
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="mask")

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function` in a worker thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Wait for what is running."""
        self._pool.shutdown(cancel_futures=True)
