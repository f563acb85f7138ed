"""One mechanism object a family: masked release, noisy Gram matrix, projection, sums, principal components, local noise.

Each is made from what a release states (sigma, rows, norms), and gives the curve its family's module proves:
`masked_noise`, `noisy_gram`, `projection`, `vector_sum`, `pca` and `local_noise`.
Derivation: docs/theory/gaussian-pairs.md#loss-distributions.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from trimask_core.study.guarantee import Basis, Neighbours
from trimask_theory import checks
from trimask_theory.accounting.composition import LossDistribution, from_density, from_points
from trimask_theory.accounting.mechanism import GaussianMechanism, Mechanism
from trimask_theory.masking import masked_noise
from trimask_theory.masking.hypergeometric import inverse_log_0f1, log_0f1, log_density
from trimask_theory.mechanisms import projection

Array = NDArray[np.float64]

_REACH = 11.0
"""How far from its bulk a chi variable (standard deviation at most 1) is followed: the rest is below 1e-26."""

_DOTS, _MANY_DOTS = 12, 60
"""Places of a curve of deltas in a standard deviation of the loss, where a delta is slow and where it is quick."""


class LocalNoise(GaussianMechanism):
    """Gaussian noise `sigma` on rows that are seen as they are, neighbours within `sensitivity`."""

    family = "local noise"

    def __init__(self, sigma: float, sensitivity: float = 1.0) -> None:
        sensitivity = checks.positive("sensitivity", sensitivity)
        super().__init__(
            sensitivity / checks.positive("sigma", sigma), Neighbours("unit", distance=sensitivity)
        )


class NoisyGram(GaussianMechanism):
    """D'D with symmetric noise, `sigma` on its diagonal: rows of norm at most `row_norm`, a record replaced."""

    family = "noisy Gram"

    def __init__(self, sigma: float, row_norm: float = 1.0) -> None:
        norm = checks.positive("row_norm", row_norm)
        mu = math.sqrt(2) * norm**2 / checks.positive("sigma", sigma)
        super().__init__(mu, Neighbours("record", row_norm=norm))


class VectorSum(GaussianMechanism):
    """A sum with noise of the deviations `noise`, of rows whose coordinates move by at most `ranges`, a record replaced."""

    family = "sum"

    def __init__(self, noise: Array | list[float], ranges: Array | list[float]) -> None:
        moves = [
            checks.positive("ranges", float(width)) / checks.positive("noise", float(deviation))
            for width, deviation in zip(ranges, noise, strict=True)
        ]
        super().__init__(math.hypot(*moves), Neighbours("record"))


class PrivateComponents(GaussianMechanism):
    """Principal components by the exponential mechanism: mu-GDP in the limit of many rows and columns."""

    family = "components"

    def __init__(self, mu: float, neighbours: Neighbours | None = None, basis: Basis = "asymptotic") -> None:
        super().__init__(mu, neighbours or Neighbours("add-remove"), basis)


