"""What shrinking rows to `row_norm` takes from a release, by pilot rows, and how far that is known.

Statement (docs/theory/verified-moments.md#pilot). Devices send c(x) for a row x, so a release of n people estimates
sum c c^T. With d = x x^T - c c^T, adding n times the pilot's mean of d makes every entry of the Gram matrix unbiased for
people of the pilot's population, and adds n^2 Cov[d] / m to its covariance; a smooth function of the matrix follows to
first order. The mean of d is made by the few rows that are shrunk, so its law is far from normal at small m: its standard
error s is counted once more, as a bias that may be left. An interval for an estimate of standard error SE (s within) with
a bias of at most b has half-width cv(b / SE) SE, cv(t)^2 the 95 % quantile of a noncentral chi-square (1, t^2), and
    cv(t)^2 <= z^2 (1 + t^2),
with equality to first order in t^2: a bias of s is a variance of s^2 more. So one covariance, twice that of the pilot's
mean, serves intervals, tests and every function of the moments (`CorrectedLaw`).

Asymptotic: the delta method, and m large enough that s is known; estimates of which s is more than ALLOWED of the rest of
the standard error are marked (`trimask.fit.clipping`). Assumed: the pilot's people are like those who answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import ParameterError
from trimask_core.moments.layout import SHRINK_BITS, MomentsLayout
from trimask_core.rows.payloads import shorten_row
from trimask_core.study.definition import Study
from trimask_core.study.derived import natural_log
from trimask_core.study.pilot import MOST_NUMBERS, PilotCorrection
from trimask_theory.moments.noise_law import Matrix

ALLOWED = 0.3
"""Of a standard error, for the bias that may be left: alone it lets 95 % intervals hold in 94.0 %."""
_NOTHING = 1e-4  # of the largest eigenvalue: what is below is counted as `rest`

Answers = Mapping[str, object]
Whole: TypeAlias = NDArray[np.int64]


def schema_map(layout: MomentsLayout) -> Matrix:
    """L: the schema's scaled columns as combinations of (1, z_1 / w_1, .., z_q / w_q)."""
    schema = layout.schema
    places = {column.name: column for column in layout.natural}
    L = np.zeros((len(schema.columns), layout.q + 1))
    for row, column in zip(L, schema.columns, strict=True):
        natural = places[column.name]
        row[0] = (natural.constant - column.center) / column.half_range
        for j, coefficient in natural.terms:
            row[j + 1] = coefficient * layout.columns[j].width / column.half_range
    return L


def whole_and_sent(study: Study, people: Sequence[Answers]) -> tuple[Matrix, Matrix]:
    """Rows in the schema's scaled columns, times the roots of their weights: as they are, and as devices send them."""
    schema, weight = study.schema, study.weight
    if study.suite.name == "moments":
        whole = MomentsLayout.of(schema, None, weight)
        held = study.moments.layout
        return (
            scaled_reports(whole, people) @ schema_map(whole).T,
            scaled_reports(held, people) @ schema_map(held).T,
        )
    rows = [schema.encode(one) for one in people]
    sent = np.array([shorten_row(row, study.protection.row_norm) for row in rows])
    roots = np.array([1.0 if weight is None else weight.root(schema, one) for one in people])[:, None]
    return np.array(rows) * roots, sent * roots


def scaled_reports(layout: MomentsLayout, people: Sequence[Answers]) -> Matrix:
    """(1, z / w) of the moments suite as sent, times s / S in a weighted study: what `layout.encode` makes, all at once."""
    if layout.weight is None:
        values = [layout.schema.read(one) for one in people]
        return shrunk_reports(layout, whole_numbers(MomentsLayout.of(layout.schema), values))
    counted = np.array([layout.encode(one).counted for one in people], dtype=np.float64)
    widths = np.array([1.0, *(column.width for column in layout.columns)])
    found: Matrix = counted / (layout.weight.steps * widths)
    return found


def whole_numbers(layout: MomentsLayout, values: Sequence[Mapping[str, float | str]]) -> Whole:
    """z of each person's answers as `Schema.read` has read them, by a layout without a ball."""
    z = np.zeros((len(values), layout.q), dtype=np.int64)
    for j, column in enumerate(layout.columns):
        if column.kind == "level":
            z[:, j] = [one[column.sources[0]] == column.level for one in values]
        elif column.shrinks:
            given = [float(one[column.sources[0]]) for one in values]
            numbers = np.array([natural_log(value) for value in given] if column.kind == "log" else given)
            answers = np.floor((numbers - column.minimum) / column.step + 0.5)
            z[:, j] = 2 * np.clip(answers, 0, column.steps).astype(np.int64) - column.offset
    _follow(layout, z)
    return z


