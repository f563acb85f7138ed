"""What the services of a node share: who it is, its settings, its store and its peers. Bindings that never change.

Masks are applied by a few threads beside the event loop, each with one BLAS thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from opentelemetry.trace import Tracer
from threadpoolctl import threadpool_limits

from trimask_core.basics.clock import Clock, SystemClock
from trimask_core.basics.errors import Refused, StudyError
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_server.runtime import logs
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.health import Drain
from trimask_server.runtime.logs import tracer_in_use
from trimask_server.runtime.metrics import Metrics
from trimask_server.runtime.peers import NodeKeys, Observer, Peers, load_keys
from trimask_server.runtime.refusal_counts import Refusals
from trimask_server.runtime.tls import Certificates, TlsMaterial
from trimask_server.settings.config import NodeConfig, NodeRole
from trimask_server.store.data_keys import Vault
from trimask_server.store.database import open_store
from trimask_server.store.interface import ObservedStore, Store
from trimask_server.store.studies import StudyRegistry

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
