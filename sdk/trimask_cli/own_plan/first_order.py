"""Errors along a ladder of row norms, of any number of people and any epsilon, to first order in the noise.

Statement. Of a function of the Gram matrix with gradient A = sym(u v^T) at the truth of n people, the error's square is
    sampling / n + noise(n, epsilon) + COUNTED * s^2,
s^2 = Var[(u x)(v x) - (u c)(v c)] / m over the pilot's m rows x and what is sent of them, c (`planning.pilot`).
In the moments suite the noise of A goes with R^4 / n^2 and with the square of what epsilon asks for. In the rows suite it is
that of the law with sigma(n, epsilon) = R sigma_1(n, epsilon), scaled from one n to another as that of rows that nothing is
known of. So what takes long is done once a row norm, or once: people are encoded, the design is factored, the law is asked.
Asymptotic: optimistic where the noise is near the signal. It ranks and finds; what is printed is drawn (`predict`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy import linalg

from trimask import fit
from trimask.fit.covariance import covariance_of, numeric_columns
from trimask.fit.least_squares import Estimate
from trimask.moments.moments import COUNTED
from trimask.simulation import drafted
from trimask_cli.own_plan.predict import (
    MANY_COLUMNS,
    Population,
    Prediction,
    expected_moments,
    floats,
    slopes_of,
    whole_moments,
)
from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.study.definition import Study
from trimask_core.study.derived import ONES
from trimask_core.study.guarantee import Protection
from trimask_theory.masking import masked_noise
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments import moments_noise
from trimask_theory.moments.noise_law import Matrix, RowsLaw
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.pilot import ALLOWED


@dataclass(frozen=True, eq=False)
class Rung:
    """A row norm (None: the bounds alone), what its noise is at the study's own n and epsilon, and what clipping takes."""

    row_norm: float | None
    definition: StudyDefinition
    clipped: float
    sigma: float
    radius: float
    noise: Matrix
    bias: Matrix
    s: Matrix


