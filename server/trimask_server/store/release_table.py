"""The collector's tables `releases` (what is filled, published, or answered from) and `blocks` (every plan, as far as it
has come; once pooled it is of a release). Nobody else has SQL on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_server.store.interface import IllegalTransition, State, Transaction, any_of

_SKIPPED_NUMBERS = 1000
_COLUMNS = "release_number, row_count, block_count, state, refused"


class ReleaseState(State):
    """How far a release has come. A short one that joins another is removed."""

    OPEN = (
        "open",
        {
            "full": "it has release_rows, or the study closes",
            "discarded": "it is too small when the study closes, or the collector was restored",
            "answerable": "a study with a budget closes",
        },
    )
    FULL = (
        "full",
        {
            "published": "its dataset is signed",
            "discarded": "its owner gives it up, its batches are lost, or the collector was restored",
            "answerable": "a study with a budget closes",
        },
    )
    PUBLISHED = "published"
    ANSWERABLE = ("answerable", {"spent": "its owner ends the answers, or the collector was restored"})
    SPENT = "spent"
    DISCARDED = "discarded"


UNPUBLISHED = (ReleaseState.OPEN, ReleaseState.FULL)
NEEDED = (*UNPUBLISHED, ReleaseState.ANSWERABLE)
ANSWERED_FROM = (ReleaseState.ANSWERABLE, ReleaseState.SPENT)


@dataclass(frozen=True)
class Release:
    """A release; with no blocks it has not begun."""

    number: int
    rows: int
    blocks: int
    state: ReleaseState
    refused: str = ""
    """The refusal for which a right provider will never deliver it."""


def find_releases(
    tx: Transaction, study_id: bytes, states: Sequence[ReleaseState] = tuple(ReleaseState)
) -> list[Release]:
    """A study's releases in these states, in order."""
    return [
        Release(row[0], row[1], row[2], ReleaseState(row[3]), row[4])
        for row in tx.rows(
            f"SELECT {_COLUMNS} FROM releases WHERE study_id = ?"  # noqa: S608 - words of this module
            f" AND state IN ({any_of(tuple(states))}) ORDER BY release_number",
            (study_id,),
        )
    ]


def find_release(tx: Transaction, study_id: bytes, number: int) -> Release | None:
    """A release by its number."""
    found = (release for release in find_releases(tx, study_id) if release.number == number)
    return next(found, None)


def release_of_planned(tx: Transaction, study_id: bytes, block_id: bytes) -> Release | None:
    """The release that a planned block joins; None if the block was pooled or given up before."""
    if find_block(tx, study_id, block_id).state is not BlockState.PLANNED:
        return None
    last = ([None, *find_releases(tx, study_id)])[-1]
    if last is not None and last.state is ReleaseState.OPEN:
        return last
    return Release(1 if last is None else last.number + 1, 0, 0, ReleaseState.OPEN)


def count_block(
    tx: Transaction,
    study_id: bytes,
    block_id: bytes,
    release: Release,
    rows: int,
    release_rows: int,
    accepted: bytes | None = None,
) -> None:
    """Count one more block with so many rows; the release is full from `release_rows` on."""
    total = release.rows + rows
    state = ReleaseState.FULL if total >= release_rows else ReleaseState.OPEN
    tx.run(
        "INSERT INTO releases (study_id, release_number, row_count, block_count, state)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (study_id, release_number) DO UPDATE SET"
        " row_count = excluded.row_count, block_count = excluded.block_count, state = excluded.state",
        (study_id, release.number, total, release.blocks + 1, state.value),
    )
    pool_block(tx, study_id, block_id, release.number, accepted)


def move(tx: Transaction, study_id: bytes, number: int, state: ReleaseState) -> None:
    """Give a release its next state. Only one that may still be published has a factor."""
    factor = "factor" if state in UNPUBLISHED else "NULL"
    if not tx.run(
        f"UPDATE releases SET state = ?, factor = {factor} WHERE study_id = ? AND release_number = ?"  # noqa: S608
        f" AND state IN ({any_of(state.before)})",
        (state.value, study_id, number),
    ):
        found = find_release(tx, study_id, number)
        raise IllegalTransition(
            f"release {number}, which is {found.state if found else 'not there'}, was to be {state}"
        )


def join(tx: Transaction, study_id: bytes, into: Release, others: Sequence[Release]) -> None:
    """Releases that are not published join one that is not either, with their blocks."""
    for other in others:
        tx.run("DELETE FROM releases WHERE study_id = ? AND release_number = ?", (study_id, other.number))
        renumber(tx, study_id, other.number, into.number)
    every = (into, *others)
    tx.run(
        "UPDATE releases SET row_count = ?, block_count = ? WHERE study_id = ? AND release_number = ?",
        (sum(one.rows for one in every), sum(one.blocks for one in every), study_id, into.number),
    )


