"""Least squares from published moments: the law against draws, and coverage where the noise is large."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.moments_law import moments_law
from trimask_core.basics.errors import ParameterError
from trimask_theory.mechanisms.noisy_regression import IndefiniteMoments, fit
from trimask_theory.moments import moments_noise
from trimask_theory.moments.noise_law import EntriesLaw

PEOPLE = 20_000


def people(kind: str) -> np.ndarray:
    """Rows (1, x .., y) in scaled units; `kind` says what is hard about them."""
    rng = np.random.default_rng(6)
    if kind == "correlated":
        shared = rng.standard_normal((PEOPLE, 1))
        x = math.sqrt(0.5) * (shared + rng.standard_normal((PEOPLE, 4)))
        y = x @ [0.5, -0.3, 0.2, 0.1] + 0.8 * rng.standard_normal(PEOPLE)
        rows = np.column_stack([x, y]) / 3
    elif kind == "weak":  # a regressor of little spread with a large coefficient
        x = rng.normal(0, 0.12, PEOPLE)
        rows = np.column_stack([x, 3 * x + rng.normal(0, 0.1, PEOPLE)])
    else:  # off centre: the first moments' noise and the exact count matter
        x, w = rng.normal(0.6, 0.12, PEOPLE), rng.normal(-0.5, 0.15, PEOPLE)
        rows = np.column_stack([x, w, 0.6 + 1.5 * (x - 0.6) + rng.normal(0, 0.1, PEOPLE)])
    return np.column_stack([np.ones(PEOPLE), np.clip(rows, -1, 1)])


def release(kind: str, epsilon: float, providers: int = 2, honest: int = 1) -> tuple[np.ndarray, EntriesLaw]:
    rows = people(kind)
    q = rows.shape[1] - 1
    sigma = moments_noise.calibrate(epsilon, 1e-6, 1.0 + q, providers, honest).sigma
    return rows.T @ rows, moments_law(sigma, [1000] * q, providers, honest)


def test_product_and_gradient_covariances_against_draws() -> None:
    """20,000 draws; every entry within 6 of its standard errors: a false failure has probability below 1e-6."""
    rng = np.random.default_rng(1)
    V = rng.uniform(0.5, 2, (4, 4))
    law = EntriesLaw((V + V.T) / 2 * (1 - np.eye(4)[0][:, None] * np.eye(4)[0]))
    u, v = rng.standard_normal((2, 4))
    draws = np.array([law.draw(rng) for _ in range(20_000)])
    assert np.array_equal(draws[0], draws[0].T)
    assert not draws[:, 0, 0].any()
    A = rng.standard_normal((3, 4, 4))
    A = A + A.swapaxes(1, 2)
    traces = np.einsum("aij,nji->na", A, draws)
    for found, first, second in (
        (law.covariance(A), traces, traces),
        (law.product(u, u), draws @ u, draws @ u),
        (law.product(u, v), draws @ u, draws @ v),
    ):
        products = first[:, :, None] * second[:, None, :]
        products = (products + products.swapaxes(1, 2)) / 2
        error = products.std(axis=0) / math.sqrt(len(draws))
        assert (np.abs(products.mean(axis=0) - found) < 6 * error + 1e-12).all()


def test_the_closed_form_and_its_correction_for_the_exact_count() -> None:
    """(s^2 / 2)(|v|^2 I + v_x v_x^T), less s^2 v_0^2 in the constant's corner."""
    s, v = 3.0, np.array([-0.7, 0.4, -1.1, 1.0])
    V = np.full((4, 4), s**2 / 2)
    np.fill_diagonal(V, s**2)
    V[0, 0] = 0
    closed = s**2 / 2 * (v @ v * np.eye(3) + np.outer(v[:3], v[:3]))
    closed[0, 0] -= s**2 * v[0] ** 2
    assert np.allclose(EntriesLaw(V).product(v, v)[:3, :3], closed)


def test_the_residual_equation_is_exact() -> None:
    gram, law = release("off centre", 0.5)
    noise = law.draw(np.random.default_rng(4))
    found = fit(gram + noise, law, PEOPLE)
    beta = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
    theta = np.append(-beta, 1.0)
    left = (gram + noise)[:-1, :-1] @ (found.coefficients - beta)
    assert np.allclose(left, (noise @ theta)[:-1], rtol=1e-8, atol=1e-6)


