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


def waiting_of(
    study: Study, *, pending: int, masking: int, pooled: int, closing: bool = False
) -> list[Waiting]:
    """What a study that is open, or closing, waits for: the nearest first."""
    release = study.release_rows
    if closing:
        return _while_closing(study, pending, masking + pooled)
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
        if pending < 2 * block
        else f"{pending:,} complete answers wait; they are checked, then masked {block:,} at a time, block after block."
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


def _while_closing(study: Study, pending: int, towards: int) -> list[Waiting]:
    release = study.release_rows
    at_the_end = (
        f"The study is closing; at {release:,} rows what is there is published when no answer waits any more."
    )
    if study.suite.name == "moments":
        reports = (
            f"{pending:,} reports are still to be checked, {towards:,} were accepted or are being checked."
        )
        return [Waiting("Last release", towards, release, f"{reports} {at_the_end}")]
    block = study.rows.block_rows
    of_block = (
        f"{pending:,} complete answers wait; they are checked, then masked {block:,} at a time, and "
        "the last block takes what is left."
        if pending >= block
        else f"{pending:,} complete answers are too few for another block of {block:,}, and are erased at the end."
    )
    of_release = f"{towards:,} rows masked or pooled. {at_the_end}"
    return [
        *([Waiting("Next block", pending, block, of_block)] if pending else []),
        Waiting("Last release", towards, release, of_release),
    ]
