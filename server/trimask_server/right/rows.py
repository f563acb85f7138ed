"""A right provider's rows on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from trimask_core.errors import Refused
from trimask_core.submission import SUBMISSION_ID_BYTES
from trimask_server.store.interface import Store, Transaction
from trimask_server.store.vault import INTAKE, DataKey, Vault, block_scope, destroy_keys

__all__ = ["RowStore", "split_ids"]

_AT_ONCE = 500  # rows named in one statement


def split_ids(joined: bytes) -> list[bytes]:
    """16-byte ids from their concatenation."""
    if len(joined) % SUBMISSION_ID_BYTES:
        raise Refused("malformed", f"submission ids must have {SUBMISSION_ID_BYTES} bytes each")
    return [joined[i : i + SUBMISSION_ID_BYTES] for i in range(0, len(joined), SUBMISSION_ID_BYTES)]


@dataclass(frozen=True)
class _Arrival:
    """A row on its way in."""

    study_id: bytes
    submission_id: bytes
    stored: bytes = field(repr=False)
    digest: bytes
    now_ms: int


@dataclass(frozen=True)
class RowStore:
    """Rows: taken in once, in at most one block, for ever; erased with their block.

    A row comes sealed and is encrypted once more: under its study's intake key while it waits, under its block's key
    from the moment it is in one. Erasing a block destroys that key, so that no copy of the rows can be read.
    """

    database: Store
    vault: Vault
    # Unwrapped once a study: an insert costs one encryption. Only keys that are committed are here.
    _intake: dict[bytes, DataKey] = field(default_factory=dict, init=False, repr=False)

    async def refuse_conflict(self, study_id: bytes, submission_id: bytes, payload: bytes) -> None:
        """Refuse bytes other than those that were taken in under this id."""
        digest = hashlib.sha256(payload).digest()
        await self.database.read(lambda tx: _known(tx, study_id, submission_id, digest))

    async def insert(
        self, study_id: bytes, submission_id: bytes, payload: bytes, now_ms: int, digest: bytes = b""
    ) -> int:
        """Take a sealed component in; when it was first taken in. On disk when this returns."""
        digest = digest or hashlib.sha256(payload).digest()
        key = self._intake.get(study_id) or await self._intake_key(study_id)
        stored = b"" if key is None else key.encrypt(payload, submission_id)
        arrival = _Arrival(study_id, submission_id, stored, digest, now_ms)
        return await self.database.write_each(_insert, arrival)

    async def _intake_key(self, study_id: bytes) -> DataKey | None:
        """The key for what a study takes in, made with the first row; None when it takes nothing in."""

        def write(tx: Transaction) -> DataKey | None:
            open_now = tx.row("SELECT 1 FROM studies WHERE study_id = ? AND state = 'open'", (study_id,))
            return self.vault.obtain(tx, study_id, INTAKE) if open_now else None

        key = await self.database.write(write)
        if key is not None:
            self._intake[study_id] = key
        return key

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

    async def assign(self, study_id: bytes, block_id: bytes, ids: list[bytes]) -> None:
        """Bind rows to a block, and encrypt them under its own key: all of them or none."""
        joined = b"".join(ids)

        def write(tx: Transaction) -> None:
            block = tx.row("SELECT study_id, submission_ids FROM blocks WHERE block_id = ?", (block_id,))
            if block is not None:
                if block != (study_id, joined):
                    raise Refused("row_already_used", "this block was planned before with other rows")
                return
            rows = _rows(tx, study_id, ids)
            if len(rows) < len(ids):
                raise Refused("unknown_row", "the plan names a submission this provider does not hold")
            if any(bound is not None or payload is None for bound, payload, _ in rows.values()):
                raise Refused("row_already_used", "the plan names a row that is in another block, or erased")
            tx.run(
                "INSERT INTO blocks (block_id, study_id, submission_ids) VALUES (?, ?, ?)",
                (block_id, study_id, joined),
            )
            self._move(tx, study_id, block_id, [(name, row[1], row[2]) for name, row in rows.items()])

        await self.database.write(write)

    def _move(
        self, tx: Transaction, study_id: bytes, block_id: bytes, rows: Sequence[tuple[bytes, bytes, int]]
    ) -> None:
        """Encrypt (id, payload, encrypted) rows under their block's key rather than the study's."""
        intake = self.vault.find(tx, study_id, INTAKE)
        key = self.vault.obtain(tx, study_id, block_scope(block_id))
        tx.run_many(
            "UPDATE submissions SET block_id = ?, payload = ?, encrypted = 1 WHERE study_id = ? AND submission_id = ?",
            [
                (block_id, key.encrypt(_plain(intake, name, payload, encrypted), name), study_id, name)
                for name, payload, encrypted in rows
            ],
        )

    async def block(self, study_id: bytes, block_id: bytes) -> list[tuple[bytes, bytes]]:
        """(id, sealed payload) of a block's rows, sorted by id."""

        def read(tx: Transaction) -> list[tuple[bytes, bytes]]:
            block = tx.row("SELECT study_id, erased FROM blocks WHERE block_id = ?", (block_id,))
            if block is None or block[0] != study_id:
                raise Refused("unknown_block", "this provider was given no plan for that block")
            if block[1]:
                raise Refused("block_erased", "that block is pooled and erased")
            key = self.vault.find(tx, study_id, block_scope(block_id))
            return [
                (row[0], _plain(key, *row))
                for row in tx.rows(
                    "SELECT submission_id, payload, encrypted FROM submissions WHERE block_id = ?"
                    " ORDER BY submission_id",
                    (block_id,),
                )
            ]

        return await self.database.read(read)

    async def erase_block(self, study_id: bytes, block_id: bytes, ids: Sequence[bytes] = ()) -> int:
        """Erase a block's rows and its key; how many rows it had. Erasing twice is erasing once.

        With its plan (`ids`) a block is erased also by a provider that does not know it, because its store was restored
        from before the plan: rows it has are erased, and ids it has not seen are used up.
        """

        def write(tx: Transaction) -> int:
            block = tx.row("SELECT study_id, submission_ids FROM blocks WHERE block_id = ?", (block_id,))
            if block is None and ids:
                _use_up(tx, study_id, block_id, ids)
                block = (study_id, b"".join(ids))
            if block is None or block[0] != study_id:
                raise Refused("unknown_block", "this provider was given no plan for that block")
            tx.run("UPDATE submissions SET payload = NULL WHERE block_id = ?", (block_id,))
            tx.run("UPDATE blocks SET erased = 1 WHERE block_id = ?", (block_id,))
            destroy_keys(tx, study_id, [block_scope(block_id)])
            return len(block[1]) // SUBMISSION_ID_BYTES

        rows = await self.database.write(write)
        await self.database.scrub()
        return rows

    async def erase_pending(self, study_id: bytes) -> int:
        """Erase every row of a study that is in no block, and the key of its intake; how many there were."""

        def write(tx: Transaction) -> int:
            destroy_keys(tx, study_id, [INTAKE])
            return tx.run(
                "UPDATE submissions SET payload = NULL WHERE study_id = ? AND block_id IS NULL AND payload IS NOT NULL",
                (study_id,),
            )

        rows = await self.database.write(write)
        self._intake.pop(study_id, None)
        await self.database.scrub()
        return rows

    async def encrypt_old_rows(self) -> int:
        """Encrypt what a version without data keys left in the store; how many rows."""

        def write(tx: Transaction) -> int:
            rows = tx.rows(
                "SELECT study_id, block_id, submission_id, payload FROM submissions"
                " WHERE encrypted = 0 AND payload IS NOT NULL ORDER BY sequence LIMIT ?",
                (_AT_ONCE,),
            )
            for study_id, block_id, submission_id, payload in rows:
                key = self.vault.obtain(tx, study_id, INTAKE if block_id is None else block_scope(block_id))
                tx.run(
                    "UPDATE submissions SET payload = ?, encrypted = 1 WHERE study_id = ? AND submission_id = ?",
                    (key.encrypt(payload, submission_id), study_id, submission_id),
                )
            return len(rows)

        total = 0
        while count := await self.database.write(write):
            total += count
        if total:
            await self.database.scrub()
        return total


