"""How a node erases a study: the owner of each table erases the study's rows in it.

An owner has a function `erase_study(tx, study_id)` for its own tables. A role names its owners once (`right.tables`,
`collector.tables`), and the study registry asks all of them, in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimask_server.store.interface import Transaction

__all__ = ["EraseStudy", "Erasers", "StillNeeded"]

# Erases a study's rows in its owner's tables; how many people's submissions were among them.
EraseStudy = Callable[[Transaction, bytes], int]
# Whether an owner still has work to do with what a closed study left.
StillNeeded = Callable[[Transaction, bytes], bool]


@dataclass(frozen=True)
class Erasers:
    """The owners of a role's tables."""

    erase: tuple[EraseStudy, ...]
    still_needed: tuple[StillNeeded, ...] = ()

    def erase_study(self, tx: Transaction, study_id: bytes) -> int | None:
        """Erase a study in every owner's tables; how many submissions went, or None if an owner still needs it."""
        if any(needed(tx, study_id) for needed in self.still_needed):
            return None
        return sum(erase(tx, study_id) for erase in self.erase)
