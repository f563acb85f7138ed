"""What an unmasking node keeps of a block, so that a block has one delivered content for ever.

A content is held when this node has unmasked and blinded its component of an attempt; nobody has seen it, and a later
attempt may replace it. It is fixed when the collector asks for it, before the first byte goes out: from then on this node
delivers these bytes, however often it is asked, and unmasks no other attempt at the block. Once the block is pooled (or
given up) the bytes go and the mark stays.

The bytes are blinded, by a key that is forgotten; they are encrypted under the block's data key all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_proto.v1 import common_pb2
from trimask_server.runtime.audit import AuditLog
from trimask_server.store.data_keys import Vault, block_scope, destroy_keys
from trimask_server.store.interface import Store, Transaction

Content = NDArray[np.uint64]


@dataclass(frozen=True)
class HeldContents:
    """The table `held_contents`: a row for each component of a block that this node unmasks."""

    database: Store
    vault: Vault
    audit: AuditLog | None = None

    async def fixed(self, study_id: bytes, block_id: bytes) -> int:
        """The number of the attempt whose content this node delivers; 0 while it is free."""
        row = await self.database.read(lambda tx: _fixed(tx, study_id, block_id))
        if row is None:
            return 0
        _refuse_forgotten(row)
        return row[0]

    async def hold(self, attempt: common_pb2.Attempt, component: int, content: Content) -> None:
        """Keep a component's blinded content instead of that of an earlier attempt."""

        def write(tx: Transaction) -> None:
            fixed = _fixed(tx, attempt.study_id, attempt.block_id)
            if fixed is not None:
                _refuse_forgotten(fixed)
                raise Refused(
                    Reason.CONTENT_FIXED, f"this node delivers attempt {fixed[0]} of the block and no other"
                )
            key = self.vault.obtain(tx, attempt.study_id, block_scope(attempt.block_id))
            stored = key.encrypt(content.astype("<u8").tobytes(), _name(attempt, component))
            tx.run(
                "INSERT INTO held_contents (study_id, block_id, component, number, plan_hash, row_count, content, fixed)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT (study_id, block_id, component) DO UPDATE SET"
                " number = excluded.number, plan_hash = excluded.plan_hash, row_count = excluded.row_count,"
                " content = excluded.content",
                (attempt.study_id, attempt.block_id, component, attempt.number, attempt.plan_hash, len(content),
                 stored),
            )  # fmt: skip

        await self.database.write(write)

    async def fix(self, attempt: common_pb2.Attempt, components: set[int]) -> dict[int, Content]:
        """This node's content of a block, by component, from now on that of this attempt. On disk when this returns."""

        def write(tx: Transaction) -> dict[int, Content]:
            rows = tx.rows(
                "SELECT component, number, plan_hash, row_count, content, fixed FROM held_contents"
                " WHERE study_id = ? AND block_id = ?",
                (attempt.study_id, attempt.block_id),
            )
            for row in rows:
                if row[5]:
                    _refuse_forgotten((row[1], row[4] is None))
            held = {row[0] for row in rows if (row[1], row[2]) == (attempt.number, attempt.plan_hash)}
            if held != components:
                raise Refused(
                    Reason.CONTENT_LOST, f"this node does not hold attempt {attempt.number} of the block"
                )
            key = self.vault.find(tx, attempt.study_id, block_scope(attempt.block_id))
            if key is None:
                raise Refused(Reason.CONTENT_LOST, "the key of this block is destroyed")
            first = tx.run(
                "UPDATE held_contents SET fixed = 1 WHERE study_id = ? AND block_id = ? AND fixed = 0",
                (attempt.study_id, attempt.block_id),
            )
            if first and self.audit is not None:
                self.audit.append(
                    tx,
                    "content_fixed",
                    study=attempt.study_id.hex(),
                    block=attempt.block_id.hex(),
                    number=attempt.number,
                    plan=attempt.plan_hash.hex(),
                )
            return {
                row[0]: np.frombuffer(key.decrypt(row[4], _name(attempt, row[0])), dtype="<u8")
                .astype(np.uint64)
                .reshape(row[3], -1)
                for row in rows
            }

        return await self.database.write(write)

    async def forget(self, study_id: bytes, block_id: bytes, components: set[int], *, with_key: bool) -> None:
        """The block is pooled or given up: its content goes, and it is never unmasked here again.

        `with_key` at a node that holds no rows of the block, whose key this is, too.
        """

        def write(tx: Transaction) -> None:
            tx.run_many(
                "INSERT INTO held_contents (study_id, block_id, component, number, plan_hash, row_count, content, fixed)"
                " VALUES (?, ?, ?, 0, ?, 0, NULL, 1) ON CONFLICT (study_id, block_id, component) DO UPDATE SET"
                " content = NULL, fixed = 1",
                [(study_id, block_id, component, b"") for component in sorted(components)],
            )
            if with_key:
                destroy_keys(tx, study_id, [block_scope(block_id)])

        await self.database.write(write)
        await self.database.scrub()

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase a study's contents and marks; no person's submission is among them."""
        tx.run("DELETE FROM held_contents WHERE study_id = ?", (study_id,))
        return 0


def _fixed(tx: Transaction, study_id: bytes, block_id: bytes) -> tuple[int, bool] | None:
    """(number of the attempt, whether its content is gone)."""
    row = tx.row(
        "SELECT number, content IS NULL FROM held_contents WHERE study_id = ? AND block_id = ? AND fixed = 1",
        (study_id, block_id),
    )
    return None if row is None else (int(row[0]), bool(row[1]))


def _refuse_forgotten(fixed: tuple[int, bool]) -> None:
    if fixed[1]:
        raise Refused(Reason.BLOCK_ERASED, "that block is over here")


def _name(attempt: common_pb2.Attempt, component: int) -> bytes:
    return b"content" + component.to_bytes(2, "big") + attempt.number.to_bytes(4, "big") + attempt.plan_hash
