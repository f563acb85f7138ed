"""Speed of gdp, vector_sum and pca: name, what is timed, and the limit in milliseconds on one core."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.genotypes import genotypes
from trimask_theory.gaussian import gdp
from trimask_theory.mechanisms import pca, vector_sum

__all__ = ["cases"]


def cases() -> list[tuple[str, Callable[[], object], float]]:
    """The cases, with their data made beforehand."""
    source = np.random.default_rng(0)
    data = pca.rank_transform(genotypes(np.random.default_rng(1))[0])
    covariance = data.T @ data / len(data)
    spectrum = pca.from_covariance(covariance, len(data), 2)
    beta = pca.beta_for(spectrum, 1.0)
    deviations = np.arange(1, 101.0) ** -1.0
    return [
        ("gdp.delta", lambda: gdp.delta(1.0, 0.5), 0.2),
        ("gdp.epsilon at delta 1e-12", lambda: gdp.epsilon(1e-12, 0.5), 2.0),
        ("gdp.mu at delta 1e-12", lambda: gdp.mu(1.0, 1e-12), 2.0),
        ("vector_sum.clipping_radius, d = 100", lambda: vector_sum.clipping_radius(deviations, 1e-6), 100.0),
        ("pca.from_covariance, p = 200", lambda: pca.from_covariance(covariance, len(data), 2), 40.0),
        ("pca.beta_for, p = 200", lambda: pca.beta_for(spectrum, 1.0), 1.0),
        ("pca.approximate, p = 200, k = 2", lambda: pca.approximate(spectrum, beta, source), 2.0),
        ("pca.gibbs, p = 200, k = 2, 10 sweeps", lambda: pca.gibbs(spectrum, beta, source, sweeps=10), 800.0),
        ("pca.adaptive, p = 200, k = 2", lambda: pca.adaptive(spectrum, 1.0, 1.5, source), 4.0),
    ]
