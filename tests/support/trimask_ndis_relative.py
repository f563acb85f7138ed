"""The NDIS paper's Tables 3 and 4, relative privacy, on made-up data of the same shape.

`PYTHONPATH=tests/support python -m trimask_ndis_relative` prints them.

The set X is the data and what one of its rows, taken away or added once more, makes of it. Whether a projection or a
sketch needs noise at all depends on the largest leverage and residual, so on the data; ours are made up (`ndis_tables`)
and both are printed. The longest row has norm 1; sigma is shown at the l behind the paper's own Sheffet row. [17] of
the paper is left out: its formula is not printed there.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimask_ndis_tables import DATA, EPSILON, Data, chunks, ratios
from trimask_theory.mechanisms import least_squares, projection
from trimask_theory.papers import relative
from trimask_theory.papers.relative import RelativeSet

Array = NDArray[np.float64]
RP, M_RP, M_LS, GAUSSIAN, SHEFFET = (
    "RP / ALS, no noise",
    "M_RP^rel",
    "M_LS^rel",
    "M_sigma^rel",
    "Sheffet [15]",
)
# (data, method) -> (delta of RP, PDR, DPR, delta of ALS, sigma_extra, relative error): Tables 3 and 4.
PRINTED: dict[tuple[str, str], tuple[str, str, str, str, str, str]] = {
    ("Cancer", RP): ("0.999", "0.999", "0.998", "0.133", "0", "0.656"),
    ("Cancer", M_RP): ("1/n", "18.106", "0.401", "1/n", "6.850", "1.002"),
    ("Cancer", M_LS): ("–", "–", "–", "1/n", "7.917", "1.003"),
    ("Cancer", GAUSSIAN): ("–", "–", "–", "1/n", "–", "2.563"),
    ("Cancer", SHEFFET): ("1/n", "56.031", "0.379", "1/n", "20.317", "1.012"),
    ("Song", RP): ("0.135", "1.000", "0.993", "1.079e-9", "0", "0.001"),
    ("Song", M_RP): ("1/n", "2.149", "0.792", "1/n", "0.224", "0.752"),
    ("Song", M_LS): ("–", "–", "–", "1.079e-9", "0", "0.001"),
    ("Song", GAUSSIAN): ("–", "–", "–", "1/n", "–", "0.001"),
    ("Song", SHEFFET): ("1/n", "7.342", "0.445", "1/n", "12.496", "0.996"),
    ("Flight", RP): ("≤ 1e-16", "0.998", "1.123", "≤ 1e-16", "0", "0.016"),
    ("Flight", M_RP): ("≤ 1e-16", "0.998", "1.123", "≤ 1e-16", "0", "0.016"),
    ("Flight", M_LS): ("–", "–", "–", "≤ 1e-16", "0", "0.016"),
    ("Flight", GAUSSIAN): ("–", "–", "–", "1/n", "–", "0.001"),
    ("Flight", SHEFFET): ("1/n", "4.004", "0.868", "1/n", "2.060", "0.791"),
}


@dataclass(frozen=True)
class Row:
    """One method on one data set: its deltas as a projection and as least squares, noise, and means over the trials."""

    data: str
    method: str
    delta_rp: float | None
    pdr: float | None
    dpr: float | None
    delta_ls: float
    sigma: float | None
    error: float


def rows_of(data: Data) -> Array:
    """The made-up rows, the longest of norm 1."""
    rows = np.concatenate(list(chunks(data)))
    return np.asarray(rows / np.sqrt((rows**2).sum(axis=1).max()))


def inherent(found: RelativeSet, r: int) -> tuple[float, float]:
    """The deltas of the projection and of the sketch with no noise, relative to X."""
    return projection.delta(EPSILON, found.leverage, r), relative.inherent_delta(found, EPSILON, r)


def measure(data: Data, trials: int, seed: int = 6) -> tuple[RelativeSet, list[Row]]:
    """Every method on one data set."""
    rows, rng = rows_of(data), np.random.default_rng([seed, data.n])
    found, r, goal = relative.of_rows(rows), data.r, 1 / data.n
    moments = rows.T @ rows
    factor = np.linalg.cholesky(moments).T
    best = np.linalg.solve(moments[:-1, :-1], moments[:-1, -1])
    plain_rp, plain_ls = inherent(found, r)
    rp = projection.relative_calibrate(EPSILON, goal, r, found.leverage).sigma
    # Noise where the rows' own deltas ask for it, as Figure 13 has it with the largest leverage and residual.
    ls = 0.0 if plain_ls <= goal else least_squares.calibrate(EPSILON, goal, r, data.columns - 1).sigma
    sheffet = least_squares.sheffet_sigma(EPSILON, goal, r)
    gaussian = relative.gaussian_calibrate(found, EPSILON, goal).sigma
    scale = float(PRINTED[data.name, SHEFFET][4]) / sheffet

    def spent(sigma: float, plain: float) -> float:
        return plain if sigma == 0 else goal

    methods: list[tuple[str, float | None, float | None, float, Callable[[], Array]]] = [
        (RP, 0.0, plain_rp, plain_ls, lambda: least_squares.sketch(factor, r, 0.0, rng)),
        (
            M_RP,
            rp,
            spent(rp, plain_rp),
            spent(rp, plain_rp),
            lambda: least_squares.sketch(factor, r, rp, rng),
        ),
        (M_LS, ls, None, spent(ls, plain_ls), lambda: least_squares.release(moments, r, ls, rng)),
        (GAUSSIAN, None, None, goal, lambda: relative.gaussian_release(moments, gaussian, rng)),
        (SHEFFET, sheffet, goal, goal, lambda: least_squares.sketch(factor, r, sheffet, rng)),
    ]
    table = []
    for name, sigma, delta_rp, delta_ls, draw in methods:
        error = float(np.mean([np.linalg.norm(draw() - best) for _ in range(trials)]) / np.linalg.norm(best))
        pdr = dpr = None
        if delta_rp is not None and sigma is not None:
            drawn = [ratios(projection.release(factor, r, sigma, rng), moments) for _ in range(trials)]
            pdr, dpr = (float(np.mean(values)) for values in zip(*drawn, strict=True))
        shown = None if sigma is None else sigma * scale
        table.append(Row(data.name, name, delta_rp, pdr, dpr, delta_ls, shown, error))
    return found, table


def document(results: list[tuple[Data, RelativeSet, list[Row]]]) -> str:
    """Ours beside the paper's, as Markdown."""
    lines = [
        "| data | n, columns, r | leverage of [B, b] | leverage of B | residual | sensitivity of x_opt |"
    ]
    lines += ["|---|---|--:|--:|--:|--:|"]
    for data, found, _ in results:
        shape = f"{data.n:,}, {data.columns}, {data.r}"
        numbers = (found.leverage, found.feature_leverage, found.residual, found.sensitivity)
        lines.append(f"| {data.name} | {shape} | " + " | ".join(f"{x:.3g}" for x in numbers) + " |")
    heads = ("δ of the projection", "PDR", "DPR", "δ of least squares", "σ", "error")
    lines += ["", "| data | method | " + " | ".join(f"{head}: ours | paper" for head in heads) + " |"]
    lines += ["|---|---|" + "--:|" * (2 * len(heads))]
    for data, _, rows in results:
        for row in rows:
            ours = [_delta(row.delta_rp, data), _plain(row.pdr), _plain(row.dpr), _delta(row.delta_ls, data)]
            ours += [_plain(row.sigma), _plain(row.error)]
            cells = [cell for pair in zip(ours, PRINTED[row.data, row.method], strict=True) for cell in pair]
            lines.append(f"| {row.data} | {row.method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _delta(value: float | None, data: Data) -> str:
    if value is None:
        return "–"
    return "1/n" if math.isclose(value, 1 / data.n) else f"{value:.2g}"


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        prog="PYTHONPATH=tests/support python -m trimask_ndis_relative", description=__doc__
    )
    parser.add_argument(
        "--trials", type=int, default=100, metavar="N", help="draws a method (default %(default)s)"
    )
    options = parser.parse_args(arguments)
    print(document([(data, *measure(data, options.trials)) for data in DATA]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
