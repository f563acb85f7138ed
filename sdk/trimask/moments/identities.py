"""What the schema knows about second moments, as linear equations in a Gram matrix, and noisy moments moved onto it.

Every column is a polynomial in what people are asked: `one` is 1, an attribute is a variable, a level of a choice is one
that is 0 or 1, a declared square or product is a polynomial. So every entry of the Gram matrix is the sum over people of
a polynomial, and after the rules
    b^2 = 1 (a yes-or-no answer, scaled to -1 and 1),   l^2 = l and l l' = 0 (levels of one choice),
    reference level = 1 - the other levels,   an interval of a number = the sum of the smaller ones it is cut into
entries with the same polynomial are equal, whatever the answers: a level's square is itself, two levels exclude each
other, levels add up to `one`, <one, product> = <a, b>, <one, square> = <a, a>, <a, ab> = <b, aa>, and so on. The sum of
the polynomial 1 is N, where rows are not shortened (a shortened row keeps all equations but this one).

Where devices weighted their rows, every entry is the sum of w times its polynomial. All equations between entries hold as
they are. A weight by the levels l of a choice is itself the polynomial sum_l w_l l, so w l = w_l l, and the number of
people is known again: <l, l> / w_l added up over the levels is N. A weight that was answered is a variable of its own:
nothing is N.
The equations are found by elimination: an entry whose polynomial is a combination of those before gives one.

Statement (generalised least squares with the noise's covariance). Let the noise D of G have the map S
(`trimask_theory.moments.noise_law`), and let the true moments satisfy K vec(M) = k. Among the matrices that do, the one
nearest to G in the metric of the noise is
    P = G - S(K^T a),   a = (K S K^T)^+ (K vec(G) - k),
unbiased, and of the smallest variance of all unbiased linear estimates, in every direction at once (Gauss and Markov).
A function of P with gradient A has the noise variance tr(A' S(A')) with A' = A - K^T (K S K^T)^+ K S(A).
The moments are not made positive semidefinite by it; see `Moments.repaired`.

Proved for a known S. The rows suite's S depends on the moments, of which an estimate is used; the error of that is of
second order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.derived import ONES
from trimask_core.study.schema import Schema
from trimask_core.study.weight import Weight
from trimask_theory.moments.noise_law import LinearLaw, Matrix, NoiseLaw

Monomial: TypeAlias = tuple[str, ...]
"""Variables in order, repeated for powers; () is 1."""
Polynomial: TypeAlias = dict[Monomial, float]
Entry: TypeAlias = tuple[int, int]

_ZERO = 1e-9  # coefficients are of the order of 1: columns are scaled
_ANSWERED: Polynomial = {("the weight of a person",): 1.0}


@dataclass(frozen=True)
class Rules:
    """Which variables are yes-or-no (-1 or 1), and which are levels, of which choice."""

    binary: frozenset[str]
    level: Mapping[str, str]

    def monomial(self, first: Monomial, second: Monomial) -> Monomial | None:
        """The product in its one form, or None for zero."""
        found: list[str] = []
        taken: dict[str, str] = {}
        for name in sorted(first + second):
            if name in self.level:
                group = self.level[name]
                if taken.setdefault(group, name) != name:
                    return None
                if name in found:
                    continue
            if name in self.binary and found and found[-1] == name:
                found.pop()
            else:
                found.append(name)
        return tuple(found)

    def product(self, first: Polynomial, second: Polynomial) -> Polynomial:
        """Of two polynomials."""
        found: Polynomial = {}
        for a, x in first.items():
            for b, y in second.items():
                monomial = self.monomial(a, b)
                if monomial is not None:
                    found[monomial] = found.get(monomial, 0.0) + x * y
        return found


@dataclass(frozen=True, eq=False)
class Identities:
    """Equations `K` vec(G) = N `ones`, a row an equation; vec takes all p x p entries of the symmetric G."""

    K: sparse.csr_array
    ones: Matrix

    def __len__(self) -> int:
        return len(self.ones)

    def values(self, matrices: Matrix) -> Matrix:
        """K vec of each matrix: m x equations."""
        return np.asarray((self.K @ matrices.reshape(len(matrices), -1).T).T)

    def combine(self, weights: Matrix) -> Matrix:
        """The weighted sums of the equations' gradients, for weights m x equations: m x p x p."""
        p = round(self.K.shape[1] ** 0.5)
        return np.asarray((self.K.T @ weights.T).T).reshape(len(weights), p, p)


