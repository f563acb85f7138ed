"""Laplace noise without a mask, which the masked-noise paper names beside the Gaussian: (epsilon, 0)-DP in the L1 norm.

Statement. X + C with C i.i.d. Laplace of scale b is (Delta_1/b, 0)-DP for neighbours at L1 distance at most Delta_1 (Dwork,
McSherry, Nissim, Smith 2006), and no better: one coordinate that moves by Delta_1 attains it. For one coordinate
delta(epsilon) = 1 - exp((epsilon - Delta_1/b)/2) for epsilon < Delta_1/b and 0 from there on, exactly.
For rows of L2 norm at most R in p attributes Delta_1 is 2 R sqrt(p), so the deviation sqrt(2) b grows as sqrt(p), where
Gaussian noise does not depend on p: that is why the paper takes the latter. A mask does not help: Laplace noise in more
than one row is not the same after a turn, and the masked guarantee needs that.

Assumptions: continuous noise. Basis: proved. Derivation: docs/theory/calibration.md#local-noise.
"""

from __future__ import annotations

import math

from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory import checks
from trimask_theory.checks import Calibration


def calibrate(epsilon: float, sensitivity: float = 1.0) -> Calibration:
    """The noise of (epsilon, 0)-DP at an L1 sensitivity; `sigma` is its standard deviation, sqrt(2) times its scale."""
    epsilon = checks.positive("epsilon", epsilon)
    sensitivity = checks.positive("sensitivity", sensitivity)
    sigma = math.sqrt(2) * sensitivity / epsilon * (1 + 1e-15)
    guarantee = Guarantee(
        neighbours=Neighbours("unit", distance=sensitivity),
        basis="proved",
        because="the log density of Laplace noise has slope 1/scale in every coordinate; distances are in the L1 norm",
        citation="Dwork, McSherry, Nissim, Smith 2006",
        epsilon=epsilon,
        delta=0.0,
    )
    return Calibration(sigma, guarantee, "laplace")


def delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """The exact delta at epsilon of Laplace noise of deviation `sigma` on one number that moves by `sensitivity`."""
    epsilon, sigma = checks.non_negative("epsilon", epsilon), checks.positive("sigma", sigma)
    loss = checks.positive("sensitivity", sensitivity) * math.sqrt(2) / sigma
    return -math.expm1((epsilon - loss) / 2) if epsilon < loss else 0.0
