"""A prepared question: checked and calibrated before anything is paid.

Planning sees the signed study, the number of rows (public) and the request; drawing sees the factor. What fails in
planning cannot depend on anybody's answers, so it costs nothing; what is drawn is paid for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimask_core.errors import ParameterError, Refused
from trimask_core.guarantee import Guarantee
from trimask_core.refusals import Reason
from trimask_core.rows.rotation import Matrix
from trimask_server.collector.releases.columns import Selection
from trimask_server.protocol.accounting import Price
from trimask_theory import local_noise
from trimask_theory.eigenvalue_floor import FloorTest
from trimask_theory.normal_source import NormalSource

__all__ = ["MOST_VALUES", "Drawn", "Plan", "SplitPrice", "as_lists", "gaussian_scale", "pair", "split_price"]

MOST_VALUES = 50_000
"""Numbers in one answer: about 1 MB of JSON, well below the message limit."""


@dataclass(frozen=True)
class Drawn:
    """What came out: JSON-ready values, and the guarantee they carry."""

    values: Mapping[str, Any]
    guarantee: Guarantee


@dataclass(frozen=True)
class Plan:
    """`mechanism` in a word, JSON-ready `parameters` (what was asked and calibrated), and how to draw."""

    mechanism: str
    parameters: Mapping[str, Any]
    draw: Callable[[Matrix, NormalSource], Drawn]


def as_lists(values: Matrix) -> Any:
    """Nested lists of floats, for JSON; refused if a number is not finite (it stays paid: it was drawn)."""
    if not np.isfinite(values).all():
        raise Refused(Reason.NOT_FINITE, "the answer has a number that is not finite")
    return values.tolist()


def pair(price: Price, what: str) -> tuple[float, float]:
    """Epsilon and delta of a price, delta above 0; refused where the mechanism cannot be paid with mu."""
    if price.epsilon is None or price.delta is None:
        raise Refused(
            Reason.PAY_WITH_EPSILON, f"{what} has no Gaussian guarantee: pay with epsilon and delta"
        )
    if price.delta == 0:
        raise ParameterError("delta", "above 0 for this mechanism", price.delta)
    return price.epsilon, price.delta


def gaussian_scale(price: Price) -> float:
    """The standard deviation of Gaussian noise at sensitivity 1, rounded up: 1/mu, or the analytic scale of the pair."""
    if price.mu is not None:
        return math.nextafter(1 / price.mu, math.inf)
    return local_noise.calibrate(*pair(price, "noise")).sigma


@dataclass(frozen=True)
class SplitPrice:
    """A price split between the mechanism and a private floor under the spectrum (None without one)."""

    epsilon: float
    delta: float
    floor: FloorTest | None


def split_price(price: Price, share: float, selection: Selection, what: str) -> SplitPrice:
    """`share` of epsilon and of delta for the floor; together they still add up to the price."""
    epsilon, delta = pair(price, what)
    if not (math.isfinite(share) and 0 <= share < 1):
        raise ParameterError("floor_share", "a number in [0, 1)", share)
    if share == 0:
        return SplitPrice(epsilon, delta, None)
    floor = FloorTest(share * epsilon, share * delta, selection.row_norm)
    # The mechanism gets the rest, rounded down, so that the two parts cannot add up to more.
    return SplitPrice(
        math.nextafter(epsilon - floor.epsilon, 0.0), math.nextafter(delta - floor.delta, 0.0), floor
    )
