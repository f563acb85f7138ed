"""The NDIS paper's Tables 1 and 2 on made-up data of the same n, d and r, beside them.

`PYTHONPATH=tests/support python -m trimask_ndis_tables` prints them.

Noise: sigma of M_RP, M_LS and Sheffet's mechanism, which depend on epsilon, delta = 1/n, r, d and the row norm l alone. The
paper does not print l; ratios to Sheffet's sigma do not depend on it, and the l behind its own Sheffet row scales ours.
Utility depends on the data, which is not the paper's: what must agree there is the order of the methods.

Data sets by their columns, as Section 7.2 has them (Flight 2 columns and 327,346 rows, Song 91 and 515,345); the headings of
the paper's tables have these two n exchanged.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimask_theory.mechanisms import least_squares, projection

Array = NDArray[np.float64]
FORMAT = "trimask-ndis-tables/1"
EPSILON = 1.0
RP, LS, SHEFFET = "M_RP", "M_LS", "Sheffet"
_CHUNK = 32_768
_WHAT = ("σ/σ(Sheffet)", "σ", "error", "PDR", "DPR")


@dataclass(frozen=True)
class Data:
    """A data set's shape: `tail` is the degrees of freedom of its rows, whose largest sets the noise for all."""

    name: str
    n: int
    columns: int
    r: int
    tail: float


@dataclass(frozen=True)
class Row:
    """One method on one data set, ours: sigma at the paper's l, its ratio to Sheffet's, and means over the trials."""

    data: str
    method: str
    sigma: float
    ratio: float
    pdr: float | None
    dpr: float | None
    error: float
    error_half_width: float


def _log_dim(n: int) -> int:
    """r = ln(n) / alpha^2 with alpha = 0.1."""
    return round(100 * math.log(n))


DATA = (
    Data("Cancer", 2809, 11, 300, 1.5),
    Data("Song", 515_345, 91, _log_dim(515_345), 4.0),
    Data("Flight", 327_346, 2, _log_dim(327_346), 5.0),
)
# (data, method) -> (sigma_extra, PDR, DPR, relative error), from Tables 1 and 2.
PRINTED: dict[tuple[str, str], tuple[float, float | None, float | None, float]] = {
    ("Cancer", RP): (6.850, 18.942, 0.399, 1.001),
    ("Cancer", LS): (7.917, None, None, 0.996),
    ("Cancer", SHEFFET): (20.317, 56.116, 0.379, 1.022),
    ("Song", RP): (0.224, 2.146, 0.787, 0.752),
    ("Song", LS): (3.374, None, None, 0.983),
    ("Song", SHEFFET): (12.496, 7.373, 0.445, 0.996),
    ("Flight", RP): (0.745, 1.763, 1.064, 0.395),
    ("Flight", LS): (0.864, None, None, 0.465),
    ("Flight", SHEFFET): (2.060, 3.989, 0.868, 0.789),
}


def sigmas(data: Data) -> dict[str, float]:
    """The noise of each method for rows of norm at most 1."""
    delta = 1 / data.n
    return {
        RP: projection.calibrate(EPSILON, delta, data.r).sigma,
        LS: least_squares.calibrate(EPSILON, delta, data.r, data.columns - 1).sigma,
        SHEFFET: least_squares.sheffet_sigma(EPSILON, delta, data.r),
    }


def chunks(data: Data, seed: int = 4) -> Iterator[Array]:
    """Made-up rows, not yet scaled: features sharing a factor, and a response that is a sum of them."""
    rng = np.random.default_rng([seed, data.n])
    d = data.columns
    weights = np.linspace(1.0, 0.4, d - 1)
    for start in range(0, data.n, _CHUNK):
        count = min(_CHUNK, data.n - start)
        features = rng.standard_normal((count, d - 1)) + rng.standard_normal((count, 1))
        response = features @ weights / math.sqrt(d - 1) + 0.5 * rng.standard_normal(count)
        rows = np.column_stack([features, response])
        yield rows / np.sqrt(rng.chisquare(data.tail, (count, 1)) / data.tail)