class MaskedRelease(Mechanism):
    """Y = A(X + C): noise `sigma`, `rows` rows mixed by one mask, `attributes` columns.

    For `record` the pair of orthogonal rows dominates every other one at all epsilon at once, and its loss is a difference
    of two independent ones (docs/theory/sharp-calibration.md#enclosure). For `unit`, and with one attribute, the largest
    delta over all pairs and directions is a curve, and the dots of the curve are connected.

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each entry.
    rows, attributes : int
        Rows that one mask mixes before anyone looks, and columns.
    protect : {"record", "unit"}
        Whether a whole row may change, or a row moves by at most 1.
    row_norm : float, optional
        R, the longest a row may be; sqrt(attributes) if left out.
    rounding : float
        How far apart rounding may move two rows.

    Examples
    --------
    >>> release = MaskedRelease(sigma=1.2713, rows=256, attributes=6)
    >>> release  # doctest: +ELLIPSIS
    <MaskedRelease (masked release), sigma = 1.271, 256 x 6, for one person's whole record of norm at most 2.449 ...>
    >>> round(release.epsilon(1e-6), 3)
    1.0
    """

    family = "masked release"
    basis: Basis = "proved"

    def __init__(
        self,
        sigma: float,
        rows: int,
        attributes: int,
        protect: masked_noise.Protection = "record",
        row_norm: float | None = None,
        rounding: float = 0.0,
    ) -> None:
        self.sigma = checks.positive("sigma", sigma)
        self.rounding = checks.non_negative("rounding", rounding)
        self.attributes = checks.whole("attributes", attributes, 1)
        self.rows = checks.whole("rows", rows, self.attributes + 1)
        checks.one_of("protect", protect, ("record", "unit"))
        self.protect = protect
        norm = math.sqrt(attributes) if row_norm is None else checks.positive("row_norm", row_norm)
        self.neighbours = Neighbours(
            protect, row_norm=norm, distance=2 * norm if protect == "record" else 1.0
        )
        self._norm = (norm + self.rounding / 2) / self.sigma

    def _numbers(self) -> str:
        return f"sigma = {self.sigma:.4g}, {self.rows} x {self.attributes}, "

    @property
    def spread(self) -> float:
        """|x x^T - x' x'^T|_F / (sqrt(2 m) sigma^2), mu in the limit of many rows."""
        m, norm = self.rows - self.attributes, self._norm
        apart = (
            norm if self.protect == "record" else min(norm, math.sqrt(2) * (1 + self.rounding) / self.sigma)
        )
        return min(norm * apart / math.sqrt(m), math.sqrt(2) * apart)

    def delta(self, epsilon: float) -> float:
        """The sharp delta."""
        floor = max(
            checks.non_negative("epsilon", epsilon), 1e-12
        )  # where masked_noise begins; delta is continuous
        norm = self.neighbours.row_norm
        return masked_noise.delta(
            floor, self.sigma, self.rows, self.attributes, self.protect, norm, rounding=self.rounding
        )

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon, rounded up."""
        norm = self.neighbours.row_norm
        return masked_noise.epsilon(
            delta, self.sigma, self.rows, self.attributes, self.protect, norm, rounding=self.rounding
        )

    def factors(self, step: float) -> list[tuple[LossDistribution, ...]]:
        """chi_m(R^2) against chi_m and its mirror image; for `unit`, the curve's dots connected."""
        if self.protect == "unit" or self.attributes == 1:
            return [(_connected(self, step, _DOTS if self.attributes > 1 else _MANY_DOTS),)]
        m, norm = self.rows - self.attributes, self._norm
        shift, b = norm * norm / 2, m / 2

        def loss(rho: Array) -> Array:
            return log_0f1(b, norm * rho) - shift

        def place_of(losses: Array) -> Array:
            return inverse_log_0f1(b, np.maximum(losses + shift, 0.0)) / norm

        centre = math.sqrt(m)
        ends = (max(0.0, centre - _REACH), math.hypot(centre, norm) + _REACH)
        lowest, highest = (float(loss(np.array([end]))[0]) for end in ends)
        low, high = math.floor(lowest / step), math.ceil(highest / step)
        forward = from_density(
            step, low, high, place_of, loss, lambda rho: np.exp(log_density(m, norm * norm, rho)), ends
        )
        backward = from_density(
            step,
            -high,
            -low,
            lambda losses: place_of(-losses),
            lambda rho: -loss(rho),
            lambda rho: np.exp(log_density(m, 0.0, rho)),
            ends,
        )
        return [(_cleaned(forward), _cleaned(backward))]


