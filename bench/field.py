"""`python -m bench.field`: both suites beside the field's regressions on ten public files, at one (epsilon, delta).

A record replaced, delta 1e-6. A fifth of each file's people is held out to test on, 500 are the pilot, the others are in
the releases, drawn again and again by their law. Two tables:

*Like for like*: every method has the coordinates, the ball and the shrunk rows that `trimask plan` takes from the pilot for
the `moments` suite (`rows` its own row_norm). *As drafted*: every method has the declared bounds alone, as its documentation
has it; nobody has seen an answer. `field_files` fixes files, columns, bounds and epsilons; `field_methods` says how each
method's privacy is counted, `field_ours` how releases are drawn.

A cell: distance to the slopes of the fit without privacy on the same people, root mean square in their standard errors (so 1
is as far off as sampling): median and quartiles; the squared error on held-out people over that of the fit without privacy,
median; what privacy multiplies standard errors by (the root of 1 + the mean square of that distance, median slope, over the
draws with an answer). A draw with none is infinitely far off in the other two. Losses are printed as they are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress
from threadpoolctl import threadpool_limits

from bench.field_files import DELTA, DRAWS, EPSILONS, FILES, FieldFile, shares
from bench.field_methods import METHODS, Array
from bench.field_ours import Ours, People
from trimask_core.study.definition import SuiteName

__all__ = ["Cell", "judged", "main", "measured", "summary", "tables"]

FORMAT = "trimask-field/1"
LIKE, DRAFTED = "like for like", "as drafted"
CENTRAL, WAVES = "central noisy Gram", "moments, two waves"
HINDSIGHT, NOTHING = "Gaussian mixing, best k in hindsight", "no slopes at all (not private: the mean)"
CANNOT = {
    "OpenDP's own regression": "takes one regressor only",
    "SmartNoise": "does not install beside these versions of pandas and OpenDP",
}
Quartiles = tuple[float | None, float | None, float | None]


@dataclass(frozen=True)
class Cell:
    """One method on one file at one epsilon; None where it is infinite or there is nothing."""

    table: str
    file: str
    epsilon: float
    method: str
    draws: int
    failed: int
    coefficient: Quartiles
    test: Quartiles
    inflation: float | None


@dataclass(frozen=True)
class Found:
    """A file at an epsilon: its cells, and our error over the central one's where both have the same draws."""

    cells: list[Cell]
    people: int
    ratio: float | None
    seconds: float


@lru_cache(maxsize=2)
def _split(file: FieldFile) -> tuple[People, People, People]:
    """Held out, pilot and the rest, by a fixed order."""
    frame = file.read()
    everybody = People(
        file,
        {
            item.name: frame[item.name].to_numpy(dtype=str if item.levels else np.float64)
            for item in file.schema.attributes
        },
    )
    order = np.random.default_rng(len(frame)).permutation(len(frame))
    held_out, pilot = shares(len(frame))
    test, known, rest = (everybody.taken(part) for part in np.split(order, [held_out, held_out + pilot]))
    return test, known, rest


def judged(fits: Array, train: People, test: People) -> tuple[int, Quartiles, Quartiles, float | None]:
    """Draws without an answer, quartiles of both errors, and the inflation of standard errors."""
    X, y = train.design, train.response
    truth = np.linalg.lstsq(X, y, rcond=None)[0]
    residual = y - X @ truth
    errors = np.sqrt(np.diag(np.linalg.inv(X.T @ X)) * float(residual @ residual) / (len(y) - X.shape[1]))
    bad = ~np.isfinite(fits).all(axis=1)
    off = ((fits - truth) / errors)[:, 1:]
    distance = np.sqrt(np.mean(off**2, axis=1))
    missed = np.mean((test.response[:, None] - test.design @ np.nan_to_num(fits).T) ** 2, axis=0)
    ratio = missed / np.mean((test.response - test.design @ truth) ** 2)
    distance[bad], ratio[bad] = np.inf, np.inf
    spread = math.inf if bad.all() else float(np.median(np.mean(off[~bad] ** 2, axis=0)))
    inflation = math.sqrt(1 + spread)
    return int(bad.sum()), _quartiles(distance), _quartiles(ratio), _finite(inflation)


