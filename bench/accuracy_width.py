"""How the pooled release and diffprivlib's regression compare as attributes are added, with and without an intercept.

diffprivlib spreads epsilon evenly over every entry of the Gram matrix, p(p+1)/2 of them; a release's sigma^2 goes with the
squared row norm, p. Its sensitivities are those of a replaced record (the range of each product over the bounds), so
neighbours and bounds are the same as ours. By default it fits an intercept, for which it pays one share in p for means; the
release then carries a column of ones.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from bench.accuracy_methods import masked_grams
from bench.accuracy_scores import Array
from bench.accuracy_setting import DELTA
from trimask_theory.masking import masked_noise

__all__ = ["Width", "over_attributes"]

EPSILON = 1.0


@dataclass(frozen=True)
class Width:
    """Errors of the slopes at one number of attributes: root of the mean square, and median over the draws."""

    attributes: int
    intercept: bool
    method: str
    rms: float
    median: float
    prediction: float


def over_attributes(n: int, widths: tuple[int, ...], repetitions: int) -> list[Width]:
    """Both methods at every width, with and without an intercept; nothing without diffprivlib."""
    try:
        models = import_module("diffprivlib.models")
    except ImportError:
        return []
    found = []
    for attributes in widths:
        data = _people(n, attributes)
        for intercept in (False, True):
            found += _compare(data, repetitions, models, intercept=intercept)
    return found


def _people(n: int, attributes: int) -> Array:
    """As in the main table: equally correlated features, bounds three standard deviations out."""
    rng = np.random.default_rng([8, attributes])
    d = attributes - 1
    features = math.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, d)))
    beta = np.resize([0.5, -0.3, 0.2, 0.1], d)
    signal = features @ beta
    response = signal * 0.6 / signal.std() + 0.8 * rng.standard_normal(n)
    return np.asarray(np.clip(np.column_stack([features, response]) / 3, -1, 1))


def _compare(data: Array, repetitions: int, models: Any, *, intercept: bool) -> list[Width]:
    n, p = data.shape
    rows = np.column_stack([np.ones(n), data]) if intercept else data
    columns = rows.shape[1]
    gram = rows.T @ rows
    slopes = slice(int(intercept), None)
    truth = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])[slopes]
    centred = data[:, :-1] - (data[:, :-1].mean(axis=0) if intercept else 0.0)
    spread = centred.T @ centred / n
    rng = np.random.default_rng([9, p, intercept])
    sigma = masked_noise.calibrate(EPSILON, DELTA, n, columns, "record", math.sqrt(columns)).sigma
    grams = masked_grams(gram, n, sigma, 20 * repetitions, rng)
    solved = np.linalg.solve(grams[:, :-1, :-1], grams[:, :-1, -1:])[..., 0]
    ours = solved[:, slopes].astype(np.float64)
    theirs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(repetitions):
            model = models.LinearRegression(
                epsilon=EPSILON,
                bounds_X=(-1, 1),
                bounds_y=(-1, 1),
                fit_intercept=intercept,
                random_state=seed,
            )
            theirs.append(model.fit(data[:, :-1].copy(), data[:, -1].copy()).coef_)

    def scored(method: str, fits: Array) -> Width:
        off = fits - truth
        squares = np.mean(off**2, axis=1)
        predicted = np.einsum("ri,ij,rj->r", off, spread, off)
        return Width(
            p, intercept, method, math.sqrt(float(squares.mean())), math.sqrt(float(np.median(squares))),
            math.sqrt(float(np.median(predicted))),
        )  # fmt: skip

    return [scored("pooled release", ours), scored("diffprivlib", np.array(theirs))]
