"""A sum of rounded Gaussians is a rounded Gaussian, up to a total variation that is stated.

Statement. Let R_1..R_h be independent with the law of round(N(0, d^2)), d >= 1. For h >= 2 the law of R_1 + ... + R_h is
within the total variation
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
the 2 L + 1 whole numbers within, and the two tails,
add up to twice the total variation. Proved; nothing is assumed.
"""

from __future__ import annotations

import math

from trimask_theory import _checks

__all__ = ["log_slack", "log_total_variation"]


def log_total_variation(deviation: float, summands: int) -> float:
    """log tv(d, h): how far a sum of `summands` Gaussians, each rounded, is from one rounded Gaussian."""
    d = _checks.at_least("deviation", deviation, 1.0, "a finite number >= 1")
    h = _checks.whole("summands", summands, 1)
    if h == 1:
        return -math.inf
    spread = math.log(h + 1 + 2 * math.pi * d * d * math.sqrt(2 * h)) + h * math.log(4.02)
    return min(0.0, math.log(0.5) - (math.pi * d) ** 2 + spread + math.log1p(2 * math.exp(-spread)))


def log_slack(epsilon: float, deviation: float, summands: int, entries: int) -> float:
    """log of what is added to delta at `epsilon` when `entries` sums have noise of at least `deviation` a summand."""
    epsilon = _checks.non_negative("epsilon", epsilon)
    both = epsilon + math.log1p(math.exp(-epsilon))
    return both + math.log(_checks.whole("entries", entries, 1)) + log_total_variation(deviation, summands)
