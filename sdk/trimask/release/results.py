"""What private releases give back, whether a collector or the holder of the rows made them. Each prints itself.

A collector's signed `Answer` is checked: it is to the request sent, about the study asked, and signed by its collector;
what the right providers signed of it is checked in `gathered`. A noisy Gram matrix becomes least squares (`gram_fit`) or
components (`centred_components`).

Of the papers' own mechanisms for least squares and projections, each comes with its error. M_LS and M_ALS (Lu,
Magdon-Ismail, Wei, Zikas) answer with a draw that has the spread of a fit on r sketched rows: with residual e and B the
regressors, |e| (B^T B)^(-1/2) / sqrt(r) in every direction, where sampling n people has |e| (B^T B)^(-1/2) / sqrt(n). So
the error is at least sqrt(n / r) sampling standard errors, at any epsilon; the shrinkage by their sigma, which grows with
r, comes on top. A noisy Gram matrix has neither.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from trimask import fit
from trimask.data.manifest import Shown
from trimask.errors import CollinearColumns, NoiseExceedsSignal, ParameterError, VerificationError
from trimask.fit.components import PCAResults
from trimask.fit.ols_results import OLSResults
from trimask.fit.report import Block, Facts, Report, figures, places_for
from trimask.moments.moments import Moments, original_map
from trimask_core.crypto.keys import verify
from trimask_core.study.definition import Study
from trimask_core.study.derived import ONES
from trimask_core.study.guarantee import Guarantee
from trimask_proto.v1 import release_pb2
from trimask_theory.mechanisms.noisy_regression import outers

_FORMAT = "trimask-answer/1"


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Shown):
    """What was asked, what came, what it cost. `raw` and `signature` are what the collector signed."""

    study_id: str
    request_id: str
    mechanism: str
    rows: int
    parameters: Mapping[str, Any]
    values: Mapping[str, Any] = field(repr=False)
    guarantee: Guarantee
    cost: Mapping[str, float | None]
    replayed: bool
    raw: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @classmethod
    def read(
        cls, study: Study, request: release_pb2.AskReleaseRequest, response: release_pb2.AskReleaseResponse
    ) -> Answer:
        """Check and read a reply; `VerificationError` if it is not what was asked for."""
        answer = cls.checked(study, response.answer, response.signature, replayed=response.replayed)
        sent = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
        if (answer.request_id, json.loads(answer.raw)["request_sha256"]) != (request.request_id.hex(), sent):
            raise VerificationError("the collector sent the answer to another request")
        return answer

    @classmethod
    def checked(cls, study: Study, raw: bytes, signature: bytes, *, replayed: bool = False) -> Answer:
        """An answer, whoever kept it, with its collector's signature."""
        verify(study.collector.identity, "release-answer", raw, signature, "a release answer")
        try:
            body = json.loads(raw)
            if (body["format"], body["study_id"]) != (_FORMAT, study.id.hex()):
                raise VerificationError("this is an answer about another study")
            return cls(
                study_id=body["study_id"],
                request_id=body["request_id"],
                mechanism=body["mechanism"],
                rows=body["rows"],
                parameters=body["parameters"],
                values=body["values"],
                guarantee=Guarantee.from_dict(body["guarantee"]),
                cost=body["cost"],
                replayed=replayed,
                raw=raw,
                signature=signature,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"the collector's answer cannot be read: {error}") from None


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
        names = [column.name for column in self.moments.columns]
        return pd.DataFrame(self._change.T @ self.moments.gram @ self._change, names, names)

    @cached_property
    def noise(self) -> pd.DataFrame:
        """The standard deviation of the noise in each entry of `values`; zero where the schema knows it."""
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
    names = list(columns)
    found = fit.pca(gram, names, components=components, standardize=False)
    values = gram.values
    centre = pd.Series(values.loc[ONES, names].to_numpy() / gram.rows, index=names, dtype=float)
    shown = found.loadings.set_axis(range(components), axis="columns")
    return PrivateComponents(shown, None, gram.guarantee, gram.answer, found, centre, gram)


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