class Ladder:
    """A definition's model by these people; `rungs` are the bounds alone, then the row norms asked for."""

    def __init__(
        self,
        bare: StudyDefinition,
        scaled: Iterable[tuple[StudyDefinition, Iterable[float | None]]],
        population: Population,
        formula: str,
        rows: int,
        parties: tuple[int | None, int | None],
        cover: str,
    ) -> None:
        """`scaled` are ways of centring and scaling, each with its row norms."""
        self.population, self.rows, self.definition = population, rows, bare
        bare = bare.changed(release_rows=rows)
        self.study = study = drafted(bare, *parties)
        whole, self._factor = whole_moments(study, population, rows)
        self.truth: Estimate = fit.ols(whole, formula).estimate
        self.names = self.truth.design.names
        self.truth_rows = whole.rows
        # The functions: slopes, then means, then second moments.
        design, working = self.truth.design, self.truth.working
        sides = (design.combine @ working.inverse @ design.to_original.T).T
        U, V = [sides], [np.tile(working.theta, (len(sides), 1))]
        sampling = [np.diag(self.truth.cov_sampling)]
        p = len(whole.gram)
        one = [column.name for column in whole.columns].index(ONES)
        unit, size = np.eye(p), float(whole.gram[one, one])
        others = [j for j in range(p) if j != one]
        means = whole.gram[one, others] / size
        U.append((unit[others] - means[:, None] * unit[one]) / size)
        V.append(np.tile(unit[one], (p - 1, 1)))
        sampling.append(np.maximum(np.diag(whole.gram)[others] / size - means**2, 0.0) / whole.rows)
        if cover == "moments" or p <= MANY_COLUMNS:
            covariance = covariance_of(whole, numeric_columns(whole.schema))
            first, second = np.triu_indices(len(covariance.names))
            U.append(covariance.W.T[first])
            V.append(covariance.W.T[second] / covariance.degrees)
            cells = np.eye(len(covariance.names))
            sampling.append(covariance.sampling_variance(outers(cells[first], cells[second])))
        self._kinds = np.cumsum([0, *map(len, U)])
        # Last the model's directions, by which it is seen whether a release has a fit at all.
        T = design.combine
        self._strength, vectors = linalg.eigh(T.T @ whole.gram @ T, T.T @ T)
        U.append((T @ vectors).T)
        V.append(U[-1])
        sampling.append(np.zeros(len(vectors)))
        self.U, self.V, self.sampling = np.vstack(U), np.vstack(V), np.concatenate(sampling)
        self._gradients = outers(self.U, self.V)
        law = RowsLaw(whole.gram / rows, 1, 1.0)
        self._linear = law.variance(self._gradients) - law.fixed.variance(self._gradients)
        self._square = law.fixed.variance(self._gradients)
        self._rows = population.whole(study)
        self.rungs = [self._rung(study, bare, None, self._noise(study))]
        for way, norms in scaled:
            self._climb(way.changed(release_rows=rows), norms, parties)

    def _climb(
        self, way: StudyDefinition, norms: Iterable[float | None], parties: tuple[int | None, int | None]
    ) -> None:
        sample: tuple[Study, Matrix] | None = None
        for norm in norms:
            there = replace(way, privacy=replace(way.privacy, row_norm=norm))
            try:
                if norm is None:
                    study = drafted(there, *parties)
                    self.rungs.append(self._rung(study, there, None, self._noise(study)))
                    continue
                if sample is None:
                    study = drafted(there, *parties)
                    sample = study, self._noise(study)
                study, noise = self._at(*sample, norm)
                self.rungs.append(self._rung(study, there, norm, noise))
            except (ImpossibleStudy, ParameterError):
                continue  # no ball below the box holds these rows, or none is below it

    def _at(self, sample: Study, noise: Matrix, norm: float) -> tuple[Study, Matrix]:
        """A study of another row norm and its noise, in proportion: to be weighed, never made."""
        old: Protection = sample.protection
        if sample.suite.name == "rows":
            ratio = norm / old.row_norm if self.definition.privacy.protect == "record" else 1.0
            step = sample.rows.grid.step
            sigma = max(8, round(old.sigma * ratio / step)) * step
            moved = self._plain(sigma) / np.maximum(self._plain(old.sigma), 1e-300)
            return replace(sample, protection=replace(old, row_norm=norm, sigma=sigma)), noise * moved
        ratio = moments_noise.sensitivity(norm**2) / moments_noise.sensitivity(old.row_norm**2)
        suite = replace(sample.suite, ball_norm=norm)
        protection = replace(old, row_norm=norm, sigma=old.sigma * ratio)
        return replace(sample, protection=protection, suite=suite), noise * ratio**2

    def _plain(self, sigma: float) -> Matrix:
        """Variances in the rows suite where nothing is known of the moments, but for a factor."""
        found: Matrix = sigma**2 * self._linear + sigma**4 * self._square
        return found

    def _noise(self, study: Study) -> Matrix:
        law = expected_moments(study, self.population, self.rows)[0].law
        return np.maximum(law.uncorrected().variance(self._gradients), 0.0)

    def _rung(self, study: Study, definition: StudyDefinition, norm: float | None, noise: Matrix) -> Rung:
        clipped = 0.0
        bias, s = np.zeros(len(self.U)), np.zeros(len(self.U))
        if norm is not None:
            sent, clipped = self.population.sent(study)
            moved = np.flatnonzero(np.any(sent != self._rows, axis=1))
            x, c, m = self._rows[moved], sent[moved], len(sent)
            d = (x @ self.U.T) * (x @ self.V.T) - (c @ self.U.T) * (c @ self.V.T)
            d *= self.rows * self._factor
            mean = d.sum(axis=0) / m
            s = np.sqrt(
                np.maximum((d**2).sum(axis=0) / m - mean**2, 0.0) / max((self.population.worth or m) - 1, 1)
            )
            bias = -mean
        protection = study.protection
        return Rung(norm, definition, clipped, protection.sigma, protection.row_norm, noise, bias, s)

    def noise(self, rung: Rung, n: float, epsilon: float) -> Matrix:
        """Its variance at another number of people and another epsilon."""
        privacy, given = self.definition.privacy, self.definition.privacy.epsilon
        if privacy.delta is None or given is None:
            return rung.noise
        ratio = self.rows / n
        if self.study.suite.name == "moments":
            there = _unit_noise(epsilon, privacy.delta) / _unit_noise(given, privacy.delta)
            found: Matrix = rung.noise * (there * ratio) ** 2
            return found
        s0 = self._sigma(rung.radius, self.rows, given)
        s = self._sigma(rung.radius, n, epsilon) * rung.sigma / s0
        scaled: Matrix = rung.noise * ratio * self._plain(s) / np.maximum(self._plain(rung.sigma), 1e-300)
        return scaled

    def _sigma(self, radius: float, n: float, epsilon: float) -> float:
        privacy, p = self.definition.privacy, self.study.attributes
        if privacy.protect == "record":
            return radius * _masked(epsilon, privacy.delta or 0.0, n, p, "record", 1.0, privacy.method)
        return _masked(epsilon, privacy.delta or 0.0, n, p, "unit", radius, privacy.method)

    def errors(self, rung: Rung, n: float, epsilon: float) -> tuple[Matrix, Matrix]:
        """Errors of all functions, bias included, and the bias that may be left over the error of the rest."""
        rest = self.sampling * self.rows / n + self.noise(rung, n, epsilon)
        pilot = self.population.pilot
        total = rest + (COUNTED * rung.s**2 if pilot else rung.bias**2)
        left = (rung.s if pilot else rung.s + np.abs(rung.bias)) / np.sqrt(np.maximum(rest, 1e-300))
        return np.sqrt(total), left

    def signal(self, rung: Rung, n: float, epsilon: float) -> float:
        """By how many noise errors the model's weakest direction clears zero."""
        noise = np.sqrt(self.noise(rung, n, epsilon)[self._kinds[-1] :]) * n / self.rows
        return float(np.min(self._strength * n / self.rows / np.maximum(noise, 1e-300)))

    def prediction(self, rung: Rung) -> Prediction:
        """At the study's own n and epsilon."""
        k, pilot = len(self.names), self.population.pilot
        epsilon = self.definition.privacy.epsilon or 0.0
        _, left = self.errors(rung, self.rows, epsilon)
        privacy = np.sqrt(rung.noise[:k] + (COUNTED * rung.s[:k] ** 2 if pilot else 0.0))
        sampling = np.sqrt(self.sampling[:k])
        bias = np.zeros(k) if pilot else rung.bias[:k]
        se = np.hypot(privacy, sampling)
        kinds: dict[str, float] = {}
        if rung.row_norm is not None:
            slopes = left[:k][slopes_of(self.names)]
            kinds["slopes"] = float(np.max(slopes, initial=0.0))
            kinds["means"] = float(np.max(left[self._kinds[1] : self._kinds[2]], initial=0.0))
            if len(self._kinds) > 3:
                kinds["moments"] = float(np.max(left[self._kinds[2] : self._kinds[3]], initial=0.0))
        worth = None if self.study.weight is None else self.truth_rows
        return Prediction(
            self.study.suite.name, self.rows, rung.sigma, rung.radius, rung.clipped, self.names,
            floats(self.truth.params), floats(se), floats(privacy), floats(sampling), floats(bias),
            effective_rows=worth, left=kinds,
        )  # fmt: skip

    def covered(self, rung: Rung, left: Matrix, cover: str) -> bool:
        """Whether intervals hold of what is covered; of the bounds alone they do."""
        if rung.row_norm is None:
            return True
        k = len(self.names)
        wanted = left[:k][slopes_of(self.names)]
        if cover != "slopes":
            wanted = np.concatenate([wanted, left[k : self._kinds[2 if cover == "means" else -1]]])
        return bool(np.max(wanted, initial=0.0) <= ALLOWED)

    @cached_property
    def effects(self) -> dict[str, float]:
        """The standard size of each: it moves the answer by 0.2 of its standard deviation for one of the column's; between
        the two sides of a yes-or-no column, or a level and the others, by 0.4.
        """
        design, gram = self.truth.design, self.truth.moments.gram
        change = design.combine @ np.linalg.inv(design.to_original)
        columns = {column.name: column for column in self.truth.moments.columns}
        binary = {item.name for item in self.study.schema.attributes if item.kind == "binary"}
        one = np.zeros(len(gram))
        one[[column.name for column in self.truth.moments.columns].index(ONES)] = 1.0
        size = float(one @ gram @ one)

        def deviation(direction: Matrix) -> float:
            mean = float(one @ gram @ direction) / size
            return math.sqrt(max(float(direction @ gram @ direction) / size - mean**2, 0.0))

        y = deviation(design.response_combine) * design.response_half_range
        found = {}
        for j in slopes_of(self.names):
            first = columns.get(design.columns[j].partition("+")[0])
            two = first is None or first.level is not None or first.source in binary
            spread = 0.5 if two else deviation(change[:, j]) * design.response_half_range
            if spread > 0:
                found[self.names[j]] = 0.2 * y / spread
        return found


