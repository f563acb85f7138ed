"""Draw Figures 5, 6, 7, 9 and 10 of the NDIS paper, on made-up data of its data sets' shapes, into out/figures.

python docs/figures/make_ndis_figures.py            every figure
python docs/figures/make_ndis_figures.py sketch     one: sketch (5), inherent (6, 10), classic (7), combination (9)

Run from the root of the project. Everything is seeded, so a second run draws the same pictures. Where the paper trains a
classifier to estimate delta, the test of the two exact laws is applied to draws of the mechanism: it finds a
lower bound.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from make_figures import COLOURS, draw, plt, save

from trimask_ndis_relative import rows_of
from trimask_ndis_tables import DATA, Data
from trimask_theory.gaussian import gaussian_pair, local_noise
from trimask_theory.mechanisms import projection
from trimask_theory.papers import relative

Array = NDArray[np.float64]
BY_NAME = {data.name: data for data in DATA}
SMALL_FLIGHT = Data("Flight, 20,000 rows", 20_000, 2, round(100 * math.log(20_000)), BY_NAME["Flight"].tail)
DRAWS = 200_000


def normal_of(rows: Array, r: int) -> tuple[Array, Array]:
    """Lemma 1: the mean and covariance of the sketch in the limit of many rows."""
    b, y = rows[:, :-1], rows[:, -1]
    x = np.linalg.lstsq(b, y)[0]
    e = y - b @ x
    return x, e @ e / r * np.linalg.inv(b.T @ b)


def sketches(rows: Array, r: int, draws: int, rng: np.random.Generator) -> Array:
    """Draws of (Pi B)^+ (Pi b): (Pi D)'(Pi D) is Wishart, made by Bartlett's triangular factor."""
    lower = np.linalg.cholesky(rows.T @ rows)
    d = len(lower)
    parts = []
    for _ in range(0, draws, 20_000):
        factor = np.tril(rng.standard_normal((20_000, d, d)), -1)
        factor[:, np.arange(d), np.arange(d)] = np.sqrt(rng.chisquare(r - np.arange(d), (20_000, d)))
        full = lower @ factor
        upper = np.swapaxes(full[:, :-1, :-1], 1, 2)
        parts.append(np.linalg.solve(upper, full[:, -1, :-1, None])[..., 0])
    return np.concatenate(parts)


def loss(x: Array, first: tuple[Array, Array], second: tuple[Array, Array]) -> Array:
    """ln of the ratio of the two normal densities."""

    def log_density(mean: Array, cov: Array) -> Array:
        white = np.linalg.solve(np.linalg.cholesky(cov), (x - mean).T)
        return np.asarray(-0.5 * (white**2).sum(axis=0) - 0.5 * np.linalg.slogdet(cov)[1])

    return log_density(*first) - log_density(*second)


def seen(there: Array, back: Array, epsilons: Array) -> Array:
    """P1[loss > eps] - e^eps P2[loss > eps] from draws of either law: the attack of that one test."""
    return np.array([np.mean(there > e) - math.exp(e) * np.mean(back > e) for e in epsilons])


def worst_row(rows: Array) -> int:
    """The row whose absence the sketch shows most: of those on the edge, the one of largest leverage and residual."""
    found = relative.of_rows(rows)
    upper = np.linalg.qr(rows, mode="r")
    q = (np.linalg.solve(upper.T, rows.T) ** 2).sum(axis=0)
    return int(np.abs(q - max(q for q, _ in found.edge)).argmin())


def figure_sketch() -> None:
    """Figure 5: delta of the sketch itself against Theorem 4, which is of its limit in r."""
    rng = np.random.default_rng(5)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True)
    for axis, data in zip(axes, (BY_NAME["Cancer"], SMALL_FLIGHT), strict=True):
        rows = rows_of(data)
        less = np.delete(rows, worst_row(rows), 0)
        pair = normal_of(rows, data.r), normal_of(less, data.r)
        drawn = [sketches(matrix, data.r, DRAWS, rng) for matrix in (rows, less)]
        top = 1.5 if data.name == "Cancer" else 0.25
        line, marks = np.linspace(0, top, 60), np.linspace(0, top, 13)
        theory = gaussian_pair.spectrum(*pair[0], *pair[1], line)
        there = seen(*(loss(x, *pair) for x in drawn), marks)
        back = seen(*(-loss(x, *pair) for x in reversed(drawn)), marks)
        for curve, found, colour, name in (
            (theory.forward, there, COLOURS[0], "with the row, then without"),
            (theory.backward, back, COLOURS[1], "without it, then with"),
        ):
            axis.plot(line, curve, color=colour, linewidth=2, label=name)
            axis.plot(marks, found, "o", color=colour, markersize=5, markeredgecolor="white")
        axis.set(title=f"{data.name}, r = {data.r}", xlabel=r"$\varepsilon$", ylim=(0, None))
        print(data.name, "largest difference", np.abs(np.interp(marks, line, theory.forward) - there).max())
    axes[0].set_ylabel(r"$\delta$")
    axes[0].legend()
    save(figure, "ndis-sketch")


def figure_inherent() -> None:
    """Figures 6 and 10: what a projection to r columns, and to one, gives relative to X with no noise."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True)
    for name, colour in zip(("Flight", "Song"), COLOURS, strict=False):
        data = BY_NAME[name]
        leverage = relative.of_rows(rows_of(data)).leverage
        for axis, r, top in ((axes[0], data.r, 3.0), (axes[1], 1, 0.5)):
            line = np.linspace(0, top, 200)
            values = np.array([projection.delta(e, leverage, r) for e in line])
            axis.semilogy(
                line,
                np.maximum(values, 1e-30),
                color=colour,
                linewidth=2,
                label=f"{name}, leverage {leverage:.2g}",
            )
            axis.axhline(1 / data.n, color=colour, linewidth=1, linestyle=":")
            axis.set(xlabel=r"$\varepsilon$", ylim=(1e-18, 1), xlim=(0, top))
        print(name, leverage, projection.delta(1.0, leverage, data.r), projection.delta(0.1, leverage, 1))
    axes[0].set(ylabel=r"$\delta$", title=r"projection to $r = 100 \ln n$ columns (Figure 6)")
    axes[1].set(title="one random combination, r = 1 (Figure 10)")
    axes[1].legend(title="dotted: 1/n")
    save(figure, "ndis-inherent")


