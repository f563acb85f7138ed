"""What the demo can check and say about each suite; only a demo knows the rows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from trimask.dataset import Dataset
from trimask.moments import row_moments
from trimask_cli.table.people import Answers
from trimask_core.errors import TrimaskError
from trimask_core.study import Study
from trimask_core.upload import upload_bytes_of

__all__ = ["SuiteReport", "report_of", "upload_words"]


class SuiteReport(Protocol):
    """A suite's part of the demo's report."""

    data_file: str

    def gram_error(self, study: Study, dataset: Dataset, people: Sequence[Answers]) -> float:
        """The largest difference of a sum of products, relative to the largest sum."""
        ...

    def collected(self, study: Study) -> str:
        """How the answers were combined, in words."""
        ...

    def exact(self, gram_error: float) -> tuple[str, str]:
        """What an exact release is, and how near it is to the rows."""
        ...


class _Rows:
    data_file = "dataset.parquet"

    def gram_error(self, study: Study, dataset: Dataset, people: Sequence[Answers]) -> float:
        exact = row_moments(people, study.schema, weight=study.weight).gram
        return float(np.abs(dataset.gram(units="scaled").to_numpy() - exact).max() / np.abs(exact).max())

    def collected(self, study: Study) -> str:
        return f"blocks of {study.rows.block_rows}"

    def exact(self, gram_error: float) -> tuple[str, str]:
        return (
            "Exact mode: masked by random rotations, [bold]without differential privacy[/bold].",
            f"The Gram matrix of the release equals X^T X to {gram_error:.1e} relative.",
        )


class _Moments:
    data_file = "moments.json"

    def gram_error(self, study: Study, dataset: Dataset, people: Sequence[Answers]) -> float:
        """In whole numbers; without noise the totals must be those of the encoded rows, not nearly but exactly."""
        layout, sigma = study.moments.layout, study.protection.sigma
        exact = _totals(study, people)
        found = _published(dataset.path.parent)
        if not sigma and found != exact:
            raise TrimaskError("the release without noise is not the sum of the encoded rows")
        widths = [1] * (layout.root is None) + [column.width for column in layout.published]
        scales = [w * v for j, w in enumerate(widths) for v in widths[j:]][-layout.totals :]
        noises = layout.noises(sigma, study.moments.honest_providers)
        entries = list(zip(found, exact, scales, noises, strict=True))
        away = max(abs(math.ldexp(got, -noise.shift) - true) / scale for got, true, scale, noise in entries)
        return away / max(abs(true) / scale for _, true, scale, _ in entries)

    def collected(self, study: Study) -> str:
        return f"{study.moments.layout.elements} numbers a report, in {len(study.right)} shares"

    def exact(self, gram_error: float) -> tuple[str, str]:
        if gram_error:
            raise ValueError("a release without noise was not compared with its rows")
        return (
            "Exact mode: summed in shares, [bold]without differential privacy[/bold].",
            "Every sum and sum of products equals that of the encoded rows, as a whole number.",
        )


_REPORTS: dict[str, SuiteReport] = {"rows": _Rows(), "moments": _Moments()}


def report_of(study: Study) -> SuiteReport:
    """The part of a study's suite."""
    return _REPORTS[study.suite.name]


def _totals(study: Study, people: Sequence[Answers]) -> list[int]:
    """Sums of z and of products of z, weighted where the study is, over all encoded rows, in whole numbers."""
    layout = study.moments.layout
    rows, q = [layout.encode(answers).counted for answers in people], range(layout.q + 1)
    every = [sum(row[j] * row[k] for row in rows) for j in q for k in q[j:]]
    return every[-layout.totals :]  # without the number of people, which is public


def _published(folder: Path) -> list[int]:
    """The totals of a release that `Dataset` has verified, on their grids."""
    data = json.loads((folder / _Moments.data_file).read_text(encoding="utf-8"))
    return [*data["first"], *data["products"]]


def upload_words(study: Study) -> str:
    """What a device sent."""
    seeds = len(study.right) - 1
    return f"A device sent {upload_bytes_of(study) / 1000:.1f} kB, {seeds} seed{'s' if seeds > 1 else ''} of 32 bytes in it."
