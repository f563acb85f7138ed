"""How a right provider stores the rows that arrive: many in one statement, each once, or the reason why not."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.store.interface import Transaction

__all__ = [
    "INCOMPLETE",
    "Arrival",
    "first_time",
    "insert_rows",
    "known_since",
    "list_again",
    "or_raise",
    "why_refused",
]

INCOMPLETE = -2  # the verdict on a row that another provider lacks (`right.incomplete`)
_MOST_IN_ONE = 6  # the logarithm of the most rows inserted by one statement


@dataclass(frozen=True)
class Arrival:
    """A row on its way in."""

    study_id: bytes
    submission_id: bytes
    stored: bytes = field(repr=False)
    digest: bytes
    now_ms: int


def insert_rows(tx: Transaction, arrivals: Sequence[Arrival]) -> list[int | Exception]:
    """Store rows; when each was first stored."""
    # Many rows in one statement; conflicts, which are rare, are sorted out afterwards.
    open_now = {
        study_id
        for study_id in {row.study_id for row in arrivals}
        if tx.row("SELECT 1 FROM studies WHERE study_id = ? AND state = 'open'", (study_id,))
    }
    welcome = [row for row in arrivals if row.study_id in open_now]
    fresh: set[tuple[bytes, bytes]] = set()
    first = 0
    while first < len(welcome):
        size = 1 << min(_MOST_IN_ONE, (len(welcome) - first).bit_length() - 1)
        values = [
            value
            for row in welcome[first : first + size]
            for value in (row.study_id, row.submission_id, row.stored, row.digest, row.now_ms)
        ]
        fresh.update((found[0], found[1]) for found in tx.rows(_insertion(size), values))
        first += size
    answers: list[int | Exception] = []
    for row in arrivals:
        key = (row.study_id, row.submission_id)
        answers.append(row.now_ms if key in fresh else first_time(tx, row))
        fresh.discard(key)  # the same row twice in a group: the second is a repeat
    return answers


@cache
def _insertion(size: int) -> str:
    """One statement for this many rows, which returns those that are new.

    One, because each statement releases the interpreter lock and must get it back from a busy event loop. Sizes are
    powers of two, so that the few statements there are stay prepared.
    """
    return (
        "INSERT INTO submissions (study_id, submission_id, payload, payload_hash, receive_time_ms)"  # noqa: S608
        f" VALUES {', '.join(['(?, ?, ?, ?, ?)'] * size)}"
        " ON CONFLICT (study_id, submission_id) DO NOTHING RETURNING study_id, submission_id"
    )


def first_time(tx: Transaction, row: Arrival) -> int | Exception:
    """When a row that was not inserted was first stored, or why it is refused."""
    try:
        known = known_since(tx, row.study_id, row.submission_id, row.digest)
    except Refused as refusal:
        return refusal
    if known is not None:
        return known
    state = tx.row("SELECT state FROM studies WHERE study_id = ?", (row.study_id,))
    if state == ("refused",):
        return Refused(Reason.STUDY_REFUSED, "this provider's operator has withdrawn from the study")
    if state == ("paused",):
        return Refused(Reason.STUDY_PAUSED, "this study may be about to close; try again later")
    return Refused(Reason.STUDY_CLOSED, "this study accepts no more submissions")


def list_again(tx: Transaction, study_id: bytes, submission_id: bytes) -> None:
    """Put a row that was erased and is in no block behind all others: who lists what came learns there that it went."""
    columns = "study_id, submission_id, payload_hash, receive_time_ms, withdrawn_ms, check_id, verdict"
    for row in tx.rows(
        "DELETE FROM submissions WHERE study_id = ? AND submission_id = ?"  # noqa: S608 - names only
        f" AND block_id IS NULL AND payload IS NULL RETURNING {columns}",
        (study_id, submission_id),
    ):
        tx.run(f"INSERT INTO submissions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608


def or_raise(answer: int | Exception) -> int:
    """What `insert_rows` answered for one row."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def known_since(tx: Transaction, study_id: bytes, submission_id: bytes, digest: bytes) -> int | None:
    """When a submission of these bytes was stored; None if it was not, `Refused` if it cannot be accepted (again)."""
    row = tx.row(
        "SELECT payload_hash, receive_time_ms, withdrawn_ms, verdict FROM submissions"
        " WHERE study_id = ? AND submission_id = ?",
        (study_id, submission_id),
    )
    if row is None:
        return None
    if row[2] is not None:
        raise Refused(Reason.SUBMISSION_WITHDRAWN, "this submission was withdrawn and cannot be sent again")
    if row[3] == 0:
        raise Refused(
            Reason.OUT_OF_FRAME, "the check of this submission's noise columns failed; it was erased"
        )
    if row[3] == -1:
        raise Refused(Reason.WRONG_TAGS, "the check of this submission's tags failed; it was erased")
    if row[3] == INCOMPLETE:
        raise Refused(
            Reason.INCOMPLETE_SUBMISSION,
            "another provider did not get its part in time; what was here is erased",
        )
    if row[0] != digest:
        raise Refused(Reason.CONFLICTING_SUBMISSION, "this submission id was used before with other bytes")
    return int(row[1])


def why_refused(tx: Transaction, study_id: bytes, submission_id: bytes, digest: bytes) -> Reason | None:
    """Why a submission accepted earlier is refused now; None if it is not."""
    row = tx.row(
        "SELECT payload_hash FROM submissions WHERE study_id = ? AND submission_id = ?",
        (study_id, submission_id),
    )
    if row is None or not hmac.compare_digest(bytes(row[0] or b""), digest):
        # The same message for an unknown submission and for a caller that does not know the bytes.
        return Reason.UNKNOWN_SUBMISSION
    try:
        known_since(tx, study_id, submission_id, digest)
    except Refused as error:
        return error.reason if isinstance(error.reason, Reason) else Reason.UNKNOWN_SUBMISSION
    return None
