"""Every mechanism of `release.local`, attacked: the best test of two neighbouring data sets must not beat the price.

The attacker knows both data sets and the law of the answer, and says "the first" when the log likelihood ratio L of what
was drawn exceeds epsilon: no event has a larger P[E] - e^epsilon P'[E], which the price bounds by delta. The answers are
drawn with cryptographic noise, the counts bounded by Clopper-Pearson at a confidence of 1 - 1e-6: had the seeds been free,
that would be each assertion's false-failure probability. Three things are asserted of each: the price is not exceeded; for
the Gaussian ones what is found is near it; and the same attack on answers that were paid for many times as dearly does
exceed it, so that it could have failed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trimask.release import local
from trimask_audit import Audit
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.rows.arrays import SecureNormals
from trimask_theory.gaussian import local_noise
from trimask_theory.mechanisms import least_squares, projection, vector_sum

Matrix = NDArray[np.float64]
Price = tuple[float, float]
Ratio = Callable[[Any, Matrix, Matrix, Matrix], Matrix]
EPSILON, DELTA, CONFIDENCE = 0.5, 0.4, 1 - 1e-6
RELEASES, MANY = 600, 10_000
DEAR = (0.1, 0.9999)  # dear by its delta: a large epsilon is halved into two steps with a tiny one
SKETCH = {"M_LS": 3, "M_ALS": 40}


@pytest.fixture(autouse=True)
def _calibrated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise for the same price: what takes long is finding it."""
    for mechanism in (least_squares, projection, local_noise):
        monkeypatch.setattr(mechanism, "calibrate", cache(mechanism.calibrate))
    radius = cache(vector_sum.clipping_radius)
    monkeypatch.setattr(vector_sum, "clipping_radius", lambda sd, p, b: radius(tuple(sd), p, tuple(b)))


def normal_ratio(value: Matrix, one: tuple[Matrix, Matrix], two: tuple[Matrix, Matrix]) -> Matrix:
    """log N(one) - log N(two) at each row of values; a law is its mean and covariance."""
    logs = []
    for mean, covariance in (one, two):
        away = np.linalg.solve(np.linalg.cholesky(covariance), (value - mean).T)
        logs.append(-0.5 * (away**2).sum(axis=0) - 0.5 * np.linalg.slogdet(covariance)[1])
    return np.asarray(logs[0] - logs[1])


