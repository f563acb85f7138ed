"""Writes schema-rows.json: `python tests/vectors/make_schema_vectors.py`.

For clients in other languages: schemas with every kind of derived column, the columns they become, the largest norm of a
row, and answers with the scaled row that the rows suite begins with, and the same brought to a smaller norm. Floating
point numbers are hexadecimal, exact.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.rows.payloads import shorten_row
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

FOLDER = Path(__file__).parent
SHORTENED_TO = 1.1  # every row here is longer
AGE = Attribute("age", "integer", 18, 90)
DOSE = Attribute("dose", "continuous", 0.5, 7.3)
SMOKER = Attribute("smoker", "binary")
REGION = Attribute("region", "categorical", levels=("north", "south", "west"))
SEX = Attribute("sex", "categorical", levels=("m", "f"))
ALL = (AGE, DOSE, SMOKER, REGION, SEX)
SCHEMAS: list[tuple[str, Schema]] = [
    ("attributes alone", Schema(ALL)),
    ("squares, logarithms, products of numbers", Schema(ALL, (
        Derived("age2", "square", ("age",)), Derived("log_dose", "log", ("dose",)),
        Derived("age_dose", "product", ("age", "dose")), Derived("age2_dose", "product", ("age2", "dose")),
        Derived("log_age", "product", ("log_dose", "age")),
    ))),
    ("bins and thresholds", Schema(ALL, (
        Derived("age_group", "bins", ("age",), cuts=(40, 65)),
        Derived("dose_group", "bins", ("dose",), cuts=(1.5, 2, 5.25), levels=("least", "less", "more", "most")),
        Derived("old", "threshold", ("age",), cuts=(65,)),
    ))),
    ("products with choices", Schema(ALL, (
        Derived("region_age", "product", ("region", "age")), Derived("dose_sex", "product", ("dose", "sex")),
        Derived("region_sex", "product", ("region", "sex")), Derived("north_dose", "product", ("region_north", "dose")),
        Derived("south_f", "product", ("region_south", "sex_f")), Derived("region_smoker", "product", ("region", "smoker")),
    ))),
    ("three-way products, products with bins", Schema(ALL, (
        Derived("age_group", "bins", ("age",), cuts=(40, 65)), Derived("old", "threshold", ("age",), cuts=(65,)),
        Derived("region_sex", "product", ("region", "sex")), Derived("age_dose", "product", ("age", "dose")),
        Derived("region_sex_age", "product", ("region_sex", "age")),
        Derived("sex_age_dose", "product", ("sex", "age_dose")),
        Derived("age_group_dose", "product", ("age_group", "dose")),
        Derived("group_region_sex", "product", ("age_group", "region_sex")),
        Derived("old_dose", "product", ("old", "dose")), Derived("sex_old", "product", ("sex", "old")),
    ), ones=False)),
]  # fmt: skip
ANSWERS: list[dict[str, Any]] = [
    {"age": 18, "dose": 0.5, "smoker": False, "region": "north", "sex": "m"},
    {"age": 40, "dose": 2.0, "smoker": True, "region": "south", "sex": "f"},
    {"age": 64, "dose": 5.24, "smoker": True, "region": "west", "sex": "f"},
    {"age": 65, "dose": 5.25, "smoker": False, "region": "north", "sex": "f"},
    {"age": 90, "dose": 7.3, "smoker": True, "region": "west", "sex": "m"},
]
REFUSED: list[list[dict[str, Any]]] = [
    [{"name": "d", "kind": "bins", "of": ["age"]}],
    [{"name": "d", "kind": "bins", "of": ["age"], "cuts": [65, 40]}],
    [{"name": "d", "kind": "bins", "of": ["age"], "cuts": [18]}],
    [{"name": "d", "kind": "bins", "of": ["age"], "cuts": [40, 91]}],
    [{"name": "d", "kind": "bins", "of": ["age"], "cuts": [40], "levels": ["a"]}],
    [{"name": "d", "kind": "bins", "of": ["smoker"], "cuts": [1]}],
    [{"name": "d", "kind": "bins", "of": ["region"], "cuts": [1]}],
    [{"name": "d", "kind": "threshold", "of": ["age"], "cuts": [40, 65]}],
    [{"name": "d", "kind": "product", "of": ["age"]}],
    [{"name": "d", "kind": "product", "of": ["age", "later"]}],
    [{"name": "d", "kind": "product", "of": ["region", "region"]}],
    [{"name": "d", "kind": "product", "of": ["region_north", "region"]}],
    [{"name": "d", "kind": "square", "of": ["region_north"]}],
    [{"name": "d", "kind": "product", "of": ["age", "dose"], "cuts": [1]}],
    [{"name": "region_north", "kind": "bins", "of": ["age"], "cuts": [40]}],
    [
        {"name": "d", "kind": "product", "of": ["region", "age"]},
        {"name": "e", "kind": "product", "of": ["d", "dose"]},
    ],
]


def _hex(value: object) -> object:
    return value.hex() if isinstance(value, float) else value


def vectors() -> dict[str, Any]:
    """All of it."""
    cases = [
        {
            "name": name,
            "schema": schema.to_dict(),
            "columns": [
                {key: _hex(value) for key, value in asdict(column).items()} for column in schema.columns
            ],
            "row_norm": schema.row_norm.hex(),
            "groups": {group: list(levels) for group, levels in schema.groups.items()},
            "rows": [
                {
                    "answers": answers,
                    "row": [value.hex() for value in schema.encode(answers)],
                    "shortened": [value.hex() for value in shorten_row(schema.encode(answers), SHORTENED_TO)],
                }
                for answers in ANSWERS
            ],
        }
        for name, schema in SCHEMAS
    ]
    attributes = Schema(ALL).to_dict()["attributes"]
    refused = []
    for derived in REFUSED:
        try:
            Schema.from_dict({"attributes": attributes, "derived": derived})
        except ImpossibleStudy as error:
            refused.append({"derived": derived, "reason": error.reason})
    assert len(refused) == len(REFUSED)
    return {
        "what": "Schemas, columns, rows of the rows suite before noise, also shortened; derived columns that are refused.",
        "source": "tests/vectors/make_schema_vectors.py",
        "shortened_to": SHORTENED_TO.hex(),
        "cases": cases,
        "attributes": attributes,
        "refused": refused,
    }


if __name__ == "__main__":
    (FOLDER / "schema-rows.json").write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
