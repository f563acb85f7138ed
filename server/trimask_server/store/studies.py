"""The studies a node takes part in."""

from __future__ import annotations

from collections.abc import Callable

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_server.store.interface import Erasers, Store, Transaction

# An operator may refuse an open study and approve it again (`access.proposals`), and a pause may end; else it goes forward.
_STATES = ("open", "paused", "refused", "closing", "closed")


def refuse_collected(tx: Transaction, study_id: bytes) -> None:
    """Refuse a study that was closed and erased here: nothing of it may be stored again."""
    if tx.row("SELECT 1 FROM studies WHERE study_id = ? AND state = 'collected'", (study_id,)) is not None:
        raise Refused(Reason.STUDY_CLOSED, "this study was closed and erased here; it cannot begin again")


def refuse_intake(tx: Transaction, study_id: bytes) -> None:
    """Its operator refuses a study; one that is open takes nothing in any more."""
    tx.run(
        "UPDATE studies SET state = 'refused' WHERE study_id = ? AND state IN ('open', 'paused')", (study_id,)
    )


def end_refusal(tx: Transaction, study_id: bytes) -> None:
    """Its operator approves a study again: it is as the collector has last said."""
    tx.run(
        "UPDATE studies SET state = CASE WHEN turn % 2 = 1 THEN 'paused' ELSE 'open' END"
        " WHERE study_id = ? AND state = 'refused'",
        (study_id,),
    )


