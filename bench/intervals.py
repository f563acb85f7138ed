"""`python -m bench.intervals`: how often 95 % intervals hold, with rows shrunk to the recommended ball and without.

The people of a real file are the population. A draw is a release of n of them, taken with replacement, with the noise of
its suite, and where rows are shrunk a pilot of m others that its study was made with: sampling, noise and pilot are all
drawn anew, the ball and its scales are those that `trimask plan` recommends from one pilot. Releases are drawn by their
law (moments of the people taken, and the noise on them), and every interval is the one that `trimask.fit` prints.

*width* is the mean width over that of 1.96 times the root-mean-square error: 1 where the error is as large as it says.

*raw rows* is the same without a suite: what its intervals miss, the models assume wrongly.

`--scales` prints instead what the plan predicts: errors of the model's coefficients over those of raw rows, in the bounds as
declared and as recommended.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bench.kept import kept, run
from bench.rand_people import RAND_PEOPLE, RAND_SCHEMA, rand_answers
from trimask import fit
from trimask.errors import NoiseExceedsSignal
from trimask.moments.moments import Moments, ObservedMoments, ObservedRows, answers_of, entry_variances
from trimask.simulation import drafted
from trimask_cli.own_plan.predict import Population as Planned
from trimask_cli.own_plan.recommend import Recommendation, recommend
from trimask_core.study.definition import Study, SuiteName
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments.noise_law import EntriesLaw, Matrix, RowsLaw
from trimask_theory.planning.definition import CollectionPlan, PrivacyTarget, StudyDefinition
from trimask_theory.planning.pilot import correction_of, scaled_reports, whole_and_sent

KINDS = ("mean", "deviation", "slope", "group mean", "partial correlation", "cross-tab")
PEOPLE, PILOT, DELTA = 20_000, 2000, 1e-6
_BATCH = 50
_MARKED = 10  # draws in which ranges are looked for


@dataclass(frozen=True)
class File:
    """A real file, the study that asks for it, and what is estimated."""

    name: str
    schema: Schema
    read: Callable[[], pd.DataFrame]
    numbers: tuple[str, ...]
    formula: str
    group: tuple[str, str]
    table: tuple[str, str]

    def definition(
        self, suite: SuiteName, epsilon: float, schema: Schema | None = None, row_norm: float | None = None
    ) -> StudyDefinition:
        """The study, in its box unless a norm is given."""
        return StudyDefinition(
            self.name, "a bench", "nobody", schema or self.schema,
            PrivacyTarget(epsilon=epsilon, delta=DELTA, row_norm=row_norm),
            CollectionPlan(PEOPLE, suite, block_rows=128 if suite == "rows" else None),
        )  # fmt: skip

    @cached_property
    def people(self) -> list[Any]:
        """Everybody in it."""
        return list(answers_of(self.read(), self.schema))

    def estimates(self, moments: Moments, *, marks: bool = False) -> dict[str, Matrix]:
        """Estimate, lower and upper end, by kind, and with `marks` whether it is a range (which costs another fit)."""

        def fitted(function: Any, *of: Any) -> Any:
            return (function if marks else function.__wrapped__)(moments, *of)

        described = fitted(fit.describe, list(self.numbers))
        tables = (
            described.estimates("means"),
            described.estimates("deviations"),
            fitted(fit.ols, self.formula).estimates(),
            fitted(fit.means, *self.group).estimates("means"),
            fitted(fit.partial_correlations, list(self.numbers)).estimates(),
            fitted(fit.crosstab, *self.table).estimates("cells"),
        )
        found = {}
        for kind, table in zip(KINDS, tables, strict=True):
            marked = np.zeros(len(table.estimate)) if table.ranges is None else table.ranges
            each = np.column_stack([table.values, table.interval(), marked])
            found[kind] = each[1:] if kind == "slope" else each
        return found


def _fair() -> pd.DataFrame:
    from statsmodels.datasets import fair

    data = fair.load_pandas().data
    return pd.DataFrame(
        {"age": data.age, "years": data.yrs_married, "children": data.children.clip(0, 6), "school": data.educ,
         "faithful": (data.affairs == 0).astype(int),
         "religious": data.religious.astype(int).map({1: "not", 2: "little", 3: "fairly", 4: "very"})}
    )  # fmt: skip


def _anes() -> pd.DataFrame:
    from statsmodels.datasets import anes96

    data = anes96.load_pandas().data
    return pd.DataFrame(
        {"age": data.age, "income": data.income, "left_right": data.selfLR, "news": data.TVnews,
         "dole": data.vote.astype(int),
         "school": pd.cut(data.educ, [0, 3, 5, 7], labels=["school", "college", "degree"]).astype(str)}
    )  # fmt: skip


def _declared(schema: Schema, group: str, number: str) -> Schema:
    """With the product that means by group need for a variance of each group's own."""
    return Schema(schema.attributes, (Derived(f"{number}_by_{group}", "product", (group, number)),))


