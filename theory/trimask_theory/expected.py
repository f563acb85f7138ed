"""What an owner expects of the answers, from public knowledge: a definition's [expected], and people drawn by it.

It is for planning alone: it is no part of the study, and nothing of the study's own data may enter. Numbers are normal with
the mean and deviation given, cut at their bounds; choices have the shares given; correlations are those of the normal
variables behind. What is left out is taken as uncorrelated, with its mean in the middle (or at `centre`) and a deviation of
a quarter of the range (or half of `scale`), and equal shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from trimask_core.errors import StudyError
from trimask_core.schema import Attribute, Schema
from trimask_theory._strict_toml import Table

__all__ = ["COLUMN_KEYS", "CORRELATION_KEYS", "Expected", "ExpectedColumn", "draw_people", "read_expected"]

COLUMN_KEYS = ("name", "mean", "deviation", "share", "shares")
CORRELATION_KEYS = ("of", "value")


@dataclass(frozen=True)
class ExpectedColumn:
    """One attribute: `mean` and `deviation` of a number, `share` of yes, or `shares` of levels in their order."""

    name: str
    mean: float | None = None
    deviation: float | None = None
    share: float | None = None
    shares: tuple[float, ...] = ()


@dataclass(frozen=True)
class Expected:
    """The whole section; `correlations` are (one, other, value)."""

    columns: tuple[ExpectedColumn, ...] = ()
    correlations: tuple[tuple[str, str, float], ...] = ()


def read_expected(table: Table, schema: Schema) -> Expected:
    """The section, checked against the attributes."""
    table.refuse_unknown(("columns", "correlations"))
    known = {attribute.name: attribute for attribute in schema.attributes}
    columns = tuple(_column(Table(item, "expected.columns"), known) for item in table.tables("columns"))
    pairs = []
    for item in table.tables("correlations"):
        one = Table(item, "expected.correlations")
        one.refuse_unknown(CORRELATION_KEYS)
        of, value = one.words("of"), one.required("value")
        if len(of) != 2 or not set(of) <= set(known) or not -1 < value < 1:
            raise StudyError(
                "expected.correlations: `of` names two attributes, and `value` is between -1 and 1"
            )
        pairs.append((of[0], of[1], value))
    found = Expected(columns, tuple(pairs))
    _factor(schema, found)
    return found


def _column(table: Table, known: dict[str, Attribute]) -> ExpectedColumn:
    table = table.named()
    table.refuse_unknown(COLUMN_KEYS)
    name = table.text("name")
    if name not in known:
        raise StudyError(f"{table.path}: the study has no attribute {name}")
    attribute = known[name]
    mean, deviation, share = table.number("mean"), table.number("deviation"), table.number("share")
    shares = tuple(float(value) for value in table.data.get("shares", ()))
    wanted = {"binary": "share", "categorical": "shares"}.get(attribute.kind, "mean and deviation")
    given = {"mean": mean, "deviation": deviation, "share": share, "shares": shares or None}
    foreign = [key for key, value in given.items() if value is not None and key not in wanted.split(" and ")]
    if foreign:
        raise StudyError(f"{table.path}.{foreign[0]}: {name} is {attribute.kind}; give {wanted}")
    low, high = attribute.bounds
    if mean is not None and not low <= mean <= high:
        raise StudyError(f"{table.path}.mean must be between {low:g} and {high:g}")
    if deviation is not None and deviation <= 0:
        raise StudyError(f"{table.path}.deviation must be above 0")
    if share is not None and not 0 < share < 1:
        raise StudyError(f"{table.path}.share must be between 0 and 1")
    if shares and (len(shares) != len(attribute.levels) or min(shares) < 0 or abs(sum(shares) - 1) > 0.01):
        raise StudyError(
            f"{table.path}.shares: one for each of {', '.join(attribute.levels)}, adding up to 1"
        )
    return ExpectedColumn(name, mean, deviation, share, shares)


def _factor(schema: Schema, expected: Expected) -> NDArray[np.float64]:
    """Of the correlation matrix; refused where no normal variables have these correlations."""
    names = [attribute.name for attribute in schema.attributes]
    matrix = np.eye(len(names))
    for one, other, value in expected.correlations:
        i, j = names.index(one), names.index(other)
        matrix[i, j] = matrix[j, i] = value
    try:
        found = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise StudyError("expected.correlations: no columns can have all of these together") from None
    return np.asarray(found, dtype=np.float64)


def draw_people(schema: Schema, expected: Expected, count: int, seed: int = 1) -> list[dict[str, object]]:
    """Answers of made-up people; the same for the same arguments."""
    normal = np.random.default_rng(seed).standard_normal((count, len(schema.attributes)))
    drawn = normal @ _factor(schema, expected).T
    said = {column.name: column for column in expected.columns}
    answers: dict[str, list[object]] = {
        attribute.name: _answers(attribute, said.get(attribute.name, ExpectedColumn(attribute.name)), column)
        for attribute, column in zip(schema.attributes, drawn.T, strict=True)
    }
    return [{name: column[i] for name, column in answers.items()} for i in range(count)]


def _answers(attribute: Attribute, said: ExpectedColumn, normal: NDArray[np.float64]) -> list[object]:
    if attribute.kind == "binary":
        share = 0.5 if said.share is None else said.share
        return [bool(value) for value in special.ndtr(normal) > 1 - share]
    if attribute.kind == "categorical":
        shares = said.shares or (1 / len(attribute.levels),) * len(attribute.levels)
        places = np.searchsorted(np.cumsum(shares)[:-1], special.ndtr(normal))
        return [attribute.levels[place] for place in places]
    low, high = attribute.bounds
    middle = (low + high) / 2 if attribute.centre is None else attribute.centre
    spread = (high - low) / 4 if attribute.scale is None else attribute.scale / 2
    mean = middle if said.mean is None else said.mean
    values = np.clip(mean + (spread if said.deviation is None else said.deviation) * normal, low, high)
    if attribute.kind == "integer":
        values = np.clip(np.rint(values), np.ceil(low), np.floor(high))
    return [float(value) for value in values]
