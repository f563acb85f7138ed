"""Everything a researcher gets shows itself in a notebook; advice can be followed; no note says what is not so."""

from __future__ import annotations

import dataclasses
import inspect
import tomllib

import numpy as np
import pytest

import trimask
from tests.sdk.test_sdk_tables import EXACT, NOISY
from trimask import fit, release
from trimask.errors import FormulaError
from trimask.moments.moments import row_moments
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema


def test_everything_has_a_notebook_form() -> None:
    for module in (trimask, fit, release):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) and not issubclass(found, BaseException):
                assert callable(getattr(found, "_repr_html_", None)), name


def test_a_notebook_form_escapes_names() -> None:
    told = dataclasses.replace(EXACT, label="<script>")
    assert "<script>" not in fit.ols(told, "age ~ visits").to_html()
    assert "<script>" not in told._repr_html_()


def test_no_note_speaks_of_noise_where_there_is_none() -> None:
    found = [
        fit.ols(EXACT, "age ~ visits"),
        fit.ridge(EXACT, "age ~ visits", 0.1),
        fit.describe(EXACT),
        fit.crosstab(EXACT, "region", "ill"),
        fit.means(EXACT, "age", by="region"),
        fit.rates(EXACT, "visits", "years"),
        fit.pca(EXACT, ["age", "visits", "years"]),
        fit.partial_correlations(EXACT, ["age", "visits", "years"]),
        fit.linear_probability(EXACT, "ill ~ age"),
    ]
    for result in found:
        assert "noise corrected" not in result.title
        assert not any("noise is corrected" in note or "mask" in note for note in result.notes), type(result)


def test_the_noise_floor_is_by_direction() -> None:
    """A yes-or-no column's variance is known, so a component made of two of them is clearer than one of measured columns."""
    schema = Schema(
        (*(Attribute(n, "continuous", -1, 1) for n in "ab"), *(Attribute(n, "binary") for n in "cd"))
    )
    rng = np.random.default_rng(6)
    rows = {name: rng.uniform(-1, 1, 800) for name in "ab"} | {name: rng.integers(0, 2, 800) for name in "cd"}
    answers = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    source = release.local.gram(answers, schema=schema, epsilon=1.0, delta=1e-6, source=rng)
    measured = fit.pca(source, ["a", "b"], standardize=False).noise_floors
    known = fit.pca(source, ["c", "d"], standardize=False).noise_floors
    assert known.max() < measured.min()
    both = fit.pca(source, ["a", "b", "c", "d"], standardize=False)
    assert both.noise_floor == both.noise_floors.max() > both.noise_floors.min()


def test_advice_can_be_followed() -> None:
    """What an error says to declare is a schema that exists, and the formula then works."""
    schema = Schema(
        (
            Attribute("y", "continuous", 0, 10),
            Attribute("idp", "binary"),
            Attribute("health", "categorical", levels=("good", "poor")),
        ),
        (Derived("y_squared", "square", ("y",)),),
    )
    answers = [{"y": i % 9, "idp": i % 2, "health": ("good", "poor")[i % 3 == 0]} for i in range(60)]
    data = row_moments(answers, schema)
    for formula, last in (
        ("y ~ health_poor*idp", "health_poor_idp"),
        ("y ~ C(health)*idp", "C(health)[poor]:idp"),
        ("y_squared ~ C(health):idp:y", "C(health)[poor]:idp:y"),
    ):
        with pytest.raises(FormulaError) as caught:
            fit.ols(data, formula)
        told = tomllib.loads(str(caught.value).partition("\n\n")[2])["derived"]
        more = tuple(Derived(item["name"], item["kind"], tuple(item["of"])) for item in told)
        asked = Schema(schema.attributes, (*schema.derived, *more))
        assert fit.ols(row_moments(answers, asked), formula).names[-1] == last
    for formula, words in (
        ("idp ~ log(y)", "minimum is above 0"),
        ("idp ~ log(yy)", "no column yy; did you mean y"),
        ("idp ~ square(y_squared)", "derived itself"),
    ):
        with pytest.raises(FormulaError, match=words):
            fit.ols(data, formula)
    with pytest.raises(FormulaError, match="name its levels here, region_north"):
        fit.pca(NOISY, ["age", "C(region)"])
    assert len(fit.describe(NOISY, ["C(region)"]).shares) == 3