def _quartiles(values: Array) -> Quartiles:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), method="lower")
    return _finite(low), _finite(middle), _finite(high)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def measured(place: int, epsilon: float, draws: int = DRAWS) -> Found:
    """Every method of both tables on one file at one epsilon."""
    start, file = time.process_time(), FILES[place]
    test, pilot, train = _split(file)
    seed = (place, round(1000 * epsilon))
    ours = Ours(train, pilot, epsilon, max(draws // 4, 3), seed)
    cells: list[Cell] = []

    def add(table: str, method: str, fits: Array) -> None:
        failed, coefficient, tested, inflation = judged(fits, train, test)
        cells.append(
            Cell(table, file.name, epsilon, method, len(fits), failed, coefficient, tested, inflation)
        )

    with threadpool_limits(limits=1):
        shared, curator = ours.ball("moments"), ours.ball("moments", curator=True)
        add(LIKE, "moments, recommended ball", shared[1:])
        add(LIKE, "rows, recommended row_norm", ours.ball("rows")[1:])
        add(LIKE, CENTRAL, curator[1:])
        suites: tuple[SuiteName, SuiteName] = ("moments", "rows")
        for suite in suites:
            add(DRAFTED, f"{suite}, two waves", ours.two_waves(suite))
            add(DRAFTED, f"{suite}, draft default", ours.default(suite)[1:])
        add(DRAFTED, CENTRAL, ours.default("moments", curator=True)[1:])
        for table in (LIKE, DRAFTED):
            rows, original = ours.rows(table == LIKE)
            for number, (name, (method, share)) in enumerate(METHODS.items()):
                if (name == HINDSIGHT) == (table == DRAFTED) and name.startswith("Gaussian"):
                    continue
                rng = np.random.default_rng([*seed, number])
                try:
                    add(
                        table, name, original(method(rows, epsilon, DELTA, max(round(share * draws), 3), rng))
                    )
                except ImportError:
                    add(table, f"{name} (not installed)", np.full((1, train.design.shape[1]), np.nan))
            add(table, NOTHING, np.eye(1, train.design.shape[1]) * train.response.mean())
    ratio = _over(shared, curator)
    return Found(cells, len(train), ratio, time.process_time() - start)


def _over(shared: Array, curator: Array) -> float | None:
    """Median distance to the fit without noise, in deviations of the curator's slopes: ours over the curator's."""
    unit = np.nanstd(curator[1:], axis=0)
    medians = []
    for fits in (shared, curator):
        distance = np.sqrt(np.mean(((fits[1:] - fits[0]) / unit)[:, 1:] ** 2, axis=1))
        medians.append(float(np.median(np.where(np.isfinite(distance), distance, np.inf))))
    return _finite(medians[0] / medians[1]) if math.isfinite(medians[1]) else None


def tables(cells: list[Cell]) -> Iterator[str]:
    """Markdown: a table a file and kind, a row a method, a column an epsilon."""
    for table, file in itertools.product((LIKE, DRAFTED), dict.fromkeys(cell.file for cell in cells)):
        held = {
            (cell.method, cell.epsilon): cell for cell in cells if (cell.table, cell.file) == (table, file)
        }
        epsilons = sorted({epsilon for _, epsilon in held})
        yield f"\n**{file}, {table}**\n"
        yield f"| method | {' | '.join(f'ε = {epsilon:g}' for epsilon in epsilons)} |"
        yield f"|---|{'--:|' * len(epsilons)}"
        for method in dict.fromkeys(method for method, _ in held):
            yield f"| {method} | {' | '.join(_words(held[method, epsilon]) for epsilon in epsilons)} |"
    for method, why in CANNOT.items():
        yield f"\n{method} cannot be run: it {why}."


def _words(cell: Cell) -> str:
    low, middle, high = map(_number, cell.coefficient)
    failed = f", {cell.failed / cell.draws:.0%} no answer" if cell.failed else ""
    return f"{middle} ({low} to {high}), {_number(cell.test[1])}, ×{_number(cell.inflation)}{failed}"


def _number(value: float | None) -> str:
    return "∞" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def summary(cells: list[Cell], ratios: dict[tuple[str, float], float | None]) -> dict[str, Any]:
    """The two goals: how far ours is from sqrt(K1 / h) of the central error, and where two waves are ahead of all others."""
    law = math.sqrt(2)  # two right providers of which one is honest, as a draft has it
    near = {
        f"{file}, {epsilon:g}": None if ratio is None else ratio / law
        for (file, epsilon), ratio in ratios.items()
    }
    ahead: dict[str, dict[str, str]] = {}
    for (file, epsilon), group in itertools.groupby(
        sorted((cell for cell in cells if cell.table == DRAFTED), key=lambda cell: (cell.file, cell.epsilon)),
        key=lambda cell: (cell.file, cell.epsilon),
    ):
        found = {cell.method: cell.coefficient[1] or math.inf for cell in group if cell.method != NOTHING}
        others = {name: value for name, value in found.items() if not name.startswith(("moments", "rows"))}
        best = min(others, key=lambda name: others[name])
        won = found[WAVES] < others[best]
        ahead.setdefault(file, {})[f"{epsilon:g}"] = (
            "" if won else f"{best} {others[best] / found[WAVES]:.2g}"
        )
    return {
        "over_root_2_of_central": near,
        "within_3_percent": sum(value is not None and abs(value - 1) <= 0.03 for value in near.values()),
        "ahead_or_who_is": ahead,
        "files_ahead_from_1_on": [
            file for file, by in ahead.items() if not any(by[one] for one in by if float(one) >= 1)
        ],
    }


def draw(cells: list[Cell], path: Path) -> None:
    """Median distance against epsilon, a panel a file, as drafted."""
    drafted = [cell for cell in cells if cell.table == DRAFTED]
    files = list(dict.fromkeys(cell.file for cell in drafted))
    methods = list(dict.fromkeys(cell.method for cell in drafted))
    figure = Figure(figsize=(3 * math.ceil(len(files) / 2), 7), layout="constrained")
    panels = np.ravel(figure.subplots(2, math.ceil(len(files) / 2), sharex=True))
    for panel, file in zip(panels, files, strict=False):
        panel.set(title=file, xscale="log", yscale="log", xlabel="epsilon")
        for number, method in enumerate(methods):
            line = [cell for cell in drafted if (cell.file, cell.method) == (file, method)]
            ours = method.startswith(("moments", "rows"))
            panel.plot(
                [cell.epsilon for cell in line], [cell.coefficient[1] or math.nan for cell in line], label=method,
                marker="os^vD*"[number % 6], markersize=4, linewidth=2.2 if ours else 1, linestyle="-" if ours else "--",
                color="black" if method == NOTHING else f"C{number % 10}",
            )  # fmt: skip
        panel.set_ylim(top=1e3)
    figure.supylabel("distance of slopes, in standard errors (median)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.field", description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help="of what is drawn from moments; a quarter or a tenth of it for what passes over the people (default %(default)s)")  # fmt: skip  # noqa: E501
    parser.add_argument("--files", nargs="+", choices=[file.name for file in FILES], help="default: all")
    parser.add_argument("--processes", type=int, default=2, metavar="K", help="default %(default)s")
    parser.add_argument(
        "--out", type=Path, default=Path("out/field.json"), metavar="FILE", help="default %(default)s"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the picture too")
    options = parser.parse_args(arguments)
    places = [
        place for place, file in enumerate(FILES) if options.files is None or file.name in options.files
    ]
    jobs = list(itertools.product(places, EPSILONS))
    found: dict[tuple[int, float], Found] = {}
    console = Console(stderr=True)
    with ProcessPoolExecutor(options.processes) as pool, Progress(console=console) as progress:
        bar = progress.add_task("files and epsilons", total=len(jobs))
        every = pool.map(measured, *zip(*jobs, strict=True), itertools.repeat(options.draws))
        for job, one in zip(jobs, every, strict=True):
            found[job] = one
            progress.update(bar, advance=1, description=f"{FILES[job[0]].name}, epsilon {job[1]:g}")
    cells = [cell for one in found.values() for cell in one.cells]
    goals = summary(
        cells, {(FILES[place].name, epsilon): one.ratio for (place, epsilon), one in found.items()}
    )
    for place in places:
        file = FILES[place]
        print(
            f"{file.name} ({file.source}): {found[place, EPSILONS[0]].people:,} people in a release; {file.formula}"
        )
    print("\n".join(tables(cells)))
    seconds = sum(one.seconds for one in found.values())
    print(f"\n{json.dumps(goals, indent=1)}\n{seconds:,.0f} s of processor time")
    written = {"format": FORMAT, "delta": DELTA, "draws": options.draws, "seconds": round(seconds), "goals": goals,
               "cannot": CANNOT, "cells": [asdict(cell) for cell in cells]}  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(written, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if options.plot:
        draw(cells, options.plot)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
