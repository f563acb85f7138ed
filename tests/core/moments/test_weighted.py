"""Weighted reports: honest ones pass, and nobody counts otherwise than the study says: verified-moments.md#weights."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from moments_cases import a_challenge, check, forged, over_supports_alone, random_answers
from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.moments.field import P, signed
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import build_report
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.weight import Weight

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80, centre=45, scale=30),
        Attribute("design", "continuous", 0.5, 8.0, step=0.25),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    (
        Derived("group", "bins", ("age",), cuts=(40, 65)),
        Derived("square", "square", ("age",)),
        Derived("region_age", "product", ("region", "age")),
    ),
)
WEIGHTS = {
    "a choice": Weight("region", (1.0, 2.5, 4.0), 100),
    "bins": Weight("group", (3.0, 1.0, 0.25), 64),
    "an answer": Weight("design", (), 200),
}


def layouts() -> list[tuple[Weight, MomentsLayout]]:
    return [
        (weight, MomentsLayout.of(SCHEMA, norm, weight))
        for weight, norm in product(WEIGHTS.values(), (None, 2.1))
    ]


def test_honest_reports_pass_and_their_totals_are_weighted() -> None:
    """T of s and s z are s^2 times those of (1, z): in whole numbers."""
    random, source = Random(3), DeterministicRandom("weighted")
    clipped = set()
    for label, (weight, layout) in enumerate(layouts()):
        plain = MomentsLayout.of(SCHEMA, layout.row_norm)
        assert over_supports_alone(layout, label)
        assert layout.size == 2 * plain.q + 1
        assert layout.radius_squared == plain.radius_squared
        for _ in range(10):
            answers = random_answers(random, SCHEMA)
            encoded, bare = layout.encode(answers), plain.encode(answers)
            assert (encoded.z, encoded.clipped) == (bare.z, bare.clipped)
            clipped.add(encoded.clipped)
            if not encoded.clipped:
                assert encoded.root == weight.whole_root(SCHEMA, weight.of(SCHEMA, answers))
            elements = build_report(layout, answers, source)
            assert len(elements) == layout.elements
            assert check(layout, elements, a_challenge(layout, label)) is None
            first, products = layout.totals_of(elements, reports=1)
            row = (1, *bare.z)
            square = encoded.root**2
            assert [signed(value) for value in first] == [square * value for value in row]
            pairs = [row[j] * row[k] for j in range(1, len(row)) for k in range(j, len(row))]
            assert [signed(value) for value in products] == [square * value for value in pairs]
            assert len(first) + len(products) == layout.totals == len(layout.noises(3.0, 1))
            assert max(map(abs, encoded.counted)) <= max(layout.published_bounds)
    assert clipped == {True, False}


def test_a_shrunk_number_counts_as_the_interval_it_is_in() -> None:
    weight = Weight("group", (3.0, 1.0, 0.25), 64)
    layout = MomentsLayout.of(SCHEMA, 2.1, weight)
    answers = {"age": 80, "design": 8.0, "smoker": 1, "region": "west"}
    encoded = layout.encode(answers)
    assert encoded.clipped
    assert weight.of(SCHEMA, answers) == 0.25
    (age,) = (column for column in layout.columns if column.name == "age")
    (place,) = (place for place, column in enumerate(layout.columns) if column.name == "age")
    shrunk = age.value(encoded.z[place])
    assert encoded.root == weight.whole_root(SCHEMA, weight.of(SCHEMA, answers | {"age": round(shrunk)}))


@pytest.mark.parametrize("name", WEIGHTS)
def test_whoever_counts_otherwise_is_refused(name: str) -> None:
    """The best proofs there are; one passes with probability below 2m/P, some 1e-15."""
    layout = MomentsLayout.of(SCHEMA, None, WEIGHTS[name])
    assert layout.root is not None
    answers = {"age": 50, "design": 2.0, "smoker": 1, "region": "south"}
    encoded, challenge = layout.encode(answers), a_challenge(layout, 9)
    bits, z, s = list(encoded.bits), list(encoded.z), encoded.root
    assert check(layout, forged(layout, bits), challenge) is None

    def weighted(root: int, columns: list[int]) -> list[int]:
        return forged(layout, bits, [*z, root, *columns])

    for root in (layout.root.largest, 2 * layout.root.largest, s + 1, 0, -s, P // 2):
        wrong = weighted(root, [root * value for value in z])
        assert check(layout, wrong, challenge) == "bad_products", root
    for j in range(layout.q):
        if z[j]:
            larger = [(s + (place == j)) * value for place, value in enumerate(z)]
            assert check(layout, weighted(s, larger), challenge) == "bad_products", layout.columns[j].name
    at = layout.root.first_bit
    beyond = [*bits[:at], 2, *bits[at + 1 :]]
    assert check(layout, forged(layout, beyond), challenge) == "bad_bits"
    if name == "a choice":  # the heaviest level beside one's own
        both = [*bits[: at + 2], 1, *bits[at + 3 :]]
        assert check(layout, forged(layout, both), challenge) == "bad_linear"


def test_an_answered_weight_reaches_its_bounds_and_no_other_root() -> None:
    layout = MomentsLayout.of(SCHEMA, None, WEIGHTS["an answer"])
    root = layout.root
    assert root is not None
    reached = {
        sum(bit * weight for bit, weight in zip(bits, root.weights, strict=True)) - root.offset
        for bits in product((0, 1), repeat=len(root.weights))
    }
    assert reached == set(range(50, 201))  # the root of 0.5/8 is a quarter


def test_roots_that_leave_no_room_are_refused() -> None:
    fine = Schema((Attribute("x", "continuous", 1, 2, step=2.0**-20), Attribute("y", "continuous", 1, 2)))
    assert MomentsLayout.of(fine, None, Weight("y", (), 8)).published_bounds[1] == 8 << 20
    with pytest.raises(ImpossibleStudy, match="do not fit"):
        MomentsLayout.of(fine, None, Weight("y", (), 1024))
