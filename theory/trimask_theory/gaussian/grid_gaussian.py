"""The Gaussian mechanism without floating-point noise: numbers on a public grid, whole steps of noise.

Statement. Let a query's coordinates change by dv between neighbours, and |dv/sd| <= mu: Gaussian noise of standard
deviations sd_j is mu-GDP. In doubles it is not quite: which doubles can come out, and how often, depends on the value
the noise was added to (Mironov 2012), and that is enough to tell neighbours apart with certainty. Here coordinate j
is rounded to whole steps h_j, a power of two, with 2^-25 mu sd_j < h_j <= 2^-24 mu sd_j, and a rounded Gaussian
(`trimask_core.basics.randomness.RoundedGaussian`) of ceil(f sd_j / h_j) steps is added, f = 1 + sqrt(d) 2^-24. Rounding
moves the difference of two values by at most h_j, so the difference in units of the new deviations is at most
(mu + sqrt(d) 2^-24 mu)/f = mu. Whole numbers plus a rounded Gaussian are the Gaussian mechanism on whole numbers,
rounded: post-processing, so mu-GDP holds, and with it every (epsilon, delta) of its curve.

Assumptions. The stated bound on dv. Proved; the steps are public and the noise is drawn exactly when the source is
cryptographic. With a source that has no whole-number noise (a NumPy generator, in tests) normals are rounded.

Statement (a sum of rounded Gaussians is one, up to a total variation that is stated). Let R_1..R_h be independent with
the law of round(N(0, d^2)), d >= 1. For h >= 2 the law of R_1 + ... + R_h is within the total variation
    tv(d, h) = exp(-pi^2 d^2) ((h + 1 + 2 pi d^2 sqrt(2 h)) 4.02^h + 2) / 2
of round(N(0, h d^2) + U_1 + ... + U_(h-1)), U_i independent and uniform on [-1/2, 1/2]; for h = 1 the two are the same law.
Added to whole numbers, the second is the Gaussian mechanism of deviation d sqrt(h), then noise independent of the data,
then rounding: post-processing. So whole totals with such sums as noise, on m entries, are (epsilon, delta + slack)-DP
with slack = (1 + e^epsilon) m tv wherever the Gaussian mechanism of deviations d_j sqrt(h) is (epsilon, delta)-DP.

Proof. P(R = k) = f(k) with f the density of N(0, d^2) + U, and P(round(N(0, h d^2) + U_1 + ..) = k) = f^(*h)(k), because a
convolution with the uniform density is what rounding does at whole numbers. Let F be the Fourier transform of f:
|F(t)| <= exp(-2 pi^2 d^2 t^2). By Poisson's summation the two laws have the Fourier series (sum_m F(t + m))^h and
sum_m F(t + m)^h, |t| <= 1/2. Let A = |F(t)| and B = sum over m != 0 of |F(t + m)|, at most
2.01 exp(-2 pi^2 d^2 (1 - |t|)^2). The series differ by at most (A + B)^h - A^h + B^h <= 2^h max_(1 <= j <= h) A^(h-j) B^j.
The exponent (h - j) t^2 + j (1 - |t|)^2 is at least 1/2: it is least at |t| = j/h, where it is j (h - j)/h, or, for
j > h/2, at |t| = 1/2, where it is at least h/4. So no probability differs by more than 4.02^h exp(-pi^2 d^2). Both variables
are within h/2 of a N(0, h d^2) one, so each is beyond L = h/2 + pi d^2 sqrt(2 h) with probability at most exp(-pi^2 d^2);
the 2 L + 1 whole numbers within, and the two tails, add up to twice the total variation. Proved; nothing is assumed.

A mechanism that protects somebody is given a cryptographic source; a `numpy.random.Generator` has the same
shape and serves tests and Monte Carlo, never a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError
from trimask_theory import checks
from trimask_theory.checks import positive


def log_total_variation(deviation: float, summands: int) -> float:
    """log tv(d, h): how far a sum of `summands` Gaussians, each rounded, is from one rounded Gaussian."""
    d = checks.at_least("deviation", deviation, 1.0, "a finite number >= 1")
    h = checks.whole("summands", summands, 1)
    if h == 1:
        return -math.inf
    spread = math.log(h + 1 + 2 * math.pi * d * d * math.sqrt(2 * h)) + h * math.log(4.02)
    return min(0.0, math.log(0.5) - (math.pi * d) ** 2 + spread + math.log1p(2 * math.exp(-spread)))


def log_slack(epsilon: float, deviation: float, summands: int, entries: int) -> float:
    """log of what is added to delta at `epsilon` when `entries` sums have noise of at least `deviation` a summand."""
    epsilon = checks.non_negative("epsilon", epsilon)
    both = epsilon + math.log1p(math.exp(-epsilon))
    return both + math.log(checks.whole("entries", entries, 1)) + log_total_variation(deviation, summands)


class NormalSource(Protocol):
    """Anything that draws independent standard normals."""

    def standard_normal(self, size: tuple[int, ...], /) -> NDArray[np.float64]:
        """An array of the given shape."""
        ...


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
