"""A private question about verified moments: what is asked, of which columns or questions, and what is paid for it.

Providers, the collector and whoever asked read a question in one canonical form, and all find the same noise in it: nobody
says what it can be moved by, `sensitivity` finds that from the signed study.

Statement. The noise of any h honest providers together has the question's sensitivity times the deviation that the price
asks for at sensitivity 1, so an answer is private at its price towards everybody who leaves h providers honest: for h = 1
to the letter, for more up to `moments_noise.slack`, which is taken off delta beforehand.

Assumptions and basis: those of `moments_noise` and `sensitivity`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from trimask_core.basics.encoding import canonical_json, read_json
from trimask_core.basics.errors import ParameterError, Refused, TrimaskError
from trimask_core.basics.refusals import Reason
from trimask_core.moments.cells import (
    Cell,
    cell_count,
    group_cells,
    number_range,
    question_levels,
    table_cells,
)
from trimask_core.moments.layout import MomentsLayout, box_radius_squared
from trimask_core.moments.study import DEVIATIONS, LARGEST_TOTAL
from trimask_core.moments.totals import EntryNoise, entry_noise, release_noise
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee
from trimask_theory import checks
from trimask_theory.gaussian import local_noise
from trimask_theory.moments import moments_noise, sensitivity

QuestionKind = Literal["moments", "sums", "table", "histogram", "group_means"]


@dataclass(frozen=True)
class MomentsQuestion:
    """What is asked; the price is epsilon and delta, or mu.

    `columns` of "moments" and "sums" are the layout's, in its order; of "table" and "histogram" questions, in the schema's
    order; of "group_means" the questions likewise, and the number last.
    """

    kind: QuestionKind
    columns: tuple[str, ...]
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None

    @classmethod
    def about(
        cls,
        kind: QuestionKind,
        names: Sequence[str],
        layout: MomentsLayout,
        price: Mapping[str, float | None],
    ) -> MomentsQuestion:
        """A question about the schema's own columns: about all the layout's columns that they are combinations of.

        One about a table, histograms or means by group is about what it names, whatever the order.
        """
        if kind not in ("moments", "sums"):
            tail = tuple(names[-1:]) if kind == "group_means" else ()
            groups = names[: len(names) - len(tail)]
            order = list(question_levels(layout.schema))
            unknown = [name for name in groups if name not in order]
            if unknown:
                raise Refused(
                    Reason.BAD_QUESTION,
                    f"{unknown[0]!r} has no levels to count; questions with levels here: {', '.join(order) or 'none'}",
                )
            return cls(kind, (*sorted(groups, key=order.index), *tail), **price)
        needed = {j for column in layout.natural if column.name in names for j, _ in column.terms}
        return cls(kind, tuple(layout.columns[j].name for j in sorted(needed)), **price)

    @classmethod
    def read(cls, data: bytes, study: Study) -> MomentsQuestion:
        """A question in its one canonical form, about columns of this study; refused otherwise."""
        try:
            body = read_json(data)
            question = cls(body["kind"], tuple(body["columns"]), **body["price"])
            question._check(study.moments.layout)
            question.noises(study.moments.layout, study.moments.honest_providers)
        except Refused:
            raise
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            ArithmeticError,
            TrimaskError,
        ):
            raise Refused(Reason.MALFORMED, "the question cannot be read") from None
        whole = any(type(value) is not float for value in question.price.values() if value is not None)
        if whole or question.canonical() != data:
            raise Refused(Reason.MALFORMED, "the question is not in its canonical form")
        return question

    @property
    def price(self) -> dict[str, float | None]:
        """What it costs."""
        return {"epsilon": self.epsilon, "delta": self.delta, "mu": self.mu}

    def canonical(self) -> bytes:
        """The one form that is hashed, charged for and answered."""
        return canonical_json({"kind": self.kind, "columns": list(self.columns), "price": self.price})

    def _check(self, layout: MomentsLayout) -> None:
        """Refuse what is not one of the kinds, or not about what the study has, each once and in its order."""
        if self.kind not in get_args(QuestionKind):
            raise Refused(Reason.MALFORMED, f"a question is one of {', '.join(get_args(QuestionKind))}")
        named = self.columns
        if self.kind in ("moments", "sums"):
            known = [column.name for column in layout.columns]
        else:
            known = list(question_levels(layout.schema))
            if self.kind == "group_means":
                number_range(layout, self.columns[-1])
                named = self.columns[:-1]
        if not named or list(named) != [name for name in known if name in named]:
            raise Refused(Reason.MALFORMED, f"columns must be some of {', '.join(known)}, in this order")

    def cells(self, layout: MomentsLayout) -> list[Cell]:
        """What is asked for, as combinations of the totals."""
        if self.kind == "table":
            return table_cells(layout, self.columns)
        if self.kind == "histogram":
            return [cell for name in self.columns for cell in table_cells(layout, [name])]
        if self.kind == "group_means":
            return group_cells(layout, self.columns[:-1], self.columns[-1])
        chosen = self._chosen(layout)
        places = list(chosen)
        widths = [layout.bound(j) for j in chosen]
        if self.kind == "moments":
            start = layout.products.start
            places += [layout.q + layout.product(j, k) - start for j, k in _pairs(chosen)]
            widths += [layout.largest(j, k) for j, k in _pairs(chosen)]
        return [Cell(0, ((place, 1),), width) for place, width in zip(places, widths, strict=True)]

    def noises(self, layout: MomentsLayout, honest: int) -> list[EntryNoise]:
        """One provider's noise for each of them."""
        sigma = self.sigma(layout, honest)
        if self.kind == "moments":
            return release_noise([layout.columns[j].width for j in self._chosen(layout)], sigma, honest)
        # No products move with these: isotropic in what is asked for, each in its unit.
        return [entry_noise(sigma, unit, 1, honest, diagonal=True) for unit in self._units(layout)]

    def sensitivity(self, layout: MomentsLayout) -> float:
        """The most one replaced record moves the answer, in the units of its noise; rounded up."""
        if self.kind == "table":
            return sensitivity.table()
        if self.kind == "histogram":
            return sensitivity.histograms(len(self.columns))
        if self.kind == "group_means":
            return sensitivity.group_means(*number_range(layout, self.columns[-1]).scaled)
        chosen = self._chosen(layout)
        if self.kind == "sums":
            return sensitivity.sums(layout, chosen)
        return sensitivity.moments(layout, chosen, float(self.radius_squared(layout)))

    def sigma(self, layout: MomentsLayout, honest: int) -> float:
        """The noise of h honest providers together, in those units, rounded up."""
        return math.nextafter(self.sensitivity(layout) * self.scale(honest), math.inf)

    def scale(self, honest: int) -> float:
        """The deviation of the noise for a sensitivity of 1, rounded up."""
        if self.mu is not None:
            if self.epsilon is not None or self.delta is not None:
                raise ParameterError("price", "epsilon and delta, or mu")
            return 1 / checks.positive("mu", self.mu) * (1 + 2.0**-50)
        if self.epsilon is None or self.delta is None:
            raise ParameterError("price", "epsilon and delta, or mu")
        epsilon = checks.positive("epsilon", self.epsilon)
        if not 0 < self.delta < 1:
            raise ParameterError("delta", "above 0 and below 1: the noise is Gaussian", self.delta)
        lost = moments_noise.slack(epsilon, honest)
        if lost > self.delta / 2:
            raise ParameterError("delta", f"above {2 * lost:.1e}, twice what rounding costs", self.delta)
        rest = math.nextafter(self.delta - lost, 0.0) if lost else self.delta
        return local_noise.calibrate(epsilon, rest).sigma

    def guarantee(self, providers: int, honest: int) -> Guarantee:
        """What an answer promises, and towards whom."""
        return moments_noise.answer_guarantee(
            providers, honest, self.epsilon, self.delta, 1 / self.scale(honest)
        )

    def radius_squared(self, layout: MomentsLayout) -> Fraction:
        """R^2 of the columns asked for, x_0 = 1 counted: their box's, or the study's ball if that is smaller."""
        chosen = [layout.columns[j] for j in self._chosen(layout)]
        marks = sum((Fraction(1, item.width**2) for item in chosen if item.kind == "clipped"), Fraction())
        return min(box_radius_squared(chosen) + marks, layout.radius_squared)

    def require_room(self, study: Study, reports: int) -> None:
        """Refuse a question whose totals and noise may not fit the field (docs/theory/verified-moments.md#room)."""
        layout, honest, providers = study.moments.layout, study.moments.honest_providers, len(study.right)
        fits = math.isfinite(self.sigma(layout, honest)) and all(
            (reports * cell.width << noise.shift) + DEVIATIONS * providers * noise.sigma < LARGEST_TOTAL
            for cell, noise in zip(self.cells(layout), self.noises(layout, honest), strict=True)
        )
        if not fits:
            raise Refused(
                Reason.BAD_QUESTION,
                "the noise at this price does not fit the numbers that providers add up: pay more, or ask for fewer "
                "columns",
            )

    def _units(self, layout: MomentsLayout) -> list[int]:
        """What the noise of each number is in units of, where no products are asked for."""
        if self.kind == "sums":
            return [layout.columns[j].width for j in self._chosen(layout)]
        if self.kind == "histogram":
            return [1] * sum(cell_count(layout.schema, [name]) for name in self.columns)
        if self.kind == "table":
            return [1] * cell_count(layout.schema, self.columns)
        *groups, number = self.columns
        count = cell_count(layout.schema, groups)
        return [number_range(layout, number).reach] * count + [1] * count

    def _chosen(self, layout: MomentsLayout) -> list[int]:
        names = [column.name for column in layout.columns]
        return [names.index(name) for name in self.columns]


def _pairs(chosen: Sequence[int]) -> list[tuple[int, int]]:
    return [(j, k) for at, j in enumerate(chosen) for k in chosen[at:]]
