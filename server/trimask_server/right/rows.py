"""A right provider's rows on disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from trimask_core.errors import Refused
from trimask_core.submission import SUBMISSION_ID_BYTES
from trimask_server.store.interface import Store, Transaction

__all__ = ["RowStore", "split_ids"]


def split_ids(joined: bytes) -> list[bytes]:
    """16-byte ids from their concatenation."""
    if len(joined) % SUBMISSION_ID_BYTES:
        raise Refused("malformed", f"submission ids must have {SUBMISSION_ID_BYTES} bytes each")
    return [joined[i : i + SUBMISSION_ID_BYTES] for i in range(0, len(joined), SUBMISSION_ID_BYTES)]


@dataclass(frozen=True)
class RowStore:
    """Rows: taken in once, in at most one block, for ever; erased with their block."""

    database: Store

    async def refuse_conflict(self, study_id: bytes, submission_id: bytes, payload: bytes) -> None:
        """Refuse bytes other than those that were taken in under this id."""
        digest = hashlib.sha256(payload).digest()
        await self.database.read(lambda tx: _known(tx, study_id, submission_id, digest))

    async def insert(
        self, study_id: bytes, submission_id: bytes, payload: bytes, now_ms: int, digest: bytes = b""
    ) -> int:
        """Take a sealed component in; when it was first taken in. On disk when this returns."""
        digest = digest or hashlib.sha256(payload).digest()

        def write(tx: Transaction) -> int:
            # One statement where nothing is amiss; what is amiss is found out afterwards.
            inserted = tx.run(
                "INSERT INTO submissions (study_id, submission_id, payload, payload_hash, receive_time_ms)"
                " SELECT ?, ?, ?, ?, ? FROM studies WHERE study_id = ? AND state = 'open'"
                " ON CONFLICT (study_id, submission_id) DO NOTHING",
                (study_id, submission_id, payload, digest, now_ms, study_id),
            )
            if inserted:
                return now_ms
            known = _known(tx, study_id, submission_id, digest)
            if known is None:
                raise Refused("study_closed", "this study takes no more submissions")
            return known

        return await self.database.write(write)

    async def pending(self, study_id: bytes, after: int, limit: int) -> list[tuple[int, bytes]]:
        """(sequence, id) of rows not in a block, in order of arrival."""
        return await self.database.read(
            lambda tx: [
                (row[0], row[1])
                for row in tx.rows(
                    "SELECT sequence, submission_id FROM submissions WHERE study_id = ? AND block_id IS NULL"
                    " AND payload IS NOT NULL AND sequence > ? ORDER BY sequence LIMIT ?",
                    (study_id, after, limit),
                )
            ]
        )

    async def assign(self, study_id: bytes, block_id: bytes, ids: list[bytes]) -> list[bytes]:
        """Bind rows to a block: all of them, or none and the ids that were withdrawn."""
        joined = b"".join(ids)

        def write(tx: Transaction) -> list[bytes]:
            block = tx.row(
                "SELECT study_id, submission_ids, cancelled FROM blocks WHERE block_id = ?", (block_id,)
            )
            if block is not None:
                if block[2]:
                    raise Refused("block_cancelled", "this block was cancelled; plan another")
                if block[:2] != (study_id, joined):
                    raise Refused("row_already_used", "this block was planned before with other rows")
                return []
            withdrawn = []
            for submission_id in ids:
                row = tx.row(
                    "SELECT block_id, payload IS NULL, withdrawn_ms FROM submissions"
                    " WHERE study_id = ? AND submission_id = ?",
                    (study_id, submission_id),
                )
                if row is None:
                    raise Refused("unknown_row", "the plan names a submission this provider does not hold")
                if row[2] is not None:
                    withdrawn.append(submission_id)
                elif row[0] is not None or row[1]:
                    raise Refused(
                        "row_already_used", "the plan names a row that is in another block, or erased"
                    )
            if withdrawn:
                return withdrawn
            tx.run(
                "INSERT INTO blocks (block_id, study_id, submission_ids) VALUES (?, ?, ?)",
                (block_id, study_id, joined),
            )
            tx.run_many(
                "UPDATE submissions SET block_id = ? WHERE study_id = ? AND submission_id = ?",
                [(block_id, study_id, submission_id) for submission_id in ids],
            )
            return []

        return await self.database.write(write)

    async def cancel(self, study_id: bytes, block_id: bytes) -> None:
        """Free the rows of a block that was never masked here; its id is never planned (again)."""

        def write(tx: Transaction) -> None:
            block = tx.row("SELECT study_id, started FROM blocks WHERE block_id = ?", (block_id,))
            if block is None:
                tx.run(
                    "INSERT INTO blocks (block_id, study_id, submission_ids, cancelled) VALUES (?, ?, ?, 1)",
                    (block_id, study_id, b""),
                )
                return
            if block[0] != study_id:
                raise Refused("unknown_block", "this provider was given no plan for that block")
            if block[1]:
                # X^k B_k of these rows may be out: in a second block they could be told apart by comparing the two.
                raise Refused(
                    "block_started", "this provider has begun to mask that block; it stays as it is"
                )
            tx.run("UPDATE submissions SET block_id = NULL WHERE block_id = ?", (block_id,))
            tx.run("UPDATE blocks SET cancelled = 1 WHERE block_id = ?", (block_id,))

        await self.database.write(write)

    async def start(self, study_id: bytes, block_id: bytes) -> list[tuple[bytes, bytes]]:
        """Note that masking begins, and (id, sealed payload) of the block's rows, sorted by id."""

        def write(tx: Transaction) -> list[tuple[bytes, bytes]]:
            block = tx.row("SELECT study_id, erased, cancelled FROM blocks WHERE block_id = ?", (block_id,))
            if block is None or block[0] != study_id:
                raise Refused("unknown_block", "this provider was given no plan for that block")
            if block[1]:
                raise Refused("row_already_used", "that block is pooled and erased")
            if block[2]:
                raise Refused("block_cancelled", "this block was cancelled; plan another")
            tx.run("UPDATE blocks SET started = 1 WHERE block_id = ?", (block_id,))
            return [
                (row[0], row[1])
                for row in tx.rows(
                    "SELECT submission_id, payload FROM submissions WHERE block_id = ? ORDER BY submission_id",
                    (block_id,),
                )
            ]

        return await self.database.write(write)

    async def erase_block(self, study_id: bytes, block_id: bytes) -> int:
        """Erase a block's rows; how many it had. Erasing twice is erasing once."""

        def write(tx: Transaction) -> int:
            block = tx.row("SELECT study_id, submission_ids FROM blocks WHERE block_id = ?", (block_id,))
            if block is None or block[0] != study_id:
                raise Refused("unknown_block", "this provider was given no plan for that block")
            tx.run("UPDATE submissions SET payload = NULL WHERE block_id = ?", (block_id,))
            tx.run("UPDATE blocks SET erased = 1 WHERE block_id = ?", (block_id,))
            return len(block[1]) // SUBMISSION_ID_BYTES

        rows = await self.database.write(write)
        await self.database.scrub()
        return rows

    async def erase_pending(self, study_id: bytes) -> int:
        """Erase every row of a study that is in no block; how many there were."""

        def write(tx: Transaction) -> int:
            return tx.run(
                "UPDATE submissions SET payload = NULL WHERE study_id = ? AND block_id IS NULL AND payload IS NOT NULL",
                (study_id,),
            )

        rows = await self.database.write(write)
        await self.database.scrub()
        return rows


def _known(tx: Transaction, study_id: bytes, submission_id: bytes, digest: bytes) -> int | None:
    row = tx.row(
        "SELECT payload_hash, receive_time_ms, withdrawn_ms FROM submissions WHERE study_id = ? AND submission_id = ?",
        (study_id, submission_id),
    )
    if row is None:
        return None
    if row[2] is not None:
        raise Refused("submission_withdrawn", "this submission was withdrawn and cannot come again")
    if row[0] != digest:
        raise Refused("conflicting_submission", "this submission id was used before with other bytes")
    return int(row[1])
