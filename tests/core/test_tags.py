"""Tags of components: known values, what each party's part says, and who holds which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.rows import arrays
from trimask_core.rows.arrays import expand_keys, read_component
from trimask_core.rows.collusion import key_holders
from trimask_core.rows.payloads import (
    PRIME,
    check_payload,
    expand_component,
    expand_key,
    expand_spare,
    form_of,
    payloads,
    read_elements,
    read_tags,
    signed,
    tag_component,
    tags_of,
    write_elements,
)
from trimask_core.rows.study import TAGS

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "core-tags.json").read_text())


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_known_tags(case: dict[str, Any]) -> None:
    seeds, spare = [bytes.fromhex(seed) for seed in case["keys"]], bytes.fromhex(case["spare"])
    keys = [expand_key(seed, case["columns"]) for seed in seeds]
    component = expand_component(
        bytes.fromhex(case["component_seed"]), case["columns"], float.fromhex(case["share_steps"])
    )
    tagged = tag_component(component, spare, keys)
    assert [[vector[:3] for vector in key.vectors] for key in keys] == case["first_entries"]
    assert f"{expand_spare(spare, case['columns'])[0]:032x}" == case["first_of_spare"]
    assert [[f"{tag:032x}" for tag in held] for held in tagged.tags] == case["tags"]
    assert [[f"{tag:032x}" for tag in held] for held in tagged.spare_tags] == case["spare_tags"]
    for seed, key in zip(seeds, keys, strict=True):
        assert expand_keys([seed], case["columns"])[0].tolist() == key.vectors


@pytest.mark.parametrize(
    ("unmasking", "holders"),
    [
        (("R2", "R3", "R1", "L2"), ((2,), (3,), (1,), (1, 2))),
        (("L1", "R1", "collector"), ((2, 3), (1,), (1, 2))),
        (("R1", "R2", "L2"), ()),
        (("R2", "R3", "R3"), ()),
    ],
)
def test_who_holds_a_key(unmasking: tuple[str, ...], holders: tuple[tuple[int, ...], ...]) -> None:
    """Nobody the key of its own component; nobody any, if somebody would."""
    assert key_holders(unmasking) == holders


def test_elements_on_the_wire() -> None:
    values = [0, 1, PRIME - 1, 2**126 + 5]
    assert read_elements(write_elements(values)) == values
    assert read_elements(b"\xff" * 16) == [(2**128 - 1) % PRIME]
    assert [signed(value) for value in (3, -3, PRIME + 3, PRIME - 3)] == [3, -3, 3, -3]


def test_tags_are_exact_at_the_largest_components() -> None:
    key = expand_key(bytes(range(32)), 64)
    component = [(2**53 - 1) * (-1) ** i for i in range(64)]
    for tag, offset, vector in zip(
        tags_of(component, key, key.offsets), key.offsets, key.vectors, strict=True
    ):
        assert signed(tag - offset) == sum(x * z for x, z in zip(component, vector, strict=True))


def test_what_right_providers_find_fits_together(make_study: Any, answers: Any) -> None:
    study = make_study(right=4).study
    made = payloads(study, answers, DeterministicRandom("device"))
    found = {k: read_tags(study, k, payload) for k, payload in enumerate(made, 1)}
    for k, payload in enumerate(made, 1):
        tagged = found[k].tagged
        seeds = [found[holder].keys[k] for holder in study.rows.tag_holders[k - 1]]
        keys = [expand_key(seed, study.rows.columns) for seed in seeds]
        assert tag_component(read_component(study, k, payload).tolist(), tagged.spare, keys) == tagged
        assert k not in found[k].keys
        for wrong in (payload[:-1], payload + b"\0", payload[:-32], payload[:40]):
            with pytest.raises(VerificationError):
                check_payload(form_of(study, k), wrong)


def test_a_study_in_which_some_unmask_their_own_has_no_tags(make_study: Any, answers: Any) -> None:
    study = make_study(right=3).study
    assert study.rows.tag_holders == ()
    made = payloads(study, answers, DeterministicRandom("device"))
    assert [len(payload) for payload in made] == [33, 33, 1 + 8 * study.rows.columns]


def test_a_last_component_longer_than_components_are_is_refused(make_study: Any, answers: Any) -> None:
    """Not by entries alone: all of them below 2^53, and together too long for the check's tolerance."""
    study = make_study(right=4).study
    payload = payloads(study, answers, DeterministicRandom("long"))[3]
    columns = study.rows.columns
    long = np.full(columns, 2**52, dtype="<i8").tobytes()
    check_payload(form_of(study, 4), payload)
    with pytest.raises(VerificationError, match="longer"):
        check_payload(form_of(study, 4), payload[:1] + long + payload[1 + 8 * columns :])


def test_a_tag_is_uniform_whatever_the_component() -> None:
    """2,000 tags a component, the leading bit of each: beyond 4.5 deviations with probability 7e-6 (a fixed seed)."""
    source = DeterministicRandom("uniform")
    for component in ([0] * 4, [2**52] * 4):
        high = sum(
            tag >> 126
            for _ in range(1000)
            for tag in tag_component(component, bytes(32), [expand_key(source.seed(), 4)]).tags[0]
        )
        assert abs(high - 1000 * TAGS / 2) < 4.5 * (1000 * TAGS / 4) ** 0.5


def test_arrays_give_the_numbers_of_a_device() -> None:
    """The largest and smallest there are, and whatever a right provider sends: exact, as whole numbers are."""
    source, columns, count = DeterministicRandom("tag arrays"), 37, 5
    seeds = [[source.seed(), source.seed()] for _ in range(count)]
    spares = [source.seed() for _ in range(count)]
    components = arrays.expand_components([source.seed() for _ in range(count)], columns, 2.0**46)
    components[0, :5] = [2**53 - 1, -(2**53) + 1, 0, -1, 1]
    components[1] = 2**53 - 1
    rows = components.tolist()
    made = arrays.tag_components(components, spares, seeds)
    assert made == [
        tag_component(row, spare, [expand_key(seed, columns) for seed in held])
        for row, spare, held in zip(rows, spares, seeds, strict=True)
    ]
    drawn = arrays.expand_spares(spares, columns)
    assert [read_elements(one.tobytes()) for one in drawn] == [expand_spare(one, columns) for one in spares]
    for e in (0, 1, PRIME - 1, int.from_bytes(source.seed(), "little") % PRIME):
        expected = [
            [(e * x + y) % PRIME for x, y in zip(row, expand_spare(spare, columns), strict=True)]
            for row, spare in zip(rows, spares, strict=True)
        ]
        assert arrays.combined(components, drawn, e).tobytes() == b"".join(map(write_elements, expected))
    ones = np.full((1, columns), 1, dtype=np.int64)  # e x + y = the prime itself is written as 0
    full = arrays.read_wide((PRIME - 1).to_bytes(16, "little") * columns, columns)
    assert arrays.combined(ones, full, 1).tobytes() == bytes(16 * columns)
    keys = np.full((2, TAGS, columns), -(2**44), dtype=np.int64)
    keys[1] = 2**44
    sent = [2**128 - 1, PRIME, 0, 1, *(2**127 + place for place in range(columns - 4))]
    wide = arrays.read_wide(b"".join(one.to_bytes(16, "little") for one in sent) * 2, columns)
    assert arrays.inner_products(wide, keys) == [
        [sum(sent) * sign * 2**44 % PRIME] * TAGS for sign in (-1, 1)
    ]
