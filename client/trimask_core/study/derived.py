"""Columns that the device computes from answers: squares, logarithms, intervals of a number, and products.

kind        of                          columns
square      a number                    one
log         a number above 0            one
threshold   a number, one cut           one: 1 from the cut on, 0 below it
bins        a number, cuts              an indicator an interval: below the first cut, from each cut on to the next
product     two of: numbers, choices    number x number: one, the product of the values
            (a categorical attribute,   choice x choice: an indicator a pair of levels
            one level of it, bins, or   choice x number: the scaled number on the members of a level and 0 elsewhere,
            a product of those)         a column a level

A factor of a product is an attribute, a level (`region_north`), or derived before it; so three-way products are products of
a product. Of the columns of bins, and of a product with a choice, a person has one that is not 0: whatever their number,
they add 1 to the largest squared norm of a row.

The natural logarithm is the same to the last bit on every machine and in every language, because it enters a row, and a
browser must make the row that a phone would. The C library's log differs
between machines in the last bit, so it is not used there: log(2^e m) = e log 2 + 2 atanh f, f = (m - 1)/(m + 1), by
additions, multiplications, divisions and frexp alone, which IEEE 754 defines. Within four units in the last place.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trimask_core.basics.errors import ImpossibleStudy

# log 2 in two parts: 33 bits, so that a whole multiple of it is exact, and the rest.
_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_SQRT_HALF = math.sqrt(0.5)
# 2 atanh f = 2 f (1 + f^2/3 + f^4/5 + ...), |f| <= 0.172 for m in [sqrt 1/2, sqrt 2): 12 terms are 1e-20.
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(12))


def natural_log(value: float) -> float:
    """log of a value above 0."""
    mantissa, exponent = math.frexp(value)
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    f = (mantissa - 1.0) / (mantissa + 1.0)
    x = f * f
    t = _ATANH[11]
    for coefficient in _ATANH[10::-1]:
        t = t * x + coefficient
    return exponent * _HIGH + (2.0 * f * t + exponent * _LOW)


DerivedKind = Literal["square", "product", "log", "bins", "threshold"]
PartKind = Literal["number", "choice", "within"]
ONES = "one"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


def check_name(name: str) -> None:
    """Refuse what cannot name an attribute or a derived column."""
    if not _NAME.fullmatch(name) or name == ONES:
        raise ImpossibleStudy(
            "bad_name",
            f"{name!r} cannot name an attribute: use a letter, then letters, digits and _, and not {ONES!r}",
        )


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the row: scaled = (value - center) / half_range.

    `level` is that of an indicator. A column `within` an indicator is a number on its members and 0 elsewhere; its value
    is (number - middle) there, so that being no member is the scaled 0.
    """

    name: str
    center: float = 0.0
    half_range: float = 1.0
    source: str = ""
    level: str | None = None
    within: str | None = None
    middle: float = 0.0

    @property
    def exclusive(self) -> bool:
        """Whether at most one column of this one's source is not 0."""
        return self.level is not None or self.within is not None

    def scale(self, value: float) -> float:
        """The value mapped to [-1, 1]; the clamp only removes a last-bit overshoot of the division."""
        return min(1.0, max(-1.0, (value - self.center) / self.half_range))


