"""Privacy-loss distributions on a lattice, and adding them up, with the digits of a small delta kept.

Statement. For mechanisms run one after another, each chosen whatever the earlier ones said, the sum of the losses of
their dominating pairs dominates (Zhu, Dong, Wang 2022, Theorem 10). The convolution is one product of Fourier transforms.
So that a delta of 1e-12 keeps its digits, masses are first tilted, p_k e^(theta k h), with theta at the saddle point of
the epsilon asked for: the bulk of the tilted sum lies there. What a transform of finite length wraps around is bounded by
Chernoff's inequality and counted as an infinite loss; an allowance for the rounding of the transforms is added too.
Basis: proved but for that allowance, which is an estimate: 4 units in the last place for each factor and each doubling
of the length, of the Euclidean norm, as the usual bounds on Fourier transforms have it.
Derivation: docs/theory/gaussian-pairs.md#loss-distributions.

Statement (the lattice, rounded so that delta is never too small). A dominating pair of laws P, Q has the loss L = ln
dP/dQ, and delta(epsilon) = E_P[(1 - e^(epsilon - L))_+]; losses of mechanisms run one after another add up. Here L lies
on a lattice of step h. A loss between two places a < b is put at both, under P with the shares 1 - u and u, u = (1 - e^(a
- L))/(1 - e^(a - b)): both laws keep their mass, so dP/dQ is only spread out and the discrete pair dominates (the
connect-the-dots rule of Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022). Losses below the lattice are raised to its
lowest place, those above it give away what exceeds its highest place as an infinite loss. So far everything is proved; it
errs upward by about h^2/6 of variance a mechanism. What is estimated: masses are Gauss-Legendre sums of positive terms
(relative error about 1e-13). Derivation: docs/theory/gaussian-pairs.md#loss-distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq, minimize_scalar

from trimask_theory.masking.hypergeometric import gauss_legendre

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LossDistribution:
    """P-masses at losses (first + k) step, k = 0, 1, ..., and the P-mass `infinity_mass` where Q has none."""

    step: float
    first: int
    mass: Array = field(repr=False)
    infinity_mass: float = 0.0

    @property
    def losses(self) -> Array:
        """Where the masses are."""
        return np.asarray(self.step * (self.first + np.arange(self.mass.size)), dtype=np.float64)

    @property
    def mean(self) -> float:
        """The mean loss, infinite losses left out."""
        return float(self.mass @ self.losses)

    @property
    def variance(self) -> float:
        """The variance of the loss, infinite losses left out."""
        return float(self.mass @ (self.losses - self.mean) ** 2)

    def delta(self, epsilon: float) -> float:
        """E_P[(1 - e^(epsilon - L))_+]."""
        losses = self.losses
        above = losses > epsilon
        gain = -np.expm1(epsilon - losses[above])
        return min(1.0, float(self.mass[above] @ gain) + self.infinity_mass)

    def log_moment(self, order: float) -> float:
        """ln E_P[e^(order L)] over the losses that end: order + 1 is the order of the Renyi divergence, times order."""
        exponent = order * self.losses + np.log(np.maximum(self.mass, 1e-300))
        top = float(exponent.max())
        return top + math.log(float(np.exp(exponent - top).sum()))

    def mirrored(self) -> LossDistribution:
        """The pair (Q, P): its loss is -L under Q. What P has where Q has nothing never counts there."""
        with np.errstate(under="ignore"):
            masses = (self.mass * np.exp(-self.losses))[::-1]
        lost = max(0.0, 1.0 - float(masses.sum()))
        return LossDistribution(self.step, -(self.first + self.mass.size - 1), masses, lost)


def from_points(step: float, losses: Array, masses: Array, infinity_mass: float = 0.0) -> LossDistribution:
    """P-masses at any losses, put on the lattice by the rule above."""
    place = np.floor(losses / step)
    low = int(place.min())
    mass = np.zeros(int(place.max()) - low + 2)
    share = np.expm1(place * step - losses) / math.expm1(-step)
    share = np.clip(share, 0.0, 1.0)
    at = place.astype(np.intp) - low
    np.add.at(mass, at, masses * (1 - share))
    np.add.at(mass, at + 1, masses * share)
    return LossDistribution(step, low, mass, infinity_mass)


def from_density(
    step: float,
    low: int,
    high: int,
    place_of: Callable[[Array], Array],
    loss: Callable[[Array], Array],
    density: Callable[[Array], Array],
    ends: tuple[float, float],
) -> LossDistribution:
    """A loss that is monotone in one variable: `place_of` inverts `loss`, `density` is P's, `ends` hold all that counts.

    The lattice runs from low to high; what the variable has beyond `ends` is given away as an infinite loss.
    """
    begin, end = ends
    edges = place_of(step * np.arange(low, high + 1, dtype=np.float64))
    rising = bool(edges[-1] >= edges[0])
    inner = np.clip(edges if rising else edges[::-1], begin, end)
    cuts = np.unique(np.concatenate([[begin], inner, [end]]))
    # Long cells (beyond the lattice, or where the loss hardly moves) are cut so that the density is smooth on each.
    widest = max((end - begin) / 200, 1e-300)
    cuts = np.unique(
        np.concatenate([np.linspace(a, b, 1 + math.ceil((b - a) / widest)) for a, b in pairwise(cuts)])
    )
    x, weight = gauss_legendre(6)
    width = np.diff(cuts)[:, None]
    at = (cuts[:-1, None] + width * x).ravel()
    masses = (width * weight).ravel() * density(at)
    losses = np.maximum(loss(at), low * step)
    top = high * step
    over = losses > top
    beyond = float(masses[over] @ -np.expm1(top - losses[over])) if over.any() else 0.0
    masses = np.where(over, masses * np.exp(np.minimum(top - losses, 0.0)), masses)
    outside = max(0.0, 1.0 - float(masses.sum()) - beyond)
    return from_points(step, np.minimum(losses, top), masses, beyond + outside)


Factor = tuple[LossDistribution, int]

_ULP = 2.0**-52
_DEPTH = 60.0
"""Windows end where Chernoff's bound on what lies beyond, in the tilted law, is e^-60."""


