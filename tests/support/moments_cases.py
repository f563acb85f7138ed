"""Schemas and answers for tests of the moments suite, and reports that a device would not make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.moments.field import P
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import (
    Challenge,
    _elements,
    challenge_key,
    derive_challenge,
    forms,
    supports,
    verdict,
)
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, AttributeKind, Schema

STUDY = bytes(range(32))
# Every kind of column in few elements: a bounded one with centre and scale, a binary one, a choice, a product, a ball.
SMALL = Schema(
    (
        Attribute("hours", "continuous", 0, 6, step=0.5, centre=2, scale=2),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    derived=(Derived("hours_smoker", "product", ("hours", "smoker")),),
)
SMALL_ANSWERS: Mapping[str, object] = {"hours": 2.5, "smoker": True, "region": "west"}
SMALL_NORM = 2.25
KINDS: tuple[AttributeKind, ...] = ("continuous", "integer", "binary", "categorical")


def random_schema(random: Random) -> Schema:
    """One to four attributes of any kind, with every way of stating a grid, and up to three derived columns."""
    attributes = [_attribute(random, f"a{i}") for i in range(random.randint(1, 4))]
    numeric = [attribute for attribute in attributes if attribute.kind != "categorical"]
    derived = []
    for i in range(random.randint(0, 3) if numeric else 0):
        kind = random.choice(["square", "product", "log"])
        first, second = random.choice(numeric), random.choice(numeric)
        if kind == "product":
            derived.append(Derived(f"d{i}", "product", (first.name, second.name)))
        elif kind == "square":
            derived.append(Derived(f"d{i}", "square", (first.name,)))
        elif first.bounds[0] > 0:
            derived.append(Derived(f"d{i}", "log", (first.name,)))
    return Schema(tuple(attributes), tuple(derived))


EFFECTS = Schema(
    (
        Attribute("hours", "continuous", 0, 6, step=0.5, centre=2, scale=2),
        Attribute("age", "integer", 18, 33),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
        Attribute("sex", "categorical", levels=("m", "f")),
    ),
    derived=(
        Derived("age_group", "bins", ("age",), cuts=(21, 25), levels=("young", "middle", "old")),
        Derived("long", "threshold", ("hours",), cuts=(2.75,)),
        Derived("region_hours", "product", ("hours", "region")),
        Derived("region_sex", "product", ("region", "sex")),
        Derived("region_smoker", "product", ("region", "smoker")),
        Derived("north_hours", "product", ("region_north", "hours")),
        Derived("old_f", "product", ("age_group_old", "sex_f")),
        Derived("long_hours", "product", ("long", "hours")),
        Derived("region_sex_hours", "product", ("region_sex", "hours")),
        Derived("three", "product", ("age_group", "region_sex")),
    ),
)
"""Every kind of product, bins and a threshold."""


def random_effects(random: Random) -> Schema:
    """Three to five attributes, bins and thresholds of the numbers, and up to four products of anything with anything."""
    attributes = [_attribute(random, f"a{i}") for i in range(random.randint(3, 5))]
    derived: list[Derived] = []
    schema = Schema(tuple(attributes))
    for attribute in attributes:
        low, high = attribute.bounds
        if attribute.kind in ("continuous", "integer") and high - low >= 2:
            cuts = sorted({round(random.uniform(low + 0.5, high), 1) for _ in range(random.randint(1, 3))})
            bins = random.random() < 0.6
            kept = tuple(cuts) if bins else (cuts[0],)
            made = Derived(f"b{attribute.name}", "bins" if bins else "threshold", (attribute.name,), kept)
            schema = _kept(schema, derived, made)
    for i in range(random.randint(1, 4)):
        names = [name for name, part in schema.parts.items() if part.kind != "within"]
        of = (random.choice(names), random.choice(names))
        schema = _kept(schema, derived, Derived(f"p{i}", "product", of))
    return schema


def _kept(schema: Schema, derived: list[Derived], made: Derived) -> Schema:
    """The schema with one more, if both suites can form it in a small report."""
    try:
        larger = Schema(schema.attributes, (*derived, made))
        if MomentsLayout.of(larger).q > 30:
            return schema
    except ImpossibleStudy:
        return schema
    derived.append(made)
    return larger


def _attribute(random: Random, name: str) -> Attribute:
    kind = random.choice(KINDS)
    if kind == "binary":
        return Attribute(name, kind)
    if kind == "categorical":
        return Attribute(name, kind, levels=tuple(f"l{i}" for i in range(random.randint(2, 4))))
    low = float(random.randint(-5, 5))
    high = low + random.randint(1, 40)
    step = (high - low) / random.randint(1, 50) if kind == "continuous" and random.random() < 0.7 else None
    centre = random.uniform(low, high) if random.random() < 0.5 else None
    scale = random.uniform(0.2, 1.0) * (high - low) if random.random() < 0.5 else None
    return Attribute(name, kind, low, high, step=step, centre=centre, scale=scale)


def random_answers(random: Random, schema: Schema) -> dict[str, object]:
    """Answers all over the bounds, ends included."""
    answers: dict[str, object] = {}
    for attribute in schema.attributes:
        low, high = attribute.bounds
        if attribute.kind == "categorical":
            answers[attribute.name] = random.choice(attribute.levels)
        elif attribute.kind == "continuous":
            answers[attribute.name] = random.choice([low, high, random.uniform(low, high)])
        else:
            answers[attribute.name] = random.randint(int(low), int(high))
    return answers


def random_layout(random: Random, schema: Schema, ball: bool) -> MomentsLayout | None:
    """A layout of the schema; with a ball somewhere between the least and the box, None where there is none."""
    box = MomentsLayout.of(schema)
    if not ball:
        return box
    for _ in range(20):
        try:
            return MomentsLayout.of(schema, float(box.radius_squared) ** 0.5 * random.uniform(0.3, 1))
        except ImpossibleStudy:
            continue
    return None


def over_supports_alone(layout: MomentsLayout, label: int) -> bool:
    """Whether each form's coefficients are zero outside its support, and constants and all below P."""
    form = forms(layout, a_challenge(layout, label))
    return all(0 <= value < P for row in (*form.coefficients, form.constants) for value in row) and all(
        {index for index, value in enumerate(row) if value} <= set(indices)
        for row, indices in zip(form.coefficients, supports(layout), strict=True)
    )


def a_challenge(layout: MomentsLayout, label: int = 0) -> Challenge:
    """One of many challenges of a layout."""
    key = challenge_key(STUDY, [label.to_bytes(32, "little"), bytes(32)])
    return derive_challenge(key, STUDY, label % 256, layout)


def check(layout: MomentsLayout, elements: Sequence[int], challenge: Challenge) -> str | None:
    """The verdict on a whole report."""
    return verdict(forms(layout, challenge).apply(elements, first=True))


def forged(layout: MomentsLayout, bits: Sequence[int], z: Sequence[int] | None = None) -> list[int]:
    """A report over any bits, with the best proof there is for them: z follows from the bits unless given.

    `z` are all columns of the proof: in a weighted study s and s z too.
    """
    if z is None:
        rows: list[int] = []
        for column in layout.proved:
            if column.factors is not None:
                rows.append(rows[column.factors[0]] * rows[column.factors[1]])
                continue
            held = bits[column.first_bit : column.first_bit + len(column.weights)]
            answer = sum(bit * weight for bit, weight in zip(held, column.weights, strict=True))
            rows.append((2 if column.shrinks else 1) * answer - column.offset)
        z = rows
    return _elements(bits, z, 123456789, 987654321, P)
