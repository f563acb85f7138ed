"""Private sums beside Huang, Liang and Yi's shifted clipped mean (arXiv 2106.00463).

`python -m trimask_shifted_mean` prints the table: with known, unequal deviations Algorithm 3 beats
their method as they state it; with deviations or centre unknown, theirs wins by far; both together beat Algorithm 3 from a
thousand rows on.

For comparison only: their method written anew, in floating point, without the integer grid that a release of ours has.

Followed: a random rotation by Hadamard matrices and signs; the median of every rotated coordinate by PrivQuant, a
binary search on counts with Gaussian noise, at a quarter of the budget; rows shifted by these medians; the clipping radius
C by the same search, at the norm of rank m = n - 2 sqrt(d/(2 rho_2)) - margin sqrt(steps/(2 rho_1)); the clipped rows'
mean with noise of sensitivity 2 C/n; shifted and turned back.

Not as published, or not known to be:
- the paper's full text was not at hand: the steps are from its opening and from two programs of others that run it as a
  baseline. These differ in constants; taken are a quarter of what the shift leaves for C (rho_1), the rest for the noise
  (rho_2), and the m above with margin 1. A noisy count of all n rows then falls below m in 1 to 3% of the halvings here,
  and C comes out far too large; `margin` 4 makes that rare and is ours, in the spirit of a union bound over the halvings;
- the sum is n times their mean: neighbours replace one row, so n is public in both;
- rho = mu^2/2 of the exact (epsilon, delta) of composed Gaussian mechanisms (Dong, Roth, Su 2022): less noise than by
  zCDP's bound;
- rows are real and the number of halvings is given, in place of integers up to u and log u halvings;
- medians are sought in [-u, u], u a public bound on the norm of a row, and radii in [0, 2u], which always hold; the
  programs take u/sqrt(d) and u. d is padded with zeros to a power of two.

Privacy: replacing a row changes a count by at most 1 and the clipped sum by at most 2 C, so each count is a Gaussian
mechanism of mu = 1/deviation and the sum one of 2 C/deviation, whatever was seen before: mu^2 adds up to the budget.
Proved for exact normals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from trimask_theory.gaussian import gdp
from trimask_theory.gaussian.grid_gaussian import NormalSource
from trimask_theory.mechanisms import clipped_sum, vector_sum

Array = NDArray[np.float64]
_SHIFT, _RADIUS = 0.25, 0.25
_PRIVACY = {"epsilon": 1.0, "delta": 1e-6}


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedSum:
    """A private sum with what it was made from; `spent` is mu of every noisy number or vector, in order."""

    value: Array
    centre: Array
    radius: float
    deviation: float
    spent: tuple[float, ...]


def quantile_search(
    values: Array, rank: float, low: float, high: float, steps: int, deviation: float, source: NormalSource
) -> Array:
    """PrivQuant: for each column, about the value with `rank` values at or below it, by `steps` halvings of [low, high]."""
    left, right = np.full(values.shape[1], low), np.full(values.shape[1], high)
    for _ in range(steps):
        middle = (left + right) / 2
        counts = np.sum(values <= middle, axis=0) + deviation * source.standard_normal(middle.shape)
        below = counts <= rank
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    return np.asarray((left + right) / 2, dtype=np.float64)


def rotation(size: int, source: NormalSource) -> Array:
    """An orthogonal matrix: three rounds of Hadamard's matrix and random signs. It is public, and `size` a power of two."""
    turned = np.eye(size)
    for _ in range(3):
        signs = np.where(source.standard_normal((size,)) < 0, -1.0, 1.0)
        turned = hadamard(size) / math.sqrt(size) @ (signs[:, None] * turned)
    return turned


