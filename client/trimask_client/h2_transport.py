"""The transport where grpcio is not installed: real gRPC over `h2`, `ssl` and sockets."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from trimask_client.h2_connection import CallFailed, Connection, Deadline
from trimask_client.transport import Endpoint, call_error, read_retry
from trimask_core.basics.errors import ConfigError


class _Slot:
    """The connection to one endpoint, and whose turn it is."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.connection: Connection | None = None


class H2Transport:
    """One connection an endpoint, kept across calls; calls to the same endpoint take turns.

    A connection on which a call failed for any reason but the node's own answer is dropped: on a phone that moved to
    another network, the old one would swallow every further call until the operating system gives it up.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: dict[Endpoint, _Slot] = {}
        self._guard = threading.Lock()

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        """See `Transport`."""
        deadline = Deadline(timeout_seconds, self._clock)
        with self._guard:
            slot = self._slots.setdefault(endpoint, _Slot())
        try:
            if not slot.turn.acquire(timeout=max(0.0, timeout_seconds)):
                raise CallFailed("DEADLINE_EXCEEDED", "other calls took all the time")  # noqa: TRY301
            try:
                return self._call(slot, endpoint, method, request, deadline)
            finally:
                slot.turn.release()
        except CallFailed as failed:
            again = read_retry(failed.retry_after)
            raise call_error(endpoint, failed.status, failed.reason, failed.details, again) from None

    def exchange(
        self, endpoint: Endpoint, method: str, requests: Iterable[bytes], timeout_seconds: float
    ) -> Iterator[bytes]:
        """One call that streams both ways: an answer a request, in order. Nothing of it is made again here."""
        deadline, whole = Deadline(timeout_seconds, self._clock), False
        with self._guard:
            slot = self._slots.setdefault(endpoint, _Slot())
        with slot.turn:
            try:
                connection = self._connected(slot, endpoint, deadline)[0]
                yield from connection.exchange(method, requests, timeout_seconds)
                whole = not connection.retired
            except CallFailed as failed:
                again = read_retry(failed.retry_after)
                raise call_error(endpoint, failed.status, failed.reason, failed.details, again) from None
            finally:
                if not whole:
                    _drop(slot)

    def _connected(self, slot: _Slot, endpoint: Endpoint, deadline: Deadline) -> tuple[Connection, bool]:
        """The connection, and whether it is fresh."""
        if slot.connection is not None and slot.connection.usable(deadline):
            return slot.connection, False
        _drop(slot)
        slot.connection = Connection(endpoint, _context(endpoint.roots), deadline, self._clock)
        return slot.connection, True

    def _call(
        self, slot: _Slot, endpoint: Endpoint, method: str, request: bytes, deadline: Deadline
    ) -> bytes:
        while True:
            connection, fresh = self._connected(slot, endpoint, deadline)
            try:
                answer = connection.call(method, request, deadline)
            except CallFailed as failed:
                if not failed.answered or connection.retired:
                    _drop(slot)
                # Only what the server has surely not begun is made again here; the rest is the caller's to decide.
                if failed.unprocessed and not fresh:
                    continue
                raise
            except BaseException:
                _drop(slot)
                raise
            if connection.retired:
                _drop(slot)
            return answer

    def close(self) -> None:
        """See `Transport`."""
        with self._guard:
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            _drop(slot)


def _drop(slot: _Slot) -> None:
    connection, slot.connection = slot.connection, None
    if connection is not None:
        connection.close()


@cache
def _context(roots: str) -> ssl.SSLContext:
    """The certificate must be signed by `roots` (the system's if empty) and carry the name asked for as a DNS name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["h2"])
    try:
        if roots:
            context.load_verify_locations(cadata=roots)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except ssl.SSLError:
        raise ConfigError("the study's TLS roots are not certificates in PEM form") from None
    return context
