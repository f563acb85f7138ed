"""Running a node: its two TLS servers with health and reflection, its background tasks, draining and stopping.

A background task that fails is logged, and all of them are cancelled when the node stops. Clock skew between nodes, with
which invitations, tokens and certificates expire too early or too late, is measured and said.

Studies closed long ago are erased; the owner of each table erases its part (`store.interface`). At a right or left
provider: rows (already erased with their blocks), ids, hashes, plans, which invitation came with which submission, the
proposal, data keys. At the collector: plans, with the ids in them, the proposal, notes and counts. What stays: the study's
id, so that it can never be registered and filled again; at the collector also the published datasets, whose manifests hold
the signed study, the tokens that open them, the state of each release and the budget ledger. A study that still answers
questions is not touched.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import grpc

from trimask_core.basics.clock import jitter
from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.refusals import Alarm
from trimask_core.study.party import Party
from trimask_proto.v1 import node_pb2
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.interceptors import Admission
from trimask_server.runtime.metrics import Check, Health, Readiness, check_readiness, try_write
from trimask_server.runtime.ports import Bound, Port
from trimask_server.settings.config import VERSION
from trimask_server.store.interface import Erasers, StoreError

if TYPE_CHECKING:
    from aiohttp.web import RouteDef

    from trimask_server.runtime.http_port import HttpPort
    from trimask_server.runtime.https_port import HttpsPort


_ROUND_SECONDS = 3600.0
_DAY_MS = 24 * 3600 * 1000
AfterCollection = Callable[[int], Awaitable[None]]


async def nothing_after(_: int) -> None:
    """For a node with nothing else to erase than studies."""


async def collect_forever(
    node: NodeContext, erasers: Erasers, after: AfterCollection = nothing_after
) -> None:
    """A round every hour or so; jittered, so that the nodes of an institution do not all vacuum at once."""
    while True:
        await node.clock.sleep(_ROUND_SECONDS * (0.5 + jitter(node.source)))
        try:
            await collect_garbage(node, erasers, after)
        except Exception:
            # Whatever it was (a full disk, for example), the next round must come.
            node.log.exception("failed while collecting garbage")


async def collect_garbage(
    node: NodeContext, erasers: Erasers, after: AfterCollection = nothing_after
) -> list[bytes]:
    """One round; the studies that were erased. The role's `after` is then called with the time."""
    now = node.clock.now_ms()
    gone = await node.studies.collect(erasers, now, round(node.config.keep_closed_days * _DAY_MS))
    for study_id, rows in gone.items():
        node.metrics.collected_studies.inc()
        node.metrics.erased_rows.labels("collected").inc(rows)
        node.log.info("collected study=%s: erased what was left, rows=%d", study_id.hex()[:12], rows)
    if gone:
        await node.database.scrub()
    await after(now)
    return list(gone)


SKEW_SECONDS = 5.0
_WAIT_SECONDS = 30.0  # peers may be starting up as well


def skew_seconds(before_ms: int, theirs_ms: int, after_ms: int) -> float:
    """How far a peer's clock is ahead of ours, at least: it answered at some moment between asking and its answer."""
    if not theirs_ms:  # a node that does not say
        return 0.0
    if theirs_ms > after_ms:
        return (theirs_ms - after_ms) / 1000
    return min(0, theirs_ms - before_ms) / 1000


def skew_words(name: str, seconds: float) -> str:
    """A skew in words; nothing if it is small."""
    if abs(seconds) < SKEW_SECONDS:
        return ""
    how = "ahead of" if seconds > 0 else "behind"
    return f"the clock of {name} is {abs(seconds):,.0f} seconds {how} ours: one of the two is wrong"


