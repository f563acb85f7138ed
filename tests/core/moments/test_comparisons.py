"""Bins, thresholds and products with choices are proved: honest reports pass, another interval does not."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moments_cases import EFFECTS, a_challenge, check, forged, random_answers, random_effects, random_layout
from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import build_report
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

SMALL = Schema(
    (Attribute("age", "integer", 0, 9),),
    (
        Derived("group", "bins", ("age",), cuts=(3, 8)),
        Derived("old", "threshold", ("age",), cuts=(6,)),
        Derived("group_old", "product", ("group", "old")),
    ),
)


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_honest_reports_pass_and_mean_what_the_schema_says(seed: int) -> None:
    random = Random(seed)
    schema = random_effects(random)
    layout = random_layout(random, schema, ball=random.random() < 0.5)
    if layout is None:
        return
    answers = random_answers(random, schema)
    elements = build_report(layout, answers, DeterministicRandom(str(seed)))
    assert check(layout, elements, a_challenge(layout, seed)) is None
    encoded = layout.encode(answers)
    if encoded.clipped:
        assert layout.ball is not None
        assert layout.ball.left(encoded.z) >= 0
        return
    found = {natural.name: natural.value(encoded.z) for natural in layout.natural}
    # The answers on the grid, so that both sides cut the same numbers.
    on_grid = {
        a.name: answers[a.name] if a.kind in ("categorical", "binary") else found[a.name]
        for a in schema.attributes
    }
    on_grid |= {
        a.name: min(max(found[a.name], a.bounds[0]), a.bounds[1])
        for a in schema.attributes
        if a.kind == "continuous"
    }
    on_grid |= {a.name: round(found[a.name]) for a in schema.attributes if a.kind == "integer"}
    for derived in schema.derived:
        for cut in derived.cuts:  # a step of the grid that is the cut itself, but for rounding
            if abs(found[derived.of[0]] - cut) < 1e-9:
                return
    expected = [
        column.center + column.half_range * value
        for column, value in zip(schema.columns, schema.encode(on_grid), strict=True)
    ]
    assert [found[column.name] for column in schema.columns] == pytest.approx(expected, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("age", range(10))
def test_no_other_interval_passes_whatever_the_rest_of_the_report_says(age: int) -> None:
    """All intervals with all values of `above` and `below`: the check is exact on bits, so this counts every report out."""
    layout = MomentsLayout.of(SMALL)
    honest = list(layout.encode({"age": age}).bits)
    bins, old = layout.comparisons
    challenge = a_challenge(layout, age)
    accepted = []
    for k in range(len(bins.bits)):
        for rests in range(1 << (2 * len(bins.weights))):
            bits = list(honest)
            for place, bit in enumerate(bins.bits):
                bits[bit] = int(place == k)
            for i in range(2 * len(bins.weights)):
                bits[bins.above + i] = rests >> i & 1
            if all(_holds(check_, bits) for check_ in layout.linear_checks):
                accepted.append(k)
                assert check(layout, forged(layout, bits), challenge) is None
    assert set(accepted) == {0 if age < 3 else 1 if age < 8 else 2}
    # a proof over the bits of another interval, or of the other side of the threshold, with honest rests
    for comparison in (bins, old):
        for k in range(len(comparison.bits)):
            bits = list(honest)
            for place, bit in enumerate(comparison.bits):
                bits[bit] = int(place == k)
            if bits != honest:
                assert check(layout, forged(layout, bits), challenge) == "bad_linear"


def _holds(check_: object, bits: list[int]) -> bool:
    terms, total = check_.terms, check_.total  # type: ignore[attr-defined]
    return all(index < len(bits) for index, _ in terms) and sum(bits[i] * c for i, c in terms) == total


def test_a_product_that_is_not_one_is_refused() -> None:
    layout = MomentsLayout.of(EFFECTS)
    person = {"hours": 3, "age": 22, "smoker": True, "region": "west", "sex": "f"}
    encoded = layout.encode(person)
    for j, column in enumerate(layout.columns):
        if column.factors is not None:
            z = list(encoded.z)
            z[j] += 1
            assert check(layout, forged(layout, encoded.bits, z), a_challenge(layout)) == "bad_products", (
                column.name
            )


def test_bits_and_columns_are_few() -> None:
    """Bins cost a bit an interval and twice the bits of the widest one; references are columns only where needed."""
    layout = MomentsLayout.of(
        Schema(
            (Attribute("x", "continuous", 0, 1), Attribute("g", "categorical", levels=("a", "b", "c"))),
            (
                Derived("bins", "bins", ("x",), cuts=tuple(k / 10 for k in range(1, 10))),
                Derived("gx", "product", ("g", "x")),
                Derived("g_bins", "product", ("g", "bins")),
            ),
        )
    )
    assert layout.bits == 10 + 3 + 10 + 2 * 7
    assert layout.q == 1 + 2 + 9 + 2 + 18
    assert layout.radius_squared == 1 + 5


def test_a_shrunk_number_is_in_the_interval_it_was_shrunk_to() -> None:
    schema = Schema(
        (Attribute("x", "integer", 0, 20, centre=10, scale=2),), (Derived("b", "bins", ("x",), cuts=(5, 15)),)
    )
    layout = MomentsLayout.of(schema, 2.5)
    encoded = layout.encode({"x": 20})
    found = {natural.name: natural.value(encoded.z) for natural in layout.natural}
    assert encoded.clipped
    assert found["x"] < 15
    assert (found["b_below_5"], found["b_5_to_15"], found["b_from_15"]) == (0, 1, 0)
    elements = build_report(layout, {"x": 20}, DeterministicRandom("shrunk"))
    assert check(layout, elements, a_challenge(layout)) is None


def test_a_product_of_three_numbers_needs_all_pairs() -> None:
    numbers = tuple(Attribute(name, "integer", 0, 9) for name in "xyw")
    pair, three = Derived("xy", "product", ("x", "y")), Derived("xyw", "product", ("xy", "w"))
    with pytest.raises(ImpossibleStudy, match="xyw: declare the product of x and w too"):
        MomentsLayout.of(Schema(numbers, (pair, three)))
    pairs = (pair, Derived("xw", "product", ("x", "w")), Derived("yw", "product", ("y", "w")))
    layout = MomentsLayout.of(Schema(numbers, (*pairs, three)))
    z = layout.encode({"x": 2, "y": 3, "w": 7}).z
    assert {item.name: item.value(z) for item in layout.natural}["xyw"] == pytest.approx(42)


def test_an_interval_without_a_step_is_refused() -> None:
    with pytest.raises(ImpossibleStudy, match="b: an interval has no step of x's grid in it"):
        MomentsLayout.of(
            Schema((Attribute("x", "integer", 0, 20),), (Derived("b", "bins", ("x",), cuts=(5.2, 5.7)),))
        )