@lru_cache(maxsize=512)
def _unit_noise(epsilon: float, delta: float) -> float:
    return moments_noise.calibrate(epsilon, delta, 2.0, 2).sigma


@lru_cache(maxsize=512)
def _calibrated(epsilon: float, delta: float, n: int, p: int, protect: masked_noise.Protection, norm: float,
                method: masked_noise.Method) -> float:  # fmt: skip
    return masked_noise.calibrate(epsilon, delta, n, p, protect, norm, method).sigma


_STEP = 4.0
"""Of people and of epsilon, between which sigma is interpolated on logarithmic scales."""


def _masked(epsilon: float, delta: float, n: float, p: int, protect: masked_noise.Protection, norm: float,
            method: masked_noise.Method) -> float:  # fmt: skip
    """sigma, interpolated between powers of _STEP: within a hundredth, and the same for neighbouring n."""

    def at(people: float) -> float:
        where = math.log(epsilon) / math.log(_STEP)
        low = math.floor(where)
        ends = [
            math.log(_calibrated(_STEP**e, delta, max(round(people), p + 1), p, protect, norm, method))
            for e in (low, low + 1)
        ]
        return ends[0] + (where - low) * (ends[1] - ends[0])

    where = math.log(max(n, p + 1)) / math.log(_STEP)
    low = math.floor(where)
    first, second = at(max(_STEP**low, p + 1)), at(_STEP ** (low + 1))
    share = where - low
    return math.exp(first + share * (second - first))


