"""How far a study's submissions have come: why they wait, and what closing would do to them.

Submissions wait for reasons that the status page, the owner's console and the terminal show in the same sentences.
Closing publishes them, keeps them to answer from, or erases them. The collector decides when it closes (the work of
each suite); this says beforehand what it will decide, from the counts that everybody may ask for, so that an owner knows
before closing what would be erased.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from trimask_core.study.definition import Study


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
    if study.suite.name == "moments" and not study.moments.several_releases:
        because = (
            f"{pooled:,} reports accepted and added up; all are published together when the study closes."
        )
        return [Waiting("Release at close", pooled, release, because)]
    if study.suite.name == "moments":
        because = (
            f"{pooled:,} reports accepted and added up; a release is made at {release:,}, and a full one is kept back until "
            "the next is full too."
        )
        if study.protection.sigma:
            because += (
                " Each has the whole noise: 35 releases together have 6 times the error of one of everybody."
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


@dataclass(frozen=True)
class Closing:
    """What closing would do to the complete submissions that are in no release yet.

    `missing` is how many more it takes until something is published; `why` says why `erased` are erased, or how
    what comes out differs from what was planned. `answerable`: they stay with the study to answer from, within its budget.
    """

    published: int
    erased: int
    missing: int
    why: str
    answerable: bool = False

    @property
    def sentences(self) -> list[str]:
        """The effect in plain words, shown before a study is closed."""
        said = []
        if self.published:
            verb = "kept to answer from, within the budget" if self.answerable else "published"
            said.append(f"{_people(self.published)} will be {verb}.")
        if self.erased:
            said.append(f"{_people(self.erased)} will be erased for ever, and published nowhere.")
        if not self.published and not self.erased:
            said.append("No complete submission waits: nothing more will be published.")
        if self.why:
            said.append(self.why)
        if self.missing:
            said.append(f"If the study stays open, {self.missing:,} more would be enough.")
        said.append("Submissions that have reached only some of the right providers by then are erased.")
        return said

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "sentences": self.sentences}


def closing_of(study: Study, *, pending: int, masking: int, pooled: int) -> Closing:
    """What closing now would do to complete submissions: `pending` wait, `masking` are in a block, `pooled` are in no
    release yet."""
    answerable = study.protection.budget is not None
    if study.suite.name == "moments":
        return _moments(study, pending + masking + pooled, answerable=answerable)
    # The last block takes what is left over, if there is a whole block of it; else it cannot be masked.
    block = study.rows.block_rows
    left_over = pending if pending < block else 0
    usable = pending - left_over + masking + pooled
    everything = pending + masking + pooled
    if usable >= study.release_rows:
        why = f"{left_over:,} of them make no block of {block:,}." if left_over else ""
        return Closing(usable, left_over, 0, why, answerable)
    if not everything:
        return Closing(0, 0, 0, "")
    why = (
        f"The guarantee needs {study.release_rows:,} people in a release, in whole blocks of {block:,} or more; "
        f"{everything:,} complete submissions are here, {usable:,} of them in such blocks."
    )
    return Closing(0, everything, _missing(study.release_rows - masking - pooled, pending, block), why)


def _missing(wanted: int, pending: int, block: int) -> int:
    """How many more submissions are needed so that the waiting ones, in whole blocks, reach the required number."""
    return max(wanted, block) - pending


def _moments(study: Study, everything: int, *, answerable: bool) -> Closing:
    """The moments suite: any number is published with its noise; without noise, at least the study's minimum."""
    if not everything:
        return Closing(0, 0, 0, "")
    least = 1 if study.protection.sigma or answerable else study.release_rows
    if everything < least:
        why = f"A study without noise opens no sum over fewer than {least:,} people, and {everything:,} are here."
        return Closing(0, everything, least - everything, why)
    why = ""
    if everything < study.release_rows:
        why = (
            f"The study planned {study.release_rows:,} people a release: the noise is the same with fewer, so "
            "results are less precise."
        )
    return Closing(everything, 0, 0, why, answerable)


def _people(count: int) -> str:
    return f"{count:,} complete submission{'s' if count != 1 else ''}"
