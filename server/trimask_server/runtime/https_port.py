"""The HTTPS port: the participant's calls for browsers, by Connect's unary protocol.

A call comes in here and goes through the very handler that gRPC's public port has, with its gate, limits, counters, metrics
and audit; an address has one bucket for both ways in, and unfinished messages share one number of places. Pages may call of
hosts that the open studies of this node name (`[web] hosts`), each for its own studies alone.

What a stranger may hold is bounded: a connection's request head by size and time, connections by number and address
(aiohttp has no such limit of its own), a message by `inbound_limits`.

Connect's unary protocol: one protobuf message over one HTTP POST, and a refusal as JSON.

https://connectrpc.com/docs/protocol: the path names the call, the content type the encoding; an error is a JSON object with
one of gRPC's codes, under the HTTP status that Connect gives it. What gRPC sends in trailers goes into headers here.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grpc
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.message import Message

from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.refusals import REASON_KEY, RETRY_KEY, Alarm, Reason
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.inbound_limits import HANDSHAKE_MS, Addresses, Shares, Unread, message_limit
from trimask_server.runtime.metrics import Refusals
from trimask_server.runtime.ports import Bound, holder_words
from trimask_server.runtime.tls import TlsMaterial, https_files

PROTO, JSON = "application/proto", "application/json"
_VERSION = "1"
# (Connect's name, HTTP status) of gRPC's statuses; "canceled" is Connect's spelling.
_CODES = {
    grpc.StatusCode.CANCELLED: ("canceled", 499),
    grpc.StatusCode.UNKNOWN: ("unknown", 500),
    grpc.StatusCode.INVALID_ARGUMENT: ("invalid_argument", 400),
    grpc.StatusCode.DEADLINE_EXCEEDED: ("deadline_exceeded", 504),
    grpc.StatusCode.NOT_FOUND: ("not_found", 404),
    grpc.StatusCode.ALREADY_EXISTS: ("already_exists", 409),
    grpc.StatusCode.PERMISSION_DENIED: ("permission_denied", 403),
    grpc.StatusCode.RESOURCE_EXHAUSTED: ("resource_exhausted", 429),
    grpc.StatusCode.FAILED_PRECONDITION: ("failed_precondition", 400),
    grpc.StatusCode.ABORTED: ("aborted", 409),
    grpc.StatusCode.OUT_OF_RANGE: ("out_of_range", 400),
    grpc.StatusCode.UNIMPLEMENTED: ("unimplemented", 501),
    grpc.StatusCode.INTERNAL: ("internal", 500),
    grpc.StatusCode.UNAVAILABLE: ("unavailable", 503),
    grpc.StatusCode.DATA_LOSS: ("data_loss", 500),
    grpc.StatusCode.UNAUTHENTICATED: ("unauthenticated", 401),
}


class HttpCall:
    """A call that came over HTTP, as the layers around a handler see it: what they use of gRPC's context."""

    __slots__ = ("_authorization", "_code", "_peer", "message", "reading", "task", "trailers")

    def __init__(self, peername: object, authorization: Iterable[str] = ()) -> None:
        self._peer = peer_of(peername)
        self._authorization = tuple(authorization)
        self._code: grpc.StatusCode | None = None
        self.message = ""
        self.trailers: tuple[tuple[str, str], ...] = ()
        self.task: Any = None  # what reads the message, while it does: `inbound_limits` may end it
        self.reading = False

    def peer(self) -> str:
        """Who calls, as gRPC writes it."""
        return self._peer

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Nobody shows a certificate here."""
        return {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """What the gate looks at."""
        return tuple(("authorization", value) for value in self._authorization)

    def code(self) -> grpc.StatusCode | None:
        """The status it was ended with."""
        return self._code

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """End the call: from its handler, or while its message is on its way."""
        self._code, self.message, self.trailers = code, details, trailing_metadata
        if self.reading:
            self.task.cancel()
            return
        raise grpc.aio.AbortError(details)


def peer_of(peername: object) -> str:
    """A socket's other end, as gRPC writes it."""
    host, port = peername[:2] if isinstance(peername, tuple) else ("", 0)
    return f"ipv6:[{host}]:{port}" if ":" in str(host) else f"ipv4:{host}:{port}"


