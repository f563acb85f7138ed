"""What private releases give back, whether a collector or the holder of the rows made them. Each prints itself.

Of the papers' own mechanisms for least squares and projections, each comes with its error. M_LS and M_ALS (Lu,
Magdon-Ismail, Wei, Zikas) answer with a draw that has the spread of a fit on r sketched rows: with residual e and B the
regressors, |e| (B^T B)^(-1/2) / sqrt(r) in every direction, where sampling n people has
|e| (B^T B)^(-1/2) / sqrt(n). So the error is at least sqrt(n / r) sampling standard errors, at any epsilon; the shrinkage
by
their sigma, which grows with r, comes on top. A noisy Gram matrix has neither.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trimask.fit.report import Block, Facts, Report, figures, places_for
from trimask.moments.moments import Moments, original_map
from trimask_core.study.derived import ONES
from trimask_core.study.guarantee import Guarantee
from trimask_theory.mechanisms.noisy_regression import outers

if TYPE_CHECKING:
    import pandas as pd

    from trimask.release.answer import Answer


@dataclass(frozen=True, eq=False)
class PrivateSum(Report):
    """`total` by column, `noise` the standard deviation of the noise in each; over `rows` rows."""

    total: pd.Series[float]
    noise: pd.Series[float]
    rows: int
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)

    @property
    def mean(self) -> pd.Series[float]:
        """The mean of each column; the number of rows is public."""
        return self.total / self.rows

    @property
    def title(self) -> str:
        """What this is."""
        return f"Private sum over {self.rows} rows"

    @property
    def facts(self) -> Facts:
        """How many rows are in it."""
        return [("rows", f"{self.rows:,}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """The guarantee."""
        return (str(self.guarantee),)

    def blocks(self, alpha: float) -> list[Block]:  # noqa: ARG002  the noise is the error
        """A row a column."""
        rows = [
            [str(name), *figures([value, sd, value / self.rows], places_for(sd, value))]
            for name, value, sd in zip(self.total.index, self.total, self.noise, strict=True)
        ]
        return [Block(["", "sum", "noise sd", "mean"], rows)]


@dataclass(frozen=True, eq=False)
class PrivateProjection(Report):
    """D^T G plus noise of standard deviation `sigma`: one row a column of the data."""

    values: pd.DataFrame
    sigma: float
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)

    @property
    def title(self) -> str:
        """What this is."""
        return "Private projection (M_RP)"

    @property
    def facts(self) -> Facts:
        """Its size, and its noise."""
        return [
            ("size", f"{self.values.shape[0]} x {self.values.shape[1]}"),
            ("noise sd", f"{self.sigma:.4g}"),
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """The guarantee."""
        return (str(self.guarantee),)

    def blocks(self, alpha: float) -> list[Block]:  # noqa: ARG002  no intervals
        """The numbers."""
        rows = [[str(name), *(f"{value:.4g}" for value in row)] for name, *row in self.values.itertuples()]
        return [Block(["", *map(str, self.values.columns)], rows)]


@dataclass(frozen=True, eq=False)
class PrivateGram(Report):
    """X^T X with noise, moved onto what the schema knows: a source for every `trimask.fit`, at no further cost.

    `moments` is what fits read. `values` and `noise` are the matrix by column and the standard deviation of the noise left
    in each entry. The noise may leave it without being positive definite.

    >>> gram = release.gram(collector, study_id, epsilon=1.0, delta=1e-6)  # doctest: +SKIP
    >>> trimask.fit.ols(gram, "sbp ~ age + C(region)")                     # doctest: +SKIP
    >>> trimask.fit.describe(gram)                                         # doctest: +SKIP
    """

    moments: Moments
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)

    @property
    def rows(self) -> int:
        """How many people are in it."""
        return self.moments.rows

    @property
    def units(self) -> str:
        """Of `values`: "original", or "scaled" where there is no `one` to move columns from their centres with."""
        columns = self.moments.columns
        held = self.moments.schema.ones or not any(column.center for column in columns)
        return "original" if held else "scaled"

    @cached_property
    def _change(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        columns = self.moments.columns
        return original_map(columns) if self.units == "original" else np.eye(len(columns))

    @cached_property
    def values(self) -> pd.DataFrame:
        """The matrix in `units`."""
        import pandas as pd

        names = [column.name for column in self.moments.columns]
        return pd.DataFrame(self._change.T @ self.moments.gram @ self._change, names, names)

    @cached_property
    def noise(self) -> pd.DataFrame:
        """The standard deviation of the noise in each entry of `values`; zero where the schema knows it."""
        import pandas as pd

        names = [column.name for column in self.moments.columns]
        sides = self._change.T
        found = [np.sqrt(self.moments.law.variance(outers(sides, side))) for side in sides]
        return pd.DataFrame(np.array(found), names, names)

    @property
    def title(self) -> str:
        """What this is."""
        return f"Private Gram matrix over {self.rows} rows, {self.units} units"

    @property
    def facts(self) -> Facts:
        """What it is of."""
        return [("data", self.moments.label), ("noise sigma", f"{self.moments.sigma:.4g} (scaled units)")]

    @property
    def notes(self) -> tuple[str, ...]:
        """What it is for, and the guarantee."""
        return ("Every trimask.fit takes it as a dataset, at no further cost.", str(self.guarantee))

    def blocks(self, alpha: float) -> list[Block]:  # noqa: ARG002  the noise is the error
        """The matrix, then the noise of its entries."""
        head = ["", *(ONES if name == ONES else str(name) for name in self.values.columns)]
        return [
            Block(head, [[str(name), *(f"{value:.5g}" for value in row)] for name, *row in frame.itertuples()], caption)
            for frame, caption in ((self.values, "X'X"), (self.noise, "standard deviation of the noise"))
        ]  # fmt: skip

    def __repr__(self) -> str:
        return f"<PrivateGram of {len(self.moments.columns)} columns over {self.rows:,} rows>"


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
