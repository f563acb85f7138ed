"""Metadata stored with the rows of a release: that a row is not a person, the noise, and how to subtract it.

A release of the rows suite is Y = A (X + C) in scaled units, A orthogonal and C of deviation sigma. A row in original units
is a scaled row times T, whose column j is half_range_j e_j + center_j e_one, so that
    E[Y^T Y] = X^T X + rows sigma^2 T^T T,   (T^T T)_jk = c_j c_k + h_j^2 [j = k],
with c_j = center_j and h_j = half_range_j, but c = 1 and h = 0 for the column `one`.
The words are the same in the published Parquet file (collector) and in what a researcher exports (`trimask.Dataset`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trimask_core.study.derived import ONES, Column

if TYPE_CHECKING:
    from trimask_core.study.definition import Study


NOT_PEOPLE = (
    "Rows are not people: each mixes everybody's answers and holds noise. Only sums of products mean anything, once the "
    "noise is taken off; no count, filter, histogram, median or nonlinear model does. A program that takes the rows for "
    "people reports biased coefficients, signs included, with errors that are too small."
)
DERIVED = (
    "derived rows: made from noisy second moments, not collected. Only their sums of products mean anything; a "
    "program that takes them for people reports wrong standard errors. Use trimask.fit on the dataset."
)
INTERCEPT = (
    "the column `one` is the intercept: fit it like any other, and no other constant (in R: y ~ 0 + one + x)"
)


def noise_shape(columns: tuple[Column, ...]) -> tuple[dict[str, float], dict[str, float]]:
    """c and h of the formula above, by column."""
    center = {column.name: 1.0 if column.name == ONES else column.center for column in columns}
    half = {column.name: 0.0 if column.name == ONES else column.half_range for column in columns}
    if ONES not in center:
        center = dict.fromkeys(center, 0.0)
    return center, half


def weight_note(study: Study) -> str:
    """What weights do to the rows of a study; empty where it has none."""
    if study.weight is None:
        return ""
    largest = study.weight.bounds(study.schema)[1]
    return (
        f"People are weighted by {study.weight.words(study.schema)}. Each row was multiplied on the device by the root of "
        f"its weight over the largest, {largest:g}: sums of products are weighted sums over {largest:g}, and the square of "
        "`one` is that of the weights, not the number of people. Fits of the rows are weighted least squares."
    )


def row_notes(study: Study, rows: int, units: str) -> dict[str, str]:
    """For the rows of one release, of so many people, in "original" or "scaled" units; every value is text."""
    columns, sigma = study.schema.columns, study.protection.sigma
    promise = study.protection.public
    stored = study.suite.name == "rows"
    notes = {
        "trimask": NOT_PEOPLE if stored else DERIVED,
        "study_id": study.id.hex(),
        "study": study.title,
        "suite": study.suite.name,
        "rows": str(rows),
        "units": units,
        "sigma": repr(sigma),
        "columns": json.dumps(
            [{"name": one.name, "center": one.center, "half_range": one.half_range} for one in columns]
        ),
        "scale": "original value = center * one + half_range * scaled value, in every row",
        "guarantee": "none: exact mode, masked without differential privacy"
        if promise is None
        else str(promise),
    }
    if study.schema.ones:
        notes["intercept"] = INTERCEPT
    if study.weight is not None:
        notes["weights"] = weight_note(study)
    if not stored:
        notes["correction"] = (
            "none to be made: sums of products are those a fit uses. sigma is the noise of the published totals"
        )
    elif units == "scaled":
        notes["correction"] = (
            "X'X is estimated by Y'Y - rows sigma^2 I, with `rows` as here, whatever is stored"
        )
    else:
        notes["correction"] = (
            "X'X is estimated by Y'Y - rows sigma^2 (c c' + diag(h^2)), with `rows` as here, whatever is stored, c the "
            "centers and h the half ranges of the columns, but c = 1 and h = 0 for `one`"
        )
    return notes
