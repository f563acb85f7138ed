"""The simulation is worth what it finds: promises broken on purpose, each noticed within some seeds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.moments.field import P
from trimask_server.collector import study_leases
from trimask_server.collector.batches import Batches
from trimask_server.right.rows import RowStore
from trimask_server.runtime import metrics as refusals
from trimask_server.store.studies import StudyRegistry
from trimask_server.suites.moments import batch_check, batch_store, deliveries
from trimask_server.suites.moments.batch_check import sum_accepted
from trimask_server.suites.rows import collector_draw, right_draw
from trimask_server.suites.rows import suite as rows_suite
from trimask_server.suites.rows.draw import Draw, DrawnBlock
from trimask_simulation.faults import KINDS
from trimask_simulation.world import run_seed

Mutate = Callable[[pytest.MonkeyPatch], None]


def _fold_twice(patch: pytest.MonkeyPatch) -> None:
    fold = rows_suite.fold
    patch.setattr(rows_suite, "fold", lambda factor, block: fold(fold(factor, block), block))


def _fold_loses_a_row(patch: pytest.MonkeyPatch) -> None:
    fold = rows_suite.fold
    short = 1e-3  # a masked row is nobody's; a little less of all of them is a lost share of everybody
    patch.setattr(rows_suite, "fold", lambda factor, block: fold(factor, np.asarray(block) * (1 - short)))


def _assign_anew(patch: pytest.MonkeyPatch) -> None:
    """Rows that are in a block are drawn again."""
    settle = right_draw.DrawStore.settle

    async def settled(self: Any, draw: Draw, *more: Any) -> None:
        await settle(self, draw, *more)
        await self.database.write(
            lambda tx: tx.run("UPDATE submissions SET block_id = NULL WHERE payload IS NOT NULL")
        )

    patch.setattr(right_draw.DrawStore, "settle", settled)


def _plan_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Rows are bound at the providers before the plan is in the ledger, so a crash forgets who is in which block."""
    pool = rows_suite.RowsWork._pool
    begun: dict[bytes, int] = {}

    async def forgetful(self: Any, block: Any, batches: Any) -> None:
        begun[block.block_id] = begun.get(block.block_id, 0) + 1
        if begun[block.block_id] == 2:  # what a crash would have left of an unwritten plan: nothing
            await self._ledger.database.write(
                lambda tx: tx.run(
                    "DELETE FROM blocks WHERE block_id = ? AND state = 'planned'", (block.block_id,)
                )
            )
            batches._intake.count_anew()
            raise Refused(Reason.UNREACHABLE, "forgotten")
        await pool(self, block, batches)

    patch.setattr(rows_suite.RowsWork, "_pool", forgetful)


def _erase_first(patch: pytest.MonkeyPatch) -> None:
    """Rows are erased when their block is planned, not when it is pooled."""
    work_on = rows_suite.RowsWork.work_on

    async def hasty(self: Any, block: Any, batches: Any) -> None:
        if block.attempts:
            await batches.erase(block)
        await work_on(self, block, batches)

    patch.setattr(rows_suite.RowsWork, "work_on", hasty)


def _erase_without_asking(patch: pytest.MonkeyPatch) -> None:
    """A provider is taken to have erased a block that it was not told to erase. Closing would hide it."""

    async def lenient(self: Any, block: Any) -> None:
        for party in self._study.right[1:]:
            await self._calls.erase(party, block)
        await self._ledger.mark_erased(self._study.id, block.block_id)

    patch.setattr(Batches, "erase", lenient)


def _no_scrub(patch: pytest.MonkeyPatch) -> None:
    """Erased rows stay in the database's files."""
    from trimask_simulation.disk import SimulatedDatabase

    async def nothing(self: Any) -> None:
        return

    patch.setattr(SimulatedDatabase, "scrub", nothing)


def _small_blocks(patch: pytest.MonkeyPatch) -> None:
    """The last block is cut short."""
    blocks = Draw.blocks

    def short(draw: Draw) -> list[DrawnBlock]:
        return [replace(block, submission_ids=block.submission_ids[:-32]) for block in blocks(draw)]

    patch.setattr(Draw, "blocks", short)


