"""Arguments at the ends of double precision: an answer on the safe side, or an error that names the argument, at once."""

from __future__ import annotations

import math

import pytest

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise
from trimask_theory.masking.masked_noise import Protection, can_certify
from trimask_theory.mechanisms import least_squares, noisy_gram, projection

needs_flint = pytest.mark.skipif(not can_certify(), reason="needs the extra `certified`")
PROTECTIONS: tuple[Protection, ...] = ("record", "unit")


@needs_flint
@pytest.mark.parametrize("protect", PROTECTIONS)
def test_repro_a_certified_delta_that_no_double_holds_is_enclosed_from_zero(protect: Protection) -> None:
    """OverflowError before, and for `unit` at a large sigma no answer within minutes."""
    for epsilon, sigma, attributes in ((50.0, 1.0, 1), (1.0, 1e300, 3), (1.0, 1e20, 3)):
        lower, upper = masked_noise.enclosed_delta(epsilon, sigma, 1000, attributes, protect)
        assert lower == 0.0 < upper <= 1e-120
    # Never below the truth: what the Gaussian mechanism of the rows themselves gives.
    distance = 2.0 if protect == "record" else 1.0
    gaussian = local_noise.delta(50.0, 1.0, distance)
    assert gaussian <= masked_noise.enclosed_delta(50.0, 1.0, 1000, 1, protect)[1]


@pytest.mark.parametrize("protect", PROTECTIONS)
@pytest.mark.parametrize("sigma", [1e-300, 1e-160])
def test_repro_next_to_no_noise_promises_nothing(protect: Protection, sigma: float) -> None:
    """OverflowError before."""
    assert masked_noise.delta(1.0, sigma, 1000, 3, protect) == 1.0
    assert masked_noise.epsilon(1e-6, sigma, 1000, 3, protect) == math.inf
    if can_certify():
        assert masked_noise.enclosed_delta(1.0, sigma, 1000, 3, protect) == (0.0, 1.0)


@pytest.mark.parametrize("protect", PROTECTIONS)
def test_next_to_endless_noise(protect: Protection) -> None:
    assert masked_noise.delta(1.0, 1e300, 1000, 3, protect) == 0.0
    assert masked_noise.epsilon(1e-6, 1e300, 1000, 3, protect) == 0.0


@pytest.mark.parametrize(("epsilon", "sigma", "rows"), [(10.0, 1.0, 10**12), (1e-3, 100.0, 10**12)])
def test_repro_a_trillion_rows(epsilon: float, sigma: float, rows: int) -> None:
    """IndexError before: the depth that is integrated to was below the last digit of the log of the mass."""
    assert masked_noise.delta(epsilon, sigma, rows, 2, "unit") == 0.0


def test_repro_a_tiny_epsilon() -> None:
    """ZeroDivisionError before. At epsilon 0 delta is 2 Phi(1/(2 s)) - 1; for a small delta 1/(s sqrt(2 pi))."""
    for epsilon in (1e-200, 1e-308):
        assert local_noise.calibrate(epsilon, 0.5).sigma == pytest.approx(0.7413011092528009, rel=1e-10)
    assert local_noise.calibrate(1e-200, 1e-9).sigma == pytest.approx(1e9 / math.sqrt(2 * math.pi), rel=1e-9)
    assert local_noise.calibrate(1.0, 1e-6).sigma == pytest.approx(4.224678889331065, rel=1e-12)


@pytest.mark.parametrize("norm", [1e200, 1e-200])
def test_repro_a_norm_whose_square_overflows_is_named(norm: float) -> None:
    """OverflowError before."""
    for calibrate in (
        lambda: noisy_gram.calibrate(1.0, 1e-6, norm),
        lambda: noisy_gram.calibrate_mu(1.0, norm),
    ):
        with pytest.raises(ParameterError, match="row_norm"):
            calibrate()


def test_repro_a_delta_near_one_is_answered_and_kept() -> None:
    """No end before: near 1 the rounding down of the leverage hardly moved delta."""
    near = 0.999999
    sigma = projection.calibrate(0.1, near, 1000, method="sharp").sigma
    assert projection.delta(0.1, 1 / (1 + sigma * sigma), 1000) <= near
    sigma = least_squares.calibrate(0.1, near, 1000, 3, method="sharp").sigma
    leverage = 1 / (1 + sigma * sigma)
    worst = max(
        least_squares.delta(0.1, leverage, part * leverage, 1000, 3) for part in (0.0, 0.25, 0.5, 0.9)
    )
    assert worst <= near
