"""How much noise each right provider adds to each total (docs: moments, section on noise).

In the coordinates of the Frobenius norm the noise is isotropic: deviation sigma on the diagonal of the scaled moments and
sigma/sqrt(2) off it, where first moments are the row of x_0 = 1. A total of whole numbers z_j z_l is w_j w_l times the
scaled one. Any h honest providers together have the deviation sigma, so each adds sigma/sqrt(h).
"""

from __future__ import annotations

import math

__all__ = ["entry_deviation"]


def entry_deviation(sigma: float, width: int, other: int, honest: int, *, diagonal: bool) -> int:
    """One provider's whole deviation for the total of z_j z_l, rounded up; 0 where the study has no noise."""
    if sigma == 0:
        return 0
    scale = sigma * width * other / math.sqrt(honest if diagonal else 2 * honest)
    # A last bit lost in the product may not round the noise down.
    return math.ceil(scale * (1 + 2.0**-50))
