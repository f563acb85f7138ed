"""What X B_0 shows of one person to whoever has not B_0 and knows everybody else's rows: its law, and a mu for it.

Statement. B_0 is Haar, so S = X X^T is sufficient. X_- and Z are the others' answers and noise columns, G = Z Z^T. S gives
v = x X_-^T + z Z^T and q = |x|^2 + |z|^2. To tell x (h = 1) from x' (h = 0) is to see, with w = (x - x') X_-^T,
mu_1^2 = w G^-1 w^T / tau^2 and k = p2 - n + 1,

    s = mu_1 h + N(0, 1)   and then   r = chi-square(k) + h ((|x|^2 - |x'|^2)/tau^2 + mu_1^2 - 2 mu_1 s),

where tau^4 mu_1^2 is |w|^2 over a chi-square of k + 1 degrees that does not depend on h. Proved: this law, and that it is
mu-Gaussian but for a stated probability (`trimask_core.rows.noise_columns.row_mu`). docs/theory/collection.md#claim.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimask_core.rows.noise_columns import row_mu
from trimask_theory import checks

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Statistics:
    """(mu_1, s, r) of every draw."""

    mu: Matrix
    s: Matrix
    r: Matrix


def statistics(
    answers: Matrix, noise: Matrix, row: Matrix, first: Matrix, second: Matrix, tau: float
) -> Statistics:
    """Of `row`, which is `first` or `second`: the others' `answers` are (draws, n - 1, p1), all `noise` (draws, n, p2)."""
    z, others = noise[:, 0], noise[:, 1:]
    gram = others @ others.transpose(0, 2, 1)
    w = answers @ (first - second)
    v = answers @ (row - second) + np.einsum("dj,dij->di", z, others)
    solved = np.linalg.solve(gram, np.stack((w, v), axis=2)) / tau**2
    mu = np.sqrt(np.einsum("di,di->d", w, solved[:, :, 0]))
    s = np.einsum("di,di->d", v, solved[:, :, 0]) / mu
    length = (row @ row - second @ second + np.einsum("dj,dj->d", z, z)) / tau**2
    return Statistics(mu, s, length - np.einsum("di,di->d", v, solved[:, :, 1]))


def attack(
    rows: int,
    noise_columns: int,
    tau: float,
    *,
    distance: float,
    others: float,
    gap: float,
    draws: int,
    rng: np.random.Generator,
) -> float:
    """How often the likelihood ratio tells x from x' at even odds, over `draws` of each.

    `distance` is |x - x'|, `others` the length of X_-^T along it, `gap` is |x|^2 - |x'|^2.
    """
    k = noise_columns - rows + 1
    right = 0
    for h in (0, 1):
        mu = distance * others / (tau * tau * np.sqrt(rng.chisquare(k + 1, draws)))
        s = mu * h + rng.standard_normal(draws)
        moved = gap / tau**2 + mu * mu - 2 * mu * s
        r = rng.chisquare(k, draws) + h * moved
        with np.errstate(invalid="ignore", divide="ignore"):
            likelier = (0.5 * k - 1) * (np.log(r - moved) - np.log(r)) + 0.5 * moved
        # Where one of the two laws has nothing the other is certain.
        likelier = np.where(r <= moved, -np.inf, np.where(r <= 0, np.inf, likelier))
        loss = mu * s - 0.5 * mu * mu + likelier
        right += int(((loss > 0) == bool(h)).sum())
    return right / (2 * draws)


def proved_mu(
    *,
    distance: float,
    others: float,
    gap: float,
    rows: int,
    noise_columns: int,
    tau: float,
    failure: float,
) -> float:
    """mu for one pair of rows: `distance`, `others` and `gap` as in `attack`; but for probability `failure`."""
    checks.whole("rows", rows, 1)
    products = checks.non_negative("distance", distance) * checks.non_negative("others", others)
    tau, failure = checks.positive("tau", tau), checks.probability("failure", failure)
    if not math.isfinite(gap):
        return math.inf
    return row_mu(products, abs(gap), noise_columns - rows + 1, tau, failure / 3)
