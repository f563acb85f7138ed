"""Bins, thresholds and products with choices: columns, rows, the largest norm, and what is refused."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moments_cases import EFFECTS, random_answers, random_effects
from trimask.moments.identities import layout_identities, schema_identities
from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS: dict[str, Any] = json.loads((FOLDER / "schema-rows.json").read_text(encoding="utf-8"))
PERSON: dict[str, object] = {"hours": 3, "age": 22, "smoker": True, "region": "north", "sex": "f"}


def _values(schema: Schema, answers: dict[str, object]) -> dict[str, float]:
    """Every column in original units."""
    row = schema.encode(answers)
    return {c.name: c.center + c.half_range * x for c, x in zip(schema.columns, row, strict=True)}


def test_the_vectors_are_what_the_code_makes() -> None:
    assert runpy.run_path(str(FOLDER / "make_schema_vectors.py"))["vectors"]() == VECTORS


def test_the_vectors_tell_a_sum_that_is_rounded_once() -> None:
    """A client that adds squares from left to right gets other bits, and the vectors show it."""
    limit = float.fromhex(VECTORS["shortened_to"])
    rows = [one for case in VECTORS["cases"] for one in case["rows"]]
    differ = 0
    for one in rows:
        row = [float.fromhex(value) for value in one["row"]]
        total = 0.0
        for value in row:
            total += value * value
        differ += [(value * (limit / math.sqrt(total))).hex() for value in row] != one["shortened"]
    assert 0 < differ < len(rows)


def test_values_by_hand() -> None:
    found = _values(EFFECTS, PERSON)
    assert [found[f"age_group_{level}"] for level in ("young", "middle", "old")] == [0, 1, 0]
    assert found["long"] == 1
    # hours lie around 3, the middle of 0..6: within a level the value is what is above the middle
    assert [found[f"region_hours_{level}"] for level in ("north", "south", "west")] == [0, 0, 0]
    other = _values(EFFECTS, PERSON | {"hours": 1, "region": "west"})
    assert [other[f"region_hours_{level}"] for level in ("north", "south", "west")] == [0, 0, -2]
    assert (other["long"], other["long_hours"]) == (0, 0)
    assert [name for name, value in found.items() if name.startswith("three") and value] == [
        "three_middle_north_f"
    ]
    assert found["region_smoker_north"] == pytest.approx(0.5)  # 1 less the middle of 0 and 1


@pytest.mark.parametrize(("age", "at"), [(18, 0), (20, 0), (21, 1), (24, 1), (25, 2), (33, 2)])
def test_an_interval_begins_at_its_cut(age: int, at: int) -> None:
    found = _values(EFFECTS, PERSON | {"age": age})
    assert [found[f"age_group_{level}"] for level in ("young", "middle", "old")] == [
        k == at for k in range(3)
    ]


def test_names_of_intervals() -> None:
    made = Derived("x", "bins", ("y",), cuts=(-1.5, 0, 10))
    assert made.levels == ("below_m1_5", "m1_5_to_0", "0_to_10", "from_10")
    assert Schema.from_dict(EFFECTS.to_dict()) == EFFECTS


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_no_row_is_longer_than_the_largest_norm_says(seed: int) -> None:
    """Items of the schema add at most 1 each, however many columns they have; in the moments suite too, by whole numbers."""
    random = Random(seed)
    schema = random_effects(random)
    layout = MomentsLayout.of(schema)
    for _ in range(5):
        answers = random_answers(random, schema)
        row = schema.encode(answers)
        for item in (*schema.attributes, *schema.derived):
            part = [x for c, x in zip(schema.columns, row, strict=True) if c.source == item.name]
            assert sum(x * x for x in part) <= 1 + 1e-12
        assert math.fsum(x * x for x in row) <= schema.row_norm**2 * (1 + 1e-12)
        z = layout.encode(answers).z
        assert 1 + sum((v / c.width) ** 2 for v, c in zip(z, layout.columns, strict=True)) <= float(
            layout.radius_squared
        ) * (1 + 1e-12)


def test_the_largest_norm_is_reached() -> None:
    """So nothing is counted twice: 1 for `one`, and 1 an item."""
    schema = Schema(
        EFFECTS.attributes,
        tuple(d for d in EFFECTS.derived if d.name not in ("north_hours", "old_f")),
    )
    row = schema.encode({"hours": 6, "age": 33, "smoker": True, "region": "west", "sex": "f"})
    assert math.fsum(x * x for x in row) == pytest.approx(schema.row_norm**2)
    assert schema.row_norm**2 == pytest.approx(1 + len(schema.attributes) + len(schema.derived))


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_what_the_schema_knows_holds_for_every_row(seed: int) -> None:
    random = Random(seed)
    schema = random_effects(random)
    layout = MomentsLayout.of(schema)
    known, held = schema_identities(schema), layout_identities(layout)
    for _ in range(3):
        answers = random_answers(random, schema)
        row = np.array(schema.encode(answers))
        assert np.max(np.abs(known.values(np.outer(row, row)[None])[0] - known.ones), initial=0) < 1e-9
        z = np.array(
            [1.0, *(v / c.width for v, c in zip(layout.encode(answers).z, layout.columns, strict=True))]
        )
        assert np.max(np.abs(held.values(np.outer(z, z)[None])[0] - held.ones), initial=0) < 1e-9


def test_bins_and_a_threshold_of_one_number_know_each_other() -> None:
    """<old, bin> is the bin's count above the cut and 0 below it; all of that follows from the cuts."""
    schema = Schema(
        (Attribute("age", "integer", 0, 100),),
        (
            Derived("group", "bins", ("age",), cuts=(30, 60)),
            Derived("old", "threshold", ("age",), cuts=(60,)),
        ),
    )
    names = [column.name for column in schema.columns]
    identities = schema_identities(schema)

    def follows(weights: dict[tuple[str, str], float]) -> bool:
        wanted = np.zeros((len(names), len(names)))
        for (a, b), weight in weights.items():
            wanted[names.index(a), names.index(b)] += weight / 2
            wanted[names.index(b), names.index(a)] += weight / 2
        K = identities.K.toarray()
        return bool(
            np.linalg.matrix_rank(np.vstack([K, wanted.ravel()]), tol=1e-9) == np.linalg.matrix_rank(K)
        )

    # scaled to -1 and 1, old is -1 on everybody in the first bin
    assert follows({("old", "group_below_30"): 1, ("one", "group_below_30"): 1})
    assert follows({("old", "group_from_60"): 1, ("one", "group_from_60"): -1})
    assert not follows({("age", "group_from_60"): 1, ("one", "group_from_60"): -1})


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: str(case["derived"]))
def test_what_cannot_be_formed_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        Schema.from_dict({"attributes": VECTORS["attributes"], "derived": case["derived"]})
    assert caught.value.reason == case["reason"]
    assert any(item["name"] in str(caught.value) for item in case["derived"])
