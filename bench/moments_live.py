"""The moments suite over real processes: submissions beside a bare echo, whole studies beside TM2's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from bench.cluster import Live, live_cluster
from bench.million import people_of
from bench.results import Result, Settings
from bench.submitting import submit

__all__ = ["moments_live"]

_BLOCK = 256
_MADE = 512  # reports that are made anew; the others are these, sealed again under fresh ids
_AT_ONCE = 20_000


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
    made = (
        live.prepare(signed, people)
        if live.suite == "rows"
        else list(people_of(signed, live.prepare(signed, min(people, _MADE)), people))
    )
    making = time.perf_counter() - start
    start = time.perf_counter()
    for first in range(0, len(made), _AT_ONCE):
        live.upload(signed.study, made[first : first + _AT_ONCE])
    sending = time.perf_counter() - start
    return Whole(people, making, sending, live.close_and_wait(signed.study))