CLEAR = 3.5
"""Noise errors by which the weakest direction of a model clears zero where practically every release has a fit with bounded
errors, and first order is within a fifth of what releases show.
"""
_PEOPLE, _EPSILONS = (np.geomspace(20, 1e8, 180), np.geomspace(0.02, 100.0, 110))


@dataclass(frozen=True)
class Sizes:
    """What effects ask for: people at the study's epsilon, epsilon at its people, and people without any noise.

    None: above 100 million people, and above epsilon 100.
    """

    people: int | None
    epsilon: float | None
    raw: int


class Needs:
    """How large a study must be for errors as wanted, on the rung that serves best at each size."""

    def __init__(self, ladder: Ladder, cover: str) -> None:
        self.ladder = ladder
        given = ladder.definition.privacy.epsilon or 1.0
        k = len(ladder.names)

        def least(n: float, epsilon: float) -> Matrix:
            """Errors on each rung; infinite where intervals would not hold, or some releases would have no fit."""
            rungs = []
            for rung in ladder.rungs:
                found, left = ladder.errors(rung, n, epsilon)
                fits = ladder.covered(rung, left, cover) and ladder.signal(rung, n, epsilon) >= CLEAR
                rungs.append(found[:k] if fits else np.full(k, math.inf))
            return np.array(rungs)

        self._people = np.array([least(n, given) for n in _PEOPLE])
        self._epsilons = np.array([least(ladder.rows, epsilon) for epsilon in _EPSILONS])

    def of(self, wanted: Sequence[tuple[str, float]]) -> Sizes:
        """Of errors at most as wanted, all on one rung."""
        places = [self.ladder.names.index(name) for name, _ in wanted]
        limits = np.array([limit for _, limit in wanted])
        raw = float(np.max(self.ladder.sampling[places] * self.ladder.rows / limits**2))

        def first(table: Matrix, sizes: Matrix) -> float | None:
            enough = np.all(table[:, :, places] <= limits, axis=2).any(axis=1)
            # From where on it stays enough: with more people the rule lets fewer rows be shrunk.
            failing = np.flatnonzero(~enough)
            after = failing[-1] + 1 if len(failing) else 0
            return float(sizes[after]) if after < len(sizes) else None

        people, epsilon = first(self._people, _PEOPLE), first(self._epsilons, _EPSILONS)
        return Sizes(
            None if people is None else up(max(people, raw)),
            None if epsilon is None else float(f"{epsilon:.2g}"),
            max(2 * len(self.ladder.names), up(raw)),
        )


