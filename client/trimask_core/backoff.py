"""Exponential back-off with jitter: how long to wait before a retry.

Nothing here sleeps. The jitter keeps those that failed together (devices at a repaired provider, workers at a restarted
database) from coming back together.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimask_core.randomness import RandomSource

__all__ = ["Backoff", "jitter"]


def jitter(source: RandomSource) -> float:
    """Uniform in [0, 1)."""
    return int.from_bytes(source.read(4), "big") / 2**32


@dataclass(frozen=True)
class Backoff:
    """Random pauses below a limit: `first` after one failure, doubled after each further failure, at most `longest`.

    A pause lies between `least` of that limit and all of it: 0 spreads callers most, 1/2 also keeps every one of them away
    for a while. The unit is the caller's.
    """

    first: float
    longest: float
    least: float = 0.0

    def limit(self, failures: int) -> float:
        """The longest pause after so many failures (at least one) in a row."""
        doublings = max(failures, 1) - 1
        # A float holds 2^1023 at most, and a patient device may fail more often than that.
        return min(self.longest, self.first * 2.0 ** min(doublings, 64))

    def pause(self, failures: int, source: RandomSource) -> float:
        """The pause after so many failures in a row."""
        return self.limit(failures) * (self.least + (1.0 - self.least) * jitter(source))
