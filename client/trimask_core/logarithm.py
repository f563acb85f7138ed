"""The natural logarithm, the same to the last bit on every machine and in every language.

A logarithm of an answer enters a row, and a browser must make the row that a phone would. The C library's log differs
between machines in the last bit, so it is not used there: log(2^e m) = e log 2 + 2 atanh f, f = (m - 1)/(m + 1), by
additions, multiplications, divisions and frexp alone, which IEEE 754 defines. Within four units in the last place.
"""

from __future__ import annotations

import math

__all__ = ["natural_log"]

# log 2 in two parts: 33 bits, so that a whole multiple of it is exact, and the rest.
_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_SQRT_HALF = math.sqrt(0.5)
# 2 atanh f = 2 f (1 + f^2/3 + f^4/5 + ...), |f| <= 0.172 for m in [sqrt 1/2, sqrt 2): 12 terms are 1e-20.
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(12))


def natural_log(value: float) -> float:
    """log of a value above 0."""
    mantissa, exponent = math.frexp(value)
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    f = (mantissa - 1.0) / (mantissa + 1.0)
    x = f * f
    t = _ATANH[11]
    for coefficient in _ATANH[10::-1]:
        t = t * x + coefficient
    return exponent * _HIGH + (2.0 * f * t + exponent * _LOW)
