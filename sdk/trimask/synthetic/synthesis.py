"""From a release to synthetic records.

Synthetic records, marked as such in their name, their metadata and a column; and how far they are from the release.

Beside it stands how far the release is from its people. The release's own distance is what its noise is expected to do,
by its law: for a cell with noise deviation s the expected absolute error is s sqrt(2/pi), and the total variation of a
table is half the sum over its cells, over the number of people.
"""

from __future__ import annotations

import itertools
import math
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from trimask import fit
from trimask.data.description import bibtex, version
from trimask.data.manifest import Shown
from trimask.data.metadata import write_notes
from trimask.errors import CollinearColumns, NoiseExceedsSignal, ParameterError
from trimask.fit.noise import Source, moments_of
from trimask.moments.moments import Moments, row_moments
from trimask.synthetic.model import Cells, cells_of, fitted, statistics
from trimask_core.study.derived import ONES

if TYPE_CHECKING:
    from trimask.data.manifest import Manifest
    from trimask_core.study.guarantee import Guarantee
    from trimask_core.study.schema import Attribute


@dataclass(frozen=True, eq=False)
class UtilityReport(Shown):
    """`tables`, `correlations` and `coefficients` are frames; `seconds` and `megabytes` what the making took.

    `megabytes` is the most memory this process ever held, the program itself included.
    """

    tables: pd.DataFrame
    correlations: pd.DataFrame
    coefficients: pd.DataFrame
    method: str
    cells: int
    seconds: float
    megabytes: float

    def __str__(self) -> str:
        lines = [f"Utility beside the release ({self.method}, {self.cells:,} cells)"]
        if len(self.tables):
            own, off = self.tables["release's own"].mean(), self.tables["from the release"].mean()
            lines.append(
                f"  two-way tables  mean total variation {off:.4f} from the release's; its own, by its noise: {own:.4f}"
            )
        if len(self.correlations):
            gap = (self.correlations["synthetic"] - self.correlations["release"]).abs()
            lines.append(f"  correlations    mean difference {gap.mean():.3f}, largest {gap.max():.3f}")
        if len(self.coefficients):
            gap = (
                (self.coefficients["synthetic"] - self.coefficients["release"]) / self.coefficients["error"]
            ).abs()
            lines.append(
                f"  coefficients    mean difference {gap.mean():.2f} standard errors of the release, largest {gap.max():.2f}"
            )
        lines.append(f"  made in {self.seconds:.1f} s, at most {self.megabytes:,.0f} MB of memory")
        return "\n".join(lines)


def utility(
    moments: Moments, frame: pd.DataFrame, method: str, cells: int, seconds: float, megabytes: float
) -> UtilityReport:
    """Compare; `frame` has a column an attribute."""
    made = row_moments(frame, moments.schema, "synthetic records")
    return UtilityReport(
        _tables(moments, made), _correlations(moments, made), _coefficients(moments, made),
        method, cells, seconds, megabytes,
    )  # fmt: skip


def _tables(moments: Moments, made: Moments) -> pd.DataFrame:
    groups = [item.name for item in moments.schema.attributes if item.kind in ("categorical", "binary")]
    found = {}
    for a, b in itertools.combinations(groups, 2) if moments.schema.ones else ():
        release, synthetic = (fit.crosstab(source, a, b) for source in (moments, made))
        shares = [table.counts.to_numpy() / table.nobs for table in (release, synthetic)]
        own = math.sqrt(2 / math.pi) * float(release.cells["privacy"].sum()) / (2 * moments.rows)
        found[a, b] = {
            "from the release": float(np.abs(shares[0] - shares[1]).sum()) / 2,
            "release's own": own,
        }
    index = pd.MultiIndex.from_tuples(list(found), names=["rows", "columns"]) if found else None
    return pd.DataFrame(list(found.values()), index=index, columns=["from the release", "release's own"])


