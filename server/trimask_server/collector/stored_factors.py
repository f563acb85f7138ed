"""Factors in the collector's releases table: second moments of people's answers, so encrypted, each under its own key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.rows.rotation import Matrix
from trimask_server.protocol.pool import factor_from_bytes, factor_to_bytes
from trimask_server.store.data_keys import Vault, destroy_keys, release_scope
from trimask_server.store.interface import Transaction

__all__ = ["StoredFactors", "erase_study", "still_needed"]


@dataclass(frozen=True)
class StoredFactors:
    """Reads and writes the `factor` of releases, inside transactions."""

    vault: Vault

    def save(self, tx: Transaction, study_id: bytes, number: int, factor: Matrix) -> None:
        """Write a release's factor; the release is there."""
        # Under a fresh key each time: the difference of two factors is one block's, which nobody may see.
        destroy_keys(tx, study_id, [release_scope(number)])
        stored = self.vault.obtain(tx, study_id, release_scope(number)).encrypt(
            factor_to_bytes(factor), b"factor"
        )
        tx.run(
            "UPDATE releases SET factor = ? WHERE study_id = ? AND release_number = ?",
            (stored, study_id, number),
        )

    def load(self, tx: Transaction, study_id: bytes, number: int) -> Matrix | None:
        """A release's factor; None if it has none any more."""
        row = tx.row(
            "SELECT factor FROM releases WHERE study_id = ? AND release_number = ?",
            (study_id, number),
        )
        if row is None or row[0] is None:
            return None
        key = self.vault.find(tx, study_id, release_scope(number))
        return None if key is None else factor_from_bytes(key.decrypt(row[0], b"factor"))

    @staticmethod
    def forget(tx: Transaction, study_id: bytes, states: Sequence[str], new_state: str) -> int:
        """Erase the factors of releases in some states, with their keys; how many. `Store.scrub` finishes it on disk."""
        marks = ", ".join("?" * len(states))
        numbers = [
            row[0]
            for row in tx.rows(
                f"SELECT release_number FROM releases WHERE study_id = ? AND state IN ({marks})",  # noqa: S608 - marks
                (study_id, *states),
            )
        ]
        for number in numbers:
            StoredFactors.forget_one(tx, study_id, number, new_state)
        return len(numbers)

    @staticmethod
    def forget_one(tx: Transaction, study_id: bytes, number: int, new_state: str) -> None:
        """Erase one release's factor, with its key."""
        tx.run(
            "UPDATE releases SET factor = NULL, state = ? WHERE study_id = ? AND release_number = ?",
            (new_state, study_id, number),
        )
        destroy_keys(tx, study_id, [release_scope(number)])

    @staticmethod
    def drop(tx: Transaction, study_id: bytes, numbers: Sequence[int]) -> None:
        """Remove releases that were pooled into another, with their keys."""
        tx.run_many(
            "DELETE FROM releases WHERE study_id = ? AND release_number = ?",
            [(study_id, number) for number in numbers],
        )
        destroy_keys(tx, study_id, [release_scope(number) for number in numbers])


def still_needed(tx: Transaction, study_id: bytes) -> bool:
    """Whether a release of the study is still being filled, waits to be published, or answers questions."""
    return (
        tx.row(
            "SELECT 1 FROM releases WHERE study_id = ? AND state IN ('open', 'full', 'answerable')",
            (study_id,),
        )
        is not None
    )


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase whatever factor is left; each release's number, size and state stay beside what was published of it."""
    tx.run("UPDATE releases SET factor = NULL WHERE study_id = ?", (study_id,))
    return 0
