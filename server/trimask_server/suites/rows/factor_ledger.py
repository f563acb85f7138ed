"""The running factors of releases: a block is folded in once, and a factor goes when its dataset is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows.rotation import Matrix
from trimask_server.collector.publication import count_block, release_of_planned
from trimask_server.runtime.audit import AuditLog
from trimask_server.store.data_keys import Vault, destroy_keys, release_scope
from trimask_server.store.interface import Store, Transaction
from trimask_server.suites.rows.math import factor_from_bytes, factor_to_bytes, fold


@dataclass(frozen=True)
class StoredFactors:
    """Reads and writes the `factor` of releases, inside transactions: second moments of people's answers, so encrypted, each
    under its own key."""

    vault: Vault

    def save(self, tx: Transaction, study_id: bytes, number: int, factor: Matrix) -> None:
        """Write a release's factor; the release is there."""
        # Under a fresh key each time: the difference of two factors is one block's, which nobody may see.
        destroy_keys(tx, study_id, [release_scope(number)])
        stored = self.vault.obtain(tx, study_id, release_scope(number)).encrypt(
            factor_to_bytes(factor), b"factor"
        )
        tx.run(
            "UPDATE releases SET factor = ? WHERE study_id = ? AND release_number = ?",
            (stored, study_id, number),
        )

    def load(self, tx: Transaction, study_id: bytes, number: int) -> Matrix | None:
        """A release's factor; None if it has none any more."""
        row = tx.row(
            "SELECT factor FROM releases WHERE study_id = ? AND release_number = ?",
            (study_id, number),
        )
        if row is None or row[0] is None:
            return None
        key = self.vault.find(tx, study_id, release_scope(number))
        return None if key is None else factor_from_bytes(key.decrypt(row[0], b"factor"))

    @staticmethod
    def forget_unpublished(tx: Transaction, study_id: bytes) -> None:
        """Erase the factors of releases that will never be published. `Store.scrub` finishes it on disk."""
        for (number,) in tx.rows(
            "SELECT release_number FROM releases WHERE study_id = ? AND state IN ('open', 'full')",
            (study_id,),
        ):
            StoredFactors.forget_one(tx, study_id, number, "discarded")

    @staticmethod
    def forget_one(tx: Transaction, study_id: bytes, number: int, new_state: str) -> None:
        """Erase one release's factor, with its key."""
        tx.run(
            "UPDATE releases SET factor = NULL, state = ? WHERE study_id = ? AND release_number = ?",
            (new_state, study_id, number),
        )
        destroy_keys(tx, study_id, [release_scope(number)])

    @staticmethod
    def drop(tx: Transaction, study_id: bytes, numbers: Sequence[int]) -> None:
        """Remove releases that were pooled into another, with their keys."""
        tx.run_many(
            "DELETE FROM releases WHERE study_id = ? AND release_number = ?",
            [(study_id, number) for number in numbers],
        )
        destroy_keys(tx, study_id, [release_scope(number) for number in numbers])

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase whatever factor is left; each release's number, size and state stay beside what was published of it."""
        tx.run("UPDATE releases SET factor = NULL WHERE study_id = ?", (study_id,))
        return 0


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
        await self.database.write(lambda tx: self._factors.forget_unpublished(tx, study_id))
        await self.database.scrub()
