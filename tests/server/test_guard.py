"""The guard around handlers: a study that another worker has just taken in is looked for before it is unknown."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_server.runtime.interceptors import GuardedServer
from trimask_server.runtime.metrics import Refusals


class _Server:
    """Keeps the handlers it is given."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self.handlers += handlers


class _Open:
    """A gate that stands open."""

    async def admit(self, method: str, request: Any, context: Any) -> None:
        """Anybody."""

    def covers(self, _: str) -> bool:
        return True

    def for_browsers(self, _: str) -> bool:
        return True


class _Context:
    async def abort(self, code: grpc.StatusCode, *_: Any) -> None:
        raise grpc.aio.AbortError(code.name)


def guarded(known: set[bytes], look_again: Any, refusals: Refusals) -> Any:
    async def handler(request: bytes, _: Any) -> str:
        if request not in known:
            raise Refused(Reason.UNKNOWN_STUDY, "this node does not know that study")
        return "answered"

    server = _Server()
    guard = GuardedServer(server, refusals, logging.getLogger("test"), look_again, _Open())  # type: ignore[arg-type]
    guard.add_registered_method_handlers("s", {"M": grpc.unary_unary_rpc_method_handler(handler)})
    (service,) = server.handlers
    return service.service(type("Details", (), {"method": "/s/M"})).unary_unary


def test_a_study_that_somebody_else_found_meanwhile_is_known() -> None:
    """Two calls miss it at once: the first one's look finds it, the second's finds nothing new, and both go on."""
    known: set[bytes] = set()
    refusals = Refusals({})

    async def look_again() -> None:
        await asyncio.sleep(0)
        known.add(b"study")

    async def course() -> None:
        call = guarded(known, look_again, refusals)
        assert (
            await asyncio.gather(call(b"study", _Context()), call(b"study", _Context())) == ["answered"] * 2
        )

    asyncio.run(course())
    assert refusals.as_dict() == {}


def test_one_that_nobody_knows_is_refused_and_counted_once() -> None:
    refusals = Refusals({})

    async def look_again() -> None:
        """Nothing new."""

    async def course() -> None:
        with pytest.raises(grpc.aio.AbortError, match="NOT_FOUND"):
            await guarded(set(), look_again, refusals)(b"study", _Context())

    asyncio.run(course())
    assert refusals.as_dict() == {"unknown_study": 1}
