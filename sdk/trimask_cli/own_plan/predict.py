"""What a release would show: releases of people like these are drawn, and fitted as a researcher will fit them.

The people are a pilot's, or drawn from what the owner expects. To their second moments times n / (people there) noise of the
law that the study declares is added, and `trimask.fit` does the rest; so errors are those that releases print, with what
the noise does to them, and where it is near the signal some releases have no fit. The columns' correlations are the
people's, which plans that assume independent columns get wrong. With a pilot's rows the bias of clipping is corrected, and
the correction's error is in the standard errors; without, it is the fit on clipped rows less the fit on whole ones. How
much bias is left beside the error, for slopes, means and second moments, is `left`
(docs/theory/verified-moments.md#pilot). Left out: that people of a release differ from the pilot's by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trimask import fit
from trimask.errors import CollinearColumns, NoiseExceedsSignal
from trimask.fit.clipping import means_left, second_moments_left, slopes_left
from trimask.fit.design import INTERCEPT, Design
from trimask.fit.least_squares import solve
from trimask.moments.moments import Moments, ObservedMoments, ObservedRows, effective, entry_variances
from trimask.simulation import drafted
from trimask_core.basics.errors import ConfigError
from trimask_core.moments.columns import CLIPPED
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.definition import Study
from trimask_core.study.pilot import PilotCorrection
from trimask_core.study.schema import Schema
from trimask_theory.moments.noise_law import EntriesLaw, Matrix, RowsLaw
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.pilot import (
    ALLOWED,
    Whole,
    correction_of,
    scaled_reports,
    schema_map,
    shrunk_reports,
    whole_numbers,
)

COVERS = ("slopes", "means", "moments")
"""What must be covered by intervals: the model's slopes; means too; variances and covariances too."""
DRAWS = 40
"""Releases that are drawn: half of them where there are many columns, and more where some leave a coefficient unbounded."""
HARD = 5
MANY_COLUMNS = 24


_PEOPLE = 20_000


