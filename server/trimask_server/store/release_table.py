"""The collector's table `releases`: what is filled, published, or answered from. Nobody else has SQL on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimask_server.store import block_table
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
    if block_table.find_block(tx, study_id, block_id).state is not block_table.BlockState.PLANNED:
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
    block_table.pool(tx, study_id, block_id, release.number, accepted)


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
        block_table.renumber(tx, study_id, other.number, into.number)
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
    found = block_table.take_out(tx, study_id, block_id)
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
