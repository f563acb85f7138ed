"""A private question about verified moments: which columns, first moments alone or products too, and what is paid for it.

Providers, the collector and whoever asked read a question in one canonical form, and all find the same noise in it.

Statement. Let R^2 bound |x|^2 of the columns asked for, x_0 = 1 counted: few columns have less of it than a whole row. A
replaced record moves their products by `moments_noise.sensitivity(R^2)` in the Frobenius norm, and their first moments
alone by 2 sqrt(R^2 - 1), since x_0 does not move. The noise of any h honest providers together has that times the
deviation that the price asks for at sensitivity 1, so an answer is private at its price towards everybody who leaves h
providers honest: for h = 1 to the letter, for more up to `moments_noise.slack`, which is taken off delta beforehand.

Assumptions and basis: those of `moments_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from trimask_core.basics.encoding import canonical_json, read_json
from trimask_core.basics.errors import ParameterError, Refused, TrimaskError
from trimask_core.basics.refusals import Reason
from trimask_core.moments.encoding import box_radius_squared
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.study import DEVIATIONS, LARGEST_TOTAL
from trimask_core.moments.totals import EntryNoise, entry_noise, release_noise
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory import checks
from trimask_theory.gaussian import local_noise
from trimask_theory.moments import moments_noise

QuestionKind = Literal["moments", "sums"]


@dataclass(frozen=True)
class MomentsQuestion:
    """What is asked. `columns` are the layout's, in its order; the price is epsilon and delta, or mu."""

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
        """A question about the schema's own columns: about all the layout's columns that they are combinations of."""
        needed = {j for column in layout.natural if column.name in names for j, _ in column.terms}
        return cls(kind, tuple(layout.columns[j].name for j in sorted(needed)), **price)

    @classmethod
    def read(cls, data: bytes, study: Study) -> MomentsQuestion:
        """A question in its one canonical form, about columns of this study; refused otherwise."""
        try:
            body = read_json(data)
            question = cls(body["kind"], tuple(body["columns"]), **body["price"])
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
        known = [column.name for column in study.moments.layout.columns]
        whole = any(type(value) is not float for value in question.price.values() if value is not None)
        if question.kind not in ("moments", "sums") or whole or question.canonical() != data:
            raise Refused(Reason.MALFORMED, "the question is not in its canonical form")
        if not question.columns or list(question.columns) != [n for n in known if n in question.columns]:
            raise Refused(Reason.MALFORMED, f"columns must be some of {', '.join(known)}, in this order")
        return question

    @property
    def price(self) -> dict[str, float | None]:
        """What it costs."""
        return {"epsilon": self.epsilon, "delta": self.delta, "mu": self.mu}

    def canonical(self) -> bytes:
        """The one form that is hashed, charged for and answered."""
        return canonical_json({"kind": self.kind, "columns": list(self.columns), "price": self.price})

    def places(self, layout: MomentsLayout) -> list[int]:
        """Which of the totals (z_1..z_q, then the products) are asked for."""
        chosen = self._chosen(layout)
        if self.kind == "sums":
            return chosen
        start = layout.products.start
        return [*chosen, *(layout.q + layout.product(j, k) - start for j, k in _pairs(chosen))]

    def noises(self, layout: MomentsLayout, honest: int) -> list[EntryNoise]:
        """One provider's noise for each of them."""
        widths = [layout.columns[j].width for j in self._chosen(layout)]
        sigma = self.sigma(layout, honest)
        if self.kind == "moments":
            return release_noise(widths, sigma, honest)
        # No products move with these: isotropic in the scaled first moments alone.
        return [entry_noise(sigma, width, 1, honest, diagonal=True) for width in widths]

    def sigma(self, layout: MomentsLayout, honest: int) -> float:
        """The noise of h honest providers together, in scaled units, rounded up."""
        square = float(self.radius_squared(layout)) * (1 + 1e-12)
        moved = moments_noise.sensitivity(square) if self.kind == "moments" else 2 * math.sqrt(square - 1)
        return math.nextafter(moved * self.scale(honest), math.inf)

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

    def guarantee(self, layout: MomentsLayout, providers: int, honest: int) -> Guarantee:
        """What an answer promises, and towards whom."""
        mu = 1 / self.scale(honest)
        found = moments_noise.calibrate_mu(mu, float(self.radius_squared(layout)), providers, honest)
        return replace(
            found.guarantee, neighbours=Neighbours("record"), epsilon=self.epsilon, delta=self.delta, mu=mu
        )

    def radius_squared(self, layout: MomentsLayout) -> Fraction:
        """R^2 of the columns asked for, x_0 = 1 counted: their box's, or the study's ball if that is smaller."""
        chosen = [layout.columns[j] for j in self._chosen(layout)]
        marks = sum((Fraction(1, item.width**2) for item in chosen if item.kind == "clipped"), Fraction())
        return min(box_radius_squared(chosen) + marks, layout.radius_squared)

    def require_room(self, study: Study, reports: int) -> None:
        """Refuse a question whose totals and noise may not fit the field (docs/theory/verified-moments.md#room)."""
        layout, chosen = study.moments.layout, self._chosen(study.moments.layout)
        most = [layout.bound(j) for j in chosen]
        if self.kind == "moments":
            most += [layout.largest(j, k) for j, k in _pairs(chosen)]
        honest, providers = study.moments.honest_providers, len(study.right)
        fits = math.isfinite(self.sigma(layout, honest)) and all(
            (reports * largest << noise.shift) + DEVIATIONS * providers * noise.sigma < LARGEST_TOTAL
            for largest, noise in zip(most, self.noises(layout, honest), strict=True)
        )
        if not fits:
            raise Refused(
                Reason.BAD_QUESTION,
                "the noise at this price does not fit the numbers that providers add up: pay more, or ask for fewer "
                "columns",
            )

    def _chosen(self, layout: MomentsLayout) -> list[int]:
        names = [column.name for column in layout.columns]
        return [names.index(name) for name in self.columns]


def _pairs(chosen: Sequence[int]) -> list[tuple[int, int]]:
    return [(j, k) for at, j in enumerate(chosen) for k in chosen[at:]]
