"""Every coalition the report lists is carried out; every pair it does not list is tried and fails."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from trimask_attacks import attempts, beyond_chance, correlation, recover
from trimask_core.basics.errors import ParameterError
from trimask_core.rows.collusion import Topology, minimal_coalitions

Simulate = Callable[..., Any]

RING_OF_FIVE = Topology(5, 2, ("R2", "R3", "R4", "R5", "R1"))
SAFE_FIVE = Topology(5, 2, ("R2", "R3", "R4", "R1", "L2"))
LISTED = [
    Topology(2, 2, ("R1", "R2")),
    Topology(2, 2, ("R2", "R1")),
    Topology(2, 1, ("R1", "L1")),
    Topology(3, 2, ("R2", "R3", "R1")),
    Topology(3, 4, ("L2", "L3", "L4")),
    Topology(4, 2, ("R2", "R3", "R4", "R1")),
    Topology(4, 2, ("R2", "R3", "R1", "L2")),
    Topology(4, 3, ("L1", "collector", "L2", "R1")),
    RING_OF_FIVE,
    SAFE_FIVE,
]


@pytest.mark.parametrize("topology", LISTED, ids=lambda t: f"{t.right}x{t.left}:{','.join(t.unmasking)}")
def test_listed_coalitions_succeed(simulate: Simulate, topology: Topology) -> None:
    """Chains of solves are exact; an estimate is 8 standard deviations beyond chance on average, and passes 4.5
    with probability 0.9998: over some 15 estimates, false failure 3e-3 (the seed is fixed).
    """
    block = simulate(topology, 21)
    coalitions = minimal_coalitions(topology)
    assert coalitions
    for coalition in coalitions:
        found = recover(block.views, coalition)
        if coalition.exact:
            np.testing.assert_allclose(found, block.answers, atol=1e-6, err_msg=str(coalition.parties))
        else:
            assert beyond_chance(found, block.answers) > 4.5, coalition.parties


def test_attack_uses_only_what_members_hold(simulate: Simulate) -> None:
    """A step that credits a party with another's matrix is refused, so no chain can cheat."""
    block = simulate(SAFE_FIVE, 22, people=16)
    (coalition,) = (c for c in minimal_coalitions(SAFE_FIVE) if c.parties == ("R1", "R2", "collector"))
    held = next(step for step in coalition.steps if step.rule == "held" and step.gives.kind == "component")
    with pytest.raises(ParameterError):
        block.views.held(held._replace(party=SAFE_FIVE.parties.index("R5")))


@pytest.mark.parametrize("right", [3, 4, 5])
def test_ring_falls_to_the_collector_with_the_first_or_last_right_provider(
    simulate: Simulate, right: int
) -> None:
    """R_1 has X^1 and A X^K1, which are correlated; the collector has A X. Correlations 0.93, 0.86 and 0.79.

    One block's has a standard deviation of about 0.02 at n = 64; 0.6 is nine of them below the least.
    """
    topology = Topology(right, 2, tuple(f"R{k % right + 1}" for k in range(1, right + 1)))
    block = simulate(topology, 23)
    pairs = [c for c in minimal_coalitions(topology) if "collector" in c.parties and len(c.parties) == 2]
    assert [c.parties[0] for c in pairs] == ["R1", f"R{right}"]
    for coalition in pairs:
        assert correlation(recover(block.views, coalition), block.answers) > 0.6


def strongest(simulate: Simulate, topology: Topology, pair: tuple[str, ...], blocks: range) -> float:
    """The best attempt of a pair, in standard deviations of chance, evidence pooled over blocks."""
    found: dict[str, list[float]] = {}
    for seed in blocks:
        block = simulate(topology, seed)
        for name, estimate in attempts(block.views, pair).items():
            found.setdefault(name, []).append(beyond_chance(estimate, block.answers))
    pooled = [abs(sum(z)) / len(z) ** 0.5 for z in found.values()]
    return max([*pooled, *(abs(z) for zs in found.values() for z in zs)])


def check_every_pair_fails(simulate: Simulate, blocks: range) -> None:
    cached = {seed: simulate(SAFE_FIVE, seed) for seed in blocks}
    worst = {
        pair: strongest(lambda _, seed: cached[seed], SAFE_FIVE, pair, blocks)
        for pair in combinations(SAFE_FIVE.parties, 2)
    }
    assert len(worst) == 28
    assert max(worst.values()) < 5.5, max(worst, key=lambda pair: worst[pair])


def test_every_pair_fails_against_five_right_and_two_left_providers(simulate: Simulate) -> None:
    """336 attempts, 6 blocks each and pooled: 2,352 values, each beyond 5.5 by chance with probability 4e-8, so
    false failure 1e-4. An attack that reaches a correlation of 0.13 would be beyond it.
    """
    check_every_pair_fails(simulate, range(400, 406))


@pytest.mark.slow
def test_every_pair_fails_against_five_right_and_two_left_providers_long(simulate: Simulate) -> None:
    """The same over 60 blocks: 20,500 values, false failure 8e-4; a correlation of 0.045 would show."""
    check_every_pair_fails(simulate, range(500, 560))


def test_attempts_find_what_there_is_to_find(simulate: Simulate) -> None:
    """The control for the tests above: the same attempts on a ring do break it."""
    assert strongest(simulate, RING_OF_FIVE, ("R1", "collector"), range(400, 402)) > 10
    assert strongest(simulate, RING_OF_FIVE, ("R5", "collector"), range(400, 402)) > 10
    assert strongest(simulate, RING_OF_FIVE, ("R2", "collector"), range(400, 402)) < 5.5
