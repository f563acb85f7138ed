"""What a release would show: the researcher's own fit on the moments that people like these are expected to give.

The people are a pilot's, or drawn from what the owner expects. Their second moments times n / (people there), with the
law of the noise that the study declares, are handed to `trimask.fit.ols`: the standard errors are then those a release
will print, but for what the release's own noise does to them. The columns' correlations are the people's, which plans
that assume independent columns get wrong. The bias of clipping is the fit on clipped rows less the fit on whole ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trimask import fit
from trimask.errors import CollinearColumns, NoiseExceedsSignal
from trimask.moments.moments import Moments, effective
from trimask.moments.published_moments import ObservedMoments, ObservedRows, entry_variances
from trimask.simulation import drafted
from trimask_core.basics.errors import ConfigError
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.definition import Study
from trimask_core.study.schema import Schema
from trimask_theory.moments.noise_law import Matrix
from trimask_theory.planning.definition import StudyDefinition

_MOST_PEOPLE = 10**8


@dataclass(frozen=True)
class Prediction:
    """A fit at n people, coefficient by coefficient; `problem` says why there is none, and errors are then infinite."""

    suite: str
    rows: int
    sigma: float
    row_norm: float
    clipped: float
    names: tuple[str, ...]
    coefficients: tuple[float, ...]
    se: tuple[float, ...]
    se_privacy: tuple[float, ...]
    se_sampling: tuple[float, ...]
    bias: tuple[float, ...]
    problem: str = ""
    effective_rows: int | None = None
    """How many people n are worth by their weights; None where all count the same."""

    @property
    def inflation(self) -> float:
        """Root mean square of all errors, bias among them, over those of raw rows: 1 is no loss at all."""
        parts = zip(self.se_privacy, self.bias, self.se_sampling, strict=True)
        squares = [(noise**2 + bias**2) / raw**2 for noise, bias, raw in parts if raw > 0]
        return math.sqrt(1 + sum(squares) / len(squares)) if squares else math.inf

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what is infinite is null."""
        columns = zip(
            self.names, self.coefficients, self.se, self.se_privacy, self.se_sampling, self.bias, strict=True
        )
        return {
            "suite": self.suite,
            "rows": self.rows,
            "effective_rows": self.effective_rows,
            "sigma": self.sigma,
            "row_norm": self.row_norm,
            "clipped": self.clipped,
            "inflation": _finite(self.inflation),
            "problem": self.problem,
            "coefficients": [
                {"name": name, "coef": coef, "se": _finite(se), "se_privacy": _finite(noise),
                 "se_sampling": _finite(raw), "clipping_bias": _finite(bias)}
                for name, coef, se, noise, raw, bias in columns
            ],
        }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass
class Population:
    """People to plan by, encoded once for each way of encoding them."""

    people: Sequence[Mapping[str, object]]
    _rows: dict[Schema, Matrix] = field(default_factory=dict, repr=False)
    _reports: dict[MomentsLayout, tuple[Matrix, float]] = field(default_factory=dict, repr=False)

    def scaled(self, schema: Schema) -> Matrix:
        """Rows as devices encode them, before any clipping."""
        if schema not in self._rows:
            self._rows[schema] = np.array([schema.encode(one) for one in self.people])
        return self._rows[schema]

    def clipped_rows(self, study: Study) -> tuple[Matrix, float]:
        """Rows of the rows suite as sent, and the share of them that were shortened."""
        rows = self.scaled(study.schema)
        norms = np.linalg.norm(rows, axis=1)
        limit = study.protection.row_norm
        kept = np.minimum(1.0, limit / norms) * self.roots(study)
        return rows * kept[:, None], float((norms > limit * (1 + 1e-12)).mean())

    def roots(self, study: Study) -> Matrix:
        """The root of each person's weight over the largest; ones in a study without weights."""
        weight, schema = study.weight, study.schema
        if weight is None:
            return np.ones(len(self.people))
        used = [weight.used(schema, weight.of(schema, one)) for one in self.people]
        return np.sqrt(np.array(used) / weight.bounds(schema)[1])

    def reports(self, layout: MomentsLayout) -> tuple[Matrix, float]:
        """(1, z / w) of the moments suite as sent, and the share shrunk to the ball."""
        if layout not in self._reports:
            encoded = [layout.encode(one) for one in self.people]
            widths = np.array([column.width for column in layout.columns], dtype=np.float64)
            z = np.array([one.z for one in encoded], dtype=np.float64) / widths
            rows = np.column_stack([np.ones(len(z)), z])
            if layout.weight is not None:
                rows *= np.array([[one.root / layout.weight.steps] for one in encoded])
            self._reports[layout] = rows, float(np.mean([one.clipped for one in encoded]))
        return self._reports[layout]