class _Tilted(NamedTuple):
    """The tilted sum: masses at (first + k) step; times e^(log_scale - theta L) they are the true ones."""

    theta: float
    first: int
    mass: Array
    log_scale: float
    wrapped: float
    """log of what may lie above the window."""
    error: float
    """The length of the vector of rounding errors."""


class LossSum:
    """The sum of independent losses on one lattice; `factors` are distributions with how often each is used."""

    def __init__(self, factors: Sequence[Factor]) -> None:
        self._factors = [(loss, count) for loss, count in factors if count > 0]
        self.step = self._factors[0][0].step
        survive = math.fsum(
            count * math.log1p(-min(loss.infinity_mass, 1 - 1e-16)) for loss, count in self._factors
        )
        self.infinity_mass = -math.expm1(survive)
        self._last: _Tilted | None = None

    def log_moment(self, theta: float) -> float:
        """ln E[e^(theta L)]."""
        return math.fsum(count * loss.log_moment(theta) for loss, count in self._factors)

    def delta(self, epsilon: float) -> float:
        """delta(epsilon), with what wrapping and rounding may have lost."""
        return self._delta(self._tilted(self._saddle(epsilon)), epsilon)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta; inf where infinite losses alone are more."""
        if self.infinity_mass >= delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        # Chernoff: delta <= e^(K(theta) - theta epsilon). Its epsilon says where to tilt.
        goal = math.log(delta - self.infinity_mass)
        theta = float(
            minimize_scalar(
                lambda t: (self.log_moment(math.exp(t)) - goal) / math.exp(t),
                bounds=(-6, 8),
                method="bounded",
            ).x
        )
        guess = max(0.0, (self.log_moment(math.exp(theta)) - goal) / math.exp(theta))
        tilted = self._tilted(self._saddle(guess))
        low, high = max(0.0, tilted.first * self.step), guess
        while self._delta(tilted, high) > delta:
            high += self.step * tilted.mass.size / 20
        if self._delta(tilted, low) <= delta:  # below the window
            return self._root(self.delta, delta, 0.0, low)
        return self._root(lambda e: self._delta(tilted, e), delta, low, high)

    @staticmethod
    def _root(curve: Callable[[float], float], goal: float, low: float, high: float) -> float:
        """Where a falling curve comes down to the goal, from above."""
        log_goal = math.log(goal)
        root = float(
            brentq(lambda e: math.log(max(curve(e), 1e-320)) - log_goal, low, high, xtol=1e-13, rtol=1e-12)
        )
        step = 1e-12
        while curve(root) > goal:
            root += step * (1 + root)
            step *= 2
        return root

    def _tilted_moments(self, theta: float) -> tuple[float, float]:
        """Mean and variance of the tilted sum."""
        means, variances = [], []
        for loss, count in self._factors:
            exponent = theta * loss.losses + np.log(np.maximum(loss.mass, 1e-300))
            weight = np.exp(exponent - exponent.max())
            weight /= weight.sum()
            mean = float(weight @ loss.losses)
            means.append(count * mean)
            variances.append(count * float(weight @ (loss.losses - mean) ** 2))
        return math.fsum(means), math.fsum(variances)

    def _saddle(self, epsilon: float) -> float:
        """The theta >= 0 at which the tilted sum has the mean epsilon."""

        def short(theta: float) -> float:
            return self._tilted_moments(theta)[0] - epsilon

        if short(0.0) >= 0:
            return 0.0
        high = 1.0
        while short(high) < 0 and high < 1e4:
            high *= 2
        # Any theta will do; the best one loses the fewest digits.
        return high if short(high) < 0 else float(brentq(short, 0.0, high, rtol=1e-3))

    def _tilted(self, theta: float) -> _Tilted:
        if self._last is not None and self._last.theta == theta:
            return self._last
        base = self.log_moment(theta)
        _, variance = self._tilted_moments(theta)
        speed = math.sqrt(2 * _DEPTH / max(variance, self.step**2))
        high = (self.log_moment(theta + speed) - base + _DEPTH) / speed
        low = -(self.log_moment(theta - speed) - base + _DEPTH) / speed
        start = sum(count * loss.first for loss, count in self._factors)
        whole = 1 + sum(count * (loss.mass.size - 1) for loss, count in self._factors)
        first, size = math.floor(low / self.step), math.ceil((high - low) / self.step) + 2
        wrapped = base - theta * (first + size) * self.step - _DEPTH
        if whole <= size:
            first, size, wrapped = start, whole, -math.inf
        length = next_fast_len(size, real=True)
        product: NDArray[np.complex128] = np.ones(length // 2 + 1, dtype=np.complex128)
        for loss, count in self._factors:
            exponent = theta * loss.losses + np.log(np.maximum(loss.mass, 1e-300)) - loss.log_moment(theta)
            with np.errstate(under="ignore"):
                weight = np.exp(exponent)
            folded = np.zeros(-(-weight.size // length) * length)
            folded[: weight.size] = weight
            product *= rfft(folded.reshape(-1, length).sum(axis=0)) ** count
        mass = np.roll(irfft(product, length), start - first)
        uses = sum(count for _, count in self._factors)
        error = 4 * _ULP * (uses + math.log2(length)) * float(np.linalg.norm(mass))
        self._last = _Tilted(theta, first, np.maximum(mass, 0.0), base, wrapped, error)
        return self._last

    def _delta(self, tilted: _Tilted, epsilon: float) -> float:
        losses = self.step * (tilted.first + np.arange(tilted.mass.size))
        begin = max(0, math.floor(epsilon / self.step) + 1 - tilted.first)
        above = losses[begin:] - epsilon
        gain = np.exp(-tilted.theta * above) * -np.expm1(-above)
        # The largest value of the gain bounds what rounding can do to one mass, Cauchy-Schwarz to all of them.
        spread = math.sqrt(min(float(gain @ gain), float(gain.size)))
        inner = float(tilted.mass[begin:] @ gain) + tilted.error * spread
        exponent = tilted.log_scale - tilted.theta * epsilon
        total = inner * math.exp(min(exponent, 700.0)) + math.exp(min(tilted.wrapped, 0.0))
        return min(1.0, total + self.infinity_mass)
