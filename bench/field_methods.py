"""Other people's regressions under (epsilon, delta) for a replaced record, written from their papers for `bench.field`.

Every method is given rows v = (1, x, y) of known bounds and gives coefficients of y on (1, x). Papers count a record added,
removed or zeroed; here one is *replaced*, so each sensitivity is taken anew and held to brute force by
tests/meta/test_bench_field.py. With |x| <= r (the one counted), |y| <= b, |x| |y| <= c, |v|^2 <= s:

| what is published | sensitivity, record replaced | why |
|---|---|---|
| X'X, Frobenius norm | sqrt(2) r^2 | (x x', z z') are r^4 each, worst where x and z are orthogonal |
| least eigenvalue of X'X | r^2 | the change is of rank two, its eigenvalues within r^2 |
| X'y, or X'(residual clipped to b) | 2 c, or 2 r b | two opposite records |
| a sketch of k rows, S X + noise, where everybody else's X'X + noise is at least g I | a Renyi divergence, below | |

*Sketches* (Sheffet 2017; Lev et al. 2025, arXiv 2505.24603). Its rows are k normals of covariance A + x x' or A + z z' with
A >= g I. For t = r^2 / g the Renyi divergence of order a, 1 < a < 1 + 1 / t, is largest where A^(-1/2) x and A^(-1/2) z are
orthogonal and of norm sqrt t (it grows with both norms and falls with their cosine), and is then, exactly,
    k / (2 (a - 1)) [log(1 + t) - log(1 + a t) - log(1 - (a - 1) t)]:
about twice what their bound has for a zeroed record. Their published least eigenvalue, less r^2 for the record that may be
replaced and a margin that it exceeds with probability delta / 10 at most, is counted in the same sum.

*AdaSSP* (Wang 2018): a third of epsilon and delta each for X'X, its least eigenvalue and X'y; rho = 0.05.
*Boosted AdaSSP* (Tang et al. 2023): the mu of (epsilon, delta) in three equal parts of mu^2: X'X, its eigenvalue, 100 rounds
of X'(clipped residual). *Gaussian mixing* (Lev et al. 2025): a sketch of (X, y). *Iterative Hessian mixing* (Lev et al.
2026, arXiv 2601.07545): T = 3 sketches of X at (epsilon / 2, 3 delta / 4), each with X'(clipped residual) at (epsilon / 2,
delta / 4) in all; their sizes k. *TukeyEM* (Amin et al. 2022, arXiv 2208.07353): the deepest of m models of m disjoint
groups; a replaced record changes one model, so depths move by 1 and the exponent is epsilon / 2 a depth (theirs, for
models added, is epsilon), with the check of `_safe_distance`. It needs no bounds.

*diffprivlib* and *OpenDP* are called where they are installed. diffprivlib 0.6.6 takes the square of the lower bound alone
for a column's sum of squares, so where the upper one is larger its noise is too small for its epsilon, which flatters it.
OpenDP's regression takes one regressor only; its Gaussian mechanism is put on (1, X, y)'(1, X, y), and the noise drawn
with the scale that its own accounting gives.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from trimask_theory.gaussian import local_noise

__all__ = ["METHODS", "Bounds", "Method", "Rows"]

Array = NDArray[np.float64]
_RHO = 0.05
_ROUNDS = 100
_STEPS = 3
_TAIL = 0.1
"""Of delta, for a least eigenvalue that is below what was published of it."""
_MODELS = 1000


@dataclass(frozen=True)
class Bounds:
    """Squares of the largest |v| and |x|, the largest |y| and |x| |y|, and where residuals are clipped."""

    square: float
    features: float
    response: float
    cross: float
    residual: float

    @classmethod
    def box(cls, features: float, response: float) -> Bounds:
        """Rows of |x|^2 <= features and |y| <= response, each on its own."""
        return cls(features + response**2, features, response, math.sqrt(features) * response, response)

    @classmethod
    def ball(cls, square: float, residual: float) -> Bounds:
        """Rows of |x|^2 + y^2 <= square, the one among them: then |x| |y| is at most half of it."""
        return cls(square, square, math.sqrt(square - 1), square / 2, residual)


@dataclass(frozen=True, eq=False)
class Rows:
    """People's rows (1, x, y) within the bounds, and a box around the columns of x and y for methods that take one."""

    values: Array
    bounds: Bounds
    low: Array
    high: Array

    @property
    def x(self) -> Array:
        """With the one."""
        return self.values[:, :-1]

    @property
    def y(self) -> Array:
        """The response."""
        return self.values[:, -1]


