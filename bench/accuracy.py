"""`python -m bench.accuracy`: what a researcher's fit loses to privacy, method by method, in one table.

One data set of n people and 5 attributes in [-1, 1]: four features and a response, no intercept (all are centred by their
public bounds). Every method has the same (epsilon, delta) for the same neighbours: one person's whole row replaced by any
other of norm at most R = sqrt(5). Errors are distances to the fit without privacy on the same data, so sampling error is
left out: it is the same for all, and stated once.

A masked release Y = A(X + C) is drawn by its law: the fit sees Y only through Y'Y = (X + C)'(X + C), which for X'X = L L'
is (L' + E)'(L' + E) + sigma^2 W with E of p x p normals and W an independent Wishart matrix of n - p degrees of freedom.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import wishart
from threadpoolctl import threadpool_limits

from trimask.release import local
from trimask_theory import least_squares, local_noise, masked_noise, noisy_gram, record

__all__ = ["Row", "Score", "main", "measure", "people"]

Array = NDArray[np.float64]

FORMAT = "trimask-accuracy/1"
PEOPLE, ATTRIBUTES, DELTA = 20_000, 5, 1e-6
EPSILONS = (0.1, 1.0, 5.0)
ROW_NORM = math.sqrt(ATTRIBUTES)
BETA = np.array([0.5, -0.3, 0.2, 0.1])
CENTRAL, POOLED, LOCAL = "central noisy Gram", "pooled release, sharp sigma", "local noise, no mask"
DIFFPRIVLIB, OPENDP = "diffprivlib", "OpenDP"
_RUNAWAY = 100.0
"""A coefficient this large (the true ones are at most 0.5) is a minimiser that ran off an indefinite objective."""


@dataclass(frozen=True)
class Score:
    """One kind of error: its average, the average's standard error, and its ratio to the central noisy Gram's."""

    error: float
    standard_error: float
    median: float | None = None
    ratio: float | None = None
    ratio_of: str = "averages"


@dataclass(frozen=True)
class Row:
    """One method at one epsilon. `ols` and `median` are None where no, or not half of the, fits came out."""

    method: str
    epsilon: float
    sigma: float | None
    repetitions: int
    failures: int | None
    moments: Score | None
    ols: Score | None
    pca: Score | None
    note: str = ""


def people(n: int = PEOPLE, seed: int = 6) -> Array:
    """Four equally correlated features (0.5) and a response; bounds lie three standard deviations out, and clip."""
    rng = np.random.default_rng(seed)
    features = math.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, 4)))
    response = features @ BETA + 0.8 * rng.standard_normal(n)
    return np.asarray(np.clip(np.column_stack([features, response]) / 3, -1, 1))


def measure(
    epsilon: float, data: Array, repetitions: int, slow_repetitions: int, dims: tuple[int, ...]
) -> list[Row]:
    """Every method at one epsilon; ratios are filled in."""
    n, p = data.shape
    rng = np.random.default_rng([n, round(1000 * epsilon)])
    judge = _Judge(data.T @ data, epsilon)
    central = noisy_gram.calibrate(epsilon, DELTA, ROW_NORM).sigma
    half = central / 2 * rng.standard_normal((repetitions, p, p))
    rows = [judge.grams(CENTRAL, central, judge.gram + half + half.swapaxes(1, 2))]

    def masked(method: str, sigma: float, note: str = "") -> None:
        rows.append(judge.grams(method, sigma, _masked_grams(judge.gram, n, sigma, repetitions, rng), note))

    def sigma_of(release_rows: int, how: masked_noise.Method = "sharp") -> float:
        return masked_noise.calibrate(epsilon, DELTA, release_rows, p, "record", ROW_NORM, how).sigma

    masked(POOLED, sigma_of(n))
    for size in (4096, 1024):
        # The people beyond the last full release join it: `size` is the smallest, for which sigma is.
        masked(f"releases of {size:,} rows, pooled", sigma_of(min(size, n)), f"{n // size} releases")
    masked("pooled release, Theorem 3.4", sigma_of(n, "theorem"))
    masked(LOCAL, local_noise.calibrate(epsilon, DELTA, 2 * ROW_NORM).sigma)
    rows += _least_squares(judge, repetitions, dims, rng)
    rows.append(_exponential(judge, data, slow_repetitions, rng))
    others = (_diffprivlib(judge, data, slow_repetitions), _opendp(judge, data, slow_repetitions))
    rows += [row for row in others if row is not None]
    return [_against(row, rows[0]) for row in rows]


def _masked_grams(gram: Array, n: int, sigma: float, repetitions: int, rng: np.random.Generator) -> Array:
    """Corrected Gram matrices (X + C)'(X + C) - n sigma^2 I, drawn by their exact law."""
    p = len(gram)
    top = np.linalg.cholesky(gram).T + sigma * rng.standard_normal((repetitions, p, p))
    rest = wishart.rvs(n - p, np.eye(p), size=repetitions, random_state=rng)
    return np.asarray(top.swapaxes(1, 2) @ top + sigma**2 * (rest - n * np.eye(p)))


