"""`python -m bench.printed`: a regression on RandHIE, diamonds and CPS1988 as a researcher prints it, from both suites.

Beside it the same fit of raw rows. Bounds and columns are those of `bench.field_files`; rows are shrunk as `trimask plan`
recommends from a pilot of 2,000 of the file's people, who are in no release. One draw each, by a fixed seed.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import trimask
from bench.field_files import DELTA, FILES, FieldFile
from trimask.moments.moments import answers_of
from trimask_cli.own_plan.predict import Population
from trimask_cli.own_plan.recommend import recommend
from trimask_core.study.definition import SuiteName
from trimask_theory.planning.definition import CollectionPlan, PrivacyTarget, StudyDefinition

SHOWN = ("RandHIE", "diamonds", "CPS1988")
PILOT = 2000


def printed(file: FieldFile, epsilon: float, seed: int) -> str:
    """Three fits side by side."""
    frame = file.read().sample(frac=1, random_state=seed)
    pilot, people = frame.iloc[:PILOT], frame.iloc[PILOT:]
    known = Population(list(answers_of(pilot, file.schema)))
    fits: list[trimask.fit.OLSResults] = []
    names, norms = [], []
    suites: tuple[SuiteName, SuiteName] = ("moments", "rows")
    for suite in suites:
        bare = StudyDefinition(
            file.name, "a bench", "nobody", file.schema, PrivacyTarget(epsilon=epsilon, delta=DELTA),
            CollectionPlan(len(people), suite, block_rows=128 if suite == "rows" else None),
        )  # fmt: skip
        study = recommend(bare, known, file.formula).definition
        norm = study.privacy.row_norm
        tried = trimask.simulate(people, study, pilot=None if norm is None else pilot, seed=seed)
        if not fits:
            fits.append(trimask.fit.ols(tried.raw, file.formula))
            names.append("raw rows")
        fits.append(trimask.fit.ols(tried, file.formula))
        names.append(suite)
        norms.append(f"{suite} {'as declared' if norm is None else f'row_norm {norm:.3g}'}")
    worse = "\n".join(
        f"{name}: standard errors {np.median(found.bse / fits[0].bse):.3g} times those of raw rows (median)"
        for name, found in zip(names[1:], fits[1:], strict=True)
    )
    head = f"{file.name}: {len(people):,} people, epsilon {epsilon:g}, delta {DELTA:g}; {', '.join(norms)}"
    return f"{head}\n\n{trimask.fit.summary_col(fits, names=names)}\n\n{worse}\n"


def main(arguments: list[str] | None = None) -> int:
    """Print them one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench.printed", description=__doc__)
    parser.add_argument("--epsilon", type=float, default=1.0, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    options = parser.parse_args(arguments)
    by_name = {file.name: file for file in FILES}
    for name in SHOWN:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table's own notes say it
            print(printed(by_name[name], options.epsilon, options.seed), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
