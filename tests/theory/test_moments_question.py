"""Questions about verified moments: one canonical form, and noise for what a replaced record can move."""

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import ParameterError, Refused
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.gaussian import gdp
from trimask_theory.moments.moments_question import MomentsQuestion

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80),
        Attribute("bmi", "continuous", 15.0, 45.0, centre=25.0, scale=8.0),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    (Derived("age2", "square", ("age",)),),
)


def study_of(layout: MomentsLayout, honest: int = 1, right: int = 3) -> Any:
    moments = SimpleNamespace(layout=layout, honest_providers=honest)
    return SimpleNamespace(moments=moments, right=range(right))


@pytest.mark.parametrize("ball", [None, 2.0])
@pytest.mark.parametrize("kind", ["sums", "moments"])
def test_no_two_records_differ_by_more_than_the_noise_is_for(kind: Any, ball: float | None) -> None:
    """Over all corners of the answers: |difference| in units of the noise is at most mu, in every choice of columns."""
    layout = MomentsLayout.of(SCHEMA, ball)
    corners = [
        layout.encode({"age": age, "bmi": bmi, "smoker": smoker, "region": region}).z
        for age, bmi, smoker, region in itertools.product(
            (18, 49, 80), (15.0, 25.0, 45.0), (0, 1), ("north", "south", "west")
        )
    ]
    names = [column.name for column in layout.columns]
    worst = 0.0
    for size in (1, 2, len(names)):
        for chosen in itertools.combinations(names, size):
            question = MomentsQuestion(kind, chosen, mu=0.7)
            places = [cell.terms[0][0] for cell in question.cells(layout)]
            scale = np.array([noise.deviation for noise in question.noises(layout, 1)])
            rows = np.array([_totals(z)[places] for z in corners]) / scale
            gaps = np.linalg.norm(rows[:, None] - rows[None], axis=2)
            assert gaps.max() <= 0.7 * (1 + 1e-9)
            worst = max(worst, float(gaps.max()))
    assert worst > 0.5  # and it is not far from what is paid for


def _totals(z: tuple[int, ...]) -> np.ndarray:
    first = np.array(z, dtype=float)
    products = [first[j] * first[k] for j in range(len(z)) for k in range(j, len(z))]
    return np.array([*first, *products])


def test_a_price_in_epsilon_is_the_analytic_one_and_more_honest_providers_lose_next_to_nothing() -> None:
    layout = MomentsLayout.of(SCHEMA)
    question = MomentsQuestion("sums", ("age",), epsilon=1.0, delta=1e-6)
    for honest in (1, 2):
        mu = question.guarantee(3, honest).mu
        assert mu is not None
        assert gdp.delta(1.0, mu) == pytest.approx(1e-6, rel=1e-6)
        assert gdp.delta(1.0, mu) <= 1e-6
    # One column, x in [-1, 1]: a record moves its sum by 2.
    assert question.sigma(layout, 1) == pytest.approx(2 * question.scale(1), rel=1e-9)


def test_the_columns_behind_a_natural_one() -> None:
    layout = MomentsLayout.of(SCHEMA)
    price = {"epsilon": None, "delta": None, "mu": 1.0}
    for names, needed in (
        (["age2"], ("age", "age2")),
        (["region_north"], ("region_south", "region_west")),
        (["smoker", "one", "age"], ("age", "smoker")),
    ):
        assert MomentsQuestion.about("sums", names, layout, price).columns == needed


def test_only_the_canonical_form_is_read() -> None:
    study = study_of(MomentsLayout.of(SCHEMA))
    good = MomentsQuestion("moments", ("age", "smoker"), mu=0.5)
    assert MomentsQuestion.read(good.canonical(), study) == good
    body = json.loads(good.canonical())
    for change in (
        {"kind": "rows"},
        {"kind": "table"},
        {"kind": "histogram", "columns": ["region", "smoker"]},
        {"kind": "table", "columns": ["smoker", "smoker"]},
        {"kind": "group_means", "columns": ["age"]},
        {"sensitivity": 0.1},
        {"columns": []},
        {"columns": ["smoker", "age"]},
        {"columns": ["age", "age"]},
        {"columns": ["one"]},
        {"price": {"epsilon": None, "delta": None, "mu": 1}},
        {"price": {"epsilon": None, "delta": None, "mu": -1.0}},
        {"price": {"epsilon": 1.0, "delta": 0.0, "mu": None}},
        {"price": {"epsilon": 1.0, "delta": 1e-6, "mu": 1.0}},
        {"price": {"epsilon": None, "delta": None, "mu": None}},
        {"price": {"mu": 1.0}},
        {"more": 1},
    ):
        text = json.dumps(body | change, sort_keys=True, separators=(",", ":")).encode()
        with pytest.raises(Refused) as caught:
            MomentsQuestion.read(text, study)
        assert caught.value.reason == "malformed"
    for text in (b"", b"[]", b"{", good.canonical() + b" ", b"\xff"):
        with pytest.raises(Refused):
            MomentsQuestion.read(text, study)
    with pytest.raises(ParameterError, match="delta"):
        MomentsQuestion("sums", ("age",), epsilon=1.0, delta=0.0).scale(1)


def test_noise_that_does_not_fit_is_refused() -> None:
    study = study_of(MomentsLayout.of(SCHEMA))
    question = MomentsQuestion("moments", ("age2",), mu=1.0)
    question.require_room(study, 1000)
    cheap = MomentsQuestion("moments", ("age2",), mu=1e-12)
    nothing = MomentsQuestion("moments", ("age2",), mu=1e-320)
    for asked, reports in ((question, 1 << 40), (cheap, 1000), (nothing, 1000)):
        with pytest.raises(Refused) as caught:
            asked.require_room(study, reports)
        assert caught.value.reason == "bad_question"
    assert math.isfinite(cheap.sigma(study.moments.layout, 1))