def error_answer(code: grpc.StatusCode, message: str) -> tuple[int, bytes]:
    """The HTTP status and body of a refusal."""
    name, status = _CODES[code]
    return status, json.dumps({"code": name, "message": message}, ensure_ascii=False).encode()


def timeout_of(headers: Mapping[str, str]) -> float | None:
    """The seconds a caller waits; refused unless the protocol's headers are well formed."""
    version = headers.get("Connect-Protocol-Version", _VERSION)
    if version != _VERSION:
        raise Refused(Reason.MALFORMED, f"Connect-Protocol-Version must be {_VERSION}")
    given = headers.get("Connect-Timeout-Ms", "")
    if not given:
        return None
    if len(given) > 10 or not (given.isascii() and given.isdigit()):
        raise Refused(
            Reason.MALFORMED, "Connect-Timeout-Ms must be a whole number of milliseconds, at most 10 digits"
        )
    return int(given) / 1000


@cache
def message_types(method: str) -> tuple[type[Message], type[Message]]:
    """What a call takes and gives, by its path."""
    service, _, name = method.lstrip("/").partition("/")
    found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    return message_factory.GetMessageClass(found.input_type), message_factory.GetMessageClass(
        found.output_type
    )


def read_json_message(method: str, data: bytes) -> bytes:
    """A request in protobuf's JSON form as the bytes it stands for."""
    message = message_types(method)[0]()
    try:
        json_format.Parse(data, message, ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError, RecursionError):
        raise Refused(Reason.MALFORMED, "the request is not the message this RPC takes, as JSON") from None
    return message.SerializeToString()


_MOST_CONNECTIONS = 128  # each may hold half a MiB, most of it in the TLS library


class BoundedConnections(web.Server):
    """A server with so many connections, shared out by address (`inbound_limits.Shares`).

    The one to lose its place is the one that has kept this server waiting for longest, for a request or for the rest of
    one; what is being answered comes last.
    """

    def __init__(self, handler: Any, refusals: Refusals, addresses: Addresses, **settings: Any) -> None:
        super().__init__(handler, **settings)
        self._refusals = refusals
        self._addresses = addresses
        self._transports: dict[RequestHandler, asyncio.Transport] = {}
        self.places: Shares[RequestHandler] = Shares(_MOST_CONNECTIONS)
        self.reading: set[RequestHandler] = set()

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        loses = self.places.enter(handler, self._addresses.of(peer_of(transport.get_extra_info("peername"))))
        if loses is not None:
            if loses in self.reading:
                self._refusals.count(Reason.OVERLOADED)
            held = self._transports[loses]
            self._forget(loses)
            held.abort()  # abort, because a client that sends half a message would not answer a TLS goodbye either
            loses.force_close()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._forget(handler)
        super().connection_lost(handler, exc)

    def _forget(self, handler: RequestHandler) -> None:
        self._transports.pop(handler, None)
        self.places.leave(handler)
        self.reading.discard(handler)


_IDLE_SECONDS = 30.0  # between requests, and for a request's head
_LINGER_SECONDS = 1.0  # for the rest of a refused message, so that its sender gets to read why
_HEAD_LINES, _HEAD_LINE_BYTES = 48, 2048
_HTTP_STATES = ("open", "paused", "closing")
_ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Vary": "Origin"}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type, connect-protocol-version, connect-timeout-ms",
    "Access-Control-Max-Age": "7200",
}
_EXPOSED = f"{REASON_KEY}, {RETRY_KEY}"


