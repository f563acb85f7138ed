"""Studies with a scheduled opening: until then only the collector has them, so no node accepts submissions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.signed import SignedStudy
from trimask_server.runtime.audit import AuditLog
from trimask_server.store.interface import Store, Transaction


@dataclass(frozen=True)
class ScheduledOpens:
    """The studies with a scheduled opening."""

    database: Store
    audit: AuditLog

    async def put(self, signed: SignedStudy, open_ms: int) -> None:
        """Schedule the opening, replacing an earlier time."""
        study_id = signed.study.id

        def write(tx: Transaction) -> None:
            tx.run("DELETE FROM scheduled_opens WHERE study_id = ?", (study_id,))
            tx.run(
                "INSERT INTO scheduled_opens (study_id, open_ms, signed_study) VALUES (?, ?, ?)",
                (study_id, open_ms, signed.to_json().encode()),
            )
            self.audit.append(tx, "open_scheduled", study=study_id.hex(), open_ms=open_ms)

        await self.database.write(write)

    async def due(self, now_ms: int) -> list[SignedStudy]:
        """The studies that are due."""
        rows = await self.database.read(
            lambda tx: tx.rows(
                "SELECT signed_study FROM scheduled_opens WHERE open_ms <= ? ORDER BY open_ms", (now_ms,)
            )
        )
        return [SignedStudy.from_json(bytes(row[0])) for row in rows]

    async def remove(self, study_id: bytes) -> None:
        """Remove a study that has been opened."""
        await self.database.write(lambda tx: erase_study(tx, study_id))

    async def refuse_early(self, study_id: bytes) -> None:
        """Refuse a call about a study that is not open yet, and say when it opens."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT open_ms FROM scheduled_opens WHERE study_id = ?", (study_id,))
        )
        if row is not None:
            when = f"{datetime.fromtimestamp(int(row[0]) / 1000, UTC):%Y-%m-%d %H:%M} UTC"
            raise Refused(Reason.UNKNOWN_STUDY, f"this study opens by itself on {when}")


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Delete the study's scheduled opening."""
    return tx.run("DELETE FROM scheduled_opens WHERE study_id = ?", (study_id,))
