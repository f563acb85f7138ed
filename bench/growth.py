"""How cost grows with block rows n, columns p and participants: exponents fitted on a log-log scale."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.blocks import timed_block
from bench.cluster import Live, live_cluster
from bench.device import NoTransport
from bench.example import ATTRIBUTES, answers, offline_study
from bench.measure import best_seconds
from bench.results import Result, Settings
from trimask_client import Client
from trimask_core.basics.randomness import SystemRandom
from trimask_core.rows.arrays import haar_rotate
from trimask_core.study.signed import SignedStudy
from trimask_server.suites.rows.math import apply_right_mask, remove_right_mask

__all__ = ["Axis", "Curve", "growth"]

Axis = Literal["n", "p", "participants"]
_WORDS: dict[Axis, str] = {"n": "n, p = 4n + 20", "p": "p", "participants": "participants"}
_RIGHT = 3
_ROWS_FOR_P = 256
_SMALL_BLOCK = 64


@dataclass(frozen=True)
class Curve:
    """Seconds at each size. `expected` is the exponent of the leading term in the count of operations."""

    axis: Axis
    name: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    expected: float

    @property
    def exponent(self) -> float:
        """The slope over the larger half, where the leading term has had room to take over."""
        keep = max(2, (len(self.sizes) + 1) // 2)
        return float(np.polyfit(np.log(self.sizes[-keep:]), np.log(self.seconds[-keep:]), 1)[0])


def growth(settings: Settings) -> tuple[list[Curve], list[Result]]:
    """The curves, and their exponents as results: fitted beside expected."""
    curves = [*_masking_curves(settings), *_device_curves(settings), _participants(settings)]
    return curves, list(_results(curves))


def _results(curves: list[Curve]) -> Iterator[Result]:
    for curve in curves:
        yield Result(
            "growth", f"{curve.name}: exponent in {_WORDS[curve.axis]}", "budget", curve.exponent, curve.expected,
            "", "the count of operations, leading term", curve.exponent / curve.expected,
            detail={"sizes": list(curve.sizes), "seconds": list(curve.seconds)},
        )  # fmt: skip


def _masking(n: int, p: int, repeats: int) -> dict[str, float]:
    """Seconds of each node's part in one block; a left provider handles all K1 components."""
    rng = np.random.default_rng(0)
    X, stacked = rng.standard_normal((n, p)), rng.standard_normal((n, _RIGHT * p))
    masked, mask = apply_right_mask(X, SystemRandom())
    calls: dict[str, Callable[[], object]] = {
        "left masking": lambda: haar_rotate(os.urandom(32), stacked),
        "right masking": lambda: apply_right_mask(X, SystemRandom()),
        "unmasking": lambda: remove_right_mask(masked, mask),
    }
    return {name: best_seconds(call, repeats) for name, call in calls.items()}


def _columns(settings: Settings) -> tuple[int, ...]:
    return (512, 1024, 2048) if settings.quick else (512, 1024, 2048, 4096, 8192, 16384)


def _rows(settings: Settings) -> tuple[int, ...]:
    return (64, 128, 256) if settings.quick else (64, 128, 256, 512, 1024)


def _masking_curves(settings: Settings) -> Iterator[Curve]:
    repeats, rows, columns = settings.repeats(4), _rows(settings), _columns(settings)
    by_rows = [_masking(n, 4 * n + 20, repeats) for n in rows]
    by_columns = [_masking(_ROWS_FOR_P, p, repeats) for p in columns]
    for name in by_rows[0]:
        yield Curve("n", name, rows, tuple(point[name] for point in by_rows), 3.0)
        yield Curve("p", name, columns, tuple(point[name] for point in by_columns), 1.0)


def _device(signed: SignedStudy, repeats: int) -> float:
    client = Client(signed, transport=NoTransport())
    person = answers(np.random.default_rng(0))
    return best_seconds(lambda: client.prepare(person), repeats, time.process_time)


def _device_curves(settings: Settings) -> Iterator[Curve]:
    repeats, rows, columns = settings.repeats(8, 3), _rows(settings), _columns(settings)
    by_rows = tuple(_device(offline_study(n), repeats) for n in rows)
    yield Curve("n", "a device", rows, by_rows, 1.0)
    by_columns = tuple(_device(offline_study(_SMALL_BLOCK, p - ATTRIBUTES - 1), repeats) for p in columns)
    yield Curve("p", "a device", columns, by_columns, 1.0)


def _participants(settings: Settings) -> Curve:
    """From the first upload to publication, sealed rows being ready: real processes, blocks of 64 one after another."""
    people = (128, 256) if settings.quick else (128, 256, 512, 1024, 2048)
    with live_cluster() as live:
        timed_block(live, _SMALL_BLOCK, _SMALL_BLOCK)  # the first study pays for connections and first use
        seconds = tuple(min(_study(live, count) for _ in range(settings.repeats(2, 1))) for count in people)
    return Curve("participants", "whole study", people, seconds, 1.0)


def _study(live: Live, people: int) -> float:
    signed = live.open(_SMALL_BLOCK, people)
    submissions = live.prepare(signed, people)
    start = time.perf_counter()
    live.upload(signed.study, submissions)
    live.close_and_wait(signed.study)
    return time.perf_counter() - start
