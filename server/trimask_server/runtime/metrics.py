"""Prometheus metrics of one node. Several nodes may share a process, so nothing here is global.

No label carries anything about a person: rpc names, status words, refusal words, states, and the first digits of a study id.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from trimask_core.basics.clock import Clock
from trimask_core.basics.errors import Refused
from trimask_server.runtime.health import Drain, Readiness, free_bytes
from trimask_server.runtime.refusal_counts import Refusals
from trimask_server.runtime.tls import Certificates
from trimask_server.settings.config import VERSION, NodeConfig, NodeRole
from trimask_server.store.interface import ObservedStore, Store, StoreError, Transaction

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STORE_SECONDS = 2.0
_GROUPS = (1, 2, 4, 8, 16, 32, 64, 128)


class Scraped(Protocol):
    """What is read of a node when it is scraped."""

    @property
    def role(self) -> NodeRole: ...
    @property
    def config(self) -> NodeConfig: ...
    @property
    def refusals(self) -> Refusals: ...
    @property
    def certificates(self) -> Certificates: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def database(self) -> Store: ...
    @property
    def drain(self) -> Drain: ...


class Metrics:
    """Counters that are moved as things happen, and what is read from the node when it is scraped."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("trimask_requests", "Calls answered.", "rpc", "status")
        self.request_seconds = self._histogram(
            "trimask_request_seconds", "From a call's arrival to its answer.", _SECONDS, "rpc"
        )
        self.under_way = Gauge(
            "trimask_requests_under_way", "Calls being answered now.", registry=self.registry
        )
        self.peer_calls = self._counter(
            "trimask_peer_calls", "Calls to other nodes, by outcome.", "rpc", "outcome"
        )
        self.attempts = self._counter(
            "trimask_attempts", "This node's shares of attempts at blocks, by outcome.", "outcome"
        )
        self.erased_rows = self._counter("trimask_erased_rows", "Rows erased, by why.", "why")
        self.collected_studies = self._counter("trimask_collected_studies", "Closed studies forgotten.")
        self.reloads = self._counter("trimask_reloads", "Reloads of key files, by outcome.", "outcome")
        self.store_group = self._histogram("trimask_store_group_size", "Writes in one commit.", _GROUPS)
        self.store_seconds = self._histogram("trimask_store_commit_seconds", "A group's commit.", _SECONDS)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, labels, registry=self.registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, what, labels, buckets=buckets, registry=self.registry)

    def observe_commit(self, writes: int, seconds: float) -> None:
        """What the store's writer calls after each group, from its own thread."""
        self.store_group.observe(writes)
        self.store_seconds.observe(seconds)

    async def render(self, node: Scraped, found: Readiness) -> bytes:
        """The text Prometheus reads. Rows and blocks are counted in the store, now; one that does not answer must not
        keep back the rest, which says so."""
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                stored = await _of_store(node)
        except (Refused, StoreError, OSError):  # TimeoutError is an OSError
            stored = []
        scrape = CollectorRegistry()
        scrape.register(_Reading([*_of_memory(node, found), *stored]))
        return generate_latest(self.registry) + generate_latest(scrape)


class _Reading:
    """Values read once, in the form a registry wants."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _of_memory(node: Scraped, found: Readiness) -> list[Metric]:
    refusals = CounterMetricFamily(
        "trimask_refusals", "Refusals since the start, by reason.", labels=["reason"]
    )
    for reason, count in node.refusals.in_this_process().items():
        refusals.add_metric([reason], count)
    build = GaugeMetricFamily("trimask_build_info", "What runs here.", labels=["version", "python", "role"])
    build.add_metric([VERSION, platform.python_version(), node.role], 1)
    certificates = GaugeMetricFamily(
        "trimask_certificate_expiry_seconds", "Until a TLS certificate expires.", labels=["file"]
    )
    for file, ends_ms in node.certificates.ends_ms().items():
        certificates.add_metric([file], (ends_ms - node.clock.now_ms()) / 1000)
    return [
        refusals,
        build,
        certificates,
        GaugeMetricFamily(
            "trimask_free_bytes",
            "What can still be written on the disk of the node's data.",
            value=free_bytes(node.config.data),
        ),
        GaugeMetricFamily("trimask_ready", "1 while /readyz says ready.", value=int(found.ready)),
        GaugeMetricFamily(
            "trimask_store_queue_depth",
            "Writes waiting for the store.",
            value=node.database.depth if isinstance(node.database, ObservedStore) else 0,
        ),
        GaugeMetricFamily("trimask_draining", "1 while the node drains.", value=int(node.drain.on)),
    ]


async def _of_store(node: Scraped) -> list[Metric]:
    blocks = GaugeMetricFamily("trimask_blocks", "Blocks, by state.", labels=["study", "state"])
    if node.role == "collector":
        query = "SELECT study_id, state, count(*) FROM blocks GROUP BY study_id, state"
    else:
        query = (
            "SELECT study_id, CASE erased WHEN 0 THEN 'assigned' ELSE 'erased' END, count(*) FROM blocks"
            " GROUP BY study_id, erased"
        )

    def read(tx: Transaction) -> tuple[list[tuple[bytes, str, int]], list[tuple[bytes, int]]]:
        held = (
            tx.rows(
                "SELECT study_id, count(*) FROM submissions WHERE block_id IS NULL AND payload IS NOT NULL"
                " GROUP BY study_id"
            )
            if node.role == "right"
            else []
        )
        return [(row[0], row[1], row[2]) for row in tx.rows(query)], [(row[0], row[1]) for row in held]

    counted, held = await node.database.read(read)
    for study_id, state, count in counted:
        blocks.add_metric([study_id.hex()[:12], state], count)
    if node.role != "right":
        return [blocks]
    pending = GaugeMetricFamily(
        "trimask_pending_rows", "Rows held that are in no block yet.", labels=["study"]
    )
    for study_id, rows in held:
        pending.add_metric([study_id.hex()[:12]], rows)
    return [blocks, pending]
