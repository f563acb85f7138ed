"""Survey weights that devices apply: a row counts w / w_max times, so that second moments are weighted ones.

A device multiplies its row, the constant with it, by the root of w / w_max before it is rounded and masked (rows), or
proves that it multiplied every column by one whole number s of 0..S, so that products are s^2 / S^2 of themselves
(moments). No row becomes longer by it: sensitivity stays what it is. The statement and its proof are in
docs/theory/collection.md#weights.

w is the answer to a numeric attribute, between its bounds, or stands in a table by the levels of a choice or of bins.
No numpy: a phone does this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimask_core.basics.errors import ImpossibleStudy, StudyError
from trimask_core.study.schema import Attribute, Schema

LARGEST_RATIO = 10_000.0
"""Nobody counts more times as much as another: beyond it a release is about a few people."""
MOST_STEPS = 1024
"""S at most: the root of the largest weight in whole steps, of the moments suite."""


@dataclass(frozen=True)
class Weight:
    """The weight of a person: the answer to `attribute`, or `weights` by its levels, in their order.

    `steps` is S in the moments suite, where roots of weights are whole numbers of 1..S; 0 in the rows suite.
    """

    attribute: str
    weights: tuple[float, ...] = ()
    steps: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str):
            raise StudyError("weight: attribute must be text")
        if isinstance(self.steps, bool) or not isinstance(self.steps, int):
            raise StudyError("weight: steps must be a whole number")
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in self.weights):
            raise StudyError("weight: weights must be numbers")
        if not all(math.isfinite(value) and value > 0 for value in self.weights):
            raise ImpossibleStudy("weight", "weight: weights must be finite and above 0")
        if not 0 <= self.steps <= MOST_STEPS:
            raise ImpossibleStudy("weight", f"weight: steps must be between 0 and {MOST_STEPS}")

    def check(self, schema: Schema) -> None:
        """Refuse a weight that this schema does not give, or gives without bounds above 0."""
        if not schema.ones:
            raise ImpossibleStudy("weight", "weight: a weighted study needs the ones column; take ones out")
        if self.weights:
            levels = self.levels(schema)
            if len(self.weights) != len(levels):
                raise ImpossibleStudy(
                    "weight", f"weight: give a weight for each level of {self.attribute}: {', '.join(levels)}"
                )
        low, high = self.bounds(schema)
        if not low > 0:
            raise ImpossibleStudy(
                "weight", f"weight: {self.attribute} must have a minimum above 0; a weight of 0 is no answer"
            )
        if high > LARGEST_RATIO * low:
            raise ImpossibleStudy(
                "weight",
                f"weight: {high:g} is more than {LARGEST_RATIO:,.0f} times {low:g}; trim the weights",
            )

    def levels(self, schema: Schema) -> tuple[str, ...]:
        """The levels of the table."""
        choices = {item.name: item.levels for item in schema.attributes if item.kind == "categorical"}
        choices |= {item.name: item.levels for item in schema.derived if item.kind == "bins"}
        if self.attribute not in choices:
            raise ImpossibleStudy(
                "weight",
                f"weight: {self.attribute} is no categorical attribute and no bins of this study; a table of weights is by "
                "the levels of one",
            )
        return choices[self.attribute]

    def bounds(self, schema: Schema) -> tuple[float, float]:
        """The least and the greatest weight."""
        if self.weights:
            return float(min(self.weights)), float(max(self.weights))
        for attribute in schema.attributes:
            if attribute.name == self.attribute and attribute.kind in ("continuous", "integer"):
                return float(attribute.bounds[0]), float(attribute.bounds[1])
        raise ImpossibleStudy(
            "weight",
            f"weight: {self.attribute} is no numeric attribute of this study; give one, or weights by a choice's levels",
        )

    def of(self, schema: Schema, answers: Mapping[str, object]) -> float:
        """w of a person, as the study declares it; answers are refused as by `Schema.read`."""
        value = schema.read(answers)[self.asked(schema).name]
        if not self.weights:
            return float(value)
        if isinstance(value, str):
            return float(self.weights[self.levels(schema).index(value)])
        bins = next(item for item in schema.derived if item.name == self.attribute)
        return float(self.weights[bins.interval(value)])

    def root(self, schema: Schema, answers: Mapping[str, object]) -> float:
        """The root of w / w_max, by which the rows suite multiplies a row: in (0, 1]."""
        return math.sqrt(self.of(schema, answers) / self.bounds(schema)[1])

    def whole_root(self, schema: Schema, weight: float) -> int:
        """s of 1..S, the root of w / w_max in whole steps: halves are rounded up, and nobody counts nothing."""
        root = math.sqrt(weight / self.bounds(schema)[1])
        return min(self.steps, max(1, math.floor(self.steps * root + 0.5)))

    def used(self, schema: Schema, weight: float) -> float:
        """The weight in use for a declared one: itself in the rows suite, w_max (s / S)^2 in the moments suite."""
        if not self.steps:
            return weight
        return self.bounds(schema)[1] * (self.whole_root(schema, weight) / self.steps) ** 2

    def table(self, schema: Schema) -> dict[str, float]:
        """The weights in use by level; empty where the weight is an answer."""
        if not self.weights:
            return {}
        return {
            level: self.used(schema, float(weight))
            for level, weight in zip(self.levels(schema), self.weights, strict=True)
        }

    def design_effect(self, schema: Schema) -> float:
        """The largest N / n_eff that such weights can have: (a + b)^2 / 4ab, by Kantorovich's inequality."""
        low, high = self.bounds(schema)
        return (low + high) ** 2 / (4 * low * high)

    def words(self, schema: Schema) -> str:
        """What it is by, and the weights in use."""
        if not self.weights:
            low, high = self.bounds(schema)
            return f"{self.attribute}, from {low:g} to {high:g}"
        return f"{self.attribute}: " + ", ".join(
            f"{level} {weight:.6g}" for level, weight in self.table(schema).items()
        )

    def asked(self, schema: Schema) -> Attribute:
        """The attribute that is asked: bins are of one."""
        of = next((item.of[0] for item in schema.derived if item.name == self.attribute), self.attribute)
        return next(item for item in schema.attributes if item.name == of)

    def times(self, schema: Schema) -> str:
        """How many times as much as another a person may count, in words."""
        low, high = self.bounds(schema)
        return f"{high / low:.3g}"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "attribute": self.attribute,
            "weights": [float(value) for value in self.weights],
            "steps": self.steps,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Weight:
        """Read what `to_dict` wrote."""
        return cls(**{**data, "weights": tuple(data["weights"])})
