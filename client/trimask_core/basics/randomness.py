"""Where every mask, share, seed and noise value comes from.

Two things only: a `RandomSource`, the operating system's generator, from which fresh secrets are drawn; and a
`Stream`, AES-256 in counter mode under a key derived from a full 32-byte seed, from which whatever two parties
must expand alike is expanded. Neither is NumPy's: a generator that can be rewound from its output, or that folds
a key into 32 bits, breaks the protocol.

Gaussian noise on the integers is sampled exactly: the discrete Gaussian, and the Gaussian rounded to whole numbers.
Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Algorithms 1-3: only integer
arithmetic and fair bits, so that no floating-point artefact of a person's answer is left in the noise. The mechanism's
privacy is that of the continuous Gaussian of the same sigma up to terms that vanish with the grid (their Theorem 7 and
Proposition 30 bound the difference). What a mask adds to it is docs/theory/calibration.md#discrete-noise.

Karney, "Sampling exactly from the normal distribution" (2016), Algorithm N: a normal number of which as many digits are
drawn as its rounding needs. A whole number plus a rounded Gaussian is a rounding of the Gaussian mechanism's answer, so
it has exactly that mechanism's guarantee, in mu and in (epsilon, delta), at any sigma.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import TYPE_CHECKING, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trimask_core.basics.errors import ParameterError, UnsafeRandomness

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


SEED_BYTES = 32


class RandomSource(Protocol):
    """Fresh, unpredictable bytes."""

    def read(self, count: int) -> bytes:
        """`count` fresh random bytes."""
        ...

    def seed(self) -> bytes:
        """A fresh 32-byte seed."""
        ...


class SystemRandom:
    """The operating system's generator. The only source outside tests."""

    def read(self, count: int) -> bytes:
        return os.urandom(count)

    def seed(self) -> bytes:
        return os.urandom(SEED_BYTES)


class DeterministicRandom:
    """A repeatable source for tests. Refused anywhere else: a repeatable mask is no mask."""

    def __init__(self, label: str) -> None:
        if "pytest" not in sys.modules:
            raise UnsafeRandomness(
                "DeterministicRandom is for tests only; leave the source out to use the system's generator"
            )
        self._stream = Stream(hashlib.sha256(label.encode()).digest(), b"test double")

    def read(self, count: int) -> bytes:
        return self._stream.read(count)

    def seed(self) -> bytes:
        return self._stream.read(SEED_BYTES)


def derive_key(secret: bytes, label: bytes) -> bytes:
    """A 32-byte key for one purpose (`label`), by HKDF-SHA256."""
    return HKDF(SHA256(), length=32, salt=None, info=b"trimask/v1/" + label).derive(secret)


class Stream:
    """The bytes a 32-byte seed stands for under a label; the same on every machine."""

    __slots__ = ("_encryptor",)

    def __init__(self, seed: bytes, label: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ParameterError("seed", f"{SEED_BYTES} bytes", len(seed))
        # A fresh key for every (seed, label), so the counter may start at zero.
        self._encryptor = Cipher(algorithms.AES256(derive_key(seed, label)), modes.CTR(bytes(16))).encryptor()

    def __repr__(self) -> str:
        return "Stream(<secret>)"

    def read(self, count: int) -> bytes:
        """The next `count` bytes."""
        return self._encryptor.update(bytes(count))

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` little-endian 64-bit words."""
        import numpy as np  # imported here: a device does not need numpy

        return np.frombuffer(self.read(8 * count), dtype="<u8").astype(np.uint64, copy=False)


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

    def exp_minus(self, numerator: int, denominator: int) -> bool:
        """True with probability exp(-numerator/denominator), ratio in [0, 1] (CKS, Algorithm 1, first case)."""
        k = 1
        while self.below(denominator * k) < numerator:
            k += 1
        return k % 2 == 1


class DiscreteGaussian:
    """Integers with P(x) proportional to exp(-x^2 / (2 sigma^2)), for a whole `sigma` >= 1."""

    def __init__(self, sigma: int, source: RandomSource) -> None:
        if sigma < 1:
            raise ParameterError("sigma", "a whole number of grid steps >= 1", sigma)
        self._sigma = sigma
        self._bits = _Bits(source)

    def _bernoulli_exp(self, numerator: int, denominator: int) -> bool:
        """True with probability exp(-numerator/denominator), any ratio >= 0 (Algorithm 1)."""
        while numerator > denominator:
            if not self._bits.exp_minus(1, 1):
                return False
            numerator -= denominator
        return self._bits.exp_minus(numerator, denominator)

    def _laplace(self, scale: int) -> int:
        """Discrete Laplace of a whole scale (Algorithm 2 with s = 1)."""
        while True:
            remainder = self._bits.below(scale)
            if not self._bits.exp_minus(remainder, scale):
                continue
            whole = 0
            while self._bits.exp_minus(1, 1):
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


class _Digits:
    """A uniform number in [0, 1) whose binary digits are drawn when they are looked at."""

    __slots__ = ("_bits", "count", "value")

    def __init__(self, bits: _Bits) -> None:
        self._bits = bits
        self.value, self.count = 0, 0

    def grow(self) -> None:
        """One byte of digits more."""
        self.value = self.value << 8 | self._bits.below(256)
        self.count += 8

    def above_another(self) -> bool:
        """Whether a fresh uniform number is below this one: true with this very probability."""
        place = 0
        while True:
            while place >= self.count:
                self.grow()
            digit = self.value >> (self.count - 1 - place) & 1
            if digit != self._bits.coin():
                return digit == 1
            place += 1


class RoundedGaussian:
    """Whole numbers with the law of round(sigma Z), Z standard normal, for whole `sigma`."""

    def __init__(self, source: RandomSource) -> None:
        self._bits = _Bits(source)

    def _normal(self) -> tuple[int, _Digits]:
        """|Z| as its whole part k and the digits behind it (Algorithm N): exp(-(k + x)^2/2) in three factors."""
        bits = self._bits
        while True:
            k = 0
            while bits.exp_minus(1, 2):
                k += 1
            if not all(bits.exp_minus(1, 2) for _ in range(k * (k - 1))):
                continue
            x = _Digits(bits)
            if all(self._keep(k, x) for _ in range(k + 1)):
                return k, x

    def _keep(self, k: int, x: _Digits) -> bool:
        """True with probability exp(-x (2k + x)/(2k + 2)): one more trial of x (2k + x)/(2k + 2)/m each time."""
        bits, m = self._bits, 1
        while bits.below(m) == 0 and x.above_another():
            part = bits.below(2 * k + 2)
            if part > 2 * k or (part == 2 * k and not x.above_another()):
                break
            m += 1
        return m % 2 == 1

    def sample(self, sigma: int) -> int:
        """One value."""
        if sigma < 1:
            raise ParameterError("sigma", "a whole number of grid steps >= 1", sigma)
        k, x = self._normal()
        while True:
            # sigma (k + x) + 1/2 lies in [low, high); when both ends have one whole part, that is the rounding.
            low = 2 * sigma * ((k << x.count) + x.value) + (1 << x.count)
            high = low + 2 * sigma - 1
            if low >> x.count + 1 == high >> x.count + 1:
                return (low >> x.count + 1) * (-1 if self._bits.coin() else 1)
            x.grow()
