"""`make simulate`: many seeds, or one with its trace."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest  # noqa: F401 - repeatable randomness is refused outside of tests

from trimask_simulation.world import Result, adversary_of, run_seed

__all__ = ["HostileTable", "main"]

_ENOUGH = 5
_CONSEQUENCES = (
    "complete",
    "published",
    "blocks given up",
    "rows in blocks given up",
    "rows refused by the check",
)


@dataclass
class HostileTable:
    """What each kind of hostile party did, over many seeds."""

    _rows: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, kind: str, result: Result) -> None:
        """One more seed of a kind."""
        row = self._rows.setdefault(kind, Counter())
        row["seeds"] += 1
        row["acted in"] += bool(result.acts[kind])
        row["acts"] += result.acts[kind]
        for name in _CONSEQUENCES:
            row[name] += result.counts.get(name, 0)

    @property
    def idle(self) -> list[str]:
        """Kinds that did nothing in any of their seeds, and had enough of them: a seed may spoil no block by chance."""
        return [
            kind for kind, row in sorted(self._rows.items()) if row["seeds"] >= _ENOUGH and not row["acts"]
        ]

    def __str__(self) -> str:
        columns = ("seeds", "acted in", "acts", *_CONSEQUENCES)
        lines = ["hostile parties:" + " " * 12 + "  ".join(columns)]
        for kind, row in sorted(self._rows.items()):
            lines.append(f"  {kind:<24} " + "  ".join(f"{row[name]:>{len(name)},}" for name in columns))
        return "\n".join(lines)


def _run(seed: int, chosen: argparse.Namespace, *, keep: bool) -> Result:
    kind = adversary_of(seed) if chosen.adversaries else ""
    with tempfile.TemporaryDirectory(prefix="trimask-simulation-") as folder:
        return run_seed(
            seed, Path(folder), keep=keep, adversary=kind, withdrawing=chosen.withdrawals or None,
            workers=chosen.workers,
        )  # fmt: skip


def main() -> int:
    """Exit status 1 if any seed broke a promise."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds (SEEDS=)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (FIRST=)")
    parser.add_argument("--seed", type=int, help="one seed, with its whole trace (SEED=)")
    parser.add_argument(
        "--adversaries", action="store_true", help="a hostile party in every seed (ADVERSARIES=1)"
    )
    parser.add_argument(
        "--withdrawals", action="store_true", help="people withdraw in every seed (WITHDRAWALS=1)"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes of every node (WORKERS=2)")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        result = _run(chosen.seed, chosen, keep=True)
        print("\n".join(result.lines))
        print(f"\nseed {result.seed}: {result.error or 'every promise was kept'}")
        print(f"trace {result.digest}\n{_table(result.faults, result.counts)}")
        return int(bool(result.error))
    faults: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    hostile = HostileTable()
    failed: list[Result] = []
    again = "ADVERSARIES=1 " if chosen.adversaries else "WITHDRAWALS=1 " if chosen.withdrawals else ""
    again += f"WORKERS={chosen.workers} " if chosen.workers > 1 else ""
    begun = time.monotonic()
    for done, seed in enumerate(range(chosen.first, chosen.first + chosen.seeds), 1):
        result = _run(seed, chosen, keep=False)
        faults += result.faults
        counts += Counter(result.counts)
        if chosen.adversaries:
            hostile.add(adversary_of(seed), result)
        if result.error:
            failed.append(result)
            print(
                f"seed {seed} FAILED: {result.error}\n  replay: make simulate {again}SEED={seed}", flush=True
            )
        if done % 10 == 0 or done == chosen.seeds:
            print(
                f"{done}/{chosen.seeds} seeds, {len(failed)} failed, {time.monotonic() - begun:.0f} s",
                flush=True,
            )
    print(_table(faults, counts))
    if chosen.adversaries:
        print(hostile)
    for kind in hostile.idle:
        print(f"FAILED: {kind} never did anything: its program no longer reaches what it changes")
    if failed:
        print("failed seeds: " + " ".join(str(result.seed) for result in failed))
    return int(bool(failed or hostile.idle))


def _table(faults: Counter[str], counts: dict[str, int] | Counter[str]) -> str:
    lines = [f"  {counts[name]:>10,} {name}" for name in sorted(counts)]
    lines += ["faults injected:", *(f"  {faults[kind]:>10,} {kind}" for kind in sorted(faults))]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
