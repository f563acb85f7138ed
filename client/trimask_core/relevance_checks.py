"""Checks that a condition fits the questions it compares."""

from __future__ import annotations

from collections.abc import Mapping

from trimask_core.counting import is_date, is_time
from trimask_core.errors import StudyError
from trimask_core.question import Question

__all__ = ["check_relevant"]


def check_relevant(question: Question, earlier: Mapping[str, Question]) -> None:
    """Raise `StudyError` unless its condition compares earlier questions with values they can have."""
    if question.relevant is None:
        return
    where = f"form.questions.{question.name}.relevant"
    for comparison in question.relevant.comparisons:
        other = earlier.get(comparison.name)
        if other is None:
            raise StudyError(f"{where}: {comparison.name} is not an earlier question")
        op, value = comparison.op, comparison.value
        if other.kind == "multiple_choice":
            wanted = 'NAME has "VALUE", with one of its choices'
            fits = op == "has" and value in [choice.value for choice in other.choices]
        elif other.kind == "single_choice":
            wanted = '= or != "VALUE", with one of its choices'
            fits = op in ("=", "!=") and value in [choice.value for choice in other.choices]
        elif other.kind == "yes_no":
            wanted = "= or != yes or no"
            fits = op in ("=", "!=") and isinstance(value, bool)
        elif other.kind == "date":
            wanted = 'a date such as "1970-01-01"'
            fits = op != "has" and isinstance(value, str) and is_date(value)
        elif other.kind == "time":
            wanted = 'a time such as "22:30" (later in the same day is more)'
            fits = op != "has" and isinstance(value, str) and is_time(value)
        else:
            wanted = "a number"
            fits = op != "has" and isinstance(value, (int, float)) and not isinstance(value, bool)
        if not fits:
            raise StudyError(f"{where}: compare {comparison.name} with {wanted}")