@lru_cache(maxsize=64)
def schema_identities(
    schema: Schema,
    shortened: bool = False,
    columns: tuple[str, ...] | None = None,
    weight: Weight | None = None,
) -> Identities:
    """Of the schema's columns in scaled units, or of some of them in the order given.

    `shortened` if rows were shortened, with their 1, to a norm; `weight` if devices weighted their rows, in units of the
    largest.
    """
    polynomials, rules = column_polynomials(schema)
    chosen = polynomials.values() if columns is None else [polynomials[name] for name in columns]
    levels: list[Polynomial] = []
    if weight is not None and weight.weights:
        levels = [polynomials[f"{weight.attribute}_{level}"] for level in weight.levels(schema)]
    return _equations(list(chosen), rules, known=not shortened, weight=_weight(weight, schema, levels))


def _weight(weight: Weight | None, schema: Schema, levels: Sequence[Polynomial]) -> Polynomial:
    """w / w_max, from the polynomials of the levels it is given by."""
    if weight is None:
        return {(): 1.0}
    if not weight.weights:
        return _ANSWERED
    found: Polynomial = {}
    for part, level in zip(weight.table(schema).values(), levels, strict=True):
        _subtract(found, level, -part / weight.bounds(schema)[1])
    return found


def column_polynomials(schema: Schema) -> tuple[dict[str, Polynomial], Rules]:
    """Of every column, scaled. Intervals of a number are levels of one choice: those between all cuts of that number."""
    level: dict[str, str] = {}
    scaled: dict[str, Polynomial] = {ONES: {(): 1.0}} if schema.ones else {}
    # In original units, a polynomial a level or one of a number: what products are formed of.
    formed: dict[str, list[Polynomial]] = {}
    parts = schema.parts
    for attribute in schema.attributes:
        if attribute.kind == "categorical":
            names = [f"{attribute.name}_{item}" for item in attribute.levels]
            level |= dict.fromkeys(names[1:], attribute.name)
            levels: list[Polynomial] = [{(name,): 1.0} for name in names[1:]]
            formed[attribute.name] = [_first(names[1:]), *levels]
            scaled |= dict(zip(names, formed[attribute.name], strict=True))
        else:
            (column,) = parts[attribute.name].columns
            scaled[attribute.name] = {(attribute.name,): 1.0}
            formed[attribute.name] = [{(): column.center, (attribute.name,): column.half_range}]
    binary = frozenset(item.name for item in schema.attributes if item.kind == "binary")
    rules = Rules(binary, level)
    atoms = {name: _Atoms(name, cuts) for name, cuts in _cuts(schema).items()}
    for found in atoms.values():
        level |= dict.fromkeys(found.variables, found.name)
    for name in list(formed):
        if len(formed[name]) > 1:
            formed |= {
                column.name: [item] for column, item in zip(parts[name].columns, formed[name], strict=True)
            }
    for derived in schema.derived:
        columns = parts[derived.name].columns
        if derived.kind == "log":
            value: list[Polynomial] = [{(): columns[0].center, (derived.name,): columns[0].half_range}]
        elif derived.cuts:
            held = atoms[derived.of[0]]
            edges = [-math.inf, *derived.cuts, math.inf]
            pieces = [held.between(low, high) for low, high in itertools.pairwise(edges)]
            value = pieces if derived.kind == "bins" else pieces[1:]
        else:
            first, second = formed[derived.of[0]], formed[derived.of[-1]]
            if parts[derived.of[0]].kind == "number" and len(second) > 1:
                first, second = second, first  # a choice's levels name the columns
            value = [rules.product(one, other) for one in first for other in second]
        formed[derived.name] = value
        for column, item in zip(columns, value, strict=True):
            if derived.kind == "bins":
                formed[column.name] = [item]
            away = (
                {(): column.center} if column.within is None else _times(scaled[column.within], column.middle)
            )
            found_one = dict(item)
            _subtract(found_one, away, 1.0)
            scaled[column.name] = _times(found_one, 1 / column.half_range)
    return scaled, rules


