"""One attempt at masking a block: prepare keys, start masking, take the blinded deliveries in, and A X1 out of their sum.

It waits for a node that is down.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import AnyReason, Reason, Status, attempt_counter, read_reason
from trimask_core.rows.arrays import Matrix, device_frame
from trimask_core.study.definition import Study
from trimask_core.submit.release_files import plan_hash
from trimask_proto.v1 import (
    collection_pb2,
    collection_pb2_grpc,
    common_pb2,
    node_pb2,
    right_masking_pb2,
    unmasking_pb2,
)
from trimask_proto.v1.common_pb2 import Attempt, Worker
from trimask_proto.v1.right_masking_pb2_grpc import RightMaskingServiceStub
from trimask_proto.v1.unmasking_pb2 import BlindingShare, ShareBlindingKeysResponse
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_server.access.governance import sign_worker, worker_of
from trimask_server.access.permissions import admitted
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.provider_status import ProviderStatus, keep_audit_head
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.store.release_table import Block
from trimask_server.suites.rows.check import refuse_heavy
from trimask_server.suites.rows.math import Assembler, sum_deliveries

_ENERGY = (
    1 / 256,
    64.0,
)  # what rows that a check has accepted can weigh at most (docs/theory/collection.md#row-check)


def masked_answers(study: Study, deliveries: list[NDArray[np.uint64]]) -> Matrix:
    """A (X1 + C): the sum of the deliveries with B_0 and the noise columns removed, if it can be that of rows in range.

    What is removed must weigh what noise columns of checked rows can weigh: tau^2 times the n p2 that the check has left,
    within `_ENERGY`. If left providers masked the components differently, the shares do not cancel and it is larger by
    many orders; a Gram check of each component alone cannot see that.
    """
    masked = study.rows.grid.to_float(sum_deliveries(deliveries))
    answers = device_frame(study).unapply(masked)
    n = masked.shape[0]
    energy = float(np.sum(masked**2) - np.sum(answers**2)) / study.rows.tau**2
    expected = n * study.rows.left_columns
    if not _ENERGY[0] * expected <= energy <= _ENERGY[1] * expected:
        raise Refused(
            Reason.IMPLAUSIBLE_SUM,
            "its components do not add up to rows: some were masked differently",
        )
    refuse_heavy(study, answers)
    return answers


def _assemblers(count: int) -> list[Assembler]:
    return [Assembler(np.uint64) for _ in range(count)]


@dataclass
class PendingDelivery:
    """What has arrived for the current attempt. `outcome` is the list of deliveries, or the failure.

    `held` is done when every component is held by its unmasking node: only then is any of them asked to deliver.
    """

    attempt: common_pb2.Attempt
    rows: int
    parts: list[Assembler]
    outcome: asyncio.Future[list[NDArray[np.uint64]]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    held: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    components_held: set[int] = field(default_factory=set)

    def fail(self, reason: AnyReason, message: str) -> None:
        """Give the attempt up."""
        for future in (self.held, self.outcome):
            if not future.done():
                future.set_exception(Refused(reason, message))

    def seen(self) -> None:
        """Mark the failure as seen, so that asyncio does not report it as never retrieved."""
        for future in (self.held, self.outcome):
            if future.done() and not future.cancelled():
                future.exception()


class CollectionServicer(collection_pb2_grpc.CollectionServiceServicer):
    """Serves unmasking nodes (deliveries) and every node of a study (failures)."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._pending: dict[bytes, PendingDelivery] = {}

    def expect(self, study: Study, attempt: common_pb2.Attempt, rows: int) -> PendingDelivery:
        """Begin an attempt: earlier ones of the block are forgotten."""
        pending = PendingDelivery(attempt, rows, _assemblers(len(study.right)))
        self._pending[attempt.block_id] = pending
        return pending

    def end(self, attempt: common_pb2.Attempt) -> None:
        """Forget an attempt."""
        self._pending.pop(attempt.block_id, None)

    def _find(self, attempt: common_pb2.Attempt) -> PendingDelivery | None:
        pending = self._pending.get(attempt.block_id)
        return pending if pending is not None and pending.attempt.number == attempt.number else None

    async def ReportHeld(
        self, request: collection_pb2.ReportHeldRequest, context: Context
    ) -> collection_pb2.ReportHeldResponse:
        pending = self._delivery(request)
        pending.components_held.add(request.component)
        if len(pending.components_held) == len(admitted().study.right) and not pending.held.done():
            pending.held.set_result(None)
        return collection_pb2.ReportHeldResponse()

    def _delivery(
        self, request: collection_pb2.PushDeliveryRequest | collection_pb2.ReportHeldRequest
    ) -> PendingDelivery:
        """The attempt, of a node that unmasks the component it names."""
        pending = self._find(request.attempt)
        if pending is None:
            raise Refused(Reason.OUT_OF_STEP, "that attempt is over")
        if request.attempt.plan_hash != pending.attempt.plan_hash:
            raise Refused(Reason.OUT_OF_STEP, "this delivery is of another plan of the block")
        return pending

    async def PushDelivery(
        self, request: collection_pb2.PushDeliveryRequest, context: Context
    ) -> collection_pb2.PushDeliveryResponse:
        pending, columns = self._delivery(request), admitted().study.rows.columns
        if not pending.outcome.done():
            part = pending.parts[request.component - 1]
            part.add(request.slice, range(pending.rows, pending.rows + 1), columns)
            if all(part.complete for part in pending.parts):
                pending.outcome.set_result([part.take() for part in pending.parts])
        return collection_pb2.PushDeliveryResponse()

    async def ReportFailure(
        self, request: collection_pb2.ReportFailureRequest, context: Context
    ) -> collection_pb2.ReportFailureResponse:
        pending = self._find(request.attempt)
        if pending is not None:
            reason = read_reason(request.reason, Status.ABORTED.name)
            self._node.refusals.count(attempt_counter(reason))
            pending.fail(reason, f"a node gave the attempt up: {reason}")
        return collection_pb2.ReportFailureResponse()


