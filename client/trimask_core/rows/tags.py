"""Tags: how the first left provider detects a component that its right provider has altered.

A device draws, for each component x of its row, a secret key: `TAGS` vectors z of rounded Gaussians and as many uniform
offsets beta. R_k gets the component and the tags <x, z> + beta modulo a prime, which beta makes uniform; the key goes to
another. Where another right provider removes the component's right mask it is that one's. Where a left provider does, two
right providers get a key each, and the check is by the sum of both. Where R_k removes its own mask there is nobody to hold
a key, and the study has no tags at all.

A wrong tag would stop the block its row is in. So R_k also gets a spare vector y, uniform modulo the prime, with tags
of its own, and for a coin e of all right providers shows the holder of the key e x + y and the tags' same combination.

What is checked and why an alteration is found: docs/theory/collection.md#tags. Nothing here needs numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import mul

from trimask_core.basics.randomness import SEED_BYTES, RandomSource, Stream
from trimask_core.rows.noise_columns import PureNormals

TAGS = 2
"""Tags a component: an alteration passes the check of one with a small probability, and has to pass all of them."""
PRIME = 2**127 - 1
"""|<x, z>| is below 2^53 p 2^45, so that a difference modulo the prime is the number itself for p up to 2^28."""
ELEMENT_BYTES = 16
TAG_BYTES = TAGS * ELEMENT_BYTES
KEY_SCALE = 2.0**40
"""The standard deviation of the entries of z: so fine that rounding them to whole numbers does not show."""
NORMALS = b"tag key"
SPARE = b"spare vector"
_OFFSETS = b"tag offsets"


@dataclass(frozen=True)
class TagKey:
    """`TAGS` vectors, and offsets of the tags of a component and of its spare vector."""

    vectors: Sequence[Sequence[int]] = field(repr=False)
    offsets: Sequence[int] = field(repr=False)
    spare_offsets: Sequence[int] = field(repr=False)


@dataclass(frozen=True)
class Tagged:
    """What a right provider gets with a component: tags for each holder of a key, the spare vector's seed and its tags."""

    tags: Sequence[Sequence[int]] = field(repr=False)
    spare: bytes = field(repr=False)
    spare_tags: Sequence[Sequence[int]] = field(repr=False)


def key_holders(unmasking: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Which right providers hold a key of each component (1..K1); empty where a study has no tags."""
    right = range(1, len(unmasking) + 1)
    own = {f"R{k}": k for k in right}
    if any(own.get(role) == k for k, role in zip(right, unmasking, strict=True)):
        return ()
    return tuple(
        (own[role],) if role in own else tuple(j for j in right if j != k)[:2]
        for k, role in zip(right, unmasking, strict=True)
    )


def draw_keys(
    holders: Sequence[Sequence[int]], source: RandomSource
) -> list[tuple[bytes, tuple[bytes, ...]]]:
    """For each component a fresh seed of its spare vector, and of a key for each holder."""
    return [(source.seed(), tuple(source.seed() for _ in held)) for held in holders]


def key_offsets(seed: bytes) -> tuple[list[int], list[int]]:
    """The offsets of a key: of the component's tags, and of the spare vector's."""
    # 127 of 128 bits: uniform but for the one value in 2^127 that stands for 0 as well.
    drawn = [value & PRIME for value in _integers(Stream(seed, _OFFSETS).read(2 * TAG_BYTES))]
    return drawn[:TAGS], drawn[TAGS:]


def expand_key(seed: bytes, columns: int) -> TagKey:
    """The key a seed stands for. The same integers on every machine."""
    normals = PureNormals(seed, NORMALS).standard_normal(TAGS * columns)
    values = [round(normal * KEY_SCALE) for normal in normals]
    return TagKey([values[t * columns : (t + 1) * columns] for t in range(TAGS)], *key_offsets(seed))


def expand_spare(seed: bytes, columns: int) -> list[int]:
    """The spare vector a seed stands for."""
    return [value & PRIME for value in _integers(Stream(seed, SPARE).read(ELEMENT_BYTES * columns))]


def tags_of(vector: Sequence[int], key: TagKey, offsets: Sequence[int]) -> list[int]:
    """<x, z> + beta modulo the prime, for each z of the key and beta of the offsets."""
    return [
        (sum(map(mul, vector, z)) + offset) % PRIME for z, offset in zip(key.vectors, offsets, strict=True)
    ]


def tag_component(component: Sequence[int], spare: bytes, keys: Sequence[TagKey]) -> Tagged:
    """A component's tags, and its spare vector's, under every key."""
    vector = expand_spare(spare, len(component))
    return Tagged(
        [tags_of(component, key, key.offsets) for key in keys],
        spare,
        [tags_of(vector, key, key.spare_offsets) for key in keys],
    )


def tag_bytes(holders: Sequence[Sequence[int]]) -> int:
    """What tags and keys add to a submission, all its parts together."""
    return sum(SEED_BYTES + (2 * TAG_BYTES + SEED_BYTES) * len(held) for held in holders)


def signed(element: int) -> int:
    """The whole number between -PRIME/2 and PRIME/2 that an element stands for."""
    element %= PRIME
    return element if element <= PRIME // 2 else element - PRIME


def add_elements(terms: Sequence[Sequence[int]]) -> list[int]:
    """Sums modulo the prime, place by place."""
    return [sum(values) % PRIME for values in zip(*terms, strict=True)]


def write_elements(elements: Sequence[int]) -> bytes:
    """Field elements, little-endian and 16 bytes each."""
    return b"".join((element % PRIME).to_bytes(ELEMENT_BYTES, "little") for element in elements)


def read_elements(data: bytes) -> list[int]:
    """What `write_elements` wrote; a number above the prime stands for its remainder."""
    return [value % PRIME for value in _integers(data)]


def _integers(data: bytes) -> list[int]:
    return [
        int.from_bytes(data[at : at + ELEMENT_BYTES], "little") for at in range(0, len(data), ELEMENT_BYTES)
    ]
