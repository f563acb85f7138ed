"""The Davidson-Szarek rule against simulated singular values, and its refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.rows.noise_columns import default_noise_columns, least_tau


def test_the_architecture_s_example() -> None:
    # n = 256 rows, p2 = 1,024, failure 1e-9, no DP noise: tau ~ 1.7 R.
    assert least_tau(256, 20, 1024, 1.0, 0.0, 1e-9) == pytest.approx(1.7, abs=0.05)


def test_the_formula() -> None:
    t = math.sqrt(2 * math.log(2e6))  # two events, half the failure probability each
    expected = (2.0 * 8 + 0.5 * (8 + 3 + t)) / (20 - 8 - t)
    assert least_tau(64, 9, 400, 2.0, 0.5, 1e-6) == pytest.approx(expected, rel=1e-12)
    assert least_tau(64, 9, 400, 2.0, 0.5, 1e-6) > expected
    quiet = math.sqrt(2 * math.log(1e6))
    assert least_tau(64, 9, 400, 2.0, 0.0, 1e-6) == pytest.approx(16 / (12 - quiet), rel=1e-12)


@pytest.mark.parametrize("failure", [1e-3, 0.05])
def test_simulated_blocks_satisfy_the_condition(failure: float) -> None:
    """(3.5), lambda_min(X2 X2^T) > lambda_max(X1 X1^T), at the rule's tau, rows at their norm bound and DP noise.

    An event of probability `failure` is allowed; the rule is conservative, so none should be seen in 200.
    """
    rng = np.random.default_rng(7)
    n, p1, p2, norm, sigma = 40, 5, 200, 1.5, 0.4
    tau = least_tau(n, p1, p2, norm, sigma, failure)
    broken = 0
    for trial in range(200):
        X1 = rng.standard_normal((n, p1)) if trial % 2 else np.outer(np.ones(n), rng.standard_normal(p1))
        X1 *= norm / np.linalg.norm(X1, axis=1, keepdims=True)
        X1 += sigma * rng.standard_normal((n, p1))
        X2 = tau * rng.standard_normal((n, p2))
        broken += np.linalg.svd(X2, compute_uv=False)[-1] <= np.linalg.norm(X1, 2)
    assert broken == 0


def test_half_the_tau_would_not_do() -> None:
    """Aligned rows at their bound with tau a third of the rule's break (3.5) every time."""
    rng = np.random.default_rng(8)
    n, p2 = 40, 200
    tau = least_tau(n, 5, p2, 1.0, 0.0, 1e-3) / 3
    smallest = [np.linalg.svd(tau * rng.standard_normal((n, p2)), compute_uv=False)[-1] for _ in range(50)]
    assert max(smallest) < math.sqrt(n)


def test_sigma_min_is_bounded_as_the_rule_says() -> None:
    """P[sigma_min < sqrt(p2) - sqrt(n) - t] <= exp(-t^2/2) = 0.1 at t = 2.146: 400 blocks, set for 1e-6."""
    rng = np.random.default_rng(9)
    n, p2, t = 30, 90, math.sqrt(2 * math.log(10))
    bound = math.sqrt(p2) - math.sqrt(n) - t
    below = sum(np.linalg.svd(rng.standard_normal((n, p2)), compute_uv=False)[-1] < bound for _ in range(400))
    assert below <= 40 + 4.9 * math.sqrt(400 * 0.1 * 0.9)


@pytest.mark.parametrize("rows", [2, 16, 64, 256, 5000])
@pytest.mark.parametrize("failure", [1e-3, 1e-9, 1e-15])
def test_the_default_columns_suffice_for_the_largest_block(rows: int, failure: float) -> None:
    columns = default_noise_columns(rows, failure)
    assert columns >= 4 * rows
    assert math.isfinite(least_tau(2 * rows - 1, 1, columns, 1.0, 0.0, failure))
    spread = math.sqrt(columns) - math.sqrt(2 * rows - 1) - math.sqrt(2 * math.log(1 / failure))
    assert spread >= math.sqrt(rows) / 4


def test_too_few_columns_is_named() -> None:
    with pytest.raises(ImpossibleStudy, match="Appendix A") as caught:
        least_tau(64, 9, 54, 1.0, 0.0, 1e-9)
    assert caught.value.reason == "too_few_columns"
    assert "at least 55" in str(caught.value)


def test_too_few_noise_columns_are_named_with_how_many_it_takes() -> None:
    with pytest.raises(ImpossibleStudy, match="at least 209 noise columns") as caught:
        least_tau(64, 9, 208, 1.0, 0.0, 1e-9)
    assert caught.value.reason == "too_few_noise_columns"
    assert math.isfinite(least_tau(64, 9, 209, 1.0, 0.0, 1e-9))


def test_monotone() -> None:
    base = least_tau(64, 9, 400, 1.0, 0.1, 1e-9)
    assert least_tau(65, 9, 400, 1.0, 0.1, 1e-9) > base
    assert least_tau(64, 9, 401, 1.0, 0.1, 1e-9) < base
    assert least_tau(64, 9, 400, 1.1, 0.1, 1e-9) > base
    assert least_tau(64, 9, 400, 1.0, 0.2, 1e-9) > base
    assert least_tau(64, 9, 400, 1.0, 0.1, 1e-12) > base