def gram(data: Data, seed: int = 4) -> Array:
    """D'D of the made-up rows, scaled so that the longest has norm 1."""
    total, longest = np.zeros((data.columns, data.columns)), 0.0
    for rows in chunks(data, seed):
        total += rows.T @ rows
        longest = max(longest, float((rows**2).sum(axis=1).max()))
    return total / longest


def measure(data: Data, trials: int, seed: int = 5) -> list[Row]:
    """Every method on one data set."""
    moments, rng = gram(data), np.random.default_rng([seed, data.n])
    factor = np.linalg.cholesky(moments).T
    best = np.linalg.solve(moments[:-1, :-1], moments[:-1, -1])
    unit = sigmas(data)
    scale = PRINTED[data.name, SHEFFET][0] / unit[SHEFFET]
    draws: dict[str, Callable[[float], Array]] = {
        RP: lambda sigma: least_squares.sketch(factor, data.r, sigma, rng),
        LS: lambda sigma: least_squares.release(moments, data.r, sigma, rng),
        SHEFFET: lambda sigma: least_squares.sketch(factor, data.r, sigma, rng),
    }
    rows = []
    for method, sigma in unit.items():
        off = np.array([np.linalg.norm(draws[method](sigma) - best) for _ in range(trials)]) / np.linalg.norm(
            best
        )
        pdr = dpr = None
        if method != LS:  # which gives coefficients, not a projection
            found = [ratios(projection.release(factor, data.r, sigma, rng), moments) for _ in range(trials)]
            pdr, dpr = (float(np.mean(values)) for values in zip(*found, strict=True))
        half = 1.96 * float(off.std(ddof=1)) / math.sqrt(trials)
        rows.append(
            Row(data.name, method, scale * sigma, sigma / unit[SHEFFET], pdr, dpr, float(off.mean()), half)
        )
    return rows


def ratios(projected: Array, moments: Array) -> tuple[float, float]:
    """PDR, the mean ratio of distances between columns, and DPR, the correlation of their dot products."""
    products = projected @ projected.T / projected.shape[1]
    above = np.triu_indices(len(moments), 1)

    def distances(dots: Array) -> Array:
        sizes = np.diag(dots)
        return np.asarray(np.sqrt((sizes[:, None] + sizes[None, :] - 2 * dots)[above]))

    pairs = np.triu_indices(len(moments))  # a column with itself too: two columns alone have one pair
    pearson = np.corrcoef(products[pairs], moments[pairs])[0, 1]
    return float(np.mean(distances(products) / distances(moments))), float(pearson)


def table(rows: list[Row]) -> str:
    """Ours beside the paper's, as Markdown."""
    heads = ["data", "method", *(f"{what}{whose}" for what in _WHAT for whose in (": ours", ", paper"))]
    lines = ["| " + " | ".join(heads) + " |", "|---|---" + "|--:" * (len(heads) - 2) + "|"]
    for row in rows:
        sigma, pdr, dpr, error = PRINTED[row.data, row.method]
        cells = [
            row.data, row.method, f"{row.ratio:.3f}", f"{sigma / PRINTED[row.data, SHEFFET][0]:.3f}", f"{row.sigma:.3f}",
            f"{sigma:.3f}", f"{row.error:.3f} ± {row.error_half_width:.3f}", f"{error:.3f}",
            *("–" if value is None else f"{value:.3f}" for value in (row.pdr, pdr, row.dpr, dpr)),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(
        prog="PYTHONPATH=tests/support python -m trimask_ndis_tables", description=__doc__
    )
    parser.add_argument(
        "--trials", type=int, default=100, metavar="N", help="draws a method (default %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/ndis-tables.json"), metavar="FILE", help="default %(default)s"
    )
    options = parser.parse_args(arguments)
    rows = [row for data in DATA for row in measure(data, options.trials)]
    print(table(rows))
    found = {"format": FORMAT, "trials": options.trials, "rows": [asdict(row) for row in rows]}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
