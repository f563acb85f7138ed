"""Deliveries: the masks cancel in the sum and hide each part."""

from __future__ import annotations

import numpy as np
import pytest

from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SEALINGS, Pairing, Sealing, SealingKey
from trimask_server.suites.rows.math import blind, sum_deliveries


def secrets_of(owners: list[str], context: bytes, kind: Sealing) -> dict[str, dict[int, bytes]]:
    """Of each node, its secret with the node of each component, once all shares have been carried."""
    source = DeterministicRandom("blinding")
    sides = {name: Pairing(SealingKey.generate(source, kind), name, context) for name in sorted(set(owners))}
    publics = {name: side.key.public for name, side in sides.items()}
    return {
        name: {
            k: side.secret(other, publics[other], sides[other].share(name, publics[name]))
            for k, other in enumerate(owners, 1)
        }
        for name, side in sides.items()
    }


@pytest.mark.parametrize("kind", SEALINGS)
@pytest.mark.parametrize("owners", [["R2", "R3", "R1"], ["R1", "R2"], ["R3", "R3", "R1"], ["R1", "R1", "R1"]])
def test_masks_cancel_and_hide(owners: list[str], kind: Sealing) -> None:
    """A blinded value is uniform: the mean of 12,000 top bits is within 6 standard deviations of 1/2."""
    secrets = secrets_of(owners, b"try 1", kind)
    rng = np.random.default_rng(0)
    values = [rng.integers(-(1 << 52), 1 << 52, size=(40, 300)) for _ in owners]
    deliveries = [
        blind(v, k, secrets[name], b"try 1")
        for k, (v, name) in enumerate(zip(values, owners, strict=True), 1)
    ]
    assert (sum_deliveries(deliveries) == sum(values)).all()
    for delivery, value in zip(deliveries, values, strict=True):
        assert not (delivery.view(np.int64) == value).any()
        top = (delivery >> np.uint64(63)).mean()
        assert abs(top - 0.5) < 6 * 0.5 / np.sqrt(delivery.size)


def test_another_try_has_other_masks() -> None:
    secrets = secrets_of(["R1", "R2"], b"try 1", "hybrid")["R1"]
    values = np.zeros((3, 5), dtype=np.int64)
    assert (blind(values, 1, secrets, b"try 1") != blind(values, 1, secrets, b"try 2")).any()


def test_sum_wraps_exactly_at_the_edge() -> None:
    edge = np.array([[np.iinfo(np.int64).max]])
    assert (
        sum_deliveries([edge.view(np.uint64), np.array([[1]]).view(np.uint64)])[0, 0]
        == np.iinfo(np.int64).min
    )