@dataclass(frozen=True, slots=True)
class Part:
    """What an item of the schema is as a factor.

    A number, a choice (indicators of which one at most is 1), or a number within a choice, which is no factor.

    `levels` are a choice's, in the order of `columns`; `complete` if one of them is always chosen; `made_of` are the
    attributes and bins it is formed of; `bounds` are a number's least and greatest value.
    """

    kind: PartKind
    columns: tuple[Column, ...]
    levels: tuple[str, ...] = ()
    complete: bool = False
    made_of: tuple[str, ...] = ()
    bounds: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of_number(cls, name: str, bounds: tuple[float, float], *made_of: str) -> Part:
        """That of a number between its bounds."""
        low, high = bounds
        column = Column(name, (low + high) / 2, (high - low) / 2, source=name)
        return cls("number", (column,), made_of=made_of or (name,), bounds=bounds)

    @classmethod
    def of_choice(cls, name: str, levels: tuple[str, ...]) -> Part:
        """That of a choice with all its levels."""
        columns = tuple(Column(f"{name}_{level}", source=name, level=level) for level in levels)
        return cls("choice", columns, levels, complete=True, made_of=(name,))

    def singles(self) -> dict[str, Part]:
        """Each level of a choice alone, by the name of its column."""
        return {
            column.name: Part("choice", (column,), ("",), made_of=self.made_of) for column in self.columns
        }


