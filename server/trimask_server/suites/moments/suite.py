"""The moments suite at a node: what the collector does in a study of it, what a right provider serves, each role's parts.

The collector has batches checked and added up, and publishes totals. No number smaller than a release is ever opened, so a
batch may have any size; its size is for speed alone. Reports that are refused cost nobody else anything. A right provider
serves the other ones, and the collector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.moments.report import MomentsSecret
from trimask_core.moments.totals import accepted_hash
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_core.submit.release_files import split_ids
from trimask_proto.v1 import moments_pb2, moments_pb2_grpc
from trimask_proto.v1.common_pb2 import Attempt, RefusalCount
from trimask_proto.v1.moments_pb2_grpc import MomentsServiceStub
from trimask_server.access.governance import worker_of
from trimask_server.access.permissions import admitted
from trimask_server.collector.batches import Batches, Intake
from trimask_server.collector.driver import BatchDriver
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.provider_status import ProviderStatus, keep_audit_head
from trimask_server.collector.publication import Catalogue, Tally
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Host
from trimask_server.runtime.tls import Context
from trimask_server.settings.config import NodeRole
from trimask_server.store.interface import Erasers, Store
from trimask_server.store.release_table import Block, Release, answers_state
from trimask_server.suites.interface import CollectorPart, LeftPart, RightPart
from trimask_server.suites.moments.batch_check import Rounds
from trimask_server.suites.moments.batch_store import BatchStore
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_server.suites.moments.key_exchange import KeyExchange
from trimask_server.suites.moments.publisher import ReleaseLedger, erase_totals, gather, publish

if TYPE_CHECKING:
    from trimask_server.collector.releases import Answers


_BATCH = 1024
_WORTH_WAITING_FOR = 256
_DISAGREED = (
    "right providers signed different verdicts about it, so one of them is broken or lies; entries "
    "batch_disagreed in their audit logs name it"
)
_NO_RELEASE = {Reason.BATCH_RELEASED, Reason.LEDGER_LOST, Reason.STORE_RESTORED}
_LOST = {Reason.BATCH_LOST, Reason.BLOCK_ERASED, Reason.UNKNOWN_BLOCK, Reason.BATCH_DISAGREED}


class MomentsWork:
    """One study's batches (`collector.driver.BatchWork`)."""

    def __init__(
        self,
        node: NodeContext,
        study: Study,
        ledger: Ledger,
        releases: ReleaseLedger,
        provider_status: ProviderStatus,
    ) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._releases = releases
        self._provider_status = provider_status
        self._catalogue = Catalogue(ledger.database)
        self._totals_erased = False
        self.at_once = 1  # as many as a right provider has workers, as far as this worker knows

    draws_blocks = False

    async def draw(self, intake: Intake, state: str) -> bool:
        """Nothing: any batch is as good as another."""
        return False

    async def tell(self, party: Party) -> None:
        """Nothing to tell: decisions in this suite are about batches."""

    def choose(self, ready: Collection[bytes], *, closing: bool) -> list[bytes]:
        """The next batch. A small number waits while the study is open, and can be withdrawn meanwhile."""
        least = 1 if closing else min(_WORTH_WAITING_FOR, self._study.release_rows)
        if len(ready) < least:
            return []
        return sorted(islice(ready, min(_BATCH, self._study.release_rows)))

    async def work_on(self, block: Block, batches: Batches) -> None:
        """One attempt at a batch: every right provider checks it with the others and adds it up."""
        try:
            if not await batches.bind(block):
                return
            accepted, refused = await self._check(block)
        except Refused as error:
            if error.reason is Reason.BATCH_DISAGREED:
                await batches.give_up(block, _DISAGREED)
                return
            if error.reason in _LOST:
                await batches.give_up(block)
                return
            if await batches.attempt_failed(block, error.reason):
                return
            raise
        self._node.metrics.attempts.labels("pooled").inc()
        await self._releases.pool(
            self._study.id, block.block_id, accepted, self._study.moments.full_rows, refused
        )
        self._node.log.info(
            "added batch=%s accepted=%d refused=%d",
            block.block_id.hex(),
            sum(accepted),
            sum(refused.values()),
        )
        await batches.attempt_succeeded(block)

    async def _check(self, block: Block) -> tuple[bytes, dict[str, int]]:
        """(1 or 0 for each report, refused by reason), when every right provider has the batch in its total."""
        study = self._study
        attempt = await self._attempt(block)
        try:
            answers = await self._ask_all(attempt)
        finally:
            self._provider_status.in_hand.subtract(worker.address for worker in attempt.workers)
        if len({answer.accepted_hash for answer in answers}) != 1:
            raise Refused(Reason.BATCH_DISAGREED, "the right providers accepted different reports")
        ids = split_ids(block.submission_ids)
        for answer in answers:  # one wrong answer does not block the others
            marks = [mark == 1 for mark in answer.accepted]
            if len(marks) == len(ids) and answer.accepted_hash == accepted_hash(
                study.id, block.block_id, ids, marks
            ):
                return bytes(marks), {item.reason: item.count for item in answer.refused}
        raise Refused(Reason.BAD_SIGNATURE, "no right provider says which reports it signed for")

    async def _ask_all(self, attempt: Attempt) -> list[moments_pb2.CheckBatchResponse]:
        study, node = self._study, self._node
        request = moments_pb2.CheckBatchRequest(attempt=attempt)
        timeout = node.config.attempt_timeout_seconds

        async def one(role: str) -> moments_pb2.CheckBatchResponse:
            stub = MomentsServiceStub(node.peers.channel(study.party(role), worker_of(study, attempt, role)))
            answer: moments_pb2.CheckBatchResponse = await node.peers.call(stub.CheckBatch, request, timeout)
            return answer

        return list(await asyncio.gather(*map(one, study.right_roles)))

    async def _attempt(self, block: Block) -> Attempt:
        """A new attempt; at a provider with several workers by the one that has fewest batches in hand."""
        study, status = self._study, self._provider_status
        answers = {}
        for role, answer in (await status.describe(study, 5.0)).items():
            if answer is None:
                raise Refused(Reason.UNREACHABLE, f"{role} does not answer; the batch waits for it")
            await keep_audit_head(self._node, study.party(role), answer.audit_head)
            if answer.draining:
                raise Refused(Reason.DRAINING, f"{role} is about to stop; the batch waits for it")
            answers[role] = answer
        self.at_once = max([1, *(len(answer.workers) for answer in answers.values())])
        number = await self._ledger.next_attempt(block.block_id)
        attempt = Attempt(study_id=study.id, block_id=block.block_id, number=number)
        attempt.workers.extend(status.free_workers(answers))
        # Each of those has said that it is up, some seconds ago. Where one is gone, the one that has just answered does it.
        there = await status.describe(study, 2.0, attempt) if len(attempt.workers) else {}
        for worker in attempt.workers:
            if there[worker.role] is None:
                status.in_hand.subtract([worker.address])
                worker.address = answers[worker.role].worker_address
                worker.signature = answers[worker.role].worker_signature
                status.in_hand.update([worker.address])
        return attempt

    # Releases

    async def forget(self, block: Block) -> None:
        """Nothing is kept for a batch but its totals, which are needed until they are delivered."""

    async def publish(self) -> bool:
        """Publish the oldest full release, keeping one back: a short last one may have to join it."""
        return await self._publish_full(keep_back=1)

    async def _publish_full(self, keep_back: int) -> bool:
        study = self._study
        if study.protection.budget is not None:
            return False  # its totals stay with the providers, and answers leave one by one
        full = [release for release in await self._catalogue.releases(study.id) if release.state == "full"]
        for release in full[: len(full) - keep_back] if keep_back else full:
            await self._publish_one(release)
            return True
        return False

    async def _publish_one(self, release: Release) -> None:
        study, node = self._study, self._node
        batch_ids = await self._releases.batches(study.id, release.number)
        try:
            gathered = await gather(node, study, release.number, batch_ids)
        except Refused as error:
            if error.reason in _NO_RELEASE:
                await self._releases.note_refusal(study.id, release.number, error.reason)
                await self._ledger.note(
                    study.id,
                    f"release {release.number} waits: a right provider refuses it with {error.reason}. Its operator must "
                    "put back the store or the ledger it had; no second release of the same reports is made. Or give it up: "
                    f"`trimask study abandon STUDY.json release-{release.number}`",
                )
            if error.reason is Reason.TOO_FEW_ROWS:  # batches of it were lost
                await self._releases.discard(study.id, release.number)
                return
            if error.reason is not Reason.BATCH_LOST:
                raise
            await self._drop_lost(batch_ids)
            return
        tally = Tally(
            await self._ledger.failed_attempts(study.id),
            *await self._provider_status.counted(study),
            await self._ledger.abandoned(study.id),
        )
        await publish(node, self._releases, study, release, batch_ids, gathered, tally)

    async def _drop_lost(self, batch_ids: list[bytes]) -> None:
        """Drop the batches that a restored provider lost from their release, and tell the owner."""
        for batch_id in batch_ids:
            attempt = Attempt(study_id=self._study.id, block_id=batch_id, number=0)
            try:
                for party in self._study.right:
                    stub = MomentsServiceStub(self._node.peers.channel(party))
                    await self._node.peers.call(
                        stub.CheckBatch, moments_pb2.CheckBatchRequest(attempt=attempt)
                    )
            except Refused as error:
                if error.reason not in _LOST:
                    raise
                await self._releases.drop(self._study.id, batch_id)
                await self._ledger.note(
                    self._study.id,
                    f"batch {batch_id.hex()[:12]} is lost: a right provider was restored from a backup made before it. "
                    "Nothing of it is in a release",
                )

    async def look_after_closed(self) -> None:
        """Where answers have ended (by the budget, the owner, or a restore of this collector), every right provider erases
        its share of the totals: once for each start of this process."""
        study = self._study
        if study.protection.budget is None or self._totals_erased:
            return
        state, _ = await self._ledger.database.read(lambda tx: answers_state(tx, study.id))
        if state != "answerable":
            await erase_totals(self._node, study)
            self._totals_erased = True

    async def finish(self, remainder: int) -> bool:
        """No more batches can be made: publish everything, or keep it to answer from."""
        study = self._study
        if study.protection.budget is not None:
            await self._releases.make_answerable(study.id)
        else:
            await self._releases.close(study.id, self._least)
        while await self._publish_full(keep_back=0):
            pass
        releases = await self._catalogue.releases(study.id)
        published = any(release.state in ("published", "answerable", "spent") for release in releases)
        if not published:
            note, nothing = self._too_few(), "nothing was published. "
            if await self._ledger.abandoned(study.id):
                note = nothing + (await self._ledger.read_note(study.id)).removeprefix(nothing)
            await self._ledger.note(study.id, note)
        return published

    @property
    def _least(self) -> int:
        """How many people a last release must have: any number with noise; without, what the study says."""
        return 1 if self._study.protection.sigma else self._study.release_rows

    def _too_few(self) -> str:
        if self._least == 1:
            return "nothing was published: no report was accepted before the study closed"
        return (
            f"nothing was published: a study without noise opens sums of {self._least} people or more, and fewer reports "
            "were accepted before it closed"
        )