def _times(polynomial: Polynomial, factor: float) -> Polynomial:
    """A multiple of a polynomial."""
    return {monomial: part * factor for monomial, part in polynomial.items()}


def _first(others: Sequence[str]) -> Polynomial:
    """The reference level: 1 less the others."""
    return {(): 1.0, **{(name,): -1.0 for name in others}}


@dataclass(frozen=True)
class _Atoms:
    """The intervals between all cuts of a number, as levels of a choice of its own; below the first is the reference."""

    of: str
    cuts: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"intervals of {self.of}"

    @property
    def variables(self) -> list[str]:
        return [f"{self.of}, interval {k}" for k in range(1, len(self.cuts) + 1)]

    def between(self, low: float, high: float) -> Polynomial:
        """The indicator of low <= value < high, both cuts (or endless)."""
        if low == -math.inf:
            return _first([name for name, cut in zip(self.variables, self.cuts, strict=True) if cut >= high])
        return {
            (name,): 1.0 for name, cut in zip(self.variables, self.cuts, strict=True) if low <= cut < high
        }


def _cuts(schema: Schema) -> dict[str, tuple[float, ...]]:
    """All cuts of each number that has any."""
    found: dict[str, set[float]] = {}
    for derived in schema.derived:
        if derived.cuts:
            found.setdefault(derived.of[0], set()).update(derived.cuts)
    return {name: tuple(sorted(cuts)) for name, cuts in found.items()}


@lru_cache(maxsize=64)
def layout_identities(layout: MomentsLayout, places: tuple[int, ...] | None = None) -> Identities:
    """Of the columns (1, z_1 / w_1, .., z_q / w_q) of the moments suite, or those at some places, with their 1."""
    level: dict[str, str] = {}
    binary: set[str] = set()
    cuts: dict[int, set[float]] = {}
    for column in layout.columns:
        if column.kind == "interval":
            cuts.setdefault(column.number, set()).update({column.first, column.last + 1})
        elif column.kind in ("level", "clipped"):
            level[column.name] = column.group or column.name
        elif column.kind == "bounded" and (column.steps, column.offset, column.width) == (1, 1, 1):
            binary.add(column.name)
    atoms = {}
    for number, found in cuts.items():
        held = layout.columns[number]
        inner = sorted(cut for cut in found if 0 < cut <= held.steps)
        atoms[number] = _Atoms(held.name, tuple(inner))
        level |= dict.fromkeys(atoms[number].variables, atoms[number].name)
    references = {f"{name}_{levels[0]}": name for name, levels in layout.schema.groups.items()}
    level = {name: group for name, group in level.items() if name not in references}
    rules = Rules(frozenset(binary), level)
    polynomials: list[Polynomial] = []
    for column in layout.columns:
        if column.factors is not None:
            a, b = column.factors
            polynomials.append(rules.product(polynomials[a], polynomials[b]))
        elif column.kind == "interval":
            low = -math.inf if column.first == 0 else column.first
            polynomials.append(atoms[column.number].between(low, column.last + 1))
        elif column.name in references:
            group = references[column.name]
            polynomials.append(_first([f"{group}_{item}" for item in layout.schema.groups[group][1:]]))
        else:  # the variable of a level or of `clipped` is the bit; the others are z / w as they are
            size = 1.0 / column.width if column.kind in ("level", "clipped") else 1.0
            polynomials.append({(column.name,): size})
    chosen = range(layout.q) if places is None else places
    weight = _weight(layout.weight, layout.schema, _weighted_levels(layout, atoms))
    return _equations([{(): 1.0}, *(polynomials[j] for j in chosen)], rules, known=True, weight=weight)


