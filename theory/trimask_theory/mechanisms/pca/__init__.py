"""Private principal components by the exponential mechanism (Yun and Dudeja 2025).

Statement. A frame V drawn with density proportional to exp((p beta/2) tr V^T Sigma V) keeps the share 1 -
H(l_i)/beta of component i and is sigma_beta-Gaussian DP, with formulas in the spectrum of Sigma alone.
`limits` reads the covariance's spectrum and holds the two theorems and the calibration, `sampling` draws from
the law, `mechanism` puts them together into releases.

Assumptions. Rows of norm at most sqrt(p), a gap between components k and k + 1, n of the order p^{3/2};
neighbours add or remove one row. Asymptotic in p, except `pure_epsilon` and `finite_delta`, which are proved.
"""

from __future__ import annotations

from trimask_theory.mechanisms.pca.limits import (
    Plateau,
    Spectrum,
    beta_for,
    finite_delta,
    frobenius_error,
    from_covariance,
    from_rows,
    hilbert,
    overlap,
    perturbation_variance,
    plateau,
    pure_epsilon,
    renyi,
    sigma_beta,
    spectral_error,
    worst_neighbour,
)
from trimask_theory.mechanisms.pca.mechanism import (
    AdaptiveRelease,
    Estimates,
    Release,
    adaptive,
    estimates,
    exponential,
    pass_probability,
    privatise,
    rank_transform,
    rank_transformed,
    sensitivities,
)
from trimask_theory.mechanisms.pca.sampling import (
    approximate,
    bingham,
    gibbs,
    haar,
    log_weight,
    total_variation,
)

__all__ = [
    "AdaptiveRelease",
    "Estimates",
    "Plateau",
    "Release",
    "Spectrum",
    "adaptive",
    "approximate",
    "beta_for",
    "bingham",
    "estimates",
    "exponential",
    "finite_delta",
    "frobenius_error",
    "from_covariance",
    "from_rows",
    "gibbs",
    "haar",
    "hilbert",
    "log_weight",
    "overlap",
    "pass_probability",
    "perturbation_variance",
    "plateau",
    "privatise",
    "pure_epsilon",
    "rank_transform",
    "rank_transformed",
    "renyi",
    "sensitivities",
    "sigma_beta",
    "spectral_error",
    "total_variation",
    "worst_neighbour",
]
