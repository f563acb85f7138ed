"""Other libraries' regression and PCA on the same people; each is left out where it is not installed."""

from __future__ import annotations

import warnings
from importlib import import_module

import numpy as np

from bench.accuracy_scores import DIFFPRIVLIB, OPENDP, Array, Judge, Row
from bench.accuracy_setting import ATTRIBUTES, ROW_NORM

__all__ = ["diffprivlib", "opendp_pca"]

_RUNAWAY = 100.0
"""A coefficient this large (the true ones are at most 0.5) is a minimiser that ran off an indefinite objective."""


def diffprivlib(judge: Judge, data: Array, repetitions: int, *, intercept: bool = False) -> Row | None:
    """Its functional-mechanism regression and its PCA, each at the whole epsilon; None where it is not installed.

    With an intercept there is no PCA, and the regression pays for means.
    """
    try:
        models = import_module("diffprivlib.models")
    except ImportError:
        return None
    fits, directions = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(repetitions):
            fit = models.LinearRegression(
                epsilon=judge.epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=intercept,
                random_state=seed,
            ).fit(data[:, :-1].copy(), data[:, -1].copy())  # fmt: skip
            good = np.all(np.abs(fit.coef_) < _RUNAWAY)
            slopes = fit.coef_ if good else np.full(ATTRIBUTES - 1, np.nan)
            fits.append(np.r_[fit.intercept_, slopes] if intercept else slopes)
            if intercept:
                continue
            components = models.PCA(
                n_components=1, epsilon=judge.epsilon, data_norm=ROW_NORM, centered=True, random_state=seed
            ).fit(data.copy())
            directions.append(components.components_[0])
    coefficients = np.array(fits)
    failures = int(np.isnan(coefficients[:, -1]).sum())
    ols, pca = judge.ols(coefficients), None if intercept else judge.pca(np.array(directions))
    return Row(DIFFPRIVLIB, judge.epsilon, None, repetitions, failures, None, ols, pca, "delta = 0")


def opendp_pca(judge: Judge, data: Array, repetitions: int) -> Row | None:
    """Its PCA, which pays for a mean and for eigenvalues too; its regression takes one feature only.

    Its noise takes no seed, so this row alone differs from run to run. None without it or without `randomgen`.
    """
    try:
        opendp = import_module("opendp.prelude")
        import_module("randomgen")
        decomposition = import_module("opendp.extras.sklearn.decomposition")
    except ImportError:
        return None
    opendp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    directions = []
    for _ in range(repetitions):
        # n_changes counts rows added or removed: a replaced record is two.
        model = decomposition.PCA(
            epsilon=judge.epsilon, row_norm=ROW_NORM, n_samples=len(data), n_features=ATTRIBUTES,
            n_components=1, n_changes=2,
        )  # fmt: skip
        directions.append(model.fit(data.copy()).components_[0])
    score = judge.pca(np.array(directions))
    return Row(OPENDP, judge.epsilon, None, repetitions, None, None, None, score, "delta = 0, no seed")
