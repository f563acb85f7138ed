"""The noncentral chi law, in logarithms: accurate in its tails and to 10^7 dimensions.

Statement. rho = |N(mean, I_m)|, the norm of a normal vector, has density
    2 rho^(m-1) (2^(m/2) Gamma(m/2))^-1 exp(-(rho^2 + nc)/2) 0F1(; m/2; nc rho^2/4),  nc = |mean|^2.
Basis: the density is exact; `log_sf` is Gauss-Legendre quadrature of a positive integrand, so that its
error is relative to the tail and not to one. Working with rho and not rho^2 keeps the standard deviation
between 0.6 and 1 for every m and every noncentrality, which is what fixed quadrature windows need.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trimask_theory._hypergeometric import log_0f1, log_0f1_scaled, stirling_remainder

__all__ = ["DEPTH", "gauss_legendre", "log_density", "log_sf", "log_sum", "panels", "window_above"]

Array = NDArray[np.float64]

DEPTH = 30.0
"""Quadrature windows end where the integrand has fallen by exp(-DEPTH) from its largest value."""


@lru_cache(maxsize=32)
def gauss_legendre(nodes: int) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1]."""
    x, weight = np.polynomial.legendre.leggauss(nodes)
    return 0.5 * (x + 1.0), 0.5 * weight


def panels(edges: Array, nodes: int) -> tuple[Array, Array]:
    """Composite Gauss-Legendre nodes and weights on consecutive intervals, along the last axis."""
    x, weight = gauss_legendre(nodes)
    widths = np.diff(edges)[..., None]
    shape = (*edges.shape[:-1], -1)
    return (edges[..., :-1, None] + widths * x).reshape(shape), (widths * weight).reshape(shape)


def log_sum(log_terms: Array) -> float:
    """log of the sum of exp(log_terms); -inf for nothing."""
    top = float(np.max(log_terms, initial=-math.inf))
    if not math.isfinite(top):
        return -math.inf
    return top + math.log(float(np.sum(np.exp(log_terms - top))))


def log_density(m: int, noncentrality: Array | float, rho: Array) -> Array:
    """log density at rho > 0; `noncentrality` is a number, or an array that broadcasts against rho."""
    b = 0.5 * m
    constant = -0.5 * math.log(math.pi) - stirling_remainder(b)
    centre = np.sqrt(np.asarray(noncentrality, dtype=np.float64))
    t = centre * rho
    h = np.maximum(rho * rho / m, 1e-15) - 1.0  # so near to zero the density is nothing
    # Which of two equal forms loses fewer digits depends on whether the noncentrality or m rules.
    if float(np.min(centre)) ** 2 > m:
        head = 0.5 * m + 0.5 * (m - 1) * np.log1p(h) - 0.5 * (rho - centre) ** 2
        scaled: Array = constant + head + log_0f1_scaled(b, t)
        return scaled
    head = -0.5 * (m * h - (m - 1) * np.log1p(h)) - 0.5 * centre * centre
    plain: Array = constant + head + log_0f1(b, t)
    return plain


def window_above(start: float, mode: float) -> float:
    """Where a density of standard deviation at most 1 has fallen by exp(-DEPTH) from its value at `start`."""
    if start <= mode:
        return mode + math.sqrt(2 * DEPTH)
    ahead = start - mode
    return mode + math.sqrt(ahead * ahead + 2 * DEPTH)


def log_sf(m: int, noncentrality: float, x: float) -> float:
    """log P[chi^2_m(noncentrality) > x]."""
    if x <= 0:
        return 0.0
    start = math.sqrt(x)
    mode = math.sqrt(max(m - 1, 0) + noncentrality)
    begin = max(start, mode - math.sqrt(2 * DEPTH))
    end = window_above(begin, mode)
    pieces = max(1, math.ceil((end - begin) / 5.0))
    rho, weight = panels(np.linspace(begin, end, pieces + 1), 24)
    return min(0.0, log_sum(log_density(m, noncentrality, rho) + np.log(weight)))
