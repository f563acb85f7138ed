"""The accuracy bench with categories in it: RAND's health data, log visits on numbers, yes-or-no answers and a choice.

Every method has the same people, the same declared bounds and so the same row norm R, and answers the same regression with
an intercept. Errors are distances to the fit without privacy, separately for contrasts of levels and for the other slopes,
in scaled units. Before and after: the fit without and with what the schema knows (`trimask.moments.identities`).

| method | neighbours | delta | who sees rows |
|---|---|---|---|
| pooled release, verified moments | a record replaced | 1e-6 | nobody |
| central noisy Gram, and AdaSSP on it | a record replaced | 1e-6 | a curator |
| OpenDP, zCDP by hand | a record replaced | 1e-6, from rho | a curator |
| diffprivlib | a record replaced | 0 | a curator |
| SmartNoise's sums | a record replaced | about 1e-6 | a curator |
| Gaussian mixing | a record zeroed out (half of a replacement) | 1e-6 | a curator |

*AdaSSP* (Wang 2018; implemented here, not its author's program): a third of epsilon and delta each for the least
eigenvalue, X'X and X'y. *OpenDP*: its Gaussian mechanism on the upper triangle of the Gram matrix, rho by its own conversion
from (epsilon, delta); noise from the library. *Gaussian mixing* (Lev et al. 2025), implemented here by its paper and the
formulas of its authors' program: k x n normals times the rows of (X, y), and noise; its privacy by their Renyi bound, in the
variant that does not spend on the least eigenvalue, converted to (epsilon, delta); k is the best of four in hindsight,
which flatters it. SmartNoise (`bench.accuracy_smartnoise`) where it is installed.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy import optimize

from bench.accuracy_scores import Array
from bench.accuracy_setting import DELTA
from bench.accuracy_smartnoise import smartnoise
from bench.rand_people import RAND_SCHEMA, rand_rows
from trimask.moments.identities import ConstrainedLaw, schema_identities
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise
from trimask_theory.mechanisms import noisy_gram
from trimask_theory.moments import moments_noise
from trimask_theory.moments.noise_law import EntriesLaw, NoiseLaw, RowsLaw

__all__ = ["Method", "categories", "standard_errors"]

_RUNAWAY = 100.0


@dataclass(frozen=True)
class Method:
    """A method's root-mean-square errors at one epsilon, over the fits that came out."""

    method: str
    epsilon: float
    neighbours: str
    delta: float
    repetitions: int
    failures: int
    contrasts: float | None
    slopes: float | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


class _Judge:
    """The truth in scaled units, and scores of others. Columns: one, then the rest without the reference level."""

    def __init__(self, rows: Array) -> None:
        names = [column.name for column in RAND_SCHEMA.columns]
        self.rows, self.gram = rows, rows.T @ rows
        self.response = names.index("logvis")
        self.x = [j for j, name in enumerate(names) if name not in ("logvis", "health_excellent")]
        self.levels = [k for k, j in enumerate(self.x) if names[j].startswith("health_")]
        self.others = [k for k, j in enumerate(self.x) if names[j] != "one" and k not in self.levels]
        self.truth = self.solve(self.gram)

    def solve(self, gram: Array, penalty: float = 0.0) -> Array:
        A = gram[np.ix_(self.x, self.x)]
        if np.linalg.eigvalsh(A)[0] + penalty <= 0:
            return np.full(len(self.x), np.nan)
        return np.asarray(np.linalg.solve(A + penalty * np.eye(len(A)), gram[self.x, self.response]))

    def score(
        self,
        method: str,
        epsilon: float,
        fits: Array,
        neighbours: str = "record replaced",
        delta: float = DELTA,
    ) -> Method:
        bad = ~np.isfinite(fits).all(axis=1) | (np.abs(np.nan_to_num(fits)) > _RUNAWAY).any(axis=1)
        good = fits[~bad] - self.truth

        def rms(places: list[int]) -> float | None:
            return None if 2 * len(good) < len(fits) else float(np.sqrt(np.mean(good[:, places] ** 2)))

        return Method(
            method, epsilon, neighbours, delta, len(fits), int(bad.sum()), rms(self.levels), rms(self.others)
        )