def _weighted_levels(layout: MomentsLayout, atoms: Mapping[int, _Atoms]) -> list[Polynomial]:
    """The polynomials of the levels that a table of weights is by."""
    if layout.weight is None or layout.root is None or not layout.weight.weights:
        return []
    name, levels = layout.weight.attribute, layout.weight.levels(layout.schema)
    for held in layout.comparisons:
        if held.bits[0] == layout.root.first_bit:
            ends = zip(held.first, held.last, strict=True)
            return [atoms[held.number].between(first or -math.inf, last + 1) for first, last in ends]
    names = [f"{name}_{level}" for level in levels[1:]]
    others: list[Polynomial] = [{(one,): 1.0} for one in names]
    return [_first(names), *others]


def _equations(
    polynomials: Sequence[Polynomial], rules: Rules, *, known: bool, weight: Polynomial
) -> Identities:
    p = len(polynomials)
    pivots: dict[Monomial, tuple[int, Polynomial, dict[Entry, float]]] = {}
    found: list[tuple[dict[Entry, float], float]] = []
    for entry in _order(polynomials):
        rest = rules.product(rules.product(polynomials[entry[0]], polynomials[entry[1]]), weight)
        terms: dict[Entry, float] = {entry: 1.0}
        while held := [pivots[item][0] for item in rest if item in pivots]:
            # The earliest pivot first: those after it bring no earlier one back.
            monomial = next(item for item in rest if item in pivots and pivots[item][0] == min(held))
            _, pivot, combination = pivots[monomial]
            factor = rest[monomial] / pivot[monomial]
            _subtract(rest, pivot, factor)
            _subtract(terms, combination, factor)
            rest.pop(monomial, None)
        free = {item: part for item, part in rest.items() if abs(part) > _ZERO and (item or not known)}
        if free:
            largest = max(free, key=lambda item: (abs(free[item]), item))
            pivots[largest] = len(pivots), rest, terms
        else:
            found.append((terms, rest.get((), 0.0)))
    rows, places, parts = [], [], []
    for row, (terms, _) in enumerate(found):
        for (i, j), part in terms.items():
            rows += [row, row]
            places += [i * p + j, j * p + i]
            parts += [part / 2, part / 2]
    K = sparse.csr_array((parts, (rows, places)), shape=(len(found), p * p))
    return Identities(K, np.array([constant for _, constant in found]))


def _order(polynomials: Sequence[Polynomial]) -> list[Entry]:
    """Entries of short polynomials of low degree first, so that equations stay short."""
    size = [
        (max((len(item) for item in polynomial), default=0), len(polynomial)) for polynomial in polynomials
    ]
    pairs = [(i, j) for i in range(len(polynomials)) for j in range(i, len(polynomials))]
    return sorted(
        pairs,
        key=lambda pair: (size[pair[0]][0] + size[pair[1]][0], size[pair[0]][1] + size[pair[1]][1], pair),
    )


def _subtract(target: dict[Any, float], other: Mapping[Any, float], factor: float) -> None:
    for key, part in other.items():
        target[key] = target.get(key, 0.0) - factor * part


_BATCH = 64
# Equations that hold whatever the noise (their variance is rounding) have nothing to move.
_NOTHING, _DEPENDENT = 1e-14, 1e-11


