"""An asyncio event loop on virtual time, and processes on it that can be killed between any two steps.

Nothing waits: when no callback is ready the clock jumps to the next timer. Which of the ready callbacks runs next is
drawn from the seed. Every callback carries its context, and a context says which process it belongs to; a killed
process is one whose callbacks are dropped. No `finally` of its own runs, as none runs after kill -9. A suspended one
(its machine was moved, or swaps) is one whose callbacks wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CURRENT", "Deadlock", "Process", "VirtualLoop"]


class Deadlock(Exception):
    """Nobody has anything left to do, and somebody still waits."""


@dataclass(eq=False)
class Process:
    """One run of one party, from its start to its death."""

    name: str
    number: int
    alive: bool = True
    suspended: bool = False
    waiting: list[asyncio.Handle] = field(default_factory=list)  # what came while it was suspended
    on_death: list[Callable[[], None]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"

    def context(self) -> contextvars.Context:
        """A context in which whatever is begun belongs to this process."""
        context = contextvars.copy_context()
        context.run(CURRENT.set, self)
        return context


CURRENT: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. `after_step` is called after every callback of a process: the place to kill it."""

    def __init__(self, choose: random.Random) -> None:
        super().__init__()
        self._now = 0.0
        self._choose = choose
        self.steps = 0
        self.after_step: Callable[[Process], None] | None = None
        # Tasks of a killed process never end. They are kept, or collecting them would run their `finally`.
        self.tasks: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._make_task)

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        self.tasks.append(task)
        return task

    def time(self) -> float:
        return self._now

    def begin(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` as part of a process."""
        return self.create_task(work, context=process.context())

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if not ready:
            while scheduled and scheduled[0].cancelled():
                heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
            if not scheduled:
                raise Deadlock("no callback is ready and no timer is set")
            self._now = max(self._now, scheduled[0].when())
        while scheduled and scheduled[0].when() <= self._now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                ready.append(timer)
        if not ready:
            return
        if len(ready) > 1:
            ready.rotate(-self._choose.randrange(len(ready)))
        handle = ready.popleft()
        process = handle._context.get(CURRENT) if handle._context is not None else None
        if handle.cancelled() or (process is not None and not process.alive):
            return
        if process is not None and process.suspended:
            process.waiting.append(handle)
            return
        self.steps += 1
        handle._run()
        if process is not None and self.after_step is not None:
            self.after_step(process)

    def resume(self, process: Process) -> None:
        """Let a suspended process go on: what came meanwhile comes now, and it does not know that time has passed."""
        process.suspended = False
        self._ready.extend(process.waiting)  # type: ignore[attr-defined]
        process.waiting.clear()

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector that would have to be woken."""

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets."""

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        raise AssertionError("a thread in the simulation: its timing would not come from the seed")

    def _check_closed(self) -> None:
        """What is collected after the end still asks for this and that in its `finally`; it is never run."""

    def bury(self) -> None:
        """Let go of what the dead left behind, quietly."""
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks.clear()
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.close()
