"""Work off the screen's thread: one thread for the disk, one for the network, so that a slow provider delays no draft.

Results come back through `post`, which the app gives (Kivy's clock) and a test may give otherwise.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from trimask_core.basics.errors import TrimaskError
from trimask_mobile.model.problem import DiskError

T = TypeVar("T")
Post = Callable[[Callable[[], None]], None]
Job = tuple[Callable[[], Any], Callable[[Any], None], Callable[[TrimaskError], None]]
_log = logging.getLogger("trimask.app")


class Runner(Protocol):
    """Runs a job and hands its result, or its error, to the screen's thread."""

    def records(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[TrimaskError], None]
    ) -> None:
        """On the disk's thread, in order."""
        ...

    def network(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[TrimaskError], None]
    ) -> None:
        """On the network's thread, in order."""
        ...

    def post(self, call: Callable[[], None]) -> None:
        """Call something on the screen's thread."""
        ...


class Workers:
    """Two threads. Daemons: what they write is written whole or not at all, so they may be killed with the app."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self._queues: dict[str, queue.SimpleQueue[Job | None]] = {}
        self._threads = []
        for name in ("records", "network"):
            self._queues[name] = queue.SimpleQueue()
            thread = threading.Thread(target=self._run, args=(self._queues[name],), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def records(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[TrimaskError], None]
    ) -> None:
        """See `Runner`."""
        self._queues["records"].put((job, done, failed))

    def network(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[TrimaskError], None]
    ) -> None:
        """See `Runner`."""
        self._queues["network"].put((job, done, failed))

    def stop(self) -> None:
        """Finish what is on the disk's list; the network's may be cut off anywhere."""
        for jobs in self._queues.values():
            jobs.put(None)
        self._threads[0].join()

    def _run(self, jobs: queue.SimpleQueue[Job | None]) -> None:
        while (item := jobs.get()) is not None:
            job, done, failed = item
            try:
                call = partial(done, job())
            except TrimaskError as error:
                call = partial(failed, error)
            except OSError as error:
                # A full disk, say. Its words name a file of ours, never what was answered.
                call = partial(failed, DiskError(f"this device could not read or write: {error.strerror}"))
            except Exception as error:  # noqa: BLE001 - a thread must not end; the person is told, the log has the rest
                _log.exception("a job failed in a way nobody foresaw")
                unforeseen = TrimaskError(f"something went wrong in the app itself ({type(error).__name__})")
                call = partial(failed, unforeseen)
            self.post(call)
