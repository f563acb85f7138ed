"""The running factors of releases: a block is folded in once, and a factor goes when its dataset is published."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.rows.rotation import Matrix
from trimask_server.audit.log import AuditLog
from trimask_server.collector.open_release import count_block, release_of_planned
from trimask_server.collector.stored_factors import StoredFactors
from trimask_server.protocol.pool import fold
from trimask_server.store.data_keys import Vault
from trimask_server.store.interface import Store, Transaction

__all__ = ["FactorLedger"]


@dataclass(frozen=True)
class FactorLedger:
    """Beside `collector.ledger`, in the same store: a block and the factor it joins change in one transaction."""

    database: Store
    vault: Vault
    audit: AuditLog | None = None

    def _record(self, tx: Transaction, kind: str, **details: str | int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, **details)

    @property
    def _factors(self) -> StoredFactors:
        return StoredFactors(self.vault)

    async def pool(self, study_id: bytes, block_id: bytes, masked: Matrix, release_rows: int) -> bool:
        """Fold a block into the open release and mark it pooled, in one transaction; False if it was before."""

        def write(tx: Transaction) -> bool:
            release = release_of_planned(tx, study_id, block_id)
            if release is None:
                return False
            factor = self._factors.load(tx, study_id, release.number) if release.blocks else None
            if release.blocks and factor is None:
                raise Refused(Reason.UNKNOWN_DATASET, "the release being filled has lost its factor")
            count_block(tx, study_id, release, masked.shape[0], release_rows)
            self._factors.save(tx, study_id, release.number, fold(factor, masked))
            tx.run(
                "UPDATE blocks SET state = 'pooled', release_number = ? WHERE block_id = ?",
                (release.number, block_id),
            )
            self._record(
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
        factor = await self.database.read(lambda tx: self._factors.load(tx, study_id, number))
        if factor is None:
            raise Refused(Reason.UNKNOWN_DATASET, "that release has no factor any more")
        return factor

    async def merge_short_release(self, study_id: bytes) -> None:
        """At close, blocks short of N join the last full release that is not published yet."""

        def write(tx: Transaction) -> None:
            last = tx.rows(
                "SELECT release_number, row_count, block_count, state FROM releases WHERE study_id = ?"
                " AND state IN ('open', 'full') ORDER BY release_number DESC LIMIT 2",
                (study_id,),
            )
            if len(last) < 2 or last[0][3] != "open" or last[1][3] != "full":
                return
            short, full = last
            both = [self._factors.load(tx, study_id, release[0]) for release in (full, short)]
            if both[0] is None or both[1] is None:
                raise Refused(Reason.UNKNOWN_DATASET, "a release that is not published has lost its factor")
            tx.run(
                "UPDATE releases SET row_count = ?, block_count = ? WHERE study_id = ? AND release_number = ?",
                (full[1] + short[1], full[2] + short[2], study_id, full[0]),
            )
            self._factors.save(tx, study_id, full[0], fold(both[0], both[1]))
            self._factors.drop(tx, study_id, [short[0]])
            tx.run(
                "UPDATE blocks SET release_number = ? WHERE study_id = ? AND release_number = ?",
                (full[0], study_id, short[0]),
            )

        await self.database.write(write)

    async def publish(
        self, study_id: bytes, number: int, dataset_id: str, manifest: bytes, signature: bytes
    ) -> None:
        """Record a published dataset and forget the factor it was made from."""

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO datasets (dataset_id, study_id, release_number, manifest, signature) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (dataset_id) DO NOTHING",
                (dataset_id, study_id, number, manifest, signature),
            )
            self._factors.forget_one(tx, study_id, number, "published")
            self._record(tx, "dataset_published", study=study_id.hex(), dataset=dataset_id)

        await self.database.write(write)
        await self.database.scrub()

    async def discard(self, study_id: bytes) -> None:
        """Forget every factor that will never be published."""
        await self.database.write(
            lambda tx: self._factors.forget(tx, study_id, ["open", "full"], "discarded")
        )
        await self.database.scrub()
