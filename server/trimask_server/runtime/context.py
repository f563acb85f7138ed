"""What the services of a node share: who it is, its settings, its store and its peers. Bindings that never change.

Masks are applied by a few threads beside the event loop, each with one BLAS thread.

Calls between nodes, by mutual TLS, with deadlines and retries; and the node's keys they are made with.

The keys are who the node is, how it is reached over TLS, and what its store is encrypted with.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import grpc
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer
from threadpoolctl import threadpool_limits

from trimask_core.basics.clock import Backoff, Clock, SystemClock
from trimask_core.basics.errors import ConfigError, Refused, StudyError
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_core.basics.refusals import REASON_KEY, RETRY_KEY, Reason, Retry, read_reason
from trimask_core.crypto.keys import SigningKey
from trimask_core.moments.report import FILE_NAME as MOMENTS_KEY
from trimask_core.moments.report import MomentsSecret
from trimask_core.study.definition import Study
from trimask_core.study.party import Party, read_secret
from trimask_core.study.signed import needs_commitment
from trimask_server.runtime import logs
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.interceptors import MAX_MESSAGE_BYTES
from trimask_server.runtime.logs import REQUEST_KEY, current_request, outgoing_headers, span, tracer_in_use
from trimask_server.runtime.metrics import Drain, Metrics, Refusals
from trimask_server.runtime.tls import OPERATOR_CERTIFICATE, Certificates, TlsMaterial
from trimask_server.settings.config import NodeConfig, NodeRole
from trimask_server.store.data_keys import KeyRing, Vault
from trimask_server.store.database import open_store
from trimask_server.store.interface import GroupedStore, Store
from trimask_server.store.studies import StudyRegistry


@dataclass(frozen=True)
class NodeKeys:
    """A node's identity, TLS material, storage keys, its operator's certificate and, of a right provider, its secret for
    studies of the moments suite. A right provider has sealing keys besides (`right.sealing_keys`)."""

    identity: SigningKey
    certificate: bytes
    private_key: bytes
    roots: bytes
    operator: bytes = b""
    moments: MomentsSecret | None = None
    storage: KeyRing = field(default_factory=KeyRing.generate)

    def __repr__(self) -> str:
        return f"NodeKeys({self.identity!r})"

    def commitment(self, study: Study) -> bytes:
        """What this node's approval of a study commits to; nothing where its suite asks for nothing."""
        if not needs_commitment(study, study.role_of(self.identity.public)):
            return b""
        if self.moments is None:
            raise ConfigError(
                f"{MOMENTS_KEY} is missing: a right provider needs it to approve a study of the moments suite"
            )
        return self.moments.commitment(study.id)


def load_keys(folder: Path, storage_key_command: tuple[str, ...] = ()) -> NodeKeys:
    """The key files `trimask keys` writes, and what a command prints of the store's."""

    def read(name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read {folder / name}: {error.strerror}; `trimask keys` makes it"
            ) from None

    read("identity.key")  # for what it says of a file that is not there
    return NodeKeys(
        identity=SigningKey(read_secret(folder / "identity.key")),
        certificate=read("tls.pem"),
        private_key=read("tls.key"),
        roots=read("ca.pem"),
        operator=read(OPERATOR_CERTIFICATE) if (folder / OPERATOR_CERTIFICATE).exists() else b"",
        moments=MomentsSecret.load(folder) if (folder / MOMENTS_KEY).exists() else None,
        storage=KeyRing.open(folder, storage_key_command),
    )


CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", 2 * MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", 2 * MAX_MESSAGE_BYTES),
    # A restarted node should be found again in a second, not in the default two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 60_000),
)
_PAUSES = Backoff(first=0.1, longest=2.0)  # seconds
_LONGEST_RETRY_MS = 5000
_RETIRE_SECONDS = 60.0
# A worker is called during an attempt. Its connection ends a minute after the last call, and the oldest channels are closed.
_WORKER_OPTIONS: tuple[tuple[str, int], ...] = (("grpc.client_idle_timeout_ms", 60_000),)
_MOST_WORKERS = 64