def _insert(tx: Transaction, arrivals: Sequence[_Arrival]) -> list[int | Exception]:
    """Take rows in; when each was first taken in."""
    # One statement a row where nothing is amiss; what is amiss is found out afterwards.
    counts = tx.run_each(
        "INSERT INTO submissions (study_id, submission_id, payload, payload_hash, receive_time_ms, encrypted)"
        " SELECT ?, ?, ?, ?, ?, 1 FROM studies WHERE study_id = ? AND state = 'open'"
        " ON CONFLICT (study_id, submission_id) DO NOTHING",
        [
            (row.study_id, row.submission_id, row.stored, row.digest, row.now_ms, row.study_id)
            for row in arrivals
        ],
    )
    return [
        row.now_ms if count else _first_time(tx, row) for row, count in zip(arrivals, counts, strict=True)
    ]


def _first_time(tx: Transaction, row: _Arrival) -> int | Exception:
    try:
        known = _known(tx, row.study_id, row.submission_id, row.digest)
    except Refused as refusal:
        return refusal
    return Refused("study_closed", "this study takes no more submissions") if known is None else known


def _known(tx: Transaction, study_id: bytes, submission_id: bytes, digest: bytes) -> int | None:
    row = tx.row(
        "SELECT payload_hash, receive_time_ms FROM submissions WHERE study_id = ? AND submission_id = ?",
        (study_id, submission_id),
    )
    if row is None:
        return None
    if row[0] != digest:
        raise Refused("conflicting_submission", "this submission id was used before with other bytes")
    return int(row[1])


def _rows(
    tx: Transaction, study_id: bytes, ids: Sequence[bytes]
) -> dict[bytes, tuple[bytes | None, bytes, int]]:
    """(block, payload, encrypted) of the rows that are here, by id."""
    found: dict[bytes, tuple[bytes | None, bytes, int]] = {}
    for first in range(0, len(ids), _AT_ONCE):
        some = ids[first : first + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        rows = tx.rows(
            "SELECT submission_id, block_id, payload, encrypted FROM submissions"  # noqa: S608 - marks only
            f" WHERE study_id = ? AND submission_id IN ({marks})",
            (study_id, *some),
        )
        found |= {row[0]: (row[1], row[2], row[3]) for row in rows}
    return found


def _use_up(tx: Transaction, study_id: bytes, block_id: bytes, ids: Sequence[bytes]) -> None:
    """Bind ids to a block that is pooled, whether their rows are here or not, so that none can be used again."""
    tx.run(
        "INSERT INTO blocks (block_id, study_id, submission_ids, erased) VALUES (?, ?, ?, 1)",
        (block_id, study_id, b"".join(ids)),
    )
    tx.run_many(
        "INSERT INTO submissions (study_id, submission_id, payload_hash, receive_time_ms, block_id)"
        " VALUES (?, ?, ?, 0, ?) ON CONFLICT (study_id, submission_id) DO UPDATE SET block_id = excluded.block_id",
        [(study_id, submission_id, b"", block_id) for submission_id in ids],
    )


def _plain(key: DataKey | None, name: bytes, payload: bytes, encrypted: int) -> bytes:
    if not encrypted:
        return payload
    if key is None:
        raise Refused("row_already_used", "the key of these rows is destroyed")
    return key.decrypt(payload, name)
