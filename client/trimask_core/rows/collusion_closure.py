"""What a coalition can work out: its knowledge, closed under the rules of linear algebra.

Write W_j = A_j ... A_1, so W_0 = I and W_K2 = A. Stage j of component k is W_j X^k in the clear, and
W_j X^k B_k under its right mask. The rules, each of which `tests/support/trimask_attacks.py` carries out in numbers:

    unmask     W_j X^k          from W_j X^k B_k and B_k (and back).
    solve      W_j W_i^-1       from one component at stages i and j, both clear or both masked: n <= p, so it
                                is a linear solve, and the left providers in between need not be asked.
    align      W_j W_i^-1       from clear components at stages i and j that together are all of them.
                                Components dwarf the data, so one sum is minus the other but for the left
                                mask (Procrustes): an estimate; exact once W_i X or W_j X is known.
    compose    W_j W_i^-1       from W_j W_m^-1 and W_m W_i^-1.
    move       what is at j     from the same at i and W_j W_i^-1.
    remainder  the last W_j X^k from W_j X and all the others: the reason why blinded deliveries hide nothing
                                from the collector together with all unmasking nodes but one.
    add        W_j X            from all the W_j X^k.
    correlate  X                from W_j X, if a clear component at stage 0 and another at stage j are on record
                                and one of all these is the last, K1. That one is minus the sum of the others,
                                hence correlated with each, so W_j can be estimated (Procrustes again) well
                                enough to undo it on W_j X. The other K1 - 1 are independent Gaussians, and
                                W_j X^k of one of them is independent of W_j: no last component, no estimate.

The rows are W_0 X with B_0 removed. A device in the coalition knows B_0, and so does the collector.

Two things a coalition also sees add nothing. A Gram matrix W_j X^k X^k^T W_j^T, plain to every left provider,
fixes a left mask only for somebody who has the component, and who therefore solves already. And B_k worked
out from a component and its masked form unmasks only stages that were reached on the way.

The best choice of unmasking nodes is found by branch and bound over all of them. Assignments are ordered by how many
coalitions of one party break them, then of two, then of three. Giving a further component an unmasking node only adds to
what parties know, so a partial assignment's counts are lower bounds, and a branch already worse than the best found is
left.

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
from typing import Literal, NamedTuple

Rule = Literal["held", "unmask", "solve", "align", "compose", "move", "remainder", "add", "correlate", "rows"]
Kind = Literal["component", "masked", "mask", "left", "sum", "rows"]


class Fact(NamedTuple):
    """One thing a coalition can know. Stages count from 0, components from 1.

    component: W_at X^of · masked: W_at X^of B_of · mask: B_of · left: W_at W_of^-1 · sum: W_at X · rows
    """

    kind: Kind
    at: int = 0
    of: int = 0


class Step(NamedTuple):
    """One application of a rule: what it gives and what it needed; `party` for what somebody simply held."""

    rule: Rule
    gives: Fact
    needs: tuple[Fact, ...] = ()
    party: int = -1


Trace = dict[Fact, Step]


def bits(mask: int) -> list[int]:
    """The positions of the ones, from 0."""
    return [k for k in range(mask.bit_length()) if mask >> k & 1]


class _Knowledge:
    """A coalition's knowledge: bit masks over components, one a stage. `trace` is kept only if asked for."""

    def __init__(self, right: int, left: int, trace: Trace | None) -> None:
        self.stages = left + 1
        self.everything = (1 << right) - 1
        self.clear = [0] * self.stages
        self.masked = [0] * self.stages
        self.masks = 0
        self.total = [False] * self.stages
        self.linked = [1 << j for j in range(self.stages)]
        self.trace = trace

    def _note(self, rule: Rule, gives: Fact, *needs: Fact, party: int = -1) -> None:
        """Keep the first derivation of a fact; later ones could only lengthen the explanation."""
        if self.trace is not None and gives not in self.trace:
            self.trace[gives] = Step(rule, gives, needs, party)

    def hold(self, kind: Kind, at: int, components: int, party: int) -> None:
        if kind == "component":
            self.clear[at] |= components
        elif kind == "masked":
            self.masked[at] |= components
        else:
            self.masks |= components
        if self.trace is not None:
            for fact in _facts(kind, at, components):
                self._note("held", fact, party=party)

    def hold_total(self, at: int, party: int) -> None:
        self.total[at] = True
        self._note("held", Fact("sum", at), party=party)

    def link(self, i: int, j: int, rule: Rule, *needs: Fact, party: int = -1) -> None:
        """Stages i < j are now related; so is everything already related to either."""
        group_i, group_j = self.linked[i], self.linked[j]
        for stage in bits(group_i | group_j):
            self.linked[stage] = group_i | group_j
        if self.trace is None:
            return
        self._note(rule, Fact("left", j, i), *needs, party=party)
        for a in bits(group_i):
            self._compose(a, i, j)
            for b in bits(group_j):
                self._compose(i, j, b)
                self._compose(a, j, b)

    def _compose(self, a: int, via: int, b: int) -> None:
        if len({a, via, b}) == 3:
            self._note("compose", _left(a, b), _left(a, via), _left(via, b))

    def within_stages(self) -> bool:
        """unmask, add and remainder, at each stage."""
        changed = False
        for j in range(self.stages):
            changed |= self._unmask(j)
            missing = self.everything & ~self.clear[j]
            if not missing and not self.total[j]:
                changed = self.total[j] = True
                self._note("add", Fact("sum", j), *_facts("component", j, self.everything))
            elif self.total[j] and missing and missing & (missing - 1) == 0:
                changed = True
                others = _facts("component", j, self.clear[j])
                self._note("remainder", Fact("component", j, missing.bit_length()), Fact("sum", j), *others)
                self.clear[j] = self.everything
        return changed

    def _unmask(self, j: int) -> bool:
        clear = self.masked[j] & self.masks & ~self.clear[j]
        masked = self.clear[j] & self.masks & ~self.masked[j]
        self.clear[j] |= clear
        self.masked[j] |= masked
        if self.trace is not None:
            for k in bits(clear | masked):
                seen, hidden = Fact("component", j, k + 1), Fact("masked", j, k + 1)
                gives, needs = (seen, hidden) if clear >> k & 1 else (hidden, seen)
                self._note("unmask", gives, needs, Fact("mask", 0, k + 1))
        return bool(clear | masked)

    def between_stages(self, align: bool) -> bool:
        """solve, align and move, for each pair of stages."""
        changed = False
        for i in range(self.stages):
            for j in range(i + 1, self.stages):
                if self.linked[i] >> j & 1 or self._relate(i, j, align):
                    changed |= self._move(i, j) | self._move(j, i)
        return changed

    def _relate(self, i: int, j: int, align: bool) -> bool:
        if both := self.clear[i] & self.clear[j]:
            one = both & -both
            self.link(i, j, "solve", *_facts("component", i, one), *_facts("component", j, one))
        elif both := self.masked[i] & self.masked[j]:
            one = both & -both
            self.link(i, j, "solve", *_facts("masked", i, one), *_facts("masked", j, one))
        elif not (self.clear[i] and self.clear[j]):
            return False
        elif self.clear[i] | self.clear[j] == self.everything and (align or self.total[i] or self.total[j]):
            clear = _facts("component", i, self.clear[i]) + _facts("component", j, self.clear[j])
            totals = [Fact("sum", stage) for stage in (i, j) if self.total[stage]]
            self.link(i, j, "align", *clear, *totals[:1])
        else:
            return False
        return True

    def _move(self, i: int, j: int) -> bool:
        clear = self.clear[i] & ~self.clear[j]
        masked = self.masked[i] & ~self.masked[j]
        total = self.total[i] and not self.total[j]
        self.clear[j] |= clear
        self.masked[j] |= masked
        self.total[j] |= total
        if self.trace is not None:
            moved = _facts("component", i, clear) + _facts("masked", i, masked)
            for fact in (*moved, *([Fact("sum", i)] if total else [])):
                self._note("move", fact._replace(at=j), fact, _left(i, j))
        return bool(clear | masked) or total

    def correlate(self) -> bool:
        """The one estimate too rough for `move` in general: components moved by it would be off by their own scale."""
        last = (self.everything + 1) >> 1
        for j in range(1, self.stages):
            if self.total[j] and self.clear[0] and self.clear[j] and (self.clear[0] | self.clear[j]) & last:
                clear = _facts("component", 0, self.clear[0]) + _facts("component", j, self.clear[j])
                self._note("correlate", Fact("sum", 0), Fact("sum", j), *clear)
                return True
        return False