async def warn_of_skew(context: NodeContext) -> None:
    """Ask every peer of every study for its time once, and log the clocks that differ."""
    peers: dict[str, Party] = {}
    for study in context.studies.all():
        peers |= {party.tls_name: party for party in study.parties.values()}

    async def one(party: Party) -> None:
        stub = NodeServiceStub(context.peers.channel(party))
        before = context.clock.now_ms()
        try:
            answer = await context.peers.call(
                stub.DescribeNode, node_pb2.DescribeNodeRequest(), _WAIT_SECONDS
            )
        except Refused:
            return
        words = skew_words(
            f"{party.name} ({party.tls_name})",
            skew_seconds(before, answer.clock_time_ms, context.clock.now_ms()),
        )
        if words:
            context.log.warning("%s; keep this machine's clock by NTP", words)

    own = context.keys.identity.public
    await asyncio.gather(*(one(party) for party in peers.values() if party.identity != own))


Spawn = Callable[[Coroutine[Any, Any, None], str], None]


class Tasks:
    """The tasks that run now."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run work in the background; a failure is logged as "failed while `what`"."""
        # Not inside another coroutine: one that is cancelled before it starts would leave `work` never awaited.
        task = asyncio.create_task(work, name=what)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("failed while %s", task.get_name(), exc_info=error)

    async def cancel(self) -> None:
        """End all of them."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_SAVE_SECONDS = 1.0
_LAST_WORDS_SECONDS = 2.0  # for what is recorded while stopping, if the store does not answer
_READINESS_SECONDS = 5.0
_WARN_EVERY_MS = 24 * 3600 * 1000
_NOT_STORED = (
    Refused,
    StoreError,
    OSError,
)  # a full disk, or a server that is away (TimeoutError is an OSError)


class GateOfPort(Protocol):
    """Makes the gate of a port: who may call what there (`access.permissions`)."""

    def __call__(self, *, mutual: bool) -> Admission:
        """For the peer port (`mutual` TLS) or the public one."""
        ...


def _nothing() -> None:
    """No background task: the node only answers calls."""


@dataclass(frozen=True)
class Services:
    """What a node of one role serves, and which tasks it starts once it listens.

    `public` is for devices and researchers, `peer` for nodes, the owner and the operator. `begin` starts the role's own
    background tasks; `after_collection` is awaited after each round of garbage collection. `key_names` goes into the
    audit log at each start, so that a change of keys is seen there. `pages` is asked for where there is an HTTP port.
    """

    gate: GateOfPort
    public: list[object]
    peer: list[object]
    begin: Callable[[], None] = _nothing
    pages: Callable[[], list[RouteDef]] = list
    after_collection: AfterCollection = nothing_after
    key_names: Mapping[str, str] = field(default_factory=dict)


class Host:
    """One running node."""

    def __init__(self, context: NodeContext) -> None:
        self.context = context
        self.health = Health()
        self._http: HttpPort | None = None
        self._https: HttpsPort | None = None
        self.public_port = 0
        self.peer_port = 0
        self.https_port = 0
        self._tasks = Tasks(context.log)
        self._servers: list[grpc.aio.Server] = []
        self._at_drain: list[Callable[[], Awaitable[None]]] = []
        self._on_reload: list[Callable[[], bool]] = []
        self._at_end: list[Callable[[], None]] = []
        self._written: Check = (True, "answers")  # how the last write that was tried went
        self._recorded = False  # that it started; only then is it recorded that it stopped

    @property
    def log(self) -> logging.Logger:
        """The node's log."""
        return self.context.log

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run work in the background until the node stops."""
        self._tasks.spawn(work, what)

    def at_drain(self, hand_back: Callable[[], Awaitable[None]]) -> None:
        """Register a coroutine to await before the ports close, such as messages to peers."""
        self._at_drain.append(hand_back)

    def at_end(self, let_go: Callable[[], None]) -> None:
        """Register a function to call last, after the store is closed."""
        self._at_end.append(let_go)

    def on_reload(self, reload: Callable[[], bool]) -> None:
        """Register a function to call when key files may have changed; it returns whether anything was new."""
        self._on_reload.append(reload)

    # Starting

    async def load(self) -> None:
        """Read what an earlier run left in the store."""
        await self.context.studies.load()
        await self.context.refusals.refresh(self.context.database)
        await self.context.audit.load()

    async def record_start(self, key_names: Mapping[str, str]) -> None:
        """Record in the audit log that the node starts, with which keys, and which of them changed."""
        context = self.context
        await context.audit.record_missing()
        keys = {
            "identity": context.keys.identity.public.hex(),
            "certificate_sha256": hashlib.sha256(context.keys.certificate).hexdigest(),
            "sealing_key": "",
            "operator_sha256": (
                hashlib.sha256(context.keys.operator).hexdigest() if context.keys.operator else ""
            ),
            **key_names,
        }
        before = await context.audit.last("node_started")
        changed = sorted(
            name for name, value in keys.items() if before is not None and before.get(name, "") != value
        )
        if changed:
            await context.audit.record("keys_changed", changed=changed)
        await context.audit.record("node_started", version=VERSION, boot=context.boot_id.hex(), **keys)
        self._recorded = True

    async def serve(self, services: Services) -> None:
        """Bind every port, record the start, begin to answer, and start the background tasks that every node has."""
        context, config = self.context, self.context.config
        if config.listen:
            public = Port(services.public, services.gate(mutual=False), mutual=False)
            bound = await self._bind(public, config.listen)
            self.public_port = bound.number
            if config.https_listen:
                await self._open_https(bound)
        peer = Port(services.peer, services.gate(mutual=True), mutual=True)
        self.peer_port = (await self._bind(peer, config.peer_listen, config.worker_listen)).number
        if config.http_listen:
            # Its libraries take a quarter of a second to import, and only such a node needs them.
            from trimask_server.runtime.http_port import HttpPort

            self._http = HttpPort(context, self.readiness)
            await self._http.start(services.pages())
        # Everything that can fail has been done by here, and nothing was answered before.
        await self.record_start(services.key_names)
        for server in self._servers:
            await server.start()
        if self._https is not None:
            await self._https.start()
        self.begin()
        if context.role != "collector" and not config.allow_collectors:
            context.log.info("allow_collectors is empty: any collector may propose studies to this node")
        self.spawn(self._follow_readiness(), "following readiness")
        self.spawn(self._watch_key_files(), "watching key files")
        self.spawn(warn_of_skew(context), "comparing clocks")
        if config.own_address:
            self.spawn(context.drain.follow_others(), "following other workers")
        context.log.info(
            "ready role=%s public=%s peer=%s studies=%d",
            context.role, config.listen, config.peer_listen, len(context.studies.all()),
        )  # fmt: skip

    def begin(self) -> None:
        """Start the background tasks that need no port."""
        self.spawn(self._save_refusals(), "saving refusal counts")

    async def _bind(self, port: Port, *addresses: str) -> Bound:
        bound = await port.bind(self.context, self.health, addresses)
        self._servers.append(bound.server)
        return bound

    async def _open_https(self, bound: Bound) -> None:
        """The participant's calls for browsers: the same handlers behind the same gate, limits and counters."""
        # Its libraries take a quarter of a second to import, and only such a node needs them.
        from trimask_server.runtime.https_port import HttpsPort

        self._https = HttpsPort(self.context, bound)
        self.on_reload(self._https.reload)
        await self._https.bind()
        self.https_port = self._https.number

    # While it runs

    async def readiness(self) -> Readiness:
        """Whether the node can do its work now."""
        context = self.context
        listening = sum(port > 0 for port in (self.public_port, self.peer_port, self.https_port))
        return await check_readiness(
            context.database,
            self._written,
            context.config.data,
            context.drain,
            context.certificates,
            context.clock.now_ms(),
            listening,
            1 + bool(context.config.listen) + bool(context.config.https_listen),
        )

    async def _follow_readiness(self) -> None:
        """Background task: try a write, keep gRPC health equal to /readyz, log what changed, and warnings once a day."""
        context, said = self.context, ""
        warned_ms = context.clock.now_ms()  # weak points were logged at the start (`operations.key_files`)
        while True:
            self._written = await try_write(context.database, context.clock.now_ms())
            found = await self.readiness()
            await self.health.set(serving=found.ready)
            if found.wrong and not said:
                context.log.error("not ready: %s", found.wrong)
            elif said and not found.wrong:
                context.log.info("ready again")
            said = found.wrong
            now = context.clock.now_ms()
            if found.warnings and now - warned_ms >= _WARN_EVERY_MS:
                warned_ms = now
                for warning in found.warnings:
                    context.log.warning("%s", warning)
            await context.clock.sleep(_READINESS_SECONDS)

    async def _watch_key_files(self) -> None:
        """Background task: reload when a key file changed, so that a certificate renewal needs no signal."""
        while True:
            await self.context.clock.sleep(self.context.config.reload_seconds)
            if self.context.certificates.changed():
                self.reload_keys()

    def reload_keys(self) -> bool:
        """Reload renewed keys; whether anything was new. Unusable files change nothing."""
        return any([self._reload_certificate(), *(reload() for reload in self._on_reload)])

    def _reload_certificate(self) -> bool:
        context, now = self.context, self.context.clock.now_ms()
        try:
            fresh = context.certificates.reload(now)
        except ConfigError as error:
            context.metrics.reloads.labels("refused").inc()
            context.refusals.count(Alarm.BAD_CERTIFICATE_FILE)
            context.log.error("kept the old certificate: %s", error)  # noqa: TRY400 - the sentence says all
            return False
        if fresh:
            context.peers.renew(context.certificates.material)
            context.metrics.reloads.labels("taken").inc()
            days = context.certificates.days_left(now)
            context.log.info("loaded a renewed certificate, which expires in %.0f days", days)
        return fresh

    async def save_refusals(self) -> None:
        """Write the counts and their audit entry, and the log's head beside the store."""
        await self.context.refusals.save(self.context.database, self.context.audit)
        await self.context.audit.save_head()

    async def _save_refusals(self) -> None:
        context = self.context
        while True:
            await context.clock.sleep(_SAVE_SECONDS)
            try:
                await self.save_refusals()
                # Other workers of this node count too, and so does what is counted in the store itself.
                await context.refusals.refresh(context.database)
            except _NOT_STORED as error:  # the counts are kept in memory, and the log's head in the store
                context.log.warning("cannot save refusal counts yet: %s", error)

    # Stopping

    async def wind_down(self) -> None:
        """Do what must be done before the ports close; returns when peers were told, or cannot be reached."""
        await self._despite_the_store(self.context.drain.begin(), "that it drains")
        await self.health.set(serving=False)
        await asyncio.gather(*(hand_back() for hand_back in self._at_drain))

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Finish calls under way, save, and close."""
        context = self.context
        if self._http is not None:
            await self._http.stop()
        ends = [server.stop(grace_seconds) for server in self._servers]
        if self._https is not None:
            ends.append(self._https.stop(grace_seconds))
        await asyncio.gather(*ends)
        await self._tasks.cancel()
        if self._recorded:
            await self._despite_the_store(self._record_stop(), "that it stopped")
        await context.peers.close()
        context.workers.close()
        context.database.close()
        for let_go in self._at_end:
            let_go()
        context.log.info("stopped")

    async def _record_stop(self) -> None:
        await self.context.audit.record("node_stopped")
        await self.save_refusals()

    async def _despite_the_store(self, recording: Coroutine[Any, Any, None], what: str) -> None:
        """A full disk or a server that is away must not keep a node from stopping in order and in time."""
        try:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await recording
        except _NOT_STORED as error:
            self.log.warning("cannot record %s: %s", what, str(error) or "the store does not answer")
            self._recorded = False  # nor will it take what comes later
