"""The attributes a study asks for, and how answers become a row of numbers in [-1, 1].

Nothing nonlinear can be computed after masking, so squares, products, logarithms and intervals that an analysis will need
are declared here and formed on the device (`trimask_core.study.derived`). A categorical attribute becomes one indicator a
level (the whole group adds 1 to a row's squared norm); everything else is mapped from its declared bounds to [-1, 1].
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from trimask_core.basics.errors import AnswerError, ImpossibleStudy
from trimask_core.study.derived import ONES, Column, Derived, Part, check_name

AttributeKind = Literal["continuous", "integer", "binary", "categorical"]
_TRUE, _FALSE = {"yes", "true", "1"}, {"no", "false", "0"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """One thing a person is asked.

    `step`, `centre` and `scale` are for the moments suite: the grid of a continuous answer, and where and how wide
    answers are expected to lie. They are public and chosen before anything is collected.
    """

    name: str
    kind: AttributeKind
    minimum: float | None = None
    maximum: float | None = None
    levels: tuple[str, ...] = ()
    label: str = ""
    unit: str = ""
    step: float | None = None
    centre: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.kind not in get_args(AttributeKind):
            raise ImpossibleStudy(
                "bad_kind", f"{self.name}: kind must be one of {', '.join(get_args(AttributeKind))}"
            )
        if self.kind in ("binary", "categorical") and (self.minimum, self.maximum) != (None, None):
            raise ImpossibleStudy("bounds_unused", f"{self.name}: a {self.kind} attribute has no bounds")
        if self.kind != "categorical" and self.levels:
            raise ImpossibleStudy("bounds_unused", f"{self.name}: a {self.kind} attribute has no levels")
        if self.kind == "categorical":
            if len(self.levels) < 2 or len(set(self.levels)) != len(self.levels):
                raise ImpossibleStudy("bad_levels", f"{self.name}: give at least two different levels")
            for level in self.levels:
                if not re.fullmatch(r"[A-Za-z0-9_]+", level):
                    raise ImpossibleStudy(
                        "bad_levels", f"{self.name}: level {level!r} may have letters, digits and _ only"
                    )
        elif self.kind != "binary":
            if self.minimum is None or self.maximum is None:
                raise ImpossibleStudy(
                    "bounds_missing", f"{self.name}: give minimum and maximum; noise is calibrated to them"
                )
            if not (math.isfinite(self.minimum) and math.isfinite(self.maximum)):
                raise ImpossibleStudy("bounds_missing", f"{self.name}: minimum and maximum must be finite")
            if self.minimum >= self.maximum:
                raise ImpossibleStudy(
                    "bounds_reversed",
                    f"{self.name}: minimum {self.minimum:g} must be below maximum {self.maximum:g}",
                )
        self._check_grid()

    def _check_grid(self) -> None:
        for field, value in (("step", self.step), ("centre", self.centre), ("scale", self.scale)):
            if value is None:
                continue
            if self.kind not in (("continuous",) if field == "step" else ("continuous", "integer")):
                raise ImpossibleStudy(
                    "grid_unused", f"{self.name}: {self.kind} has no {field}; leave {field} out"
                )
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ImpossibleStudy("bad_grid", f"{self.name}: {field} must be a finite number")
            if field != "centre" and value <= 0:
                raise ImpossibleStudy("bad_grid", f"{self.name}: {field} must be above 0")
        low, high = self.bounds
        if self.centre is not None and not low <= self.centre <= high:
            raise ImpossibleStudy(
                "bad_grid", f"{self.name}: centre must be between its bounds, {low:g} and {high:g}"
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and greatest answer."""
        return (
            0.0 if self.minimum is None else self.minimum,
            1.0 if self.maximum is None else self.maximum,
        )

    def read(self, answer: object) -> float | str:
        """The answer as a number (or a level), or `AnswerError` naming this attribute. Never clipped."""
        if self.kind == "categorical":
            if answer not in self.levels:
                raise AnswerError(self.name, f"choose one of {', '.join(self.levels)}")
            return str(answer)
        if self.kind == "binary":
            word = str(answer).strip().lower()
            if answer is True or word in _TRUE or answer == 1:
                return 1.0
            if answer is False or word in _FALSE or answer == 0:
                return 0.0
            raise AnswerError(self.name, "answer yes or no")
        if isinstance(answer, bool) or not isinstance(answer, (numbers.Real, str)):
            raise AnswerError(self.name, "give a number")
        try:
            value = float(answer)
        except (ValueError, OverflowError):
            raise AnswerError(self.name, "give a number") from None
        if not math.isfinite(value):
            raise AnswerError(self.name, "give a finite number")
        low, high = self.bounds
        if not low <= value <= high:
            unit = f" {self.unit}" if self.unit else ""
            raise AnswerError(self.name, f"must be between {low:g} and {high:g}{unit}")
        if self.kind == "integer" and value != int(value):
            raise AnswerError(self.name, "give a whole number")
        return value


