"""Verified moments drawn by the suite's own law: whole totals, each provider's rounded Gaussian, the ball.

Answers are in thousandths of an attribute's range: z = -1000 .. 1000. Without `one` the release stands beside the table's
central noisy Gram (R^2 = 5); with it, as the suite collects, beside that of R^2 = 6, in regressions with an intercept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.accuracy_others import diffprivlib
from bench.accuracy_scores import CENTRAL, DIFFPRIVLIB, Array, Judge, Row, against
from bench.accuracy_setting import ATTRIBUTES, DELTA, people
from bench.moments_law import level_share, moments_law
from trimask_core.moments.totals import entry_noise
from trimask_theory.mechanisms import noisy_gram
from trimask_theory.moments import moments_noise
from trimask_theory.moments.ball import clip, recommend_ball

__all__ = ["BALL", "MOMENTS", "Clipped", "moments_rows", "targets", "with_one"]

STEPS = 1000
PILOT, PILOT_SEED = 500, 77
PARTIES = ((2, 1), (3, 2))
MARK = 1
"""The width of the level `clipped`, in the ball like any other: a clipped record leaves 1/width^2 of room for it."""


def _name(providers: int, honest: int) -> str:
    return f"verified moments, K1 = {providers}, h = {honest}"


MOMENTS = tuple(_name(*parties) for parties in PARTIES)
BALL = "verified moments, K1 = 2, h = 1, ball"


@dataclass(frozen=True)
class Clipped:
    """How the ball did at one epsilon: chosen from the pilot, met by the people, estimated from the release."""

    epsilon: float
    radius_squared: float
    scale_in_deviations: float
    expected: float
    true: float
    standard_error: float
    covered: float


def _published(
    totals: Array,
    sigma: float,
    widths: list[int],
    parties: tuple[int, int],
    repetitions: int,
    rng: np.random.Generator,
) -> Array:
    """Releases of whole totals in scaled units: every provider's rounded noise on the entry's grid."""
    providers, honest = parties
    found = np.empty((repetitions, *totals.shape))
    for j, w_j in enumerate(widths):
        for index in range(j, len(widths)):
            w_l, total = widths[index], round(float(totals[j, index]))
            if j == index == 0 and w_j == 1:  # the constant's own entry: how many people there are
                found[:, 0, 0] = total
                continue
            noise = entry_noise(sigma, w_j, w_l, honest, j == index)
            drawn = np.rint(noise.sigma * rng.standard_normal((repetitions, providers))).sum(axis=1)
            value = ((total << noise.shift) + drawn) / 2.0**noise.shift / (w_j * w_l)
            found[:, j, index] = found[:, index, j] = value
    return found


def _whole(data: Array) -> Array:
    return np.asarray(np.rint(data * STEPS))


def moments_rows(judge: Judge, data: Array, repetitions: int, rng: np.random.Generator) -> list[Row]:
    """Without `one`: R^2 is the table's, and the noise the central one's share by share."""
    z = _whole(data)
    rows = []
    for providers, honest in PARTIES:
        sigma = moments_noise.calibrate(judge.epsilon, DELTA, ATTRIBUTES, providers, honest).sigma
        grams = _published(z.T @ z, sigma, [STEPS] * ATTRIBUTES, (providers, honest), repetitions, rng)
        rows.append(judge.grams(_name(providers, honest), sigma, grams))
    return rows


def with_one(
    epsilon: float, data: Array, repetitions: int, slow_repetitions: int
) -> tuple[list[Row], Clipped]:
    """The suite as it collects: x_0 = 1, the number of people exact, an intercept in every regression; then the ball."""
    n, q = data.shape
    rng = np.random.default_rng([n, 1, round(1000 * epsilon)])
    full = np.column_stack([np.ones(n), data])
    judge = Judge(full.T @ full, epsilon, constant=True)
    square = 1.0 + q
    central = noisy_gram.calibrate(epsilon, DELTA, math.sqrt(square)).sigma
    half = central / 2 * rng.standard_normal((repetitions, q + 1, q + 1))
    half[:, 0, 0] = 0.0
    rows = [judge.grams(CENTRAL, central, judge.gram + half + half.swapaxes(1, 2))]
    z = np.column_stack([np.ones(n), _whole(data)])
    for providers, honest in PARTIES:
        sigma = moments_noise.calibrate(epsilon, DELTA, square, providers, honest).sigma
        grams = _published(z.T @ z, sigma, [1, *[STEPS] * q], (providers, honest), repetitions, rng)
        rows.append(judge.grams(_name(providers, honest), sigma, grams))
    ball, clipped = _in_a_ball(judge, data, repetitions, rng)
    rows.append(ball)
    other = diffprivlib(judge, data, slow_repetitions, intercept=True)
    if other is not None:
        rows.append(other)
    return [against(row, rows[0]) for row in rows], clipped


def _in_a_ball(judge: Judge, data: Array, repetitions: int, rng: np.random.Generator) -> tuple[Row, Clipped]:
    """K1 = 2, h = 1, with centres, scales and R^2 from a pilot of other people; a level `clipped` beside the columns."""
    n, q = data.shape
    pilot = people(PILOT, PILOT_SEED)
    ball = recommend_ball(pilot, judge.epsilon, DELTA, n, 2, 1, mark=1 / MARK)
    widths = [max(1, round(s * STEPS)) for s in ball.scale]
    centres = np.rint(ball.centre * STEPS)
    x, outside = clip((_whole(data) - centres) / widths, ball.radius_squared, mark=1 / MARK)
    inward = np.trunc(np.round(x * widths, 9))  # devices round inward
    z = np.column_stack([np.ones(n), inward, outside])
    sigma = moments_noise.calibrate(judge.epsilon, DELTA, ball.radius_squared, 2, 1).sigma
    grams = _published(z.T @ z, sigma, [1, *widths, MARK], (2, 1), repetitions, rng)
    # Back to units of the box: v = centre + scale x.
    change = np.diag([1.0, *(w / STEPS for w in widths)])
    change[0, 1:] = centres / STEPS
    inner = grams[:, :-1, :-1]
    row = judge.grams(BALL, sigma, np.asarray(change.T @ inner @ change), f"R^2 = {ball.radius_squared:.3g}")
    law = moments_law(sigma, [*widths, MARK], 2, 1)
    share, error = level_share(grams, law, q + 1, MARK, n)
    true = float(outside.mean())
    covered = float(np.mean(np.abs(share - true) <= 1.96 * error))
    deviations = float(np.mean(ball.scale / pilot.std(axis=0, ddof=1)))
    return row, Clipped(judge.epsilon, ball.radius_squared, deviations, ball.clipped, true, error, covered)


def targets(rows: list[Row], one: list[Row]) -> list[dict[str, Any]]:
    """What was asked for of verified moments, and what was found; None where a method is missing or its fits mostly fail."""
    found: list[dict[str, Any]] = []

    def add(what: str, value: float | None, target: float, *, least: bool = False) -> None:
        met = None if value is None else bool(value >= target if least else value <= target)
        found.append({"what": what, "found": value, "target": target, "met": met})

    for title, group in (("without one", rows), ("with one", one)):
        by = {(row.method, row.epsilon): row for row in group}
        for (providers, honest), name in zip(PARTIES, MOMENTS, strict=True):
            for epsilon in (1.0, 5.0):
                row, law = by[name, epsilon], math.sqrt(providers / honest)
                for kind, score in (("moments", row.moments), ("OLS", row.ols)):
                    ratio = None if score is None or score.ratio is None else abs(score.ratio / law - 1)
                    add(
                        f"{name}, {title}, epsilon {epsilon:g}, {kind}: off sqrt(K1/h) by, at most",
                        ratio,
                        0.05,
                    )
        for epsilon in sorted({row.epsilon for row in group}):
            other = by.get((DIFFPRIVLIB, epsilon))
            for name in (*MOMENTS, *((BALL,) if (BALL, epsilon) in by else ())):
                factor = None if other is None else _over(other, by[name, epsilon])
                add(
                    f"{name}, {title}, epsilon {epsilon:g}: diffprivlib / it, at least",
                    factor,
                    1.0,
                    least=True,
                )
            if (BALL, epsilon) in by:
                half = _over(by[BALL, epsilon], by[MOMENTS[0], epsilon])
                add(f"{BALL}, epsilon {epsilon:g}: of the box's OLS error, at most", half, 0.5)
    return found


def _over(top: Row, bottom: Row) -> float | None:
    """The ratio of OLS errors; of medians where fits of either failed."""
    if top.ols is None or bottom.ols is None:
        return None
    if not top.failures and not bottom.failures:
        return top.ols.error / bottom.ols.error
    if bottom.ols.median is None:
        return None
    return math.inf if top.ols.median is None else top.ols.median / bottom.ols.median
