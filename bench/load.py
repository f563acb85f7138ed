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

__all__ = ["Target", "Timing", "drive"]

_CALL_SECONDS = 60.0


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


def drive(target: Target, requests: Sequence[bytes], under_way: int) -> Timing:
    """Send every request once over one connection."""
    return uvloop.run(_drive(target, requests, under_way))
