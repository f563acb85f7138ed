"""Withdrawals on disk: a row that is in no block is erased, and its id stays so that it cannot come (again).

Anybody can make up a key. Where its submission is not here, an id is kept only for a caller with an invitation, which is
bound to that id; in an open study, for a bounded number. Once the study accepts nothing more, the provider's statement is
true without anything being kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trimask_core.admission import Admission
from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.audit.log import AuditLog
from trimask_server.right.row_intake import list_again
from trimask_server.right.used_invitations import bind
from trimask_server.store.interface import Store, Transaction

__all__ = ["MOST_UNKNOWN", "WithdrawalStore"]

MOST_UNKNOWN = 1000


@dataclass(frozen=True)
class WithdrawalStore:
    """Beside `RowStore`, in the same tables."""

    database: Store
    audit: AuditLog | None = None
    # Ids kept of submissions that never came, by study; counted in the store once, then here.
    _unknown: dict[bytes, int] = field(default_factory=dict, init=False)

    async def withdraw(
        self,
        study_id: bytes,
        submission_id: bytes,
        now_ms: int,
        *,
        invited: bool = False,
        admission: Admission | None = None,
    ) -> int:
        """Erase a row and refuse its id for ever; when that was first done. Gone from the disk when this returns.

        `invited`: the study is for invited people. The invitation of a verified `admission` is bound to the id where
        its row is not here.
        """

        def write(tx: Transaction) -> tuple[int, bool]:
            self._refuse_counted(tx, study_id, submission_id)
            first = tx.run(
                "UPDATE submissions SET payload = NULL, withdrawn_ms = ? WHERE study_id = ? AND submission_id = ?"
                " AND block_id IS NULL AND draw_number IS NULL AND withdrawn_ms IS NULL",
                (now_ms, study_id, submission_id),
            )
            row = tx.row(
                "SELECT withdrawn_ms FROM submissions WHERE study_id = ? AND submission_id = ?",
                (study_id, submission_id),
            )
            if row is None:
                if not self._takes_in(tx, study_id):
                    return now_ms, False
                # A copy may still arrive.
                if invited:
                    _require_standing(tx, admission, now_ms)
                else:
                    self._count_unknown(tx, study_id)
                first = tx.run(
                    "INSERT INTO submissions"
                    " (study_id, submission_id, payload, payload_hash, receive_time_ms, withdrawn_ms)"
                    " VALUES (?, ?, NULL, ?, ?, ?)",
                    (study_id, submission_id, b"", now_ms, now_ms),
                )
                row = (now_ms,)
            if row[0] is None:
                raise Refused(
                    Reason.ALREADY_IN_BLOCK,
                    "this submission is already being combined with others: it can no longer be told apart from them, "
                    "so it cannot be found or removed",
                )
            if first:
                list_again(tx, study_id, submission_id)
            if first and self.audit is not None:
                self.audit.append(tx, "submission_withdrawn", study=study_id.hex(), rows=1)
            return int(row[0]), bool(first)

        withdrawn_ms, changed = await self.database.write(write)
        if changed:
            await self.database.scrub()
        return withdrawn_ms

    def forget(self, study_id: bytes) -> None:
        """Forget what is counted for a study that is erased."""
        self._unknown.pop(study_id, None)

    def _takes_in(self, tx: Transaction, study_id: bytes) -> bool:
        """Whether the study may still accept rows here; true also for a study that the operator has refused."""
        row = tx.row("SELECT state FROM studies WHERE study_id = ?", (study_id,))
        return row is not None and row[0] in ("open", "paused", "refused")

    def _refuse_counted(self, tx: Transaction, study_id: bytes, submission_id: bytes) -> None:
        """While a draw has a row, all right providers rely on it; while a study closes, what is there was counted: without
        it the others' rows might be too few, and erased."""
        if tx.row(
            "SELECT 1 FROM submissions s JOIN studies t ON t.study_id = s.study_id WHERE s.study_id = ?"
            " AND s.submission_id = ? AND s.block_id IS NULL AND s.payload IS NOT NULL"
            " AND (s.draw_number IS NOT NULL OR t.turn % 2 = 1 OR t.state = 'closing')",
            (study_id, submission_id),
        ):
            raise Refused(
                Reason.STUDY_PAUSED, "this submission may be combined with others now; try again later"
            )

    def _count_unknown(self, tx: Transaction, study_id: bytes) -> None:
        kept = self._unknown.get(study_id)
        if kept is None:
            row = tx.row(
                "SELECT count(*) FROM submissions WHERE study_id = ? AND block_id IS NULL AND payload_hash = ?",
                (study_id, b""),
            )
            kept = 0 if row is None else int(row[0])
        if kept >= MOST_UNKNOWN:
            self._unknown[study_id] = kept
            raise Refused(
                Reason.TOO_MANY_WITHDRAWALS,
                "nothing of that submission is here, and too many that are not here were withdrawn; try again later",
            )
        self._unknown[study_id] = kept + 1


def _require_standing(tx: Transaction, admission: Admission | None, now_ms: int) -> None:
    if admission is None:
        raise Refused(
            Reason.NO_INVITATION,
            "nothing of that submission is here; to keep it out before it comes, show its invitation",
        )
    bind(tx, admission, now_ms)