class _Judge:
    """Holds the answers without privacy, and scores others by them."""

    def __init__(self, gram: Array, epsilon: float) -> None:
        self.gram, self.epsilon = gram, epsilon
        self.coefficients = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
        self.leading = np.linalg.eigh(gram)[1][:, -1]

    def grams(self, method: str, sigma: float, grams: Array, note: str = "") -> Row:
        """A method that gives the whole Gram matrix; a fit on one that is not positive definite is a failure."""
        values, vectors = np.linalg.eigh(grams)
        good = values[:, 0] > 0
        fits = np.full((len(grams), len(self.coefficients)), np.nan)
        fits[good] = np.linalg.solve(grams[good, :-1, :-1], grams[good, :-1, -1:])[..., 0]
        off = np.mean((grams - self.gram) ** 2, axis=(1, 2)) / np.mean(self.gram**2)
        return Row(
            method, self.epsilon, sigma, len(grams), int(np.sum(~good)), _root_mean(off),
            self.ols(fits), self.pca(vectors[:, :, -1]), note,
        )  # fmt: skip

    def ols(self, fits: Array) -> Score | None:
        """Root-mean-square error of the coefficients over the fits that came out (rows of nan did not)."""
        squares = np.mean((fits - self.coefficients) ** 2, axis=1)
        squares = np.where(np.isfinite(squares), squares, np.inf)
        good = squares[np.isfinite(squares)]
        if len(good) < 2:
            return None
        middle = math.sqrt(float(np.median(squares)))  # a failure is infinitely far
        score = _root_mean(good)
        return Score(score.error, score.standard_error, middle if math.isfinite(middle) else None)

    def pca(self, directions: Array) -> Score:
        """The mean of sin^2 of the angle to the leading direction."""
        sines = 1 - np.clip((directions @ self.leading) ** 2, 0, 1)
        return Score(float(sines.mean()), _error_of_mean(sines))


def _error_of_mean(values: Array) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _root_mean(squares: Array) -> Score:
    """The root of a mean; its standard error by the delta method."""
    root = math.sqrt(float(squares.mean()))
    return Score(root, _error_of_mean(squares) / (2 * root))


def _least_squares(
    judge: _Judge, repetitions: int, dims: tuple[int, ...], rng: np.random.Generator
) -> list[Row]:
    """M_LS at the package's own r, and at the best r of a few, chosen in hindsight: a flattered M_LS."""
    found = []
    for dim in dims:
        step = record.one_step(judge.epsilon, DELTA)
        sigma = least_squares.calibrate(*step, dim, ATTRIBUTES - 1, ROW_NORM, "sharp").sigma
        fits = np.array([least_squares.release(judge.gram, dim, sigma, rng) for _ in range(repetitions)])
        score = judge.ols(fits)
        found.append(
            Row(f"M_LS, r = {dim}", judge.epsilon, sigma, repetitions, 0, None, score, None, f"r = {dim}")
        )
    best = min(found, key=lambda row: math.inf if row.ols is None else row.ols.error)
    default = found[0]
    if best is default:
        return [default]
    return [default, replace(best, method="M_LS, best r in hindsight")]


