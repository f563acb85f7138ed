"""Private least squares and private components: what they return, and how a noisy Gram matrix becomes either."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trimask import fit
from trimask.errors import CollinearColumns, NoiseExceedsSignal, ParameterError
from trimask.fit.components import PCAResults
from trimask.fit.ols_results import OLSResults
from trimask.fit.report import Block, Facts, Report, places_for
from trimask.release.results import PrivateGram
from trimask_core.study.derived import ONES
from trimask_core.study.guarantee import Guarantee

if TYPE_CHECKING:
    import pandas as pd

    from trimask.release.answer import Answer


_NOTHING = "the noise is larger than what these columns carry: no coefficients"


@dataclass(frozen=True, eq=False)
class PrivateFit(Report):
    """Coefficients by name, with everything that is known of them.

    `method` "noisy_gram": `results` is the fit (`trimask.fit.ols` on `gram`) with standard errors, tests and intervals, and
    `gram` fits every other model at no further cost. "M_LS" and "M_ALS", the papers' mechanisms, have coefficients alone.
    `params` is None when the noise is larger than what the columns carry: no number would mean anything, and `refusal` says
    what it would take. `sigma` is the noise on the Gram matrix, or the regularisation of M_LS and M_ALS. `units` are those
    of `params`.
    """

    formula: str
    method: str
    params: pd.Series[float] | None
    units: str
    sigma: float
    guarantee: Guarantee
    gram: PrivateGram | None = field(default=None, repr=False)
    answer: Answer | None = field(default=None, repr=False)
    results: OLSResults | None = field(default=None, repr=False)
    refusal: str = ""

    @property
    def response(self) -> str:
        """The left side of the formula."""
        return self.formula.partition("~")[0].strip()

    def _known(self) -> OLSResults:
        if self.results is None:
            raise ParameterError(
                "method", "noisy_gram, and enough signal: this fit has no standard errors", self.method
            )
        return self.results

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors, of noise and sampling together."""
        return self._known().bse

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided."""
        return self._known().pvalues

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of level 1 - alpha."""
        return self._known().conf_int(alpha)

    @property
    def title(self) -> str:
        """What was fitted, and how."""
        return f"Private least squares by {self.method}, {self.units} units"

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        return (
            [("model", self.formula), ("sigma", f"{self.sigma:.4g}")]
            if self.results is None
            else self.results.facts
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it, and the guarantee."""
        if self.results is not None:
            return (*self.results.notes, str(self.guarantee))
        own = self.refusal or f"{self.method} states no standard errors."
        return (own, str(self.guarantee))

    def blocks(self, alpha: float) -> list[Block]:
        """The coefficient table."""
        if self.results is not None:
            return self.results.blocks(alpha)
        if self.params is None:
            return [Block([_NOTHING], [])]
        rows = [[str(name), f"{value:.{places_for(0, value)}f}"] for name, value in self.params.items()]
        return [Block(["", "coef"], rows)]


def gram_fit(gram: PrivateGram, formula: str) -> PrivateFit:
    """Least squares on a noisy Gram matrix; where the noise hides the answer the matrix is kept, and it is said."""
    sigma = gram.moments.sigma
    try:
        found = fit.ols(gram, formula)
    except (NoiseExceedsSignal, CollinearColumns) as error:
        return PrivateFit(
            formula, "noisy_gram", None, "original", sigma, gram.guarantee, gram, gram.answer, None, str(error)
        )  # fmt: skip
    return PrivateFit(
        formula, "noisy_gram", found.params, "original", sigma, gram.guarantee, gram, gram.answer, found
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PrivateComponents(Report):
    """Orthonormal components in the columns, or None when a private test found the target not achievable.

    Those of "noisy_gram" are about the mean (`centre`, original units) and come with errors: `results` is what
    `trimask.fit.pca` found. The papers' mechanisms are about the origin.
    """

    components: pd.DataFrame | None
    beta: float | None
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)
    results: PCAResults | None = field(default=None, repr=False)
    centre: pd.Series[float] | None = field(default=None, repr=False)
    gram: PrivateGram | None = field(default=None, repr=False)

    @property
    def achievable(self) -> bool:
        """Whether there are components."""
        return self.components is not None

    @property
    def title(self) -> str:
        """What this is."""
        about = "the origin" if self.centre is None else "the mean"
        return f"Private components about {about}"

    @property
    def facts(self) -> Facts:
        """How they were drawn."""
        if self.results is not None:
            return self.results.facts
        return [("beta", "-" if self.beta is None or math.isnan(self.beta) else f"{self.beta:.4g}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """The guarantee."""
        known = () if self.results is None else self.results.notes
        return (*known, str(self.guarantee))

    def blocks(self, alpha: float) -> list[Block]:
        """The components."""
        if self.components is None:
            return [Block(["not achievable at this price"], [])]
        if self.results is not None:
            return self.results.blocks(alpha)
        rows = [
            [str(name), *(f"{value:.4f}" for value in row)] for name, *row in self.components.itertuples()
        ]
        return [Block(["", *(f"PC{a + 1}" for a in range(self.components.shape[1]))], rows)]


def centred_components(gram: PrivateGram, components: int, columns: Sequence[str]) -> PrivateComponents:
    """Principal components about the mean, in scaled units, from a noisy Gram matrix that has `one`."""
    import pandas as pd

    names = list(columns)
    found = fit.pca(gram, names, components=components, standardize=False)
    values = gram.values
    centre = pd.Series(values.loc[ONES, names].to_numpy() / gram.rows, index=names, dtype=float)
    shown = found.loadings.set_axis(range(components), axis="columns")
    return PrivateComponents(shown, None, gram.guarantee, gram.answer, found, centre, gram)
