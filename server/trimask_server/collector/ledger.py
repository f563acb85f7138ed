"""What the collector keeps on disk of every study, whatever its suite: plans, progress, notes, and when it opens.

For the console: complete submissions day by day, and invitations the owner made. A study with a scheduled opening is the
collector's alone until then, so no node accepts submissions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.release_files import plan_hash, split_ids
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.row_draw_pb2 import RowDraw
from trimask_server.runtime.audit import AuditLog
from trimask_server.store import release_table
from trimask_server.store.interface import Store, Transaction
from trimask_server.store.release_table import IN_A_BLOCK, Block, BlockState, ReleaseState

DAY_MS = 86_400_000
_OWN_TABLES = (
    "close_orders", "complete_by_day", "invited", "notes", "progress", "provider_generations", "refused_reports",
    "scheduled_opens",
)  # fmt: skip
NOT_CLOSED = "not closed: "
"""How a note begins that says why a study which was to close stays open."""


class Named(NamedTuple):
    """A block or a release that its owner names, to give it up. `why` is what is then said of it."""

    block_id: bytes
    """Empty for a release."""
    rows: int
    state: str
    """How it is, in words."""
    healthy: bool
    why: str
    given_up: bool = False


def _named(tx: Transaction, study_id: bytes, named: bytes | int) -> Named:
    if isinstance(named, int):
        return _named_release(tx, study_id, named)
    found = [
        block
        for block in release_table.find_blocks(tx, study_id, IN_A_BLOCK)
        if block.block_id.startswith(named)
    ]
    if len(found) != 1:
        raise Refused(Reason.UNKNOWN_BLOCK, f"{len(found)} blocks of this study have an id that begins so")
    (block,) = found
    block_id, rows, attempts, why = block.block_id, block.rows, block.attempts, block.why
    if block.state in (BlockState.POOLED, BlockState.ERASED):
        raise Refused(Reason.OUT_OF_STEP, "that block is pooled; its rows can no longer be taken out")
    name = f"block {block_id.hex()[:12]}"
    if block.state is not BlockState.PLANNED:
        return Named(
            block_id, rows, f"{name} is given up already: {why}", healthy=False, why=why, given_up=True
        )
    # The first attempt may be under way; whoever begins another has seen one fail.
    if attempts < 2:
        made = "attempt 1 is under way" if attempts else "no attempt was made yet"
        said = f"{name} with its {rows} rows waits to be pooled, and none has failed: {made}"
        return Named(
            block_id, rows, said, healthy=True, why="the study's owner gave it up, though nothing had failed"
        )
    said = f"{name} with its {rows} rows is in attempt {attempts}: those before it failed"
    return Named(
        block_id, rows, said, healthy=False, why=f"the study's owner gave it up in attempt {attempts}"
    )


def _named_release(tx: Transaction, study_id: bytes, number: int) -> Named:
    release = release_table.find_release(tx, study_id, number)
    if release is None or release.state is not ReleaseState.FULL:
        known = "" if release is None else f": it is {release.state}"
        raise Refused(Reason.UNKNOWN_BLOCK, f"no release {number} of this study waits to be published{known}")
    rows, refused = release.rows, release.refused
    why = f"the study's owner gave release {number} up"
    if refused:
        said = f"release {number} with its {rows} rows waits: a right provider refuses it with {refused}"
        return Named(
            b"", rows, said, healthy=False, why=f"{why}, which a right provider refused with {refused}"
        )
    said = f"release {number} with its {rows} rows is complete and waits to be published"
    return Named(b"", rows, said, healthy=True, why=f"{why}, though nothing had failed")


@dataclass(frozen=True)
class Invited:
    """Invitations made at one time, as the owner noted them; nothing else records how many there are."""

    made_ms: int
    count: int
    expire_ms: int


@dataclass(frozen=True)
class Ledger:
    """Blocks and progress; what is decided here goes into the audit log with it."""

    database: Store
    audit: AuditLog | None = None

    def _record(self, tx: Transaction, kind: str, **details: str | int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, **details)

    async def blocks(self, study_id: bytes, *states: BlockState) -> list[Block]:
        """Blocks in the given states, in the order they were planned."""
        return await self.database.read(lambda tx: release_table.find_blocks(tx, study_id, states))

    async def plan(self, study_id: bytes, block_id: bytes, ids: list[bytes]) -> Block:
        """Write a plan to disk before it is sent to anybody."""
        joined = b"".join(ids)
        await self.database.write(lambda tx: plan_block(tx, self.audit, study_id, block_id, joined))
        return Block(block_id, joined, len(ids), BlockState.PLANNED, 0)

    async def note_bound(self, block_id: bytes, signatures: bytes) -> None:
        """Every right provider has bound the block's rows, and signed that."""
        await self.database.write(lambda tx: release_table.note_bound(tx, block_id, signatures))

    async def cancel(self, study_id: bytes, block_id: bytes) -> bool:
        """Give up a plan that a provider declined before any attempt, and only then tell the others; False if its owner has
        given it up meanwhile."""

        def write(tx: Transaction) -> bool:
            block = release_table.find_block(tx, study_id, block_id)
            if block.state is not BlockState.PLANNED or block.attempts:
                return False
            release_table.move_block(tx, study_id, block_id, BlockState.CANCELLED)
            return True

        return await self.database.write(write)

    async def mark_released(self, study_id: bytes, block_id: bytes) -> None:
        """Every right provider has freed the rows of a cancelled block."""
        await self.database.write(
            lambda tx: release_table.move_block(tx, study_id, block_id, BlockState.RELEASED)
        )

    async def next_attempt(self, block_id: bytes) -> int:
        """The number of a new attempt, never used before, even across a crash."""

        def write(tx: Transaction) -> int:
            number = release_table.count_attempt(tx, block_id)
            self._record(tx, "try_begun", block=block_id.hex(), number=number)
            return number

        return await self.database.write(write)

    async def failed_attempts(self, study_id: bytes) -> int:
        """Attempts that did not end in a pooled block."""
        blocks = await self.blocks(study_id, *IN_A_BLOCK)
        return sum(
            block.attempts - (block.state in (BlockState.POOLED, BlockState.ERASED)) for block in blocks
        )

    async def abandoned(self, study_id: bytes) -> list[Block]:
        """The blocks that were given up: their rows are in no release."""
        return await self.blocks(study_id, BlockState.GIVEN_UP, BlockState.ABANDONED)

    async def give_up(self, study_id: bytes, block_id: bytes, why: str) -> bool:
        """Give a block up for good; False if it was pooled or given up before. It is on disk before anybody learns of it."""

        def write(tx: Transaction) -> bool:
            if release_table.find_block(tx, study_id, block_id).state is not BlockState.PLANNED:
                return False
            release_table.move_block(tx, study_id, block_id, BlockState.GIVEN_UP, why)
            self._record(tx, "block_given_up", study=study_id.hex(), block=block_id.hex(), why=why)
            return True

        return await self.database.write(write)

    async def look_at(self, study_id: bytes, named: bytes | int) -> Named:
        """How a block is, by how its id begins, or a release by its number; `Refused` if it cannot be given up."""
        return await self.database.read(lambda tx: _named(tx, study_id, named))

    async def abandon(self, study_id: bytes, named: bytes | int, *, healthy: bool) -> Named:
        """The owner gives it up; unless they insist, only what has failed: that is decided here, where it is written."""

        def write(tx: Transaction) -> Named:
            found = _named(tx, study_id, named)
            if found.given_up:
                return found
            if found.healthy and not healthy:
                raise Refused(
                    Reason.NOT_YET,
                    f"{found.state}. Nothing is wrong with it: `--healthy` gives it up and erases its {found.rows} rows",
                )
            if isinstance(named, int):
                release_table.move(tx, study_id, named, ReleaseState.DISCARDED)
                blocks = [block.block_id for block in release_table.blocks_of(tx, study_id, named)]
                self._record(tx, "release_given_up", study=study_id.hex(), why=found.why, release=named)
            else:
                blocks, shown = [found.block_id], found.block_id.hex()
                self._record(tx, "block_given_up", study=study_id.hex(), why=found.why, block=shown)
            for block_id in blocks:
                release_table.move_block(tx, study_id, block_id, BlockState.GIVEN_UP, found.why)
            return found

        return await self.database.write(write)

    async def mark_erased(self, study_id: bytes, block_id: bytes) -> None:
        """Every right provider has erased the block, pooled or given up."""

        def write(tx: Transaction) -> None:
            pooled = release_table.find_block(tx, study_id, block_id).state is BlockState.POOLED
            state = BlockState.ERASED if pooled else BlockState.ABANDONED
            release_table.move_block(tx, study_id, block_id, state)
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

    async def note_pending(self, study_id: bytes, rows: int) -> None:
        """Store how many complete submissions wait for a block, so that other workers can report it."""
        if await self.database.read(lambda tx: pending_rows(tx, study_id)) != rows:
            await self.database.write(
                lambda tx: tx.run(
                    "INSERT INTO progress (study_id, pending_rows) VALUES (?, ?)"
                    " ON CONFLICT (study_id) DO UPDATE SET pending_rows = excluded.pending_rows",
                    (study_id, rows),
                )
            )

    async def keep_close_order(self, study_id: bytes, order: CloseOrder) -> None:
        """Keep the owner's last order to close the study."""

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO close_orders (study_id, content) VALUES (?, ?)"
                " ON CONFLICT (study_id) DO UPDATE SET content = excluded.content",
                (study_id, order.SerializeToString()),
            )
            self._record(
                tx,
                "close_ordered",
                study=study_id.hex(),
                close_ms=order.close_time_ms,
                people=order.close_people,
            )

        await self.database.write(write)

    async def close_order(self, study_id: bytes) -> CloseOrder | None:
        """The owner's order to close the study, which right providers ask for."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT content FROM close_orders WHERE study_id = ?", (study_id,))
        )
        return None if row is None else CloseOrder.FromString(row[0])

    async def abandon_draw(
        self, study_id: bytes, number: int, order: bytes, *, healthy: bool, look: bool
    ) -> Named:
        """Keep the owner's order to give up a draw that is under way (right providers are told next), or only `look`."""

        def write(tx: Transaction) -> Named:
            under_way = "SELECT content FROM draws WHERE study_id = ? AND number = ? AND state = 'open'"
            row = tx.row(under_way, (study_id, number))
            if row is None:
                raise Refused(Reason.UNKNOWN_BLOCK, f"no draw {number} of this study is under way")
            note = tx.row("SELECT note FROM notes WHERE study_id = ?", (study_id,))
            stuck = note is not None and str(note[0]).startswith(f"draw {number} ")
            lists = [set(split_ids(rows.submission_ids)) for rows in RowDraw.FromString(row[0]).lists]
            found = Named(
                b"",
                len(set.intersection(*lists)) if lists else 0,
                str(note[0]) if note is not None and stuck else f"draw {number} is under way",
                healthy=not stuck,
                why=f"the study's owner gave draw {number} up",
            )
            if not look and (stuck or healthy):
                tx.run(
                    "UPDATE draws SET abandon_order = ? WHERE study_id = ? AND number = ?",
                    (order, study_id, number),
                )
                self._record(tx, "draw_given_up", study=study_id.hex(), draw=number)
            return found

        return await self.database.write(write)

    async def refused_reports(self, study_id: bytes) -> dict[str, int]:
        """Reports that the right providers' check refused, by reason, where the suite has such a check."""
        return await self.database.read(
            lambda tx: {
                str(row[0]): int(row[1])
                for row in tx.rows(
                    "SELECT reason, count FROM refused_reports WHERE study_id = ? ORDER BY reason",
                    (study_id,),
                )
            }
        )

    async def note(self, study_id: bytes, note: str) -> None:
        """Store a note for the study's owner."""
        await self.database.write(lambda tx: write_note(tx, study_id, note))

    async def read_note(self, study_id: bytes) -> str:
        """The note, or nothing."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT note FROM notes WHERE study_id = ?", (study_id,))
        )
        return "" if row is None else str(row[0])

    # What the console shows

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

    # Openings for later

    async def schedule_open(self, signed: SignedStudy, open_ms: int) -> None:
        """Schedule the opening, replacing an earlier time."""
        study_id = signed.study.id

        def write(tx: Transaction) -> None:
            tx.run("DELETE FROM scheduled_opens WHERE study_id = ?", (study_id,))
            tx.run(
                "INSERT INTO scheduled_opens (study_id, open_ms, signed_study) VALUES (?, ?, ?)",
                (study_id, open_ms, signed.to_json().encode()),
            )
            self._record(tx, "open_scheduled", study=study_id.hex(), open_ms=open_ms)

        await self.database.write(write)

    async def opens_due(self, now_ms: int) -> list[SignedStudy]:
        """The studies that are due."""
        rows = await self.database.read(
            lambda tx: tx.rows(
                "SELECT signed_study FROM scheduled_opens WHERE open_ms <= ? ORDER BY open_ms", (now_ms,)
            )
        )
        return [SignedStudy.from_json(bytes(row[0])) for row in rows]

    async def is_scheduled(self, study_id: bytes) -> bool:
        """Whether this study waits for its time."""
        return await self.database.read(
            lambda tx: tx.row("SELECT 1 FROM scheduled_opens WHERE study_id = ?", (study_id,)) is not None
        )

    async def end_scheduled(self, study_id: bytes) -> None:
        """The study has been opened."""
        await self.database.write(
            lambda tx: tx.run("DELETE FROM scheduled_opens WHERE study_id = ?", (study_id,))
        )

    async def refuse_early(self, study_id: bytes) -> None:
        """Refuse a call about a study that is not open yet, and say when it opens."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT open_ms FROM scheduled_opens WHERE study_id = ?", (study_id,))
        )
        if row is not None:
            when = f"{datetime.fromtimestamp(int(row[0]) / 1000, UTC):%Y-%m-%d %H:%M} UTC"
            raise Refused(Reason.UNKNOWN_STUDY, f"this study opens by itself on {when}")


