"""Opening components and signing receipts beside the event loop, many at a time.

Opening a sealed component and signing its receipt are two curve operations: half of what a submission costs a right
provider, and in the event loop they hold everything else up. Under load they go, in batches, to a second process with
the keys; a lone submission is done where it stands, which is quicker than sending it there. Receipts signed there
are given out only after the row is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import struct
import subprocess
import sys
from dataclasses import dataclass
from typing import BinaryIO

from trimask_core.errors import VerificationError
from trimask_core.identity import SigningKey
from trimask_core.receipt import receipt_digest_message
from trimask_core.sealing import SealingKey, component_info
from trimask_core.submission import ComponentForm, check_form

__all__ = ["Opened", "Opener", "OpeningKeys", "Parcel", "open_parcel"]

_BATCH = 64
_WINDOW_SECONDS = 0.1
_ALONE = 20  # up to so many in a window, each is done where it stands
_HEADER = struct.Struct(">32s16sHHIQI")
_LENGTH = struct.Struct(">I")
_DIGEST, _SIGNATURE = 32, 64


@dataclass(frozen=True)
class OpeningKeys:
    """A right provider's keys for the job, the newest sealing key first."""

    identity: SigningKey
    sealing: tuple[SealingKey, ...]

    def __repr__(self) -> str:
        return f"OpeningKeys({self.identity!r})"


@dataclass(frozen=True)
class Parcel:
    """A sealed component as it came, what it must turn out to be, and when it came."""

    study_id: bytes
    submission_id: bytes
    form: ComponentForm
    receive_time_ms: int
    sealed: bytes

    def __repr__(self) -> str:
        return f"Parcel(submission_id={self.submission_id.hex()})"


@dataclass(frozen=True)
class Opened:
    """It opened and has the right form: its hash, and the receipt's signature for the time it came."""

    digest: bytes
    signature: bytes


def open_parcel(keys: OpeningKeys, parcel: Parcel) -> Opened:
    """Open, check, hash and sign; `VerificationError` if it does not open or is not a component."""
    info = component_info(parcel.study_id, parcel.form.provider, parcel.submission_id)
    check_form(parcel.form, _open(keys.sealing, parcel.sealed, info))
    digest = hashlib.sha256(parcel.sealed).digest()
    message = receipt_digest_message(parcel.study_id, parcel.submission_id, digest, parcel.receive_time_ms)
    return Opened(digest, keys.identity.sign("receipt", message))


def _open(keys: tuple[SealingKey, ...], sealed: bytes, info: bytes) -> bytes:
    for key in keys[:-1]:
        with contextlib.suppress(VerificationError):
            return key.open(sealed, info)
    return keys[-1].open(sealed, info)


