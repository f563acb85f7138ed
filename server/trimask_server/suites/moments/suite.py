"""The moments suite's parts for each role of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_core.errors import Refused
from trimask_core.moments.secret import MomentsSecret
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_server.collector.driver import BatchDriver, Driver
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.node.context import NodeContext
from trimask_server.node.host import Host
from trimask_server.node.ports import AddServices
from trimask_server.right.current_key_ring import CurrentKeyRing
from trimask_server.right.rows import RowStore
from trimask_server.settings.config import NodeRole
from trimask_server.store.erasure import Erasers
from trimask_server.store.interface import Store
from trimask_server.suites.interface import CollectorPart, LeftPart, RightPart
from trimask_server.suites.moments.batch_store import BatchStore
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_server.suites.moments.key_exchange import KeyExchange
from trimask_server.suites.moments.right_services import MomentsPeerServicer, MomentsServicer
from trimask_server.suites.moments.rounds import Rounds

if TYPE_CHECKING:
    from trimask_server.collector.releases.answering import Answers

__all__ = ["MomentsSuite"]

_LARGEST_BATCH = 4096


class _Right:
    """R_k."""

    def __init__(self, host: Host, rows: RowStore, key_ring: CurrentKeyRing) -> None:
        node = host.context
        # A random one where there is no file: such a node has approved no study of this suite, and can take part in none.
        secret = node.keys.moments or MomentsSecret(node.source.seed())
        store = BatchStore(node.database, node.vault, rows, node.audit)
        key_exchange = KeyExchange(node, secret)
        self._rounds = Rounds(node, rows, key_ring, store, key_exchange)
        deliveries = Deliveries(node, store, key_exchange, Path(node.config.keys))
        self.services: list[AddServices] = [
            MomentsPeerServicer(node, key_exchange, self._rounds, deliveries).add_to,
            MomentsServicer(node, self._rounds, deliveries).add_to,
        ]

    def running(self) -> int:
        """Batches under way."""
        return self._rounds.running

    draws_blocks = False

    def check_plan(self, study: Study, rows: int) -> None:
        """Any number of reports is a batch, up to what fits in memory at once."""
        if not 1 <= rows <= _LARGEST_BATCH:
            raise Refused(Reason.WRONG_SHAPE, f"batches have 1 to {_LARGEST_BATCH} reports, not {rows}")

    def forget_block(self, study_id: bytes, block_id: bytes) -> None:
        """Forget shares of an erased batch."""
        self._rounds.forget(study_id, block_id)


class _Left:
    """No left provider takes part."""

    services: Sequence[AddServices] = ()

    def running(self) -> int:
        """Nothing."""
        return 0


class _Collector:
    """Drivers that have batches added up."""

    services: Sequence[AddServices] = ()

    def __init__(self, node: NodeContext, provider_status: ProviderStatus) -> None:

        self._node = node
        self._provider_status = provider_status

    @cached_property
    def answers(self) -> Answers:
        """Made when one is asked for: the statistics behind it take a second to import."""
        from trimask_server.suites.moments.answers import MomentsAnswers

        return MomentsAnswers(self._node)

    def driver(self, study: Study, database: Store) -> Driver:
        """Batches checked and added up, releases gathered."""
        from trimask_server.suites.moments.release_ledger import ReleaseLedger
        from trimask_server.suites.moments.work import MomentsWork

        node = self._node
        ledger = Ledger(database, node.audit)
        work = MomentsWork(node, study, ledger, ReleaseLedger(database, node.audit), self._provider_status)
        return BatchDriver(node, study, ledger, self._provider_status, work)


@dataclass(frozen=True)
class MomentsSuite:
    """Second moments summed in shares, each report with a proof."""

    name: str = "moments"

    def erasers(self, role: NodeRole) -> Erasers:
        """Batches at a provider; a collector has nothing beside its own tables."""
        return Erasers(() if role == "collector" else (BatchStore.erase_study,))

    def right(self, host: Host, rows: RowStore, key_ring: CurrentKeyRing) -> RightPart:
        """At a right provider."""
        return _Right(host, rows, key_ring)

    def left(self, host: Host) -> LeftPart:
        """At a left provider."""
        return _Left()

    def collector(self, host: Host, provider_status: ProviderStatus) -> CollectorPart:
        """At a collector."""
        return _Collector(host.context, provider_status)
