"""Which ball to clip records to: the least total error of regressions, noise and the bias of clipping together.

Statement. The noise of verified moments goes with R^2, so records are clipped to a ball smaller than their box.
Columns are x_j = (v_j - centre_j) / scale_j; a record with |x|^2 > R^2 is drawn towards the centre until it fits, levels of
choices staying as they are. In units of v the noise on a product goes with scale_j scale_l R^2 = c^2 + (r c)^2 for scales of
c deviations and a ball of r^2 = R^2 - 1, and on a sum with that over c: small scales help slopes, scales of about r c help
means. Given a pilot (rows of the same population) or rows drawn from expected means and deviations, the recommendation
minimises over c and R^2
    mean over responses and coefficients of (bias of clipping)^2 + noise variance,
each column taken once as the response (or one named), coefficients in units of deviations, the intercept at the centre.
The noise variance is `noisy_regression`'s, to first order, at n people.

Nothing of the study's own data may enter: a pilot's rows are seen. Basis: numerical; the guarantee never depends on it.
Derivation: docs/theory/verified-moments.md#ball-accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError
from trimask_theory import checks
from trimask_theory.moments import moments_noise
from trimask_theory.moments.noise_law import EntriesLaw

Matrix = NDArray[np.float64]
_STEPS = (2**0.5, 2**0.125)  # between scales that are compared, first coarse, then fine
_DEPENDENT = 1e-9
_SHARES = (0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True, eq=False)
class Ball:
    """Centres and scales of the columns, R^2, and what they are expected to do.

    `error` is the root of the criterion, `box_error` the one of the given units and no ball; `clipped` is the pilot's share.
    """

    radius_squared: float
    centre: Matrix
    scale: Matrix
    clipped: float
    error: float
    box_error: float
    sigma: float

    @property
    def row_norm(self) -> float:
        """R."""
        return math.sqrt(self.radius_squared)


def clip(
    rows: ArrayLike, radius_squared: float, fixed: ArrayLike | None = None, mark: float = 0.0
) -> tuple[Matrix, NDArray[np.bool_]]:
    """Scaled rows (without x_0) drawn into |x|^2 + 1 <= R^2, and which of them were outside.

    `fixed` marks columns that stay as they are (levels). A row that is clipped has mark^2 less room: what the level
    `clipped` takes in the ball, mark = 1 / its width.
    """
    x = np.array(rows, dtype=np.float64)
    stays = np.zeros(x.shape[1], dtype=bool) if fixed is None else np.asarray(fixed, dtype=bool)
    room = checks.positive("radius_squared", radius_squared) - 1 - np.sum(x[:, stays] ** 2, axis=1)
    if (room - mark**2 < 0).any():
        raise ParameterError(
            "radius_squared", "large enough for every record's levels and x_0 = 1", radius_squared
        )
    size = np.sum(x[:, ~stays] ** 2, axis=1)
    outside = size > room
    factor = np.ones(len(x))
    factor[outside] = np.sqrt((room[outside] - mark**2) / size[outside])
    x[:, ~stays] *= factor[:, None]
    return x, outside


def recommend_ball(
    pilot: ArrayLike, epsilon: float, delta: float, rows: int, providers: int, honest: int = 1, *,
    fixed: ArrayLike | None = None, response: int | None = None, mark: float = 0.0,
) -> Ball:  # fmt: skip
    """The ball for n = `rows` people from pilot rows in the units of the box (every column in [-1, 1]), without x_0.

    `fixed` marks levels of choices, which keep centre 0 and scale 1 and are given no response's turn.
    """
    v = np.asarray(pilot, dtype=np.float64)
    if v.ndim != 2 or len(v) <= v.shape[1] + 1 or not np.isfinite(v).all():
        raise ParameterError("pilot", "more rows than columns of finite numbers", v.shape)
    q = v.shape[1]
    stays = np.zeros(q, dtype=bool) if fixed is None else np.asarray(fixed, dtype=bool)
    deviation = v.std(axis=0, ddof=1)
    if (deviation <= 0).any():
        raise ParameterError("pilot", "columns that vary")
    n = checks.whole("rows", rows, 2)
    unit = moments_noise.calibrate(epsilon, delta, 2.0, providers, honest)
    per = unit.total_sigma / moments_noise.sensitivity(2.0)
    turns = [j for j in range(q) if not stays[j]] if response is None else [response]
    centre = np.where(stays, 0.0, v.mean(axis=0))
    plain = np.ones(q)

    true = _moments((v - centre) / np.where(stays, 1.0, deviation))
    models = {turn: _independent(true, [j for j in range(q + 1) if j != turn + 1]) for turn in turns}

    def judged(x: Matrix, clipped: Matrix, scale: Matrix, square: float) -> float:
        sigma = per * moments_noise.sensitivity(square)
        return _criterion(x, clipped, deviation / scale, n, _isotropic(q + 1, sigma), models)

    # Any box-bounded record: one a bounded column, one a question. Levels of one question share theirs; counted apart here.
    box_error = judged(v, v, plain, 1.0 + q)
    box = Ball(
        1.0 + q, np.zeros(q), plain, 0.0, box_error, box_error, per * moments_noise.sensitivity(1.0 + q)
    )
    tried: dict[float, Ball] = {}

    def at(spread: float) -> Ball:
        """The best ball for scales of so many deviations."""
        spread = round(spread, 6)
        if spread not in tried:
            tried[spread] = min(balls(spread), key=lambda ball: ball.error, default=box)
        return tried[spread]

    def balls(spread: float) -> Iterator[Ball]:
        scale = np.where(stays, 1.0, spread * deviation)
        x = (v - centre) / scale
        sizes = np.sum(x**2, axis=1)
        least = 1 + float(np.sum(x[:, stays] ** 2, axis=1).max(initial=0.0)) + mark**2
        for share in _SHARES:
            # A little above the quantile: the pilot's largest row is not the population's.
            square = 1 + float(np.quantile(sizes, 1 - share)) * (1.1 if share == 0 else 1.0)
            if square <= least:
                continue
            clipped, outside = clip(x, square, stays, mark)
            yield Ball(
                square, centre, scale, float(outside.mean()), judged(x, clipped, scale, square), box.error,
                per * moments_noise.sensitivity(square) / math.sqrt(providers / honest),
            )  # fmt: skip

    spread = 1.0
    for step in _STEPS:  # downhill, without an edge
        while (nearby := min((spread, spread / step, spread * step), key=lambda s: at(s).error)) != spread:
            spread = nearby
    best = at(spread)
    if not best.error < box.error:
        best = replace(box, error=math.inf)
    return best


def _isotropic(p: int, sigma: float) -> EntriesLaw:
    V = np.full((p, p), sigma**2 / 2)
    np.fill_diagonal(V, sigma**2)
    V[0, 0] = 0.0
    return EntriesLaw(V)


def _criterion(
    rows: Matrix, clipped: Matrix, deviation: Matrix, n: int, law: EntriesLaw, models: dict[int, list[int]]
) -> float:
    """Root of mean squared bias and noise of all coefficients, in deviations of response over regressor."""
    true, kept = _moments(rows), _moments(clipped)
    units = np.concatenate([[1.0], deviation])
    total, count = 0.0, 0
    for turn, others in models.items():
        inverse = np.linalg.inv(kept[np.ix_(others, others)])
        fit = inverse @ kept[others, turn + 1]
        bias = fit - np.linalg.solve(true[np.ix_(others, others)], true[others, turn + 1])
        theta = np.zeros(len(units))
        theta[turn + 1], theta[others] = 1.0, -fit
        noise = inverse @ law.product(theta, theta)[np.ix_(others, others)] @ inverse / n**2
        relative = units[others] / units[turn + 1]
        total += float(np.sum((bias**2 + np.diag(noise)) * relative**2))
        count += len(others)
    return math.sqrt(total / count)


def _independent(moments: Matrix, columns: list[int]) -> list[int]:
    """The columns that are no combination of those before: levels of bins and of products with a choice add up to others."""
    found: list[int] = []
    for j in columns:
        left = moments[j, j]
        if found:
            cross = moments[found, j]
            left -= cross @ np.linalg.solve(moments[np.ix_(found, found)], cross)
        if left > _DEPENDENT * moments[j, j]:
            found.append(j)
    return found


def _moments(rows: Matrix) -> Matrix:
    full = np.column_stack([np.ones(len(rows)), rows])
    found: Matrix = full.T @ full / len(rows)
    return found
