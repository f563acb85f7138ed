"""One question of a form as it is written: its settings, in the languages of the form. What they mean, `kinds` says."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from trimask_core.form.parse_input import Count
from trimask_core.form.skip_logic import Condition
from trimask_core.form.texts import Texts


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
    """`minimum` and `maximum` limit the attribute's value (for a date or a time, the count)."""

    name: str
    kind: str
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

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form; settings at their defaults are left out."""
        return _plain(self)


SETTINGS = tuple(
    item.name
    for item in fields(QuestionSettings)
    if item.name not in ("name", "kind", "label", "help", "required", "relevant")
)
"""Those that a kind may have or not; every question has the others."""


def _plain(item: QuestionSettings | Choice | GridRow) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for setting in fields(item):
        value = getattr(item, setting.name)
        if value == setting.default:
            continue
        if isinstance(value, Texts):
            value = value.to_dict()
        elif isinstance(value, Condition):
            value = value.text
        elif setting.name in ("choices", "rows"):
            value = [_plain(one) for one in value]
        data[setting.name] = value
    return data