def _exponential(judge: _Judge, data: Array, repetitions: int, rng: np.random.Generator) -> Row:
    """The adaptive exponential mechanism at the mu whose curve passes through (epsilon, delta)."""
    mu = 1 / local_noise.calibrate(judge.epsilon, DELTA).sigma
    found = []
    for _ in range(repetitions):
        frame = local.pca(data, 1, mu=mu, row_norm=ROW_NORM, source=rng).components
        # A test that says no gives no direction: as far off as one drawn blindly.
        blind = rng.standard_normal(ATTRIBUTES)
        found.append(blind / np.linalg.norm(blind) if frame is None else frame.to_numpy()[:, 0])
    score = judge.pca(np.array(found))
    return Row(
        "adaptive exponential PCA", judge.epsilon, None, repetitions, None, None, None, score,
        f"mu = {mu:.3g}, asymptotic guarantee",
    )  # fmt: skip


def _diffprivlib(judge: _Judge, data: Array, repetitions: int) -> Row | None:
    """Its functional-mechanism regression and its PCA, each at the whole epsilon; None where it is not installed."""
    try:
        models = import_module("diffprivlib.models")
    except ImportError:
        return None
    fits, directions = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(repetitions):
            fit = models.LinearRegression(
                epsilon=judge.epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False,
                random_state=seed,
            ).fit(data[:, :-1].copy(), data[:, -1].copy())  # fmt: skip
            good = np.all(np.abs(fit.coef_) < _RUNAWAY)
            fits.append(fit.coef_ if good else np.full(ATTRIBUTES - 1, np.nan))
            components = models.PCA(
                n_components=1, epsilon=judge.epsilon, data_norm=ROW_NORM, centered=True, random_state=seed
            ).fit(data.copy())
            directions.append(components.components_[0])
    coefficients = np.array(fits)
    failures = int(np.isnan(coefficients[:, 0]).sum())
    ols, pca = judge.ols(coefficients), judge.pca(np.array(directions))
    return Row(DIFFPRIVLIB, judge.epsilon, None, repetitions, failures, None, ols, pca, "delta = 0")


def _opendp(judge: _Judge, data: Array, repetitions: int) -> Row | None:
    """Its PCA, which pays for a mean and for eigenvalues too; its regression takes one feature only.

    Its noise takes no seed, so this row alone differs from run to run. None without it or without `randomgen`.
    """
    try:
        opendp = import_module("opendp.prelude")
        import_module("randomgen")
        decomposition = import_module("opendp.extras.sklearn.decomposition")
    except ImportError:
        return None
    opendp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    directions = []
    for _ in range(repetitions):
        # n_changes counts rows added or removed: a replaced record is two.
        model = decomposition.PCA(
            epsilon=judge.epsilon, row_norm=ROW_NORM, n_samples=len(data), n_features=ATTRIBUTES,
            n_components=1, n_changes=2,
        )  # fmt: skip
        directions.append(model.fit(data.copy()).components_[0])
    score = judge.pca(np.array(directions))
    return Row(OPENDP, judge.epsilon, None, repetitions, None, None, None, score, "delta = 0, no seed")


def _against(row: Row, central: Row) -> Row:
    """The row with ratios. With failures the coefficients' ratio is of medians, in which a failure counts."""

    def scored(score: Score | None, base: Score | None, failures: int) -> Score | None:
        if score is None or base is None:
            return score
        if not failures:
            return replace(score, ratio=score.error / base.error)
        ratio = score.median / base.median if score.median and base.median else None
        return replace(score, ratio=ratio, ratio_of="medians")

    failed = (row.failures or 0) + (central.failures or 0)
    return replace(
        row,
        moments=scored(row.moments, central.moments, 0),
        ols=scored(row.ols, central.ols, failed),
        pca=scored(row.pca, central.pca, 0),
    )


