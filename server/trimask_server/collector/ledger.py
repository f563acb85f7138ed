"""What the collector keeps on disk: plans, running factors, published datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trimask_core.errors import Refused
from trimask_core.rotation import Matrix
from trimask_server.collector.pool import factor_from_bytes, factor_to_bytes, fold
from trimask_server.store.interface import Store, Transaction

__all__ = ["Block", "BlockState", "Ledger", "Release"]

BlockState = Literal["planned", "pooled", "erased", "cancelled", "released"]


@dataclass(frozen=True)
class Block:
    """A planned block. planned -> pooled (its rows are in the factor) -> erased (every R_k said so).

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
    """The collector's tables."""

    database: Store

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
        await self.database.write(
            lambda tx: tx.run(
                "INSERT INTO blocks (block_id, study_id, submission_ids, row_count, state) VALUES (?, ?, ?, ?, 'planned')",
                (block_id, study_id, block.submission_ids, block.rows),
            )
        )
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
                "SELECT release_number, row_count, block_count, factor, state FROM releases WHERE study_id = ?"
                " ORDER BY release_number DESC LIMIT 1",
                (study_id,),
            )
            if last is None or last[4] != "open":
                number, rows, blocks, factor = (1 if last is None else last[0] + 1), 0, 0, None
            else:
                number, rows, blocks, factor = last[0], last[1], last[2], factor_from_bytes(last[3])
            rows += masked.shape[0]
            tx.run(
                "INSERT INTO releases (study_id, release_number, row_count, block_count, factor, state)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (study_id, release_number) DO UPDATE SET"
                " row_count = excluded.row_count, block_count = excluded.block_count,"
                " factor = excluded.factor, state = excluded.state",
                (study_id, number, rows, blocks + 1, factor_to_bytes(fold(factor, masked)),
                 "full" if rows >= release_rows else "open"),
            )  # fmt: skip
            tx.run(
                "UPDATE blocks SET state = 'pooled', release_number = ? WHERE block_id = ?",
                (number, block_id),
            )
            return True

        return await self.database.write(write)

    async def mark_erased(self, block_id: bytes) -> None:
        """Every right provider has erased the block."""
        await self.database.write(
            lambda tx: tx.run("UPDATE blocks SET state = 'erased' WHERE block_id = ?", (block_id,))
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
        row = await self.database.read(
            lambda tx: tx.row(
                "SELECT factor FROM releases WHERE study_id = ? AND release_number = ?", (study_id, number)
            )
        )
        if row is None or row[0] is None:
            raise Refused("unknown_dataset", "that release has no factor any more")
        return factor_from_bytes(row[0])

    async def merge_short_release(self, study_id: bytes) -> None:
        """At close, blocks short of N join the last full release that is not published yet."""

        def write(tx: Transaction) -> None:
            last = tx.rows(
                "SELECT release_number, row_count, block_count, factor, state FROM releases WHERE study_id = ?"
                " AND state IN ('open', 'full') ORDER BY release_number DESC LIMIT 2",
                (study_id,),
            )
            if len(last) < 2 or last[0][4] != "open" or last[1][4] != "full":
                return
            short, full = last
            factor = fold(factor_from_bytes(full[3]), factor_from_bytes(short[3]))
            tx.run(
                "UPDATE releases SET row_count = ?, block_count = ?, factor = ? WHERE study_id = ? AND release_number = ?",
                (full[1] + short[1], full[2] + short[2], factor_to_bytes(factor), study_id, full[0]),
            )
            tx.run("DELETE FROM releases WHERE study_id = ? AND release_number = ?", (study_id, short[0]))
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
            tx.run(
                "UPDATE releases SET state = 'published', factor = NULL WHERE study_id = ? AND release_number = ?",
                (study_id, number),
            )

        await self.database.write(write)
        await self.database.scrub()

    async def discard(self, study_id: bytes) -> None:
        """Forget every factor that will never be published."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE releases SET factor = NULL, state = 'discarded' WHERE study_id = ? AND state IN ('open', 'full')",
                (study_id,),
            )
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