T = TypeVar("T")
_BOOT_POLL_SECONDS = 0.5
_LOST_POLLS = 3


class Unusable(Exception):
    """The one content that a block can have is lost, or its components do not add up; says why."""


class MaskingAttempts:
    """Runs attempts of one study, one at a time."""

    def __init__(
        self,
        node: NodeContext,
        study: Study,
        ledger: Ledger,
        provider_status: ProviderStatus,
        collection: CollectionServicer,
    ) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._provider_status = provider_status
        self._collection = collection

    async def run(self, block: Block) -> tuple[int, Matrix]:
        """Mask a block that is bound; the number of the attempt, and A X1."""
        study, node = self._study, self._node
        nodes = await self._answering_nodes()
        number = await self._ledger.next_attempt(block.block_id)
        attempt = Attempt(
            study_id=study.id,
            block_id=block.block_id,
            number=number,
            workers=self._workers(nodes),
            plan_hash=plan_hash(study.id, block.block_id, block.submission_ids),
        )
        pending = self._collection.expect(study, attempt, block.rows)
        boots = {role: answer.boot_id for role, answer in nodes.items()}
        watch = asyncio.create_task(self._watch(pending, boots))
        try:
            fixed = await self._start(attempt)
            if fixed:
                # An earlier attempt was being delivered: the block has that content, and gets no other.
                self._collection.end(attempt)
                attempt.number = fixed
                pending = self._collection.expect(study, attempt, block.rows)
                watch.cancel()
                watch = asyncio.create_task(self._watch(pending, boots))
            else:
                async with asyncio.timeout(node.config.attempt_timeout_seconds):
                    await pending.held
            await self._deliver(attempt)
            async with asyncio.timeout(node.config.attempt_timeout_seconds):
                deliveries = await pending.outcome
            return attempt.number, await self._add_up(deliveries)
        except TimeoutError:
            raise Refused(
                Reason.ATTEMPT_TIMEOUT, f"attempt {number} took too long; a new one begins"
            ) from None
        finally:
            watch.cancel()
            self._collection.end(attempt)
            pending.seen()

    async def _add_up(self, deliveries: list[NDArray[np.uint64]]) -> Matrix:
        try:
            return await self._node.workers.run(masked_answers, self._study, deliveries)
        except Refused as error:
            raise Unusable(f"{error} ({error.reason})") from None

    async def _deliver(self, attempt: Attempt) -> None:
        """Have every unmasking node, all of which hold this attempt, make it the block's content and send it."""
        request = unmasking_pb2.DeliverRequest(attempt=attempt)
        try:
            await _each(
                self._unmaskers,
                lambda role: self._node.peers.call(self._stub(attempt, role).Deliver, request),
            )
        except Refused as error:
            if error.reason is Reason.CONTENT_LOST:
                raise Unusable("a node that had to deliver it has lost its part") from None
            raise

    async def forget(self, block: Block) -> None:
        """Have every unmasking node forget the content of a block that is pooled or given up."""
        request = unmasking_pb2.ForgetContentRequest(study_id=self._study.id, block_id=block.block_id)
        here = Attempt(study_id=self._study.id, block_id=block.block_id)
        await _each(
            self._unmaskers, lambda role: self._node.peers.call(self._stub(here, role).ForgetContent, request)
        )

    @property
    def _unmaskers(self) -> list[str]:
        return list(dict.fromkeys(self._study.rows.unmasking))

    def _stub(self, attempt: Attempt, role: str) -> UnmaskingServiceStub:
        return UnmaskingServiceStub(
            self._node.peers.channel(self._study.party(role), worker_of(self._study, attempt, role))
        )

    async def _start(self, attempt: Attempt) -> int:
        """Prepare an attempt and begin it; 0, or the number of the earlier attempt that a node has fixed."""
        study, peers = self._study, self._node.peers
        unmaskers = self._unmaskers
        right = [f"R{k}" for k in range(1, len(study.right) + 1)]

        def channel(role: str) -> grpc.aio.Channel:
            return peers.channel(study.party(role), worker_of(study, attempt, role))

        prepare = unmasking_pb2.PrepareAttemptRequest(attempt=attempt)
        answers = await _each(
            unmaskers, lambda role: peers.call(self._stub(attempt, role).PrepareAttempt, prepare)
        )
        fixed = {answer.fixed_number for answer in answers} - {0}
        if len(fixed) > 1:
            raise Unusable("nodes have delivered different attempts at it")
        if fixed:
            return int(fixed.pop())
        keys = [answer.key for answer in answers]

        async def share(role: str, sealed: Sequence[BlindingShare] = ()) -> Sequence[BlindingShare]:
            own = [each for each in sealed if each.receiver == role]
            request = unmasking_pb2.ShareBlindingKeysRequest(attempt=attempt, keys=keys, shares=own)
            answer: ShareBlindingKeysResponse = await peers.call(
                self._stub(attempt, role).ShareBlindingKeys, request
            )
            return answer.shares

        sealed = [each for shares in await _each(unmaskers, share) for each in shares]
        if sealed:  # in a study sealed hybrid: carried to whom they are sealed to
            await _each(unmaskers, lambda role: share(role, sealed))
        start = right_masking_pb2.StartMaskingRequest(attempt=attempt, mask_seed=study.rows.mask_seed)
        await _each(
            right, lambda role: peers.call(RightMaskingServiceStub(channel(role)).StartMasking, start)
        )
        return 0

    async def _answering_nodes(self) -> dict[str, node_pb2.DescribeNodeResponse]:
        """Every provider, asked before an attempt begins; an attempt without one of them is not begun."""
        nodes: dict[str, node_pb2.DescribeNodeResponse] = {}
        for role, answer in (await self._provider_status.describe(self._study, 5.0)).items():
            if answer is None:
                raise Refused(Reason.UNREACHABLE, f"{role} does not answer; the attempt waits for it")
            await keep_audit_head(self._node, self._study.party(role), answer.audit_head)
            if answer.draining:
                raise Refused(Reason.DRAINING, f"{role} is about to stop; the attempt waits for it")
            nodes[role] = answer
        return nodes

    def _workers(self, nodes: dict[str, node_pb2.DescribeNodeResponse]) -> list[Worker]:
        """The workers of this attempt: those that have just answered, and this one."""
        own = self._node.config.own_address
        workers = [
            Worker(role=role, address=answer.worker_address, signature=answer.worker_signature)
            for role, answer in nodes.items()
        ]
        workers.append(
            Worker(role="collector", address=own, signature=sign_worker(self._node.keys.identity, own))
        )
        return [worker for worker in workers if worker.address]

    async def _watch(self, pending: PendingDelivery, boots: dict[str, bytes]) -> None:
        """End the attempt at once when a node restarted and so lost its part, instead of waiting for the timeout.

        A worker that is gone does not come back under its address: the next try takes another one of its node.
        """
        silent: Counter[str] = Counter()
        while not pending.outcome.done():
            described = await self._provider_status.describe(self._study, 2.0, pending.attempt)
            for role, answer in described.items():
                if answer is not None and answer.boot_id != boots[role]:
                    pending.fail(Reason.PEER_RESTARTED, f"{role} was restarted during the attempt")
                silent[role] = silent[role] + 1 if answer is None else 0
                if silent[role] >= _LOST_POLLS and worker_of(self._study, pending.attempt, role):
                    pending.fail(
                        Reason.PEER_RESTARTED, f"the worker of {role} in this attempt does not answer"
                    )
            await asyncio.sleep(_BOOT_POLL_SECONDS)


async def _each(roles: Iterable[str], call: Callable[[str], Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*(call(role) for role in roles)))
