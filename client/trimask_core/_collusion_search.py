"""The best choice of unmasking nodes, by branch and bound over all of them.

Assignments are ordered by how many coalitions of one party break them, then of two, then of three. Giving a
further component an unmasking node only adds to what parties know, so a partial assignment's counts are lower
bounds, and a branch already worse than the best found is left.

Three symmetries make it small. What a coalition reaches depends on how many components it has at the start
only, at the end only, and at both, not on which. Left providers between the first and the last see middle
stages only, and any two of them solve for what lies between, so they are one kind. And parties that no
component assigned so far tells apart are interchangeable: only the first of them is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations

from trimask_core._collusion_closure import close

__all__ = ["best_unmasking", "breaking_counts", "breaks"]

SIZES = 3
_FIRST, _MIDDLE, _LAST, _COLLECTOR = 1, 2, 4, 8


@lru_cache(maxsize=65536)
def _breaks(right: int, start_only: int, end_only: int, both: int, others: int) -> bool:
    """The closure of one representative, with three left providers standing for any number.

    The first components are known at the start only, the next at the end only, the next at both. One more
    party, who is nothing else, plays all unmasking nodes of the coalition.
    """
    first, middle, last, collector, unmasker = (right + i for i in range(5))
    in_end = range(start_only, start_only + end_only + both)
    in_start = [k for k in range(start_only + end_only + both) if k not in in_end[:end_only]]
    members = sum(1 << party for party in (*in_start, unmasker))
    for flag, party in ((_FIRST, first), (_MIDDLE, middle), (_LAST, last), (_COLLECTOR, collector)):
        members |= bool(others & flag) << party
    return close(right, 3, [unmasker if k in in_end else -1 for k in range(right)], members)[0]


def _kinds(right: int, left: int) -> list[int]:
    """What each party is besides an unmasking node."""
    lefts = [_FIRST | _LAST] if left == 1 else [_FIRST, *[_MIDDLE] * (left - 2), _LAST]
    return [*[0] * right, *lefts, _COLLECTOR]


def breaks(right: int, left: int, unmasking: Sequence[int], group: Iterable[int]) -> bool:
    """Whether a group of parties breaks: `close` by way of the symmetries."""
    kinds = _kinds(right, left)
    start = end = others = 0
    for party in group:
        start |= (1 << party) if party < right else 0
        end |= sum(1 << k for k, node in enumerate(unmasking) if node == party)
        others |= kinds[party]
    return _lookup(right, start, end, others)


def _lookup(right: int, start: int, end: int, others: int) -> bool:
    both = start & end
    return _breaks(right, (start ^ both).bit_count(), (end ^ both).bit_count(), both.bit_count(), others)


class _Counter:
    """Counts breaking coalitions of up to three parties."""

    def __init__(self, right: int, left: int) -> None:
        self.right = right
        kinds = _kinds(right, left)
        parties = range(right + left + 1)
        start = [(1 << party) if party < right else 0 for party in parties]
        self.groups = [
            [
                (group, _union(start[i] for i in group), _union(kinds[i] for i in group))
                for group in combinations(parties, size)
            ]
            for size in range(1, min(SIZES, len(parties)) + 1)
        ]
        self.count = len(parties)

    def counts(self, unmasking: Sequence[int], bound: Sequence[int] | None) -> tuple[int, ...] | None:
        """None as soon as the counts are sure to exceed `bound`."""
        ends = [0] * self.count
        for k, node in enumerate(unmasking):
            if node >= 0:
                ends[node] |= 1 << k
        counts: list[int] = []
        for size, groups in enumerate(self.groups):
            limit = None if bound is None else bound[size]
            found = 0
            for group, start, others in groups:
                if _lookup(self.right, start, _union(ends[i] for i in group), others):
                    found += 1
                    if limit is not None and found > limit:
                        return None
            if limit is not None and found < limit:
                bound = None
            counts.append(found)
        return tuple(counts)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def breaking_counts(right: int, left: int, unmasking: Sequence[int]) -> tuple[int, ...]:
    """How many coalitions of one, two and three parties break."""
    return _Counter(right, left).counts(unmasking, None) or ()


def best_unmasking(
    right: int, left: int, start: Sequence[int], candidates: Sequence[int] | None = None
) -> tuple[int, ...]:
    """U_1.., by position among R_1.., L_1.., collector; `start` unless another is strictly better."""
    counter = _Counter(right, left)
    allowed = range(right + left + 1) if candidates is None else sorted(set(candidates))
    best, best_counts = tuple(start), counter.counts(start, None) or ()
    middles = range(right + 1, right + left - 1)
    nodes = [-1] * right

    def choices(k: int) -> list[int]:
        used = set(nodes[:k])
        alike = [
            [node for node in allowed if k < node < right and node not in used],
            [node for node in allowed if node in middles and node not in used],
        ]
        return [node for node in allowed if not any(node in group[1:] for group in alike)]

    def descend(k: int) -> None:
        nonlocal best, best_counts
        counts = counter.counts(nodes, best_counts)
        if counts is None:
            return
        if k == right:
            if counts < best_counts:
                best, best_counts = tuple(nodes), counts
            return
        for node in choices(k):
            nodes[k] = node
            descend(k + 1)
        nodes[k] = -1

    descend(0)
    return best
