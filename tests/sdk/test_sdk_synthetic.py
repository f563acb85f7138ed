"""Synthetic records: what they are made of, how they are marked, how near they are; and a logistic regression of them.

Fitting needs the extra `synthetic` (mbi, jax), which `make test-synthetic` installs; without it those tests are skipped.
"""

from __future__ import annotations

import itertools
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import trimask
from trimask.errors import BeyondSecondMoments, MissingExtra, ParameterError
from trimask.moments.moments import row_moments
from trimask.synthetic.model import _systematic, cells_of, statistics, whole_counts
from trimask.synthetic.synthesis import Synthetic
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

needs_mbi = pytest.mark.skipif(find_spec("mbi") is None, reason="the extra `synthetic` is not installed")
SCHEMA = Schema(
    (
        Attribute("ill", "binary"),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
        Attribute("age", "integer", 18, 80),
    ),
    derived=(Derived("old", "square", ("age",)),),
)
STUDY = """
title = "Smoking and illness"
purpose = "a test"
contact = "nobody"
privacy = {epsilon = 1, delta = 1e-6}
collection = {suite = "moments", release_rows = 100}
attributes = [
  {name = "ill", kind = "binary"}, {name = "smoker", kind = "binary"},
  {name = "region", kind = "categorical", levels = ["north", "south", "west"]},
  {name = "age", kind = "integer", minimum = 18, maximum = 80},
]
"""


