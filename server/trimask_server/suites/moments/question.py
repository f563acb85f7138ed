"""A private question about the moments: which columns, first moments alone or products too, and what is paid for it.

The columns asked for have a smaller norm than the whole row, so an answer about few columns has less noise for the same
price. What a replaced record moves: products by `moments_noise.sensitivity`, first moments alone by 2 sqrt(R^2 - 1), since
x_0 = 1 is in every row and does not move. Neither a collector nor a provider ever holds an exact moment (note 6.6).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

from trimask_core.errors import Refused, TrimaskError
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.noise import EntryNoise, entry_noise, release_noise
from trimask_core.moments.study import DEVIATIONS, LARGEST_TOTAL
from trimask_core.strict_json import read_json
from trimask_core.study import Study
from trimask_core.text_form import canonical_json
from trimask_server.protocol.accounting import Price
from trimask_theory import local_noise, moments_noise

__all__ = ["Question", "noise_scale"]

Kind = Literal["moments", "sums"]


def noise_scale(price: Price) -> float:
    """The deviation of the noise for a sensitivity of 1, rounded up."""
    if price.mu is not None:
        return math.nextafter(1 / price.mu, math.inf)
    if price.epsilon is None or not price.delta:
        raise Refused("malformed", "Gaussian noise is paid for with a delta above 0, or with mu")
    return local_noise.calibrate(price.epsilon, price.delta).sigma


@dataclass(frozen=True)
class Question:
    """What is asked. `columns` are the layout's, in its order."""

    kind: Kind
    columns: tuple[str, ...]
    price: Price

    @classmethod
    def read(cls, data: bytes, study: Study) -> Question:
        """A question in its one canonical form, about columns of this study; refused otherwise."""
        try:
            body = read_json(data)
            question = cls(body["kind"], tuple(body["columns"]), Price(**body["price"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, TrimaskError):
            raise Refused("malformed", "the question cannot be read") from None
        known = [column.name for column in study.moments.layout.columns]
        if question.kind not in ("moments", "sums") or question.canonical() != data:
            raise Refused("malformed", "the question is not in its canonical form")
        if not question.columns or list(question.columns) != [n for n in known if n in question.columns]:
            raise Refused("malformed", f"columns must be some of {', '.join(known)}, in this order")
        question._require_room(study)
        return question

    def _require_room(self, study: Study) -> None:
        """Refuse a price whose noise, or whose grid, leaves the sums no room in the field."""
        layout, chosen = study.moments.layout, self._chosen(study.moments.layout)
        largest = [layout.columns[j].largest for j in chosen]
        if self.kind == "moments":
            largest += [layout.largest(j, k) for at, j in enumerate(chosen) for k in chosen[at:]]
        try:
            noises = self.noises(layout, study.moments.honest_providers)
        except (ArithmeticError, ValueError, TrimaskError):
            raise Refused("malformed", "there is no noise for this price") from None
        for bound, noise in zip(largest, noises, strict=True):
            most = study.moments.max_release_rows * bound << noise.shift
            if most + DEVIATIONS * len(study.right) * noise.sigma >= LARGEST_TOTAL:
                raise Refused(
                    "malformed",
                    "sums with the noise of this price do not fit; pay more, or less where it is very much",
                )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {"kind": self.kind, "columns": list(self.columns), "price": asdict(self.price)}

    def canonical(self) -> bytes:
        """The one form that is hashed, charged for and answered."""
        return canonical_json(self.to_dict())

    def places(self, layout: MomentsLayout) -> list[int]:
        """Which of the totals (z_1..z_q, then the products) are asked for."""
        chosen = self._chosen(layout)
        if self.kind == "sums":
            return chosen
        start = layout.products.start
        pairs = [(j, k) for at, j in enumerate(chosen) for k in chosen[at:]]
        return [*chosen, *(layout.q + layout.product(j, k) - start for j, k in pairs)]

    def noises(self, layout: MomentsLayout, honest: int) -> list[EntryNoise]:
        """One provider's noise for each of them."""
        widths = [layout.columns[j].width for j in self._chosen(layout)]
        if self.kind == "moments":
            return release_noise(widths, self.sigma(layout), honest)
        # No products move with these: isotropic in the scaled first moments alone.
        return [entry_noise(self.sigma(layout), width, 1, honest, diagonal=True) for width in widths]

    def sigma(self, layout: MomentsLayout) -> float:
        """The noise of h honest providers together, in scaled units, rounded up."""
        square = float(self.radius_squared(layout)) * (1 + 1e-12)
        moved = moments_noise.sensitivity(square) if self.kind == "moments" else 2 * math.sqrt(square - 1)
        return math.nextafter(moved * noise_scale(self.price), math.inf)

    def radius_squared(self, layout: MomentsLayout) -> Fraction:
        """R^2 of the columns asked for, x_0 = 1 counted: their box's, or the study's ball if that is smaller."""
        total, questions = Fraction(1), set()
        for j in self._chosen(layout):
            column = layout.columns[j]
            if column.kind == "level":
                questions.add(column.sources[0])
            else:
                total += Fraction(column.largest, column.width) ** 2
        return min(total + len(questions), layout.radius_squared)

    def _chosen(self, layout: MomentsLayout) -> list[int]:
        names = [column.name for column in layout.columns]
        return [names.index(name) for name in self.columns]
