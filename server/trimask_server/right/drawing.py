"""A right provider's own look at a plan: is it what the coin of all right providers drew (`protocol.draw`)?

A row's place is written beside it when it is first wanted, and there is an index of the places of rows that wait, so a plan
costs the same however many rows wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimask_server.protocol.draw import place
from trimask_server.store.interface import Transaction

__all__ = ["Draw", "NotDrawn"]

# The words of the index `submissions_order`: without them, all of them, the databases do not use it.
_WAITING = "study_id = ? AND block_id IS NULL AND verdict = 1"
_BEFORE = (
    f"SELECT submission_id, place FROM submissions WHERE {_WAITING} AND place < ? AND payload IS NOT NULL"  # noqa: S608
)
_PLACELESS = (
    "SELECT w.submission_id, c.seed FROM"  # noqa: S608
    f" (SELECT study_id, submission_id, check_id FROM submissions WHERE {_WAITING} AND place IS NULL) w"
    " LEFT JOIN row_checks c ON c.study_id = w.study_id AND c.check_id = w.check_id"
)


class NotDrawn(Exception):
    """A plan is not what the coin of all right providers drew; `skipped` are rows, (id, place), that it should have."""

    def __init__(self, skipped: Sequence[tuple[bytes, bytes]]) -> None:
        super().__init__("the plan is not the drawn one")
        self.skipped = skipped


@dataclass(frozen=True)
class Draw:
    """What a plan must be: the rows of the lowest places, out of at least `pool`.

    `absent` are rows, (id, place), that another provider cannot put into a block.
    """

    pool: int
    absent: frozenset[tuple[bytes, bytes]] = frozenset()

    def require(self, tx: Transaction, study_id: bytes, ids: Sequence[bytes]) -> None:
        """Raise `NotDrawn` unless the plan, of rows that wait here, is drawn from all that do."""
        _write_places(tx, study_id)
        plan = set(ids)
        wanted = "SELECT place FROM submissions WHERE study_id = ? AND submission_id = ?"
        found = (tx.row(wanted, (study_id, name)) for name in plan)
        last = max((bytes(row[0]) for row in found if row is not None and row[0] is not None), default=b"")
        before = ((bytes(name), bytes(at)) for name, at in tx.rows(_BEFORE, (study_id, last)))
        left_out = {row for row in before if row[0] not in plan} - self.absent
        if left_out or self._waiting(tx, study_id) < self.pool:
            raise NotDrawn(sorted(left_out))

    def _waiting(self, tx: Transaction, study_id: bytes) -> int:
        """How many rows wait, counted up to the pool."""
        some = f"SELECT 1 FROM submissions WHERE {_WAITING} AND payload IS NOT NULL LIMIT ?"  # noqa: S608
        return len(tx.rows(some, (study_id, self.pool)))


def _write_places(tx: Transaction, study_id: bytes) -> None:
    """Write beside rows that were accepted lately what the coin of their check gives them."""
    tx.run_many(
        "UPDATE submissions SET place = ? WHERE study_id = ? AND submission_id = ?",
        [
            (place(bytes(seed or b""), bytes(name)), study_id, bytes(name))
            for name, seed in tx.rows(_PLACELESS, (study_id,))
        ],
    )