def _targets(rows: list[Row]) -> list[dict[str, Any]]:
    """What was asked for at epsilon 1, and what was found; None where the fits it is about mostly fail."""
    at_one = {row.method: row for row in rows if row.epsilon == 1.0}
    pooled = at_one[POOLED]

    def over(method: str, what: Callable[[Row], Score | None]) -> float | None:
        top, bottom = (what(at_one[method]) if method in at_one else None), what(pooled)
        if top is None or bottom is None or top.ratio is None or bottom.ratio is None:
            return None
        return top.ratio / bottom.ratio

    wanted: list[tuple[str, float | None, float, bool]] = [
        (
            "coefficients: pooled / central, at most",
            None if pooled.ols is None else pooled.ols.ratio,
            2.0,
            False,
        ),
        ("coefficients: local / pooled, at least", over(LOCAL, lambda row: row.ols), 100.0, True),
        ("moments: local / pooled, at least", over(LOCAL, lambda row: row.moments), 100.0, True),
        ("coefficients: diffprivlib / pooled, at least", over(DIFFPRIVLIB, lambda row: row.ols), 5.0, True),
    ]
    return [
        {
            "what": what, "found": found, "target": target,
            "met": None if found is None else (found >= target if least else found <= target),
        }
        for what, found, target, least in wanted
    ]  # fmt: skip


def _cell(score: Score | None) -> str:
    return "-" if score is None else f"{score.error:.3g} ± {score.standard_error:.1g}"


def _ratio(score: Score | None, failures: int | None) -> str:
    if score is None or score.ratio is None:
        return "none" if failures else "-"
    return f"{score.ratio:,.3g}" + (" (median)" if score.ratio_of == "medians" else "")


def _table(rows: list[Row]) -> Table:
    table = Table(title="Error against the fit without privacy; ratios are to the central noisy Gram")
    heads = (
        "epsilon", "method", "sigma", "moments", "ratio", "OLS rms error", "ratio", "failed", "PCA sin²", "ratio",
    )  # fmt: skip
    for head in heads:
        table.add_column(head, justify="left" if head == "method" else "right", no_wrap=True)
    for i, row in enumerate(rows):
        last = i + 1 == len(rows) or rows[i + 1].epsilon != row.epsilon
        table.add_row(
            f"{row.epsilon:g}", row.method, "-" if row.sigma is None else f"{row.sigma:.4g}",
            _cell(row.moments), _ratio(row.moments, 0), _cell(row.ols), _ratio(row.ols, row.failures),
            "-" if row.failures is None else f"{row.failures / row.repetitions:.2%}",
            _cell(row.pca), _ratio(row.pca, 0), end_section=last,
        )  # fmt: skip
    return table