Method = Callable[[Rows, float, float, int, np.random.Generator], Array]
"""Rows, epsilon, delta, draws and a source: coefficients, a row a draw; not numbers where it gave no answer."""


def _scale(epsilon: float, delta: float) -> float:
    """The Gaussian mechanism's deviation for a sensitivity of 1."""
    return local_noise.calibrate(epsilon, delta).sigma


def _symmetric(draws: int, p: int, rng: np.random.Generator) -> Array:
    """Noise of deviation 1 on the diagonal and sqrt(1/2) beside it: isotropic in the Frobenius norm."""
    half: Array = rng.standard_normal((draws, p, p)) / 2
    found: Array = half + half.swapaxes(1, 2)
    return found


def _solved(left: Array, right: Array) -> Array:
    return np.asarray(np.linalg.solve(left, right[..., None])[..., 0], dtype=np.float64)


def _penalised(X: Array, features: float, gram: float, least: float, delta: float, draws: int,
               rng: np.random.Generator) -> Array:  # fmt: skip
    """AdaSSP's noisy X'X, at these deviations for sensitivities of 1, with the ridge its least eigenvalue asks for."""
    A, d = X.T @ X, X.shape[1]
    beside = features * gram  # the deviation of an entry beside the diagonal: sqrt(2) r^2 times sqrt(1/2)
    seen = float(np.linalg.eigvalsh(A)[0]) + features * least * (
        rng.standard_normal(draws) - math.sqrt(math.log(6 / delta))
    )
    ridge = np.maximum(0.0, math.sqrt(d * math.log(2 * d**2 / _RHO)) * beside - np.maximum(seen, 0.0))
    return A + math.sqrt(2) * beside * _symmetric(draws, d, rng) + ridge[:, None, None] * np.eye(d)


def adassp(rows: Rows, epsilon: float, delta: float, draws: int, rng: np.random.Generator) -> Array:
    """Adaptive sufficient-statistics perturbation."""
    s, X = _scale(epsilon / 3, delta / 3), rows.x
    left = _penalised(X, rows.bounds.features, s, s, delta, draws, rng)
    noise = 2 * rows.bounds.cross * s * rng.standard_normal((draws, X.shape[1]))
    return _solved(left, X.T @ rows.y + noise)


def _descended(rows: Rows, lefts: list[Array], noise: float, rng: np.random.Generator) -> Array:
    """From zero, a step for each stack of matrices: its inverse times X'(clipped residual) with noise."""
    X, b = rows.x, rows.bounds.residual
    fits = np.zeros(lefts[0].shape[:2])
    with np.errstate(over="ignore", invalid="ignore"):
        for left in lefts:
            residual = np.clip(rows.y[:, None] - X @ fits.T, -b, b)
            fits = fits + _solved(left, (X.T @ residual).T + noise * rng.standard_normal(fits.shape))
            fits = np.clip(np.nan_to_num(fits), -1e9, 1e9)
    return fits


def boosted(rows: Rows, epsilon: float, delta: float, draws: int, rng: np.random.Generator) -> Array:
    """Boosted AdaSSP."""
    part = math.sqrt(3) * _scale(epsilon, delta)
    left = _penalised(rows.x, rows.bounds.features, part, part, delta, draws, rng)
    reach = 2 * math.sqrt(rows.bounds.features) * rows.bounds.residual
    return _descended(rows, [left] * _ROUNDS, reach * part * math.sqrt(_ROUNDS), rng)


def sketch_divergence(order: float, share: float, k: int) -> float:
    """The largest Renyi divergence of a sketch of k rows for a replaced record, r^2 / g = share."""
    if not 1 < order < 1 + 1 / share:
        return math.inf
    logs = math.log1p(share) - math.log1p(order * share) - math.log1p(-(order - 1) * share)
    return k / (2 * (order - 1)) * logs


def sketch_floor(epsilon: float, delta: float, k: int, times: int = 1) -> float:
    """g / r^2 at which so many sketches and one least eigenvalue are within (epsilon, delta)."""
    kept = (1 - _TAIL) * delta

    def spent(floor: float) -> float:
        def at(order: float) -> float:
            total = times * sketch_divergence(order, 1 / floor, k) + order * k / (2 * floor**2)
            logs = math.log(1 / kept) + (order - 1) * math.log1p(-1 / order) - math.log(order)
            return total + logs / (order - 1)

        return min(at(1 + floor * share) for share in np.geomspace(1e-4, 0.999, 300))

    found = optimize.brentq(lambda x: spent(math.exp(x)) - epsilon, math.log(1e-2), math.log(1e9), xtol=1e-4)
    return math.exp(found)