class MomentsPeerServicer(moments_pb2_grpc.MomentsPeerServiceServicer):
    """Serves the other right providers of a study, and nobody else."""

    def __init__(
        self, node: NodeContext, key_exchange: KeyExchange, rounds: Rounds, deliveries: Deliveries
    ) -> None:
        self._node = node
        self._key_exchange = key_exchange
        self._rounds = rounds
        self._deliveries = deliveries

    async def Introduce(
        self, request: moments_pb2.IntroduceRequest, context: Context
    ) -> moments_pb2.IntroduceResponse:
        study, caller, _ = admitted()
        return self._key_exchange.answer(study, caller, request)

    async def GetForms(
        self, request: moments_pb2.GetFormsRequest, context: Context
    ) -> moments_pb2.GetFormsResponse:
        study, caller, _ = admitted()
        sealed = await self._rounds.sealed_forms(study, request.attempt, caller, request.submission_ids_hash)
        return moments_pb2.GetFormsResponse(sealed_values=sealed)

    async def GetVerdict(
        self, request: moments_pb2.GetVerdictRequest, context: Context
    ) -> moments_pb2.GetVerdictResponse:
        stored = await self._rounds.verdict(admitted().study, request.attempt, request.submission_ids_hash)
        return moments_pb2.GetVerdictResponse(accepted_hash=stored.accepted_hash, signature=stored.signature)

    async def CompareLedger(
        self, request: moments_pb2.CompareLedgerRequest, context: Context
    ) -> moments_pb2.CompareLedgerResponse:
        (study, caller, _), joined = admitted(), request.delivered
        delivered = {joined[i : i + 32] for i in range(0, len(joined), 32)}
        await self._deliveries.compare(study, caller, delivered, request.asked)
        return moments_pb2.CompareLedgerResponse()


