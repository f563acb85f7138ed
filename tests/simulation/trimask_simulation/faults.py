"""Which faults a seed injects, and how often.

Each seed draws its own mixture (most kinds absent, some frequent), which finds more than every seed having a little of
everything: a fault that is always there hides what happens without it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["KINDS", "Faults"]

# Kind -> the highest rate a seed may draw: per message, per commit, per step, or per second of virtual time.
KINDS: dict[str, float] = {
    "request lost": 0.06,  # per message; the caller hears nothing, or that the connection broke
    "reply lost": 0.10,  # per message; it was processed, and the caller does not know
    "connection broken": 0.15,  # per message; the handler is cancelled wherever it is
    "duplicated": 0.10,  # per message; delivered again, up to half a minute later
    "delayed": 0.10,  # per message; overtaken by what was sent after it
    "link cut": 0.10,  # per second; between two parties, for a while
    "crash": 0.10,  # per second; of any node
    "crash at a step": 0.003,  # per callback of a node
    "crash before commit": 0.02,  # per commit
    "crash after commit": 0.02,  # per commit
    "disk full": 0.04,  # per second; for a while, at one node
    "clock step": 0.05,  # per second; one node's clock jumps by up to two hours, either way
    "device killed": 0.03,  # per call or disk operation of a device
    # Only where a node has several workers:
    "worker suspended": 0.10,  # per second; for up to a minute, four times as long as a lease
    "database connection lost": 0.05,  # per commit; before it or after it, and the writer does not know which
}


@dataclass
class Faults:
    """The rates of a seed, until they are switched off."""

    rates: dict[str, float]
    chance: random.Random
    on: bool = True

    @classmethod
    def draw(cls, seed: int) -> Faults:
        """The mixture of a seed."""
        mixture = random.Random(f"mixture {seed}")
        present = mixture.choice((0.3, 0.6, 1.0))
        rates = {
            kind: most * mixture.uniform(0.1, 1.0) if mixture.random() < present else 0.0
            for kind, most in KINDS.items()
        }
        return cls(rates, random.Random(f"faults {seed}"))

    def strike(self, kind: str) -> bool:
        """Whether this one happens now."""
        rate = self.rates[kind]
        return self.on and rate > 0.0 and self.chance.random() < rate
