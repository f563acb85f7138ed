"""The collector's checks of rows on disk: each is written to disk before it is sent to anybody, with its progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_server.audit.log import AuditLog
from trimask_server.protocol.plans import split_ids
from trimask_server.store.interface import Store, Transaction

__all__ = ["CheckLedger"]


@dataclass(frozen=True)
class CheckLedger:
    """The table `row_checks` of a collector."""

    database: Store
    audit: AuditLog | None = None

    async def begin(self, check: RowCheck) -> None:
        """Write a check down."""

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO row_checks (study_id, check_id, content, state) VALUES (?, ?, ?, 'open')",
                (check.study_id, check.check_id, check.SerializeToString()),
            )
            self._record(tx, "rows_to_check", check, rows=len(split_ids(check.submission_ids)))

        await self.database.write(write)

    async def save(self, check: RowCheck) -> None:
        """How far it has come."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE row_checks SET content = ? WHERE check_id = ?",
                (check.SerializeToString(), check.check_id),
            )
        )

    async def checks(self, study_id: bytes, state: Literal["open", "done"]) -> list[RowCheck]:
        """In the order they were begun."""
        return await self.database.read(
            lambda tx: [
                RowCheck.FromString(row[0])
                for row in tx.rows(
                    "SELECT content FROM row_checks WHERE study_id = ? AND state = ? ORDER BY sequence",
                    (study_id, state),
                )
            ]
        )

    async def finish(self, check: RowCheck, refused: Mapping[str, int]) -> None:
        """Every right provider has decided; refused rows are counted for the study's status."""

        def write(tx: Transaction) -> None:
            first = tx.run(
                "UPDATE row_checks SET state = 'done' WHERE check_id = ? AND state = 'open'",
                (check.check_id,),
            )
            if not first:
                return
            for reason, count in refused.items():
                tx.run(
                    "INSERT INTO refused_reports (study_id, reason, count) VALUES (?, ?, ?)"
                    " ON CONFLICT (study_id, reason) DO UPDATE SET count = refused_reports.count + excluded.count",
                    (check.study_id, reason, count),
                )
            self._record(tx, "rows_checked", check, refused=sum(refused.values()))

        await self.database.write(write)

    async def failed(self, check: RowCheck, most: int) -> bool:
        """One more try at it failed; whether it is given up now, after `most` of them."""

        def write(tx: Transaction) -> bool:
            tx.run("UPDATE row_checks SET tries = tries + 1 WHERE check_id = ?", (check.check_id,))
            given_up = tx.run(
                "UPDATE row_checks SET state = 'abandoned' WHERE check_id = ? AND state = 'open' AND tries >= ?",
                (check.check_id, most),
            )
            if given_up:
                self._record(tx, "check_abandoned", check)
            return bool(given_up)

        return await self.database.write(write)

    def _record(self, tx: Transaction, kind: str, check: RowCheck, **details: int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, study=check.study_id.hex(), check=check.check_id.hex(), **details)

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase a study's checks, with the ids in them."""
        tx.run("DELETE FROM row_checks WHERE study_id = ?", (study_id,))
        return 0
