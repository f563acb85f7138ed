"""One study's progress: plan a block, have it masked, pool it, have it erased, publish. Restartable at every step.

Everything the driver decides is in the ledger before anybody is told, and every call it makes is idempotent; so after
a crash, its own or another node's, it picks up the block where the ledger says it is. Masks are never saved: a try that
failed is repeated from the rows the right providers hold.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import grpc

from trimask_core.errors import Refused
from trimask_core.study import Party, Study
from trimask_proto.v1 import node_pb2, right_masking_pb2, unmasking_pb2
from trimask_proto.v1.common_pb2 import Attempt, Worker
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_proto.v1.right_masking_pb2_grpc import RightMaskingServiceStub
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_server.collector.ledger import Block, Ledger
from trimask_server.collector.publisher import Publisher
from trimask_server.collector.releases.factors import Factors
from trimask_server.collector.witness import witness
from trimask_server.node.node import Node
from trimask_server.operations.context import current_request, current_study
from trimask_server.operations.tracing import span
from trimask_server.protocol.attempts import worker_of
from trimask_server.right.rows import split_ids
from trimask_server.suites.rows.deliveries import CollectionServicer, PendingDelivery, masked_answers
from trimask_server.suites.rows.restores import Restores

__all__ = ["StudyDriver"]

_PAGE = 8192
_BOOT_POLL_SECONDS = 0.5
_LOST_POLLS = 3
_WORRYING_ATTEMPTS = 5


class StudyDriver:
    """Drives one study until it is closed."""

    def __init__(self, node: Node, study: Study, ledger: Ledger, collection: CollectionServicer) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._collection = collection
        self._publisher = Publisher(node, ledger)
        self._held: dict[bytes, int] = {}  # submission id -> which right providers hold it, a bit each
        # Those that all hold, in the order in which they were complete: those that still wait may be very many.
        self._ready: dict[bytes, None] = {}
        self._tokens = [""] * len(study.right)
        # A provider may have been restored from a backup: looked into at the start and whenever something is refused.
        self._suspicious = True
        self._restores = Restores(node, study, ledger)
        self.wake = asyncio.Event()

    # Talking to nodes

    def _right(self, party: Party) -> RightMaskingServiceStub:
        return RightMaskingServiceStub(self._node.peers.channel(party))

    async def _each(self, parties: Iterable[Any], call: Any) -> list[Any]:
        return list(await asyncio.gather(*(call(party) for party in parties)))

    async def describe(
        self, timeout_seconds: float, attempt: Attempt | None = None
    ) -> dict[str, node_pb2.DescribeNodeResponse | None]:
        """Every provider's description by role (of the workers in `attempt`, if given); None where it did not answer."""

        async def one(role: str) -> node_pb2.DescribeNodeResponse | None:
            address = "" if attempt is None else worker_of(attempt, role)
            stub = NodeServiceStub(self._node.peers.channel(self._study.party(role), address))
            try:
                answer: node_pb2.DescribeNodeResponse = await self._node.peers.call(
                    stub.DescribeNode, node_pb2.DescribeNodeRequest(), timeout_seconds
                )
            except Refused:
                return None
            return answer

        roles = [role for role in self._study.parties if role != "collector"]
        found = dict(zip(roles, await asyncio.gather(*map(one, roles)), strict=True))
        now = self._node.clock.now_ms()
        # At the node, not here: a study's driver and those who only look on should know the same.
        self._node.seen_ms |= {
            self._study.party(role).tls_name: now for role, answer in found.items() if answer is not None
        }
        return found

    # The loop

    async def run(self) -> None:
        """Until the study is closed."""
        while self._node.studies.state(self._study.id) != "closed":
            try:
                # While draining nothing is begun; the lease stays with this worker until it stops.
                busy = not self._node.draining and await self._step()
            except Refused as error:
                if error.reason == "lease_lost":
                    raise
                self._node.log.warning(
                    "study=%s waits: reason=%s: %s", self._study.id.hex()[:12], error.reason, error
                )
                busy, self._suspicious = False, True
            except Exception:
                # Whatever it was (a full disk, say), the study must go on when it is over.
                self._node.log.exception("study=%s waits after an error", self._study.id.hex()[:12])
                busy = False
            if not busy:
                self.wake.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.wake.wait(), self._node.config.poll_seconds)

    async def heed_restores(self) -> bool:
        """Tell right providers that were restored from a backup of every block; whether there was one."""
        return await self._restores.heed(await self.describe(5.0))

    async def _step(self) -> bool:
        """One piece of work; whether there may be more at once."""
        study_id = self._study.id
        await self._node.studies.refresh()  # another worker may have been told to close it
        if self._suspicious:
            if await self.heed_restores():
                self._count_anew()
            self._suspicious = False
        for block in await self._ledger.blocks(study_id, "planned", "pooled", "cancelled"):
            if block.state == "cancelled":
                await self._release_block(block)
                return True
            if block.state == "planned":
                await self._mask_or_tell(block)
                return True
            await self._erase_block(block)
            return True
        closing = self._node.studies.state(study_id) == "closing"
        ready = await self._complete_submissions(closing=closing)
        if self._suspicious:
            return True
        ids = self._choose(ready, closing=closing)
        if ids:
            await self._ledger.plan(study_id, self._node.source.read(16), ids)
            for submission_id in ids:
                del self._held[submission_id], self._ready[submission_id]
            return True
        if closing:
            await self._finish(len(ready))
            return True
        return await self._publish_full(keep_back=1)

    def _choose(self, ready: list[bytes], *, closing: bool) -> list[bytes]:
        """The rows of the next block: n of them, keeping a full block back; at close the last takes the remainder."""
        n = self._study.rows.block_rows
        if len(ready) >= 2 * n:
            return sorted(ready[:n])
        return sorted(ready) if closing and len(ready) >= n else []

    async def _complete_submissions(self, *, closing: bool) -> list[bytes]:
        """Ids every right provider holds and no block has, in the order in which they were complete."""
        whole = (1 << len(self._study.right)) - 1
        planned: set[bytes] = set()
        if closing:
            # Intake is stopped first and everything is counted again, so that the last count is the whole one.
            self._count_anew()
            for block in await self._ledger.blocks(self._study.id, *Restores.STATES):
                planned.update(split_ids(block.submission_ids))

        async def one(index: int, party: Party) -> None:
            stub = self._right(party)
            while True:
                request = right_masking_pb2.ListPendingRequest(
                    study_id=self._study.id,
                    page_token=self._tokens[index],
                    page_size=_PAGE,
                    stop_intake=closing,
                )
                page = await self._node.peers.call(stub.ListPending, request)
                if self._restores.is_new(f"R{index + 1}", page.store_generation):
                    self._suspicious = True  # these ids may have been in a block before
                    return
                ids = split_ids(page.submission_ids)
                for submission_id in ids:
                    if submission_id in planned:
                        continue
                    held = self._held[submission_id] = self._held.get(submission_id, 0) | (1 << index)
                    if held == whole:
                        self._ready[submission_id] = None
                if not page.next_page_token:
                    return
                self._tokens[index] = page.next_page_token

        await asyncio.gather(*(one(index, party) for index, party in enumerate(self._study.right)))
        await self._ledger.note_pending(self._study.id, len(self._ready))
        return list(self._ready)

    def _count_anew(self) -> None:
        self._held.clear()
        self._ready.clear()
        self._tokens = [""] * len(self._study.right)

    # One block

    async def _mask_or_tell(self, block: Block) -> None:
        """One try; a block that keeps failing is brought to the owner's notice."""
        prefix = self._study.id.hex()[:12]
        current_request.set(self._node.source.read(8).hex())
        current_study.set(prefix)
        try:
            with span(self._node.tracer, "try", attributes={"trimask.study": prefix}):
                await self._mask_block(block)
        except Refused as error:
            if error.reason == "block_erased":
                # Pooled and erased already, in a future this collector was restored from before.
                await self._restores.abandon(block)
                return
            self._node.metrics.tries.labels("failed").inc()
            if block.attempts + 1 >= _WORRYING_ATTEMPTS:
                await self._ledger.note(
                    self._study.id,
                    f"block {block.block_id.hex()[:12]} has failed {block.attempts + 1} times, last: {error.reason}. "
                    "Its rows are safe and it is tried again; the nodes' logs say more",
                )
            raise
        if block.attempts + 1 >= _WORRYING_ATTEMPTS:
            await self._ledger.note(self._study.id, "")

    async def _bound(self, block: Block) -> bool:
        """Whether every right provider has bound the block's rows; a plan that one declined is given up.

        A row may be withdrawn after it was listed, at one provider sooner than at another. The provider that has erased
        it declines the plan, so no masking of it begins anywhere, and the others can free its rows.
        """
        study = self._study
        answers = await self._each(study.right, lambda party: self._restores.assign(party, block))
        withdrawn = {submission_id for ids in answers for submission_id in ids}
        if not withdrawn:
            return True
        self._node.log.info("block=%s is given up: withdrawn=%d", block.block_id.hex(), len(withdrawn))
        if block.attempts:
            # Masking had begun; only a provider that was restored since can have let a row go. No other plan may have them.
            await self._restores.abandon(block)
        else:
            await self._ledger.cancel(block.block_id)
            await self._release_block(block)
        return False

    async def _release_block(self, block: Block) -> None:
        """Have every right provider free the rows of a plan given up; then they may be planned again."""
        await self._each(self._study.right, lambda party: self._restores.cancel(party, block))
        await self._ledger.mark_released(block.block_id)
        # Who still holds what is asked anew: the rows of this plan, but for those withdrawn, are pending again.
        self._count_anew()

    async def _mask_block(self, block: Block) -> None:
        """One try. A node that is down is waited for."""
        study, node = self._study, self._node
        if not await self._bound(block):
            return
        nodes = await self._answering_nodes()
        number = await self._ledger.next_attempt(block.block_id)
        attempt = Attempt(
            study_id=study.id, block_id=block.block_id, number=number, workers=self._workers(nodes)
        )
        pending = self._collection.expect(study, attempt, block.rows)
        boots = {role: answer.boot_id for role, answer in nodes.items()}
        watch = asyncio.create_task(self._watch(pending, boots))
        try:
            await self._start(attempt)
            deliveries = await asyncio.wait_for(pending.outcome, node.config.attempt_timeout_seconds)
            masked = await node.workers.run(masked_answers, study, deliveries)
        except TimeoutError:
            raise Refused("attempt_timeout", f"try {number} took too long; a new one begins") from None
        finally:
            watch.cancel()
            self._collection.end(attempt)
            if pending.outcome.done() and not pending.outcome.cancelled():
                pending.outcome.exception()  # seen: not to be reported as lost
        node.metrics.tries.labels("pooled").inc()
        await self._ledger.pool(study.id, block.block_id, masked, study.release_rows)
        node.log.info("pooled block=%s rows=%d try=%d", block.block_id.hex(), block.rows, number)

    async def _start(self, attempt: Attempt) -> None:
        study, peers = self._study, self._node.peers
        unmaskers = list(dict.fromkeys(study.rows.unmasking))
        right = [f"R{k}" for k in range(1, len(study.right) + 1)]

        def channel(role: str) -> grpc.aio.Channel:
            return peers.channel(study.party(role), worker_of(attempt, role))

        def stub(role: str) -> UnmaskingServiceStub:
            return UnmaskingServiceStub(channel(role))

        prepare = unmasking_pb2.PrepareAttemptRequest(attempt=attempt)
        answers = await self._each(unmaskers, lambda role: peers.call(stub(role).PrepareAttempt, prepare))
        share = unmasking_pb2.ShareBlindingKeysRequest(
            attempt=attempt, keys=[answer.key for answer in answers]
        )
        await self._each(unmaskers, lambda role: peers.call(stub(role).ShareBlindingKeys, share))
        start = right_masking_pb2.StartMaskingRequest(attempt=attempt)
        await self._each(
            right, lambda role: peers.call(RightMaskingServiceStub(channel(role)).StartMasking, start)
        )

    async def _answering_nodes(self) -> dict[str, node_pb2.DescribeNodeResponse]:
        """Every provider, asked before a try begins; a try without one of them is not begun."""
        nodes: dict[str, node_pb2.DescribeNodeResponse] = {}
        for role, answer in (await self.describe(5.0)).items():
            if answer is None:
                raise Refused("unreachable", f"{role} does not answer; the try waits for it")
            await witness(self._node, self._study.party(role), answer.audit_head)
            if answer.draining:
                raise Refused("draining", f"{role} is about to stop; the try waits for it")
            nodes[role] = answer
        return nodes

    def _workers(self, nodes: dict[str, node_pb2.DescribeNodeResponse]) -> list[Worker]:
        """The workers of this try: those that have just answered, and this one."""
        addresses = {role: answer.worker_address for role, answer in nodes.items()}
        addresses["collector"] = self._node.worker_address
        return [Worker(role=role, address=address) for role, address in addresses.items() if address]

    async def _watch(self, pending: PendingDelivery, boots: dict[str, bytes]) -> None:
        """A node that was restarted has lost its part of the try: end it now rather than at the timeout.

        A worker that is gone does not come back under its address: the next try takes another one of its node.
        """
        silent: Counter[str] = Counter()
        while not pending.outcome.done():
            for role, answer in (await self.describe(2.0, pending.attempt)).items():
                if answer is not None and answer.boot_id != boots[role]:
                    pending.fail("peer_restarted", f"{role} was restarted during the try")
                silent[role] = silent[role] + 1 if answer is None else 0
                if silent[role] >= _LOST_POLLS and worker_of(pending.attempt, role):
                    pending.fail("peer_restarted", f"the worker of {role} in this try does not answer")
            await asyncio.sleep(_BOOT_POLL_SECONDS)

    async def _erase_block(self, block: Block) -> None:
        await self._each(self._study.right, lambda party: self._restores.erase(party, block))
        await self._ledger.mark_erased(block.block_id)

    # Releases

    async def failed_attempts(self) -> int:
        """Tries that did not end in a pooled block."""
        blocks = await self._ledger.blocks(self._study.id, "planned", "pooled", "erased")
        return sum(block.attempts - (block.state != "planned") for block in blocks)

    async def refusals(self) -> dict[str, dict[str, int]]:
        """Every node's refusals by reason; a node that does not answer is left out."""
        counts = {
            role: {item.reason: item.count for item in answer.refusals}
            for role, answer in (await self.describe(2.0)).items()
            if answer is not None
        }
        return counts | {"collector": self._node.refusals.as_dict()}

    async def _publish_full(self, keep_back: int) -> bool:
        if self._study.protection.budget is not None:
            return False  # its factors stay here, and answers leave one by one
        full = [release for release in await self._ledger.releases(self._study.id) if release.state == "full"]
        for release in full[: len(full) - keep_back] if keep_back else full:
            await self._publisher.publish(
                self._node.studies.signed(self._study.id),
                release,
                await self.failed_attempts(),
                await self.refusals(),
            )
            return True
        return False

    async def _finish(self, remainder: int) -> None:
        """No more blocks can be made: merge, publish (or keep to answer from) what is large enough, erase the rest."""
        study, node = self._study, self._node
        if study.protection.budget is not None:
            await Factors(self._ledger.database, node.vault).make_answerable(study.id, study.release_rows)
        else:
            await self._ledger.merge_short_release(study.id)
        while await self._publish_full(keep_back=0):
            pass
        releases = await self._ledger.releases(study.id)
        short = sum(release.rows for release in releases if release.state == "open")
        unused = short + remainder
        published = any(release.state in ("published", "answerable", "spent") for release in releases)
        if unused and not published:
            await self._ledger.note(study.id, _too_few(study, unused))
        await self._ledger.discard(study.id)
        erase = right_masking_pb2.EraseStudyRequest(study_id=study.id)
        erased = await self._each(
            study.right, lambda party: node.peers.call(self._right(party).EraseStudy, erase)
        )
        if published and any(answer.erased_rows for answer in erased):
            most = max(answer.erased_rows for answer in erased)
            await self._ledger.note(
                study.id,
                f"{most} submissions had reached only some of the right providers when the study closed; erased",
            )
        await self._ledger.note_pending(study.id, 0)
        entry = node.audit.entry("study_closed", study=study.id.hex())
        await node.studies.set_state(study.id, "closed", entry)
        node.log.info("closed study=%s", study.id.hex()[:12])


def _too_few(study: Study, rows: int) -> str:
    """What the owner of a study with too few rows should know: what N would have had to be."""
    least = study.attributes + 1
    advice = (
        f"With release_rows of at most {rows}, and the larger noise that takes, it could have been"
        if rows >= least
        else f"No study of {study.attributes} columns can publish fewer than {least} rows"
    )
    return (
        f"nothing was published: {rows} complete submissions came, and the guarantee needs {study.release_rows} rows "
        f"in blocks of {study.rows.block_rows}. {advice}. The rows are erased"
    )
