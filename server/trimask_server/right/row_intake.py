"""How a right provider stores the rows that arrive, many in one statement, each once, or the reason why not; withdrawals.

A withdrawn row that is in no block is erased, and its id stays so that it cannot come (again). Anybody can make up a key.
Where its submission is not here, an id is kept only for a caller with an invitation, which is bound to that id; in an
open study, for a bounded number. Once the study accepts nothing more, the provider's statement is true without anything
being kept.
"""

from __future__ import annotations

import hmac
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.submit.invitation import Admission
from trimask_server.right.invitations import bind
from trimask_server.runtime.audit import AuditLog
from trimask_server.store.interface import Store, Transaction

INCOMPLETE = -2  # the verdict on a row that another provider lacks (`right.batches`)
_PARTS = 64
_MOST_IN_ONE = 6  # the logarithm of the most rows inserted by one statement


@dataclass(frozen=True)
class Arrival:
    """A row on its way in, and the verified invitation it comes with in a study for invited people."""

    study_id: bytes
    submission_id: bytes
    stored: bytes = field(repr=False)
    digest: bytes
    now_ms: int
    admission: Admission | None = None
    together: bool = False
    """Whether it came among many, from who has their answers."""


def insert_rows(tx: Transaction, arrivals: Sequence[Arrival]) -> list[int | Exception]:
    """Store rows, and bind their invitations; when each was first stored.

    A row that was stored before is no new use of its invitation, and one that is refused binds none.
    """
    # Many rows in one statement; conflicts, which are rare, are sorted out afterwards.
    open_now = {
        study_id
        for study_id in {row.study_id for row in arrivals}
        if tx.row("SELECT 1 FROM studies WHERE study_id = ? AND state = 'open'", (study_id,))
    }
    welcome: dict[tuple[bytes, bytes], Arrival] = {}
    refused: dict[int, Refused] = {}
    for place, row in enumerate(arrivals):
        key = (row.study_id, row.submission_id)
        if row.study_id not in open_now or key in welcome:
            continue
        try:
            if row.admission is not None:
                if known_since(tx, *key, row.digest) is not None:
                    continue
                bind(tx, row.admission, row.now_ms)
            welcome[key] = row
        except Refused as refusal:
            refused[place] = refusal
    coming = list(welcome.values())
    fresh: set[tuple[bytes, bytes]] = set()
    first = 0
    while first < len(coming):
        size = 1 << min(_MOST_IN_ONE, (len(coming) - first).bit_length() - 1)
        values = [
            value
            for row in coming[first : first + size]
            for value in (row.study_id, row.submission_id, row.stored, row.digest, row.now_ms)
        ]
        fresh.update((found[0], found[1]) for found in tx.rows(_insertion(size), values))
        first += size
    count_together(tx, [row.study_id for key, row in welcome.items() if row.together and key in fresh])
    answers: list[int | Exception] = []
    for place, row in enumerate(arrivals):
        key = (row.study_id, row.submission_id)
        answers.append(refused.get(place) or (row.now_ms if key in fresh else first_time(tx, row)))
        fresh.discard(key)  # the same row twice in a group: the second is a repeat
    return answers


def count_together(tx: Transaction, came: Sequence[bytes]) -> None:
    """Count people who came together; `came` has the study of each."""
    for study_id, count in Counter(came).items():
        # In parts, of which each process takes one: rows are taken in beside each other, and would wait for a single count.
        tx.run(
            "INSERT INTO sent_together (study_id, part, count) VALUES (?, ?, ?)"
            " ON CONFLICT (study_id, part) DO UPDATE SET count = sent_together.count + excluded.count",
            (study_id, os.getpid() % _PARTS, count),
        )


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


MOST_UNKNOWN = 1000


