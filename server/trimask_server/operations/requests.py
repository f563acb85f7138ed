"""The layer around every call that records its id, study, trace, duration and status."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import grpc
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from trimask_core.randomness import RandomSource
from trimask_server.operations.context import (
    REQUEST_KEY,
    current_request,
    current_study,
    known_request_id,
    study_prefix,
)
from trimask_server.operations.guard import rewrapped
from trimask_server.operations.metrics import Metrics
from trimask_server.operations.tracing import incoming_context, span

__all__ = ["Observation"]

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
