"""Logs and traces: one line an event, as text or JSON, one trace across parties, never a secret.

Every line knows the request it belongs to and the first digits of its study. No line at info or above has the id of a
submission: with a provider's own clock that would tie a row to a moment and an address.

What a line names (`log.info("pooled block=%s rows=%d", ...)`) is a field of its own in JSON, and no part of the message. A
full disk or a database that is away is said in its own words, without a traceback. What a background task, or one request,
has said within the last minute is not said again.

A request is named by 16 random hexadecimal digits, drawn where it enters the system and handed on from node to node, so
that one grep over all nodes' logs shows one request. It names a call, never a person: a device does not send one, and one
that comes on the public port is not believed.

Traces are W3C trace context in gRPC metadata, spans by OpenTelemetry. The API alone is needed; without an SDK every span
is a no-op. Where `opentelemetry-sdk` and an OTLP exporter are installed and the standard OTEL_ variables name an
endpoint, spans are exported. Attributes are the rpc, its status, the node and the first digits of the study: nothing of a
person. Trace context is taken from peers alone, never from the public port, where it could tie a device's requests to
each other.

A failing disk or database server is told from a wrong request: such failures are temporary and refused as that.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, ProxyTracerProvider, Span, SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_server.store.interface import StoreError

REQUEST_KEY = "trimask-request-id"
current_request: ContextVar[str] = ContextVar("trimask_request", default="")
current_study: ContextVar[str] = ContextVar("trimask_study", default="")
_REQUEST_ID = re.compile(r"[0-9a-f]{16}")
_STUDY_ID_BYTES, _PREFIX_DIGITS = 32, 12


def known_request_id(value: object) -> str:
    """A peer's request id, or nothing if it is not one."""
    return value if isinstance(value, str) and _REQUEST_ID.fullmatch(value) else ""


_WITH_STUDY = ("attempt", "draw", "check", "totals", "order")  # fields of requests that name the study inside


def study_id_of(request: Any) -> bytes:
    """The id of the study that a message is about; nothing if it is about none."""
    inside = next((getattr(request, name) for name in _WITH_STUDY if hasattr(request, name)), None)
    found = getattr(request, "study_id", None) or getattr(inside, "study_id", None)
    return found if isinstance(found, bytes) else b""


def study_prefix(request: Any) -> str:
    """The first digits of the study a message is about; nothing if it is about none."""
    study_id = study_id_of(request)
    return study_id.hex()[:_PREFIX_DIGITS] if len(study_id) == _STUDY_ID_BYTES else ""


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
_CONTEXT = TraceContextTextMapPropagator()
_NO_SPAN: AbstractContextManager[Span] = nullcontext(INVALID_SPAN)


def configure_tracing(name: str, role: str) -> bool:
    """Export spans if the environment asks for it and the packages are there; whether they will be."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if not any(os.environ.get(variable) for variable in _ENDPOINTS):
        return False
    try:
        exporter = import_module(_EXPORTER)
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        return False
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over what is given here.
    resource = Resource.create({"service.name": f"trimask-{role}", "service.instance.id": name})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter.OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return True


def tracer_in_use() -> Tracer:
    """The tracer of whatever provider the program has set; one that does nothing if none."""
    provider = trace.get_tracer_provider()
    return NoOpTracer() if isinstance(provider, ProxyTracerProvider) else provider.get_tracer("trimask")


def incoming_context(metadata: Mapping[str, str | bytes]) -> Context:
    """The caller's trace context, from a peer's metadata."""
    if "traceparent" not in metadata:
        return Context()
    carrier = {key: value for key, value in metadata.items() if isinstance(value, str)}
    return _CONTEXT.extract(carrier, context=Context())


def outgoing_headers() -> tuple[tuple[str, str], ...]:
    """Metadata that carries the current trace to a peer; empty without one."""
    carrier: dict[str, str] = {}
    _CONTEXT.inject(carrier)
    return tuple(carrier.items())


def trace_id() -> str:
    """The current trace, for the log; empty without one."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""