@dataclass(frozen=True)
class Observer:
    """What the channels to peers use of their node: jitter, traces and counters."""

    source: RandomSource
    tracer: Tracer
    metrics: Metrics


class Peers:
    """Channels to other nodes, one each, opened when first needed."""

    def __init__(self, keys: NodeKeys, observer: Observer | None = None) -> None:
        self._credentials = grpc.ssl_channel_credentials(keys.roots, keys.private_key, keys.certificate)
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}
        self._workers: OrderedDict[tuple[str, str], grpc.aio.Channel] = OrderedDict()  # the last used is last
        self._observer = observer
        self._source: RandomSource = SystemRandom() if observer is None else observer.source
        self._retiring: set[asyncio.Task[None]] = set()

    def channel(self, party: Party, address: str = "") -> grpc.aio.Channel:
        """The channel to a party's peer address, or to one worker of it at an address of its own."""
        key = (address or party.peer_address, party.tls_name)
        if not address:
            if key not in self._channels:
                self._channels[key] = self._open(*key)
            return self._channels[key]
        channel = self._workers.pop(key, None) or self._open(*key, *_WORKER_OPTIONS)
        self._workers[key] = channel
        if len(self._workers) > _MOST_WORKERS:
            self._retire(self._workers.popitem(last=False)[1])
        return channel

    def _open(self, address: str, tls_name: str, *more: tuple[str, int]) -> grpc.aio.Channel:
        options = (*CHANNEL_OPTIONS, *more, ("grpc.ssl_target_name_override", tls_name))
        return grpc.aio.secure_channel(address, self._credentials, options)

    def _retire(self, channel: grpc.aio.Channel) -> None:
        """Close a channel when the calls under way on it have ended."""
        task = asyncio.get_running_loop().create_task(channel.close(_RETIRE_SECONDS))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    def renew(self, material: TlsMaterial) -> None:
        """Switch to another certificate: new calls open new channels, running calls end on the old ones."""
        self._credentials = grpc.ssl_channel_credentials(
            material.roots, material.private_key, material.certificate
        )
        retired = [*self._channels.values(), *self._workers.values()]
        self._channels, self._workers = {}, OrderedDict()
        for channel in retired:
            self._retire(channel)

    async def call(self, method: Any, request: Any, timeout_seconds: float = 20.0) -> Any:
        """A unary call that waits for the peer to come up, and is repeated when the connection broke under it or the
        peer asked for patience (`draining`, `overloaded`), until the deadline.

        Every call between nodes is idempotent, so a repeat is safe. A refusal comes back as `Refused`.
        """
        rpc = _name(method)
        observer = self._observer
        if observer is None:
            return await self._repeat(method, request, timeout_seconds)
        outcome = "ok"
        with span(observer.tracer, rpc, SpanKind.CLIENT, attributes={"rpc.system.name": "grpc"}) as current:
            try:
                return await self._repeat(method, request, timeout_seconds)
            except Refused as error:
                outcome = error.reason
                current.set_status(Status(StatusCode.ERROR))
                raise
            finally:
                observer.metrics.peer_calls.labels(rpc, outcome).inc()

    async def _repeat(self, method: Any, request: Any, timeout_seconds: float) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        request_id = current_request.get()
        metadata = (*outgoing_headers(), *([(REQUEST_KEY, request_id)] if request_id else ()))
        failures = 0
        while True:
            try:
                return await method(
                    request,
                    timeout=max(0.05, deadline - loop.time()),
                    wait_for_ready=True,
                    metadata=metadata,
                )
            except grpc.aio.AioRpcError as error:
                refusal = _refusal(error)
                # Without a reason only a broken connection is worth a repeat; a deadline that passed has passed.
                silent = refusal.reason is Reason.UNREACHABLE
                broke = error.code() is grpc.StatusCode.UNAVAILABLE
                if refusal.reason.retry is not Retry.SOON or (silent and not broke):
                    raise refusal from None
                failures += 1
                # Added to the pause the peer asked for.
                pause = (refusal.retry_after_ms or 0) / 1000 + _PAUSES.pause(failures, self._source)
                if loop.time() + pause >= deadline:
                    raise refusal from None
                await asyncio.sleep(pause)

    async def close(self) -> None:
        """Close every channel."""
        for task in list(self._retiring):
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        for channel in (*self._channels.values(), *self._workers.values()):
            await channel.close()


