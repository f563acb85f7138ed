"""Formulas: what is read, and what each refusal tells its reader to do."""

from __future__ import annotations

import contextlib
import tomllib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trimask.errors import CollinearColumns, FormulaError
from trimask.fit.design import build
from trimask.fit.formula import Formula, Term, parse
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_golden import Golden


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


def test_formulas_have_their_usual_meaning() -> None:
    age, bmi, both = Term("age"), Term("bmi"), Term("age:bmi", factors=(Term("age"), Term("bmi")))
    for text, terms in (
        ("(age + bmi)", (age, bmi)),
        ("age + age", (age,)),
        ("age:bmi", (both,)),
        ("age*bmi", (age, bmi, both)),
        ("age/bmi", (age, both)),
        ("(age + bmi)**2", (age, bmi, both)),
        ("age:bmi + age", (age, both)),  # products after columns, as everywhere
        ("age + bmi - age", (bmi,)),
    ):
        assert parse(f"sbp ~ {text}") == Formula(f"sbp ~ {text}", "sbp", terms, True)
    for coding in ("contr.treatment('b')", "contr.treatment(base='b')", "Treatment(reference='b')"):
        assert parse(f"y ~ C(g, {coding})").terms == (Term("g", True, "b"),)


def test_a_dot_is_every_column_and_group(schema: Schema) -> None:
    def names(text: str) -> tuple[str, ...]:
        return build(parse(text, schema), schema).names

    south_and_west = ("C(region)[south]", "C(region)[west]")
    assert names("sbp ~ .") == ("Intercept", "age", "bmi", "smoker", *south_and_west, "log_bmi")
    assert names("sbp ~ . - log_bmi - C(region) - 1") == ("age", "bmi", "smoker")
    assert names("region_west ~ .") == ("Intercept", "age", "bmi", "smoker", "sbp", "log_bmi")
    with pytest.raises(FormulaError, match="stands for every column"):
        parse("sbp ~ .")


@pytest.mark.parametrize(
    ("transform", "declaration"),
    [
        ("log(bmi)", {"name": "log_bmi", "kind": "log", "of": ["bmi"]}),
        ("np.log10(bmi)", {"name": "log_bmi", "kind": "log", "of": ["bmi"]}),
        ("I(age**2)", {"name": "age_squared", "kind": "square", "of": ["age"]}),
        ("age**2", {"name": "age_squared", "kind": "square", "of": ["age"]}),
        ("age^2", {"name": "age_squared", "kind": "square", "of": ["age"]}),
        ("{age * age}", {"name": "age_squared", "kind": "square", "of": ["age"]}),
        ("age:bmi", {"name": "age_bmi", "kind": "product", "of": ["age", "bmi"]}),
        ("age*bmi", {"name": "age_bmi", "kind": "product", "of": ["age", "bmi"]}),
        ("age/bmi", {"name": "age_bmi", "kind": "product", "of": ["age", "bmi"]}),
        ("I(age*bmi)", {"name": "age_bmi", "kind": "product", "of": ["age", "bmi"]}),
    ],
)
def test_transforms_come_with_the_declaration_to_add(
    transform: str, declaration: dict[str, object], schema: Schema
) -> None:
    bare = replace(schema, derived=())
    with pytest.raises(FormulaError, match="declare it in the study definition") as caught:
        build(parse(f"sbp ~ {transform} + smoker", bare), bare)
    toml = tomllib.loads(str(caught.value).partition("\n\n")[2])
    assert toml == {"derived": [declaration]}
    grown = Schema.from_dict(bare.to_dict() | toml)  # what the message says to add is taken
    assert grown.columns[-1].name == declaration["name"]


@pytest.mark.parametrize(
    "transform",
    ["np.sqrt(bmi)", "bs(age, df=3)", "poly(age, 2)", "{age + 1}", "age**3", "exp(age)", "log(age + 1)"],
)
def test_other_transforms_are_asked_for_as_attributes(transform: str, schema: Schema) -> None:
    with pytest.raises(FormulaError, match="declare it in the study definition") as caught:
        parse(f"sbp ~ {transform}", schema)
    (asked,) = tomllib.loads(str(caught.value).partition("\n\n")[2])["attributes"]
    assert Attribute(**asked).kind == "continuous"