def span(
    tracer: Tracer,
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    context: Context | None = None,
    attributes: Mapping[str, str | int] | None = None,
) -> AbstractContextManager[Span]:
    """A span whose exceptions are not recorded: a message could carry more than a trace may."""
    if isinstance(tracer, NoOpTracer):  # nothing records spans: skipping them saves a fifth of a call's cost
        return _NO_SPAN
    return tracer.start_as_current_span(
        name,
        context=context,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    )


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}
# PostgreSQL: connection, insufficient resources, operator intervention, system error.
_STATES = re.compile(r"\((08|53|57|58)\w{3}\)")


def reason_of_failure(error: BaseException) -> Reason:
    """`STORE_UNAVAILABLE` for a full disk or an unreachable server; a refusal's own reason; else `INTERNAL_ERROR`."""
    if isinstance(error, Refused) and isinstance(error.reason, Reason):
        return error.reason
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, sqlite3.OperationalError) or (
            isinstance(seen, OSError) and seen.errno in _NO_ROOM
        ):
            return Reason.STORE_UNAVAILABLE
        if isinstance(seen, StoreError) and _STATES.search(str(seen)):
            return Reason.STORE_UNAVAILABLE
        seen = seen.__cause__
    return Reason.INTERNAL_ERROR


_NAMED = re.compile(r"(?:\b([a-z_]+)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_LEFT_OVER = re.compile(r"\s*([:;,])[\s:;,]*(?=\s)|\s+(?=\s)")  # what stood between fields
_REPEAT_SECONDS = 60.0
_REMEMBERED = 1000


def _context() -> dict[str, str]:
    found = {"request_id": current_request.get(), "study": current_study.get(), "trace_id": trace_id()}
    return {key: value for key, value in found.items() if value}


def _passing(record: logging.LogRecord) -> str:
    """What a full disk or a server that is away says, where that is what failed."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None or reason_of_failure(error) is not Reason.STORE_UNAVAILABLE:
        return ""
    return str(error) or type(error).__name__


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = f"{when} {record.levelname:<7} {record.name}: {record.getMessage()}"
        passing = _passing(record)
        line = f"{line} why={passing}" if passing else line
        known = " ".join(f"{key}={value}" for key, value in _context().items())
        line = f"{line} [{known}]" if known else line
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info and not passing else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message, fields = _parts(record)
        entry = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname,
            "node": record.name,
            "message": message,
            **_context(),
            **fields,
        }
        passing = _passing(record)
        if passing:
            entry["why"] = passing
        elif record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _parts(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """A line's message without what it names, and that by name."""
    given = list(record.args) if isinstance(record.args, tuple) else []
    fields: dict[str, Any] = {}
    plain: list[Any] = []

    def take(match: re.Match[str]) -> str:
        if match[0].endswith("%%"):
            return match[0]
        value = given.pop(0)
        if match[1] is None:
            plain.append(value)
            return match[0]
        fields[match[1]] = value if isinstance(value, int | float) else str(value)
        return ""

    template = _NAMED.sub(take, str(record.msg)) if given else str(record.msg)
    message = template % tuple(plain) if record.args else template
    return _LEFT_OVER.sub(lambda match: match[1] or "", f" {message} ").strip(" :;,"), fields


class _Repeats(logging.Filter):
    """Keeps back warnings of one background task, or of one request, that were written within the last minute."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        said = f"{current_request.get()} {record.getMessage()} {_passing(record)}"
        if record.created - self._said.get(said, 0.0) < _REPEAT_SECONDS:
            return False
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[said] = record.created
        return True


def make_handler(style: str) -> logging.Handler:
    """Writes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    handler.addFilter(_Repeats())
    return handler


def configure(name: str, style: str) -> logging.Logger:
    """The node's logger."""
    logger = logging.getLogger(f"trimask.{name}")
    logger.handlers = [make_handler(style)]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger
