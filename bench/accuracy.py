"""`python -m bench.accuracy`: what a researcher's fit loses to privacy, method by method, in one table.

One data set of n people and 5 attributes in [-1, 1]: four features and a response, no intercept (all are centred by their
public bounds). Every method has the same (epsilon, delta) for the same neighbours: one person's whole row replaced by any
other of norm at most R = sqrt(5). Errors are distances to the fit without privacy on the same data, so sampling error is
left out: it is the same for all, and stated once.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from bench import accuracy_moments
from bench.accuracy_methods import exponential, least_squares_rows, masked_grams
from bench.accuracy_others import diffprivlib, opendp_pca
from bench.accuracy_report import draw, table
from bench.accuracy_scores import (
    CENTRAL,
    DIFFPRIVLIB,
    LOCAL,
    OPENDP,
    POOLED,
    Array,
    Judge,
    Row,
    against,
    targets_at_one,
)
from bench.accuracy_setting import ATTRIBUTES, DELTA, EPSILONS, PEOPLE, ROW_NORM, people
from bench.accuracy_width import over_attributes
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise
from trimask_theory.mechanisms import noisy_gram

__all__ = ["main", "measure"]

FORMAT = "trimask-accuracy/1"


def measure(
    epsilon: float,
    data: Array,
    repetitions: int,
    slow_repetitions: int,
    library_repetitions: int,
    dims: tuple[int, ...],
) -> list[Row]:
    """Every method at one epsilon; ratios are filled in."""
    n, p = data.shape
    rng = np.random.default_rng([n, round(1000 * epsilon)])
    judge = Judge(data.T @ data, epsilon)
    central = noisy_gram.calibrate(epsilon, DELTA, ROW_NORM).sigma
    half = central / 2 * rng.standard_normal((repetitions, p, p))
    rows = [judge.grams(CENTRAL, central, judge.gram + half + half.swapaxes(1, 2))]

    def masked(method: str, sigma: float, note: str = "") -> None:
        rows.append(judge.grams(method, sigma, masked_grams(judge.gram, n, sigma, repetitions, rng), note))

    def sigma_of(release_rows: int, how: masked_noise.Method = "sharp") -> float:
        return masked_noise.calibrate(epsilon, DELTA, release_rows, p, "record", ROW_NORM, how).sigma

    masked(POOLED, sigma_of(n))
    for size in (4096, 1024):
        # The people beyond the last full release join it: `size` is the smallest, for which sigma is.
        masked(f"releases of {size:,} rows, pooled", sigma_of(min(size, n)), f"{n // size} releases")
    masked("pooled release, Theorem 3.4", sigma_of(n, "theorem"))
    masked(LOCAL, local_noise.calibrate(epsilon, DELTA, 2 * ROW_NORM).sigma)
    rows += accuracy_moments.moments_rows(judge, data, repetitions, rng)
    rows += least_squares_rows(judge, repetitions, dims, rng)
    rows.append(exponential(judge, data, slow_repetitions, rng))
    others = (diffprivlib(judge, data, library_repetitions), opendp_pca(judge, data, slow_repetitions))
    rows += [row for row in others if row is not None]
    return [against(row, rows[0]) for row in rows]


def _with_one(data: Array, gram: Array) -> float:
    sums = data.sum(axis=0)
    squares = len(data) ** 2 + 2 * float(sums @ sums) + float(np.sum(gram**2))
    return squares / float(data.shape[1] + 1) ** 2


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions: seconds instead of minutes")
    parser.add_argument(
        "--repetitions", type=int, default=4000, metavar="N",
        help="draws of what is drawn by its law (default %(default)s); a quarter of it for diffprivlib, a fortieth for the "
        "slow ones",
    )  # fmt: skip
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
    effort: tuple[int, int, int, tuple[int, ...]] = (
        options.repetitions, max(options.repetitions // 40, 3), max(options.repetitions // 4, 3), (50, 200, 1000, 5000),
    )  # fmt: skip
    if options.quick:
        effort = (200, 3, 3, (50,))
    rows: list[Row] = []
    one: list[Row] = []
    clipped: list[accuracy_moments.Clipped] = []
    with threadpool_limits(limits=1), console.status("") as status:
        for epsilon in EPSILONS:
            status.update(f"measuring at epsilon = {epsilon:g}")
            if not console.is_terminal:
                print(
                    f"epsilon {epsilon:g}, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True
                )
            rows += measure(epsilon, data, *effort)
            found, ball = accuracy_moments.with_one(epsilon, data, effort[0], effort[2])
            one += found
            clipped.append(ball)
        status.update("measuring over attributes")
        widths = over_attributes(PEOPLE, (5,) if options.quick else (5, 10, 20), 5 if options.quick else 60)
    gram = data.T @ data
    fit = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
    noise = float(gram[-1, -1] - gram[:-1, -1] @ fit) / (len(data) - len(fit))
    sampling = math.sqrt(noise * float(np.trace(np.linalg.inv(gram[:-1, :-1]))) / len(fit))
    targets = targets_at_one(rows) + accuracy_moments.targets(rows, one)
    console.print(table(rows))
    console.print(table(one, "The same with `one`: x_0 = 1 and an intercept"))
    for ball in clipped:
        console.print(
            f"ball from a pilot, epsilon {ball.epsilon:g}: R^2 {ball.radius_squared:.3g}, scales of "
            f"{ball.scale_in_deviations:.2g} deviations, clipped {ball.true:.2%} (pilot {ball.expected:.2%}), estimated "
            f"to ± {ball.standard_error:.2%}, 95 % interval covers {ball.covered:.1%}"
        )
    for width in widths:
        kind = "with" if width.intercept else "without"
        console.print(
            f"{width.attributes} attributes, {kind} intercept, epsilon 1, {width.method}: rms {width.rms:.3g}, "
            f"median {width.median:.3g}, prediction {width.prediction:.3g}"
        )
    console.print(f"sampling error of a coefficient without privacy: {sampling:.3g}")
    for target in targets:
        reached = "no number" if target["found"] is None else f"{target['found']:,.3g}"
        console.print(f"{target['what']} {target['target']:g}: {reached}, met: {target['met']}")
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
        "mean_square_of_a_moment_with_one": _with_one(data, gram),
    }  # fmt: skip
    found_all = {
        "format": FORMAT, "quick": options.quick, "repetitions": effort[0], "seconds": round(time.perf_counter() - start, 1),
        "setting": setting, "rows": [asdict(row) for row in rows], "targets": targets,
        "with_one": [asdict(row) for row in one], "clipped": [asdict(ball) for ball in clipped],
        "over_attributes": [asdict(width) for width in widths], "left_out": left_out,
    }  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found_all, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if options.plot:
        draw(rows, options.plot)
    console.print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
