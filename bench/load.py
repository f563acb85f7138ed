"""A closed loop of callers: so many calls under way at any time, each caller sending its next when it is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import numpy as np
import uvloop

from trimask_client import Endpoint
from trimask_client.gateway import SUBMIT_MANY_METHOD
from trimask_client.transport import H2Transport
from trimask_proto.v1.submission_pb2 import SubmitManyRequest, SubmitManyResponse, SubmitRequest

__all__ = ["Many", "Target", "Timing", "drive", "many"]

_CALL_SECONDS = 60.0
_TOGETHER, _MESSAGE_BYTES = 64, 120_000  # as `trimask_client.gateway` has them


@dataclass(frozen=True)
class Target:
    """A method at an endpoint."""

    endpoint: Endpoint
    method: str


@dataclass(frozen=True)
class Timing:
    """Calls a second, and the latencies between which half and 99 in 100 of them lie, in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float


async def _drive(target: Target, requests: Sequence[bytes], under_way: int) -> Timing:
    endpoint = target.endpoint
    credentials = grpc.ssl_channel_credentials(endpoint.roots.encode())
    options = (("grpc.ssl_target_name_override", endpoint.tls_name),)
    async with grpc.aio.secure_channel(endpoint.address, credentials, options) as channel:
        await asyncio.wait_for(channel.channel_ready(), 30)
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(target.method)
        waiting = iter(requests)
        latencies: list[float] = []

        async def caller() -> None:
            for request in waiting:
                start = time.perf_counter()
                await method(request, timeout=_CALL_SECONDS)
                latencies.append(time.perf_counter() - start)

        start = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(under_way)))
        elapsed = time.perf_counter() - start
    p50, p99 = np.quantile(latencies, (0.5, 0.99))
    return Timing(len(requests) / elapsed, 1e3 * float(p50), 1e3 * float(p99))


class Many:
    """A connection of its own to a right provider, through which submissions for many people go as a gateway's do."""

    def __init__(self, target: Target, study_id: bytes) -> None:
        self._target = target
        self._study_id = study_id
        self._transport = H2Transport()

    def send(self, components: Sequence[tuple[bytes, bytes]]) -> None:
        """(submission id, sealed component) of each; all must be taken."""
        messages, size = [SubmitManyRequest(study_id=self._study_id)], 0
        for name, sealed in components:
            if len(messages[-1].submissions) == _TOGETHER or size + len(sealed) > _MESSAGE_BYTES:
                messages.append(SubmitManyRequest(study_id=self._study_id))
                size = 0
            messages[-1].submissions.add(submission_id=name, sealed_component=sealed)
            size += len(sealed) + 64
        sent = (message.SerializeToString() for message in messages if message.submissions)
        for answer in self._transport.exchange(
            self._target.endpoint, SUBMIT_MANY_METHOD, sent, _CALL_SECONDS
        ):
            for outcome in SubmitManyResponse.FromString(answer).outcomes:
                if not outcome.HasField("receipt"):
                    raise AssertionError(f"not taken: {outcome.reason} {outcome.message}")

    def close(self) -> None:
        """Drop the connection."""
        self._transport.close()


def many(target: Target, study_id: bytes, requests: Sequence[bytes]) -> None:
    """Send what are calls of their own elsewhere together, over one connection."""
    sender, read = Many(target, study_id), map(SubmitRequest.FromString, requests)
    sender.send([(one.submission_id, one.sealed_component) for one in read])
    sender.close()


def drive(target: Target, requests: Sequence[bytes], under_way: int) -> Timing:
    """Send every request once over one connection."""
    return uvloop.run(_drive(target, requests, under_way))