class StudyRegistry:
    """Approved studies, on disk and parsed in memory. States: open, closing, closed; paused while what is
    there is counted before it closes; refused by its operator; and collected, with no more than the id left, on disk
    alone: a study that is over cannot be registered, and its rows sent, a second time."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._signed: dict[bytes, SignedStudy] = {}
        self._states: dict[bytes, str] = {}
        self.on_forget: list[Callable[[bytes], object]] = []

    async def load(self) -> None:
        """Read what an earlier run registered."""
        rows = await self._database.read(
            lambda tx: tx.rows("SELECT study_id, signed_study, state FROM studies ORDER BY registered_ms")
        )
        for study_id, text, state in rows:
            if state == "collected":
                continue
            self._signed[study_id] = SignedStudy.from_json(text)
            self._states[study_id] = state

    async def refresh(self) -> None:
        """Read what other workers of this node registered, and state changes they made."""
        states = dict(await self._database.read(lambda tx: tx.rows("SELECT study_id, state FROM studies")))
        for study_id in [key for key, state in states.items() if state == "collected"]:
            del states[study_id]
            if study_id in self._signed:  # by another worker
                self.forget(study_id)
        if states.keys() - self._signed.keys():
            await self.load()
        self._states.update(states)

    async def register(
        self, signed: SignedStudy, now_ms: int, also: Callable[[Transaction], None] | None = None
    ) -> None:
        """Keep a verified study, and do `also` in the same transaction; registering it again changes nothing."""
        study_id, text = signed.study.id, signed.to_json()

        def write(tx: Transaction) -> None:
            refuse_collected(tx, study_id)
            added = tx.run(
                "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, ?, 'open', ?)"
                " ON CONFLICT (study_id) DO NOTHING",
                (study_id, text, now_ms),
            )
            if added and also is not None:
                also(tx)

        await self._database.write(write)
        self._signed.setdefault(study_id, signed)
        self._states.setdefault(study_id, "open")
        await self.refresh()

    def signed(self, study_id: bytes) -> SignedStudy:
        """A study with its approvals."""
        try:
            return self._signed[study_id]
        except KeyError:
            raise Refused(Reason.UNKNOWN_STUDY, "this node does not know that study") from None

    def get(self, study_id: bytes) -> Study:
        """A study."""
        return self.signed(study_id).study

    def state(self, study_id: bytes) -> str:
        """Its state."""
        self.signed(study_id)
        return self._states[study_id]

    async def state_now(self, study_id: bytes) -> str:
        """Its state in the store, which another worker of this node may have just changed."""
        await self.refresh()
        return self.state(study_id)

    async def is_closing(self, study_id: bytes) -> bool:
        """Whether intake is stopped for good: what is there is all there will be."""
        return await self.state_now(study_id) in ("closing", "closed")

    async def refuse_over(self, study_id: bytes) -> None:
        """Refuse a study that is closing or closed here: it cannot be opened a second time."""
        await self.refresh()
        await self._database.read(lambda tx: refuse_collected(tx, study_id))
        state = self._states.get(study_id)
        if state in ("closing", "closed"):
            raise Refused(
                Reason.STUDY_CLOSED,
                f"this study is {state} and cannot be opened again; make a new one of its definition (`trimask study new`)",
            )

    def all(self) -> list[Study]:
        """Every study, oldest first."""
        return [signed.study for signed in self._signed.values()]

    def forget(self, study_id: bytes) -> None:
        """Drop a study from memory, once the store says it is collected."""
        self._signed.pop(study_id, None)
        self._states.pop(study_id, None)
        for forget in self.on_forget:
            forget(study_id)

    async def set_state(
        self, study_id: bytes, state: str, also: Callable[[Transaction], None] | None = None
    ) -> None:
        """Advance a study's state, and do `also` in the same transaction.

        It never goes back: a late repeat of an earlier call changes nothing.
        """
        earlier = _STATES[: _STATES.index(state)]
        if self.state(study_id) in earlier:
            marks = ", ".join("?" * len(earlier))
            await self._move(f"state = '{state}'", study_id, also, f"state IN ({marks})", *earlier)

    # Pausing. The collector numbers every pause and every end of one: a study's turn, odd while it is paused. A right
    # provider follows the highest it was told, so that a late call neither ends a later pause nor begins one anew.

    async def intake(self, study_id: bytes) -> tuple[str, int]:
        """Its state and turn in the store."""
        row = await self._database.read(
            lambda tx: tx.row("SELECT state, turn FROM studies WHERE study_id = ?", (study_id,))
        )
        if row is None:
            raise Refused(Reason.UNKNOWN_STUDY, "this node does not know that study")
        return row[0], row[1]

    async def pause(self, study_id: bytes, also: Callable[[Transaction], None]) -> None:
        """Pause an open study; a study in any other state stays as it is."""
        await self._move("state = 'paused', turn = turn + 1", study_id, also, "state = 'open'")

    async def end_pause(
        self, study_id: bytes, turn: int, state: str, also: Callable[[Transaction], None]
    ) -> None:
        """Have a study go on ("open") or close; nothing happens if that pause is over."""
        change = "state = 'open', turn = turn + 1" if state == "open" else "state = 'closing'"
        await self._move(change, study_id, also, "state = 'paused' AND turn = ?", turn)

    async def follow(self, study_id: bytes, turn: int, also: Callable[[Transaction], None]) -> int:
        """Pause, or go on, as the collector says; the highest turn it said. Any other state stays."""

        def write(tx: Transaction) -> int:
            earlier, state = ("open", "paused") if turn % 2 else ("paused", "open")
            newer = tx.run(
                "UPDATE studies SET turn = ? WHERE study_id = ? AND turn < ?", (turn, study_id, turn)
            )
            if newer and tx.run(
                "UPDATE studies SET state = ? WHERE study_id = ? AND state = ?", (state, study_id, earlier)
            ):
                also(tx)
            row = tx.row("SELECT turn FROM studies WHERE study_id = ?", (study_id,))
            return turn if row is None else int(row[0])

        highest = await self._database.write(write)
        await self.refresh()
        return highest

    async def outnumber(self, study_id: bytes, turn: int) -> None:
        """Take the next turn after one that this store has forgotten, paused or not as it is."""
        await self._database.write(
            lambda tx: tx.run(
                "UPDATE studies SET turn = ? + (? + turn) % 2 WHERE study_id = ? AND turn <= ?",
                (turn + 1, turn + 1, study_id, turn),
            )
        )

    async def _move(
        self,
        change: str,
        study_id: bytes,
        also: Callable[[Transaction], None] | None,
        where: str,
        *values: int | str,
    ) -> None:
        def write(tx: Transaction) -> None:
            moved = tx.run(
                f"UPDATE studies SET {change} WHERE study_id = ? AND {where}",  # noqa: S608 - words of this module
                (study_id, *values),
            )
            if moved and also is not None:
                also(tx)

        await self._database.write(write)
        await self.refresh()

    async def collect(self, erasers: Erasers, now_ms: int, keep_ms: int) -> dict[bytes, int]:
        """Erase studies that closed at least `keep_ms` ago, but for their ids; each one's number of submissions.

        A study counts as closed from the first call that finds it so.
        """

        def write(tx: Transaction) -> dict[bytes, int]:
            tx.run("UPDATE studies SET closed_ms = ? WHERE state = 'closed' AND closed_ms IS NULL", (now_ms,))
            due = tx.rows(
                "SELECT study_id FROM studies WHERE state = 'closed' AND closed_ms <= ?", (now_ms - keep_ms,)
            )
            gone = {}
            for (study_id,) in due:
                erased = erasers.erase_study(tx, study_id)
                if erased is None:
                    continue
                tx.run(
                    "UPDATE studies SET state = 'collected', signed_study = '', registered_ms = 0, closed_ms = NULL"
                    " WHERE study_id = ?",
                    (study_id,),
                )
                gone[study_id] = erased
            return gone

        gone = await self._database.write(write)
        for study_id in gone:
            self.forget(study_id)
        return gone
