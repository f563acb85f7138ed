"""What the services of a node share: who it is, its settings, its store and its peers. Bindings that never change."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.trace import Tracer

from trimask_core.clock import Clock, SystemClock
from trimask_core.errors import Refused, StudyError
from trimask_core.randomness import RandomSource, SystemRandom
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_server.audit.log import AuditLog
from trimask_server.node.keys import NodeKeys, load_keys
from trimask_server.node.peers import Observer, Peers
from trimask_server.node.workers import Workers
from trimask_server.operations import logs
from trimask_server.operations.certificates import Certificates, TlsMaterial
from trimask_server.operations.drain import Drain
from trimask_server.operations.metrics import Metrics
from trimask_server.operations.refusal_counts import Refusals
from trimask_server.operations.tracing import tracer_in_use
from trimask_server.settings.config import NodeConfig, NodeRole
from trimask_server.store.data_keys import Vault
from trimask_server.store.database import Store, open_store
from trimask_server.store.interface import ObservedStore
from trimask_server.store.studies import StudyRegistry

__all__ = ["NodeContext", "make_context"]


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

    def require_collector_of(self, study: Study) -> None:
        """Refuse a study that another node collects."""
        role = self.role_in(study)
        if role != "collector":
            raise Refused(Reason.NOT_YOUR_ROLE, f"this node is {role} in the study, not its collector")


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
    keys = keys or load_keys(config.keys)
    clock = clock or SystemClock()
    source = source or SystemRandom()
    log = logs.configure(config.name, config.log_format)
    database = database or open_store(config, role)
    metrics, tracer = Metrics(), tracer_in_use()
    if isinstance(database, ObservedStore):
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
        drain=Drain(database, audit, clock, source, log, shared=bool(config.own_address)),
        certificates=Certificates(material, key_folder),
        peers=peers or Peers(keys, Observer(source, tracer, metrics)),
        workers=workers or Workers(config.mask_threads),
    )
