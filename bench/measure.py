"""Timing on a machine that is never quiet: subject and limit by turns, the best of each.

Work of one thread is timed by the processor time of that thread, which other programs cannot lengthen by being
scheduled; they still cost cache and memory bandwidth, to subject and limit alike, hence the turns and the best.
What crosses processes or the disk is timed by the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np

__all__ = ["best_seconds", "dgemm_rate", "race"]

Clock = Callable[[], float]
_SHORTEST_SECONDS = 0.004


def _repeats_within(call: Callable[[], object], clock: Clock) -> int:
    """How many calls one sample needs so that the clock's own steps do not show."""
    start = clock()
    call()
    once = clock() - start
    return 1 if once >= _SHORTEST_SECONDS else min(10_000, int(_SHORTEST_SECONDS / max(once, 1e-7)) + 1)


def _sample(call: Callable[[], object], number: int, clock: Clock) -> float:
    start = clock()
    for _ in range(number):
        call()
    return (clock() - start) / number


def race(
    subject: Callable[[], object],
    limit: Callable[[], object],
    repeats: int,
    clock: Clock = time.thread_time,
) -> tuple[float, float]:
    """(seconds of the subject, seconds of the limit), each the best of `repeats` turns after a warm-up."""
    subject_number, limit_number = _repeats_within(subject, clock), _repeats_within(limit, clock)
    turns = [
        (_sample(subject, subject_number, clock), _sample(limit, limit_number, clock)) for _ in range(repeats)
    ]
    return min(first for first, _ in turns), min(second for _, second in turns)


def best_seconds(call: Callable[[], object], repeats: int, clock: Clock = time.thread_time) -> float:
    """The best of `repeats` samples after a warm-up."""
    number = _repeats_within(call, clock)
    return min(_sample(call, number, clock) for _ in range(repeats))


@cache
def dgemm_rate() -> float:
    """Floating-point operations a second of one BLAS thread, from a 1,024 x 1,024 by 1,024 x 4,096 product."""
    rng = np.random.default_rng(0)
    A, M = rng.standard_normal((1024, 1024)), rng.standard_normal((1024, 4096))
    out = np.empty_like(M)
    return 2.0 * 1024 * 1024 * 4096 / best_seconds(lambda: np.matmul(A, M, out=out), 5)
