"""Whether right providers pass on the components that devices gave them (docs/theory/collection.md#tags).

For a row x of component k and a vector z of its key, X B Bᵀ Z = X Z: the first left provider has x B from R_k, z B from
the unmasking node, and compares (x B) (z B) with the tag less its offset, which is <x, z> as a whole number. Whoever
altered x without knowing z would have to guess a projection of the alteration on it.

What was opened of a row to check it is taken out before it is masked: x P with P = I - D D^T. Then (x P B) (z P B) is
compared with the tag less its offset and less (x D) (z D), which the unmasking node works out from what was opened.

Whether a device's tags are right is shown before its row is planned, since a wrong tag would stop its block. For the coin
e of a check, R_k shows the holder of a key e x + y modulo the prime, where y is the device's spare vector, uniform and
used this once, and the tags' same combination. Wrong tags pass for one e of 2^127 (docs/theory/collection.md#tags).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows.grid import Grid
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS
from trimask_core.rows.rotation import HaarFrame, Matrix
from trimask_core.rows.shares import expand_key_vectors, expand_tag_key
from trimask_core.rows.tags import (
    PRIME,
    TAGS,
    Tagged,
    add_elements,
    expand_spare,
    key_offsets,
    signed,
    tags_of,
)
from trimask_core.study.definition import Study
from trimask_server.suites.rows.check import directions
from trimask_server.suites.rows.math import RightMask

TOLERANCE = 2.0**-48
"""Of |x| |z B|: 32 units of rounding, where masking leaves about two (tests/server/test_tag_check.py)."""
_ORTHONORMAL = 1e-12  # per entry of Q Q^T, which a QR factorisation gives to about 1e-15


@dataclass(frozen=True)
class BlockKeys:
    """What one holder has for a block: a key's seed for each row, and the seed each row was checked with."""

    keys: Sequence[bytes] = field(repr=False)
    check_seeds: Sequence[bytes] = field(repr=False)


def mask_keys(
    study: Study, mask: RightMask, openings: Matrix, held: Sequence[BlockKeys]
) -> tuple[Matrix, list[int]]:
    """Z P B_k, `TAGS` rows for each row of the block, and what its tags have besides; `study` with the seed of B_0."""
    n, p = mask.basis.shape
    if any(len(one.keys) != n for one in held) or openings.shape != (n, CHECK_DIRECTIONS):
        raise Refused(Reason.WRONG_SHAPE, f"tag keys and openings of {n} rows were expected")
    seeds = held[0].check_seeds
    if len(seeds) != n or any(one.check_seeds != seeds for one in held):
        raise Refused(Reason.CHECK_DIFFERS, "holders of tag keys know the rows by different checks")
    # With a basis of its own choice R_k could have small numbers stand for large ones, and rounding for what it wants.
    if not np.abs(mask.basis @ mask.basis.T - np.eye(n)).max() <= _ORTHONORMAL:
        raise Refused(Reason.WRONG_SHAPE, "the basis of a right mask must have orthonormal rows")
    vectors = np.zeros((n, TAGS, p))
    for one in held:
        vectors += np.array([expand_key_vectors(seed, p) for seed in one.keys])
    besides = np.empty((n, TAGS))
    for seed in sorted(set(seeds)):
        these = [i for i, other in enumerate(seeds) if other == seed]
        taken = directions(study, seed)
        along = vectors[these] @ taken.T
        vectors[these] -= along @ taken
        besides[these] = np.einsum("id,itd->it", openings[these], along)
    offsets = [sum(values) for values in zip(*(_offsets(one.keys) for one in held), strict=True)]
    steps = np.ldexp(besides, -study.rows.grid_exponent).ravel()
    if not np.isfinite(steps).all():
        raise Refused(Reason.WRONG_SHAPE, "what was opened of a row may not be NaN or infinity")
    projected = vectors.reshape(n * TAGS, p) @ mask.basis.T
    masked = HaarFrame(mask.frame_seed, n, p).apply(projected)
    return masked, [
        (offset + round(step)) % PRIME for offset, step in zip(offsets, steps.tolist(), strict=True)
    ]


def _offsets(seeds: Sequence[bytes]) -> list[int]:
    return [offset for seed in seeds for offset in key_offsets(seed)[0]]


def check_tags(
    masked: Matrix, tags: Sequence[int], keys: Matrix, offsets: Sequence[int], grid: Grid, longest: float
) -> int | None:
    """The first row of X^k B_k, from 0, that its tags do not fit, or None; rows are no longer than `longest`.

    The bound is the study's and not the row's own length: R_k could lengthen what it sends where nobody looks.
    """
    rows = masked.shape[0]
    lengths = np.linalg.norm(masked, axis=1)
    found = np.einsum("ij,itj->it", masked, keys.reshape(rows, TAGS, -1))
    sent = np.ldexp(
        [float(signed(tag - offset)) for tag, offset in zip(tags, offsets, strict=True)], grid.exponent
    )
    allowed = TOLERANCE * longest * np.linalg.norm(keys, axis=1)
    wrong = ~(np.abs(found.ravel() - sent) <= allowed).reshape(rows, TAGS).all(axis=1)
    wrong |= ~(lengths <= longest * (1 + TOLERANCE))
    return int(np.flatnonzero(wrong)[0]) if wrong.any() else None


def challenge(seed: bytes) -> int:
    """e, from the seed of a check."""
    return int.from_bytes(hashlib.sha256(b"trimask tag challenge\0" + seed).digest(), "big") % PRIME


def combination(component: Sequence[int], tagged: Tagged, holder: int, e: int) -> tuple[list[int], list[int]]:
    """e x + y, and the same of the tags for one holder (from 0)."""
    spare = expand_spare(tagged.spare, len(component))
    values = [(e * x + y) % PRIME for x, y in zip(component, spare, strict=True)]
    return values, add_elements([[e * tag for tag in tagged.tags[holder]], tagged.spare_tags[holder]])


def combination_holds(values: Sequence[int], tags: Sequence[int], seed: bytes, e: int) -> bool:
    """Whether they fit the key that the seed stands for."""
    key = expand_tag_key(seed, len(values))
    offsets = add_elements([[e * offset for offset in key.offsets], key.spare_offsets])
    return tags_of(values, key, offsets) == [tag % PRIME for tag in tags]
