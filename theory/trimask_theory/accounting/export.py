"""Mechanisms for other accountants: dp_accounting and prv_accountant (the extra `accountants`).

Each gets the loss distribution of the dominating pair, rounded upward. dp_accounting takes it as it is; prv_accountant
needs a continuous law, and gets every mass spread evenly over one step.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import ParameterError
from trimask_theory.accounting.composition import LossDistribution
from trimask_theory.accounting.mechanism import Mechanism
from trimask_theory.checks import positive

Array = NDArray[np.float64]


def loss_distributions(mechanism: Mechanism, step: float) -> list[LossDistribution]:
    """The loss of the dominating pair on a lattice, a distribution for each direction (one where they are equal)."""
    return [_summed(direction) for direction in mechanism.factors(positive("step", step))]


def to_dp_accounting(mechanism: Mechanism, step: float = 1e-4) -> Any:
    """A `PrivacyLossDistribution` of dp_accounting, with pessimistic estimates."""
    distributions = _module("dp_accounting.pld.privacy_loss_distribution")
    pmfs = _module("dp_accounting.pld.pld_pmf")
    made = [
        pmfs.DensePLDPmf(loss.step, loss.first, loss.mass.copy(), loss.infinity_mass, True)
        for loss in loss_distributions(mechanism, step)
    ]
    return distributions.PrivacyLossDistribution(*made)


def to_prv_accountant(mechanism: Mechanism, step: float | None = None) -> list[Any]:
    """`PrivacyRandomVariable`s of prv_accountant, one for each direction; every mass is spread evenly about its place."""
    base = _module("prv_accountant").PrivacyRandomVariable
    fine = mechanism.spread / 200 if step is None else step

    class Loss(base):  # type: ignore[misc, valid-type]
        """A loss on a lattice, made continuous."""

        def __init__(self, loss: LossDistribution) -> None:
            self._loss = loss
            self._places = loss.step * (loss.first - 0.5 + np.arange(loss.mass.size + 1.0))
            self._below = np.concatenate([[0.0], np.cumsum(loss.mass)]) / loss.mass.sum()
            self._mean = float(loss.mass @ loss.losses) / float(loss.mass.sum())

        def mean(self) -> float:
            """The mean loss."""
            return self._mean

        def cdf(self, t: Array) -> Array:
            """P[L <= t], given that L ends."""
            at = np.asarray(t, dtype=np.float64)
            return np.asarray(np.interp(at, self._places, self._below, left=0.0, right=1.0), dtype=np.float64)

        def rdp(self, alpha: float) -> float:
            """An upper bound: all mass at the upper end of its cell."""
            return self._loss.log_moment(alpha - 1) / (alpha - 1) + self._loss.step

        @property
        def pm_inf(self) -> float:
            """The mass at infinity."""
            return self._loss.infinity_mass

    return [Loss(loss) for loss in loss_distributions(mechanism, fine)]


def _summed(factors: tuple[LossDistribution, ...]) -> LossDistribution:
    """Direct convolution: sums of positive terms keep the digits of the tails."""
    total, *others = factors
    for other in others:
        total = LossDistribution(
            total.step,
            total.first + other.first,
            np.convolve(total.mass, other.mass),
            total.infinity_mass + other.infinity_mass - total.infinity_mass * other.infinity_mass,
        )
    return total


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ParameterError(
            "accountant", f"installed: {package} is missing, pip install 'trimask-theory[accountants]'"
        ) from None