def sum_ratio(answer: Any, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    noise = np.diag(answer.noise.to_numpy() ** 2)
    return normal_ratio(value, (x.sum(axis=0), noise), (y.sum(axis=0), noise))


def gram_ratio(answer: Any, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    upper = np.triu_indices(2)
    sigma = answer.moments.sigma
    noise = np.diag(np.where(upper[0] == upper[1], sigma**2, sigma**2 / 2))
    means = [(data.T @ data)[upper] for data in (x, y)]
    return normal_ratio(value[:, upper[0], upper[1]], (means[0], noise), (means[1], noise))


def projection_ratio(answer: Any, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    laws = [(np.zeros(2), data.T @ data + answer.sigma**2 * np.eye(2)) for data in (x, y)]
    return normal_ratio(value[:, :, 0], laws[0], laws[1])


def fit_ratio(answer: Any, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    laws = []
    for data in (x, y):
        gram = data.T @ data + answer.sigma**2 * np.eye(2)
        solution = gram[:1, 1] / gram[0, 0]
        residual = gram[1, 1] - gram[0, 1] * solution[0]
        laws.append((solution, residual / SKETCH[answer.method] / gram[:1, :1]))
    return normal_ratio(value, laws[0], laws[1])


def component_ratio(answer: Any, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    """Up to a constant, which for these mirrored data sets is 0: the two laws are reflections of each other."""
    frames = value[:, :, 0]
    forms = [np.einsum("ni,ij,nj->n", frames, data.T @ data, frames) for data in (x, y)]
    # (p beta/2) tr V' Sigma V of the paper, with Sigma = G p/(R^2 n), is (beta p^2/n) v'Gv/(2 R^2).
    return np.asarray(answer.beta * 4 / len(x) * (forms[0] - forms[1]) / (2 * 2.0))


@dataclass(frozen=True)
class Case:
    """How it is asked, where its numbers are, the record replaced, and what the attacker computes."""

    ask: Callable[..., Any]
    value: Callable[[Any], Any]
    ratio: Ratio
    tight: bool = False
    delta: float = 0.05
    dear: Price = DEAR
    row: tuple[float, float] = (1.0, 1.0)
    other: tuple[float, float] = (1.0, -1.0)


def pair(price: Price) -> dict[str, float]:
    return {"epsilon": price[0], "delta": price[1]}


def total(method: str) -> Callable[..., Any]:
    return lambda x, price, source: local.sum(
        x, [-1, -3], [1, 3], method=method, source=source, **pair(price)
    )


def fit(method: str) -> Callable[..., Any]:
    return lambda x, price, source: local.ols(
        x,
        "x1",
        ["x0"],
        row_norm=2**0.5,
        method=method,
        reduced_dim=SKETCH[method],
        source=source,
        **pair(price),
    )


# The ball's pole along the second column: b_2 x_2 = C, b_2 = 1/sqrt(0.4 (0.1 + 0.4)).
BALL = {"centre": [0.0, 0.0], "deviations": [0.1, 0.4]}
POLE = vector_sum.clipping_radius([0.1, 0.4], 1 / 3) * (0.4 * 0.5) ** 0.5
CASES = {
    "gaussian sum": Case(
        total("gaussian"), lambda a: a.total, sum_ratio, True, DELTA, row=(1.0, 3.0), other=(-1.0, -3.0)
    ),
    "elliptical sum": Case(
        total("elliptical"), lambda a: a.total, sum_ratio, True, DELTA, row=(1.0, 3.0), other=(-1.0, -3.0)
    ),
    "clipped sum": Case(
        lambda x, price, source: local.clipped_sum(x, source=source, **BALL, **pair(price)),
        lambda a: a.total, sum_ratio, True, DELTA, row=(0.0, POLE), other=(0.0, -POLE),
    ),
    "noisy Gram": Case(
        lambda x, price, source: local.gram(
            x, row_norm=2**0.5, intercept=False, source=source, **pair(price)
        ),
        lambda a: a.moments.gram * 2, gram_ratio, True, DELTA,
    ),
    "projection": Case(
        lambda x, price, source: local.projection(x, row_norm=2**0.5, source=source, **pair(price)),
        lambda a: a.values, projection_ratio,
    ),
    "M_LS": Case(fit("M_LS"), lambda a: a.params, fit_ratio),
    "M_ALS": Case(fit("M_ALS"), lambda a: a.params, fit_ratio),
    "exponential": Case(
        lambda x, price, source: local.pca(
            x, 1, epsilon=price[0], row_norm=2**0.5, method="exponential", source=source
        ),
        lambda a: a.components, component_ratio, delta=0.0, dear=(30.0, 0.0),
    ),
}  # fmt: skip


def attack(case: Case, price: Price, claim: Price, releases: int, seed: str) -> Audit:
    """Answers paid at `price`, judged by `claim`."""
    x, y = (np.array([row, (0.0, 0.0), (0.0, 0.0)]) for row in (case.row, case.other))
    hits = []
    for data in (x, y):
        normals = SecureNormals(DeterministicRandom(f"{seed} {len(hits)}"))
        with warnings.catch_warnings(action="ignore"):  # of the papers' errors
            answers = [case.ask(data, price, normals) for _ in range(releases)]
        values = np.array([np.asarray(case.value(answer)) for answer in answers])
        loss = case.ratio(answers[0], values, x, y)
        # At delta = 0 any event will do; a ratio near epsilon is never seen there, a smaller one often.
        hits.append(int(np.count_nonzero(loss > (EPSILON if case.delta else EPSILON / 4))))
    return Audit(claim[0], releases, hits[0], hits[1], CONFIDENCE)


@pytest.mark.parametrize("name", CASES)
def test_the_price_is_not_exceeded(name: str) -> None:
    check(name, RELEASES, near=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_price_is_not_exceeded_by_many_more_answers(name: str) -> None:
    check(name, MANY, near=0.75)


def check(name: str, releases: int, near: float) -> None:
    case = CASES[name]
    claim = (EPSILON, case.delta)
    found = attack(case, claim, claim, releases, name)
    assert found.lower <= case.delta
    if case.tight:
        assert found.lower > near * case.delta
        assert found.upper >= case.delta
    seen = attack(case, case.dear, claim, 300, f"{name}, dear")
    assert seen.lower > case.delta
