"""Withdrawals on disk: a row that is in no block is erased, and its id stays so that it cannot come (again)."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.audit.log import AuditLog
from trimask_server.store.interface import Store, Transaction

__all__ = ["WithdrawalStore"]


@dataclass(frozen=True)
class WithdrawalStore:
    """Beside `RowStore`, in the same tables."""

    database: Store
    audit: AuditLog | None = None

    async def withdraw(self, study_id: bytes, submission_id: bytes, now_ms: int) -> int:
        """Erase a row and refuse its id for ever; when that was first done. Gone from the disk when this returns."""

        def write(tx: Transaction) -> int:
            # Also where it never arrived: a copy may still be on its way.
            first = tx.run(
                "INSERT INTO submissions (study_id, submission_id, payload, payload_hash, receive_time_ms, withdrawn_ms)"
                " VALUES (?, ?, NULL, ?, ?, ?) ON CONFLICT (study_id, submission_id) DO NOTHING",
                (study_id, submission_id, b"", now_ms, now_ms),
            )
            first += tx.run(
                "UPDATE submissions SET payload = NULL, withdrawn_ms = ? WHERE study_id = ? AND submission_id = ?"
                " AND block_id IS NULL AND withdrawn_ms IS NULL",
                (now_ms, study_id, submission_id),
            )
            row = tx.row(
                "SELECT withdrawn_ms FROM submissions WHERE study_id = ? AND submission_id = ?",
                (study_id, submission_id),
            )
            if row is None or row[0] is None:
                raise Refused(
                    Reason.ALREADY_IN_BLOCK,
                    "this submission is already being combined with others: it can no longer be told apart from them, "
                    "so it cannot be found or removed",
                )
            if first and self.audit is not None:
                self.audit.append(tx, "submission_withdrawn", study=study_id.hex(), rows=1)
            return int(row[0])

        withdrawn_ms = await self.database.write(write)
        await self.database.scrub()
        return withdrawn_ms
