"""Every mechanism as it is served, attacked: the best test of two neighbouring data sets must not beat the price.

The attacker knows both data sets and the law of the answer, and says "the first" when the log likelihood ratio L of what
was drawn exceeds epsilon: no event has a larger P[E] - e^epsilon P'[E], which the price bounds by delta. The answers are
drawn as the service draws them (`plan_release`, cryptographic noise), the counts bounded by Clopper-Pearson at a
confidence of 1 - 1e-6: had the seeds been free, that would be each assertion's false-failure probability. Three things
are asserted of each: the price is not exceeded; for the Gaussian ones what is found is near it; and the same attack on
answers that were paid for many times as dearly does exceed it, so that it could have failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trimask_core.clipping import Clipping
from trimask_core.randomness import DeterministicRandom
from trimask_core.rows.normal import SecureNormals
from trimask_core.schema import Attribute, Schema
from trimask_core.study import Budget, Protection, Study
from trimask_proto.v1 import release_pb2 as pb
from trimask_server.collector.releases.mechanisms import plan_release
from trimask_server.collector.releases.plan import Plan
from trimask_server.protocol.accounting import Price
from trimask_theory.empirical_audit import Audit

Matrix = NDArray[np.float64]
Ratio = Callable[[Plan, Matrix, Matrix, Matrix], Matrix]
SCHEMA = Schema((Attribute("a", "continuous", -1, 1), Attribute("b", "continuous", -3, 3)))
EPSILON, DELTA, CONFIDENCE = 0.5, 0.4, 1 - 1e-6
RELEASES, MANY = 600, 10_000
DEAR = Price(0.1, 0.9999)  # dear by its delta: a large epsilon is halved into two steps with a tiny one


@pytest.fixture(scope="module")
def study(make_study: Any) -> Study:
    protection = Protection(SCHEMA.row_norm, 0.0, "exact", budget=Budget(99.0, 0.9))
    ball = Clipping(("a", "b"), (0.0, 0.0), (0.1, 0.4), 1.5)
    found: Study = make_study(schema=SCHEMA, sigma=0.0, protection=protection, clipping=ball).study
    return found


def normal_ratio(value: Matrix, one: tuple[Matrix, Matrix], two: tuple[Matrix, Matrix]) -> Matrix:
    """log N(one) - log N(two) at each row of values; a law is its mean and covariance."""
    logs = []
    for mean, covariance in (one, two):
        away = np.linalg.solve(np.linalg.cholesky(covariance), (value - mean).T)
        logs.append(-0.5 * (away**2).sum(axis=0) - 0.5 * np.linalg.slogdet(covariance)[1])
    return np.asarray(logs[0] - logs[1])


def sum_ratio(plan: Plan, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    half = np.array([1.0, 3.0])
    noise = np.diag(np.array(plan.parameters["noise"]) ** 2)
    return normal_ratio(value, (half * x[:, 1:].sum(axis=0), noise), (half * y[:, 1:].sum(axis=0), noise))


def gram_ratio(plan: Plan, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    upper = np.triu_indices(2)
    sigma = plan.parameters["sigma"]
    noise = np.diag(np.where(upper[0] == upper[1], sigma**2, sigma**2 / 2))
    means = [(data[:, 1:].T @ data[:, 1:])[upper] for data in (x, y)]
    return normal_ratio(value[:, upper[0], upper[1]], (means[0], noise), (means[1], noise))


def projection_ratio(plan: Plan, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    # With a floor under the spectrum and so few rows, the floor is 0 and the noise all of it.
    sigma = plan.parameters["largest_sigma"]
    laws = [(np.zeros(2), data[:, 1:].T @ data[:, 1:] + sigma**2 * np.eye(2)) for data in (x, y)]
    return normal_ratio(value[:, :, 0], laws[0], laws[1])


def fit_ratio(plan: Plan, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    sigma, laws = plan.parameters["largest_sigma"], []
    for data in (x, y):
        gram = data[:, 1:].T @ data[:, 1:] + sigma**2 * np.eye(2)
        solution = gram[:1, 1] / gram[0, 0]
        residual = gram[1, 1] - gram[0, 1] * solution[0]
        spread = residual / plan.parameters["reduced_dimension"] / gram[:1, :1]
        laws.append((solution, spread))
    return normal_ratio(value, laws[0], laws[1])


def component_ratio(plan: Plan, value: Matrix, x: Matrix, y: Matrix) -> Matrix:
    """Up to a constant, which for these mirrored data sets is 0: the two laws are reflections of each other."""
    frames = value[:, :, 0]
    forms = [np.einsum("ni,ij,nj->n", frames, data[:, 1:].T @ data[:, 1:], frames) for data in (x, y)]
    # (p beta/2) tr V' Sigma V of the paper, with Sigma = G p/(R^2 n), is (beta p^2/n) v'Gv/(2 R^2).
    return np.asarray(plan.parameters["beta"] * 4 / len(x) * (forms[0] - forms[1]) / (2 * 2.0))


@dataclass(frozen=True)
class Case:
    """A question, where its numbers are, the record replaced, and what the attacker computes."""

    asked: dict[str, Any]
    value: str
    ratio: Ratio
    tight: bool = False
    delta: float = 0.05
    dear: Price = DEAR
    row: tuple[float, float] = (1.0, 1.0)
    other: tuple[float, float] = (1.0, -1.0)


def fit(method: int, **more: Any) -> dict[str, Any]:
    return {"least_squares": pb.LeastSquaresMechanism(response="b", features=["a"], method=method, **more)}  # type: ignore[arg-type]


def total(method: int) -> dict[str, Any]:
    return {"sum": pb.SumMechanism(columns=["a", "b"], method=method)}  # type: ignore[arg-type]


def sketch(**more: Any) -> dict[str, Any]:
    return {"projection": pb.ProjectionMechanism(columns=["a", "b"], reduced_dimension=1, **more)}


EXPONENTIAL = pb.PrincipalComponentsMechanism(
    columns=["a", "b"], components=1, method=pb.PRINCIPAL_COMPONENTS_METHOD_EXPONENTIAL
)
# The ball's poles along b: b_j (x_j - 0) = +-1.5, in scaled units 1.5/(b_2 3).
POLE = 1.5 * math.sqrt(0.4 * 0.5) / 3
CASES = {
    "gaussian sum": Case(total(1), "sum", sum_ratio, True, DELTA, other=(-1.0, -1.0)),
    "elliptical sum": Case(total(2), "sum", sum_ratio, True, DELTA, other=(-1.0, -1.0)),
    "clipped sum": Case(total(3), "sum", sum_ratio, True, DELTA, row=(0.0, POLE), other=(0.0, -POLE)),
    "noisy Gram": Case(fit(3), "gram", gram_ratio, True, DELTA),
    "projection": Case(sketch(), "projection", projection_ratio),
    "projection above a floor": Case(sketch(floor_share=0.3), "projection", projection_ratio),
    "M_LS": Case(fit(1, reduced_dimension=3), "coefficients", fit_ratio),
    "M_ALS": Case(fit(2, reduced_dimension=40), "coefficients", fit_ratio),
    "exponential": Case(
        {"principal_components": EXPONENTIAL}, "components", component_ratio, delta=0.0, dear=Price(30.0, 0.0)
    ),
}


def attack(study: Study, case: Case, price: Price, claim: Price, releases: int, seed: str) -> Audit:
    """Answers paid at `price`, judged by `claim`."""
    x, y = (np.array([[1.0, *row], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]) for row in (case.row, case.other))
    plan = plan_release(study, len(x), pb.AskReleaseRequest(**case.asked), price)
    hits = []
    for data in (x, y):
        factor, normals = (
            np.linalg.qr(data, mode="r"),
            SecureNormals(DeterministicRandom(f"{seed} {len(hits)}")),
        )
        values = np.array([plan.draw(factor, normals).values[case.value] for _ in range(releases)])
        loss = case.ratio(plan, values, x, y)
        # At delta = 0 any event will do; a ratio near epsilon is never seen there, a smaller one often.
        hits.append(int(np.count_nonzero(loss > (EPSILON if case.delta else EPSILON / 4))))
    assert claim.epsilon is not None
    return Audit(claim.epsilon, releases, hits[0], hits[1], CONFIDENCE)


@pytest.mark.parametrize("name", CASES)
def test_the_price_is_not_exceeded(study: Study, name: str) -> None:
    check(study, name, RELEASES, near=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_price_is_not_exceeded_by_many_more_answers(study: Study, name: str) -> None:
    check(study, name, MANY, near=0.75)


def check(study: Study, name: str, releases: int, near: float) -> None:
    case = CASES[name]
    claim = Price(EPSILON, case.delta)
    found = attack(study, case, claim, claim, releases, name)
    assert found.lower <= case.delta
    if case.tight:
        assert found.lower > near * case.delta
        assert found.upper >= case.delta
    seen = attack(study, case, case.dear, claim, 300, f"{name}, dear")
    assert seen.lower > case.delta