FILES = (
    File(
        "RAND",
        _declared(RAND_SCHEMA, "health", "logvis"),
        lambda: rand_answers(RAND_PEOPLE),
        ("logvis", "coins", "disease"),
        "logvis ~ coins + plan + limited + disease + C(health)", ("logvis", "health"), ("health", "limited"),
    ),
    File(
        "fair",
        _declared(Schema((
            Attribute("age", "continuous", 15, 60), Attribute("years", "continuous", 0, 40),
            Attribute("children", "continuous", 0, 10), Attribute("school", "continuous", 5, 25),
            Attribute("faithful", "binary"),
            Attribute("religious", "categorical", levels=("not", "little", "fairly", "very")),
        )), "religious", "years"),
        _fair, ("age", "years", "children", "school"),
        "years ~ age + children + school + faithful + C(religious)", ("years", "religious"), ("religious", "faithful"),
    ),
    File(
        "anes96",
        _declared(Schema((
            Attribute("age", "integer", 18, 100), Attribute("income", "integer", 1, 24),
            Attribute("left_right", "integer", 1, 7), Attribute("news", "integer", 0, 7),
            Attribute("dole", "binary"),
            Attribute("school", "categorical", levels=("school", "college", "degree")),
        )), "school", "income"),
        _anes, ("age", "income", "left_right", "news"),
        "income ~ age + left_right + news + dole + C(school)", ("income", "school"), ("school", "dole"),
    ),
)  # fmt: skip


class Population:
    """Everybody's row as it is and as sent under one study, from which releases are drawn."""

    def __init__(self, study: Study, people: Sequence[Any], *, raw: bool = False) -> None:
        self.study, self.raw = study, raw
        self.whole, self.sent = whole_and_sent(study, people)
        rows = raw or study.suite.name == "rows"
        self.counted = self.sent if rows else scaled_reports(study.moments.layout, people)

    def truth(self, file: File) -> dict[str, Matrix]:
        """What is estimated: of everybody, without noise, at a size where a sample's correction is nothing."""
        n = 10**9
        gram = self.whole.T @ self.whole * (n / len(self.whole))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = file.estimates(Moments(self.study.schema, gram, n, 0.0))
        return {
            kind: values[:, 0] * (PEOPLE / n if kind == "cross-tab" else 1.0)
            for kind, values in found.items()
        }

    @cached_property
    def _products(self) -> Matrix:
        """x x^T of everybody, as counted."""
        i, j = np.triu_indices(self.counted.shape[1])
        found: Matrix = self.counted[:, i] * self.counted[:, j]
        return found

    def samples(self, rng: np.random.Generator, draws: int) -> Iterator[Matrix]:
        """The Gram matrix of PEOPLE of them, so many times."""
        N, p = self.counted.shape
        upper = np.triu_indices(p)
        taken = rng.integers(N, size=(draws, PEOPLE))
        weights = np.array([np.bincount(one, minlength=N) for one in taken], dtype=float)
        for entries in weights @ self._products:
            gram = np.zeros((p, p))
            gram[upper] = entries
            yield gram + np.triu(gram, 1).T

    def release(self, rng: np.random.Generator, gram: Matrix, pilot: int | None) -> Moments:
        """A release of a sample, of a study made with so many pilot rows (None: without)."""
        study = self.study
        if self.raw:
            return Moments(study.schema, gram, PEOPLE, 0.0)
        if pilot is not None and study.clips:
            taken = rng.integers(len(self.whole), size=pilot)
            study = copy(study)
            # As `with_pilot`, without the checks of a signed study and its rounding to nine digits.
            object.__setattr__(study, "pilot", correction_of(self.whole[taken], self.sent[taken], exact=True))
        if study.suite.name == "rows":
            sigma = study.protection.sigma
            noise: Matrix = PEOPLE * sigma**2 * np.eye(len(gram)) + RowsLaw(gram, PEOPLE, sigma).draw(rng)
            return ObservedRows(study, gram + noise, PEOPLE).moments("drawn")
        variances = entry_variances(study)
        return ObservedMoments(study, gram + EntriesLaw(variances).draw(rng), variances, PEOPLE).moments(
            "drawn"
        )


