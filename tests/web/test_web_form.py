"""The form in JavaScript: random forms and responses written by Python come out the same, to the word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trimask_form_cases import form_case
from trimask_web import run_node

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("first", "forms"), [(0, 60), pytest.param(1000, 500, marks=pytest.mark.slow)], ids=["some", "500"]
)
def test_the_same_answers_as_in_python(tmp_path: Path, first: int, forms: int) -> None:
    cases = [{"seed": seed, **form_case(seed)} for seed in range(first, first + forms)]
    good = sum("value" in person["answers"] for case in cases for person in case["people"])
    assert forms < good < 3 * forms, "about half of the people give answers that can be sent"
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases))
    found = json.loads(run_node(HERE / "form_vectors.js", path))
    assert found["count"] == 0
    assert found["compared"] == 4 * 9 * forms
