"""Opening sealed components and signing their receipts: in the event loop, or many at a time in a process beside it.

Two curve operations are half of what a submission costs a right provider, and in the event loop they block everything else.
Under load they go, in batches, to a second process with the keys; a single submission is opened in the event loop, which is
quicker than sending it there. Receipts signed there are given out only after the row is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from trimask_core.basics.errors import VerificationError
from trimask_core.crypto.identity import SigningKey
from trimask_core.crypto.sealing import PayloadForm, SealingKey, component_info
from trimask_core.submit.receipt import receipt_digest_message
from trimask_core.suites import check_payload


@dataclass(frozen=True)
class OpeningKeys:
    """A right provider's keys for the job, the newest sealing key first."""

    identity: SigningKey
    sealing: tuple[SealingKey, ...]

    def __repr__(self) -> str:
        return f"OpeningKeys({self.identity!r})"


@dataclass(frozen=True)
class Parcel:
    """A sealed component as received, the form it must have, and when it arrived."""

    study_id: bytes
    binding: bytes
    submission_id: bytes
    form: PayloadForm
    receive_time_ms: int
    sealed: bytes

    def __repr__(self) -> str:
        return f"Parcel(submission_id={self.submission_id.hex()})"


@dataclass(frozen=True)
class Opened:
    """A component that opened and has the right form: its hash, and the receipt's signature for the time it arrived."""

    digest: bytes
    signature: bytes


def open_parcel(keys: OpeningKeys, parcel: Parcel) -> Opened:
    """Open, check, hash and sign; `VerificationError` if it does not open or is not a component."""
    info = component_info(parcel.binding, parcel.form.provider, parcel.submission_id)
    check_payload(parcel.form, _open(keys.sealing, parcel.sealed, info))
    digest = hashlib.sha256(parcel.sealed).digest()
    message = receipt_digest_message(parcel.study_id, parcel.submission_id, digest, parcel.receive_time_ms)
    return Opened(digest, keys.identity.sign("receipt", message))


def _open(keys: tuple[SealingKey, ...], sealed: bytes, info: bytes) -> bytes:
    for key in keys[:-1]:
        with contextlib.suppress(VerificationError):
            return key.open(sealed, info)
    return keys[-1].open(sealed, info)


def try_open(keys: OpeningKeys, parcel: Parcel) -> Opened | str:
    """The same, but return the problem as text instead of raising."""
    try:
        return open_parcel(keys, parcel)
    except VerificationError as error:
        return str(error)


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
        self._helper: ProcessPoolExecutor | None = None
        self._window_end = 0.0
        self._in_window = 0
        self._load_until = 0.0
        self._sending: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._more = asyncio.Event()
        self._room = asyncio.Semaphore(_UNDER_WAY)

    def start(self) -> None:
        """Start taking batches."""
        self._sending = asyncio.create_task(self._send(), name="sending components to the helper")

    async def stop(self) -> None:
        """Open what waits, and end the helper."""
        if self._sending is not None:
            self._sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sending
        self._sending = None
        _answer(self._waiting, _open_all(self._keys, [parcel for parcel, _ in self._waiting]))
        self._waiting = []
        await asyncio.gather(*self._under_way)
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
            await self._room.acquire()
            await self._more.wait()
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            if not self._waiting:
                self._more.clear()
            task = asyncio.create_task(self._open_batch(batch), name="opening components")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _open_batch(self, batch: list[_Waiting]) -> None:
        keys, parcels, helper = self._keys, [parcel for parcel, _ in batch], None
        answers: list[Opened | str] | None = None
        try:
            helper = self._helper = self._helper or _start_helper(keys)
            answers = await asyncio.get_running_loop().run_in_executor(helper, _open_in_helper, parcels)
        except (
            BrokenProcessPool,
            OSError,
        ):  # it died, or no process can be started; the next batch gets a new one
            if self._helper is helper:
                await self._end_helper()
        finally:
            self._room.release()
        # Keys that changed meanwhile: the helper would not open what is sealed to a new one.
        if answers is None or keys is not self._keys:
            answers = _open_all(self._keys, parcels)
        _answer(batch, answers)

    async def _end_helper(self) -> None:
        """End it, after what it has been sent: it keeps nothing."""
        helper, self._helper = self._helper, None
        if helper is not None:
            await asyncio.get_running_loop().run_in_executor(None, helper.shutdown)


def _open_all(keys: OpeningKeys, parcels: Sequence[Parcel]) -> list[Opened | str]:
    return [try_open(keys, parcel) for parcel in parcels]


def _answer(batch: Sequence[_Waiting], answers: Sequence[Opened | str]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if future.done():  # the caller has gone away
            continue
        if isinstance(answer, Opened):
            future.set_result(answer)
        else:
            future.set_exception(VerificationError(answer))


def _start_helper(keys: OpeningKeys) -> ProcessPoolExecutor:
    """A process of its own, not a fork: a fork of a process in which gRPC is at work can spoil its connections. The keys go
    through a pipe, not as arguments or environment, which other programs can see."""
    sealing = [key.secret_bytes() for key in keys.sealing]
    context = multiprocessing.get_context("spawn")
    secrets = (keys.identity.secret_bytes(), sealing)
    return ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=secrets)


# In the helper

_held: list[OpeningKeys] = []


def _begin(identity: bytes, sealing: list[bytes]) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # of a terminal, to all its processes; the node ends this one
    threading.Thread(target=_end_with_node, daemon=True).start()
    _held[:] = [OpeningKeys(SigningKey(identity), tuple(SealingKey(secret) for secret in sealing))]


def _end_with_node() -> None:
    """A node that is killed ends nothing; its helper must not outlive it with the keys."""
    node = multiprocessing.parent_process()
    if node is not None:
        node.join()
    os._exit(0)


def _open_in_helper(parcels: list[Parcel]) -> list[Opened | str]:
    return _open_all(_held[0], parcels)
