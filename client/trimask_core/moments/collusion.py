"""Who would have to collude in the moments suite: every right provider together, and nobody else.

Proof: docs/theory/verified-moments.md#collusion. Shares of a report are uniform unless all of them are put together,
and what a provider ever says about one is a fixed linear map of its own share. So any K1 - 1 right providers, the
collector, the owner and other devices together, whatever they do, learn which reports were accepted and the noisy
release, and nothing more about anybody's answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WORDS = {
    "collusion.noise": "{them} right providers together could read the answers; nobody else, and no fewer of them, "
    "whatever they do.",
    "collusion.exact": "{them} right providers together could read the answers from their parts; nobody else, and no "
    "fewer of them. But the sums are opened without noise, and may show answers too.",
    "noise.none": "The release has no noise, and is not private.",
    "noise.one": "The release is private as long as one right provider adds its noise as agreed.",
    "noise.many": "The release is private as long as {number} right providers add their noise as agreed.",
}
"""The report's sentences; the page's copy is made from them."""


@dataclass(frozen=True)
class MomentsCoalition:
    """Parties that together reach the answers, and no fewer of them do."""

    parties: tuple[str, ...]

    exact = True
    needs_device = False

    @property
    def chain(self) -> tuple[str, ...]:
        """How, in words."""
        return ("the shares of a report, one from each of them, add up to its answers",)

    @property
    def outcome(self) -> str:
        """What they would get."""
        return "every answer"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "parties": list(self.parties),
            "exact": self.exact,
            "needs_device": self.needs_device,
            "chain": list(self.chain),
        }


@dataclass(frozen=True)
class MomentsCollusion:
    """The report for K1 right providers, of whom `honest` give the release its noise.

    A study without `noise` (for trying things out) opens sums as they are; only how many people are in them hides one.
    """

    right: int
    honest: int
    noise: bool = True

    @property
    def coalitions(self) -> tuple[MomentsCoalition, ...]:
        """One: all right providers."""
        return (MomentsCoalition(tuple(f"R{k}" for k in range(1, self.right + 1))),)

    @property
    def single_breakers(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def largest_safe(self) -> int:
        """Any this many parties together recover no answer, whatever they do."""
        return self.right - 1

    @property
    def summary(self) -> str:
        """The report as a sentence; it holds against parties that do not follow the protocol too."""
        them = "Both" if self.right == 2 else f"All {self.right}"
        return WORDS["collusion.noise" if self.noise else "collusion.exact"].format(them=them)

    @property
    def noise_sentence(self) -> str:
        """What the release's own guarantee rests on."""
        if not self.noise:
            return WORDS["noise.none"]
        return WORDS["noise.one" if self.honest == 1 else "noise.many"].format(number=self.honest)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "suite": "moments",
            "right": self.right,
            "honest_providers": self.honest,
            "largest_safe": self.largest_safe,
            "single_breakers": [],
            "coalitions": [coalition.to_dict() for coalition in self.coalitions],
            "summary": self.summary,
            "noise": self.noise_sentence,
        }

    def text(self) -> str:
        """The report as plain text."""
        return f"{self.summary}\n{self.noise_sentence}\n"
