"""What the rows suite (TM2) adds to a study: block sizes, noise columns, the grid, the device mask, who unmasks.

Sizes are in the paper's letters: n block rows, p1 attributes, p2 noise columns, p = p1 + p2.

The grid is the integers on which rows and components live; below stands how near noise on it comes to Gaussian noise.

A value is stood for by a whole number of steps of 2^exponent. Components have scale s, and float64 counts exactly
to 2^53, so the step is chosen to leave the widest component twelve standard deviations below 2^52
(docs/theory/collection.md#grid): exponent = ceil(log2(12 s sqrt(K1 - 1) 2^-52)). The last component is a row minus the
sum of K1 - 1 Gaussians, hence the square root.

The noise of publishing. Devices add a discrete Gaussian, on multiples of the grid step h. What a mask adds to its privacy
is proved for noise that no rotation changes, so each party that passes masked rows on (unmasking nodes to the collector,
the collector to the public) adds N(0, (2h)^2): A (X + C) + G has the law of A (X + C + G).

Statement. For s = sigma/h >= 2 let q = exp(-2 pi^2 v), v = 4 s^2/(s^2 + 4), and eta = 8 q. A discrete Gaussian plus
N(0, 4h^2) has a density within e^(+-eta) of N(0, sigma^2 + 4h^2); and a discrete Gaussian is, within e^(+-eta) too, what a
random rounding makes of N(0, sigma^2 - 4h^2). So k entries change epsilon by at most 2 k eta, and delta by e^(k eta).
A masked row is rounded a second time. Devices leave N(0, (8h)^2) of their noise columns in the answers, so that with
q' = exp(-2 pi^2 256/68) every masked entry, rounded and with N(0, 4h^2) on it, has a density within e^(+-2.5 q') of one
whose rounding error is independent of everything; k' such entries change epsilon by at most 5 k' q'.
Basis: proved (docs/theory/calibration.md#discrete-noise, #second-rounding); float64 is not counted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from trimask_core.basics.encoding import decode_bytes, encode_bytes
from trimask_core.basics.errors import ImpossibleStudy, ParameterError, StudyError, VerificationError
from trimask_core.rows import collusion
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS, RowFrame, least_tau, noise_columns_mu

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


TAGS = 2
"""Tags a component: an alteration passes the check of one with a small probability, and has to pass all of them."""
EXACT_INTEGERS = 1 << 53
COARSEST_EXPONENT = -12
"""Answers are scaled to [-1, 1]; a grid coarser than 2^-12 would blur them more than a questionnaire does."""
_DEVIATIONS = 12


def grid_exponent(share_scale: float, right_providers: int) -> int:
    """The finest exponent with twelve standard deviations of headroom."""
    widest = _DEVIATIONS * share_scale * math.sqrt(max(1, right_providers - 1))
    # ceil(log2(widest)) by frexp, which no two machines evaluate differently: a phone repeats this.
    mantissa, exponent = math.frexp(widest)
    return exponent - (mantissa == 0.5) - 52


@dataclass(frozen=True, slots=True)
class Grid:
    """Multiples of 2^exponent."""

    exponent: int

    @property
    def step(self) -> float:
        """The distance between neighbouring values."""
        return 2.0**self.exponent

    def round(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest grid points, as integers. Non-finite or too large values raise; nothing wraps."""
        import numpy as np  # imported here and below: a device does not need numpy

        steps = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), -self.exponent))
        if not np.all(np.abs(steps) < EXACT_INTEGERS):  # also false for NaN
            raise VerificationError("a value does not fit the integer grid")
        return steps.astype(np.int64)

    def round_one(self, value: float) -> int:
        """The nearest grid point to one value."""
        return self._one(value, round)

    def truncate_one(self, value: float) -> int:
        """The next grid point from one value towards zero: no norm grows."""
        return self._one(value, math.trunc)

    def _one(self, value: float, whole: Callable[[float], int]) -> int:
        try:
            scaled = math.ldexp(value, -self.exponent)
        except OverflowError:
            scaled = math.inf
        if (
            not abs(scaled) < EXACT_INTEGERS
        ):  # also false for NaN; above 2^52 a float is whole, so rounding stays below
            raise VerificationError("a value does not fit the integer grid")
        return whole(scaled)

    def steps_up(self, value: float) -> int:
        """The least whole number of steps >= value."""
        if not value > 0:
            raise ParameterError("value", "> 0", value)
        return math.ceil(math.ldexp(value, -self.exponent))

    def to_float(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """The values the integers stand for; exact, since every |integer| < 2^53."""
        import numpy as np

        return np.ldexp(steps.astype(np.float64), self.exponent)


PUBLISHING_STEPS = 2
"""The noise of publishing, in grid steps."""

DITHER_STEPS = 8
"""What devices leave of their noise columns in the answers before the second rounding, in grid steps."""

RELEASE_ENTRIES = 4
"""A release has fewer than this many times the rows a study asks for: what is left over joins the last one."""


def discrete_epsilon(sigma_steps: float, entries: int, masked_entries: int = 0) -> float:
    """By how much epsilon of Gaussian noise on so many entries grows, noise of `sigma_steps` being discrete; rounded up.

    `masked_entries` are rounded a second time. delta grows by less than this part of itself.
    """
    if not sigma_steps >= PUBLISHING_STEPS:
        return math.inf
    square = sigma_steps * sigma_steps
    v = PUBLISHING_STEPS**2 * square / (square + PUBLISHING_STEPS**2)
    again = PUBLISHING_STEPS**2 * DITHER_STEPS**2 / (PUBLISHING_STEPS**2 + DITHER_STEPS**2)
    twice = 5 * masked_entries * math.exp(-2 * math.pi**2 * again)
    return (2 * entries * 8 * math.exp(-2 * math.pi**2 * v) + twice) * (1 + 1e-9)


def frame_share(sigma: float, step: float, tau: float) -> float:
    """Which part of its noise along the answers a device leaves in a masked row: `DITHER_STEPS` steps, none if exact."""
    return min(1.0, DITHER_STEPS * step / tau) if sigma else 0.0


def right_providers_mu(distance: float, sigma: float, step: float) -> float:
    """mu of two rows at this distance for a party that sees a row as its device sent it and knows B_0; rounded up."""
    square = sigma * sigma - (PUBLISHING_STEPS * step) ** 2
    return distance / math.sqrt(square) * (1 + 1e-12) if square > 0 else math.inf


def published_sigma(sigma: float, step: float, deliveries: int) -> float:
    """The noise that is in a release: the devices', and that of every unmasking node and of the collector."""
    little = math.sqrt(PUBLISHING_STEPS**2 * (deliveries + 1) + DITHER_STEPS**2)
    return math.hypot(sigma, step * little) if sigma else 0.0


_LEAST_SIGMA_STEPS = 8
"""From here on discrete noise and the noise of publishing are Gaussian to 30 digits (above)."""


def _commitment(mask_seed: bytes) -> bytes:
    return hashlib.sha256(b"trimask/v1/mask-commitment\0" + mask_seed).digest()


@dataclass(frozen=True, kw_only=True)
class RowsSettings:
    """The suite's part of a study. `unmasking[k]` names the party that removes component k+1's right mask.

    `noise_columns_mu`: how far apart two answers of a person are in X B_0 of one block, for a party without B_0, but for
    probability `obfuscation_failure`. `publishing_steps`: the noise that unmasking nodes and the collector each add, in
    grid steps.
    """

    name: ClassVar[Literal["rows"]] = "rows"

    block_rows: int
    noise_columns: int
    tau: float
    obfuscation_failure: float
    share_leakage: float
    grid_exponent: int
    unmasking: tuple[str, ...]
    noise_columns_mu: float
    publishing_steps: int
    # The seed of B_0 is for devices, the collector and, when they check rows, right providers; the study names it by its
    # hash. It is no secret: everybody who takes part has it.
    mask_seed: bytes = field(default=b"", repr=False, compare=False)
    mask_commitment: bytes = b""

    def __post_init__(self) -> None:
        if self.mask_seed and not self.mask_commitment:
            object.__setattr__(self, "mask_commitment", _commitment(self.mask_seed))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form, without the seed."""
        data = {
            item.name: getattr(self, item.name) for item in fields(RowsSettings) if item.name != "mask_seed"
        }
        return data | {
            "name": self.name,
            "unmasking": list(self.unmasking),
            "mask_commitment": encode_bytes(self.mask_commitment),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RowsSettings:
        """Read what `to_dict` wrote."""
        given = {name: value for name, value in data.items() if name != "name"}
        return cls(
            **{
                **given,
                "unmasking": tuple(data["unmasking"]),
                "mask_commitment": decode_bytes(data["mask_commitment"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class RowsStudy(RowsSettings):
    """The settings together with what they are read with: p1, R, sigma, N and how many providers there are."""

    attributes: int
    row_norm: float
    sigma: float
    release_rows: int
    right: int
    left: int

    @property
    def columns(self) -> int:
        """p = p1 + p2."""
        return self.attributes + self.noise_columns

    @property
    def max_block_rows(self) -> int:
        """The last block of a study takes the remainder in, so it may have up to 2 n - 1 rows."""
        return 2 * self.block_rows - 1

    @property
    def grid(self) -> Grid:
        """The integer grid."""
        return Grid(self.grid_exponent)

    @property
    def share_scale(self) -> float:
        """s = 2 R / mu."""
        return 2 * self.row_norm / self.share_leakage

    @property
    def share_steps(self) -> float:
        """s in grid steps."""
        return math.ldexp(self.share_scale, -self.grid_exponent)

    @property
    def longest_component(self) -> float:
        """No component is longer, but for probability exp(-72): K1 - 1 Gaussians of scale s, and the row itself."""
        spread = math.sqrt(self.columns) + 12
        row = self.row_norm + (self.sigma + self.tau) * spread
        return self.share_scale * math.sqrt(self.right - 1) * spread + row

    @cached_property
    def tag_holders(self) -> tuple[tuple[int, ...], ...]:
        """Which right providers hold the tag key of each component; empty where components are not authenticated."""
        return collusion.key_holders(self.unmasking)

    @cached_property
    def row_frame(self) -> RowFrame:
        """F, the first p1 rows of the device mask B_0, for one row at a time and without numpy; where its seed is known."""
        return RowFrame(self.device_seed, self.attributes, self.columns)

    @property
    def device_seed(self) -> bytes:
        """The seed of B_0; refused in a copy of the study without it."""
        if not self.mask_seed:
            raise StudyError(
                "this copy of the study is without the seed of B_0, which devices, the collector and right providers have"
            )
        return self.mask_seed

    @property
    def frame_share(self) -> float:
        """Which part of its noise along the answers a device leaves in a masked row."""
        return frame_share(self.sigma, self.grid.step, self.tau)

    @property
    def published_sigma(self) -> float:
        """The scale of the noise in a release: the devices', and the little that is added where it is passed on."""
        return published_sigma(self.sigma, self.grid.step, self.right)

    @property
    def left_columns(self) -> int:
        """The noise columns that are left of a row once it was checked."""
        return self.noise_columns - CHECK_DIRECTIONS

    @property
    def topology(self) -> collusion.Topology:
        """Who sees what, for the collusion report."""
        return collusion.Topology(right=self.right, left=self.left, unmasking=self.unmasking)

    def check(self) -> None:
        """Refuse settings that cannot give the protection the study claims."""
        n, p1 = self.block_rows, self.attributes
        if n <= p1:
            raise ImpossibleStudy(
                "block_too_small",
                f"blocks of {n} rows are not larger than the {p1} columns of a row: A X would show what the mask "
                f"hides. Give block_rows of at least {p1 + 1}.",
            )
        if self.release_rows < n:
            raise ImpossibleStudy("release_too_small", f"release_rows must be at least block_rows = {n}")
        if self.right < 2 or not self.left:
            raise ImpossibleStudy(
                "too_few_providers", "a study needs two right providers and one left provider at least"
            )
        if not 0 < self.share_leakage <= 2.0**-10:
            raise ImpossibleStudy("share_leakage", "share_leakage must be in (0, 2^-10]")
        if not 0 < self.obfuscation_failure <= 1e-3:
            raise ImpossibleStudy("obfuscation_failure", "obfuscation_failure must be in (0, 0.001]")
        if not math.isfinite(self.tau):
            raise ImpossibleStudy("sigma", "sigma and tau must be finite and not negative")
        tau = least_tau(
            self.max_block_rows,
            p1,
            self.noise_columns,
            self.row_norm,
            self.sigma,
            self.obfuscation_failure,
            CHECK_DIRECTIONS,
        )
        if self.tau < tau * (1 - 1e-12):
            raise ImpossibleStudy(
                "tau", f"tau = {self.tau:.4g} is below {tau:.4g}, which blocks of this size need"
            )
        self._check_grid()
        steps = math.ldexp(self.sigma, -self.grid_exponent)
        if steps % 1 or 0 < steps < _LEAST_SIGMA_STEPS:
            raise ImpossibleStudy(
                "sigma", f"sigma must be 0 or a whole number of grid steps, at least {_LEAST_SIGMA_STEPS}"
            )
        self._check_mask()
        if len(self.unmasking) != self.right or not set(self.unmasking) <= self._roles:
            raise ImpossibleStudy(
                "bad_unmasking", "name one unmasking node, by role, for each right provider"
            )
        collusion.refuse_single_breaker(self.topology)
        least = TAGS * self.max_block_rows + 1
        if self.tag_holders and self.columns < least:
            raise ImpossibleStudy(
                "too_few_noise_columns",
                f"with p = {self.columns} columns the tag keys of a block would give a right mask away: give at least "
                f"{least - p1} noise columns, or smaller blocks.",
            )
        self._check_stated()

    @property
    def _roles(self) -> set[str]:
        right = {f"R{k}" for k in range(1, self.right + 1)}
        return right | {f"L{j}" for j in range(1, self.left + 1)} | {"collector"}

    def _check_stated(self) -> None:
        """What the study states beside its settings must follow from them."""
        publishing = PUBLISHING_STEPS if self.sigma else 0
        if self.publishing_steps != publishing:
            raise ImpossibleStudy("publishing_steps", f"publishing_steps must be {publishing} in this study")
        mu = noise_columns_mu(
            self.max_block_rows,
            self.attributes,
            self.noise_columns,
            self.row_norm,
            self.sigma,
            self.tau,
            self.obfuscation_failure,
            CHECK_DIRECTIONS,
        )
        # Two machines' logarithms differ in their last digits, far less than this.
        if not mu * (1 - 1e-6) <= self.noise_columns_mu < math.inf:
            raise ImpossibleStudy(
                "noise_columns_mu",
                f"noise_columns_mu = {self.noise_columns_mu:.4g} is below {mu:.4g}, which these noise columns give",
            )

    def _check_mask(self) -> None:
        if len(self.mask_commitment) != 32:
            raise ImpossibleStudy("bad_key", "mask_commitment must be 32 bytes")
        seed = self.mask_seed
        if seed and (len(seed) != 32 or _commitment(seed) != self.mask_commitment):
            raise ImpossibleStudy(
                "bad_key", "mask_seed must be the 32 bytes the study's mask_commitment is the hash of"
            )

    def _check_grid(self) -> None:
        if self.grid_exponent > COARSEST_EXPONENT or not math.isfinite(self.share_scale):
            raise ImpossibleStudy(
                "grid_too_coarse",
                f"a grid of 2^{self.grid_exponent} is coarser than 2^{COARSEST_EXPONENT}; give a larger share_leakage",
            )
        least = grid_exponent(self.share_scale, self.right)
        if self.grid_exponent < least:
            raise ImpossibleStudy(
                "grid_overflow",
                f"a grid of 2^{self.grid_exponent} leaves components of scale {self.share_scale:.3g} less than 12 "
                f"standard deviations below 2^52; give a grid_exponent of at least {least}, or a larger share_leakage",
            )
        # A row's own entries: at most R + 12 (sigma + tau) in any direction; the components must dwarf them.
        largest = self.row_norm + 12 * (self.sigma + self.tau)
        if largest > self.share_scale / 16:
            raise ImpossibleStudy(
                "grid_overflow",
                f"rows reach {largest:.3g}, too near the components' scale {self.share_scale:.3g}; give more noise "
                "columns (smaller tau), a larger epsilon, or a smaller share_leakage",
            )