def short_and_full(tx: Transaction, study_id: bytes) -> tuple[Release | None, Release | None]:
    """The last release if it is short, and the full one before it, unless that is published."""
    last = [None, None, *find_releases(tx, study_id, UNPUBLISHED)]
    full, short = last[-2:]
    return (None, None) if short is None or short.state is not ReleaseState.OPEN else (short, full)


def take_block_out(tx: Transaction, study_id: bytes, block_id: bytes) -> bool:
    """Take a block that a provider has lost out of its release; without others that is discarded. False if it was before."""
    found = take_out(tx, study_id, block_id)
    if found is None:
        return False
    number, rows = found
    left = tx.rows(
        "UPDATE releases SET row_count = row_count - ?, block_count = block_count - 1"
        " WHERE study_id = ? AND release_number = ? RETURNING row_count",
        (rows, study_id, number),
    )
    if left == [(0,)]:
        move(tx, study_id, number, ReleaseState.DISCARDED)
    return True


def note_refusal(tx: Transaction, study_id: bytes, number: int, reason: str) -> None:
    """A right provider refuses the release for good."""
    tx.run(
        "UPDATE releases SET refused = ? WHERE study_id = ? AND release_number = ?",
        (reason, study_id, number),
    )


def set_factor(tx: Transaction, study_id: bytes, number: int, factor: bytes) -> None:
    """Keep the rows suite's running factor of a release, encrypted."""
    tx.run(
        "UPDATE releases SET factor = ? WHERE study_id = ? AND release_number = ?", (factor, study_id, number)
    )


def factor_of(tx: Transaction, study_id: bytes, number: int) -> bytes | None:
    """What was kept; None if the release has none any more."""
    row = tx.row("SELECT factor FROM releases WHERE study_id = ? AND release_number = ?", (study_id, number))
    return None if row is None else row[0]


def answers_state(tx: Transaction, study_id: bytes) -> tuple[str, int]:
    """(answerable, rows), (spent, rows), or (none, 0) while there is nothing to answer from."""
    found = find_releases(tx, study_id, ANSWERED_FROM)
    return (found[0].state.value, found[0].rows) if found else ("none", 0)


def end_answers(tx: Transaction, study_id: bytes) -> bool:
    """No question is answered from now on; whether one was until now."""
    found = find_releases(tx, study_id, (ReleaseState.ANSWERABLE,))
    for release in found:
        move(tx, study_id, release.number, ReleaseState.SPENT)
    return bool(found)


def still_needed(tx: Transaction, study_id: bytes) -> bool:
    """Whether a release of the study is still being filled, waits to be published, or answers questions."""
    return bool(find_releases(tx, study_id, NEEDED))


def erase_factors(tx: Transaction, study_id: bytes) -> int:
    """Erase whatever factor is left; each release's number, size and state stay beside what was published of it."""
    tx.run("UPDATE releases SET factor = NULL WHERE study_id = ?", (study_id,))
    return 0


def after_restore() -> list[str]:
    """Statements for a restored collector, which may have published since the backup was made.

    Numbers that it may have given out are not given out again, and nothing that was there is published or answered from.
    """
    unpublished, discarded, spent = any_of(UNPUBLISHED), ReleaseState.DISCARDED, ReleaseState.SPENT
    return [
        f"""
INSERT INTO releases (study_id, release_number, row_count, block_count, state)
SELECT study_id, {_SKIPPED_NUMBERS} + coalesce(
  (SELECT max(release_number) FROM releases WHERE releases.study_id = studies.study_id), 0), 0, 0, '{discarded}'
FROM studies""",  # noqa: S608 - constants
        f"UPDATE releases SET factor = NULL, state = '{spent}' WHERE state IN ({any_of(spent.before)})",  # noqa: S608
        f"UPDATE releases SET factor = NULL, state = '{discarded}' WHERE state IN ({unpublished})",  # noqa: S608
    ]


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


def plan_block(tx: Transaction, study_id: bytes, block_id: bytes, submission_ids: bytes) -> bool:
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


def move_block(
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


def pool_block(
    tx: Transaction, study_id: bytes, block_id: bytes, release: int, accepted: bytes | None
) -> None:
    """Count a block into a release."""
    move_block(tx, study_id, block_id, BlockState.POOLED)
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


def blocks_of(tx: Transaction, study_id: bytes, number: int) -> list[PooledBlock]:
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
    move_block(tx, study_id, block_id, BlockState.ABANDONED)
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


def erase_blocks(tx: Transaction, study_id: bytes) -> int:
    """Erase a study's plans, with the ids in them."""
    tx.run("DELETE FROM blocks WHERE study_id = ?", (study_id,))
    return 0
