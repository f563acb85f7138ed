"""The table of releases, whatever the suite: which one a planned block joins, counting the block into it, and the one that
a study with a budget answers from."""

from __future__ import annotations

from typing import NamedTuple

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.store.interface import Transaction

__all__ = ["OpenRelease", "answers_state", "count_block", "end_answers", "release_of_planned", "still_needed"]


class OpenRelease(NamedTuple):
    """A release short of `release_rows`; `blocks` is 0 where it has not begun."""

    number: int
    rows: int
    blocks: int


def release_of_planned(tx: Transaction, study_id: bytes, block_id: bytes) -> OpenRelease | None:
    """The release that a planned block joins; None if the block was pooled or given up before."""
    block = tx.row("SELECT state FROM blocks WHERE block_id = ? AND study_id = ?", (block_id, study_id))
    if block is None:
        raise Refused(Reason.UNKNOWN_BLOCK, "that block was never planned")
    if block[0] != "planned":
        return None
    last = tx.row(
        "SELECT release_number, row_count, block_count, state FROM releases WHERE study_id = ?"
        " ORDER BY release_number DESC LIMIT 1",
        (study_id,),
    )
    if last is None:
        return OpenRelease(1, 0, 0)
    return OpenRelease(*last[:3]) if last[3] == "open" else OpenRelease(last[0] + 1, 0, 0)


def count_block(tx: Transaction, study_id: bytes, release: OpenRelease, rows: int, release_rows: int) -> None:
    """Count one more block with so many rows; the release is full from `release_rows` on."""
    total = release.rows + rows
    tx.run(
        "INSERT INTO releases (study_id, release_number, row_count, block_count, state)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (study_id, release_number) DO UPDATE SET"
        " row_count = excluded.row_count, block_count = excluded.block_count, state = excluded.state",
        (study_id, release.number, total, release.blocks + 1, "full" if total >= release_rows else "open"),
    )


def answers_state(tx: Transaction, study_id: bytes) -> tuple[str, int]:
    """(answerable, rows), (spent, rows), or (none, 0) while there is nothing to answer from."""
    row = tx.row(
        "SELECT state, row_count FROM releases WHERE study_id = ? AND state IN ('answerable', 'spent')",
        (study_id,),
    )
    return ("none", 0) if row is None else (str(row[0]), int(row[1]))


def end_answers(tx: Transaction, study_id: bytes) -> bool:
    """No question is answered from now on; whether one was until now."""
    return bool(
        tx.run("UPDATE releases SET state = 'spent' WHERE study_id = ? AND state = 'answerable'", (study_id,))
    )


def still_needed(tx: Transaction, study_id: bytes) -> bool:
    """Whether a release of the study is still being filled, waits to be published, or answers questions."""
    return (
        tx.row(
            "SELECT 1 FROM releases WHERE study_id = ? AND state IN ('open', 'full', 'answerable')",
            (study_id,),
        )
        is not None
    )
