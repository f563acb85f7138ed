"""A right provider's checks of rows on disk: a row is in one check for ever, and a check has one seed.

What was opened of a row is a fixed function of the row and the seed, so nothing is opened twice under other directions,
whatever is asked again; and the directions can be taken out of the row whenever it is masked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.audit.log import AuditLog
from trimask_server.operations.refusal_counts import add_counts
from trimask_server.right.row_intake import list_again
from trimask_server.store.interface import Store, Transaction

__all__ = ["CheckStore"]

_MARKS: dict[Reason | None, int] = {None: 1, Reason.OUT_OF_FRAME: 0, Reason.WRONG_TAGS: -1}
"""The column `verdict`."""
_WHY = {code: reason for reason, code in _MARKS.items()}


@dataclass(frozen=True)
class CheckStore:
    """The table `row_checks`, and what is noted beside each row. Of a check that was not begun here, but is one of the
    present draw's, `held` is empty."""

    database: Store
    audit: AuditLog | None = None

    async def bind(self, study_id: bytes, check_id: bytes, ids: Sequence[bytes]) -> bytes:
        """Bind the rows of a draw's check to it; for each, 1 if it is here and in no other check or block, else 0. The first
        answer stays."""

        def write(tx: Transaction) -> bytes:
            known = _find(tx, study_id, check_id)
            if known is None or known[0] != b"".join(ids):
                raise Refused(Reason.CHECK_DIFFERS, "no draw has a check of these rows here")
            if known[1]:
                return known[1]
            held = bytes(
                tx.run(
                    "UPDATE submissions SET check_id = ? WHERE study_id = ? AND submission_id = ? AND block_id IS NULL"
                    " AND payload IS NOT NULL AND check_id IS NULL",
                    (check_id, study_id, submission_id),
                )
                for submission_id in ids
            )
            _put(tx, study_id, check_id, ids, held)
            return held

        return await self.database.write(write)

    async def fix(
        self,
        study_id: bytes,
        check_id: bytes,
        ids: Sequence[bytes],
        held: bytes,
        commitments: bytes,
        seed: bytes | None = None,
    ) -> None:
        """Take what all have committed to, and then the seed, for this check's; refused if it has others.

        `held` is what this provider has signed. A store that was restored from before the check learns of it here.
        """

        def write(tx: Transaction) -> None:
            known = _find(tx, study_id, check_id)
            if known is None or not known[1]:
                _put(tx, study_id, check_id, ids, held)
            elif (known[0], known[1]) != (b"".join(ids), held) or known[2] not in (None, commitments):
                raise Refused(Reason.CHECK_DIFFERS, "this provider knows the check with other commitments")
            # Rows that were bound before the store was restored, and have come again since.
            tx.run_many(
                "UPDATE submissions SET check_id = ? WHERE study_id = ? AND submission_id = ? AND check_id IS NULL",
                [(check_id, study_id, name) for name, mark in zip(ids, held, strict=True) if mark],
            )
            tx.run(
                "UPDATE row_checks SET commitments = ?, seed = coalesce(seed, ?) WHERE study_id = ? AND check_id = ?",
                (commitments, seed, study_id, check_id),
            )

        await self.database.write(write)

    async def decide(
        self, study_id: bytes, check_id: bytes, verdicts: Mapping[bytes, Reason | None]
    ) -> dict[bytes, Reason | None]:
        """Write down why rows are refused, and erase them, or that they are accepted; what is written, which was perhaps
        decided before."""

        def write(tx: Transaction) -> tuple[dict[bytes, Reason | None], int]:
            marks = [(_MARKS[why], study_id, name, check_id) for name, why in verdicts.items()]
            change = (
                "UPDATE submissions SET verdict = ? WHERE study_id = ? AND submission_id = ? AND check_id = ?"
                " AND verdict IS NULL AND payload IS NOT NULL"
            )
            tx.run_many(change, [mark for mark in marks if mark[0] == _MARKS[None]])
            erase = change.replace("verdict = ?", "verdict = ?, payload = NULL") + " AND block_id IS NULL"
            total = 0
            for reason, code in _MARKS.items():
                if reason is None:
                    continue
                refused = sum(tx.run(erase, mark) for mark in marks if mark[0] == code)
                total += refused
                if refused:
                    for mark in marks:
                        if mark[0] == code:
                            list_again(tx, study_id, mark[2])
                    self._count(tx, study_id, check_id, refused, reason)
            tx.run(
                "UPDATE row_checks SET decided = 1 WHERE study_id = ? AND check_id = ?", (study_id, check_id)
            )
            found = tx.rows(
                "SELECT submission_id, verdict FROM submissions WHERE study_id = ? AND check_id = ?"
                " AND verdict IS NOT NULL",
                (study_id, check_id),
            )
            return {bytes(row[0]): _WHY[row[1]] for row in found}, total

        written, refused = await self.database.write(write)
        if refused:
            await self.database.scrub()
        return written

    def _count(self, tx: Transaction, study_id: bytes, check_id: bytes, refused: int, reason: Reason) -> None:
        add_counts(tx, {str(reason): refused})
        if self.audit is not None:
            self.audit.append(
                tx,
                "rows_refused",
                study=study_id.hex(),
                check=check_id.hex(),
                rows=refused,
                reason=str(reason),
            )

    async def seeds(self, study_id: bytes, block_id: bytes) -> dict[bytes, bytes]:
        """By submission id, the seed that each row of a block was checked with."""
        return await self.database.read(
            lambda tx: {
                bytes(row[0]): bytes(row[1])
                for row in tx.rows(
                    "SELECT s.submission_id, c.seed FROM submissions s JOIN row_checks c"
                    " ON c.study_id = s.study_id AND c.check_id = s.check_id WHERE s.study_id = ? AND s.block_id = ?"
                    " AND c.seed IS NOT NULL",
                    (study_id, block_id),
                )
            }
        )

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase a study's checks; its rows are erased by the row store."""
        tx.run("DELETE FROM row_checks WHERE study_id = ?", (study_id,))
        return 0


def _find(tx: Transaction, study_id: bytes, check_id: bytes) -> tuple[bytes, bytes, bytes | None] | None:
    row = tx.row(
        "SELECT submission_ids, held, commitments FROM row_checks WHERE study_id = ? AND check_id = ?",
        (study_id, check_id),
    )
    return None if row is None else (bytes(row[0]), bytes(row[1]), None if row[2] is None else bytes(row[2]))


def _put(tx: Transaction, study_id: bytes, check_id: bytes, ids: Sequence[bytes], held: bytes) -> None:
    tx.run(
        "INSERT INTO row_checks (study_id, check_id, submission_ids, held) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (study_id, check_id) DO UPDATE SET submission_ids = excluded.submission_ids, held = excluded.held",
        (study_id, check_id, b"".join(ids), held),
    )
