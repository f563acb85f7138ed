"""Why a study's submissions wait: the sentences shown on the status page, the owner's console and the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.study import Study

__all__ = ["Waiting", "waiting_of"]


@dataclass(frozen=True)
class Waiting:
    """One goal: what is waited for, how much of it is there, and why so much is needed."""

    goal: str
    there: int
    needed: int
    because: str


def waiting_of(study: Study, *, pending: int, masking: int, pooled: int) -> list[Waiting]:
    """What an open study waits for, the nearest first."""
    release = study.release_rows
    if study.suite.name == "moments":
        because = (
            f"{pooled:,} reports accepted and added up; a release is made at {release:,}, and a full one is kept back until "
            "the next is full too."
        )
        return [Waiting("Next release", pooled, release, because)]
    block = study.rows.block_rows
    of_block = (
        f"{pending:,} complete answers wait; a block of {block:,} is made when {2 * block:,} do, since one full block is "
        "kept back until the end."
    )
    towards = masking + pooled
    of_release = (
        f"{towards:,} rows masked or pooled; a release has {release:,} at least, and a full one is kept back until the "
        "next is full too."
    )
    return [
        Waiting("Next block", pending, 2 * block, of_block),
        Waiting("Next release", towards, release, of_release),
    ]
