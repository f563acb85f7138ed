"""The errors of a method beside the answer without privacy, and beside the central noisy Gram's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CENTRAL",
    "DIFFPRIVLIB",
    "LOCAL",
    "OPENDP",
    "POOLED",
    "Array",
    "Judge",
    "Row",
    "Score",
    "against",
    "targets_at_one",
]

Array = NDArray[np.float64]
CENTRAL, POOLED, LOCAL = "central noisy Gram", "pooled release, sharp sigma", "local noise, no mask"
DIFFPRIVLIB, OPENDP = "diffprivlib", "OpenDP"


@dataclass(frozen=True)
class Score:
    """One kind of error: its average, the average's standard error, and its ratio to the central noisy Gram's."""

    error: float
    standard_error: float
    median: float | None = None
    ratio: float | None = None
    ratio_of: str = "averages"


@dataclass(frozen=True)
class Row:
    """One method at one epsilon. `ols` and `median` are None where no, or not half of the, fits came out."""

    method: str
    epsilon: float
    sigma: float | None
    repetitions: int
    failures: int | None
    moments: Score | None
    ols: Score | None
    pca: Score | None
    note: str = ""


class Judge:
    """Holds the answers without privacy, and scores others by them.

    `constant`: the first column is x_0 = 1, its coefficient is not scored, and there is no leading direction to find.
    """

    def __init__(self, gram: Array, epsilon: float, *, constant: bool = False) -> None:
        self.gram, self.epsilon, self.constant = gram, epsilon, constant
        self.coefficients = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
        self.leading = np.linalg.eigh(gram)[1][:, -1]

    def grams(self, method: str, sigma: float, grams: Array, note: str = "") -> Row:
        """A method that gives the whole Gram matrix; a fit on one that is not positive definite is a failure."""
        values, vectors = np.linalg.eigh(grams)
        good = values[:, 0] > 0
        fits = np.full((len(grams), len(self.coefficients)), np.nan)
        fits[good] = np.linalg.solve(grams[good, :-1, :-1], grams[good, :-1, -1:])[..., 0]
        off = np.mean((grams - self.gram) ** 2, axis=(1, 2)) / np.mean(self.gram**2)
        return Row(
            method, self.epsilon, sigma, len(grams), int(np.sum(~good)), _root_mean(off),
            self.ols(fits), None if self.constant else self.pca(vectors[:, :, -1]), note,
        )  # fmt: skip

    def ols(self, fits: Array) -> Score | None:
        """Root-mean-square error of the coefficients over the fits that came out (rows of nan did not)."""
        squares = np.mean((fits - self.coefficients)[:, int(self.constant) :] ** 2, axis=1)
        squares = np.where(np.isfinite(squares), squares, np.inf)
        good = squares[np.isfinite(squares)]
        if len(good) < 2:
            return None
        middle = math.sqrt(float(np.median(squares)))  # a failure is infinitely far
        score = _root_mean(good)
        return Score(score.error, score.standard_error, middle if math.isfinite(middle) else None)

    def pca(self, directions: Array) -> Score:
        """The mean of sin^2 of the angle to the leading direction."""
        sines = 1 - np.clip((directions @ self.leading) ** 2, 0, 1)
        return Score(float(sines.mean()), _error_of_mean(sines))


def _error_of_mean(values: Array) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _root_mean(squares: Array) -> Score:
    """The root of a mean; its standard error by the delta method."""
    root = math.sqrt(float(squares.mean()))
    return Score(root, _error_of_mean(squares) / (2 * root))


def against(row: Row, central: Row) -> Row:
    """The row with ratios. With failures the coefficients' ratio is of medians, in which a failure counts."""

    def scored(score: Score | None, base: Score | None, failures: int) -> Score | None:
        if score is None or base is None:
            return score
        if not failures:
            return replace(score, ratio=score.error / base.error)
        ratio = score.median / base.median if score.median and base.median else None
        return replace(score, ratio=ratio, ratio_of="medians")

    failed = (row.failures or 0) + (central.failures or 0)
    return replace(
        row,
        moments=scored(row.moments, central.moments, 0),
        ols=scored(row.ols, central.ols, failed),
        pca=scored(row.pca, central.pca, 0),
    )


def targets_at_one(rows: list[Row]) -> list[dict[str, Any]]:
    """What was asked for at epsilon 1, and what was found; None where the fits it is about mostly fail."""
    at_one = {row.method: row for row in rows if row.epsilon == 1.0}
    pooled = at_one[POOLED]

    def over(method: str, what: Callable[[Row], Score | None]) -> float | None:
        top, bottom = (what(at_one[method]) if method in at_one else None), what(pooled)
        if top is None or bottom is None or top.ratio is None or bottom.ratio is None:
            return None
        return top.ratio / bottom.ratio

    wanted: list[tuple[str, float | None, float, bool]] = [
        (
            "coefficients: pooled / central, at most",
            None if pooled.ols is None else pooled.ols.ratio,
            2.0,
            False,
        ),
        ("coefficients: local / pooled, at least", over(LOCAL, lambda row: row.ols), 100.0, True),
        ("moments: local / pooled, at least", over(LOCAL, lambda row: row.moments), 100.0, True),
        ("coefficients: diffprivlib / pooled, at least", over(DIFFPRIVLIB, lambda row: row.ols), 5.0, True),
    ]
    return [
        {
            "what": what, "found": found, "target": target,
            "met": None if found is None else (found >= target if least else found <= target),
        }
        for what, found, target, least in wanted
    ]  # fmt: skip
