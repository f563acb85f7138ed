"""What the moments suite adds to a study: how many right providers are honest, the ball rows are held to, and who would
have to collude: every right provider together, and nobody else.

Proof: docs/theory/verified-moments.md#collusion. Shares of a report are uniform unless all of them are put together,
and what a provider ever says about one is a fixed linear map of its own share. So any K1 - 1 right providers, the
collector, the owner and other devices together, whatever they do, learn which reports were accepted and the noisy
release, and nothing more about anybody's answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.totals import entry_noise
from trimask_core.study.schema import Schema
from trimask_core.study.weight import Weight

# Totals are read as signed numbers below P/2 = 2^60; the bit in between is for noise beyond the 12 deviations.
LARGEST_TOTAL = 1 << 59
DEVIATIONS = 12
"""Of every provider's noise; beyond them a sum might be read with the wrong sign."""


@dataclass(frozen=True, kw_only=True)
class MomentsSettings:
    """The suite's part of a study.

    `honest_providers` (h): any h right providers who follow the protocol give the release its noise. `ball_norm`: the
    norm devices clip rows to and prove; None for the whole box that the schema's bounds allow. `several_releases`: a
    release whenever `release_rows` more people are there, each with the whole noise; else one, when the study closes.
    """

    name: ClassVar[Literal["moments"]] = "moments"

    honest_providers: int = 1
    ball_norm: float | None = None
    several_releases: bool = False

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form, with `several_releases` only where it is so."""
        return {
            "name": self.name,
            "honest_providers": self.honest_providers,
            "ball_norm": self.ball_norm,
            **({"several_releases": True} if self.several_releases else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MomentsSettings:
        """Read what `to_dict` wrote."""
        return cls(**{name: value for name, value in data.items() if name != "name"})


@dataclass(frozen=True, kw_only=True)
class MomentsStudy(MomentsSettings):
    """The settings together with what they are read with: the schema, sigma, N and how many providers there are."""

    schema: Schema
    weight: Weight | None
    row_norm: float
    sigma: float
    release_rows: int
    right: int
    left: int

    @cached_property
    def layout(self) -> MomentsLayout:
        """Bits, columns and products of a report, in their order."""
        return MomentsLayout.of(self.schema, self.ball_norm, self.weight)

    @property
    def planned_rows(self) -> int:
        """So many people must fit a release: the last of several takes the remainder in."""
        return 3 * self.release_rows

    @property
    def max_release_rows(self) -> int:
        """The most people in a release: with one release as many as totals can hold."""
        return self.planned_rows if self.several_releases else min(self._rooms)

    @property
    def full_rows(self) -> int:
        """From so many people on a release is complete while the study is open, and the next begins."""
        return self.max_release_rows // 3

    @cached_property
    def _rooms(self) -> dict[int, str]:
        """How many people fit into each total, and of which columns it is: 2^shift N max|T| and 12 deviations of all noise
        must stay below 2^59 (docs/theory/verified-moments.md#room)."""
        published, bounds, rooms = self.layout.published, self.layout.published_bounds, {}
        for j, column in enumerate(published):
            for l in range(j, len(published)):  # noqa: E741 (the letters of the page on verified moments)
                largest = max(1, bounds[j] * bounds[l])
                noise = entry_noise(
                    self.sigma, column.width, published[l].width, self.honest_providers, j == l
                )
                left = LARGEST_TOTAL - 1 - DEVIATIONS * self.right * noise.sigma
                rooms[left // (largest << noise.shift)] = f"{column.name} x {published[l].name}"
        return rooms

    def check(self) -> None:
        """Refuse settings that cannot give the protection the study claims."""
        if self.right < 2 or self.left:
            raise ImpossibleStudy(
                "too_few_providers",
                "a study of the moments suite has two right providers at least, and no left ones",
            )
        if not 1 <= self.honest_providers <= self.right - 1:
            raise ImpossibleStudy(
                "honest_providers", f"honest_providers must be between 1 and {self.right - 1}, K1 - 1"
            )
        if self.release_rows < 1:
            raise ImpossibleStudy("release_too_small", "release_rows must be at least 1")
        # The norm the noise is calibrated to may not be below what the proof lets pass.
        if not self.row_norm * self.row_norm >= float(self.layout.radius_squared) * (1 - 1e-12):
            raise ImpossibleStudy(
                "row_norm",
                f"row_norm = {self.row_norm:.6g} is below {math.sqrt(self.layout.radius_squared):.6g}, "
                "the norm of the rows the proof lets pass",
            )
        if not isinstance(self.several_releases, bool):
            raise ImpossibleStudy("several_releases", "several_releases must be true or left out")
        room = min(self._rooms)
        if room < self.planned_rows:
            raise ImpossibleStudy(
                "moments_overflow",
                f"{self._rooms[room]}: sums of products over {self.planned_rows} people do not fit 2^59, those over "
                f"{max(room, 0)} do; give a larger step, a smaller release_rows, or fewer derived columns",
            )


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