def _draw(rows: list[Row], path: Path) -> None:
    """Two panels over epsilon: coefficients (hollow where fits failed) and the leading direction."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    # Okabe and Ito's colours, told apart by colour-blind readers; methods also differ by marker.
    looks = [
        ("#000000", "o"), ("#0072B2", "s"), ("#56B4E9", "D"), ("#009E73", "^"), ("#E69F00", "v"), ("#D55E00", "P"),
        ("#CC79A7", "X"), ("#999999", "<"), ("#6A3D9A", ">"), ("#7A5C00", "*"), ("#B22222", "h"),
    ]  # fmt: skip
    figure, axes = plt.subplots(1, 2, figsize=(12.5, 5.2))
    for look, method in zip(looks, dict.fromkeys(row.method for row in rows), strict=False):
        mine = [row for row in rows if row.method == method]
        for axis, name in zip(axes, ("ols", "pca"), strict=True):
            points = [(row.epsilon, getattr(row, name), row.failures) for row in mine if getattr(row, name)]
            # An error over the few fits that came out is not comparable: shown only where most did.
            points = [point for point in points if name == "pca" or point[1].median is not None]
            where, heights = [point[0] for point in points], [point[1].error for point in points]
            if name == "ols":
                heights = [point[1].median for point in points]
            axis.plot(where, heights, color=look[0], linewidth=1.3, alpha=0.8)
            for x, y, point in zip(where, heights, points, strict=True):
                hollow = name == "ols" and point[2]
                axis.plot(
                    x, y, look[1], color=look[0], markersize=7, markerfacecolor="white" if hollow else look[0]
                )
        axes[1].plot([], [], look[1] + "-", color=look[0], label=method)
    for axis, title in zip(
        axes, ("Coefficients: median rms error", "Leading direction: mean sin²"), strict=True
    ):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.set_xlabel("epsilon")
        axis.set_title(title, loc="left", fontsize=11, fontweight="bold")
        axis.grid(visible=True, color="#ECECEC", linewidth=0.8)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[1].axhline(1 - 1 / ATTRIBUTES, color="#888888", linewidth=1.0, linestyle=(0, (5, 3)))
    axes[1].annotate(
        "a direction drawn blindly", (5, 1 - 1 / ATTRIBUTES), xytext=(0, 4), textcoords="offset points",
        ha="right", fontsize=8.5, color="#666666",
    )  # fmt: skip
    figure.legend(*axes[1].get_legend_handles_labels(), loc="center right", fontsize=9, frameon=False)
    figure.text(
        0.01, 0.01,
        f"n = {PEOPLE:,}, {ATTRIBUTES} attributes, delta = {DELTA:g}, a person's whole row replaced. "
        "Hollow: some fits failed (counted as infinitely far); no point: most failed.",
        fontsize=8.5, color="#555555",
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0.04, 0.8, 1), w_pad=2.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions: seconds instead of minutes")
    parser.add_argument(
        "--out", type=Path, default=Path("out/accuracy.json"), metavar="FILE", help="default %(default)s"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the picture too")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write."""
    options = _options(arguments)
    console = Console(width=170 if not sys.stdout.isatty() else None)
    start, data = time.perf_counter(), people()
    effort: tuple[int, int, tuple[int, ...]] = (4000, 100, (50, 200, 1000, 5000))
    if options.quick:
        effort = (200, 3, (50,))
    rows: list[Row] = []
    with threadpool_limits(limits=1), console.status("") as status:
        for epsilon in EPSILONS:
            status.update(f"measuring at epsilon = {epsilon:g}")
            rows += measure(epsilon, data, *effort)
    gram = data.T @ data
    fit = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
    noise = float(gram[-1, -1] - gram[:-1, -1] @ fit) / (len(data) - len(fit))
    sampling = math.sqrt(noise * float(np.trace(np.linalg.inv(gram[:-1, :-1]))) / len(fit))
    targets = _targets(rows)
    console.print(_table(rows))
    console.print(f"sampling error of a coefficient without privacy: {sampling:.3g}")
    for target in targets:
        found = "no number" if target["found"] is None else f"{target['found']:,.3g}"
        console.print(f"{target['what']} {target['target']:g}: {found}, met: {target['met']}")
    left_out = {
        name: "not installed, or not importable"
        for name in (DIFFPRIVLIB, OPENDP)
        if all(row.method != name for row in rows)
    }
    left_out["OpenDP's regression"] = "takes one feature only"
    setting = {
        "people": PEOPLE, "attributes": ATTRIBUTES, "delta": DELTA, "row_norm": ROW_NORM,
        "neighbours": "record: one person's whole row replaced", "sampling_error": sampling,
        "mean_square_of_an_attribute": float(np.trace(gram)) / data.size,
        "mean_square_of_a_moment": float(np.mean(gram**2)),
    }  # fmt: skip
    found_all = {
        "format": FORMAT, "quick": options.quick, "seconds": round(time.perf_counter() - start, 1),
        "setting": setting, "rows": [asdict(row) for row in rows], "targets": targets, "left_out": left_out,
    }  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found_all, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if options.plot:
        _draw(rows, options.plot)
    console.print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
