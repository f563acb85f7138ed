"""Privacy-loss distributions on a lattice, rounded so that delta is never too small.

Statement. A dominating pair of laws P, Q has the loss L = ln dP/dQ, and delta(epsilon) = E_P[(1 - e^(epsilon - L))_+];
losses of mechanisms run one after another add up. Here L lies on a lattice of step h. A loss between two places a < b is
put at both, under P with the shares 1 - u and u, u = (1 - e^(a - L))/(1 - e^(a - b)): both laws keep their mass, so
dP/dQ is only spread out and the discrete pair dominates (the connect-the-dots rule of Doroshenko, Ghazi, Kamath, Kumar,
Manurangsi 2022). Losses below the lattice are raised to its lowest place, those above it give away what exceeds its
highest place as an infinite loss. So far everything is proved; it errs upward by about h^2/6 of variance a mechanism.
What is estimated: masses are Gauss-Legendre sums of positive terms (relative error about 1e-13).
Derivation: docs/theory/gaussian-pairs.md#loss-distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trimask_theory._noncentral_chi import gauss_legendre

__all__ = ["LossDistribution", "from_density", "from_points"]

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
