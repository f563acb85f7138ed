"""The papers' own mechanisms for least squares and projections, and the word that goes with each: their error.

M_LS and M_ALS (Lu, Magdon-Ismail, Wei, Zikas) answer with a draw that has the spread of a fit on r sketched rows: with
residual e and B the regressors, |e| (B^T B)^(-1/2) / sqrt(r) in every direction, where sampling n people has
|e| (B^T B)^(-1/2) / sqrt(n). So the error is at least sqrt(n / r) sampling standard errors, at any epsilon; the shrinkage by
their sigma, which grows with r, comes on top. A noisy Gram matrix has neither.
"""

from __future__ import annotations

import math
import warnings

__all__ = ["FIT_METHODS", "PaperMechanism", "warn_of_projection", "warn_of_sketch"]

FIT_METHODS = ("noisy_gram", "M_LS", "M_ALS")


class PaperMechanism(UserWarning):
    """A mechanism kept as a paper states it, where another has less error at the same price."""


def warn_of_sketch(method: str, reduced_dim: int, rows: int | None = None) -> None:
    """Say what M_LS or M_ALS at `reduced_dim` costs in accuracy; `rows` where they are known."""
    times = f"sqrt(rows / {reduced_dim})" if rows is None else f"{math.sqrt(rows / reduced_dim):.2g}"
    warnings.warn(
        f"{method} is kept as its paper states it: its error is at least {times} sampling standard errors in every "
        'coefficient, at any epsilon, and it has no standard errors. method="noisy_gram", the default, has both',
        PaperMechanism,
        stacklevel=4,
    )


def warn_of_projection(reduced_dim: int) -> None:
    """Say what a projection is worth."""
    warnings.warn(
        f"a random projection (M_RP) is kept as its paper states it: second moments taken from {reduced_dim} projected "
        f"rows have a relative error of about {math.sqrt(2 / reduced_dim):.0%} beside the noise. release.gram has the "
        "noise alone, with standard errors",
        PaperMechanism,
        stacklevel=4,
    )
