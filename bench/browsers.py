"""Submissions from browsers: the same messages to the same right provider over HTTPS and over gRPC, by turns.

The callers share the machine with the provider, and HTTP/1.1 takes a connection a call under way: what is compared is
throughput on one machine, and what each call costs the provider.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Sequence

import aiohttp
import numpy as np
import uvloop

from bench.cluster import SUBMIT, live_cluster, process_seconds
from bench.load import Timing, drive
from bench.results import Result, Settings, share_of_limit
from bench.submitting import components
from trimask_core.errors import TrimaskError

__all__ = ["browsers"]

_ROWS = 256
_UNDER_WAY = 64
_HEADERS = {"Content-Type": "application/proto", "Connect-Protocol-Version": "1"}


async def _post(origin: str, roots: str, requests: Sequence[bytes]) -> Timing:
    context = ssl.create_default_context(cadata=roots)
    connector = aiohttp.TCPConnector(limit=_UNDER_WAY, ssl=context)
    async with aiohttp.ClientSession(connector=connector, headers=_HEADERS) as session:
        waiting, latencies = iter(requests), list[float]()

        async def caller() -> None:
            for request in waiting:
                start = time.perf_counter()
                async with session.post(origin + SUBMIT, data=request) as answer:
                    body = await answer.read()
                if answer.status != 200:
                    raise TrimaskError(f"HTTP status {answer.status}: {body.decode()}")
                latencies.append(time.perf_counter() - start)

        start = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(_UNDER_WAY)))
        elapsed = time.perf_counter() - start
    p50, p99 = np.quantile(latencies, (0.5, 0.99))
    return Timing(len(requests) / elapsed, 1e3 * float(p50), 1e3 * float(p99))


def browsers(settings: Settings) -> Iterator[Result]:
    """Submissions a second over HTTPS beside gRPC's, and the provider's CPU for each."""
    rounds, calls = (2, 256) if settings.quick else (6, 1024)
    with live_cluster(https=True) as live:
        signed = live.open(_ROWS, _ROWS)
        last = f"R{live.right}"
        party, marker = signed.study.party(last), str(live.folder / last / "node.toml")
        messages = components(signed, 2 * rounds * calls)
        rates: dict[str, list[float]] = {"https": [], "grpc": []}
        costs: dict[str, list[float]] = {"https": [], "grpc": []}
        for first in range(0, len(messages), calls):
            way = "https" if first // calls % 2 else "grpc"
            batch = messages[first : first + calls]
            before = process_seconds(marker)
            timing = (
                uvloop.run(_post(party.https, live.roots, batch))
                if way == "https"
                else drive(live.target(signed.study, last), batch, _UNDER_WAY)
            )
            after = process_seconds(marker)
            rates[way].append(timing.per_second)
            if before is not None and after is not None:
                costs[way].append((after - before) / calls)
        mine, limit = max(rates["https"]), max(rates["grpc"])
        yield Result(
            "browsers", f"submissions over HTTPS, {_UNDER_WAY} under way", "speed", mine, limit, "/s", "the same over gRPC",
            mine / limit,
        )  # fmt: skip
        if costs["https"] and costs["grpc"]:
            yield share_of_limit(
                "browsers",
                "provider's CPU a submission over HTTPS",
                min(costs["https"]),
                min(costs["grpc"]),
                "over gRPC",
            )
