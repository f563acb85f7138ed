"""Range checks shared by the theory (each failure names the parameter and what it may be), and the result of `calibrate`.

That is the noise to use and the guarantee it gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee


def _real(name: str, value: float, allowed: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ParameterError(name, allowed, value) from None
    if not math.isfinite(number):
        raise ParameterError(name, allowed, value)
    return number


def positive(name: str, value: float) -> float:
    """A finite number > 0."""
    number = _real(name, value, "a finite number > 0")
    if number <= 0:
        raise ParameterError(name, "a finite number > 0", value)
    return number


def non_negative(name: str, value: float) -> float:
    """A finite number >= 0."""
    number = _real(name, value, "a finite number >= 0")
    if number < 0:
        raise ParameterError(name, "a finite number >= 0", value)
    return number


def probability(name: str, value: float) -> float:
    """A number strictly between 0 and 1."""
    number = _real(name, value, "a number in (0, 1)")
    if not 0 < number < 1:
        raise ParameterError(name, "a number in (0, 1)", value)
    return number


def whole(name: str, value: float, minimum: int) -> int:
    """A whole number >= `minimum`."""
    allowed = f"a whole number >= {minimum}"
    number = _real(name, value, allowed)
    if number != int(number) or number < minimum:
        raise ParameterError(name, allowed, value)
    return int(number)


def at_least(name: str, value: float, minimum: float, meaning: str) -> float:
    """A finite number >= `minimum`, where `meaning` says what the bound is."""
    number = _real(name, value, meaning)
    if number < minimum:
        raise ParameterError(name, meaning, value)
    return number


def within(name: str, value: float, least: float, most: float) -> float:
    """A number between two others, beyond which double precision does not suffice."""
    if not least <= value <= most:
        raise ParameterError(
            name, f"between {least:g} and {most:g}: beyond that double precision does not reach", value
        )
    return value


def one_of(name: str, value: str, choices: Iterable[str]) -> str:
    """One of a fixed set of words."""
    allowed = list(choices)
    if value not in allowed:
        raise ParameterError(name, "one of " + ", ".join(repr(word) for word in allowed), value)
    return value


def matrix(
    name: str,
    values: ArrayLike,
    allowed: str = "a matrix of finite numbers, one row a person",
    *,
    columns: int = 1,
    square: bool = False,
) -> NDArray[np.float64]:
    """A matrix of finite numbers with so many columns at least, or a square one; a failure shows its shape alone."""
    found = np.asarray(values, dtype=np.float64)
    fits = found.ndim == 2 and found.size > 0 and found.shape[1] >= columns
    if not fits or (square and found.shape[0] != found.shape[1]) or not np.isfinite(found).all():
        raise ParameterError(name, allowed, found.shape)
    return found


def vector(name: str, values: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    """A vector of finite numbers, of the given size if there is one; a failure shows none of them."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not found.size or size not in (None, found.size) or not np.isfinite(found).all():
        raise ParameterError(name, "a vector of finite numbers" if size is None else f"{size} finite numbers")
    return found


def positive_vector(name: str, values: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    """The same, every number above zero."""
    found = vector(name, values, size)
    if not (found > 0).all():
        raise ParameterError(name, "positive in every coordinate")
    return found


@dataclass(frozen=True, slots=True)
class Calibration:
    """`sigma` is rounded up, so that the guarantee holds at it; `method` names the theorem or search used."""

    sigma: float
    guarantee: Guarantee
    method: str
