"""Public files as a newcomer meets them: from CSV to a fitted table, with no edit of the draft but the formula."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import trimask as sdk
from trimask.errors import NoiseExceedsSignal

RANDHIE = "mdvis ~ lncoins + physlm + disea + hlthp"
FAIR = "affairs ~ age + yrs_married + religious + rate_marriage"


def _table(name: str) -> pd.DataFrame:
    if name in ("randhie", "fair", "star98"):
        frame: pd.DataFrame = import_module(f"statsmodels.datasets.{name}").load_pandas().data
        return frame
    # The two of a package that is not among the tools: run where somebody has it.
    bunch = getattr(pytest.importorskip("sklearn.datasets"), f"load_{name}")(as_frame=True)
    return bunch.frame.rename(columns=lambda column: str(column).replace(" ", "_"))


def _planned_and_released(
    folder: Path, trimask: Callable[..., Any], name: str, formula: str | None
) -> tuple[dict[str, Any], Any, int]:
    """What `plan` tells, and a release's fit, or the refusal in its place; and the number of people."""
    people = _table(name)
    table, own = folder / f"{name}.csv", folder / f"{name}.toml"
    people.to_csv(table, index=False)
    done = trimask("study", "from-csv", table, "--out", own)
    assert done.status == 0, done.err
    asked = () if formula is None else ("--formula", formula)
    done = trimask("plan", "--study", own, "--pilot", table, "--suite", "moments", "--json", *asked)
    assert done.status == 0, done.err
    told = json.loads(done.out)
    try:
        return told, sdk.fit.ols(sdk.simulate(table, own, seed=1), told["formula"]), len(people)
    except NoiseExceedsSignal as refusal:
        return told, refusal, len(people)


def _ways(told: dict[str, Any]) -> list[float]:
    """The numbers of people and the epsilons that the plan names: for the model, or for a smaller one that it proposes."""
    models = [told["suites"]["moments"]["needed_together"], (told["smaller"] or {}).get("needed")]
    return [
        model[what] for model in models if model for what in ("people", "epsilon") if model[what] is not None
    ]


@pytest.mark.parametrize(("name", "formula"), [("randhie", RANDHIE), ("fair", FAIR)])
def test_large_files_end_in_the_errors_that_were_planned(
    tmp_path: Path, trimask: Callable[..., Any], name: str, formula: str
) -> None:
    """Seeds are fixed, so nothing here is left to chance."""
    told, results, _ = _planned_and_released(tmp_path, trimask, name, formula)
    assert _ways(told)
    assert not isinstance(results, NoiseExceedsSignal)
    planned = {item["name"]: item["se"] for item in told["suites"]["moments"]["as_given"]["coefficients"]}
    shown = results.table()["std err"]
    assert list(planned) == list(shown.index)
    assert results.estimates().determined.all()
    ratios = shown.to_numpy() / np.array(list(planned.values()))
    assert np.all((ratios > 1 / 1.5) & (ratios < 1.5)), dict(zip(planned, ratios, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("randhie", None),
        ("fair", None),
        ("star98", None),
        ("star98", "NABOVE ~ LOWINC + PERASIAN + PTRATIO"),
        ("diabetes", "target ~ bmi + bp + s5"),
        ("breast_cancer", "mean_radius ~ mean_texture + mean_smoothness + target"),
    ],
)
def test_no_file_ends_without_a_way_forward(
    tmp_path: Path, trimask: Callable[..., Any], name: str, formula: str | None
) -> None:
    told, results, people = _planned_and_released(tmp_path, trimask, name, formula)
    assert _ways(told)
    if isinstance(results, NoiseExceedsSignal):
        assert results.rows_needed > people
        assert results.epsilon_needed is None or results.epsilon_needed > 1
        assert f"{results.rows_needed:,}" in str(results)
    else:
        assert results.estimates().determined.any()  # of what is not, the plan said how many people it takes
