"""The rows suite at a node: what the collector does in a study of it, and the suite's parts for each role.

The collector tries to mask a block until it is pooled. Masks are never saved: an attempt that failed is repeated from the
rows the right providers hold. A block is folded once into its release's running factor, which goes when its dataset is
published: Parquet, and a signed manifest, which anybody can check.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows.arrays import Matrix
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.release_files import row_notes
from trimask_server.collector.batches import Batches, Intake
from trimask_server.collector.driver import BatchDriver
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.collector.publication import (
    Catalogue,
    Tally,
    place_files,
    record_dataset,
    remove_others,
    signed_manifest,
)
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Host
from trimask_server.runtime.logs import current_request, current_study, span
from trimask_server.settings.config import NodeRole
from trimask_server.store import release_table
from trimask_server.store.data_keys import Vault, destroy_keys, release_scope
from trimask_server.store.interface import Erasers, Store, Transaction
from trimask_server.store.release_table import UNPUBLISHED, Block, Release, ReleaseState
from trimask_server.suites.interface import CollectorPart, LeftPart, RightPart
from trimask_server.suites.rows.attempt_shares import AttemptShares, Frames, OpenRows
from trimask_server.suites.rows.collector_draw import DrawDriver, DrawLedger
from trimask_server.suites.rows.masking_attempt import CollectionServicer, MaskingAttempts, Unusable
from trimask_server.suites.rows.math import (
    factor_from_bytes,
    factor_to_bytes,
    fold,
    masked_release,
    with_publishing_noise,
)
from trimask_server.suites.rows.provider_masking import LeftMaskingServicer, RightMaskingServicer
from trimask_server.suites.rows.right_checks import (
    CheckStore,
    RowCheckPeerServicer,
    RowChecks,
    RowCheckServicer,
)
from trimask_server.suites.rows.right_draw import DrawStore, RowDrawServicer
from trimask_server.suites.rows.unmasking import HeldContents, UnmaskingServicer


@dataclass(frozen=True)
class FactorLedger:
    """The `factor` of releases, beside `collector.ledger` in the same store: a block and the factor it joins change in one
    transaction. Factors are second moments of people's answers, so encrypted, each under its own key."""

    database: Store
    vault: Vault
    audit: AuditLog | None = None

    def _save(self, tx: Transaction, study_id: bytes, number: int, factor: Matrix) -> None:
        """Write a release's factor; the release is there."""
        # Under a fresh key each time: the difference of two factors is one block's, which nobody may see.
        destroy_keys(tx, study_id, [release_scope(number)])
        stored = self.vault.obtain(tx, study_id, release_scope(number)).encrypt(
            factor_to_bytes(factor), b"factor"
        )
        release_table.set_factor(tx, study_id, number, stored)

    def load(self, tx: Transaction, study_id: bytes, number: int) -> Matrix | None:
        """A release's factor; None if it has none any more."""
        stored = release_table.factor_of(tx, study_id, number)
        key = None if stored is None else self.vault.find(tx, study_id, release_scope(number))
        return None if stored is None or key is None else factor_from_bytes(key.decrypt(stored, b"factor"))

    async def pool(self, study_id: bytes, block_id: bytes, masked: Matrix, release_rows: int) -> bool:
        """Fold a block into the open release and mark it pooled, in one transaction; False if it was before."""

        def write(tx: Transaction) -> bool:
            release = release_table.release_of_planned(tx, study_id, block_id)
            if release is None:
                return False
            factor = self.load(tx, study_id, release.number) if release.blocks else None
            if release.blocks and factor is None:
                raise Refused(Reason.CONTENT_LOST, "the release being filled has lost its factor")
            release_table.count_block(tx, study_id, block_id, release, masked.shape[0], release_rows)
            self._save(tx, study_id, release.number, fold(factor, masked))
            if self.audit is not None:
                self.audit.append(
                    tx,
                    "block_pooled",
                    study=study_id.hex(),
                    block=block_id.hex(),
                    rows=masked.shape[0],
                    release=release.number,
                )
            return True

        return await self.database.write(write)

    async def factor(self, study_id: bytes, number: int) -> Matrix:
        """A release's running factor."""
        factor = await self.database.read(lambda tx: self.load(tx, study_id, number))
        if factor is None:
            raise Refused(Reason.CONTENT_LOST, "that release has no factor any more")
        return factor

    async def merge_short_release(self, study_id: bytes) -> None:
        """At close, blocks short of N join the last full release that is not published yet."""

        def write(tx: Transaction) -> None:
            short, full = release_table.short_and_full(tx, study_id)
            if short is None or full is None:
                return
            both = [self.load(tx, study_id, release.number) for release in (full, short)]
            if both[0] is None or both[1] is None:
                raise Refused(Reason.CONTENT_LOST, "a release that is not published has lost its factor")
            release_table.join(tx, study_id, full, [short])
            self._save(tx, study_id, full.number, fold(both[0], both[1]))
            destroy_keys(tx, study_id, [release_scope(short.number)])

        await self.database.write(write)

    async def publish(
        self, study_id: bytes, number: int, dataset_id: str, manifest: bytes, signature: bytes
    ) -> None:
        """Record a published dataset and forget the factor it was made from."""

        def write(tx: Transaction) -> None:
            record_dataset(tx, self.audit, study_id, number, dataset_id, manifest, signature)
            destroy_keys(tx, study_id, [release_scope(number)])

        await self.database.write(write)
        await self.database.scrub()

    async def discard(self, study_id: bytes) -> None:
        """Erase the factors of releases that will never be published."""

        def write(tx: Transaction) -> None:
            for release in release_table.find_releases(tx, study_id, UNPUBLISHED):
                release_table.move(tx, study_id, release.number, ReleaseState.DISCARDED)
                destroy_keys(tx, study_id, [release_scope(release.number)])

        await self.database.write(write)
        await self.database.scrub()


