"""Where every mask, share, seed and noise value comes from.

Two things only: a `RandomSource`, the operating system's generator, from which fresh secrets are drawn; and a
`Stream`, AES-256 in counter mode under a key derived from a full 32-byte seed, from which whatever two parties
must expand alike is expanded. Neither is NumPy's: a generator that can be rewound from its output, or that folds
a key into 32 bits, breaks the protocol.
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
