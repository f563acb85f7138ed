"""Both suites in `bench.field`: releases drawn by their law, fitted by `trimask.fit.ols` as a researcher would.

*Draft default*: the declared bounds, nothing else. *Recommended ball*: `row_norm`, centres and scales that `trimask plan`
takes from a pilot of other people, whose rows also correct what shrinking takes. *Two waves*: the first people in the
declared bounds; `trimask study next` plans the others' ball by their release, `trimask study new --pilot DATASET` corrects
what it shrinks, `fit.ols([first, second], ...)` pools both. Nobody is in both, so epsilon is spent once.

The *central noisy Gram* is a curator's: one Gaussian at the suite's sensitivity, h / K1 times the variance of the `moments`
suite, read by the same fit. Each of its draws has the same normals as the suite's, so their ratio is known closely.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.field_files import DELTA, FieldFile
from bench.field_methods import Array, Bounds, Rows
from trimask import fit
from trimask.errors import CollinearColumns, NoiseExceedsSignal
from trimask.moments.moments import Moments, ObservedMoments, ObservedRows, entry_variances
from trimask.moments.waves import corrected_by, first_wave
from trimask.simulation import drafted
from trimask_cli.own_plan import predict
from trimask_cli.own_plan.recommend import _norms as norms_of
from trimask_cli.own_plan.recommend import recommend
from trimask_cli.table.next_wave import planned_by
from trimask_core.moments.layout import SHRINK_BITS, MomentsLayout
from trimask_core.study.definition import Study, SuiteName
from trimask_core.study.derived import ONES
from trimask_core.study.schema import Schema
from trimask_theory.moments.noise_law import EntriesLaw, NoiseLaw, RowsLaw
from trimask_theory.planning.definition import (
    CollectionPlan,
    PrivacyTarget,
    StudyDefinition,
)
from trimask_theory.planning.pilot import correction_of, schema_map

__all__ = ["Ours", "People", "encoded", "scaled"]

_FIRST_WAVES = 12
_NO_MANIFEST = "0" * 64  # a drawn release has none to be named by

Values = Mapping[str, NDArray[Any]]
"""Everybody's answer to each question: numbers, or names of levels."""


def scaled(schema: Schema, values: Values) -> Array:
    """`Schema.encode` of everybody."""
    found = []
    for column in schema.columns:
        answers = None if column.source == ONES else values[column.source]
        if answers is None:
            found.append(np.ones(len(next(iter(values.values())))))
        elif answers.dtype.kind == "f":
            found.append((answers - column.center) / column.half_range)
        else:
            found.append((answers == column.name.removeprefix(f"{column.source}_")).astype(float))
    return np.column_stack(found)


def encoded(layout: MomentsLayout, values: Values) -> Array:
    """(1, z / w) of everybody as `MomentsLayout.encode` has them, shrunk where there is a ball."""
    z = np.zeros((len(next(iter(values.values()))), layout.q), dtype=np.int64)
    for j, column in enumerate(layout.columns):
        if column.kind == "level":
            z[:, j] = values[column.sources[0]] == column.level
        elif column.kind == "bounded":
            steps = np.floor((values[column.sources[0]] - column.minimum) / column.step + 0.5)
            z[:, j] = 2 * np.clip(steps, 0, column.steps).astype(np.int64) - column.offset
        elif column.kind != "clipped":
            raise ValueError(f"{column.name}: a {column.kind} column is not among the field's")
    ball = layout.ball
    if ball is not None:
        coefficients = np.array(ball.coefficients)
        outside = np.flatnonzero(z**2 @ coefficients > ball.capacity)
        low, high = np.zeros(len(outside), dtype=np.int64), np.full(len(outside), 1 << SHRINK_BITS)
        for _ in range(SHRINK_BITS):
            middle = (low + high) // 2
            fits = _shrunk(layout, z[outside], middle) ** 2 @ coefficients <= ball.capacity
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        z[outside] = _shrunk(layout, z[outside], low)
    return np.column_stack([np.ones(len(z)), z / [column.width for column in layout.columns]])


def _shrunk(layout: MomentsLayout, z: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.int64]:
    found = z.copy()
    for j, column in enumerate(layout.columns):
        if column.shrinks:
            size = np.abs(z[:, j]) * k >> SHRINK_BITS
            size = np.maximum(z[:, j] & 1, size - ((size ^ z[:, j]) & 1))
            found[:, j] = np.sign(z[:, j]) * size
        elif column.kind == "clipped":
            found[:, j] = 1
    return found


