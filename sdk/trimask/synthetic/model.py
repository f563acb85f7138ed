"""A distribution over cells that agrees with a release as far as its noise allows, by the library `mbi`.

Statement. For every attribute and every two attributes let F be their statistics (below), y what the
release has for them, and C the covariance of the noise in y by the release's own law. The model minimises the sum of
    |C^-1/2 (F p - y)|^2 / 2
over distributions p: graphical models with a factor for every two attributes where all cells fit into memory (mirror
descent, McKenna, Sheldon, Miklau 2019), which of those that agree is the one of largest entropy; else mixtures of products
(Aydore et al. 2021). To C is added what the rule of uniform answers within a cell may be wrong about, so that statistics of
coarse cells do not pull at tables that are exact. Covariances between different pairs are left out of the sum, which costs
accuracy and not privacy. The groups' own distribution is then taken from the model of their statistics alone, and numbers
given groups from the whole, so that tables do not pay for cells of numbers. Directions without noise are
identities of the schema, which hold for every p. In exact mode C is the sampling error's.

Records are drawn systematically: along the table, or the mixture's components, in equal steps from a random start. So a
cell has the expected number of records to within one, where independent draws would add the error of a sample; and the
records of each combination of groups are rounded together, for the sake of two-way tables.

Post-processing of a release: the guarantee is the release's own, whatever is computed here.

Rule (attributes as a few cells each). A choice has a cell a level, a yes-or-no answer two, a whole number with at most
`bins` values a cell a value. Any other number has the intervals that the study declares (cuts of its bins and
thresholds). Where it declares none, it has `bins` intervals over its declared bounds, with inner edges at equal distances
from 1.5 standard deviations below the release's mean to 2.5 above, as far as the bounds allow; a whole number has its
minimum as a cell of its own, since counts are often zero. Within a cell answers are taken as uniform.

A column of the row is a function of one attribute or a few. So the product of two columns that involve the attributes a
and b alone is a function on the cells of (a, b), and its sum over people, an entry of the Gram matrix, is linear in their
two-way table:
    G_ij = sum over cells c of T(c) f_ij(c),   f_ij(c) = mean of x_i x_j over the answers in c.
For choices f is 0 or 1 and the entries are the table itself; for numbers they are its moments. Which columns involve which
attributes is found by encoding answers with the study's own schema, so whatever the schema derives is used.

Shares of cells become whole numbers of records whose two-way tables are the shares' own, as nearly as whole numbers can
be. A systematic draw has every cell of the whole table right to within one record, and a two-way table, which adds cells
up, to within several: by that chance alone records were now and then farther from the people than the release they are
made of. So records are moved between cells, one at a time, as long as the squared distance of all two-way tables shrinks;
a cell keeps the expected number to within one (controlled rounding, Cox 1987, by local search: no optimum is claimed).
Where as many records are made as there are people, rounding is no loss: the people's own counts are whole, too.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimask.errors import MissingExtra
from trimask.moments.moments import Moments
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments.noise_law import Matrix

_POINTS = 3  # answers of an interval that f is averaged over: their spread is 0.94 of a uniform one's


@dataclass(frozen=True)
class Cells:
    """An attribute's cells: names, and the answers that stand for each when columns are formed."""

    attribute: Attribute
    names: tuple[str, ...]
    edges: tuple[float, ...]
    answers: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        """The attribute's."""
        return self.attribute.name

    def __len__(self) -> int:
        return len(self.names)

    def draw(self, cells: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """An answer for each cell: the level or value, or one drawn uniformly from the interval."""
        item = self.attribute
        if item.kind in ("categorical", "binary") or not self.edges:
            return np.array([one[0] for one in self.answers], dtype=object)[cells]
        low, high = np.array(self.edges[:-1])[cells], np.array(self.edges[1:])[cells]
        if item.kind == "integer":
            first, last = np.ceil(low), np.where(cells == len(self) - 1, np.floor(high), np.ceil(high) - 1)
            return np.asarray(first + np.floor(rng.random(len(cells)) * (last - first + 1))).astype(np.int64)
        return np.asarray(low + rng.random(len(cells)) * (high - low))


def cells_of(schema: Schema, attribute: Attribute, bins: int, mean: float, deviation: float) -> Cells:
    """By the rule above; mean and deviation are the release's, in original units."""
    if attribute.kind == "categorical":
        return Cells(attribute, attribute.levels, (), tuple((level,) for level in attribute.levels))
    if attribute.kind == "binary":
        return Cells(attribute, ("no", "yes"), (), ((0,), (1,)))
    low, high = attribute.bounds
    whole = attribute.kind == "integer"
    if whole and high - low + 1 <= bins:
        values = [int(low) + k for k in range(int(high - low) + 1)]
        return Cells(attribute, tuple(map(str, values)), (), tuple((value,) for value in values))
    cuts = sorted(
        {
            float(cut)
            for item in schema.derived
            if item.of[0] == attribute.name
            for cut in getattr(item, "cuts", ())
            if low < cut < high
        }
    )
    edges = [float(low), *cuts, float(high)] if cuts else _edges(low, high, bins, mean, deviation, whole)
    answers = tuple(_points(a, b, whole, last=b == edges[-1]) for a, b in itertools.pairwise(edges))
    names = tuple(f"{a:.6g} to {b:.6g}" for a, b in itertools.pairwise(edges))
    return Cells(attribute, names, tuple(map(float, edges)), answers)


def _edges(low: float, high: float, bins: int, mean: float, deviation: float, whole: bool) -> list[float]:
    """Bounds and inner edges, without those that no answer lies between."""
    reach = max(deviation, (high - low) / 50)
    middle = min(max(mean, low), high)
    start, end = max(low, middle - 1.5 * reach), min(high, middle + 2.5 * reach)
    inner = np.linspace(start, end, bins + 1 if (start, end) == (low, high) else bins)
    if whole:
        inner = np.unique(np.r_[low + 1, np.ceil(inner)])
    return [float(low), *(float(edge) for edge in inner if low < edge < high), float(high)]


def _points(low: float, high: float, whole: bool, *, last: bool) -> tuple[Any, ...]:
    if not whole:
        return tuple(float(low + (high - low) * (2 * k + 1) / (2 * _POINTS)) for k in range(_POINTS))
    inside = np.arange(int(np.ceil(low)), int(np.floor(high) if last else np.ceil(high) - 1) + 1)
    chosen = np.unique(np.linspace(0, len(inside) - 1, min(len(inside), _POINTS)).round().astype(int))
    return tuple(int(value) for value in inside[chosen])


@dataclass(frozen=True)
class Statistics:
    """Entries of the Gram matrix that are about the cells of one or two attributes and no others.

    `entries` are (i, j) with i <= j; `features` has a row an entry and a column a cell, in scaled units. `blur` is how far
    an entry's products lie apart within a cell, on average over cells: what the rule of uniform answers may be wrong about.
    """

    attributes: tuple[str, ...]
    entries: tuple[tuple[int, int], ...]
    features: Matrix
    blur: Matrix


def statistics(schema: Schema, cells: Sequence[Cells]) -> list[Statistics]:
    """Of every attribute, and of every two of them."""
    involved = _involved(schema, cells)
    base = {one.name: one.answers[0][0] for one in cells}
    found = []
    for group in [*((one,) for one in cells), *itertools.combinations(cells, 2)]:
        names = tuple(one.name for one in group)
        columns = [j for j, needs in enumerate(involved) if needs <= set(names)]
        pairs = [
            (i, j)
            for i, j in itertools.combinations_with_replacement(columns, 2)
            if involved[i] | involved[j] == set(names)
        ]
        if pairs:
            found.append(Statistics(names, tuple(pairs), *_features(schema, group, base, pairs)))
    return found


def _features(
    schema: Schema, group: Sequence[Cells], base: Mapping[str, Any], pairs: Sequence[tuple[int, int]]
) -> tuple[Matrix, Matrix]:
    first, second = np.array(pairs).T
    found = np.empty((len(pairs), int(np.prod([len(one) for one in group]))))
    blur = np.zeros(len(pairs))
    for place, chosen in enumerate(itertools.product(*(one.answers for one in group))):
        rows = np.array(
            [
                schema.encode({**base, **dict(zip((one.name for one in group), answers, strict=True))})
                for answers in itertools.product(*chosen)
            ]
        )
        products = rows[:, first] * rows[:, second]
        found[:, place] = products.mean(axis=0)
        blur += products.std(axis=0)
    return found, blur / found.shape[1]


def _involved(schema: Schema, cells: Sequence[Cells]) -> list[set[str]]:
    """Which attributes move each column: seen by moving one at a time, from several people's answers."""
    rng = np.random.default_rng(1)
    found: list[set[str]] = [set() for _ in schema.columns]
    for _ in range(12):
        base = {one.name: one.answers[k][0] for one in cells for k in [int(rng.integers(len(one)))]}
        start = np.array(schema.encode(base))
        for one in cells:
            for answers in one.answers:
                moved = np.array(schema.encode({**base, one.name: answers[0]}))
                for j in np.flatnonzero(np.abs(moved - start) > 1e-12):
                    found[j].add(one.name)
    return found


_UNLIKELY = 0.02  # a cell that expects fewer records is given none by a move: its combination may not exist
_TRIED = 64  # cells on either side of a move


def whole_counts(shares: Matrix, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Counts of the shape of `shares`, `rows` in all."""
    expected = shares.ravel() / shares.sum() * rows
    counts = _systematic(expected, rows, rng)
    floor = np.floor(expected).astype(np.int64)
    may_gain = expected - floor > _UNLIKELY
    may_lose = expected - floor < 1 - _UNLIKELY
    tables = [
        np.ravel_multi_index(
            [np.indices(shares.shape).reshape(shares.ndim, -1)[axis] for axis in pair],
            [shares.shape[axis] for axis in pair],
        )
        for pair in itertools.combinations(range(shares.ndim), 2)
    ]
    off = [np.asarray(np.bincount(table, weights=counts - expected), dtype=float) for table in tables]
    for _ in range(4 * len(expected)):
        move = _best_move(tables, off, (counts == floor) & may_gain, (counts > floor) & may_lose)
        if move is None:
            break
        gains, loses = move
        counts[gains] += 1
        counts[loses] -= 1
        for table, error in zip(tables, off, strict=True):
            error[table[gains]] += 1
            error[table[loses]] -= 1
    return counts.reshape(shares.shape)


def _systematic(expected: Matrix, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """In equal steps along the cells, from a random start."""
    steps = np.arange(rows) + rng.random()
    place = np.searchsorted(np.cumsum(expected), steps, side="right")
    return np.bincount(np.minimum(place, len(expected) - 1), minlength=len(expected)).astype(np.int64)


def _best_move(
    tables: list[NDArray[np.int64]], off: list[Matrix], gains: NDArray[np.bool_], loses: NDArray[np.bool_]
) -> tuple[int, int] | None:
    """(the cell that gains a record, the one that loses it): the largest decrease among likely pairs, None without one."""
    slope = np.sum([error[table] for table, error in zip(tables, off, strict=True)], axis=0)
    up, down = np.flatnonzero(gains), np.flatnonzero(loses)
    up = up[np.argsort(slope[up], kind="stable")[:_TRIED]]
    down = down[np.argsort(-slope[down], kind="stable")[:_TRIED]]
    if not len(up) or not len(down):
        return None
    # One record into cell j and out of cell i of a table: (e_j + 1)^2 - e_j^2 + (e_i - 1)^2 - e_i^2, and nothing if i = j.
    change = 2 * (slope[up][:, None] - slope[down][None, :])
    change = change + 2 * np.sum([table[up][:, None] != table[down][None, :] for table in tables], axis=0)
    best = int(np.argmin(change))
    if change.flat[best] > -1e-9:
        return None
    return int(up[best // len(down)]), int(down[best % len(down)])


JOINT_CELLS = 1 << 18
"""So many cells at most are held as one table; beyond, the mixture of products is used."""
_COMPONENTS = 200
_BLUR = 0.03  # of the spread within a cell
_TOLERANCE = 1e-4  # relative, over fifty steps
_FLOOR = 1e-2  # of the largest variance of a statistic: finer is rounding to the descent


@dataclass(frozen=True, eq=False)
class _Query:
    """F, whitened, as mbi wants a query: hashed by identity."""

    matrix: Matrix

    def __call__(self, factor: Any) -> Any:
        return self.matrix @ factor.datavector()

    def op_norm_sq(self) -> float:
        return float(np.linalg.norm(self.matrix, 2) ** 2)


@dataclass(frozen=True)
class Fitted:
    """A distribution over cells: either the whole table, or products with equal weights."""

    cells: tuple[Cells, ...]
    method: str
    joint: Matrix | None
    products: Mapping[str, Matrix]

    def draw(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Cells of so many records, a column an attribute, in random order."""
        steps = (rng.permutation(rows) + rng.random()) / rows
        if self.joint is not None:
            edges = np.cumsum(self._rounded(self.joint, rows, rng))
            flat = np.minimum(np.searchsorted(edges, steps * edges[-1], side="right"), self.joint.size - 1)
            return np.column_stack(np.unravel_index(flat, self.joint.shape)).astype(np.int64)
        component = np.floor(steps * len(self.products[self.cells[0].name])).astype(np.int64)
        columns = []
        for one in self.cells:
            edges = np.cumsum(self.products[one.name], axis=1)[component]
            columns.append((rng.random(rows)[:, None] > edges[:, :-1]).sum(axis=1))
        return np.column_stack(columns).astype(np.int64)

    def _rounded(self, joint: Matrix, rows: int, rng: np.random.Generator) -> Matrix:
        """The table with whole records of every combination of groups, so that equal steps give exactly those."""
        is_group = [_is_group(one) for one in self.cells]
        if sum(is_group) < 2:
            return joint
        groups = joint.sum(axis=tuple(k for k, group in enumerate(is_group) if not group))
        return _with_groups(joint, whole_counts(groups, rows, rng) / rows, is_group)


def fitted(
    moments: Moments, cells: Sequence[Cells], found: Sequence[Statistics], iterations: int, seed: int
) -> Fitted:
    """The model; `MissingExtra` without mbi."""
    try:
        with warnings.catch_warnings():  # of precision, which is set below, and of a cache that is not used
            warnings.simplefilter("ignore")
            jax, mbi, optax = (import_module(name) for name in ("jax", "mbi", "optax"))
            mixtures = import_module("mbi.extensions")
    except ImportError:
        raise MissingExtra("synthetic", "trimask.synthesize") from None
    sizes = [len(one) for one in cells]
    with jax.enable_x64(True):
        domain = mbi.Domain([one.name for one in cells], sizes)
        measured = [
            mbi.LinearMeasurement(y, item.attributes, 1.0, query=_Query(F))
            for item in found
            for F, y in [_whitened(moments, item)]
            if len(y)
        ]
        if np.prod([float(size) for size in sizes]) <= JOINT_CELLS:

            def joint(names: tuple[str, ...]) -> Matrix:
                """The table of some attributes, fitted to the statistics of those alone."""
                chosen = [item for item in measured if set(item.clique) <= set(names)]
                model = mbi.estimation.MirrorDescent().estimate(
                    domain.project(names),
                    chosen,
                    known_total=float(moments.rows),
                    iters=iterations,
                    tol=_TOLERANCE,
                )
                values = np.asarray(model.project(names).datavector(flatten=False), dtype=float)
                return np.asarray(values / values.sum())

            groups = tuple(one.name for one in cells if _is_group(one))
            whole = joint(tuple(domain.attributes))
            if 1 < len(groups) < len(cells):
                whole = _with_groups(whole, joint(groups), [one.name in groups for one in cells])
            return Fitted(tuple(cells), "graphical model", whole, {})
        estimator = mixtures.MixtureOfProductsEstimator(
            optimizer=optax.adam(0.05), num_components=_COMPONENTS, seed=seed
        )
        mixture = estimator.estimate(domain, measured, known_total=float(moments.rows), iters=iterations)
        products = {name: np.asarray(part, dtype=float) for name, part in mixture.products.items()}
        return Fitted(tuple(cells), "mixture of products", None, products)


def _is_group(one: Cells) -> bool:
    return one.attribute.kind in ("categorical", "binary")


def _with_groups(whole: Matrix, groups: Matrix, is_group: Sequence[bool]) -> Matrix:
    """The table with the groups' own distribution, and numbers given groups as they were."""
    numbers = tuple(k for k, group in enumerate(is_group) if not group)
    shape = [size if group else 1 for size, group in zip(whole.shape, is_group, strict=True)]
    share = whole.sum(axis=numbers, keepdims=True)
    found = whole * (groups.reshape(shape) / np.maximum(share, np.finfo(float).tiny))
    return np.asarray(found / found.sum())


def _whitened(moments: Moments, item: Statistics) -> tuple[Matrix, Matrix]:
    """C^-1/2 F and C^-1/2 y, on the directions that have noise."""
    size = len(moments.gram)
    y = np.array([moments.gram[i, j] for i, j in item.entries])
    if moments.exact:
        share = np.full(item.features.shape[1], 1 / item.features.shape[1])
        spread = (item.features * share) @ item.features.T - np.outer(*[item.features @ share] * 2)
        C = moments.rows * spread
    else:
        gradients = np.zeros((len(y), size, size))
        for k, (i, j) in enumerate(item.entries):
            gradients[k, i, j] += 0.5
            gradients[k, j, i] += 0.5
        C = moments.law.covariance(gradients)
    values, vectors = np.linalg.eigh(C)
    vectors = vectors[:, values > 1e-9 * float(values.max(initial=0.0))]
    C = vectors.T @ (C + np.diag((_BLUR * moments.rows * item.blur) ** 2)) @ vectors
    values, turned = np.linalg.eigh(C)
    W = (vectors @ turned / np.sqrt(np.maximum(values, _FLOOR * values.max(initial=0.0)))).T
    return W @ item.features, W @ y