def _correlations(moments: Moments, made: Moments) -> pd.DataFrame:
    names = [column.name for column in moments.columns]
    if ONES not in names:
        return pd.DataFrame(columns=["release", "synthetic"])
    numbers = [item.name for item in moments.schema.attributes if item.kind != "categorical"]
    places, one = [names.index(name) for name in numbers], names.index(ONES)
    both = []
    for source in (moments, made):
        mean = source.gram[one] / source.rows
        spread = (source.gram / source.rows - np.outer(mean, mean))[np.ix_(places, places)]
        scale = np.sqrt(np.maximum(np.diag(spread), np.finfo(float).tiny))
        both.append(np.clip(spread / np.outer(scale, scale), -1, 1))
    upper = np.triu_indices(len(numbers), 1)
    index = pd.MultiIndex.from_arrays([[numbers[i] for i in upper[0]], [numbers[j] for j in upper[1]]])
    return pd.DataFrame({"release": both[0][upper], "synthetic": both[1][upper]}, index=index)


def _coefficients(moments: Moments, made: Moments) -> pd.DataFrame:
    """Of the first number on everything else."""
    items = moments.schema.attributes
    numbers = [item.name for item in items if item.kind != "categorical"]
    terms = [
        f"C({item.name})" if item.kind == "categorical" else item.name
        for item in items
        if item.name != (numbers or [""])[0]
    ]
    columns = ["release", "synthetic", "error"]
    if not numbers or not terms or not moments.schema.ones:
        return pd.DataFrame(columns=columns)
    try:
        release, synthetic = (
            fit.ols(source, f"{numbers[0]} ~ {' + '.join(terms)}") for source in (moments, made)
        )
    except (NoiseExceedsSignal, CollinearColumns):
        return pd.DataFrame(columns=columns)
    return pd.DataFrame(dict(zip(columns, (release.params, synthetic.params, release.bse), strict=True)))


MARK = "synthetic"
NOBODY = (
    "SYNTHETIC records: drawn from a model that was fitted to a noisy release. No record is anybody's. Standard errors that "
    "a program computes from them leave out the noise of the release and the sampling of its people."
)


@dataclass(frozen=True, eq=False)
class Synthetic(Shown):
    """Records, the release's moments they were made from, and how far they are from it."""

    frame: pd.DataFrame = field(repr=False)
    moments: Moments = field(repr=False)
    report: UtilityReport = field(repr=False)
    manifest: Manifest | None = field(default=None, repr=False)

    @property
    def guarantee(self) -> Guarantee | None:
        """The release's: post-processing costs nothing and adds nothing."""
        return None if self.moments.protection is None else self.moments.protection.public

    @property
    def weighting(self) -> str:
        """How to count the records where people of the release count by weights; else empty."""
        if not self.moments.weighted_by:
            return ""
        return (
            f"People of the release count by their weights ({self.moments.weighted_by}), and the records stand for the "
            "weighted people, each for as many as any other. Do not weight them again."
        )

    def cite(self) -> str:
        """BibTeX of the dataset, with a note that these are synthetic records made from it."""
        if self.manifest is None:
            return f"% {NOBODY} Made from {self.moments.label}. Guarantee: {self.guarantee}"
        return bibtex(self.manifest, "Synthetic records made from this dataset, nobody's answers.")

    def to_csv(self, path: str | Path) -> Path:
        """Write them; the file's name says synthetic (it is added where it does not), and NAME.json says the rest."""
        path = Path(path)
        if MARK not in path.name.lower():
            path = path.with_name(f"{path.stem}.{MARK}{path.suffix}")
        self.frame.to_csv(path, index=False)
        write_notes(path, {str(name): str(text) for name, text in self.frame.attrs.items()})
        return path

    def __str__(self) -> str:
        made = f"Made from {self.moments.label}: {len(self.frame):,} records\nGuarantee: {self.guarantee}"
        return "\n".join([NOBODY, *([self.weighting] if self.weighting else []), made, "", str(self.report)])

    def __repr__(self) -> str:
        return f"<Synthetic: {len(self.frame):,} records, nobody's, made from {self.moments.label}>"


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
    frame = pd.DataFrame({one.name: one.draw(drawn[:, k], rng) for k, one in enumerate(cells)})
    return frame.infer_objects()