_FILE = "dataset.parquet"
_ROW_GROUP = 65_536


class Publisher:
    """Writes datasets. A crash before the ledger's commit leaves a folder that the next try removes."""

    def __init__(self, node: NodeContext, factors: FactorLedger) -> None:
        self._node = node
        self._factors = factors

    async def publish(self, signed: SignedStudy, release: Release, tally: Tally) -> str:
        """Publish one release; its dataset id."""
        node, study, data = self._node, signed.study, Path(self._node.config.data)
        factor = await self._factors.factor(study.id, release.number)
        dataset_id = f"{study.id.hex()[:12]}-{release.number}"
        stored_rows = study.attributes if node.config.compact_releases else release.rows
        scale = study.rows.publishing_steps * study.rows.grid.step
        noisy = await node.workers.run(with_publishing_noise, factor, release.rows, scale, node.source.seed())
        rows = await node.workers.run(masked_release, noisy, stored_rows, node.source.seed())
        catalogue = Catalogue(self._factors.database)
        counted = await catalogue.counted(study.id, release.number)
        files = await node.workers.run(
            place_files,
            data,
            dataset_id,
            _FILE,
            lambda path: write_parquet(study, rows, path, release.rows),
            counted,
        )
        body, signature = await signed_manifest(
            node,
            catalogue,
            signed,
            release,
            dataset_id,
            files,
            tally,
            {"stored_rows": stored_rows},
        )
        await self._factors.publish(study.id, release.number, dataset_id, body, signature)
        await node.workers.run(remove_others, data, dataset_id, files[0].sha256)
        node.log.info("published dataset=%s rows=%d blocks=%d", dataset_id, release.rows, release.blocks)
        return dataset_id


def write_parquet(study: Study, rows: Matrix, path: Path, people: int) -> None:
    """Write the masked rows of so many people; what they are not, and their noise, is the file's metadata."""
    import pyarrow as pa  # here alone: it takes long to import, and no node but a collector writes datasets
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {column.name: rows[:, i] for i, column in enumerate(study.schema.columns)}
    table = pa.table(columns).replace_schema_metadata(row_notes(study, people, "scaled"))
    # Masked values are noise to a compressor; plain encoding reads fastest.
    pq.write_table(table, path, row_group_size=_ROW_GROUP, compression="none", use_dictionary=False)


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
    at_once = 1

    async def draw(self, intake: Intake, state: str) -> bool:
        """Have right providers check rows and draw blocks of them."""
        return await self._draws.look(intake, state)

    async def tell(self, party: Party) -> None:
        """Which rows were checked and accepted, and what was drawn."""
        await self._draws.tell(party)

    async def look_after_closed(self) -> None:
        """Nothing is left of a closed study."""

    def choose(self, ready: Collection[bytes], *, closing: bool) -> list[bytes]:
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
                    *await self._provider_status.counted(study),
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
        self._node = node
        self._provider_status = provider_status
        self._collection = CollectionServicer(node)
        self.answers = None
        self.services: list[object] = [self._collection]

    def driver(self, study: Study, database: Store) -> BatchDriver:
        """Blocks tried until they are pooled."""
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
