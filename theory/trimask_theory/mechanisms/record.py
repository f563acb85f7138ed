"""From "one row added or removed" to "one person's record replaced by any other".

Statement. Replacing a record is removing it and adding the other: two steps. A mechanism that is (e, d)-DP
for add/remove is (2 e, (1 + exp(e)) d)-DP for replacement, by the definition applied twice: P <= exp(e) P'' + d
and P'' <= exp(e) P' + d. One that is mu-GDP is 2 mu-GDP (Dong, Roth, Su 2022, Theorem 2.14).

Why it is needed. Answers add up only towards one and the same neighbour. A study's number of rows is public,
so what its budget protects is a replaced record, and a mechanism calibrated for add/remove pays for two steps.

Assumptions. Both steps stay inside the mechanism's own assumptions (row norm, limits). Proved.
Derivation: docs/theory/gaussian-pairs.md#neighbours.
"""

from __future__ import annotations

import math

from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import positive, probability


def one_step(epsilon: float, delta: float) -> tuple[float, float]:
    """The add/remove pair of which two steps cost (epsilon, delta)."""
    half = positive("epsilon", epsilon) / 2
    # Rounded down by more than the roundings of this line.
    return half, probability("delta", delta) / (1 + math.exp(half)) * (1 - 2.0**-50)


def one_step_mu(mu: float) -> float:
    """The add/remove mu of which two steps cost mu."""
    return positive("mu", mu) / 2


def two_steps(
    guarantee: Guarantee,
    row_norm: float | None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
) -> Guarantee:
    """An add/remove guarantee restated for a replaced record, at the price its `one_step` was taken from."""
    return Guarantee(
        neighbours=Neighbours("record", row_norm=row_norm),
        basis=guarantee.basis,
        because=f"{guarantee.because}; a replaced record is one removed and one added, paid as two steps",
        citation=guarantee.citation,
        epsilon=epsilon,
        delta=delta,
        mu=mu,
    )
