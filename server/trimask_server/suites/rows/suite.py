"""The rows suite's parts for each role of a node."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_server.collector.driver import BatchDriver
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Host
from trimask_server.settings.config import NodeRole
from trimask_server.store import release_table
from trimask_server.store.interface import Erasers, Store
from trimask_server.suites.interface import CollectorPart, LeftPart, RightPart
from trimask_server.suites.rows.attempt_shares import AttemptShares, Frames, OpenRows
from trimask_server.suites.rows.collector_draw import DrawLedger
from trimask_server.suites.rows.provider_masking import LeftMaskingServicer, RightMaskingServicer
from trimask_server.suites.rows.right_checks import (
    CheckStore,
    RowCheckPeerServicer,
    RowChecks,
    RowCheckServicer,
)
from trimask_server.suites.rows.right_draw import DrawStore, RowDrawServicer
from trimask_server.suites.rows.unmasking import HeldContents, UnmaskingServicer


class _Provider:
    """What R_k and L_j share: attempts under way, and perhaps the unmasking of a component."""

    def __init__(self, host: Host) -> None:
        self._attempts = AttemptShares(host.context, host.spawn)
        host.at_drain(self._attempts.hand_back)
        self._frames = Frames(host.context)
        self._unmasking = UnmaskingServicer(host.context, self._attempts, self._frames)
        self.services: list[object] = [self._unmasking]

    def running(self) -> int:
        """Shares of attempts under way."""
        return self._attempts.running


class _Left(_Provider):
    """L_j."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        masking = LeftMaskingServicer(host.context, self._attempts, self._unmasking)
        self.services.append(masking)


class _Right(_Provider):
    """R_k."""

    def __init__(self, host: Host, rows: RowStore, key_ring: CurrentKeyRing) -> None:
        super().__init__(host)
        node = host.context
        store, frames = CheckStore(node.database, node.audit), self._frames
        opened = OpenRows(node, rows, key_ring)
        self._checks = RowChecks(node, opened, store, frames)
        masking = RightMaskingServicer(node, self._attempts, rows, opened, self._unmasking, store, frames)
        self.services += [
            masking,
            RowCheckServicer(self._checks),
            RowCheckPeerServicer(self._checks),
            RowDrawServicer(node, DrawStore(node.database, node.audit)),
        ]

    draws_blocks = True

    def running(self) -> int:
        """Shares of attempts, and checks, under way."""
        return super().running() + self._checks.running

    def check_plan(self, study: Study, rows: int) -> None:
        """Blocks are drawn."""
        raise Refused(Reason.MALFORMED, "blocks of this study are drawn, not planned")

    def forget_block(self, study_id: bytes, block_id: bytes) -> None:
        """Forget masks of an erased block."""
        self._unmasking.forget(study_id, block_id)


class _Collector:
    """Drivers that mask and pool, and the service nodes deliver to."""

    def __init__(self, node: NodeContext, provider_status: ProviderStatus) -> None:
        from trimask_server.suites.rows.masking_attempt import CollectionServicer

        self._node = node
        self._provider_status = provider_status
        self._collection = CollectionServicer(node)
        self.answers = None
        self.services: list[object] = [self._collection]

    def driver(self, study: Study, database: Store) -> BatchDriver:
        """Blocks tried until they are pooled."""
        from trimask_server.suites.rows.block_work import FactorLedger, RowsWork

        node = self._node
        ledger = Ledger(database, node.audit)
        factors = FactorLedger(database, node.vault, node.audit)
        work = RowsWork(node, study, ledger, factors, self._provider_status, self._collection)
        return BatchDriver(node, study, ledger, self._provider_status, work)


@dataclass(frozen=True)
class RowsSuite:
    """TM2: rows masked by chains of providers and published as A(X + C)."""

    name: str = "rows"

    def erasers(self, role: NodeRole) -> Erasers:
        """Checks of rows, factors, contents at unmasking nodes. (Attempts are in memory, rows in the roles' tables.)"""
        if role == "collector":
            return Erasers((DrawLedger.erase_study, release_table.erase_factors))
        return Erasers((CheckStore.erase_study, DrawStore.erase_study, HeldContents.erase_study))

    def right(self, host: Host, rows: RowStore, key_ring: CurrentKeyRing) -> RightPart:
        """At a right provider."""
        return _Right(host, rows, key_ring)

    def left(self, host: Host) -> LeftPart:
        """At a left provider."""
        return _Left(host)

    def collector(self, host: Host, provider_status: ProviderStatus) -> CollectorPart:
        """At a collector."""
        return _Collector(host.context, provider_status)