def scores(kind: str, epsilon: float, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """z-scores of the coefficients (privacy alone), and whether the 95 % intervals cover, over the fits that come out."""
    gram, law = release(kind, epsilon)
    beta = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
    rng = np.random.default_rng([7, round(1000 * epsilon)])
    z, inside = [], []
    for _ in range(draws):
        try:
            found = fit(gram + law.draw(rng), law, PEOPLE, sampling=False)
        except IndefiniteMoments:
            continue
        errors = found.combination()
        z.append((found.coefficients - beta) / errors.standard_errors)
        low, high = errors.interval(0.95).T
        inside.append((low <= beta) & (beta <= high))
    return np.array(z), np.array(inside)


@pytest.mark.parametrize("kind", ["correlated", "weak", "off centre"])
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_coverage_where_the_noise_is_small(kind: str, epsilon: float) -> None:
    """1,500 draws: coverage 0.95 has a standard error of 0.0056, deviations one of 0.018; both within 5 (below 1e-5)."""
    z, inside = scores(kind, epsilon, 1500)
    assert len(z) == 1500
    assert (inside.mean(axis=0) > 0.95 - 5 * 0.0056).all()
    assert (z.std(axis=0) < 1 + 5 * 0.018).all()
    assert (z.std(axis=0) > 0.8).all()  # widened, not useless
    assert (inside.mean(axis=0) < 0.99).all()


@pytest.mark.parametrize("kind", ["correlated", "weak", "off centre"])
@pytest.mark.parametrize("epsilon", [0.1, 0.25])
def test_coverage_where_the_noise_is_large(kind: str, epsilon: float) -> None:
    """At least nominal: 800 draws, some of them refused; 5 standard errors of the fits that come out."""
    z, inside = scores(kind, epsilon, 800)
    assert len(z) > 300
    assert (inside.mean(axis=0) > 0.95 - 5 * math.sqrt(0.0475 / len(z))).all()
    # Standard errors are conservative at two of themselves, up to what infinite ones leave.
    assert (np.mean(np.abs(z) < 1.96, axis=0) > 0.88).all()


def test_sampling_error_is_added() -> None:
    """Rows drawn anew from one population: 600 fits at epsilon 2 cover its slope; 0.95 less 5 standard errors of 0.009."""
    rng = np.random.default_rng(11)
    widths, n = [1000, 1000], 2000
    sigma = moments_noise.calibrate(2.0, 1e-6, 3.0, 2).sigma
    law = moments_law(sigma, widths, 2)
    covered = []
    for _ in range(600):
        x = rng.uniform(-1, 1, n)
        rows = np.column_stack([np.ones(n), x, 0.3 * x + rng.uniform(-0.6, 0.6, n)])
        found = fit(rows.T @ rows + law.draw(rng), law, n)
        errors = found.combination()
        low, high = errors.interval()[1]
        covered.append(low <= 0.3 <= high)
        assert errors.cov_sampling[1, 1] > 0
    assert 0.95 - 5 * 0.009 < np.mean(covered) < 0.995


def test_without_noise_it_is_ordinary_least_squares() -> None:
    rows = people("off centre")
    gram = rows.T @ rows
    found = fit(gram, EntriesLaw(np.zeros(gram.shape)), PEOPLE)
    beta, residual = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[:2]
    assert np.allclose(found.coefficients, beta, rtol=1e-8)
    assert found.residual_sum == pytest.approx(float(residual[0]), rel=1e-6)
    errors = found.combination()
    assert (errors.widening == 1).all()
    plain = np.sqrt(np.diag(found.residual_sum / (PEOPLE - 3) * np.linalg.inv(gram[:-1, :-1])))
    assert np.allclose(errors.standard_errors, plain)
    assert np.allclose(errors.interval()[:, 1] - found.coefficients, 1.959964 * plain, rtol=1e-6)


def test_combined_columns_give_the_same_answer_in_other_units() -> None:
    """Coefficients of columns moved and stretched are those of the plain ones, moved and stretched; so are errors."""
    gram, law = release("off centre", 1.0)
    noisy = gram + law.draw(np.random.default_rng(2))
    plain = fit(noisy, law, PEOPLE)
    change = np.array([[1, 0, 0], [0.0, 2.0, 0], [0, 0, 0.5], [0, 0, 0]])
    moved = fit(noisy, law, PEOPLE, change, [0, 0, 0, 1.0])
    scale = np.array([1, 2.0, 0.5])
    assert np.allclose(moved.coefficients * scale, plain.coefficients)
    there, here = moved.combination(np.diag(scale)), plain.combination()
    assert np.allclose(there.standard_errors, here.standard_errors)
    assert np.allclose(there.interval(), here.interval())
    assert np.allclose(there.cov_widened, here.cov_widened)
    # A combination has the same error however the model is written.
    contrast = np.array([[0.3, 1.0, -2.0]])
    assert np.allclose(
        moved.combination(contrast * scale).standard_errors, plain.combination(contrast).standard_errors
    )


def test_an_indefinite_matrix_is_refused_with_the_remedy() -> None:
    gram, law = release("correlated", 0.02)
    with pytest.raises(IndefiniteMoments, match="ridge penalty") as caught:
        fit(gram + law.draw(np.random.default_rng(1)), law, PEOPLE)
    assert caught.value.least < 0
    # The penalty named makes such a matrix definite: each fails with probability below e^-8, 3 of 200 below 1e-4.
    rng = np.random.default_rng(2)
    noisy = np.array([gram + law.draw(rng) for _ in range(200)]) + caught.value.penalty * np.eye(len(gram))
    assert np.sum(np.linalg.eigvalsh(noisy)[:, 0] <= 0) <= 2


def test_what_does_not_fit_is_named() -> None:
    gram, law = release("weak", 1.0)
    with pytest.raises(ParameterError, match="gram"):
        fit(gram[:2], law, PEOPLE)
    with pytest.raises(ParameterError, match="rows"):
        fit(gram, law, 2)
    with pytest.raises(ParameterError, match="symmetric"):
        EntriesLaw(np.array([[1.0, 2.0], [3.0, 1.0]]))
    with pytest.raises(ParameterError, match=">= 0"):
        EntriesLaw(np.array([[-1.0]]))