def plan_block(
    tx: Transaction, audit: AuditLog | None, study_id: bytes, block_id: bytes, submission_ids: bytes
) -> None:
    """Write a plan down, as a part of a transaction; a block that is known stays as it is."""
    if not release_table.plan_block(tx, study_id, block_id, submission_ids):
        return
    rows = len(submission_ids) // SUBMISSION_ID_BYTES
    # They wait no longer; else they would be counted twice until the next count.
    tx.run(
        "UPDATE progress SET pending_rows = pending_rows - ? WHERE study_id = ? AND pending_rows >= ?",
        (rows, study_id, rows),
    )
    if audit is not None:
        plan = plan_hash(study_id, block_id, submission_ids).hex()
        audit.append(tx, "block_planned", study=study_id.hex(), block=block_id.hex(), rows=rows, plan=plan)


def work_by_study(tx: Transaction) -> dict[bytes, list[object]]:
    """What calls for work, by study: its state, its owner's last order, and blocks with which there is something to do. It
    changes where an owner has a study closed, or something of it given up, at another worker of this node."""
    found: dict[bytes, list[object]] = {}
    for sql in (
        "SELECT study_id, state FROM studies WHERE state NOT IN ('closed', 'collected')",
        "SELECT study_id, content FROM close_orders",
    ):
        for row in tx.rows(sql):
            found.setdefault(bytes(row[0]), []).append(row[1:])
    for study_id, state, count in release_table.count_unfinished(tx):
        found.setdefault(study_id, []).append((state, count))
    return found


def pending_rows(tx: Transaction, study_id: bytes) -> int:
    """Complete submissions in no block, as last counted."""
    row = tx.row("SELECT pending_rows FROM progress WHERE study_id = ?", (study_id,))
    return 0 if row is None else int(row[0])


def write_note(tx: Transaction, study_id: bytes, note: str) -> None:
    """Store a note for the study's owner."""
    tx.run(
        "INSERT INTO notes (study_id, note) VALUES (?, ?) ON CONFLICT (study_id) DO UPDATE SET note = excluded.note",
        (study_id, note),
    )


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase progress and notes; published datasets stay."""
    for table in _OWN_TABLES:
        tx.run(f"DELETE FROM {table} WHERE study_id = ?", (study_id,))  # noqa: S608 - names only
    return 0
