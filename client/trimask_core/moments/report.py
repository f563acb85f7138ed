"""A device's report: bits, products and the proof that they belong together (docs/theory/verified-moments.md#report).

Order of the elements: `layout`.

rho and f(0) are fresh and uniform for every report: the two numbers the check opens, s and phi, are uniform because of
them and nothing else. A report must therefore never be checked under two challenges, nor rho or f(0) be used twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimask_core.moments.field import P, draw
from trimask_core.moments.interpolation import extend
from trimask_core.moments.layout import MomentsLayout
from trimask_core.randomness import RandomSource

__all__ = ["build_report"]


def build_report(layout: MomentsLayout, answers: Mapping[str, object], source: RandomSource) -> list[int]:
    """The elements of a report of these answers; rho is drawn from `source` first, then f(0)."""
    encoded = layout.encode(answers)
    return _elements(encoded.bits, encoded.proved, draw(source), draw(source))


def _elements(bits: Sequence[int], z: Sequence[int], rho: int, f_zero: int, p: int = P) -> list[int]:
    """The proof over any bits and z, in the field of p elements."""
    products = [z[j] * value % p for j in range(len(z)) for value in z[j:]]
    hidden = [rho * value % p for value in z]
    further = extend([f_zero, *bits], p)  # f at m+1..2m
    h = [(value * value - value) % p for value in (f_zero, *further)]
    return [*(bit % p for bit in bits), *products, rho, *hidden, rho * rho % p, f_zero, *h]