def shrunk_reports(layout: MomentsLayout, z: Whole) -> Matrix:
    """(1, z / w) as sent, of rows as they are in a layout that has no ball and is the same otherwise."""
    if layout.ball is not None:
        z = np.column_stack([z, np.zeros(len(z), dtype=np.int64)])  # `clipped`
        coefficients, capacity = np.array(layout.ball.coefficients), layout.ball.capacity

        def inside(rows: Whole) -> NDArray[np.bool_]:
            found: NDArray[np.bool_] = rows**2 @ coefficients <= capacity
            return found

        outside = np.flatnonzero(~inside(z))
        low = np.zeros(len(outside), dtype=np.int64)
        high = np.full(len(outside), 1 << SHRINK_BITS)
        for _ in range(SHRINK_BITS):  # as `Ball.clip`
            middle = (low + high) // 2
            fits = inside(_shrunk(layout, z[outside], middle))
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        z[outside] = _shrunk(layout, z[outside], low)
    found: Matrix = np.column_stack(
        [np.ones(len(z)), z / np.array([column.width for column in layout.columns])]
    )
    return found


def _shrunk(layout: MomentsLayout, z: Whole, k: Whole) -> Whole:
    """Rows times k / 2^20, as `trimask_core.moments.layout` shrinks one."""
    found = z.copy()
    for j, column in enumerate(layout.columns):
        if column.shrinks:
            size = np.abs(z[:, j]) * k >> SHRINK_BITS
            size = np.maximum(z[:, j] & 1, size - ((size ^ z[:, j]) & 1))
            found[:, j] = np.where(z[:, j] > 0, size, -size)
        elif column.kind == "clipped":
            found[:, j] = 1
    _follow(layout, found)
    return found


def _follow(layout: MomentsLayout, z: Whole) -> None:
    """Products and intervals, from the numbers they are formed of."""
    for j, column in enumerate(layout.columns):
        if column.factors is not None:
            z[:, j] = z[:, column.factors[0]] * z[:, column.factors[1]]
        elif column.kind == "interval":
            answers = (z[:, column.number] + layout.columns[column.number].offset) // 2
            z[:, j] = (column.first <= answers) & (answers <= column.last)


def correction_of(
    whole: Matrix, sent: Matrix, *, exact: bool = False, worth: int | None = None
) -> PilotCorrection:
    """From the same people's rows, whole and as sent; a study has it rounded, unless `exact`.

    Of people drawn by a law its covariance is that of a pilot of `worth` people: drawing more makes no law truer.
    """
    m, p = whole.shape
    if m < 2:
        raise ParameterError("pilot", "two people at least", m)
    upper = np.triu_indices(p)
    moved = np.flatnonzero(np.any(whole != sent, axis=1))  # of the others d is zero
    d = (
        whole[moved][:, upper[0]] * whole[moved][:, upper[1]]
        - sent[moved][:, upper[0]] * sent[moved][:, upper[1]]
    )
    mean = d.sum(axis=0) / m
    values, vectors = _principal(d, mean, m) if len(moved) else (np.zeros(0), np.zeros((len(mean), 0)))
    values = values * (m / (worth or m))
    kept = int(np.sum(values > _NOTHING * max(float(np.max(values, initial=0.0)), 0.0)))
    kept = min(kept, MOST_NUMBERS // len(mean))
    rest = max(float(values[kept]), 0.0) if kept < len(values) else 0.0
    factors = (vectors[:, :kept] * np.sqrt(np.maximum(values[:kept], 0.0))).T
    if exact:
        return PilotCorrection(m, tuple(mean.tolist()), tuple(map(tuple, factors.tolist())), rest)
    return PilotCorrection(
        m, _digits(mean, 9), tuple(_digits(row, 6) for row in factors), float(f"{rest * 1.001:.4g}")
    )


def _principal(d: Matrix, mean: Matrix, m: int) -> tuple[Matrix, Matrix]:
    """Eigenvalues, the largest first, and eigenvectors of the covariance of the mean of m people of whom these moved."""
    centred = np.vstack([d - mean, math.sqrt(max(m - len(d), 0)) * mean]) / math.sqrt(m * (m - 1))
    if len(centred) >= d.shape[1]:
        values, vectors = np.linalg.eigh(centred.T @ centred)
        return values[::-1], vectors[:, ::-1]
    values, vectors = np.linalg.eigh(centred @ centred.T)  # fewer people than entries: the same but for zeros
    kept = values > 1e-14 * max(float(values[-1]), 1e-300)
    found = centred.T @ vectors[:, kept] / np.sqrt(values[kept])
    return values[kept][::-1], found[:, ::-1]


def _digits(values: Matrix, digits: int) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values.tolist())


def with_pilot(study: Study, people: Sequence[Answers]) -> Study:
    """The study with the correction of these people's rows in it: another study, with another id."""
    if not study.clips:
        raise ParameterError(
            "pilot", "left out: no row is shrunk in this study, so there is nothing to correct"
        )
    return replace(study, pilot=correction_of(*whole_and_sent(study, people)))