def _sketches(gram: Array, square: float, floor: float, delta: float, k: int, draws: int, times: int,
              rng: np.random.Generator) -> list[Array]:  # fmt: skip
    """So many stacks of (S X + noise)'(S X + noise) / k, by their law, a Wishart's; `square` is r^2."""
    margin = special.ndtri(1 - _TAIL * delta)
    least = float(np.linalg.eigvalsh(gram)[0]) - square
    seen = least + square * floor / math.sqrt(k) * (rng.standard_normal(draws) - margin)
    added = np.maximum(0.0, square * floor - np.maximum(0.0, seen))
    p = len(gram)
    roots = np.linalg.cholesky(gram + added[:, None, None] * np.eye(p))
    found = []
    for _ in range(times):
        lower = np.tril(rng.standard_normal((draws, p, p)), -1)
        lower[:, range(p), range(p)] = np.sqrt(rng.chisquare(k - np.arange(p), (draws, p)))
        half = roots @ lower
        found.append(half @ half.swapaxes(1, 2) / k)
    return found


def mixing(rows: Rows, epsilon: float, delta: float, draws: int, rng: np.random.Generator,
           k: int | None = None) -> Array:  # fmt: skip
    """Gaussian mixing, with its authors' size of the sketch unless one is given."""
    p = rows.values.shape[1]
    size = k or math.ceil(2.5 * max(p - 1, math.log(20 / delta)))
    floor = sketch_floor(epsilon, delta, size)
    gram = rows.values.T @ rows.values
    (moments,) = _sketches(gram, rows.bounds.square, floor, delta, size, draws, 1, rng)
    return _solved(moments[:, :-1, :-1], moments[:, :-1, -1])


def mixing_best(rows: Rows, epsilon: float, delta: float, draws: int, rng: np.random.Generator) -> Array:
    """The best of five sizes in hindsight, which no one who has not seen the answer can have."""
    truth = np.linalg.lstsq(rows.x, rows.y, rcond=None)[0]
    sizes = (100, 400, 1600, 6400, 25_600)
    tried = [mixing(rows, epsilon, delta, draws, rng, k) for k in sizes]
    return min(tried, key=lambda fits: float(np.median(np.sum((fits - truth) ** 2, axis=1))))


def hessian_mixing(rows: Rows, epsilon: float, delta: float, draws: int, rng: np.random.Generator) -> Array:
    """Iterative Hessian mixing, with its authors' three steps and size of the sketch."""
    X, bounds = rows.x, rows.bounds
    k = math.ceil(6 * max(X.shape[1], math.log(40 * _STEPS / delta)))
    floor = sketch_floor(epsilon / 2, 0.75 * delta, k, _STEPS)
    lefts = _sketches(X.T @ X, bounds.features, floor, 0.75 * delta, k, draws, _STEPS, rng)
    reach = 2 * math.sqrt(bounds.features) * bounds.residual
    return _descended(rows, lefts, reach * math.sqrt(_STEPS) * _scale(epsilon / 2, delta / 4), rng)


def _safe_distance(logs: Array, t: int, epsilon: float, delta: float) -> int:
    """A lower bound on the models to be replaced until some neighbour is not within (epsilon, delta).

    logs[i - 1] is the log volume V_i of the points of depth i or more. With P(point) ~ exp(epsilon depth / 2) on depths of
    t or more, phi = V_(t-1) exp(-epsilon g / 2) / V_(t+g), for any g >= 0, bounds both the mass of depth t and what a
    neighbour's normaliser can gain: so P_D(S) <= e^epsilon P_D'(S) + phi (1 + e^epsilon). The same with V_(t-1-k) and
    V_(t+g+k) bounds the phi of everything k replacements away, of which one is for the other direction.
    """
    threshold = math.log(delta) - np.logaddexp(0.0, epsilon)
    safe = 0
    for k in range(1, t - 1):
        deep = logs[t + k - 1 :]  # V_(t+k), V_(t+k+1), ..: g = 0, 1, ..
        if len(deep) == 0:
            break
        phi = np.min(logs[t - k - 2] - deep - epsilon / 2 * np.arange(len(deep)))
        if phi > threshold:
            break
        safe = k
    return safe