@dataclass(frozen=True)
class Held:
    """Of each estimate of a kind: how often its interval held, the mean width over 3.92 rms errors, the rms error.

    `ranges` are those that were marked outside the rule in most of the first draws.
    """

    coverage: Matrix
    width: Matrix
    rms: Matrix
    ranges: NDArray[np.bool_]
    refused: int
    """Releases in which the noise hid something asked for: they are in none of the others."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what is infinite is null."""
        parts = {name: getattr(self, name) for name in ("coverage", "width", "rms")}
        lists = {
            name: [value if math.isfinite(value) else None for value in part.tolist()]
            for name, part in parts.items()
        }
        return {**lists, "ranges": self.ranges.tolist(), "refused": self.refused}

    @classmethod
    def of(cls, kept: dict[str, Any]) -> Held:
        """From that."""
        parts = {
            name: np.array([math.inf if value is None else value for value in kept[name]])
            for name in ("coverage", "width", "rms")
        }
        return cls(**parts, ranges=np.array(kept["ranges"], dtype=bool), refused=kept["refused"])


def covers(file: File, population: Population, draws: int, pilot: int | None, seed: int) -> dict[str, Held]:
    """Over so many releases, drawn in batches with a seed each."""
    sizes = [min(_BATCH, draws - start) for start in range(0, draws, _BATCH)]
    return held(
        population.truth(file),
        [batch(file, population, size, pilot, [seed, place]) for place, size in enumerate(sizes)],
    )