def predict(definition: StudyDefinition, population: Population, formula: str, rows: int | None = None,
            right: int | None = None, left: int | None = None) -> Prediction:  # fmt: skip
    """The fit of one release of `rows` people (the definition's release_rows unless given)."""
    if definition.privacy.budget is not None:
        raise ConfigError(
            "a study with a [privacy.budget] publishes nothing by itself; plan its answers instead"
        )
    study = drafted(definition.changed(release_rows=rows), right, left)
    return predict_study(study, population, formula)


def predict_study(study: Study, population: Population, formula: str) -> Prediction:
    """The same of a study that is made already."""
    n = study.release_rows
    moments, kept, clipped = expected_moments(study, population, n)
    rows = population.scaled(study.schema) * population.roots(study)[:, None]
    whole = _plain(study, rows.T @ rows * (n / len(rows)), n)
    worth = None if study.weight is None else whole.rows
    shape = study.suite.name, n, study.protection.sigma, study.protection.row_norm, clipped
    truth = fit.ols(whole, formula)
    bias = fit.ols(kept, formula).coefficients - truth.coefficients
    names, coefficients = tuple(truth.names), tuple(map(float, truth.coefficients))
    raw = tuple(map(float, truth.bse_sampling))
    try:
        found = fit.ols(moments, formula)
    except (NoiseExceedsSignal, CollinearColumns) as error:
        lost = (math.inf,) * len(names)
        return Prediction(
            *shape, names, coefficients, lost, lost, raw, tuple(map(float, bias)), str(error), worth
        )
    return Prediction(
        *shape, names, coefficients, tuple(map(float, found.bse)), tuple(map(float, found.bse_privacy)), raw,
        tuple(map(float, bias)), effective_rows=worth,
    )  # fmt: skip


def expected_moments(study: Study, population: Population, n: int) -> tuple[Moments, Moments, float]:
    """The release's expected moments with the law of their noise, the same without noise, and the share clipped."""
    if study.suite.name == "rows":
        rows, clipped = population.clipped_rows(study)
        gram = rows.T @ rows * (n / len(rows))
        noise = n * study.protection.sigma**2 * np.eye(len(gram))
        observed: ObservedRows | ObservedMoments = ObservedRows(study, gram + noise, n)
        kept = gram
    else:
        rows, clipped = population.reports(study.moments.layout)
        gram = rows.T @ rows * (n / len(rows))
        observed = ObservedMoments(study, gram, entry_variances(study), n)
        kept = observed.unscaled()
    return observed.moments("expected"), _plain(study, kept, n), clipped


def _plain(study: Study, gram: Matrix, n: int) -> Moments:
    """Without noise; weighted sums are brought to the people they are worth."""
    if study.weight is None:
        return Moments(study.schema, gram, n, 0.0)
    rows, factor = effective(study.weight, study.schema, gram, n)
    return Moments(study.schema, factor * gram, rows, 0.0, weight=study.weight)


def people_needed(definition: StudyDefinition, population: Population, formula: str, wanted: Mapping[str, float],
                  right: int | None = None, left: int | None = None) -> int | None:  # fmt: skip
    """The least n, to two digits, of one release whose named errors, bias included, are as wanted; None above 10^8."""

    def enough(rows: int) -> bool:
        found = predict(definition, population, formula, rows, right, left)
        errors = {
            name: math.hypot(se, bias)
            for name, se, bias in zip(found.names, found.se, found.bias, strict=True)
        }
        return all(errors[name] <= limit for name, limit in wanted.items())

    low = 2 * len(definition.schema.columns)
    high = max(2 * low, 64)
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_PEOPLE:
            return None
    while high > 1.02 * low + 1:
        middle = round(math.sqrt(low * high))
        low, high = (low, middle) if enough(middle) else (middle, high)
    return _up(high)


def _up(value: int) -> int:
    """Rounded up to two digits."""
    unit: int = 10 ** max(0, len(str(value)) - 2)
    return -(-value // unit) * unit
