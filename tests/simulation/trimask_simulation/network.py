"""Messages between processes: real protobuf bytes, delays and faults from the seed, and what gRPC does about them.

As with gRPC, a handler whose caller has gone away (deadline, broken connection, cancellation) is cancelled where it
stands, and a call that waits for readiness is delivered when the other side comes up.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
from grpc.aio import AioRpcError, Metadata

from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.basics.refusals import REASON_KEY
from trimask_core.study.party import Party
from trimask_server.local.cluster import node_of
from trimask_server.runtime.context import NodeContext, Peers
from trimask_server.runtime.inbound_limits import Limits
from trimask_server.runtime.interceptors import Admission, GuardedServer
from trimask_server.runtime.ports import serve
from trimask_simulation.faults import Faults
from trimask_simulation.loop import CURRENT, Process, VirtualLoop
from trimask_simulation.trace import Trace

__all__ = ["WORKER_PORT", "Endpoint", "Network", "SimulatedPeers"]

WORKER_PORT = 3  # on which a worker is reached itself; on the others any of a node's


class Endpoint:
    """One listening port of a node: its methods behind the production gate, limits and guard."""

    def __init__(self, node: NodeContext, services: list[object], gate: Admission, *, public: bool) -> None:
        self._handlers: list[Any] = []
        guarded: Any = GuardedServer(
            self,  # type: ignore[arg-type]
            node.refusals,
            node.log,
            node.studies.refresh,
            gate,
            inside=Limits(node.config, public=public).wrap,
        )
        for service in services:
            serve(service, guarded)

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """In the place of a grpc server."""
        self._handlers += handlers

    async def serve(self, path: str, request: bytes, context: _Context) -> bytes:
        """Answer a request's bytes with a response's bytes, or abort through the context."""
        details: Any = SimpleNamespace(method=path, invocation_metadata=())
        found = (handler.service(details) for handler in self._handlers)
        handler = next((handler for handler in found if handler is not None), None)
        if handler is None:
            raise _aborted(grpc.StatusCode.UNIMPLEMENTED, path)
        response = await handler.unary_unary(handler.request_deserializer(request), context)
        answer: bytes = handler.response_serializer(response)
        return answer


class _Context:
    """What a handler sees of its caller: the names in a certificate."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.aborted: AioRpcError | None = None

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"peer_dns": [name.encode() for name in self._names]}

    def peer(self) -> str:
        return "simulated"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing: Any = ()) -> None:
        self.aborted = _aborted(code, details, trailing)
        raise grpc.aio.AbortError("aborted")


def _aborted(code: grpc.StatusCode, details: str, trailing: Any = ()) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(*trailing), details=details)


def _unavailable(details: str) -> AioRpcError:
    return _aborted(grpc.StatusCode.UNAVAILABLE, details)


