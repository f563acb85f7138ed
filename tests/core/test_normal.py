"""Normals: the same bits as a scalar evaluation, and the right law, in the tails too."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from trimask_core.basics.randomness import DeterministicRandom, Stream
from trimask_core.rows.arrays import NormalStream, SecureNormals, normals_from_words

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "core-normal.json").read_text())
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
HALF_PI = float.fromhex("0x1.921fb54442d18p+0")
EDGES = [0, 1, 2, 3, 1 << 52, 1 << 53, (1 << 53) + 1, 1 << 61, (1 << 62) - 1, 1 << 62, 1 << 63, (1 << 64) - 1]


def horner(coefficients: list[float], x: float) -> float:
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def scalar_pair(radius_word: int, angle_word: int) -> tuple[float, float]:
    """Box-Muller with Python floats and +, -, *, /, sqrt, frexp: what a phone without NumPy would do."""
    mantissa, whole = math.frexp((float(radius_word) + 1.0) * 2.0**-64)
    exponent = float(whole)
    if mantissa < SQRT_HALF:
        mantissa, exponent = mantissa * 2.0, exponent - 1.0
    f = (mantissa - 1.0) / (mantissa + 1.0)
    atanh = horner([1.0 / (2 * k + 1) for k in range(12)], f * f)
    log_uniform = exponent * LN2 + 2.0 * f * atanh
    radius = math.sqrt(max(-2.0 * log_uniform, 0.0))

    quadrant = angle_word >> 62
    angle = (float(angle_word & ((1 << 62) - 1)) * 2.0**-62 - 0.5) * HALF_PI
    square = angle * angle
    sine = angle * horner([(-1.0) ** k / math.factorial(2 * k + 1) for k in range(10)], square)
    cosine = horner([(-1.0) ** k / math.factorial(2 * k) for k in range(10)], square)
    first, second = (-sine, cosine) if quadrant & 1 else (cosine, sine)
    if quadrant >> 1:
        radius = -radius
    return radius * first, radius * second


def bits(values: NDArray[np.float64]) -> list[str]:
    # + 0.0 so that the two zeros, which no computation tells apart, compare equal.
    return [float(value + 0.0).hex() for value in values]


def as_words(words: list[int]) -> NDArray[np.uint64]:
    return np.array(words, dtype=np.uint64)


def test_known_answers() -> None:
    words = [int(word, 16) for word in VECTORS["words"]]
    assert bits(normals_from_words(as_words(words))) == VECTORS["normals"]


def test_a_scalar_evaluation_gives_the_same_bits() -> None:
    words = Stream(bytes(32), b"scalar").words(40_000).tolist()
    words += [word for a in EDGES for b in EDGES for word in (a, b)]
    scalar = [value for i in range(0, len(words), 2) for value in scalar_pair(words[i], words[i + 1])]
    vector = normals_from_words(as_words(words))
    assert bits(vector) == bits(np.array(scalar))


def test_chunks_and_alignment_change_no_bit() -> None:
    words = Stream(bytes(32), b"chunks").words(2 * (1 << 14) + 6)
    whole = normals_from_words(words)
    pieces = [normals_from_words(words[i : i + 2]) for i in range(32_760, words.size, 2)]
    assert np.array_equal(whole[32_760:], np.concatenate(pieces))


def test_against_forty_digits() -> None:
    """Box-Muller itself, evaluated by mpmath: within 4 ulp, or 1e-16 near a zero of sine or cosine."""
    words = Stream(bytes(32), b"digits").words(400).tolist() + [w for a in EDGES for w in (a, 1 << 61, 7, a)]
    values = normals_from_words(as_words(words))
    with mpmath.workdps(40):
        for i in range(0, len(words), 2):
            # The angle 0 is the middle of the first quadrant's word range.
            uniform = mpmath.mpf(words[i] + 1) / 2**64
            quadrant, rest = divmod(words[i + 1], 1 << 62)
            turn = (mpmath.mpf(rest) / 2**62 - mpmath.mpf(1) / 2 + quadrant) * mpmath.pi / 2
            radius = mpmath.sqrt(-2 * mpmath.log(min(uniform, mpmath.mpf(1))))
            for got, true in zip(
                values[i : i + 2].tolist(),
                (radius * mpmath.cos(turn), radius * mpmath.sin(turn)),
                strict=True,
            ):
                # Words are rounded to 53 bits first, which near u = 1 moves the radius by up to 2^-27.
                slack = 2.0**-26 if uniform > 0.999 else 8 * 2.0**-53 * max(1.0, float(radius))
                assert abs(got - true) <= slack


def test_the_largest_radius_is_that_of_64_bits() -> None:
    # |z| <= sqrt(2 * 64 ln 2) = 9.4193; the middle of a quadrant is the angle 0.
    assert normals_from_words(as_words([0, 1 << 61]))[0] == pytest.approx(
        math.sqrt(128 * math.log(2)), rel=1e-15
    )
    assert normals_from_words(as_words([(1 << 64) - 1, 1 << 61])).tolist() == [0.0, 0.0]


def test_quadrants_turn_by_right_angles() -> None:
    angle = 123456789 << 30
    x, y = normals_from_words(as_words([5 << 50, angle])).tolist()
    turned = [normals_from_words(as_words([5 << 50, angle + (q << 62)])).tolist() for q in (1, 2, 3)]
    assert turned == [[-y, x], [-x, -y], [y, -x]]


def test_law() -> None:
    """Kolmogorov-Smirnov, four moments and independence of pairs at 400,000 values; each set for 1e-6."""
    z = NormalStream(bytes(32), b"law").standard_normal(400_000)
    assert stats.kstest(z, "norm").pvalue > 1e-6
    pairs = z.reshape(-1, 2)
    assert (
        stats.kstest(np.arctan2(pairs[:, 1], pairs[:, 0]), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-6
    )
    assert stats.kstest((pairs**2).sum(axis=1), stats.chi2(2).cdf).pvalue > 1e-6
    # Var z^k: 1, 2, 15, 96; 4.9 standard deviations is 1e-6.
    for power, mean, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs((z**power).mean() - mean) < 4.9 * math.sqrt(variance / z.size)
    for lag in (1, 2, 3):
        assert abs((z[:-lag] * z[lag:]).mean()) < 4.9 / math.sqrt(z.size - lag)


@pytest.mark.parametrize("threshold", [2.0, 3.0, 4.0])
def test_tail_counts(threshold: float) -> None:
    """Binomial counts beyond 2, 3 and 4 at a million values, two-sided, set for 1e-6 each."""
    z = NormalStream(bytes(32), b"tails").standard_normal(1_000_000)
    for count in (int((z > threshold).sum()), int((z < -threshold).sum())):
        assert stats.binomtest(count, z.size, stats.norm.sf(threshold)).pvalue > 1e-6


def test_deep_tail_by_the_radius() -> None:
    """P(r > t) = exp(-t^2 / 2) holds word by word: the number of words with r > t is 2^64 exp(-t^2/2)."""
    for threshold in (5.0, 7.0, 9.0):
        boundary = int(mpmath.mpf(2) ** 64 * mpmath.exp(-(mpmath.mpf(threshold) ** 2) / 2))
        inside = normals_from_words(as_words([max(0, boundary - boundary // 1000 - 2), 1 << 61]))[0]
        outside = normals_from_words(as_words([boundary + boundary // 1000 + 2, 1 << 61]))[0]
        assert outside < threshold < inside


def test_streams_repeat_and_odd_counts_drop_one() -> None:
    stream = NormalStream(bytes(32), b"odd")
    first, second = stream.standard_normal(3), stream.standard_normal((1, 2))
    again = NormalStream(bytes(32), b"odd").standard_normal(6)
    assert np.array_equal(first, again[:3])
    assert np.array_equal(second[0], again[4:])


def test_secure_normals_take_a_fresh_seed_each() -> None:
    source = DeterministicRandom("fresh")
    assert not np.array_equal(
        SecureNormals(source).standard_normal(8), SecureNormals(source).standard_normal(8)
    )
