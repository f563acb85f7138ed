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
import json
import math
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from threadpoolctl import threadpool_limits

from bench.field_files import DELTA, DRAWS, EPSILONS, FILES, FieldFile, shares
from bench.field_methods import METHODS, Array
from bench.field_ours import Ours, People
from bench.field_tables import (
    CANNOT,
    CENTRAL,
    DRAFTED,
    HINDSIGHT,
    LIKE,
    NOTHING,
    Cell,
    Quartiles,
    draw,
    page,
    summary,
    tables,
)
from bench.kept import kept, run
from trimask_core.study.definition import SuiteName

__all__ = ["judged", "main", "measured"]

FORMAT = "trimask-field/1"


@dataclass(frozen=True)
class Found:
    """A file at an epsilon: its cells, and our error over the central one's where both have the same draws."""

    cells: list[Cell]
    people: int
    ratio: float | None
    seconds: float

    @classmethod
    def of(cls, kept: dict[str, Any]) -> Found:
        """From what `asdict` makes of one, kept as JSON."""
        cells = [
            Cell(**{**cell, "coefficient": tuple(cell["coefficient"]), "test": tuple(cell["test"])})
            for cell in kept["cells"]
        ]
        return cls(**{**kept, "cells": cells})


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


def measured_json(place: int, epsilon: float, draws: int) -> dict[str, Any]:
    """The same, to be kept."""
    return asdict(measured(place, epsilon, draws))


def _over(shared: Array, curator: Array) -> float | None:
    """Median distance to the fit without noise, in deviations of the curator's slopes: ours over the curator's."""
    unit = np.nanstd(curator[1:], axis=0)
    medians = []
    for fits in (shared, curator):
        distance = np.sqrt(np.mean(((fits[1:] - fits[0]) / unit)[:, 1:] ** 2, axis=1))
        medians.append(float(np.median(np.where(np.isfinite(distance), distance, np.inf))))
    return _finite(medians[0] / medians[1]) if math.isfinite(medians[1]) else None


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.field", description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help="of what is drawn from moments; a quarter or a tenth of it for what passes over the people (default %(default)s)")  # fmt: skip  # noqa: E501
    parser.add_argument("--files", nargs="+", choices=[file.name for file in FILES], help="default: all")
    parser.add_argument("--epsilons", nargs="+", type=float, choices=EPSILONS, help="default: all")
    parser.add_argument("--processes", type=int, default=2, metavar="K", help="default %(default)s")
    parser.add_argument(
        "--out", type=Path, default=Path("out/field.json"), metavar="FILE",
        help="default %(default)s; what is done is kept beside it, in FILE.cells",
    )  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="run what is not kept there")
    parser.add_argument("--show", action="store_true", help="run nothing: print what is kept there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the picture too")
    options = parser.parse_args(arguments)
    chosen = [file for file in FILES if options.files is None or file.name in options.files]
    epsilons = [epsilon for epsilon in EPSILONS if options.epsilons is None or epsilon in options.epsilons]
    # Planning takes the time, the longer the more columns there are.
    order = sorted(chosen, key=lambda file: len(file.schema.columns), reverse=True)
    jobs = {f"{file.name}, {e:g}": (FILES.index(file), e) for e in epsilons for file in order}
    path = options.out.with_name(f"{options.out.name}.cells")
    found: dict[str, Found] = {}
    if options.show:
        found = {job: Found.of(one) for job, one in kept(path, options.draws).items() if job in jobs}
    else:
        with Progress(console=Console(stderr=True)) as progress:
            bar = progress.add_task("files and epsilons", total=len(jobs))
            for job, one in run(
                measured_json, jobs, path, options.draws, options.processes, resume=options.resume
            ):
                found[job] = Found.of(one)
                progress.update(bar, advance=1, description=job)
    missing = [job for job in jobs if job not in found]
    cells, ratios = [], {}
    for file in chosen:
        there = {e: found[job] for e in epsilons if (job := f"{file.name}, {e:g}") in found}
        cells += [cell for one in there.values() for cell in one.cells]
        ratios.update({(file.name, e): one.ratio for e, one in there.items()})
        for one in list(there.values())[:1]:
            print(f"{file.name} ({file.source}): {one.people:,} people in a release; {file.formula}")
    goals = summary(cells, ratios)
    print("\n".join(tables(cells)))
    seconds = sum(one.seconds for one in found.values())
    print(f"\n{json.dumps(goals, indent=1)}\n{seconds:,.0f} s of processor time")
    people = {one.cells[0].file: one.people for one in found.values()}
    print("\n".join(page(cells, people, goals)))
    if missing:
        print(f"not run: {'; '.join(missing)}")
    written = {"format": FORMAT, "delta": DELTA, "draws": options.draws, "seconds": round(seconds), "goals": goals,
               "cannot": CANNOT, "cells": [asdict(cell) for cell in cells]}  # fmt: skip
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(written, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if options.plot:
        draw(cells, options.plot)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