@dataclass(eq=False)
class _Call:
    sender: str
    target: str
    port: int
    path: str
    request: bytes
    names: tuple[str, ...]
    waits: bool
    answer: asyncio.Future[bytes]
    lose_reply: str = ""
    worker: str = ""  # who it has come to
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def method(self) -> str:
        return self.path.rpartition("/")[2]

    def fail(self, error: AioRpcError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # the caller may be dead and never look


class Network:
    """Where every process is, and the messages under way."""

    def __init__(self, loop: VirtualLoop, trace: Trace, faults: Faults, seed: int) -> None:
        self._loop = loop
        self._trace = trace
        self._faults = faults
        self._delay = random.Random(f"network {seed}")
        self._outside = contextvars.copy_context()  # in which messages travel: no process's
        self._up: dict[str, tuple[Process, dict[int, Endpoint]]] = {}
        self._waiting: dict[str, list[_Call]] = {}
        self._cut: dict[frozenset[str], int] = {}
        self._connected: dict[tuple[str, str], str] = {}  # which of a node's workers a caller has come to

    def up(self, process: Process, ports: dict[int, Endpoint]) -> None:
        """A process listens; what waited for it is delivered."""
        self._up[process.name] = (process, ports)
        process.on_death.append(lambda: self._down(process))
        waiting = self._waiting.pop(process.name, [])
        waiting += self._waiting.pop(node_of(process.name), [])
        for call in waiting:
            self._later(self._delay.uniform(0.001, 0.3), lambda call=call: self._arrive(call))

    def _down(self, process: Process) -> None:
        if self._up.get(process.name, (None,))[0] is process:
            del self._up[process.name]

    def cut(self, one: str, other: str, seconds: float) -> None:
        """No message passes between two parties for a while."""
        link = frozenset((one, other))
        self._cut[link] = self._cut.get(link, 0) + 1

        def mend() -> None:
            self._cut[link] -= 1

        self._later(seconds, mend)

    def _is_cut(self, call: _Call) -> bool:
        return self._faults.on and self._cut.get(frozenset((call.sender, call.worker)), 0) > 0

    def _worker(self, call: _Call) -> str:
        """Who takes a call: the worker it is for, or any of a node's, for a while always the same."""
        if call.port == WORKER_PORT:
            return call.target
        up = [name for name in self._up if node_of(name) == call.target]
        link = (call.sender, call.target)
        known = self._connected.get(link, "")
        if len(up) > 1 and (known not in up or self._delay.random() < 0.05):
            known = self._connected[link] = self._delay.choice(sorted(up))
        return known if known in up else up[0] if up else call.target

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.call_later(seconds, then, context=self._outside)

    async def call(
        self, sender: str, address: str, path: str, request: bytes, names: tuple[str, ...],
        timeout: float, *, waits: bool,
    ) -> bytes:  # fmt: skip
        """A unary call; `AioRpcError` as grpc would raise it."""
        target, _, port = address.partition(":")
        call = _Call(sender, target, int(port), path, request, names, waits, self._loop.create_future())
        self._send(call)
        process = CURRENT.get()
        if process is not None:  # the caller's death closes its connections too
            process.on_death.append(
                lambda: self._later(self._delay.uniform(0.0, 0.2), lambda: self._cancel(call))
            )
        try:
            async with asyncio.timeout(timeout):
                return await call.answer
        except TimeoutError:
            raise _aborted(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline exceeded") from None
        finally:
            if not call.answer.done():
                call.answer.cancel()
            # The caller has gone, one way or another: grpc cancels the handler a moment later.
            self._later(self._delay.uniform(0.0, 0.05), lambda: self._cancel(call))

    def _cancel(self, call: _Call) -> None:
        for task in call.tasks:
            task.cancel()

    def _send(self, call: _Call) -> None:
        trace, faults, delay = self._trace, self._faults, self._delay
        where = f"{call.sender}>{call.target}"
        trace.event(where, f"call {call.method}", call.request)
        travel = delay.expovariate(1 / 0.01)
        if faults.strike("delayed"):
            extra = delay.uniform(0.2, 25.0)
            trace.fault("delayed", where, f"{call.method} by {extra:.1f} s")
            travel += extra
        if faults.strike("request lost"):
            how = delay.choice(("silent", "broken"))
            trace.fault("request lost", where, f"{call.method} ({how})")
            if how == "broken":
                self._later(travel, lambda: call.fail(_unavailable("the connection broke")))
            return
        if faults.strike("reply lost"):
            call.lose_reply = delay.choice(("silent", "broken"))
        self._later(travel, lambda: self._arrive(call))
        if faults.strike("duplicated"):
            again = travel + delay.uniform(0.0, 30.0)
            copy = _Call(
                call.sender, call.target, call.port, call.path, call.request, call.names, False,
                self._loop.create_future(),
            )  # fmt: skip
            trace.fault("duplicated", where, f"{call.method} after {again:.1f} s")
            self._later(again, lambda: self._arrive(copy))
        if faults.strike("connection broken"):
            at = travel + delay.uniform(0.0, 0.04)

            def broken() -> None:
                if not call.answer.done():
                    trace.fault("connection broken", where, call.method)
                    call.fail(_unavailable("the connection broke"))
                    self._cancel(call)

            self._later(at, broken)

    def _arrive(self, call: _Call) -> None:
        call.worker = self._worker(call)
        if self._is_cut(call):
            self._trace.event(f"{call.sender}>{call.target}", f"cut off {call.method}")
            if call.waits and not call.answer.done():
                self._later(1.0, lambda: self._arrive(call))  # it waits for the link as for the node
            else:
                call.fail(_unavailable("no route"))
            return
        found = self._up.get(call.worker)
        if found is None:
            if call.waits:
                self._waiting.setdefault(call.target, []).append(call)
            else:
                call.fail(_unavailable("connection refused"))
            return
        process, ports = found
        if call.answer.cancelled():
            return  # its deadline passed before it got here
        task = self._loop.begin(process, self._handle(call, ports[call.port]))
        call.tasks.append(task)
        process.on_death.append(
            lambda: self._later(
                self._delay.uniform(0.0, 0.2), lambda: call.fail(_unavailable("connection reset"))
            )
        )

    async def _handle(self, call: _Call, endpoint: Endpoint) -> None:
        """The server's side, in the server's process."""
        context = _Context(call.names)
        answer: bytes | AioRpcError
        try:
            answer = await endpoint.serve(call.path, call.request, context)
        except grpc.aio.AbortError:
            answer = context.aborted or _unavailable("aborted")
        except AioRpcError as error:
            answer = error
        self._later(self._delay.expovariate(1 / 0.01), lambda: self._reply(call, answer))

    def _reply(self, call: _Call, answer: bytes | AioRpcError) -> None:
        where = f"{call.target}>{call.sender}"
        if isinstance(answer, AioRpcError):
            reason = dict(answer.trailing_metadata() or ()).get(REASON_KEY, "")
            self._trace.event(where, f"refuse {call.method} {reason}")
        else:
            self._trace.event(where, f"answer {call.method}", answer)
        if call.answer.done():
            return
        if call.lose_reply and self._faults.on:
            self._trace.fault("reply lost", where, f"{call.method} ({call.lose_reply})")
            if call.lose_reply == "broken":
                call.fail(_unavailable("the connection broke"))
        elif self._is_cut(call):
            self._trace.fault("reply lost", where, f"{call.method} (cut)")
        elif isinstance(answer, AioRpcError):
            call.fail(answer)
        else:
            call.answer.set_result(answer)


class SimulatedPeers(Peers):
    """The production calls between nodes, over the simulated network."""

    def __init__(self, network: Network, name: str, tls_name: str) -> None:
        self._network = network
        self._name = name
        self._tls_name = tls_name
        self._observer = None
        self._source = DeterministicRandom(f"pauses of {name}")

    def channel(self, party: Party, address: str = "") -> Any:
        """Something with grpc's `unary_unary`."""
        network, name, tls_name = self._network, self._name, self._tls_name

        def unary_unary(path: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
            async def invoke(
                request: Any, timeout: float = 20.0, wait_for_ready: bool = False, **_: Any
            ) -> Any:
                answer = await network.call(
                    name, address or party.peer_address, path, request_serializer(request), (tls_name,), timeout,
                    waits=wait_for_ready,
                )  # fmt: skip
                return response_deserializer(answer)

            return invoke

        return SimpleNamespace(unary_unary=unary_unary)

    async def close(self) -> None:
        """There is nothing to close."""
