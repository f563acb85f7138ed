"""A right provider's table `blocks`: the blocks it was given or has drawn. Nobody else has SQL on it.

What is in a block is in `submissions`; `right.rows` changes both in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimask_server.store.interface import IllegalTransition, State, Transaction, any_of


class HeldState(State):
    """What a right provider has done with a block."""

    UNBOUND = (
        "unbound",
        {"bound": "its rows are encrypted under its key", "erased": "it is given up before that"},
    )
    BOUND = (
        "bound",
        {
            "started": "masking may have begun",
            "cancelled": "the plan is withdrawn, its rows are free",
            "erased": "it is pooled or given up",
        },
    )
    STARTED = ("started", {"erased": "it is pooled or given up"})
    CANCELLED = "cancelled"
    ERASED = "erased"


@dataclass(frozen=True)
class HeldBlock:
    """A block as this provider has it."""

    study_id: bytes
    submission_ids: bytes
    state: HeldState


def find_block(tx: Transaction, block_id: bytes) -> HeldBlock | None:
    """A block by its id, whatever its study."""
    row = tx.row("SELECT study_id, submission_ids, state FROM blocks WHERE block_id = ?", (block_id,))
    return None if row is None else HeldBlock(bytes(row[0]), bytes(row[1]), HeldState(row[2]))


def put(tx: Transaction, study_id: bytes, blocks: Iterable[tuple[bytes, bytes]], state: HeldState) -> None:
    """Write down blocks that are not known, (id, joined ids of rows) each."""
    tx.run_many(
        "INSERT INTO blocks (block_id, study_id, submission_ids, state) VALUES (?, ?, ?, ?)",
        [(block_id, study_id, ids, state.value) for block_id, ids in blocks],
    )


def move(tx: Transaction, block_id: bytes, state: HeldState) -> None:
    """Give a block its next state."""
    if not tx.run(
        f"UPDATE blocks SET state = ? WHERE block_id = ? AND state IN ({any_of(state.before)})",  # noqa: S608 - states
        (state.value, block_id),
    ):
        found = find_block(tx, block_id)
        raise IllegalTransition(f"a block that is {found.state if found else 'not there'} was to be {state}")


def has_unbound(tx: Transaction, study_id: bytes) -> bool:
    """Whether a block that was drawn is not bound yet."""
    return tx.row("SELECT 1 FROM blocks WHERE study_id = ? AND state = 'unbound'", (study_id,)) is not None


def erase_unbound(tx: Transaction, study_id: bytes) -> None:
    """Give up every block that was drawn and is not bound."""
    tx.run("UPDATE blocks SET state = 'erased' WHERE study_id = ? AND state = 'unbound'", (study_id,))


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase a study's blocks, with the ids in them."""
    tx.run("DELETE FROM blocks WHERE study_id = ?", (study_id,))
    return 0
