"""What every node has: keys, store, studies, peers, workers, and two TLS servers with health and reflection."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import grpc
from aiohttp.web import RouteDef
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from opentelemetry.trace import Tracer

from trimask_core.clock import Clock, SystemClock
from trimask_core.errors import ConfigError, Refused, StudyError
from trimask_core.randomness import RandomSource, SystemRandom
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study
from trimask_proto.v1 import common_pb2, governance_pb2, node_pb2, node_pb2_grpc
from trimask_proto.v1.collection_pb2 import ReportFailureRequest
from trimask_proto.v1.collection_pb2_grpc import CollectionServiceStub
from trimask_server.access.gate import Gate, require_owner
from trimask_server.access.permissions import require_complete
from trimask_server.access.proposals import Proposals, refuse_collector
from trimask_server.access.tokens import TokenStore
from trimask_server.audit.log import AuditLog
from trimask_server.node.config import NodeConfig, NodeKeys, NodeRole, load_keys
from trimask_server.node.guard import GuardedServer
from trimask_server.node.peers import Context, Peers, require_role
from trimask_server.node.workers import Workers
from trimask_server.operations import drain, logs, upkeep
from trimask_server.operations.certificates import Certificates, TlsMaterial
from trimask_server.operations.http_port import HttpPort
from trimask_server.operations.limits import Limits, server_options
from trimask_server.operations.metrics import Metrics
from trimask_server.operations.readiness import Health
from trimask_server.operations.refusal_counts import Refusals
from trimask_server.operations.requests import Observation
from trimask_server.operations.tracing import tracer_in_use
from trimask_server.protocol.attempts import worker_of
from trimask_server.right.sealing_keys import RingKey, SealingRing, load_ring
from trimask_server.store.data_keys import Vault
from trimask_server.store.database import Store, open_store
from trimask_server.store.interface import ObservedStore, StoreError
from trimask_server.store.studies import StudyRegistry

__all__ = ["AddServices", "Node", "require_owner"]

AddServices = Callable[[grpc.aio.Server], str]
_SAVE_SECONDS = 1.0
_VERSION = importlib.metadata.version(
    "trimask-server"
)  # read once: the collector asks for it several times a second


class Node:
    """One running node. Roles add their services to `public` (devices, researchers) and `peer` (nodes, owner)."""

    def __init__(
        self,
        role: NodeRole,
        config: NodeConfig,
        keys: NodeKeys | None = None,
        clock: Clock | None = None,
        source: RandomSource | None = None,
        database: Store | None = None,
        peers: Peers | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.role = role
        self.config = config
        self.keys = keys or load_keys(config.keys, role)
        self.clock = clock or SystemClock()
        self.source = source or SystemRandom()
        self.boot_id = self.source.read(16)
        self.log: logging.Logger = logs.configure(config.name, config.log_format)
        self.database = database or open_store(config, role)
        self.vault = Vault(self.keys.storage, self.source)
        self.metrics = Metrics()
        if isinstance(self.database, ObservedStore):
            self.database.observe(self.metrics.observe_commit)
        self.tracer: Tracer = tracer_in_use()
        self.studies = StudyRegistry(self.database)
        self.refusals = Refusals({})
        self.audit = AuditLog(
            self.database,
            self.keys.identity,
            self.clock,
            Path(config.data) if config.data else None,
            self.log,
        )
        self.proposals = Proposals(self.database, self.audit)
        self.tokens = TokenStore(self.database, self.audit) if role == "collector" else None
        self.draining = False
        self.running_attempts = 0
        self.started_ms = self.clock.now_ms()
        material = TlsMaterial(
            self.keys.certificate, self.keys.private_key, self.keys.roots, self.keys.operator
        )
        self.certificates = Certificates(material, None if keys else Path(config.keys))
        self.sealing = _sealing_ring(role, self.keys, None if keys else Path(config.keys))
        self.peers = peers or Peers(self.keys, self)
        self.health = Health()
        self.http = HttpPort(self)
        self.seen_ms: dict[str, int] = {}  # by TLS name, when a peer last described itself
        # What knows of tries under way; asked when they have to be handed back.
        self.tries: list[Callable[[], Iterable[common_pb2.Attempt]]] = []
        self.workers = workers or Workers(config.mask_threads)
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[grpc.aio.Server] = []
        self._at_stop: list[Callable[[], Awaitable[None]]] = []
        self.public_port = 0
        self.peer_port = 0

    @property
    def worker_address(self) -> str:
        """Where peers reach this very process, if the node has several; else empty."""
        return self.config.worker_address or self.config.worker_listen

    def role_in(self, study: Study) -> str:
        """What this node is in a study; refused if it is nothing."""
        try:
            return study.role_of(self.keys.identity.public)
        except StudyError as error:
            raise Refused("not_your_role", str(error)) from None

    def require_collector_of(self, study: Study) -> None:
        """Refuse a study that another node collects."""
        role = self.role_in(study)
        if role != "collector":
            raise Refused("not_your_role", f"this node is {role} in the study, not its collector")

    async def load(self) -> None:
        """Read what an earlier run left in the store."""
        await self.studies.load()
        self.refusals = await Refusals.load(self.database)
        await self.audit.load()
        await self._record_start()

    async def _record_start(self) -> None:
        keys = {
            "identity": self.keys.identity.public.hex(),
            "certificate_sha256": hashlib.sha256(self.keys.certificate).hexdigest(),
            "sealing_key": "" if self.keys.sealing is None else self.keys.sealing.public.hex(),
            "operator_sha256": hashlib.sha256(self.keys.operator).hexdigest() if self.keys.operator else "",
        }
        before = await self.audit.last("node_started")
        changed = sorted(name for name, value in keys.items() if before is not None and before[name] != value)
        if changed:
            await self.audit.record("keys_changed", changed=changed)
        version = importlib.metadata.version("trimask-server")
        await self.audit.record("node_started", version=version, boot=self.boot_id.hex(), **keys)

    async def drain(self, *, resume: bool = False) -> None:
        """Take no new submissions and no new tries, and finish what runs; or take them again. Ends with the process."""
        if self.draining is resume:
            self.draining = not resume
            await self.audit.record("drain_ended" if resume else "drain_begun")
            self.log.info("takes new work again" if resume else "draining: takes no new work")

    async def serve(
        self, public: list[AddServices], peer: list[AddServices], pages: Sequence[RouteDef] = ()
    ) -> None:
        """Listen, and begin the work that never ends."""
        if self.config.listen:
            self.public_port = await self._serve(self.config.listen, public, mutual=False)
        self.peer_port = await self._serve(
            self.config.peer_listen,
            [*peer, self.add_node_service],
            mutual=True,
            also=self.config.worker_listen,
        )
        if self.config.http_listen:
            await self.http.start(list(pages))
        self.begin()
        if self.role != "collector" and not self.config.allow_collectors:
            self.log.info("allow_collectors is empty: any collector may propose studies to this node")
        self.spawn(upkeep.follow_readiness(self), "following readiness")
        self.spawn(upkeep.watch_key_files(self), "watching key files")
        if self.worker_address:
            self.spawn(drain.follow_others(self), "following other workers")
        self.log.info(
            "ready role=%s public=%s peer=%s studies=%d",
            self.role, self.config.listen, self.config.peer_listen, len(self.studies.all()),
        )  # fmt: skip

    def begin(self) -> None:
        """Begin what a node does unasked."""
        self.spawn(self._save_refusals(), "saving refusal counts")

    async def _serve(self, address: str, services: list[AddServices], *, mutual: bool, also: str = "") -> int:
        public = not mutual
        server = grpc.aio.server(options=server_options(public=public))
        guarded = GuardedServer(
            server,
            self.refusals,
            self.log,
            self.studies.refresh,
            Gate(self, mutual=mutual),
            inside=Limits(self, public=public).wrap,
            outside=Observation(self, public=public).wrap,
        )
        # It has the two methods that generated code calls.
        names = [add(cast("grpc.aio.Server", guarded)) for add in services]
        require_complete((*names, health.SERVICE_NAME, reflection.SERVICE_NAME))
        state = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(state, server)
        await self.health.add(state, ("", *names))
        reflection.enable_server_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        guarded.refuse_the_rest()
        # One for each port: it is told of a certificate once.
        port = _listen(server, address, self.certificates.server_credentials(mutual=mutual))
        if also:
            _listen(server, also, self.certificates.server_credentials(mutual=mutual))
        await server.start()
        self._servers.append(server)
        return port

    def add_node_service(self, server: grpc.aio.Server) -> str:
        """Serve what every node serves its peers."""
        node_pb2_grpc.add_NodeServiceServicer_to_server(_NodeService(self), server)
        return node_pb2.DESCRIPTOR.services_by_name["NodeService"].full_name

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run work in the background; what goes wrong there is logged."""

        async def guarded() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Exception:
                self.log.exception("failed while %s", what)

        task = asyncio.create_task(guarded(), name=what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run_attempt(
        self, attempt: common_pb2.Attempt, work: Coroutine[Any, Any, None], what: str
    ) -> None:
        """Run one node's share of a try; if it fails, tell the collector so that it begins a new one."""
        self.running_attempts += 1
        try:
            await self.audit.record(
                "try_begun",
                study=attempt.study_id.hex(),
                block=attempt.block_id.hex(),
                number=attempt.number,
                part=what,
            )
            await work
            self.metrics.tries.labels("done").inc()
        except Exception as error:
            self.metrics.tries.labels("given_up").inc()
            reason = error.reason if isinstance(error, Refused) else "internal_error"
            if not isinstance(error, Refused):
                self.log.exception("failed while %s", what)
            self.refusals.count(reason)
            self.log.warning("gave up try %d while %s: reason=%s", attempt.number, what, reason)
            collector = self.studies.get(attempt.study_id).collector
            stub = CollectionServiceStub(self.peers.channel(collector, worker_of(attempt, "collector")))
            await self.peers.call(stub.ReportFailure, ReportFailureRequest(attempt=attempt, reason=reason))
        finally:
            self.running_attempts -= 1

    async def save_refusals(self) -> None:
        """Write the counts and their audit entry, and the log's head beside the store."""
        await self.refusals.save(self.database, self.audit)
        await self.audit.save_head()

    async def _save_refusals(self) -> None:
        while True:
            await self.clock.sleep(_SAVE_SECONDS)
            try:
                await self.save_refusals()
                if self.worker_address:  # others of this node count, too
                    await self.refusals.refresh(self.database)
            except (Refused, StoreError) as error:  # a full disk, a server that is away: the counts are kept
                self.log.warning("cannot save refusal counts yet: %s", error)

    def at_stop(self, end: Callable[[], Awaitable[None]]) -> None:
        """Have `end` awaited when the node stops, after its last call was answered."""
        self._at_stop.append(end)

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Finish calls under way, save, and close."""
        await self.http.stop()
        await asyncio.gather(*(server.stop(grace_seconds) for server in self._servers))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in self._at_stop:
            await end()
        await self.audit.record("node_stopped")
        await self.save_refusals()
        await self.peers.close()
        self.workers.close()
        self.database.close()
        self.log.info("stopped")


def _listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials) -> int:
    try:
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise ConfigError(f"cannot listen on {address}: {error}") from None


def _sealing_ring(role: NodeRole, keys: NodeKeys, folder: Path | None) -> SealingRing | None:
    if role != "right":
        return None
    if folder is not None:
        return load_ring(folder)
    return None if keys.sealing is None else SealingRing([RingKey(keys.sealing)])


class _NodeService(node_pb2_grpc.NodeServiceServicer):
    """Describing and registering."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def DescribeNode(
        self, request: node_pb2.DescribeNodeRequest, context: Context
    ) -> node_pb2.DescribeNodeResponse:
        node = self._node
        head = await node.audit.head()
        return node_pb2.DescribeNodeResponse(
            role=node.role,
            name=node.config.name,
            identity=node.keys.identity.public,
            boot_id=node.boot_id,
            refusals=node.refusals.as_messages(),
            version=_VERSION,
            worker_address=node.worker_address,
            store_generation=node.database.generation,
            audit_head=governance_pb2.AuditHead(
                sequence=head.sequence, hash=head.hash, signature=head.signature
            ),
            draining=node.draining,
        )

    async def RegisterStudy(
        self, request: node_pb2.RegisterStudyRequest, context: Context
    ) -> node_pb2.RegisterStudyResponse:
        node = self._node
        # A provider has no use for the seed of B_0; one that is sent it all the same forgets it here.
        signed = SignedStudy.from_json(request.signed_study).without_seed()
        # All approvals verify, so this node's own operator has signed too.
        study = signed.verify()
        role = node.role_in(study)
        require_role(context, study, ["collector"])
        refuse_collector(study, node.config.allow_collectors)
        decided = await node.proposals.get(study.id)
        if decided is not None and decided.decision == "refused":
            raise Refused("study_refused", f"this node's operator refused the study: {decided.reason}")
        entry = node.audit.entry(
            "study_registered", study=study.id.hex(), role=role, collector=study.collector.tls_name
        )
        await node.studies.register(signed, node.clock.now_ms(), entry)
        node.log.info("registered study=%s role=%s title=%r", study.id.hex()[:12], role, study.title)
        return node_pb2.RegisterStudyResponse(role=role)
