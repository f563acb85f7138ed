"""Pauses double up to a limit, are spread below it, and come from the caller's own source."""

from __future__ import annotations

import pytest

from trimask_core.basics.clock import Backoff, jitter
from trimask_core.basics.randomness import DeterministicRandom


class Constant:
    """A source of one byte."""

    def __init__(self, byte: int) -> None:
        self.byte = byte

    def read(self, count: int) -> bytes:
        return bytes([self.byte]) * count

    def seed(self) -> bytes:
        return self.read(32)


def test_the_limit_doubles_and_stops() -> None:
    pauses = Backoff(first=0.1, longest=2.0)
    assert [pauses.limit(failures) for failures in (0, 1, 2, 3, 4, 5, 6)] == [
        0.1,
        0.1,
        0.2,
        0.4,
        0.8,
        1.6,
        2.0,
    ]
    assert pauses.limit(10**6) == 2.0


@pytest.mark.parametrize("least", [0.0, 0.5, 1.0])
def test_a_pause_lies_between_its_least_share_and_the_limit(least: float) -> None:
    pauses = Backoff(first=1_000, longest=300_000, least=least)
    for failures in (1, 2, 9, 10, 1_000):
        limit = pauses.limit(failures)
        assert pauses.pause(failures, Constant(0)) == least * limit
        assert limit * (1 - 2**-31) < pauses.pause(failures, Constant(255)) <= limit


def test_jitter_is_uniform_and_below_one() -> None:
    """Mean of 10,000 within 5 standard errors: false failure 6e-7."""
    source = DeterministicRandom("jitter")
    drawn = [jitter(source) for _ in range(10_000)]
    assert 0 <= min(drawn) < 0.01
    assert 0.99 < max(drawn) < 1
    assert abs(sum(drawn) / len(drawn) - 0.5) < 5 * (1 / 12 / len(drawn)) ** 0.5
    assert jitter(Constant(255)) < 1


def test_two_callers_do_not_come_back_together() -> None:
    pauses = Backoff(first=1.0, longest=60.0, least=0.5)
    one, other = ([pauses.pause(n, DeterministicRandom(f"{who} {n}")) for n in range(1, 9)] for who in "ab")
    assert not set(one) & set(other)