@dataclass(frozen=True, slots=True)
class Derived:
    """A column, or a group of columns, formed on the device from answers."""

    name: str
    kind: DerivedKind
    of: tuple[str, ...]
    cuts: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.kind not in get_args(DerivedKind):
            raise ImpossibleStudy(
                "bad_kind", f"{self.name}: kind must be one of {', '.join(get_args(DerivedKind))}"
            )
        if len(self.of) != (2 if self.kind == "product" else 1):
            raise ImpossibleStudy(
                "bad_derived",
                f"{self.name}: a {self.kind} is of {'two' if self.kind == 'product' else 'one'}",
            )
        self._check_cuts()
        if self.kind == "bins" and not self.levels:
            object.__setattr__(self, "levels", _interval_names(self.cuts))
        if self.kind == "bins" and not (
            len(set(self.levels)) == len(self.levels) == len(self.cuts) + 1
            and all(re.fullmatch(r"[A-Za-z0-9_]+", level) for level in self.levels)
        ):
            raise ImpossibleStudy(
                "bad_levels",
                f"{self.name}: give {len(self.cuts) + 1} different levels for {len(self.cuts)} cuts, of letters, digits "
                "and _, or none",
            )

    def _check_cuts(self) -> None:
        if self.kind not in ("bins", "threshold"):
            if self.cuts or self.levels:
                raise ImpossibleStudy("bad_derived", f"{self.name}: a {self.kind} has no cuts and no levels")
            return
        if self.kind == "threshold" and (len(self.cuts) != 1 or self.levels):
            raise ImpossibleStudy("bad_derived", f"{self.name}: a threshold has one cut and no levels")
        numbers = all(isinstance(c, (int, float)) and not isinstance(c, bool) for c in self.cuts)
        if not self.cuts or not numbers or not all(map(math.isfinite, self.cuts)):
            raise ImpossibleStudy("bad_derived", f"{self.name}: give cuts, finite numbers")
        if any(a >= b for a, b in itertools.pairwise(self.cuts)):
            raise ImpossibleStudy("bad_derived", f"{self.name}: cuts must go up")

    def part(self, sources: Sequence[Part]) -> Part:
        """Its columns, from those of what it is formed of; refused where it cannot be formed."""
        if self.cuts:
            low, high = sources[0].bounds
            if not low < self.cuts[0] or not self.cuts[-1] <= high:
                raise ImpossibleStudy(
                    "bad_derived", f"{self.name}: cuts must be above {low:g} and at most {high:g}"
                )
        if self.kind == "bins":
            return Part.of_choice(self.name, self.levels)
        if self.kind == "threshold":
            return Part.of_number(self.name, (0.0, 1.0))
        if self.kind == "product":
            return self._product(*sources)
        return self._number(sources)

    def _number(self, sources: Sequence[Part]) -> Part:
        low, high = self.bounds([source.bounds for source in sources])
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ImpossibleStudy("bad_derived", f"{self.name}: its bounds are not finite or not apart")
        made_of = tuple(name for source in sources for name in source.made_of)
        return Part.of_number(self.name, (low, high), *made_of)

    def _product(self, first: Part, second: Part) -> Part:
        if "within" in (first.kind, second.kind):
            raise ImpossibleStudy(
                "bad_derived",
                f"{self.name}: a number within a choice is no factor; declare the product of the choices, or that of the "
                "numbers, first, and then the product of the two",
            )
        if first.kind == second.kind == "number":
            return self._number((first, second))
        made_of = (*first.made_of, *second.made_of)
        if first.kind == second.kind == "choice":
            if set(first.made_of) & set(second.made_of):
                raise ImpossibleStudy(
                    "bad_derived",
                    f"{self.name}: levels of one choice exclude each other; their product is known",
                )
            levels = tuple("_".join(filter(None, (a, b))) for a in first.levels for b in second.levels)
            columns = tuple(
                Column(self._column(level), source=self.name, level=level or "yes") for level in levels
            )
            return Part("choice", columns, levels, first.complete and second.complete, made_of)
        choice, number = (first, second) if first.kind == "choice" else (second, first)
        (held,) = number.columns
        columns = tuple(
            Column(
                self._column(level), 0.0, held.half_range, source=self.name,
                within=indicator.name, middle=held.center,
            )
            for level, indicator in zip(choice.levels, choice.columns, strict=True)
        )  # fmt: skip
        return Part("within", columns, choice.levels, choice.complete, made_of)

    def _column(self, level: str) -> str:
        return f"{self.name}_{level}" if level else self.name

    def bounds(self, sources: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """The least and greatest value of a number, from the bounds of what it is formed from."""
        if self.kind == "log":
            low, high = sources[0]
            if low <= 0:
                raise ImpossibleStudy(
                    "bad_derived", f"{self.name}: a logarithm needs an attribute with minimum > 0"
                )
            return natural_log(low), natural_log(high)
        if self.kind == "square":
            low, high = sources[0]
            return (0.0 if low <= 0 <= high else min(low * low, high * high)), max(low * low, high * high)
        corners = [a * b for a in sources[0] for b in sources[1]]
        return min(corners), max(corners)

    def interval(self, value: float) -> int:
        """Which interval of the cuts a value is in: how many cuts it has reached."""
        return sum(value >= cut for cut in self.cuts)

    def form(
        self, part: Part, sources: Sequence[Part], values: Sequence[Sequence[float]]
    ) -> tuple[list[float], list[float]]:
        """The values of its columns in original units, and scaled, from those of what it is formed of."""
        if self.cuts:
            at = self.interval(values[0][0])
            if self.kind == "bins":
                made = [float(place == at) for place in range(len(self.levels))]
                return made, made
            return [float(at)], [part.columns[0].scale(float(at))]
        if part.kind == "choice":
            made = [a * b for a in values[0] for b in values[1]]
            return made, made
        if part.kind == "within":
            chosen, number = (0, 1) if sources[0].kind == "choice" else (1, 0)
            (held,), (value,) = sources[number].columns, values[number]
            return (
                [value - held.center if indicator else 0.0 for indicator in values[chosen]],
                [held.scale(value) if indicator else 0.0 for indicator in values[chosen]],
            )
        low, high = part.bounds
        made_one = natural_log(values[0][0]) if self.kind == "log" else values[0][0] * values[-1][0]
        value = min(max(made_one, low), high)
        return [value], [part.columns[0].scale(value)]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        data: dict[str, Any] = {"name": self.name, "kind": self.kind, "of": list(self.of)}
        if self.cuts:
            data["cuts"] = [float(cut) for cut in self.cuts]
        if self.levels:
            data["levels"] = list(self.levels)
        return data


def _interval_names(cuts: Sequence[float]) -> tuple[str, ...]:
    """below_40, 40_to_65, from_65."""
    words = [f"{cut:.12g}".replace("-", "m").replace(".", "_").replace("+", "") for cut in cuts]
    between = [f"{a}_to_{b}" for a, b in itertools.pairwise(words)]
    return (f"below_{words[0]}", *between, f"from_{words[-1]}") if words else ()