@dataclass(frozen=True)
class Schema:
    """Attributes, derived columns and the ones column (on by default: means and intercepts need it)."""

    attributes: tuple[Attribute, ...]
    derived: tuple[Derived, ...] = ()
    ones: bool = True

    def __post_init__(self) -> None:
        if not self.attributes:
            raise ImpossibleStudy("no_attributes", "a study needs at least one attribute")
        names = self._items
        columns = [column.name for column in self.columns]
        for group in (names, columns):
            twice = sorted({name for name in group if group.count(name) > 1})
            if twice:
                raise ImpossibleStudy("bad_name", f"{twice[0]} is named twice")
        for name in names:
            if name in columns and self.parts[name].columns[0].name != name:
                raise ImpossibleStudy("bad_name", f"{name} is named twice: a level has this name too")

    @property
    def _items(self) -> list[str]:
        """Attributes, then what is derived."""
        return [item.name for item in self.attributes] + [item.name for item in self.derived]

    @cached_property
    def parts(self) -> dict[str, Part]:
        """What can be a factor, by name: attributes, single levels, and derived columns; in the order of the row."""
        found: dict[str, Part] = {}
        for attribute in self.attributes:
            if attribute.kind == "categorical":
                found[attribute.name] = Part.of_choice(attribute.name, attribute.levels)
            else:
                found[attribute.name] = Part.of_number(attribute.name, attribute.bounds)
        for attribute in self.attributes:
            if attribute.kind == "categorical":
                found |= found[attribute.name].singles()
        kinds = {attribute.name: attribute.kind for attribute in self.attributes}
        for derived in self.derived:
            for name in derived.of:
                if name not in found:
                    raise ImpossibleStudy(
                        "bad_derived",
                        f"{derived.name}: {name} is not an attribute of this study, a level, or derived before it",
                    )
                if derived.kind != "product" and (
                    kinds.get(name, "categorical") == "categorical"
                    or (derived.cuts and kinds[name] == "binary")
                ):
                    raise ImpossibleStudy(
                        "bad_derived", f"{derived.name}: {name} is not a numeric attribute of this study"
                    )
            found[derived.name] = derived.part([found[name] for name in derived.of])
            if derived.kind == "bins":
                found |= found[derived.name].singles()
        return found

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The p1 columns, in the order of the row."""
        parts = self.parts
        columns = [Column(ONES, source=ONES)] if self.ones else []
        for name in self._items:
            columns += parts[name].columns
        return tuple(columns)

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Everything of which a person has exactly one: choices, bins and products of those, each with its levels.

        The column of a level is `f"{group}_{level}"`.
        """
        named = [(name, self.parts[name]) for name in self._items]
        return {name: part.levels for name, part in named if part.kind == "choice" and part.complete}

    @property
    def row_norm(self) -> float:
        """The largest norm a row can have: 1 for the ones column, each attribute and each derived item.

        Of the columns of a choice, of bins and of a product with either one at most is not 0, and none is above 1.
        """
        return math.sqrt(self.ones + len(self.attributes) + len(self.derived))

    def read(self, answers: Mapping[str, object]) -> dict[str, float | str]:
        """Each attribute's number or level. Missing, unknown, mistyped and out-of-bounds answers raise `AnswerError`."""
        unknown = sorted(set(answers) - {attribute.name for attribute in self.attributes})
        if unknown:
            raise AnswerError(unknown[0], "is not asked by this study")
        values: dict[str, float | str] = {}
        for attribute in self.attributes:
            if attribute.name not in answers or answers[attribute.name] is None:
                raise AnswerError(attribute.name, "an answer is needed")
            values[attribute.name] = attribute.read(answers[attribute.name])
        return values

    def encode(self, answers: Mapping[str, object]) -> list[float]:
        """The row x1, scaled; answers are refused as by `read`."""
        values = self.read(answers)
        parts = self.parts
        row = [1.0] if self.ones else []
        # In original units: a number's value, or an indicator a level.
        formed: dict[str, list[float]] = {}
        for attribute in self.attributes:
            value = values[attribute.name]
            if isinstance(value, str):
                formed[attribute.name] = [float(level == value) for level in attribute.levels]
                for level, indicator in zip(attribute.levels, formed[attribute.name], strict=True):
                    formed[f"{attribute.name}_{level}"] = [indicator]
                row += formed[attribute.name]
            else:
                formed[attribute.name] = [value]
                row.append(parts[attribute.name].columns[0].scale(value))
        for derived in self.derived:
            made, scaled = derived.form(
                parts[derived.name],
                [parts[name] for name in derived.of],
                [formed[name] for name in derived.of],
            )
            formed[derived.name] = made
            for column, value in zip(parts[derived.name].columns, made, strict=True):
                formed.setdefault(column.name, [value])
            row += scaled
        return row

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "attributes": [_attribute_dict(attribute) for attribute in self.attributes],
            "derived": [derived.to_dict() for derived in self.derived],
            "ones": self.ones,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Read what `to_dict` wrote, or a study definition's [[attributes]] and [[derived]]."""
        return cls(
            attributes=tuple(
                Attribute(**{**item, "levels": tuple(item.get("levels", ()))}) for item in data["attributes"]
            ),
            derived=tuple(
                Derived(**{**item, **{key: tuple(item.get(key, ())) for key in ("of", "cuts", "levels")}})
                for item in data.get("derived", ())
            ),
            ones=data.get("ones", True),
        )


def _attribute_dict(attribute: Attribute) -> dict[str, Any]:
    data: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind}
    if attribute.kind == "categorical":
        data["levels"] = list(attribute.levels)
    elif attribute.kind != "binary":
        data |= {"minimum": float(attribute.bounds[0]), "maximum": float(attribute.bounds[1])}
        grid = {"step": attribute.step, "centre": attribute.centre, "scale": attribute.scale}
        data |= {field: float(value) for field, value in grid.items() if value is not None}
    return data | {"label": attribute.label, "unit": attribute.unit}
