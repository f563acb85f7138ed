"""The studies a node takes part in."""

from __future__ import annotations

from trimask_core.errors import Refused
from trimask_core.study import SignedStudy, Study
from trimask_server.store.interface import Store, Transaction

__all__ = ["StudyRegistry"]


class StudyRegistry:
    """Approved studies, on disk and parsed in memory. States: open, closing, closed."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._signed: dict[bytes, SignedStudy] = {}
        self._states: dict[bytes, str] = {}

    async def load(self) -> None:
        """Read what an earlier run registered."""
        rows = await self._database.read(
            lambda tx: tx.rows("SELECT study_id, signed_study, state FROM studies ORDER BY registered_ms")
        )
        for study_id, text, state in rows:
            self._signed[study_id] = SignedStudy.from_json(text)
            self._states[study_id] = state

    async def register(self, signed: SignedStudy, now_ms: int) -> None:
        """Keep a verified study; registering it again changes nothing."""
        study_id, text = signed.study.id, signed.to_json()

        def write(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, ?, 'open', ?)"
                " ON CONFLICT (study_id) DO NOTHING",
                (study_id, text, now_ms),
            )

        await self._database.write(write)
        self._signed.setdefault(study_id, signed)
        self._states.setdefault(study_id, "open")

    def signed(self, study_id: bytes) -> SignedStudy:
        """A study with its approvals."""
        try:
            return self._signed[study_id]
        except KeyError:
            raise Refused("unknown_study", "this node does not know that study") from None

    def get(self, study_id: bytes) -> Study:
        """A study."""
        return self.signed(study_id).study

    def state(self, study_id: bytes) -> str:
        """Its state."""
        self.signed(study_id)
        return self._states[study_id]

    def all(self) -> list[Study]:
        """Every study, oldest first."""
        return [signed.study for signed in self._signed.values()]

    async def set_state(self, study_id: bytes, state: str) -> None:
        """Move a study on."""
        if self.state(study_id) == state:
            return

        def write(tx: Transaction) -> None:
            tx.run("UPDATE studies SET state = ? WHERE study_id = ?", (state, study_id))

        await self._database.write(write)
        self._states[study_id] = state
