"""What the console remembers of a study: complete submissions day by day, invitations the owner made, and when to close.

A study with a scheduled opening is the collector's alone until then, so no node accepts submissions.

The console's background task: counts submissions by day, opens studies at their scheduled time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_server.collector.publication import Catalogue
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.store.interface import Store, StoreError, Transaction

_EVERY_SECONDS = 20.0


class Clerk:
    """One loop for all studies of a collector."""

    def __init__(
        self,
        node: NodeContext,
        records: Records,
        opens: ScheduledOpens,
        open_study: Callable[[SignedStudy], Awaitable[None]],
    ) -> None:
        self._node = node
        self._records = records
        self._opens = opens
        self._open = open_study
        self._noted: dict[bytes, tuple[int, int]] = {}  # by study: the day, and how many it had
        node.studies.on_forget.append(lambda study_id: self._noted.pop(study_id, None))

    async def run(self) -> None:
        """Until the node stops."""
        while True:
            await self.open_due()
            with contextlib.suppress(Refused, StoreError):  # the store may be away, and the next round comes
                await self._node.studies.refresh()
            for study in self._node.studies.all():
                try:
                    await self.look(study)
                except Exception as error:  # noqa: BLE001 - the store may be away, and the next round comes
                    self._node.log.warning("console: study=%s %s", study.id.hex()[:12], error)
            await asyncio.sleep(_EVERY_SECONDS)

    async def open_due(self) -> None:
        """Open the studies that are due; a node that does not answer is asked again in the next round."""
        try:
            for signed in await self._opens.due(self._node.clock.now_ms()):
                await self._open(signed)
        except Exception as error:  # noqa: BLE001 - a node or the store may be away, and the next round comes
            self._node.log.warning("a study that was to open by now is not open yet: %s", error)

    async def look(self, study: Study) -> None:
        """One study, once."""
        if self._node.studies.state(study.id) != "open":
            return
        now_ms, complete = (
            self._node.clock.now_ms(),
            await Catalogue(self._node.database).people(study.id),
        )
        if self._noted.get(study.id) != (now_ms // DAY_MS, complete):
            await self._records.note_complete(study.id, now_ms, complete)
            self._noted[study.id] = (now_ms // DAY_MS, complete)


DAY_MS = 86_400_000


@dataclass(frozen=True)
class Invited:
    """Invitations made at one time, as the owner noted them; nothing else records how many there are."""

    made_ms: int
    count: int
    expire_ms: int


@dataclass(frozen=True)
class Records:
    """The tables of the console."""

    database: Store
    audit: AuditLog

    async def note_complete(self, study_id: bytes, now_ms: int, complete: int) -> None:
        """Record how many complete submissions there are; each day keeps its largest count."""

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO complete_by_day (study_id, day, complete) VALUES (?, ?, ?) ON CONFLICT (study_id, day)"
                " DO UPDATE SET complete = excluded.complete WHERE complete_by_day.complete < excluded.complete",
                (study_id, now_ms // DAY_MS, complete),
            )

        await self.database.write(write)

    async def days(self, study_id: bytes) -> list[tuple[int, int]]:
        """(day since 1970, complete submissions by its end), oldest first."""
        rows = await self.database.read(
            lambda tx: tx.rows(
                "SELECT day, complete FROM complete_by_day WHERE study_id = ? ORDER BY day", (study_id,)
            )
        )
        return [(int(row[0]), int(row[1])) for row in rows]

    async def note_invited(self, study_id: bytes, made: Invited) -> None:
        """Record that the owner made this many invitations."""
        await self.database.write(
            lambda tx: tx.run(
                "INSERT INTO invited (study_id, made_ms, count, expire_ms) VALUES (?, ?, ?, ?)",
                (study_id, made.made_ms, made.count, made.expire_ms),
            )
        )

    async def invited(self, study_id: bytes) -> list[Invited]:
        """All that were noted, oldest first."""
        rows = await self.database.read(
            lambda tx: tx.rows(
                "SELECT made_ms, count, expire_ms FROM invited WHERE study_id = ? ORDER BY made_ms",
                (study_id,),
            )
        )
        return [Invited(int(row[0]), int(row[1]), int(row[2])) for row in rows]


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase what the console remembers of a study."""
    return sum(
        tx.run(f"DELETE FROM {table} WHERE study_id = ?", (study_id,))  # noqa: S608 - names only
        for table in ("complete_by_day", "invited")
    )


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

    async def has(self, study_id: bytes) -> bool:
        """Whether this study waits for its time."""
        return await self.database.read(
            lambda tx: tx.row("SELECT 1 FROM scheduled_opens WHERE study_id = ?", (study_id,)) is not None
        )

    async def remove(self, study_id: bytes) -> None:
        """Remove a study that has been opened."""
        await self.database.write(lambda tx: erase_scheduled(tx, study_id))

    async def refuse_early(self, study_id: bytes) -> None:
        """Refuse a call about a study that is not open yet, and say when it opens."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT open_ms FROM scheduled_opens WHERE study_id = ?", (study_id,))
        )
        if row is not None:
            when = f"{datetime.fromtimestamp(int(row[0]) / 1000, UTC):%Y-%m-%d %H:%M} UTC"
            raise Refused(Reason.UNKNOWN_STUDY, f"this study opens by itself on {when}")


def erase_scheduled(tx: Transaction, study_id: bytes) -> int:
    """Delete the study's scheduled opening."""
    return tx.run("DELETE FROM scheduled_opens WHERE study_id = ?", (study_id,))