def batch(
    file: File, population: Population, draws: int, pilot: int | None, seed: list[int]
) -> list[dict[str, Matrix] | None]:
    """What was estimated, release by release; None where it was refused."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, Matrix] | None] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place, gram in enumerate(population.samples(rng, draws)):
            release = population.release(rng, gram, pilot)
            try:
                found.append(file.estimates(release, marks=seed[-1] == 0 and place < _MARKED))
            except NoiseExceedsSignal:
                found.append(None)  # no interval is printed, so none can fail to hold
    return found


def held(truth: dict[str, Matrix], batches: list[list[dict[str, Matrix] | None]]) -> dict[str, Held]:
    """By kind, of all batches; ranges are looked for in the first draws."""
    every = [one for some in batches for one in some]
    kept = [one for one in every if one is not None]
    first = [one for one in every[:_MARKED] if one is not None]
    found = {}
    for kind in KINDS if kept else ():
        estimate, low, high, _ = np.moveaxis(np.array([one[kind] for one in kept]), -1, 0)
        rms = np.sqrt(np.mean((estimate - truth[kind]) ** 2, axis=0))
        right = np.mean((low <= truth[kind]) & (truth[kind] <= high), axis=0)
        width = np.mean(high - low, axis=0) / (2 * 1.96 * rms)
        marked = np.mean([one[kind][:, 3] for one in first], axis=0)
        found[kind] = Held(right, width, rms, marked > 0.5, len(every) - len(kept))
    return found


Case = tuple[int, SuiteName, float, bool]
"""A file, a suite, an epsilon (infinite: raw rows), and whether rows are shrunk as recommended."""


def cases() -> list[Case]:
    """File by file, raw rows first."""
    suites: tuple[SuiteName, SuiteName] = ("rows", "moments")
    return [
        case
        for place in range(len(FILES))
        for case in (
            (place, "rows", math.inf, False),
            *itertools.product((place,), suites, (1.0, 4.0), (False, True)),
        )
    ]


def recommended(place: int, suite: SuiteName, epsilon: float) -> Recommendation:
    """What `trimask plan` recommends for a file from a pilot."""
    file = FILES[place]
    chosen = np.random.default_rng([7, place]).integers(len(file.people), size=PILOT)
    return recommend(file.definition(suite, epsilon), Planned([file.people[i] for i in chosen]), file.formula)


def scales_line(place: int, epsilon: float) -> str:
    """What scales bring to a file, by prediction."""
    found = recommended(place, "moments", epsilon)
    before, after = found.unclipped.inflation, found.best.inflation
    return f"{FILES[place].name}, moments, {epsilon:g}: {before:.3g} as declared, {after:.3g} as recommended"


def planned(case: Case) -> tuple[str, Population | None]:
    """One line of the table: its name, and the people of its study; None where no ball is better."""
    place, suite, epsilon, shrunk = case
    file = FILES[place]
    if math.isinf(epsilon):
        return f"{file.name}, raw rows", Population(
            drafted(file.definition(suite, 1.0)), file.people, raw=True
        )
    definition = recommended(place, suite, epsilon).definition if shrunk else file.definition(suite, epsilon)
    norm = definition.privacy.row_norm
    name = f"{file.name}, {suite}, {epsilon:g}, {'box' if norm is None else f'{norm:.3g}'}"
    if shrunk and norm is None:
        return f"{name} (no ball is better)", None
    return name, Population(drafted(definition), file.people)


def measured(case: Case, draws: int) -> tuple[str, dict[str, Held]]:
    """One line of the table: its name, and what held."""
    name, population = planned(case)
    with threadpool_limits(limits=1):
        return name, {} if population is None else covers(FILES[case[0]], population, draws, PILOT, case[0])


def line(name: str, found: dict[str, Held]) -> str:
    """A line of docs/accuracy.md: of each kind the least and largest coverage and the largest width, of what is no range;
    and how many are."""
    cells = []
    refused = max((held.refused for held in found.values()), default=0)
    name += f" ({refused} refused)" if refused else ""
    for kind in KINDS if found else ():
        held = found[kind]
        kept = ~held.ranges
        many = int(held.ranges.sum())
        ranges = f", {many} range{'s' if many > 1 else ''}" if many else ""
        if kept.any():
            cover = f"{held.coverage[kept].min():.3f}–{held.coverage[kept].max():.3f}"
            cells.append(f"{cover}, {held.width[kept].max():.2f}{ranges}")
        else:
            cells.append(ranges.removeprefix(", "))
    return f"|{'|'.join([name, *(cells or [''] * len(KINDS))])}|"


def facts(lines: Iterable[tuple[str, dict[str, Held]]]) -> Iterator[str]:
    """By kind, of raw rows, of bounds alone and with a ball: least and largest coverage, and the largest width."""
    groups: dict[str, list[tuple[str, dict[str, Held]]]] = {
        "raw rows": [],
        "bounds alone": [],
        "with a ball": [],
    }
    for name, found in lines:
        last = name.rpartition(", ")[2]
        groups[
            "raw rows" if last == "raw rows" else "bounds alone" if last == "box" else "with a ball"
        ].append((name, found))
    for group, some in groups.items():
        for kind in KINDS:
            there = [
                (float(cover), float(width), name)
                for name, found in some
                if found
                for cover, width, marked in zip(
                    found[kind].coverage, found[kind].width, found[kind].ranges, strict=True
                )
                if not marked
            ]
            if there:
                low, high = min(there), max(there)
                widest = max(there, key=lambda one: one[1])
                yield (
                    f"{group}, {kind}: {low[0]:.3f} ({low[2]}) to {high[0]:.3f} ({high[2]}), "
                    f"width at most {widest[1]:.2f} ({widest[2]})"
                )


def measured_json(
    place: int, suite: SuiteName, epsilon: float | None, shrunk: bool, draws: int
) -> dict[str, Any]:
    """One line, to be kept."""
    name, found = measured((place, suite, math.inf if epsilon is None else epsilon, shrunk), draws)
    return {"name": name, "found": {kind: one.to_dict() for kind, one in found.items()}}


def main(arguments: list[str] | None = None) -> int:
    """Print the table in Markdown, and the figures of its sentences."""
    parser = argparse.ArgumentParser(prog="python -m bench.intervals", description=__doc__)
    parser.add_argument("--draws", type=int, default=2000, metavar="N", help="releases a line (default 2000)")
    parser.add_argument("--processes", type=int, default=2, metavar="K", help="lines at a time (default 2)")
    parser.add_argument("--raw", action="store_true", help="the lines of raw rows alone")
    parser.add_argument("--out", type=Path, default=Path("out/intervals.lines"), metavar="FILE", help="where lines are kept as they are ready (default %(default)s)")  # fmt: skip  # noqa: E501
    parser.add_argument("--resume", action="store_true", help="run what is not kept there")
    parser.add_argument("--show", action="store_true", help="run nothing: print what is kept there")
    parser.add_argument(
        "--scales", action="store_true", help="what scales bring, as predicted, and no releases"
    )
    options = parser.parse_args(arguments)
    if options.scales:
        for place, epsilon in itertools.product(range(len(FILES)), (1.0, 4.0)):
            print(scales_line(place, epsilon), flush=True)
        return 0
    jobs = {
        f"{FILES[place].name}, {suite}, {epsilon:g}, {'shrunk' if shrunk else 'as declared'}":
            (place, suite, None if math.isinf(epsilon) else epsilon, shrunk)
        for place, suite, epsilon, shrunk in cases()
        if math.isinf(epsilon) or not options.raw
    }  # fmt: skip
    if options.show:
        found = kept(options.out, options.draws)
    else:
        # Products are corrected in every fit of shrunk rows, which takes longest.
        order = dict(sorted(jobs.items(), key=lambda item: not item[1][3]))
        found = {}
        for job, one in run(
            measured_json, order, options.out, options.draws, options.processes, resume=options.resume
        ):
            found[job] = one
            print(f"{len(found)} of {len(jobs)}: {one['name']}", file=sys.stderr, flush=True)
    lines = [
        (found[job]["name"], {kind: Held.of(one) for kind, one in found[job]["found"].items()})
        for job in jobs
        if job in found
    ]
    print(f"|file, suite, ε, row_norm|{'|'.join(KINDS)}|\n|---|{'--:|' * len(KINDS)}")
    print("\n".join(itertools.starmap(line, lines)), end="\n\n")
    print("\n".join(facts(lines)))
    for missing in (job for job in jobs if job not in found):
        print(f"not run: {missing}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
