"""Formulas: what is read, and what each refusal tells its reader to do."""

from __future__ import annotations

import numpy as np
import pytest

from trimask.errors import CollinearColumns, FormulaError
from trimask.fit.design import build
from trimask.fit.formula import Formula, Term, parse
from trimask_core.schema import Attribute, Schema


def test_reads_terms_and_intercept() -> None:
    text = " sbp ~ age+ smoker + C(region, ref = west) "
    assert parse(text) == Formula(
        text, "sbp", (Term("age"), Term("smoker"), Term("region", True, "west")), True
    )
    for without in ("y ~ x - 1", "y ~ x + 0", "y ~ 0 + x", "y ~ -1 + x"):
        assert parse(without).intercept is False
        assert parse(without).terms == (Term("x"),)
    assert parse("y ~ 1") == Formula("y ~ 1", "y", (), True)
    assert parse("y ~ 1 + x").intercept is True
    for quoted in ('C(g, ref="2b")', "C(g, ref='2b')", "C(g, ref=2b)"):
        assert parse(f"y ~ {quoted}").terms == (Term("g", True, "2b"),)


@pytest.mark.parametrize(
    "transform",
    [
        "log(bmi)",
        "np.log(bmi)",
        "I(age**2)",
        "age**2",
        "age:bmi",
        "age*bmi",
        "(age + bmi)",
        "age^2",
        "age/bmi",
    ],
)
def test_transforms_must_be_declared_in_the_study(transform: str) -> None:
    with pytest.raises(FormulaError, match="declare it in the study"):
        parse(f"sbp ~ {transform} + smoker")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("log(sbp) ~ age", "must be one column"),
        ("sbp age", "with one ~"),
        ("sbp ~ age ~ bmi", "with one ~"),
        ("sbp ~", "expected a column, found 'the end'"),
        ("sbp ~ age +", "expected a column"),
        ("sbp ~ age + 2", "2 is no column"),
        ("sbp ~ age - bmi", "only the intercept can be taken away; leave bmi out"),
        ("sbp ~ 0", "nothing on its right side"),
        ("sbp ~ age + age", "age appears twice"),
        ("sbp ~ age + sbp", "on both sides"),
        ("sbp ~ C(region, levels=x)", r"write C\(region, ref=level\)"),
        ("sbp ~ C(region, ref=)", r"write C\(region, ref=level\)"),
        ("sbp ~ C(2)", "takes a categorical attribute"),
        ("sbp ~ C(region", "expected"),
    ],
)
def test_refusals_say_what_to_write(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sbp ~ agee", "no column agee; did you mean age?"),
        ("spb ~ age", "no column spb; did you mean sbp?"),
        ("sbp ~ qqq", "there are age, bmi, smoker"),
        ("sbp ~ region", r"region is categorical: write C\(region\), or one of region_north"),
        ("sbp ~ one", "behind the intercept"),
        ("sbp ~ C(age)", "age is not categorical"),
        ("sbp ~ C(regoin)", "did you mean region?"),
        ("sbp ~ C(region, ref=wset)", "no level wset; did you mean west?"),
        ("sbp ~ C(region) + region_west", "region_west appears twice"),
        ("region_west ~ C(region)", "region_west appears on both sides"),
    ],
)
def test_unknown_columns_get_the_nearest_name(text: str, message: str, schema: Schema) -> None:
    with pytest.raises(FormulaError, match=message):
        build(parse(text), schema)


def test_groups_drop_their_reference(schema: Schema) -> None:
    def names(text: str) -> tuple[str, ...]:
        return build(parse(text), schema).names

    assert names("sbp ~ C(region)") == ("Intercept", "C(region)[south]", "C(region)[west]")
    assert names("sbp ~ C(region, ref=south)") == ("Intercept", "C(region)[north]", "C(region)[west]")
    assert names("sbp ~ C(region) - 1") == ("C(region)[north]", "C(region)[south]", "C(region)[west]")


def test_only_the_first_group_is_whole_without_an_intercept() -> None:
    schema = Schema(
        (
            Attribute("g", "categorical", levels=("a", "b")),
            Attribute("h", "categorical", levels=("c", "d")),
            Attribute("y", "continuous", 0, 1),
        )
    )
    assert build(parse("y ~ C(g) + C(h) - 1"), schema).names == ("C(g)[a]", "C(g)[b]", "C(h)[d]")


def test_whole_group_beside_the_intercept_is_collinear(schema: Schema) -> None:
    with pytest.raises(CollinearColumns, match="add up to the intercept") as caught:
        build(parse("sbp ~ region_north + region_south + region_west"), schema)
    assert caught.value.columns == ("Intercept", "region_north", "region_south", "region_west")


def test_no_intercept_without_a_ones_column() -> None:
    schema = Schema((Attribute("x", "continuous", -1, 1), Attribute("y", "continuous", 0, 2)), ones=False)
    with pytest.raises(FormulaError, match="add '- 1'"):
        build(parse("y ~ x"), schema)
    with pytest.raises(FormulaError, match="y cannot be moved to its center"):
        build(parse("y ~ x - 1"), schema)
    np.testing.assert_array_equal(build(parse("x ~ 0 + x2"), _twin()).combine, [[0.0], [1.0]])


def _twin() -> Schema:
    return Schema((Attribute("x", "continuous", -1, 1), Attribute("x2", "continuous", -2, 2)), ones=False)