@dataclass
class _Known(predict.Population):
    """People to plan by, whose rows are made all at once."""

    values: Values = field(default_factory=dict)

    @classmethod
    def of(cls, values: Values, pilot: bool) -> _Known:
        """The people of a pilot, or made-up ones."""
        people = zip(*(answers.tolist() for answers in values.values()), strict=True)
        return cls([dict(zip(values, one, strict=True)) for one in people], pilot, values=values)

    def scaled(self, schema: Schema) -> Array:
        return scaled(schema, self.values)

    def reports(self, layout: MomentsLayout) -> tuple[Array, float]:
        if layout not in self._reports:
            rows = encoded(layout, self.values)
            self._reports[layout] = rows, 0.0 if layout.ball is None else float(np.mean(rows[:, -1] > 0))
        return self._reports[layout]


@dataclass(frozen=True, eq=False)
class People:
    """Answers of some of a file's people."""

    file: FieldFile
    values: Values

    @cached_property
    def whole(self) -> Array:
        """In the schema's scaled columns."""
        return scaled(self.file.schema, self.values)

    @cached_property
    def design(self) -> Array:
        """Regressors in original units, as `fit.ols` orders them: the intercept, then every level but the first."""
        return np.column_stack([np.ones(len(self.whole)), self._original[:, 1:]])

    @cached_property
    def response(self) -> Array:
        """In original units."""
        return np.asarray(self._original[:, 0])

    @cached_property
    def kept(self) -> list[int]:
        """Of the schema's columns: without the one and the first levels, the response in front."""
        first = {f"{item.name}_{item.levels[0]}" for item in self.file.schema.attributes if item.levels}
        columns = self.file.schema.columns
        return [j for j, column in enumerate(columns) if column.source != ONES and column.name not in first]

    @cached_property
    def _original(self) -> Array:
        columns = [self.file.schema.columns[j] for j in self.kept]
        change, start = [c.half_range for c in columns], [c.center for c in columns]
        return np.asarray(self.whole[:, self.kept] * change + start)

    def taken(self, which: NDArray[np.int64]) -> People:
        """These of them."""
        return People(self.file, {name: answers[which] for name, answers in self.values.items()})

    def __len__(self) -> int:
        return len(self.whole)


