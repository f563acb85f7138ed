"""The transport that sends bytes to a provider: real gRPC over `h2`, `ssl` and sockets, or one that the program supplies."""

from __future__ import annotations

import queue
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from trimask_core.basics.encoding import shown
from trimask_core.basics.errors import ConfigError, Refused, TrimaskError
from trimask_core.basics.refusals import read_reason

if TYPE_CHECKING:
    from trimask_client.h2_connection import CallFailed, Connection, Deadline
    from trimask_core.study.definition import Study

T = TypeVar("T")
_LONGEST_RETRY_MS = 6 * 3600 * 1000
# Without a reason from the node itself, these mean that the call did not reach it, or may not have.
_AGAIN = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED", "UNKNOWN"}


@dataclass(frozen=True)
class Endpoint:
    """Where a party is, the name its certificate must carry, and whom to trust for it (PEM; empty: the system's)."""

    address: str
    tls_name: str
    roots: str

    @classmethod
    def of(cls, study: Study, role: str) -> Endpoint:
        """That of a party of a study."""
        party = study.party(role)
        return cls(party.address, party.tls_name, study.tls_roots)


class Unreachable(TrimaskError):
    """A provider could not be reached or did not answer in time; sending again later is safe."""


class Transport(Protocol):
    """Unary gRPC calls over TLS, from several threads at once. Connections are kept and reused."""

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        """The response's bytes; `Refused` if the other side refused, `Unreachable` if it could not be asked."""
        ...

    def close(self) -> None:
        """Drop all connections."""
        ...


def at_once(calls: Sequence[Callable[[], T]]) -> Iterator[tuple[int, T]]:
    """Makes all of these calls at the same time; the place and the result of each, as they come.

    One that hangs holds up no other. What a call raises is raised here, and nobody waits for the rest: a person who
    interrupts the program does not either.
    """
    done: queue.SimpleQueue[tuple[int, Future[T]]] = queue.SimpleQueue()

    def run(place: int, call: Callable[[], T]) -> None:
        future: Future[T] = Future()
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)
        done.put((place, future))

    for place, call in enumerate(calls):
        threading.Thread(target=run, args=(place, call), daemon=True).start()
    for _ in calls:
        place, future = done.get()
        yield place, future.result()


def read_retry(value: str | bytes | None) -> int | None:
    """The node's requested delay before a retry, in milliseconds, at most six hours."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value or ""
    return min(int(text), _LONGEST_RETRY_MS) if text.isascii() and text.isdigit() and len(text) < 12 else None


def call_error(
    endpoint: Endpoint, status: str, reason: str | None, details: str, retry_after_ms: int | None = None
) -> Refused | Unreachable:
    """What a call that ended in the gRPC status named `status` raises; `reason` is the node's own word for it."""
    details = shown(details)
    if reason is None and status == "DEADLINE_EXCEEDED":  # whichever side noticed first
        details = "no answer in time; it may be busy, or the network slow"
    if reason is None and status in _AGAIN:
        return Unreachable(f"{endpoint.address}: {details}")
    return Refused(read_reason(reason, status), details, retry_after_ms=retry_after_ms)


class _Slot:
    """The connection to one endpoint, and whose turn it is."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.connection: Connection | None = None

    def drop(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class H2Transport:
    """One connection an endpoint, kept across calls; calls to the same endpoint take turns.

    A connection on which a call failed for any reason but the node's own answer is dropped: on a phone that moved to
    another network, the old one would swallow every further call until the operating system gives it up.

    h2 is imported at the first call: reading a study or sealing answers does not need it. `context` makes a TLS context of
    an endpoint's roots.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        context: Callable[[str], ssl.SSLContext] | None = None,
    ) -> None:
        self._clock, self._context = clock, context or tls_context
        self._slots: dict[Endpoint, _Slot] = {}
        self._guard = threading.Lock()

    def _begin(self, endpoint: Endpoint, timeout_seconds: float) -> tuple[_Slot, Deadline]:
        from trimask_client.h2_connection import Deadline

        with self._guard:
            return self._slots.setdefault(endpoint, _Slot()), Deadline(timeout_seconds, self._clock)

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        """See `Transport`."""
        from trimask_client.h2_connection import CallFailed

        slot, deadline = self._begin(endpoint, timeout_seconds)
        try:
            if not slot.turn.acquire(timeout=max(0.0, timeout_seconds)):
                raise CallFailed("DEADLINE_EXCEEDED", "other calls took all the time")  # noqa: TRY301
            try:
                return self._call(slot, endpoint, method, request, deadline)
            finally:
                slot.turn.release()
        except CallFailed as failed:
            raise _told(endpoint, failed) from None

    def exchange(
        self, endpoint: Endpoint, method: str, requests: Iterable[bytes], timeout_seconds: float
    ) -> Iterator[bytes]:
        """One call that streams both ways: an answer a request, in order. Nothing of it is made again here."""
        from trimask_client.h2_connection import CallFailed

        (slot, deadline), whole = self._begin(endpoint, timeout_seconds), False
        with slot.turn:
            try:
                connection = self._connected(slot, endpoint, deadline)[0]
                yield from connection.exchange(method, requests, timeout_seconds)
                whole = not connection.retired
            except CallFailed as failed:
                raise _told(endpoint, failed) from None
            finally:
                if not whole:
                    slot.drop()

    def _connected(self, slot: _Slot, endpoint: Endpoint, deadline: Deadline) -> tuple[Connection, bool]:
        """The connection, and whether it is fresh."""
        from trimask_client.h2_connection import Connection

        if slot.connection is not None and slot.connection.usable(deadline):
            return slot.connection, False
        slot.drop()
        slot.connection = Connection(
            endpoint.address, endpoint.tls_name, self._context(endpoint.roots), deadline, self._clock
        )
        return slot.connection, True

    def _call(
        self, slot: _Slot, endpoint: Endpoint, method: str, request: bytes, deadline: Deadline
    ) -> bytes:
        from trimask_client.h2_connection import CallFailed

        while True:
            connection, fresh = self._connected(slot, endpoint, deadline)
            try:
                answer = connection.call(method, request, deadline)
            except CallFailed as failed:
                if not failed.answered or connection.retired:
                    slot.drop()
                # Only what the server has surely not begun is made again here; the rest is the caller's to decide.
                if failed.unprocessed and not fresh:
                    continue
                raise
            except BaseException:
                slot.drop()
                raise
            if connection.retired:
                slot.drop()
            return answer

    def close(self) -> None:
        """See `Transport`."""
        with self._guard:
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            slot.drop()


def _told(endpoint: Endpoint, failed: CallFailed) -> Refused | Unreachable:
    return call_error(endpoint, failed.status, failed.reason, failed.details, read_retry(failed.retry_after))


@cache
def tls_context(roots: str) -> ssl.SSLContext:
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
