"""What must be drawn anew is drawn anew, in a real cluster: every mask of every try, every nonce; and what must go, goes.

Each of these was once changed by hand (a constant seed for A_j, a constant rotation of the basis, a fixed nonce, a blinding
key that stays) and no test noticed, because everything still adds up: only secrecy was gone.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from trimask_client import Client
from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_lab import Lab, some_people
from trimask_patience import patience
from trimask_server.suites.rows import provider_masking, unmasking
from trimask_server.suites.rows.masking_attempt import MaskingAttempts

Matrix = np.ndarray
NONCE = 12


class Watched:
    """Everything that was put on while two blocks were masked, the first try of each given up before it delivered."""

    def __init__(self) -> None:
        self.left: list[tuple[Matrix, Matrix]] = []
        self.right: list[tuple[Matrix, Any]] = []
        self.kept_keys: list[bool] = []
        self.nonces: list[bytes] = []
        self.wraps: list[bytes] = []


def _recorded(function: Callable[..., Any], found: list[Any], pick: Callable[..., Any]) -> Callable[..., Any]:
    def recorded(*arguments: Any) -> Any:
        before = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
        result = function(*arguments)
        found.append(pick(before, result))
        return result

    return recorded


@pytest.fixture(scope="module")
def watched(lab: Lab) -> Iterator[Watched]:
    seen, failed = Watched(), itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            provider_masking,
            "apply_left_mask",
            _recorded(
                provider_masking.apply_left_mask, seen.left, lambda given, made: (given[1], made.copy())
            ),
        )
        patch.setattr(
            provider_masking,
            "apply_right_mask",
            _recorded(provider_masking.apply_right_mask, seen.right, lambda given, made: (given[0], made[1])),
        )
        unmask, forget = unmasking.unmask_component, MaskingAttempts.forget

        def fail_first(*arguments: Any) -> Any:
            if next(failed) < 2:  # both components of the first try
                raise Refused(Reason.GRAM_CHANGED, "given up, so that there is a second try")
            return unmask(*arguments)

        async def look_first(self: MaskingAttempts, block: Any) -> None:
            # Pooled, so everything was delivered; the nodes' last answers may still be on their way back to them.
            states = [item for item in gc.get_objects() if isinstance(item, unmasking._Attempt)]

            def kept() -> bool:
                return any(state.key is not None or state.secrets for state in states if state.blinded)

            begun = time.monotonic()
            while kept() and time.monotonic() < begun + patience(10):  # noqa: ASYNC110 - not ours to signal
                await asyncio.sleep(0.02)
            seen.kept_keys.append(kept())
            await forget(self, block)

        patch.setattr(unmasking, "unmask_component", fail_first)
        patch.setattr(MaskingAttempts, "forget", look_first)
        signed = lab.open_study()
        people = some_people(48, 3)
        with Client(signed) as client:
            for person in people[:20]:
                client.submit(person)
            for name in ("R1", "R2"):
                sql = "SELECT payload FROM submissions WHERE payload IS NOT NULL AND study_id = ?"
                rows = lab.query(name, sql, (signed.study.id,))
                seen.nonces += [bytes(row[0])[:NONCE] for row in rows]
                seen.wraps += [
                    bytes(row[0])[:NONCE] for row in lab.query(name, "SELECT wrapped FROM data_keys")
                ]
            for person in people[20:]:
                client.submit(person)
        lab.close(signed.study)
        yield seen


def _apart(matrices: list[Matrix]) -> float:
    """The least distance of two of them."""
    return min(float(np.abs(one - two).max()) for one, two in itertools.combinations(matrices, 2))


def test_every_left_mask_is_drawn_anew(watched: Watched) -> None:
    """A_j, read off what it did. Entries have deviation 0.2: two draws never agree to 0.05 in all 576 of them."""
    masks = [made @ np.linalg.pinv(given) for given, made in watched.left]
    assert len(masks) >= 3  # two blocks, and the try that was given up
    for mask in masks:
        assert np.abs(mask @ mask.T - np.eye(len(mask))).max() < 1e-6
    assert _apart(masks) > 0.05
    assert min(float(np.abs(mask - np.eye(len(mask))).max()) for mask in masks) > 0.05


def test_every_right_mask_is_drawn_anew(watched: Watched) -> None:
    masks = [mask for _, mask in watched.right]
    assert len(masks) >= 6
    seeds = [seed for mask in masks for seed in (mask.frame_seed, mask.probe_seed)]
    assert len(set(seeds)) == len(seeds)
    # The rotation O of the basis: without a fresh one, the unmasking node has Gram-Schmidt of people's components.
    rotations = [mask.basis @ np.linalg.qr(given.T)[0] for given, mask in watched.right]
    for rotation in rotations:
        assert np.abs(rotation @ rotation.T - np.eye(len(rotation))).max() < 1e-6
    assert _apart(rotations) > 0.05


def test_no_blinding_key_is_kept_after_delivery(watched: Watched) -> None:
    assert watched.kept_keys == [False, False]


def test_no_nonce_is_used_twice_at_rest(watched: Watched) -> None:
    assert len(watched.nonces) == 40
    assert len(set(watched.nonces)) == 40
    assert len(set(watched.wraps)) == len(watched.wraps) >= 2
