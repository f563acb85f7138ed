"""delta of a masked record in ball arithmetic: the interval holds the library's value and every lower bound."""

from __future__ import annotations

import builtins
import math
from typing import Any

import mpmath
import pytest
from scipy.stats import ncx2

from bench.theory_certified import SETTINGS, Setting
from trimask_core.basics.errors import ParameterError
from trimask_theory.masking import masked_noise


def check(setting: Setting, width: float) -> None:
    """The calibrated noise of a setting: its delta is enclosed, and the interval is narrow."""
    epsilon, delta, rows, attributes = setting
    sigma = masked_noise.calibrate(epsilon, delta, rows, attributes).sigma
    lower, upper = masked_noise.enclosed_delta(epsilon, sigma, rows, attributes, width=width)
    assert 0 < lower <= masked_noise.delta(epsilon, sigma, rows, attributes) <= upper
    assert upper - lower <= width * upper


@pytest.mark.parametrize("setting", SETTINGS[:3], ids=str)
def test_the_interval_holds_the_value(setting: Setting) -> None:
    check(setting, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_interval_holds_the_value_in_every_published_setting(setting: Setting) -> None:
    check(setting, 1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_the_interval_holds_the_value_away_from_the_calibrated_epsilon(epsilon: float) -> None:
    for rows, attributes, sigma in ((3, 2, 1.1), (60, 2, 0.9), (40, 1, 0.7)):
        lower, upper = masked_noise.enclosed_delta(epsilon, sigma, rows, attributes, width=0.01)
        assert lower <= masked_noise.delta(epsilon, sigma, rows, attributes) <= upper
        assert upper - lower <= 0.01 * upper


def test_one_attribute_against_the_difference_of_two_tails() -> None:
    # m = 2 (three rows, one column): the tails to 30 digits, at the crossing of the likelihood ratio.
    epsilon, norm = 1.0, 3.0
    with mpmath.workdps(30):
        scale = mpmath.exp(epsilon + norm**2 / 2)
        x = mpmath.findroot(lambda w: mpmath.hyp0f1(1, norm**2 * w / 4) - scale, 9)
    edge = float(x)
    exact = float(ncx2.sf(edge, 2, norm**2)) - math.exp(epsilon) * math.exp(-edge / 2)
    lower, upper = masked_noise.enclosed_delta(epsilon, 1.0, 3, 1, row_norm=norm, width=1e-4)
    assert lower < exact < upper
    assert upper - lower < 1e-4


def test_a_certified_sigma_has_its_upper_end_within_delta() -> None:
    plain = masked_noise.calibrate(1.0, 1e-3, 40, 2).sigma
    found = masked_noise.calibrate(1.0, 1e-3, 40, 2, certified=True)
    assert plain < found.sigma < plain * 1.001
    assert masked_noise.enclosed_delta(1.0, found.sigma, 40, 2)[1] <= 1e-3
    assert "ball arithmetic" in found.guarantee.because
    epsilon = masked_noise.epsilon(1e-3, found.sigma, 20, 2, certified=True)
    assert masked_noise.enclosed_delta(epsilon, found.sigma, 20, 2)[1] <= 1e-3


def test_no_noise_is_between_nothing_and_everything() -> None:
    assert masked_noise.enclosed_delta(1.0, 0.0, 40, 2) == (0.0, 1.0)


def test_what_cannot_be_certified_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="no integral"):
        masked_noise.epsilon(1e-3, 1.0, 40, 2, method="bound", certified=True)
    with pytest.raises(ParameterError, match="rows"):
        masked_noise.enclosed_delta(1.0, 1.0, 10**9, 2)
    with pytest.raises(ParameterError, match="unit"):
        masked_noise.enclosed_delta(1.0, 1.0, 10**7, 2, "unit")
    importing = builtins.__import__

    def without_flint(name: str, *rest: Any, **named: Any) -> Any:
        if name == "flint":
            raise ImportError(name)
        return importing(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_flint)
    assert not masked_noise.can_certify()
    with pytest.raises(ParameterError, match=r"pip install 'trimask-theory\[certified\]'"):
        masked_noise.enclosed_delta(1.0, 1.0, 40, 2)
