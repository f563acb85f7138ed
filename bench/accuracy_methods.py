"""This project's mechanisms at one epsilon, drawn by their laws.

A masked release Y = A(X + C) is drawn by its law: the fit sees Y only through Y'Y = (X + C)'(X + C), which for X'X = L L'
is (L' + E)'(L' + E) + sigma^2 W with E of p x p normals and W an independent Wishart matrix of n - p degrees of freedom.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.stats import wishart

from bench.accuracy_scores import Array, Judge, Row
from bench.accuracy_setting import ATTRIBUTES, DELTA, ROW_NORM
from trimask.release import local
from trimask_theory.gaussian import local_noise
from trimask_theory.mechanisms import least_squares, record

__all__ = ["exponential", "least_squares_rows", "masked_grams"]


def masked_grams(gram: Array, n: int, sigma: float, repetitions: int, rng: np.random.Generator) -> Array:
    """Corrected Gram matrices (X + C)'(X + C) - n sigma^2 I, drawn by their exact law."""
    p = len(gram)
    top = np.linalg.cholesky(gram).T + sigma * rng.standard_normal((repetitions, p, p))
    rest = wishart.rvs(n - p, np.eye(p), size=repetitions, random_state=rng)
    return np.asarray(top.swapaxes(1, 2) @ top + sigma**2 * (rest - n * np.eye(p)))


def least_squares_rows(
    judge: Judge, repetitions: int, dims: tuple[int, ...], rng: np.random.Generator
) -> list[Row]:
    """M_LS at the package's own r, and at the best r of a few, chosen in hindsight: a flattered M_LS."""
    found = []
    for dim in dims:
        step = record.one_step(judge.epsilon, DELTA)
        sigma = least_squares.calibrate(*step, dim, ATTRIBUTES - 1, ROW_NORM, "sharp").sigma
        fits = np.array([least_squares.release(judge.gram, dim, sigma, rng) for _ in range(repetitions)])
        score = judge.ols(fits)
        found.append(
            Row(f"M_LS, r = {dim}", judge.epsilon, sigma, repetitions, 0, None, score, None, f"r = {dim}")
        )
    best = min(found, key=lambda row: math.inf if row.ols is None else row.ols.error)
    default = found[0]
    if best is default:
        return [default]
    return [default, replace(best, method="M_LS, best r in hindsight")]


def exponential(judge: Judge, data: Array, repetitions: int, rng: np.random.Generator) -> Row:
    """The adaptive exponential mechanism at the mu whose curve passes through (epsilon, delta)."""
    mu = 1 / local_noise.calibrate(judge.epsilon, DELTA).sigma
    found = []
    for _ in range(repetitions):
        frame = local.pca(data, 1, mu=mu, row_norm=ROW_NORM, source=rng).components
        # A test that says no gives no direction: as far off as one drawn blindly.
        blind = rng.standard_normal(ATTRIBUTES)
        found.append(blind / np.linalg.norm(blind) if frame is None else frame.to_numpy()[:, 0])
    score = judge.pca(np.array(found))
    return Row(
        "adaptive exponential PCA", judge.epsilon, None, repetitions, None, None, None, score,
        f"mu = {mu:.3g}, asymptotic guarantee",
    )  # fmt: skip
