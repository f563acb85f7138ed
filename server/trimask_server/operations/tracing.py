"""Traces across parties: W3C trace context in gRPC metadata, spans by OpenTelemetry.

The API alone is needed; without an SDK every span is a no-op. Where `opentelemetry-sdk` and an OTLP exporter are installed
and the standard OTEL_ variables name an endpoint, spans are exported. Attributes are the rpc, its status, the node and the
first digits of the study: nothing of a person. Trace context is taken from peers alone, never from the public port, where
it could tie a device's requests to each other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, ProxyTracerProvider, Span, SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["configure_tracing", "incoming_context", "outgoing_headers", "span", "trace_id", "tracer_in_use"]

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
    if find_spec("opentelemetry.sdk") is None or not _installed(_EXPORTER):
        return False
    import importlib

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over what is given here.
    resource = Resource.create({"service.name": f"trimask-{role}", "service.instance.id": name})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(importlib.import_module(_EXPORTER).OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return True


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


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
