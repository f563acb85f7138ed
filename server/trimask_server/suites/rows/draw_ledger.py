"""The collector's draws and checks of rows on disk: each is written down before it is sent to anybody, with its progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_draw_pb2 import RowDraw
from trimask_server.audit.log import AuditLog
from trimask_server.collector.ledger import plan_block
from trimask_server.protocol.plans import split_ids
from trimask_server.store.interface import Store, Transaction

__all__ = ["DrawLedger"]


@dataclass(frozen=True)
class DrawLedger:
    """The tables `draws` and `row_checks` of a collector."""

    database: Store
    audit: AuditLog | None = None

    async def last(self, study_id: bytes) -> int:
        """The number of the last draw; 0 if there was none."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT max(number) FROM draws WHERE study_id = ?", (study_id,))
        )
        return 0 if row is None or row[0] is None else int(row[0])

    async def begin(self, draw: RowDraw) -> None:
        """Write a draw down."""
        await self.database.write(
            lambda tx: tx.run(
                "INSERT INTO draws (study_id, number, content, state) VALUES (?, ?, ?, 'open')",
                (draw.study_id, draw.number, draw.SerializeToString()),
            )
        )

    async def save(self, draw: RowDraw) -> None:
        """How far it has come."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE draws SET content = ? WHERE study_id = ? AND number = ?",
                (draw.SerializeToString(), draw.study_id, draw.number),
            )
        )

    async def finish(self, draw: RowDraw, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        """Every right provider knows its outcome: its blocks, (id, ids of rows) each, are planned with it."""

        def write(tx: Transaction) -> None:
            first = tx.run(
                "UPDATE draws SET state = 'done' WHERE study_id = ? AND number = ? AND state = 'open'",
                (draw.study_id, draw.number),
            )
            if not first:
                return
            for block_id, ids in blocks:
                plan_block(tx, self.audit, draw.study_id, block_id, ids)
            if self.audit is not None:
                self.audit.append(
                    tx, "draw_over", study=draw.study_id.hex(), draw=draw.number, blocks=len(blocks)
                )

        await self.database.write(write)

    async def unfinished(self, study_id: bytes) -> RowDraw | None:
        """The draw that is under way."""
        return next(iter(await self._draws(study_id, "open")), None)

    async def done(self, study_id: bytes) -> list[RowDraw]:
        """The draws that are over, in their order."""
        return await self._draws(study_id, "done")

    async def _draws(self, study_id: bytes, state: str) -> list[RowDraw]:
        sql = "SELECT content FROM draws WHERE study_id = ? AND state = ? ORDER BY number"
        return await self.database.read(
            lambda tx: [RowDraw.FromString(row[0]) for row in tx.rows(sql, (study_id, state))]
        )

    async def abandon_order(self, draw: RowDraw) -> bytes:
        """The owner's order to give the draw up, if there is one (`collector.ledger`)."""
        sql = "SELECT abandon_order FROM draws WHERE study_id = ? AND number = ?"
        row = await self.database.read(lambda tx: tx.row(sql, (draw.study_id, draw.number)))
        return b"" if row is None or row[0] is None else bytes(row[0])

    async def begin_check(self, check: RowCheck) -> None:
        """Write a check down."""

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO row_checks (study_id, check_id, content, state) VALUES (?, ?, ?, 'open')",
                (check.study_id, check.check_id, check.SerializeToString()),
            )
            self._record(tx, "rows_to_check", check, rows=len(split_ids(check.submission_ids)))

        await self.database.write(write)

    async def save_check(self, check: RowCheck) -> None:
        """How far it has come."""
        await self.database.write(
            lambda tx: tx.run(
                "UPDATE row_checks SET content = ? WHERE check_id = ?",
                (check.SerializeToString(), check.check_id),
            )
        )

    async def check(self, study_id: bytes, check_id: bytes) -> RowCheck | None:
        """A check that was begun."""
        sql = "SELECT content FROM row_checks WHERE study_id = ? AND check_id = ?"
        row = await self.database.read(lambda tx: tx.row(sql, (study_id, check_id)))
        return None if row is None else RowCheck.FromString(row[0])

    async def checks(self, study_id: bytes) -> list[RowCheck]:
        """Those that are decided, in the order they were begun."""
        sql = "SELECT content FROM row_checks WHERE study_id = ? AND state = 'done' ORDER BY sequence"
        return await self.database.read(
            lambda tx: [RowCheck.FromString(row[0]) for row in tx.rows(sql, (study_id,))]
        )

    async def finish_check(self, check: RowCheck, refused: Mapping[str, int]) -> None:
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

    def _record(self, tx: Transaction, kind: str, check: RowCheck, **details: int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, study=check.study_id.hex(), check=check.check_id.hex(), **details)

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase a study's draws and checks, with the ids in them."""
        for table in ("draws", "row_checks"):
            tx.run(f"DELETE FROM {table} WHERE study_id = ?", (study_id,))  # noqa: S608 - names only
        return 0