@dataclass(frozen=True, eq=False)
class ConstrainedLaw(LinearLaw):
    """The law of moments with the law `base` after they were moved onto the identities."""

    identities: Identities

    @property
    def fixed(self) -> NoiseLaw:
        """The base's fixed part, of the same combination of entries."""
        return _Reweighted(self.base.fixed, self)

    def image(self, gradients: Matrix) -> Matrix:
        """S(A')."""
        return self.base.image(self.back(gradients))

    def spread(self, sides: Matrix, moved: Matrix) -> Matrix:
        """The base's, less what the equations say: of Cov[u^T D f, K D] (K S K^T)^+ Cov[K D, v^T D f]."""
        found = self.base.spread(sides, moved)
        if not len(self.identities):
            return found
        scale, vectors, weights = self._inverse
        root = (scale[:, None] * vectors * np.sqrt(weights)).T
        for start in range(0, len(root), _BATCH):
            left = sides @ self.base.image(self.identities.combine(root[start : start + _BATCH]))
            right = left @ (moved.T @ moved)
            found = found - np.einsum("eap,ebp->ab", left, right, optimize=True)
        return found

    def uncorrected(self) -> NoiseLaw:
        """The base's, of the same combination of entries."""
        return _Reweighted(self.base.uncorrected(), self)

    def draw(self, rng: np.random.Generator) -> Matrix:
        """What the projection leaves of the base's noise."""
        return self.project(self.base.draw(rng), 0)

    def back(self, gradients: Matrix) -> Matrix:
        """A'."""
        if not len(self.identities):
            return gradients
        found: Matrix = gradients - self.identities.combine(
            self._solved(self.identities.values(self.base.image(gradients)))
        )
        return found

    def project(self, gram: Matrix, people: int) -> Matrix:
        """P of G; twice, so that what rounding left the first time is taken too."""
        for _ in range(2 if len(self.identities) else 0):
            gap = self.identities.values(gram[None]) - people * self.identities.ones
            gram = gram - self.base.image(self.identities.combine(self._solved(gap)))[0]
        return (gram + gram.T) / 2

    def _solved(self, values: Matrix) -> Matrix:
        scale, vectors, weights = self._inverse
        return ((values * scale) @ vectors * weights) @ vectors.T * scale

    @cached_property
    def _inverse(self) -> tuple[Matrix, Matrix, Matrix]:
        """(K S K^T)^+ = scale V weights V^T scale, equations brought to variance one."""
        count = len(self.identities)
        inner = np.empty((count, count))
        for start in range(0, count, _BATCH):
            some = np.eye(count)[start : start + _BATCH]
            inner[start : start + _BATCH] = self.identities.values(
                self.base.image(self.identities.combine(some))
            )
        spread = np.diag(inner)
        least = _NOTHING * float(np.max(spread, initial=0.0))
        scale = np.zeros(count)
        np.divide(1.0, np.sqrt(np.maximum(spread, 0.0)), out=scale, where=spread > least)
        values, vectors = np.linalg.eigh((inner + inner.T) / 2 * np.outer(scale, scale))
        weights = np.zeros(count)
        np.divide(1.0, values, out=weights, where=values > _DEPENDENT)
        return scale, vectors, weights


@dataclass(frozen=True, eq=False)
class _Reweighted(LinearLaw):
    """Part of a constrained law: another covariance, the same A'."""

    whole: ConstrainedLaw

    def back(self, gradients: Matrix) -> Matrix:
        return self.whole.back(gradients)

    @property
    def fixed(self) -> NoiseLaw:
        return self

    def image(self, gradients: Matrix) -> Matrix:
        # S of the part comes with its adjoint: K^T (K S K^T)^+ K S taken off on the way back too.
        found = self.base.image(self.back(gradients))
        moved = self.whole.identities
        if not len(moved):
            return found
        back: Matrix = found - self.whole.base.image(moved.combine(self.whole._solved(moved.values(found))))
        return back

    def draw(self, rng: np.random.Generator) -> Matrix:
        return self.whole.project(self.base.draw(rng), 0)
