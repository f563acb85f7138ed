"""The study that a definition makes, with as many parties as may be expected: to be weighed or tried, never run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trimask_core.clock import SystemClock
from trimask_core.randomness import SystemRandom
from trimask_core.study import Party, Study, SuiteName
from trimask_theory.definition import StudyDefinition
from trimask_theory.study_plan import create_study

__all__ = ["Parties", "drafted", "expected_parties"]


@dataclass(frozen=True)
class Parties:
    """Everybody a study names, in the order of their numbers."""

    collector: Party
    right: tuple[Party, ...]
    left: tuple[Party, ...]


def expected_parties(
    suite: SuiteName,
    unmasking: Sequence[str] | None = None,
    right: int | None = None,
    left: int | None = None,
) -> Parties:
    """Parties without names, addresses or keys of anybody's, for a study that is only weighed: their number counts."""
    if right is None:
        right = len(unmasking) if unmasking else 4 if suite == "rows" else 3
    if left is None:
        left = 2 if suite == "rows" else 0

    def party(role: str) -> Party:
        key = hashlib.sha256(role.encode()).digest()
        sealing = key if role.startswith("R") else b""
        return Party(role, "", "", "", role.lower(), key, sealing, f"https://{role.lower()}.invalid")

    return Parties(
        party("collector"),
        tuple(party(f"R{k}") for k in range(1, right + 1)),
        tuple(party(f"L{j}") for j in range(1, left + 1)),
    )


def drafted(definition: StudyDefinition, right: int | None = None, left: int | None = None) -> Study:
    """The study that the definition makes, its noise calibrated."""
    plan = definition.collection
    if plan.block_rows is not None and plan.block_rows > plan.release_rows:
        definition = definition.changed(block_rows=plan.release_rows)
    # Who unmasks has no bearing on accuracy, and was chosen for other numbers of providers.
    definition = replace(definition, collection=replace(definition.collection, unmasking=None))
    parties = expected_parties(plan.suite, plan.unmasking, right, left)
    now = SystemClock().now_ms()
    return create_study(
        definition, parties.collector, parties.right, parties.left, "", now, SystemRandom(), bytes(32)
    )
