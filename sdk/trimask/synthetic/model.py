"""A distribution over cells that agrees with a release as far as its noise allows, by the library `mbi`.

Statement. For every attribute and every two attributes let F be their statistics (`trimask.synthetic.cells`), y what the
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
records of each combination of groups are rounded together, for the sake of two-way tables (`trimask.synthetic.rounding`).

Post-processing of a release: the guarantee is the release's own, whatever is computed here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimask.errors import MissingExtra
from trimask.moments import Matrix, Moments
from trimask.synthetic.cells import Cells, Statistics
from trimask.synthetic.rounding import whole_counts

__all__ = ["JOINT_CELLS", "Fitted", "fitted"]

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