def sample_of(people: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """As many of a pilot as a plan encodes, from all over the file, which may be sorted: by place, by arm, by day."""
    if len(people) <= _PEOPLE:
        return people
    return [people[k * len(people) // _PEOPLE] for k in range(_PEOPLE)]


@dataclass(frozen=True)
class Prediction:
    """A fit at n people, coefficient by coefficient. Errors are the medians over the releases drawn in which a coefficient
    is bounded (`seen` of `drawn`; of those drawn `fits` had a fit), and infinite where it is in none.
    """

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
    drawn: int = 0
    fits: int = 0
    seen: tuple[int, ...] = ()
    effective_rows: int | None = None
    """How many people n are worth by their weights; None where all count the same."""
    left: Mapping[str, float] = field(default_factory=dict)
    """The largest bias that may be left, in standard errors of sampling and noise, of each of `COVERS`; none unclipped."""

    def covers(self, what: str) -> bool:
        """Whether intervals hold of this and of all before it in `COVERS`."""
        kinds = COVERS[: COVERS.index(what) + 1]
        return all(self.left.get(kind, 0.0) <= ALLOWED for kind in kinds)

    @property
    def inflation(self) -> float:
        """Root mean square of all errors, bias among them, over those of raw rows: 1 is no loss at all."""
        parts = zip(self.se_privacy, self.bias, self.se_sampling, strict=True)
        squares = [(noise**2 + bias**2) / raw**2 for noise, bias, raw in parts if raw > 0]
        return math.sqrt(1 + sum(squares) / len(squares)) if squares else math.inf

    def as_good_as(self, other: Prediction) -> bool:
        """Whether releases drawn bound more coefficients, or as many with errors as small, but for chance."""
        more = (sum(self.seen) / self.drawn - sum(other.seen) / other.drawn) / len(self.names)
        return more > 0.02 or (more > -0.02 and self.inflation <= 1.02 * other.inflation)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what is infinite is null."""
        columns = zip(
            self.names, self.coefficients, self.se, self.se_privacy, self.se_sampling, self.bias,
            self.seen or (0,) * len(self.names), strict=True,
        )  # fmt: skip
        return {
            "suite": self.suite,
            "rows": self.rows,
            "effective_rows": self.effective_rows,
            "sigma": self.sigma,
            "row_norm": self.row_norm,
            "clipped": self.clipped,
            "inflation": _finite(self.inflation),
            "bias_left": {kind: _finite(value) for kind, value in self.left.items()},
            "releases_drawn": self.drawn,
            "releases_with_a_fit": self.fits,
            "coefficients": [
                {"name": name, "coef": coef, "se": _finite(se), "se_privacy": _finite(noise),
                 "se_sampling": _finite(raw), "clipping_bias": _finite(bias), "releases_that_bound_it": seen}
                for name, coef, se, noise, raw, bias, seen in columns
            ],
        }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass
class Population:
    """People to plan by, encoded once for each way of encoding them."""

    people: Sequence[Mapping[str, object]]
    pilot: bool = True
    """Whether these are rows of people, that a study may be corrected by; made-up ones are not."""
    worth: int | None = None
    """Of people drawn by a release of others: as the pilot of how many they count (`trimask.moments.waves`)."""
    _rows: dict[Schema, Matrix] = field(default_factory=dict, repr=False)
    _read: list[dict[str, float | str]] = field(default_factory=list, repr=False)
    _whole: dict[Schema, Whole] = field(default_factory=dict, repr=False)
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

    def sent(self, study: Study) -> tuple[Matrix, float]:
        """What devices send, in the schema's scaled columns, times the roots of weights, and the share shrunk."""
        if study.suite.name == "rows":
            return self.clipped_rows(study)
        rows, clipped = self.reports(study.moments.layout)
        return rows @ schema_map(study.moments.layout).T, clipped

    def whole(self, study: Study) -> Matrix:
        """The same without any clipping."""
        if study.suite.name == "rows":
            return self.scaled(study.schema) * self.roots(study)[:, None]
        layout = MomentsLayout.of(study.schema, None, study.moments.layout.weight)
        return self.reports(layout)[0] @ schema_map(layout).T

    def correction(self, study: Study) -> PilotCorrection:
        """What these people would have signed with the study."""
        return correction_of(self.whole(study), self.sent(study)[0], worth=self.worth)

    def roots(self, study: Study) -> Matrix:
        """The root of each person's weight over the largest; ones in a study without weights."""
        weight, schema = study.weight, study.schema
        if weight is None:
            return np.ones(len(self.people))
        used = [weight.used(schema, weight.of(schema, one)) for one in self.people]
        return np.sqrt(np.array(used) / weight.bounds(schema)[1])

    def _shrunk(self, layout: MomentsLayout) -> Matrix:
        schema = layout.schema
        if schema not in self._whole:
            if not self._read:  # once: the ways of planning a study ask the same questions
                self._read = [schema.read(one) for one in self.people]
            self._whole[schema] = whole_numbers(MomentsLayout.of(schema), self._read)
        return shrunk_reports(layout, self._whole[schema])

    def reports(self, layout: MomentsLayout) -> tuple[Matrix, float]:
        """(1, z / w) of the moments suite as sent, and the share shrunk to the ball."""
        if layout not in self._reports:
            rows = self._shrunk(layout) if layout.weight is None else scaled_reports(layout, self.people)
            names = [column.name for column in layout.columns]
            shrunk = rows[:, 1 + names.index(CLIPPED)] if layout.ball is not None else np.zeros(1)
            self._reports[layout] = rows, float(np.mean(shrunk > 0))
        return self._reports[layout]


def predict(definition: StudyDefinition, population: Population, formula: str, rows: int | None = None,
            right: int | None = None, left: int | None = None) -> Prediction:  # fmt: skip
    """The fit of one release of `rows` people (the definition's release_rows unless given)."""
    if definition.privacy.budget is not None:
        raise ConfigError(
            "a study with a [privacy.budget] publishes nothing by itself; plan its answers instead"
        )
    return predict_study(drafted(definition.changed(release_rows=rows), right, left), population, formula)


def predict_study(study: Study, population: Population, formula: str) -> Prediction:
    """The same of a study that is made already."""
    n = study.release_rows
    corrected = replace(study, pilot=population.correction(study)) if study.clips else study
    made = corrected if population.pilot else study
    observed, kept, clipped = _expected(made, population, n)
    whole, _ = whole_moments(study, population, n)
    truth = fit.ols(whole, formula)
    design, names = truth.estimate.design, tuple(truth.names)
    bias = fit.ols(kept, formula).coefficients - truth.coefficients
    if population.pilot:
        bias = np.zeros_like(bias)  # corrected, and the correction's error is in the standard errors
    raw = truth.bse_sampling.to_numpy()
    many = len(whole.gram) > MANY_COLUMNS
    least = 1 if study.protection.sigma == 0 else DRAWS // 2 if many else DRAWS
    most = least if many or least == 1 else HARD * least
    shown: list[Matrix] = []
    for drawn, release in enumerate(_releases(observed, most), 1):
        with suppress(NoiseExceedsSignal, CollinearColumns):
            estimate = solve(release, design)
            shown.append(np.sqrt(np.diag(estimate.cov_sampling) + np.diag(estimate.cov_privacy)))
        if drawn == least and len(shown) == drawn and np.isfinite(shown).all():
            break
    errors = np.array(shown or [np.full(len(names), math.inf)])
    bounded = np.isfinite(errors)
    se = np.array(
        [
            np.median(one[held]) if held.any() else math.inf
            for one, held in zip(errors.T, bounded.T, strict=True)
        ]
    )
    privacy = np.sqrt(np.maximum(se**2 - raw**2, 0.0))
    return Prediction(
        study.suite.name, n, study.protection.sigma, study.protection.row_norm, clipped, names,
        floats(truth.coefficients), floats(se), floats(privacy), floats(raw), floats(bias),
        drawn=drawn, fits=len(shown), seen=tuple(map(int, bounded.sum(axis=0) if shown else 0 * raw)),
        effective_rows=None if study.weight is None else whole.rows,
        left=_left(corrected, made, population, design) if study.clips else {},
    )  # fmt: skip


def _left(corrected: Study, made: Study, population: Population, design: Design) -> dict[str, float]:
    n = made.release_rows
    weighed, moments = (_expected(study, population, n)[0].moments("expected") for study in (corrected, made))
    uncorrected = None if population.pilot else weighed.gram - moments.gram
    slopes = slopes_left(solve(weighed, design), uncorrected)[slopes_of(design.names)]
    left = {"slopes": float(np.max(slopes, initial=0.0))}
    left["means"] = float(np.max(means_left(weighed, uncorrected)))
    if len(weighed.gram) <= MANY_COLUMNS:
        left["moments"] = float(np.max(second_moments_left(weighed, uncorrected)))
    return left


def floats(values: Iterable[Any]) -> tuple[float, ...]:
    """As Python's own."""
    return tuple(map(float, values))


def slopes_of(names: Sequence[str]) -> list[int]:
    """The intercept is a mean: it is covered with those."""
    return [j for j, name in enumerate(names) if name != INTERCEPT]


def _releases(observed: ObservedRows | ObservedMoments, count: int) -> Iterator[Moments]:
    """Drawn from what is expected; the same for the same study and people."""
    rng, study, n = np.random.default_rng(1), observed.study, observed.rows
    for _ in range(count):
        if isinstance(observed, ObservedMoments):
            noise = EntriesLaw(observed.variances).draw(rng)
            yield replace(observed, gram=observed.gram + noise).moments("drawn")
        else:
            sigma = study.rows.published_sigma
            kept = observed.products - n * sigma**2 * np.eye(len(observed.products))
            noise = RowsLaw(kept, n, sigma).draw(rng)
            yield replace(observed, products=observed.products + noise).moments("drawn")


def expected_moments(study: Study, population: Population, n: int) -> tuple[Moments, Moments, float]:
    """The release's expected moments with the law of their noise, the same without noise, and the share clipped."""
    observed, kept, clipped = _expected(study, population, n)
    return observed.moments("expected"), kept, clipped


def _expected(
    study: Study, population: Population, n: int
) -> tuple[ObservedRows | ObservedMoments, Moments, float]:
    if study.suite.name == "rows":
        rows, clipped = population.clipped_rows(study)
        gram = rows.T @ rows * (n / len(rows))
        noise = n * study.rows.published_sigma**2 * np.eye(len(gram))
        return ObservedRows(study, gram + noise, n), _plain(study, gram, n)[0], clipped
    rows, clipped = population.reports(study.moments.layout)
    gram = rows.T @ rows * (n / len(rows))
    observed = ObservedMoments(study, gram, entry_variances(study), n)
    return observed, _plain(study, observed.unscaled(), n)[0], clipped


def whole_moments(study: Study, population: Population, n: int) -> tuple[Moments, float]:
    """Of n people like these, exact and without clipping, and by how much weights scale the Gram matrix."""
    rows = population.scaled(study.schema) * population.roots(study)[:, None]
    return _plain(study, rows.T @ rows * (n / len(rows)), n)


def _plain(study: Study, gram: Matrix, n: int) -> tuple[Moments, float]:
    """Without noise; weighted sums are brought to the people they are worth."""
    if study.weight is None:
        return Moments(study.schema, gram, n, 0.0), 1.0
    rows, factor = effective(study.weight, study.schema, gram, n)
    return Moments(study.schema, factor * gram, rows, 0.0, weight=study.weight), factor