class MomentsServicer(moments_pb2_grpc.MomentsServiceServicer):
    """Serves the collector."""

    def __init__(self, node: NodeContext, rounds: Rounds, deliveries: Deliveries) -> None:
        self._node = node
        self._rounds = rounds
        self._deliveries = deliveries

    async def CheckBatch(
        self, request: moments_pb2.CheckBatchRequest, context: Context
    ) -> moments_pb2.CheckBatchResponse:
        stored = await self._rounds.check(admitted().study, request.attempt)
        return moments_pb2.CheckBatchResponse(
            accepted_count=stored.accepted_count,
            accepted_hash=stored.accepted_hash,
            refused=[RefusalCount(reason=reason, count=count) for reason, count in stored.refused.items()],
            accepted=stored.accepted,
        )

    async def CommitTotals(
        self, request: moments_pb2.CommitTotalsRequest, context: Context
    ) -> moments_pb2.CommitTotalsResponse:
        commitment = await self._deliveries.commit(admitted().study, request.totals)
        return moments_pb2.CommitTotalsResponse(commitment=commitment)

    async def DeliverTotals(
        self, request: moments_pb2.DeliverTotalsRequest, context: Context
    ) -> moments_pb2.DeliverTotalsResponse:
        return await self._deliveries.deliver(admitted().study, request.totals, request.commitments)

    async def EraseTotals(
        self, request: moments_pb2.EraseTotalsRequest, context: Context
    ) -> moments_pb2.EraseTotalsResponse:
        await self._deliveries.end(admitted().study)
        return moments_pb2.EraseTotalsResponse()


