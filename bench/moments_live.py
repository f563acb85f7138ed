"""The moments suite over real processes: submissions beside a bare echo, whole studies beside TM2's, many reports.

`python -m bench.moments_live --reports 1000000` sends that many reports through both providers' services and has them
checked and added up, a study of 100,000 after the other, and prints rate and memory as it goes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from bench.cluster import Live, live_cluster, tree_usage
from bench.example import answers
from bench.results import Result, Settings
from bench.submitting import submit
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import SealedSubmission, seal_payloads
from trimask_core.suites import payloads_of

__all__ = ["moments_live"]

_BLOCK = 256
_MADE = 512  # reports that are made anew; the others are these, sealed again under fresh ids
_AT_ONCE = 20_000
_STUDY = 100_000


def moments_live(settings: Settings) -> Iterator[Result]:
    """Taking reports in, and a whole study from the first report to the release, each beside the rows suite's."""
    for result in submit(settings, "moments"):
        yield replace(result, suite="moments")
    people = 2_048 if settings.quick else 16_384
    with live_cluster("moments") as live:
        mine = _whole_study(live, people)
    with live_cluster() as live:
        few = _BLOCK * (2 if settings.quick else 8)
        theirs = _whole_study(live, few)
    rate, other = people / mine.seconds, few / theirs.seconds
    yield Result(
        "moments", f"whole study of {people:,}, two providers", "speed", rate, other, "people/s",
        f"TM2 of {few:,} people in blocks of {_BLOCK}, {live.right} and {live.left} providers", rate / other, 1.0,
        {"moments": asdict(mine), "rows": asdict(theirs)},
    )  # fmt: skip


@dataclass(frozen=True)
class Whole:
    """A study from its first report to its release, in seconds; making the parcels beforehand is apart."""

    people: int
    making: float
    sending: float
    closing: float

    @property
    def seconds(self) -> float:
        """Sending and closing."""
        return self.sending + self.closing


def _whole_study(live: Live, people: int) -> Whole:
    signed = live.open(_BLOCK, people)
    start = time.perf_counter()
    made = live.prepare(signed, people) if live.suite == "rows" else list(_copies(live, signed, people))
    making = time.perf_counter() - start
    start = time.perf_counter()
    for first in range(0, len(made), _AT_ONCE):
        live.upload(signed.study, made[first : first + _AT_ONCE])
    sending = time.perf_counter() - start
    return Whole(people, making, sending, live.close_and_wait(signed.study))


def _copies(live: Live, signed: SignedStudy, people: int) -> Iterator[SealedSubmission]:
    """Reports of some people, and the same shared and sealed again: providers cannot tell, and do the same work."""
    study, source = signed.verify(), SystemRandom()
    yield from live.prepare(signed, min(people, _MADE))
    everybody = [
        payloads_of(study).payloads(study, answers(np.random.default_rng([i, 7])), source)
        for i in range(min(people, _MADE))
    ]
    for i in range(people - _MADE):
        yield seal_payloads(study, everybody[i % _MADE], source)


def main(arguments: Sequence[str] | None = None) -> int:
    """Many reports through the services of two providers, with their rate and memory on the way."""
    parser = argparse.ArgumentParser(prog="python -m bench.moments_live", description=__doc__)
    parser.add_argument(
        "--reports", type=int, default=_STUDY, metavar="N", help="how many (default %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/bench-moments.json"), metavar="FILE")
    options = parser.parse_args(arguments)
    points = []
    with live_cluster("moments") as live:
        markers = live.markers
        before = {name: tree_usage(marker) for name, marker in markers.items()}
        for first in range(0, options.reports, _STUDY):
            whole = _whole_study(live, min(_STUDY, options.reports - first))
            now = {name: tree_usage(marker) for name, marker in markers.items()}
            memory = {name: round(usage.megabytes) for name, usage in now.items()}
            # Processor time a report: what grows with participants, however busy the machine is.
            cpu = {name: 1e3 * (now[name].seconds - before[name].seconds) / whole.people for name in markers}
            before = now
            points.append(
                {"reports": first + whole.people, **asdict(whole), "memory_mb": memory, "cpu_ms": cpu}
            )
            print(
                f"{first + whole.people:,} reports: {whole.people / whole.seconds:,.0f} a second, parcels made in "
                f"{whole.making:.0f} s before; memory in MB {memory}; CPU in ms a report "
                f"{ {name: round(value, 2) for name, value in cpu.items()} }",
                flush=True,
            )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
