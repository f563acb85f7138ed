"""Calibrating the collection: the noise columns of the right mask.

Statements (X1 the n x p1 answers, X2 the n x p2 noise columns, i.i.d. N(0, tau^2)).
1. Condition (3.5) of the triple matrix-masking paper: p1 < n <= p1 + p2 and
lambda_min(X2 X2^T) > lambda_max(X1 X1^T), with Haar masks. Then X B excludes nothing in the orbit of X1. That all of it is
as likely as before (Theorem 3.8) is false; docs/theory/collection.md#claim has what holds instead.
2. Davidson-Szarek: P[sigma_min(X2) < tau (sqrt(p2) - sqrt(n) - t)] <= exp(-t^2/2), for every n. Proved.
3. Appendix C: P[lambda_min(X2 X2^T) <= (sqrt(p2/n) - 1)^2 n tau^2 (1 - a)] <= C0 exp(-n a^(3/2)/C0), n
large, for a constant C0 nobody knows: it is an argument here. Asymptotic.
4. sqrt(lambda_max(X1 X1^T)) <= R sqrt(n) for rows of norm at most R (R = x_max sqrt(p1) in the paper), and
at most R sqrt(n) + sigma (sqrt(n) + sqrt(p1) + t) with probability 1 - exp(-t^2/2) once N(0, sigma^2)
noise is added.
Derivation: docs/theory/collection.md#condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.rows.noise_columns import least_tau, refuse_too_few_columns, tail
from trimask_theory import checks


def _check_shape(rows: int, attributes: int, noise_columns: int) -> tuple[int, int, int]:
    attributes = checks.whole("attributes", attributes, 1)
    rows = checks.whole("rows", rows, attributes + 1)
    noise_columns = checks.whole("noise_columns", noise_columns, 0)
    refuse_too_few_columns(rows, attributes, noise_columns)
    return rows, attributes, noise_columns


def root_lambda_max_bound(
    rows: int, attributes: int, row_norm: float, sigma: float = 0.0, failure: float = 1e-9
) -> float:
    """A bound on sqrt(lambda_max(X1 X1^T)): certain for sigma = 0, else but for probability `failure`."""
    rows = checks.whole("rows", rows, 1)
    attributes = checks.whole("attributes", attributes, 1)
    row_norm = checks.positive("row_norm", row_norm)
    sigma = checks.non_negative("sigma", sigma)
    failure = checks.probability("failure", failure)
    bound = row_norm * math.sqrt(rows)
    if sigma > 0:
        bound += sigma * (math.sqrt(rows) + math.sqrt(attributes) + tail(failure))
    return bound


def tau_davidson_szarek(
    rows: int,
    attributes: int,
    noise_columns: int,
    row_norm: float,
    failure: float = 1e-9,
    sigma: float = 0.0,
) -> float:
    """A tau for which condition (3.5) fails with probability at most `failure`; rounded up.

    With noise `sigma` on the answers two events can go wrong, so each gets half of `failure`.
    Raises ImpossibleStudy where no tau is large enough.
    """
    rows, attributes, noise_columns = _check_shape(rows, attributes, noise_columns)
    return least_tau(
        rows,
        attributes,
        noise_columns,
        checks.positive("row_norm", row_norm),
        checks.non_negative("sigma", sigma),
        checks.probability("failure", failure),
    )


def tau_appendix_c(
    rows: int,
    attributes: int,
    noise_columns: int,
    row_norm: float,
    constant: float,
    failure: float = 1e-9,
    sigma: float = 0.0,
) -> float:
    """Appendix C's tau for an assumed value of its constant C0. Asymptotic: prefer Davidson-Szarek."""
    rows, attributes, noise_columns = _check_shape(rows, attributes, noise_columns)
    constant = checks.positive("constant", constant)
    failure = checks.probability("failure", failure)
    share = failure if checks.non_negative("sigma", sigma) == 0 else failure / 2
    gamma = noise_columns / rows
    if gamma <= 1:
        raise ImpossibleStudy(
            "too_few_noise_columns",
            f"Appendix C needs more noise columns than rows, got {noise_columns} for {rows} rows",
        )
    shrink = (constant * max(math.log(constant / share), 0.0) / rows) ** (2 / 3)
    if shrink >= 1:
        raise ImpossibleStudy(
            "too_few_rows",
            f"Appendix C's bound with constant {constant:.4g} needs more than {rows} rows for a failure "
            f"probability of {failure:.3g}",
        )
    bound = root_lambda_max_bound(rows, attributes, row_norm, sigma, share)
    return math.nextafter(
        bound / ((math.sqrt(gamma) - 1) * math.sqrt(rows * (1 - shrink))) * (1 + 1e-15), math.inf
    )


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition (3.5) on actual matrices: lambda_min(X2 X2^T) > lambda_max(X1 X1^T)."""

    lambda_max: float
    lambda_min: float

    @property
    def holds(self) -> bool:
        """True where the condition is met."""
        return self.lambda_min > self.lambda_max


def check_condition(answers: ArrayLike, noise: ArrayLike) -> Condition:
    """Both sides of (3.5) for X1 = `answers` (n x p1) and X2 = `noise` (n x p2)."""
    x1 = np.asarray(answers, dtype=np.float64)
    x2 = np.asarray(noise, dtype=np.float64)
    for name, matrix in (("answers", x1), ("noise", x2)):
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise ParameterError(name, "a finite matrix with one row a person")
    if x1.shape[0] != x2.shape[0]:
        raise ParameterError("noise", f"a matrix of {x1.shape[0]} rows, as `answers`", x2.shape)
    rows, _, columns = _check_shape(x1.shape[0], x1.shape[1], x2.shape[1])
    largest = float(np.linalg.norm(x1, 2)) ** 2
    if columns < rows:  # X2 X2^T is then singular
        return Condition(largest, 0.0)
    return Condition(largest, float(np.linalg.svd(x2, compute_uv=False)[-1]) ** 2)
