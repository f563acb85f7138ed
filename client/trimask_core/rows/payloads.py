"""What a device makes of answers in the rows suite: components of a row, and the payloads that right providers open.

Order matters (docs/architecture.md, the path of `rows`, step 1): encode, clip if the study asks for it, multiply by the
root of the weight if it has one, round to the grid, add discrete Gaussian noise; then the noise columns under B_0; then
round and split. What follows the noise is post-processing of integers, so floating point after that step cannot weaken
the guarantee of a row; that of a release rests on docs/theory/calibration.md#discrete-noise and #second-rounding as well.

A payload is a seed for right providers 1..K1-1, the last component itself for the last. In studies with tags
the component's tags and spare vector follow, and then keys of others' components, in the order
of those. Making them is the device's part and needs no numpy; checking and reading them is a node's.

By tags the first left provider detects a component that its right provider has altered.

A device draws, for each component x of its row, a secret key: `TAGS` vectors z of rounded Gaussians and as many uniform
offsets beta. R_k gets the component and the tags <x, z> + beta modulo a prime, which beta makes uniform; the key goes to
another. Where another right provider removes the component's right mask it is that one's. Where a left provider does, two
right providers get a key each, and the check is by the sum of both. Where R_k removes its own mask there is nobody to hold
a key, and the study has no tags at all.

A wrong tag would stop the block its row is in. So R_k also gets a spare vector y, uniform modulo the prime, with tags
of its own, and for a coin e of all right providers shows the holder of the key e x + y and the tags' same combination.

What is checked and why an alteration is found: docs/theory/collection.md#tags.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from struct import pack
from typing import TYPE_CHECKING

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import SEED_BYTES, DiscreteGaussian, RandomSource, Stream
from trimask_core.crypto.keys import SEED, VECTOR, PayloadForm
from trimask_core.rows.noise_columns import PureNormals, normals_from_words, secure_normals
from trimask_core.rows.study import EXACT_INTEGERS, TAGS
from trimask_core.study.definition import Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


LOW_BITS = 20
COMPONENT = b"component"


def shorten_row(row: Sequence[float], limit: float) -> list[float]:
    """The row, brought to norm `limit` if it is longer. The sum is rounded once, so that every client gets the same bits."""
    norm = math.sqrt(math.fsum(value * value for value in row))
    return [value * (limit / norm) for value in row] if norm > limit else list(row)


def noisy_answers(study: Study, answers: Mapping[str, object], source: RandomSource) -> list[int]:
    """x1 on the grid with its discrete Gaussian noise: the last place the answers themselves are seen."""
    limit = study.protection.row_norm
    row = shorten_row(
        study.schema.encode(answers), limit
    )  # where the study asks for a smaller R than the schema allows
    if study.weight is not None:
        root = study.weight.root(study.schema, answers)
        row = [value * root for value in row]
    # Rounding to nearest keeps |value| <= 1, so it cannot lengthen a row beyond the schema's R; a smaller R it could.
    clipped = limit < study.schema.row_norm
    steps = [
        study.rows.grid.truncate_one(value) if clipped else study.rows.grid.round_one(value) for value in row
    ]
    if study.protection.sigma:
        noise = DiscreteGaussian(study.rows.grid.steps_up(study.protection.sigma), source).samples(len(row))
        steps = [step + extra for step, extra in zip(steps, noise, strict=True)]
    return steps


def mask_row(study: Study, x1: Sequence[int], source: RandomSource) -> list[int]:
    """x B_0 on the grid. x2 B_0[p1:] has the law of g - (g F^T) F for g ~ N(0, tau^2 I_p), so F alone is needed.

    A trace of g F^T stays, a few grid steps: it makes what is lost by rounding independent of the answers and their noise
    (docs/theory/calibration.md#second-rounding).
    """
    frame, grid = study.rows.row_frame, study.rows.grid
    g = [study.rows.tau * value for value in secure_normals(source).standard_normal(study.rows.columns)]
    answers = (math.ldexp(step, grid.exponent) for step in x1)
    taken = 1.0 - study.rows.frame_share
    shift = [value - taken * seen for value, seen in zip(answers, frame.unapply(g), strict=True)]
    return [grid.round_one(a + b) for a, b in zip(g, frame.apply(shift), strict=True)]


def expand_component(seed: bytes, columns: int, scale_steps: float) -> list[int]:
    """The component a seed stands for: the integers of `trimask_core.rows.arrays.expand_component`."""
    stream = Stream(seed, COMPONENT)
    even = columns + (columns & 1)
    normals = normals_from_words(struct.unpack(f"<{even}Q", stream.read(8 * even)))
    scale = scale_steps * 2.0**-LOW_BITS
    low_bits, middle = (1 << LOW_BITS) - 1, 1 << (LOW_BITS - 1)
    return [
        (round(normal * scale) << LOW_BITS) + (word & low_bits) - middle
        for normal, word in zip(
            normals, struct.unpack(f"<{columns}I", stream.read(4 * columns)), strict=False
        )
    ]


def component_seeds(right_providers: int, scale_steps: float, source: RandomSource) -> tuple[bytes, ...]:
    """Fresh seeds of components 1..K1-1, if components of this scale can hide a row."""
    if right_providers < 2:
        raise ParameterError("right_providers", ">= 2", right_providers)
    if not scale_steps >= 2.0 ** (LOW_BITS + 8):
        raise ParameterError("scale_steps", f">= 2^{LOW_BITS + 8}, or the low bits would show", scale_steps)
    return tuple(source.seed() for _ in range(right_providers - 1))


def split_row(
    row: Sequence[int], right_providers: int, scale_steps: float, source: RandomSource
) -> tuple[tuple[bytes, ...], list[list[int]]]:
    """Seeds of components 1..K1-1, and all components: what the seeds stand for, and the row minus those."""
    seeds = component_seeds(right_providers, scale_steps, source)
    components = [expand_component(seed, len(row), scale_steps) for seed in seeds]
    remainder = list(row)
    for component in components:
        remainder = [value - part for value, part in zip(remainder, component, strict=True)]
    _check_headroom(remainder)
    return seeds, [*components, remainder]


def _check_headroom(component: Sequence[int]) -> None:
    if not all(-EXACT_INTEGERS < value < EXACT_INTEGERS for value in component):
        raise VerificationError(
            "a component does not fit 53 bits; the study's grid leaves too little headroom"
        )


Keys = Sequence[tuple[bytes, Sequence[bytes]]]
"""For each component the seed of its spare vector, and of a key for each holder."""


def payloads(study: Study, answers: Mapping[str, object], source: RandomSource) -> list[bytes]:
    """One payload a right provider, from what a person answered."""
    row = mask_row(study, noisy_answers(study, answers, source), source)
    seeds, components = split_row(row, len(study.right), study.rows.share_steps, source)
    keys = draw_keys(study.rows.tag_holders, source)
    tagged = [
        tag_component(component, spare, [expand_key(seed, study.rows.columns) for seed in held])
        for component, (spare, held) in zip(components, keys, strict=False)  # no keys in studies without tags
    ]
    return component_payloads(study, seeds, pack(f"<{len(row)}q", *components[-1]), tagged, keys)


def component_payloads(
    study: Study, seeds: Sequence[bytes], vector: bytes, tagged: Sequence[Tagged], keys: Keys
) -> list[bytes]:
    """Components as payloads: the seeds, and the last one's values, little-endian and 8 bytes each; tags and keys."""
    made = [*(SEED + seed for seed in seeds), VECTOR + vector]
    for k, one in enumerate(tagged):
        made[k] += b"".join(map(write_elements, one.tags)) + one.spare
        made[k] += b"".join(map(write_elements, one.spare_tags))
    for holders, (_, held) in zip(study.rows.tag_holders, keys, strict=True):
        for holder, key in zip(holders, held, strict=True):
            made[holder - 1] += key
    return made


def check_headroom(component: NDArray[np.int64]) -> None:
    """Refuse a component that float64 cannot hold exactly (12 standard deviations away; it never wraps)."""
    # Not by np.abs: the least int64 is its own absolute value.
    if component.size and not -EXACT_INTEGERS < component.min() <= component.max() < EXACT_INTEGERS:
        raise VerificationError(
            "a component does not fit 53 bits; the study's grid leaves too little headroom"
        )


def form_of(study: Study, provider: int) -> PayloadForm:
    """The form of payloads for right provider `provider` (1..K1)."""
    rows = study.rows
    held = len(_keys_of(study, provider))
    more = _tag_bytes(study, provider) + SEED_BYTES * held if rows.tag_holders else 0
    longest = math.ldexp(rows.longest_component, -rows.grid_exponent)
    return PayloadForm("rows", provider, len(study.right), rows.columns, more, longest)


def check_payload(form: PayloadForm, payload: bytes) -> None:
    """Refuse an opened payload of another form, without expanding it."""
    kind, body, more = split_payload(form, payload)
    if more != form.more:
        raise VerificationError(
            f"a component for R{form.provider} must be followed by {form.more} bytes of tags and keys"
        )
    if form.provider < form.providers:
        if kind != SEED or len(body) != SEED_BYTES:
            raise VerificationError(f"a component for R{form.provider} must be a 32-byte seed")
        return
    if kind != VECTOR or len(body) != 8 * form.values:
        raise VerificationError(f"a component for R{form.provider} must be a vector of {form.values} values")
    import numpy as np  # imported here: only nodes need numpy, devices do not

    vector = np.frombuffer(body, dtype="<i8")
    check_headroom(vector)
    if not np.linalg.norm(vector.astype(np.float64)) <= form.longest:
        raise VerificationError(
            f"a component for R{form.provider} is longer than components of this study are"
        )


@dataclass(frozen=True)
class TagPart:
    """What comes with a component: its tags and spare vector, and a key of each component in `keys`."""

    tagged: Tagged
    keys: Mapping[int, bytes] = field(repr=False)


def read_tags(study: Study, provider: int, payload: bytes) -> TagPart:
    """The tags and keys in an opened payload whose form was checked, in a study with tags."""
    rest = payload[len(payload) - form_of(study, provider).more :]
    size = _tag_bytes(study, provider)
    half = (size - SEED_BYTES) // 2
    tags, spare, spare_tags, keys = (
        rest[:half],
        rest[half : half + SEED_BYTES],
        rest[half + SEED_BYTES : size],
        rest[size:],
    )
    seeds = [keys[at : at + SEED_BYTES] for at in range(0, len(keys), SEED_BYTES)]
    tagged = Tagged(_by_holder(tags), spare, _by_holder(spare_tags))
    return TagPart(tagged, dict(zip(_keys_of(study, provider), seeds, strict=True)))


def _by_holder(tags: bytes) -> list[list[int]]:
    return [read_elements(tags[at : at + TAG_BYTES]) for at in range(0, len(tags), TAG_BYTES)]


def _tag_bytes(study: Study, provider: int) -> int:
    """Of a component's own tags: for each holder of a key two sets of them, and the spare vector's seed."""
    return 2 * TAG_BYTES * len(study.rows.tag_holders[provider - 1]) + SEED_BYTES


def _keys_of(study: Study, provider: int) -> list[int]:
    """The components of which this provider holds a key."""
    return [k for k, holders in enumerate(study.rows.tag_holders, 1) if provider in holders]


def split_payload(form: PayloadForm, payload: bytes) -> tuple[bytes, bytes, int]:
    """Kind, component, and how many bytes follow it."""
    size = 1 + (SEED_BYTES if form.provider < form.providers else 8 * form.values)
    if (
        not form.more or len(payload) < size + form.more
    ):  # whatever is wrong is the component's size: its own words say so
        return payload[:1], payload[1 : max(1, len(payload) - form.more)], form.more
    return payload[:1], payload[1:size], len(payload) - size
