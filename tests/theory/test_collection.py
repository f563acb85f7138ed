"""Calibration of the collection: tau, the refusals, condition (3.5), and the share scale with its grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.rows.noise_columns import noise_columns_mu
from trimask_theory.masking import collection


def test_tau_at_four_noise_columns_a_row() -> None:
    # n = 256, p2 = 4 n, failure 1e-9: tau ~ 1.7 x_max sqrt(p1).
    p1 = 6
    tau = collection.tau_davidson_szarek(256, p1, 4 * 256, math.sqrt(p1))
    assert tau / math.sqrt(p1) == pytest.approx(16 / (32 - 16 - math.sqrt(2 * math.log(1e9))), rel=1e-12)
    assert round(tau / math.sqrt(p1), 1) == 1.7


@pytest.mark.parametrize("sigma", [0.0, 2.0])
def test_condition_holds_at_tau_and_fails_far_below_it(sigma: float) -> None:
    # failure = 1e-6 for each of 20 draws: a false failure in one seed of 50,000 at most.
    generator = np.random.default_rng(3)
    n, p1, p2 = 40, 4, 160
    tau = collection.tau_davidson_szarek(n, p1, p2, row_norm=2.0, failure=1e-6, sigma=sigma)
    for _ in range(20):
        # The extreme data set: every row the same, at the bound.
        answers = np.ones((n, p1)) + sigma * generator.standard_normal((n, p1))
        noise = tau * generator.standard_normal((n, p2))
        assert collection.check_condition(answers, noise).holds
        assert not collection.check_condition(answers, noise / 20).holds


def test_condition_reports_both_sides() -> None:
    generator = np.random.default_rng(4)
    x1, x2 = generator.normal(size=(12, 3)), generator.normal(size=(12, 30))
    condition = collection.check_condition(x1, x2)
    assert condition.lambda_max == pytest.approx(float(np.linalg.eigvalsh(x1 @ x1.T)[-1]))
    assert condition.lambda_min == pytest.approx(float(np.linalg.eigvalsh(x2 @ x2.T)[0]))
    # n <= p but fewer noise columns than rows: X2 X2^T is singular.
    assert collection.check_condition(x1, x2[:, :10]) == collection.Condition(condition.lambda_max, 0.0)


def test_lambda_max_bound_covers_noisy_data() -> None:
    # failure = 1e-3, 300 draws: the expected count is at most 0.3, and more than 6 has probability 1e-7.
    generator = np.random.default_rng(5)
    n, p1, sigma = 30, 5, 0.7
    bound = collection.root_lambda_max_bound(n, p1, math.sqrt(p1), sigma, failure=1e-3)
    data = np.sign(generator.normal(size=(n, p1)))
    over = sum(np.linalg.norm(data + sigma * generator.normal(size=(n, p1)), 2) > bound for _ in range(300))
    assert over <= 6
    assert collection.root_lambda_max_bound(n, p1, 2.0) == 2.0 * math.sqrt(n)


def test_noise_on_the_answers_needs_a_larger_tau() -> None:
    quiet = collection.tau_davidson_szarek(256, 6, 1024, 2.0)
    noisy = collection.tau_davidson_szarek(256, 6, 1024, 2.0, sigma=1.0)
    share = math.sqrt(2 * math.log(2e9))
    assert noisy == pytest.approx((2 * 16 + 16 + math.sqrt(6) + share) / (16 - share), rel=1e-12)
    assert noisy > quiet


def test_fewer_columns_than_rows_is_refused_with_the_attack() -> None:
    for tau in (
        lambda: collection.tau_davidson_szarek(100, 6, 93, 1.0),
        lambda: collection.tau_appendix_c(100, 6, 93, 1.0, constant=1.0),
        lambda: collection.check_condition(np.ones((100, 6)), np.ones((100, 93))),
    ):
        with pytest.raises(ImpossibleStudy, match="linear relations") as refusal:
            tau()
        assert refusal.value.reason == "too_few_columns"


def test_appendix_c_by_its_formula() -> None:
    n, p1, p2, constant, failure = 4000, 6, 16000, 2.0, 1e-9
    tau = collection.tau_appendix_c(n, p1, p2, math.sqrt(p1), constant, failure)
    a = 1 - (math.sqrt(p1) * math.sqrt(n) / tau / (math.sqrt(p2 / n) - 1)) ** 2 / n
    assert constant * math.exp(-n * a**1.5 / constant) == pytest.approx(failure, rel=1e-6)
    # Without an unknown constant the price is small.
    assert collection.tau_davidson_szarek(n, p1, p2, math.sqrt(p1), failure) < 1.2 * tau


def test_appendix_c_refuses_what_its_bound_cannot_reach() -> None:
    with pytest.raises(ImpossibleStudy) as refusal:
        collection.tau_appendix_c(50, 6, 200, 1.0, constant=5.0)
    assert refusal.value.reason == "too_few_rows"
    with pytest.raises(ImpossibleStudy) as refusal:
        collection.tau_appendix_c(50, 6, 50, 1.0, constant=0.1)
    assert refusal.value.reason == "too_few_noise_columns"


def test_parameters_out_of_range_are_named() -> None:
    with pytest.raises(ParameterError, match="rows"):
        collection.tau_davidson_szarek(6, 6, 24, 1.0)
    with pytest.raises(ParameterError, match="failure"):
        collection.tau_davidson_szarek(60, 6, 240, 1.0, failure=0.0)
    with pytest.raises(ParameterError, match="row_norm"):
        collection.tau_davidson_szarek(60, 6, 240, math.nan)
    with pytest.raises(ParameterError, match="sigma"):
        collection.tau_davidson_szarek(60, 6, 240, 1.0, sigma=-1.0)
    with pytest.raises(ParameterError, match="constant"):
        collection.tau_appendix_c(60, 6, 240, 1.0, constant=0.0)
    with pytest.raises(ParameterError, match="answers"):
        collection.check_condition(np.full((4, 2), np.nan), np.ones((4, 9)))
    with pytest.raises(ParameterError, match="noise"):
        collection.check_condition(np.ones((4, 2)), np.ones((5, 9)))


def test_theorem_3_8_is_false_in_a_case_where_its_condition_holds() -> None:
    # docs/theory/collection.md#theorem-3-8. The masked rows' lengths are those of the rows: B is orthogonal.
    # Standard error 0.0024, so the bound of 0.6 is ten of them away; the posterior on the orbit would give 0.5.
    generator = np.random.default_rng(38)
    n, p2, tau, draws = 2, 20, 0.6, 40_000
    noise = tau * generator.standard_normal((draws, n, p2))
    gram = noise @ noise.transpose(0, 2, 1)
    holds = np.linalg.eigvalsh(gram)[:, 0] > 1  # lambda_max of X1 X1^T, X1 = (1, 0)^T
    assert holds.mean() > 0.999
    longer_is_right = 1 + gram[:, 0, 0] > gram[:, 1, 1]
    assert 0.6 < longer_is_right[holds].mean() < 0.65


def test_what_is_claimed_of_the_noise_columns_instead() -> None:
    """docs/theory/collection.md#claim, against the likelihood ratio of the whole view.

    Everybody's answers in one direction, x against -x. The log likelihood ratio L of the Gram matrix is computed with the
    Wishart density of X2 X2^T; E_x L - E_-x L is mu^2 for Gaussian L. The tolerance is five standard errors: false failures
    below 1e-6.
    """
    generator = np.random.default_rng(39)
    n, p2, tau, draws = 24, 96, 1.67, 20_000
    others = np.ones(n - 1)
    columns = tau * generator.standard_normal((n - 1, p2))
    inverse = np.linalg.inv(columns @ columns.T)
    w = 2 * others
    mu = math.sqrt(w @ inverse @ w) / tau
    assert mu == pytest.approx(2 * math.sqrt(n) / (tau**2 * math.sqrt(p2 - n)), rel=0.2)
    assert mu <= 2 * math.sqrt(n) / (tau * float(np.linalg.svd(columns, compute_uv=False)[-1]))

    def loss(sign: int) -> np.ndarray:
        own = tau * generator.standard_normal((draws, p2))
        products = own @ columns.T + sign * others  # the row's inner products with the others
        square = 1 + np.sum(own * own, axis=1)

        def log_density(guess: int) -> np.ndarray:
            # Of the row of S that is the person's, given the others: det(S - x1 x1^T)^((p2 - n - 1)/2), Schur complement.
            rest = products - guess * others
            complement = square - 1 - np.einsum("ij,jk,ik->i", rest, inverse, rest)
            return np.asarray((p2 - n - 1) / 2 * np.log(complement))

        return log_density(1) - log_density(-1)

    right, wrong = loss(1), loss(-1)
    error = math.sqrt((right.var() + wrong.var()) / draws)
    assert right.mean() - wrong.mean() == pytest.approx(mu * mu, abs=5 * error + 0.1 * mu * mu)
    assert math.sqrt(right.var()) == pytest.approx(mu, rel=0.1)


def test_blocks_of_several_checks_keep_what_their_common_complement_has() -> None:
    """docs/theory/collection.md#condition: for every draw, and the bound with p2 - (K - 1) d columns below all of them.

    30 draws in which the bound fails with probability 1e-6 each.
    """
    generator = np.random.default_rng(40)
    rows, left, opened, several = 60, 300, 32, 3
    whole = left + opened
    bound = np.sqrt(left - (several - 1) * opened) - np.sqrt(rows) - math.sqrt(2 * math.log(1e6))
    for _ in range(30):
        noise = generator.standard_normal((rows, whole))
        checks = [np.linalg.qr(generator.standard_normal((whole, opened)))[0] for _ in range(several)]
        kept = np.array([z - Q @ (Q.T @ z) for z, Q in zip(noise, checks * (rows // several), strict=True)])
        every = np.linalg.qr(np.hstack(checks))[0]
        common = noise - noise @ every @ every.T
        least = [float(np.linalg.svd(part, compute_uv=False)[-1]) for part in (kept, common)]
        assert bound < least[1] <= least[0] * (1 + 1e-9)


def test_more_checks_promise_less_and_still_something() -> None:
    found = [noise_columns_mu(256, 6, 1131, 1.0, 0.0, 5.5028, 1e-9, 32 * checks) for checks in (1, 4, 8, 16)]
    assert found == pytest.approx([0.048, 0.052, 0.060, 0.095], abs=5e-4)