def _name(method: Any) -> str:
    path = getattr(method, "_method", b"")
    text = path.decode() if isinstance(path, bytes) else str(path)
    return text.lstrip("/").removeprefix("trimask_proto.v1.") or "call"


def _refusal(error: grpc.aio.AioRpcError) -> Refused:
    found = dict(error.trailing_metadata() or ())
    reason = found.get(REASON_KEY)
    if reason is None and error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return Refused(
            Reason.UNREACHABLE, "a peer's version does not know this call: its operator has to upgrade it"
        )
    if reason is None:
        return Refused(Reason.UNREACHABLE, f"a peer did not answer: {error.code().name}")
    again = str(found.get(RETRY_KEY, ""))
    return Refused(
        read_reason(reason, error.code().name),
        error.details() or str(reason),
        retry_after_ms=min(int(again), _LONGEST_RETRY_MS) if again.isdigit() else None,
    )


P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Threads for linear algebra. NumPy releases the lock in it, so the loop goes on answering."""

    def __init__(self, threads: int) -> None:
        # Threads come from here; a BLAS that starts its own beside them only makes them wait for each other.
        self._limit = threadpool_limits(limits=1)
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="mask")

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function` in a worker thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Wait for what is running."""
        self._pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class NodeContext:
    """One node, as its services see it. State of a role is in the role; servers and tasks are the host's (`host`)."""

    role: NodeRole
    config: NodeConfig
    keys: NodeKeys
    key_folder: Path | None
    """Where keys are read from again when their files change; None when they were given, not read."""
    clock: Clock
    source: RandomSource
    boot_id: bytes
    started_ms: int
    log: logging.Logger
    metrics: Metrics
    tracer: Tracer
    database: Store
    vault: Vault
    studies: StudyRegistry
    audit: AuditLog
    refusals: Refusals
    drain: Drain
    certificates: Certificates
    peers: Peers
    workers: Workers

    def role_in(self, study: Study) -> str:
        """This node's role in a study; refused if it has none."""
        try:
            return study.role_of(self.keys.identity.public)
        except StudyError as error:
            raise Refused(Reason.NOT_YOUR_ROLE, str(error)) from None


def make_context(
    role: NodeRole,
    config: NodeConfig,
    keys: NodeKeys | None = None,
    clock: Clock | None = None,
    source: RandomSource | None = None,
    database: Store | None = None,
    peers: Peers | None = None,
    workers: Workers | None = None,
) -> NodeContext:
    """A node's context, made from its settings; whatever is given is used instead."""
    key_folder = None if keys else Path(config.keys)
    keys = keys or load_keys(config.keys, config.storage_key_command)
    clock = clock or SystemClock()
    source = source or SystemRandom()
    log = logs.configure(config.name, config.log_format)
    database = database or open_store(config, role)
    metrics, tracer = Metrics(), tracer_in_use()
    if isinstance(database, GroupedStore):
        database.observe(metrics.observe_commit)
    audit = AuditLog(database, keys.identity, clock, Path(config.data) if config.data else None, log)
    material = TlsMaterial(keys.certificate, keys.private_key, keys.roots, keys.operator)
    return NodeContext(
        role=role,
        config=config,
        keys=keys,
        key_folder=key_folder,
        clock=clock,
        source=source,
        boot_id=source.read(16),
        started_ms=clock.now_ms(),
        log=log,
        metrics=metrics,
        tracer=tracer,
        database=database,
        vault=Vault(keys.storage, source),
        studies=StudyRegistry(database),
        audit=audit,
        refusals=Refusals({}),
        drain=Drain(database, audit, clock, source, log, address=config.own_address),
        certificates=Certificates(material, key_folder),
        peers=peers or Peers(keys, Observer(source, tracer, metrics)),
        workers=workers or Workers(config.mask_threads),
    )
