"""Skip logic: what a condition means, and that nothing but a condition is read."""

from __future__ import annotations

import pytest

from trimask_core.basics.errors import StudyError
from trimask_core.form.skip_logic import Condition

VALUES = {"age": 30.0, "smoker": True, "region": "south", "signs": ("cough", "fever"), "born": "1990-02-01"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("age >= 30", True),
        ("age > 30", False),
        ("age < 30.5", True),
        ("age <= -1", False),
        ("smoker = yes", True),
        ("smoker != true", False),
        ('region = "south"', True),
        ("region != 'south'", False),
        ("signs has 'fever'", True),
        ("signs has 'rash'", False),
        ('born < "1990-03-01"', True),
        ('born >= "1990-03-01"', False),
        ("smoker = no or age = 30 and region = 'south'", True),
        ("(smoker = no or age = 30) and region = 'north'", False),
        ("not smoker = no", True),
        ("not (smoker = yes and age = 30)", False),
        ("not not smoker = yes", True),
        ("unanswered = 1", False),
        ("unanswered != 1", False),  # nothing is known about it, in either direction
        ("not unanswered = 1", True),
    ],
)
def test_what_holds(text: str, holds: bool) -> None:
    assert Condition.parse(text, "here").holds(VALUES) is holds


@pytest.mark.parametrize(
    "text",
    [
        "", "age", "age =", "= 3", "age = other", "age = 3 4", "(age = 3", "age = 3)", "age == 3", "age = 3 and",
        "and = 3", "age in (1, 2)", "__import__('os').system('x')", "age + 1 = 3", "age = 3; smoker = yes",
        "count(age) = 1", "not", "age = 'open", "age has", "x" * 1001, "not " * 30 + "age = 3",
        "(" * 30 + "age = 3" + ")" * 30,
    ],
)  # fmt: skip
def test_what_is_not_a_condition_is_refused_by_its_place(text: str) -> None:
    with pytest.raises(StudyError, match=r"^form\.questions\.q\.relevant"):
        Condition.parse(text, "form.questions.q.relevant")


def test_every_comparison_can_be_checked() -> None:
    condition = Condition.parse("not (age > 3 or signs has 'cough') and smoker = no", "here")
    assert [(c.name, c.op, c.value) for c in condition.comparisons] == [
        ("age", ">", 3.0),
        ("signs", "has", "cough"),
        ("smoker", "=", False),
    ]
