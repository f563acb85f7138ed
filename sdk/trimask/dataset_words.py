"""A dataset in words: the line that `repr` gives, and the summary that `print` gives."""

from __future__ import annotations

from datetime import UTC, datetime

from trimask.manifest import Manifest
from trimask.observed import ClippedShare

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


def one_line(manifest: Manifest) -> str:
    """Which release it is, how large, and of which suite."""
    word = "; rows are not people" if manifest.suite == "rows" else ""
    return f"{_head(manifest)}; suite {manifest.suite}{word}"


def summary(manifest: Manifest, clipped: ClippedShare | None, effective: int) -> str:
    """The same with columns, noise and guarantee, and what the release is and is not.

    `effective` is how many people a weighted release is worth.
    """
    guarantee = manifest.guarantee("public")
    promise = "none: exact mode, masked without differential privacy" if guarantee is None else str(guarantee)
    lines = [
        f"Dataset {_head(manifest)}",
        f"  suite   {_SUITES[manifest.suite]}",
        f"  columns {', '.join(column.name for column in manifest.columns)}",
        f"  noise   sigma = {manifest.sigma:.4g} in scaled units",
        f"  promise {promise}",
        _IS_AND_IS_NOT if manifest.suite == "rows" else _MOMENTS_ARE,
    ]
    weight = manifest.study.weight
    if weight is not None:
        by = weight.words(manifest.study.schema)
        lines.insert(3, f"  weights by {by}; {effective:,} of {manifest.rows:,} people in effect")
    if clipped is not None:
        lines.insert(3, f"  clipped {clipped} of rows were shrunk to the study's ball")
    return "\n".join(lines)


def _head(manifest: Manifest) -> str:
    day = datetime.fromtimestamp(manifest.published_ms / 1000, UTC).date().isoformat()
    size = f"{manifest.rows:,} rows x {len(manifest.columns)} columns"
    if manifest.suite == "moments":
        size = f"moments of {len(manifest.columns)} columns over {manifest.rows:,} people"
    return f"{manifest.dataset_id}: {manifest.title}, {size}, published {day}"
