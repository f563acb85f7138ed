"""The settings of one question, its choices and rows: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from trimask_core.counting import Count, count_date, count_time
from trimask_core.relevance import Condition
from trimask_core.texts import Texts

__all__ = ["BOUNDED", "NUMBERS", "Choice", "GridRow", "Kind", "QuestionSettings", "Value"]

Kind = Literal[
    "number", "integer", "slider", "yes_no", "single_choice", "multiple_choice", "date", "time", "grid", "heading"
]  # fmt: skip
NUMBERS: tuple[Kind, ...] = ("number", "integer", "slider")
"""Kinds whose answer is a number."""
BOUNDED: tuple[Kind, ...] = (*NUMBERS, "date", "time")
"""Kinds that fill a number, and so have `minimum` and `maximum`."""
Value = bool | float | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer offered: the schema's level, and what a person reads. An exclusive one stands alone."""

    value: str
    label: Texts
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class GridRow:
    """One line of a grid: the attribute it fills, and what a person reads."""

    name: str
    label: Texts
    missing_indicator: str = ""


@dataclass(frozen=True)
class QuestionSettings:
    """What a question is. `minimum` and `maximum` limit the attribute's value (for a date or a time, the count)."""

    name: str
    kind: Kind
    label: Texts
    help: Texts | None = None
    unit: Texts | None = None
    required: bool = True
    relevant: Condition | None = None
    message: Texts | None = None
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[Choice, ...] = ()
    rows: tuple[GridRow, ...] = ()
    count: Count | None = None
    origin: str = ""
    earliest: str = ""
    latest: str = ""
    missing: bool | float | str | None = None
    missing_indicator: str = ""

    @property
    def may_be_missing(self) -> bool:
        """Whether a row can come without an answer to it."""
        return self.kind != "heading" and (not self.required or self.relevant is not None)

    def counted(self, value: str) -> float:
        """A checked date or time as the attribute's number."""
        if self.kind == "time":
            return count_time(value, self.count, self.origin)
        return count_date(date.fromisoformat(value), self.count, self.origin)