def test_a_declared_transform_is_named_and_a_declared_product_is_fitted(schema: Schema) -> None:
    with pytest.raises(FormulaError, match=r"declares np.log\(bmi\) as log_bmi: write log_bmi"):
        parse("sbp ~ np.log(bmi)", schema)
    with_product = replace(schema, derived=(Derived("years_of_smoke", "product", ("age", "smoker")),))
    for text in ("sbp ~ smoker*age", "sbp ~ smoker + age + age:smoker", "sbp ~ (smoker + age)**2"):
        design = build(parse(text, with_product), with_product)
        assert design.names == ("Intercept", "smoker", "age", "years_of_smoke")
    with pytest.raises(FormulaError, match="years_of_smoke appears twice"):
        build(parse("sbp ~ age:smoker + years_of_smoke", with_product), with_product)
    with pytest.raises(FormulaError, match="no column agee; did you mean age"):
        build(parse("sbp ~ agee:smoker", with_product), with_product)


def test_no_formula_runs_code(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    def caught(*_: object, **__: object) -> None:
        raise AssertionError("evaluated")

    monkeypatch.setattr("builtins.eval", caught)
    monkeypatch.setattr("builtins.exec", caught)
    monkeypatch.setattr("os.system", caught)
    for code in ("{__import__('os').system('x')}", "C(__import__('os').system('x'))", "I(open('x'))"):
        with pytest.raises(FormulaError):
            build(parse(f"sbp ~ {code}", schema), schema)


def test_no_formula_takes_for_ever() -> None:
    for text in ("*".join(f"x{i}" for i in range(40)), "(a + b + c)**1000", "a:b:c:d"):
        with pytest.raises(FormulaError, match="products of 3 at most"):
            parse(f"y ~ {text}")
    assert len(parse("y ~ " + " + ".join(f"x{i}" for i in range(1500))).terms) == 1500
    assert parse("y ~ " + "(" * 5000 + "x" + ")" * 5000).terms == (Term("x"),)
    with pytest.raises(FormulaError, match="at most 20,000 are read"):
        parse("y ~ " + "+".join(["x"] * 20_000))


@given(st.text(alphabet="xyC(),=~+-*:/^.01 |[]{}'\"`a%\\#\n", max_size=24))
@example("x|y")
@example("[x")
@example("x %in% y")
@example("C(\x00)")
@settings(deadline=None, max_examples=150)
def test_any_text_is_read_or_refused(text: str) -> None:
    schema = Schema((Attribute("x", "continuous", -1, 1), Attribute("y", "continuous", 0, 2)))
    with contextlib.suppress(FormulaError, CollinearColumns):
        build(parse(f"y ~ {text}", schema), schema)


def test_refusals_say_what_to_write(golden: Golden) -> None:
    texts = [
        "log(sbp) ~ age",
        "~ age",
        "C(region) ~ age",
        "sbp age",
        "sbp ~ age ~ bmi",
        "sbp ~",
        "sbp ~ age + 2",
        "sbp ~ 2:age",
        "sbp ~ age - bmi",
        "sbp ~ -bmi",
        "sbp ~ C(region, contr.sum)",
        "sbp ~ C(region, contr.helmert('a'))",
        "sbp ~ C(region) + C(region, ref=west)",
        "sbp ~ 0",
        "sbp ~ age + sbp",
        "sbp ~ C(region, levels=x)",
        "sbp ~ C(2)",
    ]
    golden("formula", FormulaError, {text: ("", partial(parse, text)) for text in texts})
    # The rest of these sentences is the library's.
    for text in ("sbp ~ age +", "sbp ~ age | bmi", "sbp ~ C(region, ref=)", "sbp ~ C(region"):
        with pytest.raises(FormulaError, match=r"cannot be read: .* Write response ~ column \+"):
            parse(text)


@pytest.mark.parametrize("formula", [5, None, ["sbp ~ age"], b"sbp ~ age"])
def test_repro_what_is_no_text_is_refused_as_a_formula(formula: Any) -> None:
    """It ended in a TypeError about len."""
    with pytest.raises(FormulaError, match=f"a formula is text such as .*, got {type(formula).__name__}"):
        parse(formula)


def test_unknown_columns_get_the_nearest_name(golden: Golden, schema: Schema) -> None:
    """What is refused, and the column it is refused for."""
    texts = {
        "sbp ~ agee": "agee",
        "spb ~ age": "spb",
        "sbp ~ qqq": "qqq",
        "sbp ~ region": "region",
        "sbp ~ one": "one",
        "sbp ~ C(age)": "age",
        "sbp ~ C(regoin)": "regoin",
        "sbp ~ C(region, ref=wset)": "wset",
        "sbp ~ C(region) + region_west": "region_west",
        "region_west ~ C(region)": "region_west",
    }

    def read(text: str) -> None:
        build(parse(text), schema)

    golden(
        "formula-columns", FormulaError, {text: (name, partial(read, text)) for text, name in texts.items()}
    )


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