def categories(epsilon: float, people: int, repetitions: int) -> list[Method]:
    """Every method at one epsilon."""
    rng = np.random.default_rng([people, round(1000 * epsilon), 14])
    rows = rand_rows(people)
    judge = _Judge(rows)
    n, p, norm = len(rows), rows.shape[1], RAND_SCHEMA.row_norm
    found = []
    identities = schema_identities(RAND_SCHEMA)

    def both(method: str, law: NoiseLaw) -> None:
        constrained = ConstrainedLaw(law, identities)
        draws = [law.draw(rng) for _ in range(repetitions)]
        found.append(
            judge.score(f"{method}, before", epsilon, np.array([judge.solve(judge.gram + d) for d in draws]))
        )
        moved = np.array([judge.solve(constrained.project(judge.gram + d, n)) for d in draws])
        found.append(judge.score(f"{method}, after", epsilon, moved))

    both(
        "pooled release",
        RowsLaw(judge.gram, n, masked_noise.calibrate(epsilon, DELTA, n, p, "record", norm).sigma),
    )
    central = noisy_gram.calibrate(epsilon, DELTA, norm).sigma
    half = central**2 * (np.eye(p) + np.ones((p, p))) / 2
    both("central noisy Gram", EntriesLaw(half))
    verified = moments_noise.calibrate(epsilon, DELTA, norm**2, 2, 1).sigma
    # As the suite has it, but in the schema's columns: the count is exact, and K1 / h = 2 times the central variance.
    shared = verified**2 * (np.eye(p) + np.ones((p, p)))
    shared[0, 0] = 0.0
    both("verified moments, K1 = 2, h = 1", EntriesLaw(shared))
    found.append(judge.score("AdaSSP", epsilon, _adassp(judge, epsilon, norm, repetitions, rng)))
    found.append(
        judge.score(
            "Gaussian mixing", epsilon, _mixing(judge, epsilon, norm, repetitions, rng), "record zeroed out"
        )
    )
    for name, fits, delta in (
        ("OpenDP, zCDP by hand", _opendp(judge, epsilon, norm, max(repetitions // 4, 2)), DELTA),
        ("diffprivlib", _diffprivlib(judge, epsilon, max(repetitions // 10, 2)), 0.0),
        (
            "SmartNoise, sums by hand",
            smartnoise(judge.gram, judge.solve, epsilon, max(repetitions // 4, 2)),
            DELTA,
        ),
    ):
        if fits is not None:
            found.append(judge.score(name, epsilon, fits, delta=delta))
    return found


def _adassp(judge: _Judge, epsilon: float, norm: float, repetitions: int, rng: np.random.Generator) -> Array:
    """Its three spends by the analytic Gaussian mechanism for a replaced record; X without, y with the response."""
    scale = local_noise.calibrate(epsilon / 3, DELTA / 3).sigma
    square, k = norm**2 - 1, len(judge.x)  # the response takes one of R^2
    A, b = judge.gram[np.ix_(judge.x, judge.x)], judge.gram[judge.x, judge.response]
    least = float(np.linalg.eigvalsh(A)[0])
    logs = math.log(6 / DELTA)
    fits = []
    for _ in range(repetitions):
        seen = max(least + square * scale * (rng.standard_normal() - math.sqrt(2 * logs)), 0.0)
        half = math.sqrt(2) * square * scale / 2 * rng.standard_normal((k, k))
        noisy = A + half + half.T
        mixed = b + 2 * math.sqrt(square) * scale * rng.standard_normal(k)
        rho = 0.05
        wanted = math.sqrt(k * math.log(2 * k**2 / rho)) * math.sqrt(2) * square * scale - seen
        penalised = noisy + max(0.0, wanted) * np.eye(k)
        fits.append(np.linalg.solve(penalised, mixed))
    return np.array(fits)


def _mixing_sigma(epsilon: float, k: int, square: float) -> float:
    """sigma^2 of the sketch (a multiple of R^2): the least at which the Renyi bound gives (epsilon, delta)."""

    def spent(s: float) -> float:
        def at(alpha: float) -> float:
            if alpha >= s:
                return math.inf
            renyi = k / (2 * (alpha - 1)) * (alpha * math.log1p(-1 / s) - math.log1p(-alpha / s))
            return renyi + (math.log(1 / DELTA) + (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)) / (
                alpha - 1
            )

        return min(at(1 + (s - 1) * share) for share in np.geomspace(1e-4, 0.999, 200))

    low, high = 1.5, 1e7
    found = optimize.brentq(lambda x: spent(math.exp(x)) - epsilon, math.log(low), math.log(high), xtol=1e-3)
    return math.exp(found) * square


def _mixing(judge: _Judge, epsilon: float, norm: float, repetitions: int, rng: np.random.Generator) -> Array:
    """Least squares of a sketch of k rows, which sees X'X + sigma^2 I; k the best in hindsight."""
    best: Array | None = None
    columns = [*judge.x, judge.response]
    gram = judge.gram[np.ix_(columns, columns)]
    for k in (100, 400, 1600, 6400):
        square = _mixing_sigma(epsilon, k, norm**2)
        root = np.linalg.cholesky(gram + square * np.eye(len(gram)))
        fits = []
        for _ in range(repetitions):
            sketch = rng.standard_normal((k, len(gram))) @ root.T
            moments = sketch.T @ sketch
            fits.append(np.linalg.solve(moments[:-1, :-1], moments[:-1, -1]))
        found = np.array(fits)
        if best is None or np.mean((found - judge.truth) ** 2) < np.mean((best - judge.truth) ** 2):
            best = found
    assert best is not None  # noqa: S101  four sizes were tried
    return best


def _opendp(judge: _Judge, epsilon: float, norm: float, repetitions: int) -> Array | None:
    """The Gram matrix's upper triangle through OpenDP's Gaussian mechanism, rho by its own conversion; None without it."""
    try:
        dp = import_module("opendp.prelude")
    except ImportError:
        return None
    dp.enable_features("contrib", "floating-point")
    p = len(judge.gram)
    upper = np.triu_indices(p)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(weight)), dp.l2_distance(T=float)
    sensitivity = math.sqrt(2) * norm**2

    def spent(scale: float) -> float:
        mechanism = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        return float(mechanism.map(sensitivity).epsilon(DELTA))

    scale = math.exp(optimize.brentq(lambda x: spent(math.exp(x)) - epsilon, 0.0, 15.0, xtol=1e-3))
    mechanism = dp.m.make_gaussian(*space, scale=scale)
    fits = []
    for _ in range(repetitions):
        noisy = np.zeros((p, p))
        noisy[upper] = np.array(mechanism(list(judge.gram[upper] * weight))) / weight
        fits.append(judge.solve(noisy + np.triu(noisy, 1).T))
    return np.array(fits)


def _diffprivlib(judge: _Judge, epsilon: float, repetitions: int) -> Array | None:
    """Its regression with an intercept, bounds [-1, 1] and [0, 1] for levels; None without it."""
    try:
        models = import_module("diffprivlib.models")
    except ImportError:
        return None
    places = judge.x[1:]
    low = np.array([0.0 if k in judge.levels else -1.0 for k in range(1, len(judge.x))])
    fits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(repetitions):
            model = models.LinearRegression(
                epsilon=epsilon, bounds_X=(low, np.ones(len(low))), bounds_y=(-1, 1), random_state=seed
            ).fit(judge.rows[:, places].copy(), judge.rows[:, judge.response].copy())
            fits.append(np.r_[model.intercept_, model.coef_])
    return np.array(fits)


def standard_errors(people: int) -> dict[str, float]:
    """Sampling errors of the same coefficients without privacy, root mean squares, in scaled units."""
    judge = _Judge(rand_rows(people))
    A = judge.gram[np.ix_(judge.x, judge.x)]
    residual = judge.gram[judge.response, judge.response] - judge.gram[judge.x, judge.response] @ judge.truth
    variance = np.diag(np.linalg.inv(A)) * residual / (people - len(judge.x))
    return {
        "contrasts": float(np.sqrt(variance[judge.levels].mean())),
        "slopes": float(np.sqrt(variance[judge.others].mean())),
    }
