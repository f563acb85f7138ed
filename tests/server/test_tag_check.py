"""The check by tags: rounding is far below its tolerance, and alterations far above."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom, SystemRandom
from trimask_core.rows.arrays import NormalStream, expand_components, tag_components
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS
from trimask_core.rows.payloads import PRIME, add_elements, expand_key, signed, tags_of
from trimask_core.rows.study import TAGS, Grid
from trimask_server.suites.rows.check import (
    TOLERANCE,
    BlockKeys,
    challenge,
    check_tags,
    combinations,
    combinations_hold,
    directions,
    mask_keys,
)
from trimask_server.suites.rows.math import apply_right_mask

GRID = Grid(-26)
SPREAD = 2.0**49  # of a component's entries, in steps


class Block:
    """A component, its tags, keys and openings, as they reach the parties of a try."""

    def __init__(self, n: int, p: int, label: str, holders: int = 1, checks: int = 1) -> None:
        self.source = source = DeterministicRandom(label)
        rows = SimpleNamespace(
            device_seed=source.seed(), noise_columns=p - 2, columns=p, grid=GRID, grid_exponent=GRID.exponent
        )
        self.study: Any = SimpleNamespace(rows=rows, attributes=2, id=SystemRandom().seed())
        steps = np.rint(NormalStream(source.seed(), b"component").standard_normal((n, p)) * SPREAD)
        self.longest = float(np.ldexp(SPREAD * (np.sqrt(p) + 12), GRID.exponent))
        self.component = np.ldexp(steps, GRID.exponent)
        checked = [source.seed() for _ in range(checks)]
        seeds = [checked[i % checks] for i in range(n)]
        self.taken = [directions(self.study, seed) for seed in seeds]
        self.held = [BlockKeys([source.seed() for _ in range(n)], seeds) for _ in range(holders)]
        self.tags = []
        for i, row in enumerate(steps.astype(np.int64).tolist()):
            keys = [expand_key(one.keys[i], p) for one in self.held]
            self.tags += add_elements([tags_of(row, key, key.offsets) for key in keys])

    def masked(self, component: Any = None) -> tuple[Any, Any, Any, list[int]]:
        """What R_k sends the first left provider, its mask, and what U_k sends there."""
        x = self.component if component is None else component
        openings = np.array([row @ taken.T for row, taken in zip(x, self.taken, strict=True)])
        left = np.array([row - (row @ taken.T) @ taken for row, taken in zip(x, self.taken, strict=True)])
        masked, mask = apply_right_mask(left, self.source)
        return masked, mask, *mask_keys(self.study, mask, openings, self.held)

    def check(self, component: Any = None, tags: Any = None, stretch: float = 0.0) -> int | None:
        """Mask what R_k sends, and check it."""
        masked, _, keys, offsets = self.masked(component)
        masked[0] *= 1 + stretch
        return check_tags(masked, tags or self.tags, keys, offsets, GRID, self.longest)


@pytest.fixture(scope="module")
def block() -> Block:
    return Block(24, 150, "tags")


def test_rows_as_they_were_sent_pass(block: Block) -> None:
    assert block.check() is None
    assert Block(5, 60, "two", holders=2, checks=3).check() is None


@pytest.mark.parametrize(("n", "p"), [(4, 50), (24, 150), (64, 300), (160, 700)])
def test_rounding_is_a_quarter_of_the_tolerance_at_most(n: int, p: int) -> None:
    """Fixed seeds, so this cannot fail by chance. Of |x| |z B| rounding has a spread of 1.9e-16 to 3.5e-16, over 15,000
    rows of these sizes; the tolerance is 3.6e-15 of a length that is half as much again."""
    block = Block(n, p, f"rounding {n}")
    masked, _, keys, offsets = block.masked()
    found = np.einsum("ij,itj->it", masked, keys.reshape(n, TAGS, p)).ravel()
    sent = [float(signed(tag - offset)) for tag, offset in zip(block.tags, offsets, strict=True)]
    error = np.abs(found - np.ldexp(sent, GRID.exponent))
    assert (error <= TOLERANCE / 4 * block.longest * np.linalg.norm(keys, axis=1)).all()


def test_an_alteration_is_found_and_its_row_named(block: Block) -> None:
    """2^-38 of the row's length, in a direction of its own, in one row."""
    for row in (0, 7, 23):
        altered = block.component.copy()
        altered[row, 3] += np.linalg.norm(altered[row]) * 2.0**-38
        assert block.check(altered) == row