def tukey_em(rows: Rows, epsilon: float, delta: float, draws: int, rng: np.random.Generator) -> Array:
    """The exponential mechanism over the depth of many small regressions; half of epsilon for its check."""
    n, d = rows.x.shape
    models = min(_MODELS, n // d)
    size = n // models
    found = np.full((draws, d), np.nan)
    deepest = models // 2
    t = deepest // 2
    for draw in range(draws):
        order = rng.permutation(n)[: models * size].reshape(models, size)
        X, y = rows.x[order], rows.y[order]
        grams = np.linalg.pinv(X.swapaxes(1, 2) @ X, hermitian=True)
        fits = np.einsum("mij,mnj,mn->im", grams, X, y, optimize=True)
        ends = np.sort(fits + 1e-10 * rng.random(fits.shape), axis=1)
        widths = ends[:, ::-1][:, :deepest] - ends[:, :deepest]
        logs = np.log(np.maximum(widths, 1e-300)).sum(axis=0)
        distance = _safe_distance(logs, t, epsilon / 2, delta / 2)
        if distance + rng.laplace(scale=2 / epsilon) <= math.log(1 / delta) / (epsilon / 2):
            continue  # the check of `delta / 2`: no answer
        depths = np.arange(t, deepest + 1)
        inside = np.append(logs, -np.inf)[t:] - logs[t - 1 :]  # of a depth's region, the part that is deeper
        shells = logs[t - 1 :] + np.log(-np.expm1(np.minimum(inside, -1e-15)))
        chosen = int(depths[np.argmax(shells + epsilon / 4 * depths + rng.gumbel(size=len(depths)))])
        low, high = ends[:, chosen - 1], ends[:, -chosen]
        point = rng.uniform(low, high, (4096, d))
        deeper = np.all((point > ends[:, chosen]) & (point < ends[:, -chosen - 1]), axis=1)
        found[draw] = point[np.argmin(deeper)]
    return found


def diffprivlib(rows: Rows, epsilon: float, _delta: float, draws: int, rng: np.random.Generator) -> Array:
    """Its regression with an intercept; delta is 0."""
    models: Any = import_module("diffprivlib.models")
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(draws):
            model = models.LinearRegression(
                epsilon=epsilon, bounds_X=(rows.low[1:-1], rows.high[1:-1]),
                bounds_y=(rows.low[-1], rows.high[-1]), random_state=int(rng.integers(2**31)),
            ).fit(rows.x[:, 1:].copy(), rows.y.copy())  # fmt: skip
            found.append(np.r_[model.intercept_, model.coef_])
    fits = np.array(found)
    fits[np.any(np.abs(fits) > 1e3, axis=1)] = np.nan  # a minimiser that ran off an indefinite objective
    return fits


def opendp(rows: Rows, epsilon: float, delta: float, draws: int, rng: np.random.Generator) -> Array:
    """Its Gaussian mechanism on the Gram matrix, rho by its own conversion from (epsilon, delta)."""
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib")
    p, reach = rows.values.shape[1], math.sqrt(2) * rows.bounds.square
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=p * (p + 1) // 2),
        dp.l2_distance(T=float),
    )

    def spent(scale: float) -> float:
        mechanism = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        return float(mechanism.map(reach).epsilon(delta))

    found = optimize.brentq(lambda x: spent(reach * math.exp(x)) - epsilon, -3.0, 8.0, xtol=1e-3)
    scale = reach * math.exp(found)
    noise = scale * _symmetric(draws, p, rng)
    noise[:, 0, 0] = 0.0  # where a record is replaced, how many there are is no secret
    gram = rows.values.T @ rows.values + noise
    fits = _solved(gram[:, :-1, :-1], gram[:, :-1, -1])
    fits[np.linalg.eigvalsh(gram[:, :-1, :-1])[:, 0] <= 0] = np.nan
    return fits


METHODS: dict[str, tuple[Method, float]] = {
    "AdaSSP": (adassp, 1.0),
    "boosted AdaSSP": (boosted, 0.25),
    "Gaussian mixing": (mixing, 1.0),
    "Gaussian mixing, best k in hindsight": (mixing_best, 1.0),
    "iterative Hessian mixing": (hessian_mixing, 0.25),
    "TukeyEM": (tukey_em, 0.1),
    "diffprivlib": (diffprivlib, 0.1),
    "OpenDP, Gram matrix": (opendp, 1.0),
}
"""By name, and the share of the draws it is given."""
