"""Blinded delivery: the collector sees the sum over components of A X^k, and no A X^k.

For every pair of components k < l the two unmasking nodes share a secret by X25519 between keys drawn for this attempt,
expand it to a uniform matrix modulo 2^64, and add it to one delivery and subtract it from the other. The private keys
are forgotten with the attempt, so nothing seized later opens a delivery that was recorded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimask_core.randomness import Stream, derive_key
from trimask_core.sealing import SealingKey

__all__ = ["blind", "sum_deliveries"]

_CHUNK = 1 << 16  # words at a time, so that the stream stays in cache


def blind(
    values: NDArray[np.int64], component: int, own: SealingKey, publics: dict[int, bytes], context: bytes
) -> NDArray[np.uint64]:
    """`values` plus this component's pairwise masks. `publics[l]` is the key of component l's unmasking node.

    Where one node unmasks both of a pair it agrees with itself, which nobody else can.
    """
    blinded = values.astype(np.int64, copy=True).view(np.uint64)
    for other, public in publics.items():
        if other == component:
            continue
        low, high = sorted((component, other))
        label = b"blinding\0" + context + low.to_bytes(2, "big") + high.to_bytes(2, "big")
        stream = Stream(derive_key(own.agree(public), label), b"blinding")
        flat = blinded.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            mask = stream.words(part.size)
            if component == low:
                part += mask
            else:
                part -= mask
    return blinded


def sum_deliveries(deliveries: list[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """The masks cancel in the sum modulo 2^64; what remains is A X on the grid."""
    total = deliveries[0].copy()
    for delivery in deliveries[1:]:
        total += delivery
    return total.view(np.int64)
