"""Polynomials by their values at 0, 1, 2, ...: the nodes are consecutive, so the difference of any two is a small number.

The Lagrange polynomial of node k among 0..d is L_k(x) = w_k prod_(i != k) (x - i), w_k = (-1)^(d-k) / (k! (d-k)!).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import mul

from trimask_core.errors import ParameterError
from trimask_core.moments.field import P, batch_inverse

__all__ = ["basis_at", "extend"]


@lru_cache(maxsize=64)
def _small_inverses(largest: int, p: int) -> tuple[int, ...]:
    """(0, 1/1, 1/2, ..., 1/largest): p = (p // n) n + p % n gives each from an earlier one."""
    if largest >= p:
        raise ParameterError("nodes", "fewer than the field has elements")
    inverses = [0, 1]
    for n in range(2, largest + 1):
        inverses.append((p - p // n) * inverses[p % n] % p)
    return tuple(inverses[: largest + 1])


@lru_cache(maxsize=64)
def _weights(degree: int, p: int) -> tuple[int, ...]:
    """w_0..w_d."""
    inverses = _small_inverses(degree, p)
    one_over_factorial = [1, *accumulate(inverses[1:], lambda product, factor: product * factor % p)]
    return tuple(
        (-1) ** (degree - k) * one_over_factorial[k] * one_over_factorial[degree - k] % p
        for k in range(degree + 1)
    )


def extend(values: Sequence[int], p: int = P) -> list[int]:
    """From a polynomial's values at 0..d, its degree being at most d, those at d+1..2d. Time d^2, memory d."""
    degree = len(values) - 1
    if degree < 1:
        return []
    weighted = [value * weight % p for value, weight in zip(values, _weights(degree, p), strict=True)]
    falling = _small_inverses(2 * degree, p)[:0:-1]  # 1/(2d), ..., 1/1
    product = 1  # prod_i (x - i) over the nodes, first at x = d + 1
    for difference in range(2, degree + 2):
        product = product * difference % p
    further = []
    for x in range(degree + 1, 2 * degree + 1):
        # 1/(x - k) for k = 0..d: the differences x, x - 1, ..., x - d
        total = sum(map(mul, weighted, falling[2 * degree - x :]))
        further.append(product * total % p)
        product = product * (x + 1) * _small_inverses(2 * degree, p)[x - degree] % p
    return further


def basis_at(degree: int, x: int, p: int = P) -> list[int]:
    """L_0(x)..L_d(x) for an x that is not a node."""
    if 0 <= x % p <= degree:
        raise ParameterError("x", f"outside the nodes 0..{degree}")
    differences = [(x - k) % p for k in range(degree + 1)]
    product = 1
    for difference in differences:
        product = product * difference % p
    inverses = batch_inverse(differences, p)
    return [
        product * weight % p * inverted % p
        for weight, inverted in zip(_weights(degree, p), inverses, strict=True)
    ]