def _small_pool(patch: pytest.MonkeyPatch) -> None:
    """A block is drawn out of n rows, not 2 n, while the study is open."""
    patch.setattr(Draw, "opens", property(lambda draw: len(draw.accepted) >= draw.study.rows.block_rows))
    patch.setattr(collector_draw.DrawDriver, "_worth_it", lambda *given: given[1].usable >= 9)


def _counts_lost(patch: pytest.MonkeyPatch) -> None:
    """Counts that could not be saved are forgotten (found by the simulation)."""
    save = refusals.Refusals.save

    async def forgetful(self: Any, database: Any, audit: Any = None) -> None:
        try:
            await save(self, database, audit)
        except Exception:
            self._unsaved.clear()
            raise

    patch.setattr(refusals.Refusals, "save", forgetful)


MUTANTS: dict[str, tuple[Mutate, str]] = {
    "fold twice": (_fold_twice, "2 times, its blocks 1 times"),
    "fold loses": (_fold_loses_a_row, "not of these people|boxes and the digits differ"),
    "assign anew": (_assign_anew, "is in blocks|before it was pooled|a block is given_up|still holds"),
    "plan in memory": (_plan_in_memory, "not over|is in blocks|still holds|the status says"),
    "erase first": (_erase_first, "erased before it was pooled"),
    "erase without asking": (_erase_without_asking, "still holds"),
    "no scrub": (_no_scrub, "still holds a destroyed data key"),
    "small blocks": (_small_blocks, "has . rows|not over|differ"),
    "small pool": (_small_pool, "a draw of .* rows"),
    "counts lost": (_counts_lost, "counted refusals"),
}
# Of those that not every seed notices: one that notices soon, where the hunt begins.
FIRST_SEEDS = {"counts lost": 6, "erase first": 4, "plan in memory": 1}


def _add_twice(patch: pytest.MonkeyPatch) -> None:
    """A batch that is asked for again is added up again."""
    patch.setattr(
        batch_check, "sum_accepted", lambda *given: [2 * value % P for value in sum_accepted(*given)]
    )


