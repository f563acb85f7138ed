"""`python -m bench.plan`: what `trimask plan` says of ten studies beside 200 releases of each.

The people of a public file are the pilot and the population. A release is of people taken from them with replacement, with
the noise of its suite by its law and, where rows are shrunk, corrected by the same pilot; the fit and its standard errors
are those that `trimask.fit` prints. Told are medians of standard errors over the releases in which a coefficient is
bounded, plan over releases (the lowest and the highest of all coefficients bounded in half of either), how many
releases have a fit, and in what share a coefficient is bounded, on average.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from bench.intervals import FILES
from trimask import fit
from trimask.errors import CollinearColumns, NoiseExceedsSignal
from trimask.moments.moments import Moments, ObservedMoments, ObservedRows, answers_of, entry_variances
from trimask.simulation import drafted
from trimask_cli.demo.devices import blood_pressure_population
from trimask_cli.own_plan.predict import Population, Prediction, predict
from trimask_cli.own_plan.recommend import recommend
from trimask_cli.study_file import bundled_definition, default_formula
from trimask_core.study.definition import Study, SuiteName
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments.noise_law import EntriesLaw, Matrix, RowsLaw
from trimask_theory.planning.definition import CollectionPlan, PrivacyTarget, StudyDefinition
from trimask_theory.planning.study_definition import load_definition

DELTA = 1e-6
RAND, _, ANES = (replace(file, schema=Schema(file.schema.attributes)) for file in FILES)
SHOWN = 0.5  # of releases in which a coefficient is bounded: of fewer a median is chance

FAIR = Schema((
    Attribute("years", "continuous", 0, 40), Attribute("age", "continuous", 15, 60),
    Attribute("children", "continuous", 0, 10), Attribute("school", "continuous", 5, 25),
    Attribute("faithful", "binary"),
    Attribute("religious", "categorical", levels=("not", "little", "fairly", "very")),
    Attribute("marriage", "categorical", levels=("r1", "r2", "r3", "r4", "r5")),
    Attribute("work", "categorical", levels=("student", "farming", "office", "professional")),
))  # fmt: skip
"""Nineteen columns, and age beside years of marriage."""
STAR = Schema(tuple(
    Attribute(name, "continuous", low, high)
    for name, low, high in (("above", 0, 9500), ("low_income", 0, 100), ("asian", 0, 70), ("pupils", 10, 30))
))  # fmt: skip


def _fair() -> pd.DataFrame:
    from statsmodels.datasets import fair

    data = fair.load_pandas().data
    work = {1: "student", 2: "farming", 3: "office", 4: "office", 5: "professional", 6: "professional"}
    return pd.DataFrame(
        {"years": data.yrs_married, "age": data.age, "children": data.children, "school": data.educ,
         "faithful": (data.affairs == 0).astype(int),
         "religious": data.religious.astype(int).map({1: "not", 2: "little", 3: "fairly", 4: "very"}),
         "marriage": "r" + data.rate_marriage.astype(int).astype(str), "work": data.occupation.astype(int).map(work)}
    )  # fmt: skip


def _star() -> pd.DataFrame:
    from statsmodels.datasets import star98

    data = star98.load_pandas().data
    return pd.DataFrame(
        {"above": data.NABOVE, "low_income": data.LOWINC, "asian": data.PERASIAN, "pupils": data.PTRATIO}
    )


@dataclass(frozen=True)
class Planned:
    """A study: whom it asks, in which suite, how many, and whether rows are shrunk as recommended."""

    name: str
    schema: Schema
    read: Callable[[], pd.DataFrame]
    suite: SuiteName
    epsilon: float
    people: int
    shrunk: bool = False

    def definition(self) -> StudyDefinition:
        """With the bounds alone."""
        block = 128 if self.suite == "rows" else None
        return StudyDefinition(
            self.name, "a bench", "nobody", self.schema, PrivacyTarget(epsilon=self.epsilon, delta=DELTA),
            CollectionPlan(self.people, self.suite, block_rows=block),
        )  # fmt: skip


_BLOOD = load_definition(bundled_definition()).schema


def _blood() -> pd.DataFrame:
    return pd.DataFrame(blood_pressure_population(4000, 1))


STUDIES = (
    Planned("RAND", RAND.schema, RAND.read, "moments", 1.0, 20_000, shrunk=True),
    Planned("RAND", RAND.schema, RAND.read, "rows", 4.0, 6000, shrunk=True),
    Planned("fair", FAIR, _fair, "moments", 1.0, 20_000),
    Planned("fair", FAIR, _fair, "moments", 4.0, 6366, shrunk=True),
    Planned("fair", FAIR, _fair, "moments", 4.0, 20_000, shrunk=True),
    Planned("fair", FAIR, _fair, "rows", 4.0, 6366),
    Planned("anes96", ANES.schema, ANES.read, "moments", 1.0, 2000),
    Planned("anes96", ANES.schema, ANES.read, "rows", 4.0, 2000, shrunk=True),
    Planned("star98", STAR, _star, "moments", 1.0, 14_000),
    Planned("demo", _BLOOD, _blood, "rows", 4.0, 2048, shrunk=True),
)


@dataclass(frozen=True)
class Compared:
    """A plan beside the releases: the ratios of errors where both show them, fits, and shares of bounded coefficients."""

    columns: int
    ratios: Matrix
    planned: Prediction
    fits: int
    bounded: float
    seconds: float

    def row(self, study: Planned, draws: int) -> str:
        """A line of the table."""
        ratios = f"{self.ratios.min():.2f} to {self.ratios.max():.2f}" if len(self.ratios) else "none shown"
        plan = self.planned
        told = sum(plan.seen) / plan.drawn / len(plan.names)
        way = "recommended" if study.shrunk else "bounds"
        return (
            f"| {study.name}, {self.columns} columns | {study.suite} | {study.epsilon:g} | {study.people:,} | {way} "
            f"| {plan.fits / plan.drawn:.0%} | {self.fits / draws:.0%} | {told:.0%} | {self.bounded:.0%} | {ratios} "
            f"| {self.seconds:.1f} |"
        )


def releases(study: Study, population: Population, n: int, draws: int, seed: int) -> Iterator[Moments]:
    """Of n people taken with replacement, with noise by the law of its suite."""
    rng = np.random.default_rng(seed)
    if study.clips:
        study = replace(study, pilot=population.correction(study))
    rows = (
        population.clipped_rows(study)[0]
        if study.suite.name == "rows"
        else population.reports(study.moments.layout)[0]
    )
    for _ in range(draws):
        taken = np.bincount(rng.integers(len(rows), size=n), minlength=len(rows))
        gram = rows.T @ (rows * taken[:, None])
        if study.suite.name == "rows":
            sigma = study.rows.published_sigma
            noise: Matrix = n * sigma**2 * np.eye(len(gram)) + RowsLaw(gram, n, sigma).draw(rng)
            yield ObservedRows(study, gram + noise, n).moments("drawn")
        else:
            variances = entry_variances(study)
            noisy = gram + EntriesLaw(variances).draw(rng)
            yield ObservedMoments(study, noisy, variances, n).moments("drawn")


def compared(place: int, draws: int) -> Compared:
    """The plan of one of STUDIES, and so many releases of it."""
    study = STUDIES[place]
    started = time.process_time()
    people: Sequence[Any] = list(answers_of(study.read(), study.schema))
    population = Population(people)
    definition, formula = study.definition(), default_formula(study.schema)
    if study.shrunk:
        advice = recommend(definition, population, formula, study.people)
        definition, planned = advice.definition, advice.best
    else:
        planned = predict(definition, population, formula, study.people)
    seconds = time.process_time() - started
    errors = []
    for release in releases(drafted(definition), population, study.people, draws, seed=11):
        with suppress(NoiseExceedsSignal, CollinearColumns):
            errors.append(fit.ols(release, formula).bse.to_numpy())
    shown = np.array(errors or [np.full(len(planned.names), math.inf)])
    bounded = np.isfinite(shown)
    often = (bounded.sum(axis=0) >= SHOWN * draws) & (np.array(planned.seen) >= SHOWN * planned.drawn)
    medians = np.array(
        [
            np.median(one[held]) if held.any() else math.inf
            for one, held in zip(shown.T, bounded.T, strict=True)
        ]
    )
    ratios = (np.array(planned.se) / medians)[often]
    share = float(bounded.sum() / draws / len(planned.names))
    return Compared(len(definition.schema.columns), ratios, planned, len(errors), share, seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.plan", description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=200, metavar="N", help="releases a study (default 200)")
    parser.add_argument("--only", metavar="NAME", help="studies of one file")
    args = parser.parse_args()
    places = [place for place, study in enumerate(STUDIES) if args.only in (None, study.name)]
    print(
        "| study | suite | ε | people | row norm | fits: plan | releases | bounded: plan | releases "
        "| errors, plan over releases | CPU of plan, s |"
    )
    print("|---|---|--:|--:|---|--:|--:|--:|--:|--:|--:|")
    with threadpool_limits(1), ProcessPoolExecutor(2) as pool:
        for place, found in zip(places, pool.map(compared, places, [args.draws] * len(places)), strict=True):
            print(found.row(STUDIES[place], args.draws), flush=True)


if __name__ == "__main__":
    main()
