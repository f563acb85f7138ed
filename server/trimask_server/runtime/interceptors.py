"""What is around every handler: the one place where an exception becomes an answer, and the record of the call.

A handler raises; the guard around it counts the reason, logs it, and answers with the status, the message, and the reason
in the trailing metadata. What was not foreseen is logged with its traceback and answered without detail.
Of every call its id, study, trace, duration and status are recorded.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import grpc
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from trimask_core.basics.errors import ApprovalError, Refused, TrimaskError, VerificationError
from trimask_core.basics.randomness import RandomSource
from trimask_core.basics.refusals import REASON_KEY, RETRY_KEY, AnyReason, Reason
from trimask_server.runtime.logs import (
    REQUEST_KEY,
    current_request,
    current_study,
    incoming_context,
    known_request_id,
    reason_of_failure,
    span,
    study_id_of,
    study_prefix,
)
from trimask_server.runtime.metrics import Metrics, Refusals

MAX_MESSAGE_BYTES = 4 << 20


def reason_of(error: TrimaskError) -> AnyReason:
    """The reason an error is answered and counted under."""
    if isinstance(error, Refused):
        return error.reason
    if isinstance(error, ApprovalError):
        return Reason.NOT_APPROVED
    if isinstance(error, VerificationError):
        return Reason.BAD_SIGNATURE
    return Reason.MALFORMED


def status_of(reason: AnyReason) -> grpc.StatusCode:
    """The gRPC status of a reason."""
    return grpc.StatusCode[reason.status.name]


class Admission(Protocol):
    """What is asked before a handler runs; `access.permissions` answers."""

    async def admit(self, method: str, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Raise `Refused` unless the caller may."""

    def covers(self, method: str) -> bool:
        """Whether this is a call of ours, wherever it may be served."""

    def for_browsers(self, method: str) -> bool:
        """Whether it is a participant's call, which the HTTPS port serves too."""

    def require_complete(self, services: Iterable[str]) -> None:
        """Raise `ConfigError` for a service with a method whose callers nobody has decided on."""


class _Rest(grpc.GenericRpcHandler):
    """The last handler asked: for calls that no service on this port has."""

    def __init__(self, gate: Admission, guard: Callable[[str, Any], Any]) -> None:
        self._gate = gate
        self._guard = guard

    def service(self, handler_call_details: Any) -> Any:
        """A refusal for a call of ours; nothing for anybody else's."""
        method = handler_call_details.method
        if not self._gate.covers(method):
            return None
        return self._guard(method, grpc.unary_unary_rpc_method_handler(_not_served))


async def _not_served(_: Any, __: Any) -> None:
    raise Refused(Reason.NOT_SERVED, "this call is not served on this port of this node")


def trailers_of(reason: AnyReason, error: TrimaskError) -> tuple[tuple[str, str], ...]:
    """What goes with a refusal, for programs: its reason, and when to ask again."""
    again = error.retry_after_ms if isinstance(error, Refused) else None
    return ((REASON_KEY, str(reason)), *(((RETRY_KEY, str(again)),) if again is not None else ()))


Handler = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], Awaitable[Any]]


Layer = Callable[[str, Any], Any]


def unchanged(_method: str, handler: Any) -> Any:
    """A layer that adds nothing."""
    return handler


