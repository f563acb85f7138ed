"""What the collector keeps on disk: plans, running factors, published datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trimask_core.errors import Refused
from trimask_core.rows.rotation import Matrix
from trimask_server.audit.log import AuditLog
from trimask_server.collector.stored_factors import StoredFactors
from trimask_server.store.data_keys import Vault
from trimask_server.store.interface import Store, Transaction
from trimask_server.suites.rows.pool import fold

__all__ = ["Block", "BlockState", "Ledger", "Release", "erase_study"]

BlockState = Literal["planned", "pooled", "erased", "abandoned", "cancelled", "released"]


@dataclass(frozen=True)
class Block:
    """A planned block. planned -> pooled (its rows are in the factor) -> erased (every R_k said so).

    planned -> abandoned (erased without being pooled), when a node was restored from a backup that has not all of it.
    Or, where a provider declined it for a withdrawn row: planned -> cancelled -> released (every R_k has freed its rows).
    """

    block_id: bytes
    submission_ids: bytes
    rows: int
    state: BlockState
    attempts: int


@dataclass(frozen=True)
class Release:
    """A release being filled (open), complete and held back (full), or published."""

    number: int
    rows: int
    blocks: int
    state: str


@dataclass(frozen=True)
class Ledger:
    """The collector's tables; what is decided in them goes into the audit log with it."""

    database: Store
    vault: Vault
    audit: AuditLog | None = None

    def _record(self, tx: Transaction, kind: str, **details: str | int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, **details)

    @property
    def _factors(self) -> StoredFactors:
        return StoredFactors(self.vault)

    async def blocks(self, study_id: bytes, *states: BlockState) -> list[Block]:
        """Blocks in the given states, in the order they were planned."""
        marks = ",".join("?" * len(states))
        return await self.database.read(
            lambda tx: [
                Block(*row)
                for row in tx.rows(
                    "SELECT block_id, submission_ids, row_count, state, attempts FROM blocks"  # noqa: S608 - marks only
                    f" WHERE study_id = ? AND state IN ({marks}) ORDER BY sequence",
                    (study_id, *states),
                )
            ]
        )

    async def plan(self, study_id: bytes, block_id: bytes, ids: list[bytes]) -> Block:
        """Write a plan down before anybody is told of it."""
        block = Block(block_id, b"".join(ids), len(ids), "planned", 0)

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO blocks (block_id, study_id, submission_ids, row_count, state) VALUES (?, ?, ?, ?, 'planned')",
                (block_id, study_id, block.submission_ids, block.rows),
            )
            self._record(tx, "block_planned", study=study_id.hex(), block=block_id.hex(), rows=block.rows)

        await self.database.write(write)
        return block

    async def cancel(self, block_id: bytes) -> None:
        """Give up a plan that a provider declined; only now may the others be told."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE blocks SET state = 'cancelled' WHERE block_id = ? AND state = 'planned' AND attempts = 0",
                (block_id,),
            )
        )

    async def mark_released(self, block_id: bytes) -> None:
        """Every right provider has freed the rows of a cancelled block."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE blocks SET state = 'released' WHERE block_id = ? AND state = 'cancelled'", (block_id,)
            )
        )

    async def next_attempt(self, block_id: bytes) -> int:
        """The number of a new try, never given out before, a crash included."""

        def write(tx: Transaction) -> int:
            tx.run("UPDATE blocks SET attempts = attempts + 1 WHERE block_id = ?", (block_id,))
            row = tx.row("SELECT attempts FROM blocks WHERE block_id = ?", (block_id,))
            if row is None:
                raise Refused("unknown_block", "that block was never planned")
            self._record(tx, "try_begun", block=block_id.hex(), number=int(row[0]))
            return int(row[0])

        return await self.database.write(write)

    async def pool(self, study_id: bytes, block_id: bytes, masked: Matrix, release_rows: int) -> bool:
        """Fold a block into the open release and mark it pooled, in one transaction; False if it was before."""

        def write(tx: Transaction) -> bool:
            block = tx.row(
                "SELECT state FROM blocks WHERE block_id = ? AND study_id = ?", (block_id, study_id)
            )
            if block is None:
                raise Refused("unknown_block", "that block was never planned")
            if block[0] != "planned":
                return False
            last = tx.row(
                "SELECT release_number, row_count, block_count, state FROM releases WHERE study_id = ?"
                " ORDER BY release_number DESC LIMIT 1",
                (study_id,),
            )
            if last is None or last[3] != "open":
                number, rows, blocks, factor = (1 if last is None else last[0] + 1), 0, 0, None
            else:
                number, rows, blocks = last[0], last[1], last[2]
                factor = self._factors.load(tx, study_id, number)
                if factor is None:
                    raise Refused("unknown_dataset", "the release being filled has lost its factor")
            rows += masked.shape[0]
            tx.run(
                "INSERT INTO releases (study_id, release_number, row_count, block_count, state)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (study_id, release_number) DO UPDATE SET"
                " row_count = excluded.row_count, block_count = excluded.block_count, state = excluded.state",
                (study_id, number, rows, blocks + 1, "full" if rows >= release_rows else "open"),
            )
            self._factors.save(tx, study_id, number, fold(factor, masked))
            tx.run(
                "UPDATE blocks SET state = 'pooled', release_number = ? WHERE block_id = ?",
                (number, block_id),
            )
            self._record(
                tx,
                "block_pooled",
                study=study_id.hex(),
                block=block_id.hex(),
                rows=masked.shape[0],
                release=number,
            )
            return True

        return await self.database.write(write)

    async def mark_erased(self, block_id: bytes, state: Literal["erased", "abandoned"] = "erased") -> None:
        """Every right provider has erased the block."""

        def write(tx: Transaction) -> None:
            tx.run("UPDATE blocks SET state = ? WHERE block_id = ?", (state, block_id))
            self._record(tx, f"block_{state}", block=block_id.hex())

        await self.database.write(write)

    async def generations(self, study_id: bytes) -> dict[str, bytes]:
        """The store of each right provider, by role, that has been told of every block."""
        return await self.database.read(
            lambda tx: {
                row[0]: row[1]
                for row in tx.rows(
                    "SELECT role, generation FROM provider_generations WHERE study_id = ?", (study_id,)
                )
            }
        )

    async def set_generation(self, study_id: bytes, role: str, generation: bytes) -> None:
        """A right provider's store has been told of every block."""
        await self.database.write(
            lambda tx: tx.run(
                "INSERT INTO provider_generations (study_id, role, generation) VALUES (?, ?, ?)"
                " ON CONFLICT (study_id, role) DO UPDATE SET generation = excluded.generation",
                (study_id, role, generation),
            )
        )

    async def releases(self, study_id: bytes) -> list[Release]:
        """All releases, in order."""
        return await self.database.read(
            lambda tx: [
                Release(*row)
                for row in tx.rows(
                    "SELECT release_number, row_count, block_count, state FROM releases WHERE study_id = ?"
                    " ORDER BY release_number",
                    (study_id,),
                )
            ]
        )

    async def factor(self, study_id: bytes, number: int) -> Matrix:
        """A release's running factor."""
        factor = await self.database.read(lambda tx: self._factors.load(tx, study_id, number))
        if factor is None:
            raise Refused("unknown_dataset", "that release has no factor any more")
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
                raise Refused("unknown_dataset", "a release that is not published has lost its factor")
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

    async def datasets(self, study_id: bytes = b"") -> list[tuple[str, bytes, bytes, bytes]]:
        """(dataset id, study id, manifest, signature), oldest first."""
        condition = "WHERE study_id = ?" if study_id else ""
        return await self.database.read(
            lambda tx: [
                (row[0], row[1], row[2], row[3])
                for row in tx.rows(
                    f"SELECT dataset_id, study_id, manifest, signature FROM datasets {condition} ORDER BY sequence",  # noqa: S608
                    (study_id,) if study_id else (),
                )
            ]
        )

    async def note_pending(self, study_id: bytes, rows: int) -> None:
        """Write down how many complete submissions wait for a block, for whoever asks another worker."""
        if await self.pending_rows(study_id) != rows:
            await self.database.write(
                lambda tx: tx.run(
                    "INSERT INTO progress (study_id, pending_rows) VALUES (?, ?)"
                    " ON CONFLICT (study_id) DO UPDATE SET pending_rows = excluded.pending_rows",
                    (study_id, rows),
                )
            )

    async def pending_rows(self, study_id: bytes) -> int:
        """Complete submissions in no block, as last counted."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT pending_rows FROM progress WHERE study_id = ?", (study_id,))
        )
        return 0 if row is None else int(row[0])

    async def note(self, study_id: bytes, note: str) -> None:
        """What the owner should know."""
        await self.database.write(
            lambda tx: tx.run(
                "INSERT INTO notes (study_id, note) VALUES (?, ?) ON CONFLICT (study_id) DO UPDATE SET note = excluded.note",
                (study_id, note),
            )
        )

    async def read_note(self, study_id: bytes) -> str:
        """The note, or nothing."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT note FROM notes WHERE study_id = ?", (study_id,))
        )
        return "" if row is None else str(row[0])


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase plans, with the ids in them, and notes; published datasets stay."""
    for table in ("blocks", "notes", "progress", "provider_generations"):
        tx.run(f"DELETE FROM {table} WHERE study_id = ?", (study_id,))  # noqa: S608 - names only
    return 0