@dataclass(frozen=True, eq=False)
class Ours:
    """One file at one epsilon: who answers, and a pilot of others."""

    train: People
    pilot: People
    epsilon: float
    draws: int
    seed: tuple[int, ...]

    def definition(self, suite: SuiteName, people: int) -> StudyDefinition:
        """The study in its declared bounds."""
        return StudyDefinition(
            self.train.file.name, "a bench", "nobody", self.train.file.schema,
            PrivacyTarget(epsilon=self.epsilon, delta=DELTA),
            CollectionPlan(people, suite, block_rows=128 if suite == "rows" else None),
        )  # fmt: skip

    @cached_property
    def moments_ball(self) -> Study:
        """The study in `moments` that the pilot recommends, corrected by it where rows are shrunk."""
        return self._recommended("moments")

    @cached_property
    def rows_ball(self) -> Study:
        """The same in `rows`."""
        return self._recommended("rows")

    def _recommended(self, suite: SuiteName) -> Study:
        people = _Known.of(self.pilot.values, True)
        study = _planned(self.definition(suite, len(self.train)), people, self.train.file.formula)
        if study.clips:
            study = replace(study, pilot=correction_of(self.pilot.whole, _sent(study, self.pilot)))
        return study

    def default(self, suite: SuiteName, curator: bool = False) -> Array:
        """In the declared bounds: the fit without noise, then of every draw; `curator` has one noise for all providers."""
        return self._fitted(drafted(self.definition(suite, len(self.train))), curator)

    def ball(self, suite: SuiteName, curator: bool = False) -> Array:
        """The same with the recommended ball."""
        return self._fitted(self.moments_ball if suite == "moments" else self.rows_ball, curator)

    def two_waves(self, suite: SuiteName) -> Array:
        """Of some first waves, each with its own ball for the second and its part of the draws of that."""
        formula, n = self.train.file.formula, len(self.train)
        early = first_wave(drafted(self.definition(suite, n)))
        first, second = (self.train.taken(part) for part in np.split(np.arange(n), [early]))
        rng = np.random.default_rng([*self.seed, 2, suite == "rows"])
        found: list[Array] = []
        study = drafted(self.definition(suite, early))
        for release in _releases(study, first, min(_FIRST_WAVES, self.draws), 1.0, rng)[1:]:
            release = replace(release, label="the first wave")
            planned, _ = planned_by(self.definition(suite, n - early), release, formula)
            others = drafted(planned.definition)
            if others.clips:
                others = corrected_by(others, release, _NO_MANIFEST)
            later = _releases(others, second, max(self.draws // _FIRST_WAVES, 1), 1.0, rng)
            found += [_coefficients([release, one], formula) for one in later[1:]]
        return np.array(found)

    def _fitted(self, study: Study, curator: bool) -> Array:
        rng = np.random.default_rng([*self.seed, study.suite.name == "rows", study.clips])
        share = study.moments.honest_providers / len(study.right) if curator else 1.0
        releases = _releases(study, self.train, self.draws, share, rng)
        return np.array([_coefficients(release, self.train.file.formula) for release in releases])

    def rows(self, ball: bool) -> tuple[Rows, Callable[[Array], Array]]:
        """What other methods are given, and the way from their coefficients to original units.

        In the declared bounds, or in the recommended ball of the `moments` suite: its centres, scales and shrunk rows.
        """
        schema, kept = self.train.file.schema, self.train.kept
        if ball and self.moments_ball.clips:
            layout = self.moments_ball.moments.layout
            columns = [column for column in layout.columns if column.kind != "clipped"]
            base = np.array([column.value(0) for column in columns])
            change = np.array([column.value(column.width) for column in columns]) - base
            values, pilot = (encoded(layout, who.values)[:, 1:-1] for who in (self.train, self.pilot))
            low, high = pilot.min(axis=0), pilot.max(axis=0)
            bounds = Bounds.ball(float(layout.radius_squared), float(np.quantile(np.abs(pilot[:, 0]), 0.99)))
        else:
            held = [schema.columns[j] for j in kept]
            base, change = np.array([c.center for c in held]), np.array([c.half_range for c in held])
            values = self.train.whole[:, kept]
            levels = np.array([schema.parts[c.source].kind == "choice" for c in held])
            low, high = np.where(levels, 0.0, -1.0), np.ones(len(held))
            bounds = Bounds.box(float(len(schema.attributes)), 1.0)

        def original(fits: Array) -> Array:
            slopes = change[0] * fits[:, 1:] / change[1:]
            return np.column_stack([base[0] + change[0] * fits[:, 0] - slopes @ base[1:], slopes])

        ordered = np.column_stack([np.ones(len(values)), values[:, 1:], values[:, 0]])
        ends = [np.r_[1.0, end[1:], end[0]] for end in (low, high)]
        return Rows(ordered, bounds, *ends), original


def _planned(definition: StudyDefinition, people: _Known, formula: str) -> Study:
    """What `recommend` takes. The noise of the rows suite goes with row_norm, so that it is calibrated once for all."""
    if definition.collection.suite == "moments":
        return drafted(recommend(definition, people, formula).definition)
    bare = drafted(definition)
    best, found = predict.predict_study(bare, people, formula), bare
    for norm in norms_of(definition, people):
        share = norm / bare.protection.row_norm
        if share < 1:
            steps = bare.rows.grid.steps_up(share * bare.protection.sigma)
            protection = replace(
                bare.protection, sigma=math.ldexp(steps, bare.rows.grid.exponent), row_norm=norm
            )
            tried = predict.predict_study(replace(bare, protection=protection), people, formula)
            if tried.covers("slopes") and tried.inflation < best.inflation:
                best, found = tried, replace(bare, protection=protection)
    return found


def _sent(study: Study, people: People) -> Array:
    """In the schema's scaled columns, as devices send them."""
    if study.suite.name == "moments":
        layout = study.moments.layout
        return np.asarray(encoded(layout, people.values) @ schema_map(layout).T)
    norms = np.linalg.norm(people.whole, axis=1, keepdims=True)
    return np.asarray(people.whole * np.minimum(1.0, study.protection.row_norm / norms))


def _releases(
    study: Study, people: People, draws: int, share: float, rng: np.random.Generator
) -> list[Moments]:
    """First without noise, then so many by their law, with `share` of its variance."""
    n, held = len(people), study.suite.name == "moments"
    if held:
        counted = encoded(study.moments.layout, people.values)
        variances = entry_variances(study)
    else:
        counted, sigma = _sent(study, people), study.protection.sigma
    gram = counted.T @ counted
    law: NoiseLaw = EntriesLaw(variances) if held else RowsLaw(gram, n, sigma)
    found = []
    for draw in range(draws + 1):
        noisy = gram + (np.sqrt(share) * law.draw(rng) if draw else 0.0)
        if held:
            found.append(ObservedMoments(study, noisy, share * variances, n).moments("drawn"))
        else:
            found.append(ObservedRows(study, noisy + n * sigma**2 * np.eye(len(gram)), n).moments("drawn"))
    return found


def _coefficients(release: Moments | list[Moments], formula: str) -> Array:
    """The fit, of waves as `trimask.fit` pools them; not numbers where the noise leaves none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(fit.ols(release, formula).coefficients)
        except (NoiseExceedsSignal, CollinearColumns):
            schema = (release[0] if isinstance(release, list) else release).schema
            first_levels = sum(1 for item in schema.attributes if item.levels)
            return np.full(len(schema.columns) - first_levels - 1, np.nan)