def shifted_sum(
    rows: Array, bound: float, *, mu: float, source: NormalSource, steps: int = 10, margin: float = 1.0
) -> ShiftedSum:
    """The sum of `rows`, of norm at most `bound` (rows beyond it are protected all the same), at mu in all."""
    n, d = rows.shape
    size = 1 << (d - 1).bit_length()
    turn = rotation(size, source)
    turned = np.pad(rows, ((0, 0), (0, size - d))) @ turn.T
    for_median = mu * math.sqrt(_SHIFT / (size * steps))
    centre = quantile_search(turned, n / 2, -bound, bound, steps, 1 / for_median, source)
    off = turned - centre
    norms = np.linalg.norm(off, axis=1)
    left = mu * math.sqrt(1 - _SHIFT)
    for_radius, for_sum = left * math.sqrt(_RADIUS / steps), left * math.sqrt(1 - _RADIUS)
    # In mu: sqrt(d/(2 rho_2)) is sqrt(d)/mu_2, and sqrt(steps/(2 rho_1)) the deviation of a count.
    rank = n - 2 * math.sqrt(d) / for_sum - margin / for_radius
    radius = float(quantile_search(norms[:, None], rank, 0.0, 2 * bound, steps, 1 / for_radius, source)[0])
    kept = np.minimum(1.0, radius / np.maximum(norms, radius))
    deviation = 2 * radius / for_sum
    total = n * centre + kept @ off + deviation * source.standard_normal((size,))
    spent = (for_median,) * (size * steps) + (for_radius,) * steps + (for_sum,)
    return ShiftedSum((turn.T @ total)[:d], turn.T @ centre, radius, deviation, spent)


@dataclass(frozen=True, slots=True)
class Shape:
    """Normal rows with Zipf deviations about a centre, and what is publicly known of them."""

    name: str
    alpha: float
    d: int = 10
    n: int = 1000
    # The ranges are this many deviations either side of 0, the centre lies half-way out where it is not 0.
    ranges: float = 6.0
    centred: bool = True
    # The public deviations are the true ones times this.
    stated: float = 1.0
    steps: int = 10

    @property
    def deviations(self) -> Array:
        """The true ones, by Zipf's law."""
        return np.asarray(np.arange(1, self.d + 1.0) ** -self.alpha, dtype=np.float64)


SHAPES = (
    Shape("α = 0.1", 0.1),
    Shape("α = 1, n = 300", 1.0, n=300),
    Shape("α = 1", 1.0),
    Shape("α = 1, n = 10,000", 1.0, n=10_000),
    Shape("α = 3", 3.0),
    Shape("α = 1, d = 64, n = 10,000", 1.0, d=64, n=10_000),
    Shape("α = 1, deviations stated 10 times too large", 1.0, stated=10.0),
    Shape(
        "α = 1, n = 10,000, ranges ±1,000 deviations, centre unknown", 1.0, 10, 10_000, 1000.0, False, 1.0, 18
    ),
)


def compare(shape: Shape, draws: int, seed: int, clip_probability: float | None = None) -> tuple[float, ...]:
    """Root mean squared errors, in the order of the table's columns; `clip_probability` is for the third."""
    source = np.random.default_rng(seed)
    sigma = shape.deviations
    high = shape.ranges * sigma
    centre = np.zeros(shape.d) if shape.centred else high / 2
    stated = sigma * shape.stated
    b = vector_sum.clipped_scaling(stated)
    squares = np.zeros(6)
    bound, scaled_bound = float(np.linalg.norm(high)), float(np.linalg.norm(high * b))
    ours: dict[str, Any] = {"source": source, **_PRIVACY}
    theirs: dict[str, Any] = {"mu": gdp.mu(**_PRIVACY), "source": source, "steps": shape.steps}
    for _ in range(draws):
        x = centre + source.standard_normal((shape.n, shape.d)) * sigma
        found = (
            vector_sum.clipped(x, centre, stated, **ours).value,
            clipped_sum.with_private_centre(x, -high, high, stated, **ours).value,
            clipped_sum.with_private_centre(
                x, -high, high, stated, clip_probability=clip_probability, **ours
            ).value,
            shifted_sum(x, bound, **theirs).value,
            shifted_sum(x, bound, margin=4.0, **theirs).value,
            shifted_sum(x * b, scaled_bound, margin=4.0, **theirs).value / b,
        )
        squares += [float(np.sum((value - x.sum(axis=0)) ** 2)) for value in found]
    return tuple(float(v) for v in np.sqrt(squares / draws))


def table(draws: int = 200, seed: int = 9) -> str:
    """Root mean squared errors of the sum, a line a shape of the data."""
    ours = "Algorithm 3, true centre | private centre | private centre, best p_C"
    theirs = "Huang, Liang, Yi | theirs, margin 4 | margin 4, rows scaled"
    lines = [f"| rows | {ours} | {theirs} |", "|---|--:|--:|--:|--:|--:|--:|"]
    for shape in SHAPES:
        best = clipped_sum.best_clip_probability(shape.deviations * shape.stated, shape.n, **_PRIVACY)
        errors = " | ".join(f"{error:,.0f}" for error in compare(shape, draws, seed, best))
        lines.append(f"| {shape.name} | {errors} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
