"""`python -m bench.coverage`: how often 95 % intervals hold the truth, for normal and for skewed rows, with and
without fourth moments.

Rows are drawn (`bench/coverage_rows.py`), fitted without noise, and intervals counted: what is measured is the
sampling part.
The seed is fixed, and the same rows are used with and without declared squares. A share of 400 studies has a
standard error of
1.1 points at 95 %; columns of one fit are averaged, which leaves it at most that.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd

from bench.coverage_rows import LAWS, NAMES, moments, population, rows, schema
from trimask import fit
from trimask.errors import CoverageWarning
from trimask.moments import Moments

__all__ = ["WHAT", "intervals", "main", "measure"]

Array = np.ndarray[Any, Any]
WHAT = (
    "mean",
    "variance",
    "correlation",
    "partial correlation",
    "PCA loading",
    "ridge",
    "canonical correlation",
)
_PENALTY = 0.0005  # about a fifth of the smallest variance in scaled units


def _about(estimate: pd.DataFrame | pd.Series[float], errors: pd.DataFrame | pd.Series[float]) -> Array:
    reach = 1.959964 * errors.to_numpy()
    return np.column_stack([estimate.to_numpy() - reach, estimate.to_numpy() + reach])


def intervals(source: Moments) -> dict[str, tuple[Array, Array]]:
    """Estimates, and 95 % intervals as a researcher gets them."""
    names = list(NAMES)
    described = fit.describe(source, names)
    plain, partial = (fit.partial_correlations(source, names, given=given) for given in ([], None))
    leading = fit.pca(source, names, components=1)
    ridge = fit.ridge(source, "a ~ b + c + d", _PENALTY)
    canonical = fit.canonical_correlations(source, ["a", "b"], ["c", "d"])
    return {
        "mean": (described.means["estimate"].to_numpy(), described.conf_int().to_numpy()),
        "variance": (described.variances["estimate"].to_numpy(), described.conf_int(of="variances").to_numpy()),
        "correlation": (plain.pairs["estimate"].to_numpy(), plain.conf_int().to_numpy()),
        "partial correlation": (partial.pairs["estimate"].to_numpy(), partial.conf_int().to_numpy()),
        "PCA loading": (leading.loadings["PC1"].to_numpy(), _about(leading.loadings["PC1"], leading.loadings_bse["PC1"])),
        "ridge": (ridge.params.to_numpy(), ridge.conf_int().to_numpy()),
        "canonical correlation": (
            canonical.correlations["estimate"].to_numpy()[:1], canonical.conf_int().to_numpy()[:1],
        ),
    }  # fmt: skip


def measure(law: str, n: int, *, squares: bool, studies: int, seed: int) -> dict[str, float]:
    """The share of intervals that hold the truth, and under "warned" that of studies in which a fit warned."""
    of = schema(law, squares=squares)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        truth = {name: values[0] for name, values in intervals(population(of, n)).items()}
    held: dict[str, list[float]] = {name: [] for name in WHAT}
    rng, warned = np.random.default_rng(seed), 0
    for _ in range(studies):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = intervals(moments(rows(law, n, rng), of))
        warned += any(issubclass(item.category, CoverageWarning) for item in said)
        for name, (_, ends) in found.items():
            shown = np.isfinite(ends).all(axis=1)
            inside = (ends[:, 0] <= truth[name]) & (truth[name] <= ends[:, 1])
            held[name] += inside[shown].tolist()
    return {**{name: float(np.mean(values)) for name, values in held.items()}, "warned": warned / studies}


def main(arguments: list[str] | None = None) -> None:
    """Print the table of docs/accuracy.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--laws", nargs="+", default=["normal", "exponential"], choices=list(LAWS))
    options = parser.parse_args(arguments)
    print(f"| rows | n | squares and products declared | {' | '.join(WHAT)} | warned |")
    print(f"|---|--:|---|{'--:|' * (len(WHAT) + 1)}")
    for law in options.laws:
        for n in options.rows:
            for squares in (False, True):
                found = measure(law, n, squares=squares, studies=options.studies, seed=7)
                shown = " | ".join(f"{value:.3f}" for value in list(found.values())[:-1])
                print(
                    f"| {law} | {n:,} | {'yes' if squares else 'no'} | {shown} | {found['warned']:.0%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
