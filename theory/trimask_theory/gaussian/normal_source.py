"""Where the mechanisms get their standard normal numbers.

A mechanism that protects somebody is given a cryptographic source; a `numpy.random.Generator` has the same
shape and serves tests and Monte Carlo, never a release.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class NormalSource(Protocol):
    """Anything that draws independent standard normals."""

    def standard_normal(self, size: tuple[int, ...], /) -> NDArray[np.float64]:
        """An array of the given shape."""
        ...
