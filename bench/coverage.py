"""`python -m bench.coverage`: how often 95 % intervals hold the truth, for normal and for skewed rows, with and
without fourth moments.

Rows are drawn (`bench/coverage_rows.py`), fitted without noise, or with `--noise` on every moment and bounds of
`--width`, and intervals counted. The seed is fixed, and the same rows are used with and without declared squares. A share of
400 studies has a standard error of 1.1 points at 95 %; columns of one fit are averaged, which leaves it at most that.
A study in which the noise leaves no fit is left out and counted.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd

from bench.coverage_rows import LAWS, NAMES, moments, noisy, population, rows, schema
from trimask import fit
from trimask.errors import CoverageWarning, NoiseExceedsSignal
from trimask.moments.moments import Moments

__all__ = ["WHAT", "intervals", "main", "measure"]

Array = np.ndarray[Any, Any]
WHAT = (
    "mean",
    "variance",
    "correlation",
    "partial correlation",
    "PCA loading",
    "ridge",
)
_PENALTY = 0.0005  # about a fifth of the smallest variance in scaled units


def _about(estimate: pd.DataFrame | pd.Series[float], errors: pd.DataFrame | pd.Series[float]) -> Array:
    reach = 1.959964 * errors.to_numpy()
    return np.column_stack([estimate.to_numpy() - reach, estimate.to_numpy() + reach])


def intervals(source: Moments) -> dict[str, tuple[Array, Array]]:
    """Estimates, and 95 % intervals as a researcher gets them."""
    names = list(NAMES)
    described = fit.describe(source, names)
    plain = fit.partial_correlations(source, names, given=[])
    partial = fit.partial_correlations(source, names)
    leading = fit.pca(source, names, components=1)
    ridge = fit.ridge(source, "a ~ b + c + d", _PENALTY)
    return {
        "mean": (described.means["estimate"].to_numpy(), described.conf_int().to_numpy()),
        "variance": (described.variances["estimate"].to_numpy(), described.conf_int(of="variances").to_numpy()),
        "correlation": (plain.pairs["estimate"].to_numpy(), plain.conf_int().to_numpy()),
        "partial correlation": (partial.pairs["estimate"].to_numpy(), partial.conf_int().to_numpy()),
        "PCA loading": (leading.loadings["PC1"].to_numpy(), _about(leading.loadings["PC1"], leading.loadings_bse["PC1"])),
        "ridge": (ridge.params.to_numpy(), ridge.conf_int().to_numpy()),
    }  # fmt: skip


def measure(
    law: str, n: int, *, squares: bool, studies: int, seed: int, noise: float = 0.0, width: float = 40.0
) -> dict[str, float]:
    """The share of intervals that hold the truth, and under "warned" that of studies in which a fit warned.

    With `noise` also, under "fourth", that of variances whose errors are from fourth moments, and under "refused" that of
    studies without a fit.
    """
    of = schema(law, squares=squares, width=width)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        truth = {name: values[0] for name, values in intervals(population(of, n)).items()}
    held: dict[str, list[float]] = {name: [] for name in WHAT}
    rng, warned, refused = np.random.default_rng(seed), 0, 0
    drawn = np.random.default_rng([seed, 1])
    fourth: list[float] = []
    for _ in range(studies):
        source = moments(rows(law, n, rng), of)
        if noise:
            source = noisy(source, noise, drawn)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = intervals(source)
            except NoiseExceedsSignal:
                refused += 1
                continue
        if noise:
            fourth.append(len(fit.describe(source, list(NAMES)).by_fourth) / len(NAMES))
        warned += any(issubclass(item.category, CoverageWarning) for item in said)
        for name, (_, ends) in found.items():
            shown = np.isfinite(ends).all(axis=1)
            inside = (ends[:, 0] <= truth[name]) & (truth[name] <= ends[:, 1])
            held[name] += inside[shown].tolist()
    shares = {name: float(np.mean(values)) if values else float("nan") for name, values in held.items()}
    also = {"fourth": float(np.mean(fourth or [0.0])), "refused": refused / studies} if noise else {}
    return {**shares, **also, "warned": warned / studies}


def main(arguments: list[str] | None = None) -> None:
    """Print the table of docs/accuracy.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--laws", nargs="+", default=["normal", "exponential"], choices=list(LAWS))
    parser.add_argument(
        "--noise", type=float, default=0.0, help="its deviation on every sum of squares, scaled units"
    )
    parser.add_argument("--width", type=float, default=40.0, help="of the columns' declared bounds")
    options = parser.parse_args(arguments)
    heads = [*WHAT, *(["fourth moments used", "refused"] if options.noise else []), "warned"]
    print(f"| rows | n | squares and products declared | {' | '.join(heads)} |")
    print(f"|---|--:|---|{'--:|' * len(heads)}")
    for law in options.laws:
        for n in options.rows:
            for squares in (False, True):
                found = measure(
                    law,
                    n,
                    squares=squares,
                    studies=options.studies,
                    seed=7,
                    noise=options.noise,
                    width=options.width,
                )
                shown = " | ".join(f"{value:.3f}" for value in list(found.values())[:-1])
                print(
                    f"| {law} | {n:,} | {'yes' if squares else 'no'} | {shown} | {found['warned']:.0%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