def figure_classic() -> None:
    """Figure 7: the classic Gaussian mechanism, claimed and exact."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True)
    line = np.linspace(0.02, 0.99, 150)
    for claimed, colour in zip((1e-3, 1e-5, 1e-7), COLOURS, strict=False):
        classic = np.array([local_noise.calibrate(e, claimed, method="classic").sigma for e in line])
        exact = np.array([local_noise.calibrate(e, claimed).sigma for e in line])
        given = [local_noise.delta(e, sigma) for e, sigma in zip(line, classic, strict=True)]
        axes[0].semilogy(line, given, color=colour, linewidth=2, label=f"claimed {claimed:.0e}")
        axes[0].axhline(claimed, color=colour, linewidth=1, linestyle=":")
        axes[1].plot(line, exact / classic, color=colour, linewidth=2)
    axes[0].set(
        xlabel=r"$\varepsilon$", ylabel=r"$\delta$", title="delta it gives (Corollary 5); dotted: claimed"
    )
    axes[1].set(xlabel=r"$\varepsilon$", title="noise needed / noise added", ylim=(0, 1))
    axes[0].legend(loc="upper right")
    save(figure, "ndis-classic")


def figure_combination() -> None:
    """Figure 9: one random combination of the rows, without and with noise, theory and draws."""
    data = BY_NAME["Cancer"]
    rows, rng = rows_of(data), np.random.default_rng(9)
    less = np.delete(rows, worst_row(rows), 0)
    moments = rows.T @ rows, less.T @ less
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True)
    for axis, sigma, title in zip(
        axes, (0.0, 0.5), ("no noise", "noise 0.5 of the longest row"), strict=True
    ):
        ridge = [m + sigma**2 * np.eye(len(m)) for m in moments]
        laws = [(np.zeros(len(m)), m) for m in ridge]
        drawn = []
        for m in moments:
            factor = np.linalg.cholesky(m)
            noise = sigma * rng.standard_normal((5 * DRAWS, len(m)))
            drawn.append(rng.standard_normal((5 * DRAWS, len(m))) @ factor.T + noise)
        removed = rows[worst_row(rows)]
        leverage = float(removed @ np.linalg.solve(ridge[0], removed))
        line, marks = np.linspace(0, 2, 100), np.linspace(0, 2, 13)
        theory = [projection.delta(e, leverage, 1) for e in line]
        found = seen(*(loss(x, *laws) for x in drawn), marks)
        axis.plot(line, theory, color=COLOURS[0], linewidth=2, label="Theorem 2 at r = 1")
        axis.plot(marks, found, "o", color=COLOURS[1], markersize=5, label=f"{5 * DRAWS:,} draws")
        axis.set(title=f"{title}, leverage {leverage:.2f}", xlabel=r"$\varepsilon$", ylim=(0, None))
        print(title, "largest difference", np.abs(np.interp(marks, line, theory) - found).max())
    axes[0].set_ylabel(r"$\delta$")
    axes[0].legend()
    save(figure, "ndis-combination")


FIGURES: dict[str, Callable[[], None]] = {
    "sketch": figure_sketch,
    "inherent": figure_inherent,
    "classic": figure_classic,
    "combination": figure_combination,
}


if __name__ == "__main__":
    draw("the NDIS paper", FIGURES)
