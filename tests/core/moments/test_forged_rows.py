"""Exactly the rows that answers make can be proved: every vector of bits is tried, each with the best proof there is for it.

Products follow from the check of products (`test_report`), bits from that of bits; what is left to a changed device is which
bits it sets. So these count every forged report of a small study out: two bins at once, a threshold that contradicts, a
product with a choice that was not chosen.
"""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from moments_cases import EFFECTS, a_challenge, forged, random_answers
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.moments.field import P
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import build_report, forms, verdict
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

TINY = Schema(
    (Attribute("age", "integer", 0, 5), Attribute("region", "categorical", levels=("north", "south"))),
    (
        Derived("group", "bins", ("age",), cuts=(2, 4)),
        Derived("old", "threshold", ("age",), cuts=(3,)),
        Derived("region_age", "product", ("region", "age")),
        Derived("old_age", "product", ("old", "age")),
        Derived("group_region", "product", ("group", "region")),
        Derived("three", "product", ("group_region", "old")),
    ),
)
PEOPLE = [{"age": age, "region": region} for age in range(6) for region in ("north", "south")]


@pytest.mark.parametrize("row_norm", [None, 2.7], ids=["box", "ball"])
def test_every_vector_of_bits_is_a_persons_or_is_refused(row_norm: float | None) -> None:
    layout = MomentsLayout.of(TINY, row_norm)
    answers = layout.ball_bit  # those after it say what is left of the ball (`test_report`)
    bits = np.array(list(itertools.product((0, 1), repeat=answers)), dtype=np.int64)
    assert len(bits) <= 2**17
    linear = [item for item in layout.linear_checks if all(index < answers for index, _ in item.terms)]
    assert len(linear) == 3 + 2 * 2  # one level of each of three; two comparisons of two sides
    passing = np.ones(len(bits), dtype=bool)
    for item in linear:
        passing &= sum(bits[:, index] * weight for index, weight in item.terms) == item.total
    rows = {_row(layout, row) for row in bits[passing].tolist()}
    people = {MomentsLayout.of(TINY).encode(person).z for person in PEOPLE}
    assert len(people) == len(PEOPLE)
    if layout.ball is None:
        assert rows == people
    else:  # `clipped` is said or not; whatever is said, the intervals and products are the number's
        assert {row[:-1] for row in rows} == people
        inside = {row for row in rows if layout.ball.left(row) >= 0}
        assert {layout.encode(person).z for person in PEOPLE} <= inside < rows


def test_a_proof_over_other_bits_is_refused_by_the_providers_check() -> None:
    """The same on whole reports: each bit of each person's turned, alone and with another."""
    layout = MomentsLayout.of(TINY)
    form = forms(layout, a_challenge(layout))
    people = {layout.encode(person).z for person in PEOPLE}
    for person in PEOPLE[::3]:
        honest = list(layout.encode(person).bits)
        for places in itertools.chain(
            itertools.combinations(range(layout.bits), 1), itertools.combinations(range(layout.bits), 2)
        ):
            bits = [bit ^ (place in places) for place, bit in enumerate(honest)]
            reason = verdict(form.apply(forged(layout, bits), first=True))
            assert reason == (None if _linear(layout, bits) else "bad_linear"), (person, places)
            assert reason is not None or _row(layout, bits) in people  # another's, or the same said otherwise


@pytest.mark.parametrize("ball", [False, True], ids=["box", "ball"])
def test_every_altered_element_of_every_kind_of_column_is_refused(ball: bool) -> None:
    box = MomentsLayout.of(EFFECTS)
    layout = MomentsLayout.of(EFFECTS, 0.9 * float(box.radius_squared) ** 0.5) if ball else box
    random = Random(12)
    honest = build_report(layout, random_answers(random, EFFECTS), DeterministicRandom("altered"))
    form = forms(layout, a_challenge(layout))
    assert verdict(form.apply(honest, first=True)) is None
    for place in range(layout.elements):
        for change in (1, random.randrange(2, P)):
            altered = list(honest)
            altered[place] = (altered[place] + change) % P
            assert verdict(form.apply(altered, first=True)) is not None, place


def _linear(layout: MomentsLayout, bits: list[int]) -> bool:
    return all(
        sum(bits[index] * weight for index, weight in item.terms) == item.total
        for item in layout.linear_checks
    )


def _row(layout: MomentsLayout, bits: list[int]) -> tuple[int, ...]:
    """z of the bits, in whole numbers."""
    z: list[int] = []
    for column in layout.columns:
        if column.factors is not None:
            z.append(z[column.factors[0]] * z[column.factors[1]])
        else:
            held = bits[column.first_bit : column.first_bit + len(column.weights)]
            answer = sum(bit * weight for bit, weight in zip(held, column.weights, strict=True))
            z.append(2 * answer - column.offset if column.shrinks else answer)
    return tuple(z)