class HttpsPort:
    """One server beside gRPC's public port, `bound`, whose handlers it calls."""

    def __init__(self, node: NodeContext, bound: Bound) -> None:
        if node.key_folder is None:
            raise ConfigError("https_listen needs a folder of keys")
        self._node = node
        self._folder = node.key_folder
        self._guarded = bound.guarded
        self._arrivals = bound.arrivals
        self._material = _read(self._folder)
        self._tls = _tls(self._folder)
        self._connections: BoundedConnections | None = None
        self._server: asyncio.Server | None = None
        self.number = 0

    # Starting and stopping

    async def bind(self) -> None:
        """Bind the port without answering yet."""
        address = self._node.config.https_listen
        host, _, port = address.rpartition(":")
        self._connections = BoundedConnections(
            self._handle,
            self._node.refusals,
            Addresses(self._node.config.proxies),
            access_log=None,
            keepalive_timeout=_IDLE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            max_line_size=_HEAD_LINE_BYTES,
            max_field_size=_HEAD_LINE_BYTES,
            max_headers=_HEAD_LINES,
            auto_decompress=False,  # no compression: it would save little, and a small message could expand into a large one
        )
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._connections,
                host.strip("[]"),
                int(port),
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_MS / 1000,
                ssl_shutdown_timeout=_LINGER_SECONDS,
                reuse_port=bool(self._node.config.own_address) or None,
                start_serving=False,
            )
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"cannot listen on https_listen = {address!r}: {error}{holder_words(address)}"
            ) from None
        self.number = int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Answer."""
        if self._server is not None:
            await self._server.start_serving()

    async def stop(self, grace_seconds: float) -> None:
        """Take no new connection, finish what is under way, and close."""
        if self._server is None or self._connections is None:
            return
        self._server.close()
        self._connections.pre_shutdown()
        await self._connections.shutdown(grace_seconds)

    def reload(self) -> bool:
        """Reload a renewed certificate; whether it changed. An unusable one changes nothing."""
        node = self._node
        try:
            fresh = _read(self._folder)
            if fresh == self._material:
                return False
            fresh.check(node.clock.now_ms())
            _tls(self._folder)  # loads it once aside, so that what fails here fails there
            certificate, key = https_files(self._folder)
            self._tls.load_cert_chain(certificate, key)
        except (ConfigError, OSError, ssl.SSLError) as error:
            node.metrics.reloads.labels("refused").inc()
            node.refusals.count(Alarm.BAD_CERTIFICATE_FILE)
            node.log.error("kept the old certificate for browsers: %s", error)  # noqa: TRY400 - it says all
            return False
        self._material = fresh
        node.metrics.reloads.labels("taken").inc()
        node.log.info("loaded a renewed certificate for browsers")
        return True

    # Calls

    def _taken(self) -> BoundedConnections:
        if self._connections is None:
            raise RuntimeError("a request before the port was taken")
        return self._connections

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connections, protocol = self._taken(), request.protocol
        connections.places.renew(protocol, firm=True)
        try:
            return await self._answer(request)
        except (
            OSError,
            web.RequestPayloadError,
        ):  # the caller has gone or lost its place; nobody reads this
            return web.Response(status=400)
        finally:
            connections.places.renew(protocol)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        origin = request.headers.get("Origin")
        allowed = origin is None or origin in self._origins() or await self._names_now(origin)
        headers = dict(_ALWAYS)
        if origin is not None and allowed:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = _EXPOSED
        handler = self._guarded.for_browser(request.path)
        if handler is None:
            return web.Response(status=404, headers=headers)
        if request.method == "OPTIONS":
            if not allowed:
                self._node.refusals.count(Reason.WRONG_ORIGIN)
            return web.Response(status=204, headers=headers | (_PREFLIGHT if allowed else {}))
        if request.method != "POST":
            return web.Response(status=405, headers=headers | {"Allow": "POST, OPTIONS"})
        kind = request.content_type
        if kind not in (PROTO, JSON):
            self._node.refusals.count(Reason.MALFORMED)
            return web.Response(status=415, headers=headers | {"Accept-Post": f"{PROTO}, {JSON}"})
        return await self._call(request, handler, kind, headers)

    async def _call(
        self, request: web.BaseRequest, handler: Any, kind: str, headers: dict[str, str]
    ) -> web.Response:
        peer = None if request.transport is None else request.transport.get_extra_info("peername")
        call = HttpCall(peer, request.headers.getall("Authorization", ()))
        try:
            message, seconds = await self._message(request, call, kind, handler.request_deserializer)
            async with asyncio.timeout(seconds):
                answer = await handler.unary_unary(message, call)
        except grpc.aio.AbortError:
            return _refusal(call, headers)
        except TimeoutError:
            status, body = error_answer(grpc.StatusCode.DEADLINE_EXCEEDED, "the caller's timeout has passed")
            return web.Response(status=status, body=body, content_type=JSON, headers=headers)
        body = handler.response_serializer(answer)
        if kind == JSON:
            shown = message_types(request.path)[1].FromString(body)
            body = json_format.MessageToJson(shown, indent=None).encode()
        return web.Response(body=body, content_type=kind, headers=headers)

    async def _message(
        self, request: web.BaseRequest, call: HttpCall, kind: str, parse: Callable[[bytes], Any] | None
    ) -> tuple[Any, float | None]:
        """The request's message, or why there is none (`Unread`), which the guard refuses; and the caller's timeout."""
        try:
            self._arrivals.charge(call)
            seconds = timeout_of(request.headers)
            if request.headers.get("Content-Encoding", "identity") != "identity":
                raise Refused(Reason.MALFORMED, "send the message uncompressed")  # noqa: TRY301
            data = await self._body(request, call, kind)
            if kind == JSON:
                data = read_json_message(request.path, data)
        except Refused as error:
            return Unread(error), None
        message = data if parse is None else parse(data)
        origin = request.headers.get("Origin")
        if origin is not None and not self._may(origin, message):
            return Unread(
                Refused(Reason.WRONG_ORIGIN, f"the study does not name {origin[:100]} in [web]")
            ), None
        return message, seconds

    async def _body(self, request: web.BaseRequest, call: HttpCall, kind: str) -> bytes:
        """The body, which has a place among the port's unfinished messages until it is whole."""
        limit = message_limit(request.path, self._node.config, public=True) * (2 if kind == JSON else 1)
        too_large = Refused(Reason.OVERSIZED_MESSAGE, f"this message may have {limit} bytes")
        if (request.content_length or 0) > limit:
            raise too_large
        held = bytearray()
        call.task = asyncio.current_task()
        connections, protocol = self._taken(), request.protocol
        self._arrivals.enter(call)
        call.reading = True
        connections.reading.add(protocol)
        connections.places.renew(protocol)
        try:
            while chunk := await request.content.readany():
                held += chunk
                if len(held) > limit:
                    raise too_large
        except asyncio.CancelledError:
            if call.code() is None or call.task.uncancel():
                raise  # cancelled by the node's stop, not by us
            raise grpc.aio.AbortError(call.message) from None
        finally:
            call.reading = False
            connections.reading.discard(protocol)
            connections.places.renew(protocol, firm=True)
            self._arrivals.leave(call)
        return bytes(held)

    # Origins

    def _origins(self) -> set[str]:
        """Hosts whose pages may call here now."""
        studies = self._node.studies
        return {
            host
            for study in studies.all()
            if study.web is not None and studies.state(study.id) in _HTTP_STATES
            for host in study.web.hosts
        }

    async def _names_now(self, origin: str) -> bool:
        """Whether a study that names it was just registered by another worker of this node."""
        if not self._node.config.own_address:
            return False
        await self._node.studies.refresh()
        return origin in self._origins()

    def _may(self, origin: str, message: Any) -> bool:
        """Whether a page of this origin may make this call: one about a study, if the study names it."""
        study_id = getattr(message, "study_id", None)
        if study_id is None:  # about none, or unreadable: then any host that some study names
            return origin in self._origins()
        try:
            study = self._node.studies.get(study_id)
        except Refused:
            return origin in self._origins()  # the handler says that it is unknown
        return study.web is not None and origin in study.web.hosts


def _refusal(call: HttpCall, headers: dict[str, str]) -> web.Response:
    status, body = error_answer(call.code() or grpc.StatusCode.UNKNOWN, call.message)
    return web.Response(status=status, body=body, content_type=JSON, headers=headers | dict(call.trailers))


def _read(folder: Path) -> TlsMaterial:
    """The certificate for browsers. There are no client roots: browsers send no certificate."""
    certificate, key = https_files(folder)
    try:
        material = TlsMaterial(certificate.read_bytes(), key.read_bytes(), certificate.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None
    try:
        material.check_fit()
    except ConfigError as error:
        said = str(error).replace("tls.pem", certificate.name).replace("tls.key", key.name)
        raise ConfigError(said) from None
    return material


def _tls(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    certificate, key = https_files(folder)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot serve browsers with {certificate} and {key}: {error}") from None
    return context
