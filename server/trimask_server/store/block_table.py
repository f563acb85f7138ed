"""The collector's table `blocks`: every plan, as far as it has come. Nobody else has SQL on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_server.store.interface import IllegalTransition, State, Transaction, any_of

_SELECT = "SELECT block_id, submission_ids, row_count, state, attempts, why FROM blocks"


class BlockState(State):
    """How far a block has come."""

    PLANNED = (
        "planned",
        {
            "pooled": "its rows are in a release",
            "given_up": "it can never be pooled, or its owner says so",
            "cancelled": "a row was withdrawn before the first attempt",
        },
    )
    POOLED = (
        "pooled",
        {
            "erased": "every R_k has erased its rows",
            "given_up": "its owner gives its release up",
            "abandoned": "an R_k has lost it",
        },
    )
    ERASED = ("erased", {"given_up": "its owner gives its release up", "abandoned": "an R_k has lost it"})
    GIVEN_UP = ("given_up", {"abandoned": "every R_k has erased its rows"})
    ABANDONED = "abandoned"
    CANCELLED = ("cancelled", {"released": "every R_k has freed its rows"})
    RELEASED = "released"


IN_A_BLOCK = tuple(state for state in BlockState if state not in (BlockState.CANCELLED, BlockState.RELEASED))
"""The states of blocks whose rows are in no other block, now or ever."""
UNPOOLED = (BlockState.PLANNED, BlockState.GIVEN_UP, BlockState.CANCELLED)
"""The states of blocks that may be bound at some right providers only."""
UNFINISHED = (*UNPOOLED, BlockState.POOLED)
"""The states of blocks with which there is something to do."""


@dataclass(frozen=True)
class Block:
    """A block that was planned."""

    block_id: bytes
    submission_ids: bytes
    rows: int
    state: BlockState
    attempts: int
    why: str = ""
    """Why it was given up."""


@dataclass(frozen=True)
class PooledBlock:
    """A block of a release."""

    block_id: bytes
    submission_ids: bytes
    accepted: bytes | None
    """A byte, 1 or 0, for each submission, where the suite's check says who was accepted."""
    bound: bytes
    """The right providers' signatures that they have bound it."""


def plan(tx: Transaction, study_id: bytes, block_id: bytes, submission_ids: bytes) -> bool:
    """Write a plan down; False, and the block stays as it is, if it is known."""
    return bool(
        tx.run(
            "INSERT INTO blocks (block_id, study_id, submission_ids, row_count, state) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (block_id) DO NOTHING",
            (
                block_id,
                study_id,
                submission_ids,
                len(submission_ids) // SUBMISSION_ID_BYTES,
                BlockState.PLANNED.value,
            ),
        )
    )


def _read(row: tuple[Any, ...]) -> Block:
    return Block(row[0], row[1], row[2], BlockState(row[3]), row[4], row[5])


def find_blocks(tx: Transaction, study_id: bytes, states: tuple[BlockState, ...]) -> list[Block]:
    """A study's blocks in these states, in the order they were planned."""
    return [
        _read(row)
        for row in tx.rows(
            f"{_SELECT} WHERE study_id = ? AND state IN ({any_of(states)}) ORDER BY sequence",
            (study_id,),
        )
    ]


def find_block(tx: Transaction, study_id: bytes, block_id: bytes) -> Block:
    """A block by its id."""
    row = tx.row(f"{_SELECT} WHERE block_id = ? AND study_id = ?", (block_id, study_id))
    if row is None:
        raise Refused(Reason.UNKNOWN_BLOCK, "that block was never planned")
    return _read(row)


def move(
    tx: Transaction, study_id: bytes, block_id: bytes, state: BlockState, why: str | None = None
) -> None:
    """Give a block its next state; with `why`, if it is given up."""
    if not tx.run(
        "UPDATE blocks SET state = ?, why = coalesce(?, why) WHERE block_id = ? AND study_id = ?"  # noqa: S608 - states
        f" AND state IN ({any_of(state.before)})",
        (state.value, why, block_id, study_id),
    ):
        now = find_block(tx, study_id, block_id).state
        raise IllegalTransition(f"a block that is {now} was to be {state}")


def pool(tx: Transaction, study_id: bytes, block_id: bytes, release: int, accepted: bytes | None) -> None:
    """Count a block into a release."""
    move(tx, study_id, block_id, BlockState.POOLED)
    tx.run(
        "UPDATE blocks SET release_number = ?, accepted_count = ?, accepted = ? WHERE block_id = ?",
        (release, None if accepted is None else sum(accepted), accepted, block_id),
    )


def note_bound(tx: Transaction, block_id: bytes, signatures: bytes) -> None:
    """Every right provider has bound the block's rows, and signed that."""
    tx.run("UPDATE blocks SET bound = ? WHERE block_id = ?", (signatures, block_id))


def count_attempt(tx: Transaction, block_id: bytes) -> int:
    """The number of a new attempt, never used before."""
    found = tx.rows(
        "UPDATE blocks SET attempts = attempts + 1 WHERE block_id = ? RETURNING attempts", (block_id,)
    )
    if not found:
        raise Refused(Reason.UNKNOWN_BLOCK, "that block was never planned")
    return int(found[0][0])


def of_release(tx: Transaction, study_id: bytes, number: int) -> list[PooledBlock]:
    """The blocks of a release, in the order they were planned."""
    return [
        PooledBlock(bytes(row[0]), bytes(row[1]), row[2], bytes(row[3] or b""))
        for row in tx.rows(
            "SELECT block_id, submission_ids, accepted, bound FROM blocks"
            " WHERE study_id = ? AND release_number = ? ORDER BY sequence",
            (study_id, number),
        )
    ]


def renumber(tx: Transaction, study_id: bytes, number: int, into: int) -> None:
    """The blocks of a release join another."""
    tx.run(
        "UPDATE blocks SET release_number = ? WHERE study_id = ? AND release_number = ?",
        (into, study_id, number),
    )


def take_out(tx: Transaction, study_id: bytes, block_id: bytes) -> tuple[int, int] | None:
    """Abandon a block that a provider has lost: the release it was in, and how many were accepted; None if in none."""
    row = tx.row(
        "SELECT release_number, accepted_count FROM blocks WHERE block_id = ? AND study_id = ?",
        (block_id, study_id),
    )
    if row is None or row[0] is None:
        return None
    move(tx, study_id, block_id, BlockState.ABANDONED)
    tx.run("UPDATE blocks SET release_number = NULL WHERE block_id = ?", (block_id,))
    return int(row[0]), int(row[1])


def count_unfinished(tx: Transaction) -> list[tuple[bytes, str, int]]:
    """(study, state, how many) of the blocks with which there is something to do."""
    found = tx.rows(
        f"SELECT study_id, state, count(*) FROM blocks WHERE state IN ({any_of(UNFINISHED)})"  # noqa: S608 - our words
        " GROUP BY study_id, state ORDER BY study_id, state"
    )
    return [(bytes(row[0]), row[1], row[2]) for row in found]


def planned_rows(tx: Transaction, study_id: bytes) -> int:
    """How many submissions are in blocks that are being worked on."""
    row = tx.row("SELECT sum(row_count) FROM blocks WHERE study_id = ? AND state = 'planned'", (study_id,))
    return int((row and row[0]) or 0)


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase a study's plans, with the ids in them."""
    tx.run("DELETE FROM blocks WHERE study_id = ?", (study_id,))
    return 0
