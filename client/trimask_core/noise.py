"""The discrete Gaussian on the integers, sampled exactly.

Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Algorithms 1-3: only integer
arithmetic and fair bits, so that no floating-point residue of a person's answer survives in the noise. The
mechanism's privacy is that of the continuous Gaussian of the same sigma up to terms that vanish with the grid
(sigma is 10^7 grid steps or more in every study; their Theorem 7 and Proposition 30 bound the difference).
"""

from __future__ import annotations

from trimask_core.errors import ParameterError
from trimask_core.randomness import RandomSource

__all__ = ["DiscreteGaussian"]


class _Bits:
    """Uniform integers from a buffered source."""

    __slots__ = ("_buffer", "_position", "_source")

    def __init__(self, source: RandomSource) -> None:
        self._source = source
        self._buffer = b""
        self._position = 0

    def _take(self, count: int) -> int:
        if self._position + count > len(self._buffer):
            self._buffer = self._source.read(max(1024, count))
            self._position = 0
        start = self._position
        self._position += count
        return int.from_bytes(self._buffer[start : self._position], "little")

    def below(self, bound: int) -> int:
        """Uniform on 0..bound-1, by rejection."""
        bits = (bound - 1).bit_length()
        count = (bits + 7) // 8
        excess = 8 * count - bits
        while True:
            value = self._take(count) >> excess
            if value < bound:
                return value

    def coin(self) -> bool:
        return self._take(1) & 1 == 1


class DiscreteGaussian:
    """Integers with P(x) proportional to exp(-x^2 / (2 sigma^2)), for a whole `sigma` >= 1."""

    def __init__(self, sigma: int, source: RandomSource) -> None:
        if sigma < 1:
            raise ParameterError("sigma", "a whole number of grid steps >= 1", sigma)
        self._sigma = sigma
        self._bits = _Bits(source)

    def _bernoulli_exp_fraction(self, numerator: int, denominator: int) -> bool:
        """True with probability exp(-numerator/denominator), ratio in [0, 1] (Algorithm 1, first case)."""
        k = 1
        while self._bits.below(denominator * k) < numerator:
            k += 1
        return k % 2 == 1

    def _bernoulli_exp(self, numerator: int, denominator: int) -> bool:
        """True with probability exp(-numerator/denominator), any ratio >= 0 (Algorithm 1)."""
        while numerator > denominator:
            if not self._bernoulli_exp_fraction(1, 1):
                return False
            numerator -= denominator
        return self._bernoulli_exp_fraction(numerator, denominator)

    def _laplace(self, scale: int) -> int:
        """Discrete Laplace of a whole scale (Algorithm 2 with s = 1)."""
        while True:
            remainder = self._bits.below(scale)
            if not self._bernoulli_exp_fraction(remainder, scale):
                continue
            whole = 0
            while self._bernoulli_exp_fraction(1, 1):
                whole += 1
            magnitude = remainder + scale * whole
            if self._bits.coin():
                if magnitude == 0:
                    continue
                return -magnitude
            return magnitude

    def sample(self) -> int:
        """One value (Algorithm 3)."""
        sigma = self._sigma
        scale = sigma + 1
        variance = sigma * sigma
        while True:
            candidate = self._laplace(scale)
            # exp(-(|y| - sigma^2/t)^2 / (2 sigma^2)) = exp(-(t|y| - sigma^2)^2 / (2 sigma^2 t^2))
            distance = scale * abs(candidate) - variance
            if self._bernoulli_exp(distance * distance, 2 * variance * scale * scale):
                return candidate

    def samples(self, count: int) -> list[int]:
        """`count` independent values."""
        return [self.sample() for _ in range(count)]
