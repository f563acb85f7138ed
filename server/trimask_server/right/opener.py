"""Where components are opened: in the event loop, or many at a time in a process beside it.

In the event loop two curve operations block everything else. Under load they go, in batches, to a second process with the
keys; a single submission is opened in the event loop, which is quicker than sending it there. Receipts signed there are
given out only after the row is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

from trimask_core.errors import VerificationError
from trimask_server.right.helper_process import Helper
from trimask_server.right.parcels import Opened, OpeningKeys, Parcel, open_parcel, try_open

__all__ = ["Opener"]

_BATCH = 64
_UNDER_WAY = 3  # batches in flight: the helper has the next one when it is done with the last
_WINDOW_SECONDS = 0.1
_ALONE = 20  # up to this many in a window, each is opened in the event loop
_LOAD_SECONDS = 2.0  # how long the load counts as high after a burst; bursts come between commits
_Waiting = tuple[Parcel, "asyncio.Future[Opened]"]


class Opener:
    """Opens parcels in the event loop, and in a helper process under load."""

    def __init__(self, keys: OpeningKeys) -> None:
        self._keys = keys
        self._waiting: list[_Waiting] = []
        self._sent: deque[list[_Waiting]] = deque()
        self._helper: Helper | None = None
        self._window_end = 0.0
        self._in_window = 0
        self._load_until = 0.0
        self._sending: asyncio.Task[None] | None = None
        self._receiving: asyncio.Task[None] | None = None
        self._more = asyncio.Event()
        self._room = asyncio.Event()

    def start(self) -> None:
        """Start taking batches."""
        self._sending = asyncio.create_task(self._send(), name="sending components to the helper")

    async def stop(self) -> None:
        """End the helper."""
        await _end(self._sending)
        self._sending = None
        await self._end_helper()

    async def use(self, keys: OpeningKeys) -> None:
        """Use other keys, after a rotation."""
        self._keys = keys
        await self._end_helper()

    async def use_live(self, keys: OpeningKeys) -> None:
        """Use these from now on, if they are others than before: a key was added, or has expired."""
        if [key.public for key in keys.sealing] != [key.public for key in self._keys.sealing]:
            await self.use(keys)

    async def open(self, parcel: Parcel) -> Opened:
        """Open one parcel."""
        loop = asyncio.get_running_loop()
        if not self._under_load(loop.time()) or self._sending is None:
            return open_parcel(self._keys, parcel)
        future: asyncio.Future[Opened] = loop.create_future()
        self._waiting.append((parcel, future))
        self._more.set()
        return await future

    def _under_load(self, now: float) -> bool:
        """Whether parcels arrive fast. (The number waiting says little: a busy loop takes them up one by one.)"""
        if now >= self._window_end:
            self._window_end, self._in_window = now + _WINDOW_SECONDS, 0
        self._in_window += 1
        if self._in_window > _ALONE:
            self._load_until = now + _LOAD_SECONDS
        return now < self._load_until

    async def _send(self) -> None:
        while True:
            await self._more.wait()
            if self._helper is None and not await self._start_helper():
                self._open_here([self._take()])
            elif len(self._sent) >= _UNDER_WAY:
                self._room.clear()
                await self._room.wait()
            elif self._helper is not None and (batch := self._take()):
                self._sent.append(batch)
                self._helper.send([parcel for parcel, _ in batch])

    async def _start_helper(self) -> bool:
        """Start it; False if no process can be started now."""
        keys = self._keys
        try:
            helper = await Helper.start(keys)
        except OSError:
            return False
        if keys is not self._keys:  # changed while it started: it would not open what is sealed to a new one
            await helper.end()
            return True
        self._helper = helper
        self._receiving = asyncio.create_task(self._receive(helper), name="receiving opened components")
        return True

    def _take(self) -> list[_Waiting]:
        batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
        if not self._waiting:
            self._more.clear()
        return batch

    async def _receive(self, helper: Helper) -> None:
        try:
            while True:
                answers = await helper.receive()
                _answer(self._sent.popleft(), answers)
                self._room.set()
        except (OSError, EOFError):  # the helper died: a new one is started for the next batch
            self._receiving = None
            await self._end_helper()

    async def _end_helper(self) -> None:
        """End it, and open here what it was sent and has not answered."""
        helper, self._helper = self._helper, None
        receiving, self._receiving = self._receiving, None
        sent = list(self._sent)
        self._sent.clear()
        self._room.set()
        self._open_here(sent)
        await _end(receiving)
        if helper is not None:
            await helper.end()

    def _open_here(self, batches: Sequence[list[_Waiting]]) -> None:
        for batch in batches:
            _answer(batch, [try_open(self._keys, parcel) for parcel, _ in batch])


def _answer(batch: Sequence[_Waiting], answers: Sequence[Opened | str]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if future.done():  # the caller has gone away
            continue
        if isinstance(answer, Opened):
            future.set_result(answer)
        else:
            future.set_exception(VerificationError(answer))


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
