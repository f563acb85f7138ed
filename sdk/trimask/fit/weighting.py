"""Survey weights by the levels of a group, from the products that a study declares with it.

Statement. Let every person of level l of a group weigh w_l, and let the products of the group with the columns x_j be
declared. Then sum of w x_j x_k over people = sum_l w_l <l x_j, x_k>: weighted second moments are linear in the release's
own, and so is their noise. Weights are chosen after collection (shares of a census, say), as often as one likes, at no
further privacy cost; what it costs is declared before, 1 in a row's squared norm for each product. Works in both suites.
A study whose devices weighted their rows already (`[weight]`, `trimask.weights`) is refused: weights would multiply.

Weighted moments are scaled to Kish's effective number of people, n_eff = (sum w)^2 / sum w^2, so that every fit takes
sampling errors at n_eff. **Approximate**: that is the sampling error where weights have nothing to do with the residuals'
spread; a design-based (sandwich) error needs fourth moments. The noise part is exact to first order. The sums of weights are
taken from the release's counts, whose noise is left out of the scale (second order).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trimask.errors import FormulaError, NotWeighted, ParameterError
from trimask.fit.formula import nearest
from trimask.fit.groups import plain_name, unit
from trimask.fit.source import moments_of
from trimask.fit.transform import contents, product_lines, undeclared
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES, Schema
from trimask_theory.noise_law import NoiseLaw

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["weighted"]


@dataclass(frozen=True, eq=False)
class _PairedLaw(NoiseLaw):
    """The law of (A G B^T + B G A^T) / 2, where G has the law `base`."""

    base: NoiseLaw
    A: Matrix
    B: Matrix

    @property
    def exact(self) -> bool:
        return self.base.exact

    @property
    def fixed(self) -> NoiseLaw:
        return _PairedLaw(self.base.fixed, self.A, self.B)

    def image(self, gradients: Matrix) -> Matrix:
        return self._of(self.base.image(self._back(gradients)))

    def draw(self, rng: np.random.Generator) -> Matrix:
        found: Matrix = self._of(self.base.draw(rng)[None])[0]
        return found

    def covariance(self, gradients: Matrix) -> Matrix:
        return self.base.covariance(self._back(gradients))

    def variance(self, gradients: Matrix) -> Matrix:
        return self.base.variance(self._back(gradients))

    def _of(self, matrices: Matrix) -> Matrix:
        found = self.A @ matrices @ self.B.T
        both: Matrix = (found + np.swapaxes(found, -1, -2)) / 2
        return both

    def _back(self, gradients: Matrix) -> Matrix:
        found = self.A.T @ gradients @ self.B
        both: Matrix = (found + np.swapaxes(found, -1, -2)) / 2
        return both


def weighted(dataset: Source, by: str, weights: Mapping[str, float]) -> Moments:
    """The moments of people weighted by their level of a group: a source for every fit.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    by : str
        A categorical attribute or bins, whose products with the columns the study declares.
    weights : dict
        A positive number for every level.

    Returns
    -------
    Moments
        Of `one`, the group, and the columns whose product with it is declared; `rows` is the effective number of people.

    Raises
    ------
    NotWeighted
        A warning: columns without a declared product are left out, with the lines that would declare them.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # NotWeighted names the columns that are left out
    ...     even = trimask.fit.weighted(data, "activity", {"low": 1, "medium": 1, "high": 2})
    >>> [column.name for column in even.columns][:2], even.rows < 2000
    (['one', 'age'], True)
    """
    moments, by = moments_of(dataset), plain_name(by)
    if moments.weight is not None:
        raise ParameterError(
            "dataset",
            f"one whose people count the same; devices weighted these by {moments.weight.attribute} already, and a second "
            "weight would multiply the first",
        )
    schema = moments.schema
    levels = schema.groups.get(by)
    if levels is None or not schema.ones:
        raise FormulaError(f"{by} is no choice of this study; {nearest(by, list(schema.groups) or ['none'])}")
    if set(weights) != set(levels):
        raise ParameterError("weights", f"one for each of {', '.join(levels)}", list(weights))
    given = {level: float(weights[level]) for level in levels}
    if not all(math.isfinite(w) and w > 0 for w in given.values()):
        raise ParameterError("weights", "positive numbers", dict(weights))
    kept, products = _kept(schema, by, levels)
    _warn_of_dropped(schema, kept, by)
    names = [column.name for column in kept.columns]
    B = np.array([unit(schema, name) for name in names])
    A = np.zeros_like(B)
    for level, weight in given.items():
        for row, name in zip(A, names, strict=True):
            product = products[level].get(name)
            if product is not None:
                row += weight * unit(schema, product)
    one = unit(schema, ONES)
    counts = {level: float(unit(schema, f"{by}_{level}") @ moments.gram @ one) for level in levels}
    total = sum(given[level] * max(counts[level], 0.0) for level in levels)
    squares = sum(given[level] ** 2 * max(counts[level], 0.0) for level in levels)
    if total <= 0:
        raise ParameterError("by", f"a group that the noise does not hide; it hides the people of {by}")
    rows = max(1, round(total**2 / squares))
    A *= rows / total
    law = _PairedLaw(moments.law, A, B)
    gram = law._of(moments.gram[None])[0]
    gram.flags.writeable = False
    label = f"{moments.label}, weighted by {by} ({rows:,} of {moments.rows:,} people in effect)".lstrip(", ")
    every = f"{moments.weighted_by}, {by}" if moments.weighted_by else by
    return Moments(
        kept, gram, rows, moments.sigma, moments.protection, label, law, moments.suite, weighted_by=every
    )


def _kept(schema: Schema, by: str, levels: tuple[str, ...]) -> tuple[Schema, dict[str, dict[str, str]]]:
    """The schema of what can be weighted, and for each level the column that is a kept column on its members."""
    known = contents(schema)
    keys = {name: key for key, name in known.items()}
    products: dict[str, dict[str, str]] = {}
    for level in levels:
        own = f"{by}_{level}"
        found = {ONES: own, own: own}
        for column in schema.columns:
            if column.name in keys:
                product = known.get(tuple(sorted((own, *keys[column.name]))))
                if product is not None and column.source != by:
                    found[column.name] = product
        products[level] = found
    first = products[levels[0]]
    items = [item.name for item in schema.attributes] + [item.name for item in schema.derived]
    names = {name: [column.name for column in schema.parts[name].columns] for name in items}
    attributes = tuple(
        item
        for item in schema.attributes
        if item.name == by or all(name in first for name in names[item.name])
    )
    there = {item.name for item in attributes}
    derived = []
    for made in schema.derived:
        whole = made.name == by or all(name in first for name in names[made.name])
        if whole and there.issuperset(made.of):
            derived.append(made)
            there.add(made.name)
    if len(attributes) + len(derived) < 2:
        other = next(item.name for item in schema.attributes if item.name != by)
        raise FormulaError(
            f"no product with {by} is declared, so nothing can be weighted by it; {undeclared('', None)}:\n\n"
            f"{product_lines((by, other), schema)}\n"
        )
    return Schema(attributes, tuple(derived)), products


def _warn_of_dropped(schema: Schema, kept: Schema, by: str) -> None:
    """Name what was left out; the products with the group themselves are not missed."""
    there = {item.name for item in kept.attributes} | {item.name for item in kept.derived}
    made = {item.name: item.of for item in schema.derived}
    every = [item.name for item in schema.attributes] + [item.name for item in schema.derived]
    lost = [name for name in every if name not in there]
    lost = [name for name in lost if by not in made.get(name, ())]
    if not lost:
        return
    able = [name for name in lost if schema.parts[name].kind != "within"]
    lines = "\n\n".join(product_lines((by, name), schema) for name in able[:3])
    more = f"\n\nand likewise for {', '.join(able[3:])}" if len(able) > 3 else ""
    warnings.warn(
        NotWeighted(
            lost,
            f"weights by {by} do not reach {', '.join(lost)}, left out: no product with {by} is declared"
            + (f". A study that can weight them declares\n\n{lines}{more}" if lines else ""),
        ),
        stacklevel=3,
    )