def test_rows_that_change_places_are_found(block: Block) -> None:
    altered = block.component.copy()
    altered[[4, 9]] = altered[[9, 4]]
    assert block.check(altered) == 4


def test_another_tag_is_found(block: Block) -> None:
    tags = list(block.tags)
    tags[2 * 5 + 1] = (tags[2 * 5 + 1] + 2**70) % PRIME
    assert block.check(tags=tags) == 5


def test_a_row_longer_than_rows_are_is_found(block: Block) -> None:
    assert block.check(stretch=3.0) == 0


def test_what_was_opened_is_checked_too(block: Block) -> None:
    """R_k that lies about what is taken out of a row is found out as well: z has a part along it."""
    masked, mask, *_ = block.masked()
    openings = np.array([row @ taken.T for row, taken in zip(block.component, block.taken, strict=True)])
    openings[3, 0] += np.linalg.norm(block.component[3]) * 2.0**-38
    sent = mask_keys(block.study, mask, openings, block.held)
    assert check_tags(masked, block.tags, *sent, GRID, block.longest) == 3


def test_what_does_not_fit_the_block_is_refused(block: Block) -> None:
    _, mask, *_ = block.masked()
    openings, (held,) = np.zeros((24, CHECK_DIRECTIONS)), block.held

    def refused(words: str, mask: Any, openings: Any, held: Any) -> None:
        with pytest.raises(Refused, match=words):
            mask_keys(block.study, mask, openings, held)

    refused("orthonormal", dataclasses.replace(mask, basis=mask.basis * (1 + 1e-9)), openings, [held])
    refused("24 rows", mask, openings[:-1], [held])
    refused("24 rows", mask, openings, [BlockKeys(held.keys[:-1], held.check_seeds)])
    refused("different checks", mask, openings, [held, BlockKeys(held.keys, [bytes(32)] * 24)])
    refused("different checks", mask, openings, [BlockKeys(held.keys, held.check_seeds[1:])])
    refused("NaN", mask, openings + np.inf, [held])


# The tags of a device


def test_right_tags_hold_and_wrong_ones_do_not() -> None:
    """Each row of a message for itself: the others stay right beside a wrong one."""
    source = DeterministicRandom("spare")
    seeds = [[source.seed(), source.seed()] for _ in range(3)]
    components = expand_components([source.seed() for _ in seeds], 20, 2.0**46)
    right = tag_components(components, [source.seed() for _ in seeds], seeds)
    e = challenge(source.seed())

    def hold(rows: Any, tagged: Any, shown_to: int, holder: int, at: int = e) -> list[bool]:
        keys = [held[holder] for held in seeds]
        return combinations_hold(*combinations(rows, tagged, shown_to, e), keys, 20, at)

    for holder in (0, 1):
        assert hold(components, right, holder, holder) == [True] * 3
        assert hold(components, right, 1 - holder, holder) == [False] * 3
        assert hold(components, right, holder, holder, e + 1) == [False] * 3
        one = right[1]
        for wrong in (
            dataclasses.replace(one, tags=[[tag + 1 for tag in tags] for tags in one.tags]),
            dataclasses.replace(one, spare_tags=[[tags[0], tags[1] + 1] for tags in one.spare_tags]),
            dataclasses.replace(one, spare=bytes(32)),
        ):
            assert hold(components, [right[0], wrong, right[2]], holder, holder) == [True, False, True]
        altered = components.copy()
        altered[2, 0] += 1
        assert hold(altered, right, holder, holder) == [True, True, False]