class Opener:
    """Opens parcels here while few are under way, and in a process of its own when they come thick."""

    def __init__(self, keys: OpeningKeys) -> None:
        self._keys = keys
        self._waiting: list[tuple[Parcel, asyncio.Future[Opened]]] = []
        self._helper: _Helper | None = None
        self._window_end = 0.0
        self._in_window = 0
        self._thick = False
        self._task: asyncio.Task[None] | None = None
        self._more = asyncio.Event()

    def start(self) -> None:
        """Begin to take batches."""
        self._task = asyncio.create_task(self._run(), name="opening components")

    async def stop(self) -> None:
        """End the helper."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._end_helper()

    async def use(self, keys: OpeningKeys) -> None:
        """Go on with other keys: after a rotation."""
        self._keys = keys
        await self._end_helper()

    async def use_live(self, keys: OpeningKeys) -> None:
        """Use these from now on, if they are others than before: a key was added, or has expired."""
        if [key.public for key in keys.sealing] != [key.public for key in self._keys.sealing]:
            await self.use(keys)

    async def open(self, parcel: Parcel) -> Opened:
        """Open one parcel."""
        loop = asyncio.get_running_loop()
        if not self._come_thick(loop.time()) or self._task is None:
            return open_parcel(self._keys, parcel)
        future: asyncio.Future[Opened] = loop.create_future()
        self._waiting.append((parcel, future))
        self._more.set()
        return await future

    def _come_thick(self, now: float) -> bool:
        """Whether parcels came thick in the last window. (How many are under way says little: a busy loop meets them
        one by one.)"""
        if now >= self._window_end:
            self._thick = self._in_window > _ALONE and now < self._window_end + _WINDOW_SECONDS
            self._window_end, self._in_window = now + _WINDOW_SECONDS, 0
        self._in_window += 1
        return self._thick

    async def _run(self) -> None:
        while True:
            await self._more.wait()
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            if not self._waiting:
                self._more.clear()
            if batch:
                await self._open_batch(batch)

    async def _open_batch(self, batch: list[tuple[Parcel, asyncio.Future[Opened]]]) -> None:
        try:
            answers = await self._ask([parcel for parcel, _ in batch])
        except (OSError, EOFError):  # the helper died: a new one is started for the next batch
            await self._end_helper()
            answers = [_try_open(self._keys, parcel) for parcel, _ in batch]
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():  # whoever asked has gone away
                continue
            if isinstance(answer, Opened):
                future.set_result(answer)
            else:
                future.set_exception(VerificationError(answer))

    async def _ask(self, parcels: list[Parcel]) -> list[Opened | str]:
        if self._helper is None:
            self._helper = await _Helper.start(self._keys)
        return await self._helper.ask(parcels)

    async def _end_helper(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            await helper.end()


@dataclass(frozen=True)
class _Helper:
    """The second process and the pipes to it."""

    process: subprocess.Popen[bytes]
    outgoing: asyncio.StreamWriter
    incoming: asyncio.StreamReader

    @classmethod
    async def start(cls, keys: OpeningKeys) -> _Helper:
        # By subprocess, which uses vfork: a fork of a process in which gRPC is at work can spoil its connections.
        process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own would fork
            [sys.executable, "-m", "trimask_server.right.opening"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        loop = asyncio.get_running_loop()
        incoming = asyncio.StreamReader(limit=1 << 22, loop=loop)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(incoming, loop=loop), process.stdout
        )
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        helper = cls(process, asyncio.StreamWriter(transport, protocol, None, loop), incoming)
        # Through the pipe, not as arguments or environment, which other programs can see.
        secrets = [keys.identity.secret_bytes(), *(key.secret_bytes() for key in keys.sealing)]
        helper.outgoing.write(_LENGTH.pack(len(secrets)) + b"".join(secrets))
        return helper

    async def ask(self, parcels: list[Parcel]) -> list[Opened | str]:
        self.outgoing.write(_pack(parcels))
        await self.outgoing.drain()
        size = _LENGTH.unpack(await self.incoming.readexactly(_LENGTH.size))[0]
        return _read_answers(await self.incoming.readexactly(size), len(parcels))

    async def end(self) -> None:
        self.outgoing.close()
        self.process.kill()  # it keeps nothing
        await asyncio.get_running_loop().run_in_executor(None, self.process.wait)


def _try_open(keys: OpeningKeys, parcel: Parcel) -> Opened | str:
    try:
        return open_parcel(keys, parcel)
    except VerificationError as error:
        return str(error)


# Between the two processes: lengths and fixed fields, so that nothing is pickled.


def _pack(parcels: list[Parcel]) -> bytes:
    parts = []
    for parcel in parcels:
        form = parcel.form
        header = _HEADER.pack(
            parcel.study_id, parcel.submission_id, form.provider, form.providers, form.columns,
            parcel.receive_time_ms, len(parcel.sealed),
        )  # fmt: skip
        parts += [header, parcel.sealed]
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body


def _unpack(body: bytes) -> list[Parcel]:
    parcels, at = [], 0
    while at < len(body):
        study_id, submission_id, provider, providers, columns, time_ms, size = _HEADER.unpack_from(body, at)
        at += _HEADER.size
        form = ComponentForm(provider, providers, columns)
        parcels.append(Parcel(study_id, submission_id, form, time_ms, body[at : at + size]))
        at += size
    return parcels


def _pack_answers(answers: list[Opened | str]) -> bytes:
    parts = []
    for answer in answers:
        if isinstance(answer, Opened):
            parts.append(b"\0" + answer.digest + answer.signature)
        else:
            text = answer.encode()
            parts.append(b"\1" + _LENGTH.pack(len(text)) + text)
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body


def _read_answers(body: bytes, count: int) -> list[Opened | str]:
    answers: list[Opened | str] = []
    at = 0
    for _ in range(count):
        kind, at = body[at], at + 1
        if kind == 0:
            answers.append(Opened(body[at : at + _DIGEST], body[at + _DIGEST : at + _DIGEST + _SIGNATURE]))
            at += _DIGEST + _SIGNATURE
        else:
            (size,) = _LENGTH.unpack_from(body, at)
            at += _LENGTH.size
            answers.append(body[at : at + size].decode())
            at += size
    return answers


def _serve(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """The helper: until the node closes the pipe, or dies."""
    (count,) = _LENGTH.unpack(incoming.read(_LENGTH.size))
    identity, *sealing = (incoming.read(32) for _ in range(count))
    keys = OpeningKeys(SigningKey(identity), tuple(SealingKey(secret) for secret in sealing))
    while head := incoming.read(_LENGTH.size):
        body = incoming.read(_LENGTH.unpack(head)[0])
        outgoing.write(_pack_answers([_try_open(keys, parcel) for parcel in _unpack(body)]))
        outgoing.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _serve(sys.stdin.buffer, sys.stdout.buffer)
