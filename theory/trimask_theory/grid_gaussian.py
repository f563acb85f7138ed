"""The Gaussian mechanism without floating-point noise: numbers on a public grid, whole steps of noise.

Statement. Let a query's coordinates change by dv between neighbours, and |dv/sd| <= mu: Gaussian noise of standard
deviations sd_j is mu-GDP. In doubles it is not quite: which doubles can come out, and how often, depends on the value
the noise was added to (Mironov 2012), and that is enough to tell neighbours apart with certainty. Here coordinate j
is rounded to whole steps h_j, a power of two, with 2^-25 mu sd_j < h_j <= 2^-24 mu sd_j, and a rounded Gaussian
(`trimask_core.noise.RoundedGaussian`) of ceil(f sd_j / h_j) steps is added, f = 1 + sqrt(d) 2^-24. Rounding moves
the difference of two values by at most h_j, so the difference in units of the new deviations is at most
(mu + sqrt(d) 2^-24 mu)/f = mu. Whole numbers plus a rounded Gaussian are the Gaussian mechanism on whole numbers,
rounded: post-processing, so mu-GDP holds, and with it every (epsilon, delta) of its curve.

Assumptions. The stated bound on dv. Proved; the steps are public and the noise is drawn exactly when the source is
cryptographic. With a source that has no whole-number noise (a NumPy generator, in tests) normals are rounded.
Derivation: docs/theory/mechanisms.md#grid-noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.errors import ParameterError
from trimask_theory._checks import positive
from trimask_theory.normal_source import NormalSource

__all__ = ["GridGaussian", "WholeNoise", "calibrate", "on_steps"]

_FINENESS = 24
"""Steps are 2^-24 of what a record can move a value, or finer."""


@runtime_checkable
class WholeNoise(Protocol):
    """A source of Gaussian noise in whole steps."""

    def rounded_normal(self, sigmas: Sequence[int], /) -> list[int]:
        """round(sigma Z) for each."""
        ...


@dataclass(frozen=True, slots=True)
class GridGaussian:
    """Coordinate j lives on multiples of 2^exponents[j] and gets noise of `sigmas[j]` of them."""

    exponents: tuple[int, ...]
    sigmas: tuple[int, ...]

    @property
    def deviations(self) -> NDArray[np.float64]:
        """The standard deviation of each coordinate's noise."""
        pairs = zip(self.sigmas, self.exponents, strict=True)
        return np.array([math.ldexp(sigma, exponent) for sigma, exponent in pairs])

    def release(self, values: ArrayLike, source: NormalSource) -> NDArray[np.float64]:
        """The values rounded to their grids, with noise."""
        given = np.asarray(values, dtype=np.float64)
        if given.shape != (len(self.sigmas),) or not np.isfinite(given).all():
            raise ParameterError("values", f"{len(self.sigmas)} finite numbers", given.shape)
        if isinstance(source, WholeNoise):
            noise = source.rounded_normal(self.sigmas)
        else:
            normals = source.standard_normal((len(self.sigmas),))
            noise = [round(sigma * float(z)) for sigma, z in zip(self.sigmas, normals, strict=True)]
        # round() of a float is exact, and Python's integers do not run out.
        steps = [round(math.ldexp(float(v), -e)) for v, e in zip(given, self.exponents, strict=True)]
        return np.array(
            [math.ldexp(s + extra, e) for s, extra, e in zip(steps, noise, self.exponents, strict=True)]
        )


def calibrate(deviations: ArrayLike, mu: float) -> GridGaussian:
    """The grid for noise of the given standard deviations at which the query is mu-GDP; never less noise."""
    sd = np.asarray(deviations, dtype=np.float64)
    mu = positive("mu", mu)
    if sd.ndim != 1 or sd.size == 0 or not (np.isfinite(sd).all() and (sd > 0).all()):
        raise ParameterError("deviations", "a vector of finite numbers > 0")
    exponents = tuple(_floor_log2(mu * float(each)) - _FINENESS for each in sd)
    # The second term is above the roundings of this line.
    factor = 1 + math.sqrt(sd.size) * 2.0**-_FINENESS + 2.0**-48
    sigmas = tuple(
        math.ceil(math.ldexp(float(each) * factor, -e)) for each, e in zip(sd, exponents, strict=True)
    )
    return GridGaussian(exponents, sigmas)


def on_steps(values: ArrayLike, scale: float) -> NDArray[np.float64]:
    """Values rounded to a public power of two at most 2^-20 of `scale`: post-processing that drops low digits.

    For answers whose noise is not a plain sum on a grid (projections, least squares): the digits in which the
    floating-point numbers of one data set could differ from another's are not published.
    """
    exponent = _floor_log2(positive("scale", scale)) - 20
    return np.asarray(np.ldexp(np.rint(np.ldexp(np.asarray(values, dtype=np.float64), -exponent)), exponent))


def _floor_log2(value: float) -> int:
    return math.frexp(value)[1] - 1
