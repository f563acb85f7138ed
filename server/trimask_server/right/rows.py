"""A right provider's rows on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.submit.invitation import Admission
from trimask_core.submit.release_files import plan_hash, split_ids
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_server.right.row_intake import (
    Arrival,
    first_time,
    insert_rows,
    known_since,
    or_raise,
    why_refused,
)
from trimask_server.runtime.audit import AuditLog
from trimask_server.store import held_blocks
from trimask_server.store.data_keys import INTAKE, DataKey, Vault, block_scope, destroy_keys
from trimask_server.store.held_blocks import HeldState
from trimask_server.store.interface import Store, Transaction

_AT_ONCE = 500  # rows named in one statement
Has = Callable[
    [bytes, bytes], bool
]  # whether a caller has the payload of an id, and of a hash of its sealed bytes


@dataclass(frozen=True)
class RowStore:
    """Rows: each accepted once, in at most one block, permanently; erased with their block.

    A row arrives sealed and is encrypted once more: under its study's intake key while it waits, under its block's key
    from the moment it is in one. Erasing a block destroys that key, so that no copy of the rows can be read.
    """

    database: Store
    vault: Vault
    audit: AuditLog | None = None
    # Unwrapped once a study: an insert costs one encryption. Only keys that are committed are here.
    _intake: dict[bytes, DataKey] = field(default_factory=dict, init=False, repr=False)
    # Blocks that this process has erased, from the disk too, and is to be told to erase once more.
    scrubbed: set[bytes] = field(default_factory=set, init=False, repr=False)

    async def refuse_conflict(self, study_id: bytes, submission_id: bytes, payload: bytes) -> int | None:
        """Refuse bytes other than those accepted under this id; when these were accepted, if they were."""
        digest = hashlib.sha256(payload).digest()
        return await self.database.read(lambda tx: known_since(tx, study_id, submission_id, digest))

    async def why_refused(self, study_id: bytes, submission_id: bytes, digest: bytes) -> Reason | None:
        """Why a submission accepted earlier is refused now; None if it is not.

        Only for a caller that knows the digest of its bytes.
        """
        return await self.database.read(lambda tx: why_refused(tx, study_id, submission_id, digest))

    async def insert(
        self,
        study_id: bytes,
        submission_id: bytes,
        payload: bytes,
        now_ms: int,
        digest: bytes = b"",
        admission: Admission | None = None,
    ) -> int:
        """Store a sealed component; when it was first stored. On disk when this returns.

        The invitation of a verified `admission` is bound to the submission in the same transaction.
        """
        digest = digest or hashlib.sha256(payload).digest()
        key = self._intake.get(study_id) or await self._intake_key(study_id)
        stored = b"" if key is None else key.encrypt(payload, submission_id)
        arrival = Arrival(study_id, submission_id, stored, digest, now_ms, admission)
        if key is None:
            # It was not open; if an operator opens it again meanwhile, the device's next attempt stores the row.
            return await self.database.write(lambda tx: or_raise(first_time(tx, arrival)))
        return await self.database.write_each(insert_rows, arrival)

    async def insert_all(
        self, study_id: bytes, now_ms: int, rows: Sequence[tuple[bytes, bytes, bytes, Admission | None]]
    ) -> list[int | Exception]:
        """Store (id, sealed component, digest, admission), all in one transaction; what `insert` says of each."""
        key = self._intake.get(study_id) or await self._intake_key(study_id)
        arrivals = [
            Arrival(study_id, name, stored, digest, now_ms, admission, together=True)
            for name, sealed, digest, admission in rows
            for stored in (b"" if key is None else key.encrypt(sealed, name),)
        ]
        if key is None:
            return await self.database.write(lambda tx: [first_time(tx, arrival) for arrival in arrivals])
        return await self.database.write(lambda tx: insert_rows(tx, arrivals), lock="append")

    async def _intake_key(self, study_id: bytes) -> DataKey | None:
        """The key for a study's incoming rows, made with the first row; None when the study accepts none."""

        def write(tx: Transaction) -> DataKey | None:
            open_now = tx.row("SELECT 1 FROM studies WHERE study_id = ? AND state = 'open'", (study_id,))
            return self.vault.obtain(tx, study_id, INTAKE) if open_now else None

        key = await self.database.write(write)
        if key is not None:
            self._intake[study_id] = key
        return key

    async def pending(self, study_id: bytes, after: int, limit: int) -> list[tuple[int, bytes, int]]:
        """(sequence, id, check) of rows not in a block, in order of arrival; those that went away, when they did.

        `check` is 1 if the row was checked and accepted, 2 if it is in a check that is not decided, 3 if it is here no
        more, else 0.
        """
        return await self.database.read(
            lambda tx: [
                (row[0], row[1], 3 if row[4] else row[3] or (0 if row[2] is None else 2))
                for row in tx.rows(
                    "SELECT sequence, submission_id, check_id, verdict, payload IS NULL FROM submissions"
                    " WHERE study_id = ? AND block_id IS NULL AND sequence > ? ORDER BY sequence LIMIT ?",
                    (study_id, after, limit),
                )
            ],
            settled=True,
        )

    async def news(self, after: int) -> tuple[int, list[bytes]]:
        """The last sequence there is, and the studies of which `pending` has rows after `after`: of all, if this store never
        came so far."""

        def read(tx: Transaction) -> tuple[int, list[bytes]]:
            row = tx.row("SELECT max(sequence) FROM submissions")
            newest = 0 if row is None or row[0] is None else int(row[0])
            if newest == after:
                return newest, []
            found = tx.rows(
                "SELECT study_id FROM studies WHERE EXISTS (SELECT 1 FROM submissions WHERE"
                " submissions.study_id = studies.study_id AND block_id IS NULL AND sequence > ?)",
                (after if after < newest else 0,),
            )
            return newest, [bytes(row[0]) for row in found]

        return await self.database.read(read, settled=True)

    async def people(self, study_id: bytes) -> int:
        """How many people have taken part, as far as this provider can see: submissions that are here or in a block, which
        may have reached it alone; none that was withdrawn, or refused by a check before it was in a block."""
        row = await self.database.read(
            lambda tx: tx.row(
                "SELECT count(*) FROM submissions WHERE study_id = ? AND (block_id IS NOT NULL OR payload IS NOT NULL)",
                (study_id,),
            )
        )
        return 0 if row is None else int(row[0])

    async def sent_together(self, study_id: bytes) -> int:
        """How many people came together, from who has their answers; those who withdrew since are counted."""
        row = await self.database.read(
            lambda tx: tx.row(
                "SELECT coalesce(sum(count), 0) FROM sent_together WHERE study_id = ?", (study_id,)
            )
        )
        return 0 if row is None else int(row[0])

    async def last_draw(self, study_id: bytes) -> int:
        """The number of the last draw that was begun here; 0 if none was."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT number FROM draws WHERE study_id = ?", (study_id,))
        )
        return 0 if row is None else int(row[0])

    async def digests(self, study_id: bytes, ids: Sequence[bytes], check_id: bytes) -> dict[bytes, bytes]:
        """By id, the hash of the sealed payload of those rows in a check that are still here, in a block or in none."""
        return await self.database.read(
            lambda tx: {
                bytes(row[0]): bytes(row[1])
                for row in in_groups(
                    tx,
                    "SELECT submission_id, payload_hash FROM submissions WHERE study_id = ? AND check_id = ?"
                    " AND payload IS NOT NULL AND submission_id IN",
                    (study_id, check_id),
                    ids,
                )
            }
        )

    async def sealed(
        self, study_id: bytes, ids: Sequence[bytes], check_id: bytes
    ) -> list[tuple[bytes, bytes]]:
        """(id, sealed payload) of the same."""

        def read(tx: Transaction) -> list[tuple[bytes, bytes]]:
            keys: dict[bytes | None, DataKey | None] = {}
            found = []
            for name, block_id, payload in in_groups(
                tx,
                "SELECT submission_id, block_id, payload FROM submissions WHERE study_id = ? AND check_id = ?"
                " AND payload IS NOT NULL AND submission_id IN",
                (study_id, check_id),
                ids,
            ):
                if block_id not in keys:
                    keys[block_id] = self.vault.find(
                        tx, study_id, INTAKE if block_id is None else block_scope(block_id)
                    )
                found.append((bytes(name), _plain(keys[block_id], name, payload)))
            return found

        return await self.database.read(read)

    async def assign(self, study_id: bytes, block_id: bytes, ids: list[bytes]) -> list[bytes]:
        """Bind rows to a block, and encrypt them under its own key: all of them, or none and the ids that were withdrawn."""
        joined = b"".join(ids)

        def write(tx: Transaction) -> list[bytes]:
            block = held_blocks.find_block(tx, block_id)
            if block is not None:
                if block.state is HeldState.CANCELLED:
                    raise Refused(Reason.OUT_OF_STEP, "this block was cancelled; plan another")
                if (block.study_id, block.submission_ids) != (study_id, joined):
                    raise Refused(Reason.OUT_OF_STEP, "this block was planned before with other rows")
                return []
            rows = _rows(tx, study_id, ids)
            withdrawn = _withdrawn(tx, study_id, [name for name, row in rows.items() if row[1] is None])
            if len(rows) == len(ids) and withdrawn:
                return withdrawn
            self._bind(tx, study_id, block_id, ids, rows)
            held_blocks.put(tx, study_id, [(block_id, joined)], HeldState.BOUND)
            return []

        return await self.database.write(write)

    async def bind_drawn(self, study_id: bytes, block_id: bytes) -> bytes:
        """Bind the rows of a block that was drawn (`suites.rows.right_draw`); their ids, joined and sorted."""

        def write(tx: Transaction) -> bytes:
            block = _block(tx, study_id, block_id)
            if block.state is HeldState.UNBOUND:
                ids = split_ids(block.submission_ids)
                rows = {name: row for name, row in _rows(tx, study_id, ids).items() if row[1] is not None}
                self._bind(tx, study_id, block_id, ids, rows)
                held_blocks.move(tx, block_id, HeldState.BOUND)
            return block.submission_ids

        return await self.database.write(write)

    def _bind(
        self,
        tx: Transaction,
        study_id: bytes,
        block_id: bytes,
        ids: list[bytes],
        rows: dict[bytes, tuple[bytes | None, bytes]],
    ) -> None:
        if len(rows) < len(ids):
            raise Refused(Reason.UNKNOWN_ROW, "the plan names a submission this provider does not hold")
        if any(bound is not None or payload is None for bound, payload in rows.values()):
            raise Refused(Reason.OUT_OF_STEP, "the plan names a row that is in another block, or erased")
        self._move(tx, study_id, block_id, [(name, row[1]) for name, row in rows.items()])
        if self.audit is not None:
            self.audit.append(
                tx,
                "block_assigned",
                study=study_id.hex(),
                block=block_id.hex(),
                rows=len(ids),
                plan=plan_hash(study_id, block_id, b"".join(ids)).hex(),
            )

    def _move(
        self, tx: Transaction, study_id: bytes, block_id: bytes, rows: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """Encrypt (id, payload) rows under their block's key rather than the study's."""
        intake = self.vault.find(tx, study_id, INTAKE)
        key = self.vault.obtain(tx, study_id, block_scope(block_id))
        tx.run_many(
            "UPDATE submissions SET block_id = ?, payload = ? WHERE study_id = ? AND submission_id = ?",
            [
                (block_id, key.encrypt(_plain(intake, name, payload), name), study_id, name)
                for name, payload in rows
            ],
        )

    async def cancel(self, study_id: bytes, block_id: bytes) -> None:
        """Free the rows of a block that was never masked here; its id is never planned (again)."""

        def write(tx: Transaction) -> None:
            if held_blocks.find_block(tx, block_id) is None:
                held_blocks.put(tx, study_id, [(block_id, b"")], HeldState.CANCELLED)
                return
            state = _block(tx, study_id, block_id).state
            if state is HeldState.CANCELLED:
                return
            if state not in HeldState.CANCELLED.before:
                # X^k B_k of these rows may be out: in a second block they could be told apart by comparing the two.
                raise Refused(Reason.OUT_OF_STEP, f"that block is {state} here; it stays as it is")
            self._move_back(tx, study_id, block_id)
            held_blocks.move(tx, block_id, HeldState.CANCELLED)
            if self.audit is not None:
                self.audit.append(tx, "block_cancelled", study=study_id.hex(), block=block_id.hex())

        await self.database.write(write)
        await self.database.scrub()

    def _move_back(self, tx: Transaction, study_id: bytes, block_id: bytes) -> None:
        """Encrypt a block's rows under the study's key again, and destroy the block's."""
        rows = tx.rows(
            "SELECT submission_id, payload FROM submissions WHERE block_id = ? ORDER BY sequence",
            (block_id,),
        )
        if rows:
            key = self.vault.find(tx, study_id, block_scope(block_id))
            intake = self.vault.obtain(tx, study_id, INTAKE)
            tx.run_many(
                "UPDATE submissions SET block_id = NULL, payload = ? WHERE study_id = ? AND submission_id = ?",
                [(intake.encrypt(_plain(key, *row), row[0]), study_id, row[0]) for row in rows],
            )
        destroy_keys(tx, study_id, [block_scope(block_id)])

    async def start(
        self, study_id: bytes, block_id: bytes, plan: bytes | None = None, has: Has | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Note that masking begins, and (id, sealed payload) of the block's rows, sorted by id.

        `plan` is the hash of the plan that the attempt is at (`protocol.plans.plan_hash`); it must be the one bound here.
        Without it, the caller compares the ids with others' itself. What it `has` is not read, and nothing in its place.
        """

        def write(tx: Transaction) -> list[tuple[bytes, bytes]]:
            block = _block(tx, study_id, block_id)
            if block.state is HeldState.ERASED:
                raise Refused(Reason.BLOCK_ERASED, "that block is pooled and erased")
            if block.state is HeldState.CANCELLED:
                raise Refused(Reason.OUT_OF_STEP, "this block was cancelled; plan another")
            if plan is not None and plan != plan_hash(study_id, block_id, block.submission_ids):
                raise Refused(Reason.OUT_OF_STEP, "this provider was given another plan for that block")
            found = tx.rows(
                "SELECT submission_id, payload_hash FROM submissions WHERE block_id = ? AND payload IS NOT NULL"
                " ORDER BY submission_id",
                (block_id,),
            )
            _require_all([bytes(name) for name, _ in found], split_ids(block.submission_ids))
            if block.state is not HeldState.STARTED:
                held_blocks.move(tx, block_id, HeldState.STARTED)
            read = [name for name, digest in found if has is None or not has(name, digest)]
            key = self.vault.find(tx, study_id, block_scope(block_id)) if read else None
            sealed = {name: _plain(key, name, row[1]) for name, row in _rows(tx, study_id, read).items()}
            return [(name, sealed.get(name, b"")) for name, _ in found]

        return await self.database.write(write)

    async def erase_block(self, study_id: bytes, block_id: bytes, ids: Sequence[bytes] = ()) -> int:
        """Erase a block's rows and its key; how many rows it had. Erasing twice is erasing once.

        With its plan (`ids`) a block is erased also by a provider that does not know it, because its store was restored
        from before the plan: rows it has are erased, and ids it has not seen are used up. A plan with a row of another
        block that is not erased is refused.
        """
        rows = await self.database.write(lambda tx: self.erase_block_in(tx, study_id, block_id, ids))
        if block_id in self.scrubbed:
            self.scrubbed.remove(block_id)
        else:
            await self.database.scrub()
        return rows

    def erase_block_in(
        self, tx: Transaction, study_id: bytes, block_id: bytes, ids: Sequence[bytes] = ()
    ) -> int:
        """The same as a part of a transaction; the store is still to be scrubbed."""
        if ids and held_blocks.find_block(tx, block_id) is None:
            _refuse_bound(tx, study_id, ids)
            held_blocks.put(tx, study_id, [(block_id, b"".join(ids))], HeldState.UNBOUND)
        block = _block(tx, study_id, block_id)
        rows = len(block.submission_ids) // SUBMISSION_ID_BYTES
        if block.state is HeldState.CANCELLED:
            return rows  # it has none any more
        if block.state is HeldState.ERASED and _is_used_up(tx, block_id, rows):
            return rows  # it is told twice of every batch of moments
        if block.state in (
            HeldState.UNBOUND,
            HeldState.ERASED,
        ):  # erased, perhaps, before its rows were bound to it
            _use_up(tx, study_id, block_id, split_ids(block.submission_ids))
        tx.run("UPDATE submissions SET payload = NULL WHERE block_id = ?", (block_id,))
        destroy_keys(tx, study_id, [block_scope(block_id)])
        if block.state is HeldState.ERASED:
            return rows
        held_blocks.move(tx, block_id, HeldState.ERASED)
        if self.audit is not None:
            self.audit.append(tx, "block_erased", study=study_id.hex(), block=block_id.hex(), rows=rows)
        return rows

    async def ids_of(self, study_id: bytes, block_id: bytes) -> list[bytes]:
        """The ids of a block that was assigned here, sorted as in its plan."""
        block = await self.database.read(lambda tx: _block(tx, study_id, block_id))
        return split_ids(block.submission_ids)

    async def erase_pending(self, study_id: bytes) -> int:
        """Erase every row of a study that is in no block, and the key of its intake; how many there were."""

        def write(tx: Transaction) -> int:
            destroy_keys(tx, study_id, [INTAKE])
            erased = tx.run(
                "UPDATE submissions SET payload = NULL WHERE study_id = ? AND block_id IS NULL AND payload IS NOT NULL",
                (study_id,),
            )
            if self.audit is not None:
                self.audit.append(tx, "unused_rows_erased", study=study_id.hex(), rows=erased)
            return erased

        rows = await self.database.write(write)
        self._intake.pop(study_id, None)
        await self.database.scrub()
        return rows


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase a study's ids, hashes and blocks; how many submissions it had. The study cannot be opened again."""
    held_blocks.erase_study(tx, study_id)
    tx.run("DELETE FROM sent_together WHERE study_id = ?", (study_id,))
    return tx.run("DELETE FROM submissions WHERE study_id = ?", (study_id,))


def oldest_row_ms(tx: Transaction) -> int | None:
    """When the oldest row that is still held came in; None if none is held."""
    row = tx.row("SELECT min(receive_time_ms) FROM submissions WHERE payload IS NOT NULL")
    return None if row is None or row[0] is None else int(row[0])


def _block(tx: Transaction, study_id: bytes, block_id: bytes) -> held_blocks.HeldBlock:
    block = held_blocks.find_block(tx, block_id)
    if block is None or block.study_id != study_id:
        raise Refused(
            Reason.UNKNOWN_BLOCK, "this provider was given no plan for that block, and has drawn none"
        )
    return block


def _withdrawn(tx: Transaction, study_id: bytes, ids: Sequence[bytes]) -> list[bytes]:
    sql = "SELECT 1 FROM submissions WHERE study_id = ? AND submission_id = ? AND withdrawn_ms IS NOT NULL"
    return sorted(submission_id for submission_id in ids if tx.row(sql, (study_id, submission_id)))


def in_groups(
    tx: Transaction, statement: str, parameters: Sequence[object], ids: Sequence[bytes], returning: str = ""
) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement that ends in `IN`, or `returning` columns of what it changed, for some ids at a time."""
    after = f" RETURNING {returning}" if returning else ""
    for first in range(0, len(ids), _AT_ONCE):
        some = ids[first : first + _AT_ONCE]
        yield from tx.rows(f"{statement} ({', '.join('?' * len(some))}){after}", (*parameters, *some))


def _rows(tx: Transaction, study_id: bytes, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes | None, bytes]]:
    """(block, payload) of the rows that are here, by id."""
    sql = "SELECT submission_id, block_id, payload FROM submissions WHERE study_id = ? AND submission_id IN"
    return {row[0]: (row[1], row[2]) for row in in_groups(tx, sql, (study_id,), ids)}


def _require_all(found: Sequence[bytes], planned: Sequence[bytes]) -> None:
    """Refuse to work on a block of which not exactly the planned rows are here."""
    if found != planned:
        raise Refused(
            Reason.UNKNOWN_ROW, f"this provider does not hold all {len(planned)} rows of that block's plan"
        )


def _refuse_bound(tx: Transaction, study_id: bytes, ids: Sequence[bytes]) -> None:
    """Refuse a plan with a row of another block, unless that is erased."""
    held = [bound for bound, _ in _rows(tx, study_id, ids).values() if bound is not None]
    blocks = (held_blocks.find_block(tx, bound) for bound in set(held))
    if any(block is None or block.state is not HeldState.ERASED for block in blocks):
        raise Refused(Reason.OUT_OF_STEP, "the plan names a row that is in another block here")


def _use_up(tx: Transaction, study_id: bytes, block_id: bytes, ids: Sequence[bytes]) -> None:
    """Bind ids to a block that is pooled, whether their rows are here or not, so that none can be used again."""
    tx.run_many(
        "INSERT INTO submissions (study_id, submission_id, payload_hash, receive_time_ms, block_id)"
        " VALUES (?, ?, ?, 0, ?) ON CONFLICT (study_id, submission_id) DO UPDATE SET block_id = excluded.block_id",
        [(study_id, submission_id, b"", block_id) for submission_id in ids],
    )


def _is_used_up(tx: Transaction, block_id: bytes, rows: int) -> bool:
    """Whether every id of a block is bound to it and none has a payload."""
    found = tx.row(
        "SELECT count(*), count(payload) FROM submissions WHERE block_id = ?",
        (block_id,),
    )
    return found is not None and (int(found[0]), int(found[1])) == (rows, 0)


def _plain(key: DataKey | None, name: bytes, payload: bytes) -> bytes:
    if key is None:
        raise Refused(Reason.OUT_OF_STEP, "the key of these rows is destroyed")
    return key.decrypt(payload, name)
