"""The payloads of the rows suite: what each right provider finds when it opens its sealed part of a submission.

A seed for right providers 1..K1-1, the last component itself for the last. In studies with tags
(`trimask_core.rows.tags`) the component's tags and spare vector follow, and then keys of others' components, in the order
of those. Making them is the device's part and needs no numpy; checking and reading them is a node's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import pack
from typing import TYPE_CHECKING

from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import SEED_BYTES, RandomSource
from trimask_core.crypto.keys import SEED, VECTOR, PayloadForm
from trimask_core.rows.device import mask_row, noisy_answers, split_row
from trimask_core.rows.tags import (
    TAG_BYTES,
    Tagged,
    draw_keys,
    expand_key,
    read_elements,
    tag_component,
    write_elements,
)
from trimask_core.study.definition import Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


def form_of(study: Study, provider: int) -> PayloadForm:
    """The form of payloads for right provider `provider` (1..K1)."""
    rows = study.rows
    held = len(_keys_of(study, provider))
    more = _tag_bytes(study, provider) + SEED_BYTES * held if rows.tag_holders else 0
    longest = math.ldexp(rows.longest_component, -rows.grid_exponent)
    return PayloadForm("rows", provider, len(study.right), rows.columns, more, longest)


def check_payload(form: PayloadForm, payload: bytes) -> None:
    """Refuse an opened payload of another form, without expanding it."""
    kind, body, more = _split(form, payload)
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
    import numpy as np  # imported here and below: only nodes need numpy, devices do not

    from trimask_core.rows.shares import check_headroom

    vector = np.frombuffer(body, dtype="<i8")
    check_headroom(vector)
    if not np.linalg.norm(vector.astype(np.float64)) <= form.longest:
        raise VerificationError(
            f"a component for R{form.provider} is longer than components of this study are"
        )


def read_component(study: Study, provider: int, payload: bytes) -> NDArray[np.int64]:
    """The component in one opened payload for right provider `provider` (1..K1); its form is checked."""
    component: NDArray[np.int64] = read_components(study, provider, [payload])[0]
    return component


def read_components(study: Study, provider: int, payloads: Sequence[bytes]) -> NDArray[np.int64]:
    """The components in opened payloads for right provider `provider` (1..K1), a row each; their form is checked."""
    import numpy as np

    from trimask_core.rows.shares import expand_components

    form, columns = form_of(study, provider), study.rows.columns
    for payload in payloads:
        check_payload(form, payload)
    bodies = [_split(form, payload)[1] for payload in payloads]
    if provider < len(study.right) and bodies:
        return expand_components(bodies, columns, study.rows.share_steps)
    values = np.frombuffer(b"".join(bodies), dtype="<i8").reshape(len(bodies), columns)
    components: NDArray[np.int64] = values.astype(np.int64)
    return components


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


def _split(form: PayloadForm, payload: bytes) -> tuple[bytes, bytes, int]:
    """Kind, component, and how many bytes follow it."""
    size = 1 + (SEED_BYTES if form.provider < form.providers else 8 * form.values)
    if (
        not form.more or len(payload) < size + form.more
    ):  # whatever is wrong is the component's size: its own words say so
        return payload[:1], payload[1 : max(1, len(payload) - form.more)], form.more
    return payload[:1], payload[1:size], len(payload) - size
