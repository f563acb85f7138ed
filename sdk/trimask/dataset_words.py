"""A dataset in words: the line that `repr` gives, and the summary that `print` gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimask.dataset import Dataset

__all__ = ["one_line", "summary"]

_IS_AND_IS_NOT = """\
  is      second moments: sums, means, variances, covariances, and every model made of them, such as
          least squares and principal components, on the columns the study declared
  is not  people. Rows are not people: each mixes all rows of the release, so no row stands for anybody,
          and order and single values mean nothing. Nothing nonlinear (a filter, a square, a logarithm,
          a count of values) can be computed from them"""
_MOMENTS_ARE = """\
  is      second moments: sums, means, variances, covariances, and every model made of them, such as
          least squares and principal components, on the columns the study declared
  is not  rows. None were published; those that to_pandas and the exports make are derived from the
          moments, and nothing nonlinear can be computed from them"""
_SUITES = {
    "rows": "rows (masked rows are published)",
    "moments": "moments (noisy totals, summed in shares, are published)",
}


def one_line(dataset: Dataset) -> str:
    """Which release it is, how large, and of which suite."""
    word = "; rows are not people" if dataset.suite == "rows" else ""
    return f"{_head(dataset)}; suite {dataset.suite}{word}"


def summary(dataset: Dataset) -> str:
    """The same with columns, noise and guarantee, and what the release is and is not."""
    promise = (
        "none: exact mode, masked without differential privacy"
        if dataset.guarantee is None
        else str(dataset.guarantee)
    )
    lines = [
        f"Dataset {_head(dataset)}",
        f"  suite   {_SUITES[dataset.suite]}",
        f"  columns {', '.join(dataset.names)}",
        f"  noise   sigma = {dataset.sigma:.4g} in scaled units",
        f"  promise {promise}",
        _IS_AND_IS_NOT if dataset.suite == "rows" else _MOMENTS_ARE,
    ]
    if dataset.study.weight is not None:
        weight, worth = dataset.study.weight, dataset.moments.rows
        lines.insert(
            3,
            f"  weights by {weight.words(dataset.study.schema)}; {worth:,} of {dataset.rows:,} people in effect",
        )
    if dataset.clipped is not None:
        lines.insert(3, f"  clipped {dataset.clipped} of rows were shrunk to the study's ball")
    return "\n".join(lines)


def _head(dataset: Dataset) -> str:
    day = datetime.fromtimestamp(dataset.manifest.published_ms / 1000, UTC).date().isoformat()
    size = f"{dataset.rows:,} rows x {len(dataset.columns)} columns"
    if dataset.suite == "moments":
        size = f"moments of {len(dataset.columns)} columns over {dataset.rows:,} people"
    return f"{dataset.id}: {dataset.manifest.title}, {size}, published {day}"
