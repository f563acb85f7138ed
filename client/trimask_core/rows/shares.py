"""A row as the sum of K1 components, K1 - 1 of them seeds: what nodes and gateways do with them, by numpy.

Components 1..K1-1 are expanded from 32-byte seeds, Gaussian of scale s on the grid; component K1 is the row minus
their sum, in exact integers. A coalition that lacks one component sees the row plus N(0, s^2 I): mu-Gaussian DP with
mu = |r - r'|/s (docs/theory/collection.md#shares), so a study states mu and derives s = 2 R / mu.

Each value is a normal rounded to 2^20 steps plus 20 uniform low bits. A floating-point normal alone has gaps in
its tails, and a sum that falls in one gives the row away; with the low bits every integer nearby is reachable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import Stream
from trimask_core.rows.device import LOW_BITS
from trimask_core.rows.grid import EXACT_INTEGERS
from trimask_core.rows.rotation import NormalStream, normals_from_words
from trimask_core.rows.tags import KEY_SCALE, NORMALS, TAGS, TagKey, key_offsets

_LABEL = b"component"


def expand_component(seed: bytes, columns: int, scale_steps: float) -> NDArray[np.int64]:
    """The component a seed stands for. The same integers on every machine."""
    component: NDArray[np.int64] = expand_components([seed], columns, scale_steps)[0]
    return component


def expand_components(seeds: Sequence[bytes], columns: int, scale_steps: float) -> NDArray[np.int64]:
    """The components that seeds stand for, a row each: many at once cost little more than one."""
    streams = [Stream(seed, _LABEL) for seed in seeds]
    even = columns + (columns & 1)
    words = np.concatenate([stream.words(even) for stream in streams])
    normals = normals_from_words(words).reshape(len(streams), even)[:, :columns]
    coarse = np.rint(normals * (scale_steps * 2.0**-LOW_BITS)).astype(np.int64)
    bits = np.frombuffer(b"".join(stream.read(4 * columns) for stream in streams), dtype="<u4")
    low = (bits & np.uint32((1 << LOW_BITS) - 1)).reshape(len(streams), columns)
    components: NDArray[np.int64] = (coarse << LOW_BITS) + low.astype(np.int64) - (1 << (LOW_BITS - 1))
    return components


def expand_key_vectors(seed: bytes, columns: int) -> NDArray[np.int64]:
    """The vectors of the tag key a seed stands for, a row each: those of `trimask_core.rows.tags.expand_key`."""
    normals = NormalStream(seed, NORMALS).standard_normal((TAGS, columns))
    return np.rint(normals * KEY_SCALE).astype(np.int64)


def expand_tag_key(seed: bytes, columns: int) -> TagKey:
    """The whole key, as `trimask_core.rows.tags.expand_key` gives it, in a tenth of the time."""
    return TagKey(expand_key_vectors(seed, columns).tolist(), *key_offsets(seed))


def check_headroom(component: NDArray[np.int64]) -> None:
    """Refuse a component that float64 cannot hold exactly (12 standard deviations away; it never wraps)."""
    # Not by np.abs: the least int64 is its own absolute value.
    if component.size and not -EXACT_INTEGERS < component.min() <= component.max() < EXACT_INTEGERS:
        raise VerificationError(
            "a component does not fit 53 bits; the study's grid leaves too little headroom"
        )