def up(value: float) -> int:
    """Rounded up to two digits."""
    unit: int = 10 ** max(0, len(str(math.ceil(value))) - 2)
    return math.ceil(value / unit) * unit


def without(
    ladder: Ladder, wanted: Sequence[tuple[str, float]], gone: Sequence[str] = ()
) -> dict[str, float]:
    """For each question but the response: how many times the people the other effects ask for without it, at most 1.

    In the box, by noise alone and with nothing known of the moments: what a question costs is its part of R^2, and what it
    shares with others. `gone` are left out already.
    """
    design, gram, schema = ladder.truth.design, ladder.truth.moments.gram, ladder.study.schema
    names = [column.name for column in ladder.truth.moments.columns]
    limits = {-1: 1.0, **{ladder.names.index(name): limit for name, limit in wanted}}

    def need(left_out: Sequence[str]) -> float:
        """The largest error over its limit, and that of the weakest direction over what it may be."""
        places = [j for j, column in enumerate(schema.columns) if column.source in left_out]
        kept = [j for j in range(len(ladder.names)) if not design.combine[places, j].any()]
        T = design.combine[:, kept]
        strength, vectors = linalg.eigh(T.T @ gram @ T, T.T @ T)
        inverse = np.linalg.inv(T.T @ gram @ T)
        theta = design.response_combine - T @ (inverse @ (T.T @ gram @ design.response_combine))
        sides = (T @ inverse).T
        own = np.sqrt(np.sum(sides**2, axis=1) * float(theta @ theta) + (sides @ theta) ** 2)
        own *= np.abs(np.diag(design.to_original))[kept]
        over = [own[place] / limits[j] for place, j in enumerate(kept) if j in limits]
        over.append(CLEAR * float(np.max(np.sum((T @ vectors) ** 2, axis=0) / strength)))
        return (ladder.study.protection.row_norm**2 - len(left_out)) * float(max(over))

    response = schema.columns[names.index(design.response)].source
    others = [item.name for item in schema.attributes if item.name not in (response, *gone)]
    before = need(gone)
    found = {name: min(1.0, need([*gone, name]) / before) for name in others}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def cheapest(ladder: Ladder, wanted: Sequence[tuple[str, float]], count: int) -> list[str]:
    """So many questions that cost least together: the costliest is left out again and again."""
    gone: list[str] = []
    while len(found := without(ladder, wanted, gone)) > count:
        gone.append(next(iter(found)))
    return [item.name for item in ladder.study.schema.attributes if item.name in found]