def _accept_anything(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the proofs."""
    patch.setattr(batch_check, "verdicts", lambda said: [None for _ in said[1]])


def _agree_without_asking(patch: pytest.MonkeyPatch) -> None:
    """A provider adds a batch up without hearing what the others decided."""

    async def lenient(self: Any, study: Any, attempt: Any, stored: Any) -> None:
        return

    patch.setattr(batch_check.Rounds, "_agree", lenient)


def _keep_rows(patch: pytest.MonkeyPatch) -> None:
    """Reports stay after they are in the total."""
    patch.setattr(RowStore, "erase_block_in", lambda *_: 0)


def _one_release(patch: pytest.MonkeyPatch) -> None:
    """A provider that has delivered a release delivers no other (found by the simulation)."""
    admit = deliveries._admit

    def hasty(study: Any, ledger: Any, entry: Any, head: Any) -> int:
        place = admit(study, ledger, entry, head)
        if place and place == len(ledger.entries):
            raise Refused(Reason.BATCH_RELEASED, "this release was delivered before")
        return place

    patch.setattr(deliveries, "_admit", hasty)


def _verdicts_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Refused reports are not counted with their batch (found by the simulation)."""
    patch.setattr(batch_store, "add_counts", lambda *_: None)


MOMENTS_MUTANTS: dict[str, tuple[Mutate, str]] = {
    "add twice": (_add_twice, "not the sum of the reports|shares of batch"),
    "accept anything": (_accept_anything, "a false report was accepted"),
    "agree without asking": (_agree_without_asking, "before .* had decided"),
    "keep rows": (_keep_rows, "still holds"),
    "one release": (_one_release, "not over"),
    "verdicts forgotten": (_verdicts_forgotten, "its batches have"),
}


def _gone_unsaid(patch: pytest.MonkeyPatch) -> None:
    """Providers list what comes and not what goes away; the collector counts on (it promised 64 of 63 so)."""
    pending = RowStore.pending

    async def came(*given: Any) -> list[Any]:
        return [row for row in await pending(*given) if row[2] != 3]

    patch.setattr(RowStore, "pending", came)


def _close_at_once(patch: pytest.MonkeyPatch) -> None:
    """What was announced goes with the order, and nobody counts before it closes."""

    async def pause(self: StudyRegistry, study_id: bytes, also: Any) -> None:
        await self.set_state(study_id, "closing", also)

    patch.setattr(StudyRegistry, "pause", pause)


# Where people withdraw.
WITHDRAWAL_MUTANTS: dict[str, tuple[Mutate, str]] = {
    "gone unsaid": (_gone_unsaid, "the status says"),
    "close at once": (_close_at_once, "not agreed to|were there"),
}
# With a seed that notices soon.
WITHDRAWAL_HUNTS = [
    ("gone unsaid", "rows", 4),
    ("gone unsaid", "moments", 20),
    ("close at once", "moments", 13),
]


def _no_fencing(patch: pytest.MonkeyPatch) -> None:
    """A worker that lost its lease goes on writing."""
    patch.setattr(study_leases, "check_lease", lambda *_: None)


def _any_lease(patch: pytest.MonkeyPatch) -> None:
    """A lease is known by its study alone, and not by its number."""
    keep = study_leases._set

    def lenient(tx: Any, job: Any, assignment: str, *values: object) -> int:
        found = tx.row("SELECT fence FROM jobs WHERE kind = ? AND job_key = ?", (job.kind, job.key))
        return keep(tx, replace(job, fence=found[0] if found else 0), assignment, *values)

    patch.setattr(study_leases, "_set", lenient)


# Where every node has two workers, and some are suspended.
WORKER_MUTANTS: dict[str, tuple[Mutate, str]] = {
    "no fencing": (_no_fencing, "is in blocks|is given_up|is abandoned"),
    "any lease": (_any_lease, "is in blocks|is given_up|is abandoned"),
}


def _hunt(
    mutate: Mutate,
    seeds: range,
    folder: Path,
    patch: pytest.MonkeyPatch,
    suite: str = "rows",
    withdrawing: bool | None = None,
    workers: int = 1,
) -> str:
    mutate(patch)
    for seed in seeds:
        (folder / str(seed)).mkdir()
        result = run_seed(seed, folder / str(seed), suite=suite, withdrawing=withdrawing, workers=workers)
        if result.error:
            return result.error
    return ""


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, words = MUTANTS[name]
    first = FIRST_SEEDS.get(name, 0)
    assert re.search(words, _hunt(mutate, range(first, first + 60), tmp_path, monkeypatch))


@pytest.mark.parametrize("name", MOMENTS_MUTANTS)
def test_moments_mutant_is_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, words = MOMENTS_MUTANTS[name]
    assert re.search(words, _hunt(mutate, range(60), tmp_path, monkeypatch, "moments"))


@pytest.mark.parametrize(("name", "suite", "first"), WITHDRAWAL_HUNTS)
def test_withdrawal_mutant_is_noticed(
    name: str, suite: str, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate, words = WITHDRAWAL_MUTANTS[name]
    seeds = range(first, first + 8)
    assert re.search(words, _hunt(mutate, seeds, tmp_path, monkeypatch, suite, withdrawing=True))


# Without fencing 80 seeds found nothing as providers are asked now; `end_to_end/test_workers.py` provokes it every time.
@pytest.mark.parametrize("name", [pytest.param("no fencing", marks=pytest.mark.slow), "any lease"])
def test_worker_mutant_is_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, words = WORKER_MUTANTS[name]
    monkeypatch.setitem(KINDS, "worker suspended", 0.8)
    assert re.search(words, _hunt(mutate, range(4, 304), tmp_path, monkeypatch, "moments", workers=2))
