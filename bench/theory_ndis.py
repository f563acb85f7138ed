"""Benchmark cases of the normal-pair theory; `cases()` gives (name, callable, limit in milliseconds)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trimask_theory.gaussian import gaussian_pair, weighted_chi2
from trimask_theory.mechanisms import least_squares, projection

__all__ = ["cases"]


def _covariance(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    sample = rng.normal(size=(size, 3 * size))
    return np.asarray(sample @ sample.T / (3 * size))


def cases() -> list[tuple[str, Callable[[], object], float]]:
    """The limits are the project's targets on one core; those without a stated target have about ten times room."""
    rng = np.random.default_rng(1)
    weights, noncentralities = rng.normal(size=100), rng.exponential(size=100)
    far = weighted_chi2.isf(1e-14, weights, 1, noncentralities, 1.0)
    near = weighted_chi2.isf(0.3, weights, 1, noncentralities, 1.0)
    many = rng.normal(size=1000)
    mean, cov1, cov2 = 0.3 * rng.normal(size=20), _covariance(rng, 20), _covariance(rng, 20)
    zero, epsilons = np.zeros(20), np.linspace(0, 20, 100)
    return [
        (
            "weighted_chi2.sf, 100 terms, 1e-14",
            lambda: weighted_chi2.sf(far, weights, 1, noncentralities, 1.0),
            10,
        ),
        (
            "weighted_chi2.sf, 100 terms, 0.3",
            lambda: weighted_chi2.sf(near, weights, 1, noncentralities, 1.0),
            10,
        ),
        ("weighted_chi2.cdf, 1,000 terms", lambda: weighted_chi2.cdf(0.0, many), 100),
        ("gaussian_pair.delta, 20 dimensions", lambda: gaussian_pair.delta(mean, cov1, zero, cov2, 1.0), 10),
        (
            "gaussian_pair.spectrum, 100 epsilons, 20 dimensions",
            lambda: gaussian_pair.spectrum(mean, cov1, zero, cov2, epsilons),
            1000,
        ),
        ("projection.calibrate", lambda: projection.calibrate(1.0, 1e-6, 300), 200),
        ("least_squares.calibrate, theorem", lambda: least_squares.calibrate(1.0, 1e-6, 300, 10), 1000),
        (
            "least_squares.calibrate, sharp",
            lambda: least_squares.calibrate(1.0, 1e-6, 300, 10, method="sharp"),
            1000,
        ),
    ]
