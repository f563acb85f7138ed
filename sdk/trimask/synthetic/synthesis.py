"""From a release to synthetic records."""

from __future__ import annotations

import math
import resource
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from trimask.data.description import version
from trimask.errors import ParameterError
from trimask.fit.noise import Source, moments_of
from trimask.moments.moments import Moments
from trimask.synthetic.model import Cells, cells_of, fitted, statistics
from trimask.synthetic.result import MARK, NOBODY, Synthetic, utility
from trimask_core.study.derived import ONES

if TYPE_CHECKING:
    from trimask_core.study.schema import Attribute


_ENOUGH = 20_000


def synthesize(
    dataset: Source, n: int | None = None, *, bins: int = 8, iterations: int = 1000, seed: int = 0
) -> Synthetic:
    """Synthetic records that agree with a release as far as its noise allows. Needs the extra `synthetic`.

    Of people with weights (a study's `[weight]`, or `fit.weighted`) they stand for the weighted people, each record for as
    many as any other: they are not to be weighted again.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What they are made from; releases of one study in a list are pooled.
    n : int, optional
        How many records; by default as many as people (in effect, where they have weights), or so many times as many
        that there are 20,000: then rounding to whole records does not count beside the release's noise.
    bins : int
        Intervals for a number without declared ones (`trimask.synthetic.model` has the rule).
    iterations : int
        The most steps of fitting the model.
    seed : int
        Of the records, which describe nobody and are not secret.

    Returns
    -------
    Synthetic
        `frame`, `report`, `cite()`, `to_csv`.

    Examples
    --------
    >>> import trimask
    >>> made = trimask.synthesize(trimask.example(), 1000)  # doctest: +SKIP
    >>> made.frame.groupby("activity").size()  # doctest: +SKIP
    """
    started = time.perf_counter()
    moments = moments_of(dataset)
    count = moments.rows * math.ceil(_ENOUGH / moments.rows) if n is None else n
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ParameterError("n", "a number of records, at least 1", n)
    if not 2 <= bins <= 50:
        raise ParameterError("bins", "2 to 50", bins)
    if not moments.schema.ones:
        raise ParameterError("dataset", "of a study with a column of ones: without it nothing can be counted")
    if moments.schema.attributes and any(item.name == MARK for item in moments.schema.attributes):
        raise ParameterError(
            "dataset", f"of a study without an attribute {MARK}: that column marks the records"
        )
    # Groups first: systematic draws keep the tables of what comes first most exactly.
    ordered = sorted(moments.schema.attributes, key=lambda item: item.kind not in ("categorical", "binary"))
    cells = [cells_of(moments.schema, item, bins, *_spread(moments, item)) for item in ordered]
    model = fitted(moments, cells, statistics(moments.schema, cells), iterations, seed)
    rng = np.random.default_rng(seed)
    frame = _records(cells, model.draw(count, rng), rng)[[item.name for item in moments.schema.attributes]]
    seconds = time.perf_counter() - started
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = math.prod(len(one) for one in cells)
    report = utility(moments, frame, model.method, size, seconds, megabytes)
    frame[MARK] = True
    manifest = getattr(dataset, "manifest", None)
    made = Synthetic(frame, moments, report, manifest)
    frame.attrs.update(
        {
            "trimask": NOBODY,
            "name": f"SYNTHETIC records of {moments.label}",
            "made_from": moments.label,
            "manifest_sha256": "" if manifest is None else manifest.sha256,
            "guarantee": str(moments.protection.public) if moments.protection else "none",
            "model": f"{model.method} over {size} cells, trimask {version()}",
            "utility": str(report),
        }
    )
    if made.weighting:
        frame.attrs["weighting"] = made.weighting
    return made


def _spread(moments: Moments, item: Attribute) -> tuple[float, float]:
    """The release's mean and deviation of a number, in original units."""
    names = [column.name for column in moments.columns]
    if item.name not in names:
        return 0.0, 1.0
    j, one = names.index(item.name), names.index(ONES)
    column, n = moments.columns[j], moments.rows
    mean = float(moments.gram[one, j]) / n
    variance = max(float(moments.gram[j, j]) / n - mean**2, 0.0)
    return column.center + column.half_range * mean, column.half_range * math.sqrt(variance)


def _records(cells: list[Cells], drawn: Any, rng: np.random.Generator) -> Any:
    import pandas as pd

    frame = pd.DataFrame({one.name: one.draw(drawn[:, k], rng) for k, one in enumerate(cells)})
    return frame.infer_objects()
