"""ML-KEM-768 (FIPS 203), the half that a device needs: `encapsulate` to a public key.

For where `cryptography` is too old to have it (Android's packages); elsewhere that does it, and nodes open with nothing
else. No branch and no index depends on a secret. That Python's integers take the same time for all values nobody promises;
what is secret here is drawn for one message and forgotten. Held to NIST's vectors and, both ways, to `cryptography`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from trimask_core.basics.errors import VerificationError

PUBLIC_BYTES, CIPHERTEXT_BYTES, RANDOM_BYTES = 1184, 1088, 32
_Q, _N, _K = 3329, 256, 3
_Poly = list[int]


def _reversed_bits(value: int) -> int:
    return int(f"{value:07b}"[::-1], 2)


_ZETAS = [pow(17, _reversed_bits(i), _Q) for i in range(128)]
_GAMMAS = [pow(17, 2 * _reversed_bits(i) + 1, _Q) for i in range(128)]


def _bit_groups(data: bytes, bits: int) -> Iterator[int]:
    """ByteDecode without its reduction: whole numbers of so many bits, the lowest first."""
    whole, mask = int.from_bytes(data, "little"), (1 << bits) - 1
    step = 8 * bits  # cut into pieces of eight numbers first: shifting the whole each time is slow
    for at in range(0, 8 * len(data), step):
        piece = whole >> at & (1 << step) - 1
        for shift in range(0, step, bits):
            yield piece >> shift & mask


def _pack(poly: _Poly, bits: int) -> bytes:
    """ByteEncode: what `_bit_groups` reads."""
    whole = 0
    for value in reversed(poly):
        whole = whole << bits | value
    return whole.to_bytes(_N * bits // 8, "little")


def _compress(poly: _Poly, bits: int) -> _Poly:
    """Compress: nearest(2^bits x / q) mod 2^bits, without a division whose time could tell x."""
    return [((((x << bits) + 1664) * 1290168) >> 32) & (1 << bits) - 1 for x in poly]


def _uniform(seed: bytes) -> _Poly:
    """SampleNTT: from SHAKE128, of public bytes alone, so it may reject."""
    size = 672
    while True:
        numbers = _bit_groups(hashlib.shake_128(seed).digest(size), 12)
        found = [value for value in numbers if value < _Q][:_N]
        if len(found) == _N:
            return found
        size += 168


def _small(seed: bytes, number: int) -> _Poly:
    """SamplePolyCBD with eta = 2: a difference of two sums of two bits."""
    groups = _bit_groups(hashlib.shake_256(seed + bytes([number])).digest(128), 4)
    return [(g & 1) + (g >> 1 & 1) - (g >> 2 & 1) - (g >> 3) for g in groups]


def _ntt(poly: _Poly) -> _Poly:
    f, i, size = list(poly), 1, 128
    while size >= 2:
        for start in range(0, _N, 2 * size):
            zeta, i = _ZETAS[i], i + 1
            for j in range(start, start + size):
                t = zeta * f[j + size] % _Q
                f[j], f[j + size] = f[j] + t, f[j] - t
        size //= 2
    return [value % _Q for value in f]


def _back(poly: _Poly) -> _Poly:
    """The inverse of `_ntt`."""
    f, i, size = list(poly), 127, 2
    while size <= 128:
        for start in range(0, _N, 2 * size):
            zeta, i = _ZETAS[i], i - 1
            for j in range(start, start + size):
                t = f[j]
                f[j], f[j + size] = (t + f[j + size]) % _Q, zeta * (f[j + size] - t) % _Q
        size *= 2
    return [value * 3303 % _Q for value in f]


def _inner(rows: list[_Poly], columns: list[_Poly]) -> _Poly:
    """The sum of products of transforms, pair by pair modulo X^2 - gamma."""
    total = [0] * _N
    for a, b in zip(rows, columns, strict=True):
        for i in range(128):
            a0, a1, b0, b1 = a[2 * i], a[2 * i + 1], b[2 * i], b[2 * i + 1]
            total[2 * i] += a0 * b0 + a1 * b1 % _Q * _GAMMAS[i]
            total[2 * i + 1] += a0 * b1 + a1 * b0
    return [value % _Q for value in total]


def encapsulate(public: bytes, random: bytes) -> tuple[bytes, bytes]:
    """ML-KEM.Encaps with the randomness given: the shared secret and the ciphertext.

    A key that is not in its canonical form is refused (FIPS 203, section 7.2).
    """
    if len(public) != PUBLIC_BYTES or len(random) != RANDOM_BYTES:
        raise VerificationError("an ML-KEM-768 public key has 1,184 bytes, and takes 32 random ones")
    numbers, rho = list(_bit_groups(public[:1152], 12)), public[1152:]
    if max(numbers) >= _Q:
        raise VerificationError("an ML-KEM-768 public key has a number that is not below q")
    shared = hashlib.sha3_512(random + hashlib.sha3_256(public).digest()).digest()
    secret, coins = shared[:32], shared[32:]
    y = [_ntt(_small(coins, i)) for i in range(_K)]
    ciphertext = b""
    for i in range(_K):
        column = [_uniform(rho + bytes([i, j])) for j in range(_K)]  # of A transposed
        u = [a + e for a, e in zip(_back(_inner(column, y)), _small(coins, _K + i), strict=True)]
        ciphertext += _pack(_compress([value % _Q for value in u], 10), 10)
    t = [numbers[i * _N : (i + 1) * _N] for i in range(_K)]
    message = _bit_groups(random, 1)
    noisy = zip(_back(_inner(t, y)), _small(coins, 2 * _K), message, strict=True)
    v = [(value + e + bit * 1665) % _Q for value, e, bit in noisy]
    return secret, ciphertext + _pack(_compress(v, 4), 4)
