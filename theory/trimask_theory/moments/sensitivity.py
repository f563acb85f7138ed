"""What one replaced record can move: the price of each kind of question, in units of its noise.

Statement. A record is x = (1, a); a question is a linear map of x and x x^T, and its sensitivity D is the largest Euclidean
norm of its difference between two records. Columns are numbers, each in its own interval, and levels: of the columns of a
group at most one is 1 and the others are 0.

*Table*: exactly one cell of a person is 1, so D = sqrt 2. *Histograms* of G questions, every level published: D = sqrt(2 G).
*A number by group*, sums beside counts, the number in [low, high]: D^2 = max((high - low)^2, 2 max(low^2, high^2) + 2).

*Sums*: D^2 = B + L without a ball. L adds min(2, columns asked for) of each group of levels, B the squared range of each
number (of a number within levels: the larger of that and of two levels' squares). In a ball |a|^2 <= r^2, with k1 and k2
of the G groups of levels set and Q the largest squared norm of the numbers, D^2 is the largest over k1, k2 of
min(B, (sqrt min(Q, r^2 - k1) + sqrt min(Q, r^2 - k2))^2) + min(k1 + k2, L).

*Moments*, in the Frobenius norm: |x x^T - y y^T|^2 = (1 + |a|^2)^2 + (1 + |b|^2)^2 - 2 (1 + a . b)^2.
- Levels only, `several` groups of two or more columns and `single` ones of one: the largest over the single columns that
  both records have (m), one has (p) and the other has (single - m - p). 2 ((1 + G)^2 - 1) without single ones.
- One number in [low, high]: (u - v)^2 (2 + (u + v)^2) with u an end and v an end or (-u +- sqrt(u^2 - 4))/2.
- Otherwise `moments_noise.sensitivity`.

All are proved (docs/theory/verified-moments.md#prices) and attained, but for sums in a ball, sums and moments with numbers
within levels, and moments with a number beside other columns, which are upper bounds. Rounded up.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from trimask_core.moments.layout import MomentsLayout
from trimask_theory.moments import moments_noise

_UP = 1 + 1e-12
"""Above the roundings of any of these formulas."""

Interval = tuple[float, float]


def table() -> float:
    """Of all cells of a table together."""
    return math.sqrt(2) * _UP


def histograms(questions: int) -> float:
    """Of every level of so many questions, the references too."""
    return math.sqrt(2 * questions) * _UP


def group_means(low: float, high: float) -> float:
    """Of the sums of a number in [low, high] by group, and the counts of the groups."""
    within = (high - low) ** 2  # in one group
    between = 2 * max(low * low, high * high) + 2  # from one group to another
    return math.sqrt(max(within, between)) * _UP


def sums(layout: MomentsLayout, chosen: Sequence[int]) -> float:
    """Of the sums of some columns."""
    ranges, squares, levels, groups = 0.0, 0.0, 0, 0
    for ends in _groups(layout, chosen):
        if _are_levels(ends):
            levels += min(2, len(ends))
            groups += 1
        else:
            sizes = sorted((max(low * low, high * high) for low, high in ends), reverse=True)
            squares += sizes[0]
            ranges += max([(high - low) ** 2 for low, high in ends] + [sum(sizes[:2])] * (len(ends) > 1))
    ball = math.inf if layout.ball is None else float(layout.radius_squared) - 1
    most = min(groups, ball)
    found = max(
        min(ranges, (math.sqrt(min(squares, ball - k)) + math.sqrt(min(squares, ball - l))) ** 2)
        + min(k + l, levels)
        for k, l in itertools.product(range(math.floor(most) + 1), repeat=2)  # noqa: E741 (k and l of the statement)
    )
    return math.sqrt(found) * _UP


def moments(layout: MomentsLayout, chosen: Sequence[int], radius_squared: float) -> float:
    """Of the sums and products of some columns, whose rows have norms within `radius_squared`, x_0 = 1 counted."""
    bound = moments_noise.sensitivity(radius_squared * _UP)
    groups = _groups(layout, chosen)
    if all(map(_are_levels, groups)):
        single = sum(len(ends) == 1 for ends in groups)
        return min(bound, math.sqrt(level_moments(single, len(groups) - single)) * _UP)
    if len(chosen) == 1:
        return min(bound, math.sqrt(number_moments(*groups[0][0])) * _UP)
    return bound


def level_moments(single: int, several: int) -> int:
    """D^2 of the moments of levels: groups with one column asked for, and groups with two or more."""
    return max(
        (1 + several + p + m) ** 2 + (1 + several + single - p) ** 2 - 2 * (1 + m) ** 2
        for m in range(single + 1)
        for p in range(single - m + 1)
    )


def number_moments(low: float, high: float) -> float:
    """D^2 of the sum and the sum of squares of one number in [low, high]."""

    def moved(u: float, v: float) -> float:
        return (u - v) ** 2 * (2 + (u + v) ** 2)

    found = moved(low, high)
    for end in (low, high):
        if end * end > 4:
            # Where the derivative in v vanishes and changes from growing to falling: beside 0, on the other side.
            v = (-end + math.copysign(math.sqrt(end * end - 4), end)) / 2
            found = max(found, moved(end, min(max(v, low), high)))
    return found


def _groups(layout: MomentsLayout, chosen: Iterable[int]) -> list[list[Interval]]:
    """The intervals of x of the chosen columns, those of a group together; a column of no group is one."""
    found: dict[str, list[Interval]] = defaultdict(list)
    for j in chosen:
        column = layout.columns[j]
        found[f"group {column.group}" if column.group else column.name].append(_interval(layout, j))
    return list(found.values())


def _are_levels(ends: Sequence[Interval]) -> bool:
    return all(interval == (0.0, 1.0) for interval in ends)


def _interval(layout: MomentsLayout, j: int) -> Interval:
    """The least and greatest x_j of any accepted report."""
    column = layout.columns[j]
    if column.factors is not None:
        a, b = (_interval(layout, factor) for factor in column.factors)
        if column.factors[0] == column.factors[1]:
            ends = (a[0] ** 2, a[1] ** 2)
            return 0.0 if a[0] <= 0 <= a[1] else min(ends), max(ends)
        corners = [x * y for x in a for y in b]
        return min(corners), max(corners)
    if not column.shrinks:
        return 0.0, 1 / column.width
    bound = layout.bound(j)
    low, high = max(-column.offset, -bound), min(2 * column.steps - column.offset, bound)
    return low / column.width, high / column.width
