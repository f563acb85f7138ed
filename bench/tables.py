"""`python -m bench.tables`: the noise in tables, odds ratios and means by group, asked for as such and from a Gram matrix.

No draw is made: both errors are known. *Gram* is what a question paid before questions had prices of their own: sqrt 2 R^2
for the same columns, its entries moved onto what is known of them. *Own* is `release.table` or `release.group_means`. Errors
are in units of the price's noise for a sensitivity of 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from bench.rand_people import RAND_SCHEMA, rand_answers
from trimask.fit.design import membership, unit
from trimask.moments.identities import layout_identities
from trimask.moments.moments import Moments, answers_of, row_moments
from trimask.release.source import AskedColumns, ObservedGram, natural_map
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.derived import ONES
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments import moments_noise, sensitivity
from trimask_theory.moments.noise_law import EntriesLaw, Matrix

_UNIT = Guarantee(Neighbours("record"), "proved", "a bench", "none", mu=1.0)


def gram_at_unit_price(schema: Schema, answers: pd.DataFrame, columns: Sequence[str]) -> Moments:
    """The exact moments, with the law of the noise that a Gram matrix of these columns has at a price of s = 1."""
    layout = MomentsLayout.of(schema)
    asked = AskedColumns.of(schema, columns)
    natural = {column.name: column for column in layout.natural}
    places = sorted({j for name in asked.names for j, _ in natural[name].terms})
    chosen = [layout.columns[j] for j in places]
    sigma = moments_noise.sensitivity(1 + len({column.group or column.name for column in chosen}))
    size = 1 + len(places)
    variances = np.full((size, size), sigma**2 / 2)
    np.fill_diagonal(variances, sigma**2)
    variances[0, 0] = 0.0  # the number of people
    shown = [column.name for column in asked.schema.columns]
    combine = np.zeros((len(shown), size))
    for row, name in zip(combine, shown, strict=True):
        row[0] = natural[name].constant
        for j, coefficient in natural[name].terms:
            row[1 + places.index(j)] += coefficient * layout.columns[j].width
    z = np.array([layout.encode(row).z for row in answers_of(answers, schema)], dtype=np.float64)[:, places]
    x = np.column_stack([np.ones(len(z)), z / [column.width for column in chosen]])
    L = natural_map(asked.schema, shown, combine)
    found = ObservedGram(
        asked.schema, x.T @ x, EntriesLaw(variances), layout_identities(layout, tuple(places)), L, len(z), sigma, _UNIT
    )  # fmt: skip
    return found.moments("a Gram matrix")


def cell_covariance(moments: Moments, first: str, second: str) -> Matrix:
    """Of the noise in a table's cells, row by row."""
    (_, U), (_, V) = membership(first, moments.schema), membership(second, moments.schema)
    return moments.law.covariance(np.array([outers(u[None], v)[0] for u in U for v in V]))


def log_odds_errors(covariance: Matrix, counts: Matrix) -> list[float]:
    """Of the odds ratios of every level with the first, of either question."""
    found = []
    for i, j in itertools.product(range(1, counts.shape[0]), range(1, counts.shape[1])):
        gradient = np.zeros_like(counts)
        for a, b, sign in ((0, 0, 1), (i, j, 1), (0, j, -1), (i, 0, -1)):
            gradient[a, b] = sign / counts[a, b]
        found.append(math.sqrt(float(gradient.ravel() @ covariance @ gradient.ravel())))
    return found


def table_line(name: str, schema: Schema, answers: pd.DataFrame, first: str, second: str) -> str:
    """Errors of cells by how many references they have, before and after, and how many times less."""
    moments = gram_at_unit_price(schema, answers, [ONES, first, second])
    (_, U), (_, V) = membership(first, moments.schema), membership(second, moments.schema)
    counts = U @ row_moments(answers, moments.schema).gram @ V.T
    before = cell_covariance(moments, first, second)
    size = counts.size
    after = sensitivity.table() ** 2 * (np.eye(size) - 1 / size)
    first_of = [(np.arange(side) == 0).astype(int) for side in counts.shape]
    references = np.add.outer(*first_of).ravel()
    old, new = np.sqrt(np.diag(before)), np.sqrt(np.diag(after))
    shown = []
    for held in (0, 1, 2):
        here = references == held
        shown.append(
            f"{old[here].mean():6.2f} {new[here].mean():5.2f} {old[here].mean() / new[here].mean():5.1f}"
        )
    ratios = np.array(log_odds_errors(before, counts)) / log_odds_errors(after, counts)
    spread = f"{ratios.min():5.1f} to {ratios.max():4.1f}"
    return f"{name:28} | " + " | ".join(shown) + f" | {spread}"


def means_line(schema: Schema, answers: pd.DataFrame, number: str, by: str) -> str:
    """Largest and smallest ratio of the errors of means by group."""
    moments = gram_at_unit_price(schema, answers, [ONES, number, by])
    levels, U = membership(by, moments.schema)
    one, y = unit(moments.schema, ONES), unit(moments.schema, number)
    exact = row_moments(answers, moments.schema).gram
    after, before = [], []
    for u in U:
        people, total = float(u @ exact @ one), float(u @ exact @ y)
        gradient = (outers(u[None], y) - total / people * outers(u[None], one)) / people
        before.append(math.sqrt(float(moments.law.covariance(gradient)[0, 0])))
        each = sensitivity.group_means(-1, 1)
        after.append(each * math.sqrt(1 + (total / people) ** 2 * (1 - 1 / len(levels))) / people)
    ratios = np.array(before) / after
    return f"{number} by {by}: {ratios.min():.1f} to {ratios.max():.1f} times less"


def _even(first: int, second: int) -> tuple[Schema, pd.DataFrame]:
    """Two questions of so many levels with as many people in each cell."""
    sides = [tuple(f"l{i}" for i in range(size)) for size in (first, second)]
    schema = Schema(
        tuple(Attribute(name, "categorical", levels=side) for name, side in zip("ab", sides, strict=True))
    )
    return schema, pd.DataFrame(list(itertools.product(*sides)) * 5, columns=["a", "b"])


def main() -> int:
    """Print."""
    print(
        f"{'table':28} | inner cells: Gram, own, times | one reference | both references | log odds ratios, times"
    )
    for first, second in ((2, 2), (2, 4), (3, 3), (4, 4), (5, 5), (8, 8)):
        print(table_line(f"{first} x {second}, even", *_even(first, second), "a", "b"), flush=True)
    answers = rand_answers(20_190)
    for one, other in (("health", "limited"), ("health", "plan"), ("plan", "limited")):
        print(table_line(f"RAND, {one} x {other}", RAND_SCHEMA, answers, one, other), flush=True)
    print(means_line(RAND_SCHEMA, answers, "logvis", "health"))
    print(means_line(RAND_SCHEMA, answers, "disease", "plan"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
