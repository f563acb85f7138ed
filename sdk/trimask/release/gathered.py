"""An answer of the moments suite, checked and read: totals that right providers delivered, with the law of their noise.

The collector has no part in what is read here. Every provider signed what was asked, at which price, of which reports, and
the hash of what it delivered; the question is put together here from the request, so that a signature is for that one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from trimask.data.manifest import Asked, summed_deliveries
from trimask.errors import TrimaskError, VerificationError
from trimask.moments.identities import layout_identities
from trimask.moments.moments import clipped_label
from trimask.release.results import Answer, PrivateGram, PrivateSum
from trimask.release.source import AskedColumns, ObservedGram, natural_map
from trimask.release.tables import PrivateMeans, PrivateTable, private_counts, private_means
from trimask_core.moments.cells import number_range, question_levels
from trimask_core.moments.totals import asked_hash
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee
from trimask_theory.moments.moments_question import MomentsQuestion, QuestionKind
from trimask_theory.moments.noise_law import EntriesLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Gathered:
    """Moments of (1, x_1 .. x_k), x = z / w: the columns the noise was drawn in. `combine` has a column for each name."""

    study: Study
    answer: Answer
    names: tuple[str, ...]
    gram: NDArray[np.float64]
    law: EntriesLaw
    combine: NDArray[np.float64]
    sigma: float
    places: tuple[int, ...]
    guarantee: Guarantee

    def sums(self) -> PrivateSum:
        """Sums in original units."""
        total = self.gram[0] @ self.combine
        # First moments have independent noise; a product's sum takes that of its factors in.
        noise = np.sqrt(self.law.variances[0] @ self.combine**2)
        return PrivateSum(
            pd.Series(total, index=list(self.names), dtype=float),
            pd.Series(noise, index=list(self.names), dtype=float),
            self.answer.rows,
            self.guarantee,
            self.answer,
        )

    def private_gram(self, asked: AskedColumns) -> PrivateGram:
        """The moments of the columns asked for, moved onto what the schema knows."""
        L = natural_map(asked.schema, self.names, self.combine.T)
        observed = ObservedGram(
            asked.schema, self.gram, self.law, layout_identities(self.study.moments.layout, self.places), L,
            self.answer.rows, self.sigma, self.guarantee,
        )  # fmt: skip
        label = f"private Gram matrix {self.answer.request_id[:12]} of {self.study.title}"
        label = clipped_label(label, self.study, corrected=False)
        return PrivateGram(observed.moments(label), self.guarantee, self.answer)


def read_gathered(
    study: Study,
    answer: Answer,
    kind: QuestionKind,
    names: Sequence[str],
    price: Mapping[str, float | None],
    shown: Sequence[str] = (),
) -> Gathered:
    """Check what the providers signed and delivered, and read sums or moments; `VerificationError` if it does not agree.

    `shown` are the columns to read it as, where they are other combinations of what was asked for.
    """
    layout = study.moments.layout
    asked = names or [column.name for column in layout.natural[1:]]
    checked = read_numbers(study, answer, kind, asked, price)
    question = checked.question
    places = [layout.columns.index(column) for column in layout.columns if column.name in question.columns]
    widths = np.array([1.0, *(layout.columns[j].width for j in places)])
    size = len(widths)
    gram, variances = np.zeros((size, size)), np.zeros((size, size))
    entries = [(0, k) for k in range(1, size)]
    if kind == "moments":
        entries += [(j, k) for j in range(1, size) for k in range(j, size)]
    for (j, k), total, variance in zip(entries, checked.totals, checked.variances, strict=True):
        gram[j, k] = gram[k, j] = total / (widths[j] * widths[k])
        variances[j, k] = variances[k, j] = variance / (widths[j] * widths[k]) ** 2
    gram[0, 0] = answer.rows
    natural = {column.name: column for column in layout.natural}
    shown = list(shown) or asked
    combine = np.zeros((size, len(shown)))
    for at, name in enumerate(shown):
        combine[0, at] = natural[name].constant
        for j, coefficient in natural[name].terms:
            combine[1 + places.index(j), at] += coefficient * widths[1 + places.index(j)]
    sigma = question.sigma(layout, study.moments.honest_providers)
    return Gathered(
        study, answer, tuple(shown), gram, EntriesLaw(variances), combine, sigma, tuple(places),
        checked.guarantee,
    )  # fmt: skip


def read_table(
    study: Study,
    answer: Answer,
    kind: QuestionKind,
    names: Sequence[str],
    price: Mapping[str, float | None],
) -> PrivateTable:
    """Check likewise, and read a table or histograms."""
    checked = read_numbers(study, answer, kind, names, price)
    every = question_levels(study.schema)
    levels = {name: every[name] for name in checked.question.columns}
    noise = math.sqrt(checked.variances[0])
    return private_counts(
        levels,
        checked.totals,
        noise,
        answer.rows,
        checked.guarantee,
        answer,
        joint=kind == "table",
        order=names,
    )


def read_group_means(
    study: Study, answer: Answer, names: Sequence[str], price: Mapping[str, float | None]
) -> PrivateMeans:
    """Check likewise, and read means of the last name by the others."""
    checked = read_numbers(study, answer, "group_means", names, price)
    *by, number = checked.question.columns
    layout = study.moments.layout
    every, span = question_levels(study.schema), number_range(layout, number)
    count, column = len(checked.totals) // 2, span.column
    values = [total / span.reach for total in checked.totals[:count]] + checked.totals[count:]
    noise = math.sqrt(checked.variances[0]) / span.reach, math.sqrt(checked.variances[-1])
    return private_means(
        number, {name: every[name] for name in by}, values, noise,
        (column.value(span.middle), column.step * span.reach / 2),
        answer.rows, checked.guarantee, answer, clipped=layout.ball is not None,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Numbers:
    """What providers signed: the question, its totals in whole steps, the variance of the noise on each, what it promises.

    The guarantee is the question's, found here: what the collector says of it is not relied on.
    """

    question: MomentsQuestion
    totals: list[float]
    variances: list[float]
    guarantee: Guarantee


def read_numbers(
    study: Study, answer: Answer, kind: QuestionKind, names: Sequence[str], price: Mapping[str, float | None]
) -> Numbers:
    """Check what the providers signed and delivered for this question at this price."""
    layout = study.moments.layout
    paid = {name: None if value is None else float(value) for name, value in price.items()}
    question = MomentsQuestion.about(kind, names, layout, paid)
    try:
        totals = _checked(study, answer, question)
    except VerificationError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, TrimaskError) as error:
        raise VerificationError(
            f"the answer's deliveries cannot be read: {type(error).__name__} {error}"
        ) from None
    honest, providers = study.moments.honest_providers, len(study.right)
    noises = question.noises(layout, honest)
    found = [math.ldexp(total, -noise.shift) for total, noise in zip(totals, noises, strict=True)]
    variances = [noise.variance(providers) for noise in noises]
    return Numbers(question, found, variances, question.guarantee(providers, honest))


def _checked(study: Study, answer: Answer, question: MomentsQuestion) -> list[int]:
    values = answer.values
    batch_ids = bytes.fromhex("".join(values["batch_ids"]))
    asked = asked_hash(study.id, values["release"], batch_ids, question.canonical())
    accepted = bytes.fromhex(values["accepted_hash"])
    of = Asked(asked, accepted, answer.rows, len(question.cells(study.moments.layout)))
    totals = summed_deliveries(study, of, values["deliveries"], "the answer")
    if totals != values["totals"]:
        raise VerificationError("the answer is not the sum of what the providers delivered")
    return totals
