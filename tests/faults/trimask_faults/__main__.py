"""`make faults`: many random kill schedules on one cluster of real processes."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections import Counter
from pathlib import Path

from trimask_faults.schedule import cluster_of, run_schedule

__all__ = ["main"]


def main() -> int:
    """Exit status 1 if any schedule broke a promise."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--schedules", type=int, default=50, help="how many (SCHEDULES=)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (FIRST=)")
    chosen = parser.parse_args()
    totals: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    failed: list[int] = []
    seeds = range(chosen.first, chosen.first + chosen.schedules)
    for remainder, suite in enumerate(("rows", "moments")):  # every second seed is of the moments suite
        own = [seed for seed in seeds if seed % 2 == remainder]
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="trimask-faults-"))
            made = stack.enter_context(cluster_of(suite, Path(folder))) if own else None
            for seed in own:
                assert made is not None
                try:
                    outcome = run_schedule(*made, seed)
                except AssertionError as error:
                    failed.append(seed)
                    print(
                        f"schedule {seed} FAILED: {error}\n  again: make faults FIRST={seed} SCHEDULES=1",
                        flush=True,
                    )
                    continue
                totals += Counter(outcome.counts)
                killed += Counter(name for _, name, _ in outcome.kills)
                shown = ", ".join(
                    f"{name} at {at:.1f} s for {pause:.1f} s" for at, name, pause in outcome.kills
                )
                print(
                    f"schedule {seed} ({suite}): every row once, {outcome.seconds:.0f} s; killed {shown}",
                    flush=True,
                )
    print(f"{chosen.schedules - len(failed)} of {chosen.schedules} schedules kept every promise")
    print("  " + ", ".join(f"{value:,} {name}" for name, value in sorted(totals.items())))
    print("  kills: " + ", ".join(f"{name} {count}" for name, count in sorted(killed.items())))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