class GuardedServer:
    """Where servicers are added: asks the gate who may call them, and turns exceptions into counted, logged answers.

    Handlers are wrapped once, as they are added. An interceptor would do the same for every call again, at a tenth of
    what a call costs. `inside` is wrapped around a handler first, so what it raises is answered here too; `outside` last.
    `arriving` reads the message before all of these, and `streaming` each message of a call that streams: to all others
    a message of a stream is a call.
    """

    def __init__(
        self,
        server: grpc.aio.Server,
        refusals: Refusals,
        log: logging.Logger,
        look_again: Callable[[], Awaitable[object]],
        gate: Admission,
        inside: Layer = unchanged,
        outside: Layer = unchanged,
        arriving: Layer = unchanged,
        streaming: Layer = unchanged,
    ) -> None:
        self._server = server
        self._refusals = refusals
        self._log = log
        self._gate = gate
        self._look_again = look_again  # for a study that another worker of this node has taken in
        self._inside = inside
        self._outside = outside
        self._arriving = arriving
        self._streaming = streaming
        self.calls: dict[str, Any] = {}  # every handler with all its layers but `arriving`, by method

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """What generated code calls first, with the handlers it names in the call below."""

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """Serve a service's methods, guarded."""
        guarded = {name: self._wrap(f"/{service}/{name}", handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, guarded),))

    def refuse_the_rest(self) -> None:
        """Once everything is added: calls of ours that this port does not serve are refused, and counted, too."""
        self._server.add_generic_rpc_handlers((_Rest(self._gate, self._refuse),))

    def _wrap(self, method: str, handler: Any) -> Any:
        arriving = self._arriving
        if handler.request_streaming:
            handler, arriving = rewrapped(handler, handler.stream_stream), self._streaming
        guarded = self._guard(method, self._inside(method, handler))
        self.calls[method] = self._outside(method, guarded)
        return arriving(method, self.calls[method])

    def for_browser(self, method: str) -> Any:
        """What answers a call that came in over HTTPS: its handler if it is a participant's, a counted refusal if it is
        another call of ours, None if it is none."""
        if self._gate.for_browsers(method) and method in self.calls:
            return self.calls[method]
        if self._gate.covers(method):
            return self._guard(method, grpc.unary_unary_rpc_method_handler(_not_served))
        return None

    def _refuse(self, method: str, handler: Any) -> Any:
        return self._arriving(method, self._guard(method, handler))

    def _guard(self, method: str, handler: Any) -> Any:
        inner: Handler = handler.unary_unary
        refusals, log, look_again, gate = self._refusals, self._log, self._look_again, self._gate

        async def admitted(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            await gate.admit(method, request, context)
            return await inner(request, context)

        async def guarded(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            try:
                try:
                    return await admitted(request, context)
                except Refused as error:
                    if error.reason is not Reason.UNKNOWN_STUDY:
                        raise
                await look_again()
                return await admitted(request, context)
            except TrimaskError as error:
                reason = reason_of(error)
                known = reason is not Reason.UNKNOWN_STUDY
                refusals.count(reason, study_id_of(request) if known else b"")
                log.warning("refused rpc=%s reason=%s why=%s", method, reason, error)
                await context.abort(status_of(reason), str(error), trailers_of(reason, error))
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # answered without detail
                reason = reason_of_failure(error)
                refusals.count(reason)
                log.exception("failed rpc=%s reason=%s", method, reason)
                await context.abort(
                    status_of(reason),
                    "internal error; the node's log has it"
                    if reason is Reason.INTERNAL_ERROR
                    else "this node's disk or database is full or away; try again in a minute",
                    ((REASON_KEY, str(reason)),),
                )

        return rewrapped(handler, guarded)


def rewrapped(handler: Any, function: Handler, parse: Callable[[bytes], Any] | None = None) -> Any:
    """The same unary method with another function, and another parser if one is given."""
    return grpc.unary_unary_rpc_method_handler(
        function,
        request_deserializer=parse or handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


_CODES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


class Observation:
    """The outermost layer, so that it sees the result of every other layer."""

    def __init__(
        self, name: str, metrics: Metrics, tracer: Tracer, source: RandomSource, *, public: bool
    ) -> None:
        self._name = name
        self._metrics = metrics
        self._tracer = tracer
        self._public = public
        self._prefix = source.read(4).hex()
        self._numbers = itertools.count(int.from_bytes(source.read(3), "big"))

    def _fresh_id(self) -> str:
        return f"{self._prefix}{next(self._numbers) & 0xFFFFFFFF:08x}"

    def wrap(self, method: str, handler: Any) -> Any:
        """A handler whose calls are named, traced and counted."""
        metrics, tracer, inner = self._metrics, self._tracer, handler.unary_unary
        rpc = method.lstrip("/")
        short = rpc.removeprefix("trimask_proto.v1.")
        answered = metrics.requests.labels(short, "OK")
        seconds = metrics.request_seconds.labels(short)
        constant = {"rpc.system.name": "grpc", "rpc.method": rpc, "trimask.node": self._name}

        async def observed(request: Any, context: Any) -> Any:
            # What a stranger sends as context is not taken over: it could tie a device's calls together.
            given = {} if self._public else dict(context.invocation_metadata() or ())
            current_request.set(known_request_id(given.get(REQUEST_KEY)) or self._fresh_id())
            study = study_prefix(request)
            current_study.set(study)
            attributes = constant | {"trimask.study": study} if study else constant
            begun = time.perf_counter()
            metrics.under_way.inc()
            with span(tracer, rpc, SpanKind.SERVER, incoming_context(given), attributes) as current:
                try:
                    answer = await inner(request, context)
                except BaseException as error:
                    status = "CANCELLED" if isinstance(error, asyncio.CancelledError) else _status(context)
                    metrics.requests.labels(short, status).inc()
                    current.set_attribute("rpc.response.status_code", status)
                    current.set_status(Status(StatusCode.ERROR))
                    raise
                finally:
                    metrics.under_way.dec()
                    seconds.observe(time.perf_counter() - begun)
            answered.inc()
            return answer

        return rewrapped(handler, observed)


def _status(context: Any) -> str:
    """The word of the status a handler aborted with."""
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    return _CODES.get(code, "UNKNOWN") if code else "UNKNOWN"