def _facts(kind: Kind, stage: int, components: int) -> tuple[Fact, ...]:
    return tuple(Fact(kind, stage, k + 1) for k in bits(components))


def _left(i: int, j: int) -> Fact:
    return Fact("left", max(i, j), min(i, j))


def _held(known: _Knowledge, right: int, left: int, unmasking: Sequence[int], coalition: int) -> None:
    for k in range(right):
        if coalition >> k & 1:
            known.hold("component", 0, 1 << k, k)
            known.hold("masked", 0, 1 << k, k)
            known.hold("mask", 0, 1 << k, k)
    for k, node in enumerate(unmasking):
        if node >= 0 and coalition >> node & 1:
            known.hold("mask", 0, 1 << k, node)
            known.hold("masked", left, 1 << k, node)
            known.hold("component", left, 1 << k, node)
    for j in range(1, left + 1):
        party = right + j - 1
        if coalition >> party & 1:
            known.hold("masked", j - 1, known.everything, party)
            known.hold("masked", j, known.everything, party)
            known.link(j - 1, j, "held", party=party)
    if coalition >> (right + left) & 1:
        known.hold_total(left, right + left)


def close(
    right: int,
    left: int,
    unmasking: Sequence[int],
    coalition: int,
    *,
    align: bool = True,
    trace: Trace | None = None,
) -> tuple[bool, bool]:
    """Whether a coalition, with any devices, gets the rows; and whether it sees them at least through noise.

    Parties are numbered R_1.., L_1.., collector, and `coalition` is a bit mask of them; an unmasking node of
    -1 is nobody. `align=False` leaves the estimates out: rows then come out exactly. The second answer is
    the weaker one and not a break: all components but one, and that one under its right mask.
    """
    known = _Knowledge(right, left, trace)
    _held(known, right, left, unmasking, coalition)
    while known.within_stages() | known.between_stages(align):
        pass
    if known.total[0] or (align and known.correlate()):
        if trace is not None:
            trace[Fact("rows")] = Step("rows", Fact("rows"), (Fact("sum", 0),))
        return True, True
    missing = known.everything & ~known.clear[0]
    return False, missing & (missing - 1) == 0 and bool(known.masked[0] & missing)


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