@dataclass(frozen=True)
class WithdrawalStore:
    """Beside `RowStore`, in the same tables."""

    database: Store
    audit: AuditLog | None = None
    # Ids kept of submissions that never came, by study; counted in the store once, then here.
    _unknown: dict[bytes, int] = field(default_factory=dict, init=False)

    async def withdraw(
        self,
        study_id: bytes,
        submission_id: bytes,
        now_ms: int,
        *,
        invited: bool = False,
        admission: Admission | None = None,
    ) -> int:
        """Erase a row and refuse its id for ever; when that was first done. Gone from the disk when this returns.

        `invited`: the study is for invited people. The invitation of a verified `admission` is bound to the id where
        its row is not here.
        """

        def write(tx: Transaction) -> tuple[int, bool]:
            self._refuse_counted(tx, study_id, submission_id)
            first = tx.run(
                "UPDATE submissions SET payload = NULL, withdrawn_ms = ? WHERE study_id = ? AND submission_id = ?"
                " AND block_id IS NULL AND draw_number IS NULL AND withdrawn_ms IS NULL",
                (now_ms, study_id, submission_id),
            )
            row = tx.row(
                "SELECT withdrawn_ms FROM submissions WHERE study_id = ? AND submission_id = ?",
                (study_id, submission_id),
            )
            if row is None:
                if not self._takes_in(tx, study_id):
                    return now_ms, False
                # A copy may still arrive.
                if invited:
                    _require_standing(tx, admission, now_ms)
                else:
                    self._count_unknown(tx, study_id)
                first = tx.run(
                    "INSERT INTO submissions"
                    " (study_id, submission_id, payload, payload_hash, receive_time_ms, withdrawn_ms)"
                    " VALUES (?, ?, NULL, ?, ?, ?)",
                    (study_id, submission_id, b"", now_ms, now_ms),
                )
                row = (now_ms,)
            if row[0] is None:
                raise Refused(
                    Reason.ALREADY_IN_BLOCK,
                    "this submission is already being combined with others: it can no longer be told apart from them, "
                    "so it cannot be found or removed",
                )
            if first:
                list_again(tx, study_id, submission_id)
            if first and self.audit is not None:
                self.audit.append(tx, "submission_withdrawn", study=study_id.hex(), rows=1)
            return int(row[0]), bool(first)

        withdrawn_ms, changed = await self.database.write(write)
        if changed:
            await self.database.scrub()
        return withdrawn_ms

    def forget(self, study_id: bytes) -> None:
        """Forget what is counted for a study that is erased."""
        self._unknown.pop(study_id, None)

    def _takes_in(self, tx: Transaction, study_id: bytes) -> bool:
        """Whether the study may still accept rows here; true also for a study that the operator has refused."""
        row = tx.row("SELECT state FROM studies WHERE study_id = ?", (study_id,))
        return row is not None and row[0] in ("open", "paused", "refused")

    def _refuse_counted(self, tx: Transaction, study_id: bytes, submission_id: bytes) -> None:
        """While a draw has a row, all right providers rely on it; while a study closes, what is there was counted: without
        it the others' rows might be too few, and erased."""
        if tx.row(
            "SELECT 1 FROM submissions s JOIN studies t ON t.study_id = s.study_id WHERE s.study_id = ?"
            " AND s.submission_id = ? AND s.block_id IS NULL AND s.payload IS NOT NULL"
            " AND (s.draw_number IS NOT NULL OR t.turn % 2 = 1 OR t.state = 'closing')",
            (study_id, submission_id),
        ):
            raise Refused(
                Reason.STUDY_PAUSED, "this submission may be combined with others now; try again later"
            )

    def _count_unknown(self, tx: Transaction, study_id: bytes) -> None:
        kept = self._unknown.get(study_id)
        if kept is None:
            row = tx.row(
                "SELECT count(*) FROM submissions WHERE study_id = ? AND block_id IS NULL AND payload_hash = ?",
                (study_id, b""),
            )
            kept = 0 if row is None else int(row[0])
        if kept >= MOST_UNKNOWN:
            self._unknown[study_id] = kept
            raise Refused(
                Reason.TOO_MANY_WITHDRAWALS,
                "nothing of that submission is here, and too many that are not here were withdrawn; try again later",
            )
        self._unknown[study_id] = kept + 1


def _require_standing(tx: Transaction, admission: Admission | None, now_ms: int) -> None:
    if admission is None:
        raise Refused(
            Reason.NO_INVITATION,
            "nothing of that submission is here; to keep it out before it comes, show its invitation",
        )
    bind(tx, admission, now_ms)
