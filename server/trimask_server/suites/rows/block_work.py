"""What the collector does in a study of the rows suite: try to mask a block until it is pooled, and publish factors.

Masks are never saved: an attempt that failed is repeated from the rows the right providers hold.
"""

from __future__ import annotations

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_server.collector.batches import Batches, Intake
from trimask_server.collector.ledger import Block, Ledger
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.collector.publication import Catalogue, Tally
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.logs import current_request, current_study, span
from trimask_server.suites.rows.collector_draw import DrawDriver
from trimask_server.suites.rows.factor_ledger import FactorLedger
from trimask_server.suites.rows.masking_attempt import CollectionServicer, MaskingAttempts, Unusable
from trimask_server.suites.rows.publisher import Publisher


class RowsWork:
    """One study's blocks, masked and pooled (`collector.driver.BatchWork`)."""

    def __init__(
        self,
        node: NodeContext,
        study: Study,
        ledger: Ledger,
        factors: FactorLedger,
        provider_status: ProviderStatus,
        collection: CollectionServicer,
    ) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._factors = factors
        self._provider_status = provider_status
        self._catalogue = Catalogue(ledger.database)
        self._publisher = Publisher(node, factors)
        self._masking = MaskingAttempts(node, study, ledger, provider_status, collection)
        self._draws = DrawDriver(node, study, ledger)

    draws_blocks = True

    async def draw(self, intake: Intake, state: str) -> bool:
        """Have right providers check rows and draw blocks of them."""
        return await self._draws.look(intake, state)

    async def tell(self, party: Party) -> None:
        """Which rows were checked and accepted, and what was drawn."""
        await self._draws.tell(party)

    def choose(self, ready: list[bytes], *, closing: bool) -> list[bytes]:
        """Nothing: blocks are drawn."""
        return []

    async def work_on(self, block: Block, batches: Batches) -> None:
        """One attempt; a note tells the owner of a block that keeps failing."""
        prefix = self._study.id.hex()[:12]
        current_request.set(self._node.source.read(8).hex())
        current_study.set(prefix)
        try:
            with span(self._node.tracer, "try", attributes={"trimask.study": prefix}):
                await self._pool(block, batches)
        except Unusable as error:
            self._node.metrics.attempts.labels("failed").inc()
            await batches.give_up(block, str(error))
            return
        except Refused as error:
            if error.reason is Reason.BLOCK_ERASED:
                # Pooled and erased already: this collector was restored from a backup made before that.
                await batches.give_up(block)
                return
            if await batches.attempt_failed(block, error.reason):
                return
            raise
        await batches.attempt_succeeded(block)

    async def _pool(self, block: Block, batches: Batches) -> None:
        study, node = self._study, self._node
        if not await batches.bind(block):
            return
        number, masked = await self._masking.run(block)
        node.metrics.attempts.labels("pooled").inc()
        if await self._factors.pool(study.id, block.block_id, masked, study.release_rows):
            node.log.info("pooled block=%s rows=%d attempt=%d", block.block_id.hex(), block.rows, number)

    async def forget(self, block: Block) -> None:
        """Have unmasking nodes forget the content they kept."""
        await self._masking.forget(block)

    async def publish(self) -> bool:
        """Publish the oldest full release, keeping one back: a short last one may have to join it."""
        return await self._publish_full(keep_back=1)

    async def _publish_full(self, keep_back: int) -> bool:
        study = self._study
        full = [release for release in await self._catalogue.releases(study.id) if release.state == "full"]
        for release in full[: len(full) - keep_back] if keep_back else full:
            await self._publisher.publish(
                self._node.studies.signed(study.id),
                release,
                Tally(
                    await self._ledger.failed_attempts(study.id),
                    await self._provider_status.refusals(study),
                    await self._ledger.abandoned(study.id),
                ),
            )
            return True
        return False

    async def finish(self, remainder: int) -> bool:
        """No more blocks can be made: merge, publish what is large enough, forget the rest."""
        study = self._study
        await self._factors.merge_short_release(study.id)
        while await self._publish_full(keep_back=0):
            pass
        releases = await self._catalogue.releases(study.id)
        short = sum(release.rows for release in releases if release.state == "open")
        unused = short + remainder
        published = any(release.state == "published" for release in releases)
        if unused and not published:
            await self._ledger.note(study.id, _too_few(study, unused))
        await self._factors.discard(study.id)
        return published


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
