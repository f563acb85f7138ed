"""The collusion report: who would have to collude, by knowledge closure."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.rows.collusion import (
    Topology,
    default_unmasking,
    minimal_coalitions,
    refuse_single_breaker,
    report,
    suggest,
)
from trimask_core.rows.collusion_closure import breaking_counts, breaks, close

# No pair of parties breaks these: the last component is unmasked by a left provider, and the holder of the
# last component unmasks nothing.
SAFE_AGAINST_PAIRS = {4: ("R2", "R3", "R1", "L2"), 5: ("R2", "R3", "R4", "R1", "L2")}


def ring(right: int, left: int = 2) -> Topology:
    return Topology(right, left, tuple(f"R{k % right + 1}" for k in range(1, right + 1)))


def groups(topology: Topology, size: int | None = None) -> set[str]:
    found = minimal_coalitions(topology)
    return {" ".join(c.parties) for c in found if size is None or len(c.parties) == size}


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    right, left = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    names = Topology(right, left, ("R1",) * right).parties
    nodes = draw(st.lists(st.sampled_from(names), min_size=right, max_size=right))
    return Topology(right, left, tuple(nodes))


# Known answers


def test_two_right_providers_that_unmask_their_own() -> None:
    topology = Topology(2, 2, ("R1", "R2"))
    assert groups(topology) == {"R1 R2", "R1 collector", "R2 collector", "L1 L2 collector"}


def test_two_right_providers_in_a_ring_break_alone() -> None:
    assert report(ring(2)).single_breakers == ("R1", "R2")


@pytest.mark.parametrize(
    ("right", "without_collector"),
    [(3, {"R1 R2", "R1 R3", "R2 R3"}), (4, {"R1 R3", "R2 R4"}), (5, set()), (6, set())],
)
def test_pairs_that_break_a_ring(right: int, without_collector: set[str]) -> None:
    """R_1 unmasks the last component and R_K1 holds it: each has two correlated components, and the collector A X."""
    with_collector = {"R1 collector", f"R{right} collector"}
    assert groups(ring(right), 2) == without_collector | with_collector


@pytest.mark.parametrize("right", [4, 5])
def test_no_pair_breaks_when_a_left_provider_unmasks_the_last_component(right: int) -> None:
    found = report(Topology(right, 2, SAFE_AGAINST_PAIRS[right]))
    assert found.largest_safe == 2
    assert "No 2 parties together" in found.summary


@pytest.mark.parametrize("left", [2, 3, 5])
def test_first_and_last_left_provider_do_not_need_the_others(left: int) -> None:
    """They see one component before and after all left masks, so more left providers than two do not help here."""
    assert f"L1 L{left} collector" in groups(ring(5, left))


def test_a_single_left_provider_breaks_with_the_collector() -> None:
    assert "L1 collector" in groups(ring(5, 1))


def test_collector_with_all_unmasking_nodes_but_one_gets_the_last_by_subtraction() -> None:
    trace: dict[object, object] = {}
    topology = Topology(3, 2, ("L1", "L2", "L2"))
    members = sum(1 << topology.parties.index(name) for name in ("L2", "collector"))
    close(3, 2, topology.unmasking_index, members, trace=trace)  # type: ignore[arg-type]
    assert any(step.rule == "remainder" for step in trace.values())  # type: ignore[attr-defined]


def test_all_right_providers_always_break() -> None:
    for topology in (ring(3), ring(6), Topology(4, 2, SAFE_AGAINST_PAIRS[4])):
        members = (1 << topology.right) - 1
        assert close(topology.right, topology.left, topology.unmasking_index, members, align=False)[0]


# Properties of the closure


@settings(max_examples=60, deadline=None, derandomize=True)
@given(topologies())
def test_adding_parties_never_hurts_and_no_listed_coalition_has_a_spare_member(topology: Topology) -> None:
    nodes, count = topology.unmasking_index, len(topology.parties)
    broken = {m: close(topology.right, topology.left, nodes, m)[0] for m in range(1 << count)}
    assert not broken[0]
    assert broken[(1 << count) - 1]
    for members, breaks_it in broken.items():
        if breaks_it:
            assert all(broken[members | 1 << party] for party in range(count))
    minimal = {
        m
        for m, breaks_it in broken.items()
        if breaks_it and not any(m >> i & 1 and broken[m & ~(1 << i)] for i in range(count))
    }
    listed = {sum(1 << topology.parties.index(p) for p in c.parties) for c in minimal_coalitions(topology)}
    assert listed == minimal


@settings(max_examples=60, deadline=None, derandomize=True)
@given(topologies())
def test_chains_start_from_what_members_hold_and_end_at_the_rows(topology: Topology) -> None:
    for coalition in minimal_coalitions(topology):
        known = set()
        for step in coalition.steps:
            assert known.issuperset(step.needs)
            assert (step.rule == "held") == (not step.needs)
            if step.rule == "held":
                assert topology.parties[step.party] in coalition.parties
            known.add(step.gives)
        assert coalition.steps[-1].rule == "rows"
        holders = {topology.parties[step.party] for step in coalition.steps if step.rule == "held"}
        assert holders == set(coalition.parties)
        estimated = any(
            step.rule == "correlate"
            or (step.rule == "align" and all(f.kind == "component" for f in step.needs))
            for step in coalition.steps
        )
        assert estimated != coalition.exact


@settings(max_examples=40, deadline=None, derandomize=True)
@given(topologies())
def test_symmetries_of_the_search_change_no_answer(topology: Topology) -> None:
    right, left, nodes = topology.right, topology.left, topology.unmasking_index
    for members in range(1, 1 << len(topology.parties)):
        group = [i for i in range(len(topology.parties)) if members >> i & 1]
        assert breaks(right, left, nodes, group) == close(right, left, nodes, members)[0]


# Suggestion


@pytest.mark.parametrize(("right", "left"), [(2, 1), (2, 3), (3, 2), (3, 3), (4, 1)])
def test_suggestion_is_the_best_of_all_assignments(right: int, left: int) -> None:
    parties = range(right + left + 1)

    def plain_counts(nodes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            sum(close(right, left, nodes, sum(1 << i for i in g))[0] for g in combinations(parties, size))
            for size in (1, 2)
        )

    best = min(plain_counts(nodes) for nodes in product(parties, repeat=right))
    assert plain_counts(suggest(right, left).unmasking_index) == best


@pytest.mark.parametrize(("right", "left", "pairs"), [(3, 4, 0), (4, 2, 0), (5, 2, 0), (6, 6, 0)])
def test_suggestion_withstands_pairs(right: int, left: int, pairs: int) -> None:
    assert breaking_counts(right, left, suggest(right, left).unmasking_index)[:2] == (0, pairs)


def test_suggestion_keeps_to_the_candidates() -> None:
    found = suggest(5, 2, candidates=["R1", "R2", "R3", "R4", "R5"])
    assert set(found.unmasking) <= {"R1", "R2", "R3", "R4", "R5"}
    # Whoever unmasks the last component holds another, so with the collector one pair always remains.
    assert breaking_counts(5, 2, found.unmasking_index)[:2] == (0, 1)


def test_default_assignment() -> None:
    assert default_unmasking(2, 2) == ("R1", "R2")
    assert default_unmasking(3, 2) == ("R1", "R2", "L2")
    assert default_unmasking(4, 2) == ("R2", "R3", "R1", "L2")


@pytest.mark.parametrize(("right", "left"), [(4, 2), (4, 5), (5, 2), (5, 3), (8, 2)])
def test_default_assignment_withstands_pairs_from_four_right_providers_on(right: int, left: int) -> None:
    topology = Topology(right, left, default_unmasking(right, left))
    assert breaking_counts(right, left, topology.unmasking_index)[:2] == (0, 0)


def test_default_assignment_of_three_has_fewer_breaking_pairs_than_a_ring() -> None:
    default = Topology(3, 2, default_unmasking(3, 2))
    assert breaking_counts(3, 2, default.unmasking_index)[:2] == (0, 2)
    assert breaking_counts(3, 2, ring(3).unmasking_index)[:2] == (0, 5)


# Refusals


@pytest.mark.parametrize("topology", [ring(2), Topology(1, 2, ("L1",)), Topology(3, 2, ("L1", "L1", "L1"))])
def test_single_breaker_refused(topology: Topology) -> None:
    with pytest.raises(ImpossibleStudy, match="alone") as refusal:
        refuse_single_breaker(topology)
    assert refusal.value.reason == "single_breaker"


@pytest.mark.parametrize("topology", [Topology(2, 1, ("R1", "R2")), ring(3), ring(5)])
def test_topology_without_single_breaker_accepted(topology: Topology) -> None:
    refuse_single_breaker(topology)
    assert report(topology).single_breakers == ()


@pytest.mark.parametrize(
    ("right", "left", "unmasking"),
    [(0, 2, ()), (2, 0, ("R1", "R2")), (3, 2, ("R1", "R2")), (2, 2, ("R1", "R3")), (2, 2, ("R1", "device"))],
)
def test_impossible_topology_refused(right: int, left: int, unmasking: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError):
        Topology(right, left, unmasking)


# The report


def test_report_in_plain_words() -> None:
    text = report(Topology(2, 2, ("R1", "R2"))).text()
    assert "R1 + collector             every row\n" in text
    assert "R1 + R2                    every row\n" in text
    assert "they know B0" in text
    assert text.startswith("No party alone, following the protocol, can recover answers")


def test_report_as_json() -> None:
    found = json.loads(json.dumps(report(ring(4)).to_dict()))
    assert found["largest_safe"] == 1
    assert found["unmasking"] == ["R2", "R3", "R4", "R1"]
    first = found["coalitions"][0]
    assert first["parties"] == ["R1", "R3"]
    assert not first["exact"]
    assert "A from X^1, X^3, A X^2 and A X^4 by aligning sums" in first["chain"]


def test_whoever_checks_rows_or_collects_them_needs_no_device() -> None:
    """Right providers and the collector know B_0."""
    found = minimal_coalitions(ring(5))
    assert not any(coalition.needs_device for coalition in found)
    assert any(all(party.startswith("R") for party in coalition.parties) for coalition in found)


def test_views_through_the_noise_columns_are_told_apart() -> None:
    """All components but one, and that one masked: K1 = 3 in a ring, a right and a left provider."""
    found = report(ring(3))
    assert ("R1", "L1") in found.through_noise
    assert not {c.parties for c in found.coalitions} & set(found.through_noise)


def test_report_runs_without_numpy() -> None:
    """A phone shows it."""
    code = "import sys; sys.modules['numpy'] = None; import trimask_core.rows.collusion as c; c.suggest(3, 2)"
    subprocess.run([sys.executable, "-c", code], check=True)
