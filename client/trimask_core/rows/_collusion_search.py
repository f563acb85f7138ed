"""The best choice of unmasking nodes, by branch and bound over all of them.

Assignments are ordered by how many coalitions of one party break them, then of two, then of three. Giving a
further component an unmasking node only adds to what parties know, so a partial assignment's counts are lower
bounds, and a branch already worse than the best found is left.

Three symmetries make it small. The last component apart, what a coalition reaches depends on how many
components it has at the start only, at the end only, and at both, not on which. Left providers between the
first and the last see middle stages only, and any two of them solve for what lies between, so they are one
kind. And parties that no component assigned so far tells apart are interchangeable: only the first of them
is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from itertools import combinations
from operator import or_

from trimask_core.rows._collusion_closure import close

__all__ = ["best_unmasking", "breaking_counts", "breaks"]

SIZES = 3
_FIRST, _MIDDLE, _LAST, _COLLECTOR = 1, 2, 4, 8


@lru_cache(maxsize=65536)
def _breaks(right: int, start_only: int, end_only: int, both: int, last_known: int, others: int) -> bool:
    """The closure of one representative, with three left providers standing for any number.

    The first components are known at the start only, the next at the end only, the next at both; the last at
    the start if bit 0 of `last_known` is set, at the end if bit 1 is. One more party, who is nothing else,
    plays all unmasking nodes of the coalition.
    """
    first, middle, last, collector, unmasker = (right + i for i in range(5))
    in_start = [*range(start_only), *range(start_only + end_only, start_only + end_only + both)]
    in_end = [*range(start_only, start_only + end_only + both)]
    in_start += [right - 1] * (last_known & 1)
    in_end += [right - 1] * (last_known >> 1)
    members = sum(1 << party for party in (*in_start, unmasker))
    for flag, party in ((_FIRST, first), (_MIDDLE, middle), (_LAST, last), (_COLLECTOR, collector)):
        members |= bool(others & flag) << party
    return close(right, 3, [unmasker if k in in_end else -1 for k in range(right)], members)[0]


def _kinds(right: int, left: int) -> list[int]:
    """What each party is besides an unmasking node."""
    lefts = [_FIRST | _LAST] if left == 1 else [_FIRST, *[_MIDDLE] * (left - 2), _LAST]
    return [*[0] * right, *lefts, _COLLECTOR]


class _Breaks(dict[int, bool]):
    """Whether knowledge breaks, by a code that unites as coalitions do: by `or`.

    Bits from the low end: K1 for components known at the start, K1 for those known at the end, then the kinds.
    """

    def __init__(self, right: int, left: int) -> None:
        super().__init__()
        self.right = right
        rights = [1 << k if k < right else 0 for k in range(right + left + 1)]
        self.codes = [own | kind << 2 * right for own, kind in zip(rights, _kinds(right, left), strict=True)]

    def __missing__(self, code: int) -> bool:
        right, last = self.right, self.right - 1
        start, end, others = code & ((1 << right) - 1), code >> right & ((1 << right) - 1), code >> 2 * right
        rest = (1 << last) - 1
        self[code] = _breaks(
            right,
            (start & ~end & rest).bit_count(),
            (end & ~start & rest).bit_count(),
            (start & end & rest).bit_count(),
            start >> last | end >> last << 1,
            others,
        )
        return self[code]

    def parties(self, unmasking: Sequence[int]) -> list[int]:
        """Each party's code under an assignment; -1 stands for no unmasking node yet."""
        codes = list(self.codes)
        for k, node in enumerate(unmasking):
            if node >= 0:
                codes[node] |= 1 << self.right + k
        return codes

    def counts(self, unmasking: Sequence[int], bound: Sequence[int] | None) -> tuple[int, ...] | None:
        """How many coalitions of one, two and three parties break; None if that is sure to exceed `bound`."""
        codes = self.parties(unmasking)
        counts = []
        for size in range(1, min(SIZES, len(codes)) + 1):
            found = sum(self[reduce(or_, group)] for group in combinations(codes, size))
            if bound is not None and found != bound[size - 1]:
                if found > bound[size - 1]:
                    return None
                bound = None
            counts.append(found)
        return tuple(counts)


def breaks(right: int, left: int, unmasking: Sequence[int], group: Iterable[int]) -> bool:
    """Whether a group of parties breaks: `close` by way of the symmetries."""
    table = _Breaks(right, left)
    codes = table.parties(unmasking)
    return table[reduce(or_, (codes[party] for party in group))]


def breaking_counts(right: int, left: int, unmasking: Sequence[int]) -> tuple[int, ...]:
    """How many coalitions of one, two and three parties break."""
    return _Breaks(right, left).counts(unmasking, None) or ()


def best_unmasking(
    right: int, left: int, start: Sequence[int], candidates: Sequence[int] | None = None
) -> tuple[int, ...]:
    """U_1.., by position among R_1.., L_1.., collector; `start` unless another is strictly better."""
    table = _Breaks(right, left)
    allowed = range(right + left + 1) if candidates is None else sorted(set(candidates))
    best, best_counts = tuple(start), table.counts(start, None) or ()
    middles = range(right + 1, right + left - 1)
    nodes = [-1] * right

    def choices(k: int) -> list[int]:
        used = set(nodes[:k])
        alike = [
            [node for node in allowed if k < node < right - 1 and node not in used],
            [node for node in allowed if node in middles and node not in used],
        ]
        return [node for node in allowed if not any(node in group[1:] for group in alike)]

    def descend(k: int) -> None:
        nonlocal best, best_counts
        counts = table.counts(nodes, best_counts)
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
