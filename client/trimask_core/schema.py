"""The attributes a study asks for, and how answers become a row of numbers in [-1, 1].

Nothing nonlinear can be computed after masking, so squares, products and logarithms that an analysis will need are
declared here and formed on the device. A categorical attribute becomes one indicator a level (the whole group adds
1 to a row's squared norm); everything else is mapped from its declared bounds to [-1, 1].
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trimask_core.errors import AnswerError, ImpossibleStudy

__all__ = ["ONES", "Attribute", "AttributeKind", "Column", "Derived", "DerivedKind", "Schema"]

AttributeKind = Literal["continuous", "integer", "binary", "categorical"]
DerivedKind = Literal["square", "product", "log"]
ONES = "one"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_TRUE, _FALSE = {"yes", "true", "1"}, {"no", "false", "0"}


def _name(name: str) -> str:
    if not _NAME.fullmatch(name) or name == ONES:
        raise ImpossibleStudy(
            "bad_name",
            f"{name!r} cannot name an attribute: use a letter, then letters, digits and _, and not {ONES!r}",
        )
    return name


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
        _name(self.name)
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


@dataclass(frozen=True, slots=True)
class Derived:
    """A column formed on the device from answers: the square, the product, or the logarithm."""

    name: str
    kind: DerivedKind
    of: tuple[str, ...]

    def __post_init__(self) -> None:
        _name(self.name)
        if self.kind not in get_args(DerivedKind):
            raise ImpossibleStudy(
                "bad_kind", f"{self.name}: kind must be one of {', '.join(get_args(DerivedKind))}"
            )
        if len(self.of) != (2 if self.kind == "product" else 1):
            raise ImpossibleStudy(
                "bad_derived",
                f"{self.name}: a {self.kind} is of {'two' if self.kind == 'product' else 'one'}",
            )

    def bounds(self, sources: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """The least and greatest value, from the bounds of what it is formed from."""
        if self.kind == "log":
            low, high = sources[0]
            if low <= 0:
                raise ImpossibleStudy(
                    "bad_derived", f"{self.name}: a logarithm needs an attribute with minimum > 0"
                )
            return math.log(low), math.log(high)
        if self.kind == "square":
            low, high = sources[0]
            return (0.0 if low <= 0 <= high else min(low * low, high * high)), max(low * low, high * high)
        corners = [a * b for a in sources[0] for b in sources[1]]
        return min(corners), max(corners)

    def form(self, values: Sequence[float]) -> float:
        """The derived value."""
        if self.kind == "log":
            return math.log(values[0])
        return values[0] * values[-1]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the row: scaled = (value - center) / half_range."""

    name: str
    center: float = 0.0
    half_range: float = 1.0
    source: str = ""
    level: str | None = None

    def scale(self, value: float) -> float:
        """The value mapped to [-1, 1]; the clamp only removes a last-bit overshoot of the division."""
        return min(1.0, max(-1.0, (value - self.center) / self.half_range))


@dataclass(frozen=True)
class Schema:
    """Attributes, derived columns and the ones column (on by default: means and intercepts need it)."""

    attributes: tuple[Attribute, ...]
    derived: tuple[Derived, ...] = ()
    ones: bool = True

    def __post_init__(self) -> None:
        if not self.attributes:
            raise ImpossibleStudy("no_attributes", "a study needs at least one attribute")
        names = [attribute.name for attribute in self.attributes] + [derived.name for derived in self.derived]
        columns = [column.name for column in self.columns]
        for group in (names, columns):
            twice = sorted({name for name in group if group.count(name) > 1})
            if twice:
                raise ImpossibleStudy("bad_name", f"{twice[0]} is named twice")

    def _numeric_bounds(self, name: str, wanted_by: str) -> tuple[float, float]:
        for attribute in self.attributes:
            if attribute.name == name and attribute.kind != "categorical":
                return attribute.bounds
        raise ImpossibleStudy("bad_derived", f"{wanted_by}: {name} is not a numeric attribute of this study")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The p1 columns, in the order of the row."""
        columns = [Column(ONES, source=ONES)] if self.ones else []
        for attribute in self.attributes:
            if attribute.kind == "categorical":
                columns += [
                    Column(f"{attribute.name}_{level}", source=attribute.name, level=level)
                    for level in attribute.levels
                ]
            else:
                columns.append(_scaled(attribute.name, *attribute.bounds))
        for derived in self.derived:
            low, high = derived.bounds([self._numeric_bounds(name, derived.name) for name in derived.of])
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ImpossibleStudy(
                    "bad_derived", f"{derived.name}: its bounds are not finite or not apart"
                )
            columns.append(_scaled(derived.name, low, high))
        return tuple(columns)

    @property
    def row_norm(self) -> float:
        """The largest norm a row can have: 1 for the ones column, each scaled value and each one-hot group."""
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
        row = [1.0] if self.ones else []
        numbers: dict[str, float] = {}
        for attribute in self.attributes:
            value = values[attribute.name]
            if isinstance(value, str):
                row += [float(level == value) for level in attribute.levels]
            else:
                numbers[attribute.name] = value
                row.append(_scaled(attribute.name, *attribute.bounds).scale(value))
        for derived in self.derived:
            low, high = derived.bounds([self._numeric_bounds(name, derived.name) for name in derived.of])
            value = min(max(derived.form([numbers[name] for name in derived.of]), low), high)
            row.append(_scaled(derived.name, low, high).scale(value))
        return row

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "attributes": [_attribute_dict(attribute) for attribute in self.attributes],
            "derived": [{"name": d.name, "kind": d.kind, "of": list(d.of)} for d in self.derived],
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
                Derived(item["name"], item["kind"], tuple(item["of"])) for item in data.get("derived", ())
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


def _scaled(name: str, low: float, high: float) -> Column:
    return Column(name, (low + high) / 2, (high - low) / 2, source=name)
