"""`python -m bench.synthetic`: synthetic records and the release they are made of, each beside the people.

Tables: mean total variation of all two-way tables of groups, of the release and of the records, from the people's own;
RAND's health data in the moments suite. Logistic: slopes of a simulated study by the people's own logistic regression and by
that of records, with the share of 95 % intervals of the records' that hold the truth.
Needs the extra `synthetic`; time and memory are of the machine it runs on.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from statsmodels.datasets import randhie

import trimask
from trimask.moments.moments import row_moments

__all__ = ["logistic", "main", "rand", "tables"]

_HEAD = """
title = "Bench"
purpose = "accuracy"
contact = "nobody"
privacy = {epsilon = 1, delta = 1e-6}
collection = {suite = "moments", release_rows = 100}
"""
RAND = (
    _HEAD
    + """
attributes = [
  {name = "visits", kind = "integer", minimum = 0, maximum = 40},
  {name = "coins", kind = "continuous", minimum = 0, maximum = 5},
  {name = "plan", kind = "binary"}, {name = "limited", kind = "binary"},
  {name = "disease", kind = "continuous", minimum = 0, maximum = 60},
  {name = "health", kind = "categorical", levels = ["excellent", "good", "fair", "poor"]},
]
"""
)
ILL = (
    _HEAD
    + """
attributes = [
  {name = "ill", kind = "binary"}, {name = "smoker", kind = "binary"},
  {name = "age", kind = "integer", minimum = 18, maximum = 80},
]
"""
)


def rand(people: int, seed: int = 1) -> pd.DataFrame:
    """RAND's health data with its groups as such, so many people of it."""
    data = randhie.load_pandas().data.sample(people, random_state=seed)
    health = np.select(
        [data.hlthp == 1, data.hlthf == 1, data.hlthg == 1], ["poor", "fair", "good"], "excellent"
    )
    return pd.DataFrame(
        {"visits": data.mdvis.clip(0, 40).astype(int), "coins": data.lncoins, "plan": data.idp.astype(int),
         "limited": (data.physlm > 0.5).astype(int), "disease": data.disea.clip(0, 60), "health": health}
    )  # fmt: skip


def tables(people: int, epsilon: float, seeds: int) -> dict[str, Any]:
    """Mean total variation over pairs and releases."""
    answers, release, records, seconds, megabytes = rand(people), [], [], [], []
    for seed in range(seeds):
        tried = trimask.simulate(answers, RAND, epsilon=epsilon, seed=seed)
        made = trimask.synthesize(tried)
        again = row_moments(made.frame, tried.moments.schema)
        for pair in itertools.combinations(("plan", "limited", "health"), 2):
            truth, noisy, synthetic = (
                trimask.fit.crosstab(source, *pair).counts.to_numpy() / source.rows
                for source in (tried.raw, tried, again)
            )
            release.append(float(np.abs(noisy - truth).sum()) / 2)
            records.append(float(np.abs(synthetic - truth).sum()) / 2)
        seconds.append(made.report.seconds)
        megabytes.append(made.report.megabytes)
    return {
        "people": people, "epsilon": epsilon, "releases": seeds, "release": float(np.mean(release)),
        "records": float(np.mean(records)), "seconds": float(np.mean(seconds)), "megabytes": max(megabytes),
    }  # fmt: skip


def _ill(people: int, slope: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 14, people), 18, 80).round().astype(int)
    smoker = (rng.random(people) < 0.35).astype(int)
    odds = -1.5 + slope * smoker + slope / 28 * (age - 45)
    return pd.DataFrame(
        {"ill": (rng.random(people) < 1 / (1 + np.exp(-odds))).astype(int), "smoker": smoker, "age": age}
    )


def logistic(people: int, epsilon: float, slope: float, studies: int) -> dict[str, Any]:
    """Means over studies of the slopes of `ill ~ smoker + age`, and coverage; the slope of age is per two deviations."""
    found: dict[str, list[list[float]]] = {"people": [], "records": []}
    held = []
    scale = np.array([1.0, 28.0])
    truth = np.array([slope, slope])
    for seed in range(studies):
        answers = _ill(people, slope, seed)
        tried = trimask.simulate(answers, ILL, epsilon=epsilon, seed=seed)
        made = trimask.synthesize(tried, 4 * people)
        fitted = trimask.fit.logit(made, "ill ~ smoker + age")
        X = sm.add_constant(answers[["smoker", "age"]].astype(float))
        found["people"].append(list(sm.Logit(answers.ill, X).fit(disp=0).params.to_numpy()[1:] * scale))
        found["records"].append(list(fitted.params.to_numpy()[1:] * scale))
        off = np.abs(fitted.params.to_numpy()[1:] * scale - truth)
        held.append(list((off <= 1.96 * fitted.bse.to_numpy()[1:] * scale).astype(float)))
    return {
        "people": people, "epsilon": epsilon, "slope": slope, "studies": studies, "covered": float(np.mean(held)),
        "means": {name: [float(value) for value in np.mean(values, axis=0)] for name, values in found.items()},
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.synthetic", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one release of each")
    parser.add_argument("--out", type=Path, default=Path("out/synthetic.json"), metavar="FILE")
    options = parser.parse_args(arguments)
    seeds, studies = (1, 1) if options.quick else (12, 8)
    found: dict[str, Any] = {"format": "trimask-synthetic/1", "tables": [], "logistic": []}
    for people, epsilon in ((5000, 1.0), (5000, 4.0), (20_000, 1.0)):
        found["tables"].append(tables(people, epsilon, seeds))
        print(found["tables"][-1], flush=True)
    for epsilon, slope in ((2.0, 0.4), (2.0, 1.2), (8.0, 1.2)):
        found["logistic"].append(logistic(8000, epsilon, slope, studies))
        print(found["logistic"][-1], flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
