"""Errors of the papers (docs/theory/errata.md#masked-noise), each shown once; others by the tests named there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ive

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import weighted_chi2
from trimask_theory.masking import masked_noise


def test_lemma_2_4_of_the_masked_noise_paper_as_printed() -> None:
    """A mechanism breaks (5) and is (epsilon', (1 - epsilon'/epsilon) delta)-DP all the same; the proof's delta' holds."""
    epsilon, less, delta = 1.0, 0.5, 0.01
    # Two outcomes: S has probability just above delta in one case and e^-epsilon of it, or just less, in the other.
    p = np.array([delta * 1.0001, 1 - delta * 1.0001])
    q = np.array([p[0] * math.exp(-epsilon) * 0.9999, 0.0])
    q[1] = 1 - q[0]
    assert p[p > math.exp(epsilon) * q].sum() > delta
    attained = max(np.maximum(a - math.exp(less) * b, 0.0).sum() for a, b in ((p, q), (q, p)))
    assert attained < (1 - less / epsilon) * delta  # printed: "not (epsilon', delta')-DP"
    assert attained > (1 - math.exp(less - epsilon)) * delta  # proved


def test_section_3_2_of_the_masked_noise_paper_squares_wrongly() -> None:
    """Corollary 3.5's sigma squared is 9 sqrt(p)/epsilon times its factor, where the text has 3 p^(1/4)/epsilon."""
    epsilon, delta, n, p = 0.5, 0.01, 1000, 16
    factor = (2 * n - p + math.log(1 / delta)) / (2 * (n - p))
    square = masked_noise.corollary_sigma(epsilon, delta, n, p) ** 2
    assert square == pytest.approx(factor * 9 * math.sqrt(p) / epsilon)
    assert square > 5 * factor * 3 * p**0.25 / epsilon
    # and 1.7 sqrt(ln 1/delta)/epsilon of Corollary 3.3 has the square 2.89 ln(1/delta)/epsilon^2, not 1.7.
    assert pytest.approx(2.89) == 1.7**2


def test_lemma_a_3_of_the_masked_noise_paper() -> None:
    """(43) with noncentrality p, as printed: 1888.9 above 1640.2 at p = 300, n = 301; with sqrt p it holds there."""
    for p, n, delta in ((300, 301, 1e-150), (20, 100, 1e-6), (5, 10_000, 1e-3), (1, 2, 0.04), (2, 3, 1e-9)):
        bound = 2 * (2 * n - p) + 3 * math.log(1 / delta)
        assert weighted_chi2.isf(delta, [1.0], [2 * (n - p)], [math.sqrt(p)]) <= bound
    printed = weighted_chi2.isf(1e-150, [1.0], [2], [300.0])
    assert printed == pytest.approx(1888.9, abs=0.1)
    assert printed > 2 * (2 * 301 - 300) + 3 * math.log(1e150) == pytest.approx(1640.2, abs=0.1)


@pytest.mark.parametrize("q", [1, 2, 5, 40])
def test_lemma_5_2_of_the_masked_noise_paper(q: int) -> None:
    """G'/G is I_(q/2)/I_(q/2 - 1), below t/q; the printed t/2 is false for q = 1 and too little for (27) beyond q = 2."""
    t = np.linspace(0.01, 30, 500)
    ratio = ive(0.5 * q, t) / ive(0.5 * q - 1, t)
    assert (ratio < t / q).all()
    assert (ratio[0] < t[0] / 2) == (q >= 2)
    # What (27) needs is the integral of t/q, and near 0 no smaller bound holds.
    assert ratio[0] == pytest.approx(t[0] / q, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"row_norm": 1e-200}, "row_norm"),
        ({"row_norm": 1e150}, "row_norm"),
        ({"rows": 10**18}, "rows"),
        ({"protect": "unit", "row_norm": 1e6}, "row_norm"),
    ],
)
@pytest.mark.parametrize("method", masked_noise.METHODS)
def test_repro_numbers_beyond_double_precision_are_named(
    change: dict[str, float], field: str, method: masked_noise.Method
) -> None:
    given = {"epsilon": 1.0, "delta": 1e-6, "rows": 1000, "attributes": 5, **change}
    with pytest.raises(ParameterError, match=field):
        masked_noise.calibrate(**given, method=method)  # type: ignore[arg-type]


def test_repro_noise_far_above_the_rows_has_epsilon_zero() -> None:
    assert masked_noise.epsilon(1e-6, 1e30, 1000, 5) == 0.0


def test_rounding_moves_unit_neighbours_apart() -> None:
    """h sqrt(p) is added to d, and half of it to R."""
    plain = masked_noise.calibrate(1.0, 1e-6, 1000, 5, "unit", 2.0)
    moved = masked_noise.calibrate(1.0, 1e-6, 1000, 5, "unit", 2.0, rounding=0.01)
    assert moved.guarantee.neighbours == plain.guarantee.neighbours
    assert plain.sigma < moved.sigma < 1.012 * plain.sigma
    record = masked_noise.calibrate(1.0, 1e-6, 1000, 5, "record", 2.0, rounding=0.01).sigma
    assert record == pytest.approx(masked_noise.calibrate(1.0, 1e-6, 1000, 5, "record", 2.005).sigma)