_LARGEST_BATCH = 4096


class _Right:
    """R_k."""

    def __init__(self, host: Host, rows: RowStore, key_ring: CurrentKeyRing) -> None:
        node = host.context
        # A random one where there is no file: such a node has approved no study of this suite, and can take part in none.
        secret = node.keys.moments or MomentsSecret(node.source.seed())
        store = BatchStore(node.database, node.vault, rows, node.audit)
        key_exchange = KeyExchange(node, secret)
        key_ring.checked_soon.add(MomentsSuite.name)
        self._rounds = Rounds(node, rows, key_ring, store, key_exchange)
        deliveries = Deliveries(node, store, key_exchange, Path(node.config.keys))
        self.services: list[object] = [
            MomentsPeerServicer(node, key_exchange, self._rounds, deliveries),
            MomentsServicer(node, self._rounds, deliveries),
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

    services: Sequence[object] = ()

    def running(self) -> int:
        """Nothing."""
        return 0


class _Collector:
    """Drivers that have batches added up."""

    services: Sequence[object] = ()

    def __init__(self, node: NodeContext, provider_status: ProviderStatus) -> None:
        self._node = node
        self._provider_status = provider_status

    @cached_property
    def answers(self) -> Answers:
        """Made when one is asked for: the statistics behind it take a second to import."""
        from trimask_server.suites.moments.answers import MomentsAnswers

        return MomentsAnswers(self._node)

    def driver(self, study: Study, database: Store) -> BatchDriver:
        """Batches checked and added up, releases gathered."""
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