class Projection(Mechanism):
    """D'G + N to `reduced_dim` columns with noise `sigma`, rows of norm at most `row_norm`, one added or removed."""

    family = "projection"
    basis: Basis = "proved"

    def __init__(self, sigma: float, reduced_dim: int, row_norm: float = 1.0) -> None:
        self.sigma = checks.positive("sigma", sigma)
        self.reduced_dim = checks.whole("reduced_dim", reduced_dim, 1)
        norm = checks.positive("row_norm", row_norm)
        self.neighbours = Neighbours("add-remove", row_norm=norm)
        self.leverage = norm**2 / (norm**2 + self.sigma**2)

    def _numbers(self) -> str:
        return f"sigma = {self.sigma:.4g}, to {self.reduced_dim} columns, "

    @property
    def spread(self) -> float:
        """The loss is p/(2 (1 - p)) chi^2_r and a constant."""
        odds = self.leverage / (1 - self.leverage)
        return odds * math.sqrt(self.reduced_dim / 2)

    def delta(self, epsilon: float) -> float:
        """NDIS, Theorem 2, at the largest leverage."""
        return projection.delta(epsilon, self.leverage, self.reduced_dim)

    def factors(self, step: float) -> list[tuple[LossDistribution, ...]]:
        """With the row (loss under N1) and without it."""
        r, p = self.reduced_dim, self.leverage
        shift = 0.5 * r * math.log1p(-p)
        rate = 0.5 * p / (1 - p)
        top = (math.sqrt(r) + 1.5 * _REACH) ** 2

        def density(v: Array) -> Array:
            with np.errstate(divide="ignore"):
                log_v = np.log(v)
            # In w = sqrt(v), so that r = 1 has no pole at zero.
            return np.exp((r - 1) * log_v - v * v / 2 + (1 - r / 2) * math.log(2) - float(gammaln(r / 2)))

        ends = (0.0, math.sqrt(top))
        forward_top = math.ceil((shift + rate * top) / step)
        forward = from_density(
            step,
            math.floor(shift / step),
            forward_top,
            lambda losses: np.sqrt(np.maximum((losses - shift) / rate, 0.0)),
            lambda w: shift + rate * w * w,
            density,
            ends,
        )
        # Without the row the same variable is (1 - p) v of the other law: the loss falls in it.
        slow = 0.5 * p
        backward = from_density(
            step,
            math.floor((-shift - slow * top) / step),
            math.ceil(-shift / step),
            lambda losses: np.sqrt(np.maximum((-shift - losses) / slow, 0.0)),
            lambda w: -shift - slow * w * w,
            density,
            ends,
        )
        return [(_cleaned(forward),), (_cleaned(backward),)]


def _cleaned(found: LossDistribution) -> LossDistribution:
    """What quadrature leaves over or short of one, below 1e-12, belongs to no tail: it goes to the largest mass."""
    if found.infinity_mass > 1e-12:
        return found
    mass = found.mass.copy()
    mass[int(np.argmax(mass))] += 1.0 - float(mass.sum()) - 1e-24
    return LossDistribution(found.step, found.first, mass, 1e-24)


def _connected(mechanism: Mechanism, step: float, dots: int) -> LossDistribution:
    """The pair whose curve is the polygon through delta(k h) as a function of e^epsilon, for a symmetric mechanism."""
    stride = max(1, math.floor(mechanism.spread / dots / step))
    wide = stride * step
    top = math.ceil(mechanism.epsilon(1e-14) / wide)
    upper = mechanism.curve(wide * np.arange(top + 1))
    # Symmetry: delta(-e) = 1 - e^-e + e^-e delta(e).
    places: Array = wide * np.arange(-top, top + 1.0)
    fall = np.exp(-places[top + 1 :])
    deltas = np.concatenate([((1 - fall) + fall * upper[1:])[::-1], upper])
    slopes = np.diff(deltas) / np.diff(np.exp(places))
    # Q-mass at a place is the change of slope; left of the first the polygon has slope -1, right of the last 0.
    q = np.maximum(np.diff(np.concatenate([[-1.0], slopes, [0.0]])), 0.0)
    return from_points(step, places, q * np.exp(places), float(deltas[-1]))
