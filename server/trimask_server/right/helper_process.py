"""The process beside a right provider that opens components for it, and what goes through the pipes between them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from trimask_core.identity import SigningKey
from trimask_core.payload import PayloadForm
from trimask_core.sealing import SealingKey
from trimask_core.suites import SUITE_PAYLOADS
from trimask_server.right.parcels import Opened, OpeningKeys, Parcel, try_open

__all__ = ["Helper"]

_HEADER = struct.Struct(">32s32s16sHHHIIdQI")
_SUITES = list(SUITE_PAYLOADS)
_LENGTH = struct.Struct(">I")
_DIGEST, _SIGNATURE = 32, 64
_PIPE_BYTES = 1 << 20  # a batch at once


@dataclass(frozen=True)
class Helper:
    """The second process and the pipes to it. Batches are answered in the order they are sent."""

    process: subprocess.Popen[bytes]
    outgoing: asyncio.WriteTransport
    incoming: asyncio.StreamReader

    @classmethod
    async def start(cls, keys: OpeningKeys) -> Helper:
        """Start it and give it the keys."""
        # By subprocess, which uses vfork: a fork of a process in which gRPC is at work can spoil its connections.
        process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own would fork
            [sys.executable, "-m", "trimask_server.right.helper_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with contextlib.suppress(AttributeError, OSError):  # Linux has it; the most may be less
            fcntl.fcntl(process.stdin or 0, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        loop = asyncio.get_running_loop()
        incoming = asyncio.StreamReader(limit=1 << 22, loop=loop)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(incoming, loop=loop), process.stdout
        )
        outgoing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        # Through the pipe, not as arguments or environment, which other programs can see.
        secrets = [keys.identity.secret_bytes(), *(key.secret_bytes() for key in keys.sealing)]
        outgoing.write(_LENGTH.pack(len(secrets)) + b"".join(secrets))
        return cls(process, outgoing, incoming)

    def send(self, parcels: Sequence[Parcel]) -> None:
        """Hand a batch over."""
        self.outgoing.write(_pack(parcels))

    async def receive(self) -> list[Opened | str]:
        """The answers to the next batch; EOFError if the helper died."""
        size = _LENGTH.unpack(await self.incoming.readexactly(_LENGTH.size))[0]
        return _read_answers(await self.incoming.readexactly(size))

    async def end(self) -> None:
        """End it: it keeps nothing."""
        self.outgoing.close()
        self.process.kill()
        await asyncio.get_running_loop().run_in_executor(None, self.process.wait)


# Lengths and fixed fields, so that nothing is pickled.


def _pack(parcels: Sequence[Parcel]) -> bytes:
    parts, size = [b""], 0
    for parcel in parcels:
        form = parcel.form
        header = _HEADER.pack(
            parcel.study_id, parcel.binding, parcel.submission_id, _SUITES.index(form.suite), form.provider,
            form.providers, form.values, form.more, form.longest, parcel.receive_time_ms, len(parcel.sealed),
        )  # fmt: skip
        parts += [header, parcel.sealed]
        size += len(header) + len(parcel.sealed)
    parts[0] = _LENGTH.pack(size)
    return b"".join(parts)


def _unpack(body: bytes) -> list[Parcel]:
    parcels, at = [], 0
    while at < len(body):
        study_id, binding, submission_id, suite, *numbers, time_ms, size = _HEADER.unpack_from(body, at)
        at += _HEADER.size
        form = PayloadForm(_SUITES[suite], *numbers)
        parcels.append(Parcel(study_id, binding, submission_id, form, time_ms, body[at : at + size]))
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


def _read_answers(body: bytes) -> list[Opened | str]:
    answers: list[Opened | str] = []
    at = 0
    while at < len(body):
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
        outgoing.write(_pack_answers([try_open(keys, parcel) for parcel in _unpack(body)]))
        outgoing.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _serve(sys.stdin.buffer, sys.stdout.buffer)
