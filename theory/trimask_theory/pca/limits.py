"""What the exponential mechanism for principal components gives and costs, in the high-dimensional limit.

Statement. V on the Stiefel manifold has density proportional to exp((p beta/2) tr V^T Sigma V). With H
and H' taken at l_k:
- utility (Theorem 1): U^T V V^T U -> diag((1 - H(l_i)/beta)_+);
- privacy (Theorem 2), beta > H: sharp sigma_beta-Gaussian DP, add or remove one row of norm sqrt(p), with
  sigma_beta^2 = (beta - H)^2 / (2 D theta^2 (2 (beta - H) + D H')) for beta >= H - D H',
  else -H'/(2 theta^2).
The second case is a plateau: less beta costs utility and buys no privacy.

Assumptions. n / p^{3/2} -> theta, the top k + 1 eigenvalues and the bulk converge, D > 0, rows of norm at
most sqrt(p) (Yun and Dudeja 2025, Assumption 1). Asymptotic. Only `pure_epsilon` and
`finite_delta` are proved at finite p, for exact draws.
Derivation: docs/theory/mechanisms.md#pca.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimask_core.errors import ParameterError
from trimask_theory._checks import non_negative, positive
from trimask_theory.pca.spectrum import Spectrum, hilbert, hilbert_prime

__all__ = [
    "Plateau",
    "beta_for",
    "finite_delta",
    "frobenius_error",
    "overlap",
    "plateau",
    "pure_epsilon",
    "sigma_beta",
    "spectral_error",
    "worst_neighbour",
]


@dataclass(frozen=True, slots=True)
class Plateau:
    """The strongest privacy that still captures all k components, `mu`, and the betas at which it is had."""

    mu: float
    beta_low: float
    beta_high: float


def overlap(spectrum: Spectrum, beta: float) -> NDArray[np.float64]:
    """The diagonal of the limit of U^T V V^T U: how much of each component survives (Theorem 1)."""
    lost = hilbert(spectrum, spectrum.leading) / positive("beta", beta)
    return np.maximum(1 - lost, 0.0)


def spectral_error(spectrum: Spectrum, beta: float) -> float:
    """The limit of E |UU^T - VV^T|^2 in operator norm (equation 4, left)."""
    return 1 - float(overlap(spectrum, beta)[-1])


def frobenius_error(spectrum: Spectrum, beta: float) -> float:
    """The limit of E |UU^T - VV^T|^2 in Frobenius norm (equation 4, right)."""
    return 2 * float(np.sum(1 - overlap(spectrum, beta)))


def plateau(spectrum: Spectrum) -> Plateau:
    """s_min = sqrt(-H'(l_k) / (2 theta^2)), and (H, H - D H'), the betas that give it."""
    h, h_prime = _at_edge(spectrum)
    s_min = math.sqrt(-h_prime / 2) / spectrum.theta
    return Plateau(s_min, h, h - spectrum.gap * h_prime)


def sigma_beta(spectrum: Spectrum, beta: float) -> float:
    """The mu at which the mechanism is asymptotically mu-GDP, and no better (Theorem 2)."""
    h, h_prime = _at_edge(spectrum)
    excess = _excess(beta, h)
    d = spectrum.gap
    if excess < -d * h_prime:
        return math.sqrt(-h_prime / 2) / spectrum.theta
    return excess / (spectrum.theta * math.sqrt(2 * d * (2 * excess + d * h_prime)))


def beta_for(spectrum: Spectrum, mu: float) -> float:
    """The largest beta that is mu-GDP in the limit (equation 7). Refused below the plateau."""
    lowest = plateau(spectrum).mu
    mu = positive("mu", mu)
    # mu = s_min itself is allowed; sqrt and square need not return it to the last digit.
    if mu < lowest * (1 - 1e-12):
        raise ParameterError("mu", f"at least {lowest:.6g}, the best that captures these components", mu)
    w2, s2 = mu * mu, lowest * lowest
    h = float(hilbert(spectrum, spectrum.leading[-1]))
    return h + 2 * spectrum.theta**2 * spectrum.gap * (w2 + math.sqrt(max(w2 * w2 - w2 * s2, 0.0)))


def worst_neighbour(spectrum: Spectrum, beta: float) -> NDArray[np.float64]:
    """The row easiest to detect, sqrt(p)(sqrt(t) u_k + sqrt(1-t) u_{k+1}) (Proposition 1)."""
    h, h_prime = _at_edge(spectrum)
    excess = _excess(beta, h)
    # The variance is -t^2 H'/2 + t(1-t) excess/D, over theta^2. On the plateau it grows all the way to t = 1;
    # the printed min{1, excess/(2 excess + D H')} is negative there once 2 excess < -D H', so it is not used.
    t = excess / (2 * excess + spectrum.gap * h_prime) if excess > -spectrum.gap * h_prime else 1.0
    k = spectrum.components
    mixed = math.sqrt(t) * spectrum.eigenvectors[:, k - 1] + math.sqrt(1 - t) * spectrum.eigenvectors[:, k]
    return np.asarray(math.sqrt(spectrum.dimension) * mixed, dtype=np.float64)


def pure_epsilon(spectrum: Spectrum, beta: float) -> float:
    """p^2 beta / n: the epsilon of pure DP, proved at any p and any spectrum, and usually too large to use.

    One row of n changes tr V^T Sigma V by at most p/n either way, so the log density by (p beta/2)(2 p/n).
    This is the bound of Chaudhuri, Sarwate, Sinha (2013) that the paper compares with; it needs an exact
    sample.
    """
    return spectrum.dimension**2 * non_negative("beta", beta) / spectrum.rows


def _at_edge(spectrum: Spectrum) -> tuple[float, float]:
    edge = spectrum.leading[-1]
    return float(hilbert(spectrum, edge)), float(hilbert_prime(spectrum, edge))


def finite_delta(spectrum: Spectrum, beta: float, epsilon: float) -> float:
    """delta at `epsilon`, proved at any p, n and spectrum: the log density moves within a range of p^2 beta/(2 n).

    For one row added or removed, the divisor n kept (docs/theory/mechanisms.md#pca-finite). Usually too large to use.
    """
    reach = 0.5 * pure_epsilon(spectrum, beta)
    beyond = reach - non_negative("epsilon", epsilon)
    if beyond <= 0:
        return 0.0
    return math.expm1(-0.5 * beyond) ** 2 / -math.expm1(-reach)


def _excess(beta: float, h: float) -> float:
    if not positive("beta", beta) > h:
        raise ParameterError("beta", f"above H(l_k) = {h:.6g}, below which a component is lost", beta)
    return beta - h
