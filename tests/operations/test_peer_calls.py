"""Calls between nodes: repeated with full jitter until their deadline, and only where a repeat may help."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom
from trimask_server.runtime.context import Peers, load_keys


class Failing:
    """A method that fails as told, then answers."""

    def __init__(self, *failures: tuple[grpc.StatusCode, dict[str, str]]) -> None:
        self.failures = list(failures)
        self.calls = 0

    async def __call__(self, _request: Any, **options: Any) -> str:
        self.calls += 1
        assert options["timeout"] > 0
        if self.failures:
            code, trailers = self.failures.pop(0)
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers.items()), "no")
        return "answer"


@pytest.fixture
def peers(keys_only: Any, monkeypatch: Any) -> Peers:
    made = Peers(load_keys(keys_only.folder / "R1"))
    made._source = DeterministicRandom("jitter")
    made.slept = []  # type: ignore[attr-defined]

    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            made.slept.append(seconds)  # type: ignore[attr-defined]
        else:  # a cluster of other tests is at work
            await real(seconds)

    monkeypatch.setattr("trimask_server.runtime.context.asyncio.sleep", sleep)
    return made


BROKEN = (grpc.StatusCode.UNAVAILABLE, {})


def test_a_broken_connection_is_met_with_full_jitter_below_a_doubling_cap(peers: Any) -> None:
    method = Failing(*[BROKEN] * 8)
    assert asyncio.run(peers.call(method, None)) == "answer"
    caps = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert all(0 <= pause <= cap for pause, cap in zip(peers.slept, caps, strict=True))
    assert len(set(peers.slept)) == 8
    assert max(pause / cap for pause, cap in zip(peers.slept, caps, strict=True)) > 0.5
    assert min(pause / cap for pause, cap in zip(peers.slept, caps, strict=True)) < 0.5


@pytest.mark.parametrize("reason", ["draining", "overloaded"])
def test_a_peer_that_asks_for_patience_gets_it(peers: Any, reason: str) -> None:
    code = grpc.StatusCode.UNAVAILABLE
    method = Failing((code, {"trimask-reason": reason, "retry-after-ms": "700"}))
    assert asyncio.run(peers.call(method, None)) == "answer"
    assert 0.7 <= peers.slept[0] <= 0.8


@pytest.mark.parametrize(
    ("code", "trailers", "reason"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, {"trimask-reason": "out_of_step"}, "out_of_step"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, {}, "unreachable"),
        (grpc.StatusCode.UNIMPLEMENTED, {}, "unreachable"),
    ],
)
def test_what_a_repeat_does_not_help(peers: Any, code: Any, trailers: dict[str, str], reason: str) -> None:
    method = Failing((code, trailers))
    with pytest.raises(Refused) as caught:
        asyncio.run(peers.call(method, None))
    assert caught.value.reason == reason
    assert method.calls == 1


def test_the_deadline_ends_it(peers: Any) -> None:
    method = Failing(
        *[(grpc.StatusCode.UNAVAILABLE, {"trimask-reason": "draining", "retry-after-ms": "9000"})] * 9
    )
    with pytest.raises(Refused):
        asyncio.run(peers.call(method, None, 4.0))  # what is asked for is longer than there is time
    assert method.calls == 1