def people(n: int, seed: int) -> pd.DataFrame:
    """The log odds of illness are -2.5 + 1.2 smoker + 0.03 (age - 18), and 0.5 more in the west."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 14, n), 18, 80).round().astype(int)
    smoker = (rng.random(n) < 0.35 - 0.003 * (age - 45)).astype(int)
    region = rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    odds = -2.5 + 1.2 * smoker + 0.03 * (age - 18) + 0.5 * (region == "west")
    return pd.DataFrame(
        {
            "ill": (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int),
            "smoker": smoker,
            "region": region,
            "age": age,
        }
    )


def test_statistics_of_groups_are_the_tables_and_of_numbers_their_moments() -> None:
    """With a table of the cells of real rows, features give the Gram entries back: exactly for groups, and for numbers to
    what uniform answers in a cell are off."""
    frame = people(4000, 1)
    moments = row_moments(frame, SCHEMA)
    cells = [cells_of(SCHEMA, item, 62, 45.0, 14.0) for item in SCHEMA.attributes]  # a cell a year
    codes = {
        "ill": frame.ill, "smoker": frame.smoker,
        "region": frame.region.map({"north": 0, "south": 1, "west": 2}),
        "age": np.clip(np.searchsorted(np.array(cells[3].edges), frame.age, side="right") - 1, 0, len(cells[3]) - 1),
    }  # fmt: skip
    seen: set[tuple[int, int]] = set()
    for item in statistics(SCHEMA, cells):
        sizes = [len(one) for one in cells if one.name in item.attributes]
        place = np.ravel_multi_index([np.asarray(codes[name]) for name in item.attributes], sizes)
        table = np.bincount(place, minlength=int(np.prod(sizes)))
        expected = [moments.gram[i, j] for i, j in item.entries]
        exact = "age" not in item.attributes
        np.testing.assert_allclose(item.features @ table, expected, atol=1e-6 if exact else 0.02 * len(frame))
        seen |= set(item.entries)
    p = len(SCHEMA.columns)
    assert len(seen) == p * (p + 1) // 2 - 1  # all of the Gram matrix but <one, one>


def test_declared_cuts_are_the_edges_and_integers_stay_integers() -> None:
    age = SCHEMA.attributes[3]
    plain = cells_of(SCHEMA, age, 8, 45.0, 14.0)
    assert plain.edges[0] == 18
    assert plain.edges[1] == 19
    assert plain.edges[-1] == 80
    drawn = plain.draw(np.repeat(np.arange(len(plain)), 200), np.random.default_rng(1))
    assert drawn.min() == 18
    assert drawn.max() == 80
    assert np.array_equal(
        np.clip(np.searchsorted(np.array(plain.edges), drawn, side="right") - 1, 0, len(plain) - 1),
        np.repeat(np.arange(len(plain)), 200),
    )
    few = Attribute("children", "integer", 0, 5)
    assert cells_of(Schema((few,)), few, 8, 1.0, 1.0).names == ("0", "1", "2", "3", "4", "5")


def test_a_release_itself_has_no_logistic_regression_and_is_told_of_records() -> None:
    with pytest.raises(BeyondSecondMoments, match=r"fit\.logit\(trimask\.synthesize\(dataset\), formula\)"):
        trimask.fit.logit(row_moments(people(50, 1), SCHEMA), "ill ~ age")
    for name in ("poisson", "quantile", "cox"):
        with pytest.raises(BeyondSecondMoments, match=r"trimask\.synthesize"):
            getattr(trimask.fit, name)


def test_what_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = row_moments(people(200, 1), SCHEMA)
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(ParameterError, match="n must be"):
            trimask.synthesize(moments, wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="bins"):
        trimask.synthesize(moments, bins=1)
    with pytest.raises(ParameterError, match="column of ones"):
        trimask.synthesize(row_moments(people(200, 1)[["ill"]], Schema((SCHEMA.attributes[0],), ones=False)))
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(MissingExtra, match=r"pip install 'trimask\[synthetic\]'"):
        trimask.synthesize(moments)


def _weighted_study() -> str:
    return STUDY + '[weight]\nattribute = "region"\nweights = {north = 1.0, south = 2.0, west = 4.0}\n'


def test_repro_records_of_weighted_people_say_how_they_count() -> None:
    """They stand for the weighted people; who weighted them again had every weight twice."""
    plain = trimask.simulate(people(300, 2), STUDY, epsilon=8.0, seed=3).moments
    weighted = trimask.simulate(people(300, 2), _weighted_study(), epsilon=8.0, seed=3).moments
    frame = pd.DataFrame()
    assert "Do not weight them again" in str(Synthetic(frame, weighted, None))  # type: ignore[arg-type]
    assert "(region)" in Synthetic(frame, weighted, None).weighting  # type: ignore[arg-type]
    assert "weight" not in str(Synthetic(frame, plain, None))  # type: ignore[arg-type]


@needs_mbi
def test_records_of_weighted_people_have_the_weighted_shares() -> None:
    """At a fixed seed: within two points of the weighted people, from whom the unweighted are 20 points off."""
    answers = people(3000, 2)
    made = trimask.synthesize(trimask.simulate(answers, _weighted_study(), epsilon=8.0, seed=3), 5000, seed=4)
    weights = answers.region.map({"north": 1.0, "south": 2.0, "west": 4.0})
    west = float(np.average(answers.region == "west", weights=weights))
    assert west - float((answers.region == "west").mean()) > 0.2
    assert abs(float((made.frame.region == "west").mean()) - west) < 0.02
    assert "Do not weight them again" in made.frame.attrs["weighting"]
    assert "people in effect." in trimask.fit.logit(made, "ill ~ age").summary()


@needs_mbi
def test_records_are_marked_near_and_free(tmp_path: Path) -> None:
    """At a fixed seed; the tables' distance from the release is below the release's own by the law of its noise."""
    tried = trimask.simulate(people(3000, 2), STUDY, epsilon=2.0, seed=3)
    made = trimask.synthesize(tried, 5000, bins=6, seed=4)
    frame = made.frame
    assert len(frame) == 5000
    assert frame["synthetic"].all()
    assert list(frame.columns) == ["ill", "smoker", "region", "age", "synthetic"]
    assert "SYNTHETIC" in frame.attrs["name"]
    assert "nobody" in repr(made)
    assert frame.attrs["guarantee"] == str(tried.guarantee) == str(made.guarantee)
    tables = made.report.tables
    assert tables["from the release"].mean() < tables["release's own"].mean()
    assert made.report.seconds > 0
    assert made.report.megabytes > 50
    path = made.to_csv(tmp_path / "people.csv")
    assert path.name == "people.synthetic.csv"
    assert (
        "No record is anybody's"
        in json.loads((tmp_path / "people.synthetic.csv.json").read_text())["trimask"]
    )
    assert made.to_csv(tmp_path / "my-synthetic.csv").name == "my-synthetic.csv"
    again = trimask.synthesize(tried, 5000, bins=6, seed=4)
    pd.testing.assert_frame_equal(again.frame, frame)
    # A logistic regression of them, beside that of the people; within 4 of its errors (p < 1e-3 for seeds at large).
    found = trimask.fit.logit(made, "ill ~ smoker + age + C(region)")
    import statsmodels.api as sm

    answers = people(3000, 2)
    X = pd.DataFrame(
        {"Intercept": 1.0, "smoker": answers.smoker, "age": answers.age,
         "C(region)[south]": answers.region == "south", "C(region)[west]": answers.region == "west"}
    ).astype(float)  # fmt: skip
    raw = sm.Logit(answers.ill, X).fit(disp=0)
    assert list(found.names) == list(X.columns)
    assert np.all(np.abs(found.params - raw.params) < 4 * found.bse)
    np.testing.assert_allclose(found.bse_sampling, raw.bse, rtol=0.25)
    assert "SYNTHETIC" in found.summary()
    assert "nobody's" in found.summary()


@needs_mbi
def test_without_noise_a_logistic_regression_of_records_is_that_of_the_people() -> None:
    """Groups alone, so that nothing is lost in cells: the model without three-way interactions has the same coefficients as
    the logistic regression on the same regressors, to a fifth of a sampling error."""
    answers = people(4000, 5)
    schema = Schema(SCHEMA.attributes[:3])
    made = trimask.synthesize(row_moments(answers[["ill", "smoker", "region"]], schema), 100_000)
    found = trimask.fit.logit(made, "ill ~ smoker + C(region)")
    import statsmodels.api as sm

    X = np.column_stack(
        [np.ones(4000), answers.smoker, answers.region == "south", answers.region == "west"]
    ).astype(float)
    raw = sm.Logit(answers.ill.to_numpy(), X).fit(disp=0)
    assert np.all(np.abs(found.params.to_numpy() - raw.params) < 0.2 * raw.bse)


@needs_mbi
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_mean_total_variation_is_not_above_the_releases_own(epsilon: float) -> None:
    """Over six releases and their three two-way tables, beside the people: records, 20,000 of them by default,
    are not farther off than the release."""
    release, records = [], []
    for seed in range(6):
        answers = people(4000, 10 + seed)
        tried = trimask.simulate(answers, STUDY, epsilon=epsilon, seed=seed)
        made = row_moments(trimask.synthesize(tried, bins=6).frame, tried.moments.schema)
        for pair in itertools.combinations(("ill", "smoker", "region"), 2):
            truth, noisy, synthetic = (
                trimask.fit.crosstab(source, *pair).counts.to_numpy() / source.rows
                for source in (tried.raw, tried, made)
            )
            release.append(np.abs(noisy - truth).sum() / 2)
            records.append(np.abs(synthetic - truth).sum() / 2)
    assert np.mean(records) <= np.mean(release)


def test_records_are_rounded_for_the_sake_of_two_way_tables() -> None:
    """Random shares of three groups: the right number, every cell to within one, and two-way tables at less than two thirds
    of a systematic draw's distance (measured: 0.62 as a root mean square over these)."""
    rng = np.random.default_rng(3)
    squares = {"together": 0.0, "systematic": 0.0}
    for _ in range(40):
        shares = rng.dirichlet(np.full(16, 0.7)).reshape(2, 2, 4)
        shares[0, 0, 0] = 0.0
        shares /= shares.sum()
        counts = whole_counts(shares, 500, rng)
        assert counts.sum() == 500
        assert np.all(np.abs(counts - 500 * shares) < 1)
        assert counts[0, 0, 0] == 0
        plain = _systematic(500 * shares.ravel(), 500, rng).reshape(shares.shape)
        for name, found in (("together", counts), ("systematic", plain)):
            squares[name] += sum(
                float((((found - 500 * shares).sum(axis=axis)) ** 2).sum()) for axis in range(3)
            )
    assert squares["together"] < (2 / 3) ** 2 * squares["systematic"]
