"""How large the noise columns of a block must be so that X B_0 excludes nothing in the orbit O_n X1.

That is condition (3.5) of Ding, Miao and Wu: p1 < n <= p1 + p2 and lambda_min(X2 X2^T) > lambda_max(X1 X1^T). It does
not make the whole orbit equally likely, as their Theorem 3.8 has it; what is true in its place is `noise_columns_mu`
(docs/theory/collection.md#claim). The condition is proved, for every n (docs/theory/collection.md#condition): by
Davidson and Szarek, P[sigma_min(X2) < tau (sqrt(p2) - sqrt(n) - t)] <= exp(-t^2/2) for X2 with i.i.d. N(0, tau^2)
entries, so

    tau > lambda_max(X1 X1^T)^(1/2) / (sqrt(p2) - sqrt(n) - t),   t = sqrt(2 ln(1/failure)).

Rows of norm at most R give lambda_max^(1/2) <= R sqrt(n); noise of scale sigma on the answers adds
sigma (sqrt(n) + sqrt(p1) + t), the same theorem from above. This replaces Appendix C, whose constant nobody knows.
"""

from __future__ import annotations

import math

from trimask_core.basics.errors import ImpossibleStudy

CHECK_DIRECTIONS = 32
"""How many directions among the noise columns right providers open to check a row, and take out of it
(docs/theory/collection.md#row-check)."""
_LEAST_LEFT = 96
"""How many noise columns the check must leave for what it says about them."""


def tail(failure: float) -> float:
    """t with exp(-t^2/2) = failure."""
    return math.sqrt(2 * math.log(1 / failure))


def default_noise_columns(rows: int, failure: float) -> int:
    """p2 for blocks of `rows`, whose last may have up to 2 rows - 1: at least four a row, room to spare, and those that
    the check of each row takes away."""
    wanted = math.sqrt(2 * rows - 1) + tail(failure / 2) + math.sqrt(rows) / 4
    return CHECK_DIRECTIONS + max(_LEAST_LEFT, 4 * rows, math.ceil(wanted * wanted))


def refuse_too_few_columns(rows: int, attributes: int, noise_columns: int) -> None:
    """p < n is refused: the attack of Appendix A of the TM2 paper works there."""
    if attributes + noise_columns < rows:
        raise ImpossibleStudy(
            "too_few_columns",
            f"p = {attributes} + {noise_columns} columns are fewer than the {rows} rows a block may have: rows of X B "
            "would satisfy the linear relations of rows of X, which reveals answers (Appendix A of the TM2 paper). "
            f"Give noise_columns of at least {rows - attributes}, or smaller blocks.",
        )


def least_tau(
    rows: int,
    attributes: int,
    noise_columns: int,
    row_norm: float,
    sigma: float,
    failure: float,
    opened: int = 0,
) -> float:
    """The least tau for a block of `rows`, rounded up; `ImpossibleStudy` if there are too few noise columns.

    `opened` of them are taken away by the check of each row: in a study, `CHECK_DIRECTIONS`. With noise on the answers
    two events can go wrong, so each gets half of `failure`.
    """
    refuse_too_few_columns(rows, attributes, noise_columns)
    t = tail(failure / 2 if sigma else failure)
    spread = math.sqrt(max(0, noise_columns - opened)) - math.sqrt(rows) - t
    enough = noise_columns - opened >= (_LEAST_LEFT if opened else 0)
    if spread <= 0 or not enough:
        least = math.floor((math.sqrt(rows) + t) ** 2) + 1
        if opened:
            least = opened + max(_LEAST_LEFT, least)
        raise ImpossibleStudy(
            "too_few_noise_columns",
            f"{noise_columns} noise columns cannot hide {rows} rows with failure probability {failure:g}: "
            f"give at least {least} noise columns, or smaller blocks.",
        )
    answers = row_norm * math.sqrt(rows)
    if sigma:
        answers += sigma * (math.sqrt(rows) + math.sqrt(attributes) + t)
    return math.nextafter(answers / spread * (1 + 1e-15), math.inf)


def noise_columns_mu(
    rows: int,
    attributes: int,
    noise_columns: int,
    row_norm: float,
    sigma: float,
    tau: float,
    failure: float,
    opened: int = 0,
) -> float:
    """mu of two answers of one person in X B_0 of `rows` people, for a party without B_0 that knows all other rows.

    But for probability `failure`, shared by five events: the other rows are no longer than `least_tau` says; the person's
    own noise in the direction that counts; a chi-square of p2 - n + 2, a normal, and a chi-square of p2 - n + 1 degrees.
    Infinite where there are too few noise columns to say anything. Proved: docs/theory/collection.md#claim.
    """
    free = noise_columns - opened - rows + 1
    if free < 3 or not tau > 0:
        return math.inf
    share = failure / 5
    t = tail(share)
    others = row_norm * math.sqrt(rows)
    longer = row_norm * row_norm
    if sigma:
        others += sigma * (math.sqrt(rows) + math.sqrt(attributes) + t)
        longer += 4 * row_norm * sigma * t
    return row_mu(2 * row_norm * others, longer, free, tau, share)


def row_mu(products: float, longer: float, free: int, tau: float, share: float) -> float:
    """mu of two rows whose products with the others' differ by a vector of length `products`, and whose squares by `longer`.

    But for three events of probability `share`, with `free` = p2 - n + 1 noise columns beyond the others'.
    """
    first = products / (tau * tau * math.sqrt(_least_chi_square(free + 1, share)))
    shift = longer / (tau * tau) + first * first + 2 * first * tail(share)
    least = _least_smooth(free, share)
    if not least > 0:
        return math.inf
    second = shift * math.sqrt(0.5 * free - 1) / least
    return math.hypot(first, second) * (1 + 1e-9)


def _least_chi_square(degrees: int, failure: float) -> float:
    """Below it a chi-square is with probability at most `failure`, by Chernoff."""
    wanted = 2 * math.log(1 / failure) / degrees
    low, high = 0.0, 1.0  # a - 1 - ln a falls on (0, 1)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if middle - 1 - math.log(middle) < wanted else (middle, high)
    return low * degrees if low else math.exp(-1 - wanted) * degrees


def _least_smooth(degrees: int, failure: float) -> float:
    """r below which the chi-square density may be replaced by one that bends no more than at r, for `failure` at most.

    f(r) / (log f)'(r) bounds what lies below, of either; log f is concave.
    """
    half = 0.5 * degrees
    constant = half * math.log(2) + math.lgamma(half)
    low, high = 0.0, degrees - 2.0  # the mode
    for _ in range(60):
        middle = 0.5 * (low + high)
        slope = (half - 1) / middle - 0.5
        below = (half - 1) * math.log(middle) - 0.5 * middle - constant - math.log(slope)
        low, high = (low, middle) if below > math.log(failure) else (middle, high)
    return low
